/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of homes. A home is the memory of a bucket's values, such as a buffer of the device, the block that ranks share, or lanes. A
 * bucket gets the first row that fits and can be made. Also the ways to the values: for programs, for transfers, and for the host.
 *
 * params.c and roles.c (core/run) choose homes, and the other files of core/run ask here instead of touching a buffer, in the step thread.
 * The bucket owns its home's memory.
 */
#include "core/run/values/home.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/run/values/params.h"

#define HOST_PAGE 4096u /* bytes: a device registers memory by pages */

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
    return b->trained && !p->far && !yk__exchange_updates_all(p->exchange) && yk__queue_wraps(p->queue);
}

static bool host_fits(const yk__params *p, const yk__bucket *b)
{
    return block_fits(p, b) && p->exchange->laid_for == YK__MEMORY;
}

static bool make_in_block(yk__params *p, yk__bucket *b, yk_error *err)
{
    (void)err;
    return yk__queue_wrap_shared(p->queue, yk__params_host(p, b, 0), yk__bucket_bytes(b), &b->values);
}

/* A device with memory of its own keeps this rank's slice. Small buckets stay whole. */
static bool slice_fits(const yk__params *p, const yk__bucket *b)
{
    return b->trained && p->slices && !yk__queue_wraps(p->queue) && b->layout.n > p->keep_whole && yk__bucket_in_blocks(p, b);
}

/* The block has this rank's slice, too, if the host updates. */
static bool pulled_block_fits(const yk__params *p, const yk__bucket *b)
{
    return slice_fits(p, b) && yk__bucket_offloads(p, b);
}

/* With all parameters on the host, a frozen bucket lies in this rank's memory there. Nothing exchanges or updates it. */
static bool frozen_fits(const yk__params *p, const yk__bucket *b)
{
    return !b->trained && p->all_on_host && !yk__queue_wraps(p->queue) && b->layout.n > p->keep_whole;
}

static bool make_frozen(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t bytes = yk__bucket_bytes(b);
    if (p->queue->dev->plans_only) /* it only counts them */
        return true;
    b->own = yk__malloc_aligned(bytes, HOST_PAGE);
    if (!b->own)
        return yk__fail_mem(err, bytes, "frozen parameters on the host"), false;
    memset(b->own, 0, bytes);
    yk__queue_pin(p->queue, b->own, bytes, &b->own_pin);
    return true;
}

static void drop_frozen(yk__params *p, yk__bucket *b)
{
    yk__queue_unpin(p->queue, &b->own_pin);
    yk__free(b->own);
    b->own = NULL;
}

static bool make_slice(yk__params *p, yk__bucket *b, yk_error *err)
{
    return !yk__bucket_own_bytes(b) || !yk__queue_buffer(p->queue, yk__bucket_own_bytes(b), &b->values, YK__PARAM_BYTES, err);
}

static void drop_slice(yk__params *p, yk__bucket *b)
{
    yk__queue_unbuffer(p->queue, &b->values, yk__bucket_own_bytes(b), YK__PARAM_BYTES);
}

/* range: within the slice, or all for a program that addresses elements from the slice's begin. */
static yk__bound bind_slice(const yk__bucket *b, yk__range range, uint64_t point)
{
    (void)point;
    return (yk__bound){b->values, range.from > b->begin ? (range.from - b->begin) * yk_dtype_bytes(b->layout.dtype) : 0};
}

/* Other ranks pull the slice from this rank's memory. A processor computes in that memory; another device has the slice, too. */
static bool far_fits(const yk__params *p, const yk__bucket *b)
{
    return b->trained && p->far && yk__queue_wraps(p->queue);
}

static bool make_far(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t bytes = yk__bucket_own_bytes(b);
    return !yk__far_make(p, b, err) && (!b->own || !yk__queue_wrap(p->queue, b->own, bytes, &b->values, YK__PARAM_BYTES, err));
}

static void drop_far(yk__params *p, yk__bucket *b)
{
    drop_slice(p, b);
    yk__queue_unpin(p->queue, &b->own_pin);
    yk__far_drop(p, b);
}

static bool far_fits_copy(const yk__params *p, const yk__bucket *b)
{
    return b->trained && p->far;
}

