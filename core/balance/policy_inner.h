/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy: what its files share. policy.c takes what ranks tell and hands it to the phase; policy_shares.c makes shares
 * and roles; policy_settle.c and policy_trial.c are the phases.
 */
#ifndef YOKE_CORE_BALANCE_POLICY_INNER_H
#define YOKE_CORE_BALANCE_POLICY_INNER_H

#include "core/balance/balance.h"

#define FEW 4u           /* rows of a slower rank in the first windows, */
#define FAR 32.0         /* but one of a rank whose pace differs by more than this factor */
#define ALIKE 2.0        /* factor between paces up to which ranks begin with even shares */
#define LOOK 3u          /* timed windows of a look */
#define LOOKS 12u        /* at most, before shares count as settled */
#define DEAD_BAND 0.01   /* gain that is worth new shares */
#define HORIZON 200.0    /* windows for which a gain counts at least, where nobody knows how many are left */
#define TRUST 2.0        /* factor by which a share changes at most in a look; at the start its square */
#define BLOCK 8u         /* windows of a side before the other's turn, where they are quick */
#define BLOCK_SECONDS 1.0
#define MOST_BLOCKS 12u  /* of a trial on a noisy machine */
#define WORTH 1.02       /* how much faster the job must be with a rank */
#define CLEAR 1.3        /* difference that ends a trial after its first blocks */
#define COSTLY 1.2       /* what a forced rank may cost before it is said */
#define UNCLEAN 60u      /* windows that said nothing, after which a trial is given up */
#define EVERY 10u        /* steady: one window of so many is timed, */
#define TELL 5u          /* and the ranks tell each other every so many */
#define ALERT 1.15       /* windows longer by this factor than they were */
#define RETRY_PART 0.005 /* of the elapsed time */
#define TRIAL_PART 0.02  /* of the elapsed time, for trials of ranks that are likely to stay */
#define AT_ONCE 2u       /* ranks that are tried without asking for that, */
#define AT_ONCE_COST 2.5 /* where the job is not foreseen to be slower without it by more than this factor */
#define WALLS 64u

typedef enum yk__phase { PROBE, GROW, SETTLE, TRIAL, STEADY, RETRY } yk__phase;

/* Times of one rank since the last look. */
typedef struct yk__samples {
    double seconds[8];
    uint32_t n;
} yk__samples;

typedef struct yk__walls {
    double seconds[WALLS];
    uint32_t n;
} yk__walls;

typedef struct yk__trial {
    uint32_t rank, blocks, in_block, length, unclean;
    bool without; /* the side that runs */
    uint64_t share[2][YK__RANKS];
    yk__walls side[2];
} yk__trial;

struct yk__policy {
    uint32_t ranks, generation;
    uint64_t n;
    yk__balance *balance;
    yk__seat *seat;
    bool member[YK__RANKS], said_costs[YK__RANKS], excluded[YK__RANKS], tried[YK__RANKS];
    uint64_t share[YK__RANKS], cap[YK__RANKS];
    double owns[YK__RANKS], update[YK__RANKS], copy[YK__RANKS];
    yk__samples busy[YK__RANKS];
    yk__phase phase;
    uint64_t windows, in_phase, untold; /* windows of the job, of this phase, since ranks told each other */
    uint32_t skip, looks, calm;         /* windows that say nothing yet; looks of this settling, without a change in a row */
    bool early, try_all;                /* no shares were settled yet; a trial is due */
    yk__walls wall;                     /* since the last look */
    double elapsed, compiling, left;    /* seconds; seconds of a change's compiles; windows that are left, 0: not known */
    double usual;                       /* seconds of a steady window; 0: not known yet */
    uint32_t usual_n;
    uint64_t alert_after, pause;        /* windows: no alert before; how long the next pause is */
    yk__trial trial;
    uint32_t retried;                   /* the rank of the retry */
    double spent, retry_cost, trial_cost, harm[YK__RANKS];
    yk__policy_event event[YK__RANKS];
    uint32_t n_event;
};

/* policy_shares.c */
void yk__walls_add(yk__walls *w, double seconds);
double yk__walls_mean(const yk__walls *w);
double yk__samples_mean(const yk__samples *s);
double yk__samples_least(const yk__samples *s);
uint32_t yk__members_count(const yk__policy *p);
void yk__event_add(yk__policy *p, int kind, uint32_t rank, double with, double without);
void yk__looks_clear(yk__policy *p);
void yk__phase_begin(yk__policy *p, yk__phase to);
bool yk__shares_set(yk__policy *p, const uint64_t *share);
uint64_t yk__cap_of(const yk__policy *p, uint32_t r);
bool yk__shares_split(const yk__policy *p, const bool *member, double trust, uint64_t *share);
bool yk__shares_worth(const yk__policy *p, const uint64_t *next);
void yk__roles_set(yk__policy *p, const bool *member);
bool yk__roles_improve(yk__policy *p); /* new parts of the optimizer, where they are worth moving its moments */
bool yk__without_rank(const yk__policy *p, uint32_t rank, bool *member);
double yk__time_without(const yk__policy *p, uint32_t rank);

/* policy.c */
bool yk__begins_low(const yk__policy *p, uint32_t r);
bool yk__timed_often(const yk__policy *p, uint32_t times);

/* policy_settle.c */
void yk__settle_begin(yk__policy *p);
void yk__settle_look(yk__policy *p);
void yk__probe_look(yk__policy *p);
bool yk__records_add(yk__policy *p);

/* policy_trial.c */
uint32_t yk__candidate_of(const yk__policy *p);
bool yk__trial_begin(yk__policy *p);
bool yk__trial_due(const yk__policy *p);
void yk__trial_round(yk__policy *p);
void yk__trial_look(yk__policy *p, bool clean, double wall);
void yk__steady_begin(yk__policy *p);
void yk__steady_look(yk__policy *p, bool clean, double wall);
void yk__retry_look(yk__policy *p, const yk__told *told);

#endif
