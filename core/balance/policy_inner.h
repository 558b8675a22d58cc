/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy: what its files share, each over those after it. policy.c takes what ranks tell and hands it to the phase;
 * policy_steady.c, policy_settle.c, policy_probe.c and policy_trial.c are the phases; policy_shares.c makes shares and roles;
 * policy_phase.c begins phases, so that none needs the inside of the one that follows it.
 */
#ifndef YOKE_CORE_BALANCE_POLICY_INNER_H
#define YOKE_CORE_BALANCE_POLICY_INNER_H

#include "core/balance/balance.h"
#include "core/balance/line.h"

/* ---- Constants, each with its reason ------------------------------------------------------------------------------ */

/* the first windows */
#define FEW 4u           /* rows of a slower rank: with four times as many in the next windows a line can be told */
#define FAR 32.0         /* one row where paces differ by more: four would take as long as the other's whole batch of 128 */
#define ALIKE 2.0        /* up to this factor even shares lose at most a third of a window, two slow starts would lose more */

/* looks: timed windows, of which shares are made */
#define LOOK 3u          /* windows of one: the least of which a mean bears one that was disturbed */
#define SURE 4u          /* looks at least: a trial with shares that are 3 % off hides what a rank adds */
#define LOOKS 12u        /* looks at most: lines that have not come to rest by then are noise */
#define TRUST 2.0        /* factor by which a share changes in a look at most, at the start its square: lines may not be straight */
#define DEAD_BAND 0.01   /* gain that is worth new shares: what rounding leaves open */
#define ROWS_MOST 16u    /* rows of a block, tried first: measured, the CPU's kernels step after every 16, a GPU's at multiples of them, */
#define ROWS_LEAST 4u    /* and those that are tried last: rows of the smallest kernels' blocks */
#define ROWS_WORTH 1.025 /* what whole blocks may cost by the lines: a row beyond a block was measured to cost 3 to 7 % of a window */
#define HORIZON 200.0    /* windows for which a gain counts at least, where nobody knows how many are left: no job is shorter */

/* trials */
#define BLOCK 8u         /* windows of a side before the other's turn: a change of roles costs the first one */
#define BLOCK_SECONDS 1.0 /* or fewer where windows are long: two sides within the seconds in which a machine stays alike */
#define MOST_BLOCKS 12u  /* 48 windows of a side: noise of 5 % is 0.7 % of their mean, less than WORTH */
#define WORTH 1.01       /* the job does without ranks that add less together: a third of the 3 % that it may be below the best subset */
#define PARTS_WORTH 0.02 /* of a window: gain of new parts of the optimizer; moving its moments takes some windows */
#define CLEAR 1.3        /* difference that a block of each side tells on a noisy machine */
#define COSTLY 1.2       /* what a forced rank may cost before it is said; what windows may grow before all are weighed again */
#define UNCLEAN 60u      /* windows that said nothing (compiles, other batches), after which a trial is given up */
#define AT_ONCE 2u       /* ranks that are tried without asking what that costs, */
#define AT_ONCE_COST 8.0 /* where windows without it are foreseen to be longer by no more: two of them decide, 14 windows are lost */
#define SWAP_COST 4.0    /* the same of a rank instead of another, whose line was taken beside that one and is too long */
#define SWAP_WORTH 1.03  /* how much faster it must be: sets that are alike should not take turns */
#define TRIAL_PART 0.005 /* of the elapsed time, for all other trials: with RETRY_PART, WORTH and timed windows within the 3 % */

/* steady */
#define EVERY 10u        /* one window of so many is timed, which costs it some 5 % of overlap, */
#define TELL 5u          /* and the ranks tell each other every so many: a change is seen within 10 windows */
#define ALERT 1.15       /* windows longer by this factor than they were: more than the noise of TELL windows */
#define SHIFT 1.6        /* windows all longer by this are believed the second time: half way from a spell (1.4) to a rank twice as slow; */
#define HINTS 4u         /* shorter delays when so many alerts in a row, 10 windows apart or more, found them: spells last some 10, so that
                            one in e lasts to the next alert, and one in e^3, 5 %, to the fourth */
