/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: the machine's topology, the plugins, the specs that select devices, and an opened device with its queue.
 *
 * No function here knows the name of a plugin; only capabilities matter.
 */
#ifndef YOKE_CORE_DEVICE_DEVICE_H
#define YOKE_CORE_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <yoke/plugin.h>

#include "core/base/error.h"

/* ---- Topology: hwloc if built in, else sched_getaffinity; YOKE_TOPOLOGY_XML gives a recorded one ------------------- */

typedef struct yk__topology yk__topology;
yk_status yk__topology_new(yk__topology **t, yk_error *err);
void yk__topology_free(yk__topology *t);
uint32_t yk__topology_cores(const yk__topology *t);  /* usable cores (one per physical core) of this process */
/* "0-3,6": the usable cores as OS indices; allocated. */
char *yk__topology_core_list(const yk__topology *t);
uint32_t yk__cores_parse(const char *list, int *core, uint32_t max); /* parses "0-3,6" into numbers; 0 if malformed */
/* Part number `part` of `parts` equal parts of the usable cores, as a list; allocated. NULL with err filled if there are fewer cores
 * than parts. */
char *yk__topology_part(const yk__topology *t, uint32_t part, uint32_t parts, yk_error *err);
/* Cores near a device, from its caps.locality ("pci:0000:c1:00.0"); allocated; all cores if unknown. */
char *yk__topology_near(const yk__topology *t, const char *locality);
/* Binds the calling thread and its later children. Without effect on recorded topologies. */
yk_status yk__bind_cores(const char *list, yk_error *err);

/* ---- Plugins --------------------------------------------------------------------------------------------------------- */

typedef struct yk__plugin yk__plugin; /* a loaded plugin, possibly wrapped in hook layers */

typedef struct yk__plugin_info {
    char *name, *path, *version, *reason; /* reason: one line on its choice or its refusal */
    bool loaded;
    uint32_t devices;
} yk__plugin_info;

/* The table to call: every member within the host's own size is set (missing ones answer YK_E_UNSUPPORTED). Ask about nodes through
 * yk__device_claims, which also knows operations that are younger than the plugin. */
const yk_plugin *yk__plugin_table(const yk__plugin *p);
const char *yk__plugin_path(const yk__plugin *p);

/* Loads one plugin: a path (with a slash), or a name for DIR/yoke_NAME.so in YOKE_PLUGIN_DIR or the installed plugin folder. An error
 * has the loader's own message: not found, dlopen's text, no symbol, wrong major, short table, another sanitizer, a file or folder that
 * other users can write. Loading a file twice gives the same plugin. YOKE_LAYERS wraps it. Its option CORES has the value of
 * yk__plugin_option_set; yk__device_open sets it. */
yk_status yk__plugin_load(const char *name_or_path, yk__plugin **p, yk_error *err);
/* Lists all plugins: the ones in YOKE_PLUGINS (each must load), else every yoke_*.so of the folder. A failure there is a warning, and
 * the list has its reason. */
yk_status yk__plugin_list(yk__plugin_info **list, uint32_t *n, yk_error *err);
/* The first list of a process names each plugin that does not load in a line. The caller asks for silence if it does so itself, or another
 * process did. Thread-safe. */
bool yk__plugins_warned(void);
void yk__plugins_silence(void);
void yk__plugin_list_free(yk__plugin_info *list, uint32_t n);
/* Names of the plugins that own variables of the environment, "cpu, opencl": of the folder, loaded, or in YOKE_PLUGINS; allocated. */
char *yk__plugin_owners(void);
bool yk__plugin_aborts(const yk__plugin *p); /* it has its own queue_abort */
bool yk__plugin_accounts(const yk__plugin *p); /* it has program_memory */
/* Runs fini of all loaded plugins at the end of a job; the files stay mapped, as vendor libraries keep threads. */
void yk__plugins_fini(void);
/* Frees the plugins that fini has ended, and with the last one the host's strings. For the time when this library itself is unloaded. */
void yk__plugins_free(void);
/* Sets an option that the plugin sees as YOKE_<PLUGIN>_<KEY>, before the environment's value; call it before the plugin's init. */
yk_status yk__plugin_option_set(const char *plugin, const char *key, const char *value, yk_error *err);
/* Checks a table and copies it to *out with its gaps filled; YK_E_ABI with the loader's message if it breaks a rule of the ABI. */
yk_status yk__plugin_table_take(const yk_plugin *given, const char *who, yk_plugin *out, yk_error *err);
/* Registers a plugin that is linked into this program (tests, static builds). */
yk_status yk__plugin_register(yk_plugin_query_fn query, const char *name, yk__plugin **p, yk_error *err);
/* The message of this thread's last failing plugin call through host->fail; "" if none. Reading it clears it. */
const char *yk__plugin_message(void);
/* A plugin's number of devices, YK__DEVICES at most, and the capabilities of one. Their texts are terminated and printable; mem_free and
 * mem_total are cut to this process's share. */
