/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated ranks under the policy of shares: no clock, no threads. A rank takes a + b rows seconds, with noise, slowed by
 * others on its core, slower or faster from a window on; each member adds to what all do together; making a program for another
 * number of rows takes its time.
 */
#ifndef YOKE_TESTS_UNIT_BALANCE_WORLD_H
#define YOKE_TESTS_UNIT_BALANCE_WORLD_H

#include "core/balance/cost_model.h"

enum { MOST = 4, PROGRAMS = 2048, LOOK_EVERY = 5, LATE = 20 };

typedef struct device {
    double a, b, update, noise;
    int core;             /* ranks of one core (above 0) slow each other down; each takes the sum of their times */
    uint64_t from, to;    /* windows in which it is .. */
    double factor;        /* .. slower by this factor */
    double hurt;          /* factor by which it slows the others of its core, instead of taking turns; 0: turns */
    double part;          /* part of the optimizer that fits its memory; 0 if unreported */
    double absent;        /* part of the windows in which it is off its core: twice as long */
    double spell;         /* part of the windows in which it takes 1.4 times as long, in spells of some 10 */
    bool in_spell;
    bool looks;           /* while it is excluded, at itself, one window of LOOK_EVERY; */
    double late;          /* part of those looks that other work delays: by up to LATE times */
    yk__recovery seen;
    double faster;
    const double *table;  /* seconds of 1, 2, .. rows, instead of a + b rows */
    const char *recorded; /* recorded delays of a machine's windows, instead of the above (recorded.h), */
    uint64_t recorded_at; /* from this one on, and round */
} device;

typedef struct world {
    device d[MOST];
    yk__seat seat[MOST];
    uint32_t ranks;
    uint64_t n, window;
    double compile;       /* seconds */
    double exchange;      /* seconds that each member beyond the first adds to a window */
    double left;          /* windows that the job knows it still has; 0: it does not know */
    yk__policy *p;
    bool made[MOST][PROGRAMS];
    yk__report report[MOST];
    double elapsed, compiled, last; /* seconds; in compiles; the last window's, without them */
    uint32_t changes;
    int excluded, back, costs;
    uint64_t verdict;     /* the window of the last exclusion */
    double with, without;
} world;

double random_uniform(void);      /* in [0, 1), the same in every run */
void random_from(uint32_t at);    /* start of the next numbers */
void world_begin(world *w);
void world_window(world *w);      /* one of the job */
void world_windows(world *w, uint64_t n);
void world_finish(world *w);
uint64_t world_share(const world *w, uint32_t r);
double world_best_of(const world *w, uint32_t subset); /* seconds of a window of these ranks with the best shares, a row each */
double world_best(const world *w); /* rate of the best subset */
double world_rate(const world *w); /* the best window beside that of the shares and roles of now */

#endif
