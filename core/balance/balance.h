/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split of a global micro batch's rows over the ranks. No part has a clock or communication, so that equal numbers
 * give equal decisions on all ranks:
 *   cost_model.h      fit: the cost model of the ranks, and by it the best rows and parts of the optimizer for a set of members
 *   compare.h         compare: the test of two sets of members, by windows of each in turn
 *   trial_schedule.h  schedule: the next trial, and the budgets of trials
 *   policy.c          members, their rows and parts of the optimizer, from the ranks' reports about their windows
 *   batch_rows.c      cut: the rows of each rank in a batch of another size than the shares are for
 * Thread rule: the caller's.
 */
#ifndef YOKE_CORE_BALANCE_BALANCE_H
#define YOKE_CORE_BALANCE_BALANCE_H

#include "core/group/group.h"

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
    bool forced;            /* never excluded, though a trial may leave it out */
    bool stays;             /* other ranks read from it: no trial leaves it out */
    bool limited;           /* its memory is limited: few rows until the number that fits is known */
    double pace;            /* seconds of the start-up probe; 0 if unknown */
    uint32_t part;          /* of the optimizer, as the user fixed it for every rank; 0 in all seats: parts are found */
    uint64_t quantum;       /* its rows are to be a multiple of this (yk_device_caps.row_quantum); 0 for any number */
    uint64_t cores[YK__SEAT_CORES / 64]; /* bits of the host's cores that it computes on; none for a device of its own */
} yk__seat;
void yk__seat_cores(yk__seat *seat, const char *list); /* "0-3,6"; "" for all. Cores from YK__SEAT_CORES on are not told apart */
bool yk__seats_overlap(const yk__seat *a, const yk__seat *b);
/* Turns for ranks that need their cores undisturbed; host[r]: equal for ranks of one host. Returns the number of turns. */
uint32_t yk__seats_turns(uint32_t ranks, const yk__seat *seat, const uint32_t *host, uint32_t *turn);

/* Arrays have an entry for each rank. Roles, which are members and parts, change seldom and cost a collective. */
typedef struct yk__decision {
    uint64_t *share;     /* rows */
    bool *member;
    bool *excluded;      /* members among them are on trial */
    double *owns;        /* parts of the optimizer; fixed ones need not add up to 1 */
    uint32_t generation; /* changes of roles so far */
    bool settled;        /* no probe, trial or alert is open */
} yk__decision;

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
/* Rows that the ranks' memory holds, at most those of a batch: yk__policy_look refuses fewer with YK_E_MEM. */
uint64_t yk__policy_capacity(const yk__policy *p);
const yk__decision *yk__policy_decision(const yk__policy *p); /* for the next window */
/* Takes the next event to report, one at a time. */
bool yk__policy_event_next(yk__policy *p, yk__policy_event *e);
/* The whole state as yk__policy_count numbers, for checkpoints. set: false if the numbers are not from such a policy. */
uint32_t yk__policy_count(const yk__policy *p);
void yk__policy_get(const yk__policy *p, double *v);
bool yk__policy_set(yk__policy *p, const double *v);

/* ---- A batch of another size ------------------------------------------------------------------------------------- */

/* The cut of one batch. The caller sets the first four members; the calls keep the rest. */
typedef struct yk__cut {
    const yk__seat *seat;  /* by rank: their quanta */
    const uint64_t *share; /* by rank: rows of a batch of `of` rows */
    uint64_t of;
    uint32_t ranks;
    bool whole;            /* ranks with a quantum keep their usual rows, or have none */
    uint64_t usual, rows, rest; /* rows of a usual batch, of this one, of it for ranks without a quantum */
    uint64_t left;         /* rows that no rank with a quantum has kept */
    uint64_t before, others, others_before; /* sums of shares: of lower ranks; of ranks without a quantum, and of lower ones among them */
} yk__cut;
/* A batch of `rows` rows, of data whose batches have `usual` rows. */
void yk__cut_begin(yk__cut *c, uint64_t usual, uint64_t rows);
/* Rows of rank r; the caller asks for rank 0, 1, .. in order. */
uint64_t yk__cut_next(yk__cut *c, uint32_t r);

#endif
