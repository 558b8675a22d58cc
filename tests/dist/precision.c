/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three ranks that compute in fp32, bf16 and fp16: one training, whose parameters are the same on all and whose loss is near that of
 * fp32; a gradient that overflows on the rank in fp16 alone skips the step of all. Ranks of one format share their 16-bit weights, with the
 * bits of ranks that exchange messages and have their own.
 *
 * Without a launcher this is the test; as a rank it trains: MODE FOLDER.
 */
#include <math.h>
#include <yoke/yoke.h>

#include "tests/support/ranks.h"

enum { ROWS = 24, IN = 8, MID = 16, OUT = 4, RANKS = 3, STEPS = 40, SAID = 4096 };

#define DEVICES "cpu:0! cpu:0! cpu:0!"

typedef struct numbers {
    double loss, scale;
    uint32_t skipped;
    uint64_t hash;
    uint64_t copied, shared; /* bytes of its own copies, and of what it shares: of one format alone */
} numbers;

static const struct {
    const char *mode, *list;
    double scale; /* at first */
} modes[] = {{"single", NULL, 0}, {"mixed", "fp32,bf16,fp16", 0}, {"rest", "fp32,bf16", 0}, {"overflow", "fp32,bf16,fp16", 0x1p30},
             {"none", "fp32,bf16", 0x1p30},
             {"bf16", "bf16,bf16,bf16", 0}, {"fp16", "fp16,fp16,fp16", 0x1p30},
             {"unknown", "fp32,fp8", 0}, {"many", "fp32,fp32,bf16,fp16", 0}};
#define MODES (sizeof modes / sizeof *modes)

/* This rank's rows of step s, as many for each. */
static yk_t step_loss(yk_job *job, const yk_t *weight, int s)
{
    enum { OWN = ROWS / RANKS };
    const int first = (int)yk_rank(job) * OWN;
    const int64_t shape[2] = {OWN, IN}, labels = OWN;
    float x[OWN * IN];
    int32_t y[OWN];
    for (int i = 0; i < OWN; i++) {
        y[i] = (first + i) % OUT;
        for (int k = 0; k < IN; k++)
            x[i * IN + k] = (float)sin((s * ROWS + first + i) * 1.3 + k * 2.1) + (k == y[i] ? 2 : 0);
    }
    const yk_t h = yk_layer_norm(yk_linear(yk_input(job, YK_F32, 2, shape, x), weight[0], YK_NO), weight[1], weight[2], 1e-5f);
    return yk_cross_entropy(yk_linear(yk_gelu(h), weight[3], YK_NO), yk_input(job, YK_I32, 1, &labels, y));
}

static int rank_main(const char *mode, const char *folder)
{
    size_t k = 0;
    while (k + 1 < MODES && strcmp(modes[k].mode, mode) != 0)
        k++;
    yk_job *job = yk_open(&(yk_config){
        .quiet = true, .seed = 3, .hash_every = 1, .precision_by_rank = modes[k].list, .scale = {.init = modes[k].scale}});
    const int64_t a[2] = {MID, IN}, m = MID, b[2] = {OUT, MID};
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.4f}, ones = {YK_INIT_ONES, 0, 0}, zeros = {0};
    const yk_t weight[4] = {yk_param(job, "first", 2, a, normal), yk_param(job, "gamma", 1, &m, ones), yk_param(job, "beta", 1, &m, zeros),
                            yk_param(job, "second", 2, b, normal)};
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    numbers done = {.skipped = 0};
    for (int s = 0; s < STEPS && yk_ok(job); s++) {
        yk_backward(step_loss(job, weight, s));
        yk_step(opt);
        done.skipped += !yk_stepped(opt);
        done.loss = yk_step_loss(opt);
    }
    done.scale = yk_loss_scale(opt);
    done.hash = yk_param_hash(job);
    if (!strcmp(mode, "bf16") || !strcmp(mode, "fp16")) {
        yk_memory memory;
        yk_memory_get(job, &memory);
        done.copied = memory.params;
        done.shared = memory.shared;
    }
    if (yk_ok(job))
        ranks_write(folder, mode, yk_rank(job), &done, sizeof done);
    return yk_close(job);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

