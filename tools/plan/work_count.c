/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the operations, bytes and elements of a planned step's graph, node by node. `yoke estimate-memory` and `yoke bench` print them,
 * and cost.c turns them into seconds. Main thread; the job may plan only, or run.
 */
#include "tools/plan/work_count.h"

#include <stdio.h>
#include <string.h>

const char *const work_names[WORK_FIELDS] = {
#define X(name, unit) #name,
    WORK_TABLE(X)
#undef X
    "trained", "sliced", "pulled"};

static const yk_value *operand_of(const yk_graph *g, const yk_node *n, uint32_t i)
{
    return &g->value[g->index[n->in + i]];
}

static const yk_value *result_of(const yk_graph *g, const yk_node *n, uint32_t i)
{
    return &g->value[g->index[n->out + i]];
}

static double count_of(const yk_value *v)
{
    return (double)yk__value_count(v);
}

static double product_operations(const yk_graph *g, const yk_node *n)
{
    const yk_value *a = operand_of(g, n, 0);
    return a->dims ? 2 * count_of(result_of(g, n, 0)) * (double)a->dim[a->dims - 1] : 0;
}

/* gy or y, whose elements each take a multiply-add for every weight of their channel. */
static double convolution_operations(const yk_graph *g, const yk_node *n)
{
    const bool forward = n->op == YK_OP_CONV2D, weight = n->op == YK_OP_CONV2D_DW;
    const yk_value *y = forward ? result_of(g, n, 0) : operand_of(g, n, 0);
    const yk_value *w = weight ? result_of(g, n, 0) : operand_of(g, n, 1);
    return 2 * count_of(y) * count_of(w) / (double)w->dim[0];
}

/* Two products forward, five backward; a causal mask leaves half. */
static double attention_operations(const yk_graph *g, const yk_node *n)
{
    const bool backward = n->op == YK_OP_ATTENTION_BWD;
    const yk_value *q = operand_of(g, n, backward ? 3 : 0), *k = operand_of(g, n, backward ? 4 : 1);
    const double pairs = count_of(q) * (double)k->dim[k->dims - 2];
    return (backward ? 10 : 4) * pairs * (g->attr[n->attr] ? 0.5 : 1);
}

static bool is_special(uint32_t op)
{
    const yk__op_info *info = yk__op_info_of(op);
    return info && info->tol == YK_TOL_TRANS && op != YK_OP_MAP;
}

/* Largest operand or result: the elements that a reduction or a softmax looks at. */
static double widest_of(const yk_graph *g, const yk_node *n)
{
    double most = 0;
    for (uint32_t i = 0; i < n->n_in; i++)
        most = count_of(operand_of(g, n, i)) > most ? count_of(operand_of(g, n, i)) : most;
    for (uint32_t i = 0; i < n->n_out; i++)
        most = count_of(result_of(g, n, i)) > most ? count_of(result_of(g, n, i)) : most;
    return most;
}

static void count_node(work *w, const yk_graph *g, const yk_node *n)
{
    switch (n->op) {
    case YK_OP_DOT: w->products += product_operations(g, n); break;
    case YK_OP_CONV2D:
    case YK_OP_CONV2D_DX:
    case YK_OP_CONV2D_DW: w->convolutions += convolution_operations(g, n); break;
    case YK_OP_ATTENTION:
    case YK_OP_ATTENTION_BWD: w->attention += attention_operations(g, n); break;
    case YK_OP_SOFTMAX:
    case YK_OP_CROSS_ENTROPY:
    case YK_OP_CROSS_ENTROPY_BWD: w->special += widest_of(g, n); break;
    default: w->special += is_special(n->op) ? widest_of(g, n) : 0;
    }
}

/* A broadcast dimension of an operand (stride 0) is one element in memory. */
static double read_bytes(const yk_value *v)
{
    double bytes = yk_dtype_bytes(v->dtype);
    for (uint32_t d = 0; d < v->dims; d++)
        bytes *= v->stride[d] || !v->dim[d] ? (double)v->dim[d] : 1;
    return bytes;
}

/* A look-up reads and writes the rows that it names, not the table. */
static double moved_bytes(const yk_graph *g, const yk_node *n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n->n_out; i++)
        sum += (double)yk__value_bytes(result_of(g, n, i)) * (n->flags & YK_NODE_ACCUMULATE ? 2 : 1);
    if (n->op == YK_OP_GATHER)
        return 2 * sum;
    for (uint32_t i = 0; i < n->n_in; i++)
        sum += read_bytes(operand_of(g, n, i));
    return sum;
}

void work_add(work *w, const yk_graph *g)
{
    for (uint32_t i = 0; i < g->n_node; i++) {
        const yk_node *n = &g->node[i];
        w->nodes++;
        w->moved += moved_bytes(g, n);
        count_node(w, g, n);
        for (uint32_t k = 0; k < n->n_body; k++)
            count_node(w, g, &g->node[n->body + k]);
    }
}

static double operations_of(const work *w)
{
    return w->products + w->convolutions + w->attention;
}

/* A training's micro batch has more operations than an evaluation; rows of text have several plans, of which the largest counts. */
static void see_plan(void *arg, const yk__plan *plan)
{
    work *best = arg, w = {0};
    for (uint32_t i = 0; i < plan->n_segment; i++)
        work_add(&w, &plan->segment[i].graph);
    for (uint32_t i = 0; i < plan->n_action; i++)
        w.pulled += plan->action[i].kind == YK__ACTION_PULL ? (double)plan->action[i].count : 0;
    if (operations_of(&w) > operations_of(best) || (operations_of(&w) == operations_of(best) && w.moved > best->moved))
        *best = w;
}

work work_count(const yk_job *job)
{
    work w = {0};
    yk__engine_stats s = {0};
    if (!job->engine)
        return w;
    yk__engine_each_plan(job->engine, see_plan, &w);
    yk__engine_stats_get(job->engine, &s);
    w.trained = (double)s.trained_elements;
    w.sliced = (double)s.sliced_bytes;
    w.pulled = yk__engine_is_pulled(job->engine) ? w.pulled : 0;
    return w;
}

void work_print(const double *fields)
{
    for (int i = 0; i < WORK_FIELDS; i++)
        printf("%s\"%s\": %.0f", i ? ", " : "{", work_names[i], fields[i]);
    printf("}");
}