#define YK__DEVICES 4096u
yk_status yk__plugin_devices(const yk__plugin *p, uint32_t *n, yk_error *err);
/* Bits that products keep of operands in f32, 24 if the device says nothing; and the share of its absolute terms that a product may lose by
 * that, 0 for 24 bits (yk_device_caps.product_bits). */
#define YK__F32_BITS 24
uint32_t yk__product_bits(const yk_device_caps *caps);
double yk__product_loss(const yk_device_caps *caps);
yk_status yk__plugin_caps(const yk__plugin *p, uint32_t i, yk_device_caps *caps, yk_error *err);
/* Cuts the memory of a CPU device, which is the host's, to the limits of this process's control groups. */
void yk__device_cap_memory(yk_device_caps *caps);
/* From here on `text`, YK__ASKED bytes shared with another process, holds the name of the plugin that is being loaded, started or asked;
 * "" in between. Call it before threads start. */
#define YK__ASKED 256
void yk__plugin_watch(char *text);
/* The status of a call that should make `object`, NULL before the call: YK_OK without an object becomes a failure with a message. */
yk_status yk__plugin_made(yk_status status, const void *object);
/* Fills err from a plugin's status: "PLUGIN: CALL: the plugin's own message"; what names the call. Returns status. */
yk_status yk__plugin_fail(yk_error *err, const yk__plugin *p, yk_status status, const char *what);

/* ---- Selection: YOKE_DEVICES / --devices ------------------------------------------------------------------------------ */

/* Bytes of a list of cores as text: 1024 cores that are not adjacent. */
#define YK__CORES_TEXT 5120

/* One rank's device. */
typedef struct yk__placement {
    char plugin[256]; /* name or path of the plugin */
    uint32_t device;  /* its number in the plugin */
    bool by_cores;    /* true if the device is the host's cores (YK_CAP_CORES); `cores` then lists them */
    char cores[YK__CORES_TEXT]; /* cores of its host threads, and of a CPU device's own threads; "" for all */
    bool forced;      /* true after a trailing '!': never excluded for being slow */
} yk__placement;

/* Selects devices by specs: cpu | cpu:0-3 | cpu/2 | PLUGIN:N | PLUGIN:* | PLUGIN:N@CORES | auto, separated by spaces or commas ("cpu:0
 * opencl:0@1"; a comma before a digit continues a list: "cpu:0,2"). PLUGIN is a name, or a path that begins with '/' or '.' and ends in
 * .so. Any plugin with YK_CAP_CORES has the forms of cpu.
 * NULL or "" means auto, every device once. Devices of two plugins with one bus address or uuid are one device, for the plugin that is
 * faster with it (core/device/rival.h). Among devices on the host's cores auto takes one, on all cores, so that no core has two ranks.
 * A spec without a match is an error that lists the devices. Two CPU ranks on one core are allowed, with one warning for each pair of
 * plugins. A trailing '!' ("opencl:0!", "cpu/2!", "opencl:*!") forces that spec's devices alone. */
yk_status yk__device_select(const char *specs, const yk__topology *t, yk__placement **place, uint32_t *n, yk_error *err);
/* The same in a process that takes only place[pick], or all of one spec. The other placements' cores need not be this process's, as
 * launchers bind each process to its own. */
#define YK__PICK_NONE UINT32_MAX /* only counts the placements */
yk_status yk__device_pick(const char *specs, const yk__topology *t, uint32_t pick, yk__placement **place, uint32_t *n, yk_error *err);
/* Writes the spec that selects exactly this placement again ("opencl:0@1!"), for a rank's process. */
void yk__placement_text(const yk__placement *p, char *buf, size_t n);
/* Puts cards (devices other than the host's cores) first, each kind in its order; returns their number. Cards come first, as a
 * user with one rank per card means the cards. */
uint32_t yk__cards_first(yk__placement *place, uint32_t n);
/* Lists the cards for a message; "" without cards. */
void yk__cards_text(const yk__placement *place, uint32_t n, char *buf, size_t size);

/* ---- An opened device -------------------------------------------------------------------------------------------------- */

