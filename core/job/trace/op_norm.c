/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public operations yk_layer_norm and yk_batch_norm. Batch statistics are over the rows of all ranks, by sums inside the step. Running
 * statistics are states, which assign.c updates after the step.
 *
 * Models and the user's program call them in the step thread; they append nodes to the step's graph.
 */
#include "core/job/data_info.h"
#include "core/job/trace/count.h"
#include "core/job/trace/op.h"
#include "core/job/trace/sharding.h"

yk_t yk_layer_norm(yk_t x, yk_t gamma, yk_t beta, float eps)
{
    const yk_t all[3] = {x, gamma, beta};
    yk_job *job = yk__op_enter("yk_layer_norm", 3, all);
    if (!job)
        return YK__POISON;
    yk__vid v = yk__as_float(job, yk__operand(job, "yk_layer_norm", x)), in[3], out[3] = {YK_NONE};
    if (v == YK_NONE)
        return YK__POISON;
    const yk_value u = job->step.trace.value[v];
    const int64_t attr = yk_attr_of_f64((double)eps);
    yk__op_setting(job, "eps", (double)eps);
    int64_t flat[2] = {1, u.dims ? u.dim[u.dims - 1] : 1};
    uint32_t n = 1;
    for (uint32_t i = 0; i + 1 < u.dims; i++)
        flat[0] *= u.dim[i];
    const yk__vid rest[2] = {yk__is_none(gamma) ? YK_NONE : yk__operand(job, "yk_layer_norm", gamma),
                             yk__is_none(beta) ? YK_NONE : yk__operand(job, "yk_layer_norm", beta)};
    const yk__sharding to = yk__shard_rowwise(job, v, u.dims ? 1u << (u.dims - 1) : 0, 2, rest);
    in[0] = yk__reshape_to(&job->step.trace, v, 2, flat);
    if (!yk__is_none(gamma))
        in[n++] = rest[0];
    bool inside = n == 2 && !yk__is_none(beta);
    if (inside)
        in[n++] = rest[1];
    for (uint32_t i = 0; i < n; i++)
        if (in[i] == YK_NONE)
            return YK__POISON;
    yk__apply(&job->step.trace, YK_OP_LAYER_NORM, n, in, 1, &attr, YK_DTYPE_COUNT, 0, NULL, out, 3);
    yk__vid y = out[0];
    if (!inside && !yk__is_none(beta))
        y = yk__bin(&job->step.trace, YK_OP_ADD, y, rest[1]);
    return yk__result(job, yk__reshape_to(&job->step.trace, y, u.dims, u.dim), to);
}

/* Row r of a statistics value [3, C], as [C]. */
static yk__vid stats_row(yk_job *job, yk__vid stats, int64_t r, int64_t channels)
{
    return yk__reshape_to(&job->step.trace, yk__slice(&job->step.trace, stats, 0, r, r + 1, 1), 1, &channels);
}

/* mean, sum((x - mean)^2) and count per channel: of this rank's rows (bn_stats), of all ranks' (all_stats). */
static yk__vid stats_of(yk_job *job, yk_op op, yk__vid x, yk__vid shift)
{
    yk__vid out = YK_NONE;
    const yk__vid in[2] = {yk__dense(&job->step.trace, x), shift};
    if (in[0] != YK_NONE && shift != YK_NONE)
        yk__apply(&job->step.trace, op, 2, in, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &out, 1);
    return out;
}

/* Casts to an integer and back, so that no gradient passes. */
static yk__vid whole_numbers(yk__graph *g, yk__vid v)
{
    return yk__cast(g, yk__cast(g, v, YK_I32), YK_F32);
}

/*
 * A number near the mean of each channel, so that sums of squares about it do not cancel: the mean of this rank's first row, rounded to
 * multiples of 2^-12. One row costs almost nothing, and unlike the running mean it is close from the first step. i32 holds such multiples
 * below 2^19. From 2^18 on each f32 is one, so the part beyond 2^18 needs no rounding, and its sums are exact.
 */
static yk__vid near_mean(yk_job *job, yk__vid x, yk__vid running, int64_t channels)
{
    yk__graph *g = &job->step.trace;
    yk__vid first = g->value[x].dim[0] > 1 ? yk__slice(g, x, 0, 0, 1, 1) : x;
    yk__vid m = stats_row(job, stats_of(job, YK_OP_BN_STATS, first, running), 0, channels);
    yk__vid most = yk__const(g, 0x1p18, YK_F32), least = yk__const(g, -0x1p18, YK_F32);
    yk__vid near = yk__bin(g, YK_OP_MAX, yk__bin(g, YK_OP_MIN, m, most), least), beyond = yk__bin(g, YK_OP_SUB, m, near);
    return yk__bin(g, YK_OP_ADD, yk__scale(g, whole_numbers(g, yk__scale(g, near, 0x1p12)), 0x1p-12), beyond);
}

