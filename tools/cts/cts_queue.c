/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group queue, first part: points and order in one queue, without a program. main.c runs each group in a child process with the
 * device under test open; the other parts are in cts_order.c and busy.c.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/cts_ops.h"

static void test_points(cts *c, yk_queue *q, yk_buffer *b)
{
    uint8_t data[64] = {1};
    uint64_t last = 0, point = 0, done = 0;
    if (!cts_begin(c, "points"))
        return;
    for (int i = 0; i < 200 && !c->failed_now; i++) {
        yk_status s = i % 2 ? yk_put(c->t, q, b, 0, data, 64, &point) : yk_get(c->t, q, b, 0, data, 64, &point);
        if (!cts_ok(c, s, "queue_copy"))
            break;
        if (i && point != last + 1)
            cts_fail(c, "point %llu follows %llu; points grow by one", (unsigned long long)point, (unsigned long long)last);
        if (cts_ok(c, c->t->queue_poll(q, &done), "queue_poll") && done > point)
            cts_fail(c, "poll says %llu is done, only %llu was given out", (unsigned long long)done, (unsigned long long)point);
        last = point;
    }
    if (!c->failed_now && cts_wait(c, q, last) && cts_ok(c, c->t->queue_poll(q, &done), "queue_poll") && done != last)
        cts_fail(c, "poll says %llu after waiting for %llu", (unsigned long long)done, (unsigned long long)last);
    cts_pass(c);
}

static void first_point(cts *c, yk_queue *q)
{
    uint64_t done = 99;
    if (!cts_begin(c, "fresh"))
        return;
    if (cts_ok(c, c->t->queue_poll(q, &done), "queue_poll") && done != 0)
        cts_fail(c, "a new queue says point %llu is done", (unsigned long long)done);
    cts_ok(c, c->t->queue_wait(q, 0, 0), "queue_wait for point 0");
    cts_pass(c);
}

/* Waiting for a point that was never given out is the caller's mistake, and returns at once. */
static void test_not_given(cts *c, yk_queue *q)
{
    double begin = yk__clock_seconds();
    uint64_t done = 0;
    yk_status s;
    if (!cts_begin(c, "not_given") || !cts_ok(c, c->t->queue_poll(q, &done), "queue_poll"))
        return;
    s = c->t->queue_wait(q, done + 1000, c->timeout_ns);
    if (s != YK_E_ARG)
        cts_fail(c, "waiting for a point that was never given: %s, expected YK_E_ARG", yk__status_name(s));
    else if (!*yk__plugin_message())
        cts_fail(c, "it is refused without a message through host->fail");
    if (yk__clock_seconds() - begin > 1)
        cts_fail(c, "the refusal took %.1f s", yk__clock_seconds() - begin);
    cts_ok(c, c->t->queue_wait(q, done, c->timeout_ns), "queue_wait after it");
    cts_pass(c);
}

/* 50 overwritten puts, each read back: every get sees the put before it. */
static void test_order(cts *c, yk_queue *q, yk_buffer *b)
{
    static uint8_t src[50][512], dst[50][512];
    uint64_t point = 0;
    if (!cts_begin(c, "order"))
        return;
    for (uint32_t i = 0; i < 50 && !c->failed_now; i++) {
        cts_pattern_fill(src[i], sizeof src[i], i);
        if (cts_ok(c, yk_put(c->t, q, b, 0, src[i], sizeof src[i], &point), "queue_copy"))
            cts_ok(c, yk_get(c->t, q, b, 0, dst[i], sizeof dst[i], &point), "queue_copy");
    }
    if (!c->failed_now && cts_wait(c, q, point))
        for (uint32_t i = 0; i < 50; i++)
            if (!cts_bytes_same(c, dst[i], src[i], sizeof src[i], "a get after its put"))
                break;
    cts_pass(c);
}

static void two_queues(cts *c, yk_queue *q, yk_buffer *b)
{
    uint8_t data[64], back[64];
    yk_queue *other = NULL;
    uint64_t p = 0, r = 0;
    if (!cts_begin(c, "two_queues") || !cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &other), "queue_new"))
        return;
    cts_pattern_fill(data, sizeof data, 77);
    if (cts_ok(c, yk_put(c->t, q, b, 0, data, sizeof data, &p), "queue_copy") && cts_wait(c, q, p) &&
        cts_ok(c, yk_get(c->t, other, b, 0, back, sizeof back, &r), "queue_copy") && cts_wait(c, other, r)) {
        cts_bytes_same(c, back, data, sizeof data, "what the second queue reads");
        if (r != 1)
            cts_fail(c, "the first point of a new queue is %llu, expected 1", (unsigned long long)r);
    }
    c->t->queue_free(other);
    cts_pass(c);
}

#define BESIDE_BYTES (1u << 20)
#define BESIDE_COPIES 16u /* so many are in flight that a core shared by both queues changes between them within a copy */
#define BESIDE_ROUNDS 8

/* One queue's part: a pattern goes to many places of its buffer, and comes back from each. */
static bool side_copy(cts *c, yk_queue *q, yk_buffer *b, const uint8_t *pattern, uint8_t *back, uint64_t *point)
{
    bool good = true;
    memset(back, 0, BESIDE_COPIES * BESIDE_BYTES);
    for (uint64_t i = 0; i < BESIDE_COPIES && good; i++)
        good = cts_ok(c, yk_put(c->t, q, b, i * BESIDE_BYTES, pattern, BESIDE_BYTES, point), "queue_copy");
    for (uint64_t i = 0; i < BESIDE_COPIES && good; i++)
        good = cts_ok(c, yk_get(c->t, q, b, i * BESIDE_BYTES, back + i * BESIDE_BYTES, BESIDE_BYTES, point), "queue_copy");
    return good;
}

