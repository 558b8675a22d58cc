/* SPDX-License-Identifier: Apache-2.0 */
/* Times steps of a sample: `yoke estimate-memory --timed-seconds`, which `yoke plan` runs for its candidates. */
#ifndef YOKE_TOOLS_BENCH_SAMPLE_TIME_H
#define YOKE_TOOLS_BENCH_SAMPLE_TIME_H

#include "tools/bench/sample.h"

typedef struct timed {
    double seconds;   /* of the fastest step */
    double processor; /* seconds of all processes in a step, mean of the timed ones */
    double steps;     /* that were timed */
} timed;

/* Runs steps of `micros` micro batches: some to settle, then for about `seconds`. Collective; failures stay in the job. */
timed timed_steps(sample *s, uint32_t micros, double seconds);

#endif
