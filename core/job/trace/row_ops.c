/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations over the rows of all ranks: maximum and its row, softmax, and gathered rows (the global batch of contrastive losses). Each
 * consists of sums and maxima over the ranks, so that planner, gradients and transports need nothing new. yk__rows_mixed notes that rows of
 * padding would change the result, so that the data's short batches get none.
 *
 * op_math.c and op_layer.c call it if an operation's axis is the batch; yk_gather_rows is public. All ranks trace it alike, in the step
 * thread.
 */
#include "core/job/trace/row_ops.h"

#include <math.h>

#include "core/job/data_info.h"
#include "core/job/input.h"
#include "core/job/trace/op.h"
#include "core/job/trace/sharding.h"

/* Maximum over all ranks, axes kept, without a gradient. A rank without rows contributes -infinity. */
static yk__vid largest_of(yk__graph *g, yk__vid v, uint32_t axes)
{
    int64_t dim[YK_MAX_DIMS];
    if (v == YK_NONE)
        return YK_NONE;
    const yk_value *x = &g->value[v];
    if (yk__value_count(x))
        return yk__all_max(g, yk__rmax(g, v, axes));
    for (uint32_t i = 0; i < x->dims; i++)
        dim[i] = axes >> i & 1 ? 1 : x->dim[i];
    return yk__all_max(g, yk__fill(g, (double)-INFINITY, YK_F32, x->dims, dim));
}

/*
 * The maximum over all ranks. Its gradient goes evenly to all entries that equal it, on any rank (torch.amax). all_max passes no
 * gradient, so it adds a sum whose value is 0, (v - largest) / ties over the ties, and whose gradient is right.
 */
yk__vid yk__row_max(yk_job *job, yk__vid v, uint32_t axes)
{
    yk__graph *g = &job->step.trace;
    yk__rows_mixed(job, "yk_max");
    const yk__vid lowest = yk__const(g, -3.4028234663852886e38, YK_F32), zero = yk__const(g, 0.0, YK_F32);
    const yk__vid largest = largest_of(g, v, axes);
    const yk__vid hit = yk__bin(g, YK_OP_EQ, v, largest);
    const yk__vid ties = yk__all_reduce(g, yk__sum(g, yk__cast(g, hit, YK_F32), axes));
    const yk__vid over = yk__bin(g, YK_OP_SUB, yk__bin(g, YK_OP_MAX, v, lowest), yk__bin(g, YK_OP_MAX, largest, lowest));
    const yk__vid zero_sum = yk__all_reduce(g, yk__sum(g, yk__select(g, hit, over, zero), axes));
    return yk__bin(g, YK_OP_ADD, largest, yk__bin(g, YK_OP_DIV, zero_sum, yk__bin(g, YK_OP_MAX, ties, yk__const(g, 1.0, YK_F32))));
}

/* e^(v - largest) over its sum; the largest only limits the range, so it needs no gradient. */
yk__vid yk__row_softmax(yk_job *job, yk__vid v, bool logarithm)
{
    yk__graph *g = &job->step.trace;
    const uint32_t axes = 1u << (g->value[v].dims - 1u);
    yk__rows_mixed(job, "yk_softmax");
    const yk__vid low = yk__bin(g, YK_OP_SUB, v, largest_of(g, v, axes));
    const yk__vid power = yk__un(g, YK_OP_EXP, low);
    const yk__vid sum = yk__all_reduce(g, yk__sum(g, power, axes));
    return logarithm ? yk__bin(g, YK_OP_SUB, low, yk__un(g, YK_OP_LOG, sum)) : yk__bin(g, YK_OP_DIV, power, sum);
}

/* ---- By the rows' global numbers ---- */

const char *yk__row_numbers_missing(const yk_job *job)
{
    const yk__step *s = &job->step;
    if (!job->training)
        return "in evaluation (yk_train off) the ranks exchange nothing";
    if (!s->rows_set)
        return "the global numbers of this rank's rows are not known: yk_set_rows says them, loaders call it";
    if (s->global_rows > 1 << 24)
        return "a global micro batch of more than 2^24 rows";
    for (int64_t i = 0; i < s->local_rows; i++)
        if (s->row_number[i] < 0 || s->row_number[i] >= s->global_rows)
            return "yk_set_rows gave a row a number that is none of the global micro batch's";
    return NULL;
}

