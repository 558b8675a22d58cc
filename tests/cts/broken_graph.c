/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The template plugin with one fault, chosen by -D, that several nodes have to come together for: what a random graph finds, and what a
 * graph has to keep that is made smaller.
 */
#define _GNU_SOURCE
#include <unistd.h>

#define yk_plugin_query good_query
#include "template.c"
#undef yk_plugin_query

static yk_plugin bad;

static const yk_value *value_at(const yk_graph *g, uint32_t index)
{
    return &g->value[g->index[index]];
}

static void element_spoil(const yk_graph *g, const yk_node *n, void **slot)
{
    const yk_value *y = value_at(g, n->out);
    uint8_t *at = (uint8_t *)slot[y->slot] + y->offset + yk_dtype_bytes(y->dtype) - 1;
    *at ^= 0x40;
}

/* The node that wrote operand i of node `at` last; NULL: none, an input. */
static const yk_node *operand_maker(const yk_graph *g, uint32_t at, uint32_t i)
{
    const uint32_t root = value_at(g, g->node[at].in + i)->base;
    while (at-- > 0)
        if (value_at(g, g->node[at].out)->base == root)
            return &g->node[at];
    return NULL;
}

#ifdef BREAK_CHAIN /* four elementwise nodes in a row, each of two operands or one, have a kernel of their own, which is wrong */
static bool node_spoiled(const yk_graph *g, uint32_t at)
{
    const yk_node *n = &g->node[at];
    for (uint32_t depth = 1; n && n->op < YK_OP_SELECT; depth++) {
        if (depth == 4)
            return true;
        n = operand_maker(g, (uint32_t)(n - g->node), 0);
    }
    return false;
}
#endif

#ifdef BREAK_PAIR /* a product of what tanh gave and of what came of a sum */
static bool node_spoiled(const yk_graph *g, uint32_t at)
{
    const yk_node *n = &g->node[at], *a = n->op == YK_OP_MUL ? operand_maker(g, at, 0) : NULL, *b = a ? operand_maker(g, at, 1) : NULL;
    return b && a->op == YK_OP_TANH && operand_maker(g, (uint32_t)(a - g->node), 0) && b->op == YK_OP_ADD;
}
#endif

#ifdef BREAK_TURNED /* a permuted copy of a permuted copy */
static bool node_spoiled(const yk_graph *g, uint32_t at)
{
    const yk_node *n = &g->node[at], *a = n->op == YK_OP_COPY ? operand_maker(g, at, 0) : NULL;
    return a && a->op == YK_OP_COPY && value_at(g, n->in)->stride[0] == 1 && value_at(g, a->in)->stride[0] == 1;
}
#endif

#ifdef BREAK_SLOW /* every node is wrong, and each takes a while */
static bool node_spoiled(const yk_graph *g, uint32_t at)
{
    (void)g, (void)at;
    usleep(20000);
    return true;
}
#endif

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const yk_graph *g = s->program->graph;
    void *slot[256];
    yk_status st = g->n_slot > 256 ? YK_E_ARG : bind_slots(g, s, slot);
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        st = run_node(g, i, slot);
        if (!st && node_spoiled(g, i))
            element_spoil(g, &g->node[i], slot);
    }
    return queue_end(q, st, point);
}

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
    bad.queue_run = bad_run;
    return abi == YK_ABI ? &bad : NULL;
}
