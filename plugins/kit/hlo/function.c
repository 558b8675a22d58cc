/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a graph as one StableHLO function, the text that a PJRT plugin compiles. A value is a tensor of the text, so memory appears at
 * the ends alone.
 *
 * pjrt_program.c calls hlo_lower while a program is made, in any thread. Values that the program reads before it writes them are
 * arguments. Values that outlive the run are results. A view is made anew from its root's tensor; a write to a part of a root makes a new
 * tensor of the root.
 */
#include "plugins/kit/hlo/function.h"

#include "plugins/kit/plugin.h"
#include "plugins/kit/value.h"

hlo_tensor hlo_shape_of(const yk_value *v)
{
    hlo_tensor t = {.type = v->dtype, .dims = v->dims};
    for (uint32_t i = 0; i < v->dims; i++)
        t.dim[i] = v->dim[i];
    return t;
}

const yk_value *hlo_in(const hlo_lowering *ctx, const yk_node *n, uint32_t i)
{
    return &ctx->graph->value[ctx->graph->index[n->in + i]];
}

const yk_value *hlo_out(const hlo_lowering *ctx, const yk_node *n, uint32_t i)
{
    return &ctx->graph->value[ctx->graph->index[n->out + i]];
}

static hlo_tensor vector_of(hlo_lowering *ctx, hlo_tensor t)
{
    const int64_t n = hlo_count(&t);
    return hlo_reshape(&ctx->body, t, 1, &n);
}

static uint64_t value_bytes(const yk_value *v)
{
    return (uint64_t)kit_value_count(v) * yk_dtype_bytes(v->dtype);
}

static bool values_meet(const yk_value *a, const yk_value *b)
{
    return a->slot == b->slot && a->slot != YK_NONE && a->offset < b->offset + value_bytes(b) && b->offset < a->offset + value_bytes(a);
}

/* The value with this value's memory that the program wrote last; YK_NONE if none. */
static uint32_t value_below(const hlo_lowering *ctx, uint32_t base)
{
    uint32_t last = YK_NONE;
    for (uint32_t i = 0; i < ctx->graph->n_value; i++)
        if (ctx->state[i].written && values_meet(&ctx->graph->value[i], &ctx->graph->value[base]) &&
            (last == YK_NONE || ctx->state[i].written > ctx->state[last].written))
            last = i;
    return last;
}

/* The part of another written value that this one covers. The node is refused unless that is all of it. */
static hlo_tensor value_cut(hlo_lowering *ctx, uint32_t below, const yk_value *v)
{
    const yk_value *whole = &ctx->graph->value[below];
    const int64_t begin = ((int64_t)v->offset - (int64_t)whole->offset) / (int64_t)yk_dtype_bytes(v->dtype);
    const int64_t end = begin + kit_value_count(v);
    if (v->dtype != whole->dtype || begin < 0 || end > kit_value_count(whole)) {
        ctx->refused = true;
        return hlo_number(&ctx->body, hlo_shape_of(v), 0);
    }
    const hlo_tensor part = hlo_slice(&ctx->body, vector_of(ctx, ctx->state[below].now), &begin, &end, NULL);
    return hlo_reshape(&ctx->body, part, v->dims, v->dim);
}

/* The tensor that a value which is no view has now. It becomes an argument if no node has written there. */
static hlo_tensor base_now(hlo_lowering *ctx, uint32_t base)
{
    hlo_state *s = &ctx->state[base];
    if (!s->known) {
        const uint32_t below = value_below(ctx, base);
        s->known = true;
        if (below != YK_NONE)
            s->now = value_cut(ctx, below, &ctx->graph->value[base]);
        else {
            s->is_in = true;
            s->now = hlo_shape_of(&ctx->graph->value[base]);
            s->now.id = base; /* arguments have the numbers of their values */
        }
    }
    return s->now;
}

/* Gives values in the same memory their new contents: the next read gets these. Memory of the arena is reused only when no node reads
 * the old value any more. */
