/* SPDX-License-Identifier: Apache-2.0 */
/* The host's part of a step: one whose program is known asks for no memory. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/job/job.h"
#include "models/model.h"

enum { ROWS = 16, WIDTH = 64, CLASSES = 10 };

typedef struct net {
    yk_job *job;
    yk_model *model;
    yk_opt *opt;
    float x[ROWS * WIDTH];
    int32_t label[ROWS];
} net;

static void net_open(net *n, uint32_t accumulate, const char *devices)
{
    const yk_config c = {.devices = devices, .quiet = true, .accumulate = accumulate};
    n->job = yk_open(&c);
    ck_assert_msg(yk_ok(n->job), "%s", yk_error_text(n->job));
    n->model = yk_model_new(n->job, "mlp", "input_size=64,hidden=64+64,num_labels=10", NULL);
    n->opt = yk_sgd(n->job, &(yk_sgd_config){.lr = 0.01, .momentum = 0.9});
    for (int i = 0; i < ROWS * WIDTH; i++)
        n->x[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
    for (int i = 0; i < ROWS; i++)
        n->label[i] = i % CLASSES;
}

static void net_step(net *n)
{
    const int64_t rows = ROWS;
    yk_batch b = {.rows = ROWS, .global_rows = ROWS};
    b.x = yk_input(n->job, YK_F32, 2, (int64_t[]){ROWS, WIDTH}, n->x);
    b.labels = yk_input(n->job, YK_I32, 1, &rows, n->label);
    yk_t loss = yk_model_loss(n->model, &b, yk_forward(n->model, &b));
    yk_backward(loss);
    yk_step(n->opt);
    (void)yk_step_loss(n->opt);
}

static unsigned long asked_by_steps(net *n, int warm, int steps)
{
    for (int i = 0; i < warm; i++)
        net_step(n);
    const unsigned long before = yk__mem_count();
    for (int i = 0; i < steps; i++)
        net_step(n);
    ck_assert_msg(yk_ok(n->job), "%s", yk_error_text(n->job));
    return yk__mem_count() - before;
}

START_TEST(cached_step)
{
    static const char *const devices[] = {"cpu:0", "cpu"};
    net n;
    net_open(&n, 1, devices[_i]);
    ck_assert_uint_gt(asked_by_steps(&n, 0, 1), 0); /* the counter counts */
    ck_assert_uint_eq(asked_by_steps(&n, 5, 100), 0);
    ck_assert_int_eq(yk_close(n.job), 0);
}
END_TEST

START_TEST(cached_window)
{
    net n;
    net_open(&n, 4, "cpu:0");
    ck_assert_uint_eq(asked_by_steps(&n, 16, 100), 0);
    ck_assert_int_eq(yk_close(n.job), 0);
}
END_TEST

static void write_file(const char *path, const uint8_t *head, size_t n_head, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fwrite(head, 1, n_head, f);
    for (size_t i = 0; i < n; i++)
        fputc((int)(i * 7 % 10), f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(cached_loader)
{
    char dir[] = "/tmp/yoke-host-XXXXXX", path[96];
    const uint8_t images[16] = {0, 0, 8, 3, 0, 0, 4, 0, 0, 0, 0, 8, 0, 0, 0, 8}, labels[8] = {0, 0, 8, 1, 0, 0, 4, 0};
    yk_batch b;
    net n;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", dir);
    write_file(path, images, sizeof images, 1024 * 64);
    snprintf(path, sizeof path, "%s/train-labels-idx1-ubyte", dir);
    write_file(path, labels, sizeof labels, 1024);
    net_open(&n, 1, "cpu:0");
    snprintf(path, sizeof path, "idx:%s", dir);
    yk_data *d = yk_data_open(n.job, path, &(yk_data_config){.global_batch = ROWS});
    ck_assert_msg(yk_ok(n.job), "%s", yk_error_text(n.job));
    unsigned long before = 0;
    for (int i = 0; i < 60; i++) {
        ck_assert(yk_data_next(d, &b));
        if (i == 20)
            before = yk__mem_count();
        yk_backward(yk_model_loss(n.model, &b, yk_forward(n.model, &b)));
        yk_step(n.opt);
    }
    ck_assert_msg(yk_ok(n.job), "%s", yk_error_text(n.job));
    ck_assert_uint_eq(yk__mem_count() - before, 0);
    ck_assert_int_eq(yk_close(n.job), 0);
}
END_TEST

/* Two products backward for each forward one, but no gradient of the data. */
START_TEST(operations_of_a_row)
{
    net n;
    net_open(&n, 1, "cpu:0");
    ck_assert_double_eq(yk_model_flops(n.model, 0), 2.0 * 64 * 64 * 2 + 2.0 * (64 * 64 + 64 * 10) * 3);
    ck_assert_int_eq(yk_close(n.job), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job_host");
    TCase *t = tcase_create("memory");
    tcase_add_loop_test(t, cached_step, 0, 2);
    tcase_add_test(t, cached_window);
    tcase_add_test(t, cached_loader);
    tcase_add_test(t, operations_of_a_row);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
