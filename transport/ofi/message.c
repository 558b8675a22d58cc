/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over frames: which receive takes which, what is kept of those that nobody has asked for, what goes into the next frame.
 * Payload is copied between frames and the callers' bytes, after its MAC was looked at.
 */
#include "config.h"

#include "transport/ofi/internal.h"

#include <string.h>

#include "core/base/mem.h"

void yk__ofi_finish(yk_tr *t, yk_tr_op *op)
{
    op->done = true;
    t->events++;
}

/* ---- Sending -------------------------------------------------------------------------------------------------------- */

yk_status yk__ofi_say(yk_tr *t, uint32_t peer, yk__ofi_kind kind, uint64_t number, yk_tr_error *error)
{
    yk__ofi_talk **end = &t->peer[peer].talk, *talk = yk__malloc(sizeof *talk);
    if (!talk)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a frame to rank %u)", peer);
    *talk = (yk__ofi_talk){.kind = kind, .number = number};
    while (*end)
        end = &(*end)->next;
    *end = talk;
    return YK_OK;
}

static void next_talk(yk__ofi_peer *p, yk__ofi_head *head)
{
    yk__ofi_talk *talk = p->talk;
    head->kind = talk->kind;
    head->number = talk->number;
    p->talk = talk->next;
    yk__free(talk);
}

/* A short message whole, or that there is a long one. */
static void next_send(yk_tr *t, yk__ofi_peer *p, yk__ofi_head *head, uint8_t *to)
{
    yk_tr_op *op = p->sends;
    p->sends = op->next;
    head->tag = op->tag;
    head->total = op->bytes;
    head->number = op->number;
    head->kind = op->number ? YK__OFI_ANNOUNCE : YK__OFI_SHORT;
    op->begun = true;
    if (op->number) {
        yk__tr_append(&p->announced, op);
        return;
    }
    head->bytes = (uint32_t)op->bytes;
    if (op->bytes)
        memcpy(to, op->data, op->bytes);
    op->moved = op->bytes;
    yk__ofi_finish(t, op);
}

static void next_segment(yk_tr *t, yk__ofi_peer *p, yk__ofi_head *head, uint8_t *to)
{
    yk_tr_op *op = p->asked;
    const uint64_t left = op->bytes - op->moved;
    head->kind = YK__OFI_SEGMENTS;
    head->bytes = left < YK__OFI_SEGMENT ? (uint32_t)left : YK__OFI_SEGMENT;
    head->total = op->bytes;
    head->number = op->number;
    head->place = op->moved;
    memcpy(to, op->data + op->moved, head->bytes);
    op->moved += head->bytes;
    if (op->moved < op->bytes)
        return;
    p->asked = op->next;
    yk__ofi_finish(t, op);
}

bool yk__ofi_next(yk_tr *t, uint32_t peer, yk__ofi_head *head, uint8_t *to)
{
    yk__ofi_peer *p = &t->peer[peer];
    if (p->talk)
        next_talk(p, head);
    else if (p->sends)
        next_send(t, p, head, to);
    else if (p->asked)
        next_segment(t, p, head, to);
    else
        return false;
    return true;
}

/* ---- Matching ------------------------------------------------------------------------------------------------------- */

static yk_tr_op *op_match(const yk__ofi_peer *p, uint64_t tag)
{
    yk_tr_op *op = p->recvs;
    while (op && (op->tag != tag || op->begun))
        op = op->next;
    return op;
}

