/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a job on several hosts come together: each connects to rank 0, both prove that they know the job's secret, and when
 * all are there rank 0 tells all of them who runs on which host. Nothing listens on the network afterwards.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_GATHER_H
#define YOKE_CORE_CONTROL_GATHER_H

#include <stdint.h>

#include "core/base/error.h"
#include "core/control/rendezvous.h"
#include "core/control/waiting.h"
#include "core/net/link.h"

/* One rank, as it describes itself, and as rank 0 passes it on. */
typedef struct yk__gather_entry {
    uint64_t host;                        /* equal for ranks under one kernel and network namespace */
    uint8_t name[YK__RENDEZVOUS_NAME];    /* of its socket for the ranks of its host */
} yk__gather_entry;

typedef struct yk__gather_config {
    const uint8_t *secret;
    uint32_t secret_bytes;
    const char *address;
    uint16_t port;
    int listener; /* of rank 0; -1: it listens on address and port */
    uint32_t rank, ranks;
    uint32_t join_ms; /* how long to wait for all; 0: for ever */
    bool liveness;    /* off: silence is no fault */
    yk__waiting *waiting; /* NULL: nothing is said */
    yk__gather_entry own;
} yk__gather_config;

typedef struct yk__gathered {
    uint8_t nonce[16];         /* of this job, from rank 0's generator */
    yk__gather_entry *entry;   /* [ranks] */
    yk__link *link;            /* rank 0: to each other rank; another: to rank 0 */
    uint32_t links;
} yk__gathered;

/* YK_E_TIMEOUT with the names of ranks that have not come. */
yk_status yk__gather_ranks(const yk__gather_config *config, yk__gathered *out, yk_error *err);
void yk__gathered_free(yk__gathered *gathered); /* with what was not taken out of it */

#endif
