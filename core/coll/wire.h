/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How gradients look on their way to another host: as they are, in bf16, or as int8 with a scale for every 256 numbers. Rounding is to
 * nearest even. No state; any thread.
 */
#ifndef YOKE_CORE_COLL_WIRE_H
#define YOKE_CORE_COLL_WIRE_H

#include <stdint.h>

/* As YOKE_WIRE names them, in that order. */
typedef enum yk__wire { YK__WIRE_F32, YK__WIRE_BF16, YK__WIRE_INT8 } yk__wire;

enum { YK__WIRE_BLOCK = 256 }; /* numbers with one scale; the last block of a message may have fewer */

/* Of n numbers; offsets of later ones too, where n is a multiple of YK__WIRE_BLOCK. */
uint64_t yk__wire_bytes(yk__wire wire, uint64_t n);
/*
 * residual[0..n), int8 alone: what was rounded away last time is added first, and what is rounded away now is left there (error
 * feedback, Seide et al., "1-bit stochastic gradient descent", 2014); NULL: it is lost. What is not finite is sent as NaN, and its
 * residual stays as it was.
 */
void yk__wire_write(yk__wire wire, const float *from, uint64_t n, float *residual, uint8_t *to);
/* from: where the first of the n numbers is, at the beginning of a block. */
void yk__wire_read(yk__wire wire, const uint8_t *from, uint64_t n, float *to);

#endif