static yk_tr_op *op_by_number(yk_tr_op *op, uint64_t number)
{
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

static void end_recv(yk_tr *t, yk_tr_op *op)
{
    yk__tr_unlink(&t->peer[op->peer].recvs, op);
    yk__ofi_finish(t, op);
}

/* A short message has met its receive. */
static void fill_recv(yk_tr *t, yk_tr_op *op, uint64_t total, const uint8_t *data)
{
    begin_op(op, total, 0);
    if (!op->status && total)
        memcpy(op->data, data, total);
    op->moved = op->status ? 0 : total;
    end_recv(t, op);
}

/* A long message has met its receive: it is asked for, or refused where it is too long. */
static yk_status answer_announced(yk_tr *t, yk_tr_op *op, uint64_t total, uint64_t number, yk_tr_error *error)
{
    begin_op(op, total, number);
    if (yk__ofi_say(t, op->peer, op->status ? YK__OFI_REFUSE : YK__OFI_ASK, number, error))
        return YK_E_MEM;
    if (op->status)
        end_recv(t, op);
    return YK_OK;
}

/* ---- What nobody has asked for -------------------------------------------------------------------------------------- */

static yk_status keep_early(yk__ofi_peer *p, const yk__ofi_head *head, const uint8_t *payload, yk_tr_error *error)
{
    yk__ofi_early **end = &p->early, *early = yk__malloc(sizeof *early + head->bytes);
    if (!early)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a message of %u bytes)", head->bytes);
    *early = (yk__ofi_early){.tag = head->tag, .total = head->total, .number = head->number};
    if (head->bytes)
        memcpy(early->data, payload, head->bytes);
    while (*end)
        end = &(*end)->next;
    *end = early;
    return YK_OK;
}

static void drop_early(yk__ofi_early **at)
{
    yk__ofi_early *early = *at;
    *at = early->next;
    yk__free(early);
}

yk_status yk__ofi_adopt(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__ofi_early **at = &t->peer[op->peer].early;
    uint64_t total, number;
    while (*at && (*at)->tag != op->tag)
        at = &(*at)->next;
    if (!*at)
        return YK_OK;
    total = (*at)->total;
    number = (*at)->number;
    if (!number)
        fill_recv(t, op, total, (*at)->data);
    drop_early(at);
    return number ? answer_announced(t, op, total, number, error) : YK_OK;
}

/* ---- Frames that come ----------------------------------------------------------------------------------------------- */

static bool head_fits(const yk__ofi_head *h)
{
    switch ((yk__ofi_kind)h->kind) {
    case YK__OFI_HELLO:
    case YK__OFI_BYE:
    case YK__OFI_BYE_SEEN:
        return !h->bytes;
    case YK__OFI_SHORT:
        return h->bytes <= YK__OFI_EAGER && h->total == h->bytes && !h->number;
    case YK__OFI_ANNOUNCE:
        return !h->bytes && h->number && h->total > YK__OFI_EAGER && h->total <= INT64_MAX;
    case YK__OFI_ASK:
    case YK__OFI_REFUSE:
    case YK__OFI_REVOKE:
        return !h->bytes && h->number;
    case YK__OFI_SEGMENTS:
        return h->bytes && h->bytes <= YK__OFI_SEGMENT && h->number && h->place <= h->total && h->bytes <= h->total - h->place;
    }
    return false;
}

static yk_status fail_damaged(const yk_tr *t, uint32_t peer, const yk__ofi_head *h, yk_tr_error *error)
{
    return yk__tr_fail(error, YK_E_FORMAT, "rank %u sent a frame that rank %u cannot take: kind %u, %u bytes of %llu at %llu", peer,
                        t->rank, h->kind, h->bytes, (unsigned long long)h->total, (unsigned long long)h->place);
}

static yk_status take_message(yk_tr *t, uint32_t peer, const yk__ofi_head *h, const uint8_t *payload, yk_tr_error *error)
{
    yk_tr_op *op = op_match(&t->peer[peer], h->tag);
    if (!op)
        return keep_early(&t->peer[peer], h, payload, error);
    if (h->number)
        return answer_announced(t, op, h->total, h->number, error);
    fill_recv(t, op, h->total, payload);
    return YK_OK;
}

static yk_status take_segment(yk_tr *t, uint32_t peer, const yk__ofi_head *h, const uint8_t *payload, yk_tr_error *error)
{
    yk_tr_op *op = op_by_number(t->peer[peer].recvs, h->number);
    if (!op)
        return YK_OK; /* it was given up */
    if (h->total != op->total || h->place != op->moved)
        return fail_damaged(t, peer, h, error);
    memcpy(op->data + h->place, payload, h->bytes);
    op->moved += h->bytes;
    if (op->moved == op->total)
        end_recv(t, op);
    return YK_OK;
}

