/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on the reference plugin: an MLP trains like the same formulas in double precision written out here. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/extension.h>

#include "core/base/mem.h"
#include "core/run/engine.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

enum { ROWS = 6, IN = 5, MID = 7, OUT = 3, N_PARAM = 4 };

static const uint64_t size[N_PARAM] = {IN * MID, MID, MID *OUT, OUT};

/* ---- The truth: loss = mean cross entropy of relu(x w1 + b1) w2 + b2 ---- */

typedef struct truth {
    double p[N_PARAM][64], g[N_PARAM][64], m[N_PARAM][64], v[N_PARAM][64];
} truth;

static double draw_number(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (double)(*s >> 8) / (1 << 24) - 0.5;
}

static double truth_run(truth *t, const float *x, const int32_t *y, double weight)
{
    double loss = 0.0;
    for (int r = 0; r < ROWS; r++) {
        double h[MID], z[OUT], e[OUT], dh[MID] = {0}, sum = 0.0;
        for (int j = 0; j < MID; j++) {
            h[j] = t->p[1][j];
            for (int i = 0; i < IN; i++)
                h[j] += (double)x[r * IN + i] * t->p[0][i * MID + j];
            h[j] = h[j] > 0 ? h[j] : 0;
        }
        for (int k = 0; k < OUT; k++) {
            z[k] = t->p[3][k];
            for (int j = 0; j < MID; j++)
                z[k] += h[j] * t->p[2][j * OUT + k];
            sum += exp(z[k]);
        }
        loss += weight * (log(sum) - z[y[r]]);
        for (int k = 0; k < OUT; k++) {
            e[k] = weight * (exp(z[k]) / sum - (k == y[r]));
            t->g[3][k] += e[k];
            for (int j = 0; j < MID; j++) {
                t->g[2][j * OUT + k] += h[j] * e[k];
                dh[j] += h[j] > 0 ? e[k] * t->p[2][j * OUT + k] : 0;
            }
        }
        for (int j = 0; j < MID; j++) {
            t->g[1][j] += dh[j];
            for (int i = 0; i < IN; i++)
                t->g[0][i * MID + j] += (double)x[r * IN + i] * dh[j];
        }
    }
    return loss;
}

static double truth_norm(const truth *t, double divisor)
{
    double s = 0.0;
    for (int i = 0; i < N_PARAM; i++)
        for (uint64_t k = 0; k < size[i]; k++)
            s += t->g[i][k] / divisor * t->g[i][k] / divisor;
    return sqrt(s);
}

/* AdamW, lr 0.01, decay 0.1 on matrices only. */
static void truth_adam(truth *t, int step, double factor)
{
    const double c1 = 1 - pow(0.9, step), c2 = 1 - pow(0.999, step);
    for (int i = 0; i < N_PARAM; i++)
        for (uint64_t k = 0; k < size[i]; k++) {
            const double g = t->g[i][k] * factor;
            t->p[i][k] *= 1 - 0.01 * (i % 2 ? 0.0 : 0.1);
            t->m[i][k] = 0.9 * t->m[i][k] + 0.1 * g;
            t->v[i][k] = 0.999 * t->v[i][k] + 0.001 * g * g;
            t->p[i][k] -= 0.01 / c1 * t->m[i][k] / (sqrt(t->v[i][k]) / sqrt(c2) + 1e-8);
        }
    memset(t->g, 0, sizeof t->g);
}

/* ---- The same through the engine ---- */

typedef struct rig {
    yk__device *dev;
    yk__group *group;
    yk__engine *e;
    uint32_t number[N_PARAM];
    yk_error err;
} rig;

static void expect_ok(const rig *r, yk_status s)
{
    ck_assert_msg(!s, "%s", r->err.text);
}

#define NONE_FROZEN N_PARAM

static uint64_t max_alloc, bucket_bytes = 256;

static void rig_device(rig *r)
{
    memset(r, 0, sizeof *r);
    expect_ok(r, ref_open(&r->dev, &r->err));
    ref.max_alloc = r->dev->caps.max_alloc = max_alloc; /* of the engine's buffers: the probe's are larger */
}