typedef struct yk__device {
    yk__plugin *plugin;
    const yk_plugin *table;
    yk_device *handle;
    yk_queue *queue;
    yk_queue *side; /* queue of yk__device_side; NULL before its first call */
    yk_device_caps caps; /* adapted to the planner: align covers value_align, max_alloc covers max_bind, and dtypes has no types that are
                          * younger than the plugin */
    yk__placement place;
    bool plans_only; /* set by yk__device_plan_only */
    pthread_mutex_t queues_lock; /* held in yk__device_abort, and while the queues change */
    atomic_bool aborted; /* yk__device_abort was called */
    bool stopped; /* yk__device_settle was called: its queues have failed */
    bool lost; /* a wait gave it up: its objects are never freed, as it may still access the memory it was given */
    struct yk__device *lost_before; /* once closed: the device lost before it, so that leak checkers find it */
} yk__device;

/* Binds the calling thread to the placement's cores, loads the plugin, opens device and queue, and runs the start-up probe. The probe
 * compares dot, norm, softmax and rng with the reference. A device that computes wrongly is refused. */
yk_status yk__device_open(const yk__placement *place, yk__device **dev, yk_error *err);
void yk__device_close(yk__device *dev);
/* From here on the device only plans: it reports capabilities and memory, and gives out points, but stores and computes nothing. Reads
 * leave their target unchanged. Call it before making any object on the device. */
yk_status yk__device_plan_only(yk__device *dev, yk_error *err);
/* A device that plans only compiles its programs from here on if their memory is known by compiling alone (yk_plugin.program_memory). */
void yk__device_plan_compiles(yk__device *dev);
/* The plugin's collectives among devices, and the handle to call them with; NULL if it has none. A device that plans only answers for its
 * name alone. */
const struct yk_coll *yk__device_coll(const yk__device *dev, yk_device **handle);
/* Seconds of a product of 128 x 512 and 512 x 512, the least of a few runs (30 ms, or one run). It is a first comparison of devices. 0 if
 * it failed. It calls await (may be NULL) once the program is made and has run, before the timed runs; after a failure possibly never. */
double yk__device_pace(yk__device *dev, void (*await)(void *arg), void *arg);
/* The mean of the same product over 30 ms or one run. If the process is stopped meanwhile, that counts too. */
double yk__device_pace_mean(yk__device *dev);

/* As yk_plugin.claims; 0 for a node with operations or types that are younger than the plugin. Any thread. */
uint32_t yk__device_claims(const yk__device *dev, const yk_graph *g, uint32_t node);

/* Ends every wait for the device with `why`, and its work early if the plugin can: each queue's. Any thread. */
void yk__device_abort(yk__device *dev, yk_status why);
/* Returns once nothing runs on the device, which then does nothing more: every call on its queue fails with YK_E_CANCELLED. A device that
 * ran on for 2 s may still run: it is lost. */
void yk__device_settle(yk__device *dev);
/* Returns once the point is done. If an abort ended the wait: once nothing runs on the device. Memory may go then. */
void yk__device_drain(yk__device *dev, uint64_t point);
/* Buffers and transfers in short form; errors carry the plugin's message. */
yk_status yk__device_buffer(yk__device *dev, uint64_t bytes, yk_buffer **b, yk_error *err);
yk_status yk__device_put(yk__device *dev, yk_buffer *b, uint64_t off, const void *src, uint64_t bytes, uint64_t *point,
                         yk_error *err);
yk_status yk__device_get(yk__device *dev, yk_buffer *b, uint64_t off, void *dst, uint64_t bytes, uint64_t *point,
                         yk_error *err);
/* Waits in slices, so that `cancel` (may be NULL; the liveness thread sets it) ends it with YK_E_CANCELLED. A device that finishes
 * nothing for YOKE_STUCK_MS is lost (YK_E_DEVICE_LOST). While this process computes, as it does for a device on its own cores, the limit
 * is ten times as long. */
yk_status yk__device_wait(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err);

/* *cancel also ends the layer validate's waits for runs (YOKE_LAYERS), until the next call; NULL: nothing does. Step thread. */
void yk__layers_cancel(const yk__device *dev, const volatile int *cancel);

/* A queue for copies and collectives in parallel to the programs of `queue`, made at the first call. NULL if the device has no engines
 * for them (YK_CAP_PINS), or only plans. yk__device_wait_side waits for its points. */
yk_status yk__device_side(yk__device *dev, yk_queue **side, yk_error *err);
yk_status yk__device_wait_side(yk__device *dev, uint64_t point, const volatile int *cancel, yk_error *err);

/* The folder for files that later processes of this user read again (YOKE_CACHE_DIR), as plugins get it; NULL if there is none. */
const char *yk__cache_folder(void);

#endif
