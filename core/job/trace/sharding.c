/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement of a step's values over the ranks, so that each rank's trace is its part of the computation of one process. The operations
 * (op_*.c) ask and set it while a step is traced, in the step thread.
 *
 * Every value is one of the following, in the words of PyTorch's DTensor.
 *
 *   REPLICATED  equal on all ranks: parameters, constants, inputs without rows, and values that depend on only these
 *   SHARDED     this rank's rows of the value, along one axis: computed row by row
 *   PARTIAL     this rank's term of a sum over the ranks: a sum over rows, and values linear in one
 *   LOCAL       a function of this rank's rows that is no part of a global value: no loss may depend on it
 *
 * An operation that is not linear in a PARTIAL operand takes its sum over the ranks (yk__sum_of_ranks), which is REPLICATED. To a PARTIAL
 * operand each rank adds its share of a REPLICATED one.
 *
 * Gradients. Let L be the loss of all ranks, and g the gradient that one rank's sweep finds at a value. Every rule keeps these invariants.
 *
 *   SHARDED     g is dL/d(these rows).
 *   PARTIAL     g is dL/d(the sum), equal on all ranks.
 *   REPLICATED  the g of all ranks add up to dL/d(value). Parameters are REPLICATED, and their g are added up at the end.
 *
 * The seeds start so: 1 at a PARTIAL loss; this rank's share at a REPLICATED one, and the shares add up to 1. Operations on rows give
 * REPLICATED operands their own rows' terms. A sum over rows passes its g to each row. An all_reduce receives the terms of dL/d(sum), and
 * its rule adds them up, so the PARTIAL operand before it gets the whole. A share of a REPLICATED value passes on that share of dL/d(sum),
 * and the shares add up.
 *
 * In evaluation the ranks exchange nothing, so that one rank may read a value alone. A value that would need an exchange is LOCAL.
 */
#include "core/job/trace/sharding.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/job/input.h"
#include "core/job/operand.h"

#define REASONS 64

/* ---- The table ---- */

static bool is_leaf(const yk_job *job, yk__vid v)
{
    return job->step.trace.value[v].slot != YK_NONE && job->step.trace.value[v].base == v;
}

yk__sharding yk__sharding_of(const yk_job *job, yk__vid v)
{
    const yk__sharding replicated = {.kind = YK__REPLICATED}, unknown = {.kind = YK__LOCAL, .reason = REASONS};
    if (job->team.world == 1 || v == YK_NONE)
        return replicated;
    if (v < job->step.cap_sharding && job->step.sharding[v].kind)
        return job->step.sharding[v];
    return is_leaf(job, v) ? replicated : unknown; /* a parameter, a state, a number */
}

static bool sharding_put(yk_job *job, yk__vid v, yk__sharding s)
{
    yk__step *step = &job->step;
    const size_t had = step->cap_sharding;
    if (yk__grow(&step->sharding, &step->cap_sharding, (size_t)v + 1, sizeof *step->sharding)) {
        yk__job_failf(job, YK_E_MEM, "out of memory while tracing");
        return false;
    }
    memset(step->sharding + had, 0, (step->cap_sharding - had) * sizeof *step->sharding);
    step->sharding[v] = s;
    return true;
}

static bool is_same(const yk__sharding *a, const yk__sharding *b)
{
    return a->kind == b->kind && (a->kind != YK__SHARDED || (a->axis == b->axis && a->inner == b->inner));
}

static bool is_set(const yk_job *job, yk__vid v)
{
    return is_leaf(job, v) || (v < job->step.cap_sharding && job->step.sharding[v].kind);
}

/* True if the value is an operand's own value, already placed as requested. */
static bool is_placed(const yk_job *job, yk__vid v, const yk__sharding *s)
{
    const yk__sharding had = yk__sharding_of(job, v);
    return is_set(job, v) && is_same(&had, s);
}

static yk__vid sharding_place(yk_job *job, yk__vid v, yk__sharding s)
{
    s.sum_plus_1 = 0;
    if (is_placed(job, v, &s))
        return v;
    if (is_set(job, v)) { /* a view that equals its operand, as there is one row */
        yk__vid in = v;
        yk__apply(&job->step.trace, YK_OP_COPY, 1, &in, 0, NULL, YK_DTYPE_COUNT, 0, NULL, &v, 1);
    }
    if (v != YK_NONE && s.guessed && !s.guess_plus_1)
        s.guess_plus_1 = v + 1;
    return v != YK_NONE && sharding_put(job, v, s) ? v : YK_NONE;
}

