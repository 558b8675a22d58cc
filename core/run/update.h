/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a window: sums of gradients, norm, clip, the optimizer on this rank's slices, and the parameters to all. It holds what
 * an optimizer is told once (layout of the groups) and its programs, which are made again when slices or copies change.
 */
#ifndef YOKE_CORE_RUN_UPDATE_H
#define YOKE_CORE_RUN_UPDATE_H

#include "core/run/exec.h"

typedef struct yk__updater {
    yk__exec *exec;
    yk__params *params;
    bool has_layout;
    yk__opt_layout layout;
    uint32_t *group_of;       /* by parameter */
    yk__prog *step_prog, *stat_prog;
    uint32_t n_compute;       /* copies of parameters when step_prog was made: it writes them in a group of one */
    uint32_t n_stat;
    float *hyper;             /* of each group, the program's input */
    float *stats;             /* of each bucket: sum of squares, elements that are not finite */
    double divisor;           /* of the last update */
    double started;           /* its optimizer's program; the device was idle */
    bool measure;             /* time the copies of updated parameters */
    double update_seconds, copy_seconds; /* yk__engine_stats */
    uint64_t update_elements, copy_elements;
} yk__updater;

void yk__updater_free(yk__updater *u);
yk_status yk__updater_begin(yk__updater *u, const yk__opt_layout *layout, yk_error *err); /* yk__engine_optimizer */
yk_status yk__updater_run(yk__updater *u, const yk__update *update, yk__updated *out, yk_error *err);

/* optim.c: the programs */
yk_status yk__optim_make(yk__updater *u, yk_error *err); /* those that are missing */
void yk__optim_drop(yk__updater *u);

#endif
