/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the device specs of YOKE_DEVICES, such as "cuda:0,cpu:0-7", into placements, one per rank. A placement is a plugin, a device's
 * number and the host's cores.
 *
 * rank_device.c (core/job/team) and device_choice.c (core/launch) call it in their own thread while a job starts. Errors, logs and `yoke
 * launch` print a placement by yk__placement_text. "auto" takes each device of the machine once. A spec without a device is an error with
 * the devices that exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/device/device_internal.h"
#include "core/device/rival.h"

typedef struct device_spec {
    char text[YK__CORES_TEXT + 300];
    char plugin[256];
    char list[YK__CORES_TEXT]; /* text after ':'; may be "*" */
    char cores[YK__CORES_TEXT];
    uint32_t parts; /* number after '/'; 0 if absent */
    bool forced;
} device_spec;

#define PLACEMENT_TEXT (sizeof(((yk__placement *)0)->plugin) + sizeof(((yk__placement *)0)->cores) + 16)

/* A device that auto took, so that another plugin's offer of it is known. */
typedef struct taken_device {
    char identity[64]; /* its bus address or uuid: "pci:0000:c1:00.0", "uuid:.." */
    yk__plugin *plugin;
    uint32_t device;
    size_t rank;
} taken_device;

typedef struct selection {
    const yk__topology *topology;
    taken_device *bus;
    size_t n_bus, cap_bus;
    yk__placement *place;
    bool *cpu; /* [n]: place[i] computes on the host's cores */
    bool picks; /* only place[pick] is this process's: the other placements' cores may be other processes' */
    uint32_t pick;
    size_t n, cap_place, cap_cpu;
} selection;

/* ---- Reading specs ----------------------------------------------------------------------------------------------- */

/* Length of the next spec: a comma ends it, except inside a list of numbers. */
static size_t spec_length(const char *s)
{
    size_t n = 0;
    bool list = false;
    for (; s[n] && s[n] != ' ' && s[n] != '\t' && s[n] != '\n'; n++) {
        list = list || s[n] == ':' || s[n] == '@';
        if (s[n] == ',' && !(list && s[n + 1] >= '0' && s[n + 1] <= '9'))
            break;
    }
    return n;
}

static size_t plugin_length(const char *s)
{
    const char *so;
    if (*s != '/' && *s != '.')
        return strcspn(s, ":/@!");
    so = strstr(s, ".so");
    return so ? (size_t)(so - s) + 3 : strcspn(s, ":@!");
}

static bool text_take(char *to, size_t capacity, const char **s, size_t n)
{
    if (n >= capacity)
        return false;
    memcpy(to, *s, n);
    to[n] = 0;
    *s += n;
    return true;
}

static bool read_parts(device_spec *spec, const char **s)
{
    char *end;
    unsigned long v = strtoul(*s, &end, 10);
    if (end == *s || v == 0 || v > 4096)
        return false;
    spec->parts = (uint32_t)v;
    *s = end;
    return true;
}

static bool spec_read(const char *s, device_spec *spec)
{
    int number[1024];
    if (!text_take(spec->plugin, sizeof spec->plugin, &s, plugin_length(s)) || !*spec->plugin)
        return false;
    if (*s == ':' && (++s, !text_take(spec->list, sizeof spec->list, &s, strcspn(s, "@!")) || !*spec->list))
        return false;
    if (*s == '/' && (++s, !read_parts(spec, &s)))
        return false;
    if (*s == '@' && (++s, !text_take(spec->cores, sizeof spec->cores, &s, strcspn(s, "!")) || !*spec->cores))
        return false;
    if (*s == '!') {
        spec->forced = true;
        s++;
    }
    if (*spec->list && strcmp(spec->list, "*") && !yk__cores_parse(spec->list, number, 1024))
        return false;
    return !*s && (!*spec->cores || yk__cores_parse(spec->cores, number, 1024));
}