/* Of one that was given up meanwhile nothing is known. */
static void take_answer(yk_tr *t, yk__ofi_peer *p, uint64_t number, bool wanted)
{
    yk_tr_op *op = op_by_number(p->announced, number);
    if (!op)
        return;
    yk__tr_unlink(&p->announced, op);
    if (wanted) {
        yk__tr_append(&p->asked, op);
        return;
    }
    op->moved = op->bytes;
    yk__ofi_finish(t, op);
}

/* The receive waits for the next message, which may have come meanwhile. */
static yk_status take_revoked(yk_tr *t, yk__ofi_peer *p, uint64_t number, yk_tr_error *error)
{
    yk_tr_op *op = op_by_number(p->recvs, number);
    yk__ofi_early **at = &p->early;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        drop_early(at);
    if (!op)
        return YK_OK;
    op->begun = false;
    op->moved = op->number = 0;
    return yk__ofi_adopt(t, op, error);
}

/* A rank that closes says so itself, which is as good as an answer. */
static yk_status take_bye(yk_tr *t, uint32_t peer, yk_tr_error *error)
{
    t->peer[peer].gone = true;
    return t->closing ? YK_OK : yk__ofi_say(t, peer, YK__OFI_BYE_SEEN, 0, error);
}

yk_status yk__ofi_take(yk_tr *t, uint32_t peer, const yk__ofi_head *head, const uint8_t *payload, yk_tr_error *error)
{
    yk__ofi_peer *p = &t->peer[peer];
    if (!head_fits(head) || (head->kind == YK__OFI_HELLO) == p->greeted)
        return fail_damaged(t, peer, head, error);
    switch ((yk__ofi_kind)head->kind) {
    case YK__OFI_HELLO:
        p->greeted = true;
        return YK_OK;
    case YK__OFI_SHORT:
    case YK__OFI_ANNOUNCE:
        return take_message(t, peer, head, payload, error);
    case YK__OFI_ASK:
    case YK__OFI_REFUSE:
        take_answer(t, p, head->number, head->kind == YK__OFI_ASK);
        return YK_OK;
    case YK__OFI_SEGMENTS:
        return take_segment(t, peer, head, payload, error);
    case YK__OFI_REVOKE:
        return take_revoked(t, p, head->number, error);
    case YK__OFI_BYE:
        return take_bye(t, peer, error);
    case YK__OFI_BYE_SEEN:
        p->gone = true;
        return YK_OK;
    }
    return YK_OK;
}

/* ---- Giving up ------------------------------------------------------------------------------------------------------ */

void yk__ofi_cancel(yk_tr *t, yk_tr_op *op)
{
    yk__ofi_peer *p = &t->peer[op->peer];
    const bool known = op->is_send && op->begun && !op->done;
    yk__tr_unlink(&p->sends, op);
    yk__tr_unlink(&p->announced, op);
    yk__tr_unlink(&p->asked, op);
    yk__tr_unlink(&p->recvs, op);
    if (known && !t->failed && !p->lost)
        t->failed = yk__ofi_say(t, op->peer, YK__OFI_REVOKE, op->number, &t->why);
    yk__free(op);
}

static void ops_fail(yk_tr *t, yk_tr_op **list)
{
    while (*list) {
        yk_tr_op *op = *list;
        *list = op->next;
        op->status = YK_E_IO;
        yk__ofi_finish(t, op);
    }
}

void yk__ofi_fail_peer(yk_tr *t, uint32_t peer)
{
    yk__ofi_peer *p = &t->peer[peer];
    p->failed = true;
    ops_fail(t, &p->sends);
    ops_fail(t, &p->announced);
    ops_fail(t, &p->asked);
    ops_fail(t, &p->recvs);
}
