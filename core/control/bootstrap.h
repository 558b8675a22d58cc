/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a job that yoke launch did not start: this process finds the other ranks, as its origin says (origin.h), and comes
 * to the control object of its host, which yk__control_join then joins. On the host's lowest rank the object is made here, and an
 * agent for it.
 *
 * Who does what, in order, under yk__group_join; of a job of yoke launch only the first and the last:
 *
 *     origin      every rank: who it is, of how many, and by which of its ways it finds the others
 *     meeting     several hosts with a store: rank 0 says where it listens, and the secret; bootstrap.c knows both otherwise
 *     gather      several hosts: all ranks come to rank 0, prove the secret, and hear who runs on which host
 *     rendezvous  on a host: its lowest rank makes the object (job.h) with an agent, which hands it to the others where they come
 *     join        every rank: maps the object, marks itself there, and waits until all have
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
