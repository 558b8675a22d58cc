/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference evaluation of a graph's nodes, in float64: the driver. simple.c (core/device) calls yk__eval_node_rounded for the start-up
 * probe and yoke-cts, and host.c (core/device) calls yk__eval_node for plugins. Only tests call yk__eval_graph. Training calls it by
 * host->eval_node alone, for an operation that a device lacks. No state; any thread.
 *
 * Every operand is read into a dense array of doubles, the operation computes in double, every result is written once. Simple and slow on
 * purpose, since all tests compare with it.
 */
#include "core/graph/graph_internal.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

/* ---- Elements in memory ---- */

#define FRACTION 52 /* bits behind the point of a double */
#define BIAS 1023

static uint64_t double_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* 2^e (1 + m 2^-FRACTION), for e of normal doubles, faster than ldexp, as every element of every test comes here. */
static double double_of(int e, uint64_t m)
{
    const uint64_t u = (uint64_t)(e + BIAS) << FRACTION | m;
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* The exponent of x; of a number below the normal doubles a smaller one than theirs. */
static int double_exponent(double x)
{
    return (int)(double_bits(x) >> FRACTION & 0x7ff) - BIAS;
}

/* The nearest number with `bits` bits behind the point and exponents from emin on; ties to even. */
static double bits_round(double x, int bits, int emin)
{
    if (!isfinite(x) || x == 0)
        return x;
    const int at = double_exponent(x), e = (at < emin ? emin : at) - bits;
    return nearbyint(x * double_of(-e, 0)) * double_of(e, 0);
}

/* Bits of a small float with `bits` behind the point and exponent bias `bias`; x is representable. */
static uint32_t small_float_encode(double x, int bits, int bias, uint32_t sign)
{
    const int e = double_exponent(x);
    const uint32_t s = signbit(x) ? sign : 0;
    if (e < 1 - bias) /* 0, too */
        return s | (uint32_t)(fabs(x) * double_of(bias - 1 + bits, 0));
    return s | (uint32_t)(e + bias) << bits | (uint32_t)((double_bits(x) & ((1ull << FRACTION) - 1)) >> (FRACTION - bits));
}

static double small_float_decode(uint32_t v, int bits, int bias, uint32_t sign)
{
    const uint32_t e = (v & (sign - 1)) >> bits, m = v & ((1u << bits) - 1);
    const double x = e ? double_of((int)e - bias, (uint64_t)m << (FRACTION - bits)) : m * double_of(1 - bias - bits, 0);
    return v & sign ? -x : x;
}

static uint16_t f16_of(double x)
{
    if (isnan(x))
        return 0x7e00;
    x = bits_round(x, 10, -14);
    if (fabs(x) > 65504)
        return signbit(x) ? 0xfc00 : 0x7c00;
    return (uint16_t)small_float_encode(x, 10, 15, 0x8000);
}

static double f16_to(uint16_t v)
{
    if ((v & 0x7c00) == 0x7c00)
        return v & 0x3ff ? (double)NAN : v & 0x8000 ? -INFINITY : INFINITY;
    return small_float_decode(v, 10, 15, 0x8000);
}

static uint16_t bf16_of(double x)
{
    float f;
    uint32_t u;
    if (isnan(x))
        return 0x7fc0;
    f = (float)bits_round(x, 7, -126);
    memcpy(&u, &f, 4);
    return (uint16_t)(u >> 16);
}

/* fp8 saturates, as ONNX's cast does by default. */
static uint8_t f8_of(double x, bool e5m2)
{
    const double most = e5m2 ? 57344 : 448;
    if (isnan(x))
        return e5m2 ? 0x7e : 0x7f;
    x = bits_round(x, e5m2 ? 2 : 3, e5m2 ? -14 : -6);
    if (fabs(x) > most)
        x = x < 0 ? -most : most;
    return (uint8_t)small_float_encode(x, e5m2 ? 2 : 3, e5m2 ? 15 : 7, 0x80);
}

static double f8_to(uint8_t v, bool e5m2)
{
    if (!e5m2)
        return (v & 0x7f) == 0x7f ? (double)NAN : small_float_decode(v, 3, 7, 0x80);
    if ((v & 0x7c) == 0x7c)
        return v & 3 ? (double)NAN : v & 0x80 ? -INFINITY : INFINITY;
    return small_float_decode(v, 2, 15, 0x80);
}

#define LOAD(type)               \
    {                            \
        type t;                  \
        memcpy(&t, p, sizeof t); \
        return (double)t;        \
    }

double yk__eval_load(uint32_t dtype, const void *p)
{
    uint16_t h;
    float f;
    uint32_t u;
    switch (dtype) {
    case YK_F32:
        LOAD(float)
    case YK_F64:
        LOAD(double)
    case YK_I32:
        LOAD(int32_t)
    case YK_I64:
        LOAD(int64_t)
    case YK_I8:
        LOAD(int8_t)
    case YK_F16:
        memcpy(&h, p, 2);
        return f16_to(h);
    case YK_BF16:
        memcpy(&h, p, 2);
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return f;
    case YK_F8E4M3:
    case YK_F8E5M2:
        return f8_to(*(const uint8_t *)p, dtype == YK_F8E5M2);
    default:
        LOAD(uint8_t)
    }
}

#define STORE(type, value)       \
    {                            \
        type t = (type)(value);  \
        memcpy(p, &t, sizeof t); \
        return;                  \
    }

void yk__eval_store(uint32_t dtype, void *p, double x)
{
    switch (dtype) {
    case YK_F32:
        STORE(float, x)
    case YK_F64:
        STORE(double, x)
    case YK_I32:
        STORE(int32_t, x)
    case YK_I64:
        STORE(int64_t, x)
    case YK_I8:
        STORE(int8_t, x)
    case YK_F16:
        STORE(uint16_t, f16_of(x))
    case YK_BF16:
        STORE(uint16_t, bf16_of(x))
    case YK_F8E4M3:
        STORE(uint8_t, f8_of(x, false))
    case YK_F8E5M2:
        STORE(uint8_t, f8_of(x, true))
    default:
        STORE(uint8_t, x)
    }
}

/* ---- Storage of values ---- */

typedef struct storage {
    const yk_graph *g;
    void *const *slot; /* eval_node: memory in the values' types */
    double **buf;      /* eval_graph: doubles by root value */
    double **local;    /* doubles by value in the body of a map, else NULL */
    uint32_t product_bits; /* yk__eval_node_rounded */
} storage;

static int64_t element_offset(const yk_value *v, int64_t e)
{
    int64_t o = 0;
    for (uint32_t i = v->dims; i-- > 0; e /= v->dim[i])
        o += e % v->dim[i] * v->stride[i];
    return o;
}

/* run_length returns n: each n adjacent elements of v, from a multiple of n on, lie *step elements apart in memory. */
static int64_t run_length(const yk_value *v, int64_t *step)
{
    uint32_t d = v->dims;
    int64_t n = 1;
    while (d > 0 && v->dim[d - 1] == 1)
        d--;
    *step = d ? v->stride[d - 1] : 0;
    for (; d > 0 && (v->dim[d - 1] == 1 || v->stride[d - 1] == n * *step); d--)
        n *= v->dim[d - 1];
    return n;
}

/* The doubles of the root of value v; NULL if it lies in a slot. */
static double *root_of(const storage *store, uint32_t v)
{
    uint32_t root = store->g->value[v].base;
    if (store->local && store->local[root])
        return store->local[root];
    return store->buf ? store->buf[root] : NULL;
}

static char *memory_of(const storage *store, const yk_value *v)
{
    return store->slot && v->slot < store->g->n_slot && store->slot[v->slot] ? (char *)store->slot[v->slot] + v->offset
                                                                             : NULL;
}

/* Nearly all values are f32. */
static void run_load(uint32_t dtype, const char *mem, int64_t stride, int64_t n, double *x)
{
    float f;
    for (int64_t k = 0; k < n && dtype == YK_F32; k++) {
        memcpy(&f, mem + k * stride, sizeof f);
        x[k] = f;
    }
    for (int64_t k = 0; k < n && dtype != YK_F32; k++)
        x[k] = yk__eval_load(dtype, mem + k * stride);
}

static void run_store(uint32_t dtype, char *mem, int64_t stride, int64_t n, const double *x)
{
    for (int64_t k = 0; k < n && dtype == YK_F32; k++) {
        const float f = (float)x[k];
        memcpy(mem + k * stride, &f, sizeof f);
    }
    for (int64_t k = 0; k < n && dtype != YK_F32; k++)
        yk__eval_store(dtype, mem + k * stride, x[k]);
}

static yk_status read_value(const storage *store, uint32_t id, double *x, yk_error *err)
{
    const yk_value *v = &store->g->value[id];
    const int64_t n = yk__value_count(v), size = yk_dtype_bytes(v->dtype);
    int64_t step;
    const int64_t run = run_length(v, &step);
    const double *root = root_of(store, id);
    const char *mem = root ? NULL : memory_of(store, v);
    const int64_t first = (int64_t)(v->offset - store->g->value[v->base].offset) / size;
    if (!root && !mem)
        return yk__fail(err, YK_E_ARG, "evaluation: value %u is used, but nothing wrote it", id);
    for (int64_t i = 0; i < n; i += run) {
        const int64_t at = element_offset(v, i);
        for (int64_t k = 0; k < run && root; k++)
            x[i + k] = root[first + at + k * step];
        if (!root)
            run_load(v->dtype, mem + at * size, step * size, run, x + i);
    }
    return YK_OK;
}

static yk_status write_value(const storage *store, uint32_t id, const double *x, yk_error *err)
{
    const yk_value *v = &store->g->value[id];
    const int64_t n = yk__value_count(v), size = yk_dtype_bytes(v->dtype);
    int64_t step;
    const int64_t run = run_length(v, &step);
    double *root = root_of(store, id);
    char *mem = root ? NULL : memory_of(store, v);
    const int64_t first = (int64_t)(v->offset - store->g->value[v->base].offset) / size;
    if (!root && !mem)
        return yk__fail(err, YK_E_ARG, "evaluation: value %u has no place to be written to", id);
    for (int64_t i = 0; i < n; i += run) {
        const int64_t at = element_offset(v, i);
        for (int64_t k = 0; k < run && root; k++)
            root[first + at + k * step] = x[i + k];
        if (!root)
            run_store(v->dtype, mem + at * size, step * size, run, x + i);
    }
    return YK_OK;
}

/* ---- One node ---- */

static void operands_free(yk__eval *e)
{
    for (uint32_t i = 0; i < e->n_in; i++)
        yk__free(e->x[i]);
    for (uint32_t i = 0; i < e->n_out; i++)
        yk__free(e->y[i]);
}

static yk_status gather_operands(const storage *store, const yk_node *n, yk__eval *e, yk_error *err)
{
    const yk_graph *g = store->g;
    memset(e, 0, sizeof *e);
    if (n->n_in > YK_MAX_OPERANDS || n->n_out > YK_MAX_OUTPUTS)
        return yk__fail(err, YK_E_ARG, "evaluation: a node has %u operands and %u outputs", n->n_in, n->n_out);
    e->op = n->op, e->n_in = n->n_in, e->n_out = n->n_out, e->err = err;
    e->attr = g->attr + n->attr;
    for (uint32_t i = 0; i < n->n_in; i++) {
        uint32_t id = g->index[n->in + i];
        e->x_value[i] = &g->value[id];
        e->x[i] = yk__calloc((size_t)yk__value_count(e->x_value[i]), sizeof(double));
        if (!e->x[i])
            return yk__fail_mem(err, (uint64_t)yk__value_count(e->x_value[i]) * 8, "evaluation");
        if (read_value(store, id, e->x[i], err))
            return err->status;
    }
    for (uint32_t i = 0; i < n->n_out; i++) {
        e->y_value[i] = &g->value[g->index[n->out + i]];
        e->y[i] = yk__calloc((size_t)yk__value_count(e->y_value[i]), sizeof(double));
        if (!e->y[i])
            return yk__fail_mem(err, (uint64_t)yk__value_count(e->y_value[i]) * 8, "evaluation");
    }
    return YK_OK;
}

static yk_status output_accumulate(const storage *store, uint32_t id, yk__eval *e, uint32_t i)
{
    double *old = yk__calloc((size_t)yk__value_count(e->y_value[i]), sizeof(double));
    yk_status st = old ? read_value(store, id, old, e->err) : yk__fail_mem(e->err, 0, "evaluation");
    for (int64_t k = 0; !st && k < yk__value_count(e->y_value[i]); k++)
        e->y[i][k] += old[k];
    yk__free(old);
    return st;
}

#define yk__eval_none NULL
static yk__eval_fn *const evals[YK_OP_COUNT] = {
#define X(e, infer, body, eval, rule, layout, floats, map, cheap, linear, ranks, back) [YK_OP_##e] = yk__eval_##eval,
    YK_IMPL_TABLE(X)
#undef X
};

static void operands_round(yk__eval *e, uint32_t bits)
{
    for (uint32_t i = 0; i < 2; i++)
        for (int64_t k = 0, n = yk__value_count(e->x_value[i]); k < n && yk_dtype_bytes(e->x_value[i]->dtype) > 2; k++)
            e->x[i][k] = bits_round(e->x[i][k], (int)bits - 1, -126);
}

static yk_status run_node(const storage *store, const yk_node *n, yk_error *err)
{
    yk__eval_fn *eval = n->op < YK_OP_COUNT ? evals[n->op] : NULL;
    yk__eval e;
    yk_status st = gather_operands(store, n, &e, err);
    if (!st && !eval)
        st = yk__fail(err, YK_E_ARG, "evaluation: operation number %u, expected below %u", n->op, (unsigned)YK_OP_COUNT);
    if (!st && n->op == YK_OP_DOT && store->product_bits)
        operands_round(&e, store->product_bits);
    if (!st)
        st = eval(&e);
    for (uint32_t i = 0; !st && i < n->n_out; i++) {
        uint32_t id = store->g->index[n->out + i];
        if (n->flags & YK_NODE_ACCUMULATE)
            st = output_accumulate(store, id, &e, i);
        if (!st && store->local && !store->local[id]) {
            store->local[id] = e.y[i];
            e.y[i] = NULL;
        } else if (!st) {
            st = write_value(store, id, e.y[i], err);
        }
    }
    operands_free(&e);
    return st;
}

/* Runs a node with its own body: every body node in turn, with results in temporary arrays; then writes the outputs. */
static yk_status run_body(const storage *outer, const yk_node *n, yk_error *err)
{
    const yk_graph *g = outer->g;
    storage store = *outer;
    yk_status st = YK_OK;
    store.local = yk__calloc(g->n_value, sizeof *store.local);
    if (!store.local)
        return yk__fail_mem(err, g->n_value * sizeof *store.local, "evaluation");
    for (uint32_t i = 0; !st && i < n->n_body; i++)
        st = run_node(&store, &g->node[n->body + i], err);
    for (uint32_t i = 0; !st && i < n->n_out; i++) {
        uint32_t id = g->index[n->out + i];
        const yk_value *v = &g->value[id];
        if (!store.local[id]) {
            st = yk__fail(err, YK_E_ARG, "evaluation: the body of %s does not write value %u",
                          yk__op_info_of(n->op)->name, id);
        } else if (n->flags & YK_NODE_ACCUMULATE) {
            yk__eval e = {.err = err, .y_value = {v}, .y = {store.local[id]}};
            st = output_accumulate(outer, id, &e, 0);
        }
        if (!st)
            st = write_value(outer, id, store.local[id], err);
    }
    for (uint32_t i = 0; i < g->n_value; i++)
        yk__free(store.local[i]);
    yk__free(store.local);
    return st;
}

static yk_status run_any(const storage *store, const yk_node *n, yk_error *err)
{
    return n->n_body ? run_body(store, n, err) : run_node(store, n, err);
}

yk_status yk__eval_node(const yk_graph *g, uint32_t node, void *const *slot, yk_error *err)
{
    return yk__eval_node_rounded(g, node, slot, 0, err);
}

yk_status yk__eval_node_rounded(const yk_graph *g, uint32_t node, void *const *slot, uint32_t product_bits, yk_error *err)
{
    storage store = {.g = g, .slot = slot, .product_bits = product_bits};
    if (node >= g->n_node)
        return yk__fail(err, YK_E_ARG, "evaluation: there is no node %u: the graph has %u", node, g->n_node);
    return run_any(&store, &g->node[node], err);
}

/* ---- A whole graph ---- */

static void load_leaf(const yk_value *v, const void *leaf, double *x)
{
    const int64_t first = (int64_t)v->offset / (int64_t)yk_dtype_bytes(v->dtype);
    const uint32_t type = yk__dtype_is_float(v->dtype) ? YK_F64 : v->dtype;
    const char *p = (const char *)leaf + first * (int64_t)yk_dtype_bytes(type);
    for (int64_t i = 0; i < yk__value_count(v); i++)
        x[i] = yk__eval_load(type, p + i * (int64_t)yk_dtype_bytes(type));
}

static yk_status make_buffers(const yk_graph *g, void *const *leaf, double **buf, yk_error *err)
{
    for (uint32_t i = 0; i < g->n_value; i++) {
        const yk_value *v = &g->value[i];
        if (v->base != i)
            continue;
        buf[i] = yk__calloc((size_t)yk__value_count(v), sizeof(double));
        if (!buf[i])
            return yk__fail_mem(err, (uint64_t)yk__value_count(v) * 8, "evaluation");
        if (v->slot != YK_NONE && v->slot != 0 && leaf[v->slot])
            load_leaf(v, leaf[v->slot], buf[i]);
    }
    return YK_OK;
}

yk_status yk__eval_graph(const yk__graph *g, void *const *leaf, uint32_t n_want, const yk__vid *want,
                         double *const *out, yk_error *err)
{
    yk__graph copy;
    yk_graph s;
    storage store = {.g = &s};
    yk_status st;
    if (g->error.status) {
        *err = g->error;
        return err->status;
    }
    st = yk__graph_copy(g, &copy, err);
    if (st)
        return st;
    st = yk__graph_seal(&copy, &s, err);
    store.buf = st ? NULL : yk__calloc(s.n_value, sizeof *store.buf);
    if (!st && !store.buf)
        st = yk__fail_mem(err, s.n_value * sizeof *store.buf, "evaluation");
    if (!st)
        st = make_buffers(&s, leaf, store.buf, err);
    for (uint32_t i = 0; !st && i < s.n_node; i++)
        st = run_any(&store, &s.node[i], err);
    for (uint32_t i = 0; !st && i < n_want; i++)
        st = read_value(&store, want[i], out[i], err);
    for (uint32_t i = 0; store.buf && i < s.n_value; i++)
        yk__free(store.buf[i]);
    yk__free(store.buf);
    yk__graph_free(&copy);
    return st;
}