static void base_written(hlo_lowering *ctx, uint32_t base)
{
    const yk_value *v = &ctx->graph->value[base];
    ctx->state[base].known = true;
    ctx->state[base].written = ++ctx->writes;
    for (uint32_t i = 0; i < ctx->graph->n_value; i++) {
        const yk_value *other = &ctx->graph->value[i];
        if (i == base || !ctx->state[i].known || !values_meet(other, v))
            continue;
        if (ctx->graph->slot[v->slot].kind != YK_SLOT_ARENA)
            ctx->state[i].known = false;
        if (other->offset >= v->offset && other->offset + value_bytes(other) <= v->offset + value_bytes(v))
            ctx->state[i].written = 0;
    }
}

/* ---- Views --------------------------------------------------------------------------------------------------------- */

/* A view of a vector of `total` elements: its dimensions with a stride, largest stride first. Level k is a block of step[k - 1] elements.
 * The view has n[k] pieces of step[k] elements in it, from piece at[k] on. */
typedef struct view {
    uint32_t levels;
    int64_t total, n[YK_MAX_DIMS], step[YK_MAX_DIMS], at[YK_MAX_DIMS], rest; /* elements before the view in the innermost piece */
    uint32_t axis[YK_MAX_DIMS];                                               /* the value's dimension */
} view;

static void view_sort(view *w, const yk_value *v)
{
    for (uint32_t d = 0; d < v->dims; d++) {
        uint32_t k = w->levels;
        if (v->dim[d] == 1 || !v->stride[d])
            continue;
        for (; k > 0 && w->step[k - 1] < v->stride[d]; k--)
            w->step[k] = w->step[k - 1], w->n[k] = w->n[k - 1], w->axis[k] = w->axis[k - 1];
        w->step[k] = v->stride[d], w->n[k] = v->dim[d], w->axis[k] = d;
        w->levels++;
    }
}

/* False if its elements overlap, or a row continues in the next block. */
static bool view_of(const yk_graph *g, const yk_value *v, view *w)
{
    const yk_value *base = &g->value[v->base];
    int64_t block = kit_value_count(base), offset = (int64_t)((v->offset - base->offset) / yk_dtype_bytes(v->dtype));
    *w = (view){.total = block};
    view_sort(w, v);
    for (uint32_t k = 0; k < w->levels; k++) {
        int64_t last = offset;
        for (uint32_t j = k; j < w->levels; j++)
            last += (w->n[j] - 1) * w->step[j];
        if (w->step[k] < 1 || last >= block)
            return false;
        w->at[k] = offset / w->step[k];
        offset %= w->step[k];
        block = w->step[k];
    }
    w->rest = offset;
    return true;
}

/* The vector's elements of the view, with the dimensions of its levels. */
static hlo_tensor view_take(hlo_lowering *ctx, const view *w, hlo_tensor t)
{
    static const int64_t none[HLO_DIMS];
    int64_t begin[HLO_DIMS] = {0}, end[HLO_DIMS], dim[HLO_DIMS];
    for (uint32_t k = 0; k < w->levels; k++) {
        const int64_t need = (w->at[k] + w->n[k]) * w->step[k], over = need - t.dim[k];
        int64_t high[HLO_DIMS] = {0};
        high[k] = over > 0 ? over : 0;
        if (over > 0)
            t = hlo_pad(&ctx->body, t, hlo_number(&ctx->body, hlo_scalar(t.type), 0), none, high, NULL);
        for (uint32_t j = 0; j < k; j++)
            begin[j] = 0, end[j] = dim[j] = t.dim[j];
        begin[k] = w->at[k] * w->step[k], end[k] = need;
        t = hlo_slice(&ctx->body, t, begin, end, NULL);
        dim[k] = w->n[k], dim[k + 1] = w->step[k];
        t = hlo_reshape(&ctx->body, t, k + 2, dim);
        begin[k] = 0;
    }
    for (uint32_t j = 0; j < w->levels; j++)
        begin[j] = 0, end[j] = dim[j] = t.dim[j];
    begin[w->levels] = w->rest, end[w->levels] = w->rest + 1;
    return hlo_reshape(&ctx->body, hlo_slice(&ctx->body, t, begin, end, NULL), w->levels, dim);
}

