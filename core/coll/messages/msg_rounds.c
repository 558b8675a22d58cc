/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records and small data of all members in rounds: after round k each member has the data of 2^k members. Few messages replace one to each
 * member. Records are stored from the own one on, so that each message is one range.
 *
 * msg.c uses it for barriers and small gathers if tune.c found it faster, under the plane's lock, in the step or the progress thread.
 */
#include "core/coll/messages/msg_rounds.h"

bool yk__msg_rounds_fit(const yk__request *request, uint64_t bytes)
{
    const yk__comm *comm = request->comm;
    return comm->joined && comm->size >= YK__MSG_ROUNDS_LEAST && bytes < comm->coll->rounds_below;
}

yk_status yk__msg_rounds_new(yk__request *request, yk_error *err)
{
    request->msg->have = 1;
    return yk__msg_piece_new(&request->msg->round, 2, err);
}

/* Number of records that this round brings. */
static uint32_t count_coming(const yk__msg *m)
{
    const uint32_t left = m->peers + 1 - m->have;
    return m->have < left ? m->have : left;
}

static yk_status post_round(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    const uint32_t n = m->peers + 1, *member = request->comm->member;
    const uint64_t bytes = count_coming(m) * m->record_bytes;
    const yk_tr_range from = {.data = m->record, .bytes = bytes}, to = {.data = m->record + m->have * m->record_bytes, .bytes = bytes};
    m->round.n = 0;
    if (yk__msg_post(request, &m->round, false, member[(m->own + m->have) % n], YK__MSG_STEP_RECORD, &to, err))
        return err->status;
    return yk__msg_post(request, &m->round, true, member[(m->own + n - m->have) % n], YK__MSG_STEP_RECORD, &from, err);
}

yk_status yk__msg_rounds_step(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    while (!yk__msg_has_records(m)) {
        if (!m->round.n && post_round(request, err))
            return err->status;
        if (yk__msg_piece_test(request, &m->round, err))
            return err->status;
        if (m->round.open)
            return YK_OK;
        m->have += count_coming(m);
        m->round.n = 0;
    }
    return m->odd.got != m->odd.want ? yk__msg_fail_odd(request, err) : YK_OK;
}
