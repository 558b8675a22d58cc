/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner's last pass, in the step thread. It cuts the planned graph at the joint actions of the ranks. These are at a complete bucket,
 * at every all_reduce, and before the first node that needs its result. Also before the first reader of parameters that the last update
 * still gathers or writes. A value that goes to the host has a cut where it leaves, and where it comes back (away.c). With YOKE_CUT=node
 * every node has a segment of its own, to find a fault.
 *
 * A segment is a small graph with a list of its slots; the ranks' work is a list of actions (plan.h; docs/decisions/0018). core/run/prog.c
 * compiles the segments, and core/run/list.c puts both in order.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/plan/plan_internal.h"

typedef struct cutting {
    yk__work *work;
    yk__plan *plan;
    yk__uses uses;
    uint32_t *first;    /* by root: node that first writes it */
    uint32_t *complete; /* by bucket: last node that writes it, or with a single rank the plan's last node; YK_NONE if absent. If the run
                           sums buckets, the node behind which that happens. */
    uint32_t n_complete; /* buckets that the plan's nodes complete: of gradients, or of the values that an update writes */
    uint32_t *reads;    /* by bucket: first node that reads its parameters, if an update may still gather them; YK_NONE if absent */
    uint32_t *reader;   /* by bucket: the segment of that node */
    uint32_t *segment_of; /* by node */
    size_t cap_segment, cap_action, cap_use;
    uint32_t reduce;     /* the running all_reduce, an action; YK_NONE if absent */
    uint32_t reduce_end; /* the node that needs its result first */
} cutting;

/* The bucket of the trained parameter in the slot, or of its copy in the compute format; YK_NONE if absent. */
static uint32_t bucket_of_slot(const yk__plan_request *r, const yk_slot *s)
{
    const uint32_t number = s->key & ~YK__KEY_COMPUTE;
    return s->kind == YK_SLOT_PARAM && number < r->n_param ? r->param[number].bucket : YK_NONE;
}

static void find_reads(cutting *state)
{
    const yk__graph *g = &state->work->g;
    for (uint32_t k = (uint32_t)g->n_node; k-- > 0 && state->work->request->gathers;)
        for (uint32_t i = 0; i < g->node[k].n_in; i++) {
            const yk__vid r = yk__root(g, yk__ins(g, &g->node[k])[i]);
            const uint32_t b = g->value[r].slot == YK_NONE ? YK_NONE : bucket_of_slot(state->work->request, &g->slot[g->value[r].slot]);
            if (b != YK_NONE)
                state->reads[b] = k;
        }
}

/* The bucket that a node completes if it is the last to write to this slot; YK_NONE if absent. */
static uint32_t completed_by(const cutting *state, uint32_t slot)
{
    const yk__plan_request *r = state->work->request;
    const yk_slot *s = slot == YK_NONE ? NULL : &state->work->g.slot[slot];
    const uint32_t b = slot - state->work->bucket_slot;
    if (r->n_updated)
        return s && s->kind == YK_SLOT_PARAM && (s->key & YK__KEY_BUCKET) ? s->key & ~YK__KEY_BUCKET : YK_NONE;
    return s && b < r->n_bucket && !r->scatters ? b : YK_NONE;
}

static void find_ends(cutting *state)
{
    const yk__graph *g = &state->work->g;
    for (uint32_t k = 0; k < g->n_node; k++)
        for (uint32_t i = 0; i < g->node[k].n_out; i++) {
            const yk__vid r = yk__root(g, yk__outs(g, &g->node[k])[i]);
            const uint32_t b = completed_by(state, g->value[r].slot);
            if (state->first[r] == YK_NONE)
                state->first[r] = k;
            if (b != YK_NONE)
                state->complete[b] = state->work->request->single_rank && !state->work->request->n_updated ? (uint32_t)g->n_node - 1 : k;
        }
}

