/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's exchanges with other ranks: requests on the world and on the members. The step thread of core/run calls all of them.
 *
 * Members alone call the functions under "By members". All ranks call the functions under "For all" and "By all ranks", and the
 * allocations, in one order. An excluded rank calls yk__exchange_read alone; any rank calls yk__exchange_fill and the two notes on roles
 * (yk__exchange_excludes, yk__exchange_note_members) alone. far_slices.c (core/run/values) makes the pulls, which need no other rank's
 * call.
 */
#include "core/run/exchange.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/round.h"
#include "core/run/queue.h"

#define PAGE 4096u /* bytes: buffers over host memory begin at multiples */

static yk__part find_part(const yk__exchange *exchange)
{
    if (!exchange->roles.member[exchange->rank])
        return YK__PART_EXCLUDED;
    return yk__exchange_members(exchange) == 1 ? YK__PART_SOLE : YK__PART_MEMBER;
}

static yk_status roles_new(yk__exchange *exchange, yk_error *err)
{
    const size_t world = exchange->world;
    exchange->owns = yk__calloc(world, sizeof *exchange->owns + sizeof *exchange->member);
    if (!exchange->owns)
        return yk__fail_mem(err, world * sizeof *exchange->owns, "the roles of ranks");
    exchange->member = (bool *)(exchange->owns + world);
    exchange->roles = (yk__roles){exchange->member, exchange->owns};
    for (size_t r = 0; r < world; r++) {
        exchange->member[r] = true;
        exchange->owns[r] = 1.0;
    }
    return YK_OK;
}

yk_status yk__exchange_open(yk__exchange *exchange, yk__group *group, bool plans_only, bool local_sgd, yk_error *err)
{
    *exchange = (yk__exchange){.group = group,
                               .coll = yk__group_coll(group),
                               .rank = yk__group_rank(group),
                               .world = yk__group_size(group),
                               .plans_only = plans_only};
    if (exchange->world > 1)
        exchange->laid_for = yk__coll_shares(exchange->coll) ? YK__MEMORY : YK__MESSAGES;
    exchange->medium = plans_only ? YK__NO_MEDIUM : exchange->laid_for;
    exchange->part = exchange->world == 1 ? YK__PART_ALL : local_sgd ? YK__PART_LOCAL : YK__PART_MEMBER;
    exchange->drives = yk__coll_drives(exchange->coll);
    exchange->narrows = yk__coll_narrows(exchange->coll);
    if (roles_new(exchange, err))
        return err->status;
    return yk__slices_even(&exchange->none, 0, exchange->world, err);
}

void yk__exchange_close(yk__exchange *exchange)
{
    if (exchange->medium == YK__MESSAGES)
        yk__log(YK_LOG_DEBUG, "run", "%s: %llu bytes went to other hosts", yk__exchange_name(exchange, exchange->rank),
                (unsigned long long)yk__coll_sent(exchange->coll));
    yk__slices_free(&exchange->none);
    yk__free(exchange->owns);
}

/* The communicator of all ranks; NULL on a rank that does not talk. */
static yk__comm *world_of(const yk__exchange *exchange)
{
    return exchange->medium ? yk__coll_world(exchange->coll) : NULL;
}

static yk__comm *members_of(const yk__exchange *exchange)
{
    return exchange->medium ? yk__coll_members(exchange->coll) : NULL;
}

static yk__comm *comm_of(const yk__exchange *exchange, const yk__layout *layout)
{
    return layout->comm == YK__TO_MEMBERS ? members_of(exchange) : NULL;
}

/* Begins a request. Without a communicator it does nothing, and *r stays as it is. */
static yk_status begin_request(yk__comm *comm, const yk__coll_desc *d, yk__request **r, yk_error *err)
{
    return comm ? yk__coll_begin(comm, d, r, err) : YK_OK;
}

static yk_status run_request(yk__comm *comm, const yk__coll_desc *d, yk_error *err)
{
    return comm ? yk__coll_run(comm, d, err) : YK_OK;
}

const char *yk__exchange_name(const yk__exchange *exchange, uint32_t rank)
{
    return yk__group_name(exchange->group, rank);
}

uint32_t yk__exchange_members(const yk__exchange *exchange)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < exchange->world; r++)
        n += exchange->roles.member[r];
    return n;
}

