/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of each kind of collective over messages. msg.c asks for the number of pieces, posts each and finishes it, under the plane's
 * lock, in the step thread or the progress thread.
 *
 *   barrier, all-gather, all-reduce   one piece: record and small data, from each member to each, or in rounds (msg_rounds.c)
 *   all-reduce by columns             three: record and shares of columns, nothing, results (msg_columns.c)
 *   broadcast, all-gatherv            the first with records; chunks to each host, and within it (msg_gather.c)
 *   reduce-scatter                    the first with records; a chunk of every slice to its owner (msg_reduce.c)
 *   the last two with short slices    one piece, in rounds
 */
#include "core/coll/messages/msg_kinds.h"

#include <string.h>

#include "core/coll/call.h"
#include "core/coll/messages/msg_columns.h"
#include "core/coll/messages/msg_feed.h"
#include "core/coll/messages/msg_gather.h"
#include "core/coll/messages/msg_reduce.h"
#include "core/coll/reduce.h"

static uint64_t chunk_of(const yk__request *request)
{
    const uint64_t others = request->comm->hosts.count > 2 ? request->comm->hosts.count - 1 : 1, n = YK__MSG_CHUNK / others / 1024 * 1024;
    return n > YK__MSG_CHUNK_LEAST ? n : YK__MSG_CHUNK_LEAST;
}

static uint64_t count_chunks(uint64_t numbers, uint64_t chunk)
{
    return numbers > chunk ? numbers / chunk + (numbers % chunk != 0) : 1;
}

yk_status yk__msg_plan_pieces(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    uint64_t numbers = 0;
    m->chunk = m->slice_bytes ? yk__msg_longest_slice(request) : chunk_of(request);
    if (request->desc.kind == YK__COLL_REDUCE_SCATTER || request->desc.kind == YK__COLL_ALL_GATHERV)
        numbers = yk__msg_longest_slice(request);
    if (request->desc.kind == YK__COLL_BROADCAST)
        numbers = yk__call_bytes(&request->call) / sizeof(float) + 1;
    if (request->desc.kind == YK__COLL_REDUCE_SCATTER && yk__msg_sum_new(request, err))
        return err->status;
    if (yk__msg_columns_fit(request) && yk__msg_columns_new(request, err))
        return err->status;
    if (request->desc.kind == YK__COLL_ALL_GATHERV && !m->slice_bytes && yk__msg_gather_new(request, err))
        return err->status;
    if (request->desc.kind == YK__COLL_BROADCAST)
        m->lag = yk__msg_broadcast_lag(request);
    m->pieces = count_chunks(numbers, m->chunk) + m->lag;
    return YK_OK;
}

/* ---- Posting ------------------------------------------------------------------------------------------------------ */

static yk_status post_records(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    yk__msg *m = request->msg;
    for (uint32_t i = 0; i < m->peers; i++) {
        const yk_tr_range from = {.data = m->record, .bytes = m->record_bytes};
        const yk_tr_range to = {.data = yk__msg_peer_record(request, i), .bytes = m->record_bytes};
        if (yk__msg_post(request, piece, false, m->peer[i], YK__MSG_STEP_RECORD, &to, err) ||
            yk__msg_post(request, piece, true, m->peer[i], YK__MSG_STEP_RECORD, &from, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__msg_post_piece(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const yk_tr_range result = {.data = yk__msg_peer_record(request, 0), .bytes = request->msg->record_bytes};
    if (!request->comm->joined)
        return yk__msg_post(request, piece, false, request->msg->peer[0], YK__MSG_STEP_FEED, &result, err);
    if (piece->number == 0 && !yk__msg_in_rounds(request->msg) && post_records(request, piece, err))
        return err->status;
    switch (request->desc.kind) {
    case YK__COLL_ALL_REDUCE:
        return request->msg->columns ? yk__msg_columns_post(request, piece, err) : YK_OK;
    case YK__COLL_BROADCAST:
        return yk__msg_broadcast_post(request, piece, err);
    case YK__COLL_ALL_GATHERV:
        return request->msg->slice_bytes ? YK_OK : yk__msg_gather_post(request, piece, err);
    case YK__COLL_REDUCE_SCATTER:
        return request->msg->slice_bytes ? YK_OK : yk__msg_sum_post(request, piece, err);
    default:
        return YK_OK;
    }
}

/* ---- Results ------------------------------------------------------------------------------------------------------ */

/* Collects each member's small data in the order of rank numbers. */
static void collect_parts(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    for (uint32_t i = 0; i < comm->size; i++)
        comm->part[i] = yk__msg_record(request, i) + sizeof(yk__call);
}

static void gather_small(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    const uint64_t bytes = yk__call_bytes(&request->call);
    memset(request->desc.out, 0, bytes * comm->coll->size);
    for (uint32_t i = 0; i < comm->size; i++)
        memcpy((char *)request->desc.out + comm->member[i] * bytes, comm->part[i], bytes);
}

static void reduce_parts(yk__request *request, const yk__msg_piece *piece)
{
    if (request->msg->columns) {
        yk__msg_columns_finish(request, piece);
        return;
    }
    collect_parts(request);
    yk__reduce_small(&request->desc, request->comm->part, request->comm->size);
}

yk_status yk__msg_finish_piece(yk__request *request, const yk__msg_piece *piece, yk_error *err)
{
    if (!request->comm->joined)
        return yk__msg_feed_take(request, yk__msg_peer_record(request, 0), err);
    if (piece->number == 0 && yk__msg_check_records(request, err))
        return err->status;
    switch (request->desc.kind) {
    case YK__COLL_ALL_GATHER:
    case YK__COLL_MEMBERS:
        collect_parts(request);
        gather_small(request);
        break;
    case YK__COLL_ALL_REDUCE:
        reduce_parts(request, piece);
        break;
    case YK__COLL_REDUCE_SCATTER:
        yk__msg_sum_finish(request, piece);
        break;
    case YK__COLL_ALL_GATHERV:
        yk__msg_gather_finish(request, piece);
        break;
    default:
        break;
    }
    return YK_OK;
}
