/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: begin, test, wait, cancel. coll.h describes requests, and the order in which ranks begin them.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_COLL_REQUEST_H
#define YOKE_CORE_COLL_REQUEST_H

#include "core/base/error.h"
#include "core/coll/desc.h"

typedef struct yk__comm yk__comm;
typedef struct yk__request yk__request; /* a collective in progress */

/* The data belongs to the request until it is done, except the input of an all-reduce or all-gather, which begin has read on return. For
 * a reduce-scatter or all-gatherv a member may write its block of the buffer again after a later request: one that all ranks begin after
 * waiting for this one, once it is done. */
yk_status yk__coll_begin(yk__comm *comm, const yk__coll_desc *desc, yk__request **request, yk_error *err);
/* Sets *done without waiting. A request that is done, or that failed, is released. */
yk_status yk__coll_test(yk__request *request, bool *done, yk_error *err);
/* Returns once the request is done, and releases it, after an error too. */
yk_status yk__coll_wait(yk__request *request, yk_error *err);
/* Cancels and releases the request; its data is the caller's again. The other ranks' request may never end, so the communicator takes no
 * more requests until its members are set anew. */
void yk__coll_cancel(yk__request *request);
/* Begin and wait. */
yk_status yk__coll_run(yk__comm *comm, const yk__coll_desc *desc, yk_error *err);

#endif
