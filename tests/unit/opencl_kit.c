/* SPDX-License-Identifier: Apache-2.0 */
#include "opencl_kit.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define GUARD 256

const yk_plugin *ok_plugin;
yk_device *ok_device;
const char *ok_option_key[8], *ok_option_value[8], *ok_cache_dir;
int ok_quiet;
char ok_log_text[8192];

static void *host_alloc(size_t bytes, size_t align)
{
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1) ? NULL : p;
}

static void host_say(const char *who, const char *fmt, va_list args)
{
    size_t n = strlen(ok_log_text);
    char line[5000];
    vsnprintf(line, sizeof line, fmt, args);
    snprintf(ok_log_text + n, sizeof ok_log_text - n, "%s: %s\n", who, line);
    if (!ok_quiet)
        fprintf(stderr, "# %s: %s\n", who, line);
}

static void host_log(int level, const char *who, const char *fmt, ...)
{
    va_list args;
    (void)level;
    va_start(args, fmt);
    host_say(who, fmt, args);
    va_end(args);
}

static void host_fail(const char *who, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    host_say(who, fmt, args);
    va_end(args);
}

static const char *host_option(const char *plugin, const char *key)
{
    (void)plugin;
    for (int i = 0; i < 8 && ok_option_key[i]; i++)
        if (!strcmp(ok_option_key[i], key))
            return ok_option_value[i];
    return NULL;
}

static const char *host_cache(void)
{
    return ok_cache_dir;
}

static const yk_host host = {.size = sizeof host,
                             .abi = YK_ABI,
                             .alloc = host_alloc,
                             .free = free,
                             .log = host_log,
                             .fail = host_fail,
                             .option = host_option,
                             .cache_dir = host_cache};

const yk_plugin *ok_load(void)
{
    char path[600];
    const char *dir = getenv("YOKE_PLUGIN_DIR");
    snprintf(path, sizeof path, "%s/yoke_opencl.so", dir ? dir : ".libs");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        fprintf(stderr, "# %s\n", dlerror());
        return NULL;
    }
    yk_plugin_query_fn query = (yk_plugin_query_fn)dlsym(so, YK_PLUGIN_SYMBOL);
    return query ? query(YK_ABI) : NULL;
}

int ok_start(uint32_t device)
{
    uint32_t n = 0;
    ok_plugin = ok_load();
    if (!ok_plugin || ok_plugin->init(&host) != YK_OK || ok_plugin->device_count(&n) != YK_OK)
        return -1;
    if (n > device && ok_plugin->device_open(device, &ok_device) != YK_OK)
        return -1;
    return (int)n;
}

void ok_stop(void)
{
    if (ok_device)
        ok_plugin->device_close(ok_device);
    ok_device = NULL;
    ok_plugin->fini();
}

ok_graph *ok_new(void)
{
    ok_graph *k = calloc(1, sizeof *k);
    k->g = (yk_graph){.size = sizeof k->g,
                      .value = k->value,
                      .node = k->node,
                      .index = k->index,
                      .attr = k->attr,
                      .slot = k->slot};
    return k;
}

void ok_free(ok_graph *k)
{
    for (uint32_t i = 0; i < k->g.n_slot; i++)
        free(k->data[i]);
    free(k);
}

double ok_unit(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (double)(s >> 11) * 0x1p-53;
}

static int64_t stored(const ok_graph *k, uint32_t v)
{
    return (int64_t)(k->slot[k->value[v].slot].bytes / yk_dtype_bytes(k->value[v].dtype));
}

uint32_t ok_value(ok_graph *k, int dtype, const int64_t *dim, unsigned broadcast)
{
    uint32_t v = k->g.n_value++, slot = k->g.n_slot++;
    yk_value *y = &k->value[v];
    int64_t stride = 1;
    *y = (yk_value){.dtype = (uint8_t)dtype, .base = v, .slot = slot};
    for (; dim[y->dims] >= 0; y->dims++)
        y->dim[y->dims] = dim[y->dims];
    for (int i = y->dims - 1; i >= 0; i--) {
        y->stride[i] = broadcast >> i & 1 ? 0 : stride;
        stride *= broadcast >> i & 1 ? 1 : y->dim[i];
    }
    k->slot[slot].bytes = (uint64_t)stride * yk_dtype_bytes((uint32_t)dtype);
    k->data[slot] = host_alloc(k->slot[slot].bytes + GUARD, 64);
    memset(k->data[slot], 0x7b, k->slot[slot].bytes + GUARD);
    return v;
}

