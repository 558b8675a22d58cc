/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of core/device share with each other; nobody else includes this.
 */
#ifndef YOKE_CORE_DEVICE_INTERNAL_H
#define YOKE_CORE_DEVICE_INTERNAL_H

#include "core/device/device.h"
#include "core/device/module.h"

struct yk__plugin {
    yk__plugin *next;
    char *name, *path;     /* path "" for a plugin linked into the program */
    uint64_t dev, ino;     /* of the file: loading it twice gives the same plugin */
    yk_plugin table;       /* the plugin's own, gaps filled */
    const yk_plugin *call; /* table, or the hook layers round it */
    bool started;
    yk_error failed; /* why init failed; asked again it answers the same */
};

/* "0-3,6" from numbers in the given order; allocated. */
char *yk__cores_text(const int *core, uint32_t n);
/* True where a topology was recorded on another machine, so that binding makes no sense. */
bool yk__topology_recorded(void);

/* What yk__plugin_watch shows: the plugin that is called from here on, "" behind the call. */
void yk__plugin_asked(const char *name);

/* The host's table; one for all plugins. */
const yk_host *yk__host_table(void);
/* Forgets what host->fail said on this thread. */
void yk__host_message_clear(void);

/* Finds, checks and maps a plugin without calling init, so that options can be set first; then init. */
yk_status yk__plugin_open(const char *name_or_path, yk__plugin **p, yk_error *err);
yk_status yk__plugin_start(yk__plugin *p, yk_error *err);
/* Names of the plugins in the folder and of those linked in, separated by ", "; allocated. */
char *yk__plugin_names(void);
char *yk__plugin_loaded_names(bool linked_only); /* of those that are loaded, or of those linked in alone */
/* Allocated: the names of the plugins in the folder, separated by ", "; the name in "yoke_NAME.so", or NULL; `s`, which is taken, with a
 * further name (NULL or "": none). */
char *yk__plugin_folder_names(void);
bool yk__plugin_is_file(const char *name); /* by its name: yoke_NAME.so */
char *yk__plugin_file_name(const char *file);
char *yk__plugin_add_name(char *s, const char *name);
/* Whether a plugin was compiled with the operations and types of a node and its body. */
bool yk__plugin_knows(const yk_plugin *t, const yk_graph *g, uint32_t node);

/* The one of `list` (separated by commas and spaces) that `name` was probably meant to be; "" when none is near. */
const char *yk__device_nearest(const char *name, const char *list, char *buf, size_t n);

/* Waits for a point, for as long as points of the queue, or of the one that it may wait for (producer; NULL: none), or the driver move.
 * YK_E_TIMEOUT: none did for *idle_ns, YOKE_STUCK_MS or more; YK_E_CANCELLED: *cancel is set. */
yk_status yk__point_wait(const yk_plugin *table, yk_queue *queue, yk_queue *producer, uint64_t point, const volatile int *cancel,
                         uint64_t *idle_ns);

/* YOKE_LAYERS: *out is `inner` itself when no layer is asked for. */
yk_status yk__layers_wrap(const yk_plugin *inner, const yk_plugin **out, yk_error *err);

/* Runs the start-up probe. */
yk_status yk__probe(yk__device *dev, yk_error *err);
/* A failure of a call, with the message of the plugin: "NAME:0: WHAT: ..". s is YK_OK: nothing. */
yk_status yk__device_fail(yk__device *dev, yk_status status, const char *what, yk_error *err);

#endif