/* An engine on the rig's device, whose parameters, trained but for one, are not written yet. */
static void rig_engine(rig *r, const yk__engine_config *c, int frozen)
{
    expect_ok(r, yk__group_solo(&r->group, &r->err));
    expect_ok(r, yk__engine_new(r->dev, r->group, c, &r->e, &r->err));
    for (int i = 0; i < N_PARAM; i++)
        expect_ok(r, yk__engine_param(r->e, "p", size[i], i != frozen, &r->number[i], &r->err));
}

static void rig_bare(rig *r, const yk__engine_config *c, int frozen)
{
    rig_device(r);
    rig_engine(r, c, frozen);
}

static void rig_open(rig *r, const truth *t, yk_dtype precision)
{
    rig_bare(r, &(yk__engine_config){.precision = precision, .bucket_bytes = bucket_bytes}, NONE_FROZEN);
    for (int i = 0; i < N_PARAM; i++) {
        float v[64];
        for (uint64_t k = 0; k < size[i]; k++)
            v[k] = (float)t->p[i][k];
        expect_ok(r, yk__engine_param_write(r->e, r->number[i], v, &r->err));
    }
}

static void rig_close(rig *r)
{
    yk__engine_free(r->e);
    yk__group_leave(r->group);
    yk__device_close(r->dev);
}

static double smoothing; /* of the labels: another one is another program */

typedef struct net {
    yk__graph g;
    yk__vid loss, seed, logits;
} net;

static void net_build(net *n, const rig *r)
{
    const int64_t dx[2] = {ROWS, IN}, dy = ROWS, dp[N_PARAM][2] = {{IN, MID}, {MID, 0}, {MID, OUT}, {OUT, 0}};
    const int64_t ce[2] = {-100, yk_attr_of_f64(smoothing)};
    yk__vid p[N_PARAM], x, y, h, in[2], out[2], scale;
    yk__graph *g = &n->g;
    yk__graph_init(g);
    for (int i = 0; i < N_PARAM; i++)
        p[i] = yk__leaf(g, yk__slot_new(g, YK_SLOT_PARAM, size[i] * 4, r->number[i]), 0, YK_F32, i % 2 ? 1 : 2, dp[i]);
    x = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, ROWS * IN * 4, 0), 0, YK_F32, 2, dx);
    y = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, ROWS * 4, 1), 0, YK_I32, 1, &dy);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    h = yk__bin(g, YK_OP_ADD, yk__dot(g, x, p[0], false, false), p[1]);
    h = yk__un(g, YK_OP_RELU, h);
    n->logits = yk__bin(g, YK_OP_ADD, yk__dot(g, h, p[2], false, false), p[3]);
    in[0] = n->logits, in[1] = y;
    ck_assert_uint_eq(yk__apply(g, YK_OP_CROSS_ENTROPY, 2, in, 2, ce, YK_DTYPE_COUNT, 0, NULL, out, 2), 2);
    scale = yk__scale(g, yk__sum(g, out[0], 1), 1.0 / ROWS);
    n->loss = yk__reshape(g, scale, 0, NULL);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
}

static void draw_data(uint32_t *s, float *x, int32_t *y)
{
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)draw_number(s);
    for (int i = 0; i < ROWS; i++)
        y[i] = (int32_t)((draw_number(s) + 0.5) * OUT);
}

/* Queues a micro batch; *loss is there when its ticket is. */
static uint64_t rig_submit(rig *r, const float *x, const int32_t *y, bool first, float *loss)
{
    const float one = 1.0f;
    const void *input[3] = {x, y, &one};
    const uint64_t bytes[3] = {ROWS * IN * 4, ROWS * 4, 4};
    void *host[1] = {loss};
    uint64_t ticket;
    net n;
    net_build(&n, r);
    expect_ok(r, yk__engine_run(r->e,
                         &(yk__micro){.trace = &n.g, .loss = n.loss, .seed = n.seed, .first = first,
                                      .n_input = 3, .input = input, .input_bytes = bytes, .n_result = 1,
                                      .result = &n.loss, .result_host = host},
                         &ticket, &r->err));
    yk__graph_free(&n.g);
    return ticket;
}

