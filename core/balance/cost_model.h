/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fit: the cost model of a job's ranks, from measured times, and the best shares and parts by it.
 *
 * Input: seconds of a rank's runs with their rows, seconds of whole windows, and the limits in the ranks' reports. Output: predictions of
 * a window with any members, rows and parts of the optimizer, and for any members the rows and parts that make it shortest:
 *
 *   T = max_r (a_r + b_r n_r) + max_r (update_r s_r + copy_r (1 - s_r)) + c + d (members - 1)
 *
 * n_r: rows of rank r; s_r: its part of the optimizer, sum 1. a_r, b_r, c, d: lines by least squares in which old records fade (line.h).
 * The first term is minimised exactly, over whole rows, by bisection over the time (split.c); the second alike, over parts (owners.c).
 * Pure: no clock, no job. Thread rule: the caller's.
 */
#ifndef YOKE_CORE_BALANCE_COST_MODEL_H
#define YOKE_CORE_BALANCE_COST_MODEL_H

#include "core/balance/balance.h"
#include "core/balance/line.h"

typedef struct yk__fit_rank {
    yk__line line;       /* seconds of a run, over its rows */
    double update, copy; /* seconds of updating all parameters, of taking every parameter from other ranks; 0 if unknown */
    double pace;         /* seconds of the start-up probe; 0 if unknown */
    double part;         /* part of the optimizer that fits its memory; 0 if unknown */
    uint32_t fixed;      /* part of the optimizer that the user fixed; 0 in all ranks: parts are found */
    uint64_t cap;        /* rows that fit its memory; 0 if unknown */
    bool limited;        /* its memory is limited, though by an unknown amount at first */
    uint64_t quantum;    /* its rows are to be a multiple of this; 0 for any number */
} yk__fit_rank;

typedef struct yk__bounds {
    uint64_t least, most; /* rows of a rank; 0, 0 for a rank that takes no part */
} yk__bounds;

/* A rank's seconds of a run: a + b rows; and its rows at least and at most. */
typedef struct yk__rank_line {
    double a, b;
    uint64_t least, most;
} yk__rank_line;

/* A rank's seconds of updating and of copying all parameters, the part that it may own, and the parts that keep it within some time. */
typedef struct yk__owner_line {
    double update, copy, cap, least, most;
} yk__owner_line;

/* Memory of calls, by rank: one call at a time uses an array. */
typedef struct yk__fit_work {
    yk__rank_line *line;               /* yk__fit_split */
    yk__bounds *bounds;                /* yk__fit_shares */
    uint64_t *near;
    uint64_t *whole;                   /* yk__fit_whole */
    yk__owner_line *owner;             /* yk__fit_parts */
    double *most, *update, *copy;
    double *owns;                      /* yk__fit_window */
} yk__fit_work;

typedef struct yk__fit {
    uint32_t ranks;
    uint64_t n;          /* rows of a micro batch */
    yk__fit_work work;
    yk__line rest;       /* seconds of a window beside runs and the optimizer, over members - 1 */
    yk__fit_rank rank[];
} yk__fit;

/* seat: of each rank; NULL for no limits and unknown paces. */
yk_status yk__fit_new(uint32_t ranks, uint64_t n, const yk__seat *seat, yk__fit **f, yk_error *err);
void yk__fit_free(yk__fit *f);
uint32_t yk__members_count(uint32_t ranks, const bool *member);

/* ---- Records --------------------------------------------------------------------------------------------------------- */

/* A run of that many rows took rank r so many seconds (a mean over some runs); see yk__line_record. A time that is no positive number
 * changes nothing. */
bool yk__fit_record(yk__fit *f, uint32_t r, uint64_t rows, double seconds);
void yk__fit_renew(yk__fit *f, uint32_t r, uint64_t rows, double seconds); /* see yk__line_renew */
/* A window of these members took `window` seconds, its longest run `longest`. */
void yk__fit_rest(yk__fit *f, const bool *member, const double *owns, double window, double longest);
/* Takes the members' limits, and each rank's times of the optimizer. */
void yk__fit_report(yk__fit *f, const bool *member, const yk__report *report);

/* ---- Predictions, in seconds ------------------------------------------------------------------------------------- */

double yk__fit_run(const yk__fit *f, uint32_t r, uint64_t rows); /* 0 without rows, or if nothing is known */
bool yk__fit_off(const yk__fit *f, uint32_t r, uint64_t rows, double seconds); /* a run's time is 20 % off; false if either is unknown */
double yk__fit_longest(const yk__fit *f, const uint64_t *share); /* the longest run */
double yk__fit_update(const yk__fit *f, const bool *member, const double *owns); /* all updates and copies */
double yk__fit_window(const yk__fit *f, const bool *member, const uint64_t *share); /* with the best parts */
double yk__fit_set(const yk__fit *f, const bool *member, uint64_t *share); /* the same with the best shares; 0 if impossible */

/* ---- The best shares and parts ----------------------------------------------------------------------------------- */

/* Shares within the bounds that minimise the longest run; false if the bounds hold no such shares. An unknown rank counts as being as fast
 * as the mean of the known ranks. */
bool yk__fit_split(const yk__fit *f, const yk__bounds *bounds, uint64_t *share);
/* The same for these members within their memory, in whole blocks of rows. Each gets at most `trust` times more or less than now[]; 0 for
 * any change. */
bool yk__fit_shares(const yk__fit *f, const bool *member, const uint64_t *now, double trust, uint64_t *share);
uint64_t yk__fit_cap(const yk__fit *f, uint32_t r); /* rows of a rank at most */
/* Makes shares of ranks with a quantum multiples of it: the nearest, and one quantum at least; none grows on a rank whose limit of memory
 * is unknown yet. The largest share takes the rest, of a rank without a quantum if there is one. Leaves the shares as they are if rows or
 * memory do not allow that. yk__fit_shares has done it. */
void yk__fit_whole(const yk__fit *f, uint64_t *share);
/* The best parts, of these ranks only; sum 1. Fixed parts: each owner's own, so that an excluded rank's goes to the others by theirs. */
bool yk__fit_parts_fixed(const yk__fit *f);
void yk__fit_parts(const yk__fit *f, const bool *owner, double *owns);
/* Parts s[r] >= 0 with sum 1 that minimise the longest of update[r] s[r] + copy[r] (1 - s[r]). s[r] = 0 if owner[r] is not set, and
 * s[r] <= most[r] (NULL for no caps). Ranks of unknown update time (0) count as the mean of the known ranks. work: memory of the call, an
 * entry for each rank. */
void yk__owner_parts(uint32_t ranks, const bool *owner, const double *update, const double *copy, const double *most,
                     yk__owner_line *work, double *s);

#endif
