/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph's arrays: making, copying and freeing them, new slots and values, and questions about one value's shape and strides.
 *
 * A step's trace (core/job), core/grad and the passes of core/plan append values. Updates, fills and compute weights (core/run), probes
 * (core/device) and yoke-cts make small graphs of their own. yk__apply (graph_node.c) and the checker (check.c) ask for an operand's
 * layout. The planner and the checker ask about views and padded rows. Plugins get the arrays, and call nothing here. One thread per graph.
 *
 * Units: an offset counts bytes from the start of the slot; lengths and strides count elements. Slot 0 is the arena, the memory of
 * temporaries. Each append is mixed into g->hash, by which core/run/cache.c finds the program of an equal trace.
 */
#include "core/graph/graph_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

/* ---- The arrays ---- */

static void graph_start(yk__graph *g)
{
    g->hash = YK_HASH_SEED;
    g->stream = 0;
    yk__slot_new(g, YK_SLOT_ARENA, 0, 0);
}

void yk__graph_init(yk__graph *g)
{
    memset(g, 0, sizeof *g);
    graph_start(g);
}

void yk__graph_free(yk__graph *g)
{
    yk__free(g->value);
    yk__free(g->node);
    yk__free(g->index);
    yk__free(g->attr);
    yk__free(g->slot);
    yk__free(g->body);
    yk__free(g->inverse);
    memset(g, 0, sizeof *g);
}

uint64_t yk__graph_bytes(const yk__graph *g)
{
    return g->cap_value * sizeof *g->value + (g->cap_node + g->cap_body) * sizeof *g->node + g->cap_index * sizeof *g->index +
           g->cap_attr * sizeof *g->attr + g->cap_slot * sizeof *g->slot + g->cap_inverse * sizeof *g->inverse;
}

void yk__graph_clear(yk__graph *g)
{
    g->n_value = g->n_node = g->n_index = g->n_attr = g->n_slot = g->n_body = g->n_inverse = 0;
    g->error.status = YK_OK;
    g->error.text[0] = 0;
    graph_start(g);
}

/* Copies n elements of `size` bytes; NULL if memory is out. An empty array gets memory of its own, as NULL means failure. */
static void *array_copy(const void *p, size_t n, size_t size, size_t *cap)
{
    void *q = yk__malloc(n * size);
    if (q && n)
        memcpy(q, p, n * size);
    *cap = n;
    return q;
}

yk_status yk__graph_copy(const yk__graph *g, yk__graph *out, yk_error *err)
{
    yk__graph c = *g;
    c.value = array_copy(g->value, g->n_value, sizeof *g->value, &c.cap_value);
    c.node = array_copy(g->node, g->n_node, sizeof *g->node, &c.cap_node);
    c.index = array_copy(g->index, g->n_index, sizeof *g->index, &c.cap_index);
    c.attr = array_copy(g->attr, g->n_attr, sizeof *g->attr, &c.cap_attr);
    c.slot = array_copy(g->slot, g->n_slot, sizeof *g->slot, &c.cap_slot);
    c.body = array_copy(g->body, g->n_body, sizeof *g->body, &c.cap_body);
    c.inverse = array_copy(g->inverse, g->n_inverse, sizeof *g->inverse, &c.cap_inverse);
    if (!c.value || !c.node || !c.index || !c.attr || !c.slot || !c.body || !c.inverse) {
        yk__graph_free(&c);
        return yk__fail_mem(err, g->n_value * sizeof *g->value, "a copy of a graph");
    }
    *out = c;
    return YK_OK;
}

yk__vid yk__graph_fail(yk__graph *g, yk_status status, const char *fmt, ...)
{
    char text[YK_ERROR_TEXT];
    va_list ap;
    if (g->error.status)
        return YK_NONE;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk__fail(&g->error, status, "%s", text);
    return YK_NONE;
}

/* Equal appends in an equal order give an equal hash. */
static void hash_mix(yk__graph *g, uint64_t w)
{
    g->hash = yk__hash_u64(g->hash, w);
}

