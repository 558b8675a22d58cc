/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: where they lie, their buffers, and reading and writing them from the host. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/internal.h"

#define GAP 64u      /* elements: parameters begin at multiples */
#define PAGE 16384u  /* elements: buckets end at multiples, so that each begins on a page of shared memory */

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- Declaring ---- */

static yk_status drop_layout(yk__engine *e, yk_error *err);

yk_status yk__engine_param(yk__engine *e, const char *name, uint64_t n, bool trained, uint32_t *number, yk_error *err)
{
    yk__eparam *p;
    if (!n)
        return yk__fail(err, YK_E_ARG, "parameter %s has no elements", name);
    if (e->laid_out && drop_layout(e, err))
        return err->status;
    if (yk__grow(&e->param, &e->cap_param, e->n_param + 1, sizeof *e->param))
        return yk__fail_mem(err, sizeof *e->param, name);
    p = &e->param[e->n_param];
    *p = (yk__eparam){.name = yk__strdup(name), .n = n, .trained = trained};
    if (!p->name)
        return yk__fail_mem(err, strlen(name), name);
    *number = (uint32_t)e->n_param++;
    return YK_OK;
}

yk_status yk__engine_param_trained(yk__engine *e, uint32_t number, bool trained, yk_error *err)
{
    if (number >= e->n_param)
        return yk__fail(err, YK_E_INTERNAL, "there is no parameter %u", number);
    if (e->param[number].trained == trained)
        return YK_OK;
    if (e->laid_out && drop_layout(e, err))
        return err->status;
    e->param[number].trained = trained;
    return YK_OK;
}

yk_status yk__engine_state(yk__engine *e, const char *name, yk_dtype dtype, uint64_t n, uint32_t *number, yk_error *err)
{
    const uint64_t bytes = n * yk_dtype_bytes(dtype);
    yk__estate s = {.dtype = dtype, .n = n};
    void *zero = yk__calloc(1, bytes);
    s.name = yk__strdup(name);
    if (!zero || !s.name || yk__grow(&e->state, &e->cap_state, e->n_state + 1, sizeof *e->state)) {
        yk__fail_mem(err, bytes, name);
        goto free_name;
    }
    if (yk__engine_buffer(e, bytes, &s.buffer, &e->stats.state_bytes, err) ||
        yk__store_io(e, s.buffer, 0, zero, bytes, true, err))
        goto free_buffer;
    e->state[e->n_state] = s;
    *number = (uint32_t)e->n_state++;
    yk__free(zero);
    return YK_OK;
free_buffer:
    yk__engine_unbuffer(e, &s.buffer, bytes, &e->stats.state_bytes);
free_name:
    yk__free(s.name);
    yk__free(zero);
    return err->status;
}

/* ---- Layout ---- */

static yk_status new_bucket(yk__engine *e, bool trained, size_t *cap, yk_error *err)
{
    if (yk__grow(&e->bucket, cap, e->n_all_bucket + 1ull, sizeof *e->bucket))
        return yk__fail_mem(err, sizeof *e->bucket, "the layout of the parameters");
    memset(&e->bucket[e->n_all_bucket], 0, sizeof *e->bucket);
    e->bucket[e->n_all_bucket++].trained = trained;
    return YK_OK;
}

/* Assigns the parameters of one kind to buckets, the last one first. */
static yk_status fill_buckets(yk__engine *e, bool trained, size_t *cap, yk_error *err)
{
    const uint64_t align = round_up(e->dev->caps.align, sizeof(float)) / sizeof(float);
    const uint64_t gap = align > GAP ? align : GAP, most = e->config.bucket_bytes / sizeof(float);
    bool open = false;
    for (size_t i = e->n_param; i-- > 0;) {
        yk__eparam *p = &e->param[i];
        if (p->trained != trained)
            continue;
        if (!open && new_bucket(e, trained, cap, err))
            return err->status;
        p->bucket = e->n_all_bucket - 1;
        p->at = e->bucket[p->bucket].n;
        e->bucket[p->bucket].n += round_up(p->n, gap);
        open = e->bucket[p->bucket].n < most;
    }
    return YK_OK;
}

static yk_status share_grads(yk__engine *e, yk_error *err)
{
    char what[40];
    void *mem;
    if (e->world == 1 || !e->flat)
        return YK_OK;
    e->stats.shared_bytes += e->flat * sizeof(float) * (e->world + 1ull);
    if (!e->talks)
        return YK_OK;
    snprintf(what, sizeof what, "gradients-%u", e->layouts);
    if (yk__group_shared(e->group, what, e->flat * sizeof(float) * e->world, &mem, err))
        return err->status;
    e->grad_base = mem;
    snprintf(what, sizeof what, "parameters-%u", e->layouts);
    if (yk__group_shared(e->group, what, e->flat * sizeof(float), &mem, err))
        return err->status;
    e->param_base = mem;
    return YK_OK;
}

