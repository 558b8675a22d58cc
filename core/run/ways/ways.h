/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of ways, and what several of them do alike. */
#ifndef YOKE_CORE_RUN_WAYS_WAYS_H
#define YOKE_CORE_RUN_WAYS_WAYS_H

#include "core/run/update.h"

extern const yk__way yk__way_single, yk__way_planned, yk__way_excluded, yk__way_power, yk__way_rounded, yk__way_sole, yk__way_kept,
    yk__way_island,    yk__way_joinable, yk__way_shared, yk__way_messages;

/* ---- Columns of several rows ---- */

yk_status yk__way_reduces_nothing(yk__params *p, yk_error *err);
/* publish: a copy in the compute format is older than the values now; nothing else happens. */
yk_status yk__way_publishes_nothing(yk__updater *u, yk_error *err);
/* norm: of this rank's slices by a program of its device, in f32; the host adds up one number from each member. */
yk_status yk__way_norm_on_device(yk__updater *u, double divisor, double sum[2], yk_error *err);
/* norm: by p->squares, exact: the same bits whoever owns which part. */
yk_status yk__way_norm_exact(yk__updater *u, double divisor, double sum[2], yk_error *err);
/* reduce: through the blocks for exchanges, all buckets in order. */
yk_status yk__way_reduce_buckets(yk__params *p, yk_error *err);
/* publish: through the blocks for exchanges, by the column `gather`. */
yk_status yk__way_publish_through(yk__updater *u, yk_error *err);

/* ---- Their parts ---- */

/* This rank's squares and numbers that are not finite, by its device. */
yk_status yk__norm_own(yk__updater *u, double divisor, double sum[2], yk_error *err);
/* This rank's gradients of a bucket, or its part of its island's sum, are where exchanges take them. */
yk_status yk__grads_to_host(yk__params *p, yk__bucket *b, yk_error *err);
yk_status yk__sums_to_device(yk__params *p, yk__bucket *b, yk_error *err); /* those of this rank's slice */
/* Waits for a bucket's exchange, and traces it and the wait. */
yk_status yk__bucket_await(yk__params *p, yk__bucket *b, const char *what, yk_error *err);
void yk__update_note(yk__updater *u); /* what the update took, up to now */
/* The second half of publishing: what others published; timed, where that is asked for. */
yk_status yk__values_take_others(yk__updater *u, yk_error *err);
yk_status yk__values_take(yk__params *p, const yk__bucket *b, yk_error *err); /* of a bucket that is in the block, to the device */
/* From each owner in the island to the others' devices, where they are one. */
yk_status yk__values_spread(yk__params *p, yk_error *err);

#endif
