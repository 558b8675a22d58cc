/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public calls within an accumulation window, on one rank and two: each is refused by name, or training ends with the bits that it has
 * without the call. A fork of this program is a rank.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <yoke/yoke.h>

#include "tests/support/run.h"

enum { IN = 3, OUT = 2, ROWS = 4, WINDOWS = 3 };

typedef struct net {
    yk_job *job;
    yk_t w, b, state;
    yk_opt *opt;
} net;

typedef struct board { /* memory that the ranks have in common with the test */
    uint64_t hash[2];
    char said[2][1024];
} board;

static board *shared;

/* The call under test, the window in which it is made, and whether its micro batch has stepped. */
static size_t tested;
static int window_of;
static bool has_stepped;

static void call_nothing(net *n)
{
    (void)n;
}

static void call_grad_read(net *n)
{
    float g[IN * OUT];
    yk_grad_read(n->w, g, IN * OUT);
}

static void call_param(net *n)
{
    yk_param(n->job, "late", 1, (const int64_t[]){3}, (yk_init){0});
}

static void call_freeze(net *n)
{
    yk_freeze(n->b, true);
}

static void call_save(net *n)
{
    yk_save(n->job, "/nonexistent/window");
}

static void call_load(net *n)
{
    yk_load(n->job, "/nonexistent/window");
}

static void call_param_read(net *n)
{
    float v[IN * OUT];
    yk_param_read(n->w, v, IN * OUT);
}

static void call_param_write(net *n)
{
    float v[OUT];
    yk_param_read(n->b, v, OUT);
    yk_param_write(n->b, v, OUT);
}

static void call_hash(net *n)
{
    yk_param_hash(n->job);
}

static void call_state(net *n)
{
    if (!yk_param_find(n->job, "more").id)
        yk_state(n->job, "more", YK_F32, 1, (const int64_t[]){1}, 1.0F);
}

static void call_sums(net *n)
{
    double one = 1.0;
    yk_all_reduce_sum(n->job, &one, 1);
    yk_barrier(n->job);
    yk_average_params(n->job);
}

static void call_rate(net *n)
{
    yk_set_lr(n->opt, yk_lr(n->opt));
}

static const struct {
    const char *name;
    void (*call)(net *n);
    bool refused;
} calls[] = {
    {"nothing", call_nothing, false},
    {"yk_grad_read", call_grad_read, true},
    {"yk_param", call_param, true},
    {"yk_freeze", call_freeze, true},
    {"yk_save", call_save, true},
    {"yk_load", call_load, true},
    {"yk_param_read", call_param_read, false},
    {"yk_param_write", call_param_write, false},
    {"yk_param_hash", call_hash, false},
    {"yk_state", call_state, false},
    {"yk_all_reduce_sum", call_sums, false},
    {"yk_set_lr", call_rate, false},
};

#define CALLS (sizeof calls / sizeof calls[0])

/* One micro batch of the window; after it, or between its gradient and its step, the call. */
static void micro_run(net *n, int window, int micro)
{
    float x[ROWS * IN], y[ROWS * OUT];
    const uint32_t rank = yk_rank(n->job);
    const bool here = window == window_of && micro == 0;
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)((i * 7 + (int)rank * 5 + window * 3 + micro) % 11) / 4.0F;
    for (int i = 0; i < ROWS * OUT; i++)
        y[i] = (float)((i * 5 + (int)rank + window + micro * 2) % 7) / 2.0F;
    yk_t loss = yk_mse_loss(yk_linear(yk_input(n->job, YK_F32, 2, (const int64_t[]){ROWS, IN}, x), n->w, n->b),
                       yk_input(n->job, YK_F32, 2, (const int64_t[]){ROWS, OUT}, y), NULL);
    yk_backward(loss);
    yk_item(loss); /* the gradient is computed */
    if (here && !has_stepped)
        calls[tested].call(n);
    yk_step(n->opt);
    if (here && has_stepped)
        calls[tested].call(n);
}

static int rank_run(void *argument)
{
    board *to = argument;
    net n = {.job = yk_open(&(yk_config){.quiet = true, .seed = 5, .accumulate = 2, .shares = "equal"})};
    const uint32_t rank = yk_rank(n.job);
    n.w = yk_param(n.job, "w", 2, (const int64_t[]){OUT, IN}, (yk_init){YK_INIT_UNIFORM, -1.0F, 1.0F});
    n.b = yk_param(n.job, "b", 1, (const int64_t[]){OUT}, (yk_init){0});
    n.opt = yk_sgd(n.job, &(yk_sgd_config){.lr = 0.05, .momentum = 0.5});
    for (int window = 0; window < WINDOWS; window++)
        for (int micro = 0; micro < 2; micro++)
            micro_run(&n, window, micro);
    to->hash[rank] = yk_param_hash(n.job);
    snprintf(to->said[rank], sizeof to->said[rank], "%s", yk_ok(n.job) ? "" : yk_error_text(n.job));
    yk_close(n.job);
    return 0;
}

static void job_run(uint32_t world, size_t call)
{
    tested = call;
    memset(shared, 0, sizeof *shared);
    yk_launch_ranks(world, "cpu:0", rank_run, shared);
}

START_TEST(a_call_within_a_window_is_refused_or_changes_nothing)
{
    const uint32_t world = 1 + (uint32_t)_i % 2;
    has_stepped = _i / 2 % 2;
    window_of = _i / 4;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    job_run(world, 0);
    ck_assert_str_eq(shared->said[0], "");
    const uint64_t expected = shared->hash[0];
    for (size_t c = 1; c < CALLS; c++) {
        job_run(world, c);
        for (uint32_t r = 0; r < world && calls[c].refused; r++)
            ck_assert_msg(strstr(shared->said[r], calls[c].name) || strstr(shared->said[r], "parameter "), "%s, rank %u of %u: \"%s\"",
                          calls[c].name, r, world, shared->said[r]);
        for (uint32_t r = 0; r < world && !calls[c].refused; r++)
            ck_assert_msg(!*shared->said[r] && shared->hash[r] == expected, "%s, rank %u of %u: hash %016llx, without it %016llx; \"%s\"",
                          calls[c].name, r, world, (unsigned long long)shared->hash[r], (unsigned long long)expected, shared->said[r]);
    }
    munmap(shared, sizeof *shared);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("within_window");
    tcase_set_timeout(t, 180);
    tcase_add_loop_test(t, a_call_within_a_window_is_refused_or_changes_nothing, 0, 8);
    return suite_run("within_window", t);
}
