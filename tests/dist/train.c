/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs whose ranks have no memory in common: an MLP, a convolution with batch norm and a transformer, in fp32 and bf16, with uneven
 * shares, owners that change, a rank that is excluded and comes back, a checkpoint and what goes on from it. Over the loopback
 * transport, with and without a progress thread, and over the local one all numbers are bit for bit those over memory in common.
 *
 * Without a launcher this is the test; as a rank it trains: MODE FOLDER.
 */
#include <yoke/yoke.h> /* before core/job/job.h: calls record their line here */

#include "core/group/transport_choice.h"
#include "core/job/job.h"
#include "tests/support/loopback.h"
#include "tests/support/own_roles.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { ROWS = 6, STEPS = 7, SAVED = 4, CLASSES = 4, WIDTH = 16, TOKENS = 5, WORDS = 11, SIDE = 6, PARAMS = 10, SAID = 4096 };

typedef enum net_kind { MLP, CONV, TRANSFORMER, KINDS } net_kind;

static const char *const kind_name[KINDS] = {"mlp", "conv", "transformer"};

/* ---- Networks ----------------------------------------------------------------------------------------------------- */

typedef struct net {
    net_kind kind;
    yk_t weight[PARAMS];
    yk_batch_norm_state running;
} net;

static yk_t new_matrix(yk_job *job, const char *name, int64_t rows, int64_t columns)
{
    return yk_param(job, name, 2, (const int64_t[]){rows, columns}, (yk_init){YK_INIT_NORMAL, 0, 0.3f});
}

static yk_t new_vector(yk_job *job, const char *name, int64_t n, int ones)
{
    return yk_param(job, name, 1, &n, (yk_init){ones ? YK_INIT_ONES : YK_INIT_ZEROS, 0, 0});
}

static net make_conv(yk_job *job)
{
    const int64_t shape[4] = {WIDTH, 2, 3, 3}, width = WIDTH;
    return (net){CONV,
                 {yk_param(job, "conv", 4, shape, (yk_init){YK_INIT_NORMAL, 0, 0.3f}), new_vector(job, "gamma", WIDTH, 1),
                  new_vector(job, "beta", WIDTH, 0), new_matrix(job, "out", CLASSES, WIDTH * 9)},
                 {yk_state(job, "mean", YK_F32, 1, &width, 0), yk_state(job, "var", YK_F32, 1, &width, 1), YK_NO}};
}

static net make_net(yk_job *job, net_kind kind)
{
    if (kind == CONV)
        return make_conv(job);
    if (kind == MLP)
        return (net){MLP,
                     {new_matrix(job, "in", 40, WIDTH), new_vector(job, "bias", 40, 0), new_matrix(job, "out", CLASSES, 40)},
                     {YK_NO, YK_NO, YK_NO}};
    return (net){TRANSFORMER,
                 {new_matrix(job, "words", WORDS, WIDTH), new_vector(job, "gamma", WIDTH, 1), new_vector(job, "beta", WIDTH, 0),
                  new_matrix(job, "q", WIDTH, WIDTH), new_matrix(job, "k", WIDTH, WIDTH), new_matrix(job, "v", WIDTH, WIDTH),
                  new_matrix(job, "out", CLASSES, TOKENS * WIDTH)},
                 {YK_NO, YK_NO, YK_NO}};
}

static yk_t heads_of(yk_t x, int64_t n)
{
    const int64_t shape[4] = {n, TOKENS, 2, WIDTH / 2};
    const uint32_t axis[4] = {0, 2, 1, 3};
    return yk_permute(yk_reshape(x, 4, shape), axis);
}

static yk_t run_transformer(const net *m, yk_t ids, int64_t n)
{
    const uint32_t axis[4] = {0, 2, 1, 3};
    const int64_t flat[2] = {n, TOKENS * WIDTH}, shape[3] = {n, TOKENS, WIDTH};
    const yk_t x = yk_embedding(ids, m->weight[0], -1), h = yk_layer_norm(x, m->weight[1], m->weight[2], 1e-5f);
    const yk_t q = heads_of(yk_linear(h, m->weight[3], YK_NO), n), k = heads_of(yk_linear(h, m->weight[4], YK_NO), n);
    const yk_t v = heads_of(yk_linear(h, m->weight[5], YK_NO), n);
    const yk_t seen = yk_permute(yk_attention(q, k, v, &(yk_attention_config){.causal = true}), axis);
    return yk_linear(yk_reshape(yk_add(x, yk_reshape(seen, 3, shape)), 2, flat), m->weight[6], YK_NO);
}

static yk_t run_conv(const net *m, yk_t x, int64_t n)
{
    const int64_t flat[2] = {n, WIDTH * 9};
    yk_t h = yk_conv2d(x, m->weight[0], YK_NO, &(yk_conv2d_config){.padding = {1, 1}});
    h = yk_relu(yk_batch_norm(h, m->weight[1], m->weight[2], m->running, 0, 1e-5f));
    h = yk_avg_pool2d(h, &(yk_pool2d_config){.kernel = {2, 2}});
    return yk_linear(yk_reshape(h, 2, flat), m->weight[3], YK_NO);
}

