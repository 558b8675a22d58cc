/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: the machine's topology, the plugins, the specs that select devices, and an opened device with its queue.
 *
 * Nothing here knows the name of a plugin; what matters is in its capabilities.
 */
#ifndef YOKE_CORE_DEVICE_DEVICE_H
#define YOKE_CORE_DEVICE_DEVICE_H

#include <stdbool.h>

#include <yoke/plugin.h>

#include "core/base/error.h"

/* ---- Topology: hwloc where it was built in, else sched_getaffinity; YOKE_TOPOLOGY_XML gives a recorded one ---------- */

typedef struct yk__topology yk__topology;
yk_status yk__topology_new(yk__topology **t, yk_error *err);
void yk__topology_free(yk__topology *t);
uint32_t yk__topology_cores(const yk__topology *t);  /* usable cores (one per physical core) of this process */
/* "0-3,6": the usable cores as OS indices; allocated. */
char *yk__topology_core_list(const yk__topology *t);
uint32_t yk__cores_parse(const char *list, int *core, uint32_t max); /* "0-3,6" -> numbers; 0 when malformed */
/* n of k equal parts of the usable cores as a list; allocated, NULL with err filled when there are fewer cores than parts. */
char *yk__topology_part(const yk__topology *t, uint32_t part, uint32_t parts, yk_error *err);
/* Cores near a device, from its caps.locality ("pci:0000:c1:00.0"); allocated; all cores when unknown. */
char *yk__topology_near(const yk__topology *t, const char *locality);
/* Binds the calling thread and its later children. Without effect on recorded topologies. */
yk_status yk__bind_cores(const char *list, yk_error *err);

/* ---- Plugins --------------------------------------------------------------------------------------------------------- */

typedef struct yk__plugin yk__plugin; /* a loaded plugin, perhaps wrapped in hook layers */

typedef struct yk__plugin_info {
    char *name, *path, *version, *reason; /* reason: why it was chosen or is not used, one line */
    bool loaded;
    uint32_t devices;
} yk__plugin_info;

/* The table to call: never has a NULL member up to the host's own size (missing ones answer YK_E_UNSUPPORTED). Ask about
 * nodes through yk__device_claims, which knows what the plugin cannot know. */
const yk_plugin *yk__plugin_table(const yk__plugin *p);
const char *yk__plugin_path(const yk__plugin *p);

/* Loads one plugin: a path (with a slash) or a name, looked for as DIR/yoke_NAME.so in YOKE_PLUGIN_DIR or the installed
 * plugin folder. A failure is an error with the loader's own message: not found, dlopen's text, no symbol, wrong major,
 * short table, another sanitizer, a file or folder that others can write. Loading the same file twice gives the same
 * plugin. YOKE_LAYERS wraps it. Option CORES answers what yk__plugin_option_set gave; yk__device_open sets it. */
yk_status yk__plugin_load(const char *name_or_path, yk__plugin **p, yk_error *err);
/* All plugins: those YOKE_PLUGINS names (each must load), else every yoke_*.so of the folder (failures are info lines
 * and stand in the list with their reason). */
yk_status yk__plugin_list(yk__plugin_info **list, uint32_t *n, yk_error *err);
void yk__plugin_list_free(yk__plugin_info *list, uint32_t n);
/* Whose variables the environment may hold, "cpu, opencl": plugins of the folder, loaded ones, those YOKE_PLUGINS names; allocated. */
char *yk__plugin_owners(void);
bool yk__plugin_aborts(const yk__plugin *p); /* it has a queue_abort of its own */
/* Runs fini of all loaded plugins; the files stay mapped (vendor libraries keep threads). At the end of a job. */
void yk__plugins_fini(void);
/* An option that the plugin will see as YOKE_<PLUGIN>_<KEY>, stronger than the environment; before the plugin's init. */
yk_status yk__plugin_option_set(const char *plugin, const char *key, const char *value, yk_error *err);
/* YK_E_ABI with the loader's message where the table breaks a rule of the ABI; fills gaps of *out otherwise. */
yk_status yk__plugin_table_take(const yk_plugin *given, const char *who, yk_plugin *out, yk_error *err);
/* A plugin linked into this program (tests, static builds). */
yk_status yk__plugin_register(yk_plugin_query_fn query, const char *name, yk__plugin **p, yk_error *err);
/* What the last failing plugin call of this thread said through host->fail; "" when nothing. Reading it clears it. */
const char *yk__plugin_message(void);
/* How many devices a plugin has, YK__DEVICES at most, and what one of them can do: its texts end and can be printed, its memory is what
 * this process may have of it. */
