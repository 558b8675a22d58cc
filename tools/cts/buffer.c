/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group buffer: checks a device's memory without a program: sizes, copies, wrapping, mapping. main.c runs each group in a child
 * process with the device under test open; results go to report.c.
 */
#include <string.h>

#include "core/base/mem.h"
#include "tools/cts/cts_ops.h"

static bool put_get(cts *c, yk_buffer *b, uint64_t off, const uint8_t *src, uint8_t *dst, uint64_t n)
{
    uint64_t point = 0;
    return cts_ok(c, yk_put(c->t, c->dev->queue, b, off, src, n, &point), "queue_copy") &&
           cts_ok(c, yk_get(c->t, c->dev->queue, b, off, dst, n, &point), "queue_copy") && cts_wait(c, c->dev->queue, point);
}

#define MOST ((48u << 20) + 5) /* no multiple of a page or a word, and more than 24 bits count */

/* ---- buffer ---------------------------------------------------------------------------------------------------------------- */

static void round_trip(cts *c, uint64_t bytes)
{
    uint8_t *src = yk__malloc(bytes), *dst = yk__calloc(bytes, 1);
    yk_buffer *b = NULL;
    if (src && dst && cts_begin(c, "put_get.%llu", (unsigned long long)bytes)) {
        cts_pattern_fill(src, bytes, 1);
        if (cts_ok(c, cts_buffer_new(c, bytes, &b), "buffer_new")) {
            if (put_get(c, b, 0, src, dst, bytes))
                cts_bytes_same(c, dst, src, bytes, "what came back");
            c->t->buffer_free(b);
        }
        cts_pass(c);
    }
    yk__free(src);
    yk__free(dst);
}

/* Parts at odd offsets, without a change next to them. */
static void test_parts(cts *c)
{
    static const uint64_t at[][2] = {{0, 1}, {1, 3}, {5, 64}, {333, 1000}, {4095, 1}};
    uint8_t model[4096], back[4096], piece[1024];
    uint64_t point = 0;
    yk_buffer *b = NULL;
    if (!cts_begin(c, "parts") || !cts_ok(c, cts_buffer_new(c, sizeof model, &b), "buffer_new"))
        return;
    cts_pattern_fill(model, sizeof model, 3);
    if (put_get(c, b, 0, model, back, sizeof model))
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            cts_pattern_fill(piece, at[i][1], 50 + (uint32_t)i);
            memcpy(model + at[i][0], piece, at[i][1]);
            if (!put_get(c, b, at[i][0], piece, back, at[i][1]) || !cts_bytes_same(c, back, piece, at[i][1], "a part"))
                break;
        }
    if (!c->failed_now && cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, sizeof back, &point), "queue_copy") &&
        cts_wait(c, c->dev->queue, point))
        cts_bytes_same(c, back, model, sizeof model, "the whole after its parts");
    c->t->buffer_free(b);
    cts_pass(c);
}

/* Host memory at any address, next to buffers' bytes at any offset: no copy may round to words. */
static void test_odd(cts *c)
{
    static const uint64_t begin[] = {1, 2, 3, 5, 7}, lengths[] = {1, 2, 61, 1003, 70001};
    const size_t most = 70016;
    uint8_t *data = yk__malloc(most), *back = yk__malloc(most), *want = yk__malloc(most);
    yk_buffer *b = NULL;
    if (data && back && want && cts_begin(c, "odd_host") && cts_ok(c, cts_buffer_new(c, most, &b), "buffer_new")) {
        cts_pattern_fill(data, most, 60);
        for (uint32_t i = 0; i < 5 * 5 * 5 && !c->failed_now; i++) {
            const uint64_t from = begin[i % 5], at = begin[i / 5 % 5], to = begin[4 - i % 5], n = lengths[i / 25];
            memset(back, 0xcd, most);
            memset(want, 0xcd, most);
            memcpy(want + to, data + from, n);
            if (put_get(c, b, at, data + from, back + to, n))
                cts_bytes_same(c, back, want, most, "from one odd address to another, and beside it");
        }
        c->t->buffer_free(b);
        cts_pass(c);
    }
    yk__free(data);
    yk__free(back);
    yk__free(want);
}