/* The same on all ranks. */
static numbers train_ranks(const char *mode)
{
    char said[SAID];
    numbers first, other;
    ck_assert_msg(ranks_run(DEVICES, mode, said, sizeof said) == 0, "%s: %s", mode, said);
    ranks_read(mode, 0, &first, sizeof first);
    for (uint32_t r = 1; r < RANKS; r++) {
        ranks_read(mode, r, &other, sizeof other);
        ck_assert_mem_eq(&first, &other, sizeof first);
    }
    return first;
}

START_TEST(each_rank_computes_in_its_own)
{
    ranks_folder_make();
    const numbers single = train_ranks("single"), mixed = train_ranks("mixed"), rest = train_ranks("rest");
    ck_assert_double_lt(single.loss, 0.5);
    ck_assert_double_lt(fabs(mixed.loss - single.loss), 0.02 * single.loss);
    ck_assert_double_lt(fabs(rest.loss - single.loss), 0.02 * single.loss);
    ck_assert(mixed.hash != single.hash && rest.hash != single.hash && rest.hash != mixed.hash);
    ck_assert_double_eq(mixed.scale, 65536);
    ck_assert_double_eq(rest.scale, 1);
    ranks_folder_remove();
}
END_TEST

START_TEST(overflow_on_one_skips_the_step_of_all)
{
    ranks_folder_make();
    const numbers done = train_ranks("overflow"), none = train_ranks("none");
    ck_assert_uint_gt(done.skipped, 3);
    ck_assert_uint_lt(done.skipped, STEPS / 2);
    ck_assert_double_eq(done.scale, ldexp(0x1p30, -(int)done.skipped));
    ck_assert_uint_eq(none.skipped, 0);
    ranks_folder_remove();
}
END_TEST

/* Messages of one host add up in the order of ranks too, each rank casts all weights there, and has two blocks of its own; in common memory
 * there is a block of gradients of each rank, and one of parameters. */
START_TEST(weights_of_16_bits_are_once_per_host)
{
    static const char *const formats[] = {"bf16", "fp16"};
    enum { COPIES = (MID * IN + OUT * MID) * 2 };
    ranks_folder_make();
    for (int i = 0; i < 2; i++) {
        const numbers once = train_ranks(formats[i]);
        setenv("YOKE_TRANSPORT", "local", 1);
        const numbers own = train_ranks(formats[i]);
        unsetenv("YOKE_TRANSPORT");
        ck_assert_uint_eq(once.hash, own.hash);
        ck_assert_double_eq(once.loss, own.loss);
        ck_assert_uint_eq(once.skipped, own.skipped);
        ck_assert_int_eq(once.skipped > 0, i);
        ck_assert_uint_eq(once.copied, 0);
        ck_assert_uint_eq(own.copied, COPIES);
        ck_assert_uint_eq(once.shared, own.shared / 2 * (RANKS + 1) + COPIES);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(what_is_no_list_is_refused)
{
    char said[SAID];
    ranks_folder_make();
    ck_assert_int_eq(ranks_run(DEVICES, "unknown", said, sizeof said), 2);
    ck_assert_msg(strstr(said, "precision \"fp32,fp8\": expected fp32, bf16 or fp16 for each rank") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "fp8 is the whole job's") != NULL, "%s", said);
    ck_assert_int_eq(ranks_run(DEVICES, "many", said, sizeof said), 2);
    ck_assert_msg(strstr(said, "is of 4 ranks, and the job has 3") != NULL, "%s", said);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("precision");
    tcase_add_test(t, each_rank_computes_in_its_own);
    tcase_add_test(t, overflow_on_one_skips_the_step_of_all);
    tcase_add_test(t, weights_of_16_bits_are_once_per_host);
    tcase_add_test(t, what_is_no_list_is_refused);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("precision", t);
}
