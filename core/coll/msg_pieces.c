/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of each kind of collective over messages.
 *
 *   barrier, all-gather, all-reduce   one piece: record and small data, from each member to each
 *   broadcast                         one piece: records; data from the root to each
 *   all-gatherv                       one piece: records; each member's slice to each
 *   reduce-scatter                    each piece is at most YK__MSG_PIECE numbers of every slice: to its owner; the first with records
 */
#include "core/coll/msg.h"

#include <string.h>

static uint64_t slice_of(const yk__coll_desc *d, uint32_t rank)
{
    return d->parts->begin[rank + 1] - d->parts->begin[rank];
}

static uint64_t longest_slice(const yk__request *request)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < request->comm->size; i++) {
        const uint64_t n = slice_of(&request->desc, request->comm->member[i]);
        most = n > most ? n : most;
    }
    return most;
}

uint64_t yk__msg_count_pieces(const yk__request *request)
{
    const uint64_t n = request->desc.kind == YK__COLL_REDUCE_SCATTER ? longest_slice(request) : 0;
    return n ? (n + YK__MSG_PIECE - 1) / YK__MSG_PIECE : 1;
}

static uint64_t piece_stride(const yk__request *request)
{
    const uint64_t n = slice_of(&request->desc, request->comm->coll->rank);
    return n < YK__MSG_PIECE ? n : YK__MSG_PIECE;
}

uint64_t yk__msg_scratch_numbers(const yk__request *request)
{
    return request->desc.kind == YK__COLL_REDUCE_SCATTER ? YK__MSG_WINDOW * request->msg->peers * piece_stride(request) : 0;
}

/* How many numbers of that rank's slice are in the piece. */
static uint64_t piece_numbers(const yk__coll_desc *d, uint32_t rank, uint64_t number)
{
    const uint64_t n = slice_of(d, rank), at = number * YK__MSG_PIECE;
    return at >= n ? 0 : n - at < YK__MSG_PIECE ? n - at : YK__MSG_PIECE;
}

static uint8_t *record_of(const yk__request *request, uint32_t peer_index)
{
    return request->msg->record + (peer_index + 1ull) * request->msg->record_bytes;
}

/* ---- Posting ------------------------------------------------------------------------------------------------------ */

static yk_status post_records(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    yk__msg *m = request->msg;
    for (uint32_t i = 0; i < m->peers; i++) {
        const yk_tr_range from = {.data = m->record, .bytes = m->record_bytes};
        const yk_tr_range to = {.data = record_of(request, i), .bytes = m->record_bytes};
        if (yk__msg_post(request, piece, false, m->peer[i], YK__MSG_STEP_RECORD, &to, err) ||
            yk__msg_post(request, piece, true, m->peer[i], YK__MSG_STEP_RECORD, &from, err))
            return err->status;
    }
    return YK_OK;
}

static yk_status post_broadcast(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const yk__coll_desc *d = &request->desc;
    const yk_tr_range range = {.data = d->out, .bytes = yk__call_bytes(&request->call)};
    if (!range.bytes)
        return YK_OK;
    if (d->root != request->comm->coll->rank)
        return yk__msg_post(request, piece, false, d->root, YK__MSG_STEP_DATA, &range, err);
    for (uint32_t i = 0; i < request->msg->peers; i++)
        if (yk__msg_post(request, piece, true, request->msg->peer[i], YK__MSG_STEP_DATA, &range, err))
            return err->status;
    return YK_OK;
}

/* Numbers of the buffer. */
static yk_tr_range buffer_range(const yk__coll_desc *d, uint64_t at, uint64_t n)
{
    const uint64_t offset = (d->offset + at) * sizeof(float);
    return (yk_tr_range){.data = (char *)d->buffer->mem + offset, .mem = d->buffer->registered, .offset = offset,
                         .bytes = n * sizeof(float)};
}

static yk_status post_slices(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const yk__coll_desc *d = &request->desc;
    const uint32_t own = request->comm->coll->rank;
    const yk_tr_range from = buffer_range(d, d->parts->begin[own], slice_of(d, own));
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        const uint32_t peer = request->msg->peer[i];
        const yk_tr_range to = buffer_range(d, d->parts->begin[peer], slice_of(d, peer));
        if ((to.bytes && yk__msg_post(request, piece, false, peer, YK__MSG_STEP_DATA, &to, err)) ||
            (from.bytes && yk__msg_post(request, piece, true, peer, YK__MSG_STEP_DATA, &from, err)))
            return err->status;
    }
    return YK_OK;
}

