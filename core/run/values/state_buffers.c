/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The homes of the optimizer's moments: a table of memories for this rank's slices of them (a file, or memory of the devices that update).
 * The last row is here.
 *
 * api.c (core/run) chooses the first row that fits when the engine opens, one for all moments of the rank. The update's programs,
 * checkpoints, LocalSGD's means and roles.c (core/run) call its columns, in the step thread. The row here has buffers of the device that
 * updates the bucket: this rank's own, or the host's.
 */
#include "core/run/values/state_home.h"

#include "core/run/update_programs.h"
#include "core/run/values/state_file.h"

/* ---- Buffers of the device that updates the bucket ---- */

static bool memory_fits(const yk__params *p)
{
    return !p->state_file;
}

static yk_status buffer_make(yk__params *p, yk__bucket *b, uint32_t k, yk_error *err)
{
    (void)p;
    return yk__bucket_own_bytes(b) ? yk__queue_buffer(b->updates, yk__bucket_own_bytes(b), &b->moment[k], YK__STATE_BYTES, err) : YK_OK;
}

static void buffer_drop(yk__params *p, yk__bucket *b, uint32_t k)
{
    (void)p;
    yk__queue_unbuffer(b->updates, &b->moment[k], yk__bucket_own_bytes(b), YK__STATE_BYTES);
}

static yk__bound buffer_bind(const yk__params *p, const yk__bucket *b, uint32_t k)
{
    (void)p;
    return (yk__bound){b->moment[k], 0};
}

static yk_status buffer_get(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range range, float *dst, yk_error *err)
{
    (void)p;
    return yk__queue_get(b->updates, b->moment[k], (range.from - b->begin) * sizeof *dst, dst, (range.to - range.from) * sizeof *dst, err);
}

static yk_status buffer_put(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range range, const float *src, yk_error *err)
{
    (void)p;
    return yk__queue_put(b->updates, b->moment[k], (range.from - b->begin) * sizeof *src, src, (range.to - range.from) * sizeof *src, err);
}

static yk_status buffers_clear(yk__exec *exec, yk_error *err)
{
    return yk__fill_zero(exec, true, err);
}

static yk_status buffers_step(yk__optim_programs *optim, yk__inputs inputs, yk_error *err)
{
    return optim->n_part ? yk__prog_run(optim->exec, optim->part[0].prog, inputs, err) : YK_OK;
}

static const yk__state_home in_memory = {.name = "memory", .fits = memory_fits, .make = buffer_make, .drop = buffer_drop,
                                         .bind = buffer_bind, .get = buffer_get, .put = buffer_put, .clear = buffers_clear,
                                         .step = buffers_step};

static const yk__state_home *const homes[] = {&yk__state_home_file, &in_memory};

const yk__state_home *yk__state_home_choose(const yk__params *p)
{
    const yk__state_home *const *home = homes;
    while (!(*home)->fits(p))
        home++;
    return *home;
}

/* ---- Transfers ---- */

yk_status yk__moment_read(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range range, float *dst, yk_error *err)
{
    if (range.from == range.to || p->state_home->get(p, b, k, range, dst, err))
        return err->status;
    return yk__queue_finish(b->updates, err);
}

yk_status yk__moment_write(const yk__params *p, const yk__bucket *b, uint32_t k, yk__range range, const float *src, yk_error *err)
{
    if (range.from == range.to || p->state_home->put(p, b, k, range, src, err))
        return err->status;
    return yk__queue_finish(b->updates, err);
}
