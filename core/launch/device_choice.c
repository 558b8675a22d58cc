/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the devices of this host's ranks, in a child process. So the caller stays a program with one thread that no driver has touched,
 * which forks the ranks afterwards.
 *
 * Callers: yoke launch (cmd_launch.c, launch_words.c), yk_launch and yk_launch_ranks (core/job/team/ranks.c), and node.c on each host of a
 * job of several. The child writes an `answer` to a pipe, then the placements; both ends are the same program, so structs go as they are.
 */
#include "config.h"

#include "core/launch/device_choice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/device/device.h"
#include "core/group/group.h"
#include "core/launch/asking.h"
#include "core/launch/pipe_lines.h"

typedef struct answer {
    yk_error err;
    uint32_t n;
    bool warned; /* of plugins that do not load */
} answer;

static bool read_all(int fd, void *data, size_t n)
{
    for (char *p = data; n;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static int select_child(void *device_specs, int fd) /* a const char ** */
{
    answer a = {YK_ERROR_INIT, 0, false};
    yk__placement *place = NULL;
    yk__topology *t = NULL;
    if (!yk__topology_new(&t, &a.err) && !yk__device_select(*(const char **)device_specs, t, &place, &a.n, &a.err) && a.n > YK__RANKS)
        yk__fail(&a.err, YK_E_ARG, "%u devices were selected: a job has at most %u ranks", a.n, YK__RANKS);
    a.warned = yk__plugins_warned();
    if (yk__write_all(fd, &a, sizeof a) && !a.err.status)
        yk__write_all(fd, place, a.n * sizeof *place);
    return 0;
}

static bool placement_read(int fd, yk__placement **place, uint32_t *n, yk_error *err)
{
    answer a;
    if (!read_all(fd, &a, sizeof a))
        return false;
    if (a.warned)
        yk__plugins_silence();
    *err = a.err;
    *place = a.err.status ? NULL : yk__calloc(a.n, sizeof **place);
    *n = a.n;
    if (!a.err.status && !*place)
        yk__fail_mem(err, a.n * sizeof **place, "the selected devices");
    return err->status || read_all(fd, *place, a.n * sizeof **place);
}

yk_status yk__launch_select(const char *device_specs, struct yk__placement **place, uint32_t *n, yk_error *err)
{
    yk_error end = YK_ERROR_INIT;
    yk__asking a;
    int code;
    *place = NULL;
    if (yk__asking_start(&a, select_child, &device_specs, err))
        return err->status;
    const bool whole = !yk__asking_await(&a, err) && placement_read(a.fd, place, n, err);
    if (!yk__asking_end(&a, &code, &end) && !whole)
        yk__fail(&end, YK_E_DEVICE_LOST, "the process that did so ended with exit code %d", code);
    if (!whole && !err->status)
        *err = end;
    if (!whole)
        yk__fail_in(err, "selecting devices");
    if (err->status) {
        yk__free(*place);
        *place = NULL;
    }
    return err->status;
}

/* ---- A number of ranks ------------------------------------------------------------------------------------------ */

/* The words of core/device/select.c for a list that names the cores twice. */
static void say_shared(const yk__placement *place, uint32_t ranks)
{
    char spec[sizeof place->plugin + sizeof place->cores + 16], more[48] = "";
    yk__placement_text(place, spec, sizeof spec);
    if (ranks > 2)
        snprintf(more, sizeof more, ranks == 3 ? ", as does %u more rank" : ", as do %u more ranks", ranks - 2);
    if (place->by_cores)
        yk__log(YK_LOG_WARN, "launch", "%s and %s compute on the same cores%s", spec, spec, more);
    else
        yk__log(YK_LOG_WARN, "launch", "%u ranks share %s", ranks, spec);
}

/* Spreads `n` devices over `ranks` in turn: several ranks share one, and a line says so. */
static yk_status places_repeat(yk__placement **place, uint32_t *n, uint32_t ranks, yk_error *err)
{
    yk__placement *all = yk__calloc(ranks, sizeof *all);
    if (!all)
        return yk__fail_mem(err, ranks * sizeof *all, "the devices of this host");
    for (uint32_t r = 0; r < ranks; r++)
        all[r] = (*place)[r % *n];
    say_shared(all, ranks);
    yk__free(*place);
    *place = all;
    *n = ranks;
    return YK_OK;
}

/* Logs the cards of place[from] and later, which no rank takes. */
static void cards_idle(const yk__placement *place, uint32_t from, uint32_t n, uint32_t ranks)
{
    char idle[160], more[96] = "";
    if (!from)
        snprintf(more, sizeof more, ", which share the cores instead: -n %u or a list of --devices uses them", n);
    yk__cards_text(place + from, n - from, idle, sizeof idle);
    if (*idle)
        yk__log(YK_LOG_WARN, "launch", "not used: %s; there are %u devices for %u ranks%s", idle, n, ranks, more);
}

/* Splits the cores into equal parts; each rank gets every core if there are fewer cores than ranks. */
static yk_status cores_split(yk__placement **place, uint32_t *n, uint32_t ranks, yk_error *err)
{
    yk_error few = YK_ERROR_INIT;
    char spec[32];
    cards_idle(*place, 0, *n, ranks);
    yk__free(*place);
    *place = NULL;
    snprintf(spec, sizeof spec, YK_HOST_PLUGIN "/%u", ranks);
    if (!yk__launch_select(spec, place, n, &few))
        return YK_OK;
    return yk__launch_select(YK_HOST_PLUGIN, place, n, err) ? err->status : places_repeat(place, n, ranks, err);
}

/* Keeps as many of the devices that auto found as there are ranks, cards first. */
static void places_cut(yk__placement *place, uint32_t *n, uint32_t ranks)
{
    yk__cards_first(place, *n);
    cards_idle(place, ranks, *n, ranks);
    *n = ranks;
}

yk_status yk__launch_select_ranks(const char *device_specs, uint32_t ranks, struct yk__placement **place, uint32_t *n, yk_error *err)
{
    const bool automatic = !device_specs || !*device_specs || !strcmp(device_specs, "auto");
    if (yk__launch_select(device_specs, place, n, err))
        return err->status;
    if (!ranks || *n == ranks)
        return YK_OK;
    if (automatic && *n > ranks) {
        places_cut(*place, n, ranks);
        return YK_OK;
    }
    if (automatic)
        return cores_split(place, n, ranks, err);
    if (*n == 1)
        return places_repeat(place, n, ranks, err);
    yk__fail(err, YK_E_ARG, "devices \"%.200s\" are %u, for %u rank%s of this host: give as many, or one that all share; a host of several "
             "may have its own, --hosts 'a=cpu:0 cpu:1,b=cpu:0'", device_specs, *n, ranks, ranks == 1 ? "" : "s");
    yk__free(*place);
    *place = NULL;
    return err->status;
}