typedef struct batch_stats {
    yk__vid mean, var, n; /* [C]; var biased */
} batch_stats;

/* A value that is equal on all ranks counts once. */
static batch_stats batch_statistics(yk_job *job, yk__vid x, bool is_alike, yk__vid running, int64_t channels)
{
    yk__graph *g = &job->step.trace;
    yk__vid s = stats_of(job, is_alike ? YK_OP_BN_STATS : YK_OP_ALL_STATS, x, near_mean(job, x, running, channels));
    batch_stats b = {.mean = stats_row(job, s, 0, channels), .n = whole_numbers(g, stats_row(job, s, 2, channels))};
    b.var = yk__bin(g, YK_OP_DIV, stats_row(job, s, 1, channels), b.n);
    return b;
}

/* Sharding of statistics over all ranks' rows. */
static const yk__sharding global = {.kind = YK__REPLICATED};

/* old + momentum * (now - old), assigned to the state. */
static void update_state(yk_job *job, yk_t state, yk__vid old, yk__vid now, yk__vid momentum)
{
    yk__graph *g = &job->step.trace;
    const yk__vid v = yk__bin(g, YK_OP_ADD, old, yk__bin(g, YK_OP_MUL, yk__bin(g, YK_OP_SUB, now, old), momentum));
    if (v != YK_NONE)
        yk__assign_result(job, state, yk__result(job, v, global));
}

/* Running values take the unbiased variance, n/(n-1) times the biased one. momentum < 0: the mean over all batches,
 * 1 / (count + 1). */
static void update_running(yk_job *job, const yk_batch_norm_state *r, yk__vid mean, yk__vid var, const batch_stats *b,
                           double momentum)
{
    yk__graph *g = &job->step.trace;
    yk__vid one = yk__const(g, 1.0, YK_F32), count = YK_NONE, m = yk__const(g, momentum, YK_F32);
    yk__vid less = yk__bin(g, YK_OP_MAX, yk__bin(g, YK_OP_SUB, b->n, one), one);
    if (!yk__is_none(r->count)) {
        count = yk__operand(job, "yk_batch_norm", r->count);
        count = count == YK_NONE ? count : yk__bin(g, YK_OP_ADD, count, yk__const(g, 1.0, YK_I32));
    } else if (momentum < 0.0) {
        yk__job_failf(job, YK_E_ARG, "yk_batch_norm: a cumulative average (momentum below 0) needs the count");
    }
    if (momentum < 0.0)
        m = yk__un(g, YK_OP_RECIP, yk__cast(g, count, YK_F32));
    update_state(job, r->mean, mean, b->mean, m);
    update_state(job, r->var, var, yk__bin(g, YK_OP_MUL, b->var, yk__bin(g, YK_OP_DIV, b->n, less)), m);
    if (count != YK_NONE)
        yk__assign_result(job, r->count, yk__result(job, count, global));
}

/* [C] as [1, C, 1, ..]. */
static yk__vid per_channel(yk_job *job, yk__vid v, uint32_t dims, int64_t channels)
{
    int64_t dim[YK_MAX_DIMS];
    for (uint32_t i = 0; i < dims; i++)
        dim[i] = i == 1 ? channels : 1;
    return v == YK_NONE ? v : yk__reshape_to(&job->step.trace, v, dims, dim);
}

static yk__vid as_channels(yk_job *job, yk__vid x, int64_t channels)
{
    const yk_value u = job->step.trace.value[x];
    int64_t dim[3] = {u.dim[0], channels, 1};
    for (uint32_t i = 2; i < u.dims; i++)
        dim[2] *= u.dim[i];
    return yk__reshape_to(&job->step.trace, x, 3, dim);
}

