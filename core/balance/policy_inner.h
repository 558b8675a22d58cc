/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the policy: the part that its files share. Each file uses only later ones of this list. policy.c takes the ranks' reports and
 * hands them to the phase. policy_steady.c, policy_settle.c, policy_probe.c and policy_trial.c are the phases. policy_shares.c makes shares
 * and roles. policy_phase.c begins phases, so that none needs the inside of its successor.
 */
#ifndef YOKE_CORE_BALANCE_POLICY_INNER_H
#define YOKE_CORE_BALANCE_POLICY_INNER_H

#include "core/balance/balance.h"
#include "core/balance/compare.h"
#include "core/balance/cost_model.h"
#include "core/balance/trial_schedule.h"

/* ---- Constants, each with its reason ------------------------------------------------------------------------------ */

/* the first windows */
#define FEW 4u           /* rows of a slower rank: with four times as many in the next windows a line can be told */
#define FAR 32.0         /* beyond this ratio of paces a rank gets one row: four would take as long as the other's whole batch of 128 */
#define ALIKE 2.0        /* up to this factor even shares lose at most a third of a window, two slow starts would lose more */

/* looks: timed windows, from which shares are made */
#define LOOK 3u          /* windows of a look: the fewest with a mean that bears one disturbed window */
#define SURE 4u          /* looks at least: a trial with shares that are 3 % off hides a rank's contribution */
#define LOOKS 12u        /* looks at most: lines that still move by then are noise */
#define TRUST 2.0        /* factor by which a share changes in a look at most, at the start its square: lines may not be straight */
#define DEAD_BAND 0.01   /* gain that is worth new shares: the resolution that rounding leaves */
#define HORIZON 200.0    /* windows for which a gain counts at least, if the number left is unknown: no job is shorter */

/* trials */
#define PARTS_WORTH 0.02 /* part of a window: gain of new parts of the optimizer; moving its moments takes some windows */

/* steady */
#define EVERY 10u        /* one window of so many is timed, which costs it some 5 % of overlap, */
#define TELL 5u          /* and the ranks report every so many: a change is seen within 10 windows */
#define ALERT 1.15       /* windows longer by this factor than before: more than the noise of TELL windows */
#define SHIFT 1.6        /* delay of every window that needs one look to confirm: half way from a spell (1.4) to a rank twice as slow; */
#define HINTS 4u         /* shorter delays need so many alerts in a row, 10 windows apart or more. Spells last some 10: one in e lasts to
                          * the next alert, and one in e^3, 5 %, to the fourth */

typedef enum yk__phase { PROBE, GROW, SETTLE, TRIAL, STEADY, RETRY } yk__phase;

/* A rank's share and line when shares were last settled. */
typedef struct yk__settled {
    uint64_t share;
    yk__line line; /* for a nonmember, from its last membership */
} yk__settled;

/* The two arms of a trial, and their comparison. */
typedef struct yk__trial {
    uint32_t rank, instead; /* instead: a member that the rank replaces, or the number of ranks */
    bool was_member;
    uint64_t *share[2]; /* by yk__arm, then by rank: with the rank, without */
    double *owns[2];    /* fixed for each arm: parts that follow every measurement would make programs anew */
    yk__compare compare;
    double expected;    /* seconds with the rank over those without, by the lines */
    double possible[2]; /* seconds with the best shares over those with share[] */
} yk__trial;

/* Memory of calls, by rank: one call at a time uses an array. */
typedef struct yk__policy_work {
    bool *member;
    uint64_t *share;
    uint64_t *best;     /* yk__shares_follow */
    double *owns;       /* a caller's of yk__roles_set */
    double *best_parts; /* yk__roles_set */
} yk__policy_work;

typedef struct yk__policy_rank {
    yk__settled settled, before; /* before: at the last exclusion */
    yk__times busy;              /* seconds of timed runs since the last look, 8 at most */
    yk__policy_event event;      /* the list of waiting events, the next one first */
} yk__policy_rank;

struct yk__policy {
    uint32_t ranks;
    uint64_t n;
    yk__fit *fit;
    yk__schedule *schedule;
    yk__seat *seat;
    yk__decision now;
    void *arrays;                       /* memory of now, trial and work */
    yk__policy_work work;
    yk__phase phase;
    uint64_t windows, in_phase, unreported; /* windows of the job, of this phase, since ranks last reported */
    uint32_t skip, looks, calm;         /* windows without information yet; looks of this settling; those without a change in a row */
    bool early;                         /* no shares have been settled yet */
    yk__times wall;                     /* since the last look */
    double left;                        /* windows; 0 if unknown */
    double usual, before_alert;         /* seconds of a steady window, and of one before the alert that is being settled; 0 if unknown */
    uint32_t usual_n;
    uint32_t hints;                     /* alerts in a row that were confirmed, but small */
    bool doubted;                       /* an alert is not confirmed yet */
    uint64_t alert_after, pause;        /* windows: no alert before this one; length of the next pause */
    yk__trial trial;
    uint32_t n_event;
    yk__policy_rank rank[];
};

/* policy_phase.c */
void yk__looks_clear(yk__policy *p);
void yk__phase_begin(yk__policy *p, yk__phase to);
void yk__settle_begin(yk__policy *p);
void yk__doubt_begin(yk__policy *p); /* settles only if the next look confirms the deviation */
void yk__steady_begin(yk__policy *p);
void yk__alert_confirmed(yk__policy *p);

/* policy_shares.c */
bool yk__timed_often(const yk__policy *p, uint32_t times);
bool yk__rank_off(const yk__policy *p, uint32_t rank, double seconds); /* true if the rank's `seconds` are 20 % off the prediction */
void yk__event_add(yk__policy *p, int kind, uint32_t rank, double with, double without);
bool yk__shares_set(yk__policy *p, const uint64_t *share);
bool yk__shares_worth(const yk__policy *p, const uint64_t *next);
bool yk__shares_follow(yk__policy *p, double trust); /* a step towards the best shares, if they are worth it; true if there are new ones */
void yk__roles_set(yk__policy *p, const bool *member, const double *owns); /* owns NULL: the best parts */
bool yk__roles_improve(yk__policy *p); /* new parts of the optimizer, if they are worth moving its moments */

/* policy_probe.c */
void yk__shares_first(yk__policy *p);
void yk__probe_look(yk__policy *p);

/* policy_trial.c */
bool yk__trial_begin(yk__policy *p, uint32_t rank);
bool yk__trial_foreseen(yk__policy *p); /* begins the trial of a member that the lines predict to cost much; false for none */
bool yk__trial_next(yk__policy *p);     /* begins the next trial that is due; false for none */
void yk__trial_look(yk__policy *p, bool clean, double wall);

/* policy_settle.c */
void yk__settle_look(yk__policy *p);
bool yk__records_add(yk__policy *p);

/* policy_steady.c */
void yk__steady_look(yk__policy *p, const yk__report *report, bool clean, double wall);
void yk__retry_look(yk__policy *p, const yk__report *report);

#endif
