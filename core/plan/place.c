/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places values that leave the program: gradients in their buckets, results in the result slot, assigned values in their states. The node
 * that makes a value writes there directly, or adds there, if that is legal. Otherwise a copy or a sum follows that node. A state's copy
 * follows all nodes, as later nodes may read the old value. An all_reduce takes its sum in the memory of its operand if no other node needs
 * the operand. Else a copy precedes the sum.
 *
 * passes.c runs this pass once in each plan, behind the pass "slots", in the step thread.
 */
#include "core/plan/plan_internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

typedef enum place_kind { PLACE_GRAD, PLACE_RESULT, PLACE_STATE } place_kind;

typedef struct place {
    uint32_t node; /* the node it follows; YK_NONE: at the end */
    uint32_t kind, i, order;
} place;

typedef struct placing {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;       /* uses in the old graph */
    bool *placed;        /* roots of the old graph that have a place */
    bool *written;       /* by parameter: its part of the bucket holds a contribution */
    uint32_t *slot_read; /* by slot: last node that reads it; YK_NONE if none does, YK_NONE - 1 for a read at the end */
    yk__vid *old;        /* by assignment: in the new graph, the copy of a state's old value that it takes; YK_NONE if none is needed */
} placing;

static int by_node(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* True if the value can be placed: one node, no all_reduce, makes all of it in this type, and it has no place yet. */
static bool is_movable(const placing *state, yk__vid v, yk_dtype dtype)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v);
    if (state->uses.producer[r] == YK_NONE || src->node[state->uses.producer[r]].op == YK_OP_ALL_REDUCE)
        return false;
    return src->value[r].dtype == dtype && src->value[r].slot == YK_NONE && state->uses.writers[r] == 1 && !state->placed[r] &&
           yk__whole(src, v);
}

/* Gives the root of v a place; the root is in the new graph or will be made. */
static void put_at(placing *state, yk__vid v, uint32_t slot, uint64_t offset)
{
    const yk__vid r = yk__root(state->remap.src, v);
    const yk__vid to = yk__remap_value(&state->remap, r);
    state->placed[r] = true;
    if (to == YK_NONE)
        return;
    for (size_t i = to; i < state->g.n_value; i++) /* views that exist already */
        if (state->g.value[i].base == to) {
            state->g.value[i].slot = slot;
            state->g.value[i].offset += offset;
            state->g.value[i].flags |= YK_VALUE_OUTPUT;
        }
}

static yk__vid slot_value(placing *state, yk_dtype dtype, const yk_value *like, uint32_t slot, uint64_t offset, uint32_t flags)
{
    yk__vid v = yk__value_new(&state->g, dtype, like->dims, like->dim);
    if (v == YK_NONE)
        return v;
    state->g.value[v].slot = slot;
    state->g.value[v].offset = offset;
    state->g.value[v].flags = (uint16_t)flags;
    return v;
}

/* Copies x, v in the new graph or a copy of it, into a slot, widened or narrowed to dtype. */
static void copy_value(placing *state, yk__vid x, yk__vid v, yk_dtype dtype, uint32_t slot, uint64_t offset)
{
    yk__vid out;
    if (x == YK_NONE)
        return;
    if (state->g.value[x].dtype != dtype && !yk__value_is_broadcast(&state->g.value[x]))
        x = yk__dense(&state->g, x);
    if (x == YK_NONE)
        return;
    out = slot_value(state, dtype, &state->remap.src->value[v], slot, offset, YK_VALUE_OUTPUT);
    if (out != YK_NONE)
        yk__node_new(&state->g, state->g.value[x].dtype == dtype ? YK_OP_COPY : YK_OP_CAST, 0, 1, &x, 1, &out, 0, NULL);
}

/* Copies v (of the old graph) into a slot, widened or narrowed to dtype. */
static void copy_to(placing *state, yk__vid v, yk_dtype dtype, uint32_t slot, uint64_t offset)
{
    copy_value(state, yk__remap_value(&state->remap, v), v, dtype, slot, offset);
}

