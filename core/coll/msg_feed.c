/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What excluded ranks learn of the steps they take no part in, over messages: the lowest member sends each of them the record and the
 * result of every request that feeds them. Nobody waits for an excluded rank but when very many results are on their way.
 */
#include "core/coll/msg_feed.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/members.h"

/* A result on its way to an excluded rank. */
struct yk__msg_feed {
    yk__msg_feed *next;
    yk_tr_op *op;
    uint8_t data[];
};

#define FEEDS 256u /* results on their way at once, to all excluded ranks */

uint64_t yk__msg_result_bytes(const yk__request *request)
{
    const uint64_t bytes = yk__call_bytes(&request->call);
    return request->desc.kind == YK__COLL_ALL_GATHER ? bytes * request->comm->coll->size : bytes;
}

/* Rows one after the other, or apart by the pitch. */
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

static yk_status send_result(yk__request *request, uint32_t peer, yk_error *err)
{
    yk__coll *coll = request->comm->coll;
    yk__msg_plane *plane = coll->plane;
    const uint64_t bytes = sizeof request->call + yk__msg_result_bytes(request);
    yk__msg_feed *f = yk__malloc(sizeof *f + bytes);
    const yk_tr_range range = {.data = f ? f->data : NULL, .bytes = bytes};
    yk_tr_error error = {""};
    yk_status s;
    if (!f)
        return yk__fail_mem(err, bytes, "results for excluded ranks");
    memcpy(f->data, &request->call, sizeof request->call);
    copy_rows(request, f->data + sizeof request->call, false);
    s = plane->table->send(plane->tr, peer, yk__msg_tag(&request->call, YK__MSG_STEP_FEED), &range, &f->op, &error);
    if (s) {
        yk__free(f);
        return yk__msg_fail(err, s, &error, coll);
    }
    f->next = plane->feed;
    plane->feed = f;
    plane->feeds++;
    return YK_OK;
}

static bool feeds_others(const yk__request *request)
{
    const yk__coll *coll = request->comm->coll;
    return request->desc.feeds && request->comm->joined && coll->rank == yk__members_lowest(request->comm) && yk__members_excluded(coll);
}

yk_status yk__msg_feed_put(yk__request *request, yk_error *err)
{
    const yk__comm *comm = request->comm;
    for (uint32_t r = 0; feeds_others(request) && r < comm->coll->size; r++)
        if (!comm->has[r] && send_result(request, r, err))
            return err->status;
    return YK_OK;
}

void yk__msg_feed_reap(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    for (yk__msg_feed **at = &plane->feed; *at;) {
        yk__msg_feed *f = *at;
        yk_tr_error error = {""};
        int done = 0;
        if (!plane->table->test(plane->tr, f->op, &done, NULL, &error) && !done) {
            at = &f->next;
            continue;
        }
        if (!done) /* the transport failed: requests will say so */
            plane->table->cancel(plane->tr, f->op);
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
        yk__msg_feed_reap(coll);
        full = plane->feeds >= FEEDS;
        pthread_mutex_unlock(&plane->lock);
        s = full ? plane->table->progress(plane->tr, 1, &events, &error) : YK_OK;
        s = s ? yk__msg_fail(err, s, &error, coll) : yk__control_check(coll->control, err);
    }
    return s;
}

void yk__msg_feed_free(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    while (plane && yk__msg_plane_is_own(plane) && plane->feed) {
        yk__msg_feed *f = plane->feed;
        plane->feed = f->next;
        plane->table->cancel(plane->tr, f->op);
        yk__free(f);
    }
}