static float rig_micro(rig *r, const float *x, const int32_t *y, bool first)
{
    float loss = NAN;
    expect_ok(r, yk__engine_wait(r->e, rig_submit(r, x, y, first, &loss), &r->err));
    return loss;
}

static void truth_start(truth *t, uint32_t *s)
{
    memset(t, 0, sizeof *t);
    for (int i = 0; i < N_PARAM; i++)
        for (uint64_t k = 0; k < size[i]; k++)
            t->p[i][k] = (float)draw_number(s);
}

static void set_hyper(float h[2][YK_HYPER_COUNT], int step)
{
    memset(h, 0, 2 * sizeof h[0]);
    for (int i = 0; i < 2; i++) {
        h[i][YK_HYPER_LR] = 0.01f;
        h[i][YK_HYPER_B1] = 0.9f;
        h[i][YK_HYPER_B2] = 0.999f;
        h[i][YK_HYPER_EPS] = 1e-8f;
        h[i][YK_HYPER_DECAY] = i ? 0.0f : 0.1f;
        h[i][YK_HYPER_C1] = (float)(1 - pow(0.9, step));
        h[i][YK_HYPER_SQRT_C2] = (float)sqrt(1 - pow(0.999, step));
    }
}

static void rig_train(int claim, yk_dtype precision)
{
    static const uint32_t group[N_PARAM] = {0, 1, 0, 1};
    const double loose = precision == YK_F32 ? 1.0 : 2000.0; /* 2^-8 against 2^-24, errors do not all add up */
    uint32_t s = 7;
    truth t;
    rig r;
    yk__engine_stats st;
    ref.claim = claim;
    truth_start(&t, &s);
    rig_open(&r, &t, precision);
    expect_ok(&r, yk__engine_optimizer(r.e,
                                &(yk__opt_layout){.kind = YK_OPT_ADAM, .flags = YK_OPT_DECOUPLED, .n_group = 2,
                                                  .group_of = group},
                                &r.err));
    for (int step = 1; step <= 5; step++) {
        float x[ROWS * IN], h[2][YK_HYPER_COUNT], p[64];
        int32_t y[ROWS];
        yk__updated u;
        double norm;
        for (int m = 0; m < 2; m++) {
            draw_data(&s, x, y);
            ck_assert_double_eq_tol(truth_run(&t, x, y, 1.0 / ROWS), rig_micro(&r, x, y, m == 0), 1e-5 * loose);
        }
        set_hyper(h, step);
        expect_ok(&r, yk__engine_update(r.e,
                                 &(yk__update){.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 2.0, .clip_norm = 0.2},
                                 &u, &r.err));
        norm = truth_norm(&t, 2.0);
        ck_assert_double_eq_tol(u.grad_norm, norm, 1e-5 * loose);
        for (int i = 0; i < N_PARAM; i++) {
            expect_ok(&r, yk__engine_grad_read(r.e, r.number[i], p, &r.err));
            for (uint64_t k = 0; k < size[i]; k++)
                ck_assert_double_eq_tol(p[k], t.g[i][k] / 2, 1e-6 * loose);
        }
        truth_adam(&t, step, (norm + 1e-6 > 0.2 ? 0.2 / (norm + 1e-6) : 1.0) / 2.0);
        for (int i = 0; i < N_PARAM; i++) {
            expect_ok(&r, yk__engine_param_read(r.e, r.number[i], p, &r.err));
            for (uint64_t k = 0; k < size[i]; k++)
                ck_assert_double_eq_tol(p[k], t.p[i][k], 1e-5 * loose);
        }
    }
    yk__engine_stats_get(r.e, &st);
    ck_assert_uint_eq(st.compiles, 2); /* first and last of the window */
    ck_assert_uint_eq(st.hits, 8);
    ck_assert_uint_eq(st.peak_bytes, ref.bytes);
    rig_close(&r);
    ck_assert_uint_eq(ref.buffers, 0);
    ck_assert_uint_eq(ref.programs, 0);
}

START_TEST(adam_of_two_groups_with_accumulation_and_clipping)
{
    rig_train(_i, YK_F32);
}
END_TEST

