/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and loads transports, shared objects that carry messages between hosts (transport.h). core/group chooses one by name when a job
 * starts, yoke-cts tests one, and `yoke info` lists them, in the caller's thread. An unknown name is an error with the names in the folder.
 *
 * A table is used as it is; its users check for optional parts (one-sided writes).
 */
#include "config.h"

#include "core/device/transport_load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/device/module.h"

static const char prefix[] = "transport_", suffix[] = ".so";

static int is_transport(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name), least = sizeof prefix - 1 + sizeof suffix - 1;
    return length > least && !strncmp(entry->d_name, prefix, sizeof prefix - 1) &&
           !strcmp(entry->d_name + length - (sizeof suffix - 1), suffix);
}

char *yk__transport_names(void)
{
    struct dirent **entry = NULL;
    const int n = scandir(yk__plugin_folder(), &entry, is_transport, alphasort);
    char *names = yk__strdup("");
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name + sizeof prefix - 1;
        char *more = names ? yk__format("%s%s%.*s", names, *names ? ", " : "", (int)(strlen(name) - (sizeof suffix - 1)), name) : NULL;
        yk__free(names);
        names = more;
        free(entry[i]);
    }
    free(entry);
    return names;
}

void yk__transport_describe(const char *name, char *text, size_t capacity)
{
    const yk_transport *t = NULL;
    const yk_tr_describe *how = NULL;
    yk_error err = YK_ERROR_INIT;
    *text = 0;
    if (yk__transport_load(name, &t, &err))
        snprintf(text, capacity, "cannot be used: %s", err.text);
    else
        how = t->extension(YK_TR_EXT_DESCRIBE);
    if (how && how->size >= sizeof *how)
        how->describe(text, capacity);
    text[capacity - 1] = 0;
    yk__printable(text);
}

static yk_status unknown_name(const char *name, yk_error *err)
{
    char *names = yk__transport_names();
    yk__fail(err, YK_E_ARG, "there is no transport \"%s\" in %s; there are: %s%s", name, yk__plugin_folder(),
             names && *names ? names : "none", names && *names ? "" : yk__plugin_folder_advice());
    yk__free(names);
    return err->status;
}

/* True if every function for messages is there; one-sided writes are optional. */
static bool table_complete(const yk_transport *t)
{
    return t->size >= offsetof(yk_transport, mem_key) && t->name && t->extension && t->shared_bytes && t->open && t->close && t->peer &&
           t->mem_register && t->mem_release && t->send && t->recv && t->progress && t->test && t->wait_any && t->cancel;
}

static yk_status check_table(const char *path, const yk_transport *t, yk_error *err)
{
    if (!t)
        return yk__fail(err, YK_E_ABI, "transport %s: it does not serve ABI %u", path, YK_TRANSPORT_MAJOR);
    if (t->major != YK_TRANSPORT_MAJOR)
        return yk__fail(err, YK_E_ABI, "transport %s is of ABI %u.%u; this Yoke has %u.%u", path, t->major, t->minor,
                        YK_TRANSPORT_MAJOR, YK_TRANSPORT_MINOR);
    if (!table_complete(t))
        return yk__fail(err, YK_E_ABI, "transport %s: wrong or short table", path);
    return YK_OK;
}

static yk_status load_path(const char *given, const yk_transport **table, yk_error *err)
{
    char *path = realpath(given, NULL);
    yk_transport_query_fn query;
    struct stat st;
    void *symbol = NULL;
    if (!path)
        return yk__fail(err, yk__module_status(errno), "transport %s: %s", given, strerror(errno));
    if (!yk__module_check("transport", path, &st, err) &&
        !yk__module_map("transport", path, YK_TRANSPORT_SYMBOL, &symbol, err)) {
        const yk_transport *t;
        memcpy(&query, &symbol, sizeof query);
        t = query(YK_TRANSPORT_MAJOR);
        if (!check_table(path, t, err))
            *table = t;
    }
    free(path);
    return err->status;
}

char *yk__transport_path(const char *name_or_path, yk_error *err)
{
    const bool is_path = strchr(name_or_path, '/') != NULL;
    char *path = is_path ? yk__strdup(name_or_path) : yk__format("%s/%s%s%s", yk__plugin_folder(), prefix, name_or_path, suffix);
    if (!path) {
        yk__fail_mem(err, strlen(name_or_path), "a transport's path");
        return NULL;
    }
    if (is_path || !access(path, F_OK))
        return path;
    unknown_name(name_or_path, err);
    yk__free(path);
    return NULL;
}

yk_status yk__transport_load(const char *name_or_path, const yk_transport **table, yk_error *err)
{
    char *path = yk__transport_path(name_or_path, err);
    if (!path)
        return err->status;
    load_path(path, table, err);
    yk__free(path);
    return err->status;
}
