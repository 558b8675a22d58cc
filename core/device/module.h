/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared objects that run within this process, plugins of devices and transports: which files may be loaded, and how. A file is checked
 * before it is mapped. It is mapped with RTLD_NOW|RTLD_LOCAL and never unmapped, as vendor libraries keep threads and exit handlers.
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_DEVICE_MODULE_H
#define YOKE_CORE_DEVICE_MODULE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "core/base/error.h"

/* True if a user besides this one and root may change this file or folder; its contents must not run in this process. */
bool yk__others_can_write(const struct stat *st);
/* The folder of plugins and transports: YOKE_PLUGIN_DIR; else the folder beside this program or libyoke.so, in a build tree or a moved
 * installation; else the installation's. */
const char *yk__plugin_folder(void);
/* The remedy if that folder has no plugin, as the end of an error that names it: ": ..". */
const char *yk__plugin_folder_advice(void);
/* The status for a path that cannot be read, by its errno: a wrong path is wrong input. */
yk_status yk__module_status(int reason);
/* Checks that the file may be loaded; *st is its own. kind: "plugin", "transport". */
yk_status yk__module_check(const char *kind, const char *path, struct stat *st, yk_error *err);
/* Maps a checked file, and finds its one symbol. */
yk_status yk__module_map(const char *kind, const char *path, const char *symbol, void **address, yk_error *err);

#endif
