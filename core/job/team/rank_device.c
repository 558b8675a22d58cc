/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses this process's device. Under yoke launch the launcher's device counts, and another device of the program is an error.
 * session/open.c calls yk__place_choose in the thread that opens the job; a rank of another launcher has joined its group before, as its
 * choice is collective.
 *
 * Ranks of a host that see the same cards (GPUs and other devices apart from the host's cores) share them out if there are enough. So a
 * rank per card finds its card, if a launcher shows every card to each rank (torchrun) or only its own (srun --gpus-per-task). Else each
 * rank takes one of all devices, or a part of the cores.
 */
#include "config.h"

#include "core/job/team/rank_device.h"

#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/control/start/origin.h"
#include "core/control/start/variables.h"

/* A rank's view: hashes of its usable cores, of the cards it sees, and of its list. Equal numbers mean equal things. */
typedef struct rank_view {
    uint64_t cores, cards;
    uint32_t listed; /* devices in its list; 0 for auto */
    uint32_t failed; /* a yk_status of the search; why: its text */
    char why[YK_ERROR_TEXT];
} rank_view;

/* Counts of ranks of this host: with lower numbers, and in all. */
typedef struct rank_count {
    uint32_t lower, all;
} rank_count;

typedef struct neighbours {
    rank_count host, cores, cards; /* all ranks of the host; ranks on the same cores; ranks that see the same cards */
} neighbours;

static char *asked; /* devices of yk_launch and yk_launch_ranks, for jobs that name none */

void yk__place_ask(const char *devices)
{
    yk__free(asked);
    asked = devices ? yk__strdup(devices) : NULL;
}

static bool is_automatic(const char *spec)
{
    return !spec || !*spec || !strcmp(spec, "auto");
}

static void count_add(rank_count *c, bool is_lower)
{
    c->lower += is_lower;
    c->all++;
}

static rank_count host_count(yk__group *g, uint32_t rank)
{
    rank_count host = {0, 0};
    for (uint32_t r = 0; r < yk__group_size(g); r++)
        if (yk__group_same_host(g, r, rank))
            count_add(&host, r < rank);
    return host;
}

/* Index of a rank's device in a list of n: one device serves every rank, a list as long as the host's ranks serves the host, a list as
 * long as the job's ranks serves the job. UINT32_MAX for any other length. */
static uint32_t list_place(uint32_t n, const rank_count *host, uint32_t rank, uint32_t size)
{
    return n == 1 ? 0 : n == host->all ? host->lower : n == size ? rank : UINT32_MAX;
}

/* Every rank fails if any rank has an unusable list. Each reports its own error, otherwise that of the next higher failing rank, counted
 * round from its own number. */
static yk_status views_check(yk__group *g, const rank_view *all, yk_error *err)
{
    const uint32_t size = yk__group_size(g), own = yk__group_rank(g);
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t r = (own + i) % size;
        const rank_count host = host_count(g, r);
        if (all[r].failed && r != own)
            return yk__fail(err, (yk_status)all[r].failed, "rank %u: %s", r, all[r].why);
        if (all[r].failed)
            return yk__fail(err, (yk_status)all[r].failed, "%s", all[r].why);
        if (all[r].listed && list_place(all[r].listed, &host, r, size) == UINT32_MAX)
            return yk__fail(err, YK_E_ARG, "rank %u has a list of %u devices (--devices, yk_config.devices or YOKE_DEVICES), and %u ranks "
                            "of the job run on its host: give one for each of these, or each rank its own", r, all[r].listed, host.all);
    }
    return YK_OK;
}

static void neighbours_count(yk__group *g, const rank_view *all, neighbours *found)
{
    const uint32_t rank = yk__group_rank(g);
    *found = (neighbours){.host = host_count(g, rank)};
    for (uint32_t r = 0; r < yk__group_size(g); r++) {
        if (!yk__group_same_host(g, r, rank))
            continue;
        if (all[r].cores == all[rank].cores)
            count_add(&found->cores, r < rank);
        if (all[r].cards == all[rank].cards)
            count_add(&found->cards, r < rank);
    }
}