/* Sets a value's flags for the segment [begin, end): made before it, read after it. */
static void set_flags(cutting *state, yk__graph *src, const yk__remap *remap, uint32_t begin, uint32_t end)
{
    const yk__graph *g = remap->src;
    for (yk__vid v = 0; v < g->n_value; v++) {
        const yk__vid r = yk__root(g, v);
        if (remap->map[v] == YK_NONE || g->value[r].slot == YK_NONE || g->slot[g->value[r].slot].kind != YK_SLOT_ARENA)
            continue;
        if (state->first[r] != YK_NONE && state->first[r] < begin)
            src->value[remap->map[v]].flags |= YK_VALUE_INPUT;
        if (state->uses.last[r] != YK_NONE && state->uses.last[r] >= end)
            src->value[remap->map[v]].flags |= YK_VALUE_OUTPUT;
    }
}

/* Marks an action's vector as read after its segment, so that the segment keeps it, as for a later segment. */
static void set_taken(const cutting *state, yk__graph *src, const yk__remap *remap, uint32_t begin, uint32_t end)
{
    const yk__graph *g = &state->work->g;
    for (uint32_t k = begin; k < end; k++) {
        const yk__vid r = g->node[k].op == YK_OP_ALL_REDUCE ? yk__root(g, yk__ins(g, &g->node[k])[0]) : YK_NONE;
        if (r != YK_NONE && remap->map[r] != YK_NONE)
            src->value[remap->map[r]].flags |= YK_VALUE_OUTPUT;
    }
}

static yk_status build_graph(cutting *state, yk__segment *seg, uint32_t begin, uint32_t end, yk_error *err)
{
    yk__graph *g = &state->work->g;
    yk__remap remap;
    if (yk__remap_copy(&remap, g, &seg->own, err))
        return err->status;
    if (!seg->own.n_slot) {
        yk__remap_drop(&remap);
        return yk__fail_mem(err, sizeof *seg->own.slot, "a plan");
    }
    seg->own.slot[0].bytes = g->slot[0].bytes;
    for (uint32_t k = begin; k < end; k++)
        if (g->node[k].op != YK_OP_ALL_REDUCE)
            yk__remap_node(&remap, k);
    set_flags(state, &seg->own, &remap, begin, end);
    set_taken(state, &seg->own, &remap, begin, end);
    yk__remap_drop(&remap);
    if (seg->own.error.status)
        *err = seg->own.error;
    return err->status ? err->status : yk__graph_seal(&seg->own, &seg->graph, err);
}

/* The next segment has these nodes. */
static void number_nodes(cutting *state, uint32_t begin, uint32_t end)
{
    for (uint32_t k = begin; k < end; k++)
        state->segment_of[k] = state->plan->n_segment;
}

static yk_status add_segment(cutting *state, uint32_t begin, uint32_t end, yk_error *err)
{
    yk__plan *plan = state->plan;
    yk__segment *seg;
    if (yk__grow(&plan->segment, &state->cap_segment, plan->n_segment + 1ull, sizeof *plan->segment))
        return yk__fail_mem(err, sizeof *plan->segment, "a plan");
    if (state->reduce != YK_NONE && begin >= state->reduce_end) {
        plan->action[state->reduce].needed_by = plan->n_segment;
        state->reduce = YK_NONE;
    }
    for (uint32_t b = 0; b < state->work->request->n_bucket; b++)
        if (state->reads[b] >= begin && state->reads[b] < end)
            state->reader[b] = plan->n_segment;
    number_nodes(state, begin, end);
    seg = &plan->segment[plan->n_segment++];
    memset(seg, 0, sizeof *seg);
    seg->first_after = plan->n_action;
    return build_graph(state, seg, begin, end, err);
}

/* ---- Actions ---- */

/* Adds an action that starts after the last segment. */
static yk_status add_action(cutting *state, yk__action a, yk_error *err)
{
    yk__plan *plan = state->plan;
    if (yk__grow(&plan->action, &state->cap_action, plan->n_action + 1ull, sizeof *plan->action))
        return yk__fail_mem(err, sizeof *plan->action, "a plan");
    a.start_after = plan->n_segment - 1;
    a.needed_by = YK_NONE;
    plan->action[plan->n_action++] = a;
    plan->segment[a.start_after].n_after++;
    return YK_OK;
}