uint32_t yk__slot_new(yk__graph *g, yk_slot_kind kind, uint64_t bytes, uint32_t key)
{
    if (g->n_slot >= YK_NONE || yk__grow(&g->slot, &g->cap_slot, g->n_slot + 1, sizeof *g->slot))
        return yk__graph_fail(g, YK_E_MEM, "out of memory (slot %zu of a graph)", g->n_slot);
    g->slot[g->n_slot] = (yk_slot){.bytes = bytes, .kind = kind, .key = key};
    hash_mix(g, (uint64_t)kind << 32 | key);
    return (uint32_t)g->n_slot++;
}

/* Place, lengths and strides as one word (a polynomial in an odd number). A mix per member would dominate the cost of a
 * traced value. */
static uint64_t shape_word(const yk_value *v)
{
    const uint64_t odd = 0x9e3779b97f4a7c15ull;
    uint64_t w = (uint64_t)v->slot << 40 ^ v->offset;
    for (uint32_t i = 0; i < v->dims; i++)
        w = w * odd + (uint64_t)v->dim[i];
    for (uint32_t i = 0; i < v->dims && v->base != YK_NONE; i++)
        w = w * odd + (uint64_t)v->stride[i];
    return w;
}

/* Appends a value; base YK_NONE: the value is its own base. */
static yk__vid value_push(yk__graph *g, const yk_value *v)
{
    yk__vid id = (yk__vid)g->n_value;
    yk_value *p;
    if (g->n_value >= YK_NONE - 1 ||
        (g->n_value == g->cap_value && yk__grow(&g->value, &g->cap_value, g->n_value + 1, sizeof *g->value)))
        return yk__graph_fail(g, YK_E_MEM, "out of memory (value %zu of a graph)", g->n_value);
    p = &g->value[id];
    *p = *v;
    for (uint32_t i = v->dims; i < YK_MAX_DIMS; i++)
        p->dim[i] = p->stride[i] = 0;
    hash_mix(g, (uint64_t)v->base << 32 | (uint64_t)v->dims << 8 | v->dtype);
    hash_mix(g, shape_word(v));
    if (v->base == YK_NONE)
        p->base = id;
    g->n_value++;
    return id;
}

/* Initialises a dense value that is no view; false for an illegal shape. */
static bool value_init_dense(yk__graph *g, yk_dtype dtype, uint32_t dims, const int64_t *dim, yk_value *v)
{
    int64_t n = (int64_t)yk_dtype_bytes(dtype);
    if (!n || dims > YK_MAX_DIMS) {
        yk__graph_fail(g, YK_E_ARG, "a value cannot have type number %d and %u dimensions (at most %d)", (int)dtype,
                       dims, YK_MAX_DIMS);
        return false;
    }
    v->dtype = (uint8_t)dtype;
    v->dims = (uint8_t)dims;
    v->flags = 0;
    v->base = v->slot = YK_NONE;
    v->reserved = 0;
    v->offset = 0;
    for (uint32_t i = 0; i < dims; i++) {
        v->dim[i] = dim[i];
        if (dim[i] < 0 || (dim[i] && __builtin_mul_overflow(n, dim[i], &n))) {
            yk__graph_fail(g, YK_E_ARG, "dimension %u of a value cannot be %lld: a value has less than 2^63 bytes", i,
                           (long long)dim[i]);
            return false;
        }
    }
    yk__value_dense_strides(v);
    return true;
}

yk__vid yk__leaf(yk__graph *g, uint32_t slot, uint64_t offset, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    yk_value v;
    if (slot >= g->n_slot)
        return yk__graph_fail(g, YK_E_ARG, "there is no slot %u for a leaf: the graph has %zu", slot, g->n_slot);
    if (!value_init_dense(g, dtype, dims, dim, &v))
        return YK_NONE;
    v.slot = slot;
    v.offset = offset;
    v.flags = YK_VALUE_INPUT;
    return value_push(g, &v);
}

void yk__graph_mark_inverse(yk__graph *g, yk__vid a, yk__vid b)
{
    if (a == YK_NONE || b == YK_NONE)
        return;
    if (yk__grow(&g->inverse, &g->cap_inverse, g->n_inverse + 1, sizeof *g->inverse)) {
        yk__graph_fail(g, YK_E_MEM, "out of memory (inverse %zu of a graph)", g->n_inverse);
        return;
    }
    g->inverse[g->n_inverse++] = (yk__inverse){{g->slot[g->value[a].slot].key, g->slot[g->value[b].slot].key}};
    g->hash = yk__hash_u64(g->hash, (uint64_t)a << 32 | b);
}

