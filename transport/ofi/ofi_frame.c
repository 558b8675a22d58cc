/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the provider's messages. ofi.c and ofi_open.c call yk__ofi_move under the transport's lock. It sends frames that are ready, and
 * hands arrived ones to ofi_message.c.
 *
 * Each rank posts receives per peer, which accept only messages from that peer's address with the job's tag. Further receives accept every
 * other tag, one for each bit in which a tag can differ from the job's. So a stranger's message is dropped and logged once, instead of
 * staying in the provider for ever.
 */
#include "config.h"

#include "transport/ofi/ofi_frame.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/net/bytes.h"
#include "transport/ofi/ofi_internal.h"
#include "transport/ofi/ofi_message.h"

enum {
    COMPLETIONS = 16, /* completions read at a time */
    ROUNDS = 8,       /* reads in a row, for fairness */
    STRANGE_BYTES = 64
};

/* ---- Proofs --------------------------------------------------------------------------------------------------------- */

static void frame_seal(const yk__ofi_peer *p, yk__ofi_buffer *b, const yk__match_head *head)
{
    const size_t bytes = YK__OFI_HEAD + head->bytes;
    yk__bytes_put64(b->data, p->sent);
    yk__match_head_encode(head, b->data + 8);
    yk__mac_of(p->send_key, p->sent, b->data, bytes, b->data + bytes);
    b->bytes = (uint32_t)bytes + YK__MAC_BYTES;
}

/* True if a frame is complete and comes from the peer. */
static bool frame_proven(const yk__ofi_peer *p, yk__ofi_buffer *b)
{
    uint8_t mac[YK__MAC_BYTES];
    size_t bytes;
    if (b->bytes < YK__OFI_HEAD + YK__MAC_BYTES || b->bytes > YK__OFI_FRAME)
        return false;
    bytes = b->bytes - YK__MAC_BYTES;
    b->sequence = yk__bytes_get64(b->data);
    yk__mac_of(p->recv_key, b->sequence, b->data, bytes, mac);
    return yk__auth_equal(mac, b->data + bytes, YK__MAC_BYTES);
}

/* ---- Lost peers ----------------------------------------------------------------------------------------------------- */

/* Marks a peer as lost. The host reports a dead rank, and better; the watch later reports a broken connection. */
static void peer_lose(yk_tr *t, uint32_t peer, const char *why)
{
    char text[sizeof t->peer->line.why];
    snprintf(text, sizeof text, "provider %.24s: %.60s", t->info->fabric_attr->prov_name, why);
    yk__line_end(&t->peer[peer].line, text);
}

/* ---- Sending -------------------------------------------------------------------------------------------------------- */

static void buffer_append(yk__ofi_buffer **list, yk__ofi_buffer *b)
{
    b->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = b;
}

static yk__ofi_buffer *buffer_pop(yk__ofi_buffer **list)
{
    yk__ofi_buffer *b = *list;
    *list = b->next;
    b->next = NULL;
    return b;
}

static void frames_fill(yk_tr *t, uint32_t peer, bool *moved)
{
    yk__ofi_peer *p = &t->peer[peer];
    while (p->idle && !p->line.ended) {
        yk__ofi_buffer *b = p->idle;
        yk__match_head head;
        if (!yk__ofi_next(t, peer, &head, b->data + YK__OFI_HEAD))
            return;
        frame_seal(p, b, &head);
        p->sent++;
        buffer_append(&p->filled, buffer_pop(&p->idle));
        *moved = true;
    }
}

/* EAGAIN: the provider takes no more for now, or is still connecting. */
static void frames_post(yk_tr *t, uint32_t peer, bool *moved)
{
    yk__ofi_peer *p = &t->peer[peer];
    while (p->filled) {
        yk__ofi_buffer *b = p->filled;
        const ssize_t n = p->line.ended ? 0 : fi_tsend(t->ep, b->data, b->bytes, t->desc, p->address, t->tag, &b->context);
        if (n == -FI_EAGAIN)
            return;
        buffer_pop(&p->filled);
        if (n)
            peer_lose(t, peer, fi_strerror((int)-n));
        if (n || p->line.ended)
            buffer_append(&p->idle, b);
        else
            p->under_way++;
        *moved = true;
    }
}

