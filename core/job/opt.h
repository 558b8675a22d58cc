/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's optimizer and its schedule. Gradients are added up over an accumulation window, which its last yk_step ends.
 */
#ifndef YOKE_CORE_JOB_OPT_H
#define YOKE_CORE_JOB_OPT_H

#include "core/job/job.h"

/* A micro batch's part of its window's loss. */
typedef struct yk__loss_part {
    double weight, loss; /* weight of the micro batch; this rank's part of its loss */
    uint16_t gen;
    yk__vid vid;
} yk__loss_part;

struct yk_opt {
    yk_job *job;
    yk__optim rule;       /* kind and settings */
    double lr, base_lr;   /* current rate; the rate that it was made with */
    uint32_t n_group;
    yk__optim_group group[64]; /* enough for a rate per layer */
    uint32_t n_hyper;     /* rows of hyper: one per parameter */
    float (*hyper)[YK_HYPER_COUNT];
    bool compare;         /* compare the ranks' parameters at the next chance */
    bool stepped;         /* the last yk_step updated parameters */
    uint64_t steps;       /* updates so far */
    double grad_norm, window_loss;
    bool window_known;
    double since;         /* yk_step_seconds: time of its last call */
    uint32_t micro;       /* micro batches of the current window */
    struct {
        int64_t local, global;
    } window_rows;        /* rows of the current window: this rank's, all ranks' */
    double weight, unit;  /* current window: sum of weights; divisor of its seeds */
    yk__loss_part *part;
    size_t n_part, cap_part;
    yk_sched *sched;
};

struct yk_sched {
    yk_opt *opt;
    yk__sched *rule;
    uint64_t step;
    double total; /* steps that it is made for; 0 if unknown */
};

void yk__opt_free(yk_opt *opt);
bool yk__opt_made(yk_opt *opt);   /* registers the optimizer with the engine; false after a failure */
/*
 * True between two accumulation windows. Within one the job fails: micro batches are done, or the gradient of one was computed. call is the
 * public function, why ends "their gradients ..".
 */
bool yk__opt_window_ended(yk_job *job, const char *call, const char *why);
void yk__opt_follow(yk_sched *s); /* sets the optimizer's rate, and momentum, for the schedule's step */

#endif
