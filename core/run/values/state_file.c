/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimizer's moments in a file on a disk (--offload state=nvme:DIR): the row "file" of the homes of moments (state_buffers.c), for a
 * rank whose host updates. api.c (core/run) makes and frees the file.
 *
 * The optimizer's step takes this rank's slices in blocks through YK__STATE_AREAS areas of host memory, in the step thread. While the host
 * updates one block, the tier's thread (core/io/tier.c) reads the next and writes the last. A device that plans only opens no file.
 */
#include "core/run/values/state_file.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/round.h"
#include "core/io/tier.h"
#include "core/run/update_programs.h"

#define PAGE (YK__TIER_PAGE / sizeof(float)) /* elements: blocks and moments begin at multiples in the file */
#define BLOCK (1u << 20)                     /* elements */

/* ---- Places in the file ---- */

/* Each moment of a bucket has the place of the whole bucket, so an element stays where it is if the slice changes. Only the slice's pages
 * take space. */
static uint64_t moment_at(const yk__params *p, const yk__bucket *b, uint32_t k)
{
    uint64_t n = k * yk__round_up(b->layout.n, PAGE);
    for (uint32_t i = 0; i < p->n_bucket && p->bucket[i].shared_at < b->shared_at; i++) /* b may be a copy, as roles change */
        n += p->n_moment * yk__round_up(p->bucket[i].layout.n, PAGE);
    return n * sizeof(float);
}

static yk__range whole_pages(yk__range r)
{
    return (yk__range){r.from / PAGE * PAGE, r.from < r.to ? yk__round_up(r.to, PAGE) : r.from / PAGE * PAGE};
}

static uint64_t range_bytes(yk__range r)
{
    return (r.to - r.from) * sizeof(float);
}

/* The part of the range in the block that holds its first element. */
static yk__range first_block(const yk__state_file *f, yk__range r)
{
    const uint64_t end = (r.from / f->elements + 1) * f->elements;
    return (yk__range){r.from, r.to < end ? r.to : end};
}

/* ---- Blocks in areas ---- */

static float *area_moment(const yk__state_file *f, const yk__state_area *a, uint32_t k)
{
    return a->host + k * f->elements;
}

/* Begins to read or write a moment of a block with the rest of its pages. */
static uint64_t block_move(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range block, yk__state_area *a, bool writes)
{
    const yk__state_file *f = p->state_file;
    const yk__range pages = whole_pages(block);
    const uint64_t at = moment_at(p, b, k) + pages.from * sizeof(float);
    a->offset = (block.from - pages.from) * sizeof(float);
    return writes ? yk__tier_write(f->tier, area_moment(f, a, k), at, range_bytes(pages))
                  : yk__tier_read(f->tier, area_moment(f, a, k), at, range_bytes(pages));
}

static yk_status area_make(yk__params *p, yk__state_area *a, yk_error *err)
{
    const yk__state_file *f = p->state_file;
    const uint64_t each = f->elements * sizeof(float);
    a->host = yk__malloc_aligned(each * p->n_moment, YK__TIER_PAGE);
    if (!a->host)
        return yk__fail_mem(err, each * p->n_moment, "blocks of the state on disk");
    memset(a->host, 0, p->queue->dev->plans_only ? 0 : each * p->n_moment);
    for (uint32_t k = 0; k < p->n_moment; k++)
        if (yk__queue_wrap(p->updates, area_moment(f, a, k), each, &a->buffer[k], YK__STATE_BYTES, err))
            return err->status;
    return YK_OK;
}

static void area_hide(yk__params *p, yk__state_area *a)
{
    for (uint32_t k = 0; k < YK__MOMENTS; k++)
        yk__queue_unbuffer(p->updates, &a->buffer[k], p->state_file->elements * sizeof(float), YK__STATE_BYTES);
}

/* ---- The columns ---- */

