/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device with memory of its own whose rank offloads has the bits of a processor: the same gradients, which are inputs here, go to a
 * processor's own update, and values, moments and norms are compared bit for bit. The device's own kernels give others. So it is with
 * gradients in slices, with parameters that the device pulls from the host's block (--shard params), and with moments in a file, which come
 * and go in small blocks. The only rank's update goes on under the next forward, here while nothing waits for it. With a part on the
 * host each bucket has the bits of the device that updates it.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/run/engine.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

enum { PARAMS = 3, MOST = 12345, STEPS = 7, BAD = 4, MOMENTS = 3 };

static const uint64_t size[PARAMS] = {5000, 70, MOST};
static const yk__placement processor = {.plugin = "cpu", .by_cores = true, .cores = "0"};

typedef struct trained {
    float value[PARAMS][MOST], grad[PARAMS][MOST], moment[MOMENTS][PARAMS][MOST];
    double norm[STEPS];
    uint64_t state_bytes, grad_bytes, host_bytes, disk_bytes;
    bool in_block; /* the device has no parameters between programs */
} trained;

static float number_of(int step, int param, uint64_t i)
{
    return (float)sin(1.7 * step + 0.3 * param + 0.01 * (double)i);
}

static bool reads_loss = true; /* else no program reads a parameter */

/* loss = sum of p x over all parameters: the gradient of p is x. */
static yk_status run_step(yk__engine *e, const uint32_t *number, int step, yk_error *err)
{
    static float x[PARAMS][MOST];
    static const float one = 1.0f;
    const void *input[PARAMS + 1] = {x[0], x[1], x[2], &one};
    const uint64_t bytes[PARAMS + 1] = {size[0] * 4, size[1] * 4, size[2] * 4, 4};
    static float loss_value;
    void *to[] = {&loss_value};
    yk__vid loss = YK_NONE;
    uint64_t ticket;
    yk__graph g;
    yk__graph_init(&g);
    for (int i = 0; i < PARAMS; i++) {
        const int64_t n = (int64_t)size[i];
        for (uint64_t k = 0; k < size[i]; k++)
            x[i][k] = number_of(step, i, k);
        const yk__vid p = yk__leaf(&g, yk__slot_new(&g, YK_SLOT_PARAM, size[i] * 4, number[i]), 0, YK_F32, 1, &n);
        const yk__vid in = yk__leaf(&g, yk__slot_new(&g, YK_SLOT_INPUT, size[i] * 4, (uint32_t)i), 0, YK_F32, 1, &n);
        const yk__vid sum = yk__reshape(&g, yk__sum(&g, yk__bin(&g, YK_OP_MUL, p, in), 1), 0, NULL);
        loss = loss == YK_NONE ? sum : yk__bin(&g, YK_OP_ADD, loss, sum);
    }
    x[1][3] = step == BAD ? INFINITY : x[1][3];
    const yk__vid seed = yk__leaf(&g, yk__slot_new(&g, YK_SLOT_INPUT, 4, PARAMS), 0, YK_F32, 0, NULL);
    if (g.error.status)
        *err = g.error;
    else
        yk__engine_run(e, &(yk__micro){.trace = &g, .loss = loss, .seed = seed, .first = true, .n_input = PARAMS + 1, .input = input,
                                       .input_bytes = bytes, .n_result = reads_loss, .result = &loss, .result_host = to}, &ticket, err);
    yk__graph_free(&g);
    return err->status;
}

static void hyper_fill(bool adam, int step, float h[YK_HYPER_COUNT])
{
    memset(h, 0, YK_HYPER_COUNT * sizeof *h);
    h[YK_HYPER_LR] = 0.03f;
    h[YK_HYPER_B1] = 0.9f;
    h[YK_HYPER_B2] = adam ? 0.999f : 0.0f;
    h[YK_HYPER_EPS] = 1e-6f;
    h[YK_HYPER_DECAY] = 0.1f;
    h[YK_HYPER_C1] = (float)(1 - pow(0.9, step + 1));
    h[YK_HYPER_SQRT_C2] = (float)sqrt(1 - pow(0.999, step + 1));
    h[YK_HYPER_FIRST] = step == 0;
}