static yk_status specs_read(const char *s, device_spec **out, uint32_t *n, yk_error *err)
{
    device_spec *list = NULL;
    size_t cap = 0;
    *n = 0;
    for (size_t len; *(s += strspn(s, " ,\t\n")); s += len) {
        device_spec *spec;
        len = spec_length(s);
        if (yk__grow(&list, &cap, *n + 1u, sizeof *list)) {
            yk__fail_mem(err, sizeof *list, "the device specs");
            break;
        }
        spec = &list[(*n)++];
        memset(spec, 0, sizeof *spec);
        if (len < sizeof spec->text)
            memcpy(spec->text, s, len);
        if (len >= sizeof spec->text || !spec_read(spec->text, spec)) {
            yk__fail(err, YK_E_ARG, "device spec \"%.*s\" cannot be read; expected PLUGIN, PLUGIN:N, PLUGIN:*, PLUGIN:N@CORES, "
                     "cpu:0-3, cpu/2, auto or a file's ./PATH.so:N (a path begins with ./ or /), each with or without a trailing '!'",
                     (int)(len < 100 ? len : 100), s);
            break;
        }
    }
    if (err->status)
        yk__free(list);
    else
        *out = list;
    return err->status;
}

/* ---- Resolving specs ------------------------------------------------------------------------------------------------- */

static yk_status placement_add(selection *s, const char *plugin, uint32_t device, const char *cores, bool by_cores, bool cpu, bool forced,
                     yk_error *err)
{
    yk__placement *p;
    if (yk__grow(&s->place, &s->cap_place, s->n + 1, sizeof *s->place) ||
        yk__grow(&s->cpu, &s->cap_cpu, s->n + 1, sizeof *s->cpu))
        return yk__fail_mem(err, sizeof *s->place, "the list of ranks");
    p = &s->place[s->n];
    memset(p, 0, sizeof *p);
    snprintf(p->plugin, sizeof p->plugin, "%s", plugin);
    p->device = device;
    p->by_cores = by_cores;
    p->forced = forced;
    if ((size_t)snprintf(p->cores, sizeof p->cores, "%s", cores ? cores : "") >= sizeof p->cores)
        return yk__fail(err, YK_E_ARG, "%s: expected a list of cores of at most %zu characters, got %zu: join cores to ranges, "
                        "\"0-7\", or take fewer", plugin, sizeof p->cores - 1, strlen(cores));
    s->cpu[s->n++] = cpu;
    return YK_OK;
}

/* Checks the cores of a spec that adds `devices` placements. */
static yk_status check_cores(const selection *s, const device_spec *spec, const char *list, uint32_t devices, yk_error *err)
{
    int want[1024], have[4096];
    char *all;
    if (s->picks && (s->pick < s->n || s->pick >= s->n + devices))
        return YK_OK;
    all = yk__topology_core_list(s->topology);
    if (!all)
        return yk__fail_mem(err, sizeof have, "the list of cores");
    uint32_t n = yk__cores_parse(list, want, 1024), m = yk__cores_parse(all, have, 4096), j;
    for (uint32_t i = 0; i < n && !err->status; i++) {
        for (j = 0; j < m && have[j] != want[i]; j++)
            ;
        if (j == m)
            yk__fail(err, YK_E_ARG, "device spec \"%s\": core %d is not one this process may use; there are: %s", spec->text,
                     want[i], all);
    }
    yk__free(all);
    return err->status;
}

/* A plugin whose one device is the host's cores: cpu, cpu:0-3, cpu/2. */
static yk_status add_cores(selection *s, const device_spec *spec, yk_error *err)
{
    const char *list = *spec->cores ? spec->cores : spec->list;
    uint32_t parts = spec->parts ? spec->parts : 1;
    if (*spec->cores && *spec->list)
        return yk__fail(err, YK_E_ARG, "device spec \"%s\" names cores twice; write %s:%s", spec->text, spec->plugin, spec->cores);
    if (*list && spec->parts)
        return yk__fail(err, YK_E_ARG, "device spec \"%s\": expected a list of cores or a number of parts, got both: write "
                        "one of them", spec->text);
    if (*list && strcmp(list, "*"))
        return check_cores(s, spec, list, 1, err) ? err->status : placement_add(s, spec->plugin, 0, list, true, true, spec->forced, err);
    for (uint32_t i = 0; i < parts && !err->status; i++) {
        char *part = yk__topology_part(s->topology, i, parts, err);
        if (!part)
            return yk__fail_in(err, "device spec \"%s\"", spec->text);
        placement_add(s, spec->plugin, 0, part, true, true, spec->forced, err);
        yk__free(part);
    }
    return err->status;
}

