/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of requests over messages: their sends and receives, the records of the members, and which numbers a chunk has. */
#include "core/coll/msg_piece.h"

#include <string.h>

#include "core/coll/call.h"

/* ---- Records ------------------------------------------------------------------------------------------------------ */

uint8_t *yk__msg_record(const yk__request *request, uint32_t peer_index)
{
    return request->msg->record + (peer_index + 1ull) * request->msg->record_bytes;
}

yk_status yk__msg_check_records(const yk__request *request, yk_error *err)
{
    for (uint32_t i = 0; i < request->msg->peers; i++) {
        yk__call theirs;
        memcpy(&theirs, yk__msg_record(request, i), sizeof theirs);
        if (theirs.kind == YK__COLL_NONE)
            continue;
        if (theirs.common != request->call.common || !yk__call_same(&theirs, &request->call))
            return yk__call_fail(request->comm->coll, &request->call, request->msg->peer[i], &theirs, err);
    }
    return YK_OK;
}

/* ---- Sends and receives ------------------------------------------------------------------------------------------- */

/* Records for excluded ranks are counted by what all ranks' programs have in common. */
uint64_t yk__msg_tag(const yk__call *call, uint32_t step)
{
    const uint32_t number = step == YK__MSG_STEP_FEED ? call->common : call->sequence;
    return (uint64_t)(call->comm & 0xfff) << 52 | (uint64_t)(call->generation & 0xfff) << 40 |
           (uint64_t)(number & 0xffffff) << 16 | step;
}

yk_status yk__msg_post(yk__request *request, yk__msg_piece *piece, bool send, uint32_t peer, uint32_t step,
                       const yk_tr_range *range, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    const uint64_t tag = yk__msg_tag(&request->call, step);
    yk_tr_error error = {""};
    const yk_status s = send ? plane->table->send(plane->tr, peer, tag, range, &piece->op[piece->n], &error)
                             : plane->table->recv(plane->tr, peer, tag, range, &piece->op[piece->n], &error);
    if (s)
        return yk__msg_fail(err, s, &error, request->comm->coll);
    if (send && plane->host[peer] != plane->host[request->comm->coll->rank])
        plane->sent_far += range->bytes;
    piece->bytes[piece->n] = send ? UINT64_MAX : range->bytes;
    piece->peer[piece->n] = peer;
    piece->n++;
    piece->open++;
    return YK_OK;
}

/* What came has another length than was expected. Records that came before say more; where the record itself is too long, or short,
 * what the peer shows of its request does. */
static yk_status fail_length(const yk__request *request, uint32_t peer, uint64_t got, uint64_t want, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    if (yk__msg_check_records(request, err) || yk__call_look(coll, &request->call, peer, err))
        return err->status;
    return yk__fail(err, YK_E_INTERNAL, "%s sent %s than %llu bytes in %s to %s: the ranks' calls differ",
                    yk__control_name(coll->control, peer), got > want ? "more" : "less", (unsigned long long)want,
                    yk__call_name(&request->call), yk__control_name(coll->control, coll->rank));
}

/* A message of another host that came whole is a sign of life. */
static void note_arrival(const yk__request *request, const yk__msg_piece *piece, uint32_t i, yk_status status)
{
    const yk__coll *coll = request->comm->coll;
    const uint32_t peer = piece->peer[i];
    if (!status && piece->bytes[i] != UINT64_MAX && coll->plane->host[peer] != coll->plane->host[coll->rank])
        yk__control_heard(coll->control, peer);
}

yk_status yk__msg_piece_test(const yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    for (uint32_t i = 0; i < piece->n && piece->open; i++) {
        yk_tr_error error = {""};
        uint64_t bytes = UINT64_MAX;
        int done = 0;
        yk_status s;
        if (!piece->op[i])
            continue;
        s = plane->table->test(plane->tr, piece->op[i], &done, &bytes, &error);
        if (done) {
            piece->op[i] = NULL;
            piece->open--;
            note_arrival(request, piece, i, s);
        }
        if (s && (s != YK_E_ARG || piece->bytes[i] == UINT64_MAX))
            return yk__msg_fail(err, s, &error, request->comm->coll);
        if (done && piece->bytes[i] != UINT64_MAX && bytes != piece->bytes[i])
            return fail_length(request, piece->peer[i], bytes, piece->bytes[i], err);
    }
    return YK_OK;
}

/* ---- Numbers of a chunk ------------------------------------------------------------------------------------------- */

uint64_t yk__msg_slice(const yk__request *request, uint32_t owner)
{
    return request->desc.parts->begin[owner + 1] - request->desc.parts->begin[owner];
}

uint64_t yk__msg_longest_slice(const yk__request *request)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < request->comm->size; i++) {
        const uint64_t n = yk__msg_slice(request, request->comm->member[i]);
        most = n > most ? n : most;
    }
    return most;
}

uint64_t yk__msg_chunk_numbers(const yk__request *request, uint32_t owner, uint64_t chunk)
{
    const uint64_t n = yk__msg_slice(request, owner), each = request->msg->chunk, at = chunk * each;
    return at >= n ? 0 : n - at < each ? n - at : each;
}

uint32_t yk__msg_chunk_step(uint64_t chunk)
{
    return YK__MSG_STEP_DATA + (uint32_t)(chunk % YK__MSG_STEPS);
}

const float *yk__msg_view(const yk__coll_desc *d, uint32_t own, uint32_t rank)
{
    const void *block = rank == own ? d->buffer->mem : yk__coll_peer_view(d->buffer, rank);
    return (const float *)block + d->offset;
}

yk_tr_range yk__msg_buffer_range(const yk__coll_desc *d, uint64_t at, uint64_t n)
{
    const uint64_t offset = (d->offset + at) * sizeof(float);
    return (yk_tr_range){.data = (char *)d->buffer->mem + offset, .mem = d->buffer->registered, .offset = offset,
                         .bytes = n * sizeof(float)};
}
