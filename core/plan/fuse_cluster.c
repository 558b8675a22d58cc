/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of both halves of fusion, gathering clusters (fuse.c) and emitting them (fuse_emit.c). The functions find strides for another
 * shape, the only maker of a value, a node's needs, and operands read as a whole. A cluster is a group of nodes that become one. Pure
 * functions of the graph, in the thread that plans.
 */
#include "core/plan/fuse_cluster.h"

bool yk__restride(const yk_value *v, uint32_t dims, const int64_t *dim, int64_t *stride)
{
    int64_t od[YK_MAX_DIMS], os[YK_MAX_DIMS];
    uint32_t n = 0, o = 0;
    for (uint32_t i = 0; i < v->dims; i++)
        if (v->dim[i] != 1) {
            od[n] = v->dim[i];
            os[n++] = v->stride[i];
        }
    for (uint32_t i = 0; i < dims;) { /* runs of new axes that cover runs of old ones */
        uint32_t end = i, oend = o;
        int64_t a = 1, b = 1, step;
        if (dim[i] == 1) {
            stride[i++] = 1;
            continue;
        }
        do {
            if (a <= b && end < dims)
                a *= dim[end++];
            else if (oend < n)
                b *= od[oend++];
            else
                return false;
        } while (a != b);
        for (uint32_t k = o; k + 1 < oend; k++)
            if (os[k] != os[k + 1] * od[k + 1])
                return false;
        step = os[oend - 1];
        for (uint32_t k = end; k-- > i;) {
            stride[k] = step;
            step *= dim[k];
        }
        i = end;
        o = oend;
    }
    return o == n;
}

uint32_t yk__maker(const yk__fuse *fuse, yk__vid v)
{
    const yk__vid r = yk__root(fuse->remap.src, v);
    return fuse->uses.writers[r] == 1 && !(fuse->remap.src->value[r].flags & YK_VALUE_INPUT) ? fuse->uses.producer[r] : YK_NONE;
}

bool yk__is_fill(const yk__fuse *fuse, yk__vid v)
{
    const uint32_t k = yk__maker(fuse, v);
    return k != YK_NONE && fuse->remap.src->node[k].op == YK_OP_FILL;
}

/* A node needs all earlier writers of its operands' roots. An all_reduce also needs the all_reduce before it, so fusion keeps their order.
 * The upper half of *it counts operands. The lower half is the next writer plus 1, or 0 for the operand's latest. */
uint32_t yk__fuse_need(const yk__fuse *fuse, uint32_t k, uint64_t *it)
{
    const yk_node *n = &fuse->remap.src->node[k];
    uint32_t operand = (uint32_t)(*it >> 32), from = (uint32_t)*it;
    for (; operand < n->n_in; operand++, from = 0) {
        const yk__vid r = yk__root(fuse->remap.src, yk__ins(fuse->remap.src, n)[operand]);
        uint32_t p = from ? from - 1 : fuse->uses.producer[r];
        while (p != YK_NONE && p >= k)
            p = fuse->older_writer[p];
        if (p == YK_NONE)
            continue;
        *it = fuse->older_writer[p] == YK_NONE ? (uint64_t)(operand + 1) << 32 : (uint64_t)operand << 32 | (fuse->older_writer[p] + 1);
        return p;
    }
    if (operand == n->n_in && fuse->reduce_before[k] != YK_NONE) {
        *it = (uint64_t)(n->n_in + 1) << 32;
        return fuse->reduce_before[k];
    }
    return YK_NONE;
}

/* A product reads both operands as a whole, and dropout its key and rows. Such an operand keeps its own shape beside the cluster's. */
bool yk__fuse_as_is(const yk_node *n, uint32_t i)
{
    return n->op == YK_OP_DOT || (n->op == YK_OP_DROPOUT && i > 0);
}
