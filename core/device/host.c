/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's services for plugins (yk_host in plugin.h): memory, log, failure messages, options, the reference kernels, a cache folder. An
 * option is YOKE_<PLUGIN>_<KEY> of the environment, or a value that a device spec sets. The cache folder is YOKE_CACHE_DIR, else yoke in
 * XDG_CACHE_HOME or in HOME's .cache.
 *
 * plugin.c hands the table to each plugin at its start, and the plugin may call it from any thread. A failure message belongs to the
 * calling thread, and yk__plugin_fail puts it in the error of the call that failed.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/device_internal.h"
#include "core/device/module.h"
#include "core/graph/graph.h"

typedef struct option {
    struct option *next;
    char *name, *value; /* name: YOKE_CPU_ISA for example */
} option;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static option *options; /* freed with the plugins, as these keep the strings */
static char *cache_path;
static bool cache_asked;
static _Thread_local char message[YK_ERROR_TEXT];
static _Thread_local uint32_t message_node; /* node of the message; 0 if it names none */
static _Thread_local char message_read[YK_ERROR_TEXT];

static void option_name(char *buf, size_t n, const char *plugin, const char *key)
{
    snprintf(buf, n, "YOKE_%s_%s", plugin, key);
    for (; *buf; buf++)
        *buf = (char)toupper((unsigned char)*buf);
}

static option *option_find(const char *name)
{
    option *o = options;
    while (o && strcmp(o->name, name))
        o = o->next;
    return o;
}

static void option_free(option *o)
{
    if (!o)
        return;
    yk__free(o->name);
    yk__free(o->value);
    yk__free(o);
}

static option *option_make(const char *name, const char *value)
{
    option *o = yk__calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->name = yk__strdup(name);
    o->value = value ? yk__strdup(value) : NULL;
    if (o->name && (o->value || !value))
        return o;
    option_free(o);
    return NULL;
}

/* Takes an option of this name and value from the list, so that jobs in turn on two devices do not let the list grow. NULL if none. */
static option *option_take(const char *name, const char *value)
{
    for (option **at = &options; *at; at = &(*at)->next) {
        option *o = *at;
        if (strcmp(o->name, name) || !o->value != !value || (value && strcmp(o->value, value)))
            continue;
        *at = o->next;
        return o;
    }
    return NULL;
}

yk_status yk__plugin_option_set(const char *plugin, const char *key, const char *value, yk_error *err)
{
    char name[128];
    option_name(name, sizeof name, plugin, key);
    pthread_mutex_lock(&lock);
    option *o = option_take(name, value);
    if (!o)
        o = option_make(name, value);
    if (o) {
        o->next = options; /* before an older one, whose string a plugin may hold */
        options = o;
    }
    pthread_mutex_unlock(&lock);
    return o ? YK_OK : yk__fail_mem(err, strlen(name), "an option");
}

yk_status yk__plugin_device_hint(const yk__plugin *p, const char *number, yk_error *err)
{
    return p->started || p->table.minor < 6 ? YK_OK : yk__plugin_option_set(p->name, "DEVICE", number, err);
}

static const char *host_option(const char *plugin, const char *key)
{
    char name[128];
    option *o;
    option_name(name, sizeof name, plugin, key);
    pthread_mutex_lock(&lock);
    o = option_find(name);
    pthread_mutex_unlock(&lock);
    return o && o->value ? o->value : secure_getenv(name); /* some values name programs, so a setuid program reads none */
}

static void host_log(int level, const char *who, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk__log(level, who, "%s", text);
}

static void host_fail(const char *who, const char *fmt, ...)
{
    va_list ap;
    (void)who; /* yk__plugin_fail adds the name */
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    yk__printable(message);
    message_node = 0;
}

static void host_fail_node(const char *who, uint32_t node, const char *fmt, ...)
{
    va_list ap;
    (void)who;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    yk__printable(message);
    message_node = node;
}

/* The node that a text names, for plugins of minor 1: "node 12 (gather)", "gather (node 12)". 0 if it names none. */
static uint32_t node_in_words(const char *text)
{
    for (const char *at = strstr(text, "node "); at; at = strstr(at + 1, "node ")) {
        char *end;
        const unsigned long number = strtoul(at + 5, &end, 10);
        if (end > at + 5 && number <= UINT32_MAX && (!strncmp(end, " (", 2) || *end == ')'))
            return (uint32_t)number;
    }
    return 0;
}

