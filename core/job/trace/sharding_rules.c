/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement of an operation's result over the ranks, from its operands: replicated, sharded by rows, a partial sum, or local
 * (sharding.c defines them).
 *
 * The operations (op_*.c) call these rules in the step thread, while they trace a step. A result without a possible placement is local,
 * and a loss that depends on it is an error.
 */
#include "core/job/trace/sharding.h"

#include "core/job/data_info.h"

static const char exchange_off[] = "it is no sum over rows, and in evaluation (yk_train off) the ranks exchange nothing";
static const char same_length[] = "an operand that is the same on all ranks has as many entries as this rank has rows";
static const char rows_as_parameter[] = "rows stand where it takes a parameter; an input that is the same on all ranks is declared by "
                                        "yk_replicated";
static const char packed_rows[] = "yk_pack_tokens ends in rows of zeros, and how many depends on the rank: yk_unpack_tokens first";

static yk__sharding sharding_new(yk__shard_kind kind)
{
    return (yk__sharding){.kind = (uint8_t)kind, .inner = 1};
}

/* Copies the properties that a result inherits from any operand. */
static void take_over(yk__sharding *to, const yk__sharding *from)
{
    to->exchanged = to->exchanged || from->exchanged;
}

static yk__sharding sharding_result(yk__sharding s)
{
    s.guessed = false;
    s.sum_plus_1 = s.guess_plus_1 = 0;
    return s;
}

/* is_local finds the first LOCAL or PARTIAL operand: the result is LOCAL. In training most operations sum PARTIAL operands before they ask
 * (yk__operand). */
static bool is_local(yk_job *job, uint32_t n, const yk__vid *in, yk__sharding *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const yk__sharding s = yk__sharding_of(job, in[i]);
        if (s.kind != YK__LOCAL && s.kind != YK__PARTIAL)
            continue;
        *out = s.kind == YK__LOCAL ? s : yk__shard_local(job, in[i], exchange_off);
        return true;
    }
    return false;
}

/* ---- Elementwise ---- */

static uint32_t dims_of(const yk_job *job, yk__vid v)
{
    return v == YK_NONE ? 0 : job->step.trace.value[v].dims;
}

/* Chooses the result's row axis: a known axis before a guessed one, then the outermost. */
static bool choose_axis(const yk_job *job, uint32_t n, const yk__vid *in, uint32_t dims, yk__sharding *out)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
        const yk__sharding s = yk__sharding_of(job, in[i]);
        const uint8_t axis = (uint8_t)(s.axis + dims - dims_of(job, in[i]));
        if (s.kind != YK__SHARDED || (any && (s.guessed != out->guessed ? s.guessed : axis >= out->axis)))
            continue;
        out->axis = axis;
        out->inner = s.inner;
        out->guessed = s.guessed;
        any = true;
    }
    return any;
}

/* NULL, or the reason why the operand's rows are not the result's. A guess that does not fit was wrong: the operand is alike on all ranks,
 * which compare it. If the operation broadcasts, a length of 1 fits any number of rows. */
static const char *axis_misfit(yk_job *job, yk__vid v, uint32_t dims, const yk__sharding *out, bool broadcasts)
{
    const yk__sharding s = yk__sharding_of(job, v);
    const uint32_t missing = dims - dims_of(job, v);
    if (s.kind == YK__SHARDED && s.axis + missing == out->axis &&
        (s.inner == out->inner || !s.inner || !out->inner || !job->step.local_rows))
        return NULL;
    if (s.kind == YK__SHARDED && !s.guessed)
        return "the rows of one operand do not lie along the axis of the other's, so that rows of different ranks meet";
    if (out->axis >= missing && !(broadcasts && job->step.trace.value[v].dim[out->axis - missing] == 1))
        return same_length;
    if (s.kind == YK__SHARDED)
        yk__sharding_alike(job, v);
    return NULL;
}