/* Elements with the dimensions of the levels, spread over a vector of zeros. */
static hlo_tensor view_spread(hlo_lowering *ctx, const view *w, hlo_tensor t)
{
    const hlo_tensor zero = hlo_number(&ctx->body, hlo_scalar(t.type), 0);
    int64_t dim[HLO_DIMS], low[HLO_DIMS] = {0}, high[HLO_DIMS] = {0};
    for (uint32_t j = 0; j < w->levels; j++)
        dim[j] = t.dim[j];
    dim[w->levels] = 1;
    t = hlo_reshape(&ctx->body, t, w->levels + 1, dim);
    for (uint32_t k = w->levels + 1; k-- > 0;) { /* the last dimension becomes a block */
        const int64_t block = k ? w->step[k - 1] : w->total, before = k == w->levels ? w->rest : w->at[k] * w->step[k];
        low[k] = before, high[k] = block - before - t.dim[k];
        t = hlo_pad(&ctx->body, t, zero, low, high, NULL);
        low[k] = high[k] = 0;
        if (!k)
            break;
        for (uint32_t j = 0; j < k; j++)
            dim[j] = t.dim[j];
        dim[k - 1] *= t.dim[k];
        t = hlo_reshape(&ctx->body, t, k, dim);
    }
    return t;
}

/* Levels to the value's order, then its whole shape. */
static hlo_tensor view_shape(hlo_lowering *ctx, const view *w, const yk_value *v, hlo_tensor t)
{
    uint32_t order[YK_MAX_DIMS], axis[YK_MAX_DIMS], n = 0;
    for (uint32_t d = 0; d < v->dims; d++)
        for (uint32_t k = 0; k < w->levels; k++)
            if (w->axis[k] == d)
                order[n] = k, axis[n++] = d;
    t = hlo_transpose(&ctx->body, t, order);
    return hlo_broadcast(&ctx->body, t, axis, v->dims, v->dim);
}

/* Overlapping elements: one by one, by their places. */
static hlo_tensor view_gather(hlo_lowering *ctx, const yk_value *v, hlo_tensor t)
{
    const int64_t offset = (int64_t)((v->offset - ctx->graph->value[v->base].offset) / yk_dtype_bytes(v->dtype));
    hlo_tensor place = hlo_shape_of(v), r = hlo_shape_of(v);
    place.type = YK_I32;
    hlo_tensor at = hlo_integer(&ctx->body, place, offset);
    for (uint32_t d = 0; d < v->dims; d++)
        if (v->stride[d] && v->dim[d] > 1)
            at = hlo_binary(&ctx->body, "add", at,
                            hlo_binary(&ctx->body, "multiply", hlo_iota(&ctx->body, place, d),
                                       hlo_integer(&ctx->body, place, v->stride[d])));
    r = hlo_begin(&ctx->body, "\"stablehlo.gather\"", r);
    kit_text_add(&ctx->body.text,
                 "(%%%u, %%%u) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], "
                 "index_vector_dim = %u>, slice_sizes = array<i64: 1>, indices_are_sorted = false} : (",
                 t.id, at.id, v->dims);
    hlo_put_type(&ctx->body, &t);
    kit_text_add(&ctx->body.text, ", ");
    hlo_put_type(&ctx->body, &at);
    kit_text_add(&ctx->body.text, ") -> ");
    hlo_put_type(&ctx->body, &r);
    kit_text_add(&ctx->body.text, "\n");
    return r;
}

static bool is_whole(const hlo_lowering *ctx, const yk_value *v)
{
    const yk_value *base = &ctx->graph->value[v->base];
    return v->offset == base->offset && kit_value_dense(v) && kit_value_count(v) == kit_value_count(base);
}

hlo_tensor hlo_read(hlo_lowering *ctx, const yk_value *v)
{
    const hlo_tensor base = base_now(ctx, v->base);
    view w;
    if (!kit_value_count(v)) /* nothing to gather */
        return hlo_number(&ctx->body, hlo_shape_of(v), 0);
    if (is_whole(ctx, v))
        return hlo_reshape(&ctx->body, base, v->dims, v->dim);
    const hlo_tensor vector = vector_of(ctx, base);
    if (!view_of(ctx->graph, v, &w))
        return view_gather(ctx, v, vector);
    return view_shape(ctx, &w, v, view_take(ctx, &w, vector));
}

