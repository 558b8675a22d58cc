/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations for layers: pools, embedding, dropout, softmax, attention and convolution (yk_conv2d and so on). Each checks its
 * operands, appends nodes to the step's graph, and says how its result lies over the ranks.
 *
 * Models and the user's program call them in the step thread; nothing is computed until the step runs. A wrong operand is an error with
 * the user's line, and gives a handle that later calls ignore.
 */
#include <math.h>

#include "core/job/config_size.h"
#include "core/job/trace/blame.h"
#include "core/job/trace/host_value.h"
#include "core/job/trace/op.h"
#include "core/job/trace/row_ops.h"
#include "core/job/trace/sharding.h"
#include "core/job/trace/step_feed.h"

/* Applies an op with one output. */
static yk__vid apply_op(yk_job *job, yk_op op, uint32_t n_in, const yk__vid *in, uint32_t n_attr, const int64_t *attr)
{
    yk__vid out[4] = {YK_NONE};
    for (uint32_t i = 0; i < n_in; i++)
        if (in[i] == YK_NONE)
            return YK_NONE;
    yk__apply(&job->step.trace, op, n_in, in, n_attr, attr, YK_DTYPE_COUNT, 0, NULL, out, 4);
    return out[0];
}

static bool check_images(yk_job *job, const char *name, yk__vid v)
{
    char text[96];
    if (v == YK_NONE)
        return false;
    if (job->step.trace.value[v].dims == 4)
        return true;
    yk__job_failf(job, YK_E_ARG, "%s: expected images [N, C, H, W], got %s", name,
                  yk__value_shape_text(&job->step.trace.value[v], text, sizeof text));
    return false;
}

static int64_t or_one(int32_t v)
{
    return v ? v : 1;
}

yk_t (yk_conv2d)(yk_t x, yk_t weight, yk_t bias, const yk_conv2d_config *c, size_t size)
{
    yk_conv2d_config whole;
    const yk_t all[3] = {x, weight, bias};
    yk_job *job = yk__op_enter("yk_conv2d", 3, all);
    if (!job)
        return YK__POISON;
    c = yk__config_take(job, "yk_conv2d", c, size, &whole, sizeof whole);
    if (!c)
        return YK__POISON;
    yk__vid in[2] = {yk__as_float(job, yk__operand(job, "yk_conv2d", x)), yk__operand(job, "yk_conv2d", weight)};
    if (!check_images(job, "yk_conv2d", in[0]) || in[1] == YK_NONE)
        return YK__POISON;
    const int64_t attr[7] = {or_one(c->stride[0]),   or_one(c->stride[1]),   c->padding[0],    c->padding[1],
                             or_one(c->dilation[0]), or_one(c->dilation[1]), or_one(c->groups)};
    static const char *const setting[7] = {"stride[0]", "stride[1]", "padding[0]", "padding[1]", "dilation[0]", "dilation[1]", "groups"};
    for (int i = 0; i < 7; i++)
        yk__op_setting(job, setting[i], (double)attr[i]);
    const yk__vid b = yk__is_none(bias) ? YK_NONE : yk__operand(job, "yk_conv2d", bias), rest[2] = {in[1], b};
    const yk__sharding to = yk__shard_rowwise(job, in[0], 0xe, b == YK_NONE ? 1 : 2, rest);
    in[0] = yk__dense(&job->step.trace, in[0]);
    yk__vid y = apply_op(job, YK_OP_CONV2D, 2, in, 7, attr);
    if (y != YK_NONE && !yk__is_none(bias)) {
        const int64_t dim[4] = {1, b == YK_NONE ? 1 : yk__value_count(&job->step.trace.value[b]), 1, 1};
        y = yk__bin(&job->step.trace, YK_OP_ADD, y, yk__reshape_to(&job->step.trace, b, 4, dim));
    }
    return yk__result(job, y, to);
}

