/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's queue, for all files of core/run: buffers and their account, transfers, points and waits. A point is a number that grows
 * with each command; the device passes it when the command is done.
 *
 * All calls are in the step thread. Puts, gets and runs return at once; reads, writes and waits return when they are done. An allocation
 * beyond the memory limit fails with an error that says the sizes in bytes.
 */
#include "core/run/queue.h"

#include "core/base/clock.h"
#include "core/base/log.h"

/* ---- Buffers ---- */

/* Bytes left below the limit; at least 1, as 0 is an unknown reserve. */
static uint64_t limit_reserve(const yk__queue *q)
{
    return q->limit > q->held ? q->limit - q->held : 1;
}

static yk_status check_limits(const yk__queue *q, uint64_t bytes, yk_error *err)
{
    const yk_device_caps *caps = &q->dev->caps;
    if (caps->max_alloc && bytes > caps->max_alloc)
        return yk__fail(err, YK_E_MEM, "%s: a buffer of %llu bytes was needed; the device's largest has %llu", caps->name,
                        (unsigned long long)bytes, (unsigned long long)caps->max_alloc);
    if (q->limit && q->held + bytes > q->limit)
        return yk__fail(err, YK_E_MEM,
                        "memory limit: %llu bytes are needed on %s, the limit is %llu", (unsigned long long)(q->held + bytes), caps->name,
                        (unsigned long long)q->limit);
    return YK_OK;
}

void yk__queue_count(yk__queue *q, uint64_t bytes, yk__account account)
{
    q->held += bytes;
    q->bytes[account] += bytes;
    if (q->held > q->peak)
        q->peak = q->held;
}

/* Reports the first error: an earlier command in the queue may have failed, perhaps of the same lack of memory, and shows late. */
static yk_status tell_first(const yk__queue *q, yk_error *err)
{
    yk_error first = YK_ERROR_INIT;
    if (q->last_point > q->waited && yk__device_wait(q->dev, q->last_point, q->cancel, &first) && first.status != YK_E_CANCELLED)
        *err = first;
    return err->status;
}

/* Remedies of these parts, behind a message that says the lack. */
yk_status yk__queue_advise_lack(const yk__queue *q, const yk__lack *lack, yk_error *err)
{
    char text[640];
    const yk_error said = *err;
    yk__remedies_write(&q->open, lack, text, sizeof text);
    if (said.status == YK_E_MEM && *text)
        yk__fail(err, YK_E_MEM, "%s; remedies: %s", said.text, text);
    return err->status;
}

static const uint32_t part_of[YK__ACCOUNTS] = {YK__OF_PARAMS, YK__OF_GRADS, YK__OF_STATE, YK__OF_ACTIVATIONS, YK__OF_ACTIVATIONS,
                                               YK__OF_ACTIVATIONS};

/* A part makes room if it has as many bytes as lack. If no part has, or the lack is unknown, parts of a quarter of all bytes count.
 * reserve: bytes left below the limit; 0 if the device refuses. */
yk_status yk__queue_advise(const yk__queue *q, yk__account account, uint64_t bytes, uint64_t reserve, yk_error *err)
{
    const uint64_t lacks = reserve && bytes > reserve ? bytes - reserve : 0;
    uint64_t held[YK__OF_STATE + 1] = {0}, all = bytes;
    yk__lack lack = {.limited = q->limit && reserve}, large = lack;
    held[part_of[account]] = bytes;
    for (int i = 0; i < YK__ACCOUNTS; i++)
        held[part_of[i]] += q->bytes[i], all += q->bytes[i];
    for (uint32_t part = 1; part <= YK__OF_STATE; part *= 2) {
        lack.parts |= lacks && held[part] >= lacks ? part : 0;
        large.parts |= held[part] * 4 >= all ? part : 0;
    }
    if (lacks && held[YK__OF_ACTIVATIONS] > lacks)
        for (lack.times = 2; held[YK__OF_ACTIVATIONS] / lack.times > held[YK__OF_ACTIVATIONS] - lacks; lack.times *= 2)
            ;
    return yk__queue_advise_lack(q, lack.parts ? &lack : &large, err);
}