static yk__sharding shard_elements(yk_job *job, uint32_t n, const yk__vid *in, bool broadcasts)
{
    yk__sharding out = sharding_new(YK__REPLICATED), local;
    uint32_t dims = 0;
    if (job->team.world == 1)
        return out;
    if (is_local(job, n, in, &local))
        return local;
    for (uint32_t i = 0; i < n; i++) {
        const yk__sharding s = yk__sharding_of(job, in[i]);
        dims = dims_of(job, in[i]) > dims ? dims_of(job, in[i]) : dims;
        take_over(&out, &s);
    }
    if (!choose_axis(job, n, in, dims, &out))
        return sharding_result(out);
    out.kind = YK__SHARDED;
    for (uint32_t i = 0; i < n; i++) {
        const char *why = in[i] == YK_NONE ? NULL : axis_misfit(job, in[i], dims, &out, broadcasts);
        if (why)
            return yk__shard_local(job, in[i], why);
    }
    return sharding_result(out);
}

yk__sharding yk__shard_map(yk_job *job, uint32_t n, const yk__vid *in)
{
    return shard_elements(job, n, in, true);
}

yk__sharding yk__shard_same(yk_job *job, uint32_t n, const yk__vid *in)
{
    return shard_elements(job, n, in, false);
}

/* ---- Row by row ---- */

yk__sharding yk__shard_rowwise(yk_job *job, yk__vid x, uint32_t mixed, uint32_t n_rest, const yk__vid *rest)
{
    yk__sharding s = yk__sharding_of(job, x), local;
    if (job->team.world == 1)
        return s;
    if (is_local(job, 1, &x, &local) || is_local(job, n_rest, rest, &local))
        return local;
    if (s.kind == YK__SHARDED && (mixed >> s.axis & 1))
        return yk__shard_local(job, x, "it mixes the entries of the axis along which the rows lie");
    for (uint32_t i = 0; i < n_rest; i++) {
        const yk__sharding r = yk__sharding_of(job, rest[i]);
        if (r.kind == YK__SHARDED)
            return yk__shard_local(job, rest[i], rows_as_parameter);
        take_over(&s, &r);
    }
    return sharding_result(s);
}

/* ---- Reductions ---- */

yk__sharding yk__shard_drop(yk_job *job, yk__vid v, uint32_t axes, bool keep)
{
    yk__sharding s = yk__sharding_of(job, v);
    if (s.kind == YK__SHARDED && !keep)
        s.axis = (uint8_t)(s.axis - __builtin_popcount(axes & ((1u << s.axis) - 1u)));
    s.sum_plus_1 = 0;
    return s;
}

yk__sharding yk__shard_sum(yk_job *job, yk__vid v, uint32_t axes, bool keep)
{
    yk__sharding s = yk__sharding_of(job, v);
    if (!yk__over_rows(job, v, axes))
        return yk__shard_drop(job, v, axes, keep);
    if (!s.inner)
        return yk__shard_local(job, v, packed_rows);
    yk__rows_mixed(job, "yk_sum");
    s.kind = YK__PARTIAL;
    return sharding_result(s);
}

yk__sharding yk__shard_max(yk_job *job, yk__vid v, uint32_t axes, bool keep)
{
    yk__sharding s = yk__sharding_of(job, v), local;
    if (job->team.world == 1)
        return s;
    if (is_local(job, 1, &v, &local))
        return local;
    if (!yk__over_rows(job, v, axes))
        return yk__shard_drop(job, v, axes, keep);
    if (!s.inner || !job->training)
        return yk__shard_local(job, v, job->training ? packed_rows : exchange_off);
    s.kind = YK__REPLICATED;
    s.exchanged = true;
    return sharding_result(s);
}

/* ---- Shapes ---- */

static int64_t stride_of(uint32_t dims, const int64_t *dim, uint32_t axis)
{
    int64_t n = 1;
    for (uint32_t i = axis + 1; i < dims; i++)
        n *= dim[i];
    return n;
}

/* axis_of_one finds the axis of a single row: the same axis, else one of length `inner`, else the axis that it was merged into. */
static uint32_t axis_of_one(const yk__sharding *s, int64_t stride, uint32_t dims, const int64_t *dim)
{
    if (s->axis < dims && stride_of(dims, dim, s->axis) * s->inner == stride && dim[s->axis] == s->inner)
        return s->axis;
    for (uint32_t i = 0; i < dims; i++)
        if (dim[i] == s->inner && stride_of(dims, dim, i) * s->inner == stride)
            return i;
    for (uint32_t i = 0; i < dims; i++) {
        const int64_t own = stride_of(dims, dim, i);
        if (own <= stride && own * dim[i] >= stride && stride % own == 0)
            return i;
    }
    return dims;
}

