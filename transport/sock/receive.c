/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in. Heads are read through a buffer of the stream; payload goes from it, and then from the socket, to where it belongs.
 * What nobody has asked for is kept: of a short message the bytes, of a long one that it was announced.
 */
#include "config.h"

#include "transport/sock/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/mem.h"
#include "core/net/bytes.h"

enum { ROUNDS = 16 }; /* reads of one stream before others have their turn */

static yk_status fail_damaged(const yk_tr *t, const yk__sock_stream *stream, yk_tr_error *error)
{
    return yk__tr_fail(error, YK_E_FORMAT, "rank %u sent a frame on stream %u that rank %u cannot take: kind %u, %u bytes of %llu at "
                         "%llu", stream->peer, stream->number, t->rank, stream->in.head.kind, stream->in.head.bytes,
                         (unsigned long long)stream->in.head.total, (unsigned long long)stream->in.head.place);
}

static yk__sock_head head_decode(const uint8_t *from)
{
    return (yk__sock_head){.kind = yk__bytes_get32(from), .bytes = yk__bytes_get32(from + 4), .tag = yk__bytes_get64(from + 8),
                           .total = yk__bytes_get64(from + 16), .number = yk__bytes_get64(from + 24),
                           .place = yk__bytes_get64(from + 32)};
}

static bool head_fits(const yk_tr *t, const yk__sock_stream *stream)
{
    const yk__sock_head *h = &stream->in.head;
    switch ((yk__sock_kind)h->kind) {
    case YK__SOCK_SHORT:
        return stream->number == 0 && h->bytes <= YK__SOCK_EAGER && h->total == h->bytes;
    case YK__SOCK_ANNOUNCE:
        return stream->number == 0 && !h->bytes && h->number && h->total > YK__SOCK_EAGER && h->total <= INT64_MAX;
    case YK__SOCK_ASK:
    case YK__SOCK_REFUSE:
    case YK__SOCK_REVOKE:
        return stream->number == 0 && !h->bytes && h->number;
    case YK__SOCK_SEGMENTS:
        return (stream->number > 0 || t->streams == 1) && h->bytes && h->bytes <= YK__SOCK_SEGMENT && h->number &&
               h->place <= h->total && h->bytes <= h->total - h->place;
    }
    return false;
}

/* ---- Matching ----------------------------------------------------------------------------------------------------- */

static yk_tr_op *op_match(const yk__sock_peer *p, uint64_t tag)
{
    yk_tr_op *op = p->recvs;
    while (op && (op->tag != tag || op->begun))
        op = op->next;
    return op;
}

static yk_tr_op *op_by_number(const yk__sock_peer *p, uint64_t number)
{
    yk_tr_op *op = p->recvs;
    while (op && (!op->begun || op->number != number))
        op = op->next;
    return op;
}

static void begin_op(yk_tr_op *op, uint64_t total, uint64_t number)
{
    op->begun = true;
    op->total = total;
    op->number = number;
    op->status = total > op->bytes ? YK_E_ARG : YK_OK;
}

/* No stream writes to it any more, whatever the peer goes on to send. */
static void detach_op(const yk_tr *t, yk__sock_peer *p, const yk_tr_op *op)
{
    for (uint32_t i = 0; i < t->streams; i++)
        if (p->stream[i].in.op == op)
            p->stream[i].in.op = NULL;
}

static void end_op(yk_tr *t, yk_tr_op *op)
{
    detach_op(t, &t->peer[op->peer], op);
    yk__tr_unlink(&t->peer[op->peer].recvs, op);
    yk__sock_finish(t, op);
}

/* A long message has met its receive: it is asked for, or refused where it is too long. */
static yk_status answer_announced(yk_tr *t, yk_tr_op *op, uint64_t total, uint64_t number, yk_tr_error *error)
{
    begin_op(op, total, number);
    if (yk__sock_say(t, op->peer, op->status ? YK__SOCK_REFUSE : YK__SOCK_ASK, number, error))
        return YK_E_MEM;
    if (op->status)
        end_op(t, op);
    return yk__sock_write_peer(t, op->peer, error);
}

