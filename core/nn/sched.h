/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning-rate schedules: the rate in force during optimizer step k = 0, 1, ... as a function of k, under the names and settings of
 * their sources: transformers' get_scheduler, torch.optim.lr_scheduler, DeepSpeed.
 *
 * Schedules of transformers that rise again after the end of training (cosine, cosine_with_min_lr) do so here too.
 * DeepSpeed's warm-up family keeps its first rate for two steps, as DeepSpeed does.
 * Memory: an object owns copies of its settings. Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_NN_SCHED_H
#define YOKE_CORE_NN_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__sched yk__sched;

/* params: "key=value,key=value", lists as "5+11+30", "null" for a setting that is not given; may be NULL. It may hold num_warmup_steps
 * and num_training_steps too. An unknown name or key, a value out of its range, or a warm-up above 0 for a schedule without warm-up is
 * an error that names it. */
yk_status yk__sched_new(const char *name, double warmup, double total, const char *params, double base_lr, yk__sched **s,
                        yk_error *err);
void yk__sched_free(yk__sched *sched);
/* *momentum: NAN if the schedule does not change it; the pointer may be NULL. */
void yk__sched_at(const yk__sched *sched, uint64_t step, double *lr, double *momentum);
/* ReduceLROnPlateau only: takes the metric of an evaluation and adapts its rate. */
bool yk__sched_wants_metric(const yk__sched *sched);
void yk__sched_metric(yk__sched *sched, double metric);
/* Hash of its name, settings and, if the rates depend on it, planned number of steps, mixed into h. */
uint64_t yk__sched_hash(const yk__sched *sched, uint64_t h);
/* State of ReduceLROnPlateau for checkpoints: rate, best, bad steps, cooldown left. */
void yk__sched_state_get(const yk__sched *sched, double state[4]);
void yk__sched_state_set(yk__sched *sched, const double state[4]);

#endif