/* bucket += v */
static void add_to(placing *state, yk__vid v, uint32_t slot, uint64_t offset)
{
    yk__vid x = yk__remap_value(&state->remap, v), in[2], out;
    if (x != YK_NONE && !yk__value_is_broadcast(&state->g.value[x]))
        x = yk__dense(&state->g, x);
    if (x != YK_NONE && state->g.value[x].dtype != YK_F32)
        x = yk__cast(&state->g, x, YK_F32);
    if (x == YK_NONE)
        return;
    in[0] = slot_value(state, YK_F32, &state->remap.src->value[v], slot, offset, YK_VALUE_INPUT);
    in[1] = x;
    out = slot_value(state, YK_F32, &state->remap.src->value[v], slot, offset, YK_VALUE_OUTPUT);
    if (in[0] != YK_NONE && out != YK_NONE)
        yk__node_new(&state->g, YK_OP_ADD, 0, 2, in, 1, &out, 0, NULL);
}

/* True if the node that makes v can add to memory: products into f32 always, other nodes if the device claims it. */
static bool can_add(placing *state, yk__vid v)
{
    const yk__graph *src = state->remap.src;
    const yk__vid r = yk__root(src, v);
    const yk_node *n = &src->node[state->uses.producer[r]];
    if (state->uses.readers[r] || state->uses.kept[r] != 1 || n->n_out != 1)
        return false;
    if (n->op == YK_OP_DOT)
        return true;
    if (yk__info_of(&state->remap, n)->claims)
        return yk__info_of(&state->remap, n)->claims & YK_CLAIM_ACCUMULATE;
    return yk__plan_ask(state->work->request, src, n, src->body + n->body) & YK_CLAIM_ACCUMULATE;
}

static void zero_grad(placing *state, uint32_t param, uint32_t slot, uint64_t offset)
{
    const int64_t zero = yk_attr_of_f64(0.0);
    const yk_value flat = {.dims = 1, .dim = {state->work->request->param[param].n}};
    yk__vid out = slot_value(state, YK_F32, &flat, slot, offset, YK_VALUE_OUTPUT);
    if (out != YK_NONE)
        yk__node_new(&state->g, YK_OP_FILL, 0, 0, NULL, 1, &out, 1, &zero);
}

/* True if another part of the parameter's gradient is added to the bucket while a node still has to read this part, or by
 * the node that reads it. */
static bool is_read_later(const placing *state, uint32_t i)
{
    const yk__work *work = state->work;
    const yk__vid r = yk__root(state->remap.src, work->grad[i]);
    if (!state->uses.readers[r])
        return false;
    for (uint32_t j = 0; j < work->n_grad; j++) {
        if (j == i || work->grad_param[j] != work->grad_param[i] || work->grad[j] == YK_NONE)
            continue;
        const uint32_t made = state->uses.producer[yk__root(state->remap.src, work->grad[j])];
        if (made == YK_NONE || made <= state->uses.last[r])
            return true;
    }
    return false;
}

static void place_grad(placing *state, uint32_t i)
{
    const yk__work *work = state->work;
    const uint32_t param = work->grad_param[i];
    const yk__plan_param *to = &work->request->param[param];
    const uint32_t slot = work->bucket_slot + to->bucket;
    const yk__vid v = work->grad[i];
    const bool add = work->request->accumulate || state->written[param];
    const bool move = v != YK_NONE && is_movable(state, v, YK_F32) && !is_read_later(state, i);
    state->written[param] = true;
    if (work->plan->written)
        work->plan->written[param] |= v != YK_NONE;
    if (v == YK_NONE) {
        if (!add && !work->request->scatters) /* else the host clears the parameter's part */
            zero_grad(state, param, slot, to->grad_offset);
    } else if (add && !(move && can_add(state, v))) {
        add_to(state, v, slot, to->grad_offset);
    } else if (move) {
        put_at(state, v, slot, to->grad_offset);
        if (add && !state->g.error.status)
            state->g.node[state->g.n_node - 1].flags |= YK_NODE_ACCUMULATE;
    } else {
        copy_to(state, v, YK_F32, slot, to->grad_offset);
    }
}

static yk_dtype result_dtype(uint32_t dtype)
{
    return dtype == YK_BF16 || dtype == YK_F16 ? YK_F32 : (yk_dtype)dtype;
}

static void place_result(placing *state, uint32_t i)
{
    const yk__vid v = state->work->result[i];
    const yk_dtype dtype = result_dtype(state->remap.src->value[v].dtype);
    if (!yk__value_count(&state->remap.src->value[v]))
        return;
    if (is_movable(state, v, dtype))
        put_at(state, v, state->work->result_slot, state->work->result_offset[i]);
    else
        copy_to(state, v, dtype, state->work->result_slot, state->work->result_offset[i]);
}

