/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a collective of yk.coll.1 as StableHLO: a function that all replicas run together, each with its own operand.
 *
 * backends/pjrt/pjrt_coll.c calls it, in the thread of a member's queue. A vendor's all_reduce adds in an order of its own, and its sum may
 * depend on timing. So data only move here (all_to_all, all_gather), and each member adds its part in the order of members. A sum over all
 * moves as much as one by the vendor: parts come by all_to_all, and go by all_gather. A broadcast goes the same way, with the root's part
 * in place of the sum. Numbers that only move keep their bits, as nothing is added to them.
 */
#include "plugins/kit/hlo/collective.h"

#include <stdio.h>

#include <yoke/extension.h>

int64_t hlo_collective_in(const hlo_collective *c)
{
    return c->count * (c->kind == YK_COLL_REDUCE_SCATTER ? c->ranks : 1);
}

int64_t hlo_collective_out(const hlo_collective *c)
{
    return c->count * (c->kind == YK_COLL_ALL_GATHER ? c->ranks : 1);
}

static hlo_tensor vector_of(uint32_t type, int64_t n)
{
    return (hlo_tensor){.type = type, .dims = 1, .dim = {n}};
}

/* One operation over all replicas; `how` is its attributes. */
static hlo_tensor put_moved(hlo_text *p, const hlo_collective *c, const char *op, const char *how, hlo_tensor a, int64_t n)
{
    const hlo_tensor r = hlo_begin(p, op, vector_of(a.type, n));
    kit_text_add(&p->text, "(%%%u) {%s : i64, replica_groups = dense<[[", a.id, how);
    for (uint32_t i = 0; i < c->ranks; i++)
        kit_text_add(&p->text, "%s%u", i ? ", " : "", i);
    kit_text_add(&p->text, "]]> : tensor<1x%uxi64>} : (", c->ranks);
    hlo_put_type(p, &a);
    kit_text_add(&p->text, ") -> ");
    hlo_put_type(p, &r);
    kit_text_add(&p->text, "\n");
    return r;
}

static hlo_tensor put_gathered(hlo_text *p, const hlo_collective *c, hlo_tensor a)
{
    return put_moved(p, c, "\"stablehlo.all_gather\"", "all_gather_dim = 0", a, a.dim[0] * c->ranks);
}

/* Member i gets part i of each member's vector, in the order of members. */
static hlo_tensor put_exchanged(hlo_text *p, const hlo_collective *c, hlo_tensor a)
{
    char how[96];
    snprintf(how, sizeof how, "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = %u", c->ranks);
    return put_moved(p, c, "\"stablehlo.all_to_all\"", how, a, a.dim[0]);
}

/* The part of member `rank` among those that were exchanged. */
static hlo_tensor put_part(hlo_text *p, const hlo_collective *c, hlo_tensor all, uint32_t rank)
{
    const int64_t n = all.dim[0] / c->ranks, begin = rank * n, end = begin + n;
    return hlo_slice(p, all, &begin, &end, NULL);
}

static hlo_tensor put_sum(hlo_text *p, const hlo_collective *c, hlo_tensor all)
{
    const uint32_t type = c->type == YK_F16 || c->type == YK_BF16 ? YK_F32 : c->type;
    hlo_tensor sum = hlo_convert(p, put_part(p, c, all, 0), type);
    for (uint32_t r = 1; r < c->ranks; r++)
        sum = hlo_binary(p, "add", sum, hlo_convert(p, put_part(p, c, all, r), type));
    return sum;
}

/* All members get the sum, or the root's vector. Parts have equal lengths, so the vector is filled up before, and cut afterwards. */
static hlo_tensor put_spread(hlo_text *p, const hlo_collective *c, hlo_tensor a)
{
    const int64_t none = 0, more = (c->ranks - c->count % c->ranks) % c->ranks;
    const hlo_tensor zero = hlo_number(p, hlo_scalar(a.type), 0), all = put_exchanged(p, c, hlo_pad(p, a, zero, &none, &more, NULL));
    const hlo_tensor part = c->kind == YK_COLL_BROADCAST ? put_part(p, c, all, c->root) : put_sum(p, c, all);
    return hlo_slice(p, put_gathered(p, c, hlo_convert(p, part, c->wire)), &none, &c->count, NULL);
}

void hlo_collective_put(hlo_text *p, const hlo_collective *c)
{
    const hlo_tensor in = vector_of(c->type, hlo_collective_in(c)), out = vector_of(c->type, hlo_collective_out(c));
    kit_text_add(&p->text, "module @yoke attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = %u : i32} {\n", c->ranks);
    kit_text_add(&p->text, "func.func public @main(%%0: ");
    hlo_put_type(p, &in);
    kit_text_add(&p->text, ") -> ");
    hlo_put_type(p, &out);
    kit_text_add(&p->text, " {\n");
    p->n = 1; /* results follow the argument */
    hlo_tensor a = hlo_convert(p, in, c->wire);
    if (c->kind == YK_COLL_ALL_GATHER)
        a = put_gathered(p, c, a);
    else if (c->kind == YK_COLL_REDUCE_SCATTER)
        a = put_sum(p, c, put_exchanged(p, c, a));
    else
        a = put_spread(p, c, a);
    a = hlo_convert(p, a, c->type);
    kit_text_add(&p->text, "  return %%%u : ", a.id);
    hlo_put_type(p, &out);
    kit_text_add(&p->text, "\n}\n}\n");
}
