/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split of a global micro batch's rows over the ranks. Neither part has a clock or communication, so that equal numbers
 * give equal decisions on all ranks:
 *   balance.c  a line seconds = a + b rows for each rank (line.c), and the shares that minimise the slowest rank's time
 *   owners.c   the parts of the optimizer that do the same
 *   policy.c   members, their rows and parts of the optimizer, from the ranks' reports about their windows
 * Thread rule: the caller's.
 */
#ifndef YOKE_CORE_BALANCE_BALANCE_H
#define YOKE_CORE_BALANCE_BALANCE_H

#include "core/group/group.h"

/* ---- Lines and shares -------------------------------------------------------------------------------------------- */

typedef struct yk__balance yk__balance;
struct yk__line;
yk_status yk__balance_new(uint32_t ranks, yk__balance **b, yk_error *err);
void yk__balance_free(yk__balance *b);
/* Records that rank r took `seconds` (a mean over some runs) for that many rows. A record that is off by 20 % changes nothing. A second
 * one in a row, off in the same direction, scales the whole line and forgets the older records. True if it did. */
bool yk__balance_record(yk__balance *b, uint32_t r, uint64_t rows, double seconds);
/* The same without doubt, for a rank that has been away: the line is scaled to go through this point. */
void yk__balance_renew(yk__balance *b, uint32_t r, uint64_t rows, double seconds);
struct yk__line *yk__balance_line(yk__balance *b, uint32_t r); /* r < ranks; to copy it, and to restore it */
/* The last record against its line: -1 if 20 % lower, 1 if 20 % higher, else 0. */
int yk__balance_off(const yk__balance *b, uint32_t r);
double yk__balance_predict(const yk__balance *b, uint32_t r, uint64_t rows); /* seconds; 0 if nothing is known, or without rows */

typedef struct yk__bounds {
    uint64_t least, most; /* rows of a rank; 0, 0 for a rank that takes no part */
} yk__bounds;
/* Shares of n rows within the bounds that minimise the longest predicted time; false if the bounds hold no such shares. An unknown rank
 * counts as being as fast as the mean of the known ranks. */
bool yk__balance_split(const yk__balance *b, uint64_t n, const yk__bounds *bounds, uint64_t *share);
double yk__balance_longest(const yk__balance *b, const uint64_t *share); /* predicted */
/* The whole state as yk__balance_count numbers; set takes only numbers from get, for as many ranks. */
uint32_t yk__balance_count(const yk__balance *b);
void yk__balance_get(const yk__balance *b, double *v);
void yk__balance_set(yk__balance *b, const double *v);

/* Parts of the parameters to update: s[r] >= 0 with sum 1 that minimise the longest of update[r] s[r] + copy[r] (1 - s[r]). update and
 * copy are the seconds for updating every parameter, and for taking every parameter from other ranks. s[r] = 0 if owner[r] is not set,
 * and s[r] <= most[r] (NULL for no caps). Ranks of unknown update time (0) count as the mean of the known ranks. */
void yk__owner_parts(uint32_t ranks, const bool *owner, const double *update, const double *copy, const double *most, double *s);

/* ---- An excluded rank alone -------------------------------------------------------------------------------------- */

#define YK__FASTER 1.3 /* more than noise */

typedef struct yk__recovery {
    uint32_t looks;    /* since the exclusion */
    double slow, fast; /* seconds of the shortest look before the first faster one, and since then; 0 before any */
} yk__recovery;
/* Takes the seconds of a look at the device. Returns the factor by which it is faster than at its exclusion; 0 if it is not, or if that
 * is unknown. */
double yk__recovery_look(yk__recovery *v, double seconds);

/* ---- The policy -------------------------------------------------------------------------------------------------- */

/* A rank's report to the other ranks, about the windows since its last report. */
typedef struct yk__report {
    double rows;            /* rows of its last micro batch */
    double busy;            /* seconds of that one; 0 if not timed, or if it says nothing about speed */
    double wall, windows;   /* seconds of the whole windows of the usual size among them, and their number */
    double compiling;       /* seconds of making programs */
    double cap;             /* rows that fit its memory; 0 if unknown */
    double part;            /* part of the optimizer that fits it beside all rows it may get; 0 if unknown */
    double update, copy;    /* seconds of updating all parameters, of taking every parameter from other ranks; 0 if unknown */
    double left;            /* windows that the job still has; 0 if unknown */
    double faster;          /* an excluded rank's yk__recovery_look */
    double whose;           /* on the way to other ranks: the excluded rank that a member reports on */
} yk__report;

enum { YK__SEAT_CORES = 1024 };
typedef struct yk__seat {
    bool forced;            /* never excluded */
    bool limited;           /* its memory is limited: few rows until the number that fits is known */
    double pace;            /* seconds of the start-up probe; 0 if unknown */
    uint64_t cores[YK__SEAT_CORES / 64]; /* bits of the host's cores that it computes on; none for a device of its own */
} yk__seat;
void yk__seat_cores(yk__seat *seat, const char *list); /* "0-3,6"; "" for all. Cores from YK__SEAT_CORES on are not told apart */
bool yk__seats_overlap(const yk__seat *a, const yk__seat *b);
/* Turns for ranks that need their cores undisturbed; host[r]: equal for ranks of one host. Returns the number of turns. */
uint32_t yk__seats_turns(uint32_t ranks, const yk__seat *seat, const uint32_t *host, uint32_t *turn);

typedef struct yk__policy_event {
    enum { YK_POLICY_EXCLUDED, YK_POLICY_BACK, YK_POLICY_COSTS } kind; /* COSTS: a forced rank, more than 20 % */
    uint32_t rank;
    double with, without; /* seconds of a window */
} yk__policy_event;

typedef struct yk__policy yk__policy;
/* Shares for micro batches of n rows. */
yk_status yk__policy_new(uint32_t ranks, const yk__seat *seat, uint64_t n, yk__policy **p, yk_error *err);
void yk__policy_free(yk__policy *p);
/* The runs of the next window are to be timed (the device is waited for before and after). */
bool yk__policy_timed(const yk__policy *p);
/* A window is over. True: the ranks exchange reports, and call yk__policy_look. */
bool yk__policy_pass(yk__policy *p);
/* report: of every member, equal on all ranks; an excluded rank's counts only in `faster`. Fails if the rows fit no more. */
yk_status yk__policy_look(yk__policy *p, const yk__report *report, yk_error *err);
/* The decision for the next window. Roles change seldom, and cost a collective; generation counts their changes. */
const uint64_t *yk__policy_shares(const yk__policy *p);
const bool *yk__policy_members(const yk__policy *p);
const bool *yk__policy_excluded(const yk__policy *p); /* members among them are on trial */
const double *yk__policy_owns(const yk__policy *p);
uint32_t yk__policy_generation(const yk__policy *p);
bool yk__policy_settled(const yk__policy *p); /* no probe, trial or alert is open */
/* Takes the next event to report, one at a time. */
bool yk__policy_event_next(yk__policy *p, yk__policy_event *e);
/* For checkpoints, as yk__balance_get. set: false if the numbers are not from such a policy. */
uint32_t yk__policy_count(const yk__policy *p);
void yk__policy_get(const yk__policy *p, double *v);
bool yk__policy_set(yk__policy *p, const double *v);

#endif
