/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model of `yoke plan` (docs/decisions/0078): a step's time from the counted work of each rank and the times of its device.
 * Pure arithmetic. Thread-safe.
 */
#ifndef YOKE_TOOLS_PLAN_COST_H
#define YOKE_TOOLS_PLAN_COST_H

#include "tools/plan/device_file.h"

typedef enum cost_bound { COST_COMPUTE, COST_MEMORY, COST_LAUNCH, COST_EXCHANGE, COST_UPDATE, COST_DISK, COST_BOUNDS } cost_bound;
extern const char *const cost_names[COST_BOUNDS];

/* Seconds of a rank's step, by part. */
typedef struct cost_rank {
    double part[COST_BOUNDS];
    double rows; /* factor of this rank's rows over an even share */
} cost_rank;

typedef struct cost_case {
    const devices *devices;
    const work *work;        /* of a micro batch with even rows, by row of devices */
    double micros;           /* micro batches of a step */
    bool by_speed;           /* rows follow the ranks' speed, else they are even */
    bool slices_gradients;   /* gradients are summed in each micro batch */
    double on_host;          /* part of the elements that the host updates for devices with memory of their own; 0: none */
    double disk;             /* bytes that a rank's disk reads and writes in a step, for all ranks that share it */
} cost_case;

/* Fills rank[] by row of devices; returns the step's seconds: of the slowest rank. */
double cost_step(const cost_case *c, cost_rank *rank);
double cost_sum(const cost_rank *r);
cost_bound cost_bound_of(const cost_rank *r);
/* Seconds of a rank's micro batch alone, and bytes that a rank sends in a step. */
double cost_micro(const times *t, const work *w);
double cost_wire(const work *w, uint32_t ranks, double micros, bool slices_gradients);

/* Times that explain measurements best: of n probes with seconds `s` and counts `a` (TIMES_FIELDS each), at least 0. The sum of squares of
 * relative errors is least. */
void cost_fit(const double (*a)[TIMES_FIELDS], const double *s, int n, times *t);

#endif
