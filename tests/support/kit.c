/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs made by hand: values, nodes and slots in fixed arrays, and guard bytes behind each slot that show a write past it. */
#include "tests/support/kit.h"
#include "tests/support/f16.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *kit_alloc(size_t bytes, size_t align)
{
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1) ? NULL : p;
}

kit *kit_new(void)
{
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

/* ---- Values ---- */

int64_t kit_stored(const kit *k, uint32_t v)
{
    return (int64_t)(k->slot[k->value[v].slot].bytes / yk_dtype_bytes(k->value[v].dtype));
}

int64_t kit_count(const kit *k, uint32_t v)
{
    int64_t n = 1;
    for (int d = 0; d < k->value[v].dims; d++)
        n *= k->value[v].dim[d];
    return n;
}

uint32_t kit_broadcast(kit *k, int dtype, const int64_t *dim, unsigned mask)
{
    uint32_t v = k->g.n_value++, slot = k->g.n_slot++;
    yk_value *y = &k->value[v];
    int64_t stride = 1;
    *y = (yk_value){.dtype = (uint8_t)dtype, .base = v, .slot = slot};
    for (; dim[y->dims] >= 0; y->dims++)
        y->dim[y->dims] = dim[y->dims];
    for (int i = y->dims - 1; i >= 0; i--) {
        y->stride[i] = mask >> i & 1 ? 0 : stride;
        stride *= mask >> i & 1 ? 1 : y->dim[i];
    }
    k->slot[slot].bytes = (uint64_t)stride * yk_dtype_bytes((uint32_t)dtype);
    k->data[slot] = kit_alloc(k->slot[slot].bytes + KIT_GUARD, 64);
    memset(k->data[slot], 0x7b, k->slot[slot].bytes + KIT_GUARD);
    return v;
}

uint32_t kit_value(kit *k, int dtype, const int64_t *dim)
{
    return kit_broadcast(k, dtype, dim, 0);
}

uint32_t kit_view(kit *k, uint32_t base, uint32_t dims, const int64_t *dim, const int64_t *stride, int64_t start)
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

double kit_random_unit(void)
{
    static uint64_t s = 88172645463325252u;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return (double)(s >> 11) * 0x1p-53;
}

static void data_put(char *p, int dtype, double x)
{
    float f = (float)x;
    int32_t i = (int32_t)x;
    uint32_t u;
    const uint16_t h = f16_bits(f);
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

void kit_set(kit *k, uint32_t v, const double *x)
{
    char *p = k->data[k->value[v].slot];
    for (int64_t i = 0; i < kit_stored(k, v); i++)
        data_put(p + i * yk_dtype_bytes(k->value[v].dtype), k->value[v].dtype, x[i]);
}

void kit_random(kit *k, uint32_t v, double lo, double hi)
{
    char *p = k->data[k->value[v].slot];
    for (int64_t i = 0; i < kit_stored(k, v); i++)
        data_put(p + i * yk_dtype_bytes(k->value[v].dtype), k->value[v].dtype, lo + (hi - lo) * kit_random_unit());
}

void kit_random_int(kit *k, uint32_t v, int lo, int hi)
{
    char *p = k->data[k->value[v].slot];
    for (int64_t i = 0; i < kit_stored(k, v); i++)
        data_put(p + i * yk_dtype_bytes(k->value[v].dtype), k->value[v].dtype, lo + (int)((hi - lo + 1) * kit_random_unit()));
}

double kit_get(const kit *k, uint32_t v, int64_t i)
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
        return f16_value(h);
    if (dtype != YK_BF16)
        return *(const uint8_t *)p;
    memcpy(&f, &u, 4);
    return (double)f;
}

double kit_at(const kit *k, uint32_t v, int64_t i)
{
    const yk_value *y = &k->value[v];
    int64_t off = (int64_t)(y->offset / yk_dtype_bytes(y->dtype));
    for (int d = y->dims - 1; d >= 0; d--) {
        off += i % y->dim[d] * y->stride[d];
        i /= y->dim[d];
    }
    return kit_get(k, v, off);
}

/* ---- Nodes ---- */

yk_node *kit_node(kit *k, int op, const uint32_t *in, const uint32_t *out, const int64_t *attr, uint32_t n_attr)
{
    yk_node *n = &k->node[k->g.n_node];
    *n = (yk_node){.op = (uint16_t)op, .attr = k->g.n_attr, .n_attr = n_attr, .in = k->g.n_index,
                   .stream = k->g.n_node};
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

bool kit_guarded(const kit *k)
{
    for (uint32_t s = 0; s < k->g.n_slot; s++)
        for (uint64_t i = 0; i < KIT_GUARD; i++)
            if (k->data[s][k->slot[s].bytes + i] != 0x7b) {
                fprintf(stderr, "# written past the end of slot %u\n", s);
                return false;
            }
    return true;
}