static yk__sock_early *early_new(const yk__sock_head *h, yk_tr_error *error)
{
    yk__sock_early *early = yk__malloc(sizeof *early + h->bytes);
    if (early)
        *early = (yk__sock_early){.tag = h->tag, .total = h->total, .number = h->number};
    else
        yk__tr_fail(error, YK_E_MEM, "out of memory (a message of %u bytes)", h->bytes);
    return early;
}

static void early_append(yk__sock_peer *p, yk__sock_early *early)
{
    yk__sock_early **end = &p->early;
    while (*end)
        end = &(*end)->next;
    *end = early;
}

static void early_drop(yk__sock_early **at)
{
    yk__sock_early *early = *at;
    *at = early->next;
    yk__free(early);
}

static void take_early_bytes(yk_tr *t, yk_tr_op *op, const yk__sock_early *early)
{
    begin_op(op, early->total, 0);
    if (!op->status && early->total)
        memcpy(op->data, early->data, early->total);
    op->moved = op->status ? 0 : early->total;
    end_op(t, op);
}

yk_status yk__sock_adopt(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__sock_early **at = &t->peer[op->peer].early;
    uint64_t total, number;
    while (*at && (*at)->tag != op->tag)
        at = &(*at)->next;
    if (!*at)
        return YK_OK;
    total = (*at)->total;
    number = (*at)->number;
    if (!number)
        take_early_bytes(t, op, *at);
    early_drop(at);
    return number ? answer_announced(t, op, total, number, error) : YK_OK;
}

/* ---- Frames without payload --------------------------------------------------------------------------------------- */

static yk_status take_announced(yk_tr *t, uint32_t peer, const yk__sock_head *h, yk_tr_error *error)
{
    yk_tr_op *op = op_match(&t->peer[peer], h->tag);
    yk__sock_early *early;
    if (op)
        return answer_announced(t, op, h->total, h->number, error);
    early = early_new(h, error);
    if (!early)
        return YK_E_MEM;
    early_append(&t->peer[peer], early);
    return YK_OK;
}

/* The receive waits for the next message, which may have come meanwhile. */
static yk_status take_revoked(yk_tr *t, uint32_t peer, uint64_t number, yk_tr_error *error)
{
    yk__sock_peer *p = &t->peer[peer];
    yk_tr_op *op = op_by_number(p, number);
    yk__sock_early **at = &p->early;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        early_drop(at);
    if (!op)
        return YK_OK;
    detach_op(t, p, op);
    op->begun = false;
    op->moved = op->number = 0;
    return yk__sock_adopt(t, op, error);
}

static yk_status take_talk(yk_tr *t, const yk__sock_stream *stream, yk_tr_error *error)
{
    const yk__sock_head *h = &stream->in.head;
    if (h->kind == YK__SOCK_ANNOUNCE)
        return take_announced(t, stream->peer, h, error);
    if (h->kind == YK__SOCK_REVOKE)
        return take_revoked(t, stream->peer, h->number, error);
    yk__sock_asked(t, stream->peer, h->number, h->kind == YK__SOCK_ASK);
    return yk__sock_write_peer(t, stream->peer, error);
}

/* ---- Payload ------------------------------------------------------------------------------------------------------ */

static yk_status open_short(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    in->op = op_match(&t->peer[stream->peer], in->head.tag);
    if (in->op)
        begin_op(in->op, in->head.total, 0);
    else if (!(in->early = early_new(&in->head, error)))
        return YK_E_MEM;
    return YK_OK;
}

static yk_status open_segment(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    in->op = op_by_number(&t->peer[stream->peer], in->head.number);
    if (in->op && in->head.total != in->op->total)
        return fail_damaged(t, stream, error);
    return YK_OK;
}

static yk_status open_payload(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    stream->in.open = true;
    stream->in.got = 0;
    stream->in.op = NULL;
    stream->in.early = NULL;
    return stream->in.head.kind == YK__SOCK_SHORT ? open_short(t, stream, error) : open_segment(t, stream, error);
}

