/* SPDX-License-Identifier: Apache-2.0 */
/* A program that the engine's other thread makes, while the step thread runs the programs that it has. */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/advance.h"
#include "core/run/engine.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

enum { MOST = 8, IN = 5, OUT = 3 };
enum { WIDTH = 64, WIDE = 256, LAYERS = 12 }; /* of deep_build */
/* Micro batches with programs of their own. A window of several has the last three. */
enum { LONE, FIRST, LATER, LAST, KINDS };

/* The reference plugin's table, whose compiler waits at a gate. Atomic: the engine's thread compiles. */
static struct {
    yk_plugin table;
    const yk_plugin *real;
    int shut, waits, compiled, fails; /* the next compilation waits, one waits, so many ended, the next one fails */
    uint64_t scratch;                 /* bytes that a program of WIDE rows takes beside its slots */
} gate;

static void time_pass(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static bool read_flag(const int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0;
}

static void set_flag(int *flag, int to)
{
    __atomic_store_n(flag, to, __ATOMIC_RELEASE);
}

static yk_status gate_program(yk_device *dev, const yk_graph *g, yk_program **p)
{
    while (read_flag(&gate.shut)) {
        set_flag(&gate.waits, 1);
        time_pass(1);
    }
    set_flag(&gate.waits, 0);
    __atomic_add_fetch(&gate.compiled, 1, __ATOMIC_ACQ_REL);
    return __atomic_exchange_n(&gate.fails, 0, __ATOMIC_ACQ_REL) ? YK_E_INTERNAL : gate.real->program_new(dev, g, p);
}

static yk_status gate_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    (void)dev;
    *bytes = 0;
    for (uint32_t i = 0; i < g->n_value; i++)
        if (g->value[i].dims == 2 && g->value[i].dim[0] == WIDE)
            *bytes = gate.scratch;
    return YK_OK;
}

typedef struct rig {
    yk__device *dev;
    yk__group *group;
    yk__engine *e;
    uint32_t number;
    yk_error err;
} rig;

static void expect_ok(const rig *r, yk_status s)
{
    ck_assert_msg(!s, "%s", r->err.text);
}

static void rig_open(rig *r, uint64_t limit)
{
    float w[IN * OUT];
    *r = (rig){.err = YK_ERROR_INIT};
    memset(&gate, 0, sizeof gate);
    expect_ok(r, ref_open(&r->dev, &r->err));
    gate.real = r->dev->table;
    gate.table = *gate.real;
    gate.table.program_new = gate_program;
    gate.table.graph_scratch = gate_scratch;
    r->dev->table = &gate.table;
    expect_ok(r, yk__group_solo(&r->group, &r->err));
    expect_ok(r, yk__engine_new(r->dev, r->group, &(yk__engine_config){.precision = YK_F32, .memory_limit = limit}, &r->e, &r->err));
    expect_ok(r, yk__engine_param(r->e, "w", IN * OUT, true, &r->number, &r->err));
    for (int i = 0; i < IN * OUT; i++)
        w[i] = 0.1f * (float)(i % 7);
    expect_ok(r, yk__engine_param_write(r->e, r->number, w, &r->err));
}

static void rig_close(rig *r)
{
    yk__engine_free(r->e);
    yk__group_leave(r->group);
    r->dev->table = gate.real;
    yk__device_close(r->dev);
    ck_assert_uint_eq(ref.programs, 0);
    ck_assert_uint_eq(ref.buffers, 0);
}

typedef struct step {
    yk__graph g;
    yk__micro m;
    yk__vid loss;
} step;

