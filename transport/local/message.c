/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tagged messages through one ring of bytes per ordered pair of ranks. A message travels in frames; the frames of one
 * message follow each other, messages of a pair keep their order. A message that nobody has asked for yet is taken out
 * of the ring into memory, so that it does not stand in the way of others; a very long one waits in the ring.
 *
 * What stands in a ring was written by another process: each frame is checked before it is believed.
 */
#include "config.h"

#include "transport/local/layout.h"

#include <string.h>

#include "core/base/mem.h"

#define FRAME_MAGIC 0x4d415246u /* "FRAM" */
#define FRAME_CANCELLED 1u
#define SPIN_NS 40000
#define SLICE_NS (20 * 1000000ll)

typedef struct frame {
    uint32_t magic, bytes, flags, unused;
    uint64_t tag, total, at;
} frame;

/* A message without its receive. */
typedef struct early_message {
    struct early_message *next;
    uint64_t tag, total, at;
    uint8_t *data;
} early_message;

struct yk__local_peer {
    yk__local_ring *out, *in;
    yk_tr_op *sends, *recvs; /* in order */
    early_message *early;           /* in order */
    /* the message whose frames are coming in */
    bool open;
    uint64_t tag, total, at;
    yk_tr_op *op;   /* where it goes: a receive, */
    early_message *early_message; /* or memory, or (neither) nowhere */
};

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

static yk_status fail_damaged(const yk_tr *t, uint32_t peer, yk_tr_error *why)
{
    return yk__local_fail(why, YK_E_FORMAT, "the messages between %s and %s are damaged", t->name[t->rank],
                           t->name[peer]);
}

static void unlink_op(yk_tr_op **list, const yk_tr_op *op)
{
    while (*list && *list != op)
        list = &(*list)->next;
    if (*list)
        *list = op->next;
}

static void append_op(yk_tr_op **list, yk_tr_op *op)
{
    while (*list)
        list = &(*list)->next;
    *list = op;
}

/* ---- Sending ----------------------------------------------------------------------------------------------------- */

/* Writes one frame if there is room for a useful one. */
static bool put_frame(yk_tr *t, yk__local_peer *p, yk_tr_op *op, uint32_t room)
{
    uint64_t left = op->bytes - op->moved;
    uint32_t most = t->ring_bytes / 4, n, at = atomic_load_explicit(&p->out->written, memory_order_relaxed);
    frame f = {FRAME_MAGIC, 0, 0, 0, op->tag, op->bytes, op->moved};
    if (op->data == NULL && op->begun) { /* given up */
        f.flags = FRAME_CANCELLED;
        left = 0;
    }
    n = left < most ? (uint32_t)left : most;
    if (room < sizeof f + n)
        return false;
    f.bytes = n;
    put_bytes(p->out, t->ring_bytes, at, &f, sizeof f);
    if (n)
        put_bytes(p->out, t->ring_bytes, at + (uint32_t)sizeof f, op->data + op->moved, n);
    atomic_store_explicit(&p->out->written, at + (uint32_t)sizeof f + n, memory_order_release);
    op->begun = true;
    op->moved += n;
    op->done = op->moved == op->bytes || f.flags;
    return true;
}

