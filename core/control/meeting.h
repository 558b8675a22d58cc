/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of several hosts meet, when their launcher has a store (PMI, PMIx): rank 0 opens a socket on its host's address, and puts
 * that and a secret, as a credential of munge, into the store; the others take them out.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_MEETING_H
#define YOKE_CORE_CONTROL_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/control/origin_record.h"
#include "core/control/waiting.h"

typedef struct yk__meeting {
    char address[64];   /* numeric */
    uint16_t port;
    int listener;       /* of rank 0, which takes it; else -1 */
    uint8_t secret[32]; /* where one was asked for */
} yk__meeting;

/* Collective. secret: whether one is needed, because no file has it. ms: how long to wait for all; 0: for ever. A launcher's store does not
 * tell which ranks have come: after 5 s each rank that waits says so. */
yk_status yk__meeting_share(yk__waiting *waiting, uint32_t ms, bool secret, yk__meeting *meeting, yk_error *err);

#endif
