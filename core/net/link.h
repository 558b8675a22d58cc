/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: an authenticated connection with its outgoing and incoming frames (frame.h). No call blocks: bytes that the socket does not
 * accept stay in the link, up to YK__LINK_QUEUE, until the next flush.
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

#define YK__LINK_QUEUE (16u << 20) /* bytes that may wait to be sent; the link fails beyond them, as the peer reads nothing */

typedef struct yk__link {
    int fd; /* -1 once closed */
    uint32_t peer;
    yk__frame_channel out, in;
    uint8_t *queue, *came;                       /* bytes to send; received bytes */
    size_t queued, sent, queue_cap;              /* queue[sent .. queued) is not sent yet */
    size_t have, used, came_cap;                 /* came[used .. have) is not read yet */
    int64_t silent_ms;                           /* ms without a whole frame, counted up by the owner; yk__link_next sets it to 0 */
} yk__link;

/* Takes over a socket after its hello. */
void yk__link_open(yk__link *link, int fd, const yk__hello *hello);
void yk__link_close(yk__link *link);
/* Queues a frame and sends as much as the socket accepts. */
yk_status yk__link_send(yk__link *link, uint32_t kind, const void *data, uint32_t bytes, yk_error *err);
yk_status yk__link_flush(yk__link *link, yk_error *err);
bool yk__link_waiting(const yk__link *link); /* true while bytes are queued */
/* Reads received bytes. *ended: the peer closed the connection; yk__link_next still returns the frames before that. */
yk_status yk__link_read(yk__link *link, bool *ended, yk_error *err);
/* The next complete frame; frame->data is NULL if none is complete, else valid until the next call. limit: see yk__frame_open. */
yk_status yk__link_next(yk__link *link, uint32_t limit, yk__frame *frame, yk_error *err);

#endif
