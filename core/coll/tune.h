/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a job's collectives over messages: the sizes at which algorithms change. Rank 0 makes it from times that it measures at
 * the start of the job, and sends it; all ranks compare its hash. The plan changes times and bytes, never results.
 */
#ifndef YOKE_CORE_COLL_TUNE_H
#define YOKE_CORE_COLL_TUNE_H

#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__coll yk__coll;

/* The time of a small collective: ns for a few bytes, and ns for each further byte. */
typedef struct yk__plan_line {
    double ns, slope_ns;
} yk__plan_line;

/* The least bytes for which `two` is faster than `one`; UINT64_MAX if no small collective has so many. */
uint64_t yk__plan_crossing(yk__plan_line one, yk__plan_line two);
/* The line of an all-reduce by columns (msg_columns.h), from the line of a direct exchange with that many ranks. */
yk__plan_line yk__plan_by_columns(yk__plan_line direct, uint32_t ranks);
/* Records with fewer bytes go in rounds (msg_rounds.h); 0 for never. */
uint64_t yk__plan_rounds(yk__plan_line direct, yk__plan_line rounds);
/* The line of a reduce-scatter in rounds, from that of small data: a part is on its way log2(ranks) / 2 times as often. */
yk__plan_line yk__plan_parts(yk__plan_line rounds, uint32_t ranks);
/* Called by all ranks, with no request in progress. No-op if at most two ranks talk by messages. */
yk_status yk__plan_make(yk__coll *coll, yk_error *err);

#endif