static yk_status train_step(yk__engine *e, const uint32_t *number, const yk__opt_layout *o, int step, trained *out, yk_error *err)
{
    float h[1][YK_HYPER_COUNT];
    yk__updated u;
    hyper_fill(o->kind == YK_OPT_ADAM, step, h[0]);
    if (run_step(e, number, step, err) ||
        yk__engine_update(e, &(yk__update){.hyper = (const float(*)[YK_HYPER_COUNT])h, .divisor = 3.0, .clip_norm = 10,
                                           .check_finite = true}, &u, err))
        return err->status;
    out->norm[step] = u.skipped ? -1.0 : u.grad_norm;
    return YK_OK;
}

static yk_status read_all(yk__engine *e, const uint32_t *number, trained *out, yk_error *err)
{
    yk__engine_stats s;
    for (int i = 0; i < PARAMS; i++) {
        if (yk__engine_param_read(e, number[i], out->value[i], err) || yk__engine_grad_read(e, number[i], out->grad[i], err))
            return err->status;
        for (uint32_t k = 0; k < yk__engine_moments(e); k++)
            if (yk__engine_moment_read(e, k, number[i], 0, UINT64_MAX, false, out->moment[k][i], err))
                return err->status;
    }
    yk__engine_stats_get(e, &s);
    out->in_block = true;
    for (uint32_t i = 0; i < e->params.n_bucket; i++)
        out->in_block = out->in_block && e->params.bucket[i].home->kind == YK__HOME_BLOCK && !e->params.bucket[i].values;
    out->grad_bytes = s.grad_bytes;
    out->state_bytes = s.state_bytes;
    out->host_bytes = s.host_bytes;
    out->disk_bytes = s.disk_bytes;
    return YK_OK;
}

static yk_status values_copy(void *object, uint64_t from, uint64_t n, float *out, yk_error *err)
{
    memcpy(out, (const float *)object + from, n * sizeof *out);
    return err->status;
}

/* An update by the device; by the host; and by it, with gradients in slices, or parameters, too. */
typedef enum update { OWN, STATE, GRADIENTS, PARAMETERS } update;

static const yk__placement *updater = &processor;
static const yk__action_row *first_row; /* of the engine's actions; NULL for none */
static void (*after_update)(yk__engine *e, int step); /* NULL for none */

static const char *folder; /* of moments in files; NULL for none */
static double host_part; /* 0: all */
static const yk__way *first_way; /* NULL for none */

static yk_status train_on(yk__device *dev, update kind, const yk__opt_layout *o, trained *out, yk_error *err)
{
    const yk__engine_config c = {.precision = YK_F32, .bucket_bytes = 1 << 14, .offloads = kind != OWN, .host = updater,
                                 .action = first_row, .scatters = kind >= GRADIENTS, .slices = kind == PARAMETERS,
                                 .state_dir = folder, .state_block = 1024, .host_part = kind == OWN ? 0 : host_part,
                                 .way = first_way};
    static float v[MOST];
    uint32_t number[PARAMS];
    yk__engine *e = NULL;
    yk__group *one = NULL;
    memset(out, 0, sizeof *out);
    if (!yk__group_solo(&one, err))
        yk__engine_new(dev, one, &c, &e, err);
    for (int i = 0; i < PARAMS && !err->status; i++) {
        const char name[3] = {'p', (char)('0' + i), 0};
        for (uint64_t k = 0; k < size[i]; k++)
            v[k] = 0.5f * number_of(-1, i, k);
        if (!yk__engine_param(e, name, size[i], true, &number[i], err))
            yk__engine_param_write(e, number[i], v, err);
    }
    if (!err->status)
        yk__engine_optimizer(e, o, err);
    for (int s = 0; s < STEPS && !err->status; s++) {
        if (s == 2 && !yk__engine_param_write(e, number[2], v, err) && o->momentum) /* a write between steps reaches the host too */
            yk__engine_moment_give(e, 0, number[0], &(yk__source){.read = values_copy, .object = v}, err);
        if (!err->status && !train_step(e, number, o, s, out, err) && after_update)
            after_update(e, s);
    }
    if (!err->status)
        read_all(e, number, out, err);
    yk__engine_free(e);
    if (one)
        yk__group_leave(one);
    return err->status;
}