/* Where the next byte of the payload belongs; NULL: nowhere. */
static uint8_t *payload_place(const yk__sock_input *in)
{
    if (in->op && !in->op->status)
        return in->op->data + in->head.place + in->got;
    return in->early ? in->early->data + in->got : NULL;
}

static void payload_got(yk__sock_input *in, size_t bytes)
{
    in->got += (uint32_t)bytes;
    if (in->op && !in->op->status)
        in->op->moved += bytes;
}

/* A receive that was posted while a short message came in takes it now. */
static void close_payload(yk_tr *t, yk__sock_stream *stream)
{
    yk__sock_input *in = &stream->in;
    yk_tr_op *op = in->early ? op_match(&t->peer[stream->peer], in->head.tag) : NULL;
    in->open = false;
    if (in->op && (in->op->status || in->op->moved == in->op->total))
        end_op(t, in->op);
    if (op)
        take_early_bytes(t, op, in->early);
    if (op)
        yk__free(in->early);
    else if (in->early)
        early_append(&t->peer[stream->peer], in->early);
    in->op = NULL;
    in->early = NULL;
}

/* ---- A stream ----------------------------------------------------------------------------------------------------- */

/* Payload from the stream's buffer. */
static void take_buffered(yk__sock_input *in)
{
    const size_t left = in->head.bytes - in->got, have = in->end - in->begin, n = left < have ? left : have;
    uint8_t *to = payload_place(in);
    if (to && n)
        memcpy(to, in->data + in->begin, n);
    in->begin += n;
    payload_got(in, n);
}

static yk_status take_head(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    in->head = head_decode(in->data + in->begin);
    in->begin += YK__SOCK_HEAD;
    if (!head_fits(t, stream))
        return fail_damaged(t, stream, error);
    if (in->head.kind == YK__SOCK_SHORT || in->head.kind == YK__SOCK_SEGMENTS)
        return open_payload(t, stream, error);
    return take_talk(t, stream, error);
}

/* All frames that are in the buffer, and what is there of the next. */
static yk_status take_frames(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk__sock_input *in = &stream->in;
    yk_status s = YK_OK;
    while (!s && (in->open || in->end - in->begin >= YK__SOCK_HEAD)) {
        if (in->open)
            take_buffered(in);
        else
            s = take_head(t, stream, error);
        if (!s && in->open && in->got == in->head.bytes)
            close_payload(t, stream);
        else if (in->open && in->begin == in->end)
            break;
    }
    memmove(in->data, in->data + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
    return s;
}

/* Payload goes to its place, what comes behind it into the buffer. */
static ssize_t read_parts(yk__sock_stream *stream)
{
    yk__sock_input *in = &stream->in;
    uint8_t *to = in->open ? payload_place(in) : NULL;
    const size_t left = to ? in->head.bytes - in->got : 0;
    struct iovec part[2] = {{to, left}, {in->data + in->end, YK__SOCK_INPUT - in->end}};
    struct msghdr m = {.msg_iov = to ? part : part + 1, .msg_iovlen = to ? 2 : 1};
    ssize_t n;
    do
        n = recvmsg(stream->fd, &m, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        const size_t direct = (size_t)n < left ? (size_t)n : left;
        payload_got(in, direct);
        in->end += (size_t)n - direct;
    }
    return n;
}

yk_status yk__sock_read(yk_tr *t, yk__sock_stream *stream, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (int i = 0; i < ROUNDS && !s && stream->fd >= 0; i++) {
        const ssize_t n = read_parts(stream);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n <= 0)
            yk__sock_hang_up(stream);
        else
            s = take_frames(t, stream, error);
    }
    return s;
}

/* ---- Giving up ---------------------------------------------------------------------------------------------------- */

void yk__sock_cancel_recv(yk_tr *t, yk_tr_op *op)
{
    detach_op(t, &t->peer[op->peer], op); /* the rest of the message goes nowhere */
    yk__tr_unlink(&t->peer[op->peer].recvs, op);
}