/* The trace of a batch of so many rows, with relu(x w) summed up as its loss. */
static void step_build(step *s, const rig *r, int64_t rows)
{
    const int64_t x_dim[2] = {rows, IN}, w_dim[2] = {IN, OUT};
    yk__graph *g = &s->g;
    yk__graph_init(g);
    const yk__vid w = yk__leaf(g, yk__slot_new(g, YK_SLOT_PARAM, IN * OUT * 4, r->number), 0, YK_F32, 2, w_dim);
    const yk__vid x = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, (uint64_t)rows * IN * 4, 0), 0, YK_F32, 2, x_dim);
    const yk__vid seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 1), 0, YK_F32, 0, NULL);
    s->loss = yk__reshape(g, yk__sum(g, yk__un(g, YK_OP_RELU, yk__dot(g, x, w, false, false)), 3), 0, NULL);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
    s->m = (yk__micro){.trace = g, .loss = s->loss, .seed = seed, .first = true, .rows = (uint64_t)rows, .n_result = 1, .result = &s->loss};
}

static void step_kind(step *s, int kind)
{
    s->m.first = kind == LONE || kind == FIRST;
    s->m.n_result = kind == LONE || kind == LAST;
}

static yk_status rig_submit(rig *r, int64_t rows, int kind, float *loss, uint64_t *ticket)
{
    static float x[MOST * IN];
    const float one = 1.0f;
    const void *input[2] = {x, &one};
    const uint64_t bytes[2] = {(uint64_t)rows * IN * 4, 4};
    step s;
    for (int i = 0; i < MOST * IN; i++)
        x[i] = 0.25f * (float)(i % 11) - 1.0f;
    step_build(&s, r, rows);
    step_kind(&s, kind);
    s.m.n_input = 2, s.m.input = input, s.m.input_bytes = bytes;
    s.m.result_host = (void *[]){loss};
    const yk_status st = yk__engine_run(r->e, &s.m, ticket, &r->err);
    yk__graph_free(&s.g);
    return st;
}

static float rig_run(rig *r, int64_t rows)
{
    float loss = -1.0f;
    uint64_t ticket;
    expect_ok(r, rig_submit(r, rows, LONE, &loss, &ticket));
    expect_ok(r, yk__engine_wait(r->e, ticket, &r->err));
    return loss;
}

static yk__prepared rig_prepare(rig *r, int64_t rows)
{
    step s;
    step_build(&s, r, rows);
    const yk__prepared p = yk__engine_prepare(r->e, &s.m, 1);
    yk__graph_free(&s.g);
    return p;
}

static void rig_settle(rig *r)
{
    while (yk__engine_prepares(r->e))
        time_pass(1);
}

static uint64_t rig_programs(const rig *r)
{
    yk__engine_stats st;
    yk__engine_stats_get(r->e, &st);
    return st.compiles;
}

static void gate_await(void)
{
    while (!read_flag(&gate.waits))
        time_pass(1);
}

/* The loss of a program that the step thread has made. */
static float loss_of(int64_t rows)
{
    rig r;
    rig_open(&r, 0);
    const float loss = rig_run(&r, rows);
    rig_close(&r);
    return loss;
}

START_TEST(runs_go_on_while_it_is_made)
{
    const float had = loss_of(4), next = loss_of(7);
    rig r;
    rig_open(&r, 0);
    ck_assert(rig_run(&r, 4) == had);
    set_flag(&gate.shut, 1);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    gate_await();
    for (int i = 0; i < 20; i++)
        ck_assert(rig_run(&r, 4) == had);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    ck_assert_int_eq(rig_prepare(&r, 3), YK__PREPARING); /* one at a time */
    set_flag(&gate.shut, 0);
    rig_settle(&r);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARED);
    ck_assert_uint_eq(rig_programs(&r), 2);
    const int compiled = gate.compiled;
    ck_assert(rig_run(&r, 7) == next);
    ck_assert_int_eq(gate.compiled, compiled);
    ck_assert_uint_eq(rig_programs(&r), 2);
    rig_close(&r);
}
END_TEST

/* A batch may come before its program is there. */
START_TEST(a_run_of_its_rows_waits_for_it)
{
    const float next = loss_of(7);
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 4);
    const int compiled = gate.compiled;
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    ck_assert(rig_run(&r, 7) == next);
    ck_assert_int_eq(gate.compiled, compiled + 1);
    ck_assert(!yk__engine_prepares(r.e));
    rig_close(&r);
}
END_TEST

