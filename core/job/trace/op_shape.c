/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations on shapes: views (yk_reshape, yk_permute, yk_slice), and operations that move elements (yk_concat, yk_pad). A view
 * copies nothing.
 *
 * Models and the user's program call them in the step thread; they append nodes to the step's graph. Lengths that change with a rank's
 * rows are treated as rows, so ranks of unlike shares agree.
 */
#include <string.h>

#include "core/job/operand.h"
#include "core/job/trace/op.h"
#include "core/job/trace/sharding.h"

static yk__vid enter_unary(const char *name, yk_t x, yk_job **job)
{
    *job = yk__op_enter(name, 1, &x);
    return *job ? yk__step_value(*job, name, x) : YK_NONE;
}

/* The axis as a number from 0, or -1 after a failure. */
static int32_t axis_of(yk_job *job, const char *name, yk__vid v, int32_t axis)
{
    int32_t dims = job->step.trace.value[v].dims, at = axis < 0 ? axis + dims : axis;
    if (at >= 0 && at < dims)
        return at;
    yk__job_failf(job, YK_E_ARG, "%s: axis %d of a value with %d dimensions", name, axis, dims);
    return -1;
}

/* Adds the result's lengths that ranks compare. Leaves out the rows' axis, and unchanged axes of tokens after it, as packed rows of
 * tokens do not have these. */
static void lengths_compared(yk_job *job, yk__vid v, const yk_value *to, const yk__sharding *s)
{
    const yk_value *x = &job->step.trace.value[v];
    const yk__sharding had = yk__sharding_of(job, v);
    const bool rows = s->kind == YK__SHARDED;
    const bool tokens = rows && had.kind == YK__SHARDED && had.axis + s->axis == 0 && s->inner && x->dims > 1 && to->dims > 1 &&
                        x->dim[1] == to->dim[1];
    const uint32_t lead = !rows ? 0 : s->axis + 1u + tokens;
    yk__op_setting(job, "lengths behind the rows", (double)(to->dims - lead));
    for (uint32_t i = 0; i < to->dims; i++)
        if (i >= lead || i < s->axis)
            yk__op_setting(job, "a length", (double)to->dim[i]);
}

static yk_t reshape_result(yk_job *job, yk__vid v, yk__vid out)
{
    if (out == YK_NONE)
        return yk__handle(job, out);
    const yk_value to = job->step.trace.value[out];
    const yk__sharding s = yk__shard_reshape(job, v, to.dims, to.dim);
    lengths_compared(job, v, &to, &s);
    return yk__result(job, out, s);
}

yk_t yk_reshape(yk_t x, uint32_t dims, const int64_t *dim)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_reshape", x, &job);
    return v == YK_NONE ? YK__POISON : reshape_result(job, v, yk__reshape(&job->step.trace, v, dims, dim));
}

yk_t yk_flatten(yk_t x, int32_t from)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_flatten", x, &job);
    int32_t at = v == YK_NONE ? -1 : axis_of(job, "yk_flatten", v, from);
    if (at < 0)
        return YK__POISON;
    int64_t dim[YK_MAX_DIMS], flat = 1;
    const yk_value *u = &job->step.trace.value[v];
    for (int32_t i = 0; i < at; i++)
        dim[i] = u->dim[i];
    for (int32_t i = at; i < u->dims; i++)
        flat *= u->dim[i];
    dim[at] = flat;
    return reshape_result(job, v, yk__reshape(&job->step.trace, v, (uint32_t)at + 1, dim));
}

yk_t yk_permute(yk_t x, const uint32_t *axis)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_permute", x, &job);
    if (v == YK_NONE)
        return YK__POISON;
    yk__sharding s = yk__sharding_of(job, v);
    const yk__vid out = yk__permute(&job->step.trace, v, axis);
    const uint32_t dims = job->step.trace.value[v].dims;
    for (uint8_t i = 0; out != YK_NONE && i < dims; i++) {
        if (axis[i] == yk__sharding_of(job, v).axis)
            s.axis = i;
        if (axis[i] != i) { /* leading axes that stay are not compared: packed rows have one less */
            yk__op_setting(job, "the axis", yk__axis_from_last(i, dims));
            yk__op_setting(job, "is taken from axis", yk__axis_from_last(axis[i], dims));
        }
    }
    return yk__result(job, out, s);
}

yk_t yk_expand(yk_t x, uint32_t dims, const int64_t *dim)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_expand", x, &job);
    if (v == YK_NONE)
        return YK__POISON;
    const yk_value *u = &job->step.trace.value[v];
    if (dims && dim[0] == job->step.local_rows && (u->dims < dims || u->dim[0] == 1)) /* it is rows from here on */
        v = yk__sum_of_ranks(job, v);
    const yk__sharding s = yk__shard_expand(job, v, dims, dim); /* may turn a guess */
    const bool may_be_rows = dims && yk__sharding_of(job, v).kind == YK__REPLICATED && (u->dims < dims || u->dim[0] == 1);
    const yk__vid out = yk__expand(&job->step.trace, v, dims, dim);
    if (out == YK_NONE)
        return yk__handle(job, out);
    const yk_value to = job->step.trace.value[out];
    lengths_compared(job, v, &to, may_be_rows ? &(yk__sharding){.kind = YK__SHARDED, .inner = 1} : &s);
    return may_be_rows ? yk__result_expanded(job, out, s) : yk__result(job, out, s);
}