/* Collective over all ranks of the job, also for a rank that has an error. */
static yk_status neighbours_find(const yk_job *job, rank_view *own, neighbours *found, yk_error *err)
{
    yk__group *g = job->team.group;
    const uint32_t size = yk__group_size(g);
    rank_view *all = yk__calloc(size, sizeof *all);
    if (!all)
        return yk__fail_mem(err, size * sizeof *all, "the devices of a host's ranks");
    own->failed = (uint32_t)err->status;
    snprintf(own->why, sizeof own->why, "%s", err->status ? err->text : "");
    *err = (yk_error)YK_ERROR_INIT;
    if (!yk__group_all_gather(g, own, sizeof *own, all, err) && !views_check(g, all, err))
        neighbours_count(g, all, found);
    yk__free(all);
    return err->status;
}

/* Hashes cards by their bus addresses, as their numbers may differ between processes. */
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

/* This rank's part of the cores that it shares. A launcher may have bound each process to its own cores, or none. With fewer cores than
 * ranks it takes one core. */
static yk_status cores_choose(const yk_job *job, const rank_count *sharers, yk__placement *chosen, yk_error *err)
{
    const uint32_t cores = yk__topology_cores(job->topology);
    yk__placement *place = NULL;
    uint32_t n = 0;
    char parts[32];
    snprintf(parts, sizeof parts, YK_HOST_PLUGIN "/%u", sharers->all < cores ? sharers->all : cores);
    if (yk__device_select(parts, job->topology, &place, &n, err))
        return err->status;
    *chosen = place[sharers->lower % n];
    yk__free(place);
    return YK_OK;
}

/* Logs the cards that no rank takes, place[from] and later; one of the ranks that see them does so. */
static void idle_warn(const yk__placement *place, uint32_t from, uint32_t n, const rank_count *seers)
{
    char idle[160];
    yk__cards_text(place + from, n - from, idle, sizeof idle);
    if (*idle && !seers->lower)
        yk__log(YK_LOG_WARN, "job", "not used: %s; auto finds %u devices for the %u ranks of this host that see them%s; YOKE_DEVICES names "
                "a rank's own device, or those of all", idle, n, seers->all, !from ? ", which share the cores instead" : "");
}

/* Chooses among the devices of auto. */
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

/* Reads a list in which each rank of the job has one device. */
static yk_status list_read(const yk_job *job, const char *list, const rank_count *host, uint32_t rank, uint32_t size, yk__placement **place,
                           uint32_t *n, yk_error *err)
{
    if (yk__device_pick(list, job->topology, YK__PICK_NONE, place, n, err) || list_place(*n, host, rank, size) == UINT32_MAX)
        return err->status;
    yk__free(*place);
    *place = NULL;
    return yk__device_pick(list, job->topology, list_place(*n, host, rank, size), place, n, err);
}

/* Chooses this rank's device among devices that are selected for all ranks. */
static yk_status local_choose(yk_job *job, const char *spec, yk__placement *chosen, yk_error *err)
{
    const uint32_t size = yk__group_size(job->team.group), rank = yk__group_rank(job->team.group);
    const rank_count host = host_count(job->team.group, rank);
    const bool automatic = is_automatic(spec);
    yk__placement *place = NULL;
    rank_view own = {0};
    neighbours with = {0};
    uint32_t n = 0;
    if (!automatic)
        list_read(job, spec, &host, rank, size, &place, &n, err);
    else if (!yk__device_select(spec, job->topology, &place, &n, err))
        view_own(job, place, n, &own, err);
    own.listed = automatic ? 0 : n;
    if (!neighbours_find(job, &own, &with, err)) {
        if (automatic)
            found_choose(job, place, n, &with, chosen, err);
        else
            *chosen = place[list_place(n, &host, rank, size)];
    }
    yk__free(place);
    return err->status;
}

