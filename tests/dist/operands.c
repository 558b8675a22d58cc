/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each operand of each public operation is alike on both ranks, rows, a term of a sum over the ranks, or local, in every combination. Two
 * ranks then compute what one process computes, or refuse it.
 *
 * Without a launcher this is the test; as a rank it computes all cases and writes their results: MODE FOLDER.
 */
#include <math.h>

#include <yoke/yoke.h> /* first, for the calls' lines */

#include "core/job/job.h"
#include "core/job/trace/sharding.h"
#include "tests/support/ranks.h"

#define NUMBERS 300  /* of the parameter */
#define MOST 6000    /* combinations */
#define SLOTS 4      /* operands of an operation */
#define B (-1)       /* in a shape: g->length, which may be rows */

#define D(...) (uint32_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

typedef struct given {
    yk_job *job;
    yk_t p, mean, var;     /* [NUMBERS]; states [length] */
    yk_t row;              /* [local], rows */
    yk_t known, sign;      /* like p and row, of which the host knows the values; sign differs from row to row */
    int64_t local, length; /* this process's rows; the length of B */
} given;

typedef struct operand {
    bool whole; /* 0 or 1 as i32 */
    uint32_t dims;
    int64_t dim[4];
} operand;

typedef struct operation {
    const char *name;
    yk_t (*apply)(const given *g, const yk_t *x);
    operand in[SLOTS]; /* dims 0: none */
} operation;

/* ---- Operands ---- */

enum { ALIKE, TERM, LOCAL, ROWS }; /* ROWS + k: rows along axis k */

static yk_t numbers_of(yk_t from, uint32_t slot, uint32_t dims, const int64_t *dim)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < dims; i++)
        n *= dim[i];
    return yk_reshape(yk_slice(from, 0, slot * 7, slot * 7 + n, 1), dims, dim);
}

/* A number of each row, along an axis of several. */
static yk_t rows_along(yk_t row, uint32_t dims, uint32_t axis)
{
    const int64_t column[5] = {yk_dim(row, 0), 1, 1, 1, 1};
    uint32_t order[5] = {0, 1, 2, 3, 4};
    order[axis] = 0;
    order[0] = axis;
    return yk_permute(yk_reshape(row, dims, column), order);
}

static yk_t operand_new(const given *g, const operand *o, uint32_t slot, int kind)
{
    const yk_t from = o->whole ? g->known : g->p, row = o->whole ? g->sign : g->row;
    int64_t dim[4];
    yk_t v;
    for (uint32_t i = 0; i < o->dims; i++)
        dim[i] = o->dim[i] == B ? g->length : o->dim[i];
    if (kind >= ROWS)
        dim[kind - ROWS] = 1;
    v = numbers_of(from, slot, o->dims, dim);
    if (kind == TERM)
        v = yk_sum(yk_mul(rows_along(row, o->dims + 1, 0), v), 1, false);
    else if (kind == LOCAL)
        v = yk_mul(yk_slice(row, 0, 0, 1, 1), v);
    else if (kind >= ROWS)
        v = yk_mul(rows_along(row, o->dims, (uint32_t)(kind - ROWS)), v);
    return o->whole ? yk_cast(yk_less(yk_constant(g->job, 0), v), YK_I32) : v;
}

/* ---- Operations ---- */

#define APPLY(name, ...)                                                                                                                   \
    static yk_t name(const given *g, const yk_t *x)                                                                                        \
    {                                                                                                                                      \
        (void)g;                                                                                                                           \
        return __VA_ARGS__;                                                                                                                \
    }

static yk_t positive_of(yk_t v)
{
    return yk_shift(yk_mul(v, v), 0.5f);
}

/* Numbers below the length of B. */
static yk_t class_of(const given *g, yk_t v)
{
    return g->length > 1 ? v : yk_cast(yk_scale(v, 0), YK_I32);
}