/* The axis that holds the row's digit: row r of n has (index / stride) % n == r, in the value's dense order. */
static uint32_t axis_of_digit(int64_t stride, int64_t rows, uint32_t dims, const int64_t *dim)
{
    for (uint32_t i = 0; i < dims; i++) {
        const int64_t own = stride_of(dims, dim, i);
        if (own > 0 && stride % own == 0 && own * dim[i] % (stride * rows) == 0 && dim[i] > 0)
            return i;
    }
    return dims;
}

static uint32_t axis_of_none(uint32_t dims, const int64_t *dim)
{
    uint32_t i = 0;
    while (i < dims && dim[i] != 0)
        i++;
    return i;
}

static bool axis_reshape(const yk_job *job, yk__sharding *s, uint32_t had, const int64_t *old, uint32_t dims, const int64_t *dim)
{
    const yk__step *step = &job->step;
    const int64_t after = stride_of(had, old, s->axis), stride = after * (s->inner ? s->inner : 1);
    uint32_t axis;
    if (!s->inner)
        axis = s->axis < dims && dim[s->axis] == old[s->axis] && stride_of(dims, dim, s->axis) == after ? s->axis : dims;
    else
        axis = step->local_rows == 0   ? axis_of_none(dims, dim)
               : step->local_rows == 1 ? axis_of_one(s, stride, dims, dim)
                                 : axis_of_digit(stride, step->local_rows, dims, dim);
    if (axis >= dims)
        return false;
    if (s->inner && step->local_rows > 0)
        s->inner = stride / stride_of(dims, dim, axis);
    s->axis = (uint8_t)axis;
    return true;
}

yk__sharding yk__shard_reshape(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim)
{
    yk__sharding s = yk__sharding_of(job, v);
    const yk_value *x = &job->step.trace.value[v];
    s.sum_plus_1 = 0;
    if (s.kind != YK__SHARDED || axis_reshape(job, &s, x->dims, x->dim, dims, dim))
        return s;
    return yk__shard_local(job, v, "the new shape takes rows apart, or puts some of them together");
}

yk__sharding yk__shard_expand(yk_job *job, yk__vid v, uint32_t dims, const int64_t *dim)
{
    yk__sharding s = yk__sharding_of(job, v);
    const yk_value *x = &job->step.trace.value[v];
    s.sum_plus_1 = 0;
    if (s.kind == YK__SHARDED && dims >= x->dims && dim[s.axis + dims - x->dims] != x->dim[s.axis]) {
        if (!s.guessed)
            return yk__shard_local(job, v, "it repeats the only row of this rank");
        yk__sharding_alike(job, v); /* a single entry, which the guess took for a row */
        s = yk__sharding_of(job, v);
    }
    if (s.kind == YK__SHARDED) {
        s.axis = (uint8_t)(s.axis + dims - x->dims);
    } else if (s.kind == YK__REPLICATED && dims && (x->dims < dims || x->dim[0] == 1) && dim[0] == job->step.local_rows) {
        s.kind = YK__SHARDED;
        s.guessed = job->step.local_rows > 0;
        s.axis = 0;
        s.inner = 1;
    }
    return s;
}

yk__sharding yk__shard_concat(yk_job *job, uint32_t n, const yk__vid *in, uint32_t axis)
{
    yk__sharding s = yk__shard_same(job, n, in);
    if (s.kind != YK__SHARDED || s.axis != axis)
        return s;
    for (uint32_t i = 0; i < n; i++)
        if (yk__sharding_of(job, in[i]).kind != YK__SHARDED)
            return yk__shard_local(job, in[i], "a value that all ranks share is put between rows");
    return s;
}

/* ---- Products ---- */