static const yk__opt_layout rules[] = {{.kind = YK_OPT_ADAM, .flags = YK_OPT_DECOUPLED, .momentum = true},
                                       {.kind = YK_OPT_ADAM, .flags = YK_OPT_AMSGRAD, .momentum = true},
                                       {.kind = YK_OPT_SGD, .momentum = true},
                                       {.kind = YK_OPT_SGD}};

static void expect_same(const trained *a, const trained *b)
{
    ck_assert_msg(!memcmp(a->value, b->value, sizeof a->value), "%.9g and %.9g", (double)a->value[0][0], (double)b->value[0][0]);
    ck_assert(!memcmp(a->moment, b->moment, sizeof a->moment));
    ck_assert(!memcmp(a->grad, b->grad, sizeof a->grad));
    ck_assert(!memcmp(a->norm, b->norm, sizeof a->norm));
}

START_TEST(the_host_updates_as_a_processor)
{
    static trained own, host, direct, sliced, pulled, same;
    const yk__opt_layout *o = &rules[_i];
    yk_error err = YK_ERROR_INIT;
    yk__device *cpu = NULL, *dev = NULL;
    ck_assert_msg(!yk__device_open(&processor, &cpu, &err) && !ref_open(&dev, &err) && !train_on(cpu, STATE, o, &own, &err) &&
                      !train_on(cpu, PARAMETERS, o, &same, &err) && !train_on(dev, STATE, o, &host, &err) &&
                      !train_on(dev, GRADIENTS, o, &sliced, &err) && !train_on(dev, PARAMETERS, o, &pulled, &err) &&
                      !train_on(dev, OWN, o, &direct, &err),
                  "%s", err.text);
    expect_same(&own, &host);
    expect_same(&own, &sliced);
    expect_same(&own, &pulled);
    expect_same(&own, &same);
    ck_assert(pulled.in_block && !sliced.in_block && !same.in_block);
    ck_assert_uint_eq(sliced.grad_bytes, pulled.grad_bytes);
    ck_assert_uint_lt(pulled.grad_bytes, host.grad_bytes);
    ck_assert_double_eq(own.norm[BAD], -1.0);
    ck_assert_uint_eq(own.host_bytes, 0); /* a processor offloads nothing */
    ck_assert_uint_eq(host.state_bytes, 0);
    ck_assert_uint_gt(host.host_bytes, direct.state_bytes);
    if (o->kind == YK_OPT_ADAM) /* else the comparison would say nothing about who updates */
        ck_assert(memcmp(direct.value, host.value, sizeof direct.value) != 0);
    yk__device_close(dev);
    yk__device_close(cpu);
}
END_TEST

START_TEST(moments_in_a_file_change_no_bit)
{
    static trained own, memory, host, pulled;
    const yk__opt_layout *o = &rules[_i];
    char dir[] = "/tmp/yoke-disk-XXXXXX";
    uint64_t bytes = 0;
    yk_error err = YK_ERROR_INIT;
    yk__device *cpu = NULL, *dev = NULL;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    folder = NULL;
    ck_assert_msg(!yk__device_open(&processor, &cpu, &err) && !train_on(cpu, STATE, o, &memory, &err), "%s", err.text);
    folder = dir;
    ck_assert_msg(!train_on(cpu, STATE, o, &own, &err) && !ref_open(&dev, &err) && !train_on(dev, STATE, o, &host, &err) &&
                      !train_on(dev, PARAMETERS, o, &pulled, &err),
                  "%s", err.text);
    folder = NULL;
    expect_same(&memory, &own);
    expect_same(&memory, &host);
    expect_same(&memory, &pulled);
    ck_assert(pulled.in_block);
    for (int i = 0; i < PARAMS; i++) /* each parameter has buckets' pages of its own */
        bytes += size[i] * 4 * yk__optim_moments(o);
    ck_assert(bytes ? own.disk_bytes >= bytes : own.disk_bytes == 0);
    ck_assert_uint_lt(own.disk_bytes, bytes + 4096 * MOMENTS * PARAMS + 1);
    ck_assert_uint_eq(memory.disk_bytes, 0);
    ck_assert_uint_eq(host.state_bytes, 0);
    ck_assert_msg(!rmdir(dir), "a file stays in %s", dir);
    yk__device_close(dev);
    yk__device_close(cpu);
}
END_TEST

