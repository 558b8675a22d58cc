/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The feed of excluded ranks over messages: the lowest member sends each excluded rank the record and result of every request with `feeds`.
 * No rank waits for an excluded rank, unless very many results are on their way. msg.c puts results in, and msg_kinds.c takes them out on
 * an excluded rank, under the plane's lock. coll.c (core/coll) sends held results before an allocation, and frees the feed.
 *
 * A message wakes its receiver, but an excluded rank should sleep, as its cores may serve other ranks. So results are held back until there
 * are many, the oldest is old, or a request of all ranks needs the excluded ranks. Without a progress thread they are sent at once.
 */
#include "core/coll/messages/msg_feed.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/members.h"
#include "core/coll/messages/msg.h"

/* A result for an excluded rank. */
struct yk__msg_feed {
    yk__msg_feed *next;
    yk_tr_op *op;
    uint32_t peer;
    uint64_t tag, bytes;
    uint8_t data[];
};

#define FEEDS 256u           /* results held and on their way at once, over all excluded ranks */
#define HELD_REQUESTS 128u   /* limits of the held results: number of requests, */
#define HELD_BYTES (1u << 20) /* bytes, */
#define HELD_NS 250000000ll  /* and age */
#define LINGER_NS 1000000000ll /* ns at the end of the job for results on their way */

uint64_t yk__msg_result_bytes(const yk__request *request)
{
    const uint64_t bytes = yk__call_bytes(&request->call);
    return request->desc.kind == YK__COLL_ALL_GATHER ? bytes * request->comm->coll->size : bytes;
}

/* Copies rows between contiguous memory and the caller's pitch. */
static void copy_rows(const yk__request *request, uint8_t *rows, bool out)
{
    const yk__coll_desc *d = &request->desc;
    const uint64_t row = yk__msg_result_bytes(request) / d->rows, pitch = d->pitch * yk_dtype_bytes(d->dtype);
    for (uint32_t r = 0; r < d->rows && row; r++) {
        uint8_t *own = (uint8_t *)d->out + r * pitch;
        memcpy(out ? own : rows + r * row, out ? rows + r * row : own, row);
    }
}

yk_status yk__msg_feed_take(yk__request *request, const uint8_t *record, yk_error *err)
{
    yk__call theirs;
    memcpy(&theirs, record, sizeof theirs);
    if (theirs.common != request->call.common || !yk__call_same(&theirs, &request->call))
        return yk__call_fail(request->comm->coll, &request->call, request->msg->peer[0], &theirs, err);
    copy_rows(request, (uint8_t *)(uintptr_t)record + sizeof theirs, true);
    return YK_OK;
}

/* Sends the held results. */
static yk_status send_held(yk__coll *coll, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    yk_tr_error error = {""};
    yk_status s = YK_OK;
    while (plane->held) {
        yk__msg_feed *f = plane->held;
        const yk_tr_range range = {.data = f->data, .bytes = f->bytes};
        plane->held = f->next;
        if (!s)
            s = yk__msg_send(plane, f->peer, f->tag, &range, &f->op, &error);
        if (s) {
            yk__free(f);
            continue;
        }
        f->next = plane->feed;
        plane->feed = f;
        plane->feeds++;
    }
    plane->held_last = NULL;
    plane->holds = plane->held_requests = 0;
    plane->held_bytes = 0;
    return s ? yk__msg_fail(err, s, &error, coll) : YK_OK;
}

static yk_status hold_result(yk__request *request, uint32_t peer, yk_error *err)
{
    yk__msg_plane *plane = request->comm->coll->plane;
    const uint64_t bytes = sizeof request->call + yk__msg_result_bytes(request);
    yk__msg_feed *f = yk__malloc(sizeof *f + bytes);
    if (!f)
        return yk__fail_mem(err, bytes, "results for excluded ranks");
    *f = (yk__msg_feed){.peer = peer, .tag = yk__msg_tag(&request->call, YK__MSG_STEP_FEED), .bytes = bytes};
    memcpy(f->data, &request->call, sizeof request->call);
    copy_rows(request, f->data + sizeof request->call, false);
    if (!plane->held)
        plane->held_until = yk__clock_ns() + HELD_NS;
    *(plane->held ? &plane->held_last->next : &plane->held) = f;
    plane->held_last = f;
    plane->holds++;
    plane->held_bytes += bytes;
    return YK_OK;
}