/* What a step has between parameters passes the device's largest buffer; no value by itself does. */
START_TEST(arena_larger_than_a_buffer)
{
    max_alloc = 1024;
    rig_train(_i, YK_F32);
    ref.max_alloc = max_alloc = 0;
}
END_TEST

START_TEST(buckets_larger_than_a_buffer)
{
    const uint64_t largest = 3 * 65536, n = 20000;
    uint32_t number;
    rig r;
    max_alloc = largest;
    rig_bare(&r, &(yk__engine_config){.precision = YK_F32, .bucket_bytes = 1 << 20}, 0);
    for (int i = 0; i < 5; i++)
        expect_ok(&r, yk__engine_param(r.e, "large", n, i > 1, &number, &r.err));
    expect_ok(&r, yk__engine_lay_out(r.e, &r.err));
    ck_assert_uint_eq(r.e->params.n_bucket, 2); /* of two, and of one with the small ones */
    ck_assert_uint_eq(r.e->params.n_all_bucket, 3);
    for (uint32_t i = 0; i < r.e->params.n_all_bucket; i++)
        ck_assert_uint_le(r.e->params.bucket[i].layout.n * sizeof(float), largest);
    expect_ok(&r, yk__engine_param(r.e, "huge", largest / 4 + 1, true, &number, &r.err));
    ck_assert_int_eq(yk__engine_lay_out(r.e, &r.err), YK_E_MEM);
    ck_assert_msg(strstr(r.err.text, "parameter \"huge\" has 196612 bytes; the device's largest buffer has 196608"), "%s", r.err.text);
    rig_close(&r);
    ref.max_alloc = max_alloc = 0;
}
END_TEST

/* A single rank exchanges nothing: one bucket, whatever others would exchange at a time. */
START_TEST(a_single_rank_has_one_bucket)
{
    uint32_t number;
    rig r;
    setenv("YOKE_BUCKET_BYTES", "4096", 1);
    rig_bare(&r, &(yk__engine_config){.precision = YK_F32}, NONE_FROZEN);
    for (int i = 0; i < 3; i++)
        expect_ok(&r, yk__engine_param(r.e, "large", 20000, true, &number, &r.err));
    expect_ok(&r, yk__engine_lay_out(r.e, &r.err));
    ck_assert_uint_eq(r.e->params.n_bucket, 1);
    rig_close(&r);
}
END_TEST

START_TEST(mixed_precision)
{
    rig_train(_i, YK_BF16);
    rig_train(_i, YK_F16);
}
END_TEST

enum { COPIED = 9 }; /* losses of a training in 16 bits in which all that changes parameters happens */

/* Without a limit programs read 16-bit copies that live between steps, with one they cast for themselves. */
static void train_with_copies(uint64_t limit, yk__opt_kind kind, float loss[COPIED])
{
    const yk__engine_config c = {.precision = YK_BF16, .memory_limit = limit, .bucket_bytes = 256};
    uint32_t s = 7, n = 0;
    float x[ROWS * IN], h[2][YK_HYPER_COUNT], w[IN * MID];
    int32_t y[ROWS];
    yk__updated u;
    rig r;
    rig_bare(&r, &c, 2); /* the second matrix */
    for (int round = 0; round < 3; round++) { /* written by the host, between updates too */
        for (int i = 0; i < IN * MID; i++)
            w[i] = (float)draw_number(&s);
        expect_ok(&r, yk__engine_param_write(r.e, r.number[0], w, &r.err));
        expect_ok(&r, yk__engine_param_write(r.e, r.number[2], w, &r.err));
        draw_data(&s, x, y);
        loss[n++] = rig_micro(&r, x, y, true);
        if (!round)
            expect_ok(&r, yk__engine_optimizer(r.e, &(yk__opt_layout){.kind = kind, .momentum = true, .n_group = 1}, &r.err));
        set_hyper(h, round + 1);
        h[0][YK_HYPER_LR] = 0.2f;
        h[0][YK_HYPER_B2] = kind == YK_OPT_SGD ? 0.0f : 0.999f; /* sgd: dampening */
        for (int k = 0; k < 2; k++) {
            expect_ok(&r, yk__engine_update(r.e, &(yk__update){.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 1.0}, &u, &r.err));
            smoothing = 0.1 * round; /* another program over the same copies */
            loss[n++] = rig_micro(&r, x, y, true);
            smoothing = 0.0;
        }
    }
    rig_close(&r);
    ck_assert_uint_eq(ref.buffers, 0);
    ck_assert_uint_eq(ref.programs, 0);
}