bool yk__ofi_unsent(const yk_tr *t, uint32_t peer)
{
    const yk__ofi_peer *p = &t->peer[peer];
    return !p->line.ended && (p->filled || p->under_way || p->talk);
}

/* ---- Receiving ------------------------------------------------------------------------------------------------------ */

static yk_status receive_post(yk_tr *t, yk__ofi_buffer *b, yk_tr_error *error)
{
    const uint64_t bit = b->use == YK__OFI_STRANGE ? 1ull << b->peer : 0;
    ssize_t n;
    if (b->use == YK__OFI_RECEIVED)
        n = fi_trecv(t->ep, b->data, YK__OFI_FRAME, t->desc, t->peer[b->peer].address, t->tag, 0, &b->context);
    else
        n = fi_trecv(t->ep, b->data, STRANGE_BYTES, t->desc, FI_ADDR_UNSPEC, ~t->tag & bit, t->tag_bits & ~bit, &b->context);
    if (!n)
        return YK_OK;
    return yk__tr_fail(error, YK_E_IO, "libfabric does not take a receive: %s", fi_strerror((int)-n));
}

yk_status yk__ofi_post_all(yk_tr *t, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (uint32_t i = 0; i < t->buffers && !s; i++)
        if (t->buffer[i].use != YK__OFI_SENT && (t->buffer[i].use == YK__OFI_STRANGE || t->buffer[i].peer != t->base.rank))
            s = receive_post(t, &t->buffer[i], error);
    return s;
}

/* Drops a frame of a stranger. Logged once, so that strangers cannot fill the log. */
static void frame_refuse(yk_tr *t, const yk__ofi_buffer *b, const char *why)
{
    char from[40] = "a stranger";
    if (b->use == YK__OFI_RECEIVED)
        snprintf(from, sizeof from, "the address of rank %u", b->peer);
    if (!t->refused)
        yk__log(YK_LOG_WARN, "ofi", "rank %u refuses a message from %s: %s; more of them are not reported", t->base.rank, from, why);
    t->refused = true;
}

static yk_status frame_take(yk_tr *t, yk__ofi_buffer *b, yk_tr_error *error)
{
    const yk__match_head head = yk__match_head_decode(b->data + 8);
    t->peer[b->peer].expected++;
    t->peer[b->peer].line.heard++;
    if (head.bytes != b->bytes - YK__OFI_HEAD - YK__MAC_BYTES)
        return yk__tr_fail(error, YK_E_FORMAT, "rank %u sent a frame of %u bytes that says it has %u", b->peer, b->bytes, head.bytes);
    if (yk__ofi_take(t, b->peer, &head, b->data + YK__OFI_HEAD, error))
        return YK_E_FORMAT;
    return receive_post(t, b, error);
}

/* Handles the parked frames that follow the one just handled. */
static yk_status parked_take(yk_tr *t, yk__ofi_peer *p, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (yk__ofi_buffer **at = &p->parked; *at && !s;) {
        if ((*at)->sequence != p->expected) {
            at = &(*at)->next;
            continue;
        }
        s = frame_take(t, buffer_pop(at), error);
        at = &p->parked;
    }
    return s;
}

static bool is_parked(const yk__ofi_peer *p, uint64_t sequence)
{
    for (const yk__ofi_buffer *b = p->parked; b; b = b->next)
        if (b->sequence == sequence)
            return true;
    return false;
}

static yk_status frame_came(yk_tr *t, yk__ofi_buffer *b, yk_tr_error *error)
{
    yk__ofi_peer *p = &t->peer[b->peer];
    if (!frame_proven(p, b)) {
        frame_refuse(t, b, "it does not prove the job's secret");
        return receive_post(t, b, error);
    }
    if (b->sequence < p->expected || is_parked(p, b->sequence)) {
        frame_refuse(t, b, "it was sent before");
        return receive_post(t, b, error);
    }
    if (b->sequence > p->expected) {
        buffer_append(&p->parked, b);
        return YK_OK;
    }
    if (frame_take(t, b, error))
        return YK_E_FORMAT;
    return parked_take(t, p, error);
}

