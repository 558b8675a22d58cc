/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters and states: declaring them, buckets, and the buffers of a layout. param_layout.c makes the layout at its first need, and drops
 * it for a parameter that is added or frozen before the optimizer's state exists.
 *
 * Only core/run calls it, in the step thread: api.c (core/run) declares states and frees all, and param_layout.c declares parameters and
 * makes the layout. update.c (core/run) makes moments. roles.c (core/run) cuts buckets anew, and adds blocks after a change of members.
 */
#include "core/run/values/params.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/round.h"

#define BUCKETS 8u /* full buckets of trained parameters, before smaller ones at the end: all may be on their way at once */
#define TAPER 3u   /* near the end a bucket takes 1/TAPER of the elements that are left */
#define BUCKET_LEAST ((1u << 20) / sizeof(float))
#define GAP 64u     /* elements: parameters begin at multiples */
#define PAGE 16384u /* elements: buckets end at multiples, so that each begins on a page of the blocks for exchanges */
#define HOST_PAGE 1024u /* elements: replaces PAGE if the host updates for a rank that is alone */

/* ---- Declaring ---- */

yk_status yk__params_declare(yk__params *p, const char *name, uint64_t n, bool trained, uint32_t *number, yk_error *err)
{
    yk__param *q;
    if (yk__grow(&p->param, &p->cap_param, p->n_param + 1, sizeof *p->param))
        return yk__fail_mem(err, sizeof *p->param, name);
    q = &p->param[p->n_param];
    *q = (yk__param){.name = yk__strdup(name), .n = n, .trained = trained && !p->inference, .dtype = YK_F32};
    if (!q->name)
        return yk__fail_mem(err, strlen(name), name);
    *number = (uint32_t)p->n_param++;
    return YK_OK;
}

yk_status yk__params_declare_state(yk__params *p, const char *name, yk_dtype dtype, uint64_t n, uint32_t *number, yk_error *err)
{
    const uint64_t bytes = n * yk_dtype_bytes(dtype);
    yk__state s = {.dtype = dtype, .n = n};
    void *zero = yk__calloc(1, bytes);
    s.name = yk__strdup(name);
    if (!zero || !s.name || yk__grow(&p->state, &p->cap_state, p->n_state + 1, sizeof *p->state)) {
        yk__fail_mem(err, bytes, name);
    } else if (!yk__queue_buffer(p->queue, bytes, &s.buffer, YK__STATE_BYTES, err) &&
               !yk__queue_write(p->queue, s.buffer, 0, zero, bytes, err)) {
        p->state[p->n_state] = s;
        *number = (uint32_t)p->n_state++;
    }
    if (err->status) {
        yk__queue_unbuffer(p->queue, &s.buffer, bytes, YK__STATE_BYTES);
        yk__free(s.name);
    }
    yk__free(zero);
    return err->status;
}

void yk__params_free(yk__params *p)
{
    yk__parts_forget(p);
    for (size_t i = 0; i < p->n_state; i++) {
        yk__state *s = &p->state[i];
        yk__queue_unbuffer(p->queue, &s->buffer, s->n * yk_dtype_bytes(s->dtype), YK__STATE_BYTES);
        yk__free(s->name);
    }
    for (size_t i = 0; i < p->n_param; i++) {
        yk__free(p->param[i].name);
        yk__source_drop(&p->param[i].pending);
    }
    yk__free(p->param);
    yk__free(p->state);
}

/* ---- Layout ---- */

static yk_status new_bucket(yk__params *p, bool trained, size_t *cap, yk_error *err)
{
    if (yk__grow(&p->bucket, cap, p->n_all_bucket + 1ull, sizeof *p->bucket))
        return yk__fail_mem(err, sizeof *p->bucket, "the layout of the parameters");
    p->bucket[p->n_all_bucket++] =
        (yk__bucket){.trained = trained, .layout = {.dtype = YK_F32, .comm = trained ? YK__TO_MEMBERS : YK__TO_NOBODY}};
    return YK_OK;
}

/* The number of elements that fills a bucket, if `left` elements of `all` are in no bucket yet. Messages of one bucket overlap the
 * computation of other buckets. Only the last bucket's sum is never hidden, nor its way back, as the next forward reads it first. So
 * buckets become smaller towards the first parameters. Below 1 MiB the messages' own cost counts. In common memory nothing travels, but
 * slices are parts of buckets: with other buckets another device would update a parameter, and round it otherwise. A rank alone has
 * several buckets, too, if the host updates a part of them. */
