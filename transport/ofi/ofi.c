/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the ofi transport. Nobody drives it but its callers: test, progress and wait_any read the provider's completions under one
 * lock. Providers differ in what they can sleep in, and some in none, so that who waits looks again after a pause, which grows.
 */
#include "config.h"

#include "transport/ofi/internal.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

enum { SPIN_US = 50, PAUSE_US = 50, PAUSE_MOST_US = 500 };

/* ---- Moving --------------------------------------------------------------------------------------------------------- */

static yk_status move_locked(yk_tr *t, uint64_t *events, yk_tr_error *error)
{
    bool moved;
    yk_status s;
    pthread_mutex_lock(&t->lock);
    s = yk__ofi_move(t, &moved, error);
    *events = t->events;
    pthread_mutex_unlock(&t->lock);
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
    int64_t wait_us = PAUSE_US;
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
        if (spent_us < SPIN_US) {
            sched_yield();
            continue;
        }
        pause_us(wait_us);
        wait_us = wait_us * 2 < PAUSE_MOST_US ? wait_us * 2 : PAUSE_MOST_US;
    }
}

static yk_status ofi_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error)
{
    if (peer >= t->ranks)
        return yk__tr_fail(error, YK_E_ARG, "rank %u: there are %u ranks", peer, t->ranks);
    info->caps = peer == t->rank ? 0 : YK_TR_CAP_MESSAGES;
    info->host = t->host[peer];
    return YK_OK;
}

/* ---- Sends and receives --------------------------------------------------------------------------------------------- */

static yk_status fail_peer(const yk_tr *t, uint32_t peer, yk_tr_error *error)
{
    return yk__tr_fail(error, YK_E_IO, "rank %u cannot reach rank %u: provider %s: %s", t->rank, peer, t->info->fabric_attr->prov_name,
                        t->peer[peer].why);
}

static yk_status begin_send(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__ofi_peer *p = &t->peer[op->peer];
    bool moved;
    op->is_send = true;
    if (op->bytes > YK__OFI_EAGER)
        op->number = ++p->numbers;
    yk__tr_append(&p->sends, op);
    return yk__ofi_move(t, &moved, error);
}

static yk_status begin_recv(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__tr_append(&t->peer[op->peer].recvs, op);
    t->failed = yk__ofi_adopt(t, op, &t->why);
    if (t->failed)
        *error = t->why;
    return t->failed;
}

/* What was sent before the peer was lost may still be here, so that a receive is tried. */
static yk_status op_begin(yk_tr *t, yk_tr_op *op, yk_status (*begin)(yk_tr *, yk_tr_op *, yk_tr_error *), yk_tr_error *error)
{
    yk_status s = t->failed;
    if (s)
        *error = t->why;
    else
        s = begin(t, op, error);
    if (!s && t->peer[op->peer].failed && !op->done)
        s = fail_peer(t, op->peer, error);
    if (s)
        yk__ofi_cancel(t, op);
    return s;
}

static yk_status ofi_post(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *range,
                          yk_status (*begin)(yk_tr *, yk_tr_op *, yk_tr_error *), yk_tr_op **out, yk_tr_error *error)
{
    yk_tr_op *op = NULL;
    yk_status s = yk__tr_op_new(sizeof *op, t->rank, peer, peer < t->ranks && peer != t->rank, tag, range, &op, error);
    if (s)
        return s;
    pthread_mutex_lock(&t->lock);
    s = op_begin(t, op, begin, error);
    pthread_mutex_unlock(&t->lock);
    if (!s)
        *out = op;
    return s;
}

static yk_status ofi_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **out, yk_tr_error *error)
{
    return ofi_post(t, peer, tag, from, begin_send, out, error);
}

static yk_status ofi_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **out, yk_tr_error *error)
{
    return ofi_post(t, peer, tag, to, begin_recv, out, error);
}

static void ofi_cancel(yk_tr *t, yk_tr_op *op)
{
    pthread_mutex_lock(&t->lock);
    yk__ofi_cancel(t, op);
    pthread_mutex_unlock(&t->lock);
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------- */

static yk_status ofi_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk_status s = YK_OK;
    bool moved;
    pthread_mutex_lock(&t->lock);
    if (!op->done)
        s = yk__ofi_move(t, &moved, error);
    *done = op->done;
    pthread_mutex_unlock(&t->lock);
    if (!*done)
        return s;
    if (op->status != YK_E_IO)
        return yk__tr_op_end(op, bytes, error);
    s = fail_peer(t, op->peer, error); /* its text is written once, before operations fail */
    yk__free(op);
    return s;
}

static yk_status ofi_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    const yk__tr_done how = {&t->lock, &t->events, ofi_progress};
    return yk__tr_wait_any(t, &how, op, n, timeout_ms, index, error);
}

static const void *ofi_extension(const char *name)
{
    static const yk_tr_describe describe = {.size = sizeof describe, .describe = yk__ofi_describe};
    return strcmp(name, YK_TR_EXT_DESCRIBE) ? NULL : &describe;
}

const yk_transport *yk__ofi_transport(void)
{
    static const yk_transport table = {
        .size = sizeof table,
        .major = YK_TRANSPORT_MAJOR,
        .minor = YK_TRANSPORT_MINOR,
        .name = "ofi",
        .extension = ofi_extension,
        .shared_bytes = yk__tr_no_shared_bytes,
        .open = yk__ofi_open,
        .close = yk__ofi_close,
        .peer = ofi_peer,
        .mem_register = yk__tr_mem_register,
        .mem_release = yk__tr_mem_release,
        .send = ofi_send,
        .recv = ofi_recv,
        .progress = ofi_progress,
        .test = ofi_test,
        .wait_any = ofi_wait_any,
        .cancel = ofi_cancel,
    };
    return &table;
}
