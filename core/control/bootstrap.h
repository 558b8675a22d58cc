/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a job that yoke launch did not start: this process finds the other ranks, as its origin says (origin.h), and comes
 * to the control object of its host, which yk__control_join then joins. On the host's lowest rank the object is made here, and an
 * agent for it.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_BOOTSTRAP_H
#define YOKE_CORE_CONTROL_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/control/control.h"
#include "core/control/origin_record.h"

/* Waits up to join_ms (0: for ever) for the others. *agent is NULL on ranks that are not their host's lowest. What it returns goes
 * into yk__control_config, and is yk__control_join's from then on. */
yk_status yk__bootstrap(const yk__origin *origin, uint32_t join_ms, bool liveness, int *job_fd, yk__agent **agent, yk_error *err);

#endif
