/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Altering any setting or operand of a call that makes a value, on one rank, distinguishes its value from the other ranks', and the
 * error names both lines. Effects of other rows do not: one rank has three rows, one has one, one has none. Without a launcher this is
 * the test; as a rank it runs the mode of its arguments. All cases run in one job: they make yk_backward's comparison, but a difference
 * does not end the job. tests/dist/agree.c shows that it does.
 */
#include <yoke/yoke.h>

#include "core/job/trace/agree_graph.h"
#include "tests/support/ranks.h"

#define DEVICES "cpu:0! cpu:0! cpu:0!"
#define ODD 2u /* the rank that is altered */

typedef struct given {
    yk_job *job;
    int64_t n;
    yk_t x, y, tokens, image, ids, numbers, labels, keep, pack; /* rows */
    yk_t w, v, b, c, table, filter, per_channel, other_channel, mean, var, count;
    int line; /* line of the case */
} given;

/* One case: how a value is made, and how the odd rank makes it instead. */
#define CASE(same, altered)                                                                                              \
    if (which-- == 0) {                                                                                                  \
        g->line = __LINE__;                                                                                              \
        return is_altered ? (altered) : (same);                                                                          \
    }

#define D(...) (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#define TWO(...) (const yk_t[]){__VA_ARGS__}, (sizeof((yk_t[]){__VA_ARGS__}) / sizeof(yk_t))

static yk_t make_elementwise(given *g, int which, bool is_altered)
{
    CASE(yk_sub(g->x, g->y), yk_sub(g->y, g->x))
    CASE(yk_add(g->x, g->y), yk_add(g->x, g->x))
    CASE(yk_add(g->x, g->y), yk_sub(g->x, g->y))
    CASE(yk_mul(g->x, g->b), yk_mul(g->x, g->c))
    CASE(yk_div(g->x, g->y), yk_div(g->y, g->x))
    CASE(yk_maximum(g->x, g->y), yk_minimum(g->x, g->y))
    CASE(yk_less(g->x, g->y), yk_less(g->y, g->x))
    CASE(yk_equal(g->x, g->y), yk_equal(g->x, g->x))
    CASE(yk_where(yk_less(g->x, g->y), g->x, g->y), yk_where(yk_less(g->x, g->y), g->y, g->x))
    CASE(yk_where(yk_less(g->x, g->y), g->x, g->y), yk_where(yk_less(g->y, g->x), g->x, g->y))
    CASE(yk_scale(g->x, 2), yk_scale(g->x, 3))
    CASE(yk_scale(g->x, 2), yk_shift(g->x, 2))
    CASE(yk_shift(g->x, 1), yk_shift(g->x, -1))
    CASE(yk_mul(g->x, yk_constant(g->job, 2)), yk_mul(g->x, yk_constant(g->job, 4)))
    CASE(yk_neg(g->x), yk_abs(g->x))
    CASE(yk_exp(g->x), yk_erf(g->x))
    CASE(yk_sinh(g->x), yk_tanh(g->x))
    CASE(yk_log(yk_abs(g->x)), yk_sqrt(yk_abs(g->x)))
    CASE(yk_sqrt(g->x), yk_rsqrt(g->x))
    CASE(yk_relu(g->x), yk_silu(g->x))
    CASE(yk_gelu(g->x), yk_gelu_tanh(g->x))
    CASE(yk_tanh(g->x), yk_sigmoid(g->x))
    CASE(yk_relu(yk_relu(g->x)), yk_relu(g->x))
    CASE(yk_cast(g->x, YK_I32), yk_cast(g->x, YK_U8))
    CASE(yk_cast(yk_cast(g->x, YK_I32), YK_F32), yk_cast(g->x, YK_F32))
    CASE(yk_cast(g->x, YK_BOOL), g->x)
    CASE(yk_softmax(g->x), yk_log_softmax(g->x))
    CASE(yk_softmax(g->x), yk_softmax(g->y))
    return YK_NO;
}

