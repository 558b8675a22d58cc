/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of the kit (kit_device.h) whose work does not end: an aborted queue is left behind within its time, the author hears of it, and
 * nothing that the queue's thread may use is freed. A queue that ends frees everything. The work here ends late, and touches its memory.
 */
#include "plugins/kit/kit_device.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/plugin_host.h"
#include "tests/support/run.h"

enum { BYTES = 64 };

static struct {
    atomic_int closed, freed, left, streams_ended, begun, returned;
    atomic_bool held, hears; /* the next copy waits while it is held; hears: left lets it go */
    int device, streams;
    char stream[2];
} seen;

static void device_describe(uint32_t i, yk_device_caps *caps, kit_target *target)
{
    (void)target;
    snprintf(caps->name, sizeof caps->name, "held %u", i);
    caps->flags = YK_CAP_DETERMINISTIC | YK_CAP_CPU;
}

static yk_status device_open(uint32_t i, void **device)
{
    (void)i;
    *device = &seen.device;
    return YK_OK;
}

static void device_close(void *device)
{
    ck_assert_ptr_eq(device, &seen.device);
    seen.closed++;
}

static void device_left(void *device, void *stream)
{
    ck_assert_ptr_eq(device, &seen.device);
    ck_assert_ptr_eq(stream, &seen.stream[1]); /* the queue's; the device's own is the first */
    seen.left++;
    if (seen.hears)
        seen.held = false;
}

static yk_status stream_new(void *device, void **stream)
{
    ck_assert_ptr_eq(device, &seen.device);
    ck_assert_int_lt(seen.streams, 2);
    *stream = &seen.stream[seen.streams++];
    return YK_OK;
}

static void stream_free(void *stream)
{
    (void)stream;
    seen.streams_ended++;
}

static void *memory_take(void *device, uint64_t bytes)
{
    (void)device;
    return plugin_host.alloc(bytes, 64);
}

static void memory_give(void *device, void *memory)
{
    (void)device;
    seen.freed++;
    plugin_host.free(memory);
}

static yk_status memory_put(void *stream, void *memory, uint64_t at, const void *from, uint64_t bytes)
{
    (void)stream;
    seen.begun++;
    while (seen.held)
        usleep(1000);
    memcpy((char *)memory + at, from, bytes);
    seen.returned++;
    return YK_OK;
}

static yk_status memory_get(void *stream, void *memory, uint64_t at, void *to, uint64_t bytes)
{
    (void)stream;
    memcpy(to, (const char *)memory + at, bytes);
    return YK_OK;
}

static bool node_has(void *device, const yk_graph *graph, uint32_t node)
{
    (void)device;
    (void)graph;
    (void)node;
    return false;
}

static yk_status node_call(void *stream, const yk_graph *graph, uint32_t node, const kit_argument *operand)
{
    (void)stream;
    (void)graph;
    (void)node;
    (void)operand;
    return YK_E_INTERNAL;
}

static const kit_device author = {.name = "held", .version = "1", .describe = device_describe, .open = device_open,
                                  .close = device_close, .left = device_left, .stream_new = stream_new, .stream_free = stream_free,
                                  .alloc = memory_take, .free = memory_give, .put = memory_put, .get = memory_get, .has = node_has,
                                  .call = node_call};

static char from[BYTES]; /* the left thread reads it late */
static void *volatile kept[3]; /* left behind on purpose: no leak */

/* Opens the device and gives a queue a copy, which waits while `held` is set. */
static const yk_plugin *copy_begin(bool held, yk_device **dev, yk_buffer **b, yk_queue **q, uint64_t *point)
{
    const yk_plugin *p = kit_device_plugin(&author);
    const yk_buffer_desc desc = {.bytes = BYTES};
    const yk_queue_desc kind = {0};
    memset(&seen, 0, sizeof seen);
    seen.held = held;
    ck_assert_int_eq(p->init(&plugin_host), YK_OK);
    ck_assert_int_eq(p->device_open(0, dev), YK_OK);
    ck_assert_int_eq(p->buffer_new(*dev, &desc, b), YK_OK);
    ck_assert_int_eq(p->queue_new(*dev, &kind, q), YK_OK);
    const yk_copy copy = {.dst = *b, .src_host = from, .bytes = BYTES};
    ck_assert_int_eq(p->queue_copy(*q, &copy, point), YK_OK);
    return p;
}

static void free_all(const yk_plugin *p, yk_device *dev, yk_buffer *b, yk_queue *q)
{
    p->queue_free(q);
    p->buffer_free(b);
    p->device_close(dev);
}

START_TEST(test_ends)
{
    yk_device *dev;
    yk_buffer *b;
    yk_queue *q;
    uint64_t point;
    const yk_plugin *p = copy_begin(false, &dev, &b, &q, &point);
    ck_assert_int_eq(p->queue_wait(q, point, UINT64_MAX), YK_OK);
    free_all(p, dev, b, q);
    ck_assert_int_eq(seen.left, 0);
    ck_assert_int_eq(seen.freed, 1);
    ck_assert_int_eq(seen.closed, 1);
    ck_assert_int_eq(seen.streams_ended, 2);
}
END_TEST

/* hears: the author stops the work in `left`; else it goes on until after the device was closed. */
static void leave_behind(bool hears)
{
    yk_device *dev;
    yk_buffer *b;
    yk_queue *q;
    uint64_t point;
    const yk_plugin *p = copy_begin(true, &dev, &b, &q, &point);
    const time_t begin = time(NULL);
    seen.hears = hears;
    while (!seen.begun) /* an abort drops messages that have not begun */
        usleep(1000);
    p->queue_abort(q, YK_E_CANCELLED);
    ck_assert_int_eq(p->queue_wait(q, point, UINT64_MAX), YK_E_CANCELLED);
    kept[0] = dev, kept[1] = b, kept[2] = q;
    free_all(p, dev, b, q);
    ck_assert_int_ge(time(NULL) - begin, 1); /* of 2 s, in whole seconds */
    ck_assert_int_eq(seen.left, 1);
    ck_assert_int_eq(seen.freed, 0);
    ck_assert_int_eq(seen.closed, 0);
    ck_assert(hears || !seen.returned);
    seen.held = false;
    for (int i = 0; i < 5000 && !seen.returned; i++)
        usleep(1000);
    ck_assert_int_eq(seen.returned, 1); /* under ASan: its memory was there */
    ck_assert_int_eq(seen.freed, 0);
}

START_TEST(test_left)
{
    leave_behind(false);
}
END_TEST

START_TEST(test_stopped)
{
    leave_behind(true);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_ends, test_left, test_stopped};
    return suite_run_all("left", tests, 3, NULL, NULL);
}
