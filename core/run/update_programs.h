/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizer's programs on one device: statistics of the gradients of the slices that the device updates, and its step on them. They are
 * made when they are first needed, and again when slices change, or when the step gets new copies of parameters to write.
 */
#ifndef YOKE_CORE_RUN_UPDATE_PROGRAMS_H
#define YOKE_CORE_RUN_UPDATE_PROGRAMS_H

#include "core/run/exec.h"

/* A program of the step. */
typedef struct yk__optim_part {
    uint32_t bucket; /* YK_NONE: all buckets, and the whole of this rank's slices */
    yk__range range; /* elements of the bucket */
    yk__prog *prog;
} yk__optim_part;

typedef struct yk__optim_programs {
    yk__exec *exec;
    yk__params *params;
    bool has_layout;
    yk__opt_layout layout;
    uint32_t *group_of;                /* by parameter */
    yk__optim_part *part;              /* the step, as the home of moments cuts it (state_home.h) */
    size_t n_part, cap_part;
    yk__prog *stat_prog;               /* for a way whose norm the device takes */
    uint32_t n_compute;                /* copies of parameters when the step was made: it writes them in a group of one */
    uint32_t n_stat;
    float *hyper;                      /* the step's input: 64 numbers for each group */
    float *stats;                      /* stat_prog's results in the device's layout, so that the host waits for one copy. Each bucket
                                          has the sum of squares, and the number of elements that are not finite */
    yk_pin *stats_pin;
} yk__optim_programs;

/* Sets the layout of the programs, once. */
uint32_t yk__optim_moments(const yk__opt_layout *layout); /* by element */
yk_status yk__optim_set_layout(yk__optim_programs *optim, const yk__opt_layout *layout, yk_error *err);
/* The two calls make the programs of the step and stat_prog if they are missing. */
yk_status yk__optim_make_step(yk__optim_programs *optim, yk_error *err);
yk_status yk__optim_make_stats(yk__optim_programs *optim, yk_error *err);
void yk__optim_drop(yk__optim_programs *optim);                                 /* the programs and their numbers */
void yk__optim_free(yk__optim_programs *optim);

#endif