static yk_t make_shapes(given *g, int which, bool is_altered)
{
    const int64_t n = g->n;
    CASE(yk_reshape(g->x, D(n, 2, 2)), yk_reshape(g->x, D(n, 4, 1)))
    CASE(yk_reshape(g->tokens, D(n * 5, 4)), yk_reshape(g->tokens, D(n, 20)))
    CASE(yk_reshape(g->w, D(2, 8)), yk_reshape(g->w, D(8, 2)))
    CASE(yk_flatten(g->tokens, 1), yk_flatten(g->tokens, 0))
    CASE(yk_permute(g->image, (const uint32_t[]){0, 1, 3, 2}), yk_permute(g->image, (const uint32_t[]){0, 2, 1, 3}))
    CASE(yk_permute(g->tokens, (const uint32_t[]){1, 0, 2}), yk_permute(g->tokens, (const uint32_t[]){2, 0, 1}))
    CASE(yk_slice(g->tokens, 1, 0, 2, 1), yk_slice(g->tokens, 1, 1, 3, 1))
    CASE(yk_slice(g->tokens, 1, 0, 3, 1), yk_slice(g->tokens, 1, 0, 4, 1))
    CASE(yk_slice(g->tokens, 1, 0, 4, 1), yk_slice(g->tokens, 1, 0, 4, 2))
    CASE(yk_slice(g->tokens, 1, 0, 4, 1), yk_slice(g->tokens, 2, 0, 4, 1))
    CASE(yk_slice(g->x, 0, 0, -1, 1), yk_slice(g->x, 1, 0, 2, 1))
    CASE(yk_slice(g->table, 0, 0, 5, 1), yk_slice(g->table, 0, 2, 7, 1))
    CASE(yk_concat(TWO(g->x, g->y), 1), yk_concat(TWO(g->y, g->x), 1))
    CASE(yk_concat(TWO(g->x, g->y), 1), yk_concat(TWO(g->x, g->y, g->y), 1))
    CASE(yk_concat(TWO(g->w, g->v), 0), yk_concat(TWO(g->w, g->v), 1))
    CASE(yk_pad(g->x, 1, 1, 0, 0), yk_pad(g->x, 1, 0, 1, 0))
    CASE(yk_pad(g->x, 1, 1, 1, 0), yk_pad(g->x, 1, 1, 1, 3))
    CASE(yk_pad(g->tokens, 1, 0, 1, 0), yk_pad(g->tokens, 2, 0, 1, 0))
    CASE(yk_pad(g->x, 1, 0, 2, 0), yk_pad(g->x, 1, 0, 3, 0))
    CASE(yk_expand(yk_reshape(g->x, D(n, 4, 1)), D(n, 4, 2)), yk_expand(yk_reshape(g->x, D(n, 4, 1)), D(n, 4, 3)))
    CASE(yk_expand(g->b, D(n, 4)), yk_expand(g->b, D(n, 2, 4)))
    CASE(yk_sum(g->tokens, 4, false), yk_sum(g->tokens, 2, false))
    CASE(yk_sum(g->tokens, 4, false), yk_mean(g->tokens, 4, false))
    CASE(yk_sum(g->tokens, 4, true), yk_sum(g->tokens, 4, false))
    CASE(yk_sum(g->x, 1, false), yk_sum(g->x, 2, false))
    CASE(yk_mean(g->x, 3, false), yk_mean(g->x, 1, false))
    CASE(yk_mean(g->x, 3, true), yk_mean(g->x, 3, false))
    CASE(yk_max(g->x, 2, false), yk_max(g->x, 1, false))
    CASE(yk_max(g->x, 2, false), yk_max(g->x, 2, true))
    CASE(yk_argmax(g->tokens, 1), yk_argmax(g->tokens, -1))
    CASE(yk_gather_rows(g->x), yk_gather_rows(g->y))
    return YK_NO;
}

