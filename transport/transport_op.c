/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of transports over messages, a send or a receive each: made, listed, ended. base.c makes them, and the transports keep them
 * in lists, under the transport's lock. The caller frees a finished operation by its test or cancel; an orphan, which nobody waits for, is
 * freed behind its last byte.
 */
#include "config.h"

#include "transport/transport_op.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/mem.h"

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
    if (s && op->why)
        yk__tr_fail(error, s, "%s", op->why);
    else if (s)
        yk__tr_fail(error, s, "a message from rank %u with tag %llu has %llu bytes, the receive buffer holds %llu", op->peer,
                    (unsigned long long)op->tag, (unsigned long long)op->total, (unsigned long long)op->bytes);
    else if (bytes)
        *bytes = op->moved;
    yk__free(op);
    return s;
}
