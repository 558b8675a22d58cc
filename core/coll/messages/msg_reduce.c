/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduce-scatter over messages. A rank adds up its slice of all members' blocks, a chunk of every slice at a time. It reads the blocks of
 * its own host in common memory, and receives parts of the other blocks as messages. msg_kinds.c calls it piece by piece, in the step or
 * the progress thread.
 *
 * With sums by rank each member of another host sends its block's part of the slice. The owner adds the parts in the order of rank numbers.
 * With sums by host (yk__coll_config.by_host) each other host has a leader towards the owner. The leader adds up its host's parts in that
 * order and sends the sum. The owner adds the hosts' sums, each host at the place of its lowest rank. A host then sends as many bytes as if
 * it had one rank.
 *
 * Short slices of members on hosts of their own go in rounds (msg_rounds.h): each member passes on what is not for itself. Then one piece
 * has all, and yk__msg_sum_post is not called.
 *
 * The sender may round the numbers (yk__coll_config.wire). The receiver adds them up in f32.
 */
#include "core/coll/messages/msg_reduce.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/coll/reduce.h"

enum { BLOCK = 4 * YK__WIRE_BLOCK }; /* numbers that are widened, or added up within a host, at a time */

typedef struct yk__msg_sum {
    bool by_host;
    uint32_t sources, targets; /* members of other hosts that send parts of this rank's slice; owners that this rank sends parts to */
    yk__wire wire;
    uint64_t in_stride, out_stride; /* bytes of a chunk's part of one source or target */
    uint8_t *in, *out;         /* [window][sources][in_stride], [window][targets][out_stride]; out is NULL if the block itself is sent */
    float *block;              /* [sources + 1][BLOCK] */
} yk__msg_sum;

static const yk__comm_hosts *hosts_of(const yk__request *request)
{
    return &request->comm->hosts;
}

static uint32_t own_rank(const yk__request *request)
{
    return request->comm->coll->rank;
}

static bool is_far(const yk__request *request, uint32_t member)
{
    return hosts_of(request)->of[member] != hosts_of(request)->of[own_rank(request)];
}

static uint32_t local_size(const yk__request *request)
{
    return yk__comm_hosts_size(hosts_of(request), hosts_of(request)->of[own_rank(request)]);
}

/* True if `from` sends a part of the slice that `owner`, on another host, adds up. */
static bool sends_to(const yk__request *request, uint32_t from, uint32_t owner)
{
    const yk__comm_hosts *hosts = hosts_of(request);
    return hosts->of[from] != hosts->of[owner] &&
           (!request->msg->sum->by_host || yk__comm_hosts_leader(hosts, hosts->of[from], owner) == from);
}

/* ---- Outgoing parts ----------------------------------------------------------------------------------------------- */

static bool sends_sums(const yk__request *request)
{
    return request->msg->sum->by_host && local_size(request) > 1;
}

/* Lists the blocks of the members on this host, in the order of rank numbers. Returns their number. */
static uint32_t list_local(const yk__request *request, const void **part)
{
    const yk__comm_hosts *hosts = hosts_of(request);
    const yk__coll_desc *d = &request->desc;
    const uint32_t host = hosts->of[own_rank(request)], n = yk__comm_hosts_size(hosts, host);
    for (uint32_t i = 0; i < n; i++)
        part[i] = yk__msg_view(d, own_rank(request), hosts->rank[hosts->begin[host] + i]);
    return n;
}

/* Residual of this rank's number `at`; NULL without error feedback. */
static float *residual_of(const yk__coll_desc *d, uint64_t at)
{
    return d->buffer->residual ? d->buffer->residual + d->offset + at : NULL;
}

/* Packs numbers [begin, begin + n) in wire format: of this rank's block, or the sum over its host. */
static void pack_part(const yk__request *request, uint64_t begin, uint64_t n, uint8_t *to)
{
    const yk__msg_sum *sum = request->msg->sum;
    const void **part = request->comm->part;
    const uint32_t parts = sends_sums(request) ? list_local(request, part) : 1;
    if (parts == 1) {
        yk__wire_write(sum->wire, yk__msg_view(&request->desc, own_rank(request), own_rank(request)) + begin, n,
                       residual_of(&request->desc, begin), to);
        return;
    }
    for (uint64_t at = 0; at < n; at += BLOCK) {
        const uint64_t k = n - at < BLOCK ? n - at : BLOCK;
        yk__reduce_slice(part, parts, begin + at, k, sum->block, NULL);
        yk__wire_write(sum->wire, sum->block, k, residual_of(&request->desc, begin + at), to + yk__wire_bytes(sum->wire, at));
    }
}