#define RETRY_PART 0.005 /* of the elapsed time, for trying excluded ranks again */
#define KEPT_TIMES 64u   /* windows of a side that are kept: more than MOST_BLOCKS give */

typedef enum yk__phase { PROBE, GROW, SETTLE, TRIAL, STEADY, RETRY } yk__phase;

/* When shares were last settled. */
typedef struct yk__settled {
    uint64_t share[YK__RANKS];
    yk__line line[YK__RANKS]; /* of one that was no member: when it last was */
} yk__settled;

/* Times of one rank since the last look. */
typedef struct yk__samples {
    double seconds[8];
    uint32_t n;
} yk__samples;

typedef struct yk__times {
    double seconds[KEPT_TIMES];
    uint32_t n;
} yk__times;

typedef struct yk__trial {
    uint32_t rank, instead; /* instead: a member that the rank replaces, or the number of ranks */
    uint32_t blocks, in_block, length, unclean;
    bool was_member;
    bool without; /* the side that runs */
    uint64_t share[2][YK__RANKS]; /* with the rank, without */
    double owns[2][YK__RANKS];    /* of each side throughout: parts that follow every measurement would make programs anew */
    yk__times side[2];
    double expected;    /* seconds with the rank over those without, by the lines */
    double possible[2]; /* seconds with the best shares over those with share[] */
} yk__trial;

/* From a steady window to the next one, by way of a trial: what it takes beyond such windows is lost, programs and changes of roles too. */
typedef struct yk__excursion {
    double usual; /* seconds of a steady window; 0: there is none under way */
    double lost;  /* seconds */
    uint32_t rank;
    bool retry; /* at the expense of RETRY_PART */
} yk__excursion;

struct yk__policy {
    uint32_t ranks, generation;
    uint64_t n;
    yk__balance *balance;
    yk__seat *seat;
    bool member[YK__RANKS], said_costs[YK__RANKS], excluded[YK__RANKS], tried[YK__RANKS];
    bool swapped[YK__RANKS], swapped_once[YK__RANKS]; /* tried instead of a member: since all were due again; at all */
    uint64_t share[YK__RANKS], cap[YK__RANKS];
    double owns[YK__RANKS], update[YK__RANKS], copy[YK__RANKS];
    double part[YK__RANKS];             /* of the optimizer, that fits its memory; 0: not known */
    double adds[YK__RANKS];             /* measured at its last trial: what the rank adds to the rate, in parts of it */
    double disturbs[YK__RANKS];         /* by how much windows with an excluded rank were longer than its line says; 0: not known */
    double promised[YK__RANKS];         /* by the lines at its last trial: what it adds to the rate */
    yk__settled settled, before;        /* before: the last exclusion */
    yk__line rest;                      /* seconds of a window beside runs and the optimizer, over members - 1 */
    double followed[YK__RANKS];         /* the factor at which it was last tried because it was faster; 0: not since its exclusion */
    yk__samples busy[YK__RANKS];
    yk__phase phase;
    uint64_t windows, in_phase, unreported; /* windows of the job, of this phase, since ranks last reported */
    uint32_t skip, looks, calm;         /* windows that say nothing yet; looks of this settling, without a change in a row */
    bool early;                         /* no shares were settled yet */
    yk__times wall;                     /* since the last look */
    double elapsed, compiling, left;    /* seconds; seconds of a change's compiles; windows that are left, 0: not known */
    double usual, before_alert;         /* seconds of a steady window, and of one before the alert that is settled; 0: not known */
    uint32_t usual_n;
    uint32_t hints;                     /* alerts in a row that were confirmed, but small */
    bool doubted;                       /* an alert that is not confirmed yet */
    uint64_t alert_after, pause;        /* windows: no alert before; how long the next pause is */
    yk__trial trial;
    uint32_t retried;                   /* the rank of the retry */
    yk__excursion away;
    double spent, trial_cost;           /* seconds: of tries of excluded ranks, of other trials */
    double retry_cost, harm[YK__RANKS];
    double price[YK__RANKS];            /* seconds: what the last excursion for this rank took; 0: none yet */
    yk__policy_event event[YK__RANKS];
    uint32_t n_event;
};

