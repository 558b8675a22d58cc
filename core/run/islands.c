/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands: finds the ranks of one host whose devices exchange without the host, as GPUs do by NCCL. Joins them, and runs their sums and
 * broadcasts on the devices (islands.h has the order of sums by YOKE_REPRODUCIBILITY).
 *
 * A layout of parameters opens islands (core/run/values/param_layout.c), and the ways of exchange (ways/) submit requests, in the step
 * thread. All members submit the same requests in the same order. yk__island_abort ends requests that wait for a rank that will not come.
 */
#include "core/run/islands.h"

#include <stdio.h>
#include <string.h>
#include <yoke/extension.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/process/signals.h"

/* ---- Members ---- */

/* A rank's description of its device, sent to all ranks. */
typedef struct island_info {
    char name[64];     /* name of the island; "" if the device is in none */
    char device[80];   /* differs between devices of a host */
    uint32_t is_single; /* a device is a member once */
    uint32_t is_fixed;  /* its sums have a fixed order */
    uint32_t is_able;   /* its plugin can join devices, even if it does not here */
    uint32_t reads_host; /* it computes in the host's memory */
} island_info;

typedef struct island_ticket {
    uint32_t bytes;
    uint8_t data[YK__ISLAND_TICKET];
} island_ticket;

static const yk_coll *find_coll(const yk__exchange *exchange, const yk__device *dev)
{
    yk_device *handle;
    return exchange->drives && exchange->part != YK__PART_LOCAL ? yk__device_coll(dev, &handle) : NULL;
}

static yk_status fill_info(const yk__queue *queue, const yk_coll *coll, island_info *info, yk_error *err)
{
    const yk__device *dev = queue->dev;
    yk_device *handle;
    *info = (island_info){.name = "", .is_able = yk__device_coll(dev, &handle) != NULL, .reads_host = yk__queue_wraps(queue)};
    if (!coll)
        return YK_OK;
    info->is_single = coll->flags & YK_COLL_ONE_PER_DEVICE;
    info->is_fixed = coll->flags & YK_COLL_FIXED_ORDER;
    snprintf(info->device, sizeof info->device, "%.63s#%u", dev->caps.locality, *dev->caps.locality ? 0 : dev->place.device);
    yk__plugin_message();
    const yk_status s = coll->island(handle, info->name);
    info->name[sizeof info->name - 1] = 0;
    return s ? yk__plugin_fail(err, dev->plugin, s, "asking which devices can be joined") : YK_OK;
}

/* The devices of two ranks could be in one island: they have one name and are on one host. */
static bool has_reach(const yk__exchange *exchange, const island_info *info, uint32_t a, uint32_t b)
{
    return *info[a].name && !strcmp(info[a].name, info[b].name) && yk__group_same_host(exchange->group, a, b);
}

/* The device of rank b is in the island of rank a's. If a device can be a member only once, b must be the first rank on its device. */
static bool is_member(const yk__exchange *exchange, const island_info *info, uint32_t a, uint32_t b)
{
    for (uint32_t r = 0; r < b && info[b].is_single; r++)
        if (has_reach(exchange, info, a, r) && !strcmp(info[r].device, info[b].device))
            return false;
    return has_reach(exchange, info, a, b);
}

/* The lowest rank of rank r's island; UINT32_MAX if r is in none. */
static uint32_t find_lead(const yk__exchange *exchange, const island_info *info, uint32_t r)
{
    for (uint32_t first = 0; first <= r && is_member(exchange, info, r, r); first++)
        if (is_member(exchange, info, r, first))
            return first;
    return UINT32_MAX;
}

/* Lists the lead of each rank's island, for all islands that can add up in a fixed order. */
static yk_status list_leads(yk__island *island, const island_info *info, yk_error *err)
{
    const uint32_t world = island->exchange->world;
    island->lead = yk__calloc(world, sizeof *island->lead);
    if (!island->lead)
        return yk__fail_mem(err, world * sizeof *island->lead, "an island");
    for (uint32_t r = 0; r < world; r++)
        island->lead[r] = find_lead(island->exchange, info, r);
    for (uint32_t r = 0; r < world; r++)
        for (uint32_t i = 0, lead = island->lead[r]; lead != UINT32_MAX && !info[r].is_fixed && i < world; i++)
            island->lead[i] = island->lead[i] == lead ? UINT32_MAX : island->lead[i];
    return YK_OK;
}

static yk_status list_able(yk__island *island, const island_info *info, yk_error *err)
{
    const uint32_t world = island->exchange->world;
    island->able = yk__calloc(world, sizeof *island->able);
    if (!island->able)
        return yk__fail_mem(err, world * sizeof *island->able, "an island");
    for (uint32_t r = 0; r < world; r++) {
        island->able[r] = info[r].is_able;
        island->reads_host = island->reads_host || info[r].reads_host;
    }
    return YK_OK;
}