static bool check_pool(yk_job *job, const char *name, bool max, yk__vid x, const yk_pool2d_config *c)
{
    if (!check_images(job, name, x))
        return false;
    for (int i = 0; i < 2; i++)
        if (c->kernel[i] < 1 || c->stride[i] < 0 || c->padding[i] < 0 || c->padding[i] >= c->kernel[i]) {
            yk__job_failf(job, YK_E_ARG, "%s: kernel %d, stride %d, padding %d (expected less than the kernel)", name, c->kernel[i],
                          c->stride[i], c->padding[i]);
            return false;
        }
    if (!max && (c->dilation[0] > 1 || c->dilation[1] > 1)) {
        yk__job_failf(job, YK_E_ARG, "%s: an average pool has no dilation", name);
        return false;
    }
    return true;
}

/* ceil_mode: the number of windows along an axis; *over: pixels of the last one beyond the padded edge. A window that begins beyond the
 * image's right edge does not count. */
static int64_t ceil_windows(int64_t n, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation, int64_t *over)
{
    int64_t span = dilation * (kernel - 1) + 1, out = (n + 2 * pad - span + stride - 1) / stride + 1;
    if ((out - 1) * stride >= n + pad)
        out--;
    int64_t need = (out - 1) * stride + span - (n + 2 * pad);
    *over = need > 0 ? need : 0;
    return out;
}

/* 1 / the counted pixels of each window along one axis, as a constant of length n: windows [i*stride - pad, + kernel) cut to [low,
 * high). */
static yk__vid window_weight(yk_job *job, uint32_t axis, int64_t n, int64_t kernel, int64_t stride, int64_t pad, int64_t low,
                             int64_t high)
{
    yk__graph *g = &job->step.trace;
    int64_t dim[4] = {1, 1, 1, 1};
    dim[axis] = n;
    yk__vid at = yk__bin(g, YK_OP_ADD, yk__scale(g, yk__iota(g, axis, YK_F32, 4, dim), (double)stride),
                         yk__const(g, (double)-pad, YK_F32));
    yk__vid end = yk__bin(g, YK_OP_ADD, at, yk__const(g, (double)kernel, YK_F32));
    end = yk__bin(g, YK_OP_MIN, end, yk__const(g, (double)high, YK_F32));
    at = yk__bin(g, YK_OP_MAX, at, yk__const(g, (double)low, YK_F32));
    return yk__un(g, YK_OP_RECIP, yk__bin(g, YK_OP_SUB, end, at));
}

/* For windows beyond the edge: pads with pixels that never win (max), or with zeros that are not counted. */
static yk__vid ceil_pooled(yk_job *job, bool max, yk__vid x, const yk_pool2d_config *c, const int64_t *attr)
{
    yk__graph *g = &job->step.trace;
    int64_t dim[4], begin[4] = {0}, over[2], out[2], size[2];
    yk_value v = g->value[x];
    for (int i = 0; i < 4; i++)
        dim[i] = v.dim[i];
    for (int i = 0; i < 2; i++) {
        size[i] = v.dim[i + 2];
        out[i] = ceil_windows(size[i], attr[i], attr[i + 2], attr[i + 4], max ? attr[i + 6] : 1, &over[i]);
        begin[i + 2] = max ? 0 : attr[i + 4];
        dim[i + 2] += over[i] + (max ? 0 : 2 * attr[i + 4]);
    }
    x = yk__pad(g, x, 4, dim, begin, NULL, max ? (double)-INFINITY : 0.0);
    if (max)
        return apply_op(job, YK_OP_MAX_POOL, 1, &x, 8, attr);
    const int64_t inner[7] = {attr[0], attr[1], attr[2], attr[3], 0, 0, 1};
    yk__vid y = yk__scale(g, apply_op(job, YK_OP_AVG_POOL, 1, &x, 7, inner), (double)(attr[0] * attr[1]));
    for (int i = 0; i < 2; i++) {
        int64_t pad = attr[i + 4], edge = c->exclude_padding ? 0 : pad;
        y = yk__bin(g, YK_OP_MUL, y,
                    window_weight(job, (uint32_t)i + 2, out[i], attr[i], attr[i + 2], pad, -edge, size[i] + edge));
    }
    return y;
}

