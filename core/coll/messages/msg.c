/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithm for collectives over messages: begins a request, drives it and waits for it. A request is a list of pieces, each a set of
 * sends and receives; a window of pieces is on its way at a time.
 *
 * request.c (core/coll) starts requests by the row in algorithms.c (core/coll) and waits in the step thread; the progress thread drives
 * them meanwhile (core/coll/progress.c). Both hold the plane's lock. A request ends done, or failed with the name of the rank that is lost.
 */
#include "core/coll/messages/msg.h"

#include <sched.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/messages/msg_columns.h"
#include "core/coll/messages/msg_feed.h"
#include "core/coll/messages/msg_gather.h"
#include "core/coll/messages/msg_kinds.h"
#include "core/coll/messages/msg_pull.h"
#include "core/coll/messages/msg_reduce.h"
#include "core/coll/messages/msg_rounds.h"
#include "core/coll/pool.h"

#define POLL_NS 300000 /* a wait polls for this long first, */
#define SLICE_MS 20    /* then looks at its peers at this interval */
#define EXCLUDED_MS 100 /* interval of an excluded rank, which should sleep */
#define LEFT_ROUNDS 4  /* looks at a peer that has left before it counts as lost, for the messages that it sent before */

/* ---- Pieces ------------------------------------------------------------------------------------------------------- */

/* Counts earlier requests of the communicator that still have pieces to post. */
static uint32_t count_before(const yk__request *request)
{
    uint32_t n = 0;
    for (const yk__request *r = request->comm->first; r != request; r = r->next)
        n += r->msg && !r->done && !r->msg->err.status && r->msg->posted < r->msg->pieces;
    return n;
}

/* True while the window has a free piece. Requests of several pieces follow each other: in parallel they would share the line, and the
 * first to be needed would come last. Only the next request's first piece, with the record, goes ahead, so that the line is never empty. */
static bool may_post(const yk__request *request)
{
    const yk__msg *m = request->msg;
    if (m->posted == m->pieces || m->posted - m->finished == YK__MSG_WINDOW)
        return false;
    return m->pieces == 1 || count_before(request) <= (m->posted ? 0 : 1);
}

static yk_status post_pieces(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    while (may_post(request)) {
        yk__msg_piece *piece = &m->piece[m->posted % YK__MSG_WINDOW];
        piece->n = piece->open = 0;
        piece->number = m->posted++;
        if (yk__msg_post_piece(request, piece, err))
            return err->status;
    }
    return YK_OK;
}

static yk_status finish_pieces(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    while (m->finished < m->posted) {
        yk__msg_piece *piece = &m->piece[m->finished % YK__MSG_WINDOW];
        if (yk__msg_piece_test(request, piece, err))
            return err->status;
        if (piece->open || !yk__msg_rounds_done(m))
            return YK_OK;
        if (yk__msg_finish_piece(request, piece, err))
            return err->status;
        m->finished++;
    }
    return YK_OK;
}

static yk_status step_request(yk__request *request, yk_error *err)
{
    yk__msg *m = request->msg;
    do {
        if (yk__msg_rounds_step(request, err) || post_pieces(request, err) || finish_pieces(request, err))
            return err->status;
    } while (may_post(request));
    if (m->finished < m->pieces)
        return YK_OK;
    if (request->desc.feeds && request->comm->joined && yk__msg_feed_put(request, err))
        return err->status;
    yk__pool_finish(request);
    request->comm->coll->plane->active--;
    return YK_OK;
}

void yk__msg_step_all(yk__coll *coll)
{
    for (yk__comm *comm = coll->comm; comm; comm = comm->next)
        for (yk__request *r = comm->first; r; r = r->next)
            if (r->msg && !r->done && !r->msg->err.status)
                step_request(r, &r->msg->err);
    yk__msg_pulls_step(coll);
    yk__msg_feed_reap(coll);
    yk__msg_serve(coll->plane);
}

void yk__msg_fail_all(yk__coll *coll, yk_status status, const yk_tr_error *error)
{
    for (yk__comm *comm = coll->comm; comm; comm = comm->next)
        for (yk__request *r = comm->first; r; r = r->next)
            if (r->msg && !r->done && !r->msg->err.status)
                yk__msg_fail(&r->msg->err, status, error, coll);
    yk__msg_pulls_fail(coll, status, error);
}

/* ---- Beginning ---------------------------------------------------------------------------------------------------- */

/* True if the request's record contains this rank's part of the data. */
static bool carries_part(const yk__request *request)
{
    const yk__coll_desc *d = &request->desc;
    if (yk__msg_columns_fit(request))
        return false;
    return d->kind == YK__COLL_ALL_GATHER || d->kind == YK__COLL_ALL_REDUCE || d->kind == YK__COLL_MEMBERS;
}