static yk_t make_products(given *g, int which, bool is_altered)
{
    CASE(yk_matmul(g->x, g->w), yk_matmul(g->x, g->v))
    CASE(yk_matmul(g->w, g->v), yk_matmul(g->v, g->w))
    CASE(yk_linear(g->x, g->w, g->b), yk_linear(g->x, g->v, g->b))
    CASE(yk_linear(g->x, g->w, g->b), yk_linear(g->x, g->w, g->c))
    CASE(yk_linear(g->x, g->w, g->b), yk_linear(g->x, g->w, YK_NO))
    CASE(yk_linear(g->x, g->w, g->b), yk_linear_io(g->x, g->w, g->b))
    CASE(yk_linear(g->x, g->w, g->b), yk_linear(g->y, g->w, g->b))
    CASE(yk_embedding(g->ids, g->table, -1), yk_embedding(g->ids, g->table, 2))
    CASE(yk_embedding(g->ids, g->table, -1), yk_embedding(g->numbers, g->table, -1))
    CASE(yk_embedding(g->ids, g->table, -1), yk_embedding(g->ids, g->w, -1))
    CASE(yk_dropout(g->x, 0.1f), yk_dropout(g->x, 0.2f))
    CASE(yk_dropout(g->x, 0.1f), yk_dropout(g->x, 0))
    CASE(yk_layer_norm(g->x, g->b, g->c, 1e-5f), yk_layer_norm(g->x, g->c, g->b, 1e-5f))
    CASE(yk_layer_norm(g->x, g->b, g->c, 1e-5f), yk_layer_norm(g->x, g->b, g->c, 1e-6f))
    CASE(yk_layer_norm(g->x, g->b, g->c, 1e-5f), yk_layer_norm(g->x, YK_NO, g->c, 1e-5f))
    CASE(yk_layer_norm(g->x, g->b, YK_NO, 1e-5f), yk_layer_norm(g->x, YK_NO, g->b, 1e-5f))
    return YK_NO;
}

#define CONV(...) yk_conv2d(g->image, g->filter, g->per_channel, &(yk_conv2d_config){__VA_ARGS__})
#define POOL(kind, ...) yk_##kind##_pool2d(g->image, &(yk_pool2d_config){__VA_ARGS__})
#define NORM(gamma, beta, momentum, eps) \
    yk_batch_norm(g->image, gamma, beta, (yk_batch_norm_state){g->mean, g->var, g->count}, momentum, eps)

static yk_t make_images(given *g, int which, bool is_altered)
{
    CASE(CONV(.groups = 1), CONV(.stride = {2, 1}))
    CASE(CONV(.groups = 1), CONV(.stride = {1, 2}))
    CASE(CONV(.groups = 1), CONV(.padding = {1, 0}))
    CASE(CONV(.groups = 1), CONV(.padding = {0, 1}))
    CASE(CONV(.groups = 1), CONV(.dilation = {2, 1}))
    CASE(CONV(.groups = 1), CONV(.dilation = {1, 2}))
    CASE(CONV(.groups = 1), yk_conv2d(g->image, g->filter, YK_NO, NULL))
    CASE(CONV(.groups = 1), yk_conv2d(g->image, g->filter, g->other_channel, NULL))
    CASE(POOL(max, .kernel = {2, 2}), POOL(avg, .kernel = {2, 2}))
    CASE(POOL(max, .kernel = {2, 2}, .stride = {1, 1}), POOL(max, .kernel = {3, 2}, .stride = {1, 1}))
    CASE(POOL(max, .kernel = {2, 2}), POOL(max, .kernel = {2, 2}, .stride = {1, 2}))
    CASE(POOL(max, .kernel = {3, 3}), POOL(max, .kernel = {3, 3}, .padding = {0, 1}))
    CASE(POOL(max, .kernel = {2, 2}), POOL(max, .kernel = {2, 2}, .dilation = {2, 1}))
    CASE(POOL(avg, .kernel = {3, 3}, .padding = {1, 1}), POOL(avg, .kernel = {3, 3}, .padding = {1, 1}, .exclude_padding = true))
    CASE(POOL(avg, .kernel = {2, 2}, .stride = {3, 3}), POOL(avg, .kernel = {2, 2}, .stride = {3, 3}, .ceil_mode = true))
    CASE(POOL(max, .kernel = {2, 2}, .stride = {3, 3}, .ceil_mode = true), POOL(max, .kernel = {2, 2}, .stride = {3, 3}))
    CASE(POOL(avg, .kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true), POOL(avg, .kernel = {3, 3}, .stride = {2, 2}))
    CASE(yk_adaptive_avg_pool2d(g->image, 3, 2), yk_adaptive_avg_pool2d(g->image, 2, 3))
    CASE(yk_adaptive_avg_pool2d(g->image, 4, 4), yk_adaptive_avg_pool2d(g->image, 4, 1))
    CASE(NORM(g->per_channel, g->other_channel, 0.1f, 1e-5f), NORM(g->other_channel, g->per_channel, 0.1f, 1e-5f))
    CASE(NORM(g->per_channel, g->other_channel, 0.1f, 1e-5f), NORM(g->per_channel, g->other_channel, 0.2f, 1e-5f))
    CASE(NORM(g->per_channel, g->other_channel, 0.1f, 1e-5f), NORM(g->per_channel, g->other_channel, 0.1f, 1e-3f))
    CASE(NORM(g->per_channel, YK_NO, 0.1f, 1e-5f), NORM(g->per_channel, g->other_channel, 0.1f, 1e-5f))
    return YK_NO;
}

