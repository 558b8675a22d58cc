/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as one StableHLO function. A value of the graph is a tensor of the text, so memory is seen only at the ends: what the program
 * reads before it writes it is an argument, what outlives the run is a result. One thread.
 */
#ifndef YOKE_BACKENDS_PJRT_LOWER_H
#define YOKE_BACKENDS_PJRT_LOWER_H

#include "backends/pjrt/tensor.h"

/* An argument or result of a program: a dense array in a slot. */
typedef struct pj_port {
    uint32_t value, slot;
    uint64_t offset, bytes; /* in the slot */
    uint32_t dtype, dims;
    const int64_t *dim; /* lives with the graph */
    uint32_t result;    /* of an argument: the result that lies where it did, which takes its memory; YK_NONE: none */
} pj_port;

typedef struct pj_lowered {
    pj_text function; /* the module */
    pj_port *in, *out;
    uint32_t n_in, n_out;
} pj_lowered;

/* Host and plugin are those that speak. wide: operands of products are cast to f32, as XLA has no such product of 16 bits on a processor for
 * some shapes. YK_E_UNSUPPORTED names the node that is not run here. */
yk_status pj_lower(const yk_host *host, const char *plugin, const yk_graph *graph, bool wide, pj_lowered *lowered);
void pj_lowered_free(const yk_host *host, pj_lowered *lowered);

/* ---- For the rules of operations ---- */

typedef struct pj_state { /* of a value that is no view */
    bool known, is_in;
    uint32_t written; /* how many writes the program has had with its last one; 0: none, or another value's came over it */
    pj_tensor now;
} pj_state;

typedef struct pj_lowering {
    const yk_host *host;
    const char *plugin;
    const yk_graph *graph;
    pj_lowered *to;
    pj_text body;
    pj_state *state;
    uint32_t writes;
    bool wide;    /* products of f32 alone */
    bool refused; /* the node's operands have a layout that is not run here */
} pj_lowering;

/* Operand or result i of the node. */
const yk_value *pj_in(const pj_lowering *ctx, const yk_node *n, uint32_t i);
const yk_value *pj_out(const pj_lowering *ctx, const yk_node *n, uint32_t i);
pj_tensor pj_shape_of(const yk_value *v);
/* The elements of a value as they are now, with its dimensions. */
pj_tensor pj_read(pj_lowering *ctx, const yk_value *v);
/* Stores elements that have the value's number of them; of its type, or converted to it. */
void pj_write(pj_lowering *ctx, const yk_value *v, pj_tensor t);
/* Adds the lines of one primitive; false: there is no such here. */
bool pj_node_lower(pj_lowering *ctx, const yk_node *n);

#endif
