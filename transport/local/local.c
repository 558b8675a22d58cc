/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the transport of one host: opening, sends and receives, waiting. */
#include "config.h"

#include "transport/local/internal.h"
#include "transport/local/local.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define LINE 64u
#define SPIN_NS 40000
#define SLICE_NS (20 * 1000000ll)

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
        return yk__tr_fail(error, YK_E_MEM, "out of memory (messages of %u ranks)", t->ranks);
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
        return yk__tr_fail(error, YK_E_ARG, "a transport for rank %u of %u: the description does not fit", c->rank, c->ranks);
    t = yk__calloc(1, sizeof *t);
    if (!t)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a transport)");
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
        return yk__tr_fail(error, YK_E_ARG, "rank %u: there are %u ranks", peer, t->ranks);
    info->caps = yk__local_reaches(t, peer) ? YK_TR_CAP_MESSAGES : 0;
    info->host = t->host[peer];
    return YK_OK;
}

/* ---- Sends and receives ------------------------------------------------------------------------------------------ */

static yk_status op_new(const yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *range, yk_tr_op **op, yk_tr_error *error)
{
    return yk__tr_op_new(sizeof **op, t->rank, peer, yk__local_reaches(t, peer), tag, range, op, error);
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
        op->number = ++t->peer[peer].ids ? t->peer[peer].ids : ++t->peer[peer].ids; /* 0: no long one */
    }
    yk__tr_append(&t->peer[peer].sends, op);
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
    yk__tr_append(&t->peer[peer].recvs, op);
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
    const int64_t begin = yk__clock_ns(), limit = timeout_ms * 1000000ll;
    for (;;) {
        uint64_t done;
        uint32_t rung;
        int64_t waited;
        const yk_status s = move_once(t, &rung, &done, error);
        if (s)
            return s;
        waited = yk__clock_ns() - begin;
        if (done != *events || waited >= limit || !t->bell) {
            *events = done;
            return YK_OK;
        }
        if (waited > SPIN_NS)
            sleep_on_bell(t, rung, limit - waited < SLICE_NS ? limit - waited : SLICE_NS);
    }
}

static yk_status local_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk_status s = YK_OK;
    pthread_mutex_lock(&t->lock);
    if (!op->done)
        s = yk__local_move(t, error);
    *done = op->done;
    pthread_mutex_unlock(&t->lock);
    return *done && !s ? yk__tr_op_end(op, bytes, error) : s;
}

static yk_status local_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    const yk__tr_done how = {&t->lock, &t->events, local_progress};
    return yk__tr_wait_any(t, &how, op, n, timeout_ms, index, error);
}

const yk_transport *yk__local_transport(void)
{
    static const yk_transport table = {
        .size = sizeof table,
        .major = YK_TRANSPORT_MAJOR,
        .minor = YK_TRANSPORT_MINOR,
        .name = "local",
        .extension = yk__tr_no_extension,
        .shared_bytes = yk__local_bytes,
        .open = local_open,
        .close = local_close,
        .peer = local_peer,
        .mem_register = yk__tr_mem_register,
        .mem_release = yk__tr_mem_release,
        .send = local_send,
        .recv = local_recv,
        .progress = local_progress,
        .test = local_test,
        .wait_any = local_wait_any,
        .cancel = local_cancel,
    };
    return &table;
}