yk_t yk__result(yk_job *job, yk__vid v, yk__sharding s)
{
    if (v == YK_NONE || job->team.world == 1 || job->step.trace.error.status || is_placed(job, v, &s))
        return yk__handle(job, v);
    yk__op_setting(job, "axis of rows", s.kind == YK__SHARDED ? (double)s.axis : -(double)s.kind);
    s.sign = yk__recipe_end(&job->step.recipes);
    return yk__handle(job, sharding_place(job, v, s));
}

yk_t yk__result_moved(yk_job *job, yk__vid v, yk__sharding s)
{
    if (v != YK_NONE && job->team.world > 1 && !job->step.trace.error.status)
        v = sharding_place(job, v, s);
    return yk__handle(job, v);
}

yk_t yk__result_expanded(yk_job *job, yk__vid v, yk__sharding s)
{
    yk__step *step = &job->step;
    if (job->team.world == 1 || step->trace.error.status || is_placed(job, v, &s))
        return yk__handle(job, v);
    s.sign = yk__recipe_end(&step->recipes);
    v = sharding_place(job, v, s);
    if (v != YK_NONE && step->n_expanded < YK__EXPANDED)
        step->expanded[step->n_expanded++] = (yk__expanded){v, step->n_call};
    return yk__handle(job, v);
}

yk__vid yk__result_like(yk_job *job, yk__vid from, yk__vid v)
{
    if (v == YK_NONE || v == from || job->team.world == 1)
        return v;
    return sharding_place(job, v, yk__sharding_of(job, from));
}

yk__vid yk__as_float(yk_job *job, yk__vid v)
{
    if (v == YK_NONE || yk__dtype_is_float(job->step.trace.value[v].dtype))
        return v;
    return yk__result_like(job, v, yk__cast(&job->step.trace, v, YK_F32));
}

/* ---- Inputs ---- */

/* An input has rows if its first length is a multiple of this rank's: neighbouring entries then belong to one row. */
void yk__sharding_input(yk_job *job, uint32_t number)
{
    yk__step *step = &job->step;
    const yk_value *x = &step->trace.value[step->input[number].leaf];
    const int64_t n = x->dims ? x->dim[0] : -1;
    yk__sharding s = {.kind = YK__REPLICATED, .inner = 1, .sign = yk__sharding_of(job, step->input[number].leaf).sign};
    step->input[number].from_user = true;
    if (job->team.world == 1)
        return;
    if (n == 0 && step->local_rows == 0)
        s.kind = YK__SHARDED;
    else if (n > 0 && !step->input[number].is_alike && step->local_rows > 0 && n % step->local_rows == 0) {
        s.kind = YK__SHARDED;
        s.guessed = true;
        s.inner = n / step->local_rows;
        s.guess_plus_1 = step->input[number].leaf + 1;
    }
    sharding_put(job, step->input[number].leaf, s);
}

void yk__sharding_sign(yk_job *job, yk__vid leaf)
{
    yk__sharding s = yk__sharding_of(job, leaf);
    if (job->team.world == 1 || leaf == YK_NONE)
        return;
    s.sign = yk__recipe_end(&job->step.recipes);
    sharding_put(job, leaf, s);
}

static void put_alike(yk_job *job, yk__vid v)
{
    sharding_put(job, v, (yk__sharding){.kind = YK__REPLICATED, .sign = yk__sharding_of(job, v).sign});
}

void yk__sharding_alike(yk_job *job, yk__vid v)
{
    const uint32_t guess = yk__sharding_of(job, v).guess_plus_1;
    const yk__vid from = guess ? guess - 1 : v;
    put_alike(job, v);
    put_alike(job, from);
    for (size_t i = 0; i < job->step.n_input; i++)
        job->step.input[i].is_alike = job->step.input[i].is_alike || job->step.input[i].leaf == from;
}

