/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of transports over messages: begun, kept in lists, waited for, ended; see op.h. */
#include "config.h"

#include "transport/op.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define LOOK_MS 1000 /* of a wait without a limit */

yk_status yk__tr_fail(yk_tr_error *error, yk_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error->text, sizeof error->text, fmt, ap);
    va_end(ap);
    return status;
}

/* ---- Lists -------------------------------------------------------------------------------------------------------- */

void yk__tr_append(yk_tr_op **list, yk_tr_op *op)
{
    op->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = op;
}

void yk__tr_unlink(yk_tr_op **list, const yk_tr_op *op)
{
    while (*list && *list != op)
        list = &(*list)->next;
    if (*list)
        *list = op->next;
}

void yk__tr_free_all(yk_tr_op **list)
{
    while (*list) {
        yk_tr_op *op = *list;
        *list = op->next;
        yk__free(op);
    }
}

/* ---- From begin to end -------------------------------------------------------------------------------------------- */

static yk_status range_data(const yk_tr_range *range, uint8_t **data, yk_tr_error *error)
{
    static uint8_t nothing;
    if (range->mem && (range->offset > range->mem->bytes || range->bytes > range->mem->bytes - range->offset))
        return yk__tr_fail(error, YK_E_ARG, "%llu bytes at %llu of registered memory of %llu", (unsigned long long)range->bytes,
                           (unsigned long long)range->offset, (unsigned long long)range->mem->bytes);
    *data = range->mem ? range->mem->data + range->offset : range->data;
    *data = range->bytes ? *data : &nothing;
    return YK_OK;
}

yk_status yk__tr_op_new(size_t size, uint32_t rank, uint32_t peer, bool reaches, uint64_t tag, const yk_tr_range *range, yk_tr_op **op,
                        yk_tr_error *error)
{
    uint8_t *data = NULL;
    if (!reaches || range->bytes > INT64_MAX)
        return yk__tr_fail(error, YK_E_ARG, "a message between rank %u and rank %u, tag %llu, %llu bytes: not possible", rank, peer,
                           (unsigned long long)tag, (unsigned long long)range->bytes);
    const yk_status s = range_data(range, &data, error);
    if (s)
        return s;
    *op = yk__calloc(1, size);
    if (!*op)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a message)");
    **op = (yk_tr_op){.peer = peer, .tag = tag, .data = data, .bytes = range->bytes};
    return YK_OK;
}

yk_status yk__tr_op_end(yk_tr_op *op, uint64_t *bytes, yk_tr_error *error)
{
    const yk_status s = op->status;
    if (s)
        yk__tr_fail(error, s, "a message from rank %u with tag %llu has %llu bytes, the receive buffer holds %llu", op->peer,
                    (unsigned long long)op->tag, (unsigned long long)op->total, (unsigned long long)op->bytes);
    else if (bytes)
        *bytes = op->moved;
    yk__free(op);
    return s;
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

static bool done_find(const yk__tr_done *how, yk_tr_op *const *op, uint32_t n, uint64_t *events, uint32_t *index)
{
    bool done = false;
    pthread_mutex_lock(how->lock);
    *events = *how->events;
    for (uint32_t i = 0; i < n && !done; i++)
        if (op[i] && op[i]->done) {
            *index = i;
            done = true;
        }
    pthread_mutex_unlock(how->lock);
    return done;
}

yk_status yk__tr_wait_any(yk_tr *t, const yk__tr_done *how, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index,
                          yk_tr_error *error)
{
    const int64_t begin = yk__clock_ms();
    uint64_t events = 0;
    while (!done_find(how, op, n, &events, index)) {
        const int64_t left = timeout_ms < 0 ? LOOK_MS : timeout_ms - (yk__clock_ms() - begin);
        const yk_status s = how->progress(t, left > 0 ? (int)left : 0, &events, error);
        if (s)
            return s;
        if (left <= 0 && !done_find(how, op, n, &events, index))
            return yk__tr_fail(error, YK_E_TIMEOUT, "none of %u messages is done after %d ms", n, timeout_ms);
    }
    return YK_OK;
}

/* ---- Members of the table ----------------------------------------------------------------------------------------- */

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
