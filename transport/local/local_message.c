/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tagged messages through one ring of bytes per ordered pair of ranks, in memory that a host's ranks share. local.c and base.c call it
 * under the transport's lock.
 *
 * A message travels in frames. The frames of one message follow each other, and messages of a pair keep their order. A short message
 * without a receive moves from the ring to memory. For a long one the ring first carries only the announcement, and its bytes after the
 * request. So no message blocks another.
 *
 * Another process writes a ring, so each frame is checked before use.
 */
#include "config.h"

#include "transport/local/local_internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/mem.h"

#define FRAME_MAGIC 0x4d415246u /* "FRAM" */

typedef struct yk__local_frame {
    uint32_t magic, bytes, phase, id;
    uint64_t tag, total, at;
} yk__local_frame;

static yk_status fail_damaged(const yk_tr *t, uint32_t peer, yk_tr_error *error)
{
    return yk__tr_fail(error, YK_E_FORMAT, "the messages between rank %u and rank %u are damaged", t->base.rank, peer);
}

bool yk__local_reaches(const yk_tr *t, uint32_t peer)
{
    return peer != t->base.rank && t->bell && t->base.host[peer] == t->base.host[t->base.rank];
}

/* Rings a bell. A sleeper counts itself before it reads the bell, and the bell is rung before the count is read. */
void yk__local_ring_bell(yk_tr *t, uint32_t rank)
{
    yk__local_bell *bell = &t->bell[rank];
    atomic_fetch_add(&bell->rung, 1);
    if (atomic_load(&bell->sleepers))
        syscall(SYS_futex, &bell->rung, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- Bytes in and out of a ring ---------------------------------------------------------------------------------- */

static void put_bytes(yk__local_ring *ring, uint32_t size, uint32_t at, const void *from, uint32_t n)
{
    uint32_t first = at & (size - 1), k = size - first < n ? size - first : n;
    memcpy(ring->data + first, from, k);
    memcpy(ring->data, (const uint8_t *)from + k, n - k);
}

static void get_bytes(const yk__local_ring *ring, uint32_t size, uint32_t at, void *to, uint32_t n)
{
    uint32_t first = at & (size - 1), k = size - first < n ? size - first : n;
    memcpy(to, ring->data + first, k);
    memcpy((uint8_t *)to + k, ring->data, n - k);
}

static void finish_op(yk_tr *t, yk_tr_op *op)
{
    op->done = true;
    t->base.events++;
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

/* Writes one frame if there is space for a useful one. *last: the entry has no further frame. */
static bool put_frame(yk_tr *t, yk__local_peer *p, yk_tr_op *op, uint32_t capacity, bool *last)
{
    const bool carries = op->phase == YK__LOCAL_DATA || op->phase == YK__LOCAL_LONG;
    const uint64_t left = carries ? op->bytes - op->moved : 0;
    const uint32_t most = t->ring_bytes / 4, n = left < most ? (uint32_t)left : most;
    const uint32_t at = atomic_load_explicit(&p->out->written, memory_order_relaxed);
    const yk__local_frame f = {FRAME_MAGIC, n, op->phase, (uint32_t)op->number, op->tag, op->bytes, op->moved};
    if (capacity < sizeof f + n)
        return false;
    put_bytes(p->out, t->ring_bytes, at, &f, sizeof f);
    if (n)
        put_bytes(p->out, t->ring_bytes, at + (uint32_t)sizeof f, op->data + op->moved, n);
    atomic_store_explicit(&p->out->written, at + (uint32_t)sizeof f + n, memory_order_release);
    op->begun = true;
    op->moved += n;
    *last = !carries || op->moved == op->bytes;
    return true;
}

/* Removes the head of the queue, which has written everything that it may before the receiver's request. */
static void leave_queue(yk_tr *t, yk__local_peer *p, yk_tr_op *op)
{
    p->sends = op->next;
    if (op->orphan)
        yk__free(op);
    else if (op->phase == YK__LOCAL_ASK)
        yk__tr_append(&p->asked, op);
    else
        finish_op(t, op);
}

static yk_status send_some(yk_tr *t, uint32_t peer, bool *moved, yk_tr_error *error)
{
    yk__local_peer *p = &t->peer[peer];
    while (p->sends) {
        const uint32_t used = atomic_load_explicit(&p->out->written, memory_order_relaxed) -
                              atomic_load_explicit(&p->out->read, memory_order_acquire);
        bool last = false;
        if (used > t->ring_bytes)
            return fail_damaged(t, peer, error);
        if (!put_frame(t, p, p->sends, t->ring_bytes - used, &last))
            return YK_OK;
        *moved = true;
        if (last)
            leave_queue(t, p, p->sends);
    }
    return YK_OK;
}

/* Handles a peer's request for a long message; ignores one for a message that was given up meanwhile. */
static void send_asked(yk__local_peer *p, uint32_t id)
{
    yk_tr_op *op = p->asked;
    while (op && op->number != id)
        op = op->next;
    if (!op)
        return;
    yk__tr_unlink(&p->asked, op);
    op->phase = YK__LOCAL_LONG;
    yk__tr_append(&p->sends, op);
}

/* Sends a frame without data: a request, or the revocation of a message. */
static yk_status send_word(yk_tr *t, uint32_t peer, yk__local_phase phase, const yk_tr_op *about, yk_tr_error *error)
{
    yk_tr_op *op = yk__calloc(1, sizeof *op);
    if (!op)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a message)");
    *op = (yk_tr_op){.peer = peer, .phase = phase, .is_send = true, .orphan = true, .number = about->number, .tag = about->tag};
    yk__tr_append(&t->peer[peer].sends, op);
    return YK_OK;
}

/* ---- Receiving --------------------------------------------------------------------------------------------------- */

static yk_tr_op *op_match(const yk__local_peer *p, uint64_t tag)
{
    for (yk_tr_op *op = p->recvs; op; op = op->next)
        if (op->tag == tag && !op->begun)
            return op;
    return NULL;
}

static void begin_op(yk_tr_op *op, uint64_t total, uint32_t id)
{
    op->begun = true;
    op->total = total;
    op->number = id;
    op->status = total > op->bytes ? YK_E_ARG : YK_OK;
}

/* data_bytes: bytes to store here; 0 with an id: the bytes are with the sender. */
static yk__local_early *early_new(yk__local_peer *p, const yk__local_frame *f, uint64_t data_bytes)
{
    yk__local_early **end = &p->early, *e = yk__calloc(1, sizeof *e);
    if (!e)
        return NULL;
    if (f->phase == YK__LOCAL_DATA) {
        e->data = yk__malloc(data_bytes ? data_bytes : 1);
        if (!e->data) {
            yk__free(e);
            return NULL;
        }
    }
    e->tag = f->tag;
    e->total = f->total;
    e->id = f->id;
    while (*end)
        end = &(*end)->next;
    *end = e;
    return e;
}

static void early_drop(yk__local_peer *p, yk__local_early *e)
{
    yk__local_early **at = &p->early;
    while (*at && *at != e)
        at = &(*at)->next;
    if (*at)
        *at = e->next;
    yk__free(e->data);
    yk__free(e);
}

/* Finds a place for a short message that begins. */
static yk_status open_short(yk_tr *t, yk__local_peer *p, const yk__local_frame *f, yk_tr_error *error)
{
    (void)t;
    p->op = op_match(p, f->tag);
    if (p->op)
        begin_op(p->op, f->total, 0);
    else if (!(p->store = early_new(p, f, f->total)))
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a message of %llu bytes)", (unsigned long long)f->total);
    return YK_OK;
}

/* Notes the announcement of a long message; requests it at once if its receive is posted. */
static yk_status note_announced(yk_tr *t, uint32_t peer, const yk__local_frame *f, yk_tr_error *error)
{
    yk__local_peer *p = &t->peer[peer];
    yk_tr_op *op = op_match(p, f->tag);
    if (!op)
        return early_new(p, f, 0) ? YK_OK : yk__tr_fail(error, YK_E_MEM, "out of memory (a message)");
    begin_op(op, f->total, f->id);
    return send_word(t, peer, YK__LOCAL_CLEAR, op, error);
}

static yk_tr_op *cleared_op(const yk__local_peer *p, uint32_t id)
{
    for (yk_tr_op *op = p->recvs; op; op = op->next)
        if (op->begun && op->number == id)
            return op;
    return NULL;
}

static bool frame_fits(const yk_tr *t, const yk__local_peer *p, const yk__local_frame *f, uint32_t used)
{
    const bool carries = f->phase == YK__LOCAL_DATA || f->phase == YK__LOCAL_LONG;
    if (f->magic != FRAME_MAGIC || f->phase > YK__LOCAL_REVOKE || f->bytes > t->ring_bytes / 4 || used < sizeof *f + f->bytes ||
        f->at > f->total || f->bytes > f->total - f->at)
        return false;
    if (!carries)
        return !f->bytes && (!p->open || f->phase == YK__LOCAL_REVOKE);
    if (!p->open)
        return f->at == 0 && (f->phase == YK__LOCAL_LONG ? f->id != 0 : f->total <= YK__LOCAL_EAGER);
    return f->tag == p->tag && f->total == p->total && f->at == p->at;
}

static void close_message(yk_tr *t, yk__local_peer *p)
{
    if (p->op) {
        finish_op(t, p->op);
        yk__tr_unlink(&p->recvs, p->op);
    }
    p->open = false;
    p->op = NULL;
    p->store = NULL;
}

static void reset_op(yk_tr_op *op)
{
    op->begun = false;
    op->moved = 0;
    op->number = 0;
    op->status = YK_OK;
}

/* Gives a receive the first message of its tag that came before. */
static yk_status op_adopt(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__local_peer *p = &t->peer[op->peer];
    yk__local_early *e = p->early;
    while (e && e->tag != op->tag)
        e = e->next;
    if (!e)
        return YK_OK;
    begin_op(op, e->total, e->data ? 0 : e->id);
    if (!e->data) {
        early_drop(p, e);
        return send_word(t, op->peer, YK__LOCAL_CLEAR, op, error);
    }
    if (!op->status && e->at) {
        memcpy(op->data, e->data, e->at);
        op->moved = e->at;
    }
    if (p->store == e) {
        p->op = op;
        p->store = NULL;
    } else {
        finish_op(t, op);
        yk__tr_unlink(&p->recvs, op);
    }
    early_drop(p, e);
    return YK_OK;
}

/* Handles a message that its sender gave up: its receive waits for the next one, which may have arrived meanwhile. */
static yk_status revoke_message(yk_tr *t, yk__local_peer *p, uint32_t id, yk_tr_error *error)
{
    yk_tr_op *op = p->open && p->op ? p->op : id ? cleared_op(p, id) : NULL;
    yk__local_early *e = p->early;
    while (e && (!id || e->data || e->id != id))
        e = e->next;
    if (e)
        early_drop(p, e);
    if (p->open && p->store)
        early_drop(p, p->store);
    p->open = false;
    p->op = NULL;
    p->store = NULL;
    if (!op)
        return YK_OK;
    reset_op(op);
    return op_adopt(t, op, error);
}

static void receive_payload(const yk_tr *t, yk__local_peer *p, const yk__local_frame *f, uint32_t at)
{
    uint8_t *to = NULL;
    if (p->op && !p->op->status) {
        to = p->op->data + p->at;
        p->op->moved += f->bytes;
    }
    if (p->store) {
        to = p->store->data + p->at;
        p->store->at += f->bytes;
    }
    if (to && f->bytes)
        get_bytes(p->in, t->ring_bytes, at, to, f->bytes);
    p->at += f->bytes;
}

static yk_status receive_data(yk_tr *t, yk__local_peer *p, const yk__local_frame *f, uint32_t at, yk_tr_error *error)
{
    if (!p->open) {
        if (f->phase == YK__LOCAL_LONG)
            p->op = cleared_op(p, f->id);
        else if (open_short(t, p, f, error))
            return YK_E_MEM;
        p->open = true;
        p->tag = f->tag;
        p->total = f->total;
        p->at = 0;
    }
    receive_payload(t, p, f, at);
    if (p->at == p->total)
        close_message(t, p);
    return YK_OK;
}

static yk_status receive_frame(yk_tr *t, uint32_t peer, const yk__local_frame *f, uint32_t at, yk_tr_error *error)
{
    yk__local_peer *p = &t->peer[peer];
    switch ((yk__local_phase)f->phase) {
    case YK__LOCAL_DATA:
    case YK__LOCAL_LONG:
        return receive_data(t, p, f, at, error);
    case YK__LOCAL_ASK:
        return note_announced(t, peer, f, error);
    case YK__LOCAL_CLEAR:
        send_asked(p, f->id);
        break;
    case YK__LOCAL_REVOKE:
        return revoke_message(t, p, f->id, error);
    }
    return YK_OK;
}

static yk_status receive_some(yk_tr *t, uint32_t peer, bool *moved, yk_tr_error *error)
{
    yk__local_peer *p = &t->peer[peer];
    for (;;) {
        const uint32_t at = atomic_load_explicit(&p->in->read, memory_order_relaxed);
        const uint32_t used = atomic_load_explicit(&p->in->written, memory_order_acquire) - at;
        yk__local_frame f;
        yk_status s;
        if (!used)
            return YK_OK;
        if (used > t->ring_bytes || used < sizeof f)
            return fail_damaged(t, peer, error);
        get_bytes(p->in, t->ring_bytes, at, &f, sizeof f);
        if (!frame_fits(t, p, &f, used))
            return fail_damaged(t, peer, error);
        s = receive_frame(t, peer, &f, at + (uint32_t)sizeof f, error);
        if (s)
            return s;
        atomic_store_explicit(&p->in->read, at + (uint32_t)sizeof f + f.bytes, memory_order_release);
        *moved = true;
    }
}

/* ---- For the calls ----------------------------------------------------------------------------------------------- */

yk_status yk__local_begin(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__local_peer *p = &t->peer[op->peer];
    if (!op->is_send) {
        yk__tr_append(&p->recvs, op);
        return op_adopt(t, op, error);
    }
    if (op->bytes > YK__LOCAL_EAGER) {
        op->phase = YK__LOCAL_ASK;
        op->number = ++p->ids ? p->ids : ++p->ids; /* skips 0, which means a short message */
    }
    yk__tr_append(&p->sends, op);
    return YK_OK;
}

yk_status yk__local_move(yk_tr *t, yk_tr_error *error)
{
    const uint64_t events = t->base.events;
    yk_status s = YK_OK;
    for (uint32_t r = 0; r < t->base.ranks && !s; r++) {
        bool moved = false;
        if (!yk__local_reaches(t, r))
            continue;
        s = receive_some(t, r, &moved, error);
        if (!s)
            s = send_some(t, r, &moved, error);
        if (moved)
            yk__local_ring_bell(t, r);
    }
    if (t->base.events != events) /* another thread may wait for it */
        yk__local_ring_bell(t, t->base.rank);
    return s;
}

static void give_up_send(yk_tr *t, yk_tr_op *op)
{
    yk__local_peer *p = &t->peer[op->peer];
    yk__tr_unlink(&p->asked, op);
    if (!op->begun) {
        yk__tr_unlink(&p->sends, op);
        yk__free(op);
        return;
    }
    if (p->sends != op) { /* the peer has nothing of it, or only the announcement */
        yk__tr_unlink(&p->sends, op);
        yk__tr_append(&p->sends, op);
    }
    op->phase = YK__LOCAL_REVOKE; /* its last frame, after which it is freed */
    op->data = NULL;
    op->bytes = op->moved = 0;
    op->orphan = true;
}

void yk__local_give_up(yk_tr *t, yk_tr_op *op)
{
    yk__local_peer *p = &t->peer[op->peer];
    if (op->is_send && !op->done) {
        give_up_send(t, op);
        return;
    }
    if (p->op == op)
        p->op = NULL; /* drops the rest of the message */
    yk__tr_unlink(&p->recvs, op);
    yk__free(op);
}

void yk__local_drop_all(yk_tr *t)
{
    for (uint32_t r = 0; t->peer && r < t->base.ranks; r++) {
        yk__tr_free_all(&t->peer[r].sends);
        yk__tr_free_all(&t->peer[r].asked);
        yk__tr_free_all(&t->peer[r].recvs);
        while (t->peer[r].early)
            early_drop(&t->peer[r], t->peer[r].early);
    }
}
