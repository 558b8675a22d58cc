/* SPDX-License-Identifier: Apache-2.0 */
/* A training step and a checkpoint, and whole trainings, in which the n-th allocation fails: an error, never a crash. */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/job/job.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

/* One in so many allocations of a step and a checkpoint fails, with all later ones or alone. A sanitizer finds more. */
static long stride_of(long plain, long sanitized)
{
    return getenv("YOKE_TEST_LONG") ? 1 : TEST_UNDER_ASAN ? sanitized : plain;
}

static char dir[] = "/tmp/yoke-memory-XXXXXX";

/* Labels, every second of which is taken and made whole: the host computes them to count them. */
static yk_t computed_labels(yk_job *job)
{
    const int64_t dim = 8;
    const float y[8] = {0, 9, 1, 9, -100, 9, 1, 9};
    return yk_cast(yk_slice(yk_input(job, YK_F32, 1, &dim, y), 0, 0, 8, 2), YK_I32);
}

static float one_step(yk_job *job, yk_t w, yk_t b, yk_opt *opt)
{
    const int64_t xd[2] = {4, 3}, yd = 4;
    const float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const int32_t y[4] = {0, 1, -100, 1};
    yk_t h = yk_layer_norm(yk_input(job, YK_F32, 2, xd, x), YK_NO, YK_NO, 1e-5f);
    yk_t z = yk_dropout(yk_linear(h, w, b), 0.1f), loss = yk_cross_entropy(z, yk_input(job, YK_I32, 1, &yd, y));
    loss = yk_add(loss, yk_cross_entropy(z, computed_labels(job)));
    yk_backward(loss);
    yk_step(opt);
    return yk_item(loss);
}

/* The result of a job in which an allocation failed. */
typedef struct attempt {
    bool ok;
    float loss[2];
    unsigned long asked;
} attempt;

static attempt job_attempt(long n, void (*refuse)(long n))
{
    const int64_t wd[2] = {2, 3}, bd = 2;
    attempt it = {0};
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    const unsigned long before = yk__mem_count();
    refuse(n);
    yk_t w = yk_param(job, "w", 2, wd, (yk_init){YK_INIT_NORMAL, 0, 1}), b = yk_param(job, "b", 1, &bd, (yk_init){0});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.1});
    yk_schedule(opt, &(yk_sched_config){.name = "linear", .total_steps = 10});
    for (int i = 0; i < 2 && yk_ok(job); i++)
        it.loss[i] = one_step(job, w, b, opt);
    yk_save(job, dir);
    yk__mem_fail_after(-1);
    it.asked = yk__mem_count() - before;
    it.ok = yk_ok(job);
    if (!it.ok)
        ck_assert_msg(yk_error_status(job) == YK_E_MEM, "allocation %ld: %s", n, yk_error_text(job));
    ck_assert_int_eq(yk_close(job), it.ok ? 0 : 1);
    return it;
}

static void make_dir(void)
{
    strcpy(dir, "/tmp/yoke-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    fclose(stderr); /* each failure is told there */
}

static void remove_dir(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s %s.yoke-tmp %s.yoke-old", dir, dir, dir);
    ck_assert_int_eq(system(cmd), 0);
}

START_TEST(every_allocation)
{
    long n = TEST_UNDER_ASAN || getenv("YOKE_TEST_LONG") ? 0 : 2; /* not those of a sanitizer's stride */
    make_dir();
    while (n < 20000 && !job_attempt(n, yk__mem_fail_after).ok)
        n += stride_of(8, 4);
    ck_assert_int_gt(n, 50);
    ck_assert_int_lt(n, 20000);
    remove_dir();
}
END_TEST

/* The checkpoint's contents except the time. */
static json_t *saved_state(unsigned long n)
{
    char path[96];
    json_error_t err;
    snprintf(path, sizeof path, "%s/trainer_state.json", dir);
    json_t *state = json_load_file(path, 0, &err);
    ck_assert_msg(state, "allocation %lu: %s: %s", n, path, err.text);
    json_object_del(state, "saved_at");
    return state;
}

/* A job either says that it failed, or nothing is missing of what it does and saves; a checkpoint stays whole. */
START_TEST(a_single_failed_allocation)
{
    make_dir();
    const attempt whole = job_attempt(-1, yk__mem_fail_once);
    ck_assert(whole.ok);
    json_t *expected = saved_state(0);
    for (unsigned long n = TEST_UNDER_ASAN || getenv("YOKE_TEST_LONG") ? 1 : 3; n < whole.asked; n += (unsigned long)stride_of(8, 4)) {
        const attempt it = job_attempt((long)n, yk__mem_fail_once);
        ck_assert_msg(!it.ok || !memcmp(it.loss, whole.loss, sizeof it.loss), "allocation %lu: losses %g %g, not %g %g", n,
                      (double)it.loss[0], (double)it.loss[1], (double)whole.loss[0], (double)whole.loss[1]);
        json_t *state = saved_state(n);
        ck_assert_msg(json_equal(state, expected), "allocation %lu: the state of the checkpoint is another", n);
        json_decref(state);
    }
    json_decref(expected);
    remove_dir();
}
END_TEST

/* ---- A whole training ---- */

typedef struct training {
    const char *name, *config, *spec, *tokenizer;
    int stride[2]; /* every so many-th allocation fails: without a sanitizer, and with one, which finds more */
    char data[128], model[128], checkpoint[128];
} training;

static void put_number(FILE *f, uint32_t n)
{
    for (int i = 24; i >= 0; i -= 8)
        fputc((int)(n >> i & 255), f);
}

/* 12 images of 4 x 4, their labels, a table of two classes and a text. */
static void make_data(void)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte", "rows.csv", "text"};
    char path[160];
    for (int k = 0; k < 6; k++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[k]);
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        if (k < 4) {
            put_number(f, k % 2 ? 0x801 : 0x803);
            put_number(f, 12);
            if (k % 2 == 0) {
                put_number(f, 4);
                put_number(f, 4);
            }
            for (int i = 0; i < (k % 2 ? 12 : 192); i++)
                fputc(k % 2 ? i % 3 : i, f);
        } else if (k == 4) {
            fprintf(f, "text,label\n");
            for (int i = 0; i < 12; i++)
                fprintf(f, "%s %d,%d\n", i % 2 ? "yes it is" : "no", i, i % 2);
        } else {
            for (int i = 0; i < 300; i++)
                fputc("the yoke pulls unlike beasts\n"[(i * i / 7 + i) % 29], f);
        }
        fclose(f);
    }
}

