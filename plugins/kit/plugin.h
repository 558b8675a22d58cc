/* SPDX-License-Identifier: Apache-2.0 */
/* What every plugin begins with: memory from the host, the machine's, and answers that an older host can take. No state: any thread. */
#ifndef YOKE_PLUGINS_KIT_PLUGIN_H
#define YOKE_PLUGINS_KIT_PLUGIN_H

#include <string.h>
#include <unistd.h>

#include <yoke/plugin.h>

/* Says that there is no memory for something; returns YK_E_MEM. */
static inline yk_status kit_no_memory(const yk_host *host, const char *plugin, uint64_t bytes, const char *what)
{
    host->fail(plugin, "no memory for %s of %llu bytes", what, (unsigned long long)bytes);
    return YK_E_MEM;
}

/* Memory of zeros, for host->free; NULL after having said so. */
static inline void *kit_zeroed(const yk_host *host, const char *plugin, size_t bytes, const char *what)
{
    void *p = host->alloc(bytes, 64);
    if (p)
        memset(p, 0, bytes);
    else
        kit_no_memory(host, plugin, bytes, what);
    return p;
}

/* Bytes of memory that this machine has. */
static inline uint64_t kit_host_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Fills what the caller asked for, whose struct may be older, and shorter, than this plugin's. */
static inline void kit_caps_give(yk_device_caps *to, const yk_device_caps *caps)
{
    const uint32_t size = to->size;
    memcpy(to, caps, size < sizeof *caps ? size : sizeof *caps);
    to->size = size;
}

/* Defines the one function that a plugin exports, which answers with its table. */
#define KIT_PLUGIN_EXPORT(table)                                                                                     \
    const yk_plugin *yk_plugin_query(uint32_t abi);                                                                  \
    __attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)                            \
    {                                                                                                                \
        return abi == YK_ABI ? &(table) : NULL;                                                                      \
    }

#endif