/* f32: minus the global number of each of this rank's rows, along the axis of v. */
static yk__vid negative_numbers(yk_job *job, yk__vid v, uint32_t axis)
{
    const yk__step *s = &job->step;
    const int64_t n = s->local_rows;
    int64_t dim[YK_MAX_DIMS];
    const uint32_t number = yk__input_new(job, YK_F32, 1, &n, (uint64_t)n * sizeof(float));
    if (number == YK_NONE)
        return YK_NONE;
    for (int64_t i = 0; i < n; i++)
        ((float *)s->input[number].data)[i] = -(float)s->row_number[i];
    for (uint32_t i = 0; i < s->trace.value[v].dims; i++)
        dim[i] = i == axis ? n : 1;
    return yk__reshape_to(&job->step.trace, s->input[number].leaf, s->trace.value[v].dims, dim);
}

/* The least row number among the rows with the largest entry. NaN counts as the largest, as in torch.argmax: it ranks as infinity, and
 * infinity as the largest finite number. A rank without rows gives minus infinity (`none`). It depends on `largest`, so that
 * yk__plan_prune keeps both exchanges. */
yk__vid yk__row_argmax(yk_job *job, yk__vid v, uint32_t axis)
{
    yk__graph *g = &job->step.trace;
    const uint32_t axes = 1u << axis;
    yk__rows_mixed(job, "yk_argmax");
    const yk__vid none = yk__const(g, (double)-INFINITY, YK_F32);
    const yk__vid finite = yk__bin(g, YK_OP_MIN, v, yk__const(g, 3.4028234663852886e38, YK_F32));
    const yk__vid ranked = yk__select(g, yk__bin(g, YK_OP_EQ, v, v), finite, yk__const(g, (double)INFINITY, YK_F32));
    const yk__vid largest = largest_of(g, ranked, axes);
    yk__vid best;
    if (ranked != YK_NONE && !yk__value_count(&g->value[ranked]))
        best = yk__bin(g, YK_OP_ADD, yk__sum(g, v, axes), yk__bin(g, YK_OP_MIN, largest, none));
    else
        best = yk__rmax(g, yk__select(g, yk__bin(g, YK_OP_EQ, ranked, largest), negative_numbers(job, v, axis), none), axes);
    return yk__cast(g, yk__un(g, YK_OP_NEG, yk__all_max(g, best)), YK_I32);
}

/* i32 [global rows]: this rank's row with each global number, or -1. */
static yk__vid rows_by_number(yk_job *job)
{
    const yk__step *s = &job->step;
    const int64_t all = s->global_rows;
    const uint32_t number = yk__input_new(job, YK_I32, 1, &all, (uint64_t)all * sizeof(int32_t));
    if (number == YK_NONE)
        return YK_NONE;
    int32_t *at = s->input[number].data;
    for (int64_t i = 0; i < all; i++)
        at[i] = -1;
    for (int64_t i = 0; i < s->local_rows; i++)
        at[s->row_number[i]] = (int32_t)i;
    return s->input[number].leaf;
}

/* This rank's rows at their places among all rows, zeros elsewhere; its gradient takes the rows out again. A rank without rows
 * expands a sum of no rows, zeros, so that it takes part in the sum over ranks and in that of the gradient. */
static yk__vid rows_in_place(yk_job *job, yk__vid v)
{
    yk__graph *g = &job->step.trace;
    const yk_value x = g->value[v];
    int64_t dim[YK_MAX_DIMS];
    if (yk__value_count(&x))
        return yk__gather(g, yk__dense(g, v), rows_by_number(job));
    for (uint32_t i = 0; i < x.dims; i++)
        dim[i] = i ? x.dim[i] : job->step.global_rows;
    return yk__dense(g, yk__expand(g, yk__sum(g, v, 1), x.dims, dim));
}

/*
 * The sum over the ranks of their rows in place. The rule of all_reduce gives the right gradient: an all_reduce of all ranks'
 * terms, of which each rank takes its rows.
 */
yk_t yk_gather_rows(yk_t x)
{
    yk_job *job = yk__op_enter("yk_gather_rows", 1, &x);
    const yk__vid v = job ? yk__as_float(job, yk__operand(job, "yk_gather_rows", x)) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    const yk__sharding s = yk__sharding_of(job, v);
    if (s.kind != YK__SHARDED)
        return yk__result(job, v, s);
    const char *why = s.axis || s.inner != 1 ? "its rows do not lie along its first axis, one entry each" : yk__row_numbers_missing(job);
    if (why)
        return yk__result(job, v, yk__shard_local(job, v, why));
    yk__rows_mixed(job, "yk_gather_rows");
    const yk__sharding whole = {.kind = YK__REPLICATED, .exchanged = true};
    return yk__result(job, yk__all_reduce(&job->step.trace, rows_in_place(job, v)), whole);
}
