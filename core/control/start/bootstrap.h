/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of a job that yoke launch did not start. This process finds the other ranks as its origin says (origin.h), and gets the
 * control object of its host, which yk__control_join then joins. The host's lowest rank makes the object, with an agent.
 *
 * The steps under yk__group_join, in order; a job of yoke launch has only the first and the last:
 *
 *     origin      every rank: its number, the number of ranks, and its way to the other ranks
 *     meeting     several hosts with a store: rank 0 publishes its address and the secret; bootstrap.c knows both otherwise
 *     gather      several hosts: all ranks connect to rank 0, prove the secret, and learn the host of each rank
 *     rendezvous  one host: its lowest rank makes the object (control_job.h) with an agent, which hands it to the ranks that connect
 *     join        every rank: maps the object, marks itself there, and waits until all ranks have
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_START_BOOTSTRAP_H
#define YOKE_CORE_CONTROL_START_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/control/control.h"
#include "core/control/start/origin_record.h"

/* Waits up to join_ms (0: for ever) for the other ranks. *agent is NULL unless this rank is its host's lowest. The results go into
 * yk__control_config; yk__control_join owns them from then on. */
yk_status yk__bootstrap(const yk__origin *origin, uint32_t join_ms, bool liveness, int *job_fd, yk__agent **agent, yk_error *err);

#endif
