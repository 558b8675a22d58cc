/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a pipe. Whoever prints is held up by who does not read, as it would be without a launcher between. */
#include "config.h"

#include "core/launch/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 16 /* reads in one call: others have something to say too */

yk_status yk__lines_open(yk__lines *lines, int *writer, yk_error *err)
{
    int fd[2];
    *lines = (yk__lines){.fd = -1};
    if (pipe2(fd, O_CLOEXEC))
        return yk__fail(err, YK_E_IO, "a pipe for what a rank prints: %s", strerror(errno));
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    lines->fd = fd[0];
    *writer = fd[1];
    return YK_OK;
}

void yk__lines_close(yk__lines *lines)
{
    if (lines->fd >= 0)
        close(lines->fd);
    lines->fd = -1;
}

/* Hands over `bytes` from the front; the zero behind them is lent. */
static void lines_hand(yk__lines *lines, size_t bytes, yk__line_take take, void *context)
{
    const char next = lines->text[bytes];
    lines->text[bytes] = 0;
    take(context, lines->text, bytes);
    lines->text[bytes] = next;
    lines->used -= bytes;
    memmove(lines->text, lines->text + bytes, lines->used);
}

static void lines_split(yk__lines *lines, yk__line_take take, void *context)
{
    const char *end;
    while ((end = memchr(lines->text, '\n', lines->used)))
        lines_hand(lines, (size_t)(end - lines->text) + 1, take, context);
    if (lines->used == sizeof lines->text - 1)
        lines_hand(lines, lines->used, take, context);
}

void yk__lines_pump(yk__lines *lines, yk__line_take take, void *context)
{
    for (int i = 0; lines->fd >= 0 && i < ROUNDS; i++) {
        const ssize_t n = read(lines->fd, lines->text + lines->used, sizeof lines->text - 1 - lines->used);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0) {
            lines->used += (size_t)n;
            lines_split(lines, take, context);
            continue;
        }
        if (lines->used)
            lines_hand(lines, lines->used, take, context);
        yk__lines_close(lines);
    }
}

bool yk__write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EAGAIN) { /* somebody made it non-blocking */
            struct pollfd p = {fd, POLLOUT, 0};
            poll(&p, 1, -1);
        } else if (n < 0 && errno != EINTR)
            return false;
        else if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        }
    }
    return true;
}