static bool too_large_for(const cts *c, uint64_t bytes)
{
    return c->dev->caps.max_alloc && c->dev->caps.max_alloc < bytes;
}

/* From one buffer to another, odd in all ways, and more than 24 bits count. */
static void device_to_device(cts *c)
{
    const uint64_t bytes = (16u << 20) + 11, from = 3, to = 5;
    uint8_t *src = yk__malloc(bytes), *dst = yk__calloc(bytes, 1);
    yk_buffer *a = NULL, *b = NULL;
    uint64_t point = 0;
    if (src && dst && cts_begin(c, "device_copy.%llu", (unsigned long long)bytes)) {
        if (too_large_for(c, bytes + 8)) {
            cts_unsupported(c, "larger than a buffer of this device");
        } else if (cts_ok(c, cts_buffer_new(c, bytes + 8, &a), "buffer_new") && cts_ok(c, cts_buffer_new(c, bytes + 8, &b), "buffer_new")) {
            yk_copy copy = {.size = sizeof copy, .src = a, .dst = b, .src_offset = from, .dst_offset = to, .bytes = bytes};
            cts_pattern_fill(src, bytes, 70);
            if (cts_ok(c, yk_put(c->t, c->dev->queue, a, from, src, bytes, &point), "queue_copy") &&
                cts_ok(c, c->t->queue_copy(c->dev->queue, &copy, &point), "queue_copy") &&
                cts_ok(c, yk_get(c->t, c->dev->queue, b, to, dst, bytes, &point), "queue_copy") && cts_wait(c, c->dev->queue, point))
                cts_bytes_same(c, dst, src, bytes, "what came over another buffer");
            cts_pass(c);
        }
        if (b)
            c->t->buffer_free(b);
        if (a)
            c->t->buffer_free(a);
    }
    yk__free(src);
    yk__free(dst);
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
        cts_pattern_fill(data, sizeof data, 9);
        if (put_get(c, b, 0, data, back, sizeof data) && cts_bytes_same(c, host, data, sizeof data, "the mapped memory after put")) {
            uint64_t point = 0;
            cts_pattern_fill(host, sizeof data, 10);
            cts_pattern_fill(data, sizeof data, 10);
            if (cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, sizeof back, &point), "queue_copy") &&
                cts_wait(c, c->dev->queue, point))
                cts_bytes_same(c, back, data, sizeof data, "what get reads after the host wrote");
        }
        cts_pass(c);
    }
    c->t->buffer_free(b);
}