/* Fills the list of members; it stays empty if this rank would be the only one. */
static yk_status list_members(yk__island *island, const island_info *info, yk_error *err)
{
    const yk__exchange *exchange = island->exchange;
    island->rank = yk__calloc(exchange->world, sizeof *island->rank);
    if (!island->rank)
        return yk__fail_mem(err, exchange->world * sizeof *island->rank, "an island");
    for (uint32_t r = 0; r < exchange->world && is_member(exchange, info, exchange->rank, exchange->rank); r++)
        if (is_member(exchange, info, exchange->rank, r)) {
            island->own = r == exchange->rank ? island->size : island->own;
            island->rank[island->size++] = r;
        }
    return YK_OK;
}

/* ---- Joining ---- */

static yk_status make_ticket(const yk__island *island, island_ticket *ticket, yk_error *err)
{
    const yk__device *dev = island->queue->dev;
    if (island->size < 2 || island->own)
        return YK_OK;
    yk__signals kept;
    yk__plugin_message();
    yk__signals_keep(&kept); /* a library may be loaded now */
    const yk_status s = island->coll->ticket(dev->handle, ticket->data, &ticket->bytes);
    yk__signals_restore(&kept);
    return s ? yk__plugin_fail(err, dev->plugin, s, "a ticket for an island") : YK_OK;
}

static yk_status join_members(yk__island *island, const island_ticket *ticket, yk_error *err)
{
    const yk__device *dev = island->queue->dev;
    if (island->size < 2)
        return YK_OK;
    if (yk__island_join(island->queue->dev, island->coll, ticket->data, ticket->bytes, island->own, island->size, island->queue->cancel,
                        &island->comm, err))
        return err->status;
    yk__log(YK_LOG_INFO, "run", "%s: one of %u devices that compute together; %s", dev->caps.name, island->size,
            yk__island_sums(island) || yk__island_holds_all(island) ? "they add gradients up and spread parameters"
                                                                    : "they spread parameters, sums are in rank order");
    return YK_OK;
}

/* Exchanges all ranks' descriptions, then the tickets of the ranks that begin an island. Devices that plan only are not joined. */
static yk_status join_ranks(yk__island *island, yk__group *group, island_info *info, island_ticket *ticket, yk_error *err)
{
    const yk__exchange *exchange = island->exchange;
    island_info own_info;
    island_ticket own_ticket = {0};
    if (fill_info(island->queue, island->coll, &own_info, err) ||
        yk__group_all_gather(group, &own_info, sizeof own_info, info, err) || list_members(island, info, err) ||
        list_leads(island, info, err) || list_able(island, info, err) || !exchange->medium)
        return err->status;
    if (make_ticket(island, &own_ticket, err) || yk__group_all_gather(group, &own_ticket, sizeof own_ticket, ticket, err))
        return err->status;
    return join_members(island, &ticket[island->size ? island->rank[0] : exchange->rank], err);
}

yk_status yk__island_open(yk__island *island, yk__queue *queue, yk__exchange *exchange, yk_error *err)
{
    if (exchange->world == 1 || island->asked)
        return YK_OK;
    *island = (yk__island){.queue = queue, .exchange = exchange, .asked = true, .coll = find_coll(exchange, queue->dev)};
    island->in_rank_order = yk__option_words(YK__OPTION_REPRODUCIBILITY) == 0;
    island_info *info = yk__calloc(exchange->world, sizeof *info);
    island_ticket *ticket = yk__calloc(exchange->world, sizeof *ticket);
    if (!info || !ticket)
        yk__fail_mem(err, exchange->world * (sizeof *info + sizeof *ticket), "the islands of a job");
    else
        join_ranks(island, exchange->group, info, ticket, err);
    yk__free(info);
    yk__free(ticket);
    return err->status;
}

void yk__island_close(yk__island *island)
{
    if (island->comm)
        island->coll->leave(island->comm);
    yk__free(island->rank);
    yk__free(island->lead);
    yk__free(island->able);
    *island = (yk__island){0};
}

void yk__island_abort(yk__island *island)
{
    if (island->comm)
        island->coll->abort(island->comm);
}

/* ---- Sums and broadcasts ---- */

bool yk__island_spreads(const yk__island *island)
{
    if (!island->comm)
        return false;
    for (uint32_t i = 0; i < island->size; i++)
        if (!island->exchange->roles.member[island->rank[i]])
            return false;
    return true;
}