static yk_status add_device(selection *s, const device_spec *spec, const yk__plugin *p, uint32_t i, yk_error *err)
{
    yk_device_caps c;
    char *near = NULL, *all = NULL;
    const char *cores = spec->cores;
    if (yk__plugin_caps(p, i, &c, err))
        return err->status;
    if (!*cores && !(c.flags & YK_CAP_CPU) && *c.locality) {
        near = yk__topology_near(s->topology, c.locality);
        all = yk__topology_core_list(s->topology);
        cores = near && all && strcmp(near, all) && strlen(near) < sizeof spec->cores ? near : "";
    }
    placement_add(s, spec->plugin, i, cores, false, c.flags & YK_CAP_CPU, spec->forced, err);
    yk__free(near);
    yk__free(all);
    return err->status;
}

static yk_status no_device(const device_spec *spec, const yk__plugin *p, uint32_t wanted, uint32_t n, yk_error *err)
{
    char text[400] = "";
    size_t used = 0;
    const char *said = yk__plugin_message();
    if (!n)
        return yk__fail(err, YK_E_ARG, "device spec \"%s\": %s finds no device%s%s", spec->text, p->name, *said ? ": " : "", said);
    for (uint32_t i = 0; i < n && used < sizeof text; i++) {
        yk_device_caps c;
        yk_error quiet = YK_ERROR_INIT;
        if (!yk__plugin_caps(p, i, &c, &quiet))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s:%u (%.60s)", used ? ", " : "", p->name, i, c.name);
    }
    return yk__fail(err, YK_E_ARG, "device spec \"%s\": %s has no device %u; there are: %s", spec->text, p->name, wanted, text);
}

static yk_status add_devices(selection *s, const device_spec *spec, const yk__plugin *p, uint32_t n, yk_error *err)
{
    int number[256];
    bool all = !*spec->list || !strcmp(spec->list, "*");
    uint32_t m = all ? 0 : yk__cores_parse(spec->list, number, 256);
    if (spec->parts)
        return yk__fail(err, YK_E_ARG, "device spec \"%s\": %s has devices, not cores to split; write %s:0", spec->text, p->name,
                        spec->plugin);
    if (*spec->cores && check_cores(s, spec, spec->cores, all ? n : m, err))
        return err->status;
    if (!n)
        return no_device(spec, p, 0, n, err);
    for (uint32_t i = 0; all && i < n && !err->status; i++)
        add_device(s, spec, p, i, err);
    for (uint32_t i = 0; i < m && !err->status; i++) {
        if ((uint32_t)number[i] >= n)
            return no_device(spec, p, (uint32_t)number[i], n, err);
        add_device(s, spec, p, (uint32_t)number[i], err);
    }
    return err->status;
}

/* The earlier offer of the same device, or NULL. Records this offer for the rank that is added next. */
static taken_device *taken_before(selection *s, const char *identity, yk__plugin *plugin, uint32_t device, yk_error *err)
{
    if (strncmp(identity, "pci:", 4) && strncmp(identity, "uuid:", 5))
        return NULL;
    for (size_t i = 0; i < s->n_bus; i++)
        if (!strncmp(s->bus[i].identity, identity, sizeof s->bus[i].identity))
            return &s->bus[i];
    if (yk__grow(&s->bus, &s->cap_bus, s->n_bus + 1, sizeof *s->bus)) {
        yk__fail_mem(err, sizeof *s->bus, "the list of ranks");
        return NULL;
    }
    taken_device *own = &s->bus[s->n_bus++];
    *own = (taken_device){.plugin = plugin, .device = device, .rank = s->n};
    snprintf(own->identity, sizeof own->identity, "%s", identity);
    return NULL;
}

/* The plugin that is faster with the device keeps it, and the rank; the other plugin's offer is logged as excluded. */
static void taken_again(selection *s, taken_device *taken, const device_spec *spec, yk__plugin *plugin, uint32_t device, yk_error *err)
{
    const bool wins = yk__rival_wins(taken->plugin, taken->device, plugin, device);
    yk__log(YK_LOG_INFO, "devices", "%s:%u is excluded: another plugin has that device", wins ? taken->plugin->name : plugin->name,
            wins ? taken->device : device);
    if (!wins || add_device(s, spec, plugin, device, err))
        return;
    s->n--;
    s->place[taken->rank] = s->place[s->n];
    s->cpu[taken->rank] = s->cpu[s->n];
    taken->plugin = plugin;
    taken->device = device;
}

/* ---- auto ----------------------------------------------------------------------------------------------------------- */

