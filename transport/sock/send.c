/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes out. A stream writes in this order: the segment it has begun, frames that lie ready, then (stream 0) the next short message
 * or announcement, then (streams of data) the next segment. A short message is handed over as a whole: what the socket does not take is
 * copied, and the message is done. So only long messages are ever given up half-way.
 */
#include "config.h"

#include "transport/sock/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/mem.h"
#include "core/net/bytes.h"

static const uint8_t zeros[4096];

static void head_encode(const yk__sock_head *head, uint8_t to[YK__SOCK_HEAD])
{
    yk__bytes_put32(to, head->kind);
    yk__bytes_put32(to + 4, head->bytes);
    yk__bytes_put64(to + 8, head->tag);
    yk__bytes_put64(to + 16, head->total);
    yk__bytes_put64(to + 24, head->number);
    yk__bytes_put64(to + 32, head->place);
}

/* How many of the bytes the socket took; a stream that has failed takes none and is hung up. */
static size_t stream_write(yk__sock_stream *stream, const struct iovec *part, size_t parts)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)part, .msg_iovlen = parts};
    ssize_t n;
    do
        n = sendmsg(stream->fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0)
        return (size_t)n;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        stream->out.blocked = true;
    else
        yk__sock_hang_up(stream);
    return 0;
}

/* ---- Frames that lie ready ---------------------------------------------------------------------------------------- */

static yk_status output_append(yk__sock_output *out, const uint8_t *data, size_t bytes, yk_tr_error *error)
{
    if (out->begin == out->end)
        out->begin = out->end = 0;
    if (yk__grow(&out->data, &out->capacity, out->end + bytes, 1))
        return yk__tr_fail(error, YK_E_MEM, "out of memory (%zu bytes to be sent)", bytes);
    memcpy(out->data + out->end, data, bytes);
    out->end += bytes;
    return YK_OK;
}

static bool write_ready(yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    const struct iovec part = {out->data + out->begin, out->end - out->begin};
    if (part.iov_len)
        out->begin += stream_write(stream, &part, 1);
    return out->begin == out->end;
}

yk_status yk__sock_say(yk_tr *t, uint32_t peer, yk__sock_kind kind, uint64_t number, yk_tr_error *error)
{
    yk__sock_stream *stream = &t->peer[peer].stream[0];
    uint8_t head[YK__SOCK_HEAD];
    if (stream->fd < 0)
        return YK_OK;
    head_encode(&(yk__sock_head){.kind = kind, .number = number}, head);
    return output_append(&stream->out, head, sizeof head, error);
}

/* ---- Short messages and announcements ----------------------------------------------------------------------------- */

static yk_status write_short(yk_tr *t, yk__sock_stream *stream, yk_tr_op *op, yk_tr_error *error)
{
    uint8_t head[YK__SOCK_HEAD];
    const struct iovec part[2] = {{head, sizeof head}, {op->data, op->bytes}};
    size_t written;
    yk_status s = YK_OK;
    head_encode(&(yk__sock_head){.kind = YK__SOCK_SHORT, .bytes = (uint32_t)op->bytes, .tag = op->tag, .total = op->bytes}, head);
    written = stream_write(stream, part, 2);
    if (stream->fd < 0)
        return YK_OK;
    if (written < sizeof head)
        s = output_append(&stream->out, head + written, sizeof head - written, error);
    written = written > sizeof head ? written - sizeof head : 0;
    if (!s && written < op->bytes)
        s = output_append(&stream->out, op->data + written, op->bytes - written, error);
    if (s)
        return s; /* half a frame is out: the transport has failed */
    yk__tr_unlink(&t->peer[op->peer].sends, op);
    op->moved = op->bytes;
    yk__sock_finish(t, op);
    return YK_OK;
}

static yk_status announce_long(yk_tr *t, yk__sock_stream *stream, yk_tr_op *op, yk_tr_error *error)
{
    uint8_t head[YK__SOCK_HEAD];
    head_encode(&(yk__sock_head){.kind = YK__SOCK_ANNOUNCE, .tag = op->tag, .total = op->bytes, .number = op->number}, head);
    if (output_append(&stream->out, head, sizeof head, error))
        return YK_E_MEM;
    op->begun = true;
    yk__tr_unlink(&t->peer[op->peer].sends, op);
    yk__tr_append(&t->peer[op->peer].announced, op);
    return YK_OK;
}

static yk_status write_next(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk_tr_op *op = t->peer[stream->peer].sends;
    return op->bytes > YK__SOCK_EAGER ? announce_long(t, stream, op, error) : write_short(t, stream, op, error);
}

/* ---- Segments ----------------------------------------------------------------------------------------------------- */

void yk__sock_asked(yk_tr *t, uint32_t peer, uint64_t number, bool wanted)
{
    yk__sock_peer *p = &t->peer[peer];
    yk_tr_op *op = p->announced;
    while (op && op->number != number)
        op = op->next;
    if (!op)
        return;
    yk__tr_unlink(&p->announced, op);
    if (wanted) {
        yk__tr_append(&p->asked, op);
    } else {
        op->moved = op->bytes;
        yk__sock_finish(t, op);
    }
}

