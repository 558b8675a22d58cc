/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of frames, sent and received; all functions under the lock. */
#ifndef YOKE_TRANSPORT_OFI_OFI_MESSAGE_H
#define YOKE_TRANSPORT_OFI_OFI_MESSAGE_H

#include "transport/match.h"

/* Queues a frame without payload, in order and before all other frames. */
yk_status yk__ofi_say(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error);
/* Makes the next frame for a peer: its head, and its payload at `to`. False if there is none. */
bool yk__ofi_next(yk_tr *t, uint32_t peer, yk__match_head *head, uint8_t *to);
/* Handles a frame that is known to be the peer's. */
yk_status yk__ofi_take(yk_tr *t, uint32_t peer, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error);
/* Gives an operation up, and frees it. */
void yk__ofi_cancel(yk_tr *t, yk_tr_op *op);
/* Fails all operations with an unreachable peer, with its `why`. */
void yk__ofi_fail_peer(yk_tr *t, uint32_t peer);

#endif
