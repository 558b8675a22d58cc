/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasts in common memory. The step thread. */
#ifndef YOKE_CORE_COLL_SHM_SHM_BROADCAST_H
#define YOKE_CORE_COLL_SHM_SHM_BROADCAST_H

#include "core/coll/coll_state.h"

/* Continues the broadcast once all members have begun it; with `wait` until it is done. */
yk_status yk__shm_broadcast(yk__request *request, bool wait, yk_error *err);

#endif