static uint64_t full_bucket(const yk__params *p, bool trained, uint64_t all, uint64_t left)
{
    const uint64_t most = p->bucket_bytes / sizeof(float);
    uint64_t n = all / BUCKETS + 1;
    if (!trained || (p->exchange->world == 1 && p->host_part >= 1))
        return most;
    n = n < left / TAPER ? n : left / TAPER;
    n = n > BUCKET_LEAST ? n : BUCKET_LEAST;
    return n < most ? n : most;
}

/* Agrees on `gap` and `most`, once. Slices of a bucket go from rank to rank. So all ranks align parameters to the largest alignment that a
 * device needs, and limit buckets to the smallest of the devices' largest buffers. Excluded ranks count too, as they may come back. */
static yk_status agree_cuts(yk__params *p, yk_error *err)
{
    const yk_device_caps *caps = &p->queue->dev->caps;
    const uint32_t align = caps->align / (uint32_t)sizeof(float);
    const uint64_t pages = caps->max_alloc ? caps->max_alloc / (PAGE * sizeof(float)) : UINT32_MAX;
    const uint32_t most = pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
    uint32_t cut[2] = {align > GAP ? align : GAP, UINT32_MAX - most};
    if (p->gap || yk__exchange_largest(p->exchange, 2, cut, err))
        return err->status;
    p->gap = cut[0];
    p->most = (uint64_t)(UINT32_MAX - cut[1]) * PAGE;
    return YK_OK;
}

static yk_status check_size(const yk__params *p, const yk__param *q, yk_error *err)
{
    const yk_device_caps *caps = &p->queue->dev->caps;
    if (!caps->max_alloc || q->n <= caps->max_alloc / sizeof(float))
        return YK_OK;
    return yk__fail(err, YK_E_MEM,
                    "%s: parameter \"%s\" has %llu bytes; the device's largest buffer has %llu: train a smaller one, or without it",
                    caps->name, q->name, (unsigned long long)(q->n * sizeof(float)), (unsigned long long)caps->max_alloc);
}

static uint64_t count_elements(const yk__params *p, bool trained)
{
    uint64_t n = 0;
    for (size_t i = 0; i < p->n_param; i++)
        n += p->param[i].trained == trained ? p->param[i].n : 0;
    return n;
}

/* Assigns the parameters of one kind to buckets, the last parameter first. */
static yk_status fill_buckets(yk__params *p, bool trained, size_t *cap, yk_error *err)
{
    const uint64_t all = count_elements(p, trained);
    uint64_t left = all, most = 0;
    bool open = false;
    for (size_t i = p->n_param; i-- > 0;) {
        yk__param *q = &p->param[i];
        const uint64_t n = yk__round_up(q->n, p->gap);
        if (q->trained != trained)
            continue;
        if (check_size(p, q, err))
            return err->status;
        open = open && p->bucket[p->n_all_bucket - 1].layout.n + n <= p->most;
        most = open ? most : full_bucket(p, trained, all, left);
        if (!open && new_bucket(p, trained, cap, err))
            return err->status;
        q->bucket = p->n_all_bucket - 1;
        q->at = p->bucket[q->bucket].layout.n;
        p->bucket[q->bucket].layout.n += n;
        left -= q->n;
        open = p->bucket[q->bucket].layout.n < most;
    }
    return YK_OK;
}

/* The host updates the first buckets, as many as come nearest to its part, and at least one. Forward reads them last, which leaves the host
 * most time. The device keeps at least the last bucket if there are several. */
static void divide_buckets(yk__params *p)
{
    const double part = p->host_part * (double)p->n_trained;
    bool on_host = true;
    p->n_host = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        yk__bucket *b = &p->bucket[i];
        if (i && p->host_part < 1)
            on_host = on_host && i + 1 < p->n_bucket && (double)p->n_host + (double)b->layout.n / 2 <= part;
        b->updates = on_host ? p->updates : p->queue;
        p->n_host += on_host ? b->layout.n : 0;
    }
}

