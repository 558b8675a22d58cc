/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a pipe. It takes a process's output line by line, so that lines of several ranks are not torn, and writes lines to an outlet
 * that may be slow. A slow reader blocks the writer, as on a plain pipe.
 *
 * spawn.c and peer.c open pipes; the loops of the node (node_io.c) and of the launcher (remote.c) pump them. One thread.
 */
#include "config.h"

#include "core/launch/pipe_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define ROUNDS 16 /* reads in one call: other descriptors need service too */

yk_status yk__lines_open(yk__lines *lines, int *writer, yk_error *err)
{
    int fd[2];
    *lines = (yk__lines){.fd = -1};
    if (pipe2(fd, O_CLOEXEC))
        return yk__fail(err, YK_E_IO, "a pipe for a rank's output: %s", yk__limit_reason(errno).text);
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

/* Hands over `bytes` from the front; the zero behind them is temporary. */
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

bool yk__lines_pump(yk__lines *lines, yk__line_take take, void *context)
{
    bool came = false;
    for (int i = 0; lines->fd >= 0 && i < ROUNDS; i++) {
        const ssize_t n = read(lines->fd, lines->text + lines->used, sizeof lines->text - 1 - lines->used);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return came;
        if (n > 0) {
            came = true;
            lines->used += (size_t)n;
            lines_split(lines, take, context);
            continue;
        }
        if (lines->used)
            lines_hand(lines, lines->used, take, context);
        yk__lines_close(lines);
    }
    return came;
}

bool yk__write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EAGAIN) { /* another process made it non-blocking */
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

/* ---- Output to a possibly absent reader -------------------------------------------------------------------------- */

/* Opens a pipe or a terminal anew: O_NONBLOCK belongs to the open file, to which ranks and the caller write as well. */
void yk__outlet_open(yk__outlet *outlet, int fd)
{
    char path[32];
    struct stat st;
    *outlet = (yk__outlet){.fd = fd};
    if (fstat(fd, &st))
        return;
    outlet->socket = S_ISSOCK(st.st_mode);
    if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const int anew = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (anew >= 0) {
        outlet->fd = anew;
        outlet->own = true;
    }
}

size_t yk__outlet_waits(const yk__outlet *outlet)
{
    return outlet->fd < 0 ? 0 : outlet->used - outlet->begin;
}

bool yk__outlet_full(const yk__outlet *outlet)
{
    return yk__outlet_waits(outlet) >= YK__OUTLET_FULL;
}

/* Without a descriptor of its own, the outlet writes as much as a writable pipe takes without a wait. */
static ssize_t outlet_write(const yk__outlet *outlet)
{
    const char *text = outlet->text + outlet->begin;
    const size_t bytes = outlet->used - outlet->begin;
    struct pollfd p = {outlet->fd, POLLOUT, 0};
    if (outlet->socket)
        return send(outlet->fd, text, bytes, MSG_DONTWAIT);
    if (outlet->own)
        return write(outlet->fd, text, bytes);
    if (poll(&p, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(outlet->fd, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
}

void yk__outlet_flush(yk__outlet *outlet)
{
    while (yk__outlet_waits(outlet)) {
        const ssize_t n = outlet_write(outlet);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0 && errno != EINTR) {
            outlet->failed = errno == EPIPE ? 0 : errno;
            outlet->lost += outlet->failed != 0;
            if (outlet->own)
                close(outlet->fd);
            outlet->fd = -1;
            return;
        }
        outlet->begin += n > 0 ? (size_t)n : 0;
    }
    outlet->begin = outlet->used = 0;
}

void yk__outlet_put(yk__outlet *outlet, const char *text, size_t bytes)
{
    if (outlet->begin) {
        memmove(outlet->text, outlet->text + outlet->begin, outlet->used - outlet->begin);
        outlet->used -= outlet->begin;
        outlet->begin = 0;
    }
    if (outlet->fd >= 0 && (outlet->used + bytes > YK__OUTLET_MOST ||
                            yk__grow(&outlet->text, &outlet->capacity, outlet->used + bytes, 1))) {
        outlet->lost++;
        return;
    }
    if (outlet->fd < 0) {
        outlet->lost += outlet->failed != 0;
        return;
    }
    memcpy(outlet->text + outlet->used, text, bytes);
    outlet->used += bytes;
    yk__outlet_flush(outlet);
}

void yk__outlet_drain(yk__outlet *outlet, int ms)
{
    size_t before;
    do {
        struct pollfd p = {outlet->fd, POLLOUT, 0};
        before = yk__outlet_waits(outlet);
        if (before && poll(&p, 1, ms) > 0)
            yk__outlet_flush(outlet);
    } while (yk__outlet_waits(outlet) && yk__outlet_waits(outlet) < before);
    outlet->lost += yk__outlet_waits(outlet) > 0;
    outlet->begin = outlet->used = 0;
}

void yk__outlet_close(yk__outlet *outlet)
{
    if (outlet->own && outlet->fd >= 0)
        close(outlet->fd);
    yk__free(outlet->text);
    *outlet = (yk__outlet){.fd = -1};
}

/* True if the reader took the whole text within ms. */
static bool text_put(int fd, const char *text, size_t bytes, int ms)
{
    yk__outlet outlet;
    yk__outlet_open(&outlet, fd);
    yk__outlet_put(&outlet, text, bytes);
    yk__outlet_drain(&outlet, ms);
    const bool taken = !outlet.lost;
    yk__outlet_close(&outlet);
    return taken;
}

void yk__launch_tell(const char *who, const char *text)
{
    static bool unread;
    char *line = yk__format("%s: %s", who, text);
    if (!line)
        return;
    if (!yk__log_give(line)) {
        const size_t n = strlen(line);
        line[n] = '\n'; /* in the place of the end */
        unread = !text_put(STDERR_FILENO, line, n + 1, unread ? 0 : YK__TELL_MS);
    }
    yk__free(line);
}

bool yk__launch_print(const char *text, size_t bytes)
{
    fflush(stdout);
    return text_put(STDOUT_FILENO, text, bytes, YK__TELL_MS);
}