uint32_t yk__exchange_first_member(const yk__exchange *exchange)
{
    uint32_t r = 0;
    while (!exchange->roles.member[r])
        r++;
    return r;
}

const volatile int *yk__exchange_cancel(const yk__exchange *exchange)
{
    return yk__group_cancel(exchange->group);
}

/* ---- Blocks ---- */

/* Gives a rank that is alone a block in its own memory, filled with zeros. */
static yk_status alloc_own(const yk__exchange *exchange, uint64_t n, yk__coll_buffer *block, yk_error *err)
{
    if (exchange->plans_only)
        return YK_OK;
    block->bytes = yk__round_up(n * sizeof(float), PAGE);
    block->mem = yk__malloc_aligned(block->bytes, PAGE);
    if (!block->mem)
        return yk__fail_mem(err, block->bytes, "gradients and parameters on the host");
    memset(block->mem, 0, block->bytes);
    return YK_OK;
}

static yk_status alloc_block(yk__exchange *exchange, const char *what, uint32_t layout, uint64_t n, yk__coll_mode mode,
                             yk__coll_buffer *block, yk_error *err)
{
    char name[40];
    if (exchange->world == 1)
        return alloc_own(exchange, n, block, err);
    snprintf(name, sizeof name, "%s-%u", what, layout);
    return yk__coll_alloc(exchange->coll, name, n * sizeof(float), mode, block, err);
}

yk_status yk__exchange_alloc(yk__exchange *exchange, uint32_t layout, uint64_t grads, uint64_t values, yk__blocks blocks, yk_error *err)
{
    const bool single = exchange->world == 1, makes = exchange->medium || single;
    const uint64_t copies = exchange->laid_for == YK__MEMORY ? exchange->world : 1u + (!single && yk__coll_keeps_residual(exchange->coll));
    const uint32_t due = (uint32_t)blocks & ~exchange->blocks;
    if (!yk__exchange_has_blocks(exchange) || !values)
        return YK_OK;
    exchange->shared_bytes += sizeof(float) * ((due & YK__BLOCK_GRADS ? grads * copies : 0) + (due & YK__BLOCK_VALUES ? values : 0));
    if (makes && (due & YK__BLOCK_GRADS) &&
        (alloc_block(exchange, "gradients", layout, grads, YK__COLL_PRIVATE, &exchange->grad, err) ||
         (!single && yk__coll_keep_residual(exchange->coll, &exchange->grad, err))))
        return err->status;
    if (makes && (due & YK__BLOCK_VALUES) &&
        alloc_block(exchange, "parameters", layout, values, YK__COLL_COMMON, &exchange->value, err))
        return err->status;
    exchange->blocks |= due; /* not before: ranks that meet while they make a block publish values if the mask names a block for them */
    return YK_OK;
}

yk_status yk__exchange_alloc_sparse(yk__exchange *exchange, const char *what, uint32_t layout, uint64_t head, uint64_t bytes,
                                    yk__coll_buffer *block, yk_error *err)
{
    char name[40];
    snprintf(name, sizeof name, "%s-%u", what, layout);
    if (exchange->medium != YK__MEMORY || yk__coll_alloc(exchange->coll, name, head + bytes, YK__COLL_SPARSE, block, err))
        return err->status;
    return yk__coll_fill(exchange->coll, block, 0, head, err);
}

yk_status yk__exchange_fill(yk__exchange *exchange, const yk__coll_buffer *block, uint64_t at, uint64_t bytes, void **mem, yk_error *err)
{
    *mem = NULL;
    exchange->shared_bytes += bytes;
    if (!block->mem || yk__coll_fill(exchange->coll, block, at, bytes, err))
        return err->status;
    *mem = (char *)block->mem + at;
    return YK_OK;
}

void yk__exchange_release_sparse(yk__exchange *exchange, yk__coll_buffer *block)
{
    if (block->mem)
        yk__coll_release(exchange->coll, block);
}

void yk__exchange_scale_residual(yk__exchange *exchange, float factor)
{
    yk__coll_scale_residual(&exchange->grad, factor);
}

void yk__exchange_clear_residual(yk__exchange *exchange)
{
    yk__coll_clear_residual(&exchange->grad);
}

static void release_block(yk__exchange *exchange, yk__coll_buffer *block)
{
    if (block->mem && exchange->world > 1) {
        yk__coll_release(exchange->coll, block);
    } else {
        yk__free(block->mem);
        *block = (yk__coll_buffer){0};
    }
}

