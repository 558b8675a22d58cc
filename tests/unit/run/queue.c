/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two failures of a device, of which the first is told, though it shows last; the arena in parts under a limit; values that go to
 * the host and come back.
 */
#include "config.h"

#include <check.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/exec.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

static yk_status waits;

static yk_status no_buffer(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **b)
{
    (void)dev, (void)desc, (void)b;
    return YK_E_MEM;
}

static yk_status no_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b)
{
    (void)dev, (void)host, (void)bytes, (void)b;
    return YK_E_MEM;
}

static yk_status queue_failed(yk_queue *queue, uint64_t point, uint64_t timeout)
{
    (void)queue, (void)point, (void)timeout;
    return waits;
}

/* What is told where a buffer cannot be had: beside a copy that is queued, unless it is known to be done. */
static void expect_reported(yk_status copy, uint64_t known, bool wrapped, const volatile int *cancel, const char *what)
{
    static char memory[64];
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    yk_buffer *b = NULL;
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    const yk_plugin *const table = dev->table;
    yk_plugin fails = *table;
    fails.buffer_new = no_buffer;
    fails.buffer_wrap = no_wrap;
    fails.queue_wait = queue_failed;
    dev->table = &fails;
    waits = copy;
    yk__queue q = {.dev = dev, .cancel = cancel, .last_point = 3, .waited = known};
    if (wrapped)
        yk__queue_wrap(&q, memory, sizeof memory, &b, YK__INPUT_BYTES, &err);
    else
        yk__queue_buffer(&q, 64, &b, YK__PARAM_BYTES, &err);
    ck_assert_msg(strstr(err.text, what), "'%s' without '%s'", err.text, what);
    ck_assert_uint_eq(q.held, 0);
    dev->table = table;
    yk__device_close(dev);
}

START_TEST(the_first_of_two_failures_is_reported)
{
    const int cancelled = 1;
    for (int wrapped = 0; wrapped < 2; wrapped++) {
        const char *const own = wrapped ? "a buffer over host memory" : "a buffer of 64 bytes";
        expect_reported(YK_E_DEVICE_LOST, 0, wrapped, NULL, "running on the device");
        expect_reported(YK_OK, 0, wrapped, NULL, own);
        expect_reported(YK_E_DEVICE_LOST, 3, wrapped, NULL, own);
        expect_reported(YK_E_DEVICE_LOST, 0, wrapped, &cancelled, own);
    }
}
END_TEST

static yk_status reserve_parts(yk__lane_set *arena, yk__queue *q, uint64_t first, uint64_t second, yk_error *err)
{
    yk_slot slot[3] = {{first, YK_SLOT_ARENA, 0}, {8, YK_SLOT_RESULT, 0}, {second, YK_SLOT_ARENA, 1}};
    const yk__plan plan = {.graph = {.slot = slot, .n_slot = 3}, .n_arena = second ? 2 : 1, .arena_slot = 2};
    return yk__arena_reserve(arena, q, &plan, err);
}

/* Parts grow to what the greediest program needs, unless that passes the limit: then they are what the next one needs. */
START_TEST(parts_of_the_arena_keep_to_the_limit)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    yk__lane_set arena = {0};
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    yk__queue q = {.dev = dev, .limit = 1750};
    ck_assert_int_eq(reserve_parts(&arena, &q, 1000, 600, &err), YK_OK);
    ck_assert_uint_eq(q.held, 1600);
    ck_assert_int_eq(reserve_parts(&arena, &q, 700, 750, &err), YK_OK);
    ck_assert_uint_eq(q.held, 1750);
    ck_assert_int_eq(reserve_parts(&arena, &q, 900, 0, &err), YK_OK);
    ck_assert_uint_eq(q.held, 1750);
    ck_assert_int_eq(reserve_parts(&arena, &q, 700, 760, &err), YK_OK);
    ck_assert_uint_eq(q.held, 1460);
    ck_assert_int_eq(reserve_parts(&arena, &q, 1000, 760, &err), YK_E_MEM);
    ck_assert_msg(strstr(err.text, "the limit is 1750"), "%s", err.text);
    yk__arena_free(&arena, &q);
    ck_assert_uint_eq(q.held, 0);
    ck_assert_uint_eq(q.bytes[YK__ARENA_BYTES], 0);
    yk__device_close(dev);
}
END_TEST

