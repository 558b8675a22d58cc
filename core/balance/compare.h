/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare: a sequential test of two arms, one with a candidate rank and one without it, by the times of windows.
 *
 * Input: one window after another: its seconds, and whether it is clean (whole, of the usual size, without a compile). Output: a verdict
 * after each window: the same arm runs on, the other arm's turn, decided, or given up. The two arms run in blocks of windows, in turn.
 * An arm's time is the trimmed mean of its windows, without the longest quarter. Its squared standard error is the winsorised variance
 * over n (1 - 1/4)^2 (Tukey and McLaughlin, 1963). The arms are told apart as soon as one of these holds:
 *   their windows do not overlap by far (any time);
 *   they differ by YK__CLEAR and three standard errors (two blocks);
 *   they differ from YK__WORTH by two standard errors (four blocks);
 *   MOST_BLOCKS have run.
 * Pure: no clock, no job, so that equal windows give equal verdicts on all ranks. Thread rule: the caller's.
 */
#ifndef YOKE_CORE_BALANCE_COMPARE_H
#define YOKE_CORE_BALANCE_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#define YK__CLEAR 1.3  /* ratio of times that a block of each arm shows on a noisy machine */
#define YK__WORTH 1.01 /* ratio below which a rank's addition counts only with those of other ranks: a third of the 3 % that a job may be
                        * below the best subset */
#define YK__BLOCK 8u   /* windows of an arm before the other's turn: a change of roles costs the first one */

/* ---- Times of windows -------------------------------------------------------------------------------------------- */

enum { YK__TIMES = 64 }; /* the newest that are kept: more than an arm has windows */

typedef struct yk__times {
    double seconds[YK__TIMES];
    uint32_t n; /* added so far, kept or not */
} yk__times;

void yk__times_add(yk__times *w, double seconds);
/* All in seconds; 0 without times. */
double yk__times_mean(const yk__times *w);   /* trimmed */
double yk__times_error(const yk__times *w);  /* squared standard error of the trimmed mean; INFINITY for less than two times */
double yk__times_median(const yk__times *w);
double yk__times_least(const yk__times *w);

/* ---- Two arms ---------------------------------------------------------------------------------------------------- */

typedef enum yk__arm { YK__WITH, YK__WITHOUT } yk__arm;
typedef enum yk__verdict { YK__RUNS_ON, YK__NEXT_ARM, YK__DECIDED, YK__GIVEN_UP } yk__verdict;

typedef struct yk__compare {
    yk__times times[2]; /* each arm's windows */
    yk__arm arm;        /* the one that runs */
    uint32_t blocks, in_block, length, unclean; /* whole blocks so far; windows of this one, of each; windows without information */
} yk__compare;

/* window: seconds of a recent window, 0 if unknown; blocks of long windows are shorter. */
void yk__compare_begin(yk__compare *c, double window);
/* Takes earlier windows as an arm's first block. */
void yk__compare_seed(yk__compare *c, yk__arm arm, const yk__times *seen);
void yk__compare_turn(yk__compare *c, yk__arm arm); /* a block of this arm begins */
yk__verdict yk__compare_window(yk__compare *c, bool clean, double seconds);

#endif
