/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches messages and receives by their tags between two ranks, keeps messages without a receive, and builds the next frame. The
 * transports that carry frames (sock, ofi) call it under their lock, for each frame that comes or leaves.
 *
 * A short message is one frame. A long one is announced, requested once its receive is posted, and sent in segments. So no message blocks
 * another. Heads come from outside and are checked before use. A message that was given up is revoked by its number; its late segments are
 * dropped.
 */
#include "config.h"

#include "transport/match.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/net/bytes.h"

/* ---- Heads ---------------------------------------------------------------------------------------------------------- */

void yk__match_head_encode(const yk__match_head *head, uint8_t to[YK__MATCH_HEAD])
{
    yk__bytes_put32(to, head->kind);
    yk__bytes_put32(to + 4, head->bytes);
    yk__bytes_put64(to + 8, head->tag);
    yk__bytes_put64(to + 16, head->total);
    yk__bytes_put64(to + 24, head->number);
    yk__bytes_put64(to + 32, head->place);
}

yk__match_head yk__match_head_decode(const uint8_t from[YK__MATCH_HEAD])
{
    return (yk__match_head){.kind = yk__bytes_get32(from), .bytes = yk__bytes_get32(from + 4), .tag = yk__bytes_get64(from + 8),
                            .total = yk__bytes_get64(from + 16), .number = yk__bytes_get64(from + 24),
                            .place = yk__bytes_get64(from + 32)};
}

bool yk__match_head_fits(const yk__match_head *h, uint32_t segment)
{
    switch ((yk__match_kind)h->kind) {
    case YK__MATCH_SHORT:
        return h->bytes <= YK__MATCH_EAGER && h->total == h->bytes && !h->number;
    case YK__MATCH_ANNOUNCE:
        return !h->bytes && h->number && h->total > YK__MATCH_EAGER && h->total <= INT64_MAX;
    case YK__MATCH_ASK:
    case YK__MATCH_REFUSE:
    case YK__MATCH_REVOKE:
        return !h->bytes && h->number;
    case YK__MATCH_SEGMENT:
        return h->bytes && h->bytes <= segment && h->number && h->place <= h->total && h->bytes <= h->total - h->place;
    case YK__MATCH_KINDS:
        break;
    }
    return false;
}

/* ---- Sending -------------------------------------------------------------------------------------------------------- */

void yk__match_finish(yk__match *m, yk_tr_op *op)
{
    op->done = true;
    (*m->events)++;
}

void yk__match_send(yk__match *m, yk_tr_op *op)
{
    op->is_send = true;
    if (op->bytes > YK__MATCH_EAGER)
        op->number = ++m->numbers;
    yk__tr_append(&m->sends, op);
}

yk_tr_op *yk__match_next_send(yk__match *m, yk__match_head *head)
{
    yk_tr_op *op = m->sends;
    if (!op)
        return NULL;
    m->sends = op->next;
    op->begun = true;
    *head = (yk__match_head){.kind = op->number ? YK__MATCH_ANNOUNCE : YK__MATCH_SHORT, .tag = op->tag, .total = op->bytes,
                             .number = op->number};
    if (op->number) {
        yk__tr_append(&m->announced, op);
    } else {
        head->bytes = (uint32_t)op->bytes;
        op->moved = op->bytes;
    }
    return op;
}

yk_tr_op *yk__match_next_segment(yk__match *m, uint32_t segment, yk__match_head *head)
{
    yk_tr_op *op = m->asked;
    uint64_t left;
    while (op && op->queued == op->bytes)
        op = op->next;
    if (!op)
        return NULL;
    left = op->bytes - op->queued;
    *head = (yk__match_head){.kind = YK__MATCH_SEGMENT, .bytes = left < segment ? (uint32_t)left : segment, .tag = op->tag,
                             .total = op->bytes, .number = op->number, .place = op->queued};
    op->queued += head->bytes;
    return op;
}

void yk__match_segment_sent(yk__match *m, yk_tr_op *op, uint32_t bytes)
{
    op->moved += bytes;
    if (op->moved < op->bytes)
        return;
    yk__tr_unlink(&m->asked, op);
    yk__match_finish(m, op);
}

/* ---- Receives ------------------------------------------------------------------------------------------------------- */