static yk_status auto_plugin(selection *s, const char *name, bool cores, bool forced, bool *cores_taken, yk_error *err)
{
    yk__plugin *p = NULL;
    uint32_t n = 0;
    device_spec spec = {.forced = forced};
    if (yk__plugin_load(name, &p, err) || yk__plugin_devices(p, &n, err))
        return err->status;
    snprintf(spec.plugin, sizeof spec.plugin, "%s", name);
    snprintf(spec.text, sizeof spec.text, "auto");
    for (uint32_t i = 0; i < n && !err->status; i++) {
        yk_device_caps c;
        if (yk__plugin_caps(p, i, &c, err) || !!(c.flags & YK_CAP_CORES) != cores)
            continue;
        if ((c.flags & YK_CAP_CPU) && *cores_taken) {
            yk__log(YK_LOG_INFO, "devices", "%s:%u (%.60s) is excluded: another rank has the host's cores", name, i, c.name);
            continue;
        }
        taken_device *taken = taken_before(s, c.locality, p, i, err);
        if (taken) {
            taken_again(s, taken, &spec, p, i, err);
            continue;
        }
        if (c.flags & YK_CAP_CPU)
            *cores_taken = true;
        if (err->status)
            break;
        if (cores)
            add_cores(s, &spec, err);
        else
            add_device(s, &spec, p, i, err);
    }
    return err->status;
}

/* Takes devices that run on chosen cores first, as they are made for the cores. A CPU behind another interface is taken only without
 * them. */
static yk_status select_auto(selection *s, bool forced, yk_error *err)
{
    yk__plugin_info *list = NULL;
    uint32_t n = 0;
    bool taken = false;
    if (yk__plugin_list(&list, &n, err))
        return err->status;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n && !err->status; i++)
            if (list[i].loaded && list[i].devices)
                auto_plugin(s, list[i].name, pass == 0, forced, &taken, err);
    yk__plugin_list_free(list, n);
    return err->status;
}

/* ---- All specs ------------------------------------------------------------------------------------------------------ */

/* Sends a plugin its cores and its device before it loads, as some drivers start threads, or take each device, at once. Only possible if a
 * single spec names the plugin. */
static yk_status send_hints(const device_spec *spec, const device_spec *all, uint32_t n, const yk__plugin *p, yk_error *err)
{
    uint32_t same = 0;
    for (uint32_t i = 0; i < n; i++)
        same += !strcmp(all[i].plugin, spec->plugin);
    const bool one = same == 1 && strspn(spec->list, "0123456789") == strlen(spec->list);
    if (yk__plugin_device_hint(p, one ? spec->list : "", err))
        return err->status;
    return same == 1 && *spec->cores && !p->started ? yk__plugin_option_set(p->name, "CORES", spec->cores, err) : YK_OK;
}

static yk_status spec_resolve(selection *s, const device_spec *spec, const device_spec *all, uint32_t n_all, yk_error *err)
{
    yk__plugin *p = NULL;
    yk_device_caps c = {.flags = 0};
    uint32_t n = 0;
    if (!strcmp(spec->plugin, "auto") && !*spec->list && !*spec->cores && !spec->parts)
        return select_auto(s, spec->forced, err);
    if (yk__plugin_open(spec->plugin, &p, err))
        return yk__fail_in(err, "device spec \"%s\"", spec->text);
    if (send_hints(spec, all, n_all, p, err) || yk__plugin_start(p, err))
        return err->status;
    if (yk__plugin_devices(p, &n, err))
        return err->status;
    if (n == 1 && yk__plugin_caps(p, 0, &c, err))
        return err->status;
    return c.flags & YK_CAP_CORES ? add_cores(s, spec, err) : add_devices(s, spec, p, n, err);
}

static bool cores_overlap(const char *a, const char *b)
{
    int x[1024], y[1024];
    uint32_t n = *a ? yk__cores_parse(a, x, 1024) : 0, m = *b ? yk__cores_parse(b, y, 1024) : 0;
    if (!n || !m)
        return true; /* no list means all cores */
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < m; j++)
            if (x[i] == y[j])
                return true;
    return false;
}

/* Pairs of ranks that share cores, by their two plugins. */
typedef struct shared_cores {
    const char *plugin[2];
    size_t first[2], ranks; /* ranks: ranks that share cores with another rank of the kind */
} shared_cores;