/* Remedies behind the message of check_limits. No other part makes room for a buffer above the device's largest. */
static yk_status limits_advise(const yk__queue *q, yk__account account, uint64_t bytes, yk_error *err)
{
    const uint64_t most = q->dev->caps.max_alloc;
    return most && bytes > most ? yk__queue_advise_lack(q, &(yk__lack){.parts = part_of[account]}, err)
                                : yk__queue_advise(q, account, bytes, limit_reserve(q), err);
}

uint64_t yk__queue_most(const yk__queue *q)
{
    return q->limit ? q->limit : q->budget;
}

yk_status yk__queue_buffer(yk__queue *q, uint64_t bytes, yk_buffer **b, yk__account account, yk_error *err)
{
    if (check_limits(q, bytes, err))
        return limits_advise(q, account, bytes, err);
    if (yk__device_buffer(q->dev, bytes, b, err)) {
        yk__queue_advise(q, account, bytes, 0, err);
        return tell_first(q, err);
    }
    yk__queue_count(q, bytes, account);
    return YK_OK;
}

bool yk__queue_wraps(const yk__queue *q)
{
    const uint32_t must = YK_CAP_WRAP | YK_CAP_HOST_VISIBLE | YK_CAP_CPU;
    return (q->dev->caps.flags & must) == must;
}

yk_status yk__queue_wrap(yk__queue *q, void *host, uint64_t bytes, yk_buffer **b, yk__account account, yk_error *err)
{
    yk_status st;
    if (check_limits(q, bytes, err))
        return limits_advise(q, account, bytes, err);
    yk__plugin_message();
    *b = NULL;
    st = q->dev->table->buffer_wrap(q->dev->handle, host, bytes, b);
    st = yk__plugin_made(st, *b);
    if (st) {
        yk__plugin_fail(err, q->dev->plugin, st, "a buffer over host memory");
        return tell_first(q, err);
    }
    yk__queue_count(q, bytes, account);
    return YK_OK;
}

bool yk__queue_wrap_shared(yk__queue *q, float *shared, uint64_t bytes, yk_buffer **b)
{
    *b = NULL;
    return (q->dev->caps.flags & YK_CAP_WRAP) && !q->dev->table->buffer_wrap(q->dev->handle, shared, bytes, b) && *b;
}

void yk__queue_unbuffer(yk__queue *q, yk_buffer **b, uint64_t bytes, yk__account account)
{
    if (!*b)
        return;
    q->dev->table->buffer_free(*b);
    *b = NULL;
    q->held -= bytes;
    q->bytes[account] -= bytes;
}

void yk__queue_unwrap_shared(yk__queue *q, yk_buffer **b)
{
    if (*b)
        q->dev->table->buffer_free(*b);
    *b = NULL;
}

yk_status yk__queue_reserve(yk__queue *q, yk_buffer **b, uint64_t *have, uint64_t bytes, yk__account account, yk_error *err)
{
    if (bytes <= *have)
        return YK_OK;
    if (*b && yk__queue_idle(q, err))
        return err->status;
    yk__queue_unbuffer(q, b, *have, account);
    *have = 0;
    if (yk__queue_buffer(q, bytes, b, account, err))
        return err->status;
    *have = bytes;
    return YK_OK;
}

/* ---- Registered host memory ---- */

void yk__queue_pin(yk__queue *q, void *memory, uint64_t bytes, yk_pin **pin)
{
    *pin = NULL;
    if (!memory || !bytes || q->dev->plans_only || !(q->dev->caps.flags & YK_CAP_PINS))
        return;
    yk__plugin_message();
    if (!q->dev->table->host_pin(q->dev->handle, memory, bytes, pin))
        return;
    *pin = NULL;
    yk__log(YK_LOG_INFO, "run", "%s: %llu bytes of host memory could not be registered: copies of them hold up the host", q->dev->caps.name,
            (unsigned long long)bytes);
}

void yk__queue_unpin(yk__queue *q, yk_pin **pin)
{
    if (*pin)
        q->dev->table->host_unpin(*pin);
    *pin = NULL;
}

/* ---- Transfers ---- */

yk_status yk__queue_put(yk__queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err)
{
    const int64_t begun = yk__clock_ns();
    if (yk__device_put(q->dev, b, offset, src, bytes, &q->last_point, err))
        return err->status;
    yk__tracer_submitted(q->tracer, YK__LANE_COPY, "to device", bytes, begun, q->last_point);
    return YK_OK;
}

