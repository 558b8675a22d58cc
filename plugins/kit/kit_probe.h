/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers tried in child processes. A driver may abort or hang when it is loaded or first compiles, and must not take the job with it.
 * So a helper program tries each entry of a vendor loader alone, all at the same time, with an environment variable that names the
 * entry. Nothing is forked: the calling thread spawns the children.
 *
 * The option PROBE names the helper; by default it is next to the plugin. PROBE=none turns trials off. PROBE_MS limits the time of an
 * answer. Verdicts are kept between processes (kit_survey.h). The order of calls: kit_probe_add.., kit_probe_key, kit_probe_drivers,
 * loading, kit_probe_done; or kit_probe_known alone, if nothing has to be loaded. One thread at a time.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_PROBE_H
#define YOKE_PLUGINS_KIT_KIT_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

#include <yoke/plugin.h>

#include "plugins/kit/kit_survey.h"

#define KIT_PROBE_ENTRIES 32
#define KIT_PROBE_SILENT 255u /* no answer in time */

typedef struct kit_probe_entry {
    char path[300];
    pid_t pid; /* 0: not running */
    bool good;
    uint8_t code; /* of a bad one: its exit code, 128 and its signal, or KIT_PROBE_SILENT */
} kit_probe_entry;

typedef struct kit_probe {
    kit_survey survey;    /* owner of the verdicts */
    const char *options;  /* "YOKE_OPENCL_" */
    const char *helper;   /* file name of the program */
    const char *variable; /* environment variable that names the one driver to load */
    void (*file)(const char *entry, char *path, size_t n); /* path of an entry that is more than a path; may be NULL */
    int limit_ms;         /* ms for an answer without an option; 0 means 30 s */
    const char *(*reason)(int code); /* words for an exit code of the helper, NULL for an unknown code; may be NULL */
    uint64_t key;         /* hash of the entries and their dependencies; 0 without entries */
    bool fresh;           /* this process tried them, and has not kept the verdicts yet */
    bool untried;         /* a helper could not be started, so no verdict is kept */
    bool reported;        /* which drivers are not used */
    uint32_t n;
    kit_probe_entry entry[KIT_PROBE_ENTRIES];
} kit_probe;

/* Adds dir/name, or name alone where dir is NULL, if it has that ending and there is room. */
void kit_probe_add(kit_probe *probe, const char *dir, const char *name, const char *ending);
/* Adds a folder's files with that ending. */
void kit_probe_add_folder(kit_probe *probe, const char *dir, const char *ending);
/* Key of the verdicts on all added entries; 0 without entries. */
uint64_t kit_probe_key(kit_probe *probe);
/* True if the verdicts on these drivers are recent enough, or drivers are not tried. */
bool kit_probe_known(kit_probe *probe);
/* Tries the unknown entries, and logs the bad ones. True if some must be left out: those whose entry is not good. */
bool kit_probe_drivers(kit_probe *probe);
/* False with PROBE=none, or without a helper: drivers are then loaded untried. */
bool kit_probe_tries(const kit_probe *probe);
/* Keeps the new verdicts; call it with the drivers loaded. */
void kit_probe_done(kit_probe *probe);

#endif