static yk__vid pool_values(yk_job *job, yk_op op, const char *name, yk__vid x, const yk_pool2d_config *c)
{
    bool max = op == YK_OP_MAX_POOL;
    if (!check_pool(job, name, max, x, c))
        return YK_NONE;
    const int64_t attr[8] = {c->kernel[0],
                             c->kernel[1],
                             c->stride[0] ? c->stride[0] : c->kernel[0],
                             c->stride[1] ? c->stride[1] : c->kernel[1],
                             c->padding[0],
                             c->padding[1],
                             max ? or_one(c->dilation[0]) : !c->exclude_padding,
                             or_one(c->dilation[1])};
    x = yk__dense(&job->step.trace, x);
    if (c->ceil_mode)
        return ceil_pooled(job, max, x, c, attr);
    return apply_op(job, op, 1, &x, max ? 8 : 7, attr);
}

static void pool_compared(yk_job *job, const yk_pool2d_config *c)
{
    static const char *const setting[2][4] = {{"kernel[0]", "stride[0]", "padding[0]", "dilation[0]"},
                                              {"kernel[1]", "stride[1]", "padding[1]", "dilation[1]"}};
    for (int i = 0; i < 2; i++) {
        yk__op_setting(job, setting[i][0], c->kernel[i]);
        yk__op_setting(job, setting[i][1], c->stride[i] ? c->stride[i] : c->kernel[i]);
        yk__op_setting(job, setting[i][2], c->padding[i]);
        yk__op_setting(job, setting[i][3], (double)or_one(c->dilation[i]));
    }
    yk__op_setting(job, "exclude_padding", c->exclude_padding);
    yk__op_setting(job, "ceil_mode", c->ceil_mode);
}

static yk_t pool_images(yk_op op, const char *name, yk_t x, const yk_pool2d_config *c, size_t size)
{
    yk_pool2d_config whole;
    yk_job *job = yk__op_enter(name, 1, &x);
    if (!job)
        return YK__POISON;
    c = yk__config_take(job, name, c, size, &whole, sizeof whole);
    const yk__vid v = c ? yk__as_float(job, yk__operand(job, name, x)) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    const yk__sharding to = yk__shard_rowwise(job, v, 0xc, 0, NULL);
    pool_compared(job, c);
    return yk__result(job, pool_values(job, op, name, v, c), to);
}

yk_t (yk_max_pool2d)(yk_t x, const yk_pool2d_config *c, size_t size)
{
    return pool_images(YK_OP_MAX_POOL, "yk_max_pool2d", x, c, size);
}

yk_t (yk_avg_pool2d)(yk_t x, const yk_pool2d_config *c, size_t size)
{
    return pool_images(YK_OP_AVG_POOL, "yk_avg_pool2d", x, c, size);
}

/* The matrix [from, to] that averages window i = [floor(i*from/to), ceil((i+1)*from/to)): element (l, i) is 1/length if i*from <
 * (l+1)*to and l*to < (i+1)*from. */
static yk__vid window_matrix(yk_job *job, int64_t from, int64_t to)
{
    yk__graph *g = &job->step.trace;
    const int64_t dim[2] = {from, to};
    yk__vid l = yk__iota(g, 0, YK_F32, 2, dim), i = yk__iota(g, 1, YK_F32, 2, dim);
    yk__vid one = yk__const(g, 1.0, YK_F32), zero = yk__const(g, 0.0, YK_F32);
    yk__vid la = yk__scale(g, yk__bin(g, YK_OP_ADD, l, one), (double)to), ia = yk__scale(g, i, (double)from);
    yk__vid lb = yk__scale(g, l, (double)to), ib = yk__scale(g, yk__bin(g, YK_OP_ADD, i, one), (double)from);
    yk__vid in = yk__select(g, yk__bin(g, YK_OP_LT, ia, la),
                            yk__select(g, yk__bin(g, YK_OP_LT, lb, ib), one, zero), zero);
    return yk__bin(g, YK_OP_DIV, in, yk__sum(g, in, 1));
}

