/* SPDX-License-Identifier: Apache-2.0 */
/* The engine as an object: making it, buffers and their account, waiting, reports. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/run/internal.h"

double yk__seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static yk_status check_precision(const yk__engine *e, yk_error *err)
{
    const uint32_t mask = 1u << e->config.precision;
    const yk_device_caps *c = &e->dev->caps;
    char have[64] = "";
    if (e->config.precision >= YK_DTYPE_COUNT || !yk__dtype_is_float(e->config.precision) ||
        e->config.precision == YK_F64)
        return yk__fail(err, YK_E_ARG, "precision must be f32, bf16 or f16");
    if ((c->store & mask) && (c->compute & mask))
        return YK_OK;
    for (uint32_t d = 0; d < YK_DTYPE_COUNT; d++)
        if (yk__dtype_is_float(d) && (c->store & c->compute & 1u << d) && strlen(have) + 12 < sizeof have)
            strcat(strcat(have, *have ? ", " : ""), yk__dtype_name(d));
    return yk__fail(err, YK_E_UNSUPPORTED, "%s cannot compute in %s; it has %s", c->name,
                    yk__dtype_name(e->config.precision), have);
}

yk_status yk__engine_new(yk__device *dev, yk__group *group, const yk__engine_config *c, yk__engine **out, yk_error *err)
{
    yk__engine *e = yk__calloc(1, sizeof *e);
    if (!e)
        return yk__fail_mem(err, sizeof *e, "an engine");
    e->dev = dev;
    e->group = group;
    e->config = *c;
    e->config.bucket_bytes = c->bucket_bytes ? c->bucket_bytes : yk__option_number(YK__OPTION_BUCKET_BYTES);
    e->rank = yk__group_rank(group);
    e->world = yk__group_size(group);
    e->talks = e->world > 1 && !dev->plans_only;
    e->version = e->runs = 1;
    e->divisor = 1.0;
    e->reduced = true;
    yk__roles_begin(e);
    if (check_precision(e, err)) {
        yk__free(e);
        return err->status;
    }
    *out = e;
    return YK_OK;
}

static void free_scratch(yk__engine *e)
{
    yk__engine_unbuffer(e, &e->arena, e->arena_bytes, &e->stats.arena_bytes);
    yk__engine_unbuffer(e, &e->input, e->input_bytes, &e->stats.input_bytes);
    yk__engine_unbuffer(e, &e->result, e->result_bytes, &e->stats.input_bytes);
    for (uint32_t i = 0; i <= YK__STAGES; i++)
        yk__stage_free(e, &e->stage[i]);
    yk__free(e->reduction.copy);
}

/* Of a job that was aborted too: what was queued still reads and writes the buffers that are about to go. */
static void drain_device(const yk__engine *e)
{
    yk_error ignored = YK_ERROR_INIT;
    if (e->last_point > e->waited)
        yk__device_wait(e->dev, e->last_point, NULL, &ignored);
}

void yk__engine_free(yk__engine *e)
{
    if (!e)
        return;
    drain_device(e);
    yk__optim_drop(e);
    yk__cache_clear(e);
    yk__store_free(e);
    free_scratch(e);
    for (size_t i = 0; i < e->n_state; i++) {
        yk__engine_unbuffer(e, &e->state[i].buffer, e->state[i].n * yk_dtype_bytes(e->state[i].dtype),
                            &e->stats.state_bytes);
        yk__free(e->state[i].name);
    }
    for (size_t i = 0; i < e->n_param; i++) {
        yk__free(e->param[i].name);
        yk__free(e->param[i].pending);
    }
    yk__free(e->param);
    yk__free(e->state);
    yk__free(e->group_of);
    yk__free(e);
}