/* Copies on two queues at a time: neither may touch the other's bytes. */
static void copies_overlapped(cts *c, yk_queue *q[2], yk_buffer *b[2], uint8_t *back[2])
{
    static uint8_t pattern[2][BESIDE_BYTES];
    uint64_t point[2];
    for (uint32_t i = 0; i < 2; i++)
        cts_pattern_fill(pattern[i], BESIDE_BYTES, i);
    for (uint32_t round = 0; round < BESIDE_ROUNDS && !c->failed_now; round++) {
        for (uint32_t i = 0; i < 2; i++)
            if (!side_copy(c, q[i], b[i], pattern[i], back[i], &point[i]))
                return;
        for (uint32_t i = 0; i < 2; i++)
            if (!cts_wait(c, q[i], point[i]))
                return;
        for (uint32_t i = 0; i < 2 * BESIDE_COPIES && !c->failed_now; i++)
            cts_bytes_same(c, back[i % 2] + i / 2 * (uint64_t)BESIDE_BYTES, pattern[i % 2], BESIDE_BYTES,
                           "what came back while another queue copied");
    }
}

static void test_copies_overlapped(cts *c, yk_queue *q)
{
    const uint64_t bytes = BESIDE_COPIES * BESIDE_BYTES;
    yk_queue *both[2] = {q, NULL};
    yk_buffer *b[2] = {NULL, NULL};
    uint8_t *back[2] = {NULL, NULL};
    if (!cts_begin(c, "copies_overlapped"))
        return;
    bool made = cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &both[1]), "queue_new");
    for (uint32_t i = 0; i < 2 && made; i++) {
        back[i] = yk__malloc(bytes);
        made = cts_ok(c, cts_buffer_new(c, bytes, &b[i]), "buffer_new") && cts_ok(c, back[i] ? YK_OK : YK_E_MEM, "memory for the test");
    }
    if (made)
        copies_overlapped(c, both, b, back);
    for (uint32_t i = 0; i < 2; i++) {
        if (b[i])
            c->t->buffer_free(b[i]);
        yk__free(back[i]);
    }
    if (both[1])
        c->t->queue_free(both[1]);
    cts_pass(c);
}

/* A buffer of 0 bytes is one that copies of 0 bytes touch. */
static void test_empty(cts *c, yk_queue *q)
{
    uint8_t data[1] = {7};
    yk_buffer *b = NULL;
    uint64_t point = 0;
    if (!cts_begin(c, "empty") || !cts_ok(c, cts_buffer_new(c, 0, &b), "buffer_new of 0 bytes"))
        return;
    if (cts_ok(c, yk_put(c->t, q, b, 0, data, 0, &point), "queue_copy of 0 bytes") &&
        cts_ok(c, yk_get(c->t, q, b, 0, data, 0, &point), "queue_copy of 0 bytes") && cts_wait(c, q, point) && data[0] != 7)
        cts_fail(c, "a copy of 0 bytes wrote a byte");
    c->t->buffer_free(b);
    cts_pass(c);
}

/* 4096 bytes to the buffer from `from`, and back to it. */
static void pinned_copy(cts *c, yk_queue *q, yk_buffer *b, uint8_t *from, const char *what)
{
    uint8_t want[4096];
    uint64_t point = 0;
    cts_pattern_fill(want, sizeof want, 4);
    memcpy(from, want, sizeof want);
    if (!cts_ok(c, yk_put(c->t, q, b, 0, from, sizeof want, &point), "queue_copy") || !cts_wait(c, q, point))
        return;
    memset(from, 0, sizeof want);
    if (cts_ok(c, yk_get(c->t, q, b, 0, from, sizeof want, &point), "queue_copy") && cts_wait(c, q, point))
        cts_bytes_same(c, from, want, sizeof want, what);
}

/* The host pins its user's memory at any address; copies may exceed the pinned range. */
static void test_pin(cts *c, yk_queue *q, yk_buffer *b)
{
    static uint8_t memory[4 * 4096];
    uint8_t *odd = memory + 4096 + 77;
    yk_pin *pin = NULL;
    if (!cts_begin(c, "pin_anywhere"))
        return;
    if (!(c->dev->caps.flags & YK_CAP_PINS)) {
        cts_unsupported(c, "no YK_CAP_PINS");
        return;
    }
    if (cts_ok(c, c->t->host_pin(c->dev->handle, odd, 5001, &pin), "host_pin of 5001 bytes at an odd address")) {
        pinned_copy(c, q, b, odd, "what came back to pinned memory");
        pinned_copy(c, q, b, odd + 3000, "what came back to memory that is pinned at its begin");
        pinned_copy(c, q, b, odd - 3000, "what came back to memory that is pinned at its end");
        c->t->host_unpin(pin);
    }
    cts_pass(c);
}

void cts_group_queue(cts *c)
{
    yk_queue *q = NULL;
    yk_buffer *b = NULL;
    if (cts_queue_new(c, YK_QUEUE_COMPUTE, &q) || cts_buffer_new(c, 4096, &b)) {
        if (cts_begin(c, "new"))
            cts_fail(c, "a queue or a buffer cannot be made");
        return;
    }
    first_point(c, q);
    test_points(c, q, b);
    test_not_given(c, q);
    test_order(c, q, b);
    two_queues(c, q, b);
    test_copies_overlapped(c, q);
    test_empty(c, q);
    test_pin(c, q, b);
    cts_queue_order(c);
    cts_queue_busy(c);
    c->t->queue_free(q);
    c->t->buffer_free(b);
}