/* The step thread makes it again, and its own failure ends the run. */
START_TEST(a_failure_is_the_runs_if_it_comes_again)
{
    const bool again = _i;
    const float next = loss_of(7);
    float loss;
    uint64_t ticket;
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 4);
    set_flag(&gate.fails, 1);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    rig_settle(&r);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__UNPREPARED);
    set_flag(&gate.fails, again);
    if (again)
        ck_assert_int_eq(rig_submit(&r, 7, LONE, &loss, &ticket), YK_E_INTERNAL);
    else
        ck_assert(rig_run(&r, 7) == next);
    rig_close(&r);
}
END_TEST

static void *open_late(void *arg)
{
    (void)arg;
    time_pass(100);
    set_flag(&gate.shut, 0);
    return NULL;
}

/* The engine's end, or a late parameter that changes the layout: no program outlives it, and none is made behind the one that runs. */
START_TEST(the_end_waits_for_the_thread)
{
    const bool late_parameter = _i;
    pthread_t opens;
    uint32_t number;
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 4);
    set_flag(&gate.shut, 1);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    gate_await();
    ck_assert_int_eq(pthread_create(&opens, NULL, open_late, NULL), 0);
    if (late_parameter) {
        expect_ok(&r, yk__engine_param(r.e, "late", 2, true, &number, &r.err));
        ck_assert(!yk__engine_prepares(r.e));
        ck_assert_uint_eq(ref.programs, 0);
    }
    rig_close(&r);
    ck_assert_int_eq(pthread_join(opens, NULL), 0);
}
END_TEST

static void signal_ignore(int number)
{
    (void)number;
}

/* Elsewhere handlers that a compilation changed are restored; here the program may have changed them. */
START_TEST(a_handler_that_the_program_sets_meanwhile_stays)
{
    struct sigaction own = {.sa_handler = signal_ignore}, now;
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 4);
    set_flag(&gate.shut, 1);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    gate_await();
    ck_assert_int_eq(sigaction(SIGUSR2, &own, NULL), 0);
    set_flag(&gate.shut, 0);
    rig_settle(&r);
    ck_assert_int_eq(sigaction(SIGUSR2, NULL, &now), 0);
    ck_assert(now.sa_handler == signal_ignore);
    rig_close(&r);
}
END_TEST

/* A plan for which memory is short is for the step thread, which can wait for the device and plan again. */
START_TEST(a_plan_that_does_not_fit_is_refused_before_it_is_compiled)
{
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 2);
    const int compiled = gate.compiled;
    uint64_t *most = _i ? &r.e->queue.budget : &r.e->queue.limit; /* the planner knows the limit alone */
    *most = r.e->queue.held;
    ck_assert_int_eq(rig_prepare(&r, 8), YK__PREPARING);
    rig_settle(&r);
    ck_assert_int_eq(rig_prepare(&r, 8), YK__UNPREPARED);
    ck_assert_int_eq(gate.compiled, compiled);
    *most = 0;
    rig_close(&r);
}
END_TEST

/* A window's training runs of four rows, and what core/job/loop/rows_ahead.c asks for its next seven; true if it would wait for more. */
static bool window_waits(rig *r, bool fails)
{
    bool missing = false;
    for (int kind = FIRST; kind < KINDS; kind++) {
        float loss;
        uint64_t ticket;
        step s;
        expect_ok(r, rig_submit(r, 4, kind, &loss, &ticket));
        expect_ok(r, yk__engine_wait(r->e, ticket, &r->err));
        step_build(&s, r, 7);
        step_kind(&s, kind);
        set_flag(&gate.fails, fails);
        missing |= yk__engine_prepare(r->e, &s.m, 1) == YK__PREPARING;
        rig_settle(r);
        set_flag(&gate.fails, 0);
        yk__graph_free(&s.g);
    }
    return missing;
}