APPLY(apply_add, yk_add(x[0], x[1]))
APPLY(apply_sub, yk_sub(x[0], x[1]))
APPLY(apply_mul, yk_mul(x[0], x[1]))
APPLY(apply_div, yk_div(x[0], positive_of(x[1])))
APPLY(apply_maximum, yk_maximum(x[0], x[1]))
APPLY(apply_where, yk_where(x[0], x[1], x[2]))
APPLY(apply_unary, yk_tanh(yk_neg(x[0])))
APPLY(apply_scaled, yk_shift(yk_scale(x[0], 2), 0.5f))
APPLY(apply_matmul, yk_matmul(x[0], x[1]))
APPLY(apply_linear, yk_linear(x[0], x[1], x[2]))
APPLY(apply_linear_io, yk_linear_io(x[0], x[1], x[2]))
APPLY(apply_conv, yk_conv2d(x[0], x[1], x[2], &(yk_conv2d_config){.padding = {1, 1}}))
APPLY(apply_max_pool, yk_max_pool2d(x[0], &(yk_pool2d_config){.kernel = {2, 2}}))
APPLY(apply_avg_pool, yk_adaptive_avg_pool2d(x[0], 2, 3))
APPLY(apply_embedding, yk_embedding(class_of(g, x[0]), x[1], -1))
APPLY(apply_concat, yk_concat(x, 2, 0))
APPLY(apply_concat_last, yk_concat(x, 2, 1))
APPLY(apply_layer_norm, yk_layer_norm(x[0], x[1], x[2], 1e-2f))
APPLY(apply_batch_norm, yk_batch_norm(x[0], x[1], x[2], (yk_batch_norm_state){g->mean, g->var, YK_NO}, 0.1f, 1e-2f))
APPLY(apply_softmax, yk_softmax(x[0]))
APPLY(apply_max, yk_max(x[0], 1, false))
APPLY(apply_argmax, yk_mul(yk_cast(yk_argmax(x[0], 0), YK_F32), g->p))
APPLY(apply_mean, yk_mean(x[0], 1, false))
APPLY(apply_pad, yk_pad(x[0], 1, 1, 1, 0.5f))
APPLY(apply_pack, yk_unpack_tokens(yk_tanh(yk_pack_tokens(x[0], x[1])), x[1]))
APPLY(apply_expand, yk_expand(x[0], D(3, yk_dim(x[0], 1), 2)))
APPLY(apply_stretch, yk_expand(x[0], D(5, 3)))
APPLY(apply_gather_rows, yk_gather_rows(x[0]))
APPLY(apply_attention, yk_attention(x[0], x[1], x[1], &(yk_attention_config){.causal = true}))
APPLY(apply_masked, yk_attention(x[0], x[0], x[0], &(yk_attention_config){.key_keep = x[1], .bias = x[2]}))
APPLY(apply_biased, yk_attention(x[0], x[0], x[0], &(yk_attention_config){.bias = x[1]}))
APPLY(apply_cross_entropy,
      yk_cross_entropy_with(x[0], class_of(g, x[1]), &(yk_cross_entropy_config){.weight = x[2], .reduction = YK_SUM}))
APPLY(apply_cross_each, yk_cross_entropy_with(x[0], x[1], &(yk_cross_entropy_config){.reduction = YK_EACH, .smoothing = 0.1f}))
APPLY(apply_cross_mean, yk_cross_entropy(x[0], x[1]))
APPLY(apply_bce, yk_bce_with_logits(x[0], x[1], &(yk_loss_config){.weight = x[2], .pos_weight = x[3]}))
APPLY(apply_mse, yk_mse_loss(x[0], x[1], NULL))

#define F(...) {false, D_(__VA_ARGS__), {__VA_ARGS__}}
#define I(...) {true, D_(__VA_ARGS__), {__VA_ARGS__}}
#define D_(...) (uint32_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))

