/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device list of the PJRT plugin: finds vendors' plugins and their devices, tells capabilities, opens and closes a device. The host
 * calls it through the table in pjrt_plugin.c; counts, capabilities and opening in any thread, under list.lock while the list changes.
 *
 * YOKE_PJRT is a list of FILE[:NAME], separated by blanks or commas. Without it, the plugin looks in the places of wheels, pattern by
 * pattern, VIRTUAL_ENV first for each. A separate process tries each vendor's plugin (tools/probe_pjrt.c) before it is loaded, unless
 * YOKE_PJRT_PROBE is none.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/pjrt/exits.h"
#include "backends/pjrt/pjrt.h"
#include "plugins/kit/devices.h"
#include "plugins/kit/kit_cores.h"
#include "plugins/kit/kit_probe.h"
#include "plugins/kit/plugin.h"

#define VARIABLE "YOKE_PJRT"
#define LIMIT_MS 12000
#define ROW_QUANTUM 8 /* each number of rows is a program that takes seconds to compile; TPUs have tiles of eight rows */
#define COMPILE_MS 90000 /* a large step takes minutes, and some vendors compile in a process of their own */

static uint64_t devices_key(void);
static bool devices_load(void);
static bool drivers_known(void);

static kit_survey survey_of(void)
{
    return (kit_survey){.host = pj_host, .plugin = PJ_NAME, .version = PJ_VERSION, .prefix = "pjrt", .option = {"CORES", "CLIENT_DEVICES"}};
}

static const char *reason_of(int code)
{
    return code == PJ_EXIT_LOAD      ? "it is no PJRT plugin that can be loaded here"
           : code == PJ_EXIT_CLIENT  ? "it makes no client, as without a device of its kind"
           : code == PJ_EXIT_NUMBERS ? "a training with donated arrays, whose results are known, gave wrong numbers or failed"
                                     : NULL;
}

typedef struct list_entry {
    uint32_t plugin, index; /* entry of the probe, device of its client */
} list_entry;

static kit_probe probed = {.options = "YOKE_PJRT_",
                           .helper = "yoke-probe-pjrt",
                           .variable = VARIABLE,
                           .file = pj_entry_file,
                           .limit_ms = LIMIT_MS,
                           .reason = reason_of};
