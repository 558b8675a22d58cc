/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a host, for a job without a launcher of ours: a thread in the process of the host's lowest rank. It hands the control object
 * to the other ranks of the host, and sees at once when one of their processes ends. It also keeps the slots of ranks on other hosts up to
 * date, over a link to the agent of rank 0's host. That agent relays between the other hosts.
 *
 * A host that is silent for YK__AGENT_SILENT_MS, or whose link ends, is lost with all its ranks, and the job ends. Heartbeats and data end
 * a silence.
 *
 * Thread rule: one thread starts and stops the agent; the agent's own thread does the rest.
 */
#ifndef YOKE_CORE_CONTROL_AGENT_H
#define YOKE_CORE_CONTROL_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/control/control.h"
#include "core/control/control_job.h"
#include "core/control/start/rendezvous.h"
#include "core/net/link.h"

#define YK__AGENT_BEAT_MS 250
/* An agent that waits for a processor is silent too, and no other host can tell. Beside 150 busy threads per processor none was silent for
 * so long in 15 s. Beside 500, a launcher took a host for dead after 12 s. */
#define YK__AGENT_SILENT_MS 2000

typedef struct yk__agent_config {
    yk__control_job *job;     /* the agent takes it over */
    uint32_t rank, ranks;     /* this process's rank, the lowest of the host; number of ranks in the job */
    const uint32_t *lowest;   /* [ranks]: the lowest rank of each rank's host. Only start reads it */
    int listener;             /* socket for the other ranks of the host; -1 without other ranks. The agent takes it over */
    uint8_t token[YK__RENDEZVOUS_TOKEN];
    yk__link *link;           /* [links]; the agent takes over the links and the list */
    uint32_t links;           /* rank 0: links to every other rank; other agents: one, to rank 0; 0 if all ranks are on this host */
    bool liveness;            /* if off, silence is no fault */
} yk__agent_config;

/* Takes over job, listener and links, after a failure too. */
yk_status yk__agent_start(const yk__agent_config *config, yk__agent **agent, yk_error *err);
/* Returns once no other rank needs the agent: all ranks of this host (on rank 0 all of the job) have left, or the job has ended and the
 * other hosts know. No-op for NULL. */
void yk__agent_stop(yk__agent *agent);
/* The same from an exit handler: frees nothing and takes no lock, so it gives up once the agent makes no round for 4 s. */
void yk__agent_stop_at_exit(yk__agent *agent);
/* Frees only its memory, in a forked child of the process that started it. */
void yk__agent_forget(yk__agent *agent);

#endif
