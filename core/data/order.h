/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of samples: a permutation of 0..n-1 for every (seed, epoch). It is computed from the place alone, without a table, so that any
 * rank can start anywhere at once.
 *
 * A Feistel network over the smallest even number of bits that holds n is a bijection of 2^bits numbers. Its round function is
 * Philox4x32-10 keyed by (seed, epoch). Results of n and above are put in again until one is below n (cycle walking, Black and Rogaway
 * 2002). So it stays a bijection of 0..n-1 and takes fewer than 4 turns on average. Pure, thread-safe, the same on every machine.
 */
#ifndef YOKE_CORE_DATA_ORDER_H
#define YOKE_CORE_DATA_ORDER_H

#include <stdint.h>

/* row[i]: the row at place first + i of the epoch; 0 <= first + i < n <= 2^62. */
void yk__order_rows(uint64_t seed, uint64_t epoch, int64_t first, int64_t count, int64_t n, int64_t *row);

/* Arranges one batch's rows so that any run of neighbours has about the same mean length. Ranks that take runs then do about the same
 * work a row. Rows sorted by length (row number if equal) take the order of the fractions of 1/2 + i times the golden ratio. Those lie
 * evenly in any run of i (three-distance theorem, Sos 1958). Rows of one common length stay. v: their lengths and numbers; is changed. */
typedef struct yk__row_length {
    int64_t length, row;
    uint64_t turn;
} yk__row_length;

void yk__order_even_out(yk__row_length *v, int64_t n, int64_t *row);

/* The longest first; equal ones by row number. */
void yk__order_by_length(yk__row_length *v, int64_t n);

#endif
