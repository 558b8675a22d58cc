/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host, for a job that no launcher of ours holds together: a thread in the process of the host's lowest rank. It
 * hands the control object to the other ranks of the host, sees at once when one of their processes ends, and keeps the slots of
 * ranks on other hosts up to date: it has a link to the agent of rank 0's host, which passes on what comes to the other hosts.
 *
 * A host that is silent for YK__AGENT_SILENT_MS, or whose link ends, is lost with all its ranks, and the job ends. Heartbeats break the
 * silence, and data.
 *
 * Thread rule: start and stop by one thread; the rest is the agent's own.
 */
#ifndef YOKE_CORE_CONTROL_AGENT_H
#define YOKE_CORE_CONTROL_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/control/control.h"
#include "core/control/job.h"
#include "core/control/rendezvous.h"
#include "core/net/link.h"

#define YK__AGENT_BEAT_MS 250
#define YK__AGENT_SILENT_MS 2000

typedef struct yk__agent_config {
    yk__control_job *job;     /* the agent takes it */
    uint32_t rank, ranks;     /* of this process, the lowest of the host; of the job */
    const uint32_t *lowest;   /* [ranks]: the lowest rank of each rank's host. Read in start alone */
    int listener;             /* that the other ranks of the host come to; -1: there are none. The agent takes it */
    uint8_t token[YK__RENDEZVOUS_TOKEN];
    yk__link *link;           /* [links]; the agent takes them and the list */
    uint32_t links;           /* rank 0: to each other rank; another agent: to rank 0; 0: all are on this host */
    bool liveness;            /* off: silence is no fault */
} yk__agent_config;

/* Takes what it is to take in every case. */
yk_status yk__agent_start(const yk__agent_config *config, yk__agent **agent, yk_error *err);
/* Returns when no other rank needs the agent any more: all ranks of this host have left, with rank 0 all of the job, or the job has
 * ended and the others have heard of it. NULL: nothing. */
void yk__agent_stop(yk__agent *agent);
/* In a fork of the process that started it: releases its memory alone. */
void yk__agent_forget(yk__agent *agent);

#endif
