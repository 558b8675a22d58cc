/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a job on several hosts meet: each connects to rank 0, and both prove that they know the job's secret. Then rank 0 tells
 * every rank the host of each rank. Afterwards nothing listens on the network.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_START_ASSEMBLE_H
#define YOKE_CORE_CONTROL_START_ASSEMBLE_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/control/start/rendezvous.h"
#include "core/control/start/waiting.h"
#include "core/net/link.h"

/* A rank's description of itself, which rank 0 passes on. */
typedef struct yk__gather_entry {
    uint64_t host;                        /* equal for ranks under one kernel and network namespace */
    uint8_t name[YK__RENDEZVOUS_NAME];    /* name of its socket for the ranks of its host */
} yk__gather_entry;

typedef struct yk__gather_config {
    const uint8_t *secret;
    uint32_t secret_bytes;
    const char *address;
    uint16_t port;
    int listener; /* rank 0's; -1: it listens on address and port itself */
    uint32_t rank, ranks;
    uint32_t join_ms; /* ms to wait for all ranks; 0 for ever */
    bool liveness;    /* if off, silence is no fault */
    yk__waiting *waiting; /* NULL for no log line */
    yk__gather_entry own;
} yk__gather_config;

typedef struct yk__gathered {
    uint8_t nonce[16];         /* of this job, from rank 0's random generator */
    yk__gather_entry *entry;   /* [ranks] */
    yk__link *link;            /* rank 0: links to every other rank; other ranks: one, to rank 0 */
    uint32_t links;
} yk__gathered;

/* YK_E_TIMEOUT with the numbers of the missing ranks. */
yk_status yk__gather_ranks(const yk__gather_config *config, yk__gathered *out, yk_error *err);
void yk__gathered_free(yk__gathered *gathered); /* with every link that was not taken out */

#endif
