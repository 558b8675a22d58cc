/* SPDX-License-Identifier: Apache-2.0 */
/* A trace rewritten to another number of rows is the trace of a batch with so many rows, for each model. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "core/job/job.h"
#include "core/job/loop/flush.h"
#include "core/job/trace/other_rows.h"
#include "core/job/trace/step_feed.h"
#include "models/model.h"
#include "tests/support/run.h"

/* Eight is also the number of channels, heads x 4, classes and tokens: lengths do not tell which axis holds rows. */
enum { MOST = 12, TOKENS = 8, IMAGE = 3 * 32 * 32, BERT = 3, VIEWS = 4 };

static const struct {
    const char *model, *config;
    bool text, running; /* its rows are tokens; its labels are, too */
} nets[] = {
    {"mlp", "input_size=3072,hidden=8+16,num_labels=8", false, false},
    {"resnet20", "num_labels=8", false, false},
    {"gpt2", "vocab_size=32,n_positions=8,n_embd=8,n_layer=2,n_head=2,attn_pdrop=0.1,embd_pdrop=0.1,resid_pdrop=0.1", true, true},
    {"bert", "vocab_size=32,hidden_size=8,num_hidden_layers=2,num_attention_heads=2,intermediate_size=16,max_position_embeddings=8,"
             "num_labels=8", true, false},
    {"views", NULL, false, false}, /* views_loss */
};

/* Rows of two batches: known by their number alone, equal to other lengths, multiples of each other, and prime. */
static const int64_t row_pairs[][2] = {{8, 4}, {4, 8}, {2, 12}, {8, 7}, {3, 8}, {5, 3}};

typedef struct rig {
    yk_job *job;
    yk_model *model;
    yk_t bias, weight; /* of views_loss */
    int net;
    bool own;    /* inputs are the program's own, not of a data set */
    bool masked; /* there is a mask of tokens, by which BERT packs them */
} rig;

/* A job of one rank, whose steps are traced as a rank of two traces them. No step runs. */
static void rig_open(rig *r, int net)
{
    *r = (rig){.net = net, .job = yk_open(&(yk_config){.devices = "cpu", .quiet = true})};
    ck_assert_msg(yk_ok(r->job), "%s", yk_error_text(r->job));
    if (net == VIEWS) {
        r->bias = yk_param(r->job, "bias", 3, (int64_t[]){3, 1, 2}, (yk_init){0});
        r->weight = yk_param(r->job, "weight", 2, (int64_t[]){3, 4}, (yk_init){0});
    } else {
        r->model = yk_model_new(r->job, nets[net].model, nets[net].config, NULL);
    }
    ck_assert_msg(yk_ok(r->job), "%s", yk_error_text(r->job));
    r->job->team.world = 2;
}

static void step_drop(rig *r)
{
    yk__step_end(r->job);
    r->job->backwards = 0;
}

static void rig_close(rig *r)
{
    step_drop(r);
    r->job->team.world = 1;
    ck_assert_msg(yk_ok(r->job), "%s", yk_error_text(r->job));
    ck_assert_int_eq(yk_close(r->job), 0);
}

static yk_t rig_input(const rig *r, yk_dtype dtype, uint32_t dims, const int64_t *dim)
{
    static int32_t data[MOST * IMAGE];
    for (int i = 0; i < MOST * TOKENS; i++)
        data[i] = 1; /* no token is masked */
    return r->own ? yk_input(r->job, dtype, dims, dim, data) : yk__input_padded(r->job, dtype, dims, dim, data, NULL);
}

static yk_t model_loss(const rig *r, int64_t rows)
{
    const bool text = nets[r->net].text;
    const int64_t image[4] = {rows, 3, 32, 32}, token[2] = {rows, TOKENS};
    yk_batch b = {.rows = rows, .global_rows = 2 * rows, .width = TOKENS};
    b.x = text ? rig_input(r, YK_I32, 2, token) : rig_input(r, YK_F32, 4, image);
    b.input_ids = b.x;
    if (r->masked)
        b.attention_mask = rig_input(r, YK_I32, 2, token);
    b.labels = rig_input(r, YK_I32, nets[r->net].running ? 2 : 1, token);
    return yk_model_loss(r->model, &b, yk_forward(r->model, &b));
}

/* Views whose axis of rows is not the first: offsets, strides and merged axes that depend on the number of rows. */
static yk_t views_loss(const rig *r, int64_t rows)
{
    const uint32_t swap[3] = {1, 0, 2};
    const yk_t x = rig_input(r, YK_F32, 3, (int64_t[]){rows, 8, 2});
    const yk_t inner = yk_relu(yk_permute(x, swap));                                  /* [8, rows, 2], dense */
    const yk_t some = yk_add(yk_slice(inner, 0, 2, 8, 2), r->bias);                   /* [3, rows, 2] */
    const yk_t whole = yk_pad(yk_concat((yk_t[]){some, inner}, 2, 0), 2, 1, 0, 0.0f); /* [11, rows, 3] */
    const yk_t product = yk_matmul(yk_reshape(whole, 2, (int64_t[]){11 * rows, 3}), r->weight);
    const yk_t outer = yk_permute(yk_reshape(product, 3, (int64_t[]){11, rows, 4}), swap);
    const yk_t part = yk_slice(outer, 1, 3, 11, 4); /* [rows, 2, 4] */
    return yk_sum(yk_mul(part, yk_mean(part, 1, true)), 7, false);
}

