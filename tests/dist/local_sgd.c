/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LocalSGD on three ranks with uneven rows. The expected result comes from three jobs of one rank each on the same rows, whose
 * parameters are averaged by hand between steps; with k = 1 and plain SGD it is the usual training. Without a launcher this is the test;
 * as a rank it trains: MODE FOLDER.
 */
#include <math.h>
#include <yoke/yoke.h>

#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { ROWS = 12, IN = 8, MID = 300, OUT = 4, RANKS = 3, STEPS = 8, EVERY = 4, SAVED = 6, SAID = 4096 };
enum { FIRST = MID * IN, SECOND = OUT * MID, WEIGHTS = FIRST + SECOND };

#define DEVICES "cpu:0! cpu:0! cpu:0!"

/* Rows of each rank by step. */
static const int even_split[2][RANKS] = {{5, 4, 3}, {1, 2, 9}}, empty_split[2][RANKS] = {{12, 0, 0}, {0, 7, 5}};

typedef struct net {
    yk_job *job;
    yk_t first, second;
    yk_opt *opt;
} net;

typedef struct numbers {
    float weight[WEIGHTS];
    double norm;
    uint32_t unlike; /* steps after which the ranks' parameters were not alike */
    uint64_t hash;
    uint64_t memory[4]; /* parameters, gradients, moments, on the host to exchange */
} numbers;

static net net_open(const yk_config *config, bool adam)
{
    const int64_t a[2] = {MID, IN}, b[2] = {OUT, MID};
    net m = {.job = yk_open(config)};
    m.first = yk_param(m.job, "first", 2, a, (yk_init){YK_INIT_NORMAL, 0, 0.4f});
    m.second = yk_param(m.job, "second", 2, b, (yk_init){YK_INIT_NORMAL, 0, 0.4f});
    m.opt = adam ? yk_adamw(m.job, &(yk_adam_config){.lr = 0.02, .weight_decay = 0.1}) : yk_sgd(m.job, &(yk_sgd_config){.lr = 0.3});
    return m;
}

static void net_backward(const net *m, int step, int first, int n)
{
    float x[ROWS * IN] = {0};
    int32_t y[ROWS] = {0}, row[ROWS] = {0};
    const int64_t shape[2] = {n, IN}, labels = n;
    for (int i = 0; i < n; i++) {
        row[i] = first + i;
        y[i] = (first + i) % OUT;
        for (int k = 0; k < IN; k++)
            x[i * IN + k] = (float)sin((step * ROWS + first + i) * 1.3 + k * 2.1) + (k == y[i] ? 2 : 0);
    }
    yk_set_rows(m->job, n, row, yk_world_size(m->job) > 1 ? ROWS : n);
    yk_t h = yk_gelu(yk_linear(yk_input(m->job, YK_F32, 2, shape, x), m->first, YK_NO));
    yk_backward(yk_cross_entropy(yk_linear(h, m->second, YK_NO), yk_input(m->job, YK_I32, 1, &labels, y)));
}

/* A step on that rank's rows. */
static void net_step(const net *m, const int split[2][RANKS], int step, uint32_t rank)
{
    int first = 0;
    for (uint32_t r = 0; r < rank; r++)
        first += split[step % 2][r];
    net_backward(m, step, first, split[step % 2][rank]);
    yk_step(m->opt);
}

static void net_read(const net *m, float *weight)
{
    yk_param_read(m->first, weight, FIRST);
    yk_param_read(m->second, weight + FIRST, SECOND);
}

/* ---- Ranks -------------------------------------------------------------------------------------------------------- */

static bool all_alike(const net *m)
{
    float own[WEIGHTS] = {0}, all[RANKS * WEIGHTS] = {0};
    net_read(m, own);
    yk_gather(m->job, own, sizeof own, all);
    return !memcmp(all, all + WEIGHTS, sizeof own) && !memcmp(all, all + 2 * WEIGHTS, sizeof own);
}

/* Steps [from, STEPS); a checkpoint behind step SAVED. */
static int rank_train(const yk_config *config, bool adam, bool empties, int from, const char *mode, const char *folder)
{
    const net m = net_open(config, adam);
    numbers done = {.unlike = 0};
    char path[160];
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    if (from)
        yk_load(m.job, path);
    for (int s = from; s < STEPS && yk_ok(m.job); s++) {
        net_step(&m, empties ? empty_split : even_split, s, yk_rank(m.job));
        if (s + 1 == SAVED && !strcmp(mode, "save"))
            yk_save(m.job, path);
        if (!all_alike(&m))
            done.unlike |= 1u << s;
    }
    done.norm = yk_grad_norm(m.opt);
    done.hash = yk_param_hash(m.job);
    net_read(&m, done.weight);
    yk_memory memory;
    yk_memory_get(m.job, &memory);
    memcpy(done.memory, (uint64_t[]){memory.params, memory.grads, memory.state, memory.shared}, sizeof done.memory);
    if (yk_ok(m.job))
        ranks_write(folder, mode, yk_rank(m.job), &done, sizeof done);
    return yk_close(m.job);
}

