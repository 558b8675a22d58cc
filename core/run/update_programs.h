/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizer's programs: statistics of the gradients of this rank's slices, and its step on them. They are made when they are first
 * needed, and again when slices change, or when the step gets new copies of parameters to write.
 */
#ifndef YOKE_CORE_RUN_UPDATE_PROGRAMS_H
#define YOKE_CORE_RUN_UPDATE_PROGRAMS_H

#include "core/run/exec.h"

typedef struct yk__optim_programs {
    yk__exec *exec;
    yk__params *params;
    bool has_layout;
    yk__opt_layout layout;
    uint32_t *group_of;                /* by parameter */
    yk__prog *step_prog, *stat_prog;   /* stat_prog: for a way whose norm the device takes */
    uint32_t n_compute;                /* copies of parameters when step_prog was made: it writes them in a group of one */
    uint32_t n_stat;
    float *hyper;                      /* step_prog's input: 64 numbers for each group */
    float *stats;                      /* stat_prog's results in the device's layout, so that the host waits for one copy. Each bucket
                                          has the sum of squares, and the number of elements that are not finite */
    yk_pin *stats_pin;
} yk__optim_programs;

/* Sets the layout of the programs, once. */
uint32_t yk__optim_moments(const yk__opt_layout *layout); /* by element */
yk_status yk__optim_set_layout(yk__optim_programs *optim, const yk__opt_layout *layout, yk_error *err);
/* The two calls make step_prog and stat_prog if they are missing. */
yk_status yk__optim_make_step(yk__optim_programs *optim, yk_error *err);
yk_status yk__optim_make_stats(yk__optim_programs *optim, yk_error *err);
void yk__optim_drop(yk__optim_programs *optim);                                 /* the programs and their numbers */
void yk__optim_free(yk__optim_programs *optim);

#endif