/* Stores into a view; the elements outside the view keep their values. */
static hlo_tensor view_store(hlo_lowering *ctx, const yk_value *v, hlo_tensor t)
{
    const hlo_tensor old = vector_of(ctx, base_now(ctx, v->base));
    view w;
    int64_t dim[HLO_DIMS];
    uint32_t order[YK_MAX_DIMS], n = 0, kept[YK_MAX_DIMS] = {0};
    if (!view_of(ctx->graph, v, &w)) {
        ctx->refused = true;
        return old;
    }
    for (uint32_t d = 0; d < v->dims; d++)
        if (v->dim[d] > 1)
            kept[d] = n, dim[n++] = v->dim[d];
    if (n != w.levels) { /* a broadcast view is no place to write to */
        ctx->refused = true;
        return old;
    }
    t = hlo_reshape(&ctx->body, t, n, dim);
    for (uint32_t k = 0; k < w.levels; k++)
        order[k] = kept[w.axis[k]];
    t = hlo_transpose(&ctx->body, t, order);
    const hlo_tensor mask = view_spread(ctx, &w, hlo_integer(&ctx->body, hlo_like(&t, YK_BOOL), 1));
    return hlo_select(&ctx->body, mask, view_spread(ctx, &w, t), old);
}

void hlo_write(hlo_lowering *ctx, const yk_value *v, hlo_tensor t)
{
    const yk_value *base = &ctx->graph->value[v->base];
    hlo_state *s = &ctx->state[v->base];
    t = hlo_convert(&ctx->body, t, v->dtype);
    if (!is_whole(ctx, v))
        t = view_store(ctx, v, t);
    s->now = hlo_reshape(&ctx->body, t, base->dims, base->dim);
    base_written(ctx, v->base);
}

/* ---- The function -------------------------------------------------------------------------------------------------- */

static bool value_outlives(const hlo_lowering *ctx, uint32_t i)
{
    const yk_value *v = &ctx->graph->value[i];
    return ctx->state[i].written && v->slot != YK_NONE &&
           (v->flags & YK_VALUE_OUTPUT || ctx->graph->slot[v->slot].kind != YK_SLOT_ARENA);
}

static hlo_port port_of(const hlo_lowering *ctx, uint32_t i)
{
    const yk_value *v = &ctx->graph->value[i];
    return (hlo_port){.value = i, .slot = v->slot, .offset = v->offset, .dtype = v->dtype, .dims = v->dims, .dim = v->dim,
                .bytes = value_bytes(v), .result = YK_NONE};
}

