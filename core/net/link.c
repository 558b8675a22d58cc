/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: an authenticated connection of two hosts, with a buffer for each direction, that never blocks. assemble.c opens it and gathers
 * the ranks over it (core/control/start). The agent's thread then sends and reads frames (core/control/agent.c). Bytes that were sent or
 * read are dropped from the front once the buffer is empty, or more than half used.
 */
#include "config.h"

#include "core/net/link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"

#define READ_BYTES 16384u /* bytes per read; a frame reserves more only after its head announced them */

void yk__link_open(yk__link *link, int fd, const yk__hello *hello)
{
    *link = (yk__link){.fd = fd, .peer = hello->peer};
    yk__frame_channel_init(&link->out, hello->send_key);
    yk__frame_channel_init(&link->in, hello->recv_key);
}

void yk__link_close(yk__link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    yk__auth_wipe(&link->out, sizeof link->out);
    yk__auth_wipe(&link->in, sizeof link->in);
    yk__free(link->queue);
    yk__free(link->came);
    *link = (yk__link){.fd = -1};
}

bool yk__link_waiting(const yk__link *link)
{
    return link->sent < link->queued;
}

static void drop_front(uint8_t *buffer, size_t *from, size_t *end)
{
    if (*from < *end && *from < *end / 2)
        return;
    memmove(buffer, buffer + *from, *end - *from);
    *end -= *from;
    *from = 0;
}

yk_status yk__link_flush(yk__link *link, yk_error *err)
{
    while (yk__link_waiting(link)) {
        const ssize_t n = send(link->fd, link->queue + link->sent, link->queued - link->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EPIPE && errno != ECONNRESET)
            return yk__fail(err, YK_E_IO, "sending to rank %u: %s", link->peer, strerror(errno));
        link->sent = n < 0 ? link->queued : link->sent + (size_t)n; /* after a failed send yk__link_read sees the end, behind the peer's
                                                                     * last frames */
    }
    if (link->sent)
        drop_front(link->queue, &link->sent, &link->queued);
    return YK_OK;
}

yk_status yk__link_send(yk__link *link, uint32_t kind, const void *data, uint32_t bytes, yk_error *err)
{
    const size_t need = link->queued + bytes + YK__FRAME_EXTRA;
    if (need - link->sent > YK__LINK_QUEUE) /* sent bytes may still lie in front, but fewer than waiting ones (drop_front) */
        return yk__fail(err, YK_E_IO, "rank %u takes nothing: %zu bytes wait for it", link->peer, link->queued - link->sent);
    if (yk__grow(&link->queue, &link->queue_cap, need, 1))
        return yk__fail_mem(err, need, "messages to other hosts");
    link->queued += yk__frame_seal(&link->out, kind, data, bytes, link->queue + link->queued);
    return yk__link_flush(link, err);
}

yk_status yk__link_read(yk__link *link, bool *ended, yk_error *err)
{
    *ended = false;
    for (;;) {
        if (yk__grow(&link->came, &link->came_cap, link->have + READ_BYTES, 1))
            return yk__fail_mem(err, link->have + READ_BYTES, "messages of other hosts");
        const ssize_t n = recv(link->fd, link->came + link->have, READ_BYTES, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return YK_OK;
        if (n < 0 && errno != ECONNRESET && errno != EPIPE)
            return yk__fail(err, YK_E_IO, "receiving from rank %u: %s", link->peer, strerror(errno));
        *ended = n <= 0;
        if (*ended)
            return YK_OK;
        link->have += (size_t)n;
        if (link->have - link->used >= YK__FRAME_MOST) /* a whole frame is here: the caller takes it first */
            return YK_OK;
    }
}

yk_status yk__link_next(yk__link *link, uint32_t limit, yk__frame *frame, yk_error *err)
{
    uint32_t need = 0;
    if (link->used)
        drop_front(link->came, &link->used, &link->have);
    if (yk__frame_open(&link->in, link->came + link->used, link->have - link->used, limit, frame, &need, err))
        return yk__fail_in(err, "from rank %u", link->peer);
    if (frame->data) {
        link->used += need;
        link->silent_ms = 0;
    }
    return YK_OK;
}