static bool make_far_copy(yk__params *p, yk__bucket *b, yk_error *err)
{
    if (yk__far_make(p, b, err) || !b->own)
        return !err->status;
    yk__queue_pin(p->queue, b->own, yk__bucket_own_bytes(b), &b->own_pin);
    return make_slice(p, b, err);
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
    {YK__HOME_HOST, "once per host", true, false, host_fits, make_in_block, yk__home_unwrap, yk__home_bind_whole},
    {YK__HOME_MEMORY, "host memory", true, false, block_fits, make_in_block, yk__home_unwrap, yk__home_bind_whole},
    {YK__HOME_SLICE, "far slice", true, true, far_fits, make_far, drop_far, bind_slice},
    {YK__HOME_SLICE, "far slice and its copy", false, true, far_fits_copy, make_far_copy, drop_far, bind_slice},
    {YK__HOME_BLOCK, "pulled from the host", true, true, pulled_block_fits, NULL, NULL, NULL},
    {YK__HOME_BLOCK, "frozen, pulled from the host", true, true, frozen_fits, make_frozen, drop_frozen, NULL},
    {YK__HOME_SLICE, "slice", false, true, slice_fits, make_slice, drop_slice, bind_slice},
    {YK__HOME_DEVICE, "device", false, false, device_fits, make_on_device, drop_on_device, yk__home_bind_whole},
};

static bool move_in(yk__params *p, yk__bucket *b, const yk__home *home, yk_error *err)
{
    if (!home->fits(p, b) || (home->make && !home->make(p, b, err)))
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

const yk__home *yk__home_expect(const yk__params *p, const yk__bucket *b)
{
    const yk__home *home = homes;
    if (p->first_home && p->first_home->fits(p, b))
        return p->first_home;
    while (!home->fits(p, b))
        home++;
    return home;
}

uint64_t yk__home_frozen_bytes(const yk__params *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = p->n_bucket; i < p->n_all_bucket; i++)
        bytes += p->bucket[i].home && p->bucket[i].home->kind == YK__HOME_BLOCK ? yk__bucket_bytes(&p->bucket[i]) : 0;
    return bytes;
}

void yk__home_leave(yk__params *p, yk__bucket *b)
{
    if (b->home && b->home->drop)
        b->home->drop(p, b);
    b->home = NULL;
}

/* ---- Ways to the values ---- */

float *yk__params_host(const yk__params *p, const yk__bucket *b, uint64_t at)
{
    if (!b->trained)
        return b->own ? b->own + at : NULL;
    if (p->far)
        return b->own && at >= b->begin && at < b->end ? b->own + (at - b->begin) : NULL;
    return yk__bucket_in_blocks(p, b) ? yk__exchange_values(p->exchange, b->shared_at + at) : NULL;
}

yk__range yk__params_held(const yk__bucket *b)
{
    if (b->home->kind == YK__HOME_BLOCK)
        return (yk__range){0, 0};
    return b->home->kind == YK__HOME_SLICE ? (yk__range){b->begin, b->end} : (yk__range){0, b->layout.n};
}

yk__range yk__params_updated(const yk__params *p, const yk__bucket *b)
{
    return yk__bucket_offloads(p, b) ? (yk__range){0, b->layout.n} : yk__params_held(b);
}

/* Copies what only the block for exchanges has, or pulls it: slices of other ranks, which they have published. */
static yk_status get_from_owners(const yk__params *p, const yk__bucket *b, yk__range range, void *dst, yk_error *err)
{
    const float *from = p->far ? NULL : yk__params_host(p, b, range.from);
    if (p->far)
        return yk__far_read(p, b, range, dst, err);
    if (from && range.from < range.to)
        memcpy(dst, from, (range.to - range.from) * sizeof *from);
    return YK_OK;
}

yk_status yk__params_get(const yk__params *p, const yk__bucket *b, yk__range range, void *dst, yk_error *err)
{
    const uint64_t each = yk_dtype_bytes(b->layout.dtype);
    const yk__range held = yk__params_held(b), own = yk__range_meet(range.from, range.to - range.from, held.from, held.to);
    const yk__bound from = yk__params_bind(b, own, p->queue->last_point);
    if (own.from == own.to)
        return get_from_owners(p, b, range, dst, err);
    if (get_from_owners(p, b, (yk__range){range.from, own.from}, dst, err) ||
        get_from_owners(p, b, (yk__range){own.to, range.to}, (char *)dst + (own.to - range.from) * each, err))
        return err->status;
    return yk__queue_get(p->queue, from.buffer, from.offset, (char *)dst + (own.from - range.from) * each, (own.to - own.from) * each, err);
}

yk_status yk__params_put(const yk__params *p, const yk__bucket *b, yk__range range, const void *src, yk_error *err)
{
    const uint64_t each = yk_dtype_bytes(b->layout.dtype);
    const yk__range held = yk__params_held(b), own = yk__range_meet(range.from, range.to - range.from, held.from, held.to);
    const yk__bound to = yk__params_bind(b, own, p->queue->last_point);
    if (!b->trained && b->own) /* no other call writes there; no pull reads it now */
        memcpy(b->own + range.from, src, (range.to - range.from) * each);
    if (own.from == own.to)
        return YK_OK;
    return yk__queue_put(p->queue, to.buffer, to.offset, (const char *)src + (own.from - range.from) * each, (own.to - own.from) * each,
                         err);
}
