/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a job's collectives over messages: from which size on which algorithm. Rank 0 makes it from what calls take when the job
 * begins and sends it to all; all compare its hash. It changes times and bytes, never results.
 */
#ifndef YOKE_CORE_COLL_PLAN_H
#define YOKE_CORE_COLL_PLAN_H

#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__coll yk__coll;

/* What a small collective takes: of few bytes, and what each byte adds. */
typedef struct yk__plan_line {
    double ns, slope_ns;
} yk__plan_line;

/* From how many bytes on `two` is faster than `one`; UINT64_MAX: of no small collective. */
uint64_t yk__plan_crossing(yk__plan_line one, yk__plan_line two);
/* An all-reduce by columns (msg_columns.h), from what a direct exchange takes with that many ranks. */
yk__plan_line yk__plan_by_columns(yk__plan_line direct, uint32_t ranks);
/* Below how many bytes records go in rounds (msg_rounds.h); 0: never. */
uint64_t yk__plan_rounds(yk__plan_line direct, yk__plan_line rounds);
/* By all ranks, with nothing under way. Nothing is done where two ranks or fewer talk by messages. */
yk_status yk__plan_make(yk__coll *coll, yk_error *err);

#endif