/* Packs each other member's part of the sum, for rounds. */
static void pack_slices(const yk__request *request)
{
    const yk__msg *m = request->msg;
    for (uint32_t away = 1; away <= m->peers; away++) {
        const uint32_t owner = request->comm->member[(m->own + m->peers + 1 - away) % (m->peers + 1)];
        pack_part(request, request->desc.parts->begin[owner], yk__msg_slice(request, owner), m->slice + away * m->slice_bytes);
    }
}

/* ---- Beginning ---------------------------------------------------------------------------------------------------- */

static void count_peers(const yk__request *request)
{
    yk__msg_sum *sum = request->msg->sum;
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        sum->sources += sends_to(request, request->msg->peer[i], own_rank(request));
        sum->targets += sends_to(request, own_rank(request), request->msg->peer[i]);
    }
}

static uint64_t chunk_bytes(const yk__request *request, uint64_t numbers)
{
    return yk__wire_bytes(request->msg->sum->wire, numbers < request->msg->chunk ? numbers : request->msg->chunk);
}

yk_status yk__msg_sum_new(yk__request *request, yk_error *err)
{
    const yk__coll *coll = request->comm->coll;
    yk__msg_sum *sum = request->msg->sum = yk__calloc(1, sizeof *sum);
    uint64_t in, out;
    if (!sum)
        return yk__fail_mem(err, sizeof *sum, "a reduce-scatter");
    sum->by_host = coll->by_host;
    sum->wire = coll->wire;
    count_peers(request);
    sum->in_stride = chunk_bytes(request, yk__msg_slice(request, own_rank(request)));
    sum->out_stride = chunk_bytes(request, yk__msg_longest_slice(request));
    in = YK__MSG_WINDOW * sum->sources * sum->in_stride;
    out = !request->msg->slice && (coll->wire != YK__WIRE_F32 || sends_sums(request)) ? YK__MSG_WINDOW * sum->targets * sum->out_stride : 0;
    sum->in = yk__malloc(in + 1);
    sum->out = out ? yk__malloc(out) : NULL;
    sum->block = yk__malloc((sum->sources + 1ull) * BLOCK * sizeof *sum->block);
    if (!sum->in || (out && !sum->out) || !sum->block)
        return yk__fail_mem(err, in + out, "a reduce-scatter");
    request->msg->lag = sends_sums(request) && hosts_of(request)->count > 1 ? YK__MSG_WINDOW : 0;
    if (request->msg->slice)
        pack_slices(request);
    return YK_OK;
}

void yk__msg_sum_free(yk__msg_sum *sum)
{
    if (!sum)
        return;
    yk__free(sum->block);
    yk__free(sum->out);
    yk__free(sum->in);
    yk__free(sum);
}

static yk_status send_part(yk__request *request, yk__msg_piece *piece, uint64_t chunk, uint32_t target, uint32_t place, yk_error *err)
{
    const yk__msg_sum *sum = request->msg->sum;
    const uint64_t begin = request->desc.parts->begin[target] + chunk * request->msg->chunk;
    const uint64_t n = yk__msg_chunk_numbers(request, target, chunk);
    yk_tr_range range = yk__msg_buffer_range(&request->desc, begin, n);
    if (!n)
        return YK_OK;
    if (sum->out) {
        uint8_t *to = sum->out + (chunk % YK__MSG_WINDOW * sum->targets + place) * sum->out_stride;
        pack_part(request, begin, n, to);
        range = (yk_tr_range){.data = to, .bytes = yk__wire_bytes(sum->wire, n)};
    }
    return yk__msg_post(request, piece, true, target, yk__msg_chunk_step(chunk), &range, err);
}

static uint8_t *in_of(const yk__msg_sum *sum, uint64_t chunk, uint32_t place)
{
    return sum->in + (chunk % YK__MSG_WINDOW * sum->sources + place) * sum->in_stride;
}

yk_status yk__msg_sum_post(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    yk__msg *m = request->msg;
    uint64_t chunk, own;
    if (piece->number < m->lag) /* other ranks of this host may not have written their blocks yet */
        return YK_OK;
    chunk = piece->number - m->lag;
    own = yk__msg_chunk_numbers(request, own_rank(request), chunk);
    for (uint32_t i = 0, source = 0, target = 0; i < m->peers; i++) {
        const uint32_t peer = m->peer[i];
        if (sends_to(request, peer, own_rank(request))) {
            const yk_tr_range to = {.data = in_of(m->sum, chunk, source++), .bytes = yk__wire_bytes(m->sum->wire, own)};
            if (own && yk__msg_post(request, piece, false, peer, yk__msg_chunk_step(chunk), &to, err))
                return err->status;
        }
        if (sends_to(request, own_rank(request), peer) && send_part(request, piece, chunk, peer, target++, err))
            return err->status;
    }
    return YK_OK;
}