yk__vid yk__value_new(yk__graph *g, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    yk_value v;
    return value_init_dense(g, dtype, dims, dim, &v) ? value_push(g, &v) : YK_NONE;
}

yk__vid yk__alias_new(yk__graph *g, yk__vid of, const yk_value *v)
{
    const yk_value *x = &g->value[of];
    yk_value w = *v;
    w.dtype = x->dtype;
    w.flags = x->flags;
    w.base = x->base;
    w.slot = x->slot;
    w.reserved = 0;
    return value_push(g, &w);
}

/* ---- Queries ---- */

int64_t yk__value_count(const yk_value *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->dims; i++)
        n *= (uint64_t)v->dim[i];
    return (int64_t)n;
}

uint64_t yk__value_bytes(const yk_value *v)
{
    return (uint64_t)yk__value_count(v) * yk_dtype_bytes(v->dtype);
}

void yk__value_dense_strides(yk_value *v)
{
    int64_t n = 1;
    for (uint32_t i = v->dims; i-- > 0;) {
        v->stride[i] = n;
        n *= v->dim[i] ? v->dim[i] : 1;
    }
}

bool yk__value_is_dense(const yk_value *v)
{
    int64_t n = 1;
    bool dense = true;
    for (uint32_t i = v->dims; i-- > 0;) {
        if (v->dim[i] == 0)
            return true;
        if (v->dim[i] != 1 && v->stride[i] != n)
            dense = false;
        n *= v->dim[i];
    }
    return dense;
}

bool yk__value_is_broadcast(const yk_value *v)
{
    int64_t n = 1;
    for (uint32_t i = v->dims; i-- > 0;) {
        if (v->dim[i] == 1 || v->stride[i] == 0)
            continue;
        if (v->stride[i] != n)
            return v->dim[i] == 0;
        n *= v->dim[i] ? v->dim[i] : 1;
    }
    return true;
}

/* [M, K] or [B, M, K] with dense rows, or dense columns. The batch is dense, or broadcast (stride 0). */
bool yk__value_is_dot_operand(const yk_value *v)
{
    const uint32_t r = v->dims;
    int64_t m, k, sm, sk;
    if (r < 2 || r > 3)
        return false;
    m = v->dim[r - 2], k = v->dim[r - 1], sm = v->stride[r - 2], sk = v->stride[r - 1];
    if (!m || !k)
        return yk__value_is_dense(v);
    if (r == 3 && v->dim[0] != 1 && v->stride[0] != 0 && v->stride[0] != m * k)
        return false;
    return ((k == 1 || sk == 1) && (m == 1 || sm == k)) || ((m == 1 || sm == 1) && (k == 1 || sk == m));
}

/* i: operand of attention: q, k, v, then keep, bias, key and rows, as far as its flags (attribute 4) have them. */
static uint32_t attention_layout(uint32_t i, const int64_t *attr)
{
    const int64_t flags = attr[4];
    if (i < 3)
        return YK_LAYOUT_ATTENTION;
    return i == 3 + !!(flags & YK_ATT_KEEP) + 0u && (flags & YK_ATT_BIAS) ? YK_LAYOUT_BROADCAST : YK_LAYOUT_DENSE;
}

static const uint8_t layouts[YK_OP_COUNT] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) [YK_OP_##e] = YK_LAYOUT_##layout,
    YK_IMPL_TABLE(X)
#undef X
};

/* The gradient of attention has gout, out and lse before the operands of attention. */
uint32_t yk__operand_layout(uint32_t op, uint32_t i, const int64_t *attr)
{
    const uint32_t layout = layouts[op];
    if (layout < YK_LAYOUT_ATTENTION)
        return layout;
    if (layout == YK_LAYOUT_DOT_MAP)
        return i < 2 ? YK_LAYOUT_DOT : YK_LAYOUT_BROADCAST;
    if (layout == YK_LAYOUT_ATTENTION)
        return attention_layout(i, attr);
    return i < 2 ? YK_LAYOUT_ATTENTION : i == 2 ? YK_LAYOUT_DENSE : attention_layout(i - 3, attr);
}