/* Impossible calls are refused: in the "middle" of a window, the "gradient" of all ranks, other steps on one rank ("odd"). */
static int rank_refused(const char *mode)
{
    const bool middle = !strcmp(mode, "middle"), odd = !strcmp(mode, "odd");
    const uint32_t odd_one = odd && atoi(getenv("YOKE_RANK")) == 1;
    const net m = net_open(&(yk_config){.quiet = true, .local_sgd_steps = 3 + odd_one, .accumulate = middle ? 2 : 1}, false);
    float gradient[FIRST];
    for (int s = 0; s < 3 && yk_ok(m.job); s++)
        net_step(&m, even_split, s, yk_rank(m.job));
    if (middle)
        yk_average_params(m.job);
    else
        yk_grad_read(m.first, gradient, FIRST);
    return yk_close(m.job);
}

static int rank_main(const char *mode, const char *folder)
{
    yk_config config = {.quiet = true, .seed = 9, .hash_every = 1, .local_sgd_steps = EVERY};
    const bool from = !strcmp(mode, "resume");
    if (!strcmp(mode, "middle") || !strcmp(mode, "gradient") || !strcmp(mode, "odd"))
        return rank_refused(mode);
    config.plan_only = strstr(mode, "plan") != NULL;
    config.power_sgd_rank = strstr(mode, "factors") != NULL;
    config.precision = !strcmp(mode, "bf16") ? YK_BF16 : YK_F32;
    config.local_sgd_steps = strstr(mode, "usual") || config.power_sgd_rank ? 0 : !strcmp(mode, "one") ? 1 : EVERY;
    return rank_train(&config, config.local_sgd_steps == EVERY, config.local_sgd_steps != EVERY, from ? SAVED : 0, mode, folder);
}

/* ---- The same by hand --------------------------------------------------------------------------------------------- */

/* *at: the common values, before and after; rows since the last mean. */
static void average_by_hand(const net *m, int step, double *mean)
{
    float weight[WEIGHTS];
    double rows[RANKS] = {0}, sum = 0;
    for (int s = step - EVERY + 1; s <= step; s++)
        for (int r = 0; r < RANKS; r++)
            rows[r] += even_split[s % 2][r], sum += even_split[s % 2][r];
    memset(mean, 0, WEIGHTS * sizeof *mean);
    for (int r = 0; r < RANKS; r++) {
        net_read(&m[r], weight);
        for (int i = 0; i < WEIGHTS; i++)
            mean[i] += rows[r] / sum * (double)weight[i];
    }
}

static void train_by_hand(yk_dtype precision, double *mean)
{
    float weight[WEIGHTS];
    net m[RANKS];
    for (int r = 0; r < RANKS; r++)
        m[r] = net_open(&(yk_config){.quiet = true, .seed = 9, .devices = "cpu:0", .precision = precision}, true);
    for (int s = 0; s < STEPS; s++) {
        for (uint32_t r = 0; r < RANKS; r++)
            net_step(&m[r], even_split, s, r);
        if ((s + 1) % EVERY)
            continue;
        average_by_hand(m, s, mean);
        for (int i = 0; i < WEIGHTS; i++)
            weight[i] = (float)mean[i];
        for (int r = 0; r < RANKS; r++) {
            yk_param_write(m[r].first, weight, FIRST);
            yk_param_write(m[r].second, weight + FIRST, SECOND);
        }
    }
    for (int r = 0; r < RANKS; r++)
        ck_assert_int_eq(yk_close(m[r].job), 0);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static numbers train_ranks(const char *mode)
{
    char said[SAID];
    numbers done;
    ck_assert_msg(ranks_run(DEVICES, mode, said, sizeof said) == 0, "%s: %s", mode, said);
    ranks_read(mode, 0, &done, sizeof done);
    return done;
}

static double largest_difference(const float *a, const double *b)
{
    double most = 0;
    for (int i = 0; i < WEIGHTS; i++)
        most = fmax(most, fabs((double)a[i] - b[i]));
    return most;
}

/* bf16 rounding in another order moves single weights by as much as the rate. */
static double mean_difference(const float *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < WEIGHTS; i++)
        sum += fabs((double)a[i] - b[i]);
    return sum / WEIGHTS;
}

START_TEST(one_step_of_sgd_is_the_usual_training)
{
    double usual[WEIGHTS];
    ranks_folder_make();
    const numbers all = train_ranks("usual"), one = train_ranks("one");
    for (int i = 0; i < WEIGHTS; i++)
        usual[i] = (double)all.weight[i];
    ck_assert_double_lt(largest_difference(one.weight, usual), 2e-6);
    ck_assert_uint_eq(one.unlike, 0);
    ranks_folder_remove();
}
END_TEST

