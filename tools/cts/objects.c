/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers of yoke-cts's groups: buffers and queues in short form, waits with a limit, distinguishable bytes. A call of the plugin that
 * fails is reported as a failure of the test that runs. The groups call them in their child process.
 */
#include "tools/cts/cts_ops.h"

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

uint64_t cts_free_bytes(const cts *c)
{
    return c->dev->caps.mem_free ? c->dev->caps.mem_free : c->dev->caps.mem_total;
}

/* ---- Waiting ---- */

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
    yk__plugin_message();
}

/* ---- Bytes ---- */

void cts_pattern_fill(uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((i * 131 + seed * 17 + (i >> 8)) & 255);
}

bool cts_bytes_same(cts *c, const uint8_t *a, const uint8_t *b, size_t n, const char *what)
{
    if (!memcmp(a, b, n))
        return true;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i]) {
            cts_fail(c, "%s: byte %zu of %zu is %u, expected %u", what, i, n, a[i], b[i]);
            return false;
        }
    return true;
}
