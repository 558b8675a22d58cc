/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where values that leave the program go: gradients into their buckets, results into the result slot, assigned values
 * into their states. The node that makes a value writes there itself where that is legal, or adds to what is there;
 * otherwise a copy or a sum follows it. Operands of all_reduce get memory of their own, in which the sum is taken.
 */
#include "core/plan/internal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

typedef enum place_kind { PLACE_GRAD, PLACE_RESULT, PLACE_STATE } place_kind;

typedef struct place {
    uint32_t node; /* after which it is done; YK_NONE: at the end */
    uint32_t kind, i, order;
} place;

typedef struct placing {
    yk__work *w;
    yk__remap m;
    yk__graph g;
    yk__uses u;          /* of the old graph */
    bool *placed;        /* roots of the old graph that have their memory */
    bool *written;       /* by parameter: its bucket part holds a contribution */
    uint32_t *slot_read; /* by slot: last node that reads it; YK_NONE: none */
} placing;

static int by_node(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The value can lie elsewhere: one node makes all of it, and nothing else has said where it goes. */
static bool is_movable(const placing *p, yk__vid v, yk_dtype dtype)
{
    const yk__graph *s = p->m.src;
    const yk__vid r = yk__root(s, v);
    if (p->u.producer[r] == YK_NONE || s->node[p->u.producer[r]].op == YK_OP_ALL_REDUCE)
        return false;
    return s->value[r].dtype == dtype && s->value[r].slot == YK_NONE && p->u.writers[r] == 1 && !p->placed[r] &&
           yk__whole(s, v);
}

/* Gives the root of v, which is in the new graph or will be made, its memory. */
static void put_at(placing *p, yk__vid v, uint32_t slot, uint64_t offset)
{
    const yk__vid r = yk__root(p->m.src, v);
    const yk__vid to = yk__remap_value(&p->m, r);
    p->placed[r] = true;
    if (to == YK_NONE)
        return;
    for (size_t i = to; i < p->g.n_value; i++) /* views that are there already */
        if (p->g.value[i].base == to) {
            p->g.value[i].slot = slot;
            p->g.value[i].offset += offset;
            p->g.value[i].flags |= YK_VALUE_OUTPUT;
        }
}

static yk__vid slot_value(placing *p, yk_dtype dtype, const yk_value *like, uint32_t slot, uint64_t offset, uint32_t flags)
{
    yk__vid v = yk__value_new(&p->g, dtype, like->dims, like->dim);
    if (v == YK_NONE)
        return v;
    p->g.value[v].slot = slot;
    p->g.value[v].offset = offset;
    p->g.value[v].flags = (uint16_t)flags;
    return v;
}

/* A copy of v (of the old graph) into a slot; widened or narrowed to dtype. */
static void copy_to(placing *p, yk__vid v, yk_dtype dtype, uint32_t slot, uint64_t offset)
{
    yk__vid x = yk__remap_value(&p->m, v), out;
    if (x == YK_NONE)
        return;
    if (p->g.value[x].dtype != dtype && !yk__value_is_broadcast(&p->g.value[x]))
        x = yk__dense(&p->g, x);
    if (x == YK_NONE)
        return;
    out = slot_value(p, dtype, &p->m.src->value[v], slot, offset, YK_VALUE_OUTPUT);
    if (out != YK_NONE)
        yk__node_new(&p->g, p->g.value[x].dtype == dtype ? YK_OP_COPY : YK_OP_CAST, 0, 1, &x, 1, &out, 0, NULL);
}

/* bucket += v */
static void add_to(placing *p, yk__vid v, uint32_t slot, uint64_t offset)
{
    yk__vid x = yk__remap_value(&p->m, v), in[2], out;
    if (x != YK_NONE && !yk__value_is_broadcast(&p->g.value[x]))
        x = yk__dense(&p->g, x);
    if (x != YK_NONE && p->g.value[x].dtype != YK_F32)
        x = yk__cast(&p->g, x, YK_F32);
    if (x == YK_NONE)
        return;
    in[0] = slot_value(p, YK_F32, &p->m.src->value[v], slot, offset, YK_VALUE_INPUT);
    in[1] = x;
    out = slot_value(p, YK_F32, &p->m.src->value[v], slot, offset, YK_VALUE_OUTPUT);
    if (in[0] != YK_NONE && out != YK_NONE)
        yk__node_new(&p->g, YK_OP_ADD, 0, 2, in, 1, &out, 0, NULL);
}

/* Whether the node that makes v can add to memory: products into f32 always, others if the device says so. */
static bool can_add(placing *p, yk__vid v)
{
    const yk__graph *s = p->m.src;
    const yk__vid r = yk__root(s, v);
    const yk_node *n = &s->node[p->u.producer[r]];
    if (p->u.readers[r] || p->u.kept[r] != 1 || n->n_out != 1)
        return false;
    if (n->op == YK_OP_DOT)
        return true;
    if (yk__info_of(&p->m, n)->claims)
        return yk__info_of(&p->m, n)->claims & YK_CLAIM_ACCUMULATE;
    return yk__plan_ask(p->w->r, s, n, s->body + n->body) & YK_CLAIM_ACCUMULATE;
}

static void zero_grad(placing *p, uint32_t param, uint32_t slot, uint64_t offset)
{
    const int64_t zero = yk_attr_of_f64(0.0);
    const yk_value flat = {.dims = 1, .dim = {p->w->r->param[param].n}};
    yk__vid out = slot_value(p, YK_F32, &flat, slot, offset, YK_VALUE_OUTPUT);
    if (out != YK_NONE)
        yk__node_new(&p->g, YK_OP_FILL, 0, 0, NULL, 1, &out, 1, &zero);
}

static void place_grad(placing *p, uint32_t i)
{
    const yk__work *w = p->w;
    const uint32_t param = w->grad_param[i];
    const yk__plan_param *to = &w->r->param[param];
    const uint32_t slot = w->bucket_slot + to->bucket;
    const yk__vid v = w->grad[i];
    const bool add = w->r->accumulate || p->written[param];
    const bool move = v != YK_NONE && is_movable(p, v, YK_F32);
    p->written[param] = true;
    if (v == YK_NONE) {
        if (!add)
            zero_grad(p, param, slot, to->grad_offset);
    } else if (add && !(move && can_add(p, v))) {
        add_to(p, v, slot, to->grad_offset);
    } else if (move) {
        put_at(p, v, slot, to->grad_offset);
        if (add && !p->g.error.status)
            p->g.node[p->g.n_node - 1].flags |= YK_NODE_ACCUMULATE;
    } else {
        copy_to(p, v, YK_F32, slot, to->grad_offset);
    }
}

static yk_dtype result_dtype(uint32_t dtype)
{
    return dtype == YK_BF16 || dtype == YK_F16 ? YK_F32 : (yk_dtype)dtype;
}

static void place_result(placing *p, uint32_t i)
{
    const yk__vid v = p->w->result[i];
    const yk_dtype dtype = result_dtype(p->m.src->value[v].dtype);
    if (!yk__value_count(&p->m.src->value[v]))
        return;
    if (is_movable(p, v, dtype))
        put_at(p, v, p->w->result_slot, p->w->result_offset[i]);
    else
        copy_to(p, v, dtype, p->w->result_slot, p->w->result_offset[i]);
}

static bool is_elementwise(const yk_node *n)
{
    return n->op == YK_OP_MAP || yk__op_is_map(n->op);
}

static void place_state(placing *p, uint32_t i)
{
    const yk__work *w = p->w;
    const yk__vid v = w->assign[i];
    copy_to(p, v, (yk_dtype)p->m.src->value[v].dtype, w->assign_slot[i], 0);
}

/* A state may be written by the node that makes its new value when nobody reads the old one later. */
static bool state_direct(const placing *p, uint32_t i)
{
    const yk__vid v = p->w->assign[i], r = yk__root(p->m.src, v);
    const uint32_t read = p->slot_read[p->w->assign_slot[i]], made = p->u.producer[r];
    if (!is_movable(p, v, (yk_dtype)p->m.src->value[v].dtype))
        return false;
    return read == YK_NONE || read < made || (read == made && is_elementwise(&p->m.src->node[made]));
}

static void do_place(placing *p, const place *a)
{
    if (a->kind == PLACE_GRAD)
        place_grad(p, a->i);
    else if (a->kind == PLACE_RESULT)
        place_result(p, a->i);
    else if (a->node != YK_NONE && state_direct(p, a->i))
        put_at(p, p->w->assign[a->i], p->w->assign_slot[a->i], 0);
    else
        place_state(p, a->i);
}

/* The sum over ranks is taken in the memory of the all_reduce's operand. */
static bool own_memory(const placing *p, yk__vid x, uint32_t node)
{
    const yk__vid r = yk__root(p->m.src, x);
    return p->u.writers[r] && p->u.last[r] == node && !p->u.kept[r] && p->m.src->value[r].slot == YK_NONE &&
           yk__whole(p->m.src, x);
}

static void emit_node(placing *p, uint32_t k)
{
    const yk_node *n = &p->m.src->node[k];
    const yk__vid x = n->n_in ? yk__ins(p->m.src, n)[0] : YK_NONE;
    const uint32_t at = yk__remap_node(&p->m, k);
    yk__vid in, copy;
    if (n->op != YK_OP_ALL_REDUCE || own_memory(p, x, k) || at == YK_NONE)
        return;
    in = p->g.index[p->g.node[at].in];
    copy = yk__value_new(&p->g, (yk_dtype)p->g.value[in].dtype, p->g.value[in].dims, p->g.value[in].dim);
    if (copy == YK_NONE)
        return;
    p->g.index[p->g.node[at].in] = copy;
    if (yk__node_new(&p->g, YK_OP_COPY, 0, 1, &in, 1, &copy, 0, NULL) != YK_NONE)
        yk__remap_move_last(&p->m, at); /* the copy goes first */
}

static uint32_t list_places(const placing *p, place *list)
{
    const yk__work *w = p->w;
    const yk__graph *s = p->m.src;
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_grad; i++, n++)
        list[n] = (place){w->grad[i] == YK_NONE ? YK_NONE : p->u.producer[yk__root(s, w->grad[i])], PLACE_GRAD, i, n};
    for (uint32_t i = 0; i < w->r->n_result; i++, n++)
        list[n] = (place){p->u.producer[yk__root(s, w->result[i])], PLACE_RESULT, i, n};
    for (uint32_t i = 0; i < w->r->n_assign; i++, n++)
        list[n] = (place){state_direct(p, i) ? p->u.producer[yk__root(s, w->assign[i])] : YK_NONE, PLACE_STATE, i, n};
    qsort(list, n, sizeof *list, by_node);
    return n;
}