static yk_status list_buckets(yk__params *p, yk_error *err)
{
    size_t cap = 0;
    if (agree_cuts(p, err) || fill_buckets(p, true, &cap, err))
        return err->status;
    p->n_bucket = p->n_all_bucket;
    if (fill_buckets(p, false, &cap, err))
        return err->status;
    p->n_trained = 0;
    for (uint32_t i = 0; i < p->n_all_bucket; i++) {
        yk__bucket *b = &p->bucket[i];
        b->layout.n = yk__round_up(b->layout.n, p->exchange->world > 1 ? PAGE : yk__exchange_has_blocks(p->exchange) ? HOST_PAGE : 1);
        b->shared_at = p->n_trained;
        b->updates = p->queue;
        p->n_trained += b->trained ? b->layout.n : 0;
    }
    p->gathered = p->n_bucket;
    divide_buckets(p);
    return YK_OK;
}

/* Weighs each rank's part. Devices of one island whose parts would differ little get equal parts. Sums of equal parts move half as many
 * bytes, which gains more than parts fitted to each device's speed. */
static void weigh_ranks(const yk__params *p, double *weight)
{
    const yk__roles *roles = &p->exchange->roles;
    double sum = 0.0, mean;
    bool near = !p->parts_fixed && yk__island_holds_all(&p->island);
    for (uint32_t r = 0; r < p->exchange->world; r++)
        sum += roles->owns[r];
    mean = sum / yk__exchange_members(p->exchange);
    for (uint32_t r = 0; r < p->exchange->world; r++)
        near = near && (!roles->member[r] || fabs(roles->owns[r] - mean) <= mean / 3);
    for (uint32_t r = 0; r < p->exchange->world; r++)
        weight[r] = near ? roles->member[r] : roles->owns[r];
}

yk_status yk__params_cut(const yk__params *p, yk__bucket *b, yk_error *err)
{
    const size_t bytes = 3 * p->exchange->world * sizeof(double);
    double *weight = yk__malloc(bytes);
    if (!weight)
        return yk__fail_mem(err, bytes, "the ranks' parts");
    weigh_ranks(p, weight);
    yk__parts_fit(p, weight, weight + p->exchange->world);
    yk__slices_by(&b->layout.slice, b->layout.n, p->exchange->world, weight, err);
    yk__free(weight);
    if (err->status)
        return err->status;
    b->is_part = false; /* the old slice holds sums */
    b->begin = yk__exchange_updates_all(p->exchange) ? 0 : b->layout.slice.begin[p->exchange->rank];
    b->end = yk__exchange_updates_all(p->exchange) ? b->layout.n : b->layout.slice.begin[p->exchange->rank + 1];
    return YK_OK;
}

/* Makes a bucket's gradients. If it can, the device accumulates them in the block from which exchanges take them. */
static yk_status make_grad(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t bytes = yk__bucket_bytes(b);
    if (p->scatters)
        return yk__sums_make(p, b, err);
    if (yk__bucket_in_blocks(p, b)) {
        b->shared = yk__exchange_grads(p->exchange, b->shared_at);
        b->is_wrapped = yk__queue_wrap_shared(p->queue, b->shared, bytes, &b->grad);
    }
    return b->is_wrapped ? YK_OK : yk__queue_buffer(p->queue, bytes, &b->grad, YK__GRAD_BYTES, err);
}

/* Makes the host device's buffers over a trained bucket's part of the blocks for exchanges, if the host updates it. */
static yk_status show_host(yk__params *p, yk__bucket *b, yk_error *err)
{
    const uint64_t bytes = yk__bucket_bytes(b);
    if (!yk__bucket_offloads(p, b))
        return YK_OK;
    if (yk__queue_wrap_shared(b->updates, yk__params_host(p, b, 0), bytes, &b->host_values) &&
        (p->scatters || yk__queue_wrap_shared(b->updates, b->shared, bytes, &b->host_grad)))
        return YK_OK;
    return yk__fail(err, YK_E_MEM, "%s: no buffer over a bucket on the host, %llu bytes", b->updates->dev->caps.name,
                    (unsigned long long)bytes);
}

static void hide_host(yk__bucket *b)
{
    yk__queue_unwrap_shared(b->updates, &b->host_values);
    yk__queue_unwrap_shared(b->updates, &b->host_grad);
}

/* Elements of a piece of gradients in slices: a bucket, but for one that holds a parameter larger than buckets are to be. */
static uint64_t largest_piece(const yk__params *p)
{
    const uint64_t piece = yk__round_up(p->bucket_bytes / sizeof(float), PAGE);
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        most = p->bucket[i].layout.n > most ? p->bucket[i].layout.n : most;
    return most < piece ? most : piece;
}

/* Makes the missing blocks for exchanges that the way needs. On a device with memory of its own, gradients leave and parameters arrive
 * while its programs run. */
