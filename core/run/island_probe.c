/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of an island, cards of one host that exchange by NCCL. It runs a sum of each form and a broadcast, once, before parameters or
 * gradients depend on them, unless YOKE_PROBE=off. Its operands are whole numbers, whose sums have one value in any order. The requests use
 * the same queues as a step's, in place.
 *
 * param_layout.c (core/run/values) calls it on all ranks of a new island, in the step thread. A wrong result is an error that names the
 * ranks and numbers.
 */
#include <stdio.h>
#include <yoke/extension.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/run/islands.h"

#define PART 1021u /* elements of each member; a prime, so that positions and parts do not look alike */

typedef struct probe {
    yk__island *island;
    yk_buffer *buffer;
    float *data;
    uint64_t n; /* elements of either vector, one more than is spread evenly */
} probe;

/* Element i of the member at a place of the island. */
static float operand_of(uint32_t place, uint64_t i)
{
    return (float)((i * 7 + place * 331) % 1999 + place);
}

static float sum_of(const yk__island *island, uint64_t i)
{
    float sum = 0;
    for (uint32_t place = 0; place < island->size; place++)
        sum += operand_of(place, i);
    return sum;
}

/* The ranks of an island in words. */
static void list_ranks(const yk__island *island, char *text, size_t size)
{
    size_t used = 0;
    for (uint32_t i = 0; i < island->size && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%u", i ? ", " : "", island->rank[i]);
}

static yk_status report_wrong(const probe *p, const char *what, uint64_t i, float want, yk_error *err)
{
    const yk__device *dev = p->island->queue->dev;
    char ranks[200], name[sizeof dev->place];
    yk__placement_text(&dev->place, name, sizeof name);
    list_ranks(p->island, ranks, sizeof ranks);
    return yk__fail(err, YK_E_DEVICE_LOST,
                    "%s (%s): %s among the devices of ranks %s (%s) computes wrongly: in the start-up probe element %llu at rank %u is "
                    "%.9g, expected %.9g; YOKE_PROBE=off uses it all the same",
                    name, dev->caps.name, what, ranks, YK_EXT_COLL, (unsigned long long)i,
                    p->island->exchange->rank, (double)p->data[i], (double)want);
}

static yk_status write_operands(const probe *p, yk_error *err)
{
    for (uint64_t i = 0; i < p->n; i++)
        p->data[i] = operand_of(p->island->own, i);
    return yk__queue_write(p->island->queue, p->buffer, 0, p->data, p->n * sizeof(float), err);
}

/* Tries a sum over n elements: each member gets its part if n divides evenly among them, else all elements. */
static yk_status try_sum(const probe *p, uint64_t n, const char *what, yk_error *err)
{
    yk__queue *q = p->island->queue;
    uint64_t from, to;
    if (write_operands(p, err) || yk__island_reduce(p->island, p->buffer, n, 0, q->last_point, &from, &to, err) ||
        yk__queue_idle_overlapped(q, err) || yk__queue_read(q, p->buffer, 0, p->data, p->n * sizeof(float), err))
        return err->status;
    for (uint64_t i = from; i < to; i++)
        if (p->data[i] != sum_of(p->island, i))
            return report_wrong(p, what, i, sum_of(p->island, i), err);
    return YK_OK;
}

/* Broadcasts from the last member, as a plugin with a wrong root most likely takes the first. */
static yk_status try_broadcast(const probe *p, yk_error *err)
{
    const uint64_t at = 3, count = p->n - 2 * at;
    const uint32_t root = p->island->size - 1;
    yk__queue *q = p->island->queue;
    if (write_operands(p, err) || yk__island_broadcast(p->island, (yk__bound){p->buffer, at * sizeof(float)}, count, root, 0, err) ||
        yk__queue_read(q, p->buffer, 0, p->data, p->n * sizeof(float), err))
        return err->status;
    for (uint64_t i = 0; i < p->n; i++) {
        const float want = operand_of(i >= at && i < at + count ? root : p->island->own, i);
        if (p->data[i] != want)
            return report_wrong(p, "a broadcast", i, want, err);
    }
    return YK_OK;
}

yk_status yk__island_probe(yk__island *island, yk_error *err)
{
    const int64_t begun = yk__clock_ns();
    probe p = {.island = island, .n = (uint64_t)PART * island->size + 1};
    if (!island->comm || yk__option_words(YK__OPTION_PROBE) != 0)
        return YK_OK;
    p.data = yk__malloc(p.n * sizeof *p.data);
    if (!p.data)
        return yk__fail_mem(err, p.n * sizeof *p.data, "the start-up probe of an island");
    if (!yk__device_buffer(island->queue->dev, p.n * sizeof(float), &p.buffer, err) &&
        !try_sum(&p, p.n - 1, "a sum by parts", err) && !try_sum(&p, p.n, "a sum", err))
        try_broadcast(&p, err);
    if (p.buffer && (!err->status || err->status == YK_E_DEVICE_LOST)) /* else the device may still write to the buffer */
        island->queue->dev->table->buffer_free(p.buffer);
    yk__free(p.data);
    if (!err->status)
        yk__log(YK_LOG_DEBUG, "run", "two sums and a broadcast of the island took %.2f ms", (double)(yk__clock_ns() - begun) * 1e-6);
    return err->status;
}