static void write_record(const yk__request *request)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t size = yk_dtype_bytes(d->dtype), bytes = d->count * size;
    uint8_t *to = request->msg->record + sizeof request->call;
    memcpy(request->msg->record, &request->call, sizeof request->call);
    if (request->msg->slice_bytes && d->kind == YK__COLL_ALL_GATHERV)
        yk__msg_gather_pack(request, to);
    if (!carries_part(request) || !bytes)
        return;
    if (d->kind != YK__COLL_ALL_REDUCE)
        memcpy(to, d->in, bytes);
    for (uint32_t row = 0; row < d->rows && d->kind == YK__COLL_ALL_REDUCE; row++)
        memcpy(to + row * bytes, (const uint8_t *)d->out + row * d->pitch * size, bytes);
}

static void msg_free(yk__msg *m)
{
    for (uint32_t i = 0; i < YK__MSG_WINDOW; i++)
        yk__msg_piece_free(&m->piece[i]);
    yk__msg_piece_free(&m->round);
    yk__free(m->peer);
    yk__msg_columns_free(m->columns);
    yk__msg_sum_free(m->sum);
    yk__free(m->narrow);
    yk__free(m->packet);
    yk__free(m->slice);
    yk__free(m->record);
    yk__free(m);
}

static yk_status pieces_new(yk__request *request, uint64_t bytes, yk_error *err)
{
    yk__msg *m = request->msg;
    m->have = m->peers + 1;
    for (uint32_t i = 0; i < YK__MSG_WINDOW; i++)
        if (yk__msg_piece_new(&m->piece[i], 6ull * m->peers + 1, err))
            return err->status;
    return yk__msg_rounds_fit(request, bytes) ? yk__msg_rounds_new(request, err) : YK_OK;
}

/* Lists the other members; on an excluded rank only the lowest member. */
static void list_peers(const yk__request *request)
{
    const yk__comm *comm = request->comm;
    yk__msg *m = request->msg;
    for (uint32_t i = 0, n = 0; i < comm->size; i++)
        if (comm->member[i] == comm->coll->rank)
            m->own = i;
        else if (n < m->peers)
            m->peer[n++] = comm->member[i];
}

static yk_status msg_new(yk__request *request, yk_error *err)
{
    const yk__comm *comm = request->comm;
    uint64_t part = carries_part(request) ? yk__call_bytes(&request->call) : 0;
    yk__msg *m = request->msg = yk__calloc(1, sizeof *m);
    if (!m)
        return yk__fail_mem(err, sizeof *m, "a collective");
    m->peers = comm->joined ? comm->size - 1 : 1;
    m->slice_bytes = yk__msg_rounds_slice(request);
    if (request->desc.kind == YK__COLL_ALL_GATHERV)
        part = m->slice_bytes;
    m->record_bytes = sizeof request->call + (comm->joined ? part : yk__msg_result_bytes(request));
    m->peer = yk__calloc(comm->size, sizeof *m->peer);
    m->record = yk__calloc(m->peers + 1, m->record_bytes);
    if (!m->peer || !m->record)
        return yk__fail_mem(err, (m->peers + 1) * m->record_bytes, "a collective");
    list_peers(request);
    if (pieces_new(request, part, err))
        return err->status;
    if (comm->joined)
        write_record(request);
    return yk__msg_plan_pieces(request, err);
}

static yk_status msg_start(yk__request *request, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    yk_status s;
    if (yk__msg_feed_reserve(request, err))
        return err->status;
    pthread_mutex_lock(&plane->lock);
    s = msg_new(request, err);
    if (!s) {
        plane->active++;
        request->msg->counted = true;
        s = step_request(request, err);
    }
    pthread_mutex_unlock(&plane->lock);
    return s;
}

void yk__msg_hand_over(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    if (!plane)
        return;
    pthread_mutex_lock(&plane->lock);
    if (plane->active || plane->feeds || plane->serves || (plane->held && !plane->watched))
        pthread_cond_signal(&plane->begun);
    pthread_mutex_unlock(&plane->lock);
}

static void cancel_piece(yk__msg_plane *plane, const yk__msg_piece *piece)
{
    for (uint32_t i = 0; i < piece->n; i++)
        if (piece->op[i])
            yk__msg_cancel(plane, piece->op[i]);
}

static void msg_release(yk__request *request)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    yk__msg *m = request->msg;
    if (!m)
        return;
    pthread_mutex_lock(&plane->lock);
    for (uint32_t w = 0; w < YK__MSG_WINDOW; w++)
        cancel_piece(plane, &m->piece[w]);
    cancel_piece(plane, &m->round);
    plane->active -= m->counted && !request->done;
    request->msg = NULL;
    pthread_mutex_unlock(&plane->lock);
    msg_free(m);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

