/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serial form of a graph, little-endian:
 *   "YKGRAPH1", u32 n_value n_node n_all_node n_index n_attr n_slot,
 *   slots: u64 bytes, u32 kind key; values: u8 dtype dims, u16 flags, u32 base slot, u64 offset, dims x (i64 dim
 * stride); nodes: u16 op flags n_in n_out, u32 in out attr n_attr body n_body stream; index: u32; attributes: i64; u64
 * checksum (yk__hash_bytes) of all before.
 */
#include "tests/support/graph_serial.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

static const char magic[8] = {'Y', 'K', 'G', 'R', 'A', 'P', 'H', '1'};

enum { HEAD = 8 + 6 * 4, SLOT = 16, VALUE = 20, NODE = 36, SUM = 8 };

/* ---- Writing ---- */

typedef struct writer {
    unsigned char *p;
} writer;

static void writer_put(writer *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *out->p++ = (unsigned char)(v >> (8 * i));
}

static size_t serial_size(const yk_graph *g)
{
    size_t n = HEAD + SUM + (size_t)g->n_slot * SLOT + (size_t)g->n_value * VALUE + (size_t)g->n_all_node * NODE;
    for (uint32_t i = 0; i < g->n_value; i++)
        n += 16u * g->value[i].dims;
    return n + (size_t)g->n_index * 4 + (size_t)g->n_attr * 8;
}

static void writer_value(writer *out, const yk_value *v)
{
    writer_put(out, v->dtype, 1);
    writer_put(out, v->dims, 1);
    writer_put(out, v->flags, 2);
    writer_put(out, v->base, 4);
    writer_put(out, v->slot, 4);
    writer_put(out, v->offset, 8);
    for (uint32_t i = 0; i < v->dims; i++) {
        writer_put(out, (uint64_t)v->dim[i], 8);
        writer_put(out, (uint64_t)v->stride[i], 8);
    }
}

static void writer_node(writer *out, const yk_node *n)
{
    const uint16_t small[] = {n->op, n->flags, n->n_in, n->n_out};
    const uint32_t large[] = {n->in, n->out, n->attr, n->n_attr, n->body, n->n_body, n->stream};
    for (int i = 0; i < 4; i++)
        writer_put(out, small[i], 2);
    for (int i = 0; i < 7; i++)
        writer_put(out, large[i], 4);
}

yk_status graph_write(const yk_graph *g, void **data, size_t *bytes, yk_error *err)
{
    const uint32_t counts[] = {g->n_value, g->n_node, g->n_all_node, g->n_index, g->n_attr, g->n_slot};
    const size_t n = serial_size(g);
    unsigned char *p = yk__malloc(n);
    writer out = {p};
    if (!p)
        return yk__fail_mem(err, n, "a written graph");
    memcpy(out.p, magic, sizeof magic);
    out.p += sizeof magic;
    for (int i = 0; i < 6; i++)
        writer_put(&out, counts[i], 4);
    for (uint32_t i = 0; i < g->n_slot; i++) {
        writer_put(&out, g->slot[i].bytes, 8);
        writer_put(&out, g->slot[i].kind, 4);
        writer_put(&out, g->slot[i].key, 4);
    }
    for (uint32_t i = 0; i < g->n_value; i++)
        writer_value(&out, &g->value[i]);
    for (uint32_t i = 0; i < g->n_all_node; i++)
        writer_node(&out, &g->node[i]);
    for (uint32_t i = 0; i < g->n_index; i++)
        writer_put(&out, g->index[i], 4);
    for (uint32_t i = 0; i < g->n_attr; i++)
        writer_put(&out, (uint64_t)g->attr[i], 8);
    writer_put(&out, yk__hash_bytes(YK_HASH_SEED, p, (size_t)(out.p - p)), 8);
    *data = p;
    *bytes = n;
    return YK_OK;
}

/* ---- Reading ---- */

typedef struct reader {
    const unsigned char *p, *end;
    bool truncated; /* data */
} reader;

static uint64_t reader_get(reader *in, int bytes)
{
    uint64_t v = 0;
    if (in->end - in->p < bytes) {
        in->truncated = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)*in->p++ << (8 * i);
    return v;
}

static void reader_value(reader *in, yk_value *v)
{
    memset(v, 0, sizeof *v);
    v->dtype = (uint8_t)reader_get(in, 1);
    v->dims = (uint8_t)reader_get(in, 1);
    v->flags = (uint16_t)reader_get(in, 2);
    v->base = (uint32_t)reader_get(in, 4);
    v->slot = (uint32_t)reader_get(in, 4);
    v->offset = reader_get(in, 8);
    for (uint32_t i = 0; i < v->dims && i < YK_MAX_DIMS; i++) {
        v->dim[i] = (int64_t)reader_get(in, 8);
        v->stride[i] = (int64_t)reader_get(in, 8);
    }
}

static void reader_node(reader *in, yk_node *n)
{
    memset(n, 0, sizeof *n);
    n->op = (uint16_t)reader_get(in, 2);
    n->flags = (uint16_t)reader_get(in, 2);
    n->n_in = (uint16_t)reader_get(in, 2);
    n->n_out = (uint16_t)reader_get(in, 2);
    n->in = (uint32_t)reader_get(in, 4);
    n->out = (uint32_t)reader_get(in, 4);
    n->attr = (uint32_t)reader_get(in, 4);
    n->n_attr = (uint32_t)reader_get(in, 4);
    n->body = (uint32_t)reader_get(in, 4);
    n->n_body = (uint32_t)reader_get(in, 4);
    n->stream = (uint32_t)reader_get(in, 4);
}