static const operation operations[] = {
    {"yk_add", apply_add, {F(B, 3), F(B, 3)}},
    {"yk_sub", apply_sub, {F(B, 3), F(3)}},
    {"yk_mul", apply_mul, {F(B, B), F(B)}},
    {"yk_div", apply_div, {F(B, 3), F(B, 3)}},
    {"yk_maximum", apply_maximum, {F(B, 3), F(B, 3)}},
    {"yk_where", apply_where, {I(B, 3), F(B, 3), F(3)}},
    {"yk_tanh", apply_unary, {F(B, 3)}},
    {"yk_scale", apply_scaled, {F(B, 3)}},
    {"yk_matmul", apply_matmul, {F(B, B), F(B, B)}},
    {"yk_matmul of batches", apply_matmul, {F(B, 2, B), F(B, B, 2)}},
    {"yk_linear", apply_linear, {F(B, B), F(B, B), F(B)}},
    {"yk_linear_io", apply_linear_io, {F(B, 3), F(3, B), F(B)}},
    {"yk_conv2d", apply_conv, {F(B, B, 2, 2), F(B, B, 2, 2), F(B)}},
    {"yk_max_pool2d", apply_max_pool, {F(B, B, 4, 2)}},
    {"yk_adaptive_avg_pool2d", apply_avg_pool, {F(B, 1, 3, 3)}},
    {"yk_embedding", apply_embedding, {I(B), F(B, B)}},
    {"yk_concat", apply_concat, {F(B, 3), F(B, 3)}},
    {"yk_concat along the last axis", apply_concat_last, {F(B, B), F(B, 3)}},
    {"yk_layer_norm", apply_layer_norm, {F(B, B), F(B), F(B)}},
    {"yk_batch_norm", apply_batch_norm, {F(B, B, 3), F(B), F(B)}},
    {"yk_softmax", apply_softmax, {F(B, B)}},
    {"yk_max", apply_max, {F(B, B)}},
    {"yk_argmax", apply_argmax, {F(B)}},
    {"yk_mean", apply_mean, {F(B, B)}},
    {"yk_pad", apply_pad, {F(B, B)}},
    {"yk_expand", apply_expand, {F(3, B, 1)}},
    {"yk_expand of one", apply_stretch, {F(B, 3)}},
    {"yk_pack_tokens", apply_pack, {F(B, B, 2), I(B, B)}},
    {"yk_gather_rows", apply_gather_rows, {F(B, B)}},
    {"yk_attention", apply_attention, {F(B, B, B, 2), F(B, B, B, 2)}},
    {"yk_attention with a mask and a bias", apply_masked, {F(B, 2, B, 2), I(B, B), F(B, 2, B, B)}},
    {"yk_attention with a bias of heads", apply_biased, {F(B, B, B, 2), F(B, B, B)}},
    {"yk_attention with a bias of tokens", apply_biased, {F(B, B, B, 2), F(B, B)}},
    {"yk_cross_entropy", apply_cross_entropy, {F(B, B), I(B), F(B)}},
    {"yk_cross_entropy of each", apply_cross_each, {F(B, 2, 3), I(B, 2)}},
    {"yk_cross_entropy, mean", apply_cross_mean, {F(B, 3), I(B)}},
    {"yk_bce_with_logits", apply_bce, {F(B, 3), F(B, 3), F(B, 3), F(3)}},
    {"yk_mse_loss", apply_mse, {F(B, 3), F(B, 3)}},
};

#define OPERATIONS (sizeof operations / sizeof operations[0])

/* ---- All combinations ---- */

static const int64_t sizes[][2] = {{2, 2}, {2, 4}, {1, 1}, {1, 2}}; /* a rank's rows, the length of B: a rank's rows or all */

#define SIZES (sizeof sizes / sizeof sizes[0])

typedef struct combination {
    uint32_t operation, size;
    int kind[SLOTS];
} combination;

static int kinds_of(const operand *o)
{
    return o->dims ? ROWS + (int)o->dims : 1;
}

static bool is_possible(const operand *o, int kind)
{
    return kind < ROWS || o->dim[kind - ROWS] == B;
}

/* Moves on to the next combination; false at the end. */
static bool combination_next(combination *c)
{
    for (int k = 0; k < SLOTS; k++) {
        const operand *o = &operations[c->operation].in[k];
        do
            c->kind[k]++;
        while (c->kind[k] < kinds_of(o) && !is_possible(o, c->kind[k]));
        if (c->kind[k] < kinds_of(o))
            return true;
        c->kind[k] = 0;
    }
    c->size = (c->size + 1) % SIZES;
    c->operation += c->size == 0;
    return c->operation < OPERATIONS;
}