/* [A, B, L, n] -> averages over L -> [A, B, n, to]. */
static yk__vid average_axis(yk_job *job, yk__vid x, int64_t to)
{
    static const uint32_t swap[4] = {0, 1, 3, 2};
    yk__graph *g = &job->step.trace;
    if (x == YK_NONE)
        return x;
    x = yk__permute(g, x, swap);
    const yk_value v = g->value[x];
    const int64_t flat[2] = {v.dim[0] * v.dim[1] * v.dim[2], v.dim[3]}, dim[4] = {v.dim[0], v.dim[1], v.dim[2], to};
    yk__vid y = yk__dot(g, yk__reshape_to(g, x, 2, flat), window_matrix(job, v.dim[3], to), false, false);
    return yk__reshape_to(g, y, 4, dim);
}

yk_t yk_adaptive_avg_pool2d(yk_t x, int64_t height, int64_t width)
{
    const char *name = "yk_adaptive_avg_pool2d";
    yk_job *job = yk__op_enter(name, 1, &x);
    yk__vid v = job ? yk__as_float(job, yk__operand(job, name, x)) : YK_NONE;
    if (!job || !check_images(job, name, v))
        return YK__POISON;
    const yk_value u = job->step.trace.value[v];
    if (height < 1 || width < 1) {
        yk__job_failf(job, YK_E_ARG, "%s: output %lld x %lld", name, (long long)height, (long long)width);
        return YK__POISON;
    }
    const yk__sharding to = yk__shard_rowwise(job, v, 0xc, 0, NULL);
    yk__op_setting(job, "height", (double)height);
    yk__op_setting(job, "width", (double)width);
    if (height == 1 && width == 1)
        return yk__result(job, yk__scale(&job->step.trace, yk__sum(&job->step.trace, v, 12), 1.0 / (double)(u.dim[2] * u.dim[3])), to);
    if (u.dim[2] % height == 0 && u.dim[3] % width == 0) {
        const yk_pool2d_config c = {.kernel = {(int32_t)(u.dim[2] / height), (int32_t)(u.dim[3] / width)}};
        return yk__result(job, pool_values(job, YK_OP_AVG_POOL, name, v, &c), to);
    }
    return yk__result(job, average_axis(job, average_axis(job, v, height), width), to);
}

/* A second leaf of the table, which differentiation does not connect to the parameter. */
static yk__vid detach_table(yk_job *job, yk__vid table)
{
    const yk_value v = job->step.trace.value[table];
    return yk__leaf(&job->step.trace, v.slot, v.offset, (yk_dtype)v.dtype, v.dims, v.dim);
}

/* Looks rows of `padding` up in the detached table, other rows in the table. An index of -1 gives a row of zeros and no gradient. */
static yk__vid padded_lookup(yk_job *job, yk__vid table, yk__vid ids, int32_t padding)
{
    yk__graph *g = &job->step.trace;
    yk__vid pad = yk__const(g, (double)padding, YK_I32), none = yk__const(g, -1.0, YK_I32);
    yk__vid is = yk__bin(g, YK_OP_EQ, ids, pad);
    yk__vid rest = yk__gather(g, table, yk__select(g, is, none, ids));
    yk__vid held = yk__gather(g, detach_table(job, table), yk__select(g, is, pad, none));
    return yk__bin(g, YK_OP_ADD, rest, held);
}

