/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request that each rank is in. A rank shows it before it waits (core/control). A rank that waits for long compares the requests, so
 * that diverged programs end with both places in their source instead of waiting for ever.
 *
 * The step thread makes requests on the world and on the members in the order of the user's program. Two numbers count them over both
 * communicators. `order` counts the requests that a member begins; two members compare it. `common` counts the requests that every rank's
 * program reaches, excluded ranks' too; an excluded rank and a member compare it. Other communicators compare their own sequence.
 */
#include "core/coll/call.h"
#include "core/coll/coll.h"

#include <stdio.h>
#include <string.h>

/* The part of its state that a rank shows: its last request. */
typedef struct yk__call_info {
    yk__call call;
    uint32_t excluded;
    uint32_t begun[2]; /* last sequence numbers on world and members */
    float shown;       /* yk__coll_show */
} yk__call_info;

_Static_assert(sizeof(yk__call_info) <= YK__CONTROL_INFO, "fits the record that a rank shows");

#define PLACE 64 /* elements: a unit of yk__call.root for requests on a buffer */
#define PASSED 3 /* looks that must find a rank beyond a request that it never began */

const char *yk__call_name(const yk__call *call)
{
    static const char *const names[] = {
        [YK__COLL_NONE] = "no operation",         [YK__COLL_BARRIER] = "a barrier",
        [YK__COLL_BROADCAST] = "a broadcast",     [YK__COLL_ALL_GATHER] = "an all-gather",
        [YK__COLL_ALL_REDUCE] = "a sum of f64",   [YK__COLL_REDUCE_SCATTER] = "a reduce-scatter",
        [YK__COLL_ALL_GATHERV] = "an all-gather of slices", [YK__COLL_ALLOC] = "making shared memory",
        [YK__COLL_MEMBERS] = "a change of the members",
    };
    if (call->kind == YK__COLL_ALL_REDUCE && call->dtype == YK_F32)
        return call->op == YK__COLL_MOMENTS ? "a reduction of moments" : "a reduction of f32";
    return call->kind < sizeof names / sizeof *names ? names[call->kind] : "an unknown operation";
}

static const char *use_name(uint8_t use)
{
    static const char *const names[] = {
        [YK__USE_SUM] = "yk_all_reduce_sum",
        [YK__USE_MEAN] = "yk_all_reduce_mean",
        [YK__USE_MAX] = "yk_all_reduce_max",
        [YK__USE_GATHER] = "yk_gather",
        [YK__USE_GATHER_OBJECT] = "yk_gather_object",
        [YK__USE_GATHER_FOR_METRICS] = "yk_gather_for_metrics",
        [YK__USE_BROADCAST] = "yk_broadcast",
        [YK__USE_BROADCAST_OBJECT] = "yk_broadcast_object",
        [YK__USE_PAD] = "yk_pad_across_ranks",
        [YK__USE_BARRIER] = "yk_barrier",
        [YK__USE_MAKE_DIR] = "yk_make_dir",
        [YK__USE_MAIN_FIRST] = "yk_main_first_begin or yk_main_first_end",
        [YK__USE_TRIGGER] = "yk_check_trigger",
        [YK__USE_PRINT] = "yk_print_in_order",
    };
    return use < sizeof names / sizeof *names ? names[use] : NULL;
}

uint64_t yk__call_bytes(const yk__call *call)
{
    return call->count * yk_dtype_bytes(call->dtype) * (call->rows ? call->rows : 1);
}

/* Records the place in the user's program. Copies the file's name only if it differs from the last request's. */
static void note_place(yk__coll *coll, const yk__coll_desc *d, yk__call *call)
{
    const char *file = d->file;
    int line = d->line;
    size_t n;
    if (!file && coll->place)
        coll->place(&file, &line);
    call->line = line;
    if (file != coll->file) {
        coll->file = file;
        memset(coll->file_name, 0, sizeof coll->file_name);
        n = file ? strlen(file) : 0;
        if (n >= sizeof coll->file_name) /* keep the end of a long path */
            file += n - sizeof coll->file_name + 1;
        if (n)
            memcpy(coll->file_name, file, strlen(file));
    }
    memcpy(call->file, coll->file_name, sizeof call->file);
}

static void fill_call(yk__request *request, yk__call *call)
{
    const yk__coll_desc *d = &request->desc;
    yk__comm *comm = request->comm;
    yk__coll *coll = comm->coll;
    call->comm = comm->id;
    call->generation = comm->generation;
    call->sequence = ++comm->sequence;
    call->is_common = comm->id == YK__COMM_WORLD || d->feeds;
    coll->order += comm->id < YK__COMM_OTHERS;
    coll->common += call->is_common;
    call->order = coll->order;
    call->common = coll->common;
    call->kind = (uint8_t)d->kind;
    call->dtype = (uint8_t)d->dtype;
    call->op = (uint8_t)d->op;
    call->root = d->buffer ? (uint32_t)(d->offset / PLACE) : d->root;
    call->rows = d->rows;
    call->count = d->count;
    call->use = comm->id == YK__COMM_WORLD ? (uint8_t)coll->use : YK__USE_NONE;
    call->no_rows = coll->no_rows && *coll->no_rows;
    note_place(coll, d, call);
}

