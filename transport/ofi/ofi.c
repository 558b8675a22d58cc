/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the ofi transport (libfabric), as its table has them. core/coll calls them in the step thread and the progress thread.
 *
 * It has no thread for moving data: test, progress and wait_any read the provider's completions under one lock. Providers, libfabric's
 * drivers, differ in their means of sleeping, and some have none. So a waiting thread polls, with growing pauses.
 */
#include "config.h"

#include "transport/ofi/ofi.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "transport/ofi/ofi_frame.h"
#include "transport/ofi/ofi_internal.h"
#include "transport/ofi/ofi_message.h"
#include "transport/ofi/ofi_open.h"
#include "transport/ofi/provider.h"

enum {
    SPIN_US = 50,
    PAUSE_US = 50,
    PAUSE_MOST_US = 500,
    PATIENT_MS = 100, /* a wait longer than this saves CPU time: no spinning, longer pauses */
    PAUSE_PATIENT_US = 10000
};

/* ---- Moving --------------------------------------------------------------------------------------------------------- */

static yk_status move_locked(yk_tr *t, uint64_t *events, yk_tr_error *error)
{
    bool moved;
    yk_status s;
    pthread_mutex_lock(&t->base.lock);
    s = yk__ofi_move(t, &moved, error);
    *events = t->base.events;
    pthread_mutex_unlock(&t->base.lock);
    return s;
}

static void pause_us(int64_t us)
{
    const struct timespec pause = {0, us * 1000};
    nanosleep(&pause, NULL);
}

static yk_status ofi_progress(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error)
{
    const int64_t begin = yk__clock_ns();
    const int64_t most_us = timeout_ms < PATIENT_MS ? PAUSE_MOST_US : PAUSE_PATIENT_US;
    int64_t wait_us = timeout_ms < PATIENT_MS ? PAUSE_US : PAUSE_MOST_US;
    for (;;) {
        uint64_t done = 0;
        const yk_status s = move_locked(t, &done, error);
        const int64_t spent_us = (yk__clock_ns() - begin) / 1000;
        if (s)
            return s;
        if (done != *events || spent_us >= timeout_ms * 1000ll) {
            *events = done;
            return YK_OK;
        }
        if (spent_us < SPIN_US && timeout_ms < PATIENT_MS) {
            sched_yield();
            continue;
        }
        pause_us(wait_us);
        wait_us = wait_us * 2 < most_us ? wait_us * 2 : most_us;
    }
}

/* ---- Operations ----------------------------------------------------------------------------------------------------- */

static bool ofi_reaches(const yk_tr *t, uint32_t peer)
{
    return peer != t->base.rank;
}

static yk_status move_quietly(yk_tr *t, yk_tr_error *error)
{
    bool moved;
    return yk__ofi_move(t, &moved, error);
}

static yk_status begin_send(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__match_send(&t->peer[op->peer].match, op);
    return move_quietly(t, error);
}

static yk_status begin_recv(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    t->failed = yk__match_recv(&t->peer[op->peer].match, op, &t->why);
    if (t->failed)
        *error = t->why;
    return t->failed;
}

/* Begins an operation. A receive from a lost peer is tried, as a message sent before may still be here. */
static yk_status op_begin(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    const yk__ofi_peer *p = &t->peer[op->peer];
    yk_status s = t->failed;
    if (s)
        *error = t->why;
    else
        s = op->is_send ? begin_send(t, op, error) : begin_recv(t, op, error);
    if (!s && p->failed && !op->done) {
        *error = p->why;
        s = YK_E_IO;
    }
    return s;
}

/* ---- Watching ------------------------------------------------------------------------------------------------------- */

/* Watches one peer; sends a beat if no frame waits or is pending. */
static bool peer_watch(yk_tr *t, uint32_t peer, int64_t step_ms)
{
    yk__ofi_peer *p = &t->peer[peer];
    yk__line_state state;
    p->line.sent = p->sent;
    state = yk__line_look(&p->line, step_ms, yk__watch_silent_ms(t));
    if (state == YK__LINE_QUIET && !p->filled && !p->under_way && !p->talk && !t->failed)
        t->failed = yk__ofi_say(t, peer, YK__OFI_BEAT, 0, &t->why);
    return state != YK__LINE_LOST;
}

/* Watches all peers that have greeted; the others may have no endpoint yet. */
static uint32_t ofi_watch(yk_tr *t, int64_t step_ms, yk_tr_error *why)
{
    uint32_t lost = UINT32_MAX;
    move_quietly(t, why);
    for (uint32_t r = 0; r < t->base.ranks && lost == UINT32_MAX; r++) {
        if (!t->peer[r].greeted || t->peer[r].failed || peer_watch(t, r, step_ms))
            continue;
        yk__ofi_fail_peer(t, r);
        *why = t->peer[r].why;
        lost = r;
    }
    move_quietly(t, &(yk_tr_error){""});
    return lost;
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */

static yk_status ofi_open(const yk_tr_config *c, yk_tr **t, yk_tr_error *error)
{
    static const yk__tr_calls calls = {.op_bytes = sizeof(yk_tr_op), .reaches = ofi_reaches, .begin = op_begin, .move = move_quietly,
                                       .give_up = yk__ofi_cancel, .progress = ofi_progress, .watch = ofi_watch};
    return yk__ofi_open(&calls, c, t, error);
}

static const void *ofi_extension(const char *name)
{
    static const yk_tr_describe describe = {.size = sizeof describe, .describe = yk__ofi_describe};
    return strcmp(name, YK_TR_EXT_DESCRIBE) ? yk__tr_checked(name) : &describe;
}

const yk_transport *yk__ofi_transport(void)
{
    static const yk_transport table = {
        YK__TR_TABLE,
        .name = "ofi",
        .extension = ofi_extension,
        .shared_bytes = yk__tr_no_shared_bytes,
        .open = ofi_open,
        .close = yk__ofi_close,
        .peer = yk__tr_peer,
        .progress = ofi_progress,
    };
    return &table;
}
