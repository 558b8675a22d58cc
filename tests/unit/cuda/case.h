/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA plugin's device on the fakes, with cuBLASLt's and cuDNN's, and a kit's graph run on it so many times; for one test file. */
#ifndef YOKE_TESTS_UNIT_CUDA_CASE_H
#define YOKE_TESTS_UNIT_CUDA_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/cuda/driver.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/support/fakes.h"
#include "tests/support/kit.h"
#include "tests/support/plugin_host.h"
#include "tests/support/run.h"

#define RUNS 4 /* with the same memory: the second is recorded, the others launch the graph */

static char cache[64];
static const yk_plugin *plugin;
static yk_device *dev;

static struct {
    void (*fail_call)(uint64_t n), (*refuse)(int yes), (*lose)(uint64_t n), (*set_capability)(int sm);
    uint64_t (*calls)(void), (*live)(void), (*products)(void), (*eights)(void), (*behinds)(void), (*aligned)(void);
    uint64_t (*driver_live)(void), (*graphs)(void), (*abandoned)(void);
    const char *(*wrong)(void);
} fake;

static struct {
    void (*fail_call)(uint64_t n), (*refuse)(int yes);
    uint64_t (*calls)(void), (*live)(void), (*attentions)(void), (*convolutions)(void);
    const char *(*wrong)(void);
} dnn;

/* ---- The device ---- */

static inline void dnn_start(void)
{
    void *library = fake_library("fake_cudnn", "CUDNN");
    fake_symbol(library, "fake_cudnn_fail", &dnn.fail_call);
    fake_symbol(library, "fake_cudnn_refuse", &dnn.refuse);
    fake_symbol(library, "fake_cudnn_calls", &dnn.calls);
    fake_symbol(library, "fake_cudnn_live", &dnn.live);
    fake_symbol(library, "fake_cudnn_attentions", &dnn.attentions);
    fake_symbol(library, "fake_cudnn_convolutions", &dnn.convolutions);
    fake_symbol(library, "fake_cudnn_wrong", &dnn.wrong);
}

static inline void case_start(void)
{
    snprintf(cache, sizeof cache, "/tmp/yoke-cuda-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(cache));
    void *driver = fake_library("fake_cuda", "DRIVER"), *lt = fake_library("fake_cublaslt", "CUBLASLT");
    fake_library("fake_nvrtc", "NVRTC");
    fake_symbol(driver, "fake_cuda_lose", &fake.lose);
    fake_symbol(driver, "fake_cuda_live", &fake.driver_live);
    fake_symbol(driver, "fake_cuda_graphs", &fake.graphs);
    fake_symbol(driver, "fake_cuda_abandoned", &fake.abandoned);
    fake_symbol(lt, "fake_cublaslt_fail", &fake.fail_call);
    fake_symbol(lt, "fake_cublaslt_refuse", &fake.refuse);
    fake_symbol(lt, "fake_cublaslt_calls", &fake.calls);
    fake_symbol(lt, "fake_cublaslt_live", &fake.live);
    fake_symbol(lt, "fake_cublaslt_products", &fake.products);
    fake_symbol(lt, "fake_cublaslt_eights", &fake.eights);
    fake_symbol(lt, "fake_cublaslt_behinds", &fake.behinds);
    fake_symbol(lt, "fake_cublaslt_aligned", &fake.aligned);
    fake_symbol(lt, "fake_cublaslt_wrong", &fake.wrong);
    fake_symbol(driver, "fake_cuda_set_capability", &fake.set_capability);
    dnn_start();
    plugin = plugin_host_load("cuda");
    ck_assert_ptr_nonnull(plugin);
    plugin_host_cache = cache;
    *plugin_host_text = 0;
}

static inline void case_stop(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    ck_assert_int_eq(system(command), 0);
    ck_assert_str_eq(fake.wrong(), "");
    ck_assert_str_eq(dnn.wrong(), "");
}

static inline yk_status device_start(void)
{
    uint32_t n = 0;
    yk_status s = plugin->init(&plugin_host);
    if (!s)
        s = plugin->device_count(&n);
    if (!s)
        s = plugin->device_open(0, &dev);
    return s;
}

static inline void device_stop(void)
{
    if (dev)
        plugin->device_close(dev);
    dev = NULL;
    plugin->fini();
    ck_assert_uint_eq(fake.live(), 0);
    ck_assert_uint_eq(dnn.live(), 0);
    ck_assert_uint_eq(fake.driver_live(), 0);
}

/* ---- Running a graph, so many times with the same memory ---- */

typedef struct bound {
    yk_queue *queue;
    yk_program *program;
    yk_buffer *buffer[KIT_VALUES];
} bound;

static inline yk_status bound_make(bound *b, const kit *k)
{
    yk_status s = plugin->program_new(dev, &k->g, &b->program);
    if (!s)
        s = plugin->queue_new(dev, KIT_QUEUE, &b->queue);
    for (uint32_t i = 0; i < k->g.n_slot && !s; i++)
        s = plugin->buffer_new(dev, KIT_BYTES(k->slot[i].bytes + KIT_GUARD), &b->buffer[i]);
    return s;
}

static inline yk_status bound_run(const bound *b, kit *k, int runs)
{
    static const uint64_t zero[KIT_VALUES];
    const yk_submit submit = {.size = sizeof submit, .n_slot = k->g.n_slot, .program = b->program, .slot = b->buffer,
                              .slot_offset = zero, .slot_version = zero};
    uint64_t point = 0;
    yk_status s = YK_OK;
    for (uint32_t i = 0; i < k->g.n_slot && !s; i++)
        s = yk_put(plugin, b->queue, b->buffer[i], 0, k->data[i], k->slot[i].bytes + KIT_GUARD, &point);
    for (int i = 0; i < runs && !s; i++)
        s = plugin->queue_run(b->queue, &submit, &point);
    for (uint32_t i = 0; i < k->g.n_slot && !s; i++)
        s = yk_get(plugin, b->queue, b->buffer[i], 0, k->data[i], k->slot[i].bytes + KIT_GUARD, &point);
    const yk_status done = plugin->queue_wait(b->queue, point, UINT64_MAX);
    return s ? s : done;
}

static inline yk_status graph_run(kit *k, int runs)
{
    bound b = {.queue = NULL};
    yk_status s = bound_make(&b, k);
    if (!s)
        s = bound_run(&b, k, runs);
    if (b.queue)
        plugin->queue_free(b.queue);
    if (b.program)
        plugin->program_free(b.program);
    for (uint32_t i = 0; i < k->g.n_slot; i++)
        plugin->buffer_free(b.buffer[i]);
    ck_assert(s || kit_guarded(k));
    return s;
}

static inline void graph_works(kit *k, int runs)
{
    ck_assert_msg(graph_run(k, runs) == YK_OK, "%s%s%s", plugin_host_text, fake.wrong(), dnn.wrong());
}

#endif