/* From open to close; the exit code. fail: allocations until the first that fails, -1: none. */
static int train_all(const training *t, bool first, long fail, unsigned long *asked)
{
    const unsigned long before = yk__mem_count();
    int code = 1;
    yk__mem_fail_after(fail);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true});
    const yk_data_config c = {.global_batch = 4, .tokenizer = t->tokenizer, .seq_len = 8, .max_length = 8};
    yk_data *data = yk_data_open(job, t->data, &c);
    yk_model *m =
        first ? yk_model_new(job, t->name, t->config, data) : yk_model_from_pretrained(job, t->model, NULL, data);
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.1});
    if (yk_ok(job))
        yk_each (batch, job, data) {
            yk_backward(yk_model_loss(m, &batch, yk_forward(m, &batch)));
            yk_clip_norm(job, 1);
            yk_step(opt);
            if (yk_steps(opt) == 3)
                break;
        }
    yk_save(job, t->checkpoint);
    yk_load(job, t->checkpoint);
    if (first)
        yk_model_save(m, t->model);
    yk__mem_fail_after(-1);
    *asked = yk__mem_count() - before;
    if (fail >= 0 && job && !yk_ok(job))
        ck_assert_msg(yk_error_status(job) == YK_E_MEM, "%s, allocation %ld: %s", t->name, fail, yk_error_text(job));
    if (job)
        code = yk_close(job);
    return code;
}

static void training_without_memory(training t)
{
    unsigned long asked;
    strcpy(dir, "/tmp/yoke-memory-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(t.data, sizeof t.data, t.spec, dir);
    snprintf(t.model, sizeof t.model, "%s/model", dir);
    snprintf(t.checkpoint, sizeof t.checkpoint, "%s/checkpoint", dir);
    make_data();
    ck_assert_int_eq(train_all(&t, true, -1, &asked), 0);
    ck_assert_int_eq(train_all(&t, false, -1, &asked), 0);
    ck_assert_int_gt((int)asked, 1000);
    fclose(stderr);
    for (unsigned long n = 0, unused; n < asked; n += (unsigned long)stride_of(t.stride[0], t.stride[1]))
        train_all(&t, false, (long)n, &unused);
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

START_TEST(mlp_without_memory)
{
    training_without_memory((training){.name = "mlp", .config = "hidden=5", .spec = "idx:%s", .stride = {23, 7}});
}
END_TEST

START_TEST(bert_without_memory)
{
    training_without_memory((training){.name = "bert", .tokenizer = "bytes", .spec = "csv:%s/rows.csv,text=text,label=label",
                                       .config = "hidden_size=8,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8,"
                                                 "max_position_embeddings=16",
                                       .stride = {97, 37}});
}
END_TEST

START_TEST(gpt2_without_memory)
{
    training_without_memory((training){.name = "gpt2", .tokenizer = "char", .spec = "text:%s/text",
                                       .config = "n_embd=8,n_layer=1,n_head=2,n_positions=16", .stride = {97, 37}});
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("memory");
    json_set_alloc_funcs(yk__malloc, yk__free); /* so that its allocations fail as ours do */
    tcase_set_timeout(t, 600);
    tcase_add_test(t, every_allocation);
    tcase_add_test(t, a_single_failed_allocation);
    tcase_add_test(t, mlp_without_memory);
    tcase_add_test(t, bert_without_memory);
    tcase_add_test(t, gpt2_without_memory);
    return suite_run("job_memory", t);
}