yk_status yk__plugin_fail(yk_error *err, const yk__plugin *p, yk_status status, const char *what)
{
    const uint32_t node = message_node;
    const char *said = yk__plugin_message();
    yk__fail(err, status, "%s: %s: %s", p->name, what, *said ? said : yk__status_text(status));
    return yk__fail_node(err, node || p->table.minor > 1 ? node : node_in_words(said));
}

yk_status yk__plugin_made(yk_status status, const void *object)
{
    if (status || object)
        return status;
    host_fail("host", "it answers YK_OK and gives nothing");
    return YK_E_ABI;
}

const char *yk__plugin_message(void)
{
    if (!message[0])
        return "";
    memcpy(message_read, message, sizeof message);
    yk__host_message_clear();
    return message_read;
}

void yk__host_message_clear(void)
{
    message[0] = 0;
    message_node = 0;
}

static void *host_alloc(size_t bytes, size_t align)
{
    return yk__malloc_aligned(bytes, align);
}

static yk_status host_eval_node(const yk_graph *g, uint32_t node, void *const *slot)
{
    yk_error err = YK_ERROR_INIT;
    if (yk__eval_node(g, node, slot, &err))
        host_fail_node("host", node < g->n_node ? g->node[node].stream : 0, "%s", err.text);
    return err.status;
}

/* Makes a folder and its parents, for the owner alone; 0 if it exists and can be written. */
static int make_folder(char *path)
{
    struct stat st;
    for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        (void)!mkdir(path, 0700);
        *s = '/';
    }
    if (mkdir(path, 0700) && errno != EEXIST)
        return -1;
    if (stat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || yk__others_can_write(&st))
        return -1; /* compiled code there will run here, so no other user may have put it there */
    return access(path, W_OK | X_OK);
}

static char *cache_choose(void)
{
    const char *own = yk__option_text(YK__OPTION_CACHE_DIR);
    const char *xdg = yk__environment_path("XDG_CACHE_HOME"), *user_folder = yk__environment_path("HOME");
    char *path = NULL;
    if (own)
        path = yk__strdup(own);
    else if (xdg && *xdg == '/')
        path = yk__format("%s/yoke", xdg);
    else if (user_folder && *user_folder == '/')
        path = yk__format("%s/.cache/yoke", user_folder);
    if (path && make_folder(path)) {
        yk__log(own ? YK_LOG_WARN : YK_LOG_INFO, "host",
                "cache folder %s is not used (expected one of this user's that can be written, and not by others): compiled "
                "kernels are not kept", path);
        yk__free(path);
        path = NULL;
    }
    return path;
}

static const char *host_cache_dir(void)
{
    pthread_mutex_lock(&lock);
    if (!cache_asked) {
        cache_path = cache_choose();
        cache_asked = true;
    }
    pthread_mutex_unlock(&lock);
    return cache_path;
}

void yk__host_free(void)
{
    pthread_mutex_lock(&lock);
    for (option *o; (o = options);) {
        options = o->next;
        option_free(o);
    }
    yk__free(cache_path);
    cache_path = NULL;
    cache_asked = false;
    pthread_mutex_unlock(&lock);
}

const char *yk__cache_folder(void)
{
    return host_cache_dir();
}

static const void *host_extension(const char *name)
{
    (void)name; /* none yet */
    return NULL;
}

const yk_host *yk__host_table(void)
{
    static const yk_host host = {
        .size = sizeof host,
        .abi = YK_ABI,
        .minor = YK_ABI_MINOR,
        .n_op = YK_OP_COUNT,
        .n_dtype = YK_DTYPE_COUNT,
        .alloc = host_alloc,
        .free = yk__free,
        .log = host_log,
        .fail = host_fail,
        .option = host_option,
        .eval_node = host_eval_node,
        .cache_dir = host_cache_dir,
        .extension = host_extension,
        .fail_node = host_fail_node,
    };
    return &host;
}
