/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedule: the next trial of a set of ranks, if one is due, and the budgets that trials are paid from.
 *
 * Input: seconds of all windows, the cost model (cost_model.h), the baseline, which is the set of now, and results of earlier trials.
 * Output: the arm to try next. Two budgets, one for trials of excluded ranks and one for other trials, hold seconds lost so far:
 *
 *   an arm is due  if  lost + price <= PART elapsed
 *
 * The price of an arm is the time that its last trial lost: windows beyond the baseline's, programs, and changes of roles. Before any, it
 * is a block of windows beyond the baseline's by the cost model, and programs. A few first trials are due at any price, see AT_ONCE.
 * Pure: no clock, no job. Thread rule: the caller's.
 */
#ifndef YOKE_CORE_BALANCE_TRIAL_SCHEDULE_H
#define YOKE_CORE_BALANCE_TRIAL_SCHEDULE_H

#include "core/balance/balance.h"
#include "core/balance/cost_model.h"

#define YK__COSTLY 1.2 /* factor of windows that is a cost: of a forced rank, or before all ranks are weighed again */

typedef enum yk__budget { YK__OF_MEMBERS, YK__OF_EXCLUDED, YK__BUDGETS } yk__budget;

/* The results of a rank's trials. */
typedef struct yk__results {
    bool tried;               /* weighed beside the members of now, by lines like those of now */
    bool swapped, swapped_once; /* tried instead of a member: in this round of trials; at any time */
    bool said_costs;          /* a forced rank that was reported to cost */
    double adds;              /* measured at its last trial: its addition to the rate, in parts of it */
    double promised;          /* the same by the cost model */
    double disturbs;          /* factor by which windows with it, now excluded, exceeded the model; 0 if unknown */
    double harm;              /* seconds that a window with it was longer */
    double followed;          /* the speedup at its last trial for being faster; 0 if none since its exclusion */
    double price;             /* seconds that the last excursion for it lost; 0 before any */
    double retry_cost;        /* seconds that its last single row cost; 0 before any */
    double spent;             /* seconds of the budget of excluded ranks that went to it */
} yk__results;

/* The way from a steady window to the next one, through a trial: its time beyond such windows is lost. */
typedef struct yk__excursion {
    double usual; /* seconds of a steady window; 0 if no excursion is under way */
    double lost;  /* seconds */
    uint32_t rank;
    yk__budget budget;
} yk__excursion;

typedef struct yk__schedule {
    const yk__fit *fit;
    const yk__seat *seat;
    double elapsed, compiling;    /* seconds; seconds of a change's compiles */
    double lost[YK__BUDGETS];     /* seconds */
    yk__excursion away;
    uint32_t retried;             /* the excluded rank that was tried last */
    bool *arm_member;             /* memory of calls, by rank: the members of an arm, */
    uint64_t *arm_share;          /* and their shares */
    yk__results rank[];
} yk__schedule;

/* rank replaces the member `instead`; that is the number of ranks for a rank alone, and both are for no trial. */
typedef struct yk__try {
    uint32_t rank, instead;
    bool one_row; /* only looks at the rank's speed */
} yk__try;

yk_status yk__schedule_new(const yk__fit *fit, const yk__seat *seat, yk__schedule **s, yk_error *err);
void yk__schedule_free(yk__schedule *s);

/* ---- The budgets ------------------------------------------------------------------------------------------------- */

void yk__schedule_elapse(yk__schedule *s, double seconds, double compiling);
void yk__budget_charge(yk__schedule *s, uint32_t rank, yk__budget budget, double lost); /* seconds */
void yk__excursion_begin(yk__schedule *s, uint32_t rank, yk__budget budget, double usual);
void yk__excursion_charge(yk__schedule *s, double seconds, double windows, double compiling);
void yk__excursion_end(yk__schedule *s);

/* ---- The next trial ----------------------------------------------------------------------------------------------- */

/* The member whose trial is next, due or not; the number of ranks for none. */
uint32_t yk__schedule_candidate(const yk__schedule *s, const yk__decision *now);
/* True if the model predicts a much faster job without that candidate: then its trial comes first. early: no shares were settled yet. */
bool yk__loss_foreseen(const yk__schedule *s, const yk__decision *now, bool early);
/* A due trial of a member, of an excluded rank that the model speaks for, or of a swap. */
yk__try yk__schedule_next(yk__schedule *s, const yk__decision *now);
/* The same for an excluded rank that may only seem useless. usual: seconds of a steady window; block: windows of a block. */
yk__try yk__schedule_retry(yk__schedule *s, const yk__decision *now, double usual, uint32_t block);
/* True if the speed of an excluded rank's device calls for a trial. */
bool yk__schedule_return(const yk__schedule *s, const yk__decision *now, uint32_t rank, double faster);

/* The rank's addition to the rate (in parts of it) justifies it: it exceeds YK__WORTH, less the measured additions of excluded ranks. */
bool yk__gain_counts(const yk__schedule *s, const yk__decision *now, uint32_t rank, double gain);
void yk__schedule_round(yk__schedule *s);                              /* every rank is due again */
void yk__schedule_reweigh(yk__schedule *s, const yk__decision *now);   /* every rank but clear gains is due, as lines have changed */
void yk__schedule_set_changed(yk__schedule *s, uint32_t rank);         /* the same, as this rank came or went */

#endif
