/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport of one host, rings of bytes in memory that the ranks share: its layout, its opening, and waits for a message.
 * local_message.c moves the bytes, base.c has the common functions.
 *
 * transport_choice.c (core/group) takes its table, and core/coll calls it through that, in the step thread or the progress thread. A
 * waiting thread spins, then sleeps on its rank's bell, a word that each sender rings behind a message.
 */
#include "config.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "transport/local/local.h"
#include "transport/local/local_internal.h"

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

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static void sleep_on_bell(yk_tr *t, uint32_t seen, int64_t ns)
{
    yk__local_bell *bell = &t->bell[t->base.rank];
    const struct timespec ts = {ns / 1000000000, ns % 1000000000};
    atomic_fetch_add(&bell->sleepers, 1);
    if (atomic_load(&bell->rung) == seen)
        syscall(SYS_futex, &bell->rung, FUTEX_WAIT, seen, &ts, NULL, 0);
    atomic_fetch_sub(&bell->sleepers, 1);
}

/* Moves once; *rung gets the bell's count before, *events the number of completed operations after. */
static yk_status move_once(yk_tr *t, uint32_t *rung, uint64_t *events, yk_tr_error *error)
{
    yk_status s;
    pthread_mutex_lock(&t->base.lock);
    *rung = t->bell ? atomic_load(&t->bell[t->base.rank].rung) : 0;
    s = yk__local_move(t, error);
    *events = t->base.events;
    pthread_mutex_unlock(&t->base.lock);
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

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static void local_close(yk_tr *t)
{
    if (!t)
        return;
    yk__local_drop_all(t);
    yk__free(t->peer);
    yk__tr_free(t);
}

static yk_status peers_new(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    t->peer = yk__calloc(t->base.ranks, sizeof *t->peer);
    if (!t->peer)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (messages of %u ranks)", t->base.ranks);
    t->bell = c->shared;
    for (uint32_t r = 0; c->shared && r < t->base.ranks; r++) {
        t->peer[r].out = yk__local_ring_at(c->shared, t->base.ranks, t->base.rank, r);
        t->peer[r].in = yk__local_ring_at(c->shared, t->base.ranks, r, t->base.rank);
    }
    return YK_OK;
}

static yk_status local_open(const yk_tr_config *c, yk_tr **out, yk_tr_error *error)
{
    static const yk__tr_calls calls = {.op_bytes = sizeof(yk_tr_op), .reaches = yk__local_reaches, .begin = yk__local_begin,
                                       .move = yk__local_move, .give_up = yk__local_give_up, .progress = local_progress};
    yk_tr *t = NULL;
    yk_status s = yk__tr_new(sizeof *t, &calls, c, &t, error);
    if (s)
        return s;
    t->ring_bytes = ring_bytes(t->base.ranks);
    s = peers_new(t, c, error);
    if (s)
        local_close(t);
    else
        *out = t;
    return s;
}

const yk_transport *yk__local_transport(void)
{
    static const yk_transport table = {
        YK__TR_TABLE,
        .name = "local",
        .extension = yk__tr_checked,
        .shared_bytes = yk__local_bytes,
        .open = local_open,
        .close = local_close,
        .peer = yk__tr_peer,
        .progress = local_progress,
    };
    return &table;
}
