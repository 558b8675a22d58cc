/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather of slices and broadcast over messages; msg_kinds.c calls it piece by piece, in the step or the progress thread. Each byte goes
 * to another host once: to that host's leader towards the sender; the ranks of the host share this work. In an all-gather the other ranks
 * read slices in the leader's block in common memory, once its message tells that a chunk is there. In a broadcast the leader sends the
 * chunk on.
 *
 * Steps that need a chunk of another host run two pieces later (yk__msg.lag): by then the window has finished it.
 */
#include "core/coll/messages/msg_gather.h"

#include <string.h>

#include "core/base/convert.h"
#include "core/base/mem.h"
#include "core/coll/call.h"

static const yk__comm_hosts *hosts_of(const yk__request *request)
{
    return &request->comm->hosts;
}

static uint32_t own_rank(const yk__request *request)
{
    return request->comm->coll->rank;
}

static uint32_t own_host(const yk__request *request)
{
    return hosts_of(request)->of[own_rank(request)];
}

static bool has_local_peers(const yk__request *request)
{
    return yk__comm_hosts_size(hosts_of(request), own_host(request)) > 1;
}

/* The member of this host that receives from `sender`, on another host, for the whole host. */
static uint32_t receiver_of(const yk__request *request, uint32_t sender)
{
    return yk__comm_hosts_leader(hosts_of(request), own_host(request), sender);
}

/* ---- All-gather of slices ----------------------------------------------------------------------------------------- */

yk_status yk__msg_gather_new(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    const uint64_t numbers = YK__MSG_WINDOW * (m->peers + 1ull) * m->chunk;
    m->lag = has_local_peers(request) && hosts_of(request)->count > 1 ? YK__MSG_WINDOW : 0;
    if (!request->desc.narrow || hosts_of(request)->count < 2)
        return YK_OK;
    m->narrow = yk__malloc(numbers * sizeof *m->narrow);
    return m->narrow ? YK_OK : yk__fail_mem(err, numbers * sizeof *m->narrow, "an all-gather in bf16");
}

/* Buffer of a chunk in bf16: from the peer with that index; the last index is this rank's chunk to all peers. */
static uint16_t *narrow_of(const yk__request *request, uint64_t chunk, uint32_t index)
{
    const yk__msg *m = request->msg;
    return m->narrow + (chunk % YK__MSG_WINDOW * (m->peers + 1ull) + index) * m->chunk;
}

static yk_tr_range slice_range(const yk__request *request, uint32_t owner, uint64_t chunk)
{
    const yk__coll_desc *d = &request->desc;
    return yk__msg_buffer_range(d, d->parts->begin[owner] + chunk * request->msg->chunk, yk__msg_chunk_numbers(request, owner, chunk));
}

/* The range to post: the numbers themselves, or their bf16 copy. */
static yk_tr_range wire_range(const yk__request *request, yk_tr_range range, uint64_t chunk, uint32_t index)
{
    if (!request->msg->narrow)
        return range;
    return (yk_tr_range){.data = narrow_of(request, chunk, index), .bytes = range.bytes / sizeof(float) * sizeof(uint16_t)};
}

static yk_tr_range pack_own(const yk__request *request, uint64_t chunk)
{
    const yk_tr_range own = slice_range(request, own_rank(request), chunk);
    if (request->msg->narrow)
        yk__f32_to_bf16s(own.data, own.bytes / sizeof(float), narrow_of(request, chunk, request->msg->peers));
    return wire_range(request, own, chunk, request->msg->peers);
}

static yk_status post_slices(yk__request *request, yk__msg_piece *piece, uint64_t chunk, yk_error *err)
{
    const yk__comm_hosts *hosts = hosts_of(request);
    const yk_tr_range own = pack_own(request, chunk);
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        const uint32_t peer = request->msg->peer[i];
        const yk_tr_range to = wire_range(request, slice_range(request, peer, chunk), chunk, i);
        if (hosts->of[peer] == own_host(request))
            continue;
        if (to.bytes && receiver_of(request, peer) == own_rank(request) &&
            yk__msg_post(request, piece, false, peer, yk__msg_chunk_step(chunk), &to, err))
            return err->status;
        if (own.bytes && yk__comm_hosts_leader(hosts, hosts->of[peer], own_rank(request)) == peer &&
            yk__msg_post(request, piece, true, peer, yk__msg_chunk_step(chunk), &own, err))
            return err->status;
    }
    return YK_OK;
}

/* Exchanges notices with each other rank of this host: the chunk is in the sender's block. */
static yk_status post_notices(yk__request *request, yk__msg_piece *piece, uint64_t chunk, yk_error *err)
{
    yk__msg *m = request->msg;
    const yk_tr_range to = {.data = &m->notice[0], .bytes = 1}, from = {.data = &m->notice[1], .bytes = 1};
    for (uint32_t i = 0; i < m->peers; i++)
        if (hosts_of(request)->of[m->peer[i]] == own_host(request) &&
            (yk__msg_post(request, piece, false, m->peer[i], yk__msg_chunk_step(chunk), &to, err) ||
             yk__msg_post(request, piece, true, m->peer[i], yk__msg_chunk_step(chunk), &from, err)))
            return err->status;
    return YK_OK;
}

yk_status yk__msg_gather_post(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const uint32_t lag = request->msg->lag;
    if (piece->number + lag < request->msg->pieces && post_slices(request, piece, piece->number, err))
        return err->status;
    return lag && piece->number >= lag ? post_notices(request, piece, piece->number - lag, err) : YK_OK;
}