static yk_status make_blocks(yk__params *p, yk_error *err)
{
    const uint64_t values = p->exchange->world > 1 ? p->n_trained : p->n_host;
    const uint64_t grads = p->scatters ? YK__SUM_PARTS * p->summing.elements : values;
    if (yk__exchange_alloc(p->exchange, p->layouts, grads, values, p->way.blocks, err) || yk__queue_wraps(p->queue))
        return err->status;
    if (!p->grad_pin)
        yk__queue_pin(p->queue, p->exchange->grad.mem, p->exchange->grad.bytes, &p->grad_pin);
    if (!p->value_pin)
        yk__queue_pin(p->queue, p->exchange->value.mem, p->exchange->value.bytes, &p->value_pin);
    return YK_OK;
}

/* Until now only devices had the values: each owner copies its own to the block for exchanges. */
yk_status yk__params_add_blocks(yk__params *p, yk_error *err)
{
    const bool has_values = p->exchange->blocks & YK__BLOCK_VALUES;
    if (!p->laid_out || make_blocks(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket && !p->scatters; i++)
        p->bucket[i].shared = yk__exchange_grads(p->exchange, p->bucket[i].shared_at);
    if (has_values || !(p->exchange->blocks & YK__BLOCK_VALUES))
        return YK_OK;
    p->values = YK__VALUES_UNPUBLISHED;
    return yk__params_publish_late(p, err) ? err->status : yk__exchange_barrier(p->exchange, err);
}

yk_status yk__params_list(yk__params *p, yk_error *err)
{
    if (list_buckets(p, err))
        return err->status;
    p->layouts++;
    p->summing.elements = largest_piece(p);
    return YK_OK;
}

yk_status yk__params_lay_out(yk__params *p, yk_error *err)
{
    if (yk__parts_measure(p, err) || make_blocks(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_all_bucket; i++) {
        yk__bucket *b = &p->bucket[i];
        if ((b->trained && yk__params_cut(p, b, err)) || yk__home_choose(p, b, err) ||
            (b->trained && (make_grad(p, b, err) || show_host(p, b, err))))
            return err->status;
    }
    return yk__copies_open(p, err);
}

void yk__params_drop_layout(yk__params *p)
{
    yk_error ignored = YK_ERROR_INIT; /* the job ends then: memory that answers read goes all the same */
    yk__copies_close(p);
    yk__sums_cancel(p);
    if (p->laid_out)
        yk__far_withdraw(p, &ignored);
    for (uint32_t i = 0; i < p->n_all_bucket; i++) {
        yk__bucket *b = &p->bucket[i];
        yk__exchange_drop(&b->request);
        yk__free(b->rest);
        yk__home_leave(p, b);
        hide_host(b);
        if (p->scatters)
            yk__sums_drop(b);
        else if (b->is_wrapped)
            yk__queue_unwrap_shared(p->queue, &b->grad);
        else
            yk__queue_unbuffer(p->queue, &b->grad, yk__bucket_bytes(b), YK__GRAD_BYTES);
        for (uint32_t k = 0; k < YK__MOMENTS; k++)
            p->state_home->drop(p, b, k);
        yk__slices_free(&b->layout.slice);
        yk__slices_free(&b->summed);
    }
    if (p->state_home->close)
        p->state_home->close(p);
    yk__queue_unpin(p->queue, &p->grad_pin);
    yk__queue_unpin(p->queue, &p->value_pin);
    yk__exchange_release(p->exchange);
    yk__free(p->bucket);
    p->bucket = NULL;
    p->n_all_bucket = p->n_bucket = p->gathered = 0;
    p->laid_out = false;
}

uint64_t yk__params_slice_bytes(const yk__params *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        if (p->bucket[i].home && p->bucket[i].home->kind == YK__HOME_SLICE)
            bytes += yk__bucket_own_bytes(&p->bucket[i]);
    return bytes;
}

/* ---- Moments ---- */

yk_status yk__params_make_moments(yk__params *p, yk_error *err)
{
    if (p->state_home->open && p->state_home->open(p, err))
        return err->status;
    for (uint32_t i = 0; i < p->n_bucket; i++) {
        yk__bucket *b = &p->bucket[i];
        for (uint32_t k = 0; k < p->n_moment; k++)
            if (p->state_home->make(p, b, k, err))
                return err->status;
    }
    return YK_OK;
}
