/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's communicators as one object, yk__coll: the world and the members. Makes them at the start of a job, and allocates the buffers
 * that all ranks share. Ends all waits when the job ends, and counts the bytes sent.
 *
 * core/group makes and frees the object; core/run/exchange.c allocates with it. All of it is in the step thread, apart from yk__coll_abort,
 * which any thread may call. Allocation is collective: all ranks call it in the same order.
 */
#include "core/coll/coll.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/coll/call.h"
#include "core/coll/feed.h"
#include "core/coll/messages/msg_feed.h"
#include "core/coll/messages/msg_plane.h"
#include "core/coll/messages/msg_pull.h"
#include "core/coll/progress.h"
#include "core/coll/tune.h"

/* ---- Making -------------------------------------------------------------------------------------------------------- */

static yk_status watch_calls(void *arg, uint32_t peer, yk_error *err)
{
    yk__coll *coll = arg;
    return coll->waits ? yk__call_look(coll, coll->waits, peer, err) : YK_OK;
}

/* Lists the ranks that have memory in common. */
static yk_status list_hosts(yk__coll *coll, bool messages_only, yk_error *err)
{
    coll->local = yk__calloc(coll->size, sizeof *coll->local);
    coll->host_id = yk__calloc(coll->size, sizeof *coll->host_id);
    if (!coll->local || !coll->host_id)
        return yk__fail_mem(err, coll->size * sizeof *coll->host_id, "the hosts of a job");
    for (uint32_t r = 0; r < coll->size; r++) {
        coll->local[r] = coll->host_shm ? yk__shm_index(coll->host_shm, r) : UINT32_MAX;
        coll->host_id[r] = messages_only ? r : yk__control_host(coll->control, r);
    }
    return YK_OK;
}

static yk_status connect_ranks(yk__coll *coll, const yk__coll_config *config, yk_error *err)
{
    yk__shm *shm = NULL;
    if (!config->messages_only && yk__shm_attach(coll->control, &shm, err))
        return err->status;
    if (shm)
        yk__shm_watch(shm, watch_calls, coll);
    if (shm && yk__shm_ranks(shm) == coll->size) {
        coll->shm = shm;
        return yk__feed_new(coll, err);
    }
    coll->host_shm = shm;
    if (list_hosts(coll, config->messages_only, err) || yk__msg_open(coll, config->transport, config->seal, err))
        return err->status;
    return config->progress ? yk__msg_start_thread(coll, err) : YK_OK;
}

yk_status yk__coll_new(const yk__coll_config *config, yk__coll **out, yk_error *err)
{
    yk__comm *comm = NULL;
    yk__coll *coll = yk__calloc(1, sizeof *coll);
    if (!coll)
        return yk__fail_mem(err, sizeof *coll, "the communicators of a rank");
    coll->control = config->control;
    coll->place = config->place;
    coll->by_host = config->by_host;
    coll->wire = config->wire;
    coll->narrow_params = config->narrow_params;
    coll->columns_from = config->columns_from ? config->columns_from : UINT64_MAX;
    coll->rounds_below = coll->slices_below = config->rounds_below;
    coll->size = coll->control ? yk__control_size(coll->control) : 1;
    coll->rank = coll->control ? yk__control_rank(coll->control) : 0;
    if ((coll->control && connect_ranks(coll, config, err)) || yk__comm_make(coll, &comm, err) /* the world, then */ ||
        yk__comm_make(coll, &comm, err) /* the members */ || (!config->columns_from && yk__plan_make(coll, err))) {
        yk__coll_free(coll);
        return err->status;
    }
    *out = coll;
    return YK_OK;
}

void yk__coll_free(yk__coll *coll)
{
    if (!coll)
        return;
    yk__msg_stop(coll);
    while (coll->comm) {
        yk__comm *next = coll->comm->next;
        yk__comm_free(coll->comm);
        coll->comm = next;
    }
    yk__msg_feed_free(coll);
    yk__msg_pulls_free(coll);
    yk__msg_close(coll);
    yk__shm_detach(coll->shm);
    yk__shm_detach(coll->host_shm);
    yk__free(coll->host_id);
    yk__free(coll->local);
    yk__free(coll);
}