static void test_wrap(cts *c)
{
    const size_t bytes = 3 * 4096;
    uint8_t *host = yk__malloc_aligned(bytes, 4096), *data = yk__malloc(bytes), *back = yk__malloc(bytes);
    yk_buffer *b = NULL;
    yk_status s;
    if (host && data && back && cts_begin(c, "wrap")) {
        cts_pattern_fill(data, bytes, 20);
        memcpy(host, data, bytes);
        s = c->t->buffer_wrap(c->dev->handle, host, bytes, &b);
        if (!(c->dev->caps.flags & YK_CAP_WRAP)) {
            if (s == YK_OK)
                c->t->buffer_free(b);
            cts_unsupported(c, "it does not wrap host memory");
        } else if (cts_ok(c, s, "buffer_wrap")) {
            uint64_t point = 0;
            if (cts_ok(c, yk_get(c->t, c->dev->queue, b, 0, back, bytes, &point), "queue_copy") &&
                cts_wait(c, c->dev->queue, point) && cts_bytes_same(c, back, data, bytes, "what the device sees of wrapped memory")) {
                cts_pattern_fill(data, bytes, 21);
                if (put_get(c, b, 0, data, back, bytes))
                    cts_bytes_same(c, host, data, bytes, "wrapped memory after put");
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
    yk__plugin_message();
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

/* Copies from and to registered host memory, and from memory of the same size that is not. */
static void test_pin(cts *c)
{
    const size_t bytes = 3 * 4096;
    uint8_t *pinned = yk__malloc_aligned(bytes, 4096), *plain = yk__calloc(bytes, 1);
    yk_buffer *b = NULL;
    yk_pin *pin = NULL;
    if (pinned && plain && cts_begin(c, "pin")) {
        yk_status s = c->t->host_pin(c->dev->handle, pinned, bytes, &pin);
        if (!(c->dev->caps.flags & YK_CAP_PINS)) {
            if (s == YK_OK)
                cts_fail(c, "host_pin works without YK_CAP_PINS");
            cts_unsupported(c, "no YK_CAP_PINS");
        } else if (cts_ok(c, s, "host_pin") && cts_ok(c, cts_buffer_new(c, bytes, &b), "buffer_new")) {
            cts_pattern_fill(pinned, bytes, 31);
            if (put_get(c, b, 0, pinned, plain, bytes) && cts_bytes_same(c, plain, pinned, bytes, "what pinned memory gave")) {
                cts_pattern_fill(plain, bytes, 32);
                if (put_get(c, b, 0, plain, pinned, bytes))
                    cts_bytes_same(c, pinned, plain, bytes, "what pinned memory got");
                cts_pattern_fill(pinned, bytes, 33);
                if (put_get(c, b, 0, pinned, plain, bytes))
                    cts_bytes_same(c, plain, pinned, bytes, "what pinned memory gave after the host wrote to it again");
            }
            c->t->host_unpin(pin);
            if (put_get(c, b, 0, pinned, plain, bytes))
                cts_bytes_same(c, plain, pinned, bytes, "memory that is no longer pinned");
            c->t->buffer_free(b);
            cts_pass(c);
        }
    }
    yk__free(pinned);
    yk__free(plain);
}

/* One that may be exported need not be made. */
static void buffer_described(cts *c, uint32_t use, uint32_t flags)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .use = use, .flags = flags, .bytes = 100};
    uint8_t out[100], in[100];
    char what[80];
    yk_buffer *b = NULL;
    const yk_status s = c->t->buffer_new(c->dev->handle, &desc, &b);
    if (s == YK_E_UNSUPPORTED && flags == YK_BUF_EXPORT) {
        yk__plugin_message();
        return;
    }
    snprintf(what, sizeof what, "buffer_new with use %#x and flags %#x", use, flags);
    if (!cts_ok(c, s, what))
        return;
    cts_pattern_fill(out, sizeof out, 40);
    if (put_get(c, b, 0, out, in, sizeof out))
        cts_bytes_same(c, in, out, sizeof out, "what came back");
    c->t->buffer_free(b);
}

/* For any use, for one kind of slot, for several, for all; and for one that a later minor may add. */
static void test_described(cts *c)
{
    static const uint32_t flags[] = {0, YK_BUF_HOST_WRITES, YK_BUF_HOST_READS, YK_BUF_EXPORT};
    const uint32_t all = (1u << YK_SLOT_KIND_COUNT) - 1, pairs = 1u << YK_SLOT_INPUT | 1u << YK_SLOT_PARAM;
    if (!cts_begin(c, "described"))
        return;
    for (uint32_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        for (uint32_t kind = 0; kind <= YK_SLOT_KIND_COUNT && !c->failed_now; kind++)
            buffer_described(c, 1u << kind, flags[i]);
        for (uint32_t k = 0; k < 3 && !c->failed_now; k++)
            buffer_described(c, k == 0 ? 0 : k == 1 ? pairs : all, flags[i]);
    }
    cts_pass(c);
}

void cts_group_buffer(cts *c)
{
    static const uint64_t sizes[] = {1, 2, 63, 64, 65, 4096, 1000003};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        round_trip(c, sizes[i]);
    if (!too_large_for(c, MOST))
        round_trip(c, MOST);
    test_parts(c);
    test_odd(c);
    device_to_device(c);
    test_map(c);
    test_wrap(c);
    test_many(c);
    too_large(c);
    test_pin(c);
    test_described(c);
}