void yk__exchange_release(yk__exchange *exchange)
{
    release_block(exchange, &exchange->grad);
    release_block(exchange, &exchange->value);
    exchange->shared_bytes = 0;
    exchange->blocks = 0;
}

yk_status yk__exchange_alloc_snapshot(yk__exchange *exchange, uint64_t bytes, yk__coll_buffer *block, yk_error *err)
{
    if (exchange->medium != YK__MEMORY)
        return yk__fail(err, YK_E_UNSUPPORTED, "the last step can be kept only where several ranks have memory in common: these %s",
                        exchange->world > 1 ? "exchange messages" : "are one");
    if (yk__coll_alloc(exchange->coll, "the last whole step", bytes, YK__COLL_COMMON, block, err))
        return err->status;
    exchange->shared_bytes += bytes;
    return YK_OK;
}

void yk__exchange_release_snapshot(yk__exchange *exchange, yk__coll_buffer *block)
{
    exchange->shared_bytes -= block->bytes;
    yk__coll_release(exchange->coll, block);
}

float *yk__exchange_grads(const yk__exchange *exchange, uint64_t at)
{
    return exchange->grad.mem ? (float *)exchange->grad.mem + at : NULL;
}

float *yk__exchange_values(const yk__exchange *exchange, uint64_t at)
{
    return exchange->value.mem ? (float *)exchange->value.mem + at : NULL;
}

static bool is_cancelled(const yk__exchange *exchange)
{
    return __atomic_load_n(yk__group_cancel(exchange->group), __ATOMIC_ACQUIRE);
}

static yk_status read_values(yk__exchange *exchange, uint64_t at, uint64_t n, float *data, yk_error *err)
{
    const struct timespec moment = {0, 100000};
    uint32_t begun;
    do {
        if (is_cancelled(exchange))
            return yk__fail(err, YK_E_CANCELLED, "the job ends");
        while ((begun = yk__coll_read_begin(exchange->coll)) % 2 && !is_cancelled(exchange))
            nanosleep(&moment, NULL);
        memcpy(data, yk__exchange_values(exchange, at), n * sizeof *data);
    } while (!yk__coll_read_end(exchange->coll, begun));
    return YK_OK;
}

yk_status yk__exchange_read(yk__exchange *exchange, uint64_t at, uint64_t n, float *data, yk_error *err)
{
    yk__coll_reading(exchange->coll, true);
    read_values(exchange, at, n, data, err);
    yk__coll_reading(exchange->coll, false);
    return err->status;
}

void yk__exchange_before_meeting(const yk__exchange *exchange, yk_status (*meeting)(void *arg, yk_error *err), void *arg)
{
    if (exchange->medium)
        yk__coll_before_meeting(exchange->coll, meeting, arg);
}

bool yk__exchange_is_read(const yk__exchange *exchange)
{
    return yk__coll_is_read(exchange->coll);
}

void yk__exchange_updating(yk__exchange *exchange, bool on)
{
    yk__coll_updating(exchange->coll, on);
}

/* ---- By members ---- */

/* In common memory the step thread itself adds gradients up, so a second request in flight would not make it faster. */
uint32_t yk__exchange_depth(const yk__exchange *exchange)
{
    return exchange->medium == YK__MEMORY ? 1 : YK__COLL_REQUESTS / 2;
}

/* A request on the bucket that begins at element `at` of a block. */
static yk__coll_desc bucket_desc(yk__coll_kind kind, const yk__coll_buffer *block, uint64_t at,
                                 const yk__layout *layout)
{
    return (yk__coll_desc){
        .kind = kind, .dtype = layout->dtype, .count = layout->n, .buffer = block, .offset = at, .parts = &layout->slice};
}

yk_status yk__exchange_reduce_scatter(yk__exchange *exchange, uint64_t at, const yk__layout *layout, yk__exact *squares, int64_t *done_ns,
                                      yk__request **r, yk_error *err)
{
    yk__coll_desc d = bucket_desc(YK__COLL_REDUCE_SCATTER, &exchange->grad, at, layout);
    d.out = yk__exchange_grads(exchange, at + layout->slice.begin[exchange->rank]);
    d.squares = squares;
    d.done_ns = done_ns;
    return begin_request(comm_of(exchange, layout), &d, r, err);
}

