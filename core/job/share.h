/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the rows of a global micro batch are shared out over the ranks, by what they measure (core/balance/policy.c): at first
 * few rows for ranks that the start-up probe found much slower, then by the time each takes. All ranks decide alike from
 * numbers that they exchange. Or by parts that are fixed (core/balance/fixed.h). share.c times and decides, share_fixed.c reads fixed
 * shares, share_rows.c gives a batch's parts, share_state.c is for checkpoints.
 */
#ifndef YOKE_CORE_JOB_SHARE_H
#define YOKE_CORE_JOB_SHARE_H

#include <pthread.h>

#include "core/balance/balance.h"
#include "core/balance/fixed.h"
#include "core/io/json.h"
#include "core/job/job.h"

/* What the shares need to know of a rank. */
typedef struct yk__rank_budget {
    uint64_t bytes;       /* of memory it may use; 0: not known */
    bool limited, forced; /* by the user, or of little memory; never excluded */
    const char *cores;    /* of the host, that it computes on, "" for all; NULL: none */
} yk__rank_budget;

/* An excluded rank's looks at its device; zero in others. */
typedef struct yk__watch {
    yk__recovery seen;
    double began, next, shortest; /* seconds: of the first look; no other look before; the shortest look */
} yk__watch;

typedef struct yk__share {
    pthread_mutex_t lock;          /* share[] is read by the loader's thread */
    yk__fixed fixed;               /* where is_fixed nothing is measured, there is no policy, and all ranks are members and owners */
    yk__policy *policy;            /* NULL: no batch was asked for yet */
    yk__seat seat[YK__RANKS];
    uint64_t memory_budget;        /* bytes that this rank may use; 0: not known */
    uint64_t n;                    /* rows the shares are for; 0: none yet */
    uint64_t share[YK__RANKS], total[YK__RANKS];
    bool excluded[YK__RANKS];
    yk__report report;               /* of this rank, since its last one */
    uint64_t max_rows;             /* rows that ran here at most */
    uint64_t compiles;             /* of the engine, at the last run */
    bool timed, compiled;          /* the window under way: its runs are timed; it made a program */
    bool undecided;                /* a window is over that the policy does not know of */
    bool resumed;                  /* the policy is a checkpoint's, and no batch was asked for yet */
    double window_began;           /* of the window under way, seconds */
    uint32_t generation;           /* of the roles that are set */
    yk__watch watch;
} yk__share;

yk_status yk__share_new(yk_job *job, const yk__rank_budget *budget, const yk__fixed *fixed, yk_error *err);
/* What yk_config.shares says, or YOKE_SHARES. */
yk_status yk__share_choose(const yk_job *job, yk__fixed *fixed, yk_error *err);
/* YK_E_ARG where shares were chosen that are not equal, though `setting` gives each rank equally many rows. */
yk_status yk__share_check_equal(const yk_job *job, const char *setting, yk_error *err);
/* Where memory was short in a step or an update: which fixed share this rank has, and the ways out, behind what err says. */
void yk__share_explain(const yk_job *job, yk_error *err);
void yk__share_free(yk__share *s);
void yk__share_run_noted(yk_job *job, bool train); /* the engine ran: time and rows for the balance */

/* Puts the shares, and what they were made from, into a checkpoint's state, if there are any. */
void yk__share_save(const yk_job *job, yk__json_builder *state);
/* A job of the same device specs and batch goes on with them; others begin anew. */
void yk__share_load(yk_job *job, const json_t *o);

/* Collective, before each training batch of n rows. *changed: the parts are others than before. */
bool yk__share_update(yk_job *job, int64_t n, bool *changed);
/* An accumulation window is over: the time since yk__share_update was its. */
void yk__share_window(yk_job *job);
/* Who takes part is decided, and shares stay; equal on all ranks after equal windows. */
bool yk__share_settled(const yk_job *job);
/* This rank's part of a global batch of n rows (in proportion, where n is not the usual number). */
void yk__share_part(const yk_job *job, int64_t n, int64_t *first, int64_t *count);
/* Adds a batch of n rows to what yk_share reports. */
void yk__share_count(yk_job *job, int64_t n);

/* For share_state.c. */
yk_status yk__share_policy(yk_job *job, uint64_t n, yk_error *err); /* a new one, for batches of n rows */
void yk__share_follow(yk_job *job);                                   /* what the policy says now */

#endif