yk_t yk_replicated(yk_t x)
{
    yk_job *job = yk__op_enter("yk_replicated", 1, &x);
    const yk__vid v = job ? yk__step_value(job, "yk_replicated", x) : YK_NONE;
    if (v == YK_NONE)
        return YK__POISON;
    const yk__sharding s = yk__sharding_of(job, v);
    if (s.kind == YK__SHARDED && s.guessed)
        yk__sharding_alike(job, v);
    else if (s.kind != YK__REPLICATED)
        yk__job_failf(job, YK_E_ARG, "yk_replicated: expected an input, or a result of yk_expand, got a value that depends on rows");
    return yk_ok(job) ? x : YK__POISON;
}

/* ---- Sums over the ranks ---- */

yk__vid yk__sum_of_ranks(yk_job *job, yk__vid v)
{
    if (job->team.world == 1)
        return v;
    const yk__sharding s = yk__sharding_of(job, v);
    if (s.kind != YK__PARTIAL || !job->training || v == YK_NONE)
        return v;
    if (s.sum_plus_1)
        return s.sum_plus_1 - 1;
    const yk__vid sum = yk__all_reduce(&job->step.trace, v);
    const yk__sharding whole = {.kind = YK__REPLICATED, .exchanged = true};
    if (sum == YK_NONE || !sharding_put(job, sum, whole))
        return YK_NONE;
    job->step.sharding[v].sum_plus_1 = sum + 1;
    return sum;
}

yk__vid yk__operand(yk_job *job, const char *name, yk_t x)
{
    return yk__sum_of_ranks(job, yk__step_value(job, name, x));
}

yk__vid yk__share_leaf(yk_job *job)
{
    yk__step *step = &job->step;
    if (step->share_leaf == YK_NONE)
        step->share_scalar = yk__scalar_new(job, 1.0, &step->share_leaf);
    return step->share_leaf;
}

yk__vid yk__rank_term(yk_job *job, yk__vid v)
{
    yk__sharding s = yk__sharding_of(job, v);
    const yk__vid share = s.kind == YK__REPLICATED ? yk__share_leaf(job) : YK_NONE;
    if (share == YK_NONE)
        return v;
    s.kind = YK__PARTIAL;
    v = yk__bin(&job->step.trace, YK_OP_MUL, v, share);
    return v == YK_NONE ? v : sharding_place(job, v, s);
}

bool yk__over_rows(const yk_job *job, yk__vid v, uint32_t axes)
{
    const yk__sharding s = yk__sharding_of(job, v);
    return s.kind == YK__SHARDED && (axes >> s.axis & 1);
}

/* Number of entries per row in a mean. */
static double entries_of_row(const yk_job *job, yk__vid v, uint32_t axes)
{
    const yk_value *x = &job->step.trace.value[v];
    const uint32_t axis = yk__sharding_of(job, v).axis;
    double each = job->step.local_rows > 0 ? (double)x->dim[axis] / (double)job->step.local_rows : 1.0;
    for (uint32_t i = 0; i < x->dims; i++)
        each *= (axes >> i & 1) && i != axis ? (double)x->dim[i] : 1.0;
    return each;
}

static double count_inverse(double n)
{
    return n > 0.0 ? 1.0 / n : 0.0;
}

yk__vid yk__row_mean_of(yk_job *job, yk__vid v, uint32_t axes)
{
    yk__step *step = &job->step;
    const double each = entries_of_row(job, v, axes);
    for (size_t i = 0; i < step->n_row_mean; i++)
        if (step->row_mean[i].each == each)
            return step->row_mean[i].leaf;
    if (yk__grow(&step->row_mean, &step->cap_row_mean, step->n_row_mean + 1, sizeof *step->row_mean)) {
        yk__job_failf(job, YK_E_MEM, "out of memory while tracing");
        return YK_NONE;
    }
    yk__row_mean *m = &step->row_mean[step->n_row_mean];
    m->each = each;
    m->scalar = yk__scalar_new(job, count_inverse(each * (double)step->local_rows), &m->leaf);
    step->n_row_mean += m->leaf != YK_NONE;
    return m->leaf;
}

