/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA plugin on a driver that fails (tests/fakes): every call of the driver and of NVRTC in turn, short memory, a lost device, a
 * kernel that never ends. Each failure is reported, objects are freed, and the next try works.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/cuda/driver.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/support/fakes.h"
#include "tests/support/kit.h"
#include "tests/support/plugin_host.h"
#include "tests/support/run.h"

#define COUNT 1000
#define RUNS 4 /* with the same memory: the second is recorded, the others launch the graph */
#define LIMIT_NS 20000000000u /* for what takes milliseconds, on a machine that is busy */

static char cache[64];
static const yk_plugin *plugin;

/* Questions to the fakes, by name, as the plugin opens them itself. */
static struct {
    void (*fail_call)(uint64_t n, int code);
    void (*fail_all)(const char *name, int code);
    void (*set_version)(int version);
    void (*hang)(uint64_t n);
    void (*lose)(uint64_t n);
    void (*release)(void);
    uint64_t (*calls)(void), (*live)(void), (*abandoned)(void), (*graphs)(void);
    const char *(*failed)(void);
    void (*nvrtc_fail)(uint64_t n);
    void (*nvrtc_set_version)(int version);
    uint64_t (*nvrtc_calls)(void);
} fake;

/* ---- The libraries ---- */

static void libraries_open(void)
{
    void *driver = fake_library("fake_cuda", "DRIVER"), *nvrtc = fake_library("fake_nvrtc", "NVRTC");
    fake_symbol(driver, "fake_cuda_fail", &fake.fail_call);
    fake_symbol(driver, "fake_cuda_fail_all", &fake.fail_all);
    fake_symbol(driver, "fake_cuda_set_version", &fake.set_version);
    fake_symbol(driver, "fake_cuda_hang", &fake.hang);
    fake_symbol(driver, "fake_cuda_lose", &fake.lose);
    fake_symbol(driver, "fake_cuda_release", &fake.release);
    fake_symbol(driver, "fake_cuda_calls", &fake.calls);
    fake_symbol(driver, "fake_cuda_live", &fake.live);
    fake_symbol(driver, "fake_cuda_abandoned", &fake.abandoned);
    fake_symbol(driver, "fake_cuda_graphs", &fake.graphs);
    fake_symbol(driver, "fake_cuda_failed", &fake.failed);
    fake_symbol(nvrtc, "fake_nvrtc_fail", &fake.nvrtc_fail);
    fake_symbol(nvrtc, "fake_nvrtc_set_version", &fake.nvrtc_set_version);
    fake_symbol(nvrtc, "fake_nvrtc_calls", &fake.nvrtc_calls);
    plugin = plugin_host_load("cuda");
    ck_assert_ptr_nonnull(plugin);
}

/* ---- A scenario: everything once, from the start to the end ---- */

typedef struct scene {
    yk_device *dev;
    yk_queue *compute, *copy;
    yk_buffer *buffer[KIT_VALUES];
    yk_program *program;
    yk_pin *pin;
    kit *k;
    uint32_t a, b, y;
    uint64_t point;
} scene;

/* t = a + b; y = t * a */
static kit *graph_make(scene *s)
{
    kit *k = kit_new();
    const uint32_t a = KIT(k, YK_F32, COUNT), b = KIT(k, YK_F32, COUNT), t = KIT(k, YK_F32, COUNT), y = KIT(k, YK_F32, COUNT);
    kit_node(k, YK_OP_ADD, KIT_IDS(a, b), KIT_IDS(t), NULL, 0);
    kit_node(k, YK_OP_MUL, KIT_IDS(t, a), KIT_IDS(y), NULL, 0);
    kit_random_int(k, a, -50, 50);
    kit_random_int(k, b, -50, 50);
    s->a = a;
    s->b = b;
    s->y = y;
    return k;
}

static yk_status scene_open(scene *s)
{
    uint32_t n = 0;
    yk_device_caps caps = {.size = sizeof caps};
    yk_status st = plugin->init(&plugin_host);
    if (!st)
        st = plugin->device_count(&n);
    if (!st && !n)
        return YK_E_UNSUPPORTED; /* no device: the log says why */
    if (!st)
        st = plugin->device_open(0, &s->dev);
    if (!st)
        st = plugin->device_caps(0, &caps);
    return st;
}