/* Decides by all ranks' descriptions: this rank's plugin may promise a fixed order that another rank's does not. */
bool yk__island_sums(const yk__island *island)
{
    return yk__island_spreads(island) && !island->in_rank_order && island->lead[island->exchange->rank] != UINT32_MAX;
}

bool yk__island_holds_all(const yk__island *island)
{
    const bool *member = island->exchange ? island->exchange->roles.member : NULL;
    uint32_t n = 0, lead;
    if (!island->lead)
        return false;
    lead = island->lead[yk__exchange_first_member(island->exchange)];
    for (uint32_t r = 0; r < island->exchange->world; r++) {
        if (member[r] != (island->lead[r] == lead))
            return false;
        n += member[r];
    }
    return lead != UINT32_MAX && n > 1 && (!island->in_rank_order || n == 2);
}

bool yk__island_could_hold_all(const yk__island *island)
{
    for (uint32_t r = 0; island->able && r < island->exchange->world; r++)
        if (island->exchange->roles.member[r] && !island->able[r])
            return false;
    return island->able != NULL;
}

bool yk__island_keeps_values(const yk__island *island)
{
    return island->exchange && island->exchange->laid_for == YK__MEMORY && !yk__exchange_excludes(island->exchange) &&
           !island->reads_host && yk__island_holds_all(island);
}

uint32_t yk__island_place(const yk__island *island, uint32_t rank)
{
    for (uint32_t i = 0; i < island->size; i++)
        if (island->rank[i] == rank)
            return i;
    return UINT32_MAX;
}

static yk_status submit_op(yk__island *island, yk_queue *queue, const yk_coll_op *op, const char *what, uint32_t number, yk_error *err)
{
    yk__queue *q = island->queue;
    uint64_t *point = queue == q->dev->queue ? &q->last_point : &q->side_point;
    const int64_t begun = yk__clock_ns();
    yk__plugin_message();
    const yk_status s = island->coll->run(queue, island->comm, op, point);
    if (s)
        return yk__plugin_fail(err, q->dev->plugin, s, what);
    yk__tracer_submitted_to(q->tracer, queue, YK__LANE_WIRE, what, number, begun, *point);
    return YK_OK;
}

/* even: each member gets the sums of its part, and all parts have one size. Else every member gets all sums. */
static yk_status submit_sum(yk__island *island, yk_buffer *b, uint64_t n, bool even, uint32_t number, uint64_t point, yk_error *err)
{
    yk__queue *q = island->queue;
    const yk_wait wait = yk__queue_behind(q, point);
    yk_queue *side = NULL;
    if (yk__device_side(q->dev, &side, err))
        return err->status;
    const yk_coll_op op = {.size = sizeof op,
                           .kind = even ? YK_COLL_REDUCE_SCATTER : YK_COLL_ALL_REDUCE,
                           .dtype = YK_F32,
                           .wire = YK_F32,
                           .n_wait = 1,
                           .wait = &wait,
                           .src = b,
                           .dst = b,
                           .dst_offset = even ? island->own * (n / island->size) * sizeof(float) : 0,
                           .count = even ? n / island->size : n};
    return submit_op(island, side ? side : q->dev->queue, &op, even ? "island reduce_scatter" : "island all_reduce", number, err);
}

yk_status yk__island_reduce(yk__island *island, yk_buffer *b, uint64_t n, uint32_t number, uint64_t point, uint64_t *from, uint64_t *to,
                            yk_error *err)
{
    *from = n * island->own / island->size;
    *to = n * (island->own + 1) / island->size;
    return submit_sum(island, b, n, n % island->size == 0, number, point, err);
}

yk_status yk__island_reduce_slices(yk__island *island, yk_buffer *b, const yk__slices *slice, uint32_t number, uint64_t point,
                                   yk_error *err)
{
    const uint64_t n = slice->begin[island->exchange->world];
    bool even = n % island->size == 0;
    for (uint32_t i = 0; i < island->size && even; i++)
        even = slice->begin[island->rank[i]] == n / island->size * i;
    return submit_sum(island, b, n, even, number, point, err);
}

yk_status yk__island_broadcast(yk__island *island, yk__bound at, uint64_t n, uint32_t place, uint32_t number, yk_error *err)
{
    const yk_coll_op op = {.size = sizeof op,
                           .kind = YK_COLL_BROADCAST,
                           .dtype = YK_F32,
                           .wire = YK_F32,
                           .root = place,
                           .src = at.buffer,
                           .dst = at.buffer,
                           .src_offset = at.offset,
                           .dst_offset = at.offset,
                           .count = n};
    return n ? submit_op(island, island->queue->dev->queue, &op, "island broadcast", number, err) : YK_OK;
}
