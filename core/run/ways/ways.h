/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the table of ways, and the columns that several rows share. */
#ifndef YOKE_CORE_RUN_WAYS_WAYS_H
#define YOKE_CORE_RUN_WAYS_WAYS_H

#include "core/run/update.h"

extern const yk__way yk__way_scattered_single, yk__way_deferred, yk__way_offloaded_single, yk__way_single, yk__way_planned,
    yk__way_excluded, yk__way_far, yk__way_scattered, yk__way_power, yk__way_rounded, yk__way_sliced, yk__way_offloaded_sole,
    yk__way_offloaded, yk__way_sole, yk__way_kept, yk__way_island, yk__way_joinable, yk__way_shared, yk__way_messages;

/* ---- Columns of several rows ---- */

yk_status yk__way_reduces_nothing(yk__params *p, yk_error *err);
/* await: no message of this rank's own brings the values. */
yk_status yk__way_awaits_nothing(yk__params *p, uint32_t bucket, yk_error *err);
/* publish: only marks copies in the compute format as older than the values. */
yk_status yk__way_publishes_nothing(yk__updater *u, yk_error *err);
/* norm: a program of the device takes the norm of this rank's slices, in f32; the host adds up one number from each member. */
yk_status yk__way_norm_on_device(yk__updater *u, double divisor, double sum[2], yk_error *err);
/* norm: by p->squares, exact: the bits do not depend on the owners of the parts. */
yk_status yk__way_norm_exact(yk__updater *u, double divisor, double sum[2], yk_error *err);
/* reduce: through the blocks for exchanges, all buckets in order. */
yk_status yk__way_reduce_buckets(yk__params *p, yk_error *err);
/* publish: through the blocks for exchanges, by the column `gather`. */
yk_status yk__way_publish_through(yk__updater *u, yk_error *err);

/* ---- Parts of columns ---- */

/* The squares of this rank's sums, and the number that are not finite, by its device. */
yk_status yk__norm_own(yk__updater *u, double divisor, double sum[2], yk_error *err);
yk_status yk__norm_sum(yk__updater *u, double sum[2], yk_error *err); /* over the members, with the updates' signs */
/* Brings this rank's gradients of a bucket, or its part of its island's sum, to the block for exchanges. */
yk_status yk__grads_to_host(yk__params *p, yk__bucket *b, yk_error *err);
yk_status yk__sums_to_device(yk__params *p, yk__bucket *b, yk_error *err); /* sums of this rank's slice */
/* Waits for a bucket's exchange, and traces it and the wait. */
yk_status yk__bucket_await(yk__params *p, yk__bucket *b, const char *what, yk_error *err);
void yk__update_note(yk__updater *u); /* notes the update's time up to now */
/* The second half of publishing: takes the other ranks' published values; timed if the updater measures. */
yk_status yk__values_take_others(yk__updater *u, yk_error *err);
yk_status yk__values_take(yk__params *p, const yk__bucket *b, yk_error *err); /* from the block to the device */
/* Copies the values of each owner in the island to the other members' devices, if there is an island. */
yk_status yk__values_spread(yk__params *p, yk_error *err);

#endif
