/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's talk with other ranks, over the shared memory and the collectives of core/group. */
#include "core/run/exchange.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/run/queue.h"

void yk__exchange_open(yk__exchange *exchange, yk__group *group, bool plans_only)
{
    *exchange = (yk__exchange){.group = group, .rank = yk__group_rank(group), .world = yk__group_size(group)};
    exchange->talks = exchange->world > 1 && !plans_only;
    for (uint32_t r = 0; r < exchange->world; r++) {
        exchange->roles.member[r] = true;
        exchange->roles.owns[r] = 1.0;
    }
}

const char *yk__exchange_name(const yk__exchange *exchange, uint32_t rank)
{
    return yk__group_name(exchange->group, rank);
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

/* ---- Shared memory ---- */

static yk_status share_block(yk__exchange *exchange, const char *what, uint32_t layout, uint64_t n, float **block, yk_error *err)
{
    char name[40];
    void *mem;
    snprintf(name, sizeof name, "%s-%u", what, layout);
    if (yk__group_shared(exchange->group, name, n * sizeof(float), &mem, err))
        return err->status;
    *block = mem;
    return YK_OK;
}

yk_status yk__exchange_share(yk__exchange *exchange, uint32_t layout, uint64_t n, yk_error *err)
{
    exchange->n = n;
    if (exchange->world == 1 || !n)
        return YK_OK;
    exchange->shared_bytes = n * sizeof(float) * (exchange->world + 1ull);
    if (!exchange->talks || share_block(exchange, "gradients", layout, n * exchange->world, &exchange->grad, err))
        return err->status;
    return share_block(exchange, "parameters", layout, n, &exchange->value, err);
}

void yk__exchange_unshare(yk__exchange *exchange)
{
    yk__group_release(exchange->group, exchange->grad);
    yk__group_release(exchange->group, exchange->value);
    exchange->grad = exchange->value = NULL;
    exchange->n = exchange->shared_bytes = 0;
}

float *yk__exchange_grads(const yk__exchange *exchange, uint64_t at)
{
    return exchange->grad ? exchange->grad + exchange->rank * exchange->n + at : NULL;
}

float *yk__exchange_values(const yk__exchange *exchange, uint64_t at)
{
    return exchange->value ? exchange->value + at : NULL;
}

static bool is_cancelled(const yk__exchange *exchange)
{
    return __atomic_load_n(yk__group_cancel(exchange->group), __ATOMIC_ACQUIRE);
}

yk_status yk__exchange_read(yk__exchange *exchange, uint64_t at, uint64_t n, float *data, yk_error *err)
{
    const struct timespec moment = {0, 100000};
    uint32_t begun;
    do {
        if (is_cancelled(exchange))
            return yk__fail(err, YK_E_CANCELLED, "the job ends");
        while ((begun = yk__group_read_begin(exchange->group)) % 2 && !is_cancelled(exchange))
            nanosleep(&moment, NULL);
        memcpy(data, exchange->value + at, n * sizeof *data);
    } while (!yk__group_read_end(exchange->group, begun));
    return YK_OK;
}

void yk__exchange_updating(yk__exchange *exchange, bool on)
{
    yk__group_updating(exchange->group, on);
}

/* ---- By members ---- */

yk_status yk__exchange_reduce_scatter(yk__exchange *exchange, uint64_t at, const yk__slices *s, float *out, yk__exact *squares,
                                      yk_error *err)
{
    if (!exchange->talks)
        return YK_OK;
    return yk__group_reduce_slice(exchange->group, exchange->grad + at, exchange->n * sizeof(float), s, out, squares, err);
}

yk_status yk__exchange_all_gather(yk__exchange *exchange, yk_error *err)
{
    return exchange->talks ? yk__group_slices_ready(exchange->group, err) : YK_OK;
}

/* The part of the vector from column `from` on that goes in one message: of one row, or of the three of moments. */
static yk__columns message_of(float *v, uint64_t n, uint32_t op, uint64_t from)
{
    const uint32_t rows = op == YK_REDUCE_MOMENTS ? 3 : 1, most = YK__GROUP_FLOATS / rows;
    const uint64_t columns = n / rows;
    return (yk__columns){v + from, rows, (uint32_t)(columns - from < most ? columns - from : most), columns, op == YK_REDUCE_MAX};
}

yk_status yk__exchange_all_reduce_begin(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, yk_error *err)
{
    const yk__columns first = message_of(v, n, op, 0);
    return exchange->talks ? yk__group_reduce_begin(exchange->group, &first, err) : YK_OK;
}

/* What does not go into one message follows here. */
yk_status yk__exchange_all_reduce_end(yk__exchange *exchange, float *v, uint64_t n, uint32_t op, double *waited, yk_error *err)
{
    const uint64_t columns = op == YK_REDUCE_MOMENTS ? n / 3 : n;
    for (uint64_t from = 0; from < columns && exchange->talks;) {
        const yk__columns c = message_of(v, n, op, from);
        double begin;
        if (from && yk__group_reduce_begin(exchange->group, &c, err))
            return err->status;
        begin = yk__seconds();
        if (yk__group_reduce_end(exchange->group, &c, err))
            return err->status;
        *waited += yk__seconds() - begin;
        from += c.n;
    }
    return YK_OK;
}

/* ---- For all ---- */

yk_status yk__exchange_sum(yk__exchange *exchange, double *v, uint32_t n, yk_error *err)
{
    return exchange->talks ? yk__group_sum_members(exchange->group, v, n, err) : YK_OK;
}

yk_status yk__exchange_least(yk__exchange *exchange, uint32_t *v, yk_error *err)
{
    uint32_t own = *v, *all;
    if (!exchange->talks)
        return YK_OK;
    all = yk__calloc(exchange->world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, exchange->world * sizeof *all, "the ranks' numbers");
    if (!yk__group_gather_members(exchange->group, &own, sizeof own, all, err)) {
        *v = UINT32_MAX;
        for (uint32_t r = 0; r < exchange->world; r++)
            *v = exchange->roles.member[r] && all[r] < *v ? all[r] : *v;
    }
    yk__free(all);
    return err->status;
}

/* ---- By all ranks ---- */

yk_status yk__exchange_compare(yk__exchange *exchange, uint64_t number, uint32_t *rank, yk_error *err)
{
    uint64_t *all;
    *rank = YK_NONE;
    if (!exchange->talks)
        return YK_OK;
    all = yk__calloc(exchange->world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, exchange->world * sizeof *all, "the ranks' numbers");
    if (!yk__group_all_gather(exchange->group, &number, sizeof number, all, err))
        for (uint32_t r = exchange->world; r-- > 1;)
            *rank = all[r] != all[0] ? r : *rank;
    yk__free(all);
    return err->status;
}

yk_status yk__exchange_broadcast(yk__exchange *exchange, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    return exchange->talks ? yk__group_broadcast(exchange->group, root, data, bytes, err) : YK_OK;
}

yk_status yk__exchange_spread(yk__exchange *exchange, const yk__slices *s, uint64_t at, uint64_t n, float *data, yk_error *err)
{
    for (uint32_t r = 0; r < exchange->world && exchange->talks; r++) {
        const uint64_t from = at > s->begin[r] ? at : s->begin[r];
        const uint64_t to = at + n < s->begin[r + 1] ? at + n : s->begin[r + 1];
        if (from < to && yk__exchange_broadcast(exchange, r, data + (from - at), (to - from) * sizeof *data, err))
            return err->status;
    }
    return YK_OK;
}

yk_status yk__exchange_move(yk__exchange *exchange, const yk__slices *was, const yk__slices *now, float *all, yk_error *err)
{
    for (uint32_t r = 0; r < exchange->world && exchange->talks; r++) {
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
    return exchange->talks && yk__group_excludes(exchange->group);
}

yk_status yk__exchange_barrier(yk__exchange *exchange, yk_error *err)
{
    return exchange->talks ? yk__group_barrier(exchange->group, err) : YK_OK;
}

yk_status yk__exchange_set_members(yk__exchange *exchange, const bool *member, yk_error *err)
{
    return exchange->talks ? yk__group_set_members(exchange->group, member, err) : YK_OK;
}
