/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: an authenticated connection with what is to be sent and what has come, as frames (frame.h). Nothing waits: what the
 * socket does not take at once stays in the link, up to YK__LINK_QUEUE bytes, and goes with the next flush.
 *
 * Thread rule: one thread at a time per link.
 */
#ifndef YOKE_CORE_NET_LINK_H
#define YOKE_CORE_NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/net/frame.h"
#include "core/net/hello.h"

#define YK__LINK_QUEUE (16u << 20) /* bytes that may wait to be sent; more: the peer takes nothing, the link fails */

typedef struct yk__link {
    int fd; /* -1: closed */
    uint32_t peer;
    yk__frame_channel out, in;
    uint8_t *queue, *came;                       /* bytes to send; bytes that have come */
    size_t queued, sent, queue_cap;              /* queue[sent .. queued) is to go */
    size_t have, used, came_cap;                 /* came[used .. have) is not read yet */
    int64_t silent_ms;                           /* since something came, as the owner counts it; set to 0 by what comes */
} yk__link;

/* Over a socket whose hello is done; the link takes it. */
void yk__link_open(yk__link *link, int fd, const yk__hello *hello);
void yk__link_close(yk__link *link);
/* Queues a frame and sends what the socket takes. */
yk_status yk__link_send(yk__link *link, uint32_t kind, const void *data, uint32_t bytes, yk_error *err);
yk_status yk__link_flush(yk__link *link, yk_error *err);
bool yk__link_waiting(const yk__link *link); /* something is queued */
/* Reads what has come. *ended: the peer has closed the connection; frames that came before are still there. */
yk_status yk__link_read(yk__link *link, bool *ended, yk_error *err);
/* The next frame that is complete; frame->data is NULL when there is none. It stays until the next call. limit: as of
 * yk__frame_open. */
yk_status yk__link_next(yk__link *link, uint32_t limit, yk__frame *frame, yk_error *err);

#endif