/* True if node k adds the last contribution to a bucket. */
static bool completes_bucket(const cutting *state, uint32_t k)
{
    for (uint32_t b = 0; b < state->n_complete; b++)
        if (state->complete[b] == k)
            return true;
    return false;
}

/* The action that follows a complete bucket. */
static yk__action action_of_bucket(const cutting *state, uint32_t b)
{
    const yk__plan_request *request = state->work->request;
    yk__action a = {.kind = request->scatters ? YK__ACTION_SUM_BUCKET : YK__ACTION_REDUCE_SCATTER, .target = b};
    if (!request->n_updated) {
        a.count = request->bucket_bytes[b] / sizeof(float);
        return a;
    }
    a.kind = YK__ACTION_UPDATE;
    for (uint32_t i = 0; i < state->work->g.n_slot; i++)
        a.count += completed_by(state, i) == b ? state->work->g.slot[i].bytes / sizeof(float) : 0;
    return a;
}

static yk_status add_completed(cutting *state, uint32_t k, yk_error *err)
{
    for (uint32_t b = 0; b < state->n_complete; b++)
        if (state->complete[b] == k && add_action(state, action_of_bucket(state, b), err))
            return err->status;
    return YK_OK;
}

/* End of the nodes that follow the all_reduce k and do not touch its sum. A later node must read the sum, else these nodes may reuse its
 * memory. */
static uint32_t overlap_end(const cutting *state, uint32_t k)
{
    const yk__graph *g = &state->work->g;
    const yk__vid sum = yk__root(g, yk__outs(g, &g->node[k])[0]);
    for (uint32_t at = k + 1; at < g->n_node && state->uses.last[sum] != k; at++) {
        const yk_node *n = &g->node[at];
        if (n->op == YK_OP_ALL_REDUCE)
            return at;
        for (uint32_t i = 0; i < n->n_in; i++)
            if (yk__root(g, yk__ins(g, n)[i]) == sum)
                return at;
    }
    return k + 1;
}

static yk_status add_all_reduce(cutting *state, uint32_t k, yk_error *err)
{
    const yk__graph *g = &state->work->g;
    const yk_node *n = &g->node[k];
    const yk_value *x = &g->value[yk__ins(g, n)[0]];
    state->reduce = state->plan->n_action;
    state->reduce_end = overlap_end(state, k);
    return add_action(state, (yk__action){.kind = YK__ACTION_ALL_REDUCE, .op = (uint32_t)g->attr[n->attr], .target = x->slot,
                                          .offset = x->offset, .count = (uint64_t)yk__value_count(x)}, err);
}

/* Adds the copies of values that leave behind node k. */
static yk_status add_stores(cutting *state, uint32_t k, yk_error *err)
{
    const yk__plan *plan = state->plan;
    for (uint32_t i = 0; i < plan->n_away; i++)
        if (plan->away[i].after == k && add_action(state, (yk__action){.kind = YK__ACTION_STORE, .target = i,
                                                                       .count = plan->away[i].bytes / sizeof(float)}, err))
            return err->status;
    return YK_OK;
}

/* True if a value leaves behind node k, or comes back before the next one. */
static bool moves_value(const cutting *state, uint32_t k)
{
    for (uint32_t i = 0; i < state->plan->n_away; i++)
        if (state->plan->away[i].after == k || state->plan->away[i].before == k + 1)
            return true;
    return false;
}

/* True if node k is the first reader of a bucket of parameters that are gathered or pulled. */
static bool begins_bucket(const cutting *state, uint32_t k)
{
    for (uint32_t i = 0; i < state->plan->n_pull; i++)
        if (state->plan->pull[i].begin == k)
            return true;
    for (uint32_t b = 0; b < state->work->request->n_bucket && state->work->request->gathers; b++)
        if (state->reads[b] == k)
            return true;
    return false;
}

