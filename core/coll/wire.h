/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wire formats of gradients between hosts: f32, bf16, or int8 with a scale for every 256 numbers. Rounds to nearest even. No state; any
 * thread.
 */
#ifndef YOKE_CORE_COLL_WIRE_H
#define YOKE_CORE_COLL_WIRE_H

#include <stdint.h>

/* Messages that bear a seal (messages/sealed.h): those of a transport that does not check them itself; none; all. */
typedef enum yk__seal { YK__SEAL_AUTO, YK__SEAL_OFF, YK__SEAL_ON } yk__seal;

/* In the order of YOKE_WIRE's words. */
typedef enum yk__wire { YK__WIRE_F32, YK__WIRE_BF16, YK__WIRE_INT8 } yk__wire;

enum { YK__WIRE_BLOCK = 256 }; /* numbers with one scale; the last block of a message may have fewer */

/* Encoded bytes of n numbers. If n is a multiple of YK__WIRE_BLOCK, it is also the offset of the numbers that follow. */
uint64_t yk__wire_bytes(yk__wire wire, uint64_t n);
/*
 * residual[0..n), int8 only: the rounding errors of the last write are added before encoding, and replaced by the new ones (error
 * feedback, Seide et al., "1-bit stochastic gradient descent", 2014). NULL drops the errors. Infinite numbers and NaN are sent as NaN,
 * and keep their residual.
 */
void yk__wire_write(yk__wire wire, const float *from, uint64_t n, float *residual, uint8_t *to);
/* from: encoded first number, at the beginning of a block. */
void yk__wire_read(yk__wire wire, const uint8_t *from, uint64_t n, float *to);

#endif