/* (x - mean) * (gamma / sqrt(var + eps)) + beta: one pass over x when fused. */
static yk__vid normalise_channels(yk_job *job, yk__vid x, yk__vid mean, yk__vid var, yk_t gamma, yk_t beta, float eps)
{
    yk__graph *g = &job->step.trace;
    uint32_t dims = g->value[x].dims;
    int64_t channels = g->value[x].dim[1];
    yk__vid scale = yk__un(g, YK_OP_RSQRT, yk__bin(g, YK_OP_ADD, var, yk__const(g, (double)eps, YK_F32)));
    if (!yk__is_none(gamma))
        scale = yk__bin(g, YK_OP_MUL, scale, yk__operand(job, "yk_batch_norm", gamma));
    yk__vid y = yk__bin(g, YK_OP_SUB, x, per_channel(job, mean, dims, channels));
    y = yk__bin(g, YK_OP_MUL, y, per_channel(job, scale, dims, channels));
    if (!yk__is_none(beta))
        y = yk__bin(g, YK_OP_ADD, y, per_channel(job, yk__operand(job, "yk_batch_norm", beta), dims, channels));
    return y;
}

/* values: of each channel of the call's x, from all ranks. */
static bool values_check(yk_job *job, uint32_t call, double values)
{
    yk_error err = YK_ERROR_INIT;
    if (!call || values != 1.0)
        return true;
    yk__fail(&err, YK_E_ARG, "node %u (batch_norm): expected more than one value for each channel in training, got one from all ranks "
             "together, whose variance is 0: give it larger batches or images", call);
    yk__fail_node(&err, call);
    yk__job_fail(job, &err);
    return false;
}

bool yk__batch_norm_check(yk_job *job, double values)
{
    return values_check(job, job->step.norm_call, values);
}

/* Records the number of this rank's values per channel; the count over all ranks is known once counts are exchanged (count.c). Values that
 * are equal on all ranks count once, so they are checked here. */
static bool batch_note(yk_job *job, const yk_value *x, int64_t channels, bool is_alike)
{
    yk__step *step = &job->step;
    const double values = (double)(yk__value_count(x) / channels);
    yk__rows_mixed(job, "yk_batch_norm");
    if (is_alike || job->team.world == 1)
        return values_check(job, step->n_call, values);
    const double own = step->empty ? 0.0 : values;
    if (!step->norm_call || own < step->norm_values) {
        step->norm_call = step->n_call;
        step->norm_values = own;
    }
    return true;
}

yk_t yk_batch_norm(yk_t x, yk_t gamma, yk_t beta, yk_batch_norm_state running, float momentum, float eps)
{
    const yk_t all[5] = {x, gamma, beta, running.mean, running.var};
    yk_job *job = yk__op_enter("yk_batch_norm", 5, all);
    if (!job)
        return YK__POISON;
    yk__vid v = yk__as_float(job, yk__operand(job, "yk_batch_norm", x));
    yk__vid mean = yk__operand(job, "yk_batch_norm", running.mean), var = yk__operand(job, "yk_batch_norm", running.var);
    if (v == YK_NONE || mean == YK_NONE || var == YK_NONE)
        return YK__POISON;
    int64_t channels = job->step.trace.value[v].dims >= 2 ? job->step.trace.value[v].dim[1] : -1;
    if (yk__value_count(&job->step.trace.value[mean]) != channels || yk__value_count(&job->step.trace.value[var]) != channels) {
        char text[96];
        yk__job_failf(job, YK_E_ARG, "yk_batch_norm: x is %s, its axis 1 must be the length of the running values, %lld",
                      yk__value_shape_text(&job->step.trace.value[v], text, sizeof text),
                      (long long)yk__value_count(&job->step.trace.value[mean]));
        return YK__POISON;
    }
    const yk__vid rest[4] = {mean, var, yk__is_none(gamma) ? YK_NONE : yk__operand(job, "yk_batch_norm", gamma),
                             yk__is_none(beta) ? YK_NONE : yk__operand(job, "yk_batch_norm", beta)};
    const yk__sharding to = yk__shard_rowwise(job, v, 2, 4, rest);
    yk__op_operand(job, running.count);
    yk__op_setting(job, "momentum", momentum != 0.0f ? (double)momentum : 0.1);
    yk__op_setting(job, "eps", (double)eps);
    if (!job->training)
        return yk__result(job, normalise_channels(job, v, mean, var, gamma, beta, eps), to);
    const bool is_alike = job->team.world > 1 && to.kind == YK__REPLICATED;
    if (!batch_note(job, &job->step.trace.value[v], channels, is_alike))
        return YK__POISON;
    batch_stats b = batch_statistics(job, as_channels(job, v, channels), is_alike, mean, channels);
    update_running(job, &running, mean, var, &b, momentum != 0.0f ? (double)momentum : 0.1);
    if (!yk_ok(job))
        return YK__POISON;
    return yk__result(job, normalise_channels(job, v, b.mean, b.var, gamma, beta, eps), to);
}