static yk_status cut_segments(cutting *state, yk_error *err)
{
    const yk__graph *g = &state->work->g;
    const uint32_t n_node = (uint32_t)g->n_node;
    uint32_t begin = 0;
    const bool each = yk__option_words(YK__OPTION_CUT) == 1; /* for debugging: one node per segment */
    for (uint32_t k = 0; k < n_node; k++) {
        const bool sum = g->node[k].op == YK_OP_ALL_REDUCE, completes = completes_bucket(state, k);
        if (!sum && !completes && !each && k + 1 < n_node && k + 1 != state->reduce_end && !begins_bucket(state, k + 1) &&
            !moves_value(state, k))
            continue;
        if (add_segment(state, begin, k + 1, err) || (sum && add_all_reduce(state, k, err)) || add_stores(state, k, err) ||
            (completes && add_completed(state, k, err)))
            return err->status;
        begin = k + 1;
    }
    return YK_OK;
}

/* Adds the gathers that the update before the plan started. */
static yk_status add_gathers(cutting *state, yk_error *err)
{
    const yk__plan_request *request = state->work->request;
    yk__plan *plan = state->plan;
    for (uint32_t b = 0; b < request->n_bucket; b++) {
        if (state->reads[b] == YK_NONE)
            continue;
        if (yk__grow(&plan->action, &state->cap_action, plan->n_action + 1ull, sizeof *plan->action))
            return yk__fail_mem(err, sizeof *plan->action, "a plan");
        plan->action[plan->n_action++] = (yk__action){.kind = YK__ACTION_ALL_GATHER,
                                                .target = b,
                                                .count = request->bucket_bytes[b] / sizeof(float),
                                                .start_after = YK_NONE,
                                                .needed_by = state->reader[b]};
    }
    return YK_OK;
}

/* Adds the pulls; from here on they have numbers of segments. A pull of a bucket that is gathered stands behind its gather. */
static yk_status add_pulls(cutting *state, yk_error *err)
{
    yk__plan *plan = state->plan;
    for (uint32_t i = 0; i < plan->n_pull; i++) {
        yk__pull *p = &plan->pull[i];
        p->begin = state->segment_of[p->begin], p->end = state->segment_of[p->end], p->start = state->segment_of[p->start];
        if (yk__grow(&plan->action, &state->cap_action, plan->n_action + 1ull, sizeof *plan->action))
            return yk__fail_mem(err, sizeof *plan->action, "a plan");
        plan->action[plan->n_action++] = (yk__action){.kind = YK__ACTION_PULL,
                                                      .target = i,
                                                      .count = state->work->request->bucket_bytes[p->bucket] / sizeof(float),
                                                      .start_after = YK_NONE,
                                                      .needed_by = p->start};
    }
    return YK_OK;
}

/* Adds the ways back; from here on values have numbers of segments. */
static yk_status add_loads(cutting *state, yk_error *err)
{
    yk__plan *plan = state->plan;
    if (yk__grow(&plan->action, &state->cap_action, plan->n_action + 1ull + plan->n_away, sizeof *plan->action))
        return yk__fail_mem(err, plan->n_away * sizeof *plan->action, "a plan");
    for (uint32_t i = 0; i < plan->n_away; i++) {
        yk__away *v = &plan->away[i];
        v->after = state->segment_of[v->after], v->before = state->segment_of[v->before];
        plan->action[plan->n_action++] = (yk__action){.kind = YK__ACTION_LOAD,
                                                      .target = i,
                                                      .count = v->bytes / sizeof(float),
                                                      .start_after = YK_NONE,
                                                      .needed_by = v->before};
    }
    return YK_OK;
}

/* Lists the actions by the segment that needs them; actions without such a segment stand at the end. */
static yk_status list_needs(cutting *state, yk_error *err)
{
    yk__plan *plan = state->plan;
    uint32_t n = 0;
    plan->before = yk__calloc(plan->n_action + 1ull, sizeof *plan->before);
    if (!plan->before)
        return yk__fail_mem(err, plan->n_action * sizeof *plan->before, "a plan");
    for (uint32_t i = 0; i < plan->n_action; i++)
        plan->action[i].needed_by = plan->action[i].needed_by == YK_NONE ? plan->n_segment : plan->action[i].needed_by;
    for (uint32_t s = 0; s <= plan->n_segment; s++) {
        const uint32_t first = n;
        for (uint32_t i = 0; i < plan->n_action; i++)
            if (plan->action[i].needed_by == s)
                plan->before[n++] = i;
        if (s == plan->n_segment) {
            plan->first_at_end = first;
            break;
        }
        plan->segment[s].first_before = first;
        plan->segment[s].n_before = n - first;
    }
    return YK_OK;
}