/* Each program is compiled once, or, where memory is short, only planned. */
START_TEST(a_window_whose_programs_fail_waits_once)
{
    rig r;
    rig_open(&r, 0);
    for (int kind = FIRST; kind < KINDS; kind++) { /* the old rows have theirs */
        float loss;
        uint64_t ticket;
        expect_ok(&r, rig_submit(&r, 4, kind, &loss, &ticket));
        expect_ok(&r, yk__engine_wait(r.e, ticket, &r.err));
    }
    const int compiled = gate.compiled;
    r.e->queue.limit = _i ? 1 : 0;
    ck_assert(window_waits(&r, !_i));
    ck_assert(!window_waits(&r, !_i));
    ck_assert_int_eq(gate.compiled, compiled + (_i ? 0 : KINDS - FIRST));
    r.e->queue.limit = 0;
    rig_close(&r);
}
END_TEST

/* A cache that drops what is made ahead: of too many bytes, where it keeps the next window's programs, or of too many programs. */
START_TEST(a_window_waits_once_for_programs_that_the_cache_drops)
{
    rig r;
    rig_open(&r, 0);
    if (_i)
        r.e->exec.cache_most = 4;
    else
        r.e->exec.cache_bytes = 1;
    ck_assert(window_waits(&r, false));
    ck_assert(!window_waits(&r, false));
    ck_assert(_i || rig_programs(&r) == 2 * (KINDS - FIRST));
    rig_close(&r);
}
END_TEST

/* Rows of other lengths in each batch have another program each time. */
START_TEST(traces_without_end_are_not_waited_for)
{
    int made = 0;
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 4);
    for (int length = 10; length < 40; length++) {
        step s;
        step_build(&s, &r, length);
        s.m.rows = 7;
        made += yk__engine_prepare(r.e, &s.m, 1) == YK__PREPARING;
        rig_settle(&r);
        yk__graph_free(&s.g);
    }
    ck_assert_int_eq(made, 8);
    ck_assert_int_eq(rig_prepare(&r, 6), YK__PREPARING); /* the next decision's */
    rig_close(&r);
}
END_TEST

/* tanh(..tanh(x w) w..), whose values can be made again. */
static void deep_build(step *s, uint32_t number, int64_t rows)
{
    const int64_t x_dim[2] = {rows, WIDTH}, w_dim[2] = {WIDTH, WIDTH};
    yk__graph *g = &s->g;
    yk__graph_init(g);
    const yk__vid w = yk__leaf(g, yk__slot_new(g, YK_SLOT_PARAM, WIDTH * WIDTH * 4, number), 0, YK_F32, 2, w_dim);
    const yk__vid x = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, (uint64_t)rows * WIDTH * 4, 0), 0, YK_F32, 2, x_dim);
    const yk__vid seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 1), 0, YK_F32, 0, NULL);
    yk__vid h = x;
    for (int i = 0; i < LAYERS; i++)
        h = yk__un(g, YK_OP_TANH, yk__dot(g, h, w, false, false));
    s->loss = yk__reshape(g, yk__sum(g, h, 3), 0, NULL);
    ck_assert_msg(!g->error.status, "%s", g->error.text);
    s->m = (yk__micro){.trace = g, .loss = s->loss, .seed = seed, .first = true, .rows = (uint64_t)rows, .n_result = 1, .result = &s->loss};
}

static void deep_run(rig *r, uint32_t number, int64_t rows)
{
    static const float x[WIDE * WIDTH], one = 1.0f;
    const uint64_t bytes[2] = {(uint64_t)rows * WIDTH * 4, 4};
    float loss;
    uint64_t ticket;
    step s;
    deep_build(&s, number, rows);
    s.m.n_input = 2, s.m.input = (const void *[]){x, &one}, s.m.input_bytes = bytes;
    s.m.result_host = (void *[]){&loss};
    expect_ok(r, yk__engine_run(r->e, &s.m, &ticket, &r->err));
    expect_ok(r, yk__engine_wait(r->e, ticket, &r->err));
    yk__graph_free(&s.g);
}

