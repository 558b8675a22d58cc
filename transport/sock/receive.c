/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of the sock transport's streams. sock.c calls yk__sock_read under the lock when the kernel has bytes of a stream.
 *
 * Whole heads and short messages are read through the stream's buffer. The payload of a segment goes from the buffer, then directly from
 * the socket, to its place. The MAC of each part is checked before use, except on streams without MACs.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/sock/sock_internal.h"

enum { ROUNDS = 16 }; /* reads of one stream in a row, for fairness */

static yk_status fail_damaged(const yk_tr *t, const yk__sock_stream *stream, yk_tr_error *error)
{
    const yk__match_head *h = &stream->in.head;
    return yk__tr_fail(error, YK_E_FORMAT, "rank %u sent a frame on stream %u that rank %u cannot take: kind %u, %u bytes of %llu at "
                       "%llu", stream->peer, stream->number, t->base.rank, h->kind, h->bytes, (unsigned long long)h->total,
                       (unsigned long long)h->place);
}

static yk_status fail_unproven(const yk_tr *t, const yk__sock_stream *stream, yk_tr_error *error)
{
    return yk__tr_fail(error, YK_E_FORMAT, "what came to rank %u from rank %u on stream %u (%s) is not what that rank sent: part %llu was "
                       "changed on its way, is repeated, or others are missing; the job cannot trust this connection", t->base.rank,
                       stream->peer, stream->number, stream->line.other, (unsigned long long)stream->in.number);
}

static bool head_fits(const yk_tr *t, const yk__sock_stream *stream)
{
    const bool segment = stream->in.head.kind == YK__MATCH_SEGMENT;
    if (stream->in.head.kind >= YK__MATCH_KINDS)
        return stream->in.head.kind <= YK__SOCK_BYE && !stream->in.head.bytes;
    return yk__match_head_fits(&stream->in.head, YK__SOCK_SEGMENT) &&
           (segment ? yk__sock_carries_segments(t, stream) : stream->number == 0);
}

/* ---- Parts of a frame, from the stream's buffer -------------------------------------------------------------------- */

static bool mac_fits(yk__sock_input *in, const uint8_t *data, size_t bytes)
{
    uint8_t mac[YK__MAC_BYTES];
    if (!in->mac_bytes)
        return true;
    yk__mac_of(in->key, in->number, data, bytes, mac);
    if (!yk__auth_equal(mac, data + bytes, YK__MAC_BYTES))
        return false;
    in->number++;
    return true;
}

static yk_status take_talk(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    const yk__match_head *head = &stream->in.head;
    yk_status s;
    stream->line.leaves = stream->line.leaves || head->kind == YK__SOCK_BYE;
    if (head->kind >= YK__MATCH_KINDS)
        return YK_OK;
    s = yk__match_take(&t->peer[stream->peer].match, head, NULL, error);
    if (s || head->kind != YK__MATCH_ASK)
        return s;
    return yk__sock_write_peer(t, stream->peer, error);
}

static yk_status begin_segment(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    bool fits;
    in->state = YK__SOCK_AT_SEGMENT;
    in->got = 0;
    in->op = yk__match_segment_recv(&t->peer[stream->peer].match, &in->head, &fits);
    if (in->mac_bytes)
        yk__mac_begin(&in->mac, in->key, in->number);
    return fits ? YK_OK : fail_damaged(t, stream, error);
}

static yk_status take_head(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    const uint8_t *from = in->data + in->begin;
    if (!mac_fits(in, from, YK__MATCH_HEAD))
        return fail_unproven(t, stream, error);
    in->begin += YK__MATCH_HEAD + in->mac_bytes;
    in->head = yk__match_head_decode(from);
    if (!head_fits(t, stream))
        return fail_damaged(t, stream, error);
    if (in->head.kind == YK__MATCH_SEGMENT)
        return begin_segment(t, stream, error);
    if (!in->head.bytes)
        return take_talk(t, stream, error);
    in->state = YK__SOCK_AT_SHORT;
    return YK_OK;
}

static yk_status take_short(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    const uint8_t *from = in->data + in->begin;
    if (!mac_fits(in, from, in->head.bytes))
        return fail_unproven(t, stream, error);
    in->begin += in->head.bytes + in->mac_bytes;
    in->state = YK__SOCK_AT_HEAD;
    return yk__match_take(&t->peer[stream->peer].match, &in->head, from, error);
}

/* Counts bytes of a segment that lie at `from`. */
static void segment_got(yk__sock_input *in, const uint8_t *from, size_t bytes)
{
    if (in->mac_bytes)
        yk__mac_add(&in->mac, from, bytes);
    in->got += (uint32_t)bytes;
    if (in->got == in->head.bytes)
        in->state = YK__SOCK_AT_TAIL;
}