START_TEST(ranks_step_by_themselves_and_average)
{
    static const char *const modes[] = {"four", "bf16"};
    double mean[WEIGHTS];
    ranks_folder_make();
    const numbers done = train_ranks(modes[_i]);
    train_by_hand(_i ? YK_BF16 : YK_F32, mean);
    ck_assert_double_lt(_i ? mean_difference(done.weight, mean) : largest_difference(done.weight, mean), _i ? 2e-4 : 2e-6);
    ck_assert_uint_eq(done.unlike, 0x77); /* all but steps 4 and 8 */
    ranks_folder_remove();
}
END_TEST

START_TEST(messages_give_the_same_bits)
{
    ranks_folder_make();
    setenv("YOKE_BUCKET_BYTES", "4096", 1); /* two of them */
    const numbers common = train_ranks("four");
    setenv("YOKE_TRANSPORT", "local", 1);
    const numbers sent = train_ranks("four");
    unsetenv("YOKE_BUCKET_BYTES");
    unsetenv("YOKE_TRANSPORT");
    ck_assert_mem_eq(sent.weight, common.weight, sizeof sent.weight);
    ck_assert(sent.hash == common.hash && sent.norm == common.norm);
    ranks_folder_remove();
}
END_TEST

START_TEST(memory_is_planned)
{
    ranks_folder_make();
    const numbers done = train_ranks("four"), planned = train_ranks("plan");
    ck_assert_mem_eq(done.memory, planned.memory, sizeof done.memory);
    ck_assert_uint_ge(done.memory[0], WEIGHTS * sizeof(float));
    ck_assert_uint_eq(done.memory[2], 2 * done.memory[0]); /* whole */
    ranks_folder_remove();
}
END_TEST

/* The usual training's memory: the errors of 8-bit numbers, and PowerSGD's factors and errors. */
START_TEST(memory_of_the_wire_is_planned)
{
    const uint64_t factors = (MID + IN + OUT + MID + 2) * sizeof(float); /* a number each behind them */
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", "local", 1);
    const numbers usual = train_ranks("usual"), done = train_ranks("factors"), planned = train_ranks("planned-factors");
    setenv("YOKE_WIRE", "int8", 1);
    const numbers narrow = train_ranks("usual"), planned_narrow = train_ranks("planned-usual");
    unsetenv("YOKE_WIRE");
    unsetenv("YOKE_TRANSPORT");
    ck_assert_mem_eq(done.memory, planned.memory, sizeof done.memory);
    ck_assert_mem_eq(narrow.memory, planned_narrow.memory, sizeof done.memory);
    ck_assert_uint_eq(done.memory[3], usual.memory[3] / 2 * 3 + factors); /* a block of errors, or residuals, beside the two */
    ck_assert_uint_eq(narrow.memory[3], usual.memory[3] / 2 * 3);
    ranks_folder_remove();
}
END_TEST

START_TEST(checkpoint_is_an_average_that_goes_on)
{
    ranks_folder_make();
    const numbers whole = train_ranks("save"), resumed = train_ranks("resume");
    ck_assert_uint_eq(whole.unlike, 0xd7 & ~(1u << (SAVED - 1)));
    ck_assert_mem_eq(whole.weight, resumed.weight, sizeof whole.weight);
    ranks_folder_remove();
}
END_TEST

static const struct {
    const char *mode, *said;
} refusals[] = {{"middle", "1 micro batches of an accumulation window"},
                {"gradient", "in LocalSGD gradients are not added up"},
                {"odd", "steps between means (LocalSGD) 4, not 3"}};

START_TEST(what_has_no_meaning_is_refused)
{
    char said[SAID];
    ranks_folder_make();
    ck_assert_int_eq(ranks_run(DEVICES, refusals[_i].mode, said, sizeof said), _i == 1 ? 1 : 2);
    ck_assert_msg(strstr(said, refusals[_i].said) != NULL, "%s", said);
    ranks_folder_remove();
}
END_TEST

START_TEST(emergency_checkpoint_is_refused)
{
    char said[SAID];
    ranks_folder_make();
    setenv("YOKE_EMERGENCY_CHECKPOINT", ranks_folder, 1);
    ck_assert_int_eq(ranks_run(DEVICES, "four", said, sizeof said), 1);
    unsetenv("YOKE_EMERGENCY_CHECKPOINT");
    ck_assert_msg(strstr(said, "in LocalSGD each rank has parameters") != NULL, "%s", said);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("local_sgd");
    tcase_add_test(t, one_step_of_sgd_is_the_usual_training);
    tcase_add_loop_test(t, ranks_step_by_themselves_and_average, TEST_UNDER_TSAN, 2); /* messages have "four", too */
    tcase_add_test(t, messages_give_the_same_bits);
    tcase_add_test(t, checkpoint_is_an_average_that_goes_on);
    if (!TEST_UNDER_TSAN) { /* one thread's work */
        tcase_add_test(t, memory_is_planned);
        tcase_add_test(t, memory_of_the_wire_is_planned);
        tcase_add_loop_test(t, what_has_no_meaning_is_refused, 0, sizeof refusals / sizeof *refusals);
        tcase_add_test(t, emergency_checkpoint_is_refused);
    }
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("local_sgd", t);
}
