/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small planner: it replaces unclaimed composites by their bodies, and gives every value a place. A value never moves, so a wrong
 * result is the device's fault and not the plan's. The start-up probe, the timed product (pace.c) and yoke-cts use it; training does not.
 *
 * simplerun.c runs such a plan on a device. One thread per object.
 */
#include <string.h>

#include "core/base/mem.h"
#include "core/device/simple.h"

/* ---- Unclaimed composites become their bodies -------------------------------------------------------------------------- */

static yk_status push_node(yk__graph *g, const yk_node *n, yk_error *err)
{
    if (yk__grow(&g->node, &g->cap_node, g->n_node + 1, sizeof *g->node))
        return yk__fail_mem(err, sizeof *g->node, "a node");
    g->node[g->n_node++] = *n;
    return YK_OK;
}

/* Copies the body's results to the composite's outputs, so that the rest of the graph stays as it is. */
static yk_status push_body(yk__graph *g, const yk_graph *src, uint32_t node, yk_error *err)
{
    const yk_node *n = &src->node[node];
    yk__vid out[8];
    if (n->flags & YK_NODE_ACCUMULATE)
        return yk__fail(err, YK_E_UNSUPPORTED, "node %u accumulates and is not claimed", node);
    if (n->n_out > 8)
        return yk__fail(err, YK_E_INTERNAL, "node %u has %u outputs", node, n->n_out);
    if (yk__body_append(g, src, node, src->index + n->in, out, err))
        return err->status;
    for (uint32_t i = 0; i < n->n_out; i++) {
        uint32_t y = src->index[n->out + i], base = src->value[y].base; /* an in-place output is a view of its operand */
        yk__vid in[2] = {out[i], base};
        if (yk__node_new(g, YK_OP_COPY, 0, base == y ? 1 : 2, in, 1, &y, 0, NULL) == YK_NONE)
            return *err = g->error, err->status;
    }
    return YK_OK;
}

/* One round; bodies may hold simpler composites. *changed: a composite was replaced. */
static yk_status inline_round(yk__graph *g, const yk__simple_how *how, bool *changed, yk_error *err)
{
    yk__graph old;
    yk_graph src;
    *changed = false;
    if (yk__graph_copy(g, &old, err))
        return err->status;
    if (yk__graph_seal(&old, &src, err) == YK_OK)
        g->n_node = 0;
    for (uint32_t i = 0; i < src.n_node && !err->status; i++) {
        const yk__op_info *info = yk__op_info_of(src.node[i].op);
        yk_node n = src.node[i];
        if (info && info->kind == YK_KIND_COMP && !how->claims(how->arg, &src, i)) {
            *changed = true;
            push_body(g, &src, i, err);
            continue;
        }
        n.body = n.n_body ? n.body - src.n_node : 0; /* back to an index in g->body */
        push_node(g, &n, err);
    }
    yk__graph_free(&old);
    return err->status;
}

static yk_status inline_all(yk__graph *g, const yk__simple_how *how, yk_error *err)
{
    bool changed = how->claims != NULL;
    for (int round = 0; changed; round++) {
        if (round == 8)
            return yk__fail(err, YK_E_INTERNAL, "bodies of composites have no end");
        if (inline_round(g, how, &changed, err))
            return err->status;
    }
    return YK_OK;
}

/* ---- Places ----------------------------------------------------------------------------------------------------------------- */

static uint32_t root_of(const yk__graph *g, uint32_t v)
{
    while (g->value[v].base != v)
        v = g->value[v].base;
    return v;
}

static bool is_float(uint32_t dtype)
{
    return yk__dtype_is_float(dtype);
}

/* Makes f64 of values without a slot that nodes or bodies produce. */
static void widen_all(yk__graph *g)
{
    for (size_t i = 0; i < g->n_value; i++) {
        yk_value *v = &g->value[i];
        if (!is_float(v->dtype) || g->value[root_of(g, (uint32_t)i)].slot != YK_NONE)
            continue;
        v->offset = v->offset / yk_dtype_bytes(v->dtype) * 8;
        v->dtype = YK_F64;
    }
}

/* The planner's record of a root value. */
typedef struct life {
    bool placed, kept; /* this planner placed it; the caller wants it */
    uint32_t last;     /* the last node that reads it */
    uint32_t block;    /* its block */
} life;

typedef struct block {
    uint32_t slot;
    uint64_t at, bytes;
    bool taken;
} block;

typedef struct planner {
    yk__graph *g;
    const yk__simple_how *how;
    life *life;
    block *block;
    size_t n_block, cap_block;
    uint32_t second; /* slot of a second arena; YK_NONE without one */
} planner;

static void place_at(yk__graph *g, uint32_t v, uint32_t slot, uint64_t at)
{
    g->value[v].slot = slot;
    g->value[v].offset = at;
    if (g->slot[slot].bytes < at + yk__value_bytes(&g->value[v]))
        g->slot[slot].bytes = at + yk__value_bytes(&g->value[v]);
}

static uint64_t offset_behind(const planner *p, uint32_t slot)
{
    uint64_t align = p->how->align ? p->how->align : 64;
    return (p->g->slot[slot].bytes + p->how->gap + align - 1) & ~(align - 1);
}

