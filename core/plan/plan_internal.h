/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the passes of core/plan.
 *
 * A pass rewrites the graph of a yk__work: it reads the old graph and appends to a new one through a yk__remap, which translates value
 * numbers. work->keep holds the values that the caller needs (leaves of parameters, gradients, results, assigned values). Every rewrite
 * translates them.
 *
 * Memory of a value: its root (yk_value.base) and the bytes in it. One node writes a root, or several that copy parts into
 * it (copy with a base). Nodes that write or read one root keep their order in every pass.
 *
 * Notes of the planner about a node are in a list beside the graph (yk__node_info). The ABI's reserved words are 0 in every
 * graph that a plugin sees.
 */
#ifndef YOKE_CORE_PLAN_PLAN_INTERNAL_H
#define YOKE_CORE_PLAN_PLAN_INTERNAL_H

#include "core/graph/op_table.h"
#include "core/plan/plan.h"

typedef struct yk__node_info {
    uint32_t origin;    /* number of its node in the trace + 1; 0 for a node without one, as all of backward */
    bool is_recomputed; /* the second computation of a forward node */
    bool is_asked;      /* the device was asked; `claims` is its answer */
    uint8_t claims;     /* YK_CLAIM_*; 0: the device refuses */
} yk__node_info;

typedef struct yk__work {
    const yk__plan_request *request;
    yk__plan *plan;                                 /* the plan under construction */
    uint32_t number;                                /* its number */
    yk__graph g;
    yk__node_info *info;                            /* by node of g */
    size_t n_info, cap_info;
    yk__vid *keep; /* param leaves, results, assigned values, loss and seed, contributions to gradients */
    uint32_t n_keep, n_grad, cap_grad;
    yk__vid *param, *grad, *result, *assign, *loss; /* into keep; loss[1] is the seed */
    uint32_t *grad_param;                           /* the parameter that grad[i] contributes to */
    uint32_t bucket_slot, result_slot;
    uint32_t *assign_slot;
    uint64_t *result_offset, result_bytes;
    const yk__recompute *block; /* the request's blocks, or blocks chosen for its limit */
    uint32_t n_block;
    bool lean;      /* casts of weights are recomputed too */
    bool sums_stay; /* keep an all_reduce that this rank does not need: other ranks wait for it */
    uint64_t arena_bytes, kept_bytes;
    uint32_t n_arena, arena_slot; /* number of parts of the arena, and the slot of the second part */
} yk__work;

typedef struct yk__remap {
    const yk__graph *src;
    const yk__node_info *src_info; /* by node of src; NULL if unknown */
    yk__graph *dst;
    yk__vid *map;                  /* by value of src: its number in dst; YK_NONE if absent */
    yk__node_info *info;           /* by node of dst; all 0 beyond n_info */
    size_t n_info, cap_info;
} yk__remap;

/* Starts a new graph with the slots of work->g, to replace it. */
yk_status yk__remap_begin(yk__remap *remap, yk__work *work, yk__graph *dst, yk_error *err);
/* Starts a copy of any graph, without node info. */
yk_status yk__remap_copy(yk__remap *remap, const yk__graph *src, yk__graph *dst, yk_error *err);
/* The value in dst; makes it (and its base) if absent. YK_NONE stays YK_NONE. */
yk__vid yk__remap_value(yk__remap *remap, yk__vid v);
/* Appends the node with its body and info; returns its number. Failures stay in dst->error. */
uint32_t yk__remap_node(yk__remap *remap, uint32_t node);
/* Adds empty info for nodes that were appended to work->g itself. */
yk_status yk__work_extend_info(yk__work *work, yk_error *err);
/* Stores info about node `at` of dst; no effect for YK_NONE. */
void yk__remap_note(yk__remap *remap, uint32_t at, yk__node_info info);
/* Moves the last node of dst to position `at`, before the node there. */
void yk__remap_move_last(yk__remap *remap, uint32_t at);
/* A view of dst's value `of`, with the strides of view v of a value of the same shape. */
yk__vid yk__view_like(yk__graph *g, yk__vid of, const yk_value *v, uint64_t relative);
/* Ends a rewrite of work->g: translates keep and makes dst the work's graph; on failure frees dst. */
yk_status yk__remap_end(yk__remap *remap, yk__work *work, yk_error *err);
void yk__remap_drop(yk__remap *remap); /* frees the table only */

static inline yk__vid yk__root(const yk__graph *g, yk__vid v)
{
    while (g->value[v].base != v)
        v = g->value[v].base;
    return v;
}

static inline const yk__vid *yk__ins(const yk__graph *g, const yk_node *n)
{
    return g->index + n->in;
}

static inline const yk__vid *yk__outs(const yk__graph *g, const yk_node *n)
{
    return g->index + n->out;
}

/* An ABI graph over g's current arrays: top nodes without their bodies. For claims and yk__body_append. */
yk_graph yk__graph_view(const yk__graph *g);
/* True if the value is its whole root, densely. */
bool yk__whole(const yk__graph *g, yk__vid v);
/* Info of node n of src. */
static inline const yk__node_info *yk__info_of(const yk__remap *remap, const yk_node *n)
{
    return &remap->src_info[n - remap->src->node];
}

static inline bool yk__is_forward(const yk__remap *remap, const yk_node *n)
{
    return yk__info_of(remap, n)->origin != 0;
}

