/* SPDX-License-Identifier: Apache-2.0 */
/* Options, log and cache folder for a plugin under test, and loading it; see plugin_host.h. */
#include "tests/support/plugin_host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kit.h"

#define OPTIONS 8

char plugin_host_text[8192];
const char *plugin_host_cache;
bool plugin_host_prints;

static struct {
    const char *key, *value;
} options[OPTIONS];

void plugin_host_option(const char *key, const char *value)
{
    int i = 0;
    while (i < OPTIONS - 1 && options[i].key && strcmp(options[i].key, key))
        i++;
    options[i].key = key;
    options[i].value = value;
}

static const char *option_get(const char *plugin, const char *key)
{
    (void)plugin;
    for (int i = 0; i < OPTIONS && options[i].key; i++)
        if (!strcmp(options[i].key, key))
            return options[i].value;
    return NULL;
}

static void line_add(const char *who, const char *fmt, va_list args)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char line[5000];
    vsnprintf(line, sizeof line, fmt, args);
    pthread_mutex_lock(&lock);
    const size_t n = strlen(plugin_host_text);
    snprintf(plugin_host_text + n, sizeof plugin_host_text - n, "%s: %s\n", who, line);
    pthread_mutex_unlock(&lock);
    if (plugin_host_prints)
        fprintf(stderr, "# %s: %s\n", who, line);
}

static void log_line(int level, const char *who, const char *fmt, ...)
{
    va_list args;
    (void)level;
    va_start(args, fmt);
    line_add(who, fmt, args);
    va_end(args);
}

static void fail_line(const char *who, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    line_add(who, fmt, args);
    va_end(args);
}

static const char *cache_get(void)
{
    return plugin_host_cache;
}

const yk_host plugin_host = {.size = sizeof plugin_host,
                             .abi = YK_ABI,
                             .alloc = kit_alloc,
                             .free = free,
                             .log = log_line,
                             .fail = fail_line,
                             .option = option_get,
                             .cache_dir = cache_get};

const yk_plugin *plugin_host_load(const char *name)
{
    char path[600];
    const char *folder = getenv("YOKE_PLUGIN_DIR");
    snprintf(path, sizeof path, "%s/yoke_%s.so", folder ? folder : ".libs", name);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = library ? dlsym(library, YK_PLUGIN_SYMBOL) : NULL;
    yk_plugin_query_fn query;
    memcpy(&query, &symbol, sizeof query);
    if (!query)
        fprintf(stderr, "# %s\n", dlerror());
    return query ? query(YK_ABI) : NULL;
}