void yk__call_begin(yk__request *request)
{
    yk__coll *coll = request->comm->coll;
    yk__call_info info;
    fill_call(request, &request->call);
    if (!coll->control)
        return;
    coll->passed = 0;
    info.call = request->call;
    info.excluded = !coll->comm->next->joined;
    info.begun[YK__COMM_WORLD] = coll->comm->sequence;
    info.begun[YK__COMM_MEMBERS] = coll->comm->next->sequence;
    info.shown = coll->shown;
    yk__control_publish(coll->control, &info, sizeof info);
}

void yk__coll_show(yk__coll *coll, float number)
{
    yk__call_info info;
    if (coll->shown == number)
        return;
    coll->shown = number;
    if (!coll->control || !yk__control_read(coll->control, coll->rank, &info, sizeof info))
        return;
    info.shown = number;
    yk__control_publish(coll->control, &info, sizeof info);
}

float yk__coll_shown(const yk__coll *coll, uint32_t rank)
{
    yk__call_info info;
    return coll->control && yk__control_read(coll->control, rank, &info, sizeof info) ? info.shown : 0;
}

bool yk__call_same(const yk__call *a, const yk__call *b)
{
    return a->comm == b->comm && a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
           a->rows == b->rows && a->count == b->count && a->use == b->use;
}

static void describe_call(const yk__coll *coll, uint32_t rank, const yk__call *c, char *text, size_t size)
{
    char file[sizeof c->file + 1] = "";
    memcpy(file, c->file, sizeof c->file);
    for (char *p = file; *p; p++)
        *p = *p >= ' ' && *p < 127 ? *p : '?';
    snprintf(text, size, "%.96s is in %s of %llu bytes", yk__control_name(coll->control, rank), yk__call_name(c),
             (unsigned long long)yk__call_bytes(c));
    if (c->kind == YK__COLL_BROADCAST)
        snprintf(text + strlen(text), size - strlen(text), " from rank %u", c->root);
    else if (c->root)
        snprintf(text + strlen(text), size - strlen(text), " at element %llu of a block", (unsigned long long)c->root * PLACE);
    if (use_name(c->use))
        snprintf(text + strlen(text), size - strlen(text), " of %s", use_name(c->use));
    if (c->no_rows)
        snprintf(text + strlen(text), size - strlen(text), ", with no rows of the step,");
    if (*file)
        snprintf(text + strlen(text), size - strlen(text), " called at %s:%d", file, (int)c->line);
}

yk_status yk__call_fail(const yk__coll *coll, const yk__call *own, uint32_t peer, const yk__call *theirs, yk_error *err)
{
    const char *rows = own->no_rows != theirs->no_rows ? ", with or without rows of the step" : "";
    char a[256], b[256];
    const bool first = coll->rank < peer;
    describe_call(coll, coll->rank, own, a, sizeof a);
    describe_call(coll, peer, theirs, b, sizeof b);
    return yk__fail(err, YK_E_INTERNAL, "the ranks' programs have diverged: %s while %s; every rank must make the same calls%s",
                    first ? a : b, first ? b : a, rows);
}

/* Place of the other rank's program against this one's: below 0 behind or not comparable, 0 at the same request, above 0 beyond it
 * without having begun it. */
static int32_t compare_place(const yk__coll *coll, const yk__call *own, const yk__call_info *theirs)
{
    const bool by_common = theirs->excluded || !coll->comm->next->joined;
    int32_t ahead = (int32_t)(theirs->call.order - own->order);
    if (own->comm == theirs->call.comm && own->generation == theirs->call.generation && !by_common)
        return theirs->call.sequence == own->sequence ? 0 : -1;
    if (own->comm >= YK__COMM_OTHERS || theirs->call.comm >= YK__COMM_OTHERS)
        return -1;
    if (by_common) {
        ahead = (int32_t)(theirs->call.common - own->common);
        if (ahead > 0 && own->comm == YK__COMM_WORLD && (int32_t)(theirs->begun[YK__COMM_WORLD] - own->sequence) >= 0)
            return -1; /* it has begun this request: its messages are on their way */
        if (ahead == 0 && theirs->call.is_common != own->is_common)
            return own->is_common ? 1 : -1;
        return ahead;
    }
    return ahead > 0 && (int32_t)(theirs->begun[own->comm] - own->sequence) >= 0 ? -1 : ahead;
}

/* True on an excluded rank that waits for a result as a message. A member beyond the request then proves nothing, as its message may be
 * on its way. */
static bool comes_as_message(const yk__coll *coll, const yk__call *own)
{
    return coll->plane && own->comm == YK__COMM_MEMBERS && !coll->comm->next->joined;
}

yk_status yk__call_look(yk__coll *coll, const yk__call *own, uint32_t peer, yk_error *err)
{
    yk__call_info theirs;
    int32_t ahead;
    if (peer >= coll->size || peer == coll->rank || !yk__control_read(coll->control, peer, &theirs, sizeof theirs))
        return YK_OK;
    ahead = compare_place(coll, own, &theirs);
    if (ahead == 0 && !yk__call_same(&theirs.call, own))
        return yk__call_fail(coll, own, peer, &theirs.call, err);
    if (ahead <= 0 || comes_as_message(coll, own))
        return YK_OK;
    /* The peer may have begun the request since the wait looked; the wait then ends before the next look. */
    coll->passed = coll->passed_peer == peer ? coll->passed : 0;
    coll->passed_peer = peer;
    return ++coll->passed < PASSED ? YK_OK : yk__call_fail(coll, own, peer, &theirs.call, err);
}