/* Range-checks ids that are a direct input, as torch does; -1 is a row of zeros. Computed ids cannot be checked here. */
static bool ids_fit(yk_job *job, yk__vid ids, yk__vid table)
{
    yk__step *step = &job->step;
    const yk_value *x = &step->trace.value[ids], *t = &step->trace.value[table];
    char row[320];
    double n;
    int64_t bad;
    if (!t->dims || !yk__host_labels(job, ids, -1, t->dim[0], &n, &bad) || bad < 0 || step->empty)
        return true;
    const int32_t *id = (const int32_t *)step->input[step->trace.slot[x->slot].key].data + x->offset / sizeof *id;
    yk__row_text(job, x->dims ? bad / (yk__value_count(x) / x->dim[0]) : 0, row, sizeof row);
    yk__job_failf(job, YK_E_ARG, "yk_embedding: id %d of %s is none of the table's %lld rows, 0 to %lld", (int)id[bad], row,
                  (long long)t->dim[0], (long long)t->dim[0] - 1);
    return false;
}

yk_t yk_embedding(yk_t ids, yk_t table, int32_t padding_index)
{
    const yk_t all[2] = {ids, table};
    yk_job *job = yk__op_enter("yk_embedding", 2, all);
    if (!job)
        return YK__POISON;
    yk__vid i = yk__operand(job, "yk_embedding", ids), t = yk__operand(job, "yk_embedding", table);
    if (i == YK_NONE || t == YK_NONE || !ids_fit(job, i, t))
        return YK__POISON;
    const yk__sharding to = yk__shard_gather(job, t, i);
    yk__op_setting(job, "padding_index", padding_index < 0 ? -1.0 : (double)padding_index);
    i = yk__dense(&job->step.trace, yk__cast(&job->step.trace, i, YK_I32));
    if (padding_index < 0)
        return yk__result(job, yk__gather(&job->step.trace, t, i), to);
    if (job->step.trace.value[t].slot == YK_NONE || job->step.trace.value[t].base != t) {
        yk__job_failf(job, YK_E_ARG, "yk_embedding: a padding index needs the table to be a parameter or an input");
        return YK__POISON;
    }
    return yk__result(job, padded_lookup(job, t, i, padding_index), to);
}

bool yk__dropout_wanted(yk_job *job, const char *name, float p)
{
    if (!(p >= 0.0f && p < 1.0f))
        yk__job_failf(job, YK_E_ARG, "%s: probability %g, expected 0 <= p < 1", name, (double)p);
    yk__op_setting(job, "p", (double)p);
    return yk_ok(job) && p > 0.0f && job->training;
}

yk__vid yk__dropout(yk_job *job, yk__vid x, float p, yk__vid rows)
{
    yk__vid in[3] = {yk__dense(&job->step.trace, x), YK_NONE, rows};
    if (rows == YK_NONE || !yk__dropout_key(job, &in[1]))
        return YK_NONE;
    const int64_t attr[2] = {yk_attr_of_f64((double)p), job->step.n_dropout++};
    return apply_op(job, YK_OP_DROPOUT, 3, in, 2, attr);
}

yk_t yk_dropout(yk_t x, float p)
{
    yk_job *job = yk__op_enter("yk_dropout", 1, &x);
    yk__vid v = job ? yk__as_float(job, yk__operand(job, "yk_dropout", x)) : YK_NONE, key, rows;
    if (v == YK_NONE)
        return YK__POISON;
    if (!yk__dropout_wanted(job, "yk_dropout", p))
        return yk__result(job, v, yk__sharding_of(job, v));
    if (job->step.trace.value[v].dims < 1 || !yk__dropout_inputs(job, v, &key, &rows))
        return YK__POISON;
    const yk__sharding to = yk__shard_rowwise(job, v, ~1u, 0, NULL);
    return yk__result(job, yk__dropout(job, v, p, rows), to);
}

