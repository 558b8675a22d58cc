/* SPDX-License-Identifier: Apache-2.0 */
/* Requests over messages: posting pieces, going on with them, waiting. */
#include "core/coll/msg.h"

#include <sched.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define POLL_NS 300000 /* a wait begins with so much of looking for messages */
#define SLICE_MS 20    /* then it looks at its peers so often */
#define LEFT_ROUNDS 4  /* and so often at one that has left, for what it sent before */

/* ---- Errors and locks --------------------------------------------------------------------------------------------- */

yk_status yk__msg_fail(yk_error *err, yk_status status, const yk_tr_error *error, const yk__coll *coll)
{
    return yk__fail(err, status, "%s, transport %s: %s", yk__control_name(coll->control, coll->rank), coll->plane->table->name,
                    error->text);
}

void yk__msg_lock(yk__comm *comm)
{
    if (comm->coll->plane)
        pthread_mutex_lock(&comm->coll->plane->lock);
}

void yk__msg_unlock(yk__comm *comm)
{
    if (comm->coll->plane)
        pthread_mutex_unlock(&comm->coll->plane->lock);
}

bool yk__msg_done(yk__request *request)
{
    bool done;
    yk__msg_lock(request->comm);
    done = request->done;
    yk__msg_unlock(request->comm);
    return done;
}

uint64_t yk__msg_sent_far(yk__coll *coll)
{
    uint64_t bytes;
    pthread_mutex_lock(&coll->plane->lock);
    bytes = coll->plane->sent_far;
    pthread_mutex_unlock(&coll->plane->lock);
    return bytes;
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------- */

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

static yk_status test_ops(const yk__request *request, yk__msg_piece *piece, yk_error *err)
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

/* An earlier request of the communicator has pieces left to post. */
static bool is_behind(const yk__request *request)
{
    const yk__request *r = request->comm->first;
    while (r != request && (!r->msg || r->done || r->msg->err.status || r->msg->posted == r->msg->pieces))
        r = r->next;
    return r != request;
}

/* As far as the window goes. Beyond the first piece, with the record, requests follow each other: side by side they would share the
 * line, and what is needed first would come with the last. */
static bool may_post(const yk__request *request)
{
    const yk__msg *m = request->msg;
    return m->posted < m->pieces && m->posted - m->finished < YK__MSG_WINDOW && (!m->posted || !is_behind(request));
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
        if (test_ops(request, piece, err))
            return err->status;
        if (piece->open)
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
        if (post_pieces(request, err) || finish_pieces(request, err))
            return err->status;
    } while (may_post(request));
    if (m->finished < m->pieces)
        return YK_OK;
    if (request->desc.feeds && request->comm->joined && yk__msg_feed_put(request, err))
        return err->status;
    yk__request_finish(request);
    request->comm->coll->plane->active--;
    return YK_OK;
}

void yk__msg_step_all(yk__coll *coll)
{
    for (yk__comm *comm = coll->comm; comm; comm = comm->next)
        for (yk__request *r = comm->first; r; r = r->next)
            if (r->msg && !r->done && !r->msg->err.status)
                step_request(r, &r->msg->err);
    yk__msg_feed_reap(coll);
}

void yk__msg_fail_all(yk__coll *coll, yk_status status, const yk_tr_error *error)
{
    for (yk__comm *comm = coll->comm; comm; comm = comm->next)
        for (yk__request *r = comm->first; r; r = r->next)
            if (r->msg && !r->done && !r->msg->err.status)
                yk__msg_fail(&r->msg->err, status, error, coll);
}

/* ---- Beginning ---------------------------------------------------------------------------------------------------- */

static bool is_small(const yk__coll_desc *d)
{
    return d->kind == YK__COLL_ALL_GATHER || d->kind == YK__COLL_ALL_REDUCE || d->kind == YK__COLL_MEMBERS;
}

static void write_record(const yk__request *request)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t size = yk_dtype_bytes(d->dtype), bytes = d->count * size;
    uint8_t *to = request->msg->record + sizeof request->call;
    memcpy(request->msg->record, &request->call, sizeof request->call);
    if (!is_small(d) || !bytes)
        return;
    if (d->kind != YK__COLL_ALL_REDUCE)
        memcpy(to, d->in, bytes);
    for (uint32_t row = 0; row < d->rows && d->kind == YK__COLL_ALL_REDUCE; row++)
        memcpy(to + row * bytes, (const uint8_t *)d->out + row * d->pitch * size, bytes);
}

static void msg_free(yk__msg *m)
{
    for (uint32_t i = 0; i < YK__MSG_WINDOW; i++) {
        yk__free(m->piece[i].op);
        yk__free(m->piece[i].bytes);
        yk__free(m->piece[i].peer);
    }
    yk__free(m->peer);
    yk__msg_sum_free(m->sum);
    yk__free(m->record);
    yk__free(m);
}

static bool pieces_new(yk__msg *m)
{
    const size_t most = 6ull * m->peers + 1;
    bool all = true;
    for (uint32_t i = 0; i < YK__MSG_WINDOW; i++) {
        yk__msg_piece *p = &m->piece[i];
        p->op = yk__calloc(most, sizeof *p->op);
        p->bytes = yk__calloc(most, sizeof *p->bytes);
        p->peer = yk__calloc(most, sizeof *p->peer);
        all = all && p->op && p->bytes && p->peer;
    }
    return all;
}