/* Traces a batch up to its loss. */
static void rig_trace(rig *r, int64_t rows)
{
    step_drop(r);
    yk_set_rows(r->job, rows, NULL, 2 * rows);
    yk_backward(r->net == VIEWS ? views_loss(r, rows) : model_loss(r, rows));
    ck_assert_msg(yk_ok(r->job), "%s", yk_error_text(r->job));
}

/* Compares value by value, so that a failure names the first that differs. */
static void expect_same(const yk__graph *g, const yk__graph *want)
{
    char a[96], b[96];
    ck_assert_uint_eq(g->n_value, want->n_value);
    ck_assert_uint_eq(g->n_node, want->n_node);
    ck_assert_uint_eq(g->n_slot, want->n_slot);
    for (size_t i = 0; i < g->n_value; i++)
        ck_assert_msg(!memcmp(&g->value[i], &want->value[i], sizeof *g->value), "value %zu is %s at %llu, not %s at %llu", i,
                      yk__value_shape_text(&g->value[i], a, sizeof a), (unsigned long long)g->value[i].offset,
                      yk__value_shape_text(&want->value[i], b, sizeof b), (unsigned long long)want->value[i].offset);
    for (size_t i = 0; i < g->n_slot; i++)
        ck_assert_uint_eq(g->slot[i].bytes, want->slot[i].bytes);
    for (size_t i = 0; i < g->n_node; i++)
        ck_assert_uint_eq(g->node[i].stream, want->node[i].stream);
    ck_assert_uint_eq(g->hash, want->hash);
}

START_TEST(a_rewritten_trace_is_the_traced_one)
{
    const size_t pairs = sizeof row_pairs / sizeof *row_pairs;
    yk__graph g;
    rig r;
    yk__graph_init(&g);
    rig_open(&r, _i);
    r.masked = nets[_i].running;
    for (size_t i = 0; i < pairs; i++) {
        rig_trace(&r, row_pairs[i][0]);
        const uint64_t had = r.job->step.trace.hash;
        ck_assert_msg(yk__trace_with_rows(r.job, row_pairs[i][1], &g), "%s from %lld rows to %lld is refused: value %zu of %zu, %s",
                      nets[_i].model, (long long)row_pairs[i][0], (long long)row_pairs[i][1], g.n_value, r.job->step.trace.n_value,
                      g.error.text);
        rig_trace(&r, row_pairs[i][1]);
        expect_same(&g, &r.job->step.trace);
        ck_assert_uint_ne(g.hash, had);
    }
    yk__graph_free(&g);
    rig_close(&r);
}
END_TEST

static void expect_refused(rig *r, int64_t had, int64_t rows)
{
    yk__graph g;
    yk__graph_init(&g);
    rig_trace(r, had);
    ck_assert_msg(!yk__trace_with_rows(r->job, rows, &g), "%s from %lld rows to %lld", nets[r->net].model, (long long)had, (long long)rows);
    yk__graph_free(&g);
}

/* Eight may be the rows, or a length that is the same on all ranks. */
START_TEST(an_input_that_may_be_shared_is_refused)
{
    rig r;
    rig_open(&r, _i);
    r.own = true;
    expect_refused(&r, 8, 4);
    rig_close(&r);
}
END_TEST

/* The number of packed rows depends on the masks of the batch. */
START_TEST(packed_tokens_are_refused)
{
    rig r;
    rig_open(&r, BERT);
    r.masked = true;
    expect_refused(&r, 8, 4);
    rig_close(&r);
}
END_TEST

/* One row looks like an axis that is broadcast; none makes other operations. A rank alone has no table of placements. */
START_TEST(a_single_row_and_a_single_rank_are_refused)
{
    rig r;
    rig_open(&r, 0);
    expect_refused(&r, 1, 4);
    expect_refused(&r, 4, 1);
    expect_refused(&r, 4, 0);
    r.job->team.world = 1;
    expect_refused(&r, 8, 4);
    rig_close(&r);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("other_rows");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, a_rewritten_trace_is_the_traced_one, 0, sizeof nets / sizeof *nets);
    tcase_add_loop_test(c, an_input_that_may_be_shared_is_refused, 0, sizeof nets / sizeof *nets);
    tcase_add_test(c, packed_tokens_are_refused);
    tcase_add_test(c, a_single_row_and_a_single_rank_are_refused);
    return suite_run("job_other_rows", c);
}
