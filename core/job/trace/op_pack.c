/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations on rows of tokens without padding (yk_pack_tokens, yk_unpack_tokens). BERT calls them in the step thread, while a
 * step is traced.
 *
 * The host knows the mask before the step runs. So packing is a look-up by two vectors of row numbers that are made here: the token of each
 * packed row, and the packed row of each token. The vectors are inverse, which the planner uses: the gradient of one look-up is the other.
 */
#include <string.h>

#include "core/job/input.h"
#include "core/job/operand.h"
#include "core/job/trace/host_value.h"
#include "core/job/trace/op.h"
#include "core/job/trace/sharding.h"

#define PARTS 32 /* packed rows come in multiples of 1/32 of all tokens, as each number of rows needs its own program */

static int64_t packed_rows(const double *keep, int64_t tokens)
{
    const int64_t unit = tokens / PARTS > 1 ? tokens / PARTS : 1;
    int64_t n = 0;
    for (int64_t i = 0; i < tokens; i++)
        n += keep[i] != 0.0;
    n = n ? (n + unit - 1) / unit * unit : unit; /* a graph has no values without elements */
    return n < tokens ? n : tokens;
}

/* Makes an i32 vector of the step. */
static int32_t *index_vector(yk_job *job, int64_t n, uint32_t *number)
{
    *number = yk__input_new(job, YK_I32, 1, &n, (uint64_t)n * sizeof(int32_t));
    return *number == YK_NONE ? NULL : job->step.input[*number].data;
}

static void fill_lists(const double *keep, int64_t tokens, int64_t n, int32_t *token, int32_t *row)
{
    int32_t at = 0;
    for (int64_t i = 0; i < tokens; i++) {
        row[i] = keep[i] != 0.0 ? at : -1;
        if (keep[i] != 0.0)
            token[at++] = (int32_t)i;
    }
    for (int64_t i = at; i < n; i++)
        token[i] = -1;
}

static bool make_lists(yk_job *job, yk__packing *p, const double *keep)
{
    yk__step *step = &job->step;
    const int64_t tokens = p->rows * p->width;
    uint32_t a, b;
    p->n = packed_rows(keep, tokens);
    if (!index_vector(job, p->n, &a) || !index_vector(job, tokens, &b)) /* the second call may move the list of inputs, not their data */
        return false;
    fill_lists(keep, tokens, p->n, step->input[a].data, step->input[b].data);
    p->token_input = a;
    p->token = step->input[a].leaf;
    p->row = step->input[b].leaf;
    yk__graph_mark_inverse(&step->trace, p->token, p->row);
    return true;
}

static bool check_keep(yk_job *job, const char *name, const yk_value *v)
{
    char text[96];
    if (v->dims != 2)
        yk__job_failf(job, YK_E_ARG, "%s: which tokens count is [rows, tokens], got %s", name, yk__value_shape_text(v, text, sizeof text));
    else if (yk__value_count(v) > INT32_MAX)
        yk__job_failf(job, YK_E_ARG, "%s: expected at most %d tokens, got %lld: take fewer rows", name, INT32_MAX,
                      (long long)yk__value_count(v));
    return yk_ok(job);
}

/* The step's packing by `keep`; NULL after a failure. */
static const yk__packing *packing_of(yk_job *job, const char *name, yk_t keep)
{
    yk__step *step = &job->step;
    const yk__graph *g = &step->trace;
    const yk__vid v = yk__step_value(job, name, keep);
    yk__packing *p;
    if (v == YK_NONE || !check_keep(job, name, &g->value[v]))
        return NULL;
    for (size_t i = 0; i < step->n_packing; i++)
        if (step->packing[i].keep == v)
            return &step->packing[i];
    const int64_t tokens = yk__value_count(&g->value[v]);
    if (yk__grow(&step->packing, &step->cap_packing, step->n_packing + 1, sizeof *step->packing) ||
        yk__grow(&step->lists.label, &step->lists.cap_label, (size_t)tokens + 1, sizeof *step->lists.label)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in %s", name);
        return NULL;
    }
    p = &step->packing[step->n_packing];
    *p = (yk__packing){.keep = v, .rows = g->value[v].dim[0], .width = g->value[v].dim[1], .number = YK_NONE};
    if (!yk__host_values(job, v, step->lists.label, tokens) || !make_lists(job, p, step->lists.label))
        return NULL;
    return &step->packing[step->n_packing++];
}

/* x with one row for each entry of `lead`, then its other dimensions. */
static yk__vid rows_of(yk_job *job, yk__vid x, uint32_t lead)
{
    const yk_value v = job->step.trace.value[x];
    int64_t dim[YK_MAX_DIMS] = {1};
    for (uint32_t i = 0; i < v.dims; i++)
        dim[i < lead ? 0 : i - lead + 1] = i < lead ? dim[0] * v.dim[i] : v.dim[i];
    return yk__reshape(&job->step.trace, x, v.dims - lead + 1, dim);
}

static void wrong_shape(yk_job *job, const char *name, const yk_value *x, const yk__packing *p, bool packed)
{
    char text[96];
    yk__value_shape_text(x, text, sizeof text);
    if (packed)
        yk__job_failf(job, YK_E_ARG, "%s: expected the %lld rows of yk_pack_tokens first, got %s", name, (long long)p->n, text);
    else
        yk__job_failf(job, YK_E_ARG, "%s: expected [%lld, %lld, ..] as which tokens count, got %s", name, (long long)p->rows,
                      (long long)p->width, text);
}