/* Finds a free block of the same size, if values may share memory. */
static block *find_block(planner *p, uint64_t bytes)
{
    for (size_t i = 0; p->how->share && i < p->n_block; i++)
        if (!p->block[i].taken && p->block[i].bytes == bytes)
            return &p->block[i];
    return NULL;
}

static yk_status place_in_arena(planner *p, uint32_t v, yk_error *err)
{
    uint64_t bytes = yk__value_bytes(&p->g->value[v]);
    block *b = find_block(p, bytes);
    if (!b) {
        if (yk__grow(&p->block, &p->cap_block, p->n_block + 1, sizeof *p->block))
            return yk__fail_mem(err, sizeof *p->block, "a plan");
        b = &p->block[p->n_block++];
        b->slot = p->second != YK_NONE && p->n_block % 2 ? p->second : 0;
        *b = (block){b->slot, offset_behind(p, b->slot), bytes, false};
    }
    b->taken = true;
    p->life[v].block = (uint32_t)(b - p->block);
    p->life[v].placed = true;
    place_at(p->g, v, b->slot, b->at);
    return YK_OK;
}

static void find_last_readers(planner *p)
{
    for (size_t i = 0; i < p->g->n_node; i++) {
        const yk_node *n = &p->g->node[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            p->life[root_of(p->g, p->g->index[n->in + k])].last = (uint32_t)i;
        for (uint32_t k = 0; k < n->n_out; k++)
            p->life[root_of(p->g, p->g->index[n->out + k])].last = (uint32_t)i;
    }
}

/* True if node i may overwrite its input v: elementwise, v dense and read as it is, with the output's element size. */
static bool in_place(const planner *p, uint32_t i, uint32_t v)
{
    const yk_node *n = &p->g->node[i];
    const yk__op_info *info = yk__op_info_of(n->op);
    const yk_value *y = &p->g->value[p->g->index[n->out]];
    if (!info || (info->kind != YK_KIND_UN && info->kind != YK_KIND_BIN) ||
        yk_dtype_bytes(y->dtype) != yk_dtype_bytes(p->g->value[v].dtype))
        return false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t x = p->g->index[n->in + k];
        if (root_of(p->g, x) == v && (x != v || !yk__value_is_dense(&p->g->value[x])))
            return false;
    }
    return true;
}

/* Frees the blocks that the node's output may take over. */
static void release_before(planner *p, uint32_t node)
{
    const yk_node *n = &p->g->node[node];
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t r = root_of(p->g, p->g->index[n->in + k]);
        if (p->life[r].placed && !p->life[r].kept && p->life[r].last == node && in_place(p, node, r))
            p->block[p->life[r].block].taken = false;
    }
}

/* Frees the blocks of the node's inputs, except one that its output took over. */
static void release_after(planner *p, uint32_t node)
{
    const yk_node *n = &p->g->node[node];
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t r = root_of(p->g, p->g->index[n->in + k]);
        bool over = false;
        for (uint32_t j = 0; j < n->n_out; j++) {
            uint32_t o = root_of(p->g, p->g->index[n->out + j]);
            over = over || (o != r && p->life[o].placed && !p->life[o].kept && p->life[o].block == p->life[r].block);
        }
        if (p->life[r].placed && !p->life[r].kept && p->life[r].last == node && !over)
            p->block[p->life[r].block].taken = false;
    }
}

static yk_status place_nodes(planner *p, yk_error *err)
{
    for (uint32_t i = 0; i < p->g->n_node && !err->status; i++) {
        const yk_node *n = &p->g->node[i];
        release_before(p, i);
        for (uint32_t k = 0; k < n->n_out && !err->status; k++) {
            uint32_t r = root_of(p->g, p->g->index[n->out + k]);
            if (p->g->value[r].slot == YK_NONE)
                place_in_arena(p, r, err);
        }
        release_after(p, i);
    }
    return err->status;
}

static void place_wanted(planner *p, uint32_t n_want, const yk__vid *want, uint32_t result)
{
    for (uint32_t i = 0; i < n_want; i++) {
        uint32_t r = root_of(p->g, want[i]);
        p->g->value[want[i]].flags |= YK_VALUE_OUTPUT;
        p->g->value[r].flags |= YK_VALUE_OUTPUT;
        if (p->g->value[r].slot != YK_NONE)
            continue;
        place_at(p->g, r, result, offset_behind(p, result));
        p->life[r].placed = p->life[r].kept = true;
    }
}

/* Places views in their roots. */
static void place_views(planner *p)
{
    for (size_t i = 0; i < p->g->n_value; i++) {
        uint32_t r = root_of(p->g, (uint32_t)i);
        if (r == i || !p->life[r].placed)
            continue;
        p->g->value[i].slot = p->g->value[r].slot;
        p->g->value[i].offset += p->g->value[r].offset;
    }
}

