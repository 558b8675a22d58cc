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

/* From how many bytes on an all-reduce goes by columns (msg_columns.h): direct_ns is what one of few bytes takes in one round, slope_ns
 * what each byte adds to it, with that many ranks. UINT64_MAX: never. */
uint64_t yk__plan_columns(double direct_ns, double slope_ns, uint32_t ranks);
/* By all ranks, with nothing under way. Nothing is done where two ranks or fewer talk by messages. */
yk_status yk__plan_make(yk__coll *coll, yk_error *err);

#endif