START_TEST(copies_in_16_bits_are_what_casts_would_be)
{
    static const yk__opt_kind kind[] = {YK_OPT_ADAM, YK_OPT_SGD};
    float a[COPIED], b[COPIED];
    ref.claim = REF_CLAIM_ALL;
    train_with_copies(0, kind[_i], a);
    train_with_copies(1 << 20, kind[_i], b);
    for (int i = 0; i < COPIED; i++)
        ck_assert_msg(a[i] == b[i], "loss %d is %.9g with copies, %.9g with casts", i, a[i], b[i]);
    ck_assert(a[0] != a[1] && a[1] != a[2]);
}
END_TEST

/* With about the memory that a first engine needed a second one trains alike; with hardly any it says so. */
static yk_status train_limited(uint64_t limit, bool plans_only, uint64_t *peak, float *loss, yk_error *err)
{
    uint32_t s = 7;
    const yk__engine_config c = {.precision = YK_F32, .memory_limit = limit, .bucket_bytes = 256};
    float x[ROWS * IN], h[2][YK_HYPER_COUNT];
    int32_t y[ROWS];
    yk__engine_stats st;
    yk__updated u;
    rig r;
    rig_device(&r);
    if (plans_only)
        expect_ok(&r, yk__device_plan_only(r.dev, &r.err));
    rig_engine(&r, &c, NONE_FROZEN);
    draw_data(&s, x, y);
    set_hyper(h, 1);
    if (!yk__engine_lay_out(r.e, &r.err)) {
        *loss = rig_micro(&r, x, y, true);
        expect_ok(&r, yk__engine_optimizer(r.e, &(yk__opt_layout){.kind = YK_OPT_ADAM, .n_group = 1}, &r.err));
        expect_ok(&r, yk__engine_update(r.e, &(yk__update){.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 1.0}, &u, &r.err));
        *loss = rig_micro(&r, x, y, true);
    }
    yk__engine_stats_get(r.e, &st);
    *peak = st.peak_bytes;
    *err = r.err;
    rig_close(&r);
    return err->status;
}

START_TEST(memory_limit)
{
    yk_error err = YK_ERROR_INIT;
    uint64_t need, peak;
    float a, b;
    ref.claim = REF_CLAIM_ALL;
    ck_assert(!train_limited(0, false, &need, &a, &err));
    ck_assert_msg(!train_limited(need + 2048, false, &peak, &b, &err), "%s", err.text);
    ck_assert_uint_le(peak, need + 2048);
    ck_assert(a == b);
    ck_assert(train_limited(1000, false, &peak, &b, &err) == YK_E_MEM);
    ck_assert_ptr_nonnull(strstr(err.text, "1000"));
}
END_TEST

/* Many programs over an engine whose cache has `bytes`: how many live at the end, and how often the last ones were found. */
static uint64_t many_programs(uint64_t bytes, uint64_t *hits)
{
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 256, .cache_bytes = bytes};
    uint32_t s = 7;
    float x[ROWS * IN];
    int32_t y[ROWS];
    uint64_t alive;
    yk__engine_stats st;
    rig r;
    draw_data(&s, x, y);
    rig_bare(&r, &c, NONE_FROZEN);
    for (int i = 0; i < 24; i++) {
        smoothing = 0.01 * (i < 20 ? i : i - 4); /* the last four come twice */
        rig_micro(&r, x, y, true);
    }
    smoothing = 0.0;
    yk__engine_stats_get(r.e, &st);
    *hits = st.hits;
    alive = ref.programs;
    rig_close(&r);
    return alive;
}

