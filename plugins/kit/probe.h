/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers tried in child processes. A driver may abort or hang when it is loaded or first compiles, and that must not take the job
 * with it: each entry of a vendor loader is tried alone by a helper program, all at the same time, with a variable of the
 * environment that names it. Nothing is forked: the children are spawned from the one thread that asks.
 *
 * The helper is the option PROBE, or lies beside the plugin; PROBE=none leaves this out; PROBE_MS is how long an answer may take.
 */
#ifndef YOKE_PLUGINS_KIT_PROBE_H
#define YOKE_PLUGINS_KIT_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

#include <yoke/plugin.h>

#define KIT_PROBE_ENTRIES 32

typedef struct kit_probe_entry {
    char path[300];
    pid_t pid; /* 0: not running */
    bool good;
} kit_probe_entry;

typedef struct kit_probe {
    const yk_host *host;
    const char *plugin, *options; /* "opencl", "YOKE_OPENCL_" */
    const char *helper;           /* file name of the program */
    const char *variable;         /* that names the one driver to load */
    uint32_t n;
    kit_probe_entry entry[KIT_PROBE_ENTRIES];
} kit_probe;

/* Adds dir/name, or name alone where dir is NULL, if it has that ending and there is room. */
void kit_probe_add(kit_probe *probe, const char *dir, const char *name, const char *ending);
/* Adds what a folder has with that ending. */
void kit_probe_add_folder(kit_probe *probe, const char *dir, const char *ending);
/* The helper's path; false: drivers are not tried. */
bool kit_probe_find_helper(const kit_probe *probe, char *path, size_t size);
/* Tries all entries; what is not good is logged. */
void kit_probe_try(kit_probe *probe, const char *helper);

#endif