/* Loss of `n` rows from `first` on in step s. */
static yk_t net_loss(yk_job *job, const net *m, int s, int64_t first, int64_t n)
{
    static float x[ROWS * 2 * SIDE * SIDE];
    static int32_t id[ROWS * TOKENS], y[ROWS], row[ROWS];
    const int64_t image[4] = {n, 2, SIDE, SIDE}, plain[2] = {n, WIDTH}, text[2] = {n, TOKENS};
    const int64_t each = m->kind == CONV ? 2 * SIDE * SIDE : WIDTH;
    yk_t logits;
    for (int64_t i = 0; i < n; i++) {
        row[i] = (int32_t)(first + i);
        y[i] = (row[i] + s) % CLASSES;
        for (int64_t k = 0; k < each; k++)
            x[i * each + k] = (float)((row[i] * 37 + s * 11 + k * 13) % 64) / 32.0f - 1.0f + (k == y[i] ? 1.0f : 0.0f);
        for (int64_t k = 0; k < TOKENS; k++)
            id[i * TOKENS + k] = (int32_t)((row[i] * 5 + s * 3 + k) % WORDS);
    }
    yk_set_rows(job, n, row, ROWS);
    if (m->kind == TRANSFORMER)
        logits = run_transformer(m, yk_input(job, YK_I32, 2, text, id), n);
    else if (m->kind == CONV)
        logits = run_conv(m, yk_input(job, YK_F32, 4, image, x), n);
    else
        logits = yk_linear(yk_gelu(yk_linear(yk_input(job, YK_F32, 2, plain, x), m->weight[0], m->weight[1])), m->weight[2], YK_NO);
    return yk_cross_entropy(logits, yk_input(job, YK_I32, 1, &n, y));
}

/* ---- Ranks -------------------------------------------------------------------------------------------------------- */

static bool step_excludes(int s)
{
    return s == SAVED - 1 || s == SAVED;
}

/* Even parts, others, the last rank excluded, and back. */
static void set_roles(yk_job *job, int s)
{
    static const double owns[2][3] = {{3, 0, 1}, {1, 2, 5}};
    yk_error err = YK_ERROR_INIT;
    own_roles roles;
    const uint32_t last = yk_world_size(job) - 1;
    if (!yk_ok(job))
        return;
    roles = own_roles_of(job->engine, last + 1);
    for (uint32_t r = 0; r <= last && s > 1; r++)
        roles.owns[r] = owns[s % 2][r];
    roles.member[last] = !step_excludes(s);
    if (step_excludes(s))
        roles.owns[last] = 0;
    if (own_roles_set(job->engine, &roles, &err))
        yk_fail(job, err.status, err.text);
}

/* The members' rows are as 1 to 2 to 3, or the other way round. */
static int64_t first_row(int64_t rank, int64_t members, int s)
{
    const int64_t k = s % 2 ? members - rank : rank, cut = ROWS * k * (k + 1) / (members * (members + 1));
    return s % 2 ? ROWS - cut : cut;
}

static double train_step(yk_job *job, const net *m, yk_opt *opt, int s)
{
    const int64_t members = (int64_t)yk_world_size(job) - step_excludes(s), rank = yk_rank(job);
    const int64_t first = rank < members ? first_row(rank, members, s) : 0;
    const int64_t n = rank < members ? first_row(rank + 1, members, s) - first : 0;
    set_roles(job, s);
    const yk_t loss = net_loss(job, m, s, first, n);
    yk_backward(loss);
    yk_clip_norm(job, 0.5f);
    yk_step(opt);
    return yk_item(loss);
}

/* All steps, or from the checkpoint on; says what the parameters, the running statistics and the losses are. */
static int train_net(net_kind kind, yk_dtype precision, bool resumed, const char *path, char *said)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9, .precision = precision, .hash_every = 1});
    const net m = make_net(job, kind);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02, .weight_decay = 0.1});
    float running[2][WIDTH] = {{0}};
    double loss = 0;
    if (resumed)
        yk_load(job, path);
    for (int s = resumed ? SAVED : 0; s < STEPS && yk_ok(job); s++) {
        loss = train_step(job, &m, opt, s);
        if (s + 1 == SAVED && !resumed)
            yk_save(job, path);
    }
    if (kind == CONV) {
        yk_param_read(m.running.mean, running[0], WIDTH);
        yk_param_read(m.running.var, running[1], WIDTH);
    }
    snprintf(said, SAID, "%s %d: %llx, running %.9g %.9g, loss %.17g, norm %.17g\n", kind_name[kind], (int)precision,
             (unsigned long long)yk_param_hash(job), (double)running[0][3], (double)running[1][3], loss, yk_grad_norm(opt));
    return yk_close(job);
}