static void combination_text(const combination *c, char text[200])
{
    static const char *const kind[] = {"alike", "a term", "local", "rows along 0", "rows along 1", "rows along 2", "rows along 3"};
    const operation *o = &operations[c->operation];
    int n = snprintf(text, 200, "%s, B %d, a rank has %d rows:", o->name, (int)sizes[c->size][1], (int)sizes[c->size][0]);
    for (int k = 0; k < SLOTS && o->in[k].dims; k++)
        n += snprintf(text + n, 200 - (size_t)n, " %s;", kind[c->kind[k]]);
}

/* ---- One process ---- */

typedef struct outcome {
    bool refused, placed; /* placed: the refusal's text names a line of this file, if the operation cannot be split */
    float loss, grad[NUMBERS], var[4];
    char said[160];
} outcome;

static const int64_t flat[1] = {-1};

/* Traces the operation. An error stays in this process, so that ranks refuse together. */
static yk_t result_of(given *g, const combination *c, outcome *out)
{
    yk_job *job = g->job;
    yk__group *group = job->team.group;
    yk_t x[SLOTS] = {YK_NO}, v;
    job->team.group = NULL;
    for (uint32_t k = 0; k < SLOTS; k++)
        if (operations[c->operation].in[k].dims)
            x[k] = operand_new(g, &operations[c->operation].in[k], k, c->kind[k]);
    v = operations[c->operation].apply(g, x);
    job->team.group = group;
    const yk__sharding s = yk_ok(job) ? yk__sharding_of(job, (yk__vid)v.id) : (yk__sharding){0};
    const char *text = !yk_ok(job) ? job->error.text : s.kind == YK__LOCAL ? job->step.reason[s.reason] : NULL;
    out->refused = text != NULL;
    out->placed = text && *text && (strstr(text, "operands.c:") || !strstr(text, "cannot be split"));
    snprintf(out->said, sizeof out->said, "%.150s", text ? text : "");
    job->error = (yk_error)YK_ERROR_INIT;
    return v;
}

static float start_of(int i)
{
    return 0.6f * (float)cos(i * 0.9 + 0.3);
}

static void combination_run(given *g, const combination *c, yk_opt *opt, outcome *out)
{
    yk_job *job = g->job;
    const int64_t total = 2 * sizes[c->size][0], first = yk_rank(job) * sizes[c->size][0];
    float row[4], sign[4], known[NUMBERS];
    int32_t number[4];
    double refused;
    g->local = yk_world_size(job) == 1 ? total : sizes[c->size][0];
    g->length = sizes[c->size][1];
    yk_param_write(g->var, (const float[4]){1, 1, 1, 1}, (size_t)g->length);
    for (int i = 0; i < g->local; i++) {
        number[i] = (int32_t)first + i;
        row[i] = 0.7f + 0.4f * (float)number[i];
        sign[i] = number[i] % 2 ? 0.8f : -0.6f;
    }
    for (int i = 0; i < NUMBERS; i++)
        known[i] = start_of(i);
    yk_set_rows(job, g->local, number, total);
    g->row = yk_tanh(yk_input(job, YK_F32, D(g->local), row));
    g->sign = yk_mul(yk_input(job, YK_F32, D(g->local), sign), yk_constant(job, 1)); /* no input, which may be the same on all ranks */
    g->known = yk_replicated(yk_input(job, YK_F32, D(NUMBERS), known));
    yk_t v = result_of(g, c, out);
    refused = out->refused;
    yk_all_reduce_sum(job, &refused, 1);
    if (refused > 0) {
        out->refused = true;
        job->step.n_assign = 0;
        yk_end(job);
        return;
    }
    v = yk_sum(yk_reshape(yk_mul(v, v), 1, flat), 1, false);
    yk_backward(v);
    yk_step(opt);
    out->loss = (float)yk_item(v);
    yk_grad_read(g->p, out->grad, NUMBERS);
    yk_param_read(g->var, out->var, (size_t)g->length);
}

