/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: ranges of device memory in which buckets take turns, as their times do not cross. pulls.c and segment.c lay lanes out in the
 * planner's last pass, in the step thread. A bucket is a flat array of gradients or parameters that ranks exchange together.
 *
 * A bucket of gradients that the run sums needs memory from the first node that writes it until its turn to be summed. Buckets are summed
 * in the order of their numbers, on all ranks, and behind all sums of vectors. So requests have one order on ranks whose devices order and
 * fuse nodes differently.
 */
#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

/* ---- Lanes ---- */

static bool stays_cross(const yk__stay *a, const yk__stay *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

/* The first lane that holds no bucket of the list at this time; n if each does. */
static uint32_t free_lane(const yk__stay *list, uint32_t n_stay, const yk__stay *stay, uint32_t n)
{
    for (uint32_t lane = 0; lane < n; lane++) {
        uint32_t i = 0;
        while (i < n_stay && (list[i].lane != lane || !stays_cross(&list[i], stay)))
            i++;
        if (i == n_stay)
            return lane;
    }
    return n;
}

/* The stay without a lane that needs most bytes, the first of several; NULL if there is none. */
static yk__stay *next_stay(const yk__plan_request *request, yk__stay *list, uint32_t n)
{
    yk__stay *next = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].lane == YK_NONE && list[i].begin != YK_NONE &&
            (!next || request->bucket_bytes[list[i].bucket] > request->bucket_bytes[next->bucket]))
            next = &list[i];
    return next;
}

/* From large to small: a table gets a lane of its size, and smaller buckets take turns there while it is away. */
yk_status yk__plan_lay_lanes(const yk__plan_request *request, yk__stay *list, uint32_t n, yk__lanes *lanes, yk_error *err)
{
    lanes->bytes = yk__calloc(n + 1ull, sizeof *lanes->bytes);
    if (!lanes->bytes)
        return yk__fail_mem(err, n * sizeof *lanes->bytes, "a plan");
    for (yk__stay *s; (s = next_stay(request, list, n));) {
        const uint32_t lane = free_lane(list, n, s, lanes->n);
        if (lane == lanes->n)
            lanes->bytes[lanes->n++] = request->bucket_bytes[s->bucket];
        s->lane = lane;
    }
    return YK_OK;
}

/* ---- Gradients ---- */

/* The bucket of a value's root; YK_NONE if the value is no gradient in a bucket. */
static uint32_t bucket_of(const yk__work *work, yk__vid v)
{
    const yk__graph *g = &work->g;
    const uint32_t slot = g->value[yk__root(g, v)].slot, b = slot - work->bucket_slot;
    return slot != YK_NONE && b < work->request->n_bucket ? b : YK_NONE;
}

static void touch_bucket(const yk__work *work, yk__stay *list, yk__vid v, uint32_t node)
{
    const uint32_t b = bucket_of(work, v);
    if (b == YK_NONE)
        return;
    list[b].begin = list[b].begin == YK_NONE ? node : list[b].begin;
    list[b].end = node;
}

/* Sets begin and end to the first and last node that touch the bucket. Returns the last sum of a vector; 0 without one. */
static uint32_t find_times(const yk__work *work, yk__stay *list)
{
    const yk__graph *g = &work->g;
    uint32_t behind = 0;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        behind = n->op == YK_OP_ALL_REDUCE ? k : behind;
        for (uint32_t i = 0; i < n->n_in; i++)
            touch_bucket(work, list, yk__ins(g, n)[i], k);
        for (uint32_t i = 0; i < n->n_out; i++)
            touch_bucket(work, list, yk__outs(g, n)[i], k);
    }
    return behind;
}

yk_status yk__plan_lanes(yk__work *work, uint32_t *turn, yk_error *err)
{
    const uint32_t n = work->request->n_bucket;
    yk__plan *plan = work->plan;
    yk__stay *list = yk__malloc((n + 1ull) * sizeof *list);
    plan->lane = yk__malloc((n + 1ull) * sizeof *plan->lane);
    if (!list || !plan->lane) {
        yk__free(list);
        return yk__fail_mem(err, n * sizeof *list, "a plan");
    }
    for (uint32_t b = 0; b < n; b++)
        list[b] = (yk__stay){.bucket = b, .begin = YK_NONE, .lane = YK_NONE};
    uint32_t behind = find_times(work, list);
    for (uint32_t b = 0; b < n; b++) {
        behind = list[b].begin != YK_NONE && list[b].end > behind ? list[b].end : behind;
        turn[b] = list[b].end = behind;
    }
    yk__plan_lay_lanes(work->request, list, n, &plan->grad_lanes, err);
    for (uint32_t b = 0; b < n; b++)
        plan->lane[b] = list[b].lane;
    yk__free(list);
    return err->status;
}