/* ---- A part of the buckets ---- */

static const double *given_norm; /* by step: -1 where gradients are not finite */
static int given_step;

static yk_status norm_given(yk__updater *u, double divisor, double sum[2], yk_error *err)
{
    const double norm = given_norm[given_step++];
    (void)u;
    (void)divisor;
    sum[0] = norm * norm;
    sum[1] = norm < 0;
    return err->status;
}

static bool always_fits(const yk__params *p)
{
    return p != NULL;
}

static const yk__way way_of_norms = {.name = "with given norms", .fits = always_fits, .norm = norm_given};

static void expect_param(const trained *a, const trained *b, int param)
{
    ck_assert_msg(!memcmp(a->value[param], b->value[param], sizeof a->value[param]), "parameter %d", param);
    ck_assert(!memcmp(a->grad[param], b->grad[param], sizeof a->grad[param]));
    for (int k = 0; k < MOMENTS; k++)
        ck_assert_msg(!memcmp(a->moment[k][param], b->moment[k][param], sizeof a->moment[k][param]), "moment %d of %d", k, param);
}

/* The first bucket has the last parameter, and the host. One norm over both devices clips: the runs to compare with are given it. */
START_TEST(each_bucket_has_the_bits_of_its_device)
{
    static trained mixed, host, direct, free_norm;
    const yk__opt_layout *o = &rules[_i / 3];
    const update kind = STATE + _i % 3;
    yk_error err = YK_ERROR_INIT;
    yk__device *cpu = NULL, *dev = NULL;
    host_part = 0.6;
    ck_assert_msg(!yk__device_open(&processor, &cpu, &err) && !ref_open(&dev, &err) && !train_on(dev, kind, o, &mixed, &err), "%s",
                  err.text);
    host_part = 0;
    ck_assert_msg(!train_on(cpu, STATE, o, &free_norm, &err), "%s", err.text);
    first_way = &way_of_norms;
    given_norm = mixed.norm;
    given_step = 0;
    ck_assert_msg(!train_on(dev, STATE, o, &host, &err), "%s", err.text);
    given_step = 0;
    ck_assert_msg(!train_on(dev, OWN, o, &direct, &err), "%s", err.text);
    first_way = NULL;
    expect_param(&mixed, &host, 2);
    expect_param(&mixed, &direct, 0);
    expect_param(&mixed, &direct, 1);
    for (int s = 0; s < STEPS; s++) {
        ck_assert_msg(fabs(mixed.norm[s] / free_norm.norm[s] - 1) < 1e-5, "step %d: norm %g, not %g", s, mixed.norm[s], free_norm.norm[s]);
        ck_assert(s == BAD || mixed.norm[s] > 10); /* it clips */
    }
    if (o->kind == YK_OPT_ADAM) /* else the comparison would say nothing about who updates */
        ck_assert(memcmp(direct.value[2], host.value[2], sizeof direct.value[2]) && memcmp(direct.value[0], host.value[0], size[0] * 4));
    ck_assert_uint_eq(host.state_bytes, 0);
    ck_assert(!yk__optim_moments(o) || (mixed.state_bytes && mixed.state_bytes < direct.state_bytes));
    ck_assert(kind != STATE || mixed.host_bytes < host.host_bytes);
    yk__device_close(dev);
    yk__device_close(cpu);
}
END_TEST

/* ---- Under the next forward ---- */

static struct {
    uint32_t updates, waits;
    uint64_t runs; /* programs behind the last wait */
} seen;

static bool is_done(const yk__params *p, const yk__bucket *b)
{
    uint64_t done = 0;
    ck_assert(!p->updates->dev->table->queue_poll(p->updates->dev->queue, &done));
    return done >= b->updated;
}

/* The step has returned, and no bucket is updated. A skipped step has none on its way. */
static void see_update(yk__engine *e, int step)
{
    const yk__params *p = &e->params;
    ck_assert_uint_eq(p->n_bucket, 2);
    ck_assert_uint_eq(p->gathered, step == BAD ? 2 : 0);
    for (uint32_t i = 0; i < p->n_bucket && step != BAD; i++)
        ck_assert_msg(!yk__bucket_offloads(p, &p->bucket[i]) || !is_done(p, &p->bucket[i]), "step %d: bucket %u", step, i);
    seen.updates += step != BAD;
}