/* policy_phase.c */
void yk__looks_clear(yk__policy *p);
void yk__phase_begin(yk__policy *p, yk__phase to);
void yk__settle_begin(yk__policy *p);
void yk__doubt_begin(yk__policy *p); /* settles only if the next look confirms what was off */
void yk__steady_begin(yk__policy *p);
void yk__alert_confirmed(yk__policy *p);
void yk__excursion_begin(yk__policy *p, uint32_t rank, bool retry);
void yk__excursion_charge(yk__policy *p, const yk__report *report);
void yk__excursion_end(yk__policy *p);

/* policy_shares.c */
void yk__times_add(yk__times *w, double seconds);
double yk__times_mean(const yk__times *w);
double yk__times_error(const yk__times *w); /* squared standard error of that mean */
double yk__times_median(const yk__times *w);
double yk__times_least(const yk__times *w);
double yk__samples_median(const yk__samples *s);
double yk__samples_least(const yk__samples *s);
bool yk__timed_often(const yk__policy *p, uint32_t times);
bool yk__rank_off(const yk__policy *p, uint32_t rank, double seconds); /* it took this, and 20 % more or less was foreseen */
uint32_t yk__members_count(const yk__policy *p);
void yk__event_add(yk__policy *p, int kind, uint32_t rank, double with, double without);
bool yk__shares_set(yk__policy *p, const uint64_t *share);
uint64_t yk__cap_of(const yk__policy *p, uint32_t r);
bool yk__shares_split(const yk__policy *p, const bool *member, double trust, uint64_t *share);
bool yk__shares_worth(const yk__policy *p, const uint64_t *next);
bool yk__shares_follow(yk__policy *p, double trust); /* a step towards the best shares, where those are worth it; true: new ones */
void yk__roles_set(yk__policy *p, const bool *member, const double *owns); /* owns NULL: the best parts */
void yk__parts_best(const yk__policy *p, const bool *member, double *owns);
bool yk__roles_improve(yk__policy *p); /* new parts of the optimizer, where they are worth moving its moments */
bool yk__members_flip(const yk__policy *p, uint32_t rank, bool with, bool *member); /* false: nobody is left */
double yk__window_predict(const yk__policy *p, const bool *member, const uint64_t *share); /* seconds */
double yk__set_predict(const yk__policy *p, const bool *member, uint64_t *share); /* with the best shares; 0: it cannot be done */
void yk__rest_record(yk__policy *p, double window, double longest); /* longest: seconds of the longest run */

/* policy_probe.c */
void yk__shares_first(yk__policy *p);
void yk__probe_look(yk__policy *p);

/* policy_trial.c */
uint32_t yk__trial_candidate(const yk__policy *p);
bool yk__loss_foreseen(const yk__policy *p); /* by the lines, with the next candidate */
bool yk__trial_begin(yk__policy *p, uint32_t rank);
bool yk__trial_next(yk__policy *p);    /* begins the next one that is due; false: none is */
void yk__trial_round(yk__policy *p);   /* all are due again */
void yk__trial_reweigh(yk__policy *p); /* all but clear gains, as lines have changed */
void yk__trial_look(yk__policy *p, bool clean, double wall);
bool yk__gain_counts(const yk__policy *p, uint32_t rank, double gain); /* gain: what the rank adds to the rate, in parts of it */
double yk__flip_predict(const yk__policy *p, uint32_t rank); /* seconds of a window without this member, or with this one too; 0: none */

/* policy_settle.c */
void yk__settle_look(yk__policy *p);
bool yk__records_add(yk__policy *p);

/* policy_steady.c */
void yk__steady_look(yk__policy *p, const yk__report *report, bool clean, double wall);
void yk__retry_look(yk__policy *p, const yk__report *report);

#endif
