/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of parameters' copies in the compute format (such as bf16), and the marks that say which are old. compute.c writes the copies.
 *
 * prog.c (core/run) makes the copies that a new program reads, and each writer of f32 values calls yk__copies_changed, in the step thread.
 * If all ranks of a job are processors that share memory and compute in one format, they share the copies. Else each rank owns its own.
 */
#include "core/run/values/copies.h"

#include "core/base/round.h"
#include "core/run/values/params.h"

#define COPY_PAGE 4096u /* bytes: host memory that a device computes in begins at a multiple (plugin.h, buffer_wrap) */

uint64_t yk__copy_bytes(const yk__params *p, const yk__param *q)
{
    return q->n * yk_dtype_bytes(p->precision);
}

/* ---- Once per host ---- */

/* Bytes of the marks at the beginning of the block. */
static uint64_t mark_bytes(const yk__params *p)
{
    return yk__round_up(p->n_param * sizeof(uint32_t), COPY_PAGE);
}

static uint32_t *mark_of(const yk__params *p, size_t number)
{
    return (uint32_t *)p->copies.block.mem + number;
}

/* Bytes before parameter i's copy among the copies: each begins on a page, as devices compute in whole pages of the host. */
static uint64_t copies_before(const yk__params *p, size_t i)
{
    uint64_t bytes = 0;
    while (i-- > 0)
        bytes += p->param[i].trained ? yk__round_up(yk__copy_bytes(p, &p->param[i]), COPY_PAGE) : 0;
    return bytes;
}

/* The device reads all trained values in host memory, so it can read their copies there, too. */
static bool reads_host(const yk__params *p)
{
    for (uint32_t i = 0; i < p->n_all_bucket; i++)
        if (p->bucket[i].trained && p->bucket[i].home->kind != YK__HOME_HOST)
            return false;
    return true;
}

yk_status yk__copies_open(yk__params *p, yk_error *err)
{
    const uint32_t format = reads_host(p) ? p->precision : YK_DTYPE_COUNT;
    yk__copies *copies = &p->copies;
    copies->shared = false;
    if (p->exchange->laid_for != YK__MEMORY || p->exchange->part == YK__PART_LOCAL || !p->n_trained ||
        yk__exchange_alike(p->exchange, format, &copies->shared, err))
        return err->status;
    copies->shared = copies->shared && format != YK_F32 && format != YK_DTYPE_COUNT;
    if (!copies->shared)
        return YK_OK;
    return yk__exchange_alloc_sparse(p->exchange, "16-bit parameters", p->layouts, mark_bytes(p), copies_before(p, p->n_param),
                                     &copies->block, err);
}

/* Makes the host's one copy; the first rank that needs it adds the memory. */
static yk_status share_copy(yk__params *p, yk__param *q, yk_error *err)
{
    const size_t number = (size_t)(q - p->param);
    const uint64_t bytes = yk__copy_bytes(p, q);
    void *mem;
    if (yk__exchange_fill(p->exchange, &p->copies.block, mark_bytes(p) + copies_before(p, number), bytes, &mem, err))
        return err->status;
    if (mem)
        __atomic_store_n(mark_of(p, number), 1, __ATOMIC_RELEASE);
    if (!yk__queue_wrap_shared(p->queue, mem, bytes, &q->compute))
        return yk__fail(err, YK_E_MEM, "%s: no buffer over the 16-bit copy of \"%s\", %llu bytes", p->queue->dev->caps.name, q->name,
                        (unsigned long long)bytes);
    q->is_once = true;
    p->copies.n++;
    return YK_OK;
}

static bool is_marked(const yk__params *p, size_t number)
{
    return p->copies.block.mem && __atomic_load_n(mark_of(p, number), __ATOMIC_ACQUIRE);
}

yk_status yk__copies_adopt(yk__params *p, yk_error *err)
{
    for (size_t i = 0; i < p->n_param && p->copies.shared; i++)
        if (p->param[i].trained && !p->param[i].compute && is_marked(p, i) && share_copy(p, &p->param[i], err))
            return err->status;
    return YK_OK;
}

/* ---- Any copy ---- */

static yk_status make_own(yk__params *p, yk__param *q, yk_error *err)
{
    if (yk__queue_buffer(p->queue, yk__copy_bytes(p, q), &q->compute, YK__PARAM_BYTES, err))
        return err->status;
    p->copies.n++;
    return YK_OK;
}

yk_status yk__copies_make(yk__params *p, yk__param *q, yk_error *err)
{
    if (p->copies.shared && q->trained ? share_copy(p, q, err) : make_own(p, q, err))
        return err->status;
    p->copies.stale = YK__STALE_ALL;
    return YK_OK;
}

bool yk__copy_follows(const yk__params *p, const yk__param *q)
{
    return q->compute && (q->is_once || (yk__exchange_updates_all(p->exchange) && !yk__params_offload(p)));
}

void yk__copies_changed(yk__params *p)
{
    if (!p->copies.shared && p->copies.stale == YK__FRESH) /* else owners have written the copies */
        p->copies.stale = YK__STALE_TRAINED;
}

void yk__copies_close(yk__params *p)
{
    for (size_t i = 0; i < p->n_param; i++) {
        yk__param *q = &p->param[i];
        if (q->is_once)
            yk__queue_unwrap_shared(p->queue, &q->compute);
        yk__queue_unbuffer(p->queue, &q->compute, yk__copy_bytes(p, q), YK__PARAM_BYTES);
        q->is_once = false;
    }
    p->copies.n = 0;
    yk__exchange_release_sparse(p->exchange, &p->copies.block);
}