/* ---- Slots ---- */

static yk_status mark_values(const yk__graph *g, const yk__vid *v, uint32_t n, bool *mark, yk_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (g->value[v[i]].slot == YK_NONE)
            return yk__fail(err, YK_E_INTERNAL, "value %u of a segment has no memory, as no node writes it", v[i]);
        mark[g->value[v[i]].slot] = true;
    }
    return YK_OK;
}

/* Marks the segment's slots; an all_reduce that starts after the segment runs in its memory. */
static yk_status mark_slots(const yk__plan *plan, const yk__segment *s, bool *mark, yk_error *err)
{
    const yk__graph *g = &s->own;
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *n = &g->node[k];
        if (mark_values(g, yk__ins(g, n), n->n_in, mark, err) || mark_values(g, yk__outs(g, n), n->n_out, mark, err))
            return err->status;
    }
    for (uint32_t i = 0; i < s->n_after; i++)
        if (plan->action[s->first_after + i].kind == YK__ACTION_ALL_REDUCE)
            mark[plan->action[s->first_after + i].target] = true;
    return YK_OK;
}

static yk_status add_uses(cutting *state, yk__segment *s, const bool *mark, yk_error *err)
{
    yk__plan *plan = state->plan;
    s->first_use = plan->n_use;
    for (uint32_t i = 0; i < state->work->g.n_slot; i++) {
        if (!mark[i])
            continue;
        if (yk__grow(&plan->use, &state->cap_use, plan->n_use + 1ull, sizeof *plan->use))
            return yk__fail_mem(err, sizeof *plan->use, "a plan");
        plan->use[plan->n_use++] = i;
        s->n_use++;
    }
    return YK_OK;
}

static yk_status list_uses(cutting *state, yk_error *err)
{
    const size_t n_slot = state->work->g.n_slot;
    bool *mark = yk__malloc(n_slot);
    if (!mark)
        return yk__fail_mem(err, n_slot, "a plan");
    for (uint32_t i = 0; i < state->plan->n_segment && !err->status; i++) {
        memset(mark, 0, n_slot);
        if (!mark_slots(state->plan, &state->plan->segment[i], mark, err))
            add_uses(state, &state->plan->segment[i], mark, err);
    }
    yk__free(mark);
    return err->status;
}

yk_status yk__plan_cut(yk__work *work, yk_error *err)
{
    const size_t nv = work->g.n_value + 1, nb = work->request->n_bucket + work->request->n_updated + 1ull;
    cutting state = {.work = work, .plan = work->plan, .reduce = YK_NONE, .n_complete = (uint32_t)nb - 1};
    state.first = yk__malloc(nv * sizeof *state.first);
    state.complete = yk__malloc(3 * nb * sizeof *state.complete);
    state.segment_of = yk__calloc(work->g.n_node + 1, sizeof *state.segment_of);
    if (!state.first || !state.complete || !state.segment_of)
        yk__fail_mem(err, nv * 4, "a plan");
    if (!err->status && !yk__uses_new(work, &state.uses, err)) {
        state.reads = state.complete + nb;
        state.reader = state.reads + nb;
        memset(state.first, 0xff, nv * sizeof *state.first);
        memset(state.complete, 0xff, 3 * nb * sizeof *state.complete);
        yk__plan_away_lives(work, 1, &state.uses, state.first);
        find_ends(&state);
        find_reads(&state);
        if (work->request->scatters)
            yk__plan_lanes(work, state.complete, err);
        if (!err->status && !yk__plan_pulls(work, err) && !cut_segments(&state, err) && !add_gathers(&state, err) &&
            !add_pulls(&state, err) && !add_loads(&state, err) && !list_needs(&state, err))
            list_uses(&state, err);
    }
    yk__uses_free(&state.uses);
    yk__free(state.segment_of);
    yk__free(state.complete);
    yk__free(state.first);
    return err->status;
}
