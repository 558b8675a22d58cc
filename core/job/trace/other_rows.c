/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites the trace of a step to another number of rows. Values and nodes are appended once more, in the same order. Inputs take the new
 * length, and the operations' own inference gives it to their results.
 *
 * A program can then be planned and compiled before a batch of that size comes (decision 0095). tests/unit/job/other_rows.c compares hashes
 * of rewritten and traced graphs. Step thread.
 *
 * An axis holds rows where its length changes. Axes of views follow from their strides over the root's axis of rows. An axis of stride 0
 * follows from the other operands of the node that reads it. Inputs that the core made for a batch (packed tokens, row numbers of
 * yk_gather_rows) have no rule, and a job of one rank has no placements: such traces are refused at their inputs.
 */
#include "core/job/trace/other_rows.h"

#include <string.h>

#include "core/job/trace/sharding.h"

#define OUTPUTS 8

typedef struct rewriting {
    const yk_job *job;
    const yk__graph *from;
    yk__graph *to;
    int64_t had, rows; /* the trace's rows, and the new number */
    uint32_t *reader;  /* by value: the first node that reads it, from 1; 0 for none */
} rewriting;

/* The length of an axis that holds rows; -1 if it is no multiple of the trace's. */
static int64_t length_of_rows(const rewriting *r, int64_t n)
{
    return n % r->had ? -1 : n / r->had * r->rows;
}

static yk__sharding placement_of(const rewriting *r, yk__vid v)
{
    return v < r->job->step.cap_sharding ? r->job->step.sharding[v] : (yk__sharding){0};
}

/* Gives the rows' axis of a placed value its new length; false if the value has no such axis. */
static bool placed_lengths(const rewriting *r, yk__vid v, int64_t *dim)
{
    const yk__sharding s = placement_of(r, v);
    if (s.kind != YK__SHARDED || s.axis >= r->from->value[v].dims)
        return false;
    dim[s.axis] = length_of_rows(r, r->from->value[v].dim[s.axis]);
    return true;
}

/* ---- Leaves ---- */

/* Finds the input whose leaf it is; NULL if there is none. */
static const yk__step_input *input_of(const rewriting *r, yk__vid v)
{
    const yk__step *step = &r->job->step;
    for (size_t i = 0; i < step->n_input; i++)
        if (!step->input[i].scalars && step->input[i].leaf == v)
            return &step->input[i];
    return NULL;
}

/* Gives a leaf's axis of rows its new length; false if it is not certain that there is one, or none. */
static bool leaf_lengths(const rewriting *r, yk__vid v, int64_t *dim)
{
    const yk__step *step = &r->job->step;
    const yk__step_input *in = input_of(r, v);
    if (!in || (step->key_input != YK_NONE && v == step->key_leaf))
        return true;
    if (v == step->rows_leaf && step->rows_input != YK_NONE) {
        dim[0] = r->rows;
        return step->rows_set && r->from->value[v].dim[0] == r->had;
    }
    return in->from_user && (placed_lengths(r, v, dim) || placement_of(r, v).kind == YK__REPLICATED);
}

static bool leaf_rewrite(rewriting *r, yk__vid v)
{
    yk_value x = r->from->value[v];
    if (!leaf_lengths(r, v, x.dim))
        return false;
    while (r->to->n_slot <= x.slot) {
        const yk_slot *s = &r->from->slot[r->to->n_slot];
        const bool own = s->kind == YK_SLOT_INPUT && r->to->n_slot == x.slot && input_of(r, v);
        yk__slot_new(r->to, (yk_slot_kind)s->kind, own ? yk__value_bytes(&x) : s->bytes, s->key);
    }
    return yk__leaf(r->to, x.slot, x.offset, (yk_dtype)x.dtype, x.dims, x.dim) == v;
}

/* ---- Views ---- */

/* The place of rows in a rewritten root: strides in elements from row to row, and over all rows, before and after. */
typedef struct root_rows {
    bool any;
    int64_t row, had, now;
} root_rows;

/* Without a placement the rows are an axis's outermost digit. */
static bool root_find(const rewriting *r, yk__vid root, root_rows *rows)
{
    const yk_value *x = &r->from->value[root], *y = &r->to->value[root];
    const yk__sharding s = placement_of(r, root);
    *rows = (root_rows){0};
    for (uint32_t i = 0; i < x->dims; i++) {
        if (x->dim[i] == y->dim[i])
            continue;
        if (rows->any || length_of_rows(r, x->dim[i]) != y->dim[i])
            return false;
        const int64_t row = (s.kind == YK__SHARDED && s.inner ? s.inner : x->dim[i] / r->had) * x->stride[i];
        *rows = (root_rows){.any = true, .row = row, .had = row * r->had, .now = row * r->rows};
    }
    return yk__value_is_dense(x);
}

/* Moves a stride or an offset past the rows that lie before it. */
static int64_t place_of(const root_rows *rows, int64_t at)
{
    return rows->any ? at / rows->had * rows->now + at % rows->had : at;
}

static bool axis_has_rows(const root_rows *rows, const yk_value *x, uint32_t i)
{
    return rows->any && x->stride[i] && x->stride[i] <= rows->row && x->stride[i] * x->dim[i] >= rows->had;
}

/* The new length of axis i of an operand, if it is known yet; 0 if not. */
static int64_t operand_length(const rewriting *r, yk__vid v, uint32_t i)
{
    const yk_value *x = &r->from->value[v];
    root_rows rows;
    if (!x->stride[i] || x->base >= r->to->n_value)
        return 0;
    if (v < r->to->n_value)
        return r->to->value[v].dim[i];
    return root_find(r, x->base, &rows) && axis_has_rows(&rows, x, i) ? length_of_rows(r, x->dim[i]) : x->dim[i];
}