static bool is_elementwise(const yk_node *n)
{
    return n->op == YK_OP_MAP || yk__op_is_map(n->op);
}

/* True if a state's new value is, or is a view of, the old value of a state that gets another one in this step. */
static bool is_old_state(const placing *state, uint32_t i)
{
    const yk__work *work = state->work;
    const uint32_t slot = state->remap.src->value[work->assign[i]].slot;
    bool assigned = false;
    for (uint32_t j = 0; j < work->request->n_assign && slot != YK_NONE; j++)
        assigned = assigned || work->assign_slot[j] == slot;
    return assigned;
}

/* Copies old values of states aside, before the first state gets its new one. */
static void keep_old_states(placing *state)
{
    for (uint32_t i = 0; i < state->work->request->n_assign; i++) {
        const yk__vid v = state->work->assign[i];
        const yk_value *old = &state->remap.src->value[v];
        yk__vid x = is_old_state(state, i) ? yk__remap_value(&state->remap, v) : YK_NONE;
        if (x == YK_NONE)
            continue;
        state->old[i] = yk__value_new(&state->g, (yk_dtype)old->dtype, old->dims, old->dim);
        if (state->old[i] != YK_NONE)
            yk__node_new(&state->g, YK_OP_COPY, 0, 1, &x, 1, &state->old[i], 0, NULL);
    }
}

static void place_state(placing *state, uint32_t i)
{
    const yk__work *work = state->work;
    const yk__vid v = work->assign[i], x = state->old[i] == YK_NONE ? yk__remap_value(&state->remap, v) : state->old[i];
    copy_value(state, x, v, (yk_dtype)state->remap.src->value[v].dtype, work->assign_slot[i], 0);
}

/* True if the node reads no shifted or broadcast part of the state: its output would overwrite elements that it has yet to read. */
static bool reads_state_whole(const placing *state, const yk_node *n, uint32_t slot)
{
    const yk__graph *src = state->remap.src;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const yk__vid v = yk__ins(src, n)[i];
        if (src->value[yk__root(src, v)].slot == slot && !yk__whole(src, v))
            return false;
    }
    return true;
}

/* True if the node that makes a state's new value may write the state: no later node reads the old value. */
static bool state_direct(const placing *state, uint32_t i)
{
    const yk__vid v = state->work->assign[i], r = yk__root(state->remap.src, v);
    const uint32_t slot = state->work->assign_slot[i], read = state->slot_read[slot], made = state->uses.producer[r];
    const yk_node *maker = &state->remap.src->node[made];
    if (!is_movable(state, v, (yk_dtype)state->remap.src->value[v].dtype))
        return false;
    return read == YK_NONE || read < made || (read == made && is_elementwise(maker) && reads_state_whole(state, maker, slot));
}

static void do_place(placing *state, const place *a)
{
    if (a->kind == PLACE_GRAD)
        place_grad(state, a->i);
    else if (a->kind == PLACE_RESULT)
        place_result(state, a->i);
    else if (a->node != YK_NONE && state_direct(state, a->i))
        put_at(state, state->work->assign[a->i], state->work->assign_slot[a->i], 0);
    else
        place_state(state, a->i);
}

/* True if the sum may be taken in the operand's own memory, as no other node needs the operand. Else a copy precedes the sum. */
static bool own_memory(const placing *state, yk__vid x, uint32_t node)
{
    const yk__vid r = yk__root(state->remap.src, x);
    return state->uses.writers[r] && state->uses.last[r] == node && !state->uses.kept[r] && state->remap.src->value[r].slot == YK_NONE &&
           yk__whole(state->remap.src, x);
}

static void emit_node(placing *state, uint32_t k)
{
    const yk_node *n = &state->remap.src->node[k];
    const yk__vid x = n->n_in ? yk__ins(state->remap.src, n)[0] : YK_NONE;
    const uint32_t at = yk__remap_node(&state->remap, k);
    yk__vid in, copy;
    if (n->op != YK_OP_ALL_REDUCE || own_memory(state, x, k) || at == YK_NONE)
        return;
    in = state->g.index[state->g.node[at].in];
    copy = yk__value_new(&state->g, (yk_dtype)state->g.value[in].dtype, state->g.value[in].dims, state->g.value[in].dim);
    if (copy == YK_NONE)
        return;
    state->g.index[state->g.node[at].in] = copy;
    if (yk__node_new(&state->g, YK_OP_COPY, 0, 1, &in, 1, &copy, 0, NULL) != YK_NONE)
        yk__remap_move_last(&state->remap, at); /* the copy precedes it */
}

