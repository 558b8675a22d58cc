/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of composites: one function each, and their helpers. Included by core/graph alone. */
#ifndef YOKE_CORE_GRAPH_BODY_H
#define YOKE_CORE_GRAPH_BODY_H

#include "core/graph/graph_internal.h"

/* Operand i in f32 (f64 stays f64): a composite computes wide and rounds once, at its end. */
yk__vid yk__body_widen(yk__inline *b, uint32_t i);
yk_dtype yk__body_dtype(const yk__inline *b);            /* f32, or f64 if an operand is f64 */
yk__vid yk__body_number(yk__inline *b, double value);    /* a constant of one element of that type */
void yk__body_output(yk__inline *b, uint32_t i, yk__vid v); /* output i, cast to its type */

#endif
