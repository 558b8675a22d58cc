/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the chain after a product that a library computes while it stores the product. A chain is a bias, gelu in its tanh form, an addend,
 * or a multiplication by gelu's slope.
 *
 * lower_dot.c asks for each dot_map that may go to a library, while a program is made, in any thread. A chain in another form gets a kernel
 * of its own. If the chain has two results, `again` names a gelu that a further launch computes anew.
 */
#include "plugins/kit/lower/lower_internal.h"

/* True for a cast between floats: the library rounds once when it stores. So a cast to f16 and back within the chain overflows nothing; the
 * result does, where it is f16. A cast from or to an integer changes numbers. */
static bool cast_rounds(const yk_graph *graph, const yk_node *n)
{
    return n->op == YK_OP_CAST && kit_is_float(kit_node_in(graph, n, 0)->dtype) && kit_is_float(kit_node_out(graph, n, 0)->dtype);
}

/* The node of the chain that makes a value, past casts between floats. NULL for a leaf, which *value then is. */
static const yk_node *maker_of(const kit_chain *chain, uint32_t *value)
{
    for (uint32_t i = chain->n_node; i-- > 0;) {
        const yk_node *n = &chain->node[i];
        if (chain->graph->index[n->out] != *value)
            continue;
        if (!cast_rounds(chain->graph, n))
            return n;
        *value = chain->graph->index[n->in];
    }
    return NULL;
}

/* Nodes that are no casts between floats. */
static uint32_t nodes_counted(const kit_chain *chain)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < chain->n_node; i++)
        count += !cast_rounds(chain->graph, &chain->node[i]);
    return count;
}

static bool is_leaf(const kit_chain *chain, uint32_t value)
{
    for (uint32_t i = 1; i < chain->n_leaf; i++)
        if (chain->leaf[i] == value)
            return true;
    return false;
}

/* One row for all rows. */
static bool is_row(const yk_value *v)
{
    for (uint32_t d = 0; d + 1 < v->dims; d++)
        if (v->dim[d] != 1 && v->stride[d])
            return false;
    return v->dim[v->dims - 1] > 1 && v->stride[v->dims - 1] == 1;
}

/* value = the product + a bias */
static bool bias_of(const kit_chain *chain, uint32_t value, kit_behind *b)
{
    const yk_node *n = maker_of(chain, &value);
    if (!n || n->op != YK_OP_ADD)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t product = chain->graph->index[n->in + i];
        b->bias = chain->graph->index[n->in + 1 - i];
        if (!maker_of(chain, &product) && product == chain->leaf[0] && is_leaf(chain, b->bias) && is_row(&chain->graph->value[b->bias]))
            return true;
    }
    return false;
}

/* value = something like the result + (the product + a bias) */
static bool sum_of(const kit_chain *chain, uint32_t value, kit_behind *b)
{
    const yk_value *out = &chain->graph->value[chain->out[0]];
    const yk_node *n = maker_of(chain, &value);
    if (!n || n->op != YK_OP_ADD)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        b->addend = chain->graph->index[n->in + i];
        if (is_leaf(chain, b->addend) && chain->graph->value[b->addend].dtype == out->dtype &&
            kit_value_dense(&chain->graph->value[b->addend]) && bias_of(chain, chain->graph->index[n->in + 1 - i], b))
            return true;
    }
    return false;
}

/* value = gelu(the product + a bias); *before: gelu's input. */
static bool gelu_of(const kit_chain *chain, uint32_t value, kit_behind *b, uint32_t *before)
{
    const yk_node *n = maker_of(chain, &value);
    if (!n || n->op != YK_OP_GELU_TANH)
        return false;
    *before = chain->graph->index[n->in];
    return bias_of(chain, *before, b);
}

/* outputs: the product times gelu's slope at a leaf, and perhaps gelu of that leaf */
static bool slope_of(const kit_chain *chain, uint32_t count, kit_behind *b)
{
    for (uint32_t i = 0; i < chain->n_out; i++) {
        uint32_t value = chain->out[i], product;
        const yk_node *n = maker_of(chain, &value), *again;
        if (!n || n->op != YK_OP_GELU_TANH_BWD)
            continue;
        *b = (kit_behind){chain->out[i], YK_NONE, chain->graph->index[n->in], YK_NONE, YK_NONE, KIT_GELU_GRADIENT};
        product = chain->graph->index[n->in + 1];
        if (maker_of(chain, &product) || product != chain->leaf[0] || !is_leaf(chain, b->before) || chain->n_leaf != 2)
            return false;
        if (chain->n_out == 1)
            return count == 1;
        value = b->again = chain->out[1 - i];
        again = maker_of(chain, &value);
        return count == 2 && chain->n_node == 2 && again && again->op == YK_OP_GELU_TANH && chain->graph->index[again->in] == b->before;
    }
    return false;
}

bool kit_behind_of(const kit_chain *chain, kit_behind *b)
{
    const uint32_t count = nodes_counted(chain);
    uint32_t before = YK_NONE;
    if (chain->n_out > 2)
        return false;
    for (uint32_t i = 0; i < chain->n_out && count == 2; i++) {
        const uint32_t other = chain->n_out == 2 ? chain->out[1 - i] : YK_NONE;
        *b = (kit_behind){chain->out[i], YK_NONE, other, YK_NONE, YK_NONE, KIT_GELU};
        if (gelu_of(chain, b->out, b, &before) && (other == YK_NONE || other == before))
            return chain->n_leaf == 2;
    }
    if (slope_of(chain, count, b))
        return true;
    *b = (kit_behind){chain->out[0], YK_NONE, YK_NONE, YK_NONE, YK_NONE, 0};
    if (chain->n_out != 1)
        return false;
    return count == 1 ? chain->n_leaf == 2 && bias_of(chain, b->out, b) : count == 2 && chain->n_leaf == 3 && sum_of(chain, b->out, b);
}

void kit_behind_again(kit_lowering *ctx, const kit_chain *chain, const kit_behind *b)
{
    kit_chain gelu = {.graph = chain->graph, .n_node = 1, .n_leaf = 1, .n_out = 1, .leaf = {b->before}, .out = {b->again}};
    gelu.value[0] = b->again;
    for (uint32_t i = 0; i < chain->n_node; i++)
        if (chain->node[i].op == YK_OP_GELU_TANH)
            gelu.node = &chain->node[i];
    kit_chain_launch(ctx, &gelu, 0, 0);
}
