/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The split of a global micro batch's rows over the ranks, by measured times (core/balance/policy.c). At first ranks that the start-up
 * probe found much slower get few rows; later each rank's own time decides. All ranks decide alike from exchanged numbers. Fixed parts
 * replace this (core/balance/fixed.h). share.c times and decides, share_wait.c keeps a decision until its programs are made. share_fixed.c
 * reads fixed shares, share_rows.c gives a batch's parts, share_state.c serves checkpoints.
 */
#ifndef YOKE_CORE_JOB_TEAM_SHARE_H
#define YOKE_CORE_JOB_TEAM_SHARE_H

#include <pthread.h>

#include "core/balance/balance.h"
#include "core/balance/fixed.h"
#include "core/io/json.h"
#include "core/job/job.h"

/* A rank's facts for the shares. */
typedef struct yk__rank_budget {
    uint64_t bytes;       /* bytes of memory that it may use; 0 if unknown */
    bool limited, forced; /* limited by the user, or by little memory; never excluded */
    bool stays;           /* no trial leaves it out, either */
    uint64_t quantum;     /* yk_device_caps.row_quantum */
    bool costly;          /* yk__share_costly of its compiler */
    const char *cores;    /* host cores that it computes on, "" for all; NULL for none */
} yk__rank_budget;

/* An excluded rank's looks at its device; zero on other ranks. */
typedef struct yk__watch {
    yk__recovery seen;
    double began, next, shortest; /* seconds: time of the first look; earliest time of the next; length of the shortest */
} yk__watch;

/* A decision that is not in force yet (share_wait.c). */
typedef struct yk__waiting {
    bool on;
    bool seen;        /* the current window has a whole batch of the old rows, which shows its programs */
    bool missing;     /* a run of the current window had no program for the next rows */
    uint32_t windows; /* under the old shares since the decision */
    uint32_t unseen;  /* the last ones of them in a row without such a batch */
} yk__waiting;

/* Rows that a rank with a costly compiler had. */
typedef struct yk__rows_known {
    uint32_t rank;
    uint64_t rows;
} yk__rows_known;
#define YK__SHARES_KNOWN 64u

typedef struct yk__share {
    pthread_mutex_t lock;          /* guards share[], which the loader's thread reads */
    yk__fixed fixed;               /* with is_fixed there is no measuring and no policy, and all ranks are members and owners */
    yk__policy *policy;            /* NULL before the first batch */
    yk__seat *seat;                /* by rank, as share[] and total[] */
    uint64_t memory_budget;        /* bytes that this rank may use; 0 if unknown */
    uint64_t changes;              /* of the shares; a loader that has read ahead under fewer of them reads anew */
    uint64_t n;                    /* rows that the shares are for; 0 before the first batch */
    uint64_t *share, *total;
    yk__report report;               /* this rank's, since its last report */
    uint64_t max_rows;             /* most rows that ran here */
    uint64_t compiles;             /* the engine's count at the last run */
    bool timed, compiled;          /* current window: its runs are timed; it made a program */
    bool undecided;                /* a window ended that the policy has not seen */
    bool began;                    /* a batch came; of fixed shares */
    bool resumed;                  /* the policy is from a checkpoint, and no batch came yet */
    double window_began;           /* start of the current window, seconds */
    uint32_t generation;           /* generation of the roles in force */
    yk__watch watch;
    yk__waiting waiting;
    bool *costly;                  /* by rank */
    uint32_t n_known;              /* rows noted so far; the last YK__SHARES_KNOWN of them are known */
    yk__rows_known known[YK__SHARES_KNOWN];
} yk__share;

/* Takes over the memory of `fixed`, which is empty then. */
yk_status yk__share_new(yk_job *job, const yk__rank_budget *budget, yk__fixed *fixed, yk_error *err);
/* Reads yk_config.shares, else YOKE_SHARES. */
yk_status yk__share_choose(const yk_job *job, yk__fixed *fixed, yk_error *err);
/* Reads yk_config.shard_parts into job->team.parts; the caller frees them. */
yk_status yk__parts_choose(yk_job *job, yk_error *err);
/* YK_E_ARG if the chosen shares are unequal, though `setting` gives each rank equally many rows. */
yk_status yk__share_check_equal(const yk_job *job, const char *setting, yk_error *err);
/* Warns, on one rank, that unequal fixed parts of a batch of n rows leave a rank without any. */
void yk__share_tell_idle(const yk_job *job, int64_t n);
/* After a lack of memory in a step or an update: appends this rank's fixed share and the ways out to err. */
void yk__share_explain(const yk_job *job, yk_error *err);
void yk__share_free(yk__share *s);
void yk__share_run_noted(yk_job *job, bool train); /* the engine ran: takes its time and rows */

/* Writes the shares and their measurements, if any, into a checkpoint's state. */
void yk__share_save(const yk_job *job, yk__json_builder *state);
/* Resumes the shares for the same device specs and batch; other jobs start anew. */
void yk__share_load(yk_job *job, const json_t *o);

/* Collective, before each training batch of n rows. *changed: the parts have changed. */
bool yk__share_update(yk_job *job, int64_t n, bool *changed);
/* Ends an accumulation window, which took the time since yk__share_update. */
void yk__share_window(yk_job *job);
/* True once members and shares are settled; equal on all ranks after equal windows. */
bool yk__share_settled(const yk_job *job);
/* This rank's part of a global batch of n rows, of data whose batches have `usual` rows; scaled if the shares are for another number. */
void yk__share_part(const yk_job *job, int64_t usual, int64_t n, int64_t *first, int64_t *count);
/* Adds such a batch to the counts of yk_share. */
void yk__share_count(yk_job *job, int64_t usual, int64_t n);

/* share_wait.c. is_waiting: windows run under the old shares. */
bool yk__share_is_waiting(const yk_job *job);
bool yk__share_costly(uint64_t compile_ms); /* yk_device_caps.compile_ms; 0: not known */
bool yk__share_waits(const yk_job *job);    /* the policy's decision needs programs to be made first; equal on all ranks */
void yk__share_known(yk_job *job);          /* notes the rows in force */
/* Collective, after a window under the old shares. *over: all ranks adopt the decision now. */
yk_status yk__share_wait(yk_job *job, bool *over, yk_error *err);
uint64_t yk__share_next_rows(const yk_job *job); /* rows for which this rank is to make its program; 0: none */
uint32_t yk__share_next_members(const yk_job *job);

/* Only for share_state.c. */
yk_status yk__share_policy(yk_job *job, uint64_t n, yk_error *err); /* makes one for batches of n rows */
bool yk__share_follow(yk_job *job); /* takes over the policy's shares; true if they differ */

#endif
