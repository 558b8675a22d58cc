/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of the trace that the host computes before the step runs, because a count depends on them: labels, class weights and the mask of
 * tokens that count. They are inputs, views of inputs, and simple functions of them.
 *
 * The losses (op_loss.c), the embedding (op_layer.c) and op_pack.c ask for them while a step is traced, in the step thread. A value that
 * follows from parameters cannot be known yet: that is an error.
 */
#include "core/job/trace/host_value.h"

#include <math.h>
#include <string.h>

static bool evaluate_value(yk_job *job, yk__vid v, double *out, int64_t n, int depth);

static double read_element(uint32_t dtype, const void *data, uint64_t byte)
{
    const uint8_t *p = (const uint8_t *)data + byte;
    float f;
    int32_t i;
    switch (dtype) {
    case YK_F32:
        memcpy(&f, p, sizeof f);
        return (double)f;
    case YK_I32:
        memcpy(&i, p, sizeof i);
        return (double)i;
    default:
        return (double)*p;
    }
}

/* The offset in elements of element i of a value, by its strides. */
static int64_t offset_of_element(const yk_value *v, int64_t i)
{
    int64_t at = 0;
    for (uint32_t d = v->dims; d-- > 0;) {
        at += i % v->dim[d] * v->stride[d];
        i /= v->dim[d];
    }
    return at;
}

static bool fail_unknown(yk_job *job, const char *what)
{
    yk__job_failf(job, YK_E_ARG, "labels, class weights and which tokens count must follow from inputs by reshaping, slicing, "
                                 "casting, comparing and choosing, so that the host knows them before the step runs; these come "
                                 "from %s",
                  what);
    return false;
}

/* Allocates n elements; NULL after a failure. */
static double *make_list(yk_job *job, int64_t n)
{
    double *list = yk__calloc((size_t)n + 1, sizeof *list);
    if (!list)
        yk__job_failf(job, YK_E_MEM, "out of memory while counting labels");
    return list;
}

static bool read_input(yk_job *job, yk__vid v, double *out, int64_t n)
{
    yk__step *step = &job->step;
    const yk_value *x = &step->trace.value[v];
    const yk_slot *s = &step->trace.slot[x->slot];
    if (s->kind != YK_SLOT_INPUT || s->key >= step->n_input)
        return fail_unknown(job, s->kind == YK_SLOT_PARAM ? "a parameter" : "a state");
    uint32_t size = yk_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < n; i++)
        out[i] = read_element(x->dtype, step->input[s->key].data, x->offset + (uint64_t)offset_of_element(x, i) * size);
    return true;
}

/* False for an operation that the host cannot compute. */
static bool apply_op(uint32_t op, uint32_t dtype, const double x[3], double *y)
{
    const double a = x[0], b = x[1], c = x[2];
    switch (op) {
    case YK_OP_CAST:
        *y = dtype == YK_I32 || dtype == YK_U8 ? trunc(a) : dtype == YK_BOOL ? a != 0.0 : a;
        return true;
    case YK_OP_NEG:
        *y = -a;
        return true;
    case YK_OP_ABS:
        *y = fabs(a);
        return true;
    case YK_OP_ADD:
        *y = a + b;
        return true;
    case YK_OP_SUB:
        *y = a - b;
        return true;
    case YK_OP_MUL:
        *y = a * b;
        return true;
    case YK_OP_DIV:
        *y = a / b;
        return true;
    case YK_OP_MAX:
        *y = fmax(a, b);
        return true;
    case YK_OP_MIN:
        *y = fmin(a, b);
        return true;
    case YK_OP_LT:
        *y = a < b;
        return true;
    case YK_OP_EQ:
        *y = a == b;
        return true;
    case YK_OP_SELECT:
        *y = a != 0.0 ? b : c;
        return true;
    case YK_OP_COPY:
        *y = a;
        return true;
    default:
        return false;
    }
}