static yk_status msg_new(yk__request *request, yk_error *err)
{
    const yk__comm *comm = request->comm;
    yk__msg *m = request->msg = yk__calloc(1, sizeof *m);
    if (!m)
        return yk__fail_mem(err, sizeof *m, "a collective");
    m->peers = comm->joined ? comm->size - 1 : 1;
    m->record_bytes = sizeof request->call + (!comm->joined ? yk__msg_result_bytes(request)
                                              : is_small(&request->desc) ? yk__call_bytes(&request->call)
                                                                         : 0);
    m->peer = yk__calloc(comm->size, sizeof *m->peer);
    m->record = yk__calloc(m->peers + 1, m->record_bytes);
    if (!m->peer || !m->record || !pieces_new(m))
        return yk__fail_mem(err, (m->peers + 1) * m->record_bytes, "a collective");
    for (uint32_t i = 0, n = 0; i < comm->size && n < m->peers; i++) /* of an excluded rank: the lowest member */
        if (comm->member[i] != comm->coll->rank)
            m->peer[n++] = comm->member[i];
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
    if (plane->active || plane->feeds)
        pthread_cond_signal(&plane->begun);
    pthread_mutex_unlock(&plane->lock);
}

static void msg_release(yk__request *request)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    yk__msg *m = request->msg;
    if (!m)
        return;
    pthread_mutex_lock(&plane->lock);
    for (uint32_t w = 0; w < YK__MSG_WINDOW; w++)
        for (uint32_t i = 0; i < m->piece[w].n; i++)
            if (m->piece[w].op[i])
                plane->table->cancel(plane->tr, m->piece[w].op[i]);
    plane->active -= m->counted && !request->done;
    request->msg = NULL;
    pthread_mutex_unlock(&plane->lock);
    msg_free(m);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

/* A rank that has something to send or to take; UINT32_MAX: none. */
static uint32_t open_peer(const yk__request *request)
{
    const yk__msg *m = request->msg;
    for (uint64_t k = m->finished; k < m->posted; k++) {
        const yk__msg_piece *piece = &m->piece[k % YK__MSG_WINDOW];
        for (uint32_t i = 0; i < piece->n; i++)
            if (piece->op[i])
                return piece->peer[i];
    }
    return UINT32_MAX;
}

static yk_status look_at(const yk__request *request, yk__control_wait *wait, uint32_t peer, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    const char *what = yk__call_name(&request->call);
    if (peer == UINT32_MAX)
        return yk__control_check(coll->control, err);
    if (yk__control_look(coll->control, wait, peer, what, err) || yk__call_look(coll, &request->call, peer, err))
        return err->status;
    return YK_OK;
}

/* Moves what there is, and waits for more, with the lock held before and after. */
static yk_status move_some(yk__coll *coll, int timeout_ms, uint64_t *events, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    yk_tr_error error = {""};
    yk_status s;
    pthread_mutex_unlock(&plane->lock);
    s = plane->table->progress(plane->tr, timeout_ms, events, &error);
    pthread_mutex_lock(&plane->lock);
    yk__msg_step_all(coll);
    return s ? yk__msg_fail(err, s, &error, coll) : YK_OK;
}

static bool is_open(const yk__request *request)
{
    return !request->done && !request->msg->err.status;
}

/* Between others' turns of the processor: a thread that sleeps takes long to come back. */
static yk_status poll_some(yk__request *request, uint64_t *events, yk_error *err)
{
    const int64_t until = yk__clock_ns() + POLL_NS;
    yk_status s = YK_OK;
    while (!s && is_open(request) && yk__clock_ns() < until) {
        s = move_some(request->comm->coll, 0, events, err);
        if (!s && is_open(request))
            sched_yield();
    }
    return s;
}

/* What was sent before a rank left may still be on its way: only what is not here after some more rounds is lost. */
static yk_status wait_done(yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    yk__control_wait wait = {0};
    uint64_t events = 0;
    uint32_t left = 0;
    yk_status s;
    coll->plane->waiting = true;
    s = poll_some(request, &events, err);
    while (!s && is_open(request)) {
        const uint32_t peer = open_peer(request);
        left = peer != UINT32_MAX && yk__control_left(coll->control, peer) ? left + 1 : 0;
        s = move_some(coll, SLICE_MS, &events, err);
        if (s || !is_open(request))
            break;
        s = left > LEFT_ROUNDS ? yk__control_fail_left(coll->control, peer, yk__call_name(&request->call), err)
                               : look_at(request, &wait, peer, err);
    }
    yk__control_waited(coll->control, &wait);
    coll->plane->waiting = false;
    return s;
}

static yk_status msg_advance(yk__request *request, bool wait, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    yk_status s = YK_OK;
    pthread_mutex_lock(&plane->lock);
    if (!request->done)
        yk__msg_step_all(request->comm->coll);
    if (wait)
        s = wait_done(request, err);
    if (!s && request->msg->err.status) {
        *err = request->msg->err;
        s = err->status;
    }
    pthread_mutex_unlock(&plane->lock);
    if (!s && !wait)
        return yk__control_check(request->comm->coll->control, err);
    return s;
}

const yk__coll_algorithm yk__msg_algorithm = {
    .name = "messages", .start = msg_start, .advance = msg_advance, .release = msg_release};
