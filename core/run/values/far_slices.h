/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Far slices: over messages, the f32 values of a trained bucket lie with the owners of its slices alone, in each owner's memory. No host
 * has them whole. A rank that needs a range pulls it from its owners (core/coll/pull.h, docs/decisions/0084). The step thread.
 *
 * Versions. The owner's memory holds one version of the values. It is withdrawn before it is written: by an update, behind the members'
 * norm; by the host's writes and by new owners, behind a comparison of all ranks. All ranks have ended their pulls before that.
 */
#ifndef YOKE_CORE_RUN_VALUES_FAR_SLICES_H
#define YOKE_CORE_RUN_VALUES_FAR_SLICES_H

#include "core/coll/pull.h"
#include "core/run/values/home.h"

/* Makes the memory of this rank's slice, and offers it. Fills b->own, with zeros. */
yk_status yk__far_make(struct yk__params *p, struct yk__bucket *b, yk_error *err);
void yk__far_drop(struct yk__params *p, struct yk__bucket *b);
uint64_t yk__far_bytes(const struct yk__params *p); /* bytes of the slices in host memory, besides slices on the device */

/* Before and after writes to slices. No-op on a rank whose slices are not far, or that does not talk. All ranks call them equally often. */
yk_status yk__far_withdraw(struct yk__params *p, yk_error *err);
void yk__far_publish(struct yk__params *p);
/* Slices have other owners from here on: `was` has the old ones, and its home is gone. old: its slice. All ranks call it. */
yk_status yk__far_move(struct yk__params *p, struct yk__bucket *b, const struct yk__bucket *was, float *old, yk_error *err);

/* Begins to bring elements of a bucket to the host. *pulling: for yk__coll_pulled; NULL if this rank has them all. */
yk_status yk__far_begin(const struct yk__params *p, const struct yk__bucket *b, yk__range range, float *to, yk__pulling **pulling,
                        yk_error *err);
/* Brings elements that other ranks own, and waits for them. */
yk_status yk__far_read(const struct yk__params *p, const struct yk__bucket *b, yk__range range, float *to, yk_error *err);

#endif