static bool feeds_others(const yk__request *request)
{
    const yk__coll *coll = request->comm->coll;
    return request->desc.feeds && request->comm->joined && coll->rank == yk__members_lowest(request->comm) && yk__members_excluded(coll);
}

static bool must_send(const yk__coll *coll)
{
    const yk__msg_plane *plane = coll->plane;
    const bool awaited = coll->comm && coll->comm->first; /* a request of all ranks is in progress */
    return plane->held && (awaited || !plane->threaded || plane->held_requests >= HELD_REQUESTS || plane->held_bytes >= HELD_BYTES ||
                           plane->holds >= FEEDS / 2 || yk__clock_ns() >= plane->held_until);
}

yk_status yk__msg_feed_put(yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    if (!feeds_others(request))
        return YK_OK;
    for (uint32_t r = 0; r < coll->size; r++)
        if (!request->comm->has[r] && hold_result(request, r, err))
            return err->status;
    coll->plane->held_requests++;
    return must_send(coll) ? send_held(coll, err) : YK_OK;
}

void yk__msg_feed_send(yk__coll *coll)
{
    yk_error ignored = YK_ERROR_INIT; /* if the transport failed, requests report it */
    if (!coll->plane)
        return;
    pthread_mutex_lock(&coll->plane->lock);
    send_held(coll, &ignored);
    pthread_mutex_unlock(&coll->plane->lock);
}

void yk__msg_feed_reap(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    yk_error ignored = YK_ERROR_INIT;
    if (must_send(coll))
        send_held(coll, &ignored);
    for (yk__msg_feed **at = &plane->feed; *at;) {
        yk__msg_feed *f = *at;
        yk_tr_error error = {""};
        int done = 0;
        if (!yk__msg_test(plane, f->op, &done, NULL, &error) && !done) {
            at = &f->next;
            continue;
        }
        if (!done) /* the transport failed: requests report it */
            yk__msg_cancel(plane, f->op);
        *at = f->next;
        plane->feeds--;
        yk__free(f);
    }
}

yk_status yk__msg_feed_reserve(yk__request *request, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    yk__msg_plane *plane = coll->plane;
    yk_status s = YK_OK;
    bool full = feeds_others(request);
    while (full && !s) {
        yk_tr_error error = {""};
        uint64_t events = 0;
        pthread_mutex_lock(&plane->lock);
        yk__msg_step_all(coll); /* excluded ranks may wait for data that this rank passes on (msg_rounds.h) */
        full = plane->feeds + plane->holds >= FEEDS;
        pthread_mutex_unlock(&plane->lock);
        s = full ? plane->table->progress(plane->tr, 1, &events, &error) : YK_OK;
        s = s ? yk__msg_fail(err, s, &error, coll) : yk__control_check(coll->control, err);
    }
    return s;
}

void yk__msg_feed_finish(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    const int64_t until = yk__clock_ns() + LINGER_NS;
    uint64_t events = 0;
    bool open = true;
    yk__msg_feed_send(coll);
    while (open) {
        yk_tr_error error = {""};
        yk_error ended = YK_ERROR_INIT;
        pthread_mutex_lock(&plane->lock);
        yk__msg_feed_reap(coll);
        open = plane->feeds > 0;
        pthread_mutex_unlock(&plane->lock);
        open = open && yk__clock_ns() < until && !yk__control_check(coll->control, &ended) &&
               !plane->table->progress(plane->tr, 1, &events, &error);
    }
}

void yk__msg_feed_free(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    while (plane && yk__msg_plane_is_own(plane) && plane->feed) {
        yk__msg_feed *f = plane->feed;
        plane->feed = f->next;
        yk__msg_cancel(plane, f->op);
        yk__free(f);
    }
    while (plane && yk__msg_plane_is_own(plane) && plane->held) {
        yk__msg_feed *f = plane->held;
        plane->held = f->next;
        yk__free(f);
    }
}