yk_status yk__exchange_all_gather(yk__exchange *exchange, uint64_t at, const yk__layout *layout, bool narrow, int64_t *done_ns,
                                  yk__request **r, yk_error *err)
{
    yk__coll_desc d = bucket_desc(YK__COLL_ALL_GATHERV, &exchange->value, at, layout);
    d.narrow = narrow;
    d.done_ns = done_ns;
    return begin_request(comm_of(exchange, layout), &d, r, err);
}

yk_status yk__exchange_all_written(yk__exchange *exchange, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_ALL_GATHERV, .dtype = YK_F32, .buffer = &exchange->value, .parts = &exchange->none};
    return run_request(exchange->medium == YK__MEMORY ? members_of(exchange) : NULL, &d, err);
}

yk_status yk__exchange_wait(yk__request **r, yk_error *err)
{
    yk__request *request = *r;
    *r = NULL;
    return request ? yk__coll_wait(request, err) : YK_OK;
}

void yk__exchange_drop(yk__request **r)
{
    if (*r)
        yk__coll_cancel(*r);
    *r = NULL;
}

/* The columns from `from` on that fit in one request (YK__COLL_SMALL bytes), of one row or of three rows of moments. */
static yk__coll_desc columns_desc(float *v, uint64_t n, uint32_t op, uint64_t from)
{
    const uint32_t rows = op == YK_REDUCE_MOMENTS ? 3 : 1;
    const uint64_t columns = n / rows, most = YK__COLL_SMALL / sizeof(float) / rows;
    return (yk__coll_desc){.kind = YK__COLL_ALL_REDUCE,
                           .dtype = YK_F32,
                           .op = op == YK_REDUCE_MOMENTS ? YK__COLL_MOMENTS : op == YK_REDUCE_MAX ? YK__COLL_MAX : YK__COLL_SUM,
                           .out = v + from,
                           .count = columns - from < most ? columns - from : most,
                           .rows = rows,
                           .pitch = columns};
}

yk_status yk__exchange_all_reduce_begin(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, yk_error *err)
{
    const yk__coll_desc first = columns_desc(v, n, op, 0);
    return begin_request(members_of(exchange), &first, &exchange->reduction, err);
}

/* Columns beyond the first request are exchanged here. */
yk_status yk__exchange_all_reduce_end(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, double *waited, yk_error *err)
{
    const uint64_t columns = op == YK_REDUCE_MOMENTS ? n / 3 : n;
    for (uint64_t from = 0; from < columns && exchange->medium;) {
        const yk__coll_desc d = columns_desc(v, n, op, from);
        double begin;
        if (from && begin_request(members_of(exchange), &d, &exchange->reduction, err))
            return err->status;
        begin = yk__clock_seconds();
        if (yk__exchange_wait(&exchange->reduction, err))
            return err->status;
        *waited += yk__clock_seconds() - begin;
        from += d.count;
    }
    return YK_OK;
}

yk_status yk__exchange_sum_vector(yk__exchange *exchange, float *v, uint64_t n, yk_error *err)
{
    double waited = 0.0;
    if (!n || yk__exchange_all_reduce_begin(exchange, v, n, YK_REDUCE_SUM, err))
        return err->status;
    return yk__exchange_all_reduce_end(exchange, v, n, YK_REDUCE_SUM, &waited, err);
}

/* ---- For all ---- */

yk_status yk__exchange_sum(yk__exchange *exchange, double *v, uint32_t n, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .feeds = true, .out = v, .count = n};
    return run_request(members_of(exchange), &d, err);
}

/* *all gets `bytes` bytes from each rank, for the caller to free; it stays NULL on a silent rank, or with an error. */
static yk_status gather_numbers(yk__exchange *exchange, yk__comm *comm, bool feeds, const void *own, uint64_t bytes, void **all,
                                yk_error *err)
{
    yk__coll_desc d = {.kind = YK__COLL_ALL_GATHER, .dtype = YK_U8, .feeds = feeds, .in = own, .count = bytes};
    *all = NULL;
    if (!comm)
        return YK_OK;
    d.out = *all = yk__calloc(exchange->world, bytes);
    if (!*all)
        return yk__fail_mem(err, exchange->world * bytes, "the ranks' numbers");
    if (yk__coll_run(comm, &d, err)) {
        yk__free(*all);
        *all = NULL;
    }
    return err->status;
}