/* Widens the piece's bf16 chunks into their place. */
static void unpack_slices(const yk__request *request, uint64_t chunk)
{
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        const uint32_t peer = request->msg->peer[i];
        const yk_tr_range to = slice_range(request, peer, chunk);
        if (hosts_of(request)->of[peer] != own_host(request) && receiver_of(request, peer) == own_rank(request))
            yk__array_to_f32(YK_BF16, narrow_of(request, chunk, i), to.bytes / sizeof(float), to.data);
    }
}

void yk__msg_gather_pack(const yk__request *request, uint8_t *to)
{
    const yk__coll_desc *d = &request->desc;
    const yk_tr_range own = yk__msg_buffer_range(d, d->parts->begin[own_rank(request)], yk__msg_slice(request, own_rank(request)));
    if (d->narrow)
        yk__f32_to_bf16s(own.data, own.bytes / sizeof(float), (uint16_t *)(void *)to);
    else
        memcpy(to, own.data, own.bytes);
}

/* Copies the slices that came with the records to their place. */
static void unpack_records(const yk__request *request)
{
    const yk__coll_desc *d = &request->desc;
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        const uint32_t owner = request->msg->peer[i];
        const yk_tr_range to = yk__msg_buffer_range(d, d->parts->begin[owner], yk__msg_slice(request, owner));
        const uint8_t *from = yk__msg_peer_record(request, i) + sizeof request->call;
        if (d->narrow)
            yk__array_to_f32(YK_BF16, from, to.bytes / sizeof(float), to.data);
        else
            memcpy(to.data, from, to.bytes);
    }
}

void yk__msg_gather_finish(yk__request *request, const yk__msg_piece *piece)
{
    const yk__coll_desc *d = &request->desc;
    uint64_t chunk;
    if (request->msg->slice_bytes) {
        unpack_records(request);
        return;
    }
    if (request->msg->narrow && piece->number + request->msg->lag < request->msg->pieces)
        unpack_slices(request, piece->number);
    if (piece->number < request->msg->lag || !has_local_peers(request))
        return;
    chunk = piece->number - request->msg->lag;
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        const uint32_t owner = request->msg->peer[i];
        const uint32_t holder = hosts_of(request)->of[owner] == own_host(request) ? owner : receiver_of(request, owner);
        const uint64_t begin = d->parts->begin[owner] + chunk * request->msg->chunk;
        const uint64_t n = yk__msg_chunk_numbers(request, owner, chunk);
        if (holder != own_rank(request) && n)
            memcpy((float *)d->buffer->mem + d->offset + begin, yk__msg_view(d, own_rank(request), holder) + begin, n * sizeof(float));
    }
}

/* ---- Broadcast ---------------------------------------------------------------------------------------------------- */

/* The root sends to the leaders of other hosts, and to each rank of its own host. */
static bool root_sends_to(const yk__request *request, uint32_t member)
{
    const yk__comm_hosts *hosts = hosts_of(request);
    const uint32_t root = request->desc.root, host = hosts->of[member];
    return member != root && (host == hosts->of[root] || yk__comm_hosts_leader(hosts, host, root) == member);
}

static bool sends_on(const yk__request *request)
{
    return own_host(request) != hosts_of(request)->of[request->desc.root] && root_sends_to(request, own_rank(request)) &&
           has_local_peers(request);
}

uint32_t yk__msg_broadcast_lag(const yk__request *request)
{
    return sends_on(request) ? YK__MSG_WINDOW : 0;
}

static yk_tr_range broadcast_range(const yk__request *request, uint64_t chunk)
{
    const uint64_t all = yk__call_bytes(&request->call), at = chunk * request->msg->chunk * sizeof(float), left = at < all ? all - at : 0;
    const uint64_t most = request->msg->chunk * sizeof(float);
    return (yk_tr_range){.data = (char *)request->desc.out + (left ? at : 0), .bytes = left < most ? left : most};
}

static yk_status post_from_root(yk__request *request, yk__msg_piece *piece, uint64_t chunk, yk_error *err)
{
    const yk_tr_range range = broadcast_range(request, chunk);
    const uint32_t root = request->desc.root;
    const uint32_t from = root_sends_to(request, own_rank(request)) ? root : receiver_of(request, root);
    if (!range.bytes)
        return YK_OK;
    if (root != own_rank(request))
        return yk__msg_post(request, piece, false, from, yk__msg_chunk_step(chunk), &range, err);
    for (uint32_t i = 0; i < request->msg->peers; i++)
        if (root_sends_to(request, request->msg->peer[i]) &&
            yk__msg_post(request, piece, true, request->msg->peer[i], yk__msg_chunk_step(chunk), &range, err))
            return err->status;
    return YK_OK;
}

static yk_status post_on(yk__request *request, yk__msg_piece *piece, uint64_t chunk, yk_error *err)
{
    const yk_tr_range range = broadcast_range(request, chunk);
    for (uint32_t i = 0; i < request->msg->peers && range.bytes; i++)
        if (hosts_of(request)->of[request->msg->peer[i]] == own_host(request) &&
            yk__msg_post(request, piece, true, request->msg->peer[i], yk__msg_chunk_step(chunk), &range, err))
            return err->status;
    return YK_OK;
}

yk_status yk__msg_broadcast_post(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    const uint32_t lag = request->msg->lag;
    if (piece->number + lag < request->msg->pieces && post_from_root(request, piece, piece->number, err))
        return err->status;
    return lag && piece->number >= lag ? post_on(request, piece, piece->number - lag, err) : YK_OK;
}
