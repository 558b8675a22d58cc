/* SPDX-License-Identifier: Apache-2.0 */
/* A stream as such: which it is, where it leads, its end. */
#include "config.h"

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/sock/internal.h"

void yk__sock_hang_up(yk__sock_stream *stream)
{
    close(stream->fd);
    stream->fd = -1;
}

bool yk__sock_carries_segments(const yk_tr *t, const yk__sock_stream *stream)
{
    return stream->number > 0 || t->streams == 1;
}

void yk__sock_print_peer(const yk__sock_stream *stream, char *to, size_t capacity)
{
    char host[64] = "?", port[8] = "?";
    struct sockaddr_storage a;
    socklen_t bytes = sizeof a;
    if (!getpeername(stream->fd, (struct sockaddr *)&a, &bytes))
        getnameinfo((const struct sockaddr *)&a, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(to, capacity, "%s:%s", host, port);
}
