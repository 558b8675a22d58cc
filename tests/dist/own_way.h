/* SPDX-License-Identifier: Apache-2.0 */
#ifndef YOKE_TESTS_DIST_OWN_WAY_H
#define YOKE_TESTS_DIST_OWN_WAY_H

#include "core/run/exec.h"

extern const yk__way own_way; /* for yk__engine_config.way */
extern const yk__home own_home; /* for yk__engine_config.home: behind memory of its own, in a buffer of the device */
extern uint32_t own_way_sums; /* buckets that it has added up */
extern uint32_t own_home_binds; /* ranges that programs and transfers found there */
extern const yk__action_row own_action; /* for yk__engine_config.action: the program waits for complete buckets of gradients */
extern uint32_t own_action_starts, own_action_waits;
extern const yk__action_row own_pull; /* the same: pulls of parameters in slices, with all lanes poisoned that hold nothing live */
extern uint32_t own_pull_poisons;

#endif
