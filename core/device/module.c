/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which shared objects this process may load, and maps them: only files that no user but its own and root could have put there.
 *
 * plugin.c and transport_load.c ask before each load, in any thread; host.c asks if a folder is safe. select.c, pluginname.c and `yoke
 * info` ask for the folder of plugins. The folder of plugins is YOKE_PLUGIN_DIR, else the one beside the program or the installed one. A
 * refusal names the folder or file, its mode, and the remedy.
 */
#include "config.h"

#include "core/device/module.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/process/signals.h"
#include "core/device/device_internal.h"

/* ---- The folder of plugins --------------------------------------------------------------------------------------- */

static char own_folder[PATH_MAX]; /* "": none */
static pthread_once_t own_folder_once = PTHREAD_ONCE_INIT;

static bool has_plugins(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *d;
    bool found = false;
    while (dir && !found && (d = readdir(dir)))
        found = yk__plugin_is_file(d->d_name);
    if (dir)
        closedir(dir);
    return found;
}

static bool folder_try(const char *format, const char *at, const char *rest)
{
    const int n = snprintf(own_folder, sizeof own_folder, format, at, rest);
    if (n > 0 && (size_t)n < sizeof own_folder && has_plugins(own_folder))
        return true;
    own_folder[0] = 0;
    return false;
}

/* Tries the folder of a moved installation, whose folders lie to each other as before: /opt/x/bin has /opt/x/lib/yoke. */
static void moved_try(char *at)
{
    const char *bin = YK_BIN_DIR, *plugins = YK_PLUGIN_DIR;
    size_t common = 0, i = 0;
    for (; bin[i] && bin[i] == plugins[i]; i++)
        if (bin[i] == '/')
            common = i;
    const size_t rest = strlen(bin + common), len = strlen(at);
    if (len < rest || strcmp(at + len - rest, bin + common))
        return;
    at[len - rest] = 0;
    folder_try("%s%s", at, plugins + common);
}

/* Finds the folder of this code: of libyoke.so in a program that loads it, else of the program. A setuid program trusts no folder that a
 * link can give. */
static void find_own_folder(void)
{
    Dl_info info = {NULL, NULL, NULL, NULL};
    char path[PATH_MAX], *slash;
    if (getauxval(AT_SECURE))
        return;
    const bool library = dladdr(own_folder, &info) && info.dli_fname && strstr(info.dli_fname, "libyoke.so");
    if (!realpath(library ? info.dli_fname : "/proc/self/exe", path))
        return;
    slash = strrchr(path, '/');
    if (!slash || slash == path)
        return;
    *slash = 0;
    if (library) {
        if (!folder_try("%s%s", path, "/yoke"))
            folder_try("%s%s", path, ""); /* .libs of a build tree */
    } else if (!folder_try("%s%s", path, "/.libs"))
        moved_try(path);
}

const char *yk__plugin_folder(void)
{
    const char *s = yk__option_text(YK__OPTION_PLUGIN_DIR);
    if (s)
        return s;
    pthread_once(&own_folder_once, find_own_folder);
    return own_folder[0] ? own_folder : YK_PLUGIN_DIR;
}

const char *yk__plugin_folder_advice(void)
{
    return yk__option_text(YK__OPTION_PLUGIN_DIR) ? ": YOKE_PLUGIN_DIR is that folder, and has to be the one that holds yoke_cpu.so"
                                                  : ": 'make install' puts plugins there, and YOKE_PLUGIN_DIR names another folder";
}

/* ---- Files -------------------------------------------------------------------------------------------------------- */

bool yk__others_can_write(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return true;
    return (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && st->st_gid != getegid() && st->st_gid != 0);
}

/* Checks the parent folders: with write access to one, another user could replace the plugin's folder. Sticky folders (/tmp) are fine, as
 * only owners rename there. */
static yk_status check_above(const char *kind, const char *path, char *dir, yk_error *err)
{
    struct stat st;
    for (char *slash = strrchr(dir, '/'); slash; slash = strrchr(dir, '/')) {
        const bool top = slash == dir;
        slash[top] = 0;
        if (stat(dir, &st))
            return yk__fail(err, yk__module_status(errno), "%s %s: cannot check the folder %s: %s: make it readable, or move the file",
                            kind, path, dir, strerror(errno));
        if ((st.st_mode & S_ISVTX) ? st.st_uid != geteuid() && st.st_uid != 0 : yk__others_can_write(&st))
            return yk__fail(err, YK_E_ABI, "%s %s: other users can write %s, a folder above it (mode %03o, owner %u, group %u), so "
                            "it is not loaded; chmod go-w it", kind, path, dir, st.st_mode & 07777u, st.st_uid, st.st_gid);
        if (top)
            break;
    }
    return YK_OK;
}

yk_status yk__module_status(int reason)
{
    const bool name = reason == ENOENT || reason == ENOTDIR || reason == EACCES || reason == ELOOP || reason == ENAMETOOLONG;
    return name ? YK_E_ARG : YK_E_IO;
}

/* Refuses a file that another user could replace, as it would run inside this process. */
yk_status yk__module_check(const char *kind, const char *path, struct stat *st, yk_error *err)
{
    struct stat folder;
    char *dir = yk__strdup(path), *slash = dir ? strrchr(dir, '/') : NULL;
    if (!dir)
        return yk__fail_mem(err, strlen(path), "a path");
    if (slash)
        slash[slash == dir] = 0;
    if (stat(path, st))
        yk__fail(err, yk__module_status(errno), "%s %s: %s", kind, path, strerror(errno));
    else if (!S_ISREG(st->st_mode))
        yk__fail(err, YK_E_ARG, "%s %s: expected a file, got another kind: name the shared object", kind, path);
    else if (yk__others_can_write(st))
        yk__fail(err, YK_E_ABI, "%s %s: other users can write this file (mode %03o, owner %u), so it is not loaded; "
                 "chmod go-w it", kind, path, st->st_mode & 0777u, st->st_uid);
    else if (stat(slash ? dir : ".", &folder))
        yk__fail(err, yk__module_status(errno), "%s %s: cannot check its folder: %s: make it readable, or move the file", kind, path,
                 strerror(errno));
    else if (yk__others_can_write(&folder))
        yk__fail(err, YK_E_ABI, "%s %s: other users can write its folder %s (mode %03o, owner %u), so it is not loaded; "
                 "chmod go-w it", kind, path, dir, folder.st_mode & 0777u, folder.st_uid);
    else if (slash)
        check_above(kind, path, dir, err);
    yk__free(dir);
    return err->status;
}

yk_status yk__module_map(const char *kind, const char *path, const char *symbol, void **address, yk_error *err)
{
    yk__signals kept;
    void *dl;
    yk__signals_keep(&kept);
    dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    yk__signals_restore(&kept);
    if (!dl) {
        const char *why = dlerror();
        return yk__fail(err, YK_E_ABI, "%s %s: %s", kind, path, why ? why : "the loader gave no reason");
    }
    *address = dlsym(dl, symbol);
    if (!*address)
        return yk__fail(err, YK_E_ABI, "%s %s: it has no symbol %s, so it is no %s for yoke", kind, path, symbol, kind);
    return YK_OK;
}