bool yk__coll_sends(const yk__coll *coll)
{
    return coll->plane;
}

void yk__coll_place(yk__coll *coll, void (*place)(const char **file, int *line))
{
    coll->place = place;
}

void yk__coll_rows(yk__coll *coll, const bool *none)
{
    coll->no_rows = none;
}

yk__coll_use yk__coll_used_by(yk__coll *coll, yk__coll_use use)
{
    const yk__coll_use before = coll->use;
    coll->use = use;
    return before;
}

/* ---- The end of the job -------------------------------------------------------------------------------------------- */

void yk__coll_abort(yk__coll *coll, const yk_error *why)
{
    yk_error named = *why;
    if (!coll->control) {
        int nobody = 0; /* another thread may end the job at this moment: the first error counts */
        if (__atomic_compare_exchange_n(&coll->ending, &nobody, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            coll->why = *why;
            __atomic_store_n(&coll->cancelled, 1, __ATOMIC_RELEASE);
        }
        return;
    }
    yk__fail_in(&named, "%s", yk__control_name(coll->control, coll->rank));
    yk__control_end(coll->control, coll->rank, named.status, named.text);
}

bool yk__coll_why(const yk__coll *coll, yk_error *err)
{
    if (coll->control)
        return yk__control_check(coll->control, err) != YK_OK;
    if (!__atomic_load_n(&coll->cancelled, __ATOMIC_ACQUIRE))
        return false;
    *err = coll->why;
    return true;
}

const volatile int *yk__coll_cancelled(const yk__coll *coll)
{
    return coll->control ? yk__control_cancelled(coll->control) : &coll->cancelled;
}

/* ---- Buffers ------------------------------------------------------------------------------------------------------- */

static uint64_t whole_lines(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Allocates memory that only this rank sees. */
static yk_status alloc_own(yk__coll *coll, const char *what, yk__coll_buffer *b, yk_error *err)
{
    const uint64_t bytes = b->bytes < 4096 ? 4096 : b->bytes;
    if (bytes > SIZE_MAX / 2)
        return yk__fail_mem(err, bytes, what);
    b->mem = yk__malloc_aligned(bytes, 4096);
    if (!b->mem)
        return yk__fail_mem(err, bytes, what);
    memset(b->mem, 0, bytes);
    b->stride = whole_lines(b->bytes);
    if (coll->plane && yk__msg_register(coll, b, err)) {
        yk__free(b->mem);
        return err->status;
    }
    return YK_OK;
}

static yk_status alloc_common(yk__coll *coll, const char *what, yk__coll_mode mode, yk__coll_buffer *b, yk_error *err)
{
    b->stride = mode == YK__COLL_PRIVATE ? whole_lines(b->bytes) : 0;
    if (b->stride && b->bytes > INT64_MAX / 2 / coll->size)
        return yk__fail_mem(err, b->bytes, what);
    if (mode == YK__COLL_SPARSE ? yk__shm_alloc_sparse(coll->shm, what, b->bytes, &b->base, err)
                                : yk__shm_alloc(coll->shm, what, b->stride ? b->stride * coll->size : b->bytes, &b->base, err))
        return err->status;
    b->mem = (char *)b->base + b->stride * coll->rank;
    return YK_OK;
}

/* Allocates a block for each rank of this host. */
static yk_status alloc_host(yk__coll *coll, const char *what, yk__coll_buffer *b, yk_error *err)
{
    const uint32_t ranks = yk__shm_ranks(coll->host_shm);
    b->stride = whole_lines(b->bytes);
    if (b->bytes > INT64_MAX / 2 / ranks)
        return yk__fail_mem(err, b->bytes, what);
    if (yk__shm_alloc(coll->host_shm, what, b->stride * ranks, &b->base, err))
        return err->status;
    b->local = coll->local;
    b->mem = (char *)b->base + b->stride * coll->local[coll->rank];
    if (yk__msg_register(coll, b, err))
        yk__shm_release(coll->host_shm, b->base);
    return err->status;
}

static yk_status alloc_block(yk__coll *coll, const char *what, yk__coll_mode mode, yk__coll_buffer *b, yk_error *err)
{
    if (coll->shm)
        return alloc_common(coll, what, mode, b, err);
    return coll->host_shm ? alloc_host(coll, what, b, err) : alloc_own(coll, what, b, err);
}

yk_status yk__coll_alloc(yk__coll *coll, const char *what, uint64_t bytes, yk__coll_mode mode, yk__coll_buffer *buffer,
                         yk_error *err)
{
    yk__coll_buffer b = {.bytes = bytes};
    yk__request request = {.comm = coll->comm, .desc = {.kind = YK__COLL_ALLOC, .dtype = YK_U8}};
    yk_status s;
    if (yk__feed_meet(coll, err))
        return err->status;
    if (coll->control) {
        yk__call_begin(&request);
        yk__feed_wake(coll);
        yk__msg_feed_send(coll);
    }
    coll->waits = &request.call;
    s = alloc_block(coll, what, mode, &b, err);
    coll->waits = NULL;
    if (!s)
        *buffer = b;
    return s;
}

yk_status yk__coll_fill(yk__coll *coll, const yk__coll_buffer *b, uint64_t at, uint64_t bytes, yk_error *err)
{
    return coll->shm ? yk__shm_fill(coll->shm, b->base, at, bytes, err) : YK_OK;
}

void yk__coll_release(yk__coll *coll, yk__coll_buffer *b)
{
    if (b->registered)
        yk__msg_unregister(coll, b);
    if (b->base)
        yk__shm_release(coll->shm ? coll->shm : coll->host_shm, b->base);
    else
        yk__free(b->mem);
    yk__free(b->residual);
    *b = (yk__coll_buffer){0};
}

bool yk__coll_keeps_residual(const yk__coll *coll)
{
    return coll->plane && coll->wire == YK__WIRE_INT8;
}

yk_status yk__coll_keep_residual(yk__coll *coll, yk__coll_buffer *b, yk_error *err)
{
    if (!yk__coll_keeps_residual(coll) || b->residual)
        return YK_OK;
    b->residual = yk__calloc(1, b->bytes);
    return b->residual ? YK_OK : yk__fail_mem(err, b->bytes, "rounding errors of gradients");
}

void yk__coll_scale_residual(yk__coll_buffer *b, float factor)
{
    for (uint64_t i = 0; b->residual && i < b->bytes / sizeof *b->residual; i++)
        b->residual[i] *= factor;
}

void yk__coll_clear_residual(yk__coll_buffer *b)
{
    if (b->residual)
        memset(b->residual, 0, b->bytes);
}

bool yk__coll_shares(const yk__coll *coll)
{
    return !coll->plane;
}

bool yk__coll_drives(const yk__coll *coll)
{
    return !coll->plane || coll->plane->threaded;
}

bool yk__coll_narrows(const yk__coll *coll)
{
    return coll->plane && coll->narrow_params;
}

uint64_t yk__coll_sent(yk__coll *coll)
{
    return coll->plane ? yk__msg_sent_far(coll) : 0;
}

/* ---- Parameters for reading by excluded ranks --------------------------------------------------------------------- */

void yk__coll_updating(yk__coll *coll, bool on)
{
    yk__feed_updating(coll, on);
}

uint32_t yk__coll_read_begin(const yk__coll *coll)
{
    return yk__feed_read_begin(coll);
}

bool yk__coll_read_end(yk__coll *coll, uint32_t begun)
{
    return yk__feed_read_end(coll, begun);
}

void yk__coll_reading(yk__coll *coll, bool on)
{
    yk__feed_reading(coll, on);
}

bool yk__coll_is_read(const yk__coll *coll)
{
    return yk__feed_is_read(coll);
}

void yk__coll_before_meeting(yk__coll *coll, yk_status (*meeting)(void *arg, yk_error *err), void *arg)
{
    coll->meeting = meeting;
    coll->meeting_arg = arg;
}