/* Initial info of a node that replaces one with this info, or precedes it: its origin. */
static inline yk__node_info yk__info_from(const yk__node_info *of)
{
    return (yk__node_info){.origin = of->origin, .is_recomputed = of->is_recomputed};
}

/* The device's answer for this composite node of g (with its body): YK_CLAIM_*; 0: refused. */
uint32_t yk__plan_ask(const yk__plan_request *request, const yk__graph *g, const yk_node *node, const yk_node *body);

/* Reads and writes of values, by root. */
typedef struct yk__uses {
    uint32_t *readers;  /* number of operands that read the root */
    uint32_t *writers;  /* number of nodes that write it */
    uint32_t *producer; /* last node that writes it; YK_NONE for a leaf */
    uint32_t *last;     /* last node that reads or writes it */
    uint32_t *kept;     /* number of entries of work->keep in this root */
} yk__uses;
yk_status yk__uses_new(const yk__work *work, yk__uses *uses, yk_error *err);
void yk__uses_free(yk__uses *uses);

/* The passes, in order. */
yk_status yk__plan_trace(yk__work *work, yk_error *err);     /* trace.c: copy; all_reduce of one rank */
yk_status yk__plan_prune(yk__work *work, yk_error *err);     /* trace.c: drops unneeded nodes */
yk_status yk__plan_empty(yk__work *work, yk_error *err);     /* trace.c: removes values without elements */
yk_status yk__plan_grad(yk__work *work, yk_error *err);      /* plan_grad.c: differentiate; contributions to each gradient */
yk_status yk__plan_inverse(yk__work *work, yk_error *err);   /* inverse.c: sums of rows that are look-ups */
yk_status yk__plan_stats(yk__work *work, yk_error *err);     /* trace.c: all_stats becomes bn_stats and an all_reduce */
yk_status yk__plan_autocast(yk__work *work, yk_error *err);  /* autocast.c */
yk_status yk__plan_remat(yk__work *work, yk_error *err);     /* remat.c: computes cheap values at their readers */
yk_status yk__plan_recompute(yk__work *work, yk_error *err); /* recompute.c */
/* Cuts the trace into blocks that end at nodes with few live bytes; block has capacity for `parts`. */
yk_status yk__plan_blocks(const yk__graph *t, uint32_t parts, yk__recompute *block, uint32_t *n_block, yk_error *err);
yk_status yk__plan_relu(yk__work *work, yk_error *err);      /* plan_grad.c: relu's backward from its result */
yk_status yk__plan_factor(yk__work *work, yk_error *err);    /* factor.c: sums of scaled values share a sum */
yk_status yk__plan_operands(yk__work *work, yk_error *err);  /* attention.c: dense operands for devices that need them */
yk_status yk__plan_claim(yk__work *work, yk_error *err);     /* claim.c */
yk_status yk__plan_results(yk__work *work, yk_error *err);   /* attention.c: results in the order of their readers */
yk_status yk__plan_narrow(yk__work *work, yk_error *err);    /* narrow.c: layer norms that write 16 bits */
yk_status yk__plan_fuse(yk__work *work, yk_error *err);      /* fuse.c */
yk_status yk__plan_lines(yk__work *work, yk_error *err);     /* padding.c: pads rows of matrices with odd row lengths */
yk_status yk__plan_overlap(yk__work *work, yk_error *err);   /* overlap.c: order of nodes around sums over ranks */
yk_status yk__plan_place(yk__work *work, yk_error *err);     /* place.c: gradients, results, states get their memory */
yk_status yk__plan_memory(yk__work *work, yk_error *err);    /* memory.c: the arena */
yk_status yk__plan_cut(yk__work *work, yk_error *err);       /* segment.c */

/* away.c */
yk_status yk__plan_away(yk__work *work, yk_error *err); /* plan->away, with numbers of nodes */
/* The lives of these values: one ends behind the copy to the host, and its second begins `lead` nodes before it comes back. */
void yk__plan_away_lives(const yk__work *work, uint32_t lead, yk__uses *uses, uint32_t *first);
/* The node behind the last one of the trace itself: from there on nodes are backward's. */
uint32_t yk__forward_end(const yk__work *work);

/* lanes.c */

/* The time in which a bucket needs memory: from the first node that touches it to the last. */
typedef struct yk__stay {
    uint32_t bucket, begin, end; /* begin: YK_NONE for a bucket that no node touches */
    uint32_t lane;               /* YK_NONE: none */
} yk__stay;
/* Chooses lanes for the stays without one; stays whose times cross have lanes of their own. */
yk_status yk__plan_lay_lanes(const yk__plan_request *request, yk__stay *list, uint32_t n, yk__lanes *lanes, yk_error *err);
/* plan->lane, and the node behind which each bucket is summed. turn: as many as there are buckets. */
yk_status yk__plan_lanes(yk__work *work, uint32_t *turn, yk_error *err);

/* pulls.c: plan->pull, with numbers of nodes; nothing if no bucket is pulled. */
yk_status yk__plan_pulls(yk__work *work, yk_error *err);
/* The bucket that must be pulled for the parameter in this slot; YK_NONE if none must. */
uint32_t yk__plan_pulled(const yk__plan_request *request, const yk_slot *s);

/* dump.c: no effect unless YOKE_DUMP names a folder */
void yk__plan_dump_pass(const yk__work *work, uint32_t order, const char *name);
void yk__plan_dump(yk__plan *plan);

#endif
