/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups buffer and queue: memory and order, without a program.
 */
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

/* ---- Objects ---- */

yk_status cts_buffer_new(cts *c, uint64_t bytes, yk_buffer **b)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .bytes = bytes};
    return c->t->buffer_new(c->dev->handle, &desc, b);
}

yk_status cts_queue_new(cts *c, uint32_t kind, yk_queue **q)
{
    const yk_queue_desc desc = {.size = sizeof desc, .kind = kind};
    return c->t->queue_new(c->dev->handle, &desc, q);
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------------- */

bool cts_wait(cts *c, yk_queue *q, uint64_t point)
{
    yk_status s = c->t->queue_wait(q, point, c->timeout_ns);
    uint64_t done = 0;
    if (s == YK_E_TIMEOUT) {
        cts_fail(c, "point %llu is not reached within %llu s", (unsigned long long)point,
                 (unsigned long long)(c->timeout_ns / 1000000000u));
        return false;
    }
    if (!cts_ok(c, s, "queue_wait") || !cts_ok(c, c->t->queue_poll(q, &done), "queue_poll"))
        return false;
    if (done < point)
        cts_fail(c, "queue_wait says point %llu is done, queue_poll says %llu", (unsigned long long)point,
                 (unsigned long long)done);
    return !c->failed_now;
}

void cts_queue_again(cts *c)
{
    yk_queue *q = NULL;
    if (cts_queue_new(c, YK_QUEUE_COMPUTE, &q) == YK_OK) {
        c->t->queue_free(c->dev->queue);
        c->dev->queue = q;
    }
    yk__plugin_words();
}

static void pattern_fill(uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((i * 131 + seed * 17 + (i >> 8)) & 255);
}

static bool bytes_same(cts *c, const uint8_t *a, const uint8_t *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) {
            cts_fail(c, "%s: byte %zu of %zu is %u, expected %u", what, i, n, a[i], b[i]);
            return false;
        }
    return true;
}

static bool put_get(cts *c, yk_buffer *b, uint64_t off, const uint8_t *src, uint8_t *dst, uint64_t n)
{
    uint64_t point = 0;
    return cts_ok(c, yk_put(c->t, c->dev->queue, b, off, src, n, &point), "queue_put") &&
           cts_ok(c, yk_get(c->t, c->dev->queue, b, off, dst, n, &point), "queue_get") && cts_wait(c, c->dev->queue, point);
}

/* ---- buffer ---------------------------------------------------------------------------------------------------------------- */

static void round_trip(cts *c, uint64_t bytes)
{
    uint8_t *src = yk__malloc(bytes), *dst = yk__calloc(bytes, 1);
    yk_buffer *b = NULL;
    if (src && dst && cts_begin(c, "put_get.%llu", (unsigned long long)bytes)) {
        pattern_fill(src, bytes, 1);
        if (cts_ok(c, cts_buffer_new(c, bytes, &b), "buffer_new")) {
            if (put_get(c, b, 0, src, dst, bytes))
                bytes_same(c, dst, src, bytes, "what came back");
            c->t->buffer_free(b);
        }
        cts_pass(c);
    }
    yk__free(src);
    yk__free(dst);
}

/* Parts at odd offsets, and nothing beside them. */
static void test_parts(cts *c)
{
    static const uint64_t at[][2] = {{0, 1}, {1, 3}, {5, 64}, {333, 1000}, {4095, 1}};
    uint8_t model[4096], back[4096], piece[1024];
    uint64_t point = 0;
    yk_buffer *b = NULL;
    if (!cts_begin(c, "parts") || !cts_ok(c, cts_buffer_new(c, sizeof model, &b), "buffer_new"))
        return;
    pattern_fill(model, sizeof model, 3);
    if (put_get(c, b, 0, model, back, sizeof model))
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            pattern_fill(piece, at[i][1], 50 + (uint32_t)i);
            memcpy(model + at[i][0], piece, at[i][1]);
            if (!put_get(c, b, at[i][0], piece, back, at[i][1]) || !bytes_same(c, back, piece, at[i][1], "a part"))
                break;
        }
    if (!c->failed_now && cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, sizeof back, &point), "queue_get") &&
        cts_wait(c, c->dev->queue, point))
        bytes_same(c, back, model, sizeof model, "the whole after its parts");
    c->t->buffer_free(b);
    cts_pass(c);
}

static void test_map(cts *c)
{
    uint8_t data[1000], back[1000];
    uint8_t *host;
    yk_buffer *b = NULL;
    if (!cts_begin(c, "map") || !cts_ok(c, cts_buffer_new(c, sizeof data, &b), "buffer_new"))
        return;
    host = c->t->buffer_map(b);
    if (!(c->dev->caps.flags & YK_CAP_HOST_VISIBLE)) {
        if (host)
            cts_fail(c, "an address without YK_CAP_HOST_VISIBLE");
        cts_unsupported(c, "not host visible");
    } else if (!host) {
        cts_fail(c, "YK_CAP_HOST_VISIBLE, but buffer_map gives NULL");
    } else {
        pattern_fill(data, sizeof data, 9);
        if (put_get(c, b, 0, data, back, sizeof data) && bytes_same(c, host, data, sizeof data, "the mapped memory after put")) {
            uint64_t point = 0;
            pattern_fill(host, sizeof data, 10);
            pattern_fill(data, sizeof data, 10);
            if (cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, sizeof back, &point), "queue_get") &&
                cts_wait(c, c->dev->queue, point))
                bytes_same(c, back, data, sizeof data, "what get reads after the host wrote");
        }
        cts_pass(c);
    }
    c->t->buffer_free(b);
}

