/* SPDX-License-Identifier: Apache-2.0 */
/* The table of homes, and the ways to a bucket's values: for programs, for transfers, and for the host. */
#include "core/run/values/home.h"

#include "core/run/values/params.h"

/* ---- Homes ---- */

yk__bound yk__home_bind_whole(const yk__bucket *b, yk__range range, uint64_t point)
{
    (void)point;
    return (yk__bound){b->values, range.from * yk_dtype_bytes(b->layout.dtype)};
}

void yk__home_unwrap(yk__params *p, yk__bucket *b)
{
    yk__queue_unwrap_shared(p->queue, &b->values);
}

/* A processor reads the values in the block for exchanges: it has no copy of its own, and fetches nothing after an update. */
static bool block_fits(const yk__params *p, const yk__bucket *b)
{
    return b->trained && !yk__exchange_updates_all(p->exchange) && yk__queue_wraps(p->queue);
}

static bool host_fits(const yk__params *p, const yk__bucket *b)
{
    return block_fits(p, b) && p->exchange->shares;
}

static bool make_in_block(yk__params *p, yk__bucket *b, yk_error *err)
{
    (void)err;
    return yk__queue_wrap_shared(p->queue, yk__params_host(p, b, 0), yk__bucket_bytes(b), &b->values);
}

static bool device_fits(const yk__params *p, const yk__bucket *b)
{
    return p && b;
}

static bool make_on_device(yk__params *p, yk__bucket *b, yk_error *err)
{
    return !yk__queue_buffer(p->queue, yk__bucket_bytes(b), &b->values, YK__PARAM_BYTES, err);
}

static void drop_on_device(yk__params *p, yk__bucket *b)
{
    yk__queue_unbuffer(p->queue, &b->values, yk__bucket_bytes(b), YK__PARAM_BYTES);
}

/* The last row fits always. */
static const yk__home homes[] = {
    {YK__HOME_HOST, "once per host", true, host_fits, make_in_block, yk__home_unwrap, yk__home_bind_whole},
    {YK__HOME_MEMORY, "host memory", true, block_fits, make_in_block, yk__home_unwrap, yk__home_bind_whole},
    {YK__HOME_DEVICE, "device", false, device_fits, make_on_device, drop_on_device, yk__home_bind_whole},
};

static bool move_in(yk__params *p, yk__bucket *b, const yk__home *home, yk_error *err)
{
    if (!home->fits(p, b) || !home->make(p, b, err))
        return false;
    b->home = home;
    return true;
}

yk_status yk__home_choose(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (p->first_home && move_in(p, b, p->first_home, err))
        return YK_OK;
    for (size_t i = 0; i < sizeof homes / sizeof *homes && !err->status; i++)
        if (move_in(p, b, &homes[i], err))
            return YK_OK;
    return err->status;
}

void yk__home_leave(yk__params *p, yk__bucket *b)
{
    if (b->home)
        b->home->drop(p, b);
    b->home = NULL;
}

/* ---- Ways to the values ---- */

float *yk__params_host(const yk__params *p, const yk__bucket *b, uint64_t at)
{
    return yk__exchange_values(p->exchange, b->shared_at + at);
}

yk_status yk__params_get(const yk__params *p, const yk__bucket *b, yk__range range, void *dst, yk_error *err)
{
    const yk__bound from = yk__params_bind(b, range, p->queue->last_point);
    const uint64_t bytes = (range.to - range.from) * yk_dtype_bytes(b->layout.dtype);
    return bytes ? yk__queue_get(p->queue, from.buffer, from.offset, dst, bytes, err) : YK_OK;
}

yk_status yk__params_put(const yk__params *p, const yk__bucket *b, yk__range range, const void *src, yk_error *err)
{
    const yk__bound to = yk__params_bind(b, range, p->queue->last_point);
    const uint64_t bytes = (range.to - range.from) * yk_dtype_bytes(b->layout.dtype);
    return bytes ? yk__queue_put(p->queue, to.buffer, to.offset, src, bytes, err) : YK_OK;
}