static void zero_slot(yk__graph *g, yk_slot_kind kind, uint32_t key, uint64_t n)
{
    const int64_t zero = yk_attr_of_f64(0.0), dim = (int64_t)n;
    yk__vid v = yk__leaf(g, yk__slot_new(g, kind, n * sizeof(float), key), 0, YK_F32, 1, &dim);
    if (v != YK_NONE)
        yk__node_new(g, YK_OP_FILL, 0, 0, NULL, 1, &v, 1, &zero);
}

static void zero_bucket(const yk__engine *e, yk__graph *g, uint32_t i, bool moments)
{
    const yk__bucket *p = &e->bucket[i];
    if (!moments && !p->is_common) /* fresh shared memory is zero, and others may have written to it */
        zero_slot(g, YK_SLOT_PARAM, YK__KEY_BUCKET | i, p->n);
    if (!moments && p->trained)
        zero_slot(g, YK_SLOT_GRAD, i, p->n);
    for (uint32_t k = 0; moments && p->trained && k < e->n_moment; k++)
        if (p->begin < p->end)
            zero_slot(g, YK_SLOT_STATE, YK__KEY_BUCKET | k << 24 | i, p->end - p->begin);
}

yk_status yk__store_zero(yk__engine *e, bool moments, yk_error *err)
{
    yk__prog *prog = NULL;
    yk__plan_request r;
    yk__graph g;
    yk__graph_init(&g);
    for (uint32_t i = 0; i < e->n_all_bucket; i++)
        zero_bucket(e, &g, i, moments);
    yk__prog_request(e, &g, &r);
    r.single_rank = true;
    if (g.error.status)
        *err = g.error;
    else if (!yk__prog_new(e, &r, &prog, err) && !yk__prog_run(e, prog, 0, NULL, NULL, err))
        yk__engine_idle(e, err);
    yk__prog_free(e, prog);
    yk__graph_free(&g);
    return err->status;
}

/* A buffer over shared memory, where the device can. */
static bool wrap_shared(yk__engine *e, float *shared, uint64_t bytes, yk_buffer **b)
{
    if (!(e->dev->caps.flags & YK_CAP_WRAP))
        return false;
    *b = NULL;
    return !e->dev->table->buffer_wrap(e->dev->handle, shared, bytes, b);
}

/* The device adds the gradients up in shared memory itself. */
static yk_status make_grad(yk__engine *e, yk__bucket *p, yk_error *err)
{
    const uint64_t bytes = p->n * sizeof(float);
    if (e->world > 1) {
        p->shared = !e->grad_base ? NULL : e->grad_base + (uint64_t)e->rank * e->flat + p->flat;
        p->is_wrapped = wrap_shared(e, p->shared, bytes, &p->grad);
        if (p->is_wrapped)
            return YK_OK;
    }
    return yk__engine_buffer(e, bytes, &p->grad, &e->stats.grad_bytes, err);
}

/* A processor reads the values where their owners write them: no copy of its own, and nothing to fetch after an update. */
static yk_status make_value(yk__engine *e, yk__bucket *p, yk_error *err)
{
    const uint64_t bytes = p->n * sizeof(float);
    p->is_common = p->trained && e->world > 1 && yk__engine_wraps(e) &&
                   wrap_shared(e, e->param_base ? e->param_base + p->flat : NULL, bytes, &p->value);
    return p->is_common ? YK_OK : yk__engine_buffer(e, bytes, &p->value, &e->stats.param_bytes, err);
}

static yk_status make_bucket(yk__engine *e, yk__bucket *p, yk_error *err)
{
    if (make_value(e, p, err) || !p->trained)
        return err->status;
    yk__roles_cut(e, p);
    return make_grad(e, p, err);
}

/*
 * Before the host's values of trained parameters go to shared memory all ranks are done with what they submitted, and
 * have the same values: afterwards there would be one value, and no telling whose.
 */