/* All n elements of the output of a node. */
static bool evaluate_node(yk_job *job, const yk_node *node, yk__vid v, double *out, int64_t n, int depth)
{
    const yk__graph *g = &job->step.trace;
    const yk_value *x = &g->value[v];
    if (node->op == YK_OP_FILL || node->op == YK_OP_IOTA) {
        int64_t axis = g->attr[node->attr], inner = 1;
        for (int64_t d = axis + 1; node->op == YK_OP_IOTA && d < x->dims; d++)
            inner *= x->dim[d];
        for (int64_t i = 0; i < n; i++)
            out[i] = node->op == YK_OP_FILL ? yk_attr_f64(g->attr[node->attr]) : (double)(i / inner % x->dim[axis]);
        return true;
    }
    double y;
    if (!apply_op(node->op, x->dtype, (const double[3]){0}, &y))
        return fail_unknown(job, yk__op_info_of(node->op)->name);
    double *in[3] = {NULL};
    bool ok = true;
    for (uint32_t k = 0; k < node->n_in && k < 3 && ok; k++) {
        in[k] = make_list(job, n);
        ok = in[k] && evaluate_value(job, g->index[node->in + k], in[k], n, depth + 1);
    }
    for (int64_t i = 0; i < n && ok; i++)
        apply_op(node->op, x->dtype, (const double[3]){in[0][i], in[1] ? in[1][i] : 0.0, in[2] ? in[2][i] : 0.0}, &out[i]);
    for (int k = 0; k < 3; k++)
        yk__free(in[k]);
    return ok;
}

/* Copies into a part of the root (pad, concat). */
static bool evaluate_writes(yk_job *job, yk__vid root, double *out, int depth)
{
    const yk__graph *g = &job->step.trace;
    for (size_t k = 0; k < g->n_node; k++) {
        const yk_node *node = &g->node[k];
        yk__vid part = g->index[node->out];
        if (node->op != YK_OP_COPY || node->n_in != 2 || yk__trace_root(g, part) != root)
            continue;
        const yk_value *p = &g->value[part];
        int64_t m = yk__value_count(p), from = (int64_t)(p->offset - g->value[root].offset) / yk_dtype_bytes(p->dtype);
        double *v = make_list(job, m);
        bool ok = v && evaluate_value(job, g->index[node->in], v, m, depth + 1);
        for (int64_t i = 0; i < m && ok; i++)
            out[from + offset_of_element(p, i)] = v[i];
        yk__free(v);
        if (!ok)
            return false;
    }
    return true;
}

static bool evaluate_value(yk_job *job, yk__vid v, double *out, int64_t n, int depth)
{
    const yk__graph *g = &job->step.trace;
    yk__vid root = yk__trace_root(g, v);
    if (depth > 64)
        return fail_unknown(job, "too long a chain of operations");
    if (g->value[root].slot != YK_NONE)
        return read_input(job, v, out, n);
    for (size_t k = g->n_node; k-- > 0;) {
        const yk_node *node = &g->node[k];
        if (node->n_out != 1 || g->index[node->out] != root)
            continue;
        int64_t all = yk__value_count(&g->value[root]), from = (int64_t)(g->value[v].offset - g->value[root].offset);
        double *whole = make_list(job, all);
        bool ok = whole && evaluate_node(job, node, root, whole, all, depth) && evaluate_writes(job, root, whole, depth);
        from /= yk_dtype_bytes(g->value[v].dtype);
        for (int64_t i = 0; i < n && ok; i++)
            out[i] = whole[from + offset_of_element(&g->value[v], i)];
        yk__free(whole);
        return ok;
    }
    return fail_unknown(job, "an operation with several results");
}

bool yk__host_values(yk_job *job, yk__vid v, double *out, int64_t n)
{
    return evaluate_value(job, v, out, n, 0);
}

bool yk__host_labels(yk_job *job, yk__vid v, int64_t other_than, int64_t classes, double *n, int64_t *bad)
{
    yk__step *step = &job->step;
    const yk_value *x = &step->trace.value[v];
    const yk_slot *s = x->slot == YK_NONE ? NULL : &step->trace.slot[x->slot];
    int64_t count = 0, outside = 0, all = yk__value_count(x);
    if (!s || s->kind != YK_SLOT_INPUT || s->key >= step->n_input || x->dtype != YK_I32 || !yk__value_is_dense(x))
        return false;
    const int32_t *y = (const int32_t *)step->input[s->key].data + x->offset / sizeof *y;
    for (int64_t i = 0; i < all; i++)
        count += y[i] != other_than, outside += y[i] != other_than && (y[i] < 0 || y[i] >= classes);
    *bad = -1;
    for (int64_t i = 0; i < all && outside && *bad < 0; i++)
        if (y[i] != other_than && (y[i] < 0 || y[i] >= classes))
            *bad = i;
    *n = (double)count;
    return true;
}