yk_status yk__queue_get(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err)
{
    const int64_t begun = yk__clock_ns();
    if (yk__device_get(q->dev, b, offset, dst, bytes, &q->last_point, err))
        return err->status;
    yk__tracer_submitted(q->tracer, YK__LANE_COPY, "from device", bytes, begun, q->last_point);
    return YK_OK;
}

yk_wait yk__queue_behind(const yk__queue *q, uint64_t point)
{
    return (yk_wait){q->dev->queue, point ? point : q->last_point};
}

yk_status yk__queue_get_overlapped(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, uint64_t point, yk_error *err)
{
    const yk_wait wait = yk__queue_behind(q, point);
    const yk_copy copy = {.size = sizeof copy, .n_wait = 1, .wait = &wait, .src = b, .src_offset = offset, .dst_host = dst, .bytes = bytes};
    const int64_t begun = yk__clock_ns();
    yk_queue *side = NULL;
    if (yk__device_side(q->dev, &side, err))
        return err->status;
    if (!side)
        return yk__queue_get(q, b, offset, dst, bytes, err);
    yk__plugin_message();
    const yk_status s = q->dev->table->queue_copy(side, &copy, &q->side_point);
    if (s)
        return yk__plugin_fail(err, q->dev->plugin, s, "copying from the device");
    yk__tracer_submitted_to(q->tracer, side, YK__LANE_COPY, "from device", bytes, begun, q->side_point);
    return YK_OK;
}

yk_status yk__queue_idle_overlapped(yk__queue *q, yk_error *err)
{
    if (!q->dev->side)
        return yk__queue_idle(q, err);
    if (q->side_point && !yk__device_wait_side(q->dev, q->side_point, q->cancel, err))
        q->side_point = 0;
    return err->status;
}

yk_status yk__queue_write(yk__queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err)
{
    if (!bytes || yk__queue_put(q, b, offset, src, bytes, err))
        return err->status;
    return yk__queue_finish(q, err);
}

yk_status yk__queue_read(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err)
{
    if (!bytes || yk__queue_get(q, b, offset, dst, bytes, err))
        return err->status;
    return yk__queue_finish(q, err);
}

/* ---- Waits ---- */

yk_status yk__queue_wait(yk__queue *q, uint64_t point, yk_error *err)
{
    if (point <= q->waited)
        return YK_OK;
    if (yk__device_wait(q->dev, point, q->cancel, err))
        return err->status;
    q->waited = point;
    if (q->timed_point && point >= q->timed_point) {
        q->busy_seconds = yk__clock_seconds() - q->started - q->exchanging;
        q->timed_point = 0;
    }
    return YK_OK;
}

yk_status yk__queue_idle(yk__queue *q, yk_error *err)
{
    return yk__queue_wait(q, q->last_point, err);
}

static void island_abort(const yk__queue *q)
{
    if (q->abort)
        q->abort(q->island);
}

void yk__queue_stop(yk__queue *q)
{
    island_abort(q);
    yk__device_settle(q->dev);
}

yk_status yk__queue_finish(yk__queue *q, yk_error *err)
{
    yk_error ignored = YK_ERROR_INIT;
    if (yk__queue_idle(q, err) == YK_E_CANCELLED) {
        yk__queue_stop(q);
        if (!q->dev->stopped) /* by a plugin that cannot abort: its commands end by themselves */
            yk__device_wait(q->dev, q->last_point, NULL, &ignored);
    }
    return err->status;
}

void yk__queue_drain(yk__queue *q)
{
    yk_error ignored = YK_ERROR_INIT;
    if (q->last_point > q->waited && yk__device_wait(q->dev, q->last_point, q->cancel, &ignored) == YK_E_CANCELLED) {
        island_abort(q);
        yk__device_drain(q->dev, q->last_point);
    }
    if (q->side_point && q->dev->side && yk__device_wait_side(q->dev, q->side_point, q->cancel, &ignored) == YK_E_CANCELLED) {
        island_abort(q);
        yk__device_wait_side(q->dev, q->side_point, NULL, &ignored);
    }
}