/* Heads of 2, so that q is none of the parameters. */
static yk_t heads_of(const given *g, yk_t x)
{
    return yk_permute(yk_reshape(x, D(g->n, 5, 2, 2)), (const uint32_t[]){0, 2, 1, 3});
}

#define ATTEND(a, b, c, ...) yk_attention(heads_of(g, a), heads_of(g, b), heads_of(g, c), &(yk_attention_config){__VA_ARGS__})
#define ENTROPY(...) yk_cross_entropy_with(g->x, g->labels, &(yk_cross_entropy_config){__VA_ARGS__})
#define CROSS(a, ...) yk_bce_with_logits(a, g->y, &(yk_loss_config){__VA_ARGS__})

static yk_t make_attention_and_losses(given *g, int which, bool is_altered)
{
    const yk_t t = g->tokens, u = yk_relu(g->tokens);
    CASE(ATTEND(t, u, t, 0), ATTEND(u, t, t, 0))
    CASE(ATTEND(t, u, t, 0), ATTEND(t, t, u, 0))
    CASE(ATTEND(t, t, t, 0), ATTEND(t, t, t, .causal = true))
    CASE(ATTEND(t, t, t, 0), ATTEND(t, t, t, .scale = 0.5f))
    CASE(ATTEND(t, t, t, .dropout = 0.1f), ATTEND(t, t, t, .dropout = 0.2f))
    CASE(ATTEND(t, t, t, 0), ATTEND(t, t, t, .key_keep = g->keep))
    CASE(ATTEND(t, t, t, .key_keep = g->keep), ATTEND(t, t, t, .key_keep = yk_scale(g->keep, 0)))
    CASE(ATTEND(t, t, t, 0), ATTEND(t, t, t, .bias = yk_slice(g->b, 0, 0, 1, 1)))
    CASE(yk_cross_entropy(g->x, g->labels), yk_cross_entropy(g->y, g->labels))
    CASE(ENTROPY(.smoothing = 0), ENTROPY(.smoothing = 0.1f))
    CASE(ENTROPY(.smoothing = 0), ENTROPY(.ignore_index = 1))
    CASE(ENTROPY(.reduction = YK_MEAN), ENTROPY(.reduction = YK_SUM))
    CASE(ENTROPY(.reduction = YK_SUM), ENTROPY(.reduction = YK_EACH))
    CASE(ENTROPY(.reduction = YK_SUM), ENTROPY(.reduction = YK_SUM, .weight = g->b))
    CASE(ENTROPY(.reduction = YK_SUM, .weight = g->b), ENTROPY(.reduction = YK_SUM, .weight = g->c))
    CASE(CROSS(g->x, .reduction = YK_MEAN), CROSS(g->x, .reduction = YK_SUM))
    CASE(CROSS(g->x, .reduction = YK_MEAN), CROSS(g->y, .reduction = YK_MEAN))
    CASE(CROSS(g->x, .weight = g->b), CROSS(g->x, .weight = g->c))
    CASE(CROSS(g->x, .weight = g->b), CROSS(g->x, .pos_weight = g->b))
    CASE(yk_mse_loss(g->x, g->y, NULL), yk_mse_loss(g->y, g->x, NULL))
    CASE(yk_mse_loss(g->x, g->y, NULL), yk_mse_loss(g->x, g->y, &(yk_loss_config){.reduction = YK_SUM}))
    return YK_NO;
}

static yk_t assign_state(given *g, yk_t state, yk_t value)
{
    yk_assign(state, value);
    return yk_relu(g->x);
}

static yk_t dropout_in_mode(given *g, bool is_on)
{
    yk_train(g->job, is_on);
    const yk_t out = yk_dropout(g->x, 0.1f);
    yk_train(g->job, true);
    return out;
}