/* Logs the cards that a process alone leaves idle. */
static void single_warn(const yk__placement *place, uint32_t n)
{
    char idle[160];
    yk__cards_text(place, n, idle, sizeof idle);
    if (*idle)
        yk__log(YK_LOG_WARN, "job", "not used: %s; 'yoke launch PROGRAM' starts a rank for each device, and YOKE_DEVICES chooses one",
                idle);
}

/* Chooses for a process without a launcher: a card before the cores, as its ranks would be placed. */
static yk_status single_choose(yk_job *job, const char *spec, yk__placement *chosen, yk_error *err)
{
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (yk__device_select(spec, job->topology, &place, &n, err))
        return err->status;
    if (n == 0)
        yk__fail(err, YK_E_ARG, "devices \"%s\" select none", spec ? spec : "auto");
    else if (n > 1 && !is_automatic(spec))
        yk__fail(err, YK_E_ARG, "devices \"%s\" are %u ranks: start the program by 'yoke launch', or call yk_launch first", spec, n);
    else {
        yk__cards_first(place, n);
        single_warn(place + 1, n - 1);
        *chosen = place[0];
    }
    yk__free(place);
    return err->status;
}

/* ---- Devices of yoke launch --------------------------------------------------------------------------------------- */

static uint32_t launch_number(const char *variable)
{
    unsigned long long n = 0;
    return yk__variable_number(variable, &n) && n < UINT32_MAX ? (uint32_t)n : 0;
}

static bool same_place(const yk__placement *a, const yk__placement *b)
{
    yk__placement bare = *a;
    char one[sizeof a->plugin + sizeof a->cores + 16], other[sizeof one];
    bare.forced = b->forced;
    yk__placement_text(&bare, one, sizeof one);
    yk__placement_text(b, other, sizeof other);
    return !strcmp(one, other);
}

/* Refuses a program whose own device list differs from yoke launch's, as one of the two would be ignored. */
static yk_status given_compare(const yk_job *job, const char *named, yk__placement *given, yk_error *err)
{
    const uint32_t rank = launch_number("YOKE_RANK"), size = launch_number("YOKE_WORLD_SIZE");
    const rank_count host = job->team.group ? host_count(job->team.group, rank) : (rank_count){launch_number("YOKE_LOCAL_RANK"), size};
    yk__placement *place = NULL;
    uint32_t n = 0;
    if (list_read(job, named, &host, rank, size, &place, &n, err))
        return err->status;
    const uint32_t at = list_place(n, &host, rank, size);
    if (at == UINT32_MAX)
        yk__fail(err, YK_E_ARG, "the program's devices (yk_config, yk_launch) \"%s\" are %u, and yoke launch has started %u ranks here: "
                 "leave them to 'yoke launch --devices'", named, n, host.all);
    else if (!same_place(&place[at], given))
        yk__fail(err, YK_E_ARG, "the program's devices (yk_config, yk_launch) are \"%s\", but yoke launch gave this rank %s: leave them "
                 "to 'yoke launch --devices'", named, yk__option_text(YK__OPTION_DEVICES));
    else
        given->forced = given->forced || place[at].forced;
    yk__free(place);
    return err->status;
}

static yk_status given_choose(yk_job *job, const char *named, yk__placement *chosen, yk_error *err)
{
    const char *given = yk__option_text(YK__OPTION_DEVICES);
    if (single_choose(job, given, chosen, err) || is_automatic(named) || (given && !strcmp(named, given)))
        return err->status;
    return given_compare(job, named, chosen, err);
}

/* yoke launch's device comes first, then the program's, then the user's (YOKE_DEVICES). */
yk_status yk__place_choose(yk_job *job, yk__placement *chosen, yk_error *err)
{
    const char *named = job->config.devices ? job->config.devices : asked;
    const char *spec = named ? named : yk__option_devices();
    if (yk__topology_new(&job->topology, err))
        return err->status;
    if (yk__launch_fd() >= 0 || yk__node_fd() >= 0)
        return given_choose(job, named, chosen, err);
    return job->team.group ? local_choose(job, spec, chosen, err) : single_choose(job, spec, chosen, err);
}