static void find_reads(placing *p)
{
    const yk__graph *s = p->m.src;
    for (size_t i = 0; i < s->n_slot; i++)
        p->slot_read[i] = YK_NONE;
    for (uint32_t k = 0; k < s->n_node; k++)
        for (uint32_t i = 0; i < s->node[k].n_in; i++) {
            const uint32_t slot = s->value[yk__ins(s, &s->node[k])[i]].slot;
            if (slot != YK_NONE)
                p->slot_read[slot] = k;
        }
    for (uint32_t i = 0; i < p->w->r->n_result; i++) { /* a state that is a result is read at the very end */
        const uint32_t slot = s->value[p->w->result[i]].slot;
        if (slot != YK_NONE)
            p->slot_read[slot] = YK_NONE - 1;
    }
}

static void place_all(placing *p, place *list)
{
    const uint32_t n = list_places(p, list);
    uint32_t at = 0;
    for (uint32_t k = 0; k < p->m.src->n_node; k++) {
        emit_node(p, k);
        for (; at < n && list[at].node == k; at++)
            do_place(p, &list[at]);
    }
    for (; at < n; at++)
        do_place(p, &list[at]);
}

static void free_placing(placing *p)
{
    yk__free(p->placed);
    yk__free(p->written);
    yk__free(p->slot_read);
    yk__uses_free(&p->u);
}

yk_status yk__plan_place(yk__work *w, yk_error *err)
{
    placing p = {.w = w};
    place *list = yk__malloc((w->n_grad + w->r->n_result + w->r->n_assign + 1ull) * sizeof *list);
    p.placed = yk__calloc(w->g.n_value + 1, 1);
    p.written = yk__calloc(w->r->n_param + 1ull, 1);
    p.slot_read = yk__malloc((w->g.n_slot + 1) * sizeof *p.slot_read);
    if (!list || !p.placed || !p.written || !p.slot_read)
        yk__fail_mem(err, w->g.n_value, "a plan");
    if (!err->status && !yk__uses_new(w, &p.u, err) && !yk__remap_begin(&p.m, w, &p.g, err)) {
        find_reads(&p);
        place_all(&p, list);
        yk__remap_end(&p.m, w, err);
    }
    free_placing(&p);
    yk__free(list);
    return err->status;
}