static list_entry entry[KIT_DEVICES];
static kit_devices list = {.survey = survey_of,
                           .find_key = devices_key,
                           .drivers_known = drivers_known,
                           .load = devices_load,
                           .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Which plugins there are ----------------------------------------------------------------------------------------------- */

static void entries_named(const char *names)
{
    char path[sizeof probed.entry[0].path];
    while (*(names += strspn(names, ", "))) {
        const size_t n = strcspn(names, ", ");
        if (n < sizeof path) {
            snprintf(path, sizeof path, "%.*s", (int)n, names);
            kit_probe_add(&probed, NULL, path, "");
        } else {
            pj_host->log(1, PJ_NAME, "%.*s is not used: a path of more than %zu bytes", (int)n, names, sizeof path - 1);
        }
        names += n;
    }
}

static void entries_matching(const char *folder, const char *pattern)
{
    char all[512];
    glob_t found;
    snprintf(all, sizeof all, "%s/%s", folder, pattern);
    if (glob(all, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            kit_probe_add(&probed, NULL, found.gl_pathv[i], ".so");
        globfree(&found);
    }
}

/* The wheels' own folders below Python's. */
static void entries_of_wheels(void)
{
    static const char *const below[] = {"libtpu/libtpu.so", "jax_plugins/*/xla_*_plugin.so", "jax_plugins/*/pjrt_*.so",
                                        "pjrt_plugins/*/*.so"};
    static const char *const folders[] = {"/usr/lib/python3/dist-packages", "/usr/local/lib/python3*/dist-packages",
                                          "/usr/local/lib/python3*/site-packages"};
    const char *env = secure_getenv("VIRTUAL_ENV");
    char own[400];
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        if (env && *env) {
            snprintf(own, sizeof own, "%s/lib/python3*/site-packages", env);
            entries_matching(own, below[i]);
        }
        for (size_t k = 0; k < sizeof folders / sizeof *folders; k++)
            entries_matching(folders[k], below[i]);
    }
}

static void entries_find(void)
{
    const char *names = secure_getenv(VARIABLE);
    probed.survey = survey_of();
    probed.n = 0;
    if (names && *names)
        entries_named(names);
    else
        entries_of_wheels();
}

static uint64_t devices_key(void)
{
    const kit_survey survey = survey_of();
    entries_find();
    const uint64_t key = kit_probe_key(&probed);
    return key ? kit_survey_key_devices(&survey, key) : 0;
}

static bool drivers_known(void)
{
    return kit_probe_known(&probed);
}

/* ---- Their devices ----------------------------------------------------------------------------------------------------------- */

bool pj_cores_bind(cpu_set_t *was)
{
    const char *cores = pj_option("CORES");
    cpu_set_t set;
    if (!cores || !kit_cores_parse(cores, &set))
        return false;
    if (!sched_getaffinity(0, sizeof *was, was) && !sched_setaffinity(0, sizeof set, &set))
        return true;
    pj_host->log(1, PJ_NAME, "CORES=%s: cannot bind to these cores", cores);
    return false;
}

void pj_cores_restore(bool bound, const cpu_set_t *was)
{
    if (bound)
        sched_setaffinity(0, sizeof *was, was);
}

static bool client_open(uint32_t plugin, uint32_t index, pj_client *c, char why[PJ_WHY])
{
    char file[512];
    struct stat st;
    pj_entry_file(probed.entry[plugin].path, file, sizeof file);
    if (!pj_plugin_load(file, c, why) || !pj_client_open(c, index, pj_client_devices(), why))
        return false;
    if (!stat(file, &st))
        c->stamp = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec + (uint64_t)st.st_size;
    return true;
}

static void caps_fill(const pj_client *c, uint32_t plugin, yk_device_caps *caps)
{
    const bool cpu = !strcmp(c->platform, "cpu");
    const char *name = pj_entry_name(probed.entry[plugin].path);
    uint64_t total, used;
    *caps = (yk_device_caps){.flags = YK_CAP_DETERMINISTIC | (cpu ? YK_CAP_CPU : 0u), .align = 64, .units = 1, .store = KIT_STORE,
                             .compute = 1u << YK_F32 | 1u << YK_F16 | 1u << YK_BF16, .compile_ms = COMPILE_MS, .row_quantum = ROW_QUANTUM};
    snprintf(caps->name, sizeof caps->name, "%.40s (%.40s)", name ? name : c->kind[0] ? c->kind : c->platform, c->platform);
    snprintf(caps->isa, sizeof caps->isa, "PJRT %d.%d", c->api->major, c->api->minor);
    caps->mem_total = kit_host_memory();
    if (!cpu && pj_client_memory(c, &total, &used)) {
        caps->mem_total = total;
        caps->mem_free = total - used;
    }
    caps->max_alloc = caps->mem_total < kit_host_memory() ? caps->mem_total : kit_host_memory();
}

/* Lists one plugin's devices, each by a client that sees no others than it has to. */
static void plugin_list(uint32_t plugin)
{
    char why[PJ_WHY] = "";
    pj_client c;
    uint32_t n = 1;
    for (uint32_t i = 0; i < n && list.n < KIT_DEVICES; i++) {
        if (!client_open(plugin, i, &c, why)) {
            if (!i)
                pj_host->log(1, PJ_NAME, "%s is not used: %s", probed.entry[plugin].path, why);
            return;
        }
        n = c.only ? n + 1 : c.n_device; /* one by one, until there is no further */
        caps_fill(&c, plugin, &list.caps[list.n]);
        entry[list.n++] = (list_entry){plugin, i};
        pj_client_close(&c);
    }
}

/* Tries the one device that this process opens, if the host knows its number: a client of another rank's device takes its memory. An
 * earlier process kept how many devices there are, and their capabilities; one plugin has all of them, in its own order. */
static bool device_list(void)
{
    const char *number = pj_option("DEVICE");
    const unsigned long i = number && list.known && probed.n == 1 ? strtoul(number, NULL, 10) : KIT_DEVICES;
    char why[PJ_WHY] = "";
    pj_client c;
    if (i >= list.n || !(probed.entry[0].good || !kit_probe_tries(&probed)) || !client_open(0, (uint32_t)i, &c, why))
        return false;
    caps_fill(&c, 0, &list.caps[i]);
    for (uint32_t k = 0; k < list.n; k++)
        entry[k] = (list_entry){0, k};
    pj_client_close(&c);
    return true;
}

/* Lists the devices of all vendors' plugins. False if only this process's device was asked, and the kept list stays. */
static bool devices_load(void)
{
    cpu_set_t was;
    if (!probed.n)
        pj_host->log(2, PJ_NAME, "no vendor's plugin is there: " VARIABLE "=FILE names one");
    kit_probe_drivers(&probed);
    pj_cores_bind(&was);
    if (device_list()) {
        kit_probe_done(&probed);
        return false;
    }
    list.n = 0;
    memset(list.caps, 0, sizeof list.caps);
    for (uint32_t i = 0; i < probed.n; i++)
        if (probed.entry[i].good || !kit_probe_tries(&probed))
            plugin_list(i);
    kit_probe_done(&probed);
    return true;
}

void pj_devices_forget(void)
{
    kit_devices_forget(&list);
}

yk_status pj_device_count(uint32_t *n)
{
    kit_devices_need(&list, false);
    *n = list.n;
    return YK_OK;
}

yk_status pj_device_caps(uint32_t i, yk_device_caps *caps)
{
    const yk_status s = kit_devices_find(&list, i, false);
    if (!s)
        kit_caps_give(caps, &list.caps[i]);
    return s;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------------------- */

/* A client that the open devices of this process share. */
typedef struct pj_shared {
    struct pj_shared *next;
    uint32_t plugin, group, users;
    pj_client client;
} pj_shared;

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pj_shared *shared; /* guarded by the lock above */

/* Under the lock. */
static bool shared_open(yk_device *dev, const list_entry *e, char why[PJ_WHY])
{
    const uint32_t each = pj_client_devices(), group = e->index / each;
    pj_shared *s = shared;
    while (s && (s->plugin != e->plugin || s->group != group))
        s = s->next;
    if (s) {
        dev->client = s->client;
        dev->shared = s;
        s->users++;
        return true;
    }
    if (!client_open(e->plugin, e->index, &dev->client, why))
        return false;
    if (dev->client.n_device == 1 || each == 1)
        return true;
    s = kit_zeroed(pj_host, PJ_NAME, sizeof *s, "a client");
    if (!s) {
        snprintf(why, PJ_WHY, "no memory for a client");
        pj_client_close(&dev->client);
        return false;
    }
    *s = (pj_shared){.next = shared, .plugin = e->plugin, .group = group, .users = 1, .client = dev->client};
    shared = dev->shared = s;
    return true;
}

static void shared_close(yk_device *dev)
{
    pj_shared **at = &shared;
    pthread_mutex_lock(&shared_lock);
    while (*at && *at != dev->shared)
        at = &(*at)->next;
    pj_shared *s = *at;
    if (!s) {
        pj_client_close(&dev->client);
    } else if (--s->users == 0) {
        *at = s->next;
        pj_client_close(&s->client);
        pj_host->free(s);
    }
    pthread_mutex_unlock(&shared_lock);
}

static bool device_connect(yk_device *dev, const list_entry *e, char why[PJ_WHY])
{
    pthread_mutex_lock(&shared_lock);
    bool good = shared_open(dev, e, why);
    pthread_mutex_unlock(&shared_lock);
    if (good && !pj_client_take(&dev->client, e->index, pj_client_devices(), why)) {
        shared_close(dev);
        good = false;
    }
    return good;
}

yk_status pj_device_open(uint32_t i, yk_device **out)
{
    cpu_set_t was;
    char why[PJ_WHY] = "";
    const yk_status s = kit_devices_find(&list, i, true);
    if (s)
        return s;
    yk_device *dev = kit_zeroed(pj_host, PJ_NAME, sizeof *dev, "a device");
    if (!dev)
        return YK_E_MEM;
    pj_cores_bind(&was);
    if (!device_connect(dev, &entry[i], why)) {
        pj_host->fail(PJ_NAME, "%s: %s", probed.entry[entry[i].plugin].path, why);
        pj_host->free(dev);
        return YK_E_DEVICE_LOST;
    }
    pthread_mutex_init(&dev->lock, NULL);
    *out = dev;
    return YK_OK;
}

void pj_device_close(yk_device *dev)
{
    if (!dev || atomic_load(&dev->left_behind))
        return;
    pj_codes_free(&dev->client, &dev->codes, 0);
    shared_close(dev);
    pthread_mutex_destroy(&dev->lock);
    pj_host->free(dev);
}