bool yk__value_fits_layout(const yk_value *v, uint32_t layout)
{
    switch (layout) {
    case YK_LAYOUT_ANY:
        return true;
    case YK_LAYOUT_BROADCAST:
        return yk__value_is_broadcast(v);
    case YK_LAYOUT_DOT:
        return yk__value_is_dot_operand(v);
    case YK_LAYOUT_ATTENTION:
        return v->dims == 4 && (v->dim[3] <= 1 || v->stride[3] == 1);
    default:
        return yk__value_is_dense(v);
    }
}

bool yk__value_view_inside(const yk_value *v, const yk_value *base)
{
    int64_t last = 0, step;
    const int64_t size = yk_dtype_bytes(base->dtype);
    uint64_t begin = v->offset - base->offset;
    if (v->dtype != base->dtype || v->offset < base->offset || begin % (uint64_t)size)
        return false;
    for (uint32_t i = 0; i < v->dims; i++) {
        if (v->dim[i] == 0)
            return true;
        if (v->stride[i] < 0 || __builtin_mul_overflow(v->dim[i] - 1, v->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last))
            return false;
    }
    begin /= (uint64_t)size;
    return begin < (uint64_t)yk__value_count(base) && (uint64_t)last < (uint64_t)yk__value_count(base) - begin;
}

uint32_t yk__strided_results(uint32_t op)
{
    return op == YK_OP_ATTENTION || op == YK_OP_DOT || op == YK_OP_CROSS_ENTROPY_BWD ? 1 : op == YK_OP_ATTENTION_BWD ? 3 : 0;
}

bool yk__has_padded_rows(uint32_t op)
{
    return op == YK_OP_DOT || op == YK_OP_CROSS_ENTROPY || op == YK_OP_CROSS_ENTROPY_BWD;
}

bool yk__takes_padded_rows(uint32_t op, uint32_t i, bool result, bool transposed)
{
    if (result)
        return i == 0 && !transposed && (op == YK_OP_DOT || op == YK_OP_CROSS_ENTROPY_BWD);
    return op == YK_OP_DOT ? i < 2 : !transposed && i == (op == YK_OP_CROSS_ENTROPY_BWD) && yk__has_padded_rows(op);
}

bool yk__value_is_padded(const yk_value *v, bool transposed)
{
    return v->dims == 2 && (v->dtype == YK_BF16 || v->dtype == YK_F16) && v->stride[!transposed] == 1 &&
           v->stride[transposed] >= v->dim[!transposed];
}

bool yk__value_tiles(const yk_value *const *v, uint32_t n, const yk_value *x)
{
    const uint64_t size = yk_dtype_bytes(x->dtype), step = n > 1 ? (v[1]->offset - v[0]->offset) / size : 0;
    int64_t dim[YK_MAX_DIMS + 1], stride[YK_MAX_DIMS + 1], next = 1;
    uint32_t dims = 0, found = 0;
    for (uint32_t k = 0; k < n; k++)
        if (v[k]->offset != x->offset + k * step * size || !yk__value_same_shape(v[k], v[0]) || v[k]->dtype != x->dtype)
            return false;
    for (uint32_t i = 0; i < v[0]->dims; i++) {
        for (uint32_t k = 1; k < n; k++)
            if (v[0]->dim[i] > 1 && v[k]->stride[i] != v[0]->stride[i])
                return false;
        if (v[0]->dim[i] != 1)
            dim[dims] = v[0]->dim[i], stride[dims++] = v[0]->stride[i];
    }
    if (n > 1)
        dim[dims] = n, stride[dims++] = (int64_t)step;
    for (uint32_t i = 0; i < dims; i++) /* from the innermost outwards; each length is used once, since `next` grows */
        for (uint32_t j = 0; j < dims; j++)
            if (stride[j] == next && dim[j] > 1) {
                next *= dim[j];
                found++;
                break;
            }
    return found == dims && next == yk__value_count(x);
}

bool yk__value_same_shape(const yk_value *a, const yk_value *b)
{
    return a->dims == b->dims && !memcmp(a->dim, b->dim, a->dims * sizeof *a->dim);
}

const char *yk__value_shape_text(const yk_value *v, char *buf, size_t n)
{
    size_t at = (size_t)snprintf(buf, n, "%s[", yk__dtype_name(v->dtype));
    for (uint32_t i = 0; i < v->dims && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%lld", i ? ", " : "", (long long)v->dim[i]);
    if (at < n)
        snprintf(buf + at, n - at, "]");
    return buf;
}
