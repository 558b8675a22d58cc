/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reverse-mode differentiation of a graph: one rule per primitive and per composite.
 *
 * yk__grad appends to g the nodes that compute d(sum of seed * root)/d(wrt[i]) for every i, in the reverse order of the forward nodes. So
 * gradients of late layers come first, and their buckets travel while the rest is computed. Contributions to one value are added in the
 * order in which they arise. grad[i] = YK_NONE if wrt[i] has no influence.
 *
 * on_ready (may be NULL) is called as soon as all contributions to wrt[i] are summed, before later nodes are appended.
 * A planner learns from it at which node a bucket is complete.
 *
 * The gradient of an all_reduce (a sum) is the all_reduce of its gradient. Values that are not float, and inputs such as
 * labels, have no gradient. This layer ignores precision: it works on graphs before autocast.
 */
#ifndef YOKE_CORE_GRAD_GRAD_H
#define YOKE_CORE_GRAD_GRAD_H

#include "core/graph/graph.h"

typedef void yk__grad_ready(void *arg, uint32_t i, yk__vid grad);

/* seed: a value of the root's shape (or broadcast to it). */
yk_status yk__grad(yk__graph *g, yk__vid root, yk__vid seed, uint32_t n_wrt, const yk__vid *wrt, yk__vid *grad,
                   yk__grad_ready *on_ready, void *arg, yk_error *err);

#endif
