/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fusion. Nodes are gathered in clusters that become one node each: elementwise chains a map, a product with what is
 * computed from it element by element a dot_map, sums over the same axes of the same values a map_sum.
 *
 * A cluster is legal when no value goes out of it and comes back in; that is looked for by a bounded search. Forward and
 * backward nodes are kept apart, because what a forward cluster gives to backward must be stored until then; and so are
 * recomputed ones, which have to be fused as they were the first time to round alike.
 *
 * Elementwise nodes that only sums read are inlined: never stored, each map_sum holds its own copy of them.
 */
#ifndef YOKE_CORE_PLAN_FUSE_CLUSTER_H
#define YOKE_CORE_PLAN_FUSE_CLUSTER_H

#include "core/plan/internal.h"

#define YK__FUSE_NODES 48u /* members of a cluster */
#define YK__FUSE_IN 24u
#define YK__FUSE_OUT 4u
#define YK__FUSE_DEPTH 16u /* inlined nodes in a row: each may have two ways to the one before it, and all ways are gone */

typedef enum yk__fuse_kind { YK__FUSE_NONE, YK__FUSE_MAP, YK__FUSE_SUM } yk__fuse_kind;

/* Nodes of one phase may stand together: what forward gives to backward is stored in between, and what is computed again must be
 * fused as it was the first time. */
typedef enum yk__phase { YK__FORWARD, YK__BACKWARD, YK__FORWARD_AGAIN } yk__phase;

/* Some nodes of the old graph, to become one. A node that is not fused is a cluster of its own. */
typedef struct yk__cluster {
    uint32_t head, tail, n;    /* members in order, linked by next[] */
    uint32_t first;            /* lowest position */
    uint32_t first_overwrite;  /* of memory it reads: at this node */
    uint8_t kind, dots, phase; /* phase: yk__phase */
    uint8_t done, busy;
    uint8_t dims;
    int64_t dim[YK_MAX_DIMS]; /* the shape all its elements are counted in */
} yk__cluster;

typedef struct yk__fuse {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    uint32_t *cluster_of;      /* by node: index into cluster */
    uint32_t *next;            /* by node: next member */
    yk__cluster *cluster;
    uint8_t *inlined;          /* by node: only sums read it, through so many nodes at most, with itself; 0: others do, or it is far */
    uint32_t *reader;          /* nodes that read root r: reader[reader_begin[r] .. reader_begin[r + 1]) */
    uint32_t *reader_begin;
    uint32_t *older_writer;    /* by node: the node before it that writes the same root; YK_NONE */
    uint32_t *first_overwrite; /* by node: the first later node that writes memory it reads; YK_NONE */
    uint32_t *last_sum;        /* by root: the latest cluster of sums that reads it */
    uint32_t *reduce_before;   /* by node: the all_reduce before an all_reduce */
    uint32_t *seen, stamp;     /* by cluster, of searches */
    bool fuses_dropout;        /* the device takes dropout in maps */
} yk__fuse;

/* Strides of v's elements, in their order, as an array of another shape; false where that needs a copy. */
bool yk__restride(const yk_value *v, uint32_t dims, const int64_t *dim, int64_t *stride);
/* The node that makes the root of v alone; YK_NONE: a leaf, or several do. */
uint32_t yk__maker(const yk__fuse *fuse, yk__vid v);
bool yk__is_fill(const yk__fuse *fuse, yk__vid v);
/* Operand i of node n is read as it is, not element by element: of a product, and what dropout draws its numbers from. */
bool yk__fuse_as_is(const yk_node *n, uint32_t i);
/* Whether the device takes dropout in the body of a map; asked with the first one there is. */
bool yk__fuse_drops(yk__work *work);
/* Emits the cluster and, before it, all it needs. */
void yk__fuse_emit(yk__fuse *fuse, uint32_t cluster);
/* The i-th node that node k needs, over operands and order; YK_NONE at the end. *it begins at 0. */
uint32_t yk__fuse_need(const yk__fuse *fuse, uint32_t k, uint64_t *it);

#endif