/* ---- Values on the host ---- */

static uint32_t copies;
static yk_status copied;

static yk_status queue_copies(yk_queue *queue, const yk_copy *copy, uint64_t *point)
{
    (void)queue;
    ck_assert_uint_eq(copy->bytes, 40);
    ck_assert_uint_eq(copy->src ? copy->src_offset : copy->dst_offset, copy->src ? 256 : 512);
    *point = ++copies;
    return copied;
}

/* A device that pins nothing may read host memory when a copy is submitted: the way back waits for the way there. Each failure is told. */
START_TEST(the_way_back_follows_the_way_there)
{
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    yk_slot slot[1] = {{1024, YK_SLOT_ARENA, 0}};
    yk_value value[2] = {{.offset = 256}, {.offset = 512}};
    yk__away away = {.from = 0, .to = 1, .bytes = 40, .offset = 256};
    yk__plan plan = {.graph = {.slot = slot, .n_slot = 1, .value = value, .n_value = 2}, .away = &away, .n_away = 1};
    yk__prog p = {.plan = &plan};
    const yk__action a = {.target = 0};
    ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
    const yk_plugin *const table = dev->table;
    yk_plugin own = *table;
    own.queue_copy = queue_copies;
    own.queue_wait = queue_failed;
    dev->table = &own;
    yk__queue q = {.dev = dev};
    yk__exec exec = {.queue = &q};
    yk__stored *s = &exec.instance.stored;
    yk__lane_buffer part = {.buffer = (yk_buffer *)&slot, .bytes = 1024};
    exec.instance.arena = (yk__lane_set){.lane = &part, .n = 1};
    yk__mem_fail_after(0);
    ck_assert_int_eq(yk__stored_reserve(s, &q, 4096, &err), YK_E_MEM);
    yk__mem_fail_after(-1);
    ck_assert_msg(strstr(err.text, "expected 4096 bytes of host memory"), "%s", err.text);
    ck_assert_uint_eq(s->bytes, 0);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__stored_reserve(s, &q, 4096, &err), YK_OK);
    ck_assert_int_eq(yk__stored_reserve(s, &q, 100, &err), YK_OK);
    ck_assert_uint_eq(s->bytes, 4096);
    copies = 0, copied = YK_OK, waits = YK_OK;
    ck_assert_int_eq(yk__store_start(&exec, &p, &a, &err), YK_OK);
    ck_assert_int_eq(yk__load_start(&exec, &p, &a, &err), YK_OK);
    ck_assert_uint_eq(copies, 2);
    ck_assert_uint_eq(q.waited, 1); /* the first copy, not the second */
    copied = YK_E_DEVICE_LOST;
    ck_assert_int_eq(yk__store_start(&exec, &p, &a, &err), YK_E_DEVICE_LOST);
    err = (yk_error)YK_ERROR_INIT;
    copied = YK_OK, waits = YK_E_DEVICE_LOST;
    ck_assert_int_eq(yk__store_start(&exec, &p, &a, &err), YK_OK);
    const uint32_t before = copies;
    ck_assert_int_eq(yk__load_start(&exec, &p, &a, &err), YK_E_DEVICE_LOST);
    ck_assert_uint_eq(copies, before);
    yk__stored_free(s, &q);
    dev->table = table;
    yk__device_close(dev);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("queue");
    tcase_add_test(t, parts_of_the_arena_keep_to_the_limit);
    tcase_add_test(t, the_first_of_two_failures_is_reported);
    tcase_add_test(t, the_way_back_follows_the_way_there);
    return suite_run("queue", t);
}