static yk_status scene_make(scene *s)
{
    yk_status st = plugin->queue_new(s->dev, KIT_QUEUE, &s->compute);
    if (!st)
        st = plugin->queue_new(s->dev, &(yk_queue_desc){.size = sizeof(yk_queue_desc), .kind = YK_QUEUE_COPY}, &s->copy);
    for (uint32_t i = 0; i < s->k->g.n_slot && !st; i++)
        st = plugin->buffer_new(s->dev, KIT_BYTES(s->k->slot[i].bytes + KIT_GUARD), &s->buffer[i]);
    if (!st)
        st = plugin->program_new(s->dev, &s->k->g, &s->program);
    if (!st)
        st = plugin->host_pin(s->dev, s->k->data[s->y], s->k->slot[s->y].bytes, &s->pin);
    return st;
}

static yk_status scene_submit(scene *s)
{
    static const uint64_t zero[KIT_VALUES];
    const yk_submit submit = {.size = sizeof submit, .n_slot = s->k->g.n_slot, .program = s->program, .slot = s->buffer,
                              .slot_offset = zero, .slot_version = zero};
    return plugin->queue_run(s->compute, &submit, &s->point);
}

/* Copies on a queue of their own, which the runs wait for, and the other way round. */
static yk_status scene_run(scene *s)
{
    yk_copy back = {.size = sizeof back, .n_wait = 1, .src = s->buffer[s->y], .dst_host = s->k->data[s->y]};
    uint64_t point = 0;
    yk_status st = yk_put(plugin, s->compute, s->buffer[s->a], 0, s->k->data[s->a], COUNT * sizeof(float), &point);
    if (!st)
        st = yk_put(plugin, s->compute, s->buffer[s->b], 0, s->k->data[s->b], COUNT * sizeof(float), &point);
    for (int i = 0; i < RUNS && !st; i++)
        st = scene_submit(s);
    back.bytes = s->k->slot[s->y].bytes;
    back.wait = &(yk_wait){s->compute, s->point};
    if (!st)
        st = plugin->queue_copy(s->copy, &back, &point);
    if (!st)
        st = plugin->queue_wait(s->copy, point, UINT64_MAX);
    return st;
}

static void scene_close(scene *s)
{
    if (s->compute)
        plugin->queue_free(s->compute);
    if (s->copy)
        plugin->queue_free(s->copy);
    if (s->pin)
        plugin->host_unpin(s->pin);
    if (s->program)
        plugin->program_free(s->program);
    for (uint32_t i = 0; i < KIT_VALUES; i++)
        if (s->buffer[i])
            plugin->buffer_free(s->buffer[i]);
    if (s->dev)
        plugin->device_close(s->dev);
    plugin->fini();
    kit_free(s->k);
}

static bool scene_right(const scene *s)
{
    for (int i = 0; i < COUNT; i++) {
        const double a = kit_get(s->k, s->a, i), b = kit_get(s->k, s->b, i);
        if (kit_get(s->k, s->y, i) != (a + b) * a)
            return false;
    }
    return true;
}

/* From init to fini; the status of what failed first. Results are right where nothing did. */
static yk_status scenario_run(void)
{
    scene s = {.k = NULL};
    *plugin_host_text = 0;
    s.k = graph_make(&s);
    yk_status st = scene_open(&s);
    if (!st)
        st = scene_make(&s);
    if (!st)
        st = scene_run(&s);
    ck_assert_msg(st || scene_right(&s), "nothing failed, and the result is wrong");
    scene_close(&s);
    return st;
}

static void scene_start(scene *s)
{
    *plugin_host_text = 0;
    *s = (scene){.k = NULL};
    s->k = graph_make(s);
    ck_assert_msg(scene_open(s) == YK_OK && scene_make(s) == YK_OK, "%s", plugin_host_text);
}

/* ---- Tests ---- */

