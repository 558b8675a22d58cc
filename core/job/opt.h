/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job's optimizer and its schedule. Gradients are added up over an accumulation window, which its last yk_step ends.
 */
#ifndef YOKE_CORE_JOB_OPT_H
#define YOKE_CORE_JOB_OPT_H

#include "core/job/job.h"

/* What a micro batch adds to the loss of its window. */
typedef struct yk__loss_part {
    double weight, loss; /* loss: this rank's part */
    uint16_t gen;
    yk__vid vid;
} yk__loss_part;

struct yk_opt {
    yk_job *job;
    yk__optim rule;       /* kind and settings */
    double lr, base_lr;   /* rate now; the one it was made with */
    uint32_t n_group;
    yk__optim_group group[64]; /* as many as a rate for each layer takes */
    uint32_t n_hyper;     /* its groups there: one per parameter */
    float (*hyper)[YK_HYPER_COUNT];
    bool compare;         /* the ranks' parameters are to be compared */
    bool stepped;         /* the last yk_step really updated */
    uint64_t steps;       /* updates done */
    double grad_norm, window_loss;
    bool window_known;
    double since;         /* of yk_step_seconds: its last call */
    uint32_t micro;       /* micro batches of the window under way */
    struct {
        int64_t local, global;
    } window_rows;        /* of the window under way: this rank's, all ranks' */
    double weight, unit;  /* of the window under way: sum of weights; what its seeds are divided by */
    yk__loss_part *part;
    size_t n_part, cap_part;
    yk_sched *sched;
};

struct yk_sched {
    yk_opt *opt;
    yk__sched *rule;
    uint64_t step;
    double total; /* steps it is made for; 0: not known */
};

void yk__opt_free(yk_opt *opt);
bool yk__opt_made(yk_opt *opt);   /* the engine knows the optimizer */
void yk__opt_follow(yk_sched *s); /* the optimizer takes the rate (and momentum) of the schedule's step */

#endif