static bool file_fits(const yk__params *p)
{
    return p->state_file != NULL;
}

static uint64_t slice_pages_bytes(const yk__bucket *b)
{
    return range_bytes(whole_pages((yk__range){b->begin, b->end}));
}

static yk_status tier_make(yk__params *p, yk_error *err)
{
    yk__state_file *f = p->state_file;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->n_bucket; i++)
        bytes += p->n_moment * slice_pages_bytes(&p->bucket[i]);
    if (p->queue->dev->plans_only || yk__tier_open(f->dir, p->queue->cancel, &f->tier, err) ||
        yk__tier_expect(f->tier, bytes, "the optimizer's state of this rank", err))
        return err->status;
    if (!yk__tier_is_direct(f->tier))
        yk__log(YK_LOG_INFO, "job", "%s: no O_DIRECT on this file system: the optimizer's state goes through the system's cache", f->dir);
    return YK_OK;
}

static void file_close(yk__params *p)
{
    yk__state_file *f = p->state_file;
    void *host[YK__STATE_AREAS];
    for (uint32_t i = 0; i < YK__STATE_AREAS; i++) {
        area_hide(p, &f->area[i]);
        host[i] = f->area[i].host;
        f->area[i] = (yk__state_area){0};
    }
    if (f->tier)
        yk__tier_close(f->tier, host, YK__STATE_AREAS); /* a request under way uses an area */
    for (uint32_t i = 0; i < YK__STATE_AREAS && !f->tier; i++)
        yk__free(host[i]);
    f->tier = NULL;
}

static yk_status file_open(yk__params *p, yk_error *err)
{
    yk__state_file *f = p->state_file;
    uint64_t largest = PAGE;
    file_close(p);
    for (uint32_t i = 0; i < p->n_bucket; i++)
        largest = p->bucket[i].layout.n > largest ? p->bucket[i].layout.n : largest;
    f->elements = largest < f->most ? yk__round_up(largest, PAGE) : f->most;
    for (uint32_t i = 0; i < YK__STATE_AREAS && p->n_moment; i++)
        if (area_make(p, &f->area[i], err))
            return err->status;
    return p->n_moment ? tier_make(p, err) : YK_OK;
}

static yk_status file_make(yk__params *p, yk__bucket *b, uint32_t k, yk_error *err)
{
    const yk__range pages = whole_pages((yk__range){b->begin, b->end});
    if (!p->state_file->tier || pages.from == pages.to)
        return YK_OK;
    return yk__tier_reserve(p->state_file->tier, moment_at(p, b, k) + pages.from * sizeof(float), range_bytes(pages), err);
}

static void file_drop(yk__params *p, yk__bucket *b, uint32_t k)
{
    const yk__range pages = whole_pages((yk__range){b->begin, b->end});
    if (p->state_file->tier && pages.from < pages.to)
        yk__tier_give_back(p->state_file->tier, moment_at(p, b, k) + pages.from * sizeof(float), range_bytes(pages));
}

/* The program of a block addresses moments from the block's begin. */
static yk__bound file_bind(const yk__params *p, const yk__bucket *b, uint32_t k)
{
    const yk__state_area *a = &p->state_file->area[p->state_file->bound];
    (void)b;
    return (yk__bound){a->buffer[k], a->offset};
}

/* ---- Transfers, outside of a step: through the first area ---- */

static yk_status block_wait(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range block, bool writes, yk_error *err)
{
    const yk__state_file *f = p->state_file;
    return yk__tier_wait(f->tier, block_move(p, b, k, block, &p->state_file->area[0], writes), err);
}

static yk_status file_get(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range range, float *dst, yk_error *err)
{
    const yk__state_file *f = p->state_file;
    for (yk__range left = range, now; f->tier && left.from < left.to; left.from = now.to) {
        now = first_block(f, left);
        if (block_wait(p, b, k, now, false, err))
            return err->status;
        memcpy(dst + (now.from - range.from), area_moment(f, &f->area[0], k) + now.from % PAGE, range_bytes(now));
    }
    return YK_OK;
}