static yk_status send_some(yk_tr *t, uint32_t peer, bool *moved, yk_tr_error *why)
{
    yk__local_peer *p = &t->peer[peer];
    while (p->sends) {
        yk_tr_op *op = p->sends;
        uint32_t used = atomic_load_explicit(&p->out->written, memory_order_relaxed) -
                        atomic_load_explicit(&p->out->read, memory_order_acquire);
        if (used > t->ring_bytes)
            return fail_damaged(t, peer, why);
        if (!put_frame(t, p, op, t->ring_bytes - used))
            return YK_OK;
        *moved = true;
        if (!op->done)
            continue;
        p->sends = op->next;
        if (op->orphan)
            yk__free(op);
    }
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

static void begin_op(yk_tr_op *op, uint64_t total)
{
    op->begun = true;
    op->total = total;
    op->status = total > op->bytes ? YK_E_ARG : YK_OK;
}

static early_message *early_message_new(yk__local_peer *p, uint64_t tag, uint64_t total)
{
    early_message **end = &p->early, *c = yk__calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->data = yk__malloc(total);
    if (!c->data) {
        yk__free(c);
        return NULL;
    }
    c->tag = tag;
    c->total = total;
    while (*end)
        end = &(*end)->next;
    *end = c;
    return c;
}

static void early_message_drop(yk__local_peer *p, early_message *c)
{
    early_message **at = &p->early;
    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
    yk__free(c->data);
    yk__free(c);
}

/* Finds a place for the message that begins; false: it has to wait in the ring. */
static bool open_message(yk__local_peer *p, const frame *f)
{
    p->op = op_match(p, f->tag);
    p->early_message = NULL;
    if (p->op) {
        begin_op(p->op, f->total);
    } else {
        if (f->total > YK_TR_EARLY)
            return false;
        p->early_message = early_message_new(p, f->tag, f->total);
        if (!p->early_message)
            return false;
    }
    p->open = true;
    p->tag = f->tag;
    p->total = f->total;
    p->at = 0;
    return true;
}

static bool frame_fits(const yk_tr *t, const yk__local_peer *p, const frame *f, uint32_t used)
{
    if (f->magic != FRAME_MAGIC || f->bytes > t->ring_bytes / 4 || used < sizeof *f + f->bytes || f->at > f->total ||
        f->bytes > f->total - f->at || f->flags > FRAME_CANCELLED)
        return false;
    if (!p->open)
        return f->at == 0 && !f->flags;
    return f->tag == p->tag && f->total == p->total && f->at == p->at;
}

static void close_message(yk__local_peer *p)
{
    if (p->op) {
        p->op->done = true;
        unlink_op(&p->recvs, p->op);
    }
    p->open = false;
    p->op = NULL;
    p->early_message = NULL;
}

/* The sender gave the message up: its receive waits for the next one. */
static void revoke_message(yk__local_peer *p)
{
    if (p->op) {
        p->op->begun = false;
        p->op->moved = 0;
        p->op->status = YK_OK;
    }
    if (p->early_message)
        early_message_drop(p, p->early_message);
    p->open = false;
    p->op = NULL;
    p->early_message = NULL;
}

static void receive_payload(const yk_tr *t, yk__local_peer *p, const frame *f, uint32_t at)
{
    uint8_t *to = NULL;
    if (p->op && !p->op->status) {
        to = p->op->data + p->at;
        p->op->moved += f->bytes;
    }
    if (p->early_message) {
        to = p->early_message->data + p->at;
        p->early_message->at += f->bytes;
    }
    if (to && f->bytes)
        get_bytes(p->in, t->ring_bytes, at, to, f->bytes);
    p->at += f->bytes;
}

static yk_status receive_some(yk_tr *t, uint32_t peer, bool *moved, yk_tr_error *why)
{
    yk__local_peer *p = &t->peer[peer];
    for (;;) {
        uint32_t at = atomic_load_explicit(&p->in->read, memory_order_relaxed);
        uint32_t used = atomic_load_explicit(&p->in->written, memory_order_acquire) - at;
        frame f;
        if (!used)
            return YK_OK;
        if (used > t->ring_bytes || used < sizeof f)
            return fail_damaged(t, peer, why);
        get_bytes(p->in, t->ring_bytes, at, &f, sizeof f);
        if (!frame_fits(t, p, &f, used))
            return fail_damaged(t, peer, why);
        if (!p->open && !open_message(p, &f))
            return YK_OK;
        if (f.flags)
            revoke_message(p);
        else
            receive_payload(t, p, &f, at + (uint32_t)sizeof f);
        atomic_store_explicit(&p->in->read, at + (uint32_t)sizeof f + f.bytes, memory_order_release);
        *moved = true;
        if (p->open && p->at == p->total)
            close_message(p);
    }
}

/* ---- The calls --------------------------------------------------------------------------------------------------- */

static yk_status peers_ready(yk_tr *t, yk_tr_error *why)
{
    if (t->peer)
        return YK_OK;
    t->peer = yk__calloc(t->ranks, sizeof *t->peer);
    if (!t->peer)
        return yk__local_fail(why, YK_E_MEM, "out of memory (messages of %u ranks)", t->ranks);
    for (uint32_t r = 0; r < t->ranks; r++) {
        t->peer[r].out = yk__local_ring_at(t->head, t->ranks, t->rank, r);
        t->peer[r].in = yk__local_ring_at(t->head, t->ranks, r, t->rank);
    }
    return YK_OK;
}

static yk_status op_new(yk_tr *t, uint32_t peer, uint64_t tag, uint8_t *data, uint64_t bytes, yk_tr_op **out,
                        yk_tr_error *why)
{
    yk_tr_op *op;
    yk_status s;
    if (peer >= t->ranks || peer == t->rank || tag == YK_TR_TAG_ANY || bytes > INT64_MAX)
        return yk__local_fail(why, YK_E_ARG,
                               "a message between rank %u and rank %u of %u, tag %llu, %llu bytes: not "
                               "possible",
                               t->rank, peer, t->ranks, (unsigned long long)tag, (unsigned long long)bytes);
    s = peers_ready(t, why);
    if (s)
        return s;
    op = yk__calloc(1, sizeof *op);
    if (!op)
        return yk__local_fail(why, YK_E_MEM, "out of memory (a message)");
    op->peer = peer;
    op->tag = tag;
    op->data = data;
    op->bytes = bytes;
    *out = op;
    return YK_OK;
}

/* Nothing passes a message that is too long to be taken in early: two programs that wait for each other behind one would hang. */
static yk_status sends_free(const yk_tr *t, uint32_t peer, uint64_t tag, yk_tr_error *why)
{
    const yk_tr_op *op = t->peer && peer < t->ranks ? t->peer[peer].sends : NULL;
    while (op && op->bytes <= YK_TR_EARLY)
        op = op->next;
    if (!op)
        return YK_OK;
    return yk__local_fail(why, YK_E_ARG,
                           "a message from %s to %s with tag %llu: one of %llu bytes with tag %llu is on its way, and what is "
                           "longer than %llu bytes lets no other pass; wait for it first",
                           t->name[t->rank], t->name[peer], (unsigned long long)tag, (unsigned long long)op->bytes,
                           (unsigned long long)op->tag, (unsigned long long)YK_TR_EARLY);
}

yk_status yk__local_send(yk_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes, yk_tr_op **out,
                         yk_tr_error *why)
{
    static uint8_t nothing;
    yk_tr_op *op = NULL;
    yk_status s = sends_free(t, peer, tag, why);
    s = s ? s : op_new(t, peer, tag, bytes ? (uint8_t *)(uintptr_t)data : &nothing, bytes, &op, why);
    if (s)
        return s;
    op->is_send = true;
    append_op(&t->peer[peer].sends, op);
    *out = op;
    return YK_OK;
}

/* A message that came early goes to its receive: whole, or what is there of it. */
static void op_adopt(yk__local_peer *p, yk_tr_op *op)
{
    early_message *c = p->early;
    while (c && c->tag != op->tag)
        c = c->next;
    if (!c)
        return;
    begin_op(op, c->total);
    if (!op->status && c->at) {
        memcpy(op->data, c->data, c->at);
        op->moved = c->at;
    }
    if (p->early_message == c) {
        p->op = op;
        p->early_message = NULL;
    } else {
        op->done = true;
        unlink_op(&p->recvs, op);
    }
    early_message_drop(p, c);
}

yk_status yk__local_recv(yk_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t room, yk_tr_op **out,
                         yk_tr_error *why)
{
    yk_tr_op *op = NULL;
    yk_status s = op_new(t, peer, tag, data, room, &op, why);
    if (s)
        return s;
    append_op(&t->peer[peer].recvs, op);
    op_adopt(&t->peer[peer], op);
    *out = op;
    return YK_OK;
}

yk_status yk__local_progress(yk_tr *t, yk_tr_error *why)
{
    bool moved = false;
    for (uint32_t r = 0; t->peer && r < t->ranks; r++) {
        yk_status s = r == t->rank ? YK_OK : send_some(t, r, &moved, why);
        s = s || r == t->rank ? s : receive_some(t, r, &moved, why);
        if (s)
            return s;
    }
    if (moved)
        yk__local_flag_set(t, YK_LOCAL_FLAG_RING, atomic_load(&t->head->slot[t->rank].flag[YK_LOCAL_FLAG_RING]) + 1);
    return YK_OK;
}

static yk_status op_finish(yk_tr *t, yk_tr_op *op, uint64_t *bytes, yk_tr_error *why)
{
    yk_status s = op->status;
    if (s)
        yk__local_fail(why, s, "a message from %s with tag %llu has %llu bytes, the receive room for %llu",
                        t->name[op->peer], (unsigned long long)op->tag, (unsigned long long)op->total,
                        (unsigned long long)op->bytes);
    else if (bytes)
        *bytes = op->moved;
    yk__free(op);
    return s;
}

/* The peer's last frames may lie in the ring still: only what is not done after one more look is lost. */
static yk_status peer_left(yk_tr *t, const yk_tr_op *op, yk_tr_error *why)
{
    yk_status s;
    if (atomic_load(&t->head->slot[op->peer].state) != YK_LOCAL_LEFT)
        return YK_OK;
    s = yk__local_progress(t, why);
    if (s || op->done)
        return s;
    return yk__local_fail(why, YK_E_DEVICE_LOST, "%s left the group with a message to or from %s under way",
                           t->name[op->peer], t->name[t->rank]);
}

static yk_status op_look(yk_tr *t, const yk_tr_op *op, yk_tr_error *why)
{
    yk_status s = yk__local_progress(t, why);
    if (s || op->done)
        return s;
    s = yk__local_end_error(t, why);
    return s ? s : peer_left(t, op, why);
}

/* As wait, but the operation is still there afterwards. goes_on: the time is over, nothing else happened. */
static yk_status wait_op(yk_tr *t, yk_tr_op *op, int timeout_ms, yk__local_idle *idle, bool *goes_on, yk_tr_error *why)
{
    int64_t begin = yk__local_now();
    for (;;) {
        uint32_t seen = atomic_load(&t->head->slot[op->peer].flag[YK_LOCAL_FLAG_RING]);
        yk_status s = op->done ? YK_OK : op_look(t, op, why);
        int64_t waited;
        if (s || op->done)
            return s;
        waited = yk__local_now() - begin;
        *goes_on = timeout_ms >= 0 && waited >= timeout_ms * 1000000ll;
        if (*goes_on)
            return yk__local_fail(why, YK_E_TIMEOUT, "a message to or from %s is not done after %d ms",
                                   t->name[op->peer], timeout_ms);
        if (waited <= SPIN_NS)
            continue;
        s = yk__local_look_idle(t, idle, op->peer, op->is_send ? "a send" : "a receive", why);
        if (s)
            return s;
        yk__local_sleep(t, op->peer, YK_LOCAL_FLAG_RING, seen, SLICE_NS);
    }
}

yk_status yk__local_wait(yk_tr *t, yk_tr_op *op, int timeout_ms, uint64_t *bytes, yk_tr_error *why)
{
    yk__local_idle idle = {0};
    bool goes_on = false;
    yk_status s = wait_op(t, op, timeout_ms, &idle, &goes_on, why);
    yk__local_waited(t, &idle);
    if (!s)
        return op_finish(t, op, bytes, why);
    if (!goes_on)
        yk__local_cancel(t, op);
    return s;
}

void yk__local_cancel(yk_tr *t, yk_tr_op *op)
{
    yk__local_peer *p = &t->peer[op->peer];
    if (op->is_send && op->begun && !op->done) {
        op->data = NULL; /* its last frame says so; it is released then */
        op->orphan = true;
        return;
    }
    if (p->op == op)
        p->op = NULL; /* the rest of the message goes nowhere */
    unlink_op(op->is_send ? &p->sends : &p->recvs, op);
    yk__free(op);
}

static void free_ops(yk_tr_op *op)
{
    while (op) {
        yk_tr_op *next = op->next;
        yk__free(op);
        op = next;
    }
}

void yk__local_messages_free(yk_tr *t)
{
    for (uint32_t r = 0; t->peer && r < t->ranks; r++) {
        free_ops(t->peer[r].sends);
        free_ops(t->peer[r].recvs);
        while (t->peer[r].early)
            early_message_drop(&t->peer[r], t->peer[r].early);
    }
    yk__free(t->peer);
    t->peer = NULL;
}