static yk_t matmul_widened(given *g, bool is_on)
{
    if (is_on)
        yk_full_precision_begin(g->job);
    const yk_t out = yk_matmul(g->x, g->w);
    if (is_on)
        yk_full_precision_end(g->job);
    return out;
}

/* An input of four numbers for each row, and one that is the same on all ranks. */
static yk_t input_of(const given *g, yk_dtype type, int64_t length)
{
    static const float zeros[64];
    return yk_input(g->job, type, D(g->n, length), zeros);
}

static yk_t make_modes(given *g, int which, bool is_altered)
{
    CASE(assign_state(g, g->mean, yk_scale(g->mean, 2)), assign_state(g, g->mean, yk_scale(g->mean, 3)))
    CASE(assign_state(g, g->mean, yk_scale(g->mean, 2)), assign_state(g, g->var, yk_scale(g->mean, 2)))
    CASE(assign_state(g, g->mean, yk_scale(g->mean, 2)), yk_relu(g->x))
    CASE(dropout_in_mode(g, true), dropout_in_mode(g, false))
    CASE(matmul_widened(g, false), matmul_widened(g, true))
    CASE(input_of(g, YK_F32, 4), input_of(g, YK_I32, 4))
    CASE(input_of(g, YK_F32, 4), input_of(g, YK_F32, 5))
    CASE(yk_relu(g->x), yk_relu(g->y))
    return YK_NO;
}

static yk_t packed_linear(const given *g, bool is_packed)
{
    const yk_t x = yk_layer_norm(is_packed ? yk_pack_tokens(g->tokens, g->pack) : g->tokens, g->b, g->c, 1e-5f);
    const yk_t y = yk_linear(x, g->w, g->b), z = is_packed ? yk_dropout_packed(y, 0.1f, g->pack) : yk_dropout(y, 0.1f);
    const yk_t s = yk_slice(z, -1, 0, 2, 1);
    return is_packed ? yk_unpack_tokens(s, g->pack) : s;
}

static yk_t packed_heads(const given *g, bool is_packed)
{
    const yk_t x = is_packed ? yk_pack_tokens(g->tokens, g->pack) : g->tokens;
    const int64_t packed[3] = {is_packed ? yk_packed_count(g->pack) : 0, 2, 2}, whole[4] = {g->n, 5, 2, 2};
    const yk_t y = yk_sum(yk_reshape(x, is_packed ? 3 : 4, is_packed ? packed : whole), is_packed ? 4 : 8, false);
    return is_packed ? yk_unpack_tokens(y, g->pack) : y;
}

static yk_t relu_with_more(const given *g, bool is_more)
{
    if (is_more)
        yk_keep(yk_input(g->job, YK_F32, D(2, 3, 1), (const float[6]){0}));
    if (is_more)
        yk_neg(yk_sum(g->y, 3, false));
    return yk_relu(g->x);
}

static yk_t tanh_recomputed(const given *g, bool is_on)
{
    if (is_on)
        yk_recompute_begin(g->job);
    const yk_t out = yk_tanh(g->x);
    if (is_on)
        yk_recompute_end(g->job);
    return out;
}

/* Permitted differences of the odd rank. */
static yk_t make_legal(given *g, int which, bool is_altered)
{
    CASE(packed_linear(g, false), packed_linear(g, true))
    CASE(packed_heads(g, false), packed_heads(g, true))
    CASE(relu_with_more(g, false), relu_with_more(g, true))
    CASE(tanh_recomputed(g, false), tanh_recomputed(g, true))
    return YK_NO;
}

typedef yk_t make_case(given *g, int which, bool is_altered);
static make_case *const made[] = {make_elementwise, make_shapes, make_products, make_images, make_attention_and_losses, make_modes};

/* ---- One rank ---- */