#define YK__DEVICES 4096u
yk_status yk__plugin_devices(const yk__plugin *p, uint32_t *n, yk_error *err);
yk_status yk__plugin_caps(const yk__plugin *p, uint32_t i, yk_device_caps *caps, yk_error *err);
/* A processor's memory is the host's, cut down to what this process's control groups allow. */
void yk__device_cap_memory(yk_device_caps *caps);
/* From here on `text`, YK__ASKED bytes that another process sees too, holds the name of the plugin that is being loaded, started or
 * asked; "" while none is. Before threads. */
#define YK__ASKED 256
void yk__plugin_watch(char *text);
/* What a call comes to that makes `object`, NULL before it: YK_OK with nothing made is a failure, in words as of the plugin. */
yk_status yk__plugin_made(yk_status status, const void *object);
/* Fills err from a plugin's status: "PLUGIN: WHAT: the plugin's own message". Returns status. */
yk_status yk__plugin_fail(yk_error *err, const yk__plugin *p, yk_status status, const char *what);

/* ---- Selection: YOKE_DEVICES / --devices ------------------------------------------------------------------------------ */

/* Room for a list of cores as text: 1024 of them, none beside another. */
#define YK__CORES_TEXT 5120

/* One rank's device. */
typedef struct yk__placement {
    char plugin[256]; /* name or path of the plugin */
    uint32_t device;  /* its number there */
    bool by_cores;    /* the device is the host's cores (YK_CAP_CORES), and `cores` says which of them */
    char cores[YK__CORES_TEXT]; /* cores of its host threads (and of the device's own threads where it is a CPU); "" = all */
    bool forced;      /* by a trailing '!': never excluded for being slow */
} yk__placement;

/* Device specs: cpu | cpu:0-3 | cpu/2 | PLUGIN:N | PLUGIN:* | PLUGIN:N@CORES | auto, separated by spaces or commas between
 * them ("cpu:0 opencl:0@1"; a comma before a digit goes on with a list: "cpu:0,2"). PLUGIN is a name, or a path that
 * begins with '/' or '.' and ends in .so. The forms cpu, cpu:0-3 and cpu/2 are those of any plugin with YK_CAP_CORES.
 * NULL or "" means auto: every device once (two that name one place of a bus, or one uuid, are one device, which the
 * plugin has that is faster with it: core/device/rival.h); of those that compute on the host's cores only one, on all
 * cores, so that none is computed on twice. A spec that matches nothing is an error that lists what there is. Two CPU
 * ranks on one core: allowed, warned about, one line for each pair of plugins. A trailing '!' ("opencl:0!", "cpu/2!",
 * "opencl:*!") forces what the spec selects; nothing else does. */
yk_status yk__device_select(const char *specs, const yk__topology *t, yk__placement **place, uint32_t *n, yk_error *err);
/* The same on a process that takes place[pick], or of one spec all: the cores of the others need not be this process's, as launchers bind
 * each of their processes to its own. */
#define YK__PICK_NONE UINT32_MAX /* for their number alone */
yk_status yk__device_pick(const char *specs, const yk__topology *t, uint32_t pick, yk__placement **place, uint32_t *n, yk_error *err);
/* The spec that selects exactly this placement again ("opencl:0@1!"), for handing to a rank's process. */
void yk__placement_text(const yk__placement *p, char *buf, size_t n);
/* Puts cards (what is not the host's cores) first, each kind in its order; returns how many there are. Whoever starts as many ranks as
 * there are cards means the cards. */
