/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's table as it was handed over: checked, and completed so that nobody has to test for NULL.
 */
#include "config.h"

#include "core/device/intern.h"

static yk_status no_init(const yk_host *host)
{
    (void)host;
    return YK_OK;
}

static void no_fini(void)
{
}

static void no_device_close(yk_device *dev)
{
    (void)dev;
}

static uint32_t no_claims(yk_device *dev, const yk_graph *g, uint32_t node)
{
    (void)dev, (void)g, (void)node;
    return 0;
}

static yk_status no_wrap(yk_device *dev, void *host, uint64_t bytes, yk_buffer **b)
{
    (void)dev, (void)host, (void)bytes, (void)b;
    return YK_E_UNSUPPORTED;
}

static void no_buffer_free(yk_buffer *b)
{
    (void)b;
}

static void *no_map(yk_buffer *b)
{
    (void)b;
    return NULL;
}

static void no_program_free(yk_program *p)
{
    (void)p;
}

static void no_queue_free(yk_queue *q)
{
    (void)q;
}

static yk_status no_poll(yk_queue *q, uint64_t *done)
{
    (void)q, (void)done;
    return YK_E_UNSUPPORTED;
}

static const void *no_extension(const char *name)
{
    (void)name;
    return NULL;
}

static yk_status no_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    (void)dev, (void)g;
    *bytes = 0;
    return YK_OK;
}

static void fill_gaps(yk_plugin *t)
{
#define FILL(member, with) t->member = t->member ? t->member : with
    FILL(init, no_init);
    FILL(fini, no_fini);
    FILL(device_close, no_device_close);
    FILL(claims, no_claims);
    FILL(buffer_wrap, no_wrap);
    FILL(buffer_free, no_buffer_free);
    FILL(buffer_map, no_map);
    FILL(program_free, no_program_free);
    FILL(queue_free, no_queue_free);
    FILL(queue_poll, no_poll);
    FILL(extension, no_extension);
    FILL(graph_scratch, no_scratch);
#undef FILL
}

/* The first member without which a plugin is none, or NULL when all are there. */
static const char *missing_member(const yk_plugin *t)
{
#define NEED(member)                                                                                                   \
    if (!t->member)                                                                                                    \
    return #member
    NEED(device_count);
    NEED(device_caps);
    NEED(device_open);
    NEED(buffer_new);
    NEED(program_new);
    NEED(queue_new);
    NEED(queue_run);
    NEED(queue_put);
    NEED(queue_get);
    NEED(queue_wait);
#undef NEED
    return NULL;
}

static bool good_name(const char *s)
{
    size_t n = 0;
    for (; s && s[n]; n++)
        if (!((s[n] >= 'a' && s[n] <= 'z') || (n && s[n] >= '0' && s[n] <= '9') || (n && s[n] == '_')))
            return false;
    return n > 0 && n < 32;
}

yk_status yk__plugin_table_take(const yk_plugin *given, const char *who, yk_plugin *out, yk_error *err)
{
    const uint32_t least = offsetof(yk_plugin, extension), most = 65536;
    const char *lack;
    if (!given)
        return yk__fail(err, YK_E_ABI, "%s: the plugin cannot serve ABI major %u", who, YK_ABI);
    if (given->size < least || given->size > most || given->size % sizeof(void *))
        return yk__fail(err, YK_E_ABI, "%s: its table says %u bytes; expected at least %u (wrong or short table)", who,
                        given->size, least);
    if (given->abi != YK_ABI)
        return yk__fail(err, YK_E_ABI, "%s: it is built for ABI major %u, this host has %u; rebuild it against this yoke",
                        who, given->abi, YK_ABI);
    memset(out, 0, sizeof *out);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (!good_name(out->name))
        return yk__fail(err, YK_E_ABI, "%s: its name \"%.40s\" is not of 1 to 31 characters a-z 0-9 _", who,
                        out->name ? out->name : "(null)");
    if (!out->sanitizer || strcmp(out->sanitizer, YK_SANITIZER))
        return yk__fail(err, YK_E_ABI, "%s: it is built with sanitizer \"%.20s\", this host with \"%s\"", who,
                        out->sanitizer ? out->sanitizer : "(null)", YK_SANITIZER);
    if ((lack = missing_member(out)))
        return yk__fail(err, YK_E_ABI, "%s: its table lacks %s", who, lack);
    out->version = out->version ? out->version : "?";
    fill_gaps(out);
    return YK_OK;
}
