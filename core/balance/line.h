/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line t = a + b n through times t (seconds, above 0) that were measured for a count n (above 0). A zeroed line knows nothing. Pure code:
 * equal records give equal lines on all ranks. Thread rule: the caller's.
 */
#ifndef YOKE_CORE_BALANCE_LINE_H
#define YOKE_CORE_BALANCE_LINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct yk__line {
    uint32_t records;
    double w, n, nn, t, tt, nt; /* weighted sums of 1, n, n^2, t, t^2, n t */
    double a, b;
    int outlier;                /* the last record was off by 20 %: -1 lower, 1 higher, and changed nothing yet */
} yk__line;

/* A record that is off by 20 % (35 % if n is far from the measured n) changes nothing. A second one in a row, off in the same direction,
 * scales the whole line and forgets the older records. True if it did. */
bool yk__line_record(yk__line *l, double n, double t);
/* The same without doubt: the line is scaled to go through this point. */
void yk__line_renew(yk__line *l, double n, double t);
double yk__line_predict(const yk__line *l, double n); /* seconds; 0 if nothing is known, or n is 0 */
/* The line as numbers that are not negative, for checkpoints; set takes only numbers from get. */
enum { YK__LINE_NUMBERS = 10 };
void yk__line_get(const yk__line *l, double *v);
void yk__line_set(yk__line *l, const double *v);

#endif
