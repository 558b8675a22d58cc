/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over frames: fills the next frame, and handles the payload of an arrived one. ofi_frame.c calls it under the transport's lock,
 * and ofi.c where an operation or a peer ends. Payload is copied between frames and the callers' bytes, after its MAC is checked.
 */
#include "config.h"

#include "transport/ofi/ofi_message.h"

#include <string.h>

#include "core/base/mem.h"
#include "transport/ofi/ofi_internal.h"

/* ---- Sending -------------------------------------------------------------------------------------------------------- */

yk_status yk__ofi_say(yk_tr *t, uint32_t peer, uint32_t kind, uint64_t number, yk_tr_error *error)
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

static void next_talk(yk__ofi_peer *p, yk__match_head *head)
{
    yk__ofi_talk *talk = p->talk;
    *head = (yk__match_head){.kind = talk->kind, .number = talk->number};
    p->talk = talk->next;
    yk__free(talk);
}

/* Writes a whole short message, or the announcement of a long one. */
static void next_send(yk__match *match, yk__match_head *head, uint8_t *to)
{
    yk_tr_op *op = yk__match_next_send(match, head);
    if (head->bytes)
        memcpy(to, op->data, head->bytes);
    if (head->kind == YK__MATCH_SHORT)
        yk__match_finish(match, op);
}

static bool next_segment(yk__match *match, yk__match_head *head, uint8_t *to)
{
    yk_tr_op *op = yk__match_next_segment(match, YK__OFI_SEGMENT, head);
    if (!op)
        return false;
    memcpy(to, op->data + head->place, head->bytes);
    yk__match_segment_sent(match, op, head->bytes);
    return true;
}

bool yk__ofi_next(yk_tr *t, uint32_t peer, yk__match_head *head, uint8_t *to)
{
    yk__ofi_peer *p = &t->peer[peer];
    if (p->talk)
        next_talk(p, head);
    else if (p->match.sends)
        next_send(&p->match, head, to);
    else
        return next_segment(&p->match, head, to);
    return true;
}

/* ---- Incoming frames ------------------------------------------------------------------------------------------------ */

static bool head_fits(const yk__match_head *head)
{
    if (head->kind < YK__MATCH_KINDS)
        return yk__match_head_fits(head, YK__OFI_SEGMENT);
    return head->kind <= YK__OFI_BEAT && !head->bytes;
}

static yk_status fail_damaged(const yk_tr *t, uint32_t peer, const yk__match_head *h, yk_tr_error *error)
{
    return yk__tr_fail(error, YK_E_FORMAT, "rank %u sent a frame that rank %u cannot take: kind %u, %u bytes of %llu at %llu", peer,
                       t->base.rank, h->kind, h->bytes, (unsigned long long)h->total, (unsigned long long)h->place);
}

/* Copies a segment to its receive; frames arrive in order, so segments do too. */
static yk_status take_segment(yk_tr *t, uint32_t peer, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error)
{
    yk__match *match = &t->peer[peer].match;
    bool fits;
    yk_tr_op *op = yk__match_segment_recv(match, head, &fits);
    if (!fits || (op && head->place != op->moved))
        return fail_damaged(t, peer, head, error);
    if (!op)
        return YK_OK;
    memcpy(op->data + head->place, payload, head->bytes);
    yk__match_segment_came(match, op, head->bytes);
    return YK_OK;
}

/* Handles a peer's BYE, which also counts as its answer to this rank's BYE. */
static yk_status take_bye(yk_tr *t, uint32_t peer, yk_tr_error *error)
{
    t->peer[peer].gone = t->peer[peer].line.leaves = true;
    return t->closing ? YK_OK : yk__ofi_say(t, peer, YK__OFI_BYE_SEEN, 0, error);
}

yk_status yk__ofi_take(yk_tr *t, uint32_t peer, const yk__match_head *head, const uint8_t *payload, yk_tr_error *error)
{
    yk__ofi_peer *p = &t->peer[peer];
    if (!head_fits(head) || (head->kind == YK__OFI_HELLO) == p->greeted)
        return fail_damaged(t, peer, head, error);
    switch (head->kind) {
    case YK__MATCH_SEGMENT:
        return take_segment(t, peer, head, payload, error);
    case YK__OFI_HELLO:
        p->greeted = true;
        return YK_OK;
    case YK__OFI_BYE:
        return take_bye(t, peer, error);
    case YK__OFI_BYE_SEEN:
        p->gone = true;
        return YK_OK;
    case YK__OFI_BEAT:
        return YK_OK;
    default:
        return yk__match_take(&p->match, head, payload, error);
    }
}

/* ---- Giving up ------------------------------------------------------------------------------------------------------ */

void yk__ofi_cancel(yk_tr *t, yk_tr_op *op)
{
    yk__ofi_peer *p = &t->peer[op->peer];
    bool revoke;
    yk__match_cancel(&p->match, op, &revoke);
    if (revoke && !t->failed && !p->line.ended)
        t->failed = yk__ofi_say(t, op->peer, YK__MATCH_REVOKE, op->number, &t->why);
    yk__free(op);
}

void yk__ofi_fail_peer(yk_tr *t, uint32_t peer)
{
    yk__ofi_peer *p = &t->peer[peer];
    p->failed = true;
    yk__line_explain(&p->line, t->base.rank, peer, &p->why);
    yk__match_fail_all(&p->match, YK_E_IO, p->why.text);
}
