/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of all plugins: the ones in YOKE_PLUGINS or in the folder, and the linked ones. Each has its number of devices, or the reason
 * why it has none.
 *
 * select.c reads it to choose devices, and `yoke info` prints it, in the caller's thread. A plugin that fails is listed and warned about,
 * not an error.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/device_internal.h"

typedef struct list {
    yk__plugin_info *info;
    size_t n, cap;
    bool warned;
} list;

static atomic_bool warned, silent;

bool yk__plugins_warned(void)
{
    return atomic_load(&warned);
}

void yk__plugins_silence(void)
{
    atomic_store(&silent, true);
}

char *yk__plugin_owners(void)
{
    const char *named = yk__option_text(YK__OPTION_PLUGINS);
    char *loaded = yk__plugin_loaded_names(false), *s = yk__plugin_add_name(yk__plugin_folder_names(), loaded);
    yk__free(loaded);
    while (named && *(named += strspn(named, ", "))) {
        char *path = yk__strndup(named, strcspn(named, ", ")), *slash = path ? strrchr(path, '/') : NULL;
        char *name = path ? yk__plugin_file_name(slash ? slash + 1 : path) : NULL;
        s = yk__plugin_add_name(s, name ? name : path);
        named += strcspn(named, ", ");
        yk__free(name);
        yk__free(path);
    }
    return s;
}

/* Fills the entry; returns the status, with the reason of a refusal in the entry. */
static yk_status info_describe(yk__plugin_info *info, const char *plugin, const char *why)
{
    yk_error err = YK_ERROR_INIT;
    yk__plugin *p = NULL;
    uint32_t devices = 0;
    yk_status s;
    if (yk__plugin_load(plugin, &p, &err)) {
        info->name = yk__strdup(plugin);
        info->path = yk__strdup("");
        info->version = yk__strdup("");
        info->reason = yk__strdup(err.text);
        return err.status;
    }
    s = yk__plugin_devices(p, &devices, &err);
    info->name = yk__strdup(p->name);
    info->path = yk__strdup(p->path);
    info->version = yk__strdup(p->table.version);
    info->loaded = true;
    info->devices = devices;
    if (s) {
        info->reason = yk__strdup(err.text);
    } else {
        const char *said = yk__plugin_message();
        info->reason = devices || !*said ? yk__strdup(devices ? why : "loaded, but it finds no device") : yk__strdup(said);
    }
    return s;
}

/* must: a named plugin, whose failure is the caller's too. So is YK_E_ARG of any plugin: the user set a wrong value for it. */
static yk_status info_add(list *l, const char *plugin, const char *why, bool must, yk_error *err)
{
    yk__plugin_info *info;
    if (yk__grow(&l->info, &l->cap, l->n + 1, sizeof *l->info))
        return yk__fail_mem(err, sizeof *l->info, "the list of plugins");
    info = &l->info[l->n];
    memset(info, 0, sizeof *info);
    yk_status s = info_describe(info, plugin, why);
    l->n++;
    if (!info->name || !info->path || !info->version || !info->reason)
        return yk__fail_mem(err, strlen(plugin), "the list of plugins");
    for (size_t i = 0; must && i + 1 < l->n; i++)
        if (*info->path && !strcmp(l->info[i].path, info->path))
            return yk__fail(err, YK_E_ARG, "YOKE_PLUGINS: \"%s\" is plugin \"%s\" (%s), which it names before", plugin, info->name,
                            info->path);
    if (s == YK_E_ARG)
        return yk__fail(err, YK_E_ARG, "%s", info->reason);
    if (s && must)
        return yk__fail(err, YK_E_ABI, "%s", info->reason);
    if (s && !atomic_load(&silent)) {
        yk__log(YK_LOG_WARN, "plugins", "%s", info->reason);
        l->warned = true;
    }
    return YK_OK;
}

static yk_status add_all(list *l, const char *names, const char *why, bool must, yk_error *err)
{
    while (!err->status && *(names += strspn(names, ", "))) {
        size_t len = strcspn(names, ", ");
        char *plugin = yk__strndup(names, len);
        if (!plugin)
            return yk__fail_mem(err, len, "the name of a plugin");
        info_add(l, plugin, why, must, err);
        yk__free(plugin);
        names += len;
    }
    return err->status;
}

yk_status yk__plugin_list(yk__plugin_info **out, uint32_t *n, yk_error *err)
{
    const char *named = yk__option_text(YK__OPTION_PLUGINS);
    char *linked = yk__plugin_loaded_names(true), *found = named ? NULL : yk__plugin_folder_names();
    list l = {NULL, 0, 0, false};
    if (named)
        add_all(&l, named, "named by YOKE_PLUGINS", true, err);
    else if (found)
        add_all(&l, found, "found in the plugin folder", false, err);
    if (!err->status && linked)
        add_all(&l, linked, "linked into the program", false, err);
    if (l.warned) {
        atomic_store(&warned, true);
        yk__plugins_silence();
    }
    yk__free(linked);
    yk__free(found);
    if (err->status) {
        yk__plugin_list_free(l.info, (uint32_t)l.n);
        return err->status;
    }
    *out = l.info;
    *n = (uint32_t)l.n;
    return YK_OK;
}

void yk__plugin_list_free(yk__plugin_info *info, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        yk__free(info[i].name);
        yk__free(info[i].path);
        yk__free(info[i].version);
        yk__free(info[i].reason);
    }
    yk__free(info);
}