/* The last bucket comes first, and its readers have run before the other bucket is updated. */
static yk_status wait_in_turn(yk__exec *exec, yk__prog *prog, const yk__action *a, yk_error *err)
{
    const yk__params *p = exec->params;
    if (p->gathered < p->n_bucket) {
        ck_assert_uint_eq(a->target, 1 - p->gathered);
        ck_assert(a->target == 1 && host_part > 0 ? !yk__bucket_offloads(p, &p->bucket[1]) : !is_done(p, &p->bucket[a->target]));
        ck_assert(a->target == 1 || ref.runs > seen.runs);
        seen.waits++;
    }
    const yk_status s = yk__action_row_of(YK__ACTION_ALL_GATHER, NULL)->wait(exec, prog, a, err);
    seen.runs = ref.runs; /* the update's own among them */
    return s;
}

/* The device has memory of its own, and its host, the same plugin, computes in the host's. */
static const yk__placement ref_host = {.plugin = "ref"};

static void open_pair(yk__device **dev, yk_error *err)
{
    ck_assert_msg(!ref_open(dev, err), "%s", err->text);
    ref.wrap = 1; /* from here on, that is the host's */
    updater = &ref_host;
}

START_TEST(an_update_goes_on_under_the_next_forward)
{
    static const yk__action_row row = {YK__ACTION_ALL_GATHER, "all_gather", NULL, wait_in_turn};
    static trained at_once, later;
    const yk__opt_layout *o = &rules[_i / 3 % 4];
    const update kind = STATE + _i % 3;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    open_pair(&dev, &err);
    host_part = _i < 12 ? 0 : 0.6; /* of two buckets one */
    ck_assert_msg(!train_on(dev, kind, o, &at_once, &err), "%s", err.text);
    ref.late = 1;
    first_row = &row;
    after_update = see_update;
    ck_assert_msg(!train_on(dev, kind, o, &later, &err), "%s", err.text);
    expect_same(&at_once, &later);
    ck_assert_uint_eq(seen.updates, STEPS - 1);
    ck_assert_uint_eq(seen.waits, 2 * (STEPS - 3)); /* a write, and the end, wait for one update each; the skipped step has none */
    yk__device_close(dev);
}
END_TEST

/* Each reader of values waits for the update. */
static void read_values(yk__engine *e, int step)
{
    static float value[MOST], moment[MOST], grad[MOST];
    uint64_t hash, same;
    yk_error err = YK_ERROR_INIT;
    const uint32_t number = (uint32_t)step % PARAMS;
    see_update(e, step);
    if (step % 3 == 0)
        ck_assert(!yk__engine_moment_read(e, 0, number, 0, UINT64_MAX, false, moment, &err) &&
                  !yk__engine_grad_read(e, number, grad, &err));
    if (step % 3 == 1)
        ck_assert(!yk__engine_hash(e, &hash, &err) && !yk__engine_hash(e, &same, &err) && hash == same);
    if (step % 3 == 2)
        ck_assert(!yk__engine_wait(e, 0, &err));
    ck_assert(step % 3 == 0 || e->params.gathered == 2);
    ck_assert(!yk__engine_param_read(e, number, value, &err) && e->params.gathered == 2);
}

/* No segment waits for the update, which still reads the sums of gradients when the next ones are ready. */
START_TEST(the_next_gradients_wait_for_the_update)
{
    static trained at_once, later;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    open_pair(&dev, &err);
    reads_loss = false;
    ck_assert_msg(!train_on(dev, STATE + _i, &rules[0], &at_once, &err), "%s", err.text);
    ref.late = 1;
    after_update = see_update;
    ck_assert_msg(!train_on(dev, STATE + _i, &rules[0], &later, &err), "%s", err.text);
    expect_same(&at_once, &later);
    yk__device_close(dev);
}
END_TEST

