/* SPDX-License-Identifier: Apache-2.0 */
/* The progress thread: drives requests over messages while the step thread computes. */
#ifndef YOKE_CORE_COLL_PROGRESS_H
#define YOKE_CORE_COLL_PROGRESS_H

#include "core/coll/coll_state.h"

yk_status yk__msg_start_thread(yk__coll *coll, yk_error *err);
void yk__msg_stop(yk__coll *coll); /* before the communicators are freed */

#endif