static float *scratch_of(const yk__request *request, uint64_t number, uint32_t peer_index)
{
    return request->msg->scratch + (number % YK__MSG_WINDOW * request->msg->peers + peer_index) * piece_stride(request);
}

static yk_status post_reduce(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t at = piece->number * YK__MSG_PIECE, own = piece_numbers(d, request->comm->coll->rank, piece->number);
    const uint32_t step = YK__MSG_STEP_DATA + (uint32_t)(piece->number % YK__MSG_STEPS);
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        const uint32_t peer = request->msg->peer[i];
        const yk_tr_range to = {.data = own ? scratch_of(request, piece->number, i) : NULL, .bytes = own * sizeof(float)};
        const yk_tr_range from = buffer_range(d, d->parts->begin[peer] + at, piece_numbers(d, peer, piece->number));
        if ((to.bytes && yk__msg_post(request, piece, false, peer, step, &to, err)) ||
            (from.bytes && yk__msg_post(request, piece, true, peer, step, &from, err)))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__msg_post_piece(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const yk_tr_range result = {.data = record_of(request, 0), .bytes = request->msg->record_bytes};
    if (!request->comm->joined)
        return yk__msg_post(request, piece, false, request->msg->peer[0], YK__MSG_STEP_FEED, &result, err);
    if (piece->number == 0 && post_records(request, piece, err))
        return err->status;
    switch (request->desc.kind) {
    case YK__COLL_BROADCAST:
        return post_broadcast(request, piece, err);
    case YK__COLL_ALL_GATHERV:
        return post_slices(request, piece, err);
    case YK__COLL_REDUCE_SCATTER:
        return post_reduce(request, piece, err);
    default:
        return YK_OK;
    }
}

/* ---- Results ------------------------------------------------------------------------------------------------------ */

yk_status yk__msg_check_records(const yk__request *request, yk_error *err)
{
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        yk__call theirs;
        memcpy(&theirs, record_of(request, i), sizeof theirs);
        if (theirs.kind == YK__COLL_NONE)
            continue;
        if (theirs.common != request->call.common || !yk__call_same(&theirs, &request->call))
            return yk__call_fail(request->comm->coll, &request->call, request->msg->peer[i], &theirs, err);
    }
    return YK_OK;
}

/* Each member's small data, in the order of rank numbers. */
static void collect_parts(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    for (uint32_t i = 0, peer = 0; i < comm->size; i++)
        comm->part[i] = sizeof(yk__call) +
                        (comm->member[i] == comm->coll->rank ? request->msg->record : record_of(request, peer++));
}

static void gather_small(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    const uint64_t bytes = yk__call_bytes(&request->call);
    memset(request->desc.out, 0, bytes * comm->coll->size);
    for (uint32_t i = 0; i < comm->size; i++)
        memcpy((char *)request->desc.out + comm->member[i] * bytes, comm->part[i], bytes);
}

static void reduce_piece(const yk__request *request, uint64_t number)
{
    const yk__comm *comm = request->comm;
    const yk__coll_desc *d = &request->desc;
    const uint64_t at = number * YK__MSG_PIECE, n = piece_numbers(d, comm->coll->rank, number);
    const float *own = (const float *)d->buffer->mem + d->offset + d->parts->begin[comm->coll->rank] + at;
    for (uint32_t i = 0, peer = 0; i < comm->size; i++)
        comm->part[i] = comm->member[i] == comm->coll->rank ? own : scratch_of(request, number, peer++);
    yk__reduce_slice(comm->part, comm->size, 0, n, (float *)d->out + at, d->squares);
}

yk_status yk__msg_finish_piece(yk__request *request, const yk__msg_piece *piece, yk_error *err)
{
    if (!request->comm->joined)
        return yk__msg_feed_take(request, record_of(request, 0), err);
    if (piece->number == 0 && yk__msg_check_records(request, err))
        return err->status;
    switch (request->desc.kind) {
    case YK__COLL_ALL_GATHER:
    case YK__COLL_MEMBERS:
        collect_parts(request);
        gather_small(request);
        break;
    case YK__COLL_ALL_REDUCE:
        collect_parts(request);
        yk__reduce_small(&request->desc, request->comm->part, request->comm->size);
        break;
    case YK__COLL_REDUCE_SCATTER:
        if (piece_numbers(&request->desc, request->comm->coll->rank, piece->number))
            reduce_piece(request, piece->number);
        break;
    default:
        break;
    }
    return YK_OK;
}
