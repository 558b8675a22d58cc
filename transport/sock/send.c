/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output of the sock transport's streams. sock.c and receive.c call it under the lock, when an operation begins, a frame is due, or a
 * socket takes bytes again.
 *
 * A stream first writes the rest of a segment, then ready frames. Then stream 0 writes the next short message or announcement, and segment
 * streams write the next segment. A short message is sent as a whole: the bytes that the socket refuses are copied, and the message is
 * done. So only long messages are ever given up half-way: zeros replace the rest of a segment, and its last byte says so. The MAC of a
 * segment is computed after its payload is written, while the other end reads it. Streams without MACs leave them out.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/mem.h"
#include "transport/sock/sock_internal.h"

static const uint8_t zeros[4096];

static uint32_t head_bytes(const yk__sock_output *out)
{
    return YK__MATCH_HEAD + out->mac_bytes;
}

/* Encodes a head and its MAC. */
static void head_seal(yk__sock_output *out, const yk__match_head *head, uint8_t to[YK__SOCK_HEAD])
{
    yk__match_head_encode(head, to);
    if (out->mac_bytes)
        yk__mac_of(out->key, out->number++, to, YK__MATCH_HEAD, to + YK__MATCH_HEAD);
}

/* Returns the number of bytes that the socket took; a failed stream takes none and is hung up. */
static size_t stream_write(yk__sock_stream *stream, const struct iovec *part, size_t parts, bool more)
{
    const struct msghdr m = {.msg_iov = (struct iovec *)part, .msg_iovlen = parts};
    ssize_t n;
    do
        n = sendmsg(stream->fd, &m, more ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0) {
        stream->line.sent += (uint64_t)n;
        return (size_t)n;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        stream->out.blocked = true;
    else
        yk__sock_hang_up(stream, errno);
    return 0;
}

/* ---- Ready frames -------------------------------------------------------------------------------------------------- */

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
    if (out->begin == out->end) /* its memory may not exist yet */
        return true;
    const struct iovec part = {out->data + out->begin, out->end - out->begin};
    out->begin += stream_write(stream, &part, 1, false);
    return out->begin == out->end;
}

static yk_status say_frame(yk_tr *t, yk__sock_stream *stream, const yk__match_head *what, yk_tr_error *error)
{
    uint8_t head[YK__SOCK_HEAD];
    if (stream->fd < 0)
        return YK_OK;
    head_seal(&stream->out, what, head);
    if (output_append(&stream->out, head, head_bytes(&stream->out), error))
        return YK_E_MEM;
    return stream->out.blocked ? YK_OK : yk__sock_write(t, stream, error); /* epoll reports a blocked stream later */
}

yk_status yk__sock_say(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error)
{
    return say_frame(t, &t->peer[peer].stream[0], &(yk__match_head){.kind = kind, .number = number}, error);
}

yk_status yk__sock_say_on(yk_tr *t, yk__sock_stream *stream, uint32_t kind, yk_tr_error *error)
{
    return say_frame(t, stream, &(yk__match_head){.kind = kind}, error);
}

/* ---- Short messages and announcements ----------------------------------------------------------------------------- */

/* Copies the part of a frame that the socket refused. */
static yk_status keep_rest(yk__sock_output *out, const struct iovec *part, size_t parts, size_t written, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (size_t i = 0; i < parts && !s; i++) {
        const size_t skip = written < part[i].iov_len ? written : part[i].iov_len;
        written -= skip;
        if (skip < part[i].iov_len)
            s = output_append(out, (const uint8_t *)part[i].iov_base + skip, part[i].iov_len - skip, error);
    }
    return s;
}

static yk_status write_next(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_output *out = &stream->out;
    yk__match *match = &t->peer[stream->peer].match;
    uint8_t head[YK__SOCK_HEAD], tail[YK__MAC_BYTES];
    yk__match_head next = {0};
    yk_tr_op *op = yk__match_next_send(match, &next);
    const struct iovec part[3] = {{head, head_bytes(out)}, {op->data, next.bytes}, {tail, next.bytes ? out->mac_bytes : 0}};
    size_t written;
    yk_status s = YK_OK;
    head_seal(out, &next, head);
    if (part[2].iov_len)
        yk__mac_of(out->key, out->number++, op->data, next.bytes, tail);
    written = stream_write(stream, part, 3, false);
    if (stream->fd >= 0)
        s = keep_rest(out, part, 3, written, error);
    if (next.kind == YK__MATCH_SHORT)
        yk__match_finish(match, op);
    return s;
}