static yk_status file_put(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range range, const float *src, yk_error *err)
{
    const yk__state_file *f = p->state_file;
    for (yk__range left = range, now; f->tier && left.from < left.to; left.from = now.to) {
        now = first_block(f, left);
        if (block_wait(p, b, k, now, false, err)) /* the rest of its pages stays */
            return err->status;
        memcpy(area_moment(f, &f->area[0], k) + now.from % PAGE, src + (now.from - range.from), range_bytes(now));
        if (block_wait(p, b, k, now, true, err))
            return err->status;
    }
    return YK_OK;
}

/* ---- The step ---- */

static void part_read(const yk__params *p, const yk__optim_part *part, yk__state_area *a)
{
    for (uint32_t k = 0; k < p->n_moment && p->state_file->tier; k++)
        a->request = block_move(p, &p->bucket[part->bucket], k, part->range, a, false);
}

static yk_status part_run(yk__optim_programs *optim, const yk__optim_part *part, yk__state_area *a, yk__inputs inputs, yk_error *err)
{
    yk__params *p = optim->params;
    yk__state_file *f = p->state_file;
    if (f->tier && yk__tier_wait(f->tier, a->request, err))
        return err->status;
    f->bound = (uint32_t)(a - f->area);
    if (yk__prog_run(optim->exec, part->prog, inputs, err) || yk__queue_idle(p->updates, err))
        return err->status;
    for (uint32_t k = 0; k < p->n_moment && f->tier; k++)
        block_move(p, &p->bucket[part->bucket], k, part->range, a, true);
    return YK_OK;
}

static yk_status file_step(yk__optim_programs *optim, yk__inputs inputs, yk_error *err)
{
    yk__params *p = optim->params;
    yk__state_file *f = p->state_file;
    for (size_t i = 0; i < optim->n_part && i < YK__STATE_AREAS; i++)
        part_read(p, &optim->part[i], &f->area[i]);
    for (size_t i = 0; i < optim->n_part; i++) {
        yk__state_area *a = &f->area[i % YK__STATE_AREAS];
        if (part_run(optim, &optim->part[i], a, inputs, err))
            return err->status;
        if (i + YK__STATE_AREAS < optim->n_part) /* behind the write of this block */
            part_read(p, &optim->part[i + YK__STATE_AREAS], a);
    }
    return f->tier ? yk__tier_idle(f->tier, err) : YK_OK;
}

static uint64_t file_block(const yk__params *p)
{
    return p->n_moment ? p->state_file->elements : 0;
}

/* A new file holds zeros. */
const yk__state_home yk__state_home_file = {.name = "file", .fits = file_fits, .open = file_open, .close = file_close, .make = file_make,
                                            .drop = file_drop, .bind = file_bind, .get = file_get, .put = file_put, .block = file_block,
                                            .step = file_step};

/* ---- The home ---- */

yk_status yk__state_file_new(const char *dir, uint64_t block, yk__state_file **out, yk_error *err)
{
    yk__state_file *f = yk__calloc(1, sizeof *f);
    if (f)
        f->dir = yk__strdup(dir);
    if (!f || !f->dir) {
        yk__free(f);
        return yk__fail_mem(err, sizeof *f, "the state on disk");
    }
    f->most = f->elements = yk__round_up(block ? block : BLOCK, PAGE);
    *out = f;
    return YK_OK;
}

void yk__state_file_free(yk__state_file *f)
{
    if (!f)
        return;
    yk__free(f->dir);
    yk__free(f);
}

uint64_t yk__state_file_bytes(const yk__params *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; p->state_file && p->state_file->area[0].host && i < p->n_bucket; i++)
        bytes += p->n_moment * slice_pages_bytes(&p->bucket[i]);
    return bytes;
}
