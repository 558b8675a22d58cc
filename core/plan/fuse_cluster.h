/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fusion. Gathers nodes in clusters that become one node each: an elementwise chain becomes a map, a product with elementwise followers a
 * dot_map. Sums over the same axes of the same values become a map_sum.
 *
 * A cluster is legal if no value leaves it and comes back in; a bounded search checks that. Forward and backward nodes stay
 * apart, because values from a forward cluster to backward must be stored until then. So do recomputed nodes, which must be
 * fused as the first time to round alike.
 *
 * Elementwise nodes that only sums read are inlined: never stored, each map_sum holds its own copy of them.
 */
#ifndef YOKE_CORE_PLAN_FUSE_CLUSTER_H
#define YOKE_CORE_PLAN_FUSE_CLUSTER_H

#include "core/plan/plan_internal.h"

#define YK__FUSE_NODES 48u /* members of a cluster */
#define YK__FUSE_IN 24u
#define YK__FUSE_OUT 4u
#define YK__FUSE_DEPTH 16u /* inlined nodes in a row: each may have two paths to the previous one, and all paths are visited */

typedef enum yk__fuse_kind { YK__FUSE_NONE, YK__FUSE_MAP, YK__FUSE_SUM } yk__fuse_kind;

/* Nodes of one phase may share a cluster. Values from forward to backward are stored in between, and recomputed nodes must be
 * fused as they were the first time. */
typedef enum yk__phase { YK__FORWARD, YK__BACKWARD, YK__FORWARD_AGAIN } yk__phase;

/* Nodes of the old graph that become one node. A node that is not fused is a cluster by itself. */
typedef struct yk__cluster {
    uint32_t head, tail, n;    /* members in order, linked by next[] */
    uint32_t first;            /* lowest position */
    uint32_t first_overwrite;  /* node that first overwrites memory it reads */
    uint8_t kind, dots, phase; /* phase: yk__phase */
    uint8_t done, busy;
    uint8_t dims;
    int64_t dim[YK_MAX_DIMS]; /* common shape of all its elements */
} yk__cluster;

typedef struct yk__fuse {
    yk__work *work;
    yk__remap remap;
    yk__graph g;
    yk__uses uses;
    uint32_t *cluster_of;      /* by node: index into cluster */
    uint32_t *next;            /* by node: next member */
    yk__cluster *cluster;
    uint8_t *inlined;          /* by node: length of the chain to a sum, itself included, if only sums read it; 0 otherwise */
    uint32_t *reader;          /* nodes that read root r: reader[reader_begin[r] .. reader_begin[r + 1]) */
    uint32_t *reader_begin;
    uint32_t *older_writer;    /* by node: the node before it that writes the same root; YK_NONE */
    uint32_t *first_overwrite; /* by node: the first later node that writes memory it reads; YK_NONE */
    uint32_t *last_sum;        /* by root: the latest cluster of sums that reads it */
    uint32_t *reduce_before;   /* by node: the all_reduce before an all_reduce */
    uint32_t *seen, stamp;     /* by cluster: stamp of the latest search that visited it */
    bool fuses_dropout;        /* the device accepts dropout in maps */
} yk__fuse;

/* Strides of v's elements, in their order, as an array of another shape; false if that needs a copy. */
bool yk__restride(const yk_value *v, uint32_t dims, const int64_t *dim, int64_t *stride);
/* The only node that writes the root of v; YK_NONE for a leaf or several writers. */
uint32_t yk__maker(const yk__fuse *fuse, yk__vid v);
bool yk__is_fill(const yk__fuse *fuse, yk__vid v);
/* True if node n reads operand i as a whole, not element by element: a product's operands, and dropout's key and rows. */
bool yk__fuse_as_is(const yk_node *n, uint32_t i);
/* True if the device accepts dropout in the body of a map; asks with the first such node. */
bool yk__fuse_drops(yk__work *work);
/* Emits the cluster's needs, then the cluster. */
void yk__fuse_emit(yk__fuse *fuse, uint32_t cluster);
/* The i-th node that node k needs, over operands and order; YK_NONE at the end. *it begins at 0. */
uint32_t yk__fuse_need(const yk__fuse *fuse, uint32_t k, uint64_t *it);

#endif