static void run_all(yk_job *job, outcome *out)
{
    float v[NUMBERS];
    given g = {.job = job, .p = yk_param(job, "p", D(NUMBERS), (yk_init){0})};
    yk_t mean[5], var[5];
    for (int i = 0; i < NUMBERS; i++)
        v[i] = start_of(i);
    yk_param_write(g.p, v, NUMBERS);
    for (int n = 1; n < 5; n++) {
        char name[2][16];
        snprintf(name[0], sizeof name[0], "mean%d", n);
        snprintf(name[1], sizeof name[1], "var%d", n);
        mean[n] = yk_state(job, name[0], YK_F32, D(n), 0);
        var[n] = yk_state(job, name[1], YK_F32, D(n), 1);
    }
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 1e-30});
    combination c = {0};
    size_t n = 0;
    do {
        char text[200];
        g.mean = mean[sizes[c.size][1]];
        g.var = var[sizes[c.size][1]];
        combination_run(&g, &c, opt, &out[n++]);
        combination_text(&c, text);
        if (!yk_ok(job))
            fprintf(stderr, "%s %s\n", text, yk_error_text(job));
    } while (combination_next(&c) && yk_ok(job) && n < MOST);
}

static int rank_main(const char *mode, const char *folder)
{
    static outcome out[MOST];
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
    const uint32_t rank = yk_rank(job);
    run_all(job, out);
    const int rc = yk_close(job);
    ranks_write(folder, mode, rank, out, sizeof out);
    return rc;
}

/* ---- The test ---- */

/* True if n numbers are equal but for rounding; numbers that are none are equal to each other. */
static bool are_near(const float *a, const float *b, int n)
{
    double most = 0, size = 1e-3;
    for (int i = 0; i < n; i++) {
        if (isnan(a[i]) != isnan(b[i]))
            return false;
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most < 1e-4 * size;
}

/* NULL, or the fault of the ranks' outcome. */
static const char *fault_of(const combination *c, const outcome *got, const outcome *one)
{
    const bool takes_rows = operations[c->operation].apply == apply_pack; /* alone */
    bool has_local = false, has_rows = false;
    for (int k = 0; k < SLOTS; k++) {
        has_local = has_local || c->kind[k] == LOCAL;
        has_rows = has_rows || c->kind[k] >= ROWS;
    }
    if (got->refused && !got->placed)
        return "is refused without a reason or a line";
    if (got->refused)
        return has_local || has_rows || one->refused || takes_rows ? NULL : "is refused";
    if (has_local)
        return "has a local operand and is not refused";
    if (one->refused)
        return "is refused in one process alone";
    const bool is_near = are_near(&got->loss, &one->loss, 1) && are_near(got->grad, one->grad, NUMBERS) && are_near(got->var, one->var, 4);
    return is_near ? NULL : "differs from one process";
}

START_TEST(two_ranks_compute_what_one_does_or_refuse)
{
    static outcome one[MOST], got[MOST];
    char said[4096], text[200];
    int wrong = 0, computed = 0;
    size_t n = 0;
    ranks_folder_make();
    int rc = ranks_run("cpu:0 cpu:0", "two", said, sizeof said);
    ck_assert_msg(rc == 0, "%s", said);
    rc = ranks_run("cpu:0", "one", said, sizeof said);
    ck_assert_msg(rc == 0, "in one process: %s", said);
    ranks_read("two", 0, got, sizeof got);
    ranks_read("one", 0, one, sizeof one);
    combination c = {0};
    do {
        const char *fault = fault_of(&c, &got[n], &one[n]);
        combination_text(&c, text);
        computed += !got[n].refused;
        if (fault && wrong++ < 40)
            fprintf(stderr, "# %s it %s: loss %.7g %s; in one process %.7g %s\n", text, fault, (double)got[n].loss, got[n].said,
                    (double)one[n].loss, one[n].said);
        n++;
    } while (combination_next(&c) && n < MOST);
    ck_assert_msg(wrong == 0, "%d of %d combinations", wrong, (int)n);
    ck_assert_int_gt(computed, 900); /* else the cases are refused for another reason */
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("operands");
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_test(t, two_ranks_compute_what_one_does_or_refuse);
    return suite_run("operands", t);
}