void yk__sharding_counts(yk_job *job, double ranks)
{
    yk__step *step = &job->step;
    const double rows = (double)step->global_rows;
    step->row_share = rows > 0.0 ? (double)(step->local_rows - step->padding) / rows : 1.0 / ranks;
    if (step->share_leaf != YK_NONE)
        yk__scalar_set(job, step->share_scalar, step->row_share);
    for (size_t i = 0; i < step->n_row_mean; i++)
        yk__scalar_set(job, step->row_mean[i].scalar, count_inverse(step->row_mean[i].each * rows));
}

/* ---- Values that cannot be split ---- */

yk__sharding yk__shard_local(yk_job *job, yk__vid v, const char *why)
{
    char shape[96], where[200];
    yk__step *step = &job->step;
    yk__sharding s = {.kind = YK__LOCAL};
    if (step->n_reason < REASONS) {
        if (yk__grow(&step->reason, &step->cap_reason, step->n_reason + 1, sizeof *step->reason)) {
            yk__job_failf(job, YK_E_MEM, "out of memory while tracing");
            return s;
        }
        yk__value_shape_text(&step->trace.value[v], shape, sizeof shape);
        snprintf(step->reason[step->n_reason++], sizeof *step->reason, "%s of %s at %s cannot be split over ranks: %s", step->op_name,
                 shape, yk__here_text(where, sizeof where), why);
    }
    s.reason = (uint16_t)(job->step.n_reason - 1);
    return s;
}

bool yk__sharding_loss(yk_job *job, yk__vid loss)
{
    const yk__sharding s = yk__sharding_of(job, loss);
    if (s.kind == YK__LOCAL)
        yk__job_failf(job, YK_E_ARG, "the loss depends on it: %s",
                      s.reason < job->step.n_reason ? job->step.reason[s.reason] : "an operation without a rule");
    else if (s.kind == YK__SHARDED)
        yk__job_failf(job, YK_E_ARG, "yk_backward: the loss is that of one row; take the sum or the mean over the rows");
    return yk_ok(job);
}

/* Hash of SAMPLES parts of an input, or of the whole of a short one. */
static uint64_t sample_hash(const yk__step_input *in)
{
    enum { SAMPLES = 16, SAMPLE = 256 };
    const size_t bytes = (size_t)in->bytes, stride = bytes > SAMPLES * SAMPLE ? (bytes - SAMPLE) / (SAMPLES - 1) : 0;
    uint64_t h = yk__hash_bytes(YK_HASH_SEED, in->data, stride ? SAMPLE : bytes);
    for (size_t i = 1; stride && i < SAMPLES; i++)
        h = yk__hash_bytes(h, (const char *)in->data + i * stride, SAMPLE);
    return h;
}

/* Numbers of one input for the comparison: a flag, that it is alike on all ranks; its samples, as each step has inputs of rows, large ones
 * too; and the contents of an alike one. Inputs beyond the last place share it: hash of the alike ones' numbers, and of their contents. */
static void input_numbers(double number[YK__SHARD_INPUT], const yk__step_input *in, uint32_t k, bool is_alike)
{
    const uint64_t content = is_alike ? yk__hash_bytes(YK_HASH_SEED, in->data, (size_t)in->bytes) : 0;
    const bool shares = k >= YK__SHARD_INPUTS - 1;
    number[0] = shares ? (double)(uint32_t)yk__hash_u64((uint64_t)number[0], k + 1u) : is_alike;
    number[1] = shares ? 0.0 : (double)(uint32_t)sample_hash(in);
    number[2] = shares ? (double)(uint32_t)yk__hash_u64((uint64_t)number[2], content) : (double)(uint32_t)content;
}

void yk__sharding_numbers(const yk_job *job, double *number)
{
    const yk__step *step = &job->step;
    uint32_t k = 0;
    memset(number, 0, YK__SHARD_NUMBERS * sizeof *number);
    number[YK__SHARD_NUMBERS - 1] = 1.0; /* summed: the number of ranks that take part */
    for (size_t i = 0; job->team.world > 1 && i < step->n_input; i++) {
        const yk__step_input *in = &step->input[i];
        if (!in->from_user)
            continue;
        const bool is_alike = yk__sharding_of(job, in->leaf).kind == YK__REPLICATED;
        if (is_alike || k < YK__SHARD_INPUTS - 1)
            input_numbers(number + YK__SHARD_INPUT * (k < YK__SHARD_INPUTS ? k : YK__SHARD_INPUTS - 1), in, k, is_alike);
        k++;
    }
    for (uint32_t i = 0; job->team.world > 1 && i < step->n_expanded; i++)
        if (yk__sharding_of(job, step->expanded[i].value).kind == YK__REPLICATED) {
            number[YK__SHARD_INPUT * YK__SHARD_INPUTS + 2 * i] = 1.0;
            number[YK__SHARD_INPUT * YK__SHARD_INPUTS + 2 * i + 1] = (double)step->trace.value[step->expanded[i].value].dim[0];
        }
}