/* Sharding of rows that are or were packed: they and `keep` lie along the first axis. */
static yk__sharding along_rows(yk_job *job, yk__vid v, yk__vid keep, yk__sharding s)
{
    static const char along_another[] = "the tokens that count are rows, and lie along another axis";
    const yk__sharding k = yk__sharding_of(job, keep);
    if (job->team.world == 1 || s.kind == YK__LOCAL)
        return s;
    if (s.kind != YK__SHARDED || s.axis != 0)
        return yk__shard_local(job, v, along_another);
    if (k.kind == YK__LOCAL)
        return k;
    return k.kind == YK__SHARDED && k.axis == 0 ? s : yk__shard_local(job, keep, along_another);
}

int64_t yk_packed_count(yk_t keep)
{
    yk_job *job = yk__op_enter("yk_packed_count", 1, &keep);
    const yk__packing *p = job ? packing_of(job, "yk_packed_count", keep) : NULL;
    return p ? p->n : 0;
}

yk_t yk_pack_tokens(yk_t x, yk_t keep)
{
    const yk_t all[2] = {x, keep};
    yk_job *job = yk__op_enter("yk_pack_tokens", 2, all);
    const yk__packing *p = job ? packing_of(job, "yk_pack_tokens", keep) : NULL;
    const yk__vid v = p ? yk__operand(job, "yk_pack_tokens", x) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    const yk_value *u = &job->step.trace.value[v];
    if (u->dims < 2 || u->dim[0] != p->rows || u->dim[1] != p->width) {
        wrong_shape(job, "yk_pack_tokens", u, p, false);
        return YK__POISON;
    }
    yk__sharding to = yk__shard_reshape(job, v, u->dims, u->dim);
    to.inner = 0;
    return yk__result_moved(job, yk__gather(&job->step.trace, rows_of(job, v, 2), p->token), along_rows(job, v, p->keep, to));
}

yk_t yk_unpack_tokens(yk_t x, yk_t keep)
{
    const yk_t all[2] = {x, keep};
    yk_job *job = yk__op_enter("yk_unpack_tokens", 2, all);
    const yk__packing *p = job ? packing_of(job, "yk_unpack_tokens", keep) : NULL;
    const yk__vid v = p ? yk__operand(job, "yk_unpack_tokens", x) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    const yk_value u = job->step.trace.value[v];
    if (u.dims < 1 || u.dims == YK_MAX_DIMS || u.dim[0] != p->n) {
        wrong_shape(job, "yk_unpack_tokens", &u, p, true);
        return YK__POISON;
    }
    int64_t dim[YK_MAX_DIMS] = {p->rows, p->width};
    memcpy(dim + 2, u.dim + 1, (u.dims - 1) * sizeof *dim);
    yk__sharding to = along_rows(job, v, p->keep, yk__sharding_of(job, v));
    to.inner = 1;
    to.sum_plus_1 = 0;
    yk__graph *g = &job->step.trace;
    return yk__result_moved(job, yk__reshape(g, yk__gather(g, yk__dense(g, v), p->row), u.dims + 1, dim), to);
}

/* Row numbers for dropout: token t of global row r is r * width + t, so that each element drops as in [rows, width, vector]. */
static yk__vid numbers_of(yk_job *job, uint32_t which)
{
    yk__step *step = &job->step;
    yk__packing *p = &step->packing[which];
    uint32_t number;
    if (p->number != YK_NONE)
        return p->number;
    int32_t *to = index_vector(job, p->n, &number);
    const int32_t *token = to ? step->input[p->token_input].data : NULL;
    for (int64_t i = 0; to && i < p->n; i++) {
        const int64_t row = token[i] < 0 ? 0 : token[i] / p->width;
        const int64_t global = step->rows_set && p->rows == step->local_rows ? step->row_number[row] : row;
        const int64_t at = token[i] < 0 ? 0 : global * p->width + token[i] % p->width;
        if (at > INT32_MAX) {
            yk__job_failf(job, YK_E_ARG, "yk_dropout_packed: token %lld of row %lld is beyond 2^31", (long long)(at % p->width),
                          (long long)global);
            return YK_NONE;
        }
        to[i] = (int32_t)at;
    }
    return to ? p->number = step->input[number].leaf : YK_NONE;
}

yk_t yk_dropout_packed(yk_t x, float p, yk_t keep)
{
    const yk_t all[2] = {x, keep};
    yk_job *job = yk__op_enter("yk_dropout_packed", 2, all);
    const yk__packing *k = job ? packing_of(job, "yk_dropout_packed", keep) : NULL;
    const yk__vid v = k ? yk__as_float(job, yk__operand(job, "yk_dropout_packed", x)) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    if (!job->step.trace.value[v].dims || job->step.trace.value[v].dim[0] != k->n) {
        wrong_shape(job, "yk_dropout_packed", &job->step.trace.value[v], k, true);
        return YK__POISON;
    }
    yk__op_again(job, "yk_dropout", 1, &x);
    if (!yk__dropout_wanted(job, "yk_dropout_packed", p))
        return yk_ok(job) ? yk__result(job, v, yk__sharding_of(job, v)) : YK__POISON;
    const yk__sharding to = yk__sharding_of(job, v);
    return yk__result(job, yk__dropout(job, v, p, numbers_of(job, (uint32_t)(k - job->step.packing))), to);
}