/* ---- Completions ---------------------------------------------------------------------------------------------------- */

static void frame_sent(yk_tr *t, yk__ofi_buffer *b)
{
    yk__ofi_peer *p = &t->peer[b->peer];
    p->under_way--;
    buffer_append(&p->idle, b);
}

static yk_status completion_take(yk_tr *t, const struct fi_cq_msg_entry *e, yk_tr_error *error)
{
    yk__ofi_buffer *b = e->op_context;
    if (b->use == YK__OFI_SENT) {
        frame_sent(t, b);
        return YK_OK;
    }
    b->bytes = (uint32_t)e->len;
    if (b->use == YK__OFI_RECEIVED)
        return frame_came(t, b, error);
    frame_refuse(t, b, "it is not of this job");
    return receive_post(t, b, error);
}

/* Refuses a message longer than a frame: no rank of this job sends it. */
static yk_status refuse_long(yk_tr *t, yk__ofi_buffer *b, yk_tr_error *error)
{
    frame_refuse(t, b, b->use == YK__OFI_STRANGE ? "it is not of this job" : "it is longer than a frame");
    return receive_post(t, b, error);
}

static yk_status failure_take(yk_tr *t, yk_tr_error *error)
{
    struct fi_cq_err_entry e;
    char provider[80], text[160];
    yk__ofi_buffer *b;
    memset(&e, 0, sizeof e);
    if (fi_cq_readerr(t->cq, &e, 0) != 1)
        return YK_OK;
    b = e.op_context;
    if (!b || (b->use != YK__OFI_SENT && e.err == FI_ECANCELED && t->closing))
        return YK_OK;
    if (b->use != YK__OFI_SENT && (e.err == FI_ETRUNC || e.err == FI_EMSGSIZE))
        return refuse_long(t, b, error);
    if (b->use == YK__OFI_STRANGE)
        return e.err == FI_ECANCELED ? YK_OK : receive_post(t, b, error);
    snprintf(provider, sizeof provider, "%s", fi_cq_strerror(t->cq, e.prov_errno, e.err_data, NULL, 0));
    snprintf(text, sizeof text, "%s (%s)", fi_strerror(e.err), provider);
    peer_lose(t, b->peer, text);
    if (b->use == YK__OFI_SENT)
        frame_sent(t, b);
    return YK_OK;
}

static yk_status completions_read(yk_tr *t, bool *moved, yk_tr_error *error)
{
    struct fi_cq_msg_entry entry[COMPLETIONS];
    yk_status s = YK_OK;
    for (int round = 0; round < ROUNDS && !s; round++) {
        const ssize_t n = fi_cq_read(t->cq, entry, COMPLETIONS);
        if (n == -FI_EAVAIL)
            s = failure_take(t, error);
        else if (n < 0 && n != -FI_EAGAIN)
            return yk__tr_fail(error, YK_E_IO, "libfabric's completions cannot be read: %s", fi_strerror((int)-n));
        else if (n <= 0)
            return YK_OK;
        for (ssize_t i = 0; i < n && !s; i++)
            s = completion_take(t, &entry[i], error);
        *moved = true;
    }
    return s;
}

yk_status yk__ofi_move(yk_tr *t, bool *moved, yk_tr_error *error)
{
    bool more = true;
    *moved = false;
    for (int round = 0; round < ROUNDS && more && !t->failed; round++) {
        more = false;
        for (uint32_t r = 0; r < t->base.ranks; r++) {
            frames_fill(t, r, &more);
            frames_post(t, r, &more);
        }
        t->failed = completions_read(t, &more, &t->why);
        *moved = *moved || more;
    }
    if (t->failed)
        *error = t->why;
    return t->failed;
}