uint32_t ok_view(ok_graph *k, uint32_t base, uint32_t dims, const int64_t *dim, const int64_t *stride, int64_t start)
{
    uint32_t v = k->g.n_value++;
    yk_value *y = &k->value[v];
    *y = k->value[base];
    y->base = base;
    y->dims = (uint8_t)dims;
    y->offset += (uint64_t)start * yk_dtype_bytes(y->dtype);
    for (uint32_t i = 0; i < dims; i++) {
        y->dim[i] = dim[i];
        y->stride[i] = stride[i];
    }
    return v;
}

/* ---- Numbers ---- */

static float half_value(uint16_t h)
{
    _Float16 f;
    memcpy(&f, &h, 2);
    return (float)f;
}

static void put(char *p, int dtype, double x)
{
    float f = (float)x;
    int32_t i = (int32_t)x;
    uint32_t u;
    _Float16 h = (_Float16)f;
    uint8_t b = (uint8_t)i;
    memcpy(&u, &f, 4);
    uint16_t s = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    switch (dtype) {
    case YK_F32:
        memcpy(p, &f, 4);
        break;
    case YK_I32:
        memcpy(p, &i, 4);
        break;
    case YK_BF16:
        memcpy(p, &s, 2);
        break;
    case YK_F16:
        memcpy(p, &h, 2);
        break;
    default:
        memcpy(p, &b, 1);
        break;
    }
}

void ok_set(ok_graph *k, uint32_t v, const double *x)
{
    char *p = k->data[k->value[v].slot];
    for (int64_t i = 0; i < stored(k, v); i++)
        put(p + i * yk_dtype_bytes(k->value[v].dtype), k->value[v].dtype, x[i]);
}

void ok_random(ok_graph *k, uint32_t v, double lo, double hi)
{
    char *p = k->data[k->value[v].slot];
    for (int64_t i = 0; i < stored(k, v); i++)
        put(p + i * yk_dtype_bytes(k->value[v].dtype), k->value[v].dtype, lo + (hi - lo) * ok_unit());
}

void ok_random_int(ok_graph *k, uint32_t v, int lo, int hi)
{
    char *p = k->data[k->value[v].slot];
    for (int64_t i = 0; i < stored(k, v); i++)
        put(p + i * yk_dtype_bytes(k->value[v].dtype), k->value[v].dtype, lo + (int)((hi - lo + 1) * ok_unit()));
}

double ok_get(const ok_graph *k, uint32_t v, int64_t i)
{
    int dtype = k->value[v].dtype;
    const char *p = k->data[k->value[v].slot] + i * yk_dtype_bytes((uint32_t)dtype);
    float f;
    int32_t n;
    uint16_t h;
    memcpy(&h, p, dtype == YK_U8 || dtype == YK_BOOL ? 1 : 2);
    uint32_t u = (uint32_t)h << 16;
    if (dtype == YK_F32) {
        memcpy(&f, p, 4);
        return (double)f;
    }
    if (dtype == YK_I32) {
        memcpy(&n, p, 4);
        return n;
    }
    if (dtype == YK_F16)
        return (double)half_value(h);
    if (dtype != YK_BF16)
        return *(const uint8_t *)p;
    memcpy(&f, &u, 4);
    return (double)f;
}

int64_t ok_count(const ok_graph *k, uint32_t v)
{
    int64_t n = 1;
    for (int d = 0; d < k->value[v].dims; d++)
        n *= k->value[v].dim[d];
    return n;
}

double ok_at(const ok_graph *k, uint32_t v, int64_t i)
{
    const yk_value *y = &k->value[v];
    int64_t off = (int64_t)(y->offset / yk_dtype_bytes(y->dtype));
    for (int d = y->dims - 1; d >= 0; d--) {
        off += i % y->dim[d] * y->stride[d];
        i /= y->dim[d];
    }
    return ok_get(k, v, off);
}

