/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of core/device share; no other file includes this. */
#ifndef YOKE_CORE_DEVICE_DEVICE_INTERNAL_H
#define YOKE_CORE_DEVICE_DEVICE_INTERNAL_H

#include "core/device/device.h"
#include "core/device/module.h"

/* Tells a plugin the number of the one device that this process opens, before its init; "": not known. Plugins before minor 6 may have
 * an option of that name. */
yk_status yk__plugin_device_hint(const yk__plugin *p, const char *number, yk_error *err);

struct yk__plugin {
    yk__plugin *next;
    char *name, *path;     /* path "" for a plugin linked into the program */
    char *version;         /* printable, as table.version, which points here: a plugin's own text may change */
    uint64_t dev, ino;     /* the file's, so that loading it twice gives the same plugin */
    yk_plugin table;       /* the plugin's own, with gaps filled */
    const yk_plugin *call; /* table, or the hook layers around it */
    bool started;
    yk_error failed; /* reason of a failed init, returned again by later calls */
};

/* "0-3,6" from numbers in the given order; allocated. */
char *yk__cores_text(const int *core, uint32_t n);
/* True for a topology that was recorded on another machine, so that binding makes no sense. */
bool yk__topology_recorded(void);

/* Sets the text of yk__plugin_watch: the plugin of the next call, "" after it. */
void yk__plugin_asked(const char *name);

/* The host's table, the same for all plugins. */
const yk_host *yk__host_table(void);
/* Forgets this thread's message of host->fail. */
void yk__host_message_clear(void);
void yk__host_free(void); /* the options and the path of the cache folder, which plugins hold */

/* Finds, checks and maps a plugin without init, so that options can be set first. yk__plugin_start runs init. */
yk_status yk__plugin_open(const char *name_or_path, yk__plugin **p, yk_error *err);
yk_status yk__plugin_start(yk__plugin *p, yk_error *err);
/* Names of the plugins in the folder and of the linked ones, separated by ", "; allocated. */
char *yk__plugin_names(void);
char *yk__plugin_loaded_names(bool linked_only); /* names of the loaded plugins, or only of the linked ones */
/* All allocated: the names of the plugins in the folder, separated by ", "; the name in "yoke_NAME.so", or NULL; `s`, which is freed,
 * with a further name (NULL or "" for none). */
char *yk__plugin_folder_names(void);
bool yk__plugin_is_file(const char *name); /* by its name: yoke_NAME.so */
char *yk__plugin_file_name(const char *file);
char *yk__plugin_add_name(char *s, const char *name);
/* True if the plugin was compiled with the operations and types of a node and its body. */
bool yk__plugin_knows(const yk_plugin *t, const yk_graph *g, uint32_t node);

/* The name in `list` (separated by commas and spaces) closest to the mistyped `name`; "" if none is close. */
const char *yk__device_nearest(const char *name, const char *list, char *buf, size_t n);

/* Waits for a point while the queue, its producer (another queue that it may wait for, or NULL) or the driver makes progress.
 * YK_E_TIMEOUT: no progress for *idle_ns, YOKE_STUCK_MS or more. YK_E_CANCELLED: *cancel is set. */
yk_status yk__point_wait(const yk_plugin *table, yk_queue *queue, yk_queue *producer, uint64_t point, const volatile int *cancel,
                         uint64_t *idle_ns);

/* Applies YOKE_LAYERS; *out is `inner` itself without layers. */
yk_status yk__layers_wrap(const yk_plugin *inner, const yk_plugin **out, yk_error *err);

/* Runs the start-up probe. */
yk_status yk__probe(yk__device *dev, yk_error *err);
/* Fails with the plugin's message: "NAME:0: CALL: .."; what names the call. No-op for YK_OK. */
yk_status yk__device_fail(yk__device *dev, yk_status status, const char *what, yk_error *err);

#endif