/* ---- Segments ----------------------------------------------------------------------------------------------------- */

/* Opens the next segment of the first long message that has one left. */
static bool open_segment(yk_tr *t, yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    yk__match_head head;
    yk_tr_op *op = yk__match_next_segment(&t->peer[stream->peer].match, YK__SOCK_SEGMENT, &head);
    if (!op)
        return false;
    out->open = true;
    out->op = op;
    out->written = 0;
    out->bytes = head.bytes;
    out->place = head.place;
    head_seal(out, &head, out->head);
    if (out->mac_bytes)
        yk__mac_begin(&out->mac, out->key, out->number++);
    return true;
}

static void close_segment(yk_tr *t, yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    yk_tr_op *op = out->op;
    out->open = false;
    out->op = NULL;
    if (op)
        yk__match_segment_sent(&t->peer[stream->peer].match, op, out->bytes);
}

/* Writes head and payload. The tail is the last byte and the MAC; without a MAC it needs no call of its own. */
static void write_payload(yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    const uint32_t head = head_bytes(out), head_left = out->written < head ? head - out->written : 0;
    const uint32_t payload_at = head_left ? 0 : out->written - head, left = out->bytes - payload_at;
    struct iovec part[3] = {{out->head + (head - head_left), head_left}, {NULL, left}, {out->tail, out->mac_bytes ? 0 : 1}};
    size_t n;
    part[1].iov_base = out->op ? out->op->data + out->place + payload_at : (void *)zeros;
    out->tail[0] = out->op != NULL;
    if (!out->op && left > sizeof zeros) {
        part[1].iov_len = sizeof zeros;
        part[2].iov_len = 0;
    }
    n = stream_write(stream, part, 3, out->mac_bytes > 0);
    out->written += (uint32_t)n;
    if (out->mac_bytes && n > head_left)
        yk__mac_add(&out->mac, part[1].iov_base, n - head_left);
    if (out->mac_bytes && out->written == head + out->bytes) {
        yk__mac_add(&out->mac, out->tail, 1);
        yk__mac_end(&out->mac, out->tail + 1);
    }
}

static void write_tail(yk__sock_stream *stream)
{
    yk__sock_output *out = &stream->out;
    const uint32_t written = out->written - head_bytes(out) - out->bytes;
    const struct iovec tail = {out->tail + written, 1 + out->mac_bytes - written};
    if (tail.iov_len)
        out->written += (uint32_t)stream_write(stream, &tail, 1, false);
}

static void write_segment(yk_tr *t, yk__sock_stream *stream)
{
    const yk__sock_output *out = &stream->out;
    const uint32_t payload_end = head_bytes(out) + out->bytes;
    if (out->written < payload_end)
        write_payload(stream);
    if (out->written < payload_end || stream->fd < 0)
        return;
    write_tail(stream);
    if (out->written == payload_end + 1 + out->mac_bytes)
        close_segment(t, stream);
}

/* ---- A stream ----------------------------------------------------------------------------------------------------- */

/* Writes one item; *idle: no item is left. */
static yk_status write_some(yk_tr *t, yk__sock_stream *stream, bool *idle, yk_tr_error *error)
{
    if (stream->out.open) {
        write_segment(t, stream);
        return YK_OK;
    }
    if (!write_ready(stream))
        return YK_OK;
    if (stream->number == 0 && t->peer[stream->peer].match.sends)
        return write_next(t, stream, error);
    *idle = !yk__sock_carries_segments(t, stream) || !open_segment(t, stream);
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
        if (!t->peer[peer].stream[i].out.blocked) /* epoll reports a blocked stream later */
            s = yk__sock_write(t, &t->peer[peer].stream[i], error);
    return s;
}

bool yk__sock_unwritten(const yk_tr *t)
{
    for (uint32_t r = 0; r < t->base.ranks; r++)
        for (uint32_t i = 0; i < t->streams; i++) {
            const yk__sock_stream *stream = &t->peer[r].stream[i];
            if (stream->fd >= 0 && stream->out.begin != stream->out.end)
                return true;
        }
    return false;
}

void yk__sock_detach_send(yk_tr *t, const yk_tr_op *op)
{
    for (uint32_t i = 0; i < t->streams; i++)
        if (t->peer[op->peer].stream[i].out.op == op)
            t->peer[op->peer].stream[i].out.op = NULL;
}
