/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the library alone, with a handler of SIGUSR1 of its own. own_signal.sh runs it.
 *
 * own_signal storm: each process sends itself the signal 10000 times a second, from before yk_open until after yk_close. Calls of the
 *   kernel are interrupted by it.
 * own_signal calm: the same 50 steps without a signal. Rank 0 prints "ranks N parameters HASH".
 * own_signal await N CODE: each rank prints "ready", and "taken I" for each signal; steps until each has had N, then ends with CODE.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <yoke/yoke.h>

enum { STEPS = 50, ROWS = 8, IN = 6, HIDDEN = 16, OUT = 3, PERIOD_NS = 100000, LEAST = 10 };

static volatile sig_atomic_t taken;

static void handler_count(int signal)
{
    (void)signal;
    taken++;
}

static void step_do(yk_job *job, yk_t w1, yk_t w2, yk_opt *opt, uint32_t step)
{
    const uint32_t rank = yk_rank(job), world = yk_world_size(job);
    float point[ROWS][IN];
    int32_t label[ROWS], row[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t number = (step * world + rank) * ROWS + i;
        row[i] = (int32_t)(rank * ROWS + i);
        label[i] = (int32_t)(number % OUT);
        for (uint32_t k = 0; k < IN; k++)
            point[i][k] = (float)((number * 2654435761u + k * 40503u) % 1000) / 500 - 1;
    }
    yk_set_rows(job, ROWS, row, (int64_t)world * ROWS);
    const yk_t x = yk_input(job, YK_F32, 2, (int64_t[]){ROWS, IN}, point), labels = yk_input(job, YK_I32, 1, (int64_t[]){ROWS}, label);
    yk_backward(yk_cross_entropy(yk_matmul(yk_tanh(yk_matmul(x, w1)), w2), labels));
    yk_step(opt);
}

/* Steps until each rank has had so many signals. */
static void signals_await(yk_job *job, yk_t w1, yk_t w2, yk_opt *opt, int most)
{
    double late = 1;
    int said = 0;
    for (uint32_t i = 0; yk_ok(job) && late > 0; i++) {
        step_do(job, w1, w2, opt, i);
        if (!i)
            puts("ready");
        for (; said < taken; said++)
            printf("taken %d\n", said + 1);
        fflush(stdout);
        late = said < most;
        yk_all_reduce_sum(job, &late, 1);
    }
}

static timer_t timer_begin(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    const struct itimerspec often = {{0, PERIOD_NS}, {0, PERIOD_NS}};
    timer_t timer = NULL;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
        exit(4);
    return timer;
}

int main(int argc, char **argv)
{
    const struct sigaction own = {.sa_handler = handler_count};
    const bool storm = argc > 1 && !strcmp(argv[1], "storm"), await = argc > 3;
    timer_t timer = NULL;
    struct sigaction now;
    sigaction(SIGUSR1, &own, NULL);
    if (storm)
        timer = timer_begin();
    yk_job *job = yk_open(&(yk_config){.seed = 1, .quiet = true});
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.3f};
    const yk_t w1 = yk_param(job, "w1", 2, (int64_t[]){IN, HIDDEN}, normal), w2 = yk_param(job, "w2", 2, (int64_t[]){HIDDEN, OUT}, normal);
    yk_opt *opt = yk_adam(job, &(yk_adam_config){.lr = 0.01});
    if (await)
        signals_await(job, w1, w2, opt, atoi(argv[2]));
    for (uint32_t i = 0; !await && yk_ok(job) && i < STEPS; i++)
        step_do(job, w1, w2, opt, i);
    const uint64_t hash = yk_param_hash(job);
    if (yk_ok(job))
        yk_print(job, "ranks %u parameters %016llx\n", yk_world_size(job), (unsigned long long)hash);
    const int code = yk_close(job);
    if (storm)
        timer_delete(timer);
    if (sigaction(SIGUSR1, NULL, &now) || now.sa_handler != handler_count || now.sa_flags & SA_RESTART || (storm && taken < LEAST))
        return 5;
    return code ? code : await ? atoi(argv[3]) : 0;
}