/* Fails if some ranks take an expanded value for equal on all ranks but have different first lengths. */
static void check_expanded(yk_job *job, uint32_t i, double ranks, double sum)
{
    const yk__expanded *e = &job->step.expanded[i];
    const double own = (double)job->step.trace.value[e->value].dim[0];
    const yk__call_site *at = yk__call_sites_find(&job->sites, e->call);
    if (own * ranks != sum)
        yk__job_failf(job, YK_E_ARG, "yk_expand at %s:%d gives a first length of %.0f on this rank, and of %.9g in the mean of those that "
                      "take it for no number of rows: every rank must run the same program",
                      at ? at->file : "?", at ? at->line : 0, own, sum / ranks);
}

/* True if the first length is a multiple of this rank's rows, or may be one by chance. */
static bool may_have_rows(const yk__step *step, const yk_value *x)
{
    return x->dims && step->local_rows > 0 && x->dim[0] > 0 && x->dim[0] % step->local_rows == 0;
}

/* Fails for an input that some rank takes for alike, and which is not; in the last place the error names the first of the inputs there. */
static void refuse_input(yk_job *job, uint32_t k)
{
    const yk__step *step = &job->step;
    const char *more = k == YK__SHARD_INPUTS - 1 ? " (or a later one)" : "";
    char text[96];
    for (size_t i = 0; i < step->n_input; i++) {
        if (!step->input[i].from_user || k--)
            continue;
        const yk_value *x = &step->trace.value[step->input[i].leaf];
        const yk__recipe *made = yk__recipe_find(&step->recipes, yk__sharding_of(job, step->input[i].leaf).sign);
        const yk__call_site *at = made ? yk__call_sites_find(&job->sites, made->call) : NULL;
        yk__value_shape_text(x, text, sizeof text);
        if (may_have_rows(step, x))
            yk__job_failf(job, YK_E_ARG, "input %zu of the step, %s%s at %s:%d, does not lie along the rows where it is used, or has no "
                          "row for each of another rank's, so it is taken to be the same on all ranks, and it is not: begin the shape of "
                          "rows with their number", i, text, more, at ? at->file : "?", at ? at->line : 0);
        else
            yk__job_failf(job, YK_E_ARG, "input %zu of the step, %s%s at %s:%d, has no row for each of this rank's %lld, so it is taken "
                          "to be the same on all ranks, and it is not: begin the shape of rows with their number", i, text, more,
                          at ? at->file : "?", at ? at->line : 0, (long long)step->local_rows);
        return;
    }
}

/* A flag of one rank obliges all ranks. In the last place, ranks that flag other inputs are not compared. */
static bool input_differs(const double *number, const double *sum, uint32_t k, double ranks)
{
    const bool by_all = number[0] > 0.0 && number[0] * ranks == sum[0];
    return (k < YK__SHARD_INPUTS - 1 && sum[0] > 0.0 && number[1] * ranks != sum[1]) || (by_all && number[2] * ranks != sum[2]);
}

bool yk__sharding_check(yk_job *job, const double *number, const double *sum)
{
    const double ranks = sum[YK__SHARD_NUMBERS - 1];
    for (uint32_t k = 0; k < YK__SHARD_INPUTS && yk_ok(job); k++)
        if (input_differs(number + YK__SHARD_INPUT * k, sum + YK__SHARD_INPUT * k, k, ranks))
            refuse_input(job, k);
    for (uint32_t i = 0, k = YK__SHARD_INPUT * YK__SHARD_INPUTS; i < job->step.n_expanded && yk_ok(job); i++, k += 2)
        if (sum[k] > 0.0)
            check_expanded(job, i, sum[k], sum[k + 1]);
    return yk_ok(job);
}