/* Counts in the order of the header; the smallest size they imply has to fit, before anything is allocated. */
static yk_status reader_counts(reader *in, uint32_t *n, yk_error *err)
{
    static const uint64_t least[] = {VALUE, 0, NODE, 4, 8, SLOT};
    uint64_t need = 0;
    if (in->end - in->p < HEAD || memcmp(in->p, magic, sizeof magic))
        return yk__fail(err, YK_E_FORMAT, "graph: does not begin with %.8s", magic);
    in->p += sizeof magic;
    for (int i = 0; i < 6; i++) {
        n[i] = (uint32_t)reader_get(in, 4);
        need += least[i] * n[i];
    }
    if (need > (uint64_t)(in->end - in->p) || n[1] > n[2])
        return yk__fail(err, YK_E_FORMAT, "graph: %u values, %u nodes, %u index entries do not fit in %td bytes", n[0],
                        n[2], n[3], in->end - in->p);
    return YK_OK;
}

static bool arrays_reserve(yk__graph *g, const uint32_t *n)
{
    return !yk__grow(&g->value, &g->cap_value, n[0] + 1u, sizeof *g->value) &&
           !yk__grow(&g->node, &g->cap_node, n[2] + 1u, sizeof *g->node) &&
           !yk__grow(&g->body, &g->cap_body, n[2] - n[1] + 1u, sizeof *g->body) &&
           !yk__grow(&g->index, &g->cap_index, n[3] + 1u, sizeof *g->index) &&
           !yk__grow(&g->attr, &g->cap_attr, n[4] + 1u, sizeof *g->attr) &&
           !yk__grow(&g->slot, &g->cap_slot, n[5] + 1u, sizeof *g->slot);
}

/* All nodes go to g->node here, bodies behind the top ones, as the checker wants them. */
static void reader_arrays(reader *in, yk__graph *g, const uint32_t *n)
{
    for (uint32_t i = 0; i < n[5]; i++) {
        g->slot[i].bytes = reader_get(in, 8);
        g->slot[i].kind = (uint32_t)reader_get(in, 4);
        g->slot[i].key = (uint32_t)reader_get(in, 4);
    }
    for (uint32_t i = 0; i < n[0] && !in->truncated; i++)
        reader_value(in, &g->value[i]);
    for (uint32_t i = 0; i < n[2] && !in->truncated; i++)
        reader_node(in, &g->node[i]);
    for (uint32_t i = 0; i < n[3] && !in->truncated; i++)
        g->index[i] = (uint32_t)reader_get(in, 4);
    for (uint32_t i = 0; i < n[4] && !in->truncated; i++)
        g->attr[i] = (int64_t)reader_get(in, 8);
}

static yk_status graph_accept(yk__graph *g, const uint32_t *n, yk_error *err)
{
    yk_graph s = {.size = sizeof s,
                  .n_value = n[0],
                  .n_node = n[1],
                  .n_all_node = n[2],
                  .n_index = n[3],
                  .n_attr = n[4],
                  .n_slot = n[5],
                  .value = g->value,
                  .node = g->node,
                  .index = g->index,
                  .attr = g->attr,
                  .slot = g->slot};
    yk_status st = yk__graph_check(&s, err);
    if (st)
        return st;
    g->n_value = n[0], g->n_node = n[1], g->n_body = n[2] - n[1];
    g->n_index = n[3], g->n_attr = n[4], g->n_slot = n[5];
    memcpy(g->body, g->node + n[1], g->n_body * sizeof *g->body);
    for (size_t i = 0; i < g->n_node; i++)
        if (g->node[i].n_body)
            g->node[i].body -= n[1];
    st = yk__graph_seal(g, &s, err);
    g->hash = s.hash;
    return st;
}

yk_status graph_read(const void *data, size_t bytes, yk__graph *out, yk_error *err)
{
    reader in = {data, data, false}, tail;
    uint32_t n[6];
    yk__graph g;
    yk_status st;
    if (bytes < HEAD + SUM)
        return yk__fail(err, YK_E_FORMAT, "graph: %zu bytes are too few for one", bytes);
    in.end += bytes - SUM;
    tail = (reader){in.end, in.end + SUM, false};
    if (reader_get(&tail, 8) != yk__hash_bytes(YK_HASH_SEED, data, bytes - SUM))
        return yk__fail(err, YK_E_FORMAT, "graph: the checksum is wrong: the data is damaged");
    st = reader_counts(&in, n, err);
    if (st)
        return st;
    memset(&g, 0, sizeof g);
    if (!arrays_reserve(&g, n)) {
        st = yk__fail_mem(err, bytes, "a graph");
    } else {
        reader_arrays(&in, &g, n);
        if (in.truncated || in.p != in.end)
            st = yk__fail(err, YK_E_FORMAT, "graph: %s bytes than its values need", in.truncated ? "fewer" : "more");
        else
            st = graph_accept(&g, n, err);
    }
    if (st)
        yk__graph_free(&g);
    else
        *out = g;
    return st;
}