/* a [.., m, k] times b [.., k, n]. */
yk__sharding yk__shard_matmul(yk_job *job, yk__vid a, yk__vid b)
{
    const yk__vid in[2] = {a, b};
    const yk__sharding sa = yk__sharding_of(job, a), sb = yk__sharding_of(job, b);
    const uint32_t da = dims_of(job, a), db = dims_of(job, b), dims = da > db ? da : db;
    const bool rows_a = sa.kind == YK__SHARDED, rows_b = sb.kind == YK__SHARDED;
    const bool inner_a = rows_a && sa.axis == da - 1, inner_b = rows_b && sb.axis == db - 2;
    yk__sharding out = sa, local;
    take_over(&out, &sb);
    if (job->team.world == 1)
        return out;
    if ((sa.kind == YK__PARTIAL && sb.kind == YK__REPLICATED) || (sb.kind == YK__PARTIAL && sa.kind == YK__REPLICATED)) {
        out.kind = YK__PARTIAL;
        return sharding_result(out);
    }
    if (is_local(job, 2, in, &local))
        return local;
    if (inner_a && inner_b && (sa.inner == sb.inner || !job->step.local_rows)) {
        yk__rows_mixed(job, "yk_matmul");
        out.kind = YK__PARTIAL;
        return sa.inner && sb.inner ? sharding_result(out) : yk__shard_local(job, a, packed_rows);
    }
    if (inner_a || inner_b)
        return yk__shard_local(job, inner_a ? a : b, "it sums over rows, and the other operand has none along that axis");
    if (rows_a && rows_b && (sa.axis + dims - da != sb.axis + dims - db || sb.axis == db - 1))
        return yk__shard_local(job, b, "each row of one operand meets the other operand's rows on all ranks");
    if (!rows_a && !rows_b)
        return sharding_result(out);
    out.kind = YK__SHARDED;
    out.axis = (uint8_t)(rows_a ? sa.axis + dims - da : sb.axis + dims - db);
    out.inner = rows_a ? sa.inner : sb.inner;
    for (uint32_t i = 0; i < 2 && out.axis + 2u < dims; i++) {
        const char *why = axis_misfit(job, in[i], dims, &out, true);
        if (why)
            return yk__shard_local(job, in[i], why);
    }
    return sharding_result(out);
}

/* Looks up rows of a table [v, ..] by numbers of any shape. */
yk__sharding yk__shard_gather(yk_job *job, yk__vid table, yk__vid index)
{
    const yk__vid in[2] = {table, index};
    yk__sharding s = yk__sharding_of(job, index), t = yk__sharding_of(job, table), local;
    if (job->team.world == 1)
        return s;
    if (is_local(job, 2, in, &local))
        return local;
    take_over(&s, &t);
    if (t.kind != YK__SHARDED)
        return sharding_result(s);
    if (t.axis == 0 || s.kind == YK__SHARDED)
        return yk__shard_local(job, table, "the table has rows of the batch; one that is the same on all ranks is declared by "
                                           "yk_replicated");
    s.kind = YK__SHARDED;
    s.axis = (uint8_t)(t.axis + dims_of(job, index) - 1);
    s.inner = t.inner;
    return sharding_result(s);
}

/* ---- Losses ---- */

yk__sharding yk__shard_labels(yk_job *job, yk__vid logits, yk__vid labels, yk__vid weight)
{
    const yk__vid in[3] = {logits, labels, weight};
    const yk_value *y = &job->step.trace.value[labels], *z = &job->step.trace.value[logits];
    yk__sharding s = yk__sharding_of(job, logits), l = yk__sharding_of(job, labels), w = yk__sharding_of(job, weight), local;
    if (job->team.world == 1)
        return s;
    if (is_local(job, 3, in, &local))
        return local;
    if (w.kind == YK__SHARDED && w.guessed)
        yk__sharding_alike(job, weight);
    else if (w.kind == YK__SHARDED)
        return yk__shard_local(job, weight, rows_as_parameter);
    if (s.kind == YK__SHARDED && s.axis + 1u == z->dims)
        return yk__shard_local(job, logits, "the classes lie along the axis of the rows");
    if (s.kind != l.kind)
        return yk__shard_local(job, s.kind == YK__REPLICATED ? logits : labels, same_length);
    take_over(&s, &w);
    take_over(&s, &l);
    if (s.kind == YK__SHARDED && (!axis_reshape(job, &s, z->dims - 1u, z->dim, y->dims, y->dim) ||
                                  (!l.guessed && s.inner && l.inner && job->step.local_rows > 1 && l.axis != s.axis)))
        return yk__shard_local(job, labels, "the labels' rows are not those of the logits");
    return sharding_result(s);
}

/* The sum of items, or their mean by a count over all ranks, in which every rank counts REPLICATED items. */
yk__sharding yk__shard_total(yk__sharding items, bool mean)
{
    if (items.kind == YK__SHARDED || (mean && items.kind == YK__REPLICATED))
        items.kind = YK__PARTIAL;
    return sharding_result(items);
}