START_TEST(cache_keeps_to_its_memory)
{
    uint64_t hits;
    ref.claim = REF_CLAIM_ALL;
    ck_assert_uint_eq(many_programs(0, &hits), 20);
    ck_assert_uint_eq(hits, 4);
    ck_assert_uint_eq(many_programs(1, &hits), 4); /* as many as a window needs */
    ck_assert_uint_eq(hits, 4);
    ck_assert_uint_lt(many_programs(100000, &hits), 20);
    ck_assert_uint_eq(hits, 4);
}
END_TEST

/* On a device that plans only the engine counts what it holds on another, and the plugin is asked for nothing. */
START_TEST(a_planning_device_counts_the_same)
{
    yk_error err = YK_ERROR_INIT;
    uint64_t real, planned, tight;
    float loss = 0;
    ref.claim = REF_CLAIM_ALL;
    ck_assert(!train_limited(0, false, &real, &loss, &err));
    ref.runs = 0;
    ck_assert(!train_limited(0, true, &planned, &loss, &err));
    ck_assert_uint_eq(planned, real);
    ck_assert_uint_eq(ref.runs, 1); /* the probe of a device that is opened */
    ck_assert(!train_limited(real + 2048, false, &real, &loss, &err));
    ck_assert(!train_limited(planned + 2048, true, &tight, &loss, &err));
    ck_assert_uint_eq(tight, real);
    ck_assert(train_limited(1000, true, &planned, &loss, &err) == YK_E_MEM);
}
END_TEST

/* A device that takes its time: the reference plugin's table with other words for "done". */
static struct {
    yk_plugin table;
    const yk_plugin *real;
    int slices, early; /* waits until it is done; buffers freed before that */
    int aborts;        /* of the island, while the device was at work */
    yk__group *ends;   /* another rank ends this job in the midst of the waits; NULL if none does */
} slow;

#define HELD 1000 /* waits behind a collective of a rank that is gone */

static void end_job(yk__group *group)
{
    yk_error why = YK_ERROR_INIT;
    yk__fail(&why, YK_E_CANCELLED, "another rank has ended");
    yk__group_abort(group, &why);
}

static yk_status slow_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    if (slow.ends && slow.slices == HELD / 2)
        end_job(slow.ends);
    return slow.slices && slow.slices-- ? YK_E_TIMEOUT : slow.real->queue_wait(q, point, timeout_ns);
}

static void slow_free(yk_buffer *b)
{
    slow.early += slow.slices > 0;
    slow.real->buffer_free(b);
}

/* When another rank ends the job, what this one has queued still runs: its buffers stay until it has ended. */
START_TEST(closing_an_aborted_job_waits_for_the_device)
{
    truth t = {0};
    float x[ROWS * IN], loss;
    int32_t y[ROWS];
    uint32_t seed = 7;
    rig r;
    rig_open(&r, &t, YK_F32);
    draw_data(&seed, x, y);
    rig_micro(&r, x, y, true);
    slow.real = r.dev->table;
    slow.table = *slow.real;
    slow.table.queue_wait = slow_wait;
    slow.table.buffer_free = slow_free;
    r.dev->table = &slow.table;
    rig_submit(&r, x, y, true, &loss);
    slow.slices = 3;
    end_job(r.group);
    rig_close(&r);
    ck_assert_int_eq(slow.early, 0);
    ck_assert_int_eq(slow.slices, 0);
}
END_TEST

/* Another rank ends the job while this one makes a parameter's values; the copy that follows still runs. */
static yk_status read_aborted(void *object, uint64_t from, uint64_t n, float *to, yk_error *err)
{
    (void)from, (void)err;
    memset(to, 0, n * sizeof *to);
    end_job(object);
    slow.slices = 3;
    return YK_OK;
}

/* From here on the memory of a copy may go: it was the engine's for a write, and is the caller's for a read. */
static void expect_settled(const rig *r, yk_status s)
{
    ck_assert_int_eq(s, YK_E_CANCELLED);
    ck_assert_msg(r->dev->stopped || !slow.slices, "the copy still runs");
}