static void case_start(void)
{
    snprintf(cache, sizeof cache, "/tmp/yoke-cuda-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache));
    libraries_open();
    plugin_host_cache = cache;
}

static void case_stop(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(every_driver_call_fails_in_turn)
{
    uint64_t failures = 0, calls = UINT64_MAX;
    ck_assert_msg(scenario_run() == YK_OK, "%s", plugin_host_text);
    for (int run = 0; run < 5; run++) { /* waits look at events, the more often the longer they take: the fewest calls are all made */
        const uint64_t before = fake.calls();
        ck_assert_int_eq(scenario_run(), YK_OK);
        calls = fake.calls() - before < calls ? fake.calls() - before : calls;
    }
    for (uint64_t n = 1; n <= calls; n++) {
        const uint64_t abandoned = fake.abandoned();
        fake.fail_call(n, CUDA_ERROR_UNKNOWN);
        const yk_status st = scenario_run();
        fake.fail_call(0, 0);
        failures += st != YK_OK;
        ck_assert_msg(!st || *plugin_host_text, "call %llu, %s: status %d without a word", (unsigned long long)n, fake.failed(), st);
        ck_assert_msg(fake.live() == 0, "call %llu, %s: %llu objects are left", (unsigned long long)n, fake.failed(),
                      (unsigned long long)fake.live());
        /* without its context nothing can be freed one by one: the end of the context does it */
        ck_assert_msg(fake.abandoned() == abandoned || !strcmp(fake.failed(), "cuCtxPushCurrent_v2"),
                      "call %llu, %s: %llu objects were not freed", (unsigned long long)n, fake.failed(),
                      (unsigned long long)(fake.abandoned() - abandoned));
    }
    ck_assert_msg(failures > calls / 2, "%llu of %llu calls that failed were seen", (unsigned long long)failures,
                  (unsigned long long)calls);
    ck_assert_int_eq(scenario_run(), YK_OK);
}
END_TEST

START_TEST(every_compiler_call_fails_in_turn)
{
    plugin_host_cache = NULL;
    const uint64_t before = fake.nvrtc_calls();
    ck_assert_msg(scenario_run() == YK_OK, "%s", plugin_host_text);
    const uint64_t calls = fake.nvrtc_calls() - before;
    ck_assert_uint_ge(calls, 6);
    for (uint64_t n = 1; n <= calls; n++) {
        fake.nvrtc_fail(n);
        const yk_status st = scenario_run();
        fake.nvrtc_fail(0);
        ck_assert_msg(!st || strstr(plugin_host_text, "NVRTC") || strstr(plugin_host_text, "nvrtc"), "call %llu: %s",
                      (unsigned long long)n, plugin_host_text);
        ck_assert_uint_eq(fake.live(), 0);
    }
}
END_TEST

START_TEST(libraries_that_are_not_what_they_should_be)
{
    plugin_host_option("NVRTC", fake_path("fake_cuda")); /* a library, but not this one */
    plugin_host_cache = NULL;
    ck_assert_int_eq(scenario_run(), YK_E_UNSUPPORTED);
    ck_assert_msg(strstr(plugin_host_text, "NVRTC is needed") && strstr(plugin_host_text, "lacks nvrtc"), "%s", plugin_host_text);
    ck_assert_uint_eq(fake.live(), 0);
    plugin_host_option("NVRTC", "/etc/passwd"); /* no library: the loader's reason is told */
    ck_assert_int_eq(scenario_run(), YK_E_UNSUPPORTED);
    ck_assert_msg(strstr(plugin_host_text, "NVRTC is needed") && strstr(plugin_host_text, "ELF"), "%s", plugin_host_text);
    plugin_host_option("NVRTC", "/nonexistent");
    ck_assert_int_eq(plugin->init(&plugin_host), YK_E_ARG);
    ck_assert_msg(strstr(plugin_host_text, "YOKE_CUDA_NVRTC=/nonexistent") != NULL, "%s", plugin_host_text);
    plugin->fini();
}
END_TEST

START_TEST(memory_that_is_short_is_said)
{
    scene s;
    yk_buffer *b = NULL;
    scene_start(&s);
    const uint64_t abandoned = fake.abandoned();
    ck_assert_int_eq(plugin->buffer_new(s.dev, KIT_BYTES(1ull << 40), &b), YK_E_MEM);
    ck_assert_msg(strstr(plugin_host_text, "1099511627776 bytes") && strstr(plugin_host_text, "are free"), "%s", plugin_host_text);
    ck_assert_int_eq(scene_run(&s), YK_OK);
    ck_assert(scene_right(&s));
    scene_close(&s);
    ck_assert_uint_eq(fake.live(), 0);
    ck_assert_uint_eq(fake.abandoned(), abandoned);
}
END_TEST

START_TEST(a_lost_device_stays_lost_until_it_is_opened_again)
{
    scene s;
    uint64_t point = 0, done;
    scene_start(&s);
    fake.lose(2);
    ck_assert_int_eq(scene_run(&s), YK_E_DEVICE_LOST);
    ck_assert_msg(strstr(plugin_host_text, "CUDA_ERROR_ILLEGAL_ADDRESS") != NULL, "%s", plugin_host_text);
    ck_assert_int_eq(scene_submit(&s), YK_E_DEVICE_LOST);
    ck_assert_int_eq(plugin->queue_poll(s.compute, &done), YK_E_DEVICE_LOST);
    ck_assert_int_ne(yk_put(plugin, s.copy, s.buffer[s.a], 0, s.k->data[s.a], 4, &point), YK_OK);
    scene_close(&s);
    ck_assert_uint_eq(fake.live(), 0);
    ck_assert_msg(scenario_run() == YK_OK, "%s", plugin_host_text);
}
END_TEST

START_TEST(programs_with_the_same_memory_become_graphs)
{
    const uint64_t begin = fake.graphs();
    ck_assert_int_eq(scenario_run(), YK_OK);
    ck_assert_uint_eq(fake.graphs() - begin, RUNS - 1);
    plugin_host_option("GRAPHS", "0");
    ck_assert_int_eq(scenario_run(), YK_OK);
    ck_assert_uint_eq(fake.graphs() - begin, RUNS - 1);
    plugin_host_option("GRAPHS", NULL);
}
END_TEST

/* It does not end work that has just run: launches continue, and the log reports it once. */
START_TEST(a_graph_that_cannot_be_made_is_said_once)
{
    const uint64_t begin = fake.graphs();
    fake.fail_all("cuGraphInstantiateWithFlags", CUDA_ERROR_OUT_OF_MEMORY);
    const yk_status st = scenario_run();
    fake.fail_all(NULL, 0);
    ck_assert_msg(st == YK_OK, "%s", plugin_host_text);
    const char *said = strstr(plugin_host_text, "no graph of a program can be made, CUDA_ERROR_OUT_OF_MEMORY (2)");
    ck_assert_msg(said && !strstr(said + 1, "no graph of a program"), "%s", plugin_host_text);
    ck_assert_uint_eq(fake.graphs(), begin);
    ck_assert_uint_eq(fake.live(), 0);
    ck_assert_int_eq(scenario_run(), YK_OK); /* a device that is opened again tries again */
    ck_assert_uint_eq(fake.graphs() - begin, RUNS - 1);
}
END_TEST

START_TEST(an_old_driver_has_no_devices)
{
    fake.set_version(11080);
    const yk_status st = scenario_run();
    fake.set_version(12090);
    ck_assert_int_eq(st, YK_E_UNSUPPORTED);
    ck_assert_msg(strstr(plugin_host_text, "the driver is one of CUDA 11.8; one of CUDA 12") != NULL, "%s", plugin_host_text);
}
END_TEST

START_TEST(a_driver_that_cannot_begin_has_no_devices)
{
    fake.fail_all("cuInit", 803); /* which the fake has no name for */
    const yk_status st = scenario_run();
    fake.fail_all(NULL, 0);
    ck_assert_int_eq(st, YK_E_UNSUPPORTED);
    ck_assert_msg(strstr(plugin_host_text, "the driver says an error without a name (803)") != NULL, "%s", plugin_host_text);
}
END_TEST

static void image_refused_says(int nvrtc, const char *words)
{
    fake.nvrtc_set_version(nvrtc);
    fake.fail_all("cuModuleLoadData", CUDA_ERROR_INVALID_IMAGE);
    ck_assert_int_eq(scenario_run(), YK_E_INTERNAL);
    fake.fail_all(NULL, 0);
    fake.nvrtc_set_version(129);
    ck_assert_msg(strstr(plugin_host_text, words) != NULL, "%s", plugin_host_text);
}

START_TEST(code_that_the_driver_refuses_names_both_versions)
{
    plugin_host_cache = NULL;
    image_refused_says(129, "(NVRTC 12.9, driver 12.9): CUDA_ERROR_INVALID_IMAGE");
    image_refused_says(130, "(NVRTC 13.0, driver 12.9: set YOKE_CUDA_NVRTC to an NVRTC of the driver's major version)");
}
END_TEST

/* The kernel waits until it is released, and a copy from registered memory is done nevertheless. */
START_TEST(copies_run_while_a_kernel_does)
{
    scene s;
    uint64_t point = 0, done = 99;
    scene_start(&s);
    fake.hang(1);
    ck_assert_int_eq(scene_submit(&s), YK_OK);
    ck_assert_int_eq(yk_put(plugin, s.copy, s.buffer[s.b], 0, s.k->data[s.y], COUNT * sizeof(float), &point), YK_OK);
    ck_assert_int_eq(plugin->queue_wait(s.copy, point, LIMIT_NS), YK_OK);
    ck_assert_int_eq(plugin->queue_poll(s.compute, &done), YK_OK);
    ck_assert_uint_eq(done, 0);
    ck_assert_int_eq(plugin->queue_wait(s.compute, s.point, 1000000), YK_E_TIMEOUT);
    fake.release();
    ck_assert_int_eq(plugin->queue_wait(s.compute, s.point, LIMIT_NS), YK_OK);
    fake.hang(0);
    scene_close(&s);
}
END_TEST

START_TEST(a_queue_that_hangs_can_be_given_up)
{
    static scene s; /* a leak checker finds abandoned objects here */
    uint64_t live;
    scene_start(&s);
    fake.hang(1);
    ck_assert_int_eq(scene_submit(&s), YK_OK);
    plugin->queue_abort(s.compute, YK_E_CANCELLED);
    ck_assert_int_eq(plugin->queue_wait(s.compute, s.point, UINT64_MAX), YK_E_CANCELLED);
    ck_assert_msg(strstr(plugin_host_text, "aborted") != NULL, "%s", plugin_host_text);
    ck_assert_int_eq(scene_submit(&s), YK_E_CANCELLED);
    plugin->queue_free(s.compute); /* returns, and leaves it: such a device is not closed, */
    live = fake.live();
    plugin->buffer_free(s.buffer[s.a]); /* and what the kernel may still write to stays */
    ck_assert_uint_eq(fake.live(), live);
    fake.release();
    fake.hang(0);
}
END_TEST

int main(void)
{
    if (!fake_cuda_runs())
        return 0;
    TCase *t = tcase_create("faults");
    tcase_add_unchecked_fixture(t, case_start, case_stop);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, programs_with_the_same_memory_become_graphs);
    tcase_add_test(t, a_graph_that_cannot_be_made_is_said_once);
    tcase_add_test(t, an_old_driver_has_no_devices);
    tcase_add_test(t, a_driver_that_cannot_begin_has_no_devices);
    tcase_add_test(t, code_that_the_driver_refuses_names_both_versions);
    tcase_add_test(t, every_driver_call_fails_in_turn);
    tcase_add_test(t, every_compiler_call_fails_in_turn);
    tcase_add_test(t, memory_that_is_short_is_said);
    tcase_add_test(t, a_lost_device_stays_lost_until_it_is_opened_again);
    tcase_add_test(t, copies_run_while_a_kernel_does);
    tcase_add_test(t, libraries_that_are_not_what_they_should_be);
    tcase_add_test(t, a_queue_that_hangs_can_be_given_up);
    return suite_run("cuda faults", t);
}