/* The next segment of the first long message that has one left. */
static bool open_segment(const yk_tr *t, yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    yk_tr_op *op = t->peer[stream->peer].asked;
    uint64_t left;
    while (op && op->queued == op->bytes)
        op = op->next;
    if (!op)
        return false;
    left = op->bytes - op->queued;
    out->open = true;
    out->op = op;
    out->written = 0;
    out->bytes = left < YK__SOCK_SEGMENT ? (uint32_t)left : YK__SOCK_SEGMENT;
    out->place = op->queued;
    op->queued += out->bytes;
    head_encode(&(yk__sock_head){.kind = YK__SOCK_SEGMENTS, .bytes = out->bytes, .tag = op->tag, .total = op->bytes,
                                 .number = op->number, .place = out->place}, out->head);
    return true;
}

static void close_segment(yk_tr *t, yk__sock_output *out)
{
    yk_tr_op *op = out->op;
    out->open = false;
    out->op = NULL;
    if (!op)
        return;
    op->moved += out->bytes;
    if (op->moved == op->bytes) {
        yk__tr_unlink(&t->peer[op->peer].asked, op);
        yk__sock_finish(t, op);
    }
}

static void write_segment(yk_tr *t, yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    const uint32_t head_left = out->written < YK__SOCK_HEAD ? YK__SOCK_HEAD - out->written : 0;
    const uint32_t payload_at = head_left ? 0 : out->written - YK__SOCK_HEAD, left = out->bytes - payload_at;
    struct iovec part[2] = {{out->head + (YK__SOCK_HEAD - head_left), head_left}, {NULL, left}};
    part[1].iov_base = out->op ? out->op->data + out->place + payload_at : (void *)zeros;
    if (!out->op && left > sizeof zeros)
        part[1].iov_len = sizeof zeros;
    out->written += (uint32_t)stream_write(stream, part, 2);
    if (out->written == YK__SOCK_HEAD + out->bytes)
        close_segment(t, out);
}

/* ---- A stream ----------------------------------------------------------------------------------------------------- */

/* The first is for the short ones alone where there are others. */
static bool stream_carries_segments(const yk_tr *t, const yk__sock_stream *stream)
{
    return stream->number > 0 || t->streams == 1;
}

/* Writes something; *idle: there is nothing. */
static yk_status write_some(yk_tr *t, yk__sock_stream *stream, bool *idle, yk_tr_error *error)
{
    if (stream->out.open) {
        write_segment(t, stream);
        return YK_OK;
    }
    if (!write_ready(stream))
        return YK_OK;
    if (stream->number == 0 && t->peer[stream->peer].sends)
        return write_next(t, stream, error);
    *idle = !stream_carries_segments(t, stream) || !open_segment(t, stream);
    return YK_OK;
}

static void watch_output(const yk_tr *t, yk__sock_stream *stream, bool was_blocked)
{
    struct epoll_event e = {.events = EPOLLIN | (stream->out.blocked ? (uint32_t)EPOLLOUT : 0u), .data.ptr = stream};
    if (stream->fd >= 0 && stream->out.blocked != was_blocked)
        epoll_ctl(t->poll, EPOLL_CTL_MOD, stream->fd, &e);
}

yk_status yk__sock_write(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    const bool was_blocked = stream->out.blocked;
    bool idle = stream->fd < 0;
    yk_status s = YK_OK;
    stream->out.blocked = false;
    while (!s && !idle && stream->fd >= 0 && !stream->out.blocked)
        s = write_some(t, stream, &idle, error);
    watch_output(t, stream, was_blocked);
    return s;
}

yk_status yk__sock_write_peer(yk_tr *t, uint32_t peer, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (uint32_t i = 0; i < t->streams && !s; i++)
        if (!t->peer[peer].stream[i].out.blocked) /* else epoll says when */
            s = yk__sock_write(t, &t->peer[peer].stream[i], error);
    return s;
}

bool yk__sock_unwritten(const yk_tr *t)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        for (uint32_t i = 0; i < t->streams; i++) {
            const yk__sock_stream *stream = &t->peer[r].stream[i];
            if (stream->fd >= 0 && stream->out.begin != stream->out.end)
                return true;
        }
    return false;
}

/* ---- Giving up ---------------------------------------------------------------------------------------------------- */

void yk__sock_cancel_send(yk_tr *t, yk_tr_op *op)
{
    yk__sock_peer *p = &t->peer[op->peer];
    if (op->done)
        return;
    yk__tr_unlink(&p->sends, op);
    yk__tr_unlink(&p->announced, op);
    yk__tr_unlink(&p->asked, op);
    for (uint32_t i = 0; i < t->streams; i++)
        if (p->stream[i].out.op == op)
            p->stream[i].out.op = NULL;
    if (op->begun && !t->failed) {
        t->failed = yk__sock_say(t, op->peer, YK__SOCK_REVOKE, op->number, &t->why);
        if (!t->failed)
            t->failed = yk__sock_write_peer(t, op->peer, &t->why);
    }
}
