/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which shared objects this process may load: only files that no user but its own and root could have put there. */
#include "config.h"

#include "core/device/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/signals.h"

const char *yk__plugin_folder(void)
{
    const char *s = yk__option_text(YK__OPTION_PLUGIN_DIR);
    return s ? s : YK_PLUGIN_DIR;
}

bool yk__others_can_write(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return true;
    return (st->st_mode & S_IWOTH) || ((st->st_mode & S_IWGRP) && st->st_gid != getegid() && st->st_gid != 0);
}

/* Checks the parent folders: a user who can write one could replace the plugin's folder. Sticky folders (/tmp) are fine, as only owners
 * rename there. */
static yk_status check_above(const char *kind, const char *path, char *dir, yk_error *err)
{
    struct stat st;
    for (char *slash = strrchr(dir, '/'); slash; slash = strrchr(dir, '/')) {
        const bool top = slash == dir;
        slash[top] = 0;
        if (stat(dir, &st))
            return yk__fail(err, YK_E_IO, "%s %s: %s: %s", kind, path, dir, strerror(errno));
        if ((st.st_mode & S_ISVTX) ? st.st_uid != geteuid() && st.st_uid != 0 : yk__others_can_write(&st))
            return yk__fail(err, YK_E_ABI, "%s %s: other users can write %s, a folder above it (mode %03o, owner %u, group %u), so "
                            "it is not loaded; chmod go-w it", kind, path, dir, st.st_mode & 07777u, st.st_uid, st.st_gid);
        if (top)
            break;
    }
    return YK_OK;
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
        yk__fail(err, YK_E_IO, "%s %s: %s", kind, path, strerror(errno));
    else if (!S_ISREG(st->st_mode))
        yk__fail(err, YK_E_IO, "%s %s: it is not a file", kind, path);
    else if (yk__others_can_write(st))
        yk__fail(err, YK_E_ABI, "%s %s: other users can write this file (mode %03o, owner %u), so it is not loaded; "
                 "chmod go-w it", kind, path, st->st_mode & 0777u, st->st_uid);
    else if (stat(slash ? dir : ".", &folder))
        yk__fail(err, YK_E_IO, "%s %s: its folder: %s", kind, path, strerror(errno));
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