static yk_tr_op *op_by_tag(const yk__match *m, uint64_t tag)
{
    yk_tr_op *op = m->recvs;
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

static void recv_detach(yk__match *m, const yk_tr_op *op)
{
    if (m->calls->detach)
        m->calls->detach(m->t, m->peer, op);
}

static void recv_begin(yk_tr_op *op, uint64_t total, uint64_t number)
{
    op->begun = true;
    op->total = total;
    op->number = number;
    op->status = total > op->bytes ? YK_E_ARG : YK_OK;
}

static void recv_end(yk__match *m, yk_tr_op *op)
{
    recv_detach(m, op);
    yk__tr_unlink(&m->recvs, op);
    yk__match_finish(m, op);
}

/* Fills a receive with its short message. */
static void recv_fill(yk__match *m, yk_tr_op *op, uint64_t total, const uint8_t *data)
{
    recv_begin(op, total, 0);
    if (!op->status && total)
        memcpy(op->data, data, total);
    op->moved = op->status ? 0 : total;
    recv_end(m, op);
}

/* Answers the announcement of a long message for a receive: asks for it, or refuses it if it is too long. */
static yk_status recv_answer(yk__match *m, yk_tr_op *op, uint64_t total, uint64_t number, yk_tr_error *error)
{
    yk_status s;
    recv_begin(op, total, number);
    s = m->calls->say(m->t, m->peer, op->status ? YK__MATCH_REFUSE : YK__MATCH_ASK, number, error);
    if (!s && op->status)
        recv_end(m, op);
    return s;
}

yk_tr_op *yk__match_segment_recv(yk__match *m, const yk__match_head *head, bool *fits)
{
    yk_tr_op *op = op_by_number(m->recvs, head->number);
    *fits = !op || (head->total == op->total && head->bytes <= op->total - op->moved);
    return op;
}

void yk__match_segment_came(yk__match *m, yk_tr_op *op, uint32_t bytes)
{
    op->moved += bytes;
    if (op->moved == op->total)
        recv_end(m, op);
}

/* ---- Messages without a receive ------------------------------------------------------------------------------------- */

static yk_status early_keep(yk__match *m, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error)
{
    yk__match_early **end = &m->early, *early = yk__malloc(sizeof *early + head->bytes);
    if (!early)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a message of %u bytes)", head->bytes);
    *early = (yk__match_early){.tag = head->tag, .total = head->total, .number = head->number};
    if (head->bytes)
        memcpy(early->data, payload, head->bytes);
    while (*end)
        end = &(*end)->next;
    *end = early;
    return YK_OK;
}

static void early_drop(yk__match_early **at)
{
    yk__match_early *early = *at;
    *at = early->next;
    yk__free(early);
}

static yk_status recv_adopt(yk__match *m, yk_tr_op *op, yk_tr_error *error)
{
    yk__match_early **at = &m->early;
    uint64_t total, number;
    while (*at && (*at)->tag != op->tag)
        at = &(*at)->next;
    if (!*at)
        return YK_OK;
    total = (*at)->total;
    number = (*at)->number;
    if (!number)
        recv_fill(m, op, total, (*at)->data);
    early_drop(at);
    return number ? recv_answer(m, op, total, number, error) : YK_OK;
}

yk_status yk__match_recv(yk__match *m, yk_tr_op *op, yk_tr_error *error)
{
    yk__tr_append(&m->recvs, op);
    return recv_adopt(m, op, error);
}

/* ---- Incoming frames ------------------------------------------------------------------------------------------------ */

static yk_status take_message(yk__match *m, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error)
{
    yk_tr_op *op = op_by_tag(m, head->tag);
    if (!op)
        return early_keep(m, head, payload, error);
    if (head->number)
        return recv_answer(m, op, head->total, head->number, error);
    recv_fill(m, op, head->total, payload);
    return YK_OK;
}

/* Handles a peer's answer to an announcement; ignores one for a message that was given up meanwhile. */
static void take_answer(yk__match *m, uint64_t number, bool wanted)
{
    yk_tr_op *op = op_by_number(m->announced, number);
    if (!op)
        return;
    yk__tr_unlink(&m->announced, op);
    if (wanted) {
        yk__tr_append(&m->asked, op);
        return;
    }
    op->moved = op->bytes;
    yk__match_finish(m, op);
}

/* Handles a revoked message: its receive waits for the next one, which may have arrived meanwhile. */
static yk_status take_revoked(yk__match *m, uint64_t number, yk_tr_error *error)
{
    yk_tr_op *op = op_by_number(m->recvs, number);
    yk__match_early **at = &m->early;
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (*at)
        early_drop(at);
    if (!op)
        return YK_OK;
    recv_detach(m, op);
    op->begun = false;
    op->moved = op->number = 0;
    return recv_adopt(m, op, error);
}

yk_status yk__match_take(yk__match *m, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error)
{
    if (head->kind == YK__MATCH_SHORT || head->kind == YK__MATCH_ANNOUNCE)
        return take_message(m, head, payload, error);
    if (head->kind == YK__MATCH_REVOKE)
        return take_revoked(m, head->number, error);
    take_answer(m, head->number, head->kind == YK__MATCH_ASK);
    return YK_OK;
}

/* ---- Giving up ------------------------------------------------------------------------------------------------------ */

void yk__match_cancel(yk__match *m, yk_tr_op *op, bool *revoke)
{
    *revoke = op->is_send && op->begun && !op->done;
    yk__tr_unlink(&m->sends, op);
    yk__tr_unlink(&m->announced, op);
    yk__tr_unlink(&m->asked, op);
    yk__tr_unlink(&m->recvs, op);
    if (!op->is_send)
        recv_detach(m, op); /* drops the rest of the message */
}

static void ops_fail(yk__match *m, yk_tr_op **list, yk_status status, const char *why)
{
    while (*list) {
        yk_tr_op *op = *list;
        *list = op->next;
        op->status = status;
        op->why = why;
        yk__match_finish(m, op);
    }
}

void yk__match_fail_all(yk__match *m, yk_status status, const char *why)
{
    ops_fail(m, &m->sends, status, why);
    ops_fail(m, &m->announced, status, why);
    ops_fail(m, &m->asked, status, why);
    ops_fail(m, &m->recvs, status, why);
}

void yk__match_drop_ops(yk__match *m)
{
    yk__tr_free_all(&m->sends);
    yk__tr_free_all(&m->announced);
    yk__tr_free_all(&m->asked);
    yk__tr_free_all(&m->recvs);
}

void yk__match_drop_early(yk__match *m)
{
    while (m->early)
        early_drop(&m->early);
}
