/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YOKE_LAYERS: reads the list of layers (trace, count, validate), and wraps a plugin's table of functions in them. Also has the wrapped
 * functions without a handle.
 *
 * plugin.c calls yk__layers_wrap when it loads a plugin, under its lock. Without the variable the table stays as it is, and calls cost
 * nothing. A plugin beyond the number that can be wrapped is an error.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/hook.h"

/* ---- Functions without a handle -------------------------------------------------------------------------------------------- */

static yk_status hook_init(hook *h, const yk_host *host)
{
    hook_call c = yk__hook_begin(h, HOOK_init);
    return yk__hook_end(&c, h->inner->init(host), 0);
}

static void hook_fini(hook *h)
{
    hook_call c = yk__hook_begin(h, HOOK_fini);
    for (const hook_object *o = h->live; o && h->layers & HOOK_VALIDATE; o = o->next)
        yk__log(YK_LOG_WARN, "validate", "%s: a %s was not released before fini", h->inner->name, yk__hook_kinds[o->kind]);
    h->inner->fini();
    yk__hook_end(&c, YK_OK, 0);
    if (h->layers & HOOK_COUNT)
        yk__hook_report(h);
}

static yk_status hook_count(hook *h, uint32_t *n)
{
    hook_call c = yk__hook_begin(h, HOOK_device_count);
    return yk__hook_end(&c, h->inner->device_count(n), 0);
}

static yk_status hook_caps(hook *h, uint32_t i, yk_device_caps *caps)
{
    hook_call c = yk__hook_begin(h, HOOK_device_caps);
    yk_status s = h->inner->device_caps(i, caps);
    if (!s && h->layers & HOOK_VALIDATE && (caps->align == 0 || (caps->align & (caps->align - 1))))
        s = yk__hook_wrong("%s: device %u says alignment %u, which is no power of two", h->inner->name, i, caps->align);
    return yk__hook_end(&c, s, 0);
}

static yk_status hook_open(hook *h, uint32_t i, yk_device **dev)
{
    hook_call c = yk__hook_begin(h, HOOK_device_open);
    const yk_queue_desc desc = {.size = sizeof desc, .kind = YK_QUEUE_COPY};
    yk_device_caps caps = {.size = sizeof caps};
    yk_device *inner = NULL;
    yk_status s = h->inner->device_open(i, &inner);
    s = yk__plugin_made(s, inner);
    hook_object *o = s ? NULL : yk__hook_object(h, HOOK_DEVICE, NULL, &s);
    if (!o) {
        if (inner)
            h->inner->device_close(inner);
        return yk__hook_end(&c, s, 0);
    }
    o->inner = inner;
    o->align = h->inner->device_caps(i, &caps) ? 4096 : caps.align;
    if (h->layers & HOOK_VALIDATE && h->inner->queue_new(inner, &desc, &o->checker))
        yk__hook_wrong("%s: no second queue for looking at guards", h->inner->name);
    *dev = (yk_device *)o;
    return yk__hook_end(&c, YK_OK, 0);
}

static const void *hook_extension(hook *h, const char *name)
{
    const void *inner = h->inner->extension ? h->inner->extension(name) : NULL;
    if (inner && !strcmp(name, YK_EXT_COLL))
        return yk__hook_coll(h, inner);
    if (inner) /* its functions would receive the hook's handles */
        yk__log(YK_LOG_WARN, "layers", "YOKE_LAYERS hides %s of plugin \"%s\": its work goes another way", name,
                h->inner->name);
    return NULL;
}

#define TRAMPOLINES(i)                                                                                                 \
    static yk_status init_##i(const yk_host *host)                                                                     \
    {                                                                                                                  \
        return hook_init(yk__hook_number(i), host);                                                                             \
    }                                                                                                                  \
    static void fini_##i(void)                                                                                         \
    {                                                                                                                  \
        hook_fini(yk__hook_number(i));                                                                                          \
    }                                                                                                                  \
    static yk_status count_##i(uint32_t *n)                                                                            \
    {                                                                                                                  \
        return hook_count(yk__hook_number(i), n);                                                                               \
    }                                                                                                                  \
    static yk_status caps_##i(uint32_t d, yk_device_caps *caps)                                                        \
    {                                                                                                                  \
        return hook_caps(yk__hook_number(i), d, caps);                                                                          \
    }                                                                                                                  \
    static yk_status open_##i(uint32_t d, yk_device **dev)                                                             \
    {                                                                                                                  \
        return hook_open(yk__hook_number(i), d, dev);                                                                           \
    }                                                                                                                  \
    static const void *extension_##i(const char *name)                                                                 \
    {                                                                                                                  \
        return hook_extension(yk__hook_number(i), name);                                                                        \
    }
TRAMPOLINES(0)
TRAMPOLINES(1)
TRAMPOLINES(2)
TRAMPOLINES(3)
TRAMPOLINES(4)
TRAMPOLINES(5)
TRAMPOLINES(6)
TRAMPOLINES(7)

#define ROW(i)                                                                                                         \
    {                                                                                                                  \
        .init = init_##i, .fini = fini_##i, .device_count = count_##i, .device_caps = caps_##i,                        \
        .device_open = open_##i, .extension = extension_##i                                                            \
    }
static const yk_plugin trampolines[HOOKS] = {ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7)};

/* ---- Wrapping -------------------------------------------------------------------------------------------------------------- */

yk_status yk__layers_wrap(const yk_plugin *inner, const yk_plugin **out, yk_error *err)
{
    const uint32_t layers = yk__option_words(YK__OPTION_LAYERS);
    hook *h;
    if (yk__option_check(YK__OPTION_LAYERS, err)) /* plugins may be loaded before any other check */
        return err->status;
    if (!layers) {
        *out = inner;
        return YK_OK;
    }
    h = yk__hook_new();
    if (!h)
        return yk__fail(err, YK_E_UNSUPPORTED, "YOKE_LAYERS: at most %d plugins can be wrapped in one process", HOOKS);
    h->table = trampolines[h->number];
    h->inner = inner;
    h->layers = layers;
    h->table.size = sizeof h->table;
    h->table.abi = inner->abi;
    h->table.minor = inner->minor;
    h->table.n_op = inner->n_op;
    h->table.n_dtype = inner->n_dtype;
    h->table.name = inner->name;
    h->table.version = inner->version;
    h->table.sanitizer = inner->sanitizer;
    yk__hook_functions(&h->table);
    yk__hook_copy_functions(&h->table);
    *out = &h->table;
    return YK_OK;
}