uint32_t yk__cards_first(yk__placement *place, uint32_t n);
/* Names the cards among them, for a message; "": there are none. */
void yk__cards_text(const yk__placement *place, uint32_t n, char *buf, size_t size);

/* ---- An opened device -------------------------------------------------------------------------------------------------- */

typedef struct yk__device {
    yk__plugin *plugin;
    const yk_plugin *table;
    yk_device *handle;
    yk_queue *queue;
    yk_queue *side; /* of yk__device_side; NULL: nobody has asked for it */
    yk_device_caps caps; /* as a plan has to mind them: align covers value_align, max_alloc covers max_bind, and types that
                            are younger than the plugin are left out */
    yk__placement place;
    bool plans_only; /* of yk__device_plan_only */
    bool lost; /* a wait gave it up: nothing of it may be released, as it may still read and write what it was given */
    struct yk__device *lost_before; /* once closed: the one that was lost before it, for who looks for leaks */
} yk__device;

/* Binds the calling thread to the placement's cores, loads the plugin, opens device and queue, and runs the start-up
 * probe (a canned program: dot, norm, softmax, rng against the reference): a device that computes wrongly is refused. */
yk_status yk__device_open(const yk__placement *place, yk__device **dev, yk_error *err);
void yk__device_close(yk__device *dev);
/* From here on the device plans only: it answers what it can do and how much memory it takes, gives out points, and holds and
 * computes nothing. What is read from it stays what it was. Nothing was made on it before. */
yk_status yk__device_plan_only(yk__device *dev, yk_error *err);
/* What the plugin has for devices that compute together, and with which handle it is asked; NULL: nothing. One that plans only is asked
 * for names alone. */
const struct yk_coll *yk__device_coll(const yk__device *dev, yk_device **handle);
/* Seconds of a product of 128 x 512 and 512 x 512, least of a few runs (30 ms, or one run): how fast devices are beside each
 * other before anything else is known of them. 0: it could not be run. Its program has been made, and has run, when await (NULL: none) is
 * called, maybe never; what is timed runs after that. */
double yk__device_pace(yk__device *dev, void (*await)(void *arg), void *arg);
/* The mean of the same product over 30 ms or one run. A process that is stopped meanwhile is slower by that, too. */
double yk__device_pace_mean(yk__device *dev);

/* As yk_plugin.claims; 0 for a node with operations or types that are younger than the plugin. [any] */
uint32_t yk__device_claims(const yk__device *dev, const yk_graph *g, uint32_t node);

/* Every wait for the device ends with `why`, and what it was given ends early where the plugin can. Any thread. */
void yk__device_abort(yk__device *dev, yk_status why);
/* After it: returns when nothing runs on the device any more; it has another queue then. */
void yk__device_settle(yk__device *dev);
/* Buffers and transfers in short form; errors carry the plugin's message. */
yk_status yk__device_buffer(yk__device *dev, uint64_t bytes, yk_buffer **b, yk_error *err);
yk_status yk__device_put(yk__device *dev, yk_buffer *b, uint64_t off, const void *src, uint64_t bytes, uint64_t *point,
                         yk_error *err);
yk_status yk__device_get(yk__device *dev, yk_buffer *b, uint64_t off, void *dst, uint64_t bytes, uint64_t *point,
                         yk_error *err);
/* Waits in slices, so that `cancel` (may be NULL; set by the liveness thread) ends it with YK_E_CANCELLED. A device that
 * finishes nothing for YOKE_STUCK_MS is lost (YK_E_DEVICE_LOST); while this process computes, as a device of its own cores
 * does, that takes ten times as long. */
yk_status yk__device_wait(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err);

/* A queue for what goes on beside the programs of `queue`, made when it is first asked for: copies and collectives of what they are done
 * with. NULL: the device has no engines for that (YK_CAP_PINS), or plans only. Points of it are waited for by yk__device_wait_side. */
yk_status yk__device_side(yk__device *dev, yk_queue **side, yk_error *err);
yk_status yk__device_wait_side(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err);

#endif