static yk_status place_all(yk__graph *g, const yk__simple_how *how, uint32_t n_want, const yk__vid *want, uint32_t result,
                           yk_error *err)
{
    planner p = {.g = g, .how = how, .life = yk__calloc(g->n_value, sizeof *p.life), .second = YK_NONE};
    if (how->arenas > 1)
        p.second = yk__slot_new(g, YK_SLOT_ARENA, 0, 0);
    if (!p.life)
        return yk__fail_mem(err, g->n_value * sizeof *p.life, "a plan");
    find_last_readers(&p);
    place_wanted(&p, n_want, want, result);
    if (place_nodes(&p, err) == YK_OK)
        place_views(&p);
    yk__free(p.block);
    yk__free(p.life);
    return err->status;
}

/* Adds a gap at the end, and makes an empty slot one byte long. */
static void close_slot(yk_slot *s, const yk__simple_how *how)
{
    s->bytes += how->gap ? how->gap : s->bytes == 0;
}

/* Plans the copy in s->g; after a failure the caller frees it. */
static yk_status simple_make(const yk__simple_how *how, uint32_t n_want, const yk__vid *want, yk__simple *s, yk_error *err)
{
    if (inline_all(&s->g, how, err))
        return err->status;
    if (how->widen)
        widen_all(&s->g);
    s->result = yk__slot_new(&s->g, YK_SLOT_RESULT, 0, 0);
    if (s->result == YK_NONE)
        return yk__fail_mem(err, sizeof(yk_slot), "a slot");
    if (place_all(&s->g, how, n_want, want, s->result, err))
        return err->status;
    for (uint32_t i = 0; i < s->g.n_slot; i++)
        if (s->g.slot[i].kind == YK_SLOT_ARENA || i == s->result)
            close_slot(&s->g.slot[i], how);
    return yk__graph_seal(&s->g, &s->abi, err);
}

yk_status yk__simple_new(const yk__graph *in, const yk__simple_how *how, uint32_t n_want, const yk__vid *want, yk__simple *s,
                         yk_error *err)
{
    memset(s, 0, sizeof *s);
    s->product_bits = how->product_bits;
    if (in->error.status)
        return *err = in->error, err->status;
    if (yk__graph_copy(in, &s->g, err))
        return err->status;
    if (simple_make(how, n_want, want, s, err))
        yk__graph_free(&s->g);
    return err->status;
}

void yk__simple_free(yk__simple *s)
{
    yk__graph_free(&s->g);
}

/* ---- Host memory -------------------------------------------------------------------------------------------------------------- */

static bool has_gaps(const yk__simple *s, uint32_t slot)
{
    return s->abi.slot[slot].kind == YK_SLOT_ARENA || slot == s->result;
}

void **yk__simple_slots(const yk__simple *s)
{
    void **slot = yk__calloc(s->abi.n_slot, sizeof *slot);
    for (uint32_t i = 0; slot && i < s->abi.n_slot; i++) {
        uint64_t bytes = s->abi.slot[i].bytes;
        slot[i] = yk__malloc_aligned(bytes, 64);
        if (!slot[i]) {
            yk__simple_slots_free(s, slot);
            return NULL;
        }
        memset(slot[i], has_gaps(s, i) ? YK__GUARD_BYTE : 0, bytes);
        for (uint32_t v = 0; has_gaps(s, i) && v < s->abi.n_value; v++) /* NaN of each type: a result may not depend on it */
            if (s->abi.value[v].slot == i && s->abi.value[v].base == v)
                memset((uint8_t *)slot[i] + s->abi.value[v].offset, 0xff, yk__value_bytes(&s->abi.value[v]));
    }
    return slot;
}

void yk__simple_slots_free(const yk__simple *s, void **slot)
{
    for (uint32_t i = 0; slot && i < s->abi.n_slot; i++)
        yk__free(slot[i]);
    yk__free(slot);
}

int64_t yk__simple_gaps(const yk__simple *s, void *const *slot, uint32_t *where)
{
    for (uint32_t i = 0; i < s->abi.n_slot; i++) {
        uint64_t bytes = s->abi.slot[i].bytes;
        uint8_t *want = has_gaps(s, i) ? yk__malloc(bytes) : NULL;
        const uint8_t *data = slot[i];
        int64_t bad = -1;
        if (!want)
            continue;
        memset(want, YK__GUARD_BYTE, bytes);
        for (uint32_t v = 0; v < s->abi.n_value; v++)
            if (s->abi.value[v].slot == i && s->abi.value[v].base == v)
                memcpy(want + s->abi.value[v].offset, data + s->abi.value[v].offset, yk__value_bytes(&s->abi.value[v]));
        const bool same = !memcmp(want, data, bytes);
        for (uint64_t b = 0; !same && bad < 0; b++)
            if (want[b] != data[b])
                bad = (int64_t)b;
        yk__free(want);
        *where = i;
        if (bad >= 0)
            return bad;
    }
    return -1;
}

yk_status yk__simple_eval(const yk__simple *s, void *const *slot, yk_error *err)
{
    for (uint32_t i = 0; i < s->abi.n_node; i++)
        if (yk__eval_node_rounded(&s->abi, i, slot, s->product_bits, err))
            return err->status;
    return YK_OK;
}