static yk_status check_agreement(yk__engine *e, yk_error *err)
{
    uint64_t mine = YK_HASH_SEED, all[YK__RANKS];
    if (!e->talks)
        return YK_OK;
    for (size_t i = 0; i < e->n_param; i++)
        if (e->param[i].pending && e->param[i].trained)
            mine = yk__hash_bytes(yk__hash_u64(mine, i), e->param[i].pending, e->param[i].n * sizeof(float));
    if (yk__engine_idle(e, err) || yk__group_all_gather(e->group, &mine, sizeof mine, all, err))
        return err->status;
    for (uint32_t r = 1; r < e->world; r++)
        if (all[r] != all[0])
            return yk__fail(err, YK_E_INTERNAL,
                            "the parameters of rank %u (%s) differ from those of rank 0: all ranks must write the same", r,
                            yk__group_name(e->group, r));
    return YK_OK;
}

/* To where excluded ranks take parameters from, and those with memory of their own in an update. */
static void flush_shared(const yk__engine *e)
{
    if (!e->talks || e->rank != yk__roles_first(e))
        return;
    for (size_t i = 0; i < e->n_param; i++) {
        const yk__eparam *p = &e->param[i];
        if (p->pending && p->trained)
            memcpy(e->param_base + e->bucket[p->bucket].flat + p->at, p->pending, p->n * sizeof(float));
    }
}

static yk_status flush_pending(yk__engine *e, yk_error *err)
{
    if (check_agreement(e, err))
        return err->status;
    flush_shared(e);
    for (size_t i = 0; i < e->n_param; i++) {
        yk__eparam *p = &e->param[i];
        const bool others = e->excluded && p->trained; /* write it: members, who may be in their next update by now */
        e->params_behind = e->params_behind || others;
        if (p->pending && !others && yk__store_io(e, e->bucket[p->bucket].value, p->at * sizeof(float), p->pending,
                                       p->n * sizeof(float), true, err))
            return err->status;
        yk__free(p->pending);
        p->pending = NULL;
    }
    e->version++;
    e->compute_stale = YK__STALE_ALL;
    return yk__group_excludes(e->group) ? yk__group_barrier(e->group, err) : YK_OK;
}

yk_status yk__store_lay_out(yk__engine *e, yk_error *err)
{
    size_t cap = 0;
    if (e->laid_out)
        return YK_OK;
    e->flat = 0;
    if (fill_buckets(e, true, &cap, err))
        return err->status;
    e->n_bucket = e->n_all_bucket;
    if (fill_buckets(e, false, &cap, err))
        return err->status;
    for (uint32_t i = 0; i < e->n_all_bucket; i++) {
        e->bucket[i].n = e->world > 1 ? round_up(e->bucket[i].n, PAGE) : e->bucket[i].n;
        e->bucket[i].flat = e->flat;
        e->flat += e->bucket[i].trained ? e->bucket[i].n : 0;
    }
    e->layouts++;
    if (share_grads(e, err))
        return err->status;
    for (uint32_t i = 0; i < e->n_all_bucket; i++)
        if (make_bucket(e, &e->bucket[i], err))
            return err->status;
    if (yk__store_zero(e, false, err))
        return err->status;
    e->laid_out = true;
    return flush_pending(e, err);
}

static void free_part(yk__engine *e, yk_buffer **b, bool shared, uint64_t bytes, uint64_t *account)
{
    if (!shared)
        yk__engine_unbuffer(e, b, bytes, account);
    else if (*b)
        e->dev->table->buffer_free(*b);
    *b = NULL;
}

void yk__store_free(yk__engine *e)
{
    yk__compute_free(e);
    for (uint32_t i = 0; i < e->n_all_bucket; i++) {
        yk__bucket *p = &e->bucket[i];
        const uint64_t own = (p->end - p->begin) * sizeof(float);
        free_part(e, &p->value, p->is_common, p->n * sizeof(float), &e->stats.param_bytes);
        free_part(e, &p->grad, p->is_wrapped, p->n * sizeof(float), &e->stats.grad_bytes);
        for (uint32_t k = 0; k < YK__MOMENTS; k++)
            yk__engine_unbuffer(e, &p->moment[k], own, &e->stats.state_bytes);
    }
    yk__group_release(e->group, e->grad_base);
    yk__group_release(e->group, e->param_base);
    e->grad_base = e->param_base = NULL;
    yk__free(e->bucket);
    e->bucket = NULL;
    e->n_all_bucket = e->n_bucket = 0;
    e->laid_out = false;
}

