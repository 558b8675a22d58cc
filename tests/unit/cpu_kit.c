/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_kit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GUARD 256

static void *kit_alloc(size_t bytes, size_t align)
{
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1) ? NULL : p;
}

static void kit_log(int level, const char *who, const char *fmt, ...)
{
    (void)level, (void)who, (void)fmt;
}

static void kit_fail(const char *who, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s: ", who);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

static const char *kit_option(const char *plugin, const char *key)
{
    (void)plugin, (void)key;
    return NULL;
}

void kit_host(void)
{
    static const yk_host host = {.size = sizeof host, .abi = YK_ABI, .alloc = kit_alloc, .free = free, .log = kit_log,
                                 .fail = kit_fail, .option = kit_option};
    cpu_host = &host;
}

kit *kit_new(void)
{
    kit_host();
    kit *k = calloc(1, sizeof *k);
    k->g = (yk_graph){.size = sizeof k->g, .value = k->value, .node = k->node, .index = k->index, .attr = k->attr,
                      .slot = k->slot};
    return k;
}

void kit_free(kit *k)
{
    for (uint32_t i = 0; i < k->g.n_slot; i++)
        free(k->data[i]);
    free(k);
}

int64_t kit_stored(const kit *k, uint32_t v)
{
    int64_t n = 1;
    for (int i = 0; i < k->value[v].dims; i++)
        n *= k->value[v].stride[i] || k->value[v].dim[i] == 1 ? k->value[v].dim[i] : 1;
    return n;
}

uint32_t kit_broadcast(kit *k, int dtype, const int64_t *dim, unsigned mask)
{
    uint32_t v = k->g.n_value++;
    yk_value *y = &k->value[v];
    *y = (yk_value){.dtype = (uint8_t)dtype, .base = v, .slot = v};
    while (dim[y->dims] >= 0) {
        y->dim[y->dims] = dim[y->dims];
        y->dims++;
    }
    int64_t stride = 1;
    for (int i = y->dims - 1; i >= 0; i--) {
        y->stride[i] = mask >> i & 1 ? 0 : stride;
        stride *= mask >> i & 1 ? 1 : y->dim[i];
    }
    k->slot[v].bytes = (uint64_t)stride * yk_dtype_bytes((uint32_t)dtype);
    k->data[v] = kit_alloc(k->slot[v].bytes + GUARD, 64);
    memset(k->data[v], 0x7b, k->slot[v].bytes + GUARD);
    k->g.n_slot = k->g.n_value;
    return v;
}

uint32_t kit_value(kit *k, int dtype, const int64_t *dim)
{
    return kit_broadcast(k, dtype, dim, 0);
}

void kit_set(kit *k, uint32_t v, const double *x)
{
    int t = k->value[v].dtype;
    for (int64_t i = 0; i < kit_stored(k, v); i++) {
        float f = (float)x[i];
        int32_t q = (int32_t)x[i];
        if (cpu_is_float(t))
            cpu_isa_portable.from_f32(k->data[v] + i * yk_dtype_bytes((uint32_t)t), &f, t, 1);
        else
            memcpy(k->data[v] + i * yk_dtype_bytes((uint32_t)t), &q, yk_dtype_bytes((uint32_t)t));
    }
}

double kit_random_unit(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (double)(s >> 11) * 0x1p-53;
}

void kit_random(kit *k, uint32_t v, double lo, double hi)
{
    int64_t n = kit_stored(k, v);
    double *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = lo + (hi - lo) * kit_random_unit();
    kit_set(k, v, x);
    free(x);
}

double kit_get(const kit *k, uint32_t v, int64_t i)
{
    int t = k->value[v].dtype;
    const char *p = k->data[v] + i * yk_dtype_bytes((uint32_t)t);
    float f;
    int32_t q = 0;
    if (cpu_is_float(t)) {
        cpu_isa_portable.to_f32(&f, p, t, 1);
        return (double)f;
    }
    memcpy(&q, p, yk_dtype_bytes((uint32_t)t));
    return (double)q;
}

double kit_at(const kit *k, uint32_t v, int64_t i)
{
    const yk_value *y = &k->value[v];
    int64_t off = 0;
    for (int d = y->dims - 1; d >= 0; d--) {
        off += i % y->dim[d] * y->stride[d];
        i /= y->dim[d];
    }
    return kit_get(k, v, off);
}

yk_node *kit_node(kit *k, int op, const uint32_t *in, const uint32_t *out, const int64_t *attr, uint32_t n_attr)
{
    yk_node *n = &k->node[k->g.n_node];
    *n = (yk_node){.op = (uint16_t)op, .attr = k->g.n_attr, .n_attr = n_attr, .stream = k->g.n_node};
    n->in = k->g.n_index;
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

yk_node *kit_wrap(kit *k, int op, uint32_t n, const uint32_t *in, const uint32_t *out)
{
    uint32_t first = k->g.n_node - n;
    memmove(&k->node[first + 1], &k->node[first], n * sizeof(yk_node));
    k->g.n_node = first;
    yk_node *w = kit_node(k, op, in, out, NULL, 0);
    w->body = first + 1;
    w->n_body = n;
    k->g.n_all_node = first + 1 + n;
    return w;
}

typedef struct kit_job {
    const cpu_prog *p;
    cpu_ctx c;
    cpu_pool *pool;
} kit_job;

/* bench/gate counts what runs below this function */
__attribute__((noinline)) static void kit_worker(void *arg, int worker)
{
    kit_job *j = arg;
    cpu_ctx c = j->c;
    c.mine += (size_t)worker * cpu_round(cpu_prog_mine(j->p) + 64, 4096);
    c.tid = worker;
    cpu_prog_run(j->p, &c, j->pool);
}

static void check_guards(const kit *k)
{
    for (uint32_t v = 0; v < k->g.n_slot; v++)
        for (int i = 0; i < GUARD; i++)
            if (k->data[v][k->slot[v].bytes + (uint64_t)i] != 0x7b) {
                fprintf(stderr, "written past the end of value %u\n", v);
                abort();
            }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(getenv("KIT_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double kit_time(kit *k, const cpu_isa *isa, int nt, int times)
{
    cpu_prog *p;
    if (cpu_prog_new(&k->g, isa, nt, &p) != YK_OK)
        return -1.0;
    int cores[64];
    for (int i = 0; i < nt; i++)
        cores[i] = -1;
    cpu_pool *pool = cpu_pool_new(cores, nt);
    char *shared = kit_alloc(cpu_prog_shared(p) + 64, 4096);
    char *mine = kit_alloc((size_t)nt * cpu_round(cpu_prog_mine(p) + 64, 4096), 4096);
    kit_job j = {p, {k->data, isa, shared, mine, 0, nt}, pool};
    double best = 1e30;
    for (int i = 0; i < times; i++) {
        double from = now();
        if (cpu_prog_is_serial(p))
            kit_worker(&j, 0);
        else
            cpu_pool_run(pool, kit_worker, &j);
        best = fmin(best, now() - from);
    }
    cpu_pool_free(pool);
    free(mine);
    free(shared);
    cpu_prog_free(p);
    check_guards(k);
    return best;
}

yk_status kit_run(kit *k, const cpu_isa *isa, int nt)
{
    return kit_time(k, isa, nt, 1) < 0 ? YK_E_UNSUPPORTED : YK_OK;
}

const cpu_isa *kit_isa(int i)
{
    static const cpu_isa *have[5];
    int n = cpu_isa_list(have);
    return i < n ? have[i] : NULL;
}
