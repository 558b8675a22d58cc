/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared objects that run within this process, plugins of devices and transports: which files may be loaded, and how. A file is
 * checked before it is mapped, mapped with RTLD_NOW|RTLD_LOCAL, and never unmapped: vendor libraries keep threads and exit handlers.
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_DEVICE_MODULE_H
#define YOKE_CORE_DEVICE_MODULE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "core/base/error.h"

/* Somebody else than the user and root may change this file or folder: what lies there must not run in this process. */
bool yk__others_can_write(const struct stat *st);
/* The folder plugins and transports are looked for in: YOKE_PLUGIN_DIR; else the one beside this program or libyoke.so, in a build tree or
 * an installation that was moved; else the one of the installation. */
const char *yk__plugin_folder(void);
/* What to do where that folder has none, behind an error that names it: ": ..". */
const char *yk__plugin_folder_advice(void);
/* Whether the file may be loaded; *st is its own. kind: "plugin", "transport". */
yk_status yk__module_check(const char *kind, const char *path, struct stat *st, yk_error *err);
/* Maps a file that was checked, and finds its one symbol. */
yk_status yk__module_map(const char *kind, const char *path, const char *symbol, void **address, yk_error *err);

#endif
