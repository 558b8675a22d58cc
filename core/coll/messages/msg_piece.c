/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of requests over messages: their sends and receives, the members' records, and the numbers of each chunk. A record says which
 * request a member is in, so members that are in different requests end with an error. Records go with piece 0 to each member, or in rounds
 * as piece `round` (msg_rounds.c).
 *
 * msg.c and msg_rounds.c make and test pieces; they and the files of each kind of collective (msg_reduce.c and its neighbours) post
 * messages with them. The step or the progress thread holds the plane's lock. Sizes are bytes; slices and chunks count numbers of f32.
 */
#include "core/coll/messages/msg_piece.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/messages/msg_rounds.h"

/* ---- Records ------------------------------------------------------------------------------------------------------ */

uint8_t *yk__msg_record(const yk__request *request, uint32_t member_index)
{
    const yk__msg *m = request->msg;
    return m->record + m->record_bytes * (member_index < m->own ? member_index + m->peers + 1 - m->own : member_index - m->own);
}

uint8_t *yk__msg_peer_record(const yk__request *request, uint32_t peer_index)
{
    return yk__msg_record(request, peer_index < request->msg->own ? peer_index : peer_index + 1);
}

bool yk__msg_in_rounds(const yk__msg *m)
{
    return m->round.op != NULL;
}

bool yk__msg_rounds_done(const yk__msg *m)
{
    return m->have == m->peers + 1;
}

static yk_status check_record(const yk__request *request, uint32_t peer_index, yk_error *err)
{
    yk__call theirs;
    memcpy(&theirs, yk__msg_peer_record(request, peer_index), sizeof theirs);
    if (theirs.kind == YK__COLL_NONE || (theirs.common == request->call.common && yk__call_same(&theirs, &request->call)))
        return YK_OK;
    return yk__call_fail(request->comm->coll, &request->call, request->msg->peer[peer_index], &theirs, err);
}

yk_status yk__msg_check_records(const yk__request *request, yk_error *err)
{
    for (uint32_t i = 0; i < request->msg->peers; i++)
        if (check_record(request, i, err))
            return err->status;
    return YK_OK;
}

/* ---- Sends and receives ------------------------------------------------------------------------------------------- */

/* Tags of records for excluded ranks use the number that all ranks' programs share. */
uint64_t yk__msg_tag(const yk__call *call, uint32_t step)
{
    const uint32_t number = step == YK__MSG_STEP_FEED ? call->common : call->sequence;
    return (uint64_t)(call->comm & 0xfff) << 52 | (uint64_t)(call->generation & 0xfff) << 40 |
           (uint64_t)(number & 0xffffff) << 16 | step;
}

yk_status yk__msg_piece_new(yk__msg_piece *piece, size_t most, yk_error *err)
{
    piece->op = yk__calloc(most, sizeof *piece->op);
    piece->bytes = yk__calloc(most, sizeof *piece->bytes);
    piece->peer = yk__calloc(most, sizeof *piece->peer);
    return piece->op && piece->bytes && piece->peer ? YK_OK : yk__fail_mem(err, most * sizeof *piece->op, "a collective");
}

void yk__msg_piece_free(yk__msg_piece *piece)
{
    yk__free(piece->op);
    yk__free(piece->bytes);
    yk__free(piece->peer);
}

yk_status yk__msg_post(yk__request *request, yk__msg_piece *piece, bool send, uint32_t peer, uint32_t step,
                       const yk_tr_range *range, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    const uint64_t tag = yk__msg_tag(&request->call, step);
    yk_tr_error error = {""};
    const yk_status s = send ? yk__msg_send(plane, peer, tag, range, &piece->op[piece->n], &error)
                             : yk__msg_recv(plane, peer, tag, range, &piece->op[piece->n], &error);
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

/* Prefers the error of the request that the peer shows, as it tells more. */
static yk_status fail_length(const yk__request *request, const yk__msg_odd *odd, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    if (yk__call_look(coll, &request->call, odd->peer, err))
        return err->status;
    return yk__fail(err, YK_E_INTERNAL, "%s sent %s than %llu bytes in %s to %s: the ranks' calls differ",
                    yk__control_name(coll->control, odd->peer), odd->got > odd->want ? "more" : "less", (unsigned long long)odd->want,
                    yk__call_name(&request->call), yk__control_name(coll->control, coll->rank));
}

yk_status yk__msg_fail_odd(const yk__request *request, yk_error *err)
{
    return yk__msg_check_records(request, err) ? err->status : fail_length(request, &request->msg->odd, err);
}

/* Notes a message of unexpected length. The sender's record, the first of a round, tells more, unless the message was cut off. In rounds,
 * the error for a data message waits until the last record is here. Without rounds it comes at once. */
static yk_status note_length(yk__request *request, const yk__msg_piece *piece, uint32_t i, uint64_t got, yk_error *err)
{
    yk__msg *m = request->msg;
    const uint32_t member = (m->own + m->have) % (m->peers + 1);
    m->odd = (yk__msg_odd){.got = got, .want = piece->bytes[i], .peer = piece->peer[i]};
    if (yk__msg_rounds_done(m))
        return yk__msg_fail_odd(request, err);
    if (piece != &m->round)
        return YK_OK;
    if (got >= sizeof request->call)
        yk__msg_rounds_unpack(m, sizeof request->call);
    if (got >= sizeof request->call && got < piece->bytes[i] && check_record(request, member < m->own ? member : member - 1, err))
        return err->status;
    return fail_length(request, &m->odd, err);
}

/* Counts a complete message of another host as a sign of life. */
static void note_arrival(const yk__request *request, const yk__msg_piece *piece, uint32_t i, yk_status status)
{
    const yk__coll *coll = request->comm->coll;
    const uint32_t peer = piece->peer[i];
    if (!status && piece->bytes[i] != UINT64_MAX && coll->plane->host[peer] != coll->plane->host[coll->rank])
        yk__control_heard(coll->control, peer);
}

yk_status yk__msg_piece_test(yk__request *request, yk__msg_piece *piece, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    for (uint32_t i = 0; i < piece->n && piece->open; i++) {
        yk_tr_error error = {""};
        uint64_t bytes = UINT64_MAX;
        int done = 0;
        yk_status s;
        if (!piece->op[i])
            continue;
        s = yk__msg_test(plane, piece->op[i], &done, &bytes, &error);
        if (done) {
            piece->op[i] = NULL;
            piece->open--;
            note_arrival(request, piece, i, s);
        }
        if (s && (s != YK_E_ARG || piece->bytes[i] == UINT64_MAX))
            return yk__msg_fail(err, s, &error, request->comm->coll);
        if (done && piece->bytes[i] != UINT64_MAX && bytes != piece->bytes[i] && note_length(request, piece, i, bytes, err))
            return err->status;
    }
    return YK_OK;
}

/* ---- Numbers of a chunk ------------------------------------------------------------------------------------------ */

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
