/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the ofi transport. Nobody drives it but its callers: test, progress and wait_any read the provider's completions under one
 * lock. Providers differ in what they can sleep in, and some in none, so that who waits looks again after a pause, which grows.
 */
#include "config.h"

#include "transport/ofi/internal.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

enum { SPIN_US = 50, PAUSE_US = 50, PAUSE_MOST_US = 500 };

yk_status yk__ofi_fail(yk_tr_error *error, yk_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error->text, sizeof error->text, fmt, ap);
    va_end(ap);
    return status;
}

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
        return yk__ofi_fail(error, YK_E_ARG, "rank %u: there are %u ranks", peer, t->ranks);
    info->caps = peer == t->rank ? 0 : YK_TR_CAP_MESSAGES;
    info->host = t->host[peer];
    return YK_OK;
}

/* ---- Memory --------------------------------------------------------------------------------------------------------- */

static yk_status ofi_register(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error)
{
    (void)t;
    if (source->size < sizeof *source || source->kind != YK_TR_MEM_HOST)
        return yk__ofi_fail(error, YK_E_ARG, "memory of kind %u: only host memory can be registered here", source->kind);
    *mem = yk__calloc(1, sizeof **mem);
    if (!*mem)
        return yk__ofi_fail(error, YK_E_MEM, "out of memory (registered memory)");
    **mem = (yk_tr_mem){source->data, source->bytes};
    return YK_OK;
}

static void ofi_mem_release(yk_tr *t, yk_tr_mem *mem)
{
    (void)t;
    yk__free(mem);
}

/* ---- Sends and receives --------------------------------------------------------------------------------------------- */

static yk_status range_data(const yk_tr_range *range, uint8_t **data, yk_tr_error *error)
{
    static uint8_t nothing;
    if (range->mem && (range->offset > range->mem->bytes || range->bytes > range->mem->bytes - range->offset))
        return yk__ofi_fail(error, YK_E_ARG, "%llu bytes at %llu of registered memory of %llu", (unsigned long long)range->bytes,
                            (unsigned long long)range->offset, (unsigned long long)range->mem->bytes);
    *data = range->mem ? range->mem->data + range->offset : range->data;
    *data = range->bytes ? *data : &nothing;
    return YK_OK;
}

static yk_status op_new(const yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *range, yk_tr_op **out, yk_tr_error *error)
{
    uint8_t *data = NULL;
    yk_status s;
    if (peer >= t->ranks || peer == t->rank || range->bytes > INT64_MAX)
        return yk__ofi_fail(error, YK_E_ARG, "a message between rank %u and rank %u of %u, tag %llu, %llu bytes: not possible", t->rank,
                            peer, t->ranks, (unsigned long long)tag, (unsigned long long)range->bytes);
    s = range_data(range, &data, error);
    if (s)
        return s;
    *out = yk__calloc(1, sizeof **out);
    if (!*out)
        return yk__ofi_fail(error, YK_E_MEM, "out of memory (a message)");
    **out = (yk_tr_op){.peer = peer, .tag = tag, .data = data, .bytes = range->bytes};
    return YK_OK;
}

static yk_status fail_peer(const yk_tr *t, uint32_t peer, yk_tr_error *error)
{
    return yk__ofi_fail(error, YK_E_IO, "rank %u cannot reach rank %u: provider %s: %s", t->rank, peer, t->info->fabric_attr->prov_name,
                        t->peer[peer].why);
}

static yk_status begin_send(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__ofi_peer *p = &t->peer[op->peer];
    bool moved;
    op->is_send = true;
    if (op->bytes > YK__OFI_EAGER)
        op->number = ++p->numbers;
    yk__ofi_append(&p->sends, op);
    return yk__ofi_move(t, &moved, error);
}

static yk_status begin_recv(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    yk__ofi_append(&t->peer[op->peer].recvs, op);
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
    yk_status s = op_new(t, peer, tag, range, &op, error);
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

static yk_status fail_op(const yk_tr *t, const yk_tr_op *op, yk_tr_error *error)
{
    if (op->status == YK_E_IO)
        return fail_peer(t, op->peer, error);
    return yk__ofi_fail(error, op->status, "a message from rank %u with tag %llu has %llu bytes, the receive buffer holds %llu", op->peer,
                        (unsigned long long)op->tag, (unsigned long long)op->total, (unsigned long long)op->bytes);
}

static yk_status ofi_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk_status s = YK_OK;
    bool moved;
    pthread_mutex_lock(&t->lock);
    if (!op->done)
        s = yk__ofi_move(t, &moved, error);
    *done = op->done;
    if (op->done)
        s = op->status ? fail_op(t, op, error) : YK_OK;
    pthread_mutex_unlock(&t->lock);
    if (!*done)
        return s;
    if (!s && bytes)
        *bytes = op->moved;
    yk__free(op);
    return s;
}

static bool find_done(yk_tr *t, yk_tr_op *const *op, uint32_t n, uint64_t *events, uint32_t *index)
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

static yk_status ofi_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    const int64_t begin = yk__clock_ms();
    uint64_t events = 0;
    while (!find_done(t, op, n, &events, index)) {
        const int64_t left = timeout_ms < 0 ? 1000 : timeout_ms - (yk__clock_ms() - begin);
        const yk_status s = ofi_progress(t, left > 0 ? (int)left : 0, &events, error);
        if (s)
            return s;
        if (left <= 0 && !find_done(t, op, n, &events, index))
            return yk__ofi_fail(error, YK_E_TIMEOUT, "none of %u messages is done after %d ms", n, timeout_ms);
    }
    return YK_OK;
}

static const void *ofi_extension(const char *name)
{
    static const yk_tr_describe describe = {.size = sizeof describe, .describe = yk__ofi_describe};
    return strcmp(name, YK_TR_EXT_DESCRIBE) ? NULL : &describe;
}

static uint64_t ofi_shared_bytes(uint32_t ranks)
{
    (void)ranks;
    return 0;
}

const yk_transport *yk__ofi_transport(void)
{
    static const yk_transport table = {
        .size = sizeof table,
        .major = YK_TRANSPORT_MAJOR,
        .minor = YK_TRANSPORT_MINOR,
        .name = "ofi",
        .extension = ofi_extension,
        .shared_bytes = ofi_shared_bytes,
        .open = yk__ofi_open,
        .close = yk__ofi_close,
        .peer = ofi_peer,
        .mem_register = ofi_register,
        .mem_release = ofi_mem_release,
        .send = ofi_send,
        .recv = ofi_recv,
        .progress = ofi_progress,
        .test = ofi_test,
        .wait_any = ofi_wait_any,
        .cancel = ofi_cancel,
    };
    return &table;
}
