/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the transport of one host: opening, sends and receives, waiting. */
#include "config.h"

#include "transport/local/internal.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"

#define LINE 64u
#define SPIN_NS 40000
#define SLICE_NS (20 * 1000000ll)

static int64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- Layout ------------------------------------------------------------------------------------------------------ */

static uint32_t ring_bytes(uint32_t ranks)
{
    return ranks <= 16 ? 256u * 1024u : 16u * 1024u;
}

static uint64_t ring_stride(uint32_t ranks)
{
    return (sizeof(yk__local_ring) + ring_bytes(ranks) + LINE - 1) / LINE * LINE;
}

uint64_t yk__local_bytes(uint32_t ranks)
{
    return ranks * sizeof(yk__local_bell) + (uint64_t)ranks * ranks * ring_stride(ranks);
}

yk__local_ring *yk__local_ring_at(void *shared, uint32_t ranks, uint32_t from, uint32_t to)
{
    return (void *)((char *)shared + ranks * sizeof(yk__local_bell) + ((uint64_t)from * ranks + to) * ring_stride(ranks));
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static void local_close(yk_tr *t)
{
    if (!t)
        return;
    yk__local_drop_all(t);
    pthread_mutex_destroy(&t->lock);
    yk__free(t->peer);
    yk__free(t->host);
    yk__free(t);
}

static yk_status peers_new(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    t->host = yk__calloc(t->ranks, sizeof *t->host);
    t->peer = yk__calloc(t->ranks, sizeof *t->peer);
    if (!t->host || !t->peer)
        return yk__local_fail(error, YK_E_MEM, "out of memory (messages of %u ranks)", t->ranks);
    memcpy(t->host, c->host, t->ranks * sizeof *t->host);
    t->bell = c->shared;
    for (uint32_t r = 0; c->shared && r < t->ranks; r++) {
        t->peer[r].out = yk__local_ring_at(c->shared, t->ranks, t->rank, r);
        t->peer[r].in = yk__local_ring_at(c->shared, t->ranks, r, t->rank);
    }
    return YK_OK;
}

static yk_status local_open(const yk_tr_config *c, yk_tr **out, yk_tr_error *error)
{
    yk_tr *t;
    yk_status s;
    if (c->size < sizeof *c || !c->ranks || c->rank >= c->ranks || !c->host)
        return yk__local_fail(error, YK_E_ARG, "a transport for rank %u of %u: the description does not fit", c->rank, c->ranks);
    t = yk__calloc(1, sizeof *t);
    if (!t)
        return yk__local_fail(error, YK_E_MEM, "out of memory (a transport)");
    t->rank = c->rank;
    t->ranks = c->ranks;
    t->ring_bytes = ring_bytes(t->ranks);
    pthread_mutex_init(&t->lock, NULL);
    s = peers_new(t, c, error);
    if (s) {
        local_close(t);
        return s;
    }
    *out = t;
    return YK_OK;
}

static yk_status local_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error)
{
    if (peer >= t->ranks)
        return yk__local_fail(error, YK_E_ARG, "rank %u: there are %u ranks", peer, t->ranks);
    info->caps = yk__local_reaches(t, peer) ? YK_TR_CAP_MESSAGES : 0;
    info->host = t->host[peer];
    return YK_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static yk_status local_register(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error)
{
    (void)t;
    if (source->size < sizeof *source || source->kind != YK_TR_MEM_HOST)
        return yk__local_fail(error, YK_E_ARG, "memory of kind %u: only host memory can be registered here", source->kind);
    *mem = yk__calloc(1, sizeof **mem);
    if (!*mem)
        return yk__local_fail(error, YK_E_MEM, "out of memory (registered memory)");
    **mem = (yk_tr_mem){source->data, source->bytes};
    return YK_OK;
}

static void local_mem_release(yk_tr *t, yk_tr_mem *mem)
{
    (void)t;
    yk__free(mem);
}

/* ---- Sends and receives ------------------------------------------------------------------------------------------ */

static yk_status range_data(const yk_tr_range *range, uint8_t **data, yk_tr_error *error)
{
    static uint8_t nothing;
    if (range->mem && (range->offset > range->mem->bytes || range->bytes > range->mem->bytes - range->offset))
        return yk__local_fail(error, YK_E_ARG, "%llu bytes at %llu of registered memory of %llu", (unsigned long long)range->bytes,
                              (unsigned long long)range->offset, (unsigned long long)range->mem->bytes);
    *data = range->mem ? range->mem->data + range->offset : range->data;
    *data = range->bytes ? *data : &nothing;
    return YK_OK;
}

static yk_status op_new(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *range, yk_tr_op **out, yk_tr_error *error)
{
    uint8_t *data = NULL;
    yk_status s;
    if (!yk__local_reaches(t, peer) || range->bytes > INT64_MAX)
        return yk__local_fail(error, YK_E_ARG, "a message between rank %u and rank %u of %u, tag %llu, %llu bytes: not possible",
                              t->rank, peer, t->ranks, (unsigned long long)tag, (unsigned long long)range->bytes);
    s = range_data(range, &data, error);
    if (s)
        return s;
    *out = yk__calloc(1, sizeof **out);
    if (!*out)
        return yk__local_fail(error, YK_E_MEM, "out of memory (a message)");
    **out = (yk_tr_op){.peer = peer, .tag = tag, .data = data, .bytes = range->bytes};
    return YK_OK;
}

static yk_status local_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **out, yk_tr_error *error)
{
    yk_tr_op *op = NULL;
    const yk_status s = op_new(t, peer, tag, from, &op, error);
    if (s)
        return s;
    op->is_send = true;
    pthread_mutex_lock(&t->lock);
    if (op->bytes > YK__LOCAL_EAGER) {
        op->phase = YK__LOCAL_ASK;
        op->id = ++t->peer[peer].ids ? t->peer[peer].ids : ++t->peer[peer].ids; /* 0: no long one */
    }
    yk__local_append(&t->peer[peer].sends, op);
    pthread_mutex_unlock(&t->lock);
    *out = op;
    return YK_OK;
}