static void take_payload(yk__sock_input *in)
{
    const size_t left = in->head.bytes - in->got, have = in->end - in->begin, n = left < have ? left : have;
    if (in->op && n)
        memcpy(in->op->data + in->head.place + in->got, in->data + in->begin, n);
    segment_got(in, in->data + in->begin, n);
    in->begin += n;
}

/* Checks the MAC of a segment against the received bytes, and its last byte. */
static bool tail_fits(yk__sock_input *in)
{
    const uint8_t *tail = in->data + in->begin;
    uint8_t mac[YK__MAC_BYTES];
    if (!in->mac_bytes)
        return true;
    yk__mac_add(&in->mac, tail, 1);
    yk__mac_end(&in->mac, mac);
    if (!yk__auth_equal(mac, tail + 1, YK__MAC_BYTES))
        return false;
    in->number++;
    return true;
}

static yk_status take_tail(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    yk_tr_op *op = in->op;
    if (!tail_fits(in))
        return fail_unproven(t, stream, error);
    const bool whole = in->data[in->begin];
    in->begin += 1 + in->mac_bytes;
    in->state = YK__SOCK_AT_HEAD;
    in->op = NULL;
    if (op && whole) /* else its sender gave the message up: it is never done */
        yk__match_segment_came(&t->peer[stream->peer].match, op, in->head.bytes);
    return YK_OK;
}

/* Bytes that the buffer needs for the next part. */
static size_t part_bytes(const yk__sock_input *in)
{
    switch (in->state) {
    case YK__SOCK_AT_HEAD:
        return YK__MATCH_HEAD + in->mac_bytes;
    case YK__SOCK_AT_SHORT:
        return in->head.bytes + in->mac_bytes;
    case YK__SOCK_AT_SEGMENT:
        return 1;
    case YK__SOCK_AT_TAIL:
        return 1 + in->mac_bytes;
    }
    return SIZE_MAX;
}

static yk_status take_part(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    switch (stream->in.state) {
    case YK__SOCK_AT_HEAD:
        return take_head(t, stream, error);
    case YK__SOCK_AT_SHORT:
        return take_short(t, stream, error);
    case YK__SOCK_AT_SEGMENT:
        take_payload(&stream->in);
        return YK_OK;
    case YK__SOCK_AT_TAIL:
        return take_tail(t, stream, error);
    }
    return YK_OK;
}

/* Handles all complete parts in the buffer. */
static yk_status take_parts(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    yk_status s = YK_OK;
    while (!s && in->end - in->begin >= part_bytes(in))
        s = take_part(t, stream, error);
    if (in->begin)
        memmove(in->data, in->data + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
    return s;
}

/* ---- From the socket ----------------------------------------------------------------------------------------------- */

/* Reads a segment's payload to its place, and the bytes behind it into the buffer; full: they had room for no more. */
static ssize_t read_parts(yk__sock_stream *stream, bool *full)
{
    yk__sock_input *in = &stream->in;
    const bool direct = in->state == YK__SOCK_AT_SEGMENT && in->op;
    uint8_t *to = direct ? in->op->data + in->head.place + in->got : NULL;
    const size_t left = direct ? in->head.bytes - in->got : 0;
    struct iovec part[2] = {{to, left}, {in->data + in->end, in->capacity - in->end}};
    struct msghdr m = {.msg_iov = direct ? part : part + 1, .msg_iovlen = direct ? 2 : 1};
    ssize_t n;
    do
        n = recvmsg(stream->fd, &m, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        *full = (size_t)n == part[1].iov_len + (direct ? left : 0);
        stream->line.heard += (uint64_t)n;
        const size_t placed = (size_t)n < left ? (size_t)n : left;
        if (placed)
            segment_got(in, to, placed);
        in->end += (size_t)n - placed;
    }
    return n;
}

yk_status yk__sock_read(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk_status s = YK_OK;
    bool full = true; /* else the socket is empty, or epoll reports it again */
    for (int i = 0; i < ROUNDS && !s && full && stream->fd >= 0; i++) {
        const ssize_t n = read_parts(stream, &full);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0)
            yk__sock_hang_up(stream, n ? errno : 0);
        else
            s = take_parts(t, stream, error);
    }
    return s;
}

/* ---- Giving up ----------------------------------------------------------------------------------------------------- */

void yk__sock_detach_recv(yk_tr *t, uint32_t peer, const yk_tr_op *op)
{
    for (uint32_t i = 0; i < t->streams; i++)
        if (t->peer[peer].stream[i].in.op == op)
            t->peer[peer].stream[i].in.op = NULL;
}
