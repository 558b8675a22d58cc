/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers tried in child processes. A driver may abort or hang when it is loaded or first compiles, and that must not take the job
 * with it: each entry of a vendor loader is tried alone by a helper program, all at the same time, with a variable of the
 * environment that names it. Nothing is forked: the children are spawned from the one thread that asks.
 *
 * The helper is the option PROBE, or lies beside the plugin; PROBE=none leaves this out; PROBE_MS is how long an answer may take.
 * Verdicts are kept between processes (survey.h). The order of calls: kit_probe_add.., kit_probe_key, kit_probe_drivers, loading,
 * kit_probe_done; or kit_probe_known alone, if nothing has to be loaded. One thread at a time.
 */
#ifndef YOKE_PLUGINS_KIT_PROBE_H
#define YOKE_PLUGINS_KIT_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

#include <yoke/plugin.h>

#include "plugins/kit/survey.h"

#define KIT_PROBE_ENTRIES 32

typedef struct kit_probe_entry {
    char path[300];
    pid_t pid; /* 0: not running */
    bool good;
} kit_probe_entry;

typedef struct kit_probe {
    kit_survey survey;    /* whose verdicts */
    const char *options;  /* "YOKE_OPENCL_" */
    const char *helper;   /* file name of the program */
    const char *variable; /* that names the one driver to load */
    void (*file)(const char *entry, char *path, size_t n); /* of an entry that is more than a path; may be NULL */
    int limit_ms;         /* how long an answer may take where no option says it; 0: 30 s */
    const char *(*reason)(int code); /* words for an exit code of the helper, NULL for a code without; NULL: there are none */
    uint64_t key;         /* of the entries and what they depend on; 0: there is none */
    bool fresh;           /* tried by this process, and not kept yet */
    bool reported;        /* which drivers are not used */
    uint32_t n;
    kit_probe_entry entry[KIT_PROBE_ENTRIES];
} kit_probe;

/* Adds dir/name, or name alone where dir is NULL, if it has that ending and there is room. */
void kit_probe_add(kit_probe *probe, const char *dir, const char *name, const char *ending);
/* Adds what a folder has with that ending. */
void kit_probe_add_folder(kit_probe *probe, const char *dir, const char *ending);
/* What the verdicts of all entries added are kept under; 0: there is no entry. */
uint64_t kit_probe_key(kit_probe *probe);
/* Whether what is known of these drivers is recent enough to go by, or they are not tried at all. */
bool kit_probe_known(kit_probe *probe);
/* Tries what is not known; what is not good is logged. True: some are to be left out, those whose entry is not good. */
bool kit_probe_drivers(kit_probe *probe);
/* False: PROBE=none, or there is no helper, so drivers are loaded untried. */
bool kit_probe_tries(const kit_probe *probe);
/* Call it with the drivers loaded: keeps what was tried. */
void kit_probe_done(kit_probe *probe);

#endif