static yk_t apply_softmax(const char *name, yk_t x, bool logarithm)
{
    yk_job *job = yk__op_enter(name, 1, &x);
    yk__vid v = job ? yk__as_float(job, yk__operand(job, name, x)) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    const yk_value u = job->step.trace.value[v];
    const int64_t attr = logarithm;
    int64_t flat[2] = {1, u.dims ? u.dim[u.dims - 1] : 1};
    for (uint32_t i = 0; i + 1 < u.dims; i++)
        flat[0] *= u.dim[i];
    const bool over_rows = u.dims && job->training && yk__over_rows(job, v, 1u << (u.dims - 1));
    yk__sharding to = over_rows ? yk__sharding_of(job, v) : yk__shard_rowwise(job, v, u.dims ? 1u << (u.dims - 1) : 0, 0, NULL);
    if (over_rows && to.inner) {
        to.exchanged = true;
        return yk__result(job, yk__row_softmax(job, v, logarithm), to);
    }
    v = yk__reshape_to(&job->step.trace, v, 2, flat);
    return yk__result(job, yk__reshape_to(&job->step.trace, apply_op(job, YK_OP_SOFTMAX, 1, &v, 1, &attr), u.dims, u.dim), to);
}

yk_t yk_softmax(yk_t x)
{
    return apply_softmax("yk_softmax", x, false);
}

yk_t yk_log_softmax(yk_t x)
{
    return apply_softmax("yk_log_softmax", x, true);
}

/* The mask of keys [B, Tk] and the bias lie like q, k and v along the batch or the heads. Along that axis a bias that is equal on all ranks
 * broadcasts. `missing`: leading axes of [B, H, Tq, Tk] that v does not have. */
static void join_attention(yk_job *job, yk__vid v, bool is_mask, yk__sharding *to)
{
    const yk__sharding s = yk__sharding_of(job, v);
    const yk_value *x = &job->step.trace.value[v];
    const uint32_t missing = is_mask || x->dims > 4 ? 0 : 4u - x->dims;
    const bool is_along = to->kind == YK__SHARDED && to->axis >= missing && !(is_mask && to->axis);
    if (s.kind == YK__LOCAL || s.kind == YK__PARTIAL)
        *to = s.kind == YK__LOCAL ? s : yk__shard_local(job, v, "it is a term of a sum over the ranks");
    else if (to->kind != YK__LOCAL && s.kind == YK__SHARDED && !(is_along && s.axis + missing == to->axis) && !s.guessed)
        *to = yk__shard_local(job, v, "its rows are not those of the queries");
    else if (is_along && !(s.kind == YK__SHARDED && s.axis + missing == to->axis) && (is_mask || x->dim[to->axis - missing] != 1))
        *to = yk__shard_local(job, v, "it is the same on all ranks, and has as many entries as this rank has rows");
    else if (to->kind != YK__LOCAL && s.kind == YK__SHARDED && s.guessed && !(is_along && s.axis + missing == to->axis))
        yk__sharding_alike(job, v);
    to->exchanged = to->exchanged || s.exchanged;
}

/* The rows of q, k and v must lie along the batch or the heads, as queries of one rank cannot meet the keys of another. Keys of a single
 * head serve the queries of all heads. */
static yk__sharding shard_attention(yk_job *job, const yk__vid *qkv)
{
    const yk__sharding s = yk__shard_map(job, 3, qkv);
    if (s.kind != YK__SHARDED)
        return s;
    if (s.axis > 1)
        return yk__shard_local(job, qkv[0], "each query meets the keys of all ranks");
    for (uint32_t i = 0; i < (s.axis ? 1u : 3u); i++)
        if (yk__sharding_of(job, qkv[i]).kind != YK__SHARDED)
            return yk__shard_local(job, qkv[i], "it is the same on all ranks, and has as many entries as this rank has rows");
    return s;
}