/* ---- The sum ------------------------------------------------------------------------------------------------------ */

/* Numbers [at, at + n) of a source's part of the chunk, in f32; scratch is for that source alone. */
static const float *read_part(const yk__request *request, uint64_t chunk, uint32_t place, uint64_t at, uint64_t n, float *scratch)
{
    const yk__msg_sum *sum = request->msg->sum;
    const uint8_t *from = in_of(sum, chunk, place) + yk__wire_bytes(sum->wire, at);
    if (sum->wire == YK__WIRE_F32)
        return (const float *)(const void *)from;
    yk__wire_read(sum->wire, from, n, scratch);
    return scratch;
}

/* Lists each member's numbers [begin, begin + n) for sums by rank. Returns the number of parts. */
static uint32_t list_members(const yk__request *request, uint64_t chunk, uint64_t at, uint64_t begin, uint64_t n)
{
    const yk__comm *comm = request->comm;
    for (uint32_t i = 0, source = 0; i < comm->size; i++) {
        const uint32_t r = comm->member[i];
        if (is_far(request, r)) {
            comm->part[i] = read_part(request, chunk, source, at, n, request->msg->sum->block + source * BLOCK);
            source++;
        } else {
            comm->part[i] = yk__msg_view(&request->desc, own_rank(request), r) + begin;
        }
    }
    return comm->size;
}

/* Index of that host's leader among the sources, which are in the order of rank numbers. */
static uint32_t source_of_host(const yk__request *request, uint32_t host)
{
    const yk__comm_hosts *hosts = hosts_of(request);
    const uint32_t leader = yk__comm_hosts_leader(hosts, host, own_rank(request));
    uint32_t place = 0;
    for (uint32_t i = 0; i < request->msg->peers && request->msg->peer[i] != leader; i++)
        place += sends_to(request, request->msg->peer[i], own_rank(request));
    return place;
}

/* Lists each host's sum for sums by host. Returns the number of parts. */
static uint32_t list_hosts(const yk__request *request, uint64_t chunk, uint64_t at, uint64_t begin, uint64_t n)
{
    const yk__comm *comm = request->comm;
    const yk__msg_sum *sum = request->msg->sum;
    const uint32_t own = comm->hosts.of[own_rank(request)];
    float *local = sum->block + (uint64_t)sum->sources * BLOCK;
    const uint32_t parts = list_local(request, comm->part);
    yk__reduce_slice(comm->part, parts, begin, n, local, NULL);
    for (uint32_t h = 0; h < comm->hosts.count; h++) {
        const uint32_t source = h == own ? 0 : source_of_host(request, h);
        comm->part[h] = h == own ? local : read_part(request, chunk, source, at, n, sum->block + source * BLOCK);
    }
    return comm->hosts.count;
}

/* Copies the parts that came in rounds to those of their sources, which are in the order of rank numbers. */
static void unpack_slices(const yk__request *request)
{
    const yk__msg *m = request->msg;
    for (uint32_t i = 0; i < m->peers; i++) {
        const uint32_t member = i < m->own ? i : i + 1, away = (member + m->peers + 1 - m->own) % (m->peers + 1);
        memcpy(in_of(m->sum, 0, i), m->slice + away * m->slice_bytes, m->sum->in_stride);
    }
}

void yk__msg_sum_finish(yk__request *request, const yk__msg_piece *piece)
{
    const yk__coll_desc *d = &request->desc;
    uint64_t chunk, from, all;
    if (request->msg->slice)
        unpack_slices(request);
    if (piece->number < request->msg->lag)
        return;
    chunk = piece->number - request->msg->lag;
    from = chunk * request->msg->chunk;
    all = yk__msg_chunk_numbers(request, own_rank(request), chunk);
    for (uint64_t at = 0; at < all; at += BLOCK) {
        const uint64_t n = all - at < BLOCK ? all - at : BLOCK, begin = d->parts->begin[own_rank(request)] + from + at;
        const uint32_t parts = (request->msg->sum->by_host ? list_hosts : list_members)(request, chunk, at, begin, n);
        yk__reduce_slice(request->comm->part, parts, 0, n, (float *)d->out + from + at, d->squares);
    }
}