/* A checkpoint goes on to the same numbers. */
static int train_both(net_kind kind, yk_dtype precision, const char *folder, char *said)
{
    char path[128], again[SAID];
    snprintf(path, sizeof path, "%s/%s-%d", folder, kind_name[kind], (int)precision);
    if (train_net(kind, precision, false, path, said) || train_net(kind, precision, true, path, again))
        return 1;
    if (!strcmp(said, again))
        return 0;
    fprintf(stderr, "whole %sresumed %s", said, again);
    return 1;
}

/* The plain build has the bits of all. A precision has no memory and no threads that it would not have with the other number of ranks, nor
 * have threads to do with the kind of a net. */
static bool net_is_tried(int kind, bool low)
{
    const bool three = !strcmp(getenv("YOKE_WORLD_SIZE"), "3");
    if (TEST_UNDER_TSAN)
        return three ? kind == TRANSFORMER && !low : kind == (low ? CONV : MLP);
    return !TEST_UNDER_ASAN || low == three;
}

static int rank_train(const char *mode, const char *folder)
{
    char all[SAID * 2 * KINDS] = "", said[SAID];
    for (int k = 0; k < KINDS; k++)
        for (int low = 0; low < 2; low++) {
            if (!net_is_tried(k, low))
                continue;
            if (train_both((net_kind)k, low ? YK_BF16 : YK_F32, folder, said))
                return 1;
            strcat(all, said);
        }
    ranks_write(folder, mode, (uint32_t)atoi(getenv("YOKE_RANK")), all, SAID);
    return 0;
}

/* An excluded rank gets an error for values that it cannot read alone. */
static int rank_read(void)
{
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9});
    const net m = make_net(job, MLP);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.02});
    float bias[40];
    for (int s = 0; s < SAVED; s++)
        train_step(job, &m, opt, s);
    yk_param_read(m.weight[1], bias, 40);
    if (yk_ok(job)) /* the others wait for its answer */
        yk_barrier(job);
    return yk_close(job);
}

static int rank_main(const char *mode, const char *folder)
{
    yk__transport_offer(loopback_transport());
    return !strcmp(mode, "read") ? rank_read() : rank_train(mode, folder);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *transport, *progress;
} ways[] = {{"shm", "shm", "on"}, {"loopback", "loopback", "off"}, {"threaded", "loopback", "on"}, {"local", "local", "on"}};
#define WAYS ((int)(sizeof ways / sizeof *ways))

static const char *const devices[] = {"cpu:0! cpu:0!", "cpu:0! cpu:0! cpu:0!"};

static int run_way(int way, const char *device, const char *mode, char *said)
{
    setenv("YOKE_TRANSPORT", ways[way].transport, 1);
    setenv("YOKE_PROGRESS", ways[way].progress, 1);
    setenv("YOKE_BUCKET_BYTES", "4096", 1); /* several of them */
    return ranks_run(device, mode, said, SAID);
}

START_TEST(messages_give_the_same_bits)
{
    char said[SAID], first[SAID], text[SAID];
    ranks_folder_make();
    for (int w = 0; w < WAYS; w++) {
        ck_assert_msg(run_way(w, devices[_i], ways[w].name, said) == 0, "%s: %s", ways[w].name, said);
        ranks_read(ways[w].name, 0, w ? text : first, SAID);
        ck_assert_msg(!w || !strcmp(first, text), "%s\n%s%s\n%s", ways[0].name, first, ways[w].name, text);
    }
    ck_assert_ptr_nonnull(strstr(first, _i ? "transformer" : "conv"));
    ranks_folder_remove();
}
END_TEST

START_TEST(an_excluded_rank_without_shared_memory_reads_nothing)
{
    char said[SAID];
    ranks_folder_make();
    ck_assert_msg(run_way(0, devices[0], "read", said) == 0, "%s", said);
    ck_assert_int_ne(run_way(2, devices[0], "read", said), 0);
    ck_assert_msg(strstr(said, "rank 1 (cpu:0!)") && strstr(said, "no memory in common"), "%s", said);
    ranks_folder_remove();
}
END_TEST

START_TEST(an_unknown_transport_is_named)
{
    char said[SAID];
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", "pigeon", 1);
    ck_assert_int_ne(ranks_run(devices[0], "read", said, sizeof said), 0);
    ck_assert_msg(strstr(said, "YOKE_TRANSPORT=pigeon") && strstr(said, "expected auto, shm, local, loopback or one"), "%s", said);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("train");
    tcase_add_loop_test(t, messages_give_the_same_bits, 0, sizeof devices / sizeof *devices);
    tcase_add_test(t, an_excluded_rank_without_shared_memory_reads_nothing);
    tcase_add_test(t, an_unknown_transport_is_named);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("train", t);
}