/* Adds the optional operands after q, k, v; returns their flags, or -1 after a failure. */
static int64_t attention_rest(yk_job *job, const yk_attention_config *c, const yk__vid *qkv, yk__vid *in, uint32_t *n,
                              yk__sharding *to)
{
    yk__graph *g = &job->step.trace;
    const yk_value q = g->value[qkv[0]], k = g->value[qkv[1]];
    int64_t flags = 0;
    if (!yk__is_none(c->key_keep)) {
        yk__vid keep = yk__operand(job, "yk_attention", c->key_keep);
        if (keep == YK_NONE)
            return -1;
        in[(*n)++] = yk__dense(g, yk__cast(g, keep, YK_F32));
        join_attention(job, keep, true, to);
        flags |= YK_ATT_KEEP;
    }
    if (!yk__is_none(c->bias)) {
        const int64_t full[4] = {q.dim[0], q.dim[1], q.dim[2], k.dim[2]};
        yk__vid bias = yk__operand(job, "yk_attention", c->bias);
        if (bias == YK_NONE)
            return -1;
        join_attention(job, bias, false, to);
        in[(*n)++] = yk__expand(g, yk__cast(g, bias, YK_F32), 4, full);
        flags |= YK_ATT_BIAS;
    }
    if (c->dropout > 0.0f && job->training) {
        if (!yk__dropout_inputs(job, qkv[0], &in[*n], &in[*n + 1]))
            return -1;
        *n += 2;
        flags |= YK_ATT_DROP;
    }
    return flags;
}

static void attention_compared(yk_job *job, const yk_attention_config *c, double scale)
{
    yk__op_operand(job, c->key_keep);
    yk__op_operand(job, c->bias);
    yk__op_setting(job, "causal", c->causal);
    yk__op_setting(job, "scale", scale);
    yk__op_setting(job, "dropout", (double)c->dropout);
}

yk_t (yk_attention)(yk_t q, yk_t k, yk_t v, const yk_attention_config *c, size_t size)
{
    yk_attention_config whole;
    const yk_t all[3] = {q, k, v};
    yk_job *job = yk__op_enter("yk_attention", 3, all);
    if (!job)
        return YK__POISON;
    c = yk__config_take(job, "yk_attention", c, size, &whole, sizeof whole);
    if (!c)
        return YK__POISON;
    yk__vid in[7];
    uint32_t n = 3;
    for (int i = 0; i < 3; i++) {
        in[i] = yk__as_float(job, yk__operand(job, "yk_attention", all[i]));
        if (in[i] == YK_NONE)
            return YK__POISON;
        if (job->step.trace.value[in[i]].dims != 4) {
            yk__job_failf(job, YK_E_ARG, "yk_attention: q, k and v are [B, H, T, D]; operand %d has %u dimensions", i + 1,
                          job->step.trace.value[in[i]].dims);
            return YK__POISON;
        }
    }
    if (!(c->dropout >= 0.0f && c->dropout < 1.0f)) {
        yk__job_failf(job, YK_E_ARG, "yk_attention: dropout %g, expected 0 <= p < 1", (double)c->dropout);
        return YK__POISON;
    }
    yk__sharding to = shard_attention(job, in);
    int64_t flags = attention_rest(job, c, in, in, &n, &to), width = job->step.trace.value[in[0]].dim[3];
    if (flags < 0)
        return YK__POISON;
    const double scale = c->scale != 0.0f ? (double)c->scale : 1.0 / sqrt((double)width);
    const bool drop = flags & YK_ATT_DROP;
    attention_compared(job, c, scale);
    const int64_t attr[5] = {c->causal, yk_attr_of_f64(scale), yk_attr_of_f64(drop ? (double)c->dropout : 0.0),
                             drop ? job->step.n_dropout++ : 0, flags};
    return yk__result(job, apply_op(job, YK_OP_ATTENTION, n, in, 5, attr), to);
}
