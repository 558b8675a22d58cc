/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: begin, test, wait, cancel. What they are, and in which order ranks begin them: coll.h.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_COLL_REQUEST_H
#define YOKE_CORE_COLL_REQUEST_H

#include "core/base/error.h"
#include "core/coll/desc.h"

typedef struct yk__comm yk__comm;
typedef struct yk__request yk__request; /* a collective under way */

/* The data belongs to the request until it is done; but what an all-reduce or all-gather takes in it has read when begin returns.
 * A member's block of a reduce-scatter's or all-gatherv's buffer may be written again, by requests too, when a later request that all
 * began after waiting for this one is done. */
yk_status yk__coll_begin(yk__comm *comm, const yk__coll_desc *desc, yk__request **request, yk_error *err);
/* Whether it is done, without waiting; then, and after an error, it is released. */
yk_status yk__coll_test(yk__request *request, bool *done, yk_error *err);
/* Returns when it is done, and releases it, after an error too. */
yk_status yk__coll_wait(yk__request *request, yk_error *err);
/* Gives it up and releases it: its data is the caller's again. The others' request may never end, so the communicator takes no more
 * requests until its members are set anew. */
void yk__coll_cancel(yk__request *request);
/* Begin and wait. */
yk_status yk__coll_run(yk__comm *comm, const yk__coll_desc *desc, yk_error *err);

#endif