/* The length that the other operands of its first reader give to an axis of stride 0; the present one if they give none. */
static int64_t broadcast_length(const rewriting *r, yk__vid v, uint32_t i)
{
    const yk_value *x = &r->from->value[v];
    const yk_node *n = r->reader[v] ? &r->from->node[r->reader[v] - 1] : NULL;
    for (uint32_t k = 0; n && k < n->n_in; k++) {
        const yk__vid other = r->from->index[n->in + k];
        const yk_value *y = &r->from->value[other];
        const int64_t length = y->dims == x->dims && y->dim[i] == x->dim[i] ? operand_length(r, other, i) : 0;
        if (length)
            return length;
    }
    return x->dim[i];
}

static bool view_rewrite(rewriting *r, yk__vid v)
{
    const yk_value *x = &r->from->value[v], *root = &r->from->value[x->base];
    const int64_t each = (int64_t)yk_dtype_bytes(x->dtype), at = (int64_t)(x->offset - root->offset) / each;
    yk_value y = *x;
    root_rows rows;
    if (!root_find(r, x->base, &rows))
        return false;
    for (uint32_t i = 0; i < x->dims; i++) {
        if (axis_has_rows(&rows, x, i))
            y.dim[i] = length_of_rows(r, x->dim[i]);
        else if (!x->stride[i] && !placement_of(r, v).kind)
            y.dim[i] = broadcast_length(r, v, i);
        y.stride[i] = place_of(&rows, x->stride[i]);
        if (y.dim[i] < 0)
            return false;
    }
    y.offset = root->offset + (uint64_t)(place_of(&rows, at) * each);
    return yk__alias_new(r->to, x->base, &y) == v;
}

/* ---- Nodes ---- */

static bool node_rewrite(rewriting *r, const yk_node *n)
{
    const uint32_t *in = r->from->index + n->in, *out = r->from->index + n->out;
    const int64_t *attr = r->from->attr + n->attr;
    yk_value y = r->from->value[out[0]];
    yk__vid made[OUTPUTS];
    r->to->stream = n->stream;
    if (y.base != out[0]) /* a copy into a part of a value */
        return yk__node_new(r->to, (yk_op)n->op, n->flags, n->n_in, in, n->n_out, out, n->n_attr, attr) != YK_NONE;
    placed_lengths(r, out[0], y.dim);
    return yk__apply(r->to, (yk_op)n->op, n->n_in, in, n->n_attr, attr, (yk_dtype)y.dtype, y.dims, y.dim, made, OUTPUTS) == n->n_out &&
           !memcmp(made, out, n->n_out * sizeof *made);
}

/* True if the result has the lengths that its placement says. */
static bool is_as_placed(const rewriting *r, yk__vid v)
{
    const yk_value *x = &r->from->value[v], *y = &r->to->value[v];
    int64_t dim[YK_MAX_DIMS];
    memcpy(dim, x->dim, sizeof dim);
    if (!placed_lengths(r, v, dim) && placement_of(r, v).kind != YK__REPLICATED && placement_of(r, v).kind != YK__PARTIAL)
        return true;
    return !memcmp(dim, y->dim, y->dims * sizeof *dim);
}

/* ---- The trace ---- */

static bool is_guessed(const rewriting *r, yk__vid v)
{
    const yk__step_input *in = input_of(r, r->from->value[v].base);
    return placement_of(r, v).guessed && !(in && in->of_data);
}

/* Appends the next value, or the next node with its results. A node's first result is the next value, but for a copy into a part. */
static bool append_next(rewriting *r, size_t *node)
{
    const yk__vid v = (yk__vid)r->to->n_value;
    const yk_node *n = *node < r->from->n_node ? &r->from->node[*node] : NULL;
    const yk__vid first = n ? r->from->index[n->out] : YK_NONE;
    if (n && (first < v || (first == v && r->from->value[v].base == v))) {
        ++*node;
        return node_rewrite(r, n);
    }
    if (v >= r->from->n_value)
        return false;
    const yk_value *x = &r->from->value[v];
    return x->base != v ? view_rewrite(r, v) : x->slot != YK_NONE && leaf_rewrite(r, v);
}

static bool trace_rewrite(rewriting *r)
{
    size_t node = 0;
    for (size_t i = r->from->n_node; i-- > 0;)
        for (uint32_t k = 0; k < r->from->node[i].n_in; k++)
            r->reader[r->from->index[r->from->node[i].in + k]] = (uint32_t)i + 1;
    while (r->to->n_value < r->from->n_value || node < r->from->n_node) {
        const size_t before = r->to->n_value;
        if (!append_next(r, &node) || r->to->error.status || r->to->n_value > r->from->n_value)
            return false;
        for (size_t v = before; v < r->to->n_value; v++)
            if (is_guessed(r, (yk__vid)v) || !is_as_placed(r, (yk__vid)v))
                return false;
    }
    return r->to->n_slot == r->from->n_slot;
}

bool yk__trace_with_rows(const yk_job *job, int64_t rows, yk__graph *out)
{
    const yk__step *step = &job->step;
    rewriting r = {.job = job, .from = &step->trace, .to = out, .had = step->local_rows, .rows = rows};
    if (r.had < 2 || rows < 2 || step->trace.error.status)
        return false;
    yk__graph_clear(out);
    r.reader = yk__calloc(step->trace.n_value + 1, sizeof *r.reader);
    const bool done = r.reader && trace_rewrite(&r);
    yk__free(r.reader);
    return done;
}
