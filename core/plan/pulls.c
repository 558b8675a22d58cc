/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls: the times in which a bucket of parameters, which lie in slices or on the host, is whole on the device. It is then in a lane,
 * device memory in which buckets take turns. segment.c asks for them in the planner's last pass, in the step thread. autocast.c and
 * recompute.c ask earlier if a value is pulled. core/run/actions.c does the copies. A pull brings the bucket before the first of some nodes
 * that read it, and its lane is free behind the last of them.
 *
 * A bucket leaves its lane where the program reads at least APART other buckets before it reads it again. So forward and backward have
 * pulls of their own, but for the last buckets of forward. A tied table is away between the look-up and the head (docs/decisions/0075).
 */
#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

#define APART 2u

typedef struct pulling {
    const yk__work *work;
    yk__stay *stay;
    uint32_t n;
    size_t cap;
    uint32_t *open;  /* by bucket: its last stay + 1; 0 for none */
    uint32_t *other; /* by bucket: the other buckets read since */
    uint32_t *since; /* [bucket * n_pulled + other]: 1 if it was counted */
} pulling;

uint32_t yk__plan_pulled(const yk__plan_request *request, const yk_slot *s)
{
    const uint32_t bucket = s->kind == YK_SLOT_PARAM && s->key < request->n_param ? request->param[s->key].values : YK_NONE;
    return bucket != YK_NONE && request->pulls && request->pulls[bucket] ? bucket : YK_NONE;
}

static void count_other(pulling *state, uint32_t bucket)
{
    const uint32_t n = state->work->request->n_pulled;
    for (uint32_t b = 0; b < n; b++) {
        uint32_t *counted = &state->since[b * (size_t)n + bucket];
        state->other[b] += b != bucket && !*counted;
        *counted = 1;
    }
    for (uint32_t b = 0; b < n; b++)
        state->since[bucket * (size_t)n + b] = 0;
    state->other[bucket] = 0;
}

/* Node k reads the bucket. */
static yk_status read_bucket(pulling *state, uint32_t bucket, uint32_t k, yk_error *err)
{
    const yk__plan_request *request = state->work->request;
    const uint32_t last = state->open[bucket];
    if (last && (request->pulls_stay || state->other[bucket] < APART)) {
        state->stay[last - 1].end = k;
    } else {
        if (yk__grow(&state->stay, &state->cap, state->n + 1ull, sizeof *state->stay))
            return yk__fail_mem(err, sizeof *state->stay, "a plan");
        state->stay[state->n++] = (yk__stay){.bucket = bucket, .begin = k, .end = k, .lane = YK_NONE};
        state->open[bucket] = state->n;
    }
    count_other(state, bucket);
    return YK_OK;
}

static yk_status find_stays(pulling *state, yk_error *err)
{
    const yk__graph *g = &state->work->g;
    for (uint32_t k = 0; k < g->n_node; k++)
        for (uint32_t i = 0; i < g->node[k].n_in; i++) {
            const uint32_t slot = g->value[yk__root(g, yk__ins(g, &g->node[k])[i])].slot;
            const uint32_t bucket = slot == YK_NONE ? YK_NONE : yk__plan_pulled(state->work->request, &g->slot[slot]);
            if (bucket != YK_NONE && read_bucket(state, bucket, k, err))
                return err->status;
        }
    return YK_OK;
}

/* A stay takes its lane when the pull starts: at the first node of the pull `ahead` places before it. */
static void begin_ahead(pulling *state, uint32_t ahead)
{
    for (uint32_t i = state->n; i-- > 0;)
        state->stay[i].begin = state->stay[i > ahead ? i - ahead : 0].begin;
}

static yk_status make_pulls(pulling *state, yk__plan *plan, yk_error *err)
{
    plan->pull = yk__calloc(state->n + 1ull, sizeof *plan->pull);
    if (!plan->pull)
        return yk__fail_mem(err, state->n * sizeof *plan->pull, "a plan");
    for (uint32_t i = 0; i < state->n; i++)
        plan->pull[i] = (yk__pull){.bucket = state->stay[i].bucket, .begin = state->stay[i].begin, .end = state->stay[i].end};
    begin_ahead(state, state->work->request->pulls_ahead);
    if (yk__plan_lay_lanes(state->work->request, state->stay, state->n, &plan->pull_lanes, err))
        return err->status;
    for (uint32_t i = 0; i < state->n; i++) {
        plan->pull[i].lane = state->stay[i].lane;
        plan->pull[i].start = state->stay[i].begin;
    }
    plan->n_pull = state->n;
    return YK_OK;
}

yk_status yk__plan_pulls(yk__work *work, yk_error *err)
{
    const uint32_t n = work->request->n_pulled;
    pulling state = {.work = work};
    if (!work->request->pulls)
        return YK_OK;
    state.open = yk__calloc(2 * n + 1ull, sizeof *state.open);
    state.since = yk__calloc((size_t)n * n + 1, sizeof *state.since);
    state.other = state.open ? state.open + n : NULL;
    if (!state.open || !state.since)
        yk__fail_mem(err, (size_t)n * n * sizeof *state.since, "a plan");
    else if (!find_stays(&state, err))
        make_pulls(&state, work->plan, err);
    yk__free(state.stay);
    yk__free(state.since);
    yk__free(state.open);
    return err->status;
}

uint32_t yk__plan_pull_lane(const yk__plan *plan, uint32_t segment, uint32_t bucket)
{
    for (uint32_t i = 0; i < plan->n_pull; i++)
        if (plan->pull[i].bucket == bucket && plan->pull[i].begin <= segment && segment <= plan->pull[i].end)
            return plan->pull[i].lane;
    return YK_NONE;
}