static void feed_rows(given *g)
{
    static const float zeros[3 * 5 * 36];
    static const int32_t numbers[15], row[3][3] = {{0, 1, 2}, {0}, {3}};
    static const float few[15] = {1, 0, 0, 0, 0, 1};
    yk_job *job = g->job;
    const int64_t n = g->n;
    yk_set_rows(job, n, row[yk_rank(job)], 4);
    g->x = yk_input(job, YK_F32, D(n, 4), zeros);
    g->y = yk_input(job, YK_F32, D(n, 4), zeros);
    g->tokens = yk_input(job, YK_F32, D(n, 5, 4), zeros);
    g->image = yk_input(job, YK_F32, D(n, 2, 6, 6), zeros);
    g->ids = yk_input(job, YK_I32, D(n, 5), numbers);
    g->numbers = yk_input(job, YK_I32, D(n, 5), numbers);
    g->labels = yk_input(job, YK_I32, D(n), numbers);
    g->keep = yk_input(job, YK_F32, D(n, 5), zeros);
    g->pack = yk_input(job, YK_F32, D(n, 5), few);
}

static void make_parameters(given *g)
{
    const yk_init zero = {YK_INIT_ZEROS, 0, 0};
    g->w = yk_param(g->job, "w", D(4, 4), zero);
    g->v = yk_param(g->job, "v", D(4, 4), zero);
    g->b = yk_param(g->job, "b", D(4), zero);
    g->c = yk_param(g->job, "c", D(4), zero);
    g->table = yk_param(g->job, "table", D(7, 4), zero);
    g->filter = yk_param(g->job, "filter", D(2, 2, 3, 3), zero);
    g->per_channel = yk_param(g->job, "channel", D(2), zero);
    g->other_channel = yk_param(g->job, "other", D(2), zero);
    g->mean = yk_state(g->job, "mean", YK_F32, D(2), 0);
    g->var = yk_state(g->job, "var", YK_F32, D(2), 1);
    g->count = yk_state(g->job, "count", YK_I32, 0, NULL, 0);
}

/* The traced contents: operations by number, and calls by name. */
typedef struct covered {
    bool op[256];
    char calls[4096];
} covered;

static void cover_trace(const yk_job *job, covered *seen)
{
    const yk__graph *t = &job->step.trace;
    const yk__recipes *r = &job->step.recipes;
    for (size_t i = 0; i < t->n_node; i++)
        seen->op[t->node[i].op] = true;
    for (size_t i = 0; i < r->n_made; i++) {
        char name[64];
        snprintf(name, sizeof name, " %s(", r->made[i].name);
        if (!strstr(seen->calls, name) && strlen(seen->calls) + strlen(name) < sizeof seen->calls)
            strcat(seen->calls, name);
    }
}

static void end_case(yk_job *job)
{
    job->step.loss = YK_NONE;
    job->step.n_assign = 0;
    yk__recipes_compared(&job->step.recipes);
    yk_end(job);
}

/* Both ranks' places are in this file, and one is the line of the case or of a helper, which stands above it. */
static bool names_lines(const char *text, int line)
{
    const char *other = strstr(text, ", where that has "), *first = strstr(text, "program.c:");
    bool is_near = false;
    for (const char *at = first; at; at = strstr(at + 1, "program.c:"))
        is_near = is_near || atoi(at + strlen("program.c:")) <= line;
    return other && first && first < other && strstr(other, "program.c:") && is_near;
}

/* All ranks make the case, the odd one altered where that is asked for. False: there is none of that number. */
static bool run_case(given *g, make_case *make, int which, bool is_altered, bool may_differ, covered *seen)
{
    yk_error err = YK_ERROR_INIT;
    char where[512] = "";
    uint64_t sign[3];
    feed_rows(g);
    const yk_t out = make(g, which, is_altered && yk_rank(g->job) == ODD);
    if (!out.id && yk_ok(g->job)) {
        end_case(g->job);
        return false;
    }
    g->job->step.loss = (yk__vid)out.id; /* no parameter */
    cover_trace(g->job, seen);
    const uint64_t own = yk__recipes_sign(&g->job->step.recipes, yk__agree_loss(g->job));
    yk__group_all_gather(g->job->team.group, &own, sizeof own, sign, &err);
    const bool differs = sign[ODD] != sign[0];
    if (differs)
        yk__agree_graph_place(g->job, ODD, 0, where, sizeof where, &err);
    if (yk_ok(g->job) && (sign[1] != sign[0] || differs != (is_altered && may_differ) || (differs && !names_lines(where, g->line)))) {
        char text[1024];
        snprintf(text, sizeof text, "case at line %d%s: signs %016llx %016llx %016llx%s", g->line, is_altered ? ", altered" : "",
                 (unsigned long long)sign[0], (unsigned long long)sign[1], (unsigned long long)sign[2], where);
        yk_fail(g->job, YK_E_ARG, text);
    }
    end_case(g->job);
    return yk_ok(g->job);
}