/* ---- Nodes ---- */

yk_node *ok_node(ok_graph *k, int op, const uint32_t *in, const uint32_t *out, const int64_t *attr, uint32_t n_attr)
{
    yk_node *n = &k->node[k->g.n_node];
    *n = (yk_node){.op = (uint16_t)op, .attr = k->g.n_attr, .n_attr = n_attr, .in = k->g.n_index};
    for (; in[n->n_in] != YK_NONE; n->n_in++)
        k->index[k->g.n_index++] = in[n->n_in];
    n->out = k->g.n_index;
    for (; out[n->n_out] != YK_NONE; n->n_out++)
        k->index[k->g.n_index++] = out[n->n_out];
    for (uint32_t i = 0; i < n_attr; i++)
        k->attr[k->g.n_attr++] = attr[i];
    k->g.n_all_node = ++k->g.n_node;
    return n;
}

yk_node *ok_wrap(ok_graph *k, int op, uint32_t n, const uint32_t *in, const uint32_t *out)
{
    uint32_t first = k->g.n_node - n;
    memmove(&k->node[first + 1], &k->node[first], n * sizeof(yk_node));
    k->g.n_node = first;
    yk_node *w = ok_node(k, op, in, out, NULL, 0);
    w->body = first + 1;
    w->n_body = n;
    k->g.n_all_node = first + 1 + n;
    return w;
}

uint32_t ok_claims(ok_graph *k, uint32_t node)
{
    return ok_plugin->claims(ok_device, &k->g, node);
}

/* ---- Running ---- */

static yk_status run_bound(ok_graph *k, yk_program *p, yk_queue *q, yk_buffer **buf)
{
    uint64_t zero[OK_VALUES] = {0}, point = 0;
    yk_submit s = {.size = sizeof s, .n_slot = k->g.n_slot, .program = p, .slot = buf, .slot_offset = zero,
                   .slot_version = zero};
    yk_status st = YK_OK;
    for (uint32_t i = 0; i < k->g.n_slot && st == YK_OK; i++)
        st = ok_plugin->queue_put(q, buf[i], 0, k->data[i], k->slot[i].bytes + GUARD, &point);
    if (st == YK_OK)
        st = ok_plugin->queue_run(q, &s, &point);
    for (uint32_t i = 0; i < k->g.n_slot && st == YK_OK; i++)
        st = ok_plugin->queue_get(q, buf[i], 0, k->data[i], k->slot[i].bytes + GUARD, &point);
    yk_status done = ok_plugin->queue_wait(q, point, UINT64_MAX);
    return st == YK_OK ? done : st;
}

static yk_status check_guards(const ok_graph *k)
{
    for (uint32_t v = 0; v < k->g.n_slot; v++)
        for (uint64_t i = 0; i < GUARD; i++)
            if (k->data[v][k->slot[v].bytes + i] != 0x7b) {
                fprintf(stderr, "# written past the end of slot %u\n", v);
                return YK_E_INTERNAL;
            }
    return YK_OK;
}

yk_status ok_run(ok_graph *k)
{
    yk_buffer *buf[OK_VALUES] = {0};
    yk_program *p = NULL;
    yk_queue *q = NULL;
    yk_status st = ok_plugin->program_new(ok_device, &k->g, &p);
    if (st == YK_OK)
        st = ok_plugin->queue_new(ok_device, &q);
    for (uint32_t i = 0; i < k->g.n_slot && st == YK_OK; i++)
        st = ok_plugin->buffer_new(ok_device, k->slot[i].bytes + GUARD, &buf[i]);
    if (st == YK_OK)
        st = run_bound(k, p, q, buf);
    if (q)
        ok_plugin->queue_free(q);
    for (uint32_t i = 0; i < k->g.n_slot; i++)
        ok_plugin->buffer_free(buf[i]);
    ok_plugin->program_free(p);
    return st == YK_OK ? check_guards(k) : st;
}