static yk_status local_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **out, yk_tr_error *error)
{
    yk_tr_op *op = NULL;
    yk_status s = op_new(t, peer, tag, to, &op, error);
    if (s)
        return s;
    pthread_mutex_lock(&t->lock);
    yk__local_append(&t->peer[peer].recvs, op);
    s = yk__local_adopt(t, op, error);
    if (s)
        yk__local_give_up(t, op);
    pthread_mutex_unlock(&t->lock);
    if (!s)
        *out = op;
    return s;
}

static void local_cancel(yk_tr *t, yk_tr_op *op)
{
    pthread_mutex_lock(&t->lock);
    yk__local_give_up(t, op);
    pthread_mutex_unlock(&t->lock);
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static void sleep_on_bell(yk_tr *t, uint32_t seen, int64_t ns)
{
    yk__local_bell *bell = &t->bell[t->rank];
    const struct timespec ts = {ns / 1000000000, ns % 1000000000};
    atomic_fetch_add(&bell->sleepers, 1);
    if (atomic_load(&bell->rung) == seen)
        syscall(SYS_futex, &bell->rung, FUTEX_WAIT, seen, &ts, NULL, 0);
    atomic_fetch_sub(&bell->sleepers, 1);
}

/* Moves once; *rung: the bell before, *events: what was done after. */
static yk_status move_once(yk_tr *t, uint32_t *rung, uint64_t *events, yk_tr_error *error)
{
    yk_status s;
    pthread_mutex_lock(&t->lock);
    *rung = t->bell ? atomic_load(&t->bell[t->rank].rung) : 0;
    s = yk__local_move(t, error);
    *events = t->events;
    pthread_mutex_unlock(&t->lock);
    return s;
}

static yk_status local_progress(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error)
{
    const int64_t begin = now_ns(), limit = timeout_ms * 1000000ll;
    for (;;) {
        uint64_t done;
        uint32_t rung;
        int64_t waited;
        const yk_status s = move_once(t, &rung, &done, error);
        if (s)
            return s;
        waited = now_ns() - begin;
        if (done != *events || waited >= limit || !t->bell) {
            *events = done;
            return YK_OK;
        }
        if (waited > SPIN_NS)
            sleep_on_bell(t, rung, limit - waited < SLICE_NS ? limit - waited : SLICE_NS);
    }
}

static yk_status fail_op(const yk_tr_op *op, yk_tr_error *error)
{
    return yk__local_fail(error, op->status, "a message from rank %u with tag %llu has %llu bytes, the receive buffer holds %llu",
                          op->peer, (unsigned long long)op->tag, (unsigned long long)op->total, (unsigned long long)op->bytes);
}

static yk_status local_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk_status s = YK_OK;
    pthread_mutex_lock(&t->lock);
    if (!op->done)
        s = yk__local_move(t, error);
    *done = op->done;
    pthread_mutex_unlock(&t->lock);
    if (!*done || s)
        return s;
    if (op->status)
        s = fail_op(op, error);
    else if (bytes)
        *bytes = op->moved;
    yk__free(op);
    return s;
}

static bool any_done(yk_tr *t, yk_tr_op *const *op, uint32_t n, uint64_t *events, uint32_t *index)
{
    bool done = false;
    pthread_mutex_lock(&t->lock);
    *events = t->events;
    for (uint32_t i = 0; i < n && !done; i++)
        if (op[i] && op[i]->done) {
            *index = i;
            done = true;
        }
    pthread_mutex_unlock(&t->lock);
    return done;
}

static yk_status local_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    const int64_t begin = now_ns();
    uint64_t events = 0;
    while (!any_done(t, op, n, &events, index)) {
        const int64_t left = timeout_ms < 0 ? 1000 : timeout_ms - (now_ns() - begin) / 1000000;
        const yk_status s = local_progress(t, left > 0 ? (int)left : 0, &events, error);
        if (s)
            return s;
        if (left <= 0 && !any_done(t, op, n, &events, index))
            return yk__local_fail(error, YK_E_TIMEOUT, "none of %u messages is done after %d ms", n, timeout_ms);
    }
    return YK_OK;
}

static const void *local_extension(const char *name)
{
    (void)name;
    return NULL;
}

const yk_transport *yk__local_transport(void)
{
    static const yk_transport table = {
        .size = sizeof table,
        .major = YK_TRANSPORT_MAJOR,
        .minor = YK_TRANSPORT_MINOR,
        .name = "local",
        .extension = local_extension,
        .shared_bytes = yk__local_bytes,
        .open = local_open,
        .close = local_close,
        .peer = local_peer,
        .mem_register = local_register,
        .mem_release = local_mem_release,
        .send = local_send,
        .recv = local_recv,
        .progress = local_progress,
        .test = local_test,
        .wait_any = local_wait_any,
        .cancel = local_cancel,
    };
    return &table;
}