static void run_cases(given *g, make_case *make, bool may_differ, covered *seen)
{
    int which = 0;
    while (run_case(g, make, which, false, may_differ, seen) && run_case(g, make, which, true, may_differ, seen))
        which++;
    if (yk_ok(g->job) && which < 2)
        yk_fail(g->job, YK_E_ARG, "no cases");
}

/* Operations that plans have and traces do not. */
static bool op_is_planned(uint32_t op)
{
    switch (op) {
    case YK_OP_RNG: case YK_OP_SCATTER_ADD: case YK_OP_UNFOLD: case YK_OP_FOLD: case YK_OP_MAP: case YK_OP_DOT_MAP: case YK_OP_MAP_SUM:
    case YK_OP_ADAM_STEP: case YK_OP_SGD_STEP: case YK_OP_GRAD_STATS: case YK_OP_ROUND8: case YK_OP_CONV2D_DX: case YK_OP_CONV2D_DW:
        return true;
    default:
        return strstr(yk__op_info_of(op)->name, "_bwd") != NULL;
    }
}

/* Each operation of a trace, and each call of the header that makes a value, has a case. */
static void check_covered(yk_job *job, const covered *seen)
{
    static const char *const other[] = {"yk_param", "yk_state", "yk_param_at", "yk_param_find", "yk_cross_entropy_with", "yk_forward",
                                        "yk_keep", "yk_replicated", "yk_pack_tokens",
                                        "yk_unpack_tokens", "yk_dropout_packed", NULL};
    char line[512], name[64], call[80], path[512];
    const char *source = getenv("srcdir");
    for (uint32_t op = 0; op < 256; op++)
        if (yk__op_info_of(op) && !op_is_planned(op) && !seen->op[op]) {
            snprintf(line, sizeof line, "operation %s has no case", yk__op_info_of(op)->name);
            yk_fail(job, YK_E_ARG, line);
        }
    snprintf(path, sizeof path, "%s/include/yoke/yoke.h", source ? source : "..");
    FILE *f = fopen(path, "r");
    if (!f)
        yk_fail(job, YK_E_ARG, "include/yoke/yoke.h is not there");
    while (f && fgets(line, sizeof line, f)) {
        int k = 0;
        if (sscanf(line, "YK_API yk_t %63[a-z0-9_]", name) != 1)
            continue;
        while (other[k] && strcmp(other[k], name))
            k++;
        snprintf(call, sizeof call, " %s(", name);
        if (!other[k] && !strstr(seen->calls, call) && strncmp(name, "yk_model", 8)) {
            snprintf(line, sizeof line, "%s has no case", name);
            yk_fail(job, YK_E_ARG, line);
        }
    }
    if (f)
        fclose(f);
}

static int rank_main(const char *mode)
{
    static covered seen;
    static const int64_t rows[3] = {3, 0, 1};
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 7});
    given g = {.job = job, .n = rows[yk_rank(job) % 3]};
    make_parameters(&g);
    if (!strcmp(mode, "legal"))
        run_cases(&g, make_legal, false, &seen);
    for (size_t i = 0; !strcmp(mode, "altered") && i < sizeof made / sizeof *made && yk_ok(job); i++)
        run_cases(&g, made[i], true, &seen);
    if (!strcmp(mode, "altered") && yk_ok(job) && yk_rank(job) == ODD)
        check_covered(job, &seen);
    return yk_close(job);
}

START_TEST(what_one_rank_alters_names_both_lines)
{
    char said[4096];
    ck_assert_msg(ranks_run(DEVICES, "altered", said, sizeof said) == 0, "%s", said);
}
END_TEST

START_TEST(what_follows_from_other_rows_is_not)
{
    char said[4096];
    ck_assert_msg(ranks_run(DEVICES, "legal", said, sizeof said) == 0, "%s", said);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1]);
    TCase *t = tcase_create("ranks");
    tcase_add_checked_fixture(t, ranks_folder_make, ranks_folder_remove);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_test(t, what_one_rank_alters_names_both_lines);
    tcase_add_test(t, what_follows_from_other_rows_is_not);
    return suite_run("program", t);
}
