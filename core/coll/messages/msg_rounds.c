/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and small data of all members in rounds: after round k each member has the data of 2^k members. Few messages replace one to each
 * member. Records are stored from the own one on, so that each message is one range.
 *
 * msg.c uses it for barriers, small gathers and short slices if tune.c (core/coll) found it faster, under the plane's lock, in the step or
 * the progress thread.
 */
#include "core/coll/messages/msg_rounds.h"

#include <string.h>

#include "core/base/mem.h"

enum {
    PAD = 64,          /* numbers: slices end at multiples of them */
    SLICE_MOST = 16384 /* bytes: in larger ones bytes cost more than messages */
};

bool yk__msg_rounds_fit(const yk__request *request, uint64_t bytes)
{
    const yk__comm *comm = request->comm;
    return comm->joined && comm->size >= YK__MSG_ROUNDS_LEAST && bytes < comm->coll->rounds_below;
}

/* Slices that are not about equal go directly, as rounds pad them to the longest. */
uint64_t yk__msg_rounds_slice(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    const bool gathers = request->desc.kind == YK__COLL_ALL_GATHERV;
    uint64_t longest, bytes;
    if ((!gathers && request->desc.kind != YK__COLL_REDUCE_SCATTER) || comm->hosts.count < comm->size)
        return 0;
    longest = (yk__msg_longest_slice(request) + PAD - 1) / PAD * PAD;
    bytes = gathers ? longest * (request->desc.narrow ? sizeof(uint16_t) : sizeof(float)) : yk__wire_bytes(comm->coll->wire, longest);
    if (bytes > SLICE_MOST || (longest > PAD && longest * comm->size / 4 > request->desc.count))
        return 0;
    return yk__msg_rounds_fit(request, bytes) && (gathers || bytes < comm->coll->slices_below) ? bytes : 0;
}

yk_status yk__msg_rounds_new(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    const uint64_t all = (m->peers + 1) * (m->record_bytes + m->slice_bytes);
    m->have = 1;
    if (m->slice_bytes && request->desc.kind == YK__COLL_REDUCE_SCATTER) {
        m->slice = yk__calloc(m->peers + 1, m->slice_bytes);
        m->packet = yk__malloc(2 * all);
        if (!m->slice || !m->packet)
            return yk__fail_mem(err, 3 * all, "a reduce-scatter");
    }
    return yk__msg_piece_new(&m->round, 2, err);
}

/* Number of records that this round brings. */
static uint32_t count_coming(const yk__msg *m)
{
    const uint32_t left = m->peers + 1 - m->have;
    return m->have < left ? m->have : left;
}

/* Copies between the packet, behind its records, and the slices that this round moves. Returns the packet's bytes. */
static uint64_t move_slices(const yk__msg *m, uint8_t *packet, bool in)
{
    uint64_t at = count_coming(m) * m->record_bytes;
    for (uint32_t away = m->have; away <= m->peers; away++) {
        uint8_t *slice = m->slice + away * m->slice_bytes;
        if (!(away & m->have))
            continue;
        memcpy(in ? slice : packet + at, in ? packet + at : slice, m->slice_bytes);
        at += m->slice_bytes;
    }
    return at;
}

static uint8_t *packet_in(const yk__msg *m)
{
    return m->packet + (m->peers + 1) * (m->record_bytes + m->slice_bytes);
}

static yk_status post_round(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    const uint32_t n = m->peers + 1, *member = request->comm->member;
    uint8_t *coming = m->record + m->have * m->record_bytes;
    const uint64_t bytes = count_coming(m) * m->record_bytes;
    yk_tr_range from = {.data = m->record, .bytes = bytes}, to = {.data = coming, .bytes = bytes};
    if (m->packet) {
        memcpy(m->packet, m->record, bytes);
        from.data = m->packet;
        to.data = packet_in(m);
        from.bytes = to.bytes = move_slices(m, m->packet, false);
    }
    m->round.n = 0;
    if (yk__msg_post(request, &m->round, false, member[(m->own + m->have) % n], YK__MSG_STEP_RECORD, &to, err))
        return err->status;
    return yk__msg_post(request, &m->round, true, member[(m->own + n - m->have) % n], YK__MSG_STEP_RECORD, &from, err);
}

void yk__msg_rounds_unpack(const yk__msg *m, uint64_t bytes)
{
    if (m->packet)
        memcpy(m->record + m->have * m->record_bytes, packet_in(m), bytes);
}

yk_status yk__msg_rounds_step(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    while (!yk__msg_rounds_done(m)) {
        if (!m->round.n && post_round(request, err))
            return err->status;
        if (yk__msg_piece_test(request, &m->round, err))
            return err->status;
        if (m->round.open)
            return YK_OK;
        yk__msg_rounds_unpack(m, count_coming(m) * m->record_bytes);
        if (m->packet)
            move_slices(m, packet_in(m), true);
        m->have += count_coming(m);
        m->round.n = 0;
    }
    return m->odd.got != m->odd.want ? yk__msg_fail_odd(request, err) : YK_OK;
}