static yk_status check_limits(const yk__engine *e, uint64_t bytes, yk_error *err)
{
    if (e->dev->caps.max_alloc && bytes > e->dev->caps.max_alloc)
        return yk__fail(err, YK_E_MEM, "%s: a buffer of %llu bytes was needed; the device's largest has %llu",
                        e->dev->caps.name, (unsigned long long)bytes, (unsigned long long)e->dev->caps.max_alloc);
    if (e->config.memory_limit && e->held + bytes > e->config.memory_limit)
        return yk__fail(err, YK_E_MEM,
                        "memory limit: %llu bytes are needed on %s, the limit is %llu; raise it, or take a smaller batch",
                        (unsigned long long)(e->held + bytes), e->dev->caps.name,
                        (unsigned long long)e->config.memory_limit);
    return YK_OK;
}

void yk__engine_count(yk__engine *e, uint64_t bytes, uint64_t *account)
{
    e->held += bytes;
    *account += bytes;
    if (e->held > e->stats.peak_bytes)
        e->stats.peak_bytes = e->held;
}

yk_status yk__engine_buffer(yk__engine *e, uint64_t bytes, yk_buffer **b, uint64_t *account, yk_error *err)
{
    if (check_limits(e, bytes, err) || yk__device_buffer(e->dev, bytes, b, err))
        return err->status;
    yk__engine_count(e, bytes, account);
    return YK_OK;
}

bool yk__engine_wraps(const yk__engine *e)
{
    const uint32_t must = YK_CAP_WRAP | YK_CAP_HOST_VISIBLE | YK_CAP_CPU;
    return (e->dev->caps.flags & must) == must;
}

yk_status yk__engine_wrap(yk__engine *e, void *host, uint64_t bytes, yk_buffer **b, uint64_t *account, yk_error *err)
{
    yk_status st;
    if (check_limits(e, bytes, err))
        return err->status;
    yk__plugin_words();
    st = e->dev->table->buffer_wrap(e->dev->handle, host, bytes, b);
    if (st)
        return yk__plugin_fail(err, e->dev->plugin, st, "a buffer over host memory");
    yk__engine_count(e, bytes, account);
    return YK_OK;
}

void yk__engine_unbuffer(yk__engine *e, yk_buffer **b, uint64_t bytes, uint64_t *account)
{
    if (!*b)
        return;
    e->dev->table->buffer_free(*b);
    *b = NULL;
    e->held -= bytes;
    *account -= bytes;
}

yk_status yk__engine_reserve(yk__engine *e, yk_buffer **b, uint64_t *have, uint64_t bytes, uint64_t *account, yk_error *err)
{
    if (bytes <= *have)
        return YK_OK;
    if (*b && yk__engine_idle(e, err))
        return err->status;
    yk__engine_unbuffer(e, b, *have, account);
    *have = 0;
    if (yk__engine_buffer(e, bytes, b, account, err))
        return err->status;
    *have = bytes;
    return YK_OK;
}

yk_status yk__engine_put(yk__engine *e, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err)
{
    return yk__device_put(e->dev, b, offset, src, bytes, &e->last_point, err);
}

yk_status yk__engine_get(yk__engine *e, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err)
{
    return yk__device_get(e->dev, b, offset, dst, bytes, &e->last_point, err);
}

yk_status yk__engine_wait_point(yk__engine *e, uint64_t point, yk_error *err)
{
    if (point <= e->waited)
        return YK_OK;
    if (yk__device_wait(e->dev, point, yk__group_cancel(e->group), err))
        return err->status;
    e->waited = point;
    if (e->busy_point && point >= e->busy_point) {
        e->stats.busy_seconds = yk__seconds() - e->started - e->idle;
        e->busy_point = 0;
    }
    return YK_OK;
}

yk_status yk__engine_idle(yk__engine *e, yk_error *err)
{
    return yk__engine_wait_point(e, e->last_point, err);
}

yk_status yk__engine_wait(yk__engine *e, uint64_t ticket, yk_error *err)
{
    if (!ticket || ticket > e->ticket)
        return yk__engine_idle(e, err);
    if (e->ticket - ticket >= YK__TICKETS) /* points only grow, so that a later ticket's will do */
        ticket = e->ticket - YK__TICKETS + 1;
    return yk__engine_wait_point(e, e->ticket_point[ticket % YK__TICKETS], err);
}

void yk__engine_stats_get(const yk__engine *e, yk__engine_stats *s)
{
    *s = e->stats;
    s->trained_elements = e->flat;
}