static uint32_t list_places(const placing *state, place *list)
{
    const yk__work *work = state->work;
    const yk__graph *src = state->remap.src;
    uint32_t n = 0;
    for (uint32_t i = 0; i < work->n_grad; i++, n++)
        list[n] = (place){work->grad[i] == YK_NONE ? YK_NONE : state->uses.producer[yk__root(src, work->grad[i])], PLACE_GRAD, i, n};
    for (uint32_t i = 0; i < work->request->n_result; i++, n++)
        list[n] = (place){state->uses.producer[yk__root(src, work->result[i])], PLACE_RESULT, i, n};
    for (uint32_t i = 0; i < work->request->n_assign; i++, n++)
        list[n] = (place){state_direct(state, i) ? state->uses.producer[yk__root(src, work->assign[i])] : YK_NONE, PLACE_STATE, i, n};
    qsort(list, n, sizeof *list, by_node);
    return n;
}

static void find_reads(placing *state)
{
    const yk__graph *src = state->remap.src;
    for (size_t i = 0; i < src->n_slot; i++)
        state->slot_read[i] = YK_NONE;
    for (uint32_t k = 0; k < src->n_node; k++)
        for (uint32_t i = 0; i < src->node[k].n_in; i++) {
            const uint32_t slot = src->value[yk__ins(src, &src->node[k])[i]].slot;
            if (slot != YK_NONE)
                state->slot_read[slot] = k;
        }
    for (uint32_t i = 0; i < state->work->request->n_result + state->work->request->n_assign; i++) {
        const bool is_result = i < state->work->request->n_result;
        const yk__vid v = is_result ? state->work->result[i] : state->work->assign[i - state->work->request->n_result];
        if (src->value[v].slot != YK_NONE) /* a state that is a result, or another state's new value, is read at the end */
            state->slot_read[src->value[v].slot] = YK_NONE - 1;
    }
}

static void place_all(placing *state, place *list)
{
    const uint32_t n = list_places(state, list);
    uint32_t at = 0;
    for (uint32_t k = 0; k < state->remap.src->n_node; k++) {
        emit_node(state, k);
        for (; at < n && list[at].node == k; at++)
            do_place(state, &list[at]);
    }
    keep_old_states(state);
    for (; at < n; at++)
        do_place(state, &list[at]);
}

static void free_placing(placing *state)
{
    yk__free(state->placed);
    yk__free(state->written);
    yk__free(state->slot_read);
    yk__free(state->old);
    yk__uses_free(&state->uses);
}

yk_status yk__plan_place(yk__work *work, yk_error *err)
{
    placing state = {.work = work};
    place *list = yk__malloc((work->n_grad + work->request->n_result + work->request->n_assign + 1ull) * sizeof *list);
    state.placed = yk__calloc(work->g.n_value + 1, 1);
    state.written = yk__calloc(work->request->n_param + 1ull, 1);
    state.slot_read = yk__malloc((work->g.n_slot + 1) * sizeof *state.slot_read);
    state.old = yk__malloc((work->request->n_assign + 1ull) * sizeof *state.old);
    if (work->request->scatters)
        work->plan->written = yk__calloc(work->request->n_param + 1ull, sizeof *work->plan->written);
    if (!list || !state.placed || !state.written || !state.slot_read || !state.old || (work->request->scatters && !work->plan->written))
        yk__fail_mem(err, work->g.n_value, "a plan");
    if (!err->status && !yk__uses_new(work, &state.uses, err) && !yk__remap_begin(&state.remap, work, &state.g, err)) {
        find_reads(&state);
        for (uint32_t i = 0; i < work->request->n_assign; i++)
            state.old[i] = YK_NONE;
        place_all(&state, list);
        yk__remap_end(&state.remap, work, err);
    }
    free_placing(&state);
    yk__free(list);
    return err->status;
}
