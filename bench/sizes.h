/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by bench/collectives and its peer over MPI: sizes, repetitions of a call, and the format of a row. */
#ifndef YOKE_BENCH_SIZES_H
#define YOKE_BENCH_SIZES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SIZES_LEAST 1024ull
#define SIZES_MOST (256ull << 20)
#define SIZES_STEP 4ull
#define SIZES_BATCHES 5
#define SIZES_BATCH_S 0.03

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, OPERATIONS };

static const char *const operation_name[] = {"all-reduce", "reduce-scatter", "all-gather"};

static inline double sizes_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Number of calls of a batch, from the seconds of one call. */
static inline int sizes_calls(double seconds)
{
    const double calls = SIZES_BATCH_S / seconds;
    return calls < 1 ? 1 : calls > 2000 ? 2000 : (int)calls;
}

static inline int sizes_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static inline double sizes_median(double *v)
{
    qsort(v, SIZES_BATCHES, sizeof *v, sizes_compare);
    return v[SIZES_BATCHES / 2];
}

/* Called on rank 0. */
static inline void sizes_print(int operation, uint64_t bytes, double seconds)
{
    printf("%s %llu %.3e\n", operation_name[operation], (unsigned long long)bytes, seconds);
    fflush(stdout);
}

#endif
