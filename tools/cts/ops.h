/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of group op. */
#ifndef YOKE_TOOLS_CTS_OPS_H
#define YOKE_TOOLS_CTS_OPS_H

#include "tools/cts/cts.h"

void cts_ops_elementwise(cts *c);
void cts_ops_source(cts *c);   /* fill, iota, rng */
void cts_ops_reduce(cts *c);   /* sum, rmax, argmax */
void cts_ops_data(cts *c);     /* copy, gather, scatter_add, unfold, fold */
void cts_ops_dot(cts *c);

#endif
