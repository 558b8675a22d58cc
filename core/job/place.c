/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of a process that no launcher of ours has given one. Ranks of a host that see the same cards (GPUs and their like: devices
 * that are not the host's cores) share them out, where there are enough; so one rank a card finds its card, whether a launcher shows all of
 * them to each (torchrun) or each its own (srun --gpus-per-task). Else each rank takes one of all devices, or a part of the cores.
 */
#include "core/job/place.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/control/origin.h"
#include "core/job/log.h"

/* What a rank may run on and what it sees; equal numbers for equal things. */
typedef struct rank_view {
    uint64_t cores, cards;
} rank_view;

/* Ranks of this host: with lower numbers, and all. */
typedef struct rank_count {
    uint32_t lower, all;
} rank_count;

typedef struct neighbours {
    rank_count host, cores, cards; /* all; those that run on the same cores; those that see the same cards */
} neighbours;

static void count_add(rank_count *c, bool is_lower)
{
    c->lower += is_lower;
    c->all++;
}

/* Collective over all ranks of the job. */
static yk_status neighbours_find(const yk_job *job, const rank_view *own, neighbours *found, yk_error *err)
{
    yk__group *g = job->team.group;
    const uint32_t size = yk__group_size(g), rank = yk__group_rank(g);
    rank_view *all = yk__calloc(size, sizeof *all);
    *found = (neighbours){0};
    if (!all)
        return yk__fail_mem(err, size * sizeof *all, "the devices of a host's ranks");
    if (!yk__group_all_gather(g, own, sizeof *own, all, err))
        for (uint32_t r = 0; r < size; r++) {
            if (!yk__group_same_host(g, r, rank))
                continue;
            count_add(&found->host, r < rank);
            if (all[r].cores == own->cores)
                count_add(&found->cores, r < rank);
            if (all[r].cards == own->cards)
                count_add(&found->cards, r < rank);
        }
    yk__free(all);
    return err->status;
}

/* By their places on a bus, as their numbers may mean others for another process. */
static yk_status cards_hash(const yk__placement *place, uint32_t n, uint64_t *hash, yk_error *err)
{
    *hash = YK_HASH_SEED;
    for (uint32_t i = 0; i < n; i++) {
        yk__plugin *plugin;
        yk_device_caps caps;
        if (place[i].by_cores)
            continue;
        if (yk__plugin_load(place[i].plugin, &plugin, err) || yk__plugin_caps(plugin, place[i].device, &caps, err))
            return err->status;
        *hash = yk__hash_bytes(*hash, place[i].plugin, strlen(place[i].plugin));
        *hash = *caps.locality ? yk__hash_bytes(*hash, caps.locality, strlen(caps.locality)) : yk__hash_u64(*hash, place[i].device);
    }
    return YK_OK;
}

static yk_status view_own(const yk_job *job, const yk__placement *place, uint32_t n, rank_view *own, yk_error *err)
{
    char *cores = yk__topology_core_list(job->topology);
    own->cores = yk__hash_bytes(YK_HASH_SEED, cores ? cores : "", cores ? strlen(cores) : 0);
    yk__free(cores);
    return cards_hash(place, n, &own->cards, err);
}

/* This rank's part of the cores that it shares with others: a launcher may have bound each process to cores of its own, or none. Where
 * there are fewer cores than ranks, one of them. */
static yk_status cores_choose(const yk_job *job, const rank_count *sharers, yk__placement *chosen, yk_error *err)
{
    const uint32_t cores = yk__topology_cores(job->topology);
    yk__placement *place = NULL;
    uint32_t n = 0;
    char parts[32];
    snprintf(parts, sizeof parts, "cpu/%u", sharers->all < cores ? sharers->all : cores);
    if (yk__device_select(parts, job->topology, &place, &n, err))
        return err->status;
    *chosen = place[sharers->lower % n];
    yk__free(place);
    return YK_OK;
}

/* Names the cards that no rank takes: from place[from] on. One rank of those that see them says it. */
static void idle_warn(const yk__placement *place, uint32_t from, uint32_t n, const rank_count *seers)
{
    char idle[160];
    yk__cards_text(place + from, n - from, idle, sizeof idle);
    if (*idle && !seers->lower)
        yk__log(YK_LOG_WARN, "job", "not used: %s; auto finds %u devices for the %u ranks of this host that see them%s; YOKE_DEVICES names "
                "a rank's own device, or those of all", idle, n, seers->all, !from ? ", which share the cores instead" : "");
}

/* Of what auto found. */
static yk_status found_choose(const yk_job *job, yk__placement *place, uint32_t n, const neighbours *with, yk__placement *chosen,
                              yk_error *err)
{
    uint32_t cards = 0;
    for (uint32_t i = 0; i < n; i++)
        cards += !place[i].by_cores;
    if (cards >= with->cards.all) {
        yk__cards_first(place, n);
        idle_warn(place, with->cards.all, n, &with->cards);
        *chosen = place[with->cards.lower];
        return YK_OK;
    }
    if (n >= with->host.all) {
        idle_warn(place, with->host.all, n, &with->cards);
        *chosen = place[with->host.lower];
        return YK_OK;
    }
    idle_warn(place, 0, n, &with->cards);
    return cores_choose(job, &with->cores, chosen, err);
}

/* Of the devices that are selected for all ranks of this host, that of this one. */
static yk_status local_choose(yk_job *job, const char *spec, bool automatic, yk__placement *chosen, yk_error *err)
{
    const uint32_t size = yk__group_size(job->team.group), rank = yk__group_rank(job->team.group);
    uint32_t local_rank = 0, n = 0;
    yk__placement *place = NULL;
    rank_view own = {0};
    neighbours with;
    for (uint32_t r = 0; r < size && r < rank; r++)
        local_rank += yk__group_same_host(job->team.group, r, rank);
    if (yk__device_pick(spec, job->topology, local_rank, &place, &n, err))
        return err->status;
    if ((automatic && view_own(job, place, n, &own, err)) || neighbours_find(job, &own, &with, err)) {
        yk__free(place);
        return err->status;
    }
    if (automatic)
        found_choose(job, place, n, &with, chosen, err);
    else if (n == 1)
        *chosen = place[0];
    else if (local_rank < n)
        *chosen = place[local_rank];
    else
        yk__fail(err, YK_E_ARG, "devices \"%s\" are %u, and this is process %u of the %u of this host: give each its own in YOKE_DEVICES, "
                 "or as many as there are processes", spec, n, local_rank, with.host.all);
    yk__free(place);
    return err->status;
}

yk_status yk__place_choose(yk_job *job, yk__placement *chosen, yk_error *err)
{
    const char *spec = yk__launched() ? yk__option_text(YK__OPTION_DEVICES) : job->config.devices;
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (!spec)
        spec = yk__option_text(YK__OPTION_DEVICES);
    const bool automatic = !spec || !*spec || !strcmp(spec, "auto");
    if (yk__topology_new(&job->topology, err))
        return err->status;
    if (job->team.group)
        return local_choose(job, spec, automatic, chosen, err);
    if (yk__device_select(spec, job->topology, &place, &n, err))
        return err->status;
    if (n == 0)
        yk__fail(err, YK_E_ARG, "devices \"%s\" select none", spec ? spec : "auto");
    else if (n > 1 && !automatic)
        yk__fail(err, YK_E_ARG, "devices \"%s\" are %u ranks: start the program by 'yoke launch', or call yk_launch first", spec, n);
    else
        *chosen = place[0];
    yk__free(place);
    return err->status;
}