START_TEST(readers_wait_for_the_update)
{
    static trained at_once, later;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    open_pair(&dev, &err);
    ck_assert_msg(!train_on(dev, STATE + _i, &rules[0], &at_once, &err), "%s", err.text);
    ref.late = 1;
    after_update = read_values;
    ck_assert_msg(!train_on(dev, STATE + _i, &rules[0], &later, &err), "%s", err.text);
    expect_same(&at_once, &later);
    yk__device_close(dev);
}
END_TEST

START_TEST(a_failed_update_is_the_next_calls_error)
{
    static trained out;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    open_pair(&dev, &err);
    ref.late = ref.breaks = 1;
    ck_assert_int_eq(train_on(dev, STATE + _i, &rules[0], &out, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, "the processor broke"), "%s", err.text);
    ck_assert_msg(out.norm[0] > 0.0 && out.norm[1] == 0.0, "the second step had no error");
    yk__device_close(dev);
}
END_TEST

/* The host hangs in an update whose step has returned. */
static void hang_later(yk__engine *e, int step)
{
    see_update(e, step);
    ref.hangs = 1;
}

START_TEST(a_host_that_hangs_under_the_next_forward_is_named)
{
    static trained out;
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    setenv("YOKE_STUCK_MS", "100", 1);
    open_pair(&dev, &err);
    ref.late = 1;
    after_update = hang_later;
    ck_assert_int_eq(train_on(dev, STATE, &rules[0], &out, &err), YK_E_DEVICE_LOST);
    ck_assert_msg(strstr(err.text, "ref") && strstr(err.text, "YOKE_STUCK_MS"), "%s", err.text);
    ref.hangs = 0;
    yk__device_close(dev);
}
END_TEST

/* The update is submitted, and the host never ends it. */
static yk_status hang_in_update(yk__updater *u, yk_error *err)
{
    ref.hangs = 1;
    return yk__queue_idle(u->params->updates, err);
}

START_TEST(a_host_that_hangs_is_named)
{
    static const yk__way way = {.name = "hangs", .fits = always_fits, .publish = hang_in_update};
    const yk__engine_config c = {.precision = YK_F32, .offloads = true, .host = &ref_host, .way = &way};
    static trained out;
    static const float zero[MOST];
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    yk__engine *e = NULL;
    yk__group *one = NULL;
    uint32_t number[PARAMS];
    setenv("YOKE_STUCK_MS", "100", 1);
    ck_assert(!ref_open(&dev, &err) && !yk__group_solo(&one, &err));
    ref.wrap = 1; /* from here on, that is the host's */
    ck_assert_msg(!yk__engine_new(dev, one, &c, &e, &err), "%s", err.text);
    for (int i = 0; i < PARAMS; i++)
        ck_assert(!yk__engine_param(e, "p", size[i], true, &number[i], &err) && !yk__engine_param_write(e, number[i], zero, &err));
    ck_assert(!yk__engine_optimizer(e, &rules[0], &err));
    ck_assert_int_eq(train_step(e, number, &rules[0], 0, &out, &err), YK_E_DEVICE_LOST);
    ck_assert_msg(strstr(err.text, "ref") && strstr(err.text, "YOKE_STUCK_MS"), "%s", err.text);
    ck_assert(yk__engine_lost(e) && !dev->lost);
    ref.hangs = 0;
    yk__engine_free(e);
    yk__group_leave(one);
    yk__device_close(dev);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("offload");
    tcase_add_loop_test(t, the_host_updates_as_a_processor, 0, sizeof rules / sizeof *rules);
    tcase_add_loop_test(t, moments_in_a_file_change_no_bit, 0, sizeof rules / sizeof *rules);
    tcase_add_loop_test(t, each_bucket_has_the_bits_of_its_device, 0, 3 * sizeof rules / sizeof *rules);
    tcase_add_loop_test(t, an_update_goes_on_under_the_next_forward, 0, 6 * sizeof rules / sizeof *rules);
    tcase_add_loop_test(t, the_next_gradients_wait_for_the_update, 0, 3);
    tcase_add_loop_test(t, readers_wait_for_the_update, 0, 3);
    tcase_add_loop_test(t, a_failed_update_is_the_next_calls_error, 0, 3);
    tcase_add_test(t, a_host_that_hangs_under_the_next_forward_is_named);
    tcase_add_test(t, a_host_that_hangs_is_named);
    tcase_set_timeout(t, 120);
    return suite_run("offload", t);
}
