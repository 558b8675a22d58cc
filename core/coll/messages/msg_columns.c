/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduces over messages by columns: member i gets its share of the columns from all members, reduces them in the order of rank numbers,
 * and sends the result to all. Each line carries 2 (n - 1) / n of the bytes. A direct exchange carries n - 1 times the bytes, in one round
 * instead of two. Both add the numbers of each column in the same order, so the bits are equal.
 *
 * msg_kinds.c calls it if tune.c (core/coll) found columns faster, in the step or the progress thread. The first piece carries the shares,
 * the piece two later (yk__msg.lag) the results: by then the window has finished the first.
 */
#include "core/coll/messages/msg_columns.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/reduce.h"

/* Columns lie by owner: all rows of the first member's columns, then all rows of the second member's, and so on. */
struct yk__msg_columns {
    uint64_t *begin; /* [members + 1] */
    uint8_t *own;    /* this rank's numbers, all columns */
    uint8_t *in;     /* [members]: each other member's numbers of this rank's columns, in_stride bytes each */
    uint64_t in_stride;
    uint8_t *result; /* results of all columns */
};

bool yk__msg_columns_fit(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    return request->desc.kind == YK__COLL_ALL_REDUCE && comm->joined && comm->size > 2 && request->desc.count >= comm->size &&
           yk__call_bytes(&request->call) >= comm->coll->columns_from;
}

static uint64_t row_bytes(const yk__request *request, uint64_t columns)
{
    return columns * yk_dtype_bytes(request->desc.dtype);
}

/* Offset of the columns of the member with that index. */
static uint64_t block_offset(const yk__request *request, uint32_t index)
{
    return row_bytes(request, request->desc.rows * request->msg->columns->begin[index]);
}

static uint64_t block_bytes(const yk__request *request, uint32_t index)
{
    return block_offset(request, index + 1) - block_offset(request, index);
}

static uint32_t own_index(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    uint32_t i = 0;
    while (comm->member[i] != comm->coll->rank)
        i++;
    return i;
}

/* Copies between the caller's rows and columns by owner. */
static void copy_columns(const yk__request *request, uint8_t *blocks, bool out)
{
    const yk__coll_desc *d = &request->desc;
    for (uint32_t i = 0; i < request->comm->size; i++) {
        const uint64_t begin = request->msg->columns->begin[i], n = row_bytes(request, request->msg->columns->begin[i + 1] - begin);
        for (uint32_t row = 0; row < d->rows; row++) {
            uint8_t *own = (uint8_t *)d->out + row_bytes(request, row * d->pitch + begin);
            uint8_t *block = blocks + block_offset(request, i) + row * n;
            memcpy(out ? own : block, out ? block : own, n);
        }
    }
}

yk_status yk__msg_columns_new(yk__request *request, yk_error *err)
{
    const uint32_t members = request->comm->size;
    const uint64_t bytes = yk__call_bytes(&request->call);
    yk__msg_columns *columns = request->msg->columns = yk__calloc(1, sizeof *columns);
    if (!columns)
        return yk__fail_mem(err, sizeof *columns, "an all-reduce");
    columns->begin = yk__calloc(members + 1ull, sizeof *columns->begin);
    columns->own = yk__malloc(bytes);
    columns->result = yk__malloc(bytes);
    if (!columns->begin || !columns->own || !columns->result)
        return yk__fail_mem(err, bytes, "an all-reduce");
    for (uint32_t i = 0; i <= members; i++)
        columns->begin[i] = request->desc.count * i / members;
    columns->in_stride = block_bytes(request, own_index(request));
    columns->in = yk__malloc(members * columns->in_stride);
    if (!columns->in)
        return yk__fail_mem(err, members * columns->in_stride, "an all-reduce");
    copy_columns(request, columns->own, false);
    request->msg->lag = YK__MSG_WINDOW;
    return YK_OK;
}

void yk__msg_columns_free(yk__msg_columns *columns)
{
    if (!columns)
        return;
    yk__free(columns->result);
    yk__free(columns->in);
    yk__free(columns->own);
    yk__free(columns->begin);
    yk__free(columns);
}

/* Sends each other member its block of `out`, and receives from each into `in`, or into its block of the result if `in` is NULL. */
static yk_status post_blocks(yk__request *request, yk__msg_piece *piece, uint32_t step, const uint8_t *out, yk_error *err)
{
    const yk__msg_columns *columns = request->msg->columns;
    const uint32_t own = own_index(request);
    const bool shares = step == 0;
    for (uint32_t i = 0; i < request->comm->size; i++) {
        const uint32_t peer = request->comm->member[i], sent = shares ? i : own;
        const yk_tr_range from = {.data = (uint8_t *)(uintptr_t)out + block_offset(request, sent), .bytes = block_bytes(request, sent)};
        const yk_tr_range to = {.data = shares ? columns->in + i * columns->in_stride : columns->result + block_offset(request, i),
                                .bytes = block_bytes(request, shares ? own : i)};
        if (i != own && (yk__msg_post(request, piece, false, peer, yk__msg_chunk_step(step), &to, err) ||
                         yk__msg_post(request, piece, true, peer, yk__msg_chunk_step(step), &from, err)))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__msg_columns_post(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const yk__msg_columns *columns = request->msg->columns;
    if (piece->number == 0)
        return post_blocks(request, piece, 0, columns->own, err);
    return piece->number == request->msg->lag ? post_blocks(request, piece, 1, columns->result, err) : YK_OK;
}

/* Reduces this rank's columns over all members. */
static void reduce_own(const yk__request *request)
{
    const yk__msg_columns *columns = request->msg->columns;
    const yk__comm *comm = request->comm;
    const uint32_t own = own_index(request);
    yk__coll_desc d = request->desc;
    d.count = d.pitch = columns->begin[own + 1] - columns->begin[own];
    d.out = columns->result + block_offset(request, own);
    for (uint32_t i = 0; i < comm->size; i++)
        comm->part[i] = i == own ? columns->own + block_offset(request, own) : columns->in + i * columns->in_stride;
    yk__reduce_small(&d, comm->part, comm->size);
}

void yk__msg_columns_finish(yk__request *request, const yk__msg_piece *piece)
{
    if (piece->number == 0)
        reduce_own(request);
    else if (piece->number == request->msg->lag)
        copy_columns(request, request->msg->columns->result, true);
}
