/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads plugins by name or path, checks them and starts them. Naming a file twice gives one plugin. The list of loaded plugins belongs to
 * the process.
 *
 * select.c, pluginlist.c and device_open.c load plugins, from any thread: a lock guards the list. An unknown name is an error with the
 * nearest known one and the folder that was searched.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/advance.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/process/signals.h"
#include "core/device/device_internal.h"

#define VERSION_BYTES 63 /* of a version that are kept */

/* guards the list and start-up; recursive, as an error message lists the plugins */
static pthread_mutex_t lock;
static pthread_once_t lock_once = PTHREAD_ONCE_INIT;
static yk__plugin *plugins;

static void make_lock(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void plugins_lock(void)
{
    pthread_once(&lock_once, make_lock);
    pthread_mutex_lock(&lock);
}

static void plugins_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

const yk_plugin *yk__plugin_table(const yk__plugin *p)
{
    return p->call;
}

const char *yk__plugin_path(const yk__plugin *p)
{
    return p->path;
}

static yk__plugin *find_name(const char *name)
{
    yk__plugin *p = plugins;
    while (p && strcmp(p->name, name))
        p = p->next;
    return p;
}

static yk__plugin *find_file(const struct stat *st)
{
    yk__plugin *p = plugins;
    while (p && !(*p->path && p->dev == (uint64_t)st->st_dev && p->ino == (uint64_t)st->st_ino))
        p = p->next;
    return p;
}

static void plugin_discard(yk__plugin *p)
{
    yk__free(p->name);
    yk__free(p->path);
    yk__free(p->version);
    yk__free(p);
}

/* name: the required name of a plugin in the folder, as a device spec finds it by its file; NULL for any. */
static yk_status check_name(const char *called, const char *name, const char *who, yk_error *err)
{
    if (!name || !strcmp(called, name))
        return YK_OK;
    return yk__fail(err, YK_E_ABI, "%s: it is called \"%s\": expected a file yoke_%s.so", who, called, called);
}

/* After a failure the caller discards the partly filled plugin. */
static yk_status plugin_fill(yk__plugin *p, yk_plugin_query_fn query, const char *who, const char *path, const char *name, yk_error *err)
{
    const yk_plugin *given;
    yk__signals kept;
    yk__signals_keep(&kept);
    yk__plugin_asked(who);
    given = query(YK_ABI);
    yk__plugin_asked("");
    yk__signals_restore(&kept);
    if (yk__plugin_table_take(given, who, &p->table, err) || check_name(p->table.name, name, who, err))
        return err->status;
    if (find_name(p->table.name))
        return yk__fail(err, YK_E_ABI, "%s: it is called \"%s\", as another plugin is (%s): a device spec could mean either", who,
                        p->table.name, find_name(p->table.name)->path);
    p->name = yk__strdup(p->table.name);
    p->path = yk__strdup(path);
    p->version = yk__strndup(p->table.version, strnlen(p->table.version, VERSION_BYTES));
    if (!p->name || !p->path || !p->version)
        return yk__fail_mem(err, strlen(path), "a plugin's path");
    p->table.name = p->name;
    p->table.version = yk__printable(p->version);
    return yk__layers_wrap(&p->table, &p->call, err);
}

/* Puts a queried table into the list. */
static yk_status plugin_enlist(yk_plugin_query_fn query, const char *who, const char *path, const struct stat *st, const char *name,
                        yk__plugin **out, yk_error *err)
{
    yk__plugin *p = yk__calloc(1, sizeof *p);
    if (!p)
        return yk__fail_mem(err, sizeof *p, "a plugin");
    if (plugin_fill(p, query, who, path, name, err)) {
        plugin_discard(p);
        return err->status;
    }
    p->dev = st ? (uint64_t)st->st_dev : 0;
    p->ino = st ? (uint64_t)st->st_ino : 0;
    p->next = plugins;
    plugins = *out = p;
    return YK_OK;
}

static yk_status map_file(const char *path, const struct stat *st, const char *name, yk__plugin **out, yk_error *err)
{
    yk_plugin_query_fn query;
    char who[300];
    void *symbol = NULL;
    if (yk__module_map("plugin", path, YK_PLUGIN_SYMBOL, &symbol, err))
        return err->status;
    memcpy(&query, &symbol, sizeof query);
    snprintf(who, sizeof who, "plugin %.280s", path);
    return plugin_enlist(query, who, path, st, name, out, err);
}

static yk_status open_path(const char *given, const char *name, yk__plugin **p, yk_error *err)
{
    char *path = realpath(given, NULL);
    struct stat st;
    if (!path)
        return yk__fail(err, yk__module_status(errno), "plugin %s: %s", given, strerror(errno));
    if (yk__module_check("plugin", path, &st, err) == YK_OK) {
        yk__plugin *known = find_file(&st);
        if (!known)
            map_file(path, &st, name, p, err);
        else if (!check_name(known->name, name, path, err))
            *p = known;
    }
    free(path);
    return err->status;
}

static yk_status unknown_name(const char *name, yk_error *err)
{
    char near[64], file[80] = "", *names = yk__plugin_names();
    yk__device_nearest(name, names ? names : "", near, sizeof near);
    if (strchr(name, '.')) /* no name has one */
        snprintf(file, sizeof file, " (a file is ./%.60s)", name);
    yk__fail(err, YK_E_ARG, "there is no plugin \"%s\"%s%s%s%s in %s; there are: %s%s", name, file, *near ? " (did you mean " : "", near,
             *near ? "?)" : "", yk__plugin_folder(), names && *names ? names : "none", names && *names ? "" : yk__plugin_folder_advice());
    yk__free(names);
    return err->status;
}

/* Finds a plugin that YOKE_PLUGINS gives by its path, by the name that it has. */
static yk__plugin *find_named_path(const char *name)
{
    const char *list = yk__option_text(YK__OPTION_PLUGINS);
    yk__plugin *p = NULL;
    while (list && !p && *(list += strspn(list, ", "))) {
        size_t len = strcspn(list, ", ");
        char *path = memchr(list, '/', len) ? yk__strndup(list, len) : NULL;
        yk_error quiet = YK_ERROR_INIT;
        if (path && !open_path(path, NULL, &p, &quiet) && strcmp(p->name, name))
            p = NULL;
        yk__free(path);
        list += len;
    }
    return p;
}

static yk_status open_name(const char *name, yk__plugin **p, yk_error *err)
{
    yk__plugin *known = find_name(name);
    struct stat there; /* a dangling link exists too, and its error says that it cannot be opened */
    char *path;
    if (!known)
        known = find_named_path(name);
    if (known) {
        *p = known;
        return YK_OK;
    }
    path = yk__format("%s/yoke_%s.so", yk__plugin_folder(), name);
    if (!path)
        return yk__fail_mem(err, strlen(name), "a plugin's path");
    if (lstat(path, &there))
        unknown_name(name, err);
    else if (open_path(path, name, p, err) == YK_E_ARG)
        err->status = YK_E_IO; /* a broken file of the folder is no wrong value of a setting */
    yk__free(path);
    return err->status;
}

yk_status yk__plugin_open(const char *name_or_path, yk__plugin **p, yk_error *err)
{
    YK__ACT_HERE(YK__ACT_OPEN);
    plugins_lock();
    if (strchr(name_or_path, '/'))
        open_path(name_or_path, NULL, p, err);
    else
        open_name(name_or_path, p, err);
    plugins_unlock();
    return err->status;
}

yk_status yk__plugin_start(yk__plugin *p, yk_error *err)
{
    YK__ACT_HERE(YK__ACT_OPEN);
    plugins_lock();
    if (!p->started && !p->failed.status) {
        yk__signals kept;
        yk_status s;
        yk__host_message_clear();
        yk__signals_keep(&kept);
        yk__plugin_asked(p->name);
        s = p->call->init(yk__host_table());
        yk__plugin_asked("");
        yk__signals_restore(&kept);
        if (s)
            yk__plugin_fail(&p->failed, p, s, "starting the plugin");
        p->started = !s;
    }
    if (p->failed.status)
        *err = p->failed;
    plugins_unlock();
    return err->status;
}

yk_status yk__plugin_load(const char *name_or_path, yk__plugin **out, yk_error *err)
{
    yk__plugin *p = NULL;
    if (yk__plugin_open(name_or_path, &p, err) || yk__plugin_start(p, err))
        return err->status;
    *out = p;
    return YK_OK;
}

yk_status yk__plugin_register(yk_plugin_query_fn query, const char *name, yk__plugin **p, yk_error *err)
{
    char who[80];
    snprintf(who, sizeof who, "plugin %.60s", name);
    plugins_lock();
    if (find_name(name))
        yk__fail(err, YK_E_ARG, "plugin %s: there is one of this name already", name);
    else
        plugin_enlist(query, who, "", NULL, NULL, p, err);
    plugins_unlock();
    return err->status;
}

void yk__plugins_fini(void)
{
    fflush(stdout); /* a driver that ends the process here must not take lines with it */
    plugins_lock();
    for (yk__plugin *p = plugins; p; p = p->next) {
        if (p->started)
            p->call->fini();
        p->started = false;
    }
    plugins_unlock();
}

void yk__plugins_free(void)
{
    pthread_once(&lock_once, make_lock);
    if (pthread_mutex_trylock(&lock))
        return; /* another thread is in a driver, and exit must not wait for it */
    for (yk__plugin **at = &plugins; *at;) {
        yk__plugin *p = *at;
        if (p->started) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        plugin_discard(p);
    }
    if (!plugins)
        yk__host_free();
    plugins_unlock();
}

char *yk__plugin_loaded_names(bool linked_only)
{
    char *s = yk__strdup("");
    plugins_lock();
    for (yk__plugin *p = plugins; p && s; p = p->next) {
        char *t = linked_only && *p->path ? s : yk__format("%s%s%s", s, *s ? ", " : "", p->name);
        if (t != s)
            yk__free(s);
        s = t;
    }
    plugins_unlock();
    return s;
}

char *yk__plugin_names(void)
{
    char *linked = yk__plugin_loaded_names(true), *s = yk__plugin_add_name(yk__plugin_folder_names(), linked);
    yk__free(linked);
    return s;
}
