/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as one StableHLO function. A value of the graph is a tensor of the text, so memory appears only at the ends. Values that the
 * program reads before it writes them are arguments, values that outlive the run are results. One thread.
 */
#ifndef YOKE_PLUGINS_KIT_HLO_FUNCTION_H
#define YOKE_PLUGINS_KIT_HLO_FUNCTION_H

#include "plugins/kit/hlo/tensor.h"

/* An argument or result of a program: a dense array in a slot. */
typedef struct hlo_port {
    uint32_t value, slot;
    uint64_t offset, bytes; /* in the slot */
    uint32_t dtype, dims;
    const int64_t *dim; /* lives with the graph */
    uint32_t result;    /* for an argument: the result at the same place, which takes its memory; YK_NONE if none */
} hlo_port;

typedef struct hlo_lowered {
    hlo_text function; /* the module */
    hlo_port *in, *out;
    uint32_t n_in, n_out;
} hlo_lowered;

/* host and plugin are for messages. wide: casts operands of products to f32, as XLA lacks products of 16 bits for some shapes on a
 * processor. YK_E_UNSUPPORTED names the node that cannot run here. */
yk_status hlo_lower(const yk_host *host, const char *plugin, const yk_graph *graph, bool wide, hlo_lowered *lowered);
void hlo_lowered_free(const yk_host *host, hlo_lowered *lowered);

/* ---- For the rules of operations ---- */

typedef struct hlo_state { /* state of a value that is no view */
    bool known, is_in;
    uint32_t written; /* the program's count of writes after its last one; 0 if never, or if another value overwrote it */
    hlo_tensor now;
} hlo_state;

typedef struct hlo_lowering {
    const yk_host *host;
    const char *plugin;
    const yk_graph *graph;
    hlo_lowered *to;
    hlo_text body;
    hlo_state *state;
    uint32_t writes;
    bool wide;    /* products of f32 alone */
    bool refused; /* the node's operands have a layout that is not run here */
} hlo_lowering;

/* Operand or result i of the node. */
const yk_value *hlo_in(const hlo_lowering *ctx, const yk_node *n, uint32_t i);
const yk_value *hlo_out(const hlo_lowering *ctx, const yk_node *n, uint32_t i);
hlo_tensor hlo_shape_of(const yk_value *v);
/* The present elements of a value, with its dimensions. */
hlo_tensor hlo_read(hlo_lowering *ctx, const yk_value *v);
/* Stores as many elements as the value has, converted to its type. */
void hlo_write(hlo_lowering *ctx, const yk_value *v, hlo_tensor t);
/* Adds the lines of one primitive; false: there is no such here. */
bool hlo_node_lower(hlo_lowering *ctx, const yk_node *n);

#endif