/* A rig with one step submitted, whose device's waits are slow_wait's. */
static void rig_open_slow(rig *r, const truth *t, float *x, int32_t *y, float *loss)
{
    uint32_t seed = 7;
    rig_open(r, t, YK_F32);
    draw_data(&seed, x, y);
    rig_micro(r, x, y, true);
    slow.real = r->dev->table;
    slow.table = *slow.real;
    slow.table.queue_wait = slow_wait;
    r->dev->table = &slow.table;
    rig_submit(r, x, y, true, loss);
}

START_TEST(values_stay_until_their_copy_has_ended)
{
    const bool reads = _i;
    truth t = {0};
    float x[ROWS * IN], loss, value[64];
    int32_t y[ROWS];
    rig r;
    rig_open_slow(&r, &t, x, y, &loss);
    expect_ok(&r, yk__engine_wait(r.e, 0, &r.err));
    if (reads) {
        read_aborted(r.group, 0, 1, value, &r.err);
        expect_settled(&r, yk__engine_param_read(r.e, r.number[0], value, &r.err));
    } else {
        expect_settled(&r, yk__engine_param_give(r.e, r.number[0], (yk__source){read_aborted, NULL, r.group, 0}, &r.err));
    }
    slow.slices = 0;
    rig_close(&r);
}
END_TEST

static void dead_abort(yk_comm *comm)
{
    (void)comm;
    slow.aborts += slow.slices > 0;
    slow.slices = 0;
}

static void dead_leave(yk_comm *comm)
{
    (void)comm;
}

/* A read in an ended job, the engine's end in such a job, and in one that ends meanwhile: no wait is behind the collective. */
START_TEST(a_collective_of_a_dead_rank_is_aborted_before_waits)
{
    static const yk_coll dead = {.size = sizeof dead, .abort = dead_abort, .leave = dead_leave};
    truth t = {0};
    float x[ROWS * IN], loss, value[64];
    int32_t y[ROWS];
    rig r;
    rig_open_slow(&r, &t, x, y, &loss);
    r.e->params.island.coll = &dead;
    r.e->params.island.comm = (yk_comm *)&slow;
    slow.slices = HELD;
    if (_i == 2)
        slow.ends = r.group;
    else
        end_job(r.group);
    if (_i == 0)
        ck_assert_int_eq(yk__engine_param_read(r.e, r.number[0], value, &r.err), YK_E_CANCELLED);
    else
        yk__queue_drain(&r.e->queue);
    ck_assert_int_eq(slow.aborts, 1);
    slow.ends = NULL;
    rig_close(&r);
}
END_TEST

/* Its communicator and lists would be lost. */
START_TEST(an_open_island_is_not_opened_again)
{
    yk_error err = YK_ERROR_INIT;
    yk__exchange exchange = {.world = 2};
    yk__queue queue = {.dev = NULL};
    yk__island island = {.asked = true, .size = 2};
    ck_assert_int_eq(yk__island_open(&island, &queue, &exchange, &err), YK_OK);
    ck_assert_uint_eq(island.size, 2);
}
END_TEST

/* ---- A program made in two halves ---- */

typedef struct made {
    yk__prog_maker maker;
    const yk__plan_request *request;
    yk__prog *prog;
    yk_error err;
} made;

static void *made_main(void *arg)
{
    made *m = arg;
    yk__prog_make(&m->maker, m->request, &m->prog, &m->err);
    return NULL;
}

/* The request of a forward run of the net. */
static void net_request(const rig *r, net *n, yk__plan_param *param, uint64_t *bucket_size, yk__plan_request *request)
{
    const yk__params *all = &r->e->params;
    yk__prog_request(&r->e->exec, &n->g, request);
    for (uint32_t i = 0; i < N_PARAM; i++)
        param[i] = (yk__plan_param){i, (int64_t)size[i], all->param[i].bucket, all->param[i].at * sizeof(float), all->param[i].bucket};
    for (uint32_t i = 0; i < all->n_all_bucket; i++)
        bucket_size[i] = all->bucket[i].layout.n * sizeof(float);
    request->n_param = N_PARAM, request->param = param;
    request->n_bucket = all->n_bucket, request->n_pulled = all->n_all_bucket, request->bucket_bytes = bucket_size;
    request->n_result = 1, request->result = &n->loss;
}