static bool pair_is_of(const selection *s, size_t i, size_t j, const shared_cores *kind)
{
    const char *a = s->place[i].plugin, *b = s->place[j].plugin;
    return (!strcmp(a, kind->plugin[0]) && !strcmp(b, kind->plugin[1])) ||
           (!strcmp(a, kind->plugin[1]) && !strcmp(b, kind->plugin[0]));
}

static void shared_count(const selection *s, shared_cores *kind)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = 0; j < s->n; j++) {
            if (i == j || !s->cpu[i] || !s->cpu[j] || !pair_is_of(s, i, j, kind) ||
                !cores_overlap(s->place[i].cores, s->place[j].cores))
                continue;
            if (!kind->ranks++) {
                kind->first[0] = i;
                kind->first[1] = j;
            }
            break;
        }
}

static void shared_warn(const selection *s, const shared_cores *kind)
{
    char a[PLACEMENT_TEXT], b[PLACEMENT_TEXT], more[48] = "";
    yk__placement_text(&s->place[kind->first[0]], a, sizeof a);
    yk__placement_text(&s->place[kind->first[1]], b, sizeof b);
    if (kind->ranks > 2)
        snprintf(more, sizeof more, kind->ranks == 3 ? ", as does %zu more rank" : ", as do %zu more ranks", kind->ranks - 2);
    yk__log(YK_LOG_WARN, "devices", "%s and %s compute on the same cores%s", a, b, more);
}

/* True for the first rank of its plugin. */
static bool is_first(const selection *s, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (!strcmp(s->place[i].plugin, s->place[j].plugin))
            return false;
    return true;
}

/* One line for each pair of plugins, as three hundred equal specs would give forty thousand lines. */
static void warn_shared(const selection *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t j = i; j < s->n; j++) {
            shared_cores kind = {.plugin = {s->place[i].plugin, s->place[j].plugin}};
            if (!s->cpu[i] || !s->cpu[j] || !is_first(s, i) || !is_first(s, j))
                continue;
            shared_count(s, &kind);
            if (kind.ranks)
                shared_warn(s, &kind);
        }
}

static void fail_nothing(yk_error *err)
{
    char *names = yk__plugin_names();
    if (names && *names)
        yk__fail(err, YK_E_ARG, "no device was found by the plugins %s; `yoke plugin list` says why", names);
    else
        yk__fail(err, YK_E_ARG, "no device was found: there is no plugin in %s%s", yk__plugin_folder(), yk__plugin_folder_advice());
    yk__free(names);
}

static yk_status specs_select(selection *s, const char *specs, yk__placement **place, uint32_t *n, yk_error *err)
{
    device_spec *spec = NULL;
    uint32_t n_spec = 0;
    if (specs_read(specs && specs[strspn(specs, " ,\t\n")] ? specs : "auto", &spec, &n_spec, err))
        return err->status;
    s->picks = s->picks && n_spec > 1;
    for (uint32_t i = 0; i < n_spec && !err->status; i++)
        spec_resolve(s, &spec[i], spec, n_spec, err);
    if (!err->status && !s->n)
        fail_nothing(err);
    if (!err->status && s->pick != YK__PICK_NONE)
        warn_shared(s);
    yk__free(spec);
    yk__free(s->cpu);
    yk__free(s->bus);
    if (err->status) {
        yk__free(s->place);
        return err->status;
    }
    *place = s->place;
    *n = (uint32_t)s->n;
    return YK_OK;
}

yk_status yk__device_select(const char *specs, const yk__topology *t, yk__placement **place, uint32_t *n, yk_error *err)
{
    selection s = {.topology = t};
    return specs_select(&s, specs, place, n, err);
}

yk_status yk__device_pick(const char *specs, const yk__topology *t, uint32_t pick, yk__placement **place, uint32_t *n, yk_error *err)
{
    selection s = {.topology = t, .picks = true, .pick = pick};
    return specs_select(&s, specs, place, n, err);
}

void yk__placement_text(const yk__placement *p, char *buf, size_t n)
{
    const char *mark = p->forced ? "!" : "";
    if (p->by_cores)
        snprintf(buf, n, "%s%s%s%s", p->plugin, *p->cores ? ":" : "", p->cores, mark);
    else
        snprintf(buf, n, "%s:%u%s%s%s", p->plugin, p->device, *p->cores ? "@" : "", p->cores, mark);
}
