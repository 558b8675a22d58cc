/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a job of one rank. The step thread. */
#ifndef YOKE_CORE_COLL_SOLO_H
#define YOKE_CORE_COLL_SOLO_H

#include "core/coll/coll_state.h"

extern const yk__coll_algorithm yk__solo_algorithm;

#endif