/* Back to values on the host: a parameter came late, or is frozen now. */
static yk_status drop_layout(yk__engine *e, yk_error *err)
{
    if (e->has_opt)
        return yk__fail(err, YK_E_ARG, "a parameter was added or frozen after the optimizer's state was made; do it before "
                                       "the first step");
    for (size_t i = 0; i < e->n_param; i++) {
        yk__eparam *p = &e->param[i];
        p->pending = yk__malloc(p->n * sizeof(float));
        if (!p->pending)
            return yk__fail_mem(err, p->n * sizeof(float), p->name);
        if (yk__store_param(e, (uint32_t)i, p->pending, err))
            return err->status;
    }
    if (yk__engine_idle(e, err))
        return err->status;
    yk__cache_clear(e);
    yk__store_free(e);
    return YK_OK;
}

/* ---- Reading and writing ---- */

yk_status yk__store_io(yk__engine *e, yk_buffer *b, uint64_t offset, void *data, uint64_t bytes, bool write,
                       yk_error *err)
{
    if (!bytes)
        return YK_OK;
    if (write ? yk__engine_put(e, b, offset, data, bytes, err) : yk__engine_get(e, b, offset, data, bytes, err))
        return err->status;
    return yk__engine_idle(e, err);
}

/* On an excluded rank: the newest values, of one update, though members may go on to the next while they are copied. */
static yk_status read_shared(yk__engine *e, const yk__eparam *p, float *data, yk_error *err)
{
    const struct timespec moment = {0, 100000};
    uint32_t begun;
    do {
        if (__atomic_load_n(yk__group_cancel(e->group), __ATOMIC_ACQUIRE))
            return yk__fail(err, YK_E_CANCELLED, "the job ends");
        while ((begun = yk__group_read_begin(e->group)) % 2 && !__atomic_load_n(yk__group_cancel(e->group), __ATOMIC_ACQUIRE))
            nanosleep(&moment, NULL);
        memcpy(data, e->param_base + e->bucket[p->bucket].flat + p->at, p->n * sizeof *data);
    } while (!yk__group_read_end(e->group, begun));
    return YK_OK;
}

yk_status yk__store_param(yk__engine *e, uint32_t number, float *data, yk_error *err)
{
    const yk__eparam *p = &e->param[number];
    if (e->excluded && p->trained && e->param_base)
        return read_shared(e, p, data, err);
    return yk__store_io(e, e->bucket[p->bucket].value, p->at * sizeof(float), data, p->n * sizeof(float), false, err);
}

static yk_status check_param(const yk__engine *e, uint32_t number, yk_error *err)
{
    if (number >= e->n_param)
        return yk__fail(err, YK_E_INTERNAL, "there is no parameter %u", number);
    return YK_OK;
}

yk_status yk__engine_param_write(yk__engine *e, uint32_t number, const float *data, yk_error *err)
{
    yk__eparam *p;
    if (check_param(e, number, err))
        return err->status;
    p = &e->param[number];
    if (!p->pending)
        p->pending = yk__malloc(p->n * sizeof(float));
    if (!p->pending)
        return yk__fail_mem(err, p->n * sizeof(float), p->name);
    memcpy(p->pending, data, p->n * sizeof(float));
    return e->laid_out ? flush_pending(e, err) : YK_OK;
}

yk_status yk__engine_param_read(yk__engine *e, uint32_t number, float *data, yk_error *err)
{
    if (check_param(e, number, err))
        return err->status;
    if (e->laid_out)
        return yk__store_param(e, number, data, err);
    if (e->param[number].pending) /* one rank may ask alone, and a layout is made by all */
        memcpy(data, e->param[number].pending, e->param[number].n * sizeof *data);
    else
        memset(data, 0, e->param[number].n * sizeof *data);
    return YK_OK;
}

yk_status yk__engine_state_write(yk__engine *e, uint32_t number, const void *data, yk_error *err)
{
    yk__estate *s = number < e->n_state ? &e->state[number] : NULL;
    void *copy;
    if (!s)
        return yk__fail(err, YK_E_INTERNAL, "there is no state %u", number);
    copy = yk__malloc(s->n * yk_dtype_bytes(s->dtype));
    if (!copy)
        return yk__fail_mem(err, s->n * yk_dtype_bytes(s->dtype), s->name);
    memcpy(copy, data, s->n * yk_dtype_bytes(s->dtype));
    yk__store_io(e, s->buffer, 0, copy, s->n * yk_dtype_bytes(s->dtype), true, err);
    yk__free(copy);
    return err->status;
}

yk_status yk__engine_state_read(yk__engine *e, uint32_t number, void *data, yk_error *err)
{
    yk__estate *s = number < e->n_state ? &e->state[number] : NULL;
    if (!s)
        return yk__fail(err, YK_E_INTERNAL, "there is no state %u", number);
    return yk__store_io(e, s->buffer, 0, data, s->n * yk_dtype_bytes(s->dtype), false, err);
}