static bool ports_same_place(const hlo_port *a, const hlo_port *b)
{
    bool same = a->slot == b->slot && a->offset == b->offset && a->dtype == b->dtype && a->dims == b->dims;
    for (uint32_t i = 0; i < a->dims && same; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

static void ports_find(hlo_lowering *ctx)
{
    hlo_lowered *to = ctx->to;
    for (uint32_t i = 0; i < ctx->graph->n_value; i++) {
        if (ctx->state[i].is_in)
            to->in[to->n_in++] = port_of(ctx, i);
        if (value_outlives(ctx, i))
            to->out[to->n_out++] = port_of(ctx, i);
    }
    for (uint32_t o = 1; o < to->n_out; o++) /* in the order of their writes */
        for (uint32_t k = o; k && ctx->state[to->out[k - 1].value].written > ctx->state[to->out[k].value].written; k--) {
            const hlo_port later = to->out[k - 1];
            to->out[k - 1] = to->out[k];
            to->out[k] = later;
        }
    for (uint32_t o = 0; o < to->n_out; o++)
        for (uint32_t i = 0; i < to->n_in; i++)
            if (to->in[i].result == YK_NONE && ports_same_place(&to->in[i], &to->out[o])) {
                to->in[i].result = o;
                break;
            }
}

static void put_head(hlo_lowering *ctx)
{
    hlo_lowered *to = ctx->to;
    kit_text *text = &to->function.text;
    kit_text_add(text, "module @yoke {\nfunc.func public @main(");
    for (uint32_t i = 0; i < to->n_in; i++) {
        const hlo_tensor shape = hlo_shape_of(&ctx->graph->value[to->in[i].value]);
        kit_text_add(text, "%s%%%u: ", i ? ", " : "", to->in[i].value);
        hlo_put_type(&to->function, &shape);
        if (to->in[i].result != YK_NONE)
            kit_text_add(text, " {tf.aliasing_output = %u : i32}", to->in[i].result);
    }
    kit_text_add(text, ") -> (");
}

static void put_types(hlo_lowering *ctx)
{
    for (uint32_t i = 0; i < ctx->to->n_out; i++) {
        const hlo_tensor shape = hlo_shape_of(&ctx->graph->value[ctx->to->out[i].value]);
        kit_text_add(&ctx->to->function.text, "%s", i ? ", " : "");
        hlo_put_type(&ctx->to->function, &shape);
    }
}

static void function_put(hlo_lowering *ctx)
{
    kit_text *text = &ctx->to->function.text;
    ports_find(ctx);
    put_head(ctx);
    put_types(ctx);
    kit_text_add(text, ") {\n");
    if (ctx->body.text.length)
        kit_text_put(text, ctx->body.text.data, ctx->body.text.length);
    kit_text_add(text, "  return");
    for (uint32_t i = 0; i < ctx->to->n_out; i++)
        kit_text_add(text, "%s%%%u", i ? ", " : " ", ctx->state[ctx->to->out[i].value].now.id);
    if (ctx->to->n_out)
        kit_text_add(text, " : ");
    put_types(ctx);
    kit_text_add(text, "\n}\n}\n");
}

static yk_status nodes_lower(hlo_lowering *ctx)
{
    for (uint32_t i = 0; i < ctx->graph->n_node; i++) {
        const yk_node *n = &ctx->graph->node[i];
        if (!hlo_node_lower(ctx, n) || ctx->refused) {
            ctx->host->fail(ctx->plugin, "node %u (%s, operation %u): %s", n->stream, kit_op_name(n->op), n->op,
                            ctx->refused ? "operands of a layout this plugin does not run" : "it is not run by this plugin");
            return YK_E_UNSUPPORTED;
        }
    }
    return YK_OK;
}

yk_status hlo_lower(const yk_host *host, const char *plugin, const yk_graph *graph, bool wide, hlo_lowered *lowered)
{
    hlo_lowering ctx = {.host = host, .plugin = plugin, .graph = graph, .to = lowered, .wide = wide};
    *lowered = (hlo_lowered){.n_in = 0};
    kit_text_init(&lowered->function.text, host);
    kit_text_init(&ctx.body.text, host);
    ctx.body.n = graph->n_value; /* results follow the arguments, which have the numbers of their values */
    ctx.state = kit_zeroed(host, plugin, graph->n_value * sizeof *ctx.state, "a program's values");
    lowered->in = kit_zeroed(host, plugin, graph->n_value * sizeof *lowered->in, "a program's arguments");
    lowered->out = kit_zeroed(host, plugin, graph->n_value * sizeof *lowered->out, "a program's results");
    yk_status s = ctx.state && lowered->in && lowered->out ? nodes_lower(&ctx) : YK_E_MEM;
    if (!s)
        function_put(&ctx);
    if (!s && (ctx.body.text.bad || lowered->function.text.bad))
        s = kit_no_memory(host, plugin, lowered->function.text.length, "the text of a program");
    kit_release(host, ctx.state);
    kit_text_free(&ctx.body.text);
    if (s)
        hlo_lowered_free(host, lowered);
    return s;
}

void hlo_lowered_free(const yk_host *host, hlo_lowered *lowered)
{
    kit_release(host, lowered->in);
    kit_release(host, lowered->out);
    kit_text_free(&lowered->function.text);
    *lowered = (hlo_lowered){.n_in = 0};
}
