/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting of ranks on several hosts through their launcher's store (PMI, PMIx). Rank 0 opens a socket on its host's address, and
 * puts the address and a secret, as a munge credential, into the store. The other ranks read them there.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_START_MEETING_H
#define YOKE_CORE_CONTROL_START_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/control/start/origin_record.h"
#include "core/control/start/waiting.h"

typedef struct yk__meeting {
    char address[64];   /* numeric */
    uint16_t port;
    int listener;       /* rank 0's, which owns it; -1 on other ranks */
    uint8_t secret[32]; /* only if one was requested */
} yk__meeting;

/* Collective. secret: true if the store must carry one, as no file has it. ms: time to wait for all ranks; 0 for ever. A launcher's store
 * does not tell which ranks have come: after 5 s each rank that waits says so. */
yk_status yk__meeting_share(yk__waiting *waiting, uint32_t ms, bool secret, yk__meeting *meeting, yk_error *err);

#endif