static void deep_open(rig *r, uint32_t *number)
{
    static const float w[WIDTH * WIDTH];
    rig_open(r, 0);
    expect_ok(r, yk__engine_param(r->e, "deep", WIDTH * WIDTH, true, number, &r->err));
    expect_ok(r, yk__engine_param_write(r->e, *number, w, &r->err));
    deep_run(r, *number, 8);
}

/* The thread plans to fill the memory, and only then learns of the scratch: the step thread plans again, with values made again. */
START_TEST(a_program_that_its_scratch_makes_too_large_is_not_taken)
{
    uint32_t number;
    step s;
    rig r;
    deep_open(&r, &number);
    deep_run(&r, number, WIDE);
    const uint64_t whole = r.e->queue.bytes[YK__ARENA_BYTES];
    rig_close(&r);
    deep_open(&r, &number);
    gate.scratch = whole / 5;
    r.e->queue.limit = r.e->queue.held - r.e->queue.bytes[YK__ARENA_BYTES] - r.e->queue.bytes[YK__INPUT_BYTES] + WIDE * WIDTH * 4 + 1024 +
                       whole * 9 / 10;
    for (int i = 0; i < 2; i++) {
        deep_build(&s, number, WIDE);
        ck_assert_int_eq(yk__engine_prepare(r.e, &s.m, 1), i ? YK__UNPREPARED : YK__PREPARING);
        rig_settle(&r);
        yk__graph_free(&s.g);
    }
    deep_run(&r, number, WIDE);
    ck_assert_uint_lt(r.e->queue.bytes[YK__ARENA_BYTES], whole);
    rig_close(&r);
}
END_TEST

static void *open_when_allowed(void *arg)
{
    bool *allowed = arg;
    for (int i = 0; i < 20000 && !*allowed; i++) {
        time_pass(1);
        *allowed = yk__compile_allowed_ms() == 20 * 5000;
    }
    set_flag(&gate.shut, 0);
    return NULL;
}

/* Meanwhile the step thread has compiled for another device, of shorter compilations. */
START_TEST(a_wait_has_the_allowance_of_its_devices_compiler)
{
    bool allowed = false;
    pthread_t opens;
    rig r;
    rig_open(&r, 0);
    rig_run(&r, 4);
    r.dev->caps.compile_ms = 5000;
    set_flag(&gate.shut, 1);
    ck_assert_int_eq(rig_prepare(&r, 7), YK__PREPARING);
    gate_await();
    yk__compile_allow(0);
    ck_assert_int_eq(pthread_create(&opens, NULL, open_when_allowed, &allowed), 0);
    rig_run(&r, 7);
    ck_assert_int_eq(pthread_join(opens, NULL), 0);
    ck_assert(allowed);
    rig_close(&r);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("ahead");
    tcase_set_timeout(c, 300);
    tcase_add_test(c, runs_go_on_while_it_is_made);
    tcase_add_test(c, a_run_of_its_rows_waits_for_it);
    tcase_add_loop_test(c, a_failure_is_the_runs_if_it_comes_again, 0, 2);
    tcase_add_loop_test(c, the_end_waits_for_the_thread, 0, 2);
    tcase_add_test(c, a_handler_that_the_program_sets_meanwhile_stays);
    tcase_add_loop_test(c, a_plan_that_does_not_fit_is_refused_before_it_is_compiled, 0, 2);
    tcase_add_loop_test(c, a_window_whose_programs_fail_waits_once, 0, 2);
    tcase_add_loop_test(c, a_window_waits_once_for_programs_that_the_cache_drops, 0, 2);
    tcase_add_test(c, traces_without_end_are_not_waited_for);
    tcase_add_test(c, a_program_that_its_scratch_makes_too_large_is_not_taken);
    tcase_add_test(c, a_wait_has_the_allowance_of_its_devices_compiler);
    return suite_run("run_ahead", c);
}
