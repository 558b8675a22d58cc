/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stream of the sock transport, a TCP connection between two ranks: options and addresses at its beginning, its end. connect.c begins
 * streams, and the files beside it hang up after a failure, under the transport's lock. With several streams to a peer the first carries
 * no segments, the parts of long messages.
 */
#include "config.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "transport/sock/sock_internal.h"

enum { LOSSY = 500 }; /* a stream is lossy if it loses more than one packet of so many */

/* Sets options: small frames leave at once. A thin stream repeats lost packets at a constant interval, as growing intervals would look
 * like a line that carries nothing. */
static void options_set(int fd)
{
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
}

static void address_print(int fd, int (*name)(int, struct sockaddr *, socklen_t *), char to[YK__WATCH_ADDRESS])
{
    char host[48] = "?", port[8] = "?";
    struct sockaddr_storage a;
    socklen_t bytes = sizeof a;
    if (!name(fd, (struct sockaddr *)&a, &bytes))
        getnameinfo((const struct sockaddr *)&a, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(to, YK__WATCH_ADDRESS, "%s:%s", host, port);
}

yk_status yk__sock_stream_begin(yk__sock_stream *stream, int fd, yk_tr_error *error)
{
    stream->in.capacity = stream->number ? YK__SOCK_INPUT_SEGMENTS : YK__SOCK_INPUT;
    stream->in.data = yk__malloc(stream->in.capacity);
    if (!stream->in.data)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a stream to rank %u)", stream->peer);
    options_set(fd);
    address_print(fd, getsockname, stream->line.own);
    address_print(fd, getpeername, stream->line.other);
    stream->fd = fd;
    return YK_OK;
}

void yk__sock_hang_up(yk__sock_stream *stream, int error)
{
    close(stream->fd);
    stream->fd = -1;
    yk__line_end(&stream->line, error ? strerror(error) : "it was closed from outside");
}

bool yk__sock_loses_packets(const yk__sock_stream *stream)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    memset(&info, 0, sizeof info); /* an older kernel fills only a part */
    return stream->fd >= 0 && !getsockopt(stream->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) &&
           ((uint64_t)info.tcpi_total_retrans + info.tcpi_rcv_ooopack) * LOSSY > (uint64_t)info.tcpi_segs_out + info.tcpi_segs_in;
}

bool yk__sock_carries_segments(const yk_tr *t, const yk__sock_stream *stream)
{
    return stream->number > 0 || t->streams == 1;
}
