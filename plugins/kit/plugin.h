/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common start of every plugin: memory and options from the host, the machine's memory, and answers that an older host can take.
 * No state: any thread.
 */
#ifndef YOKE_PLUGINS_KIT_PLUGIN_H
#define YOKE_PLUGINS_KIT_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <yoke/plugin.h>

/* The value of yk_plugin.sanitizer for this build; a configured build defines it in config.h. */
#if defined(YK_SANITIZER)
#define KIT_SANITIZER YK_SANITIZER
#elif defined(__SANITIZE_ADDRESS__)
#define KIT_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define KIT_SANITIZER "thread"
#else
#define KIT_SANITIZER "none"
#endif

/* The element types of a device that runs the kit's kernels: those it keeps, and those it computes with. */
#define KIT_STORE (1u << YK_F32 | 1u << YK_F16 | 1u << YK_BF16 | 1u << YK_I32 | 1u << YK_U8 | 1u << YK_BOOL)
#define KIT_COMPUTE (1u << YK_F32 | 1u << YK_F16 | 1u << YK_BF16 | 1u << YK_I32)

/* The first members of a plugin's table, which describe its build. */
#define KIT_PLUGIN_HEAD(plugin_name, plugin_version)                                                                 \
    .size = sizeof(yk_plugin), .abi = YK_ABI, .minor = YK_ABI_MINOR, .n_op = YK_OP_COUNT, .n_dtype = YK_DTYPE_COUNT, \
    .name = (plugin_name), .version = (plugin_version), .sanitizer = KIT_SANITIZER

/* True if the host has every function that the kit calls; a plugin's init returns YK_E_ABI if not. */
static inline bool kit_host_fits(const yk_host *host)
{
    return host->size >= offsetof(yk_host, cache_dir) + sizeof host->cache_dir;
}

/* Explains a failure at one node by its yk_node.stream, which a host before minor 2 takes from the words alone, if they name it. */
#define KIT_FAIL_NODE(host, plugin, stream, ...)                                                         \
    ((host)->size >= offsetof(yk_host, fail_node) + sizeof (host)->fail_node && (host)->fail_node        \
         ? (host)->fail_node((plugin), (stream), __VA_ARGS__)                                             \
         : (host)->fail((plugin), __VA_ARGS__))

/* Reports that memory for something is out; returns YK_E_MEM. */
static inline yk_status kit_no_memory(const yk_host *host, const char *plugin, uint64_t bytes, const char *what)
{
    host->fail(plugin, "no memory for %s of %llu bytes", what, (unsigned long long)bytes);
    return YK_E_MEM;
}

/* Zeroed memory, also of 0 bytes, for kit_release. NULL after a report. */
static inline void *kit_zeroed(const yk_host *host, const char *plugin, size_t bytes, const char *what)
{
    void *p = host->alloc(bytes ? bytes : 1, 64);
    if (p)
        memset(p, 0, bytes);
    else
        kit_no_memory(host, plugin, bytes, what);
    return p;
}

static inline void kit_release(const yk_host *host, void *p)
{
    if (p)
        host->free(p);
}

/* The value of YOKE_<PLUGIN>_<KEY>; NULL: not set, or empty. */
static inline const char *kit_option_value(const yk_host *host, const char *plugin, const char *key)
{
    const char *value = host->option(plugin, key);
    return value && *value ? value : NULL;
}

/* Bytes of memory that this machine has. */
static inline uint64_t kit_host_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* YK_E_ARG, reported to the host, unless `i` is one of n devices. */
static inline yk_status kit_device_check(const yk_host *host, const char *plugin, uint32_t i, uint32_t n)
{
    if (i < n)
        return YK_OK;
    host->fail(plugin, "device %u: there are %u", i, n);
    return YK_E_ARG;
}

/* Copies as much as the caller's struct holds, which may be older and shorter than this plugin's. */
static inline void kit_caps_give(yk_device_caps *to, const yk_device_caps *caps)
{
    const uint32_t size = to->size < sizeof *caps ? to->size : (uint32_t)sizeof *caps;
    memcpy(to, caps, size);
    to->size = size;
}

/* As kit_caps_give, for a program's account. */
static inline void kit_memory_give(yk_program_memory *to, const yk_program_memory *own)
{
    const uint32_t size = to->size < sizeof *own ? to->size : (uint32_t)sizeof *own;
    memcpy(to, own, size);
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
