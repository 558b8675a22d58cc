/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of members in common memory. The step thread. */
#ifndef YOKE_CORE_COLL_SHM_SHM_COMM_H
#define YOKE_CORE_COLL_SHM_SHM_COMM_H

#include "core/coll/coll_state.h"

extern const yk__coll_algorithm yk__shm_algorithm;

#endif