static float loss_of(rig *r, yk__prog *p, const float *x, const int32_t *y)
{
    const float one = 1.0f;
    float loss = NAN;
    expect_ok(r, yk__prog_run(&r->e->exec, p, (yk__inputs){3, (const void *[]){x, y, &one}, (uint64_t[]){ROWS * IN * 4, ROWS * 4, 4}},
                              &r->err));
    expect_ok(r, yk__fetches_add(&r->e->fetches, &r->e->queue, r->e->exec.instance.result, p->plan->result_offset[0], &loss, 4, &r->err));
    expect_ok(r, yk__engine_wait(r->e, 0, &r->err));
    return loss;
}

/* The step thread runs a program while another thread makes a second one, which then computes the same bits and counts the same. */
START_TEST(another_thread_makes_a_program)
{
    yk__plan_param param[N_PARAM];
    uint64_t bucket_size[N_PARAM + 1], held, accounts;
    yk__plan_request request;
    yk__prog *own = NULL;
    float x[ROWS * IN];
    int32_t y[ROWS];
    uint32_t s = 11;
    pthread_t other;
    truth t;
    rig r;
    net n;
    truth_start(&t, &s);
    draw_data(&s, x, y);
    rig_open(&r, &t, YK_F32);
    expect_ok(&r, yk__engine_lay_out(r.e, &r.err));
    net_build(&n, &r);
    net_request(&r, &n, param, bucket_size, &request);
    expect_ok(&r, yk__prog_new(&r.e->exec, &request, &own, &r.err));
    const float loss = loss_of(&r, own, x, y);
    ck_assert_double_eq_tol(loss, truth_run(&t, x, y, 1.0 / ROWS), 1e-5);
    held = r.e->queue.held, accounts = r.e->exec.accounts;
    made m = {.maker = yk__prog_maker_of(&r.e->exec), .request = &request, .err = YK_ERROR_INIT};
    ck_assert_int_eq(pthread_create(&other, NULL, made_main, &m), 0);
    for (int i = 0; i < 20; i++)
        ck_assert(loss_of(&r, own, x, y) == loss);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_msg(!m.err.status, "%s", m.err.text);
    ck_assert_uint_eq(m.prog->plan->n_segment, own->plan->n_segment);
    for (uint32_t i = 0; i < own->plan->n_segment; i++)
        ck_assert_uint_eq(m.prog->plan->segment[i].graph.hash, own->plan->segment[i].graph.hash);
    expect_ok(&r, yk__prog_adopt(&r.e->exec, m.prog, &r.err));
    ck_assert_uint_eq(r.e->queue.held, held);
    ck_assert_uint_eq(r.e->exec.accounts, accounts + own->accounts);
    ck_assert_double_ge(r.e->exec.compile_seconds, own->compile_seconds + m.prog->compile_seconds);
    ck_assert(loss_of(&r, m.prog, x, y) == loss);
    yk__prog_free(r.dev, own);
    yk__prog_free(r.dev, m.prog);
    yk__graph_free(&n.g);
    rig_close(&r);
    ck_assert_uint_eq(ref.programs, 0);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("engine");
    tcase_add_loop_test(c, adam_of_two_groups_with_accumulation_and_clipping, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, arena_larger_than_a_buffer, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_test(c, buckets_larger_than_a_buffer);
    tcase_add_loop_test(c, mixed_precision, REF_CLAIM_NONE, REF_CLAIM_ADD + 1);
    tcase_add_loop_test(c, copies_in_16_bits_are_what_casts_would_be, 0, 2);
    tcase_add_test(c, a_single_rank_has_one_bucket);
    tcase_add_test(c, memory_limit);
    tcase_add_test(c, cache_keeps_to_its_memory);
    tcase_add_test(c, a_planning_device_counts_the_same);
    tcase_add_test(c, another_thread_makes_a_program);
    tcase_add_test(c, closing_an_aborted_job_waits_for_the_device);
    tcase_add_loop_test(c, values_stay_until_their_copy_has_ended, 0, 2);
    tcase_add_loop_test(c, a_collective_of_a_dead_rank_is_aborted_before_waits, 0, 3);
    tcase_add_test(c, an_open_island_is_not_opened_again);
    return suite_run("run_train", c);
}
