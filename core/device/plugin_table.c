/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes a plugin's table of functions: checks it, and completes it so that no caller has to test for NULL. A table of an older minor
 * version of plugin.h is shorter; its missing functions get defaults.
 *
 * plugin.c calls it when it loads a plugin, planning.c for its own table; transfer.c and yoke-cts ask which functions a table has. No
 * state; any thread. A table without a required function is refused with the function's name.
 */
#include "config.h"

#include "core/device/device_internal.h"

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

static void *no_map(yk_buffer *b)
{
    (void)b;
    return NULL;
}

static const void *no_extension(const char *name)
{
    (void)name;
    return NULL;
}

static void no_abort(yk_queue *q, yk_status why)
{
    (void)q, (void)why;
}

static yk_status no_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    (void)q, (void)point, (void)begin_ns, (void)end_ns;
    return YK_E_UNSUPPORTED;
}

static yk_status no_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **pin)
{
    (void)dev, (void)memory, (void)bytes, (void)pin;
    return YK_E_UNSUPPORTED;
}

static void no_unpin(yk_pin *pin)
{
    (void)pin;
}

static yk_status no_scratch(yk_device *dev, const yk_graph *g, uint64_t *bytes)
{
    (void)dev, (void)g;
    *bytes = 0;
    return YK_OK;
}

static yk_status no_account(const yk_program *p, yk_program_memory *m)
{
    (void)p, (void)m;
    return YK_E_UNSUPPORTED;
}

static void fill_gaps(yk_plugin *t)
{
#define FILL(member, with) t->member = t->member ? t->member : with
    FILL(init, no_init);
    FILL(fini, no_fini);
    FILL(device_close, no_device_close);
    FILL(claims, no_claims);
    FILL(buffer_wrap, no_wrap);
    FILL(buffer_map, no_map);
    FILL(extension, no_extension);
    FILL(graph_scratch, no_scratch);
    FILL(queue_abort, no_abort);
    FILL(queue_span, no_span);
    FILL(host_pin, no_pin);
    FILL(host_unpin, no_unpin);
    FILL(program_memory, no_account);
#undef FILL
}

/* The first required member that is missing, or NULL. */
static const char *missing_member(const yk_plugin *t)
{
#define NEED(member)                                                                                                   \
    if (!t->member)                                                                                                    \
    return #member
    NEED(device_count);
    NEED(device_caps);
    NEED(device_open);
    NEED(buffer_new);
    NEED(buffer_free);
    NEED(program_new);
    NEED(program_free);
    NEED(queue_new);
    NEED(queue_free);
    NEED(queue_run);
    NEED(queue_copy);
    NEED(queue_poll);
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
        return yk__fail(err, YK_E_ABI, "%s: its table says %u bytes; expected %u to %u, a multiple of %zu: set size to "
                        "sizeof(yk_plugin), and rebuild it", who, given->size, least, most, sizeof(void *));
    if (given->abi != YK_ABI)
        return yk__fail(err, YK_E_ABI, "%s: it is built for ABI major %u, this host has %u; rebuild it against this yoke",
                        who, given->abi, YK_ABI);
    memset(out, 0, sizeof *out);
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (out->n_op <= YK_OP_DOT || out->n_dtype <= YK_BOOL)
        return yk__fail(err, YK_E_ABI, "%s: its table says it knows %u operations and %u types; expected YK_OP_COUNT and "
                        "YK_DTYPE_COUNT of its header, %u and %u at least", who, out->n_op, out->n_dtype, YK_OP_DOT + 1u,
                        YK_BOOL + 1u);
    if (!good_name(out->name))
        return yk__fail(err, YK_E_ABI, "%s: its name \"%.40s\" is not of 1 to 31 characters a-z 0-9 _", who,
                        out->name ? out->name : "(null)");
    if (!out->sanitizer || strcmp(out->sanitizer, YK_SANITIZER))
        return yk__fail(err, YK_E_ABI, "%s: it is built with sanitizer \"%.20s\", this host with \"%s\"", who,
                        out->sanitizer ? out->sanitizer : "(null)", YK_SANITIZER);
    if ((lack = missing_member(out)))
        return yk__fail(err, YK_E_ABI, "%s: its table lacks %s: expected a function, got NULL: fill that member", who, lack);
    out->version = out->version ? out->version : "?";
    fill_gaps(out);
    return YK_OK;
}

bool yk__plugin_aborts(const yk__plugin *p)
{
    return p->table.queue_abort != no_abort;
}

bool yk__plugin_accounts(const yk__plugin *p)
{
    return p->table.program_memory != no_account;
}

/* ---- Known operations ---- */

static bool node_is_known(const yk_plugin *t, const yk_graph *g, const yk_node *n)
{
    bool known = n->op < t->n_op;
    for (uint32_t i = 0; i < n->n_in; i++)
        known = known && g->value[g->index[n->in + i]].dtype < t->n_dtype;
    for (uint32_t i = 0; i < n->n_out; i++)
        known = known && g->value[g->index[n->out + i]].dtype < t->n_dtype;
    return known;
}

bool yk__plugin_knows(const yk_plugin *t, const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    bool known = node_is_known(t, g, n);
    for (uint32_t i = 0; i < n->n_body; i++)
        known = known && node_is_known(t, g, &g->node[n->body + i]);
    return known;
}
