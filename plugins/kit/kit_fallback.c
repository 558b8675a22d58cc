/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes a node that the device can not. Its operands come to host memory, the host's reference kernel computes it there, and its outputs
 * go back.
 *
 * kit_device_program.c makes an object per such node while a program is made, and runs it in a queue's thread. The node becomes a graph of
 * its own with one slot, that host memory. Operands that overlap keep their distance, as an output may be the memory of an input.
 */
#include "plugins/kit/kit_fallback.h"

#include "plugins/kit/value.h"

#define APART 64u /* bytes; begins of pieces in host memory are multiples of it */

/* Memory of an operand, in bytes of its slot; operands of one piece overlap, or one begins where another ends. */
typedef struct piece {
    uint32_t slot;
    uint64_t begin, end;
    uint64_t at; /* its offset in host memory, bytes */
} piece;

struct kit_fallback {
    const yk_host *host;
    yk_graph graph; /* one node */
    yk_node node;
    yk_slot slot;
    uint32_t n;      /* operands: inputs, then outputs */
    yk_value *value; /* n, as the one-node graph has them; in the same block, as the next four */
    uint64_t *offset; /* n: of the operand in its slot */
    uint32_t *index; /* n: 0, 1 .. */
    uint32_t *of;    /* n: the piece that an operand lies in */
    piece *piece;    /* n; unused ones are empty */
};

static piece piece_of(const yk_value *v)
{
    const uint64_t bytes = yk_dtype_bytes(v->dtype);
    piece p = {.slot = v->slot, .begin = v->offset, .end = v->offset + bytes};
    for (uint32_t d = 0; d < v->dims; d++) {
        const int64_t far = (v->dim[d] - 1) * v->stride[d] * (int64_t)bytes;
        if (far > 0)
            p.end += (uint64_t)far;
        else
            p.begin -= (uint64_t)-far;
    }
    return p;
}

static bool pieces_meet(const piece *a, const piece *b)
{
    return a->slot == b->slot && a->begin < b->end && b->begin < a->end;
}

/* Joins pieces until none overlap; an operand's piece is the joined one. */
static void pieces_join(kit_fallback *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        for (uint32_t j = 0; j < f->n; j++) {
            piece *a = &f->piece[f->of[i]], *b = &f->piece[f->of[j]];
            if (a == b || !pieces_meet(a, b))
                continue;
            a->begin = a->begin < b->begin ? a->begin : b->begin;
            a->end = a->end > b->end ? a->end : b->end;
            const uint32_t gone = f->of[j];
            for (uint32_t k = 0; k < f->n; k++)
                f->of[k] = f->of[k] == gone ? f->of[i] : f->of[k];
            *b = (piece){.slot = YK_NONE};
            i = 0, j = 0; /* a longer piece may meet others: from the beginning */
        }
}

static void pieces_place(kit_fallback *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->of[i] == i) {
            f->piece[i].at = f->slot.bytes;
            f->slot.bytes += kit_round_bytes(f->piece[i].end - f->piece[i].begin, APART);
        }
    for (uint32_t i = 0; i < f->n; i++) {
        const piece *p = &f->piece[f->of[i]];
        f->value[i].slot = 0;
        f->value[i].offset = p->at + f->offset[i] - p->begin;
    }
}

static void graph_fill(kit_fallback *f, const yk_graph *g, uint32_t node)
{
    const yk_node *n = &g->node[node];
    for (uint32_t i = 0; i < f->n; i++) {
        const uint32_t number = g->index[i < n->n_in ? n->in + i : n->out + i - n->n_in];
        f->value[i] = g->value[number];
        f->offset[i] = g->value[number].offset;
        f->index[i] = f->of[i] = i;
        f->value[i].base = i;
        f->piece[i] = piece_of(&g->value[number]);
    }
    pieces_join(f);
    pieces_place(f);
    f->node = *n;
    f->node.in = 0;
    f->node.out = n->n_in;
    f->graph = (yk_graph){.size = sizeof f->graph, .n_value = f->n, .n_node = 1, .n_all_node = 1, .n_index = f->n, .n_attr = g->n_attr,
                          .n_slot = 1, .value = f->value, .node = &f->node, .index = f->index, .attr = g->attr, .slot = &f->slot};
}

yk_status kit_fallback_new(const yk_host *host, const char *plugin, const yk_graph *g, uint32_t node, kit_fallback **out)
{
    const uint32_t n = (uint32_t)g->node[node].n_in + g->node[node].n_out;
    const size_t bytes = sizeof(kit_fallback) + n * (sizeof(yk_value) + sizeof(piece) + sizeof(uint64_t) + 2 * sizeof(uint32_t));
    kit_fallback *f = kit_zeroed(host, plugin, bytes, "a node computed by the host");
    if (!f)
        return YK_E_MEM;
    f->host = host;
    f->n = n;
    f->value = (yk_value *)(f + 1);
    f->piece = (piece *)(f->value + n);
    f->offset = (uint64_t *)(f->piece + n);
    f->index = (uint32_t *)(f->offset + n);
    f->of = f->index + n;
    graph_fill(f, g, node);
    *out = f;
    return YK_OK;
}

void kit_fallback_free(kit_fallback *f)
{
    if (f)
        f->host->free(f);
}

/* Operand i's bytes, or its whole piece, to host memory or back. */
static yk_status operand_get(const kit_fallback *f, const kit_device *device, void *stream, uint32_t i, const kit_argument *a, char *memory)
{
    const piece *p = &f->piece[f->of[i]];
    const uint64_t at = (uint64_t)a->number.i64 - f->offset[i] + p->begin;
    return device->get(stream, a->memory, at, memory + p->at, p->end - p->begin);
}

static yk_status operand_put(const kit_fallback *f, const kit_device *device, void *stream, uint32_t i, const kit_argument *a,
                             const char *memory)
{
    yk_value v = f->value[i];
    v.offset = f->offset[i];
    const piece *p = &f->piece[f->of[i]], own = piece_of(&v);
    const uint64_t at = (uint64_t)a->number.i64 - f->offset[i] + own.begin;
    return device->put(stream, a->memory, at, memory + p->at + (own.begin - p->begin), own.end - own.begin);
}

yk_status kit_fallback_run(const kit_fallback *f, const kit_device *device, void *stream, const kit_argument *operand)
{
    char *memory = f->host->alloc(f->slot.bytes, APART);
    void *slot[1] = {memory};
    yk_status s = memory ? YK_OK : YK_E_MEM;
    for (uint32_t i = 0; i < f->n && !s; i++) {
        bool first = true; /* operand of its piece */
        for (uint32_t k = 0; k < i; k++)
            first = first && f->of[k] != f->of[i];
        if (first)
            s = operand_get(f, device, stream, i, &operand[i], memory);
    }
    if (!s && device->wait)
        s = device->wait(stream);
    if (!s && (s = f->host->eval_node(&f->graph, 0, slot)) != YK_OK)
        kit_device_say("node %u (%s) could not be computed by the host", f->node.stream, kit_op_name(f->node.op));
    for (uint32_t i = f->node.n_in; i < f->n && !s; i++)
        s = operand_put(f, device, stream, i, &operand[i], memory);
    if (!s && device->wait)
        s = device->wait(stream);
    if (memory)
        f->host->free(memory);
    else
        kit_device_say("no memory for the operands of node %u", f->node.stream);
    return s;
}