/* Adds the slice's settings that ranks compare. A slice of all rows has other rows on each rank; any other length is equal on all ranks. */
static void slice_compared(yk_job *job, yk__vid v, int32_t axis, int64_t begin, int64_t end, int64_t step)
{
    yk__op_setting(job, "axis", yk__axis_from_last(axis, job->step.trace.value[v].dims));
    if (yk__over_rows(job, v, 1u << axis))
        return;
    yk__op_setting(job, "begin", (double)begin);
    yk__op_setting(job, "end", (double)end);
    yk__op_setting(job, "step", (double)step);
}

yk_t yk_slice(yk_t x, int32_t axis, int64_t begin, int64_t end, int64_t step)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_slice", x, &job);
    int32_t at = v == YK_NONE ? -1 : axis_of(job, "yk_slice", v, axis);
    if (at < 0)
        return YK__POISON;
    int64_t n = job->step.trace.value[v].dim[at];
    const bool all = begin == 0 && end == -1 && step == 1;
    if (end == -1)
        end = n;
    if (begin < 0 || end < begin || end > n || step < 1) {
        yk__job_failf(job, YK_E_ARG, "yk_slice: [%lld, %lld) step %lld of an axis of %lld", (long long)begin,
                      (long long)end, (long long)step, (long long)n);
        return YK__POISON;
    }
    yk__sharding s = yk__sharding_of(job, v);
    if (yk__over_rows(job, v, 1u << at) && !all && !(n > 1 && end - begin == n && step == 1))
        s = yk__shard_local(job, v, "it takes some of this rank's rows, which have other numbers among all rows");
    slice_compared(job, v, at, begin, end, step);
    return yk__result(job, yk__slice(&job->step.trace, v, (uint32_t)at, begin, end, step), s);
}

yk_t yk_concat(const yk_t *x, uint32_t n, int32_t axis)
{
    yk__vid v[64];
    yk_job *job = n ? yk__op_enter("yk_concat", n, x) : NULL;
    if (!job)
        return YK__POISON;
    if (n > 64) {
        yk__job_failf(job, YK_E_ARG, "yk_concat of %u values: at most 64", n);
        return YK__POISON;
    }
    for (uint32_t i = 0; i < n; i++)
        if ((v[i] = yk__step_value(job, "yk_concat", x[i])) == YK_NONE)
            return YK__POISON;
    int32_t at = axis_of(job, "yk_concat", v[0], axis);
    if (at < 0)
        return YK__POISON;
    yk__sharding s = yk__sharding_of(job, v[0]);
    bool terms = true;
    for (uint32_t i = 0; i < n; i++)
        terms = terms && yk__sharding_of(job, v[i]).kind == YK__PARTIAL;
    for (uint32_t i = 0; i < n && terms; i++)
        s.exchanged = s.exchanged || yk__sharding_of(job, v[i]).exchanged;
    for (uint32_t i = 0; i < n && !terms; i++)
        v[i] = yk__sum_of_ranks(job, v[i]);
    if (!terms)
        s = yk__shard_concat(job, n, v, (uint32_t)at);
    yk__op_setting(job, "axis", yk__axis_from_last(at, job->step.trace.value[v[0]].dims));
    return yk__result(job, yk__concat(&job->step.trace, n, v, (uint32_t)at), s);
}

yk_t yk_pad(yk_t x, int32_t axis, int64_t before, int64_t after, float value)
{
    yk_job *job;
    yk__vid v = enter_unary("yk_pad", x, &job);
    int32_t at = v == YK_NONE ? -1 : axis_of(job, "yk_pad", v, axis);
    if (at < 0)
        return YK__POISON;
    if (before < 0 || after < 0) {
        yk__job_failf(job, YK_E_ARG, "yk_pad: %lld before, %lld after", (long long)before, (long long)after);
        return YK__POISON;
    }
    int64_t dim[YK_MAX_DIMS], begin[YK_MAX_DIMS] = {0};
    v = value == 0.0f ? v : yk__sum_of_ranks(job, v);
    yk__sharding s = yk__sharding_of(job, v);
    if (yk__over_rows(job, v, 1u << at) && before + after > 0)
        s = yk__shard_local(job, v, "it puts other values between this rank's rows and the next rank's");
    const yk_value *u = &job->step.trace.value[v];
    memcpy(dim, u->dim, sizeof dim);
    yk__op_setting(job, "axis", yk__axis_from_last(at, u->dims));
    yk__op_setting(job, "before", (double)before);
    yk__op_setting(job, "after", (double)after);
    yk__op_setting(job, "value", (double)value);
    dim[at] += before + after;
    begin[at] = before;
    return yk__result(job, yk__pad(&job->step.trace, v, u->dims, dim, begin, NULL, (double)value), s);
}