static uint32_t piece_peer(const yk__msg_piece *piece)
{
    for (uint32_t i = 0; i < piece->n; i++)
        if (piece->op[i])
            return piece->peer[i];
    return UINT32_MAX;
}

/* A peer with an unfinished send or receive; UINT32_MAX if none. */
static uint32_t open_peer(const void *of)
{
    const yk__request *request = of;
    const yk__msg *m = request->msg;
    uint32_t peer = piece_peer(&m->round);
    for (uint64_t k = m->finished; k < m->posted && peer == UINT32_MAX; k++)
        peer = piece_peer(&m->piece[k % YK__MSG_WINDOW]);
    return peer;
}

static yk_status look_at(const yk__msg_wait *w, yk__control_wait *wait, uint32_t peer, yk_error *err)
{
    yk__coll *coll = w->coll;
    if (yk__msg_look(coll, err))
        return err->status;
    if (peer == UINT32_MAX)
        return yk__control_check(coll->control, err);
    if (yk__control_look(coll->control, wait, peer, w->what, err) || (w->call && yk__call_look(coll, w->call, peer, err)))
        return err->status;
    return YK_OK;
}

/* Moves the available messages and waits for more; the caller holds the lock before and after. */
static yk_status move_some(yk__coll *coll, int timeout_ms, uint64_t *events, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    const uint64_t before = *events;
    yk_tr_error error = {""};
    yk_status s;
    pthread_mutex_unlock(&plane->lock);
    s = plane->table->progress(plane->tr, timeout_ms, events, &error);
    pthread_mutex_lock(&plane->lock);
    yk__msg_step_all(coll);
    if (yk__msg_moved(plane, *events != before))
        yk__control_count_call(coll->control);
    return s ? yk__msg_fail(err, s, &error, coll) : YK_OK;
}

/* Polls on a member, and yields the processor between polls, as a sleeping thread takes long to wake. */
static yk_status poll_some(const yk__msg_wait *w, uint64_t *events, yk_error *err)
{
    const int64_t until = yk__clock_ns() + POLL_NS;
    yk_status s = YK_OK;
    while (!s && w->is_open(w->of) && yk__clock_ns() < until) {
        s = move_some(w->coll, 0, events, err);
        if (!s && w->is_open(w->of))
            sched_yield();
    }
    return s;
}

/* Messages that a rank sent before it left may still be on their way, so they count as lost only after some more rounds. */
yk_status yk__msg_wait_done(const yk__msg_wait *w, yk_error *err)
{
    yk__coll *coll = w->coll;
    yk__control_wait wait = {0};
    uint64_t events = 0;
    uint32_t left = 0;
    yk_status s;
    coll->plane->waiting = true;
    s = w->polls ? poll_some(w, &events, err) : YK_OK;
    while (!s && w->is_open(w->of)) {
        const uint32_t peer = w->peer(w->of);
        left = peer != UINT32_MAX && yk__control_left(coll->control, peer) ? left + 1 : 0;
        s = move_some(coll, w->polls ? SLICE_MS : EXCLUDED_MS, &events, err);
        if (s || !w->is_open(w->of))
            break;
        s = left > LEFT_ROUNDS ? yk__control_fail_left(coll->control, peer, w->what, err) : look_at(w, &wait, peer, err);
    }
    yk__control_waited(coll->control, &wait);
    coll->plane->waiting = false;
    return s;
}

static bool request_is_open(const void *of)
{
    const yk__request *request = of;
    return !request->done && !request->msg->err.status;
}

static yk_status wait_request(yk__request *request, yk_error *err)
{
    const yk__msg_wait wait = {.coll = request->comm->coll, .of = request, .is_open = request_is_open, .peer = open_peer,
                               .polls = request->comm->joined, .what = yk__call_name(&request->call), .call = &request->call};
    return yk__msg_wait_done(&wait, err);
}

static yk_status msg_advance(yk__request *request, bool wait, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    yk_status s = YK_OK;
    pthread_mutex_lock(&plane->lock);
    if (!request->done)
        yk__msg_step_all(request->comm->coll);
    if (wait)
        s = wait_request(request, err);
    if (!s && request->msg->err.status) {
        *err = request->msg->err;
        s = err->status;
    }
    pthread_mutex_unlock(&plane->lock);
    if (!s && !wait)
        return yk__control_check(request->comm->coll->control, err);
    return s;
}

static bool msg_fits(const yk__comm *comm, const yk__coll_desc *desc)
{
    return comm->coll->plane && (comm->joined || desc->feeds);
}

const yk__coll_algorithm yk__msg_algorithm = {
    .name = "messages", .fits = msg_fits, .start = msg_start, .advance = msg_advance, .release = msg_release};
