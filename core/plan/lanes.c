/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: the memory of gradients that are summed in the run itself. A bucket needs memory from the first node that writes it until its turn
 * to be summed; buckets whose times do not cross take turns in a lane. Buckets are summed in the order of their numbers, on all ranks, and
 * behind all sums of vectors. So requests have one order on ranks whose devices order and fuse nodes differently.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/plan/plan_internal.h"

typedef struct lane_state {
    const yk__work *work;
    yk__plan *plan;
    uint32_t *first, *turn; /* by bucket: the first node that touches it, YK_NONE if none does; the node behind which it is summed */
    uint32_t *busy;         /* by lane: the last node of its last bucket */
} lane_state;

/* The bucket of a value's root; YK_NONE if the value is no gradient in a bucket. */
static uint32_t bucket_of(const lane_state *state, yk__vid v)
{
    const yk__graph *g = &state->work->g;
    const uint32_t slot = g->value[yk__root(g, v)].slot, b = slot - state->work->bucket_slot;
    return slot != YK_NONE && b < state->work->request->n_bucket ? b : YK_NONE;
}

static void touch_bucket(lane_state *state, yk__vid v, uint32_t node)
{
    const uint32_t b = bucket_of(state, v);
    if (b == YK_NONE)
        return;
    state->first[b] = state->first[b] == YK_NONE ? node : state->first[b];
    state->turn[b] = node;
}

/* Sets first, and turn to the last node that touches the bucket. *behind: the last sum of a vector; 0 without one. */
static void find_times(lane_state *state, uint32_t *behind)
{
    const yk__graph *g = &state->work->g;
    *behind = 0;
    for (uint32_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        *behind = n->op == YK_OP_ALL_REDUCE ? k : *behind;
        for (uint32_t i = 0; i < n->n_in; i++)
            touch_bucket(state, yk__ins(g, n)[i], k);
        for (uint32_t i = 0; i < n->n_out; i++)
            touch_bucket(state, yk__outs(g, n)[i], k);
    }
}

/* Takes the free lane that needs least growth, else a new one. */
static void choose_lane(lane_state *state, uint32_t b)
{
    yk__plan *plan = state->plan;
    const uint64_t bytes = state->work->request->bucket_bytes[b];
    uint32_t best = plan->n_lane;
    for (uint32_t i = 0; i < plan->n_lane; i++) {
        const uint64_t grows = bytes > plan->lane_bytes[i] ? bytes - plan->lane_bytes[i] : 0;
        if (state->busy[i] < state->first[b] &&
            (best == plan->n_lane || grows < (bytes > plan->lane_bytes[best] ? bytes - plan->lane_bytes[best] : 0)))
            best = i;
    }
    if (best == plan->n_lane)
        plan->lane_bytes[plan->n_lane++] = 0;
    plan->lane[b] = best;
    plan->lane_bytes[best] = bytes > plan->lane_bytes[best] ? bytes : plan->lane_bytes[best];
    state->busy[best] = state->turn[b];
}

/* Buckets get lanes in the order of their first nodes. */
static void choose_lanes(lane_state *state)
{
    const uint32_t n = state->work->request->n_bucket;
    for (;;) {
        uint32_t next = YK_NONE;
        for (uint32_t b = 0; b < n; b++)
            if (state->plan->lane[b] == YK_NONE && state->first[b] != YK_NONE && (next == YK_NONE || state->first[b] < state->first[next]))
                next = b;
        if (next == YK_NONE)
            return;
        choose_lane(state, next);
    }
}

yk_status yk__plan_lanes(yk__work *work, uint32_t *turn, yk_error *err)
{
    const uint32_t n = work->request->n_bucket;
    yk__plan *plan = work->plan;
    lane_state state = {.work = work, .plan = plan, .turn = turn};
    uint32_t behind;
    state.first = yk__malloc((n + 1ull) * sizeof *state.first);
    state.busy = yk__calloc(n + 1ull, sizeof *state.busy);
    plan->lane = yk__malloc((n + 1ull) * sizeof *plan->lane);
    plan->lane_bytes = yk__calloc(n + 1ull, sizeof *plan->lane_bytes);
    if (!state.first || !state.busy || !plan->lane || !plan->lane_bytes) {
        yk__fail_mem(err, n * sizeof *plan->lane_bytes, "a plan");
    } else {
        memset(state.first, 0xff, (n + 1ull) * sizeof *state.first);
        memset(plan->lane, 0xff, (n + 1ull) * sizeof *plan->lane);
        find_times(&state, &behind);
        for (uint32_t b = 0; b < n; b++) {
            behind = state.first[b] != YK_NONE && turn[b] > behind ? turn[b] : behind;
            turn[b] = behind;
        }
        choose_lanes(&state);
    }
    yk__free(state.first);
    yk__free(state.busy);
    return err->status;
}