yk_status yk__exchange_least(yk__exchange *exchange, uint32_t *v, yk_error *err)
{
    const uint32_t own = *v;
    void *numbers;
    if (gather_numbers(exchange, members_of(exchange), true, &own, sizeof own, &numbers, err) || !numbers)
        return err->status;
    *v = UINT32_MAX;
    for (uint32_t r = 0; r < exchange->world; r++) {
        const uint32_t number = ((const uint32_t *)numbers)[r];
        *v = exchange->roles.member[r] && number < *v ? number : *v;
    }
    yk__free(numbers);
    return YK_OK;
}

/* ---- By all ranks ---- */

yk_status yk__exchange_largest(yk__exchange *exchange, uint32_t n, uint32_t *v, yk_error *err)
{
    void *numbers;
    if (gather_numbers(exchange, world_of(exchange), false, v, n * sizeof *v, &numbers, err) || !numbers)
        return err->status;
    for (uint32_t i = 0; i < exchange->world * n; i++) {
        const uint32_t number = ((const uint32_t *)numbers)[i];
        v[i % n] = number > v[i % n] ? number : v[i % n];
    }
    yk__free(numbers);
    return YK_OK;
}

yk_status yk__exchange_alike(yk__exchange *exchange, uint32_t number, bool *alike, yk_error *err)
{
    uint32_t *all = yk__calloc(exchange->world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, exchange->world * sizeof *all, "the ranks' numbers");
    *alike = !yk__group_all_gather(exchange->group, &number, sizeof number, all, err);
    for (uint32_t r = 0; r < exchange->world; r++)
        *alike = *alike && all[r] == number;
    yk__free(all);
    return err->status;
}

yk_status yk__exchange_compare(yk__exchange *exchange, uint64_t number, uint32_t *rank, yk_error *err)
{
    void *numbers;
    *rank = YK_NONE;
    if (gather_numbers(exchange, world_of(exchange), false, &number, sizeof number, &numbers, err) || !numbers)
        return err->status;
    const uint64_t *all = numbers;
    for (uint32_t r = exchange->world; r-- > 1;)
        *rank = all[r] != all[0] ? r : *rank;
    yk__free(numbers);
    return YK_OK;
}

yk_status yk__exchange_broadcast(yk__exchange *exchange, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = bytes};
    return run_request(world_of(exchange), &d, err);
}

yk_status yk__exchange_spread(yk__exchange *exchange, const yk__slices *s, uint64_t at, uint64_t n, float *data, yk_error *err)
{
    for (uint32_t r = 0; r < exchange->world; r++) {
        const yk__range own = yk__range_meet(at, n, s->begin[r], s->begin[r + 1]);
        if (own.from < own.to && yk__exchange_broadcast(exchange, r, data + (own.from - at), (own.to - own.from) * sizeof *data, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__exchange_move(yk__exchange *exchange, const yk__slices *was, const yk__slices *now, float *all, yk_error *err)
{
    for (uint32_t r = 0; r < exchange->world; r++) {
        const uint64_t from = was->begin[r], to = was->begin[r + 1];
        uint64_t keep = now->begin[r] > from ? now->begin[r] : from, kept = now->begin[r + 1] < to ? now->begin[r + 1] : to;
        if (keep >= kept)
            keep = kept = to;
        if ((keep > from && yk__exchange_broadcast(exchange, r, all + from, (keep - from) * sizeof *all, err)) ||
            (to > kept && yk__exchange_broadcast(exchange, r, all + kept, (to - kept) * sizeof *all, err)))
            return err->status;
    }
    return YK_OK;
}

bool yk__exchange_excludes(const yk__exchange *exchange)
{
    return exchange->medium && yk__group_excludes(exchange->group);
}

yk_status yk__exchange_barrier(yk__exchange *exchange, yk_error *err)
{
    return run_request(world_of(exchange), &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err);
}

yk_status yk__exchange_set_members(yk__exchange *exchange, const bool *member, yk_error *err)
{
    return exchange->medium ? yk__group_set_members(exchange->group, member, err) : YK_OK;
}

void yk__exchange_note_members(yk__exchange *exchange, const bool *member)
{
    memcpy(exchange->member, member, exchange->world * sizeof *member);
    exchange->part = find_part(exchange);
}
