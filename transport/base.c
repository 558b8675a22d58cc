/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of transports over messages: the start, sends, receives, waits and memory of yk_transport. A transport (local, sock,
 * ofi) adds functions that move bytes (yk__tr_calls in base.h).
 *
 * core/coll calls it through the transport's table, in the step thread and the progress thread; the watch's thread moves bytes too. One
 * lock guards a transport, and a caller that waits sleeps outside it.
 */
#include "config.h"

#include "transport/base.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

enum { LOOK_MS = 1000 }; /* slice of a wait without a limit */

/* The base is the first member of every transport's struct. */
static yk__tr_base *base_of(yk_tr *t)
{
    return (yk__tr_base *)(void *)t;
}

static const yk__tr_base *base_read(const yk_tr *t)
{
    return (const yk__tr_base *)(const void *)t;
}

/* ---- From open to close -------------------------------------------------------------------------------------------- */

static bool config_fits(const yk_tr_config *c)
{
    return c->size >= offsetof(yk_tr_config, address) && c->ranks && c->rank < c->ranks && c->host && c->exchange;
}

yk_status yk__tr_new(size_t bytes, const yk__tr_calls *calls, const yk_tr_config *c, yk_tr **t, yk_tr_error *error)
{
    pthread_condattr_t attr;
    yk__tr_base *base;
    if (!config_fits(c))
        return yk__tr_fail(error, YK_E_ARG, "a transport for rank %u of %u: the description does not fit", c->rank, c->ranks);
    base = yk__calloc(1, bytes);
    if (base)
        base->host = yk__calloc(c->ranks, sizeof *base->host);
    if (!base || !base->host) {
        yk__free(base);
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a transport among %u ranks)", c->ranks);
    }
    base->calls = calls;
    base->rank = c->rank;
    base->ranks = c->ranks;
    memcpy(base->host, c->host, c->ranks * sizeof *base->host);
    if (c->size > offsetof(yk_tr_config, check))
        base->check = c->check;
    if (c->size > offsetof(yk_tr_config, lost))
        base->lost = c->lost;
    base->exchange_arg = c->exchange_arg;
    pthread_mutex_init(&base->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&base->watch_wakes, &attr);
    pthread_condattr_destroy(&attr);
    *t = (yk_tr *)(void *)base;
    return YK_OK;
}

void yk__tr_free(yk_tr *t)
{
    yk__tr_base *base = base_of(t);
    pthread_cond_destroy(&base->watch_wakes);
    pthread_mutex_destroy(&base->lock);
    yk__free(base->host);
    yk__free(base);
}

yk_status yk__tr_check(const yk_tr *t, yk_tr_error *error)
{
    const yk__tr_base *base = base_read(t);
    return base->check ? base->check(base->exchange_arg, error) : YK_OK;
}

static bool on_one_host(const yk_tr_config *c)
{
    for (uint32_t r = 0; r < c->ranks; r++)
        if (c->host[r] != c->host[0])
            return false;
    return true;
}

yk_status yk__tr_address(const yk_tr_config *c, const char **address, yk_tr_error *error)
{
    *address = c->size > offsetof(yk_tr_config, address) && c->address && *c->address ? c->address : NULL;
    if (*address || on_one_host(c))
        return YK_OK;
    return yk__tr_fail(error, YK_E_ARG, "rank %u runs beside other hosts, and its address in their network is not known", c->rank);
}

yk_status yk__tr_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error)
{
    const yk__tr_base *base = base_read(t);
    if (peer >= base->ranks)
        return yk__tr_fail(error, YK_E_ARG, "rank %u: there are %u ranks", peer, base->ranks);
    info->caps = base->calls->reaches(t, peer) ? YK_TR_CAP_MESSAGES : 0;
    info->host = base->host[peer];
    return YK_OK;
}

/* ---- Operations ---------------------------------------------------------------------------------------------------- */

static yk_status op_post(yk_tr *t, bool is_send, uint32_t peer, uint64_t tag, const yk_tr_range *range, yk_tr_op **out,
                         yk_tr_error *error)
{
    yk__tr_base *base = base_of(t);
    yk_tr_op *op = NULL;
    yk_status s = yk__tr_op_new(base->calls->op_bytes, base->rank, peer, peer < base->ranks && base->calls->reaches(t, peer), tag, range,
                                &op, error);
    if (s)
        return s;
    op->is_send = is_send;
    pthread_mutex_lock(&base->lock);
    s = base->calls->begin(t, op, error);
    if (s)
        base->calls->give_up(t, op);
    pthread_mutex_unlock(&base->lock);
    if (!s)
        *out = op;
    return s;
}

yk_status yk__tr_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error)
{
    return op_post(t, true, peer, tag, from, op, error);
}

yk_status yk__tr_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error)
{
    return op_post(t, false, peer, tag, to, op, error);
}

yk_status yk__tr_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk__tr_base *base = base_of(t);
    yk_status s = YK_OK;
    pthread_mutex_lock(&base->lock);
    if (!op->done)
        s = base->calls->move(t, error);
    *done = op->done;
    pthread_mutex_unlock(&base->lock);
    return *done ? yk__tr_op_end(op, bytes, error) : s;
}

void yk__tr_cancel(yk_tr *t, yk_tr_op *op)
{
    yk__tr_base *base = base_of(t);
    pthread_mutex_lock(&base->lock);
    base->calls->give_up(t, op);
    pthread_mutex_unlock(&base->lock);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

static bool done_find(yk__tr_base *base, yk_tr_op *const *op, uint32_t n, uint64_t *events, uint32_t *index)
{
    bool done = false;
    pthread_mutex_lock(&base->lock);
    *events = base->events;
    for (uint32_t i = 0; i < n && !done; i++)
        if (op[i] && op[i]->done) {
            *index = i;
            done = true;
        }
    pthread_mutex_unlock(&base->lock);
    return done;
}

yk_status yk__tr_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    yk__tr_base *base = base_of(t);
    const int64_t begin = yk__clock_ms();
    uint64_t events = 0;
    while (!done_find(base, op, n, &events, index)) {
        const int64_t left = timeout_ms < 0 ? LOOK_MS : timeout_ms - (yk__clock_ms() - begin);
        const yk_status s = base->calls->progress(t, left > 0 ? (int)left : 0, &events, error);
        if (s)
            return s;
        if (left <= 0 && !done_find(base, op, n, &events, index))
            return yk__tr_fail(error, YK_E_TIMEOUT, "none of %u messages is done after %d ms", n, timeout_ms);
    }
    return YK_OK;
}

/* ---- Memory, and defaults for features that a transport lacks ------------------------------------------------------ */

yk_status yk__tr_mem_register(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error)
{
    (void)t;
    if (source->size < sizeof *source || source->kind != YK_TR_MEM_HOST)
        return yk__tr_fail(error, YK_E_ARG, "memory of kind %u: only host memory can be registered here", source->kind);
    *mem = yk__calloc(1, sizeof **mem);
    if (!*mem)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (registered memory)");
    **mem = (yk_tr_mem){source->data, source->bytes};
    return YK_OK;
}

void yk__tr_mem_release(yk_tr *t, yk_tr_mem *mem)
{
    (void)t;
    yk__free(mem);
}

const void *yk__tr_checked(const char *name)
{
    static const char checked = 1;
    return strcmp(name, YK_TR_EXT_CHECKED) ? NULL : &checked;
}

const void *yk__tr_no_extension(const char *name)
{
    (void)name;
    return NULL;
}

uint64_t yk__tr_no_shared_bytes(uint32_t ranks)
{
    (void)ranks;
    return 0;
}