static void test_wrap(cts *c)
{
    const size_t bytes = 3 * 4096;
    uint8_t *host = yk__aligned(bytes, 4096), *data = yk__malloc(bytes), *back = yk__malloc(bytes);
    yk_buffer *b = NULL;
    yk_status s;
    if (host && data && back && cts_begin(c, "wrap")) {
        pattern_fill(data, bytes, 20);
        memcpy(host, data, bytes);
        s = c->t->buffer_wrap(c->dev->handle, host, bytes, &b);
        if (!(c->dev->caps.flags & YK_CAP_WRAP)) {
            if (s == YK_OK)
                c->t->buffer_free(b);
            cts_unsupported(c, "it does not wrap host memory");
        } else if (cts_ok(c, s, "buffer_wrap")) {
            uint64_t point = 0;
            if (cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, bytes, &point), "queue_get") &&
                cts_wait(c, c->dev->queue, point) && bytes_same(c, back, data, bytes, "what the device sees of wrapped memory")) {
                pattern_fill(data, bytes, 21);
                if (put_get(c, b, 0, data, back, bytes))
                    bytes_same(c, host, data, bytes, "wrapped memory after put");
            }
            c->t->buffer_free(b);
            cts_pass(c);
        }
    }
    yk__free(host);
    yk__free(data);
    yk__free(back);
}

static void too_large(cts *c)
{
    yk_buffer *b = NULL;
    yk_status s;
    if (!cts_begin(c, "out_of_memory"))
        return;
    s = cts_buffer_new(c, 1ull << 46, &b);
    if (s == YK_OK) {
        c->t->buffer_free(b);
        cts_fail(c, "64 TiB were given");
    } else if (s != YK_E_MEM) {
        cts_fail(c, "64 TiB: %s, expected YK_E_MEM", yk__status_name(s));
    }
    yk__plugin_words();
    if (cts_ok(c, cts_buffer_new(c, 64, &b), "buffer_new after the refusal"))
        c->t->buffer_free(b);
    cts_pass(c);
}

static void test_many(cts *c)
{
    yk_buffer *b[300];
    uint32_t n = 0;
    if (!cts_begin(c, "many"))
        return;
    while (n < 300 && cts_ok(c, cts_buffer_new(c, 1 + n * 37, &b[n]), "buffer_new"))
        n++;
    while (n)
        c->t->buffer_free(b[--n]);
    cts_pass(c);
}

void cts_group_buffer(cts *c)
{
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        round_trip(c, sizes[i]);
    test_parts(c);
    test_map(c);
    test_wrap(c);
    test_many(c);
    too_large(c);
}

/* ---- queue ------------------------------------------------------------------------------------------------------------------ */

static void test_points(cts *c, yk_queue *q, yk_buffer *b)
{
    uint8_t data[64] = {1};
    uint64_t last = 0, point = 0, done = 0;
    if (!cts_begin(c, "points"))
        return;
    for (int i = 0; i < 200 && !c->failed_now; i++) {
        yk_status s = i % 2 ? yk_put(c->t, q, b, 0, data, 64, &point) : yk_get(c->t, q, b, 0, data, 64, &point);
        if (!cts_ok(c, s, "queue_put, queue_get"))
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

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A point nobody was given is the caller's mistake, and said so at once. */
static void test_not_given(cts *c, yk_queue *q)
{
    double begin = seconds_now();
    uint64_t done = 0;
    yk_status s;
    if (!cts_begin(c, "not_given") || !cts_ok(c, c->t->queue_poll(q, &done), "queue_poll"))
        return;
    s = c->t->queue_wait(q, done + 1000, c->timeout_ns);
    if (s != YK_E_ARG)
        cts_fail(c, "waiting for a point that was never given: %s, expected YK_E_ARG", yk__status_name(s));
    else if (!*yk__plugin_words())
        cts_fail(c, "it is refused without a word through host->fail");
    if (seconds_now() - begin > 1)
        cts_fail(c, "the refusal took %.1f s", seconds_now() - begin);
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
        pattern_fill(src[i], sizeof src[i], i);
        if (cts_ok(c, yk_put(c->t, q, b, 0, src[i], sizeof src[i], &point), "queue_put"))
            cts_ok(c, yk_get(c->t, q, b, 0, dst[i], sizeof dst[i], &point), "queue_get");
    }
    if (!c->failed_now && cts_wait(c, q, point))
        for (uint32_t i = 0; i < 50; i++)
            if (!bytes_same(c, dst[i], src[i], sizeof src[i], "a get after its put"))
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
    pattern_fill(data, sizeof data, 77);
    if (cts_ok(c, yk_put(c->t, q, b, 0, data, sizeof data, &p), "queue_put") && cts_wait(c, q, p) &&
        cts_ok(c, yk_get(c->t, other, b, 0, back, sizeof back, &r), "queue_get") && cts_wait(c, other, r)) {
        bytes_same(c, back, data, sizeof data, "what the second queue reads");
        if (r != 1)
            cts_fail(c, "the first point of a new queue is %llu, expected 1", (unsigned long long)r);
    }
    c->t->queue_free(other);
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
    c->t->queue_free(q);
    c->t->buffer_free(b);
}
