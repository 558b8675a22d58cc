/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that lie on the host between forward and backward: the same bits, in an arena that holds nothing of use where a value was; the
 * bytes that leave; programs whose values stay.
 */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/round.h"
#include "core/plan/plan_internal.h"
#include "tests/support/plan_lab.h"
#include "tests/support/run.h"

static void buckets_equal(const yk__plan *a, const yk__plan *b)
{
    memory x, y;
    plan_run(a, &x);
    plan_run(b, &y);
    ck_assert_uint_eq(x.bytes[a->bucket_slot], y.bytes[b->bucket_slot]);
    ck_assert(!memcmp(x.slot[a->bucket_slot], y.slot[b->bucket_slot], x.bytes[a->bucket_slot]));
    memory_free(&x);
    memory_free(&y);
}

/* The segment reads the value. */
static bool segment_reads(const yk__plan *p, uint32_t segment, yk__vid v)
{
    const yk__graph *g = &p->segment[segment].own;
    for (size_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) {
            const yk_value *x = &g->value[g->index[g->node[i].in + k]];
            if (x->slot == p->graph.value[v].slot && g->value[x->base].offset == p->graph.value[v].offset)
                return true;
        }
    return false;
}

/* Each value has a copy out and one back, with a time between, and bytes of its own on the host; it comes back before its reader. */
static void check_ways(const yk__plan *p)
{
    uint64_t sum = 0;
    uint32_t stores = 0, loads = 0;
    for (uint32_t i = 0; i < p->n_action; i++) {
        const yk__action *a = &p->action[i];
        stores += a->kind == YK__ACTION_STORE && a->start_after == p->away[a->target].after;
        loads += a->kind == YK__ACTION_LOAD && a->needed_by == p->away[a->target].before;
    }
    ck_assert_uint_eq(stores, p->n_away);
    ck_assert_uint_eq(loads, p->n_away);
    for (uint32_t i = 0; i < p->n_away; i++) {
        const yk__away *v = &p->away[i];
        bool read = false;
        ck_assert_uint_ne(v->from, v->to);
        ck_assert_uint_gt(v->before, v->after);
        ck_assert_uint_eq(v->bytes, yk__value_bytes(&p->graph.value[v->to]));
        ck_assert_uint_eq(v->offset, sum);
        ck_assert(!i || v->before >= v[-1].before);
        sum += yk__round_up(v->bytes, 256);
        for (uint32_t s = v->before; s < p->n_segment; s++)
            read = read || segment_reads(p, s, v->to);
        ck_assert(read);
    }
    ck_assert_uint_eq(p->away_bytes, sum);
}

enum { PLAIN, BLOCKS, LAST };

/* _i: the device's claims, and recomputed blocks or none. Bytes that leave are no longer kept, but for the last block's. */
START_TEST(bits_with_values_on_the_host)
{
    yk__plan_request r;
    net n;
    ref.claim = _i / LAST;
    net_build(&n, 6, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.large = 64;
    if (_i % LAST == BLOCKS)
        r.n_recompute = n.n_block, r.recompute = n.block;
    for (int f = 0; f < 2; f++) {
        r.precision = f ? YK_BF16 : YK_F32;
        r.stores = false;
        yk__plan *stay = plan_new(&r);
        ck_assert_uint_eq(stay->n_away, 0);
        r.stores = true;
        yk__plan *away = plan_new(&r);
        ck_assert_uint_ge(away->n_away, 4);
        check_ways(away);
        buckets_equal(stay, away);
        ck_assert_uint_eq(stay->kept_bytes, away->kept_bytes + away->away_bytes);
        ck_assert_uint_lt(away->arena_bytes, stay->arena_bytes);
        ck_assert_uint_lt(3 * away->kept_bytes, 2 * stay->kept_bytes);
        yk__plan_free(away);
        yk__plan_free(stay);
    }
    yk__graph_free(&n.g);
}
END_TEST

/* loss = sum(w s s) / 3000, s the sum over ranks of x x: a sum under way behind its node does not leave. */
START_TEST(sums_over_ranks_stay)
{
    yk__plan_request r;
    net n;
    memset(&n, 0, sizeof n);
    yk__graph_init(&n.g);
    n.seed = yk__leaf(&n.g, yk__slot_new(&n.g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    n.state = yk__slot_new(&n.g, YK_SLOT_STATE, 4, 0);
    const yk__vid x = net_vector(&n, 3000), w = net_vector(&n, 3000);
    yk__vid y = yk__all_reduce(&n.g, yk__bin(&n.g, YK_OP_MUL, x, x));
    y = yk__all_reduce(&n.g, yk__bin(&n.g, YK_OP_MUL, y, y));
    n.loss = yk__reshape(&n.g, yk__scale(&n.g, yk__sum(&n.g, yk__bin(&n.g, YK_OP_MUL, w, y), 1), 1.0 / 3000), 0, NULL);
    n.counted = yk__bin(&n.g, YK_OP_ADD, yk__leaf(&n.g, n.state, 0, YK_F32, 0, NULL), n.loss);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    ref.claim = REF_CLAIM_NONE;
    r.single_rank = false;
    r.stores = true;
    r.large = 64;
    yk__plan *p = plan_new(&r);
    net_compare(&n, p, false, 2e-6);
    for (uint32_t i = 0; i < p->n_away; i++)
        for (uint32_t k = 0; k < p->n_action; k++)
            ck_assert(p->action[k].kind != YK__ACTION_ALL_REDUCE || p->action[k].target != p->graph.value[p->away[i].from].slot ||
                      p->action[k].offset != p->graph.value[p->away[i].from].offset || p->action[k].start_after != p->away[i].after);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

START_TEST(nothing_leaves_without_backward)
{
    yk__plan_request r;
    net n;
    ref.claim = REF_CLAIM_NONE;
    net_build(&n, 4, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.stores = true;
    yk__plan *small = plan_new(&r); /* less than 64 KiB each */
    ck_assert_uint_eq(small->n_away + small->away_bytes, 0);
    r.large = 64;
    r.loss = r.seed = YK_NONE;
    yk__plan *forward = plan_new(&r);
    ck_assert_uint_eq(forward->n_away + forward->away_bytes, 0);
    yk__plan_free(forward);
    yk__plan_free(small);
    yk__graph_free(&n.g);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    yk__plan_request r;
    yk_error err = {.status = YK_E_MEM};
    yk__plan *p = NULL;
    yk_device_caps caps = ref_caps;
    long i;
    net n;
    caps.max_alloc = 2048; /* an arena in parts */
    ref.claim = REF_CLAIM_ADD;
    net_build(&n, 1, C);
    net_request(&n, &r, &(yk__assign){0, n.counted});
    r.caps = &caps;
    r.stores = true;
    r.large = 64;
    for (i = 0; err.status; i++) {
        err = (yk_error)YK_ERROR_INIT;
        yk__mem_fail_after(i);
        yk__plan_new(&r, &p, &err);
        yk__mem_fail_after(-1);
        ck_assert_msg(!err.status || err.status == YK_E_MEM, "allocation %ld: %s", i, err.text);
    }
    ck_assert_int_gt(i, 100);
    ck_assert_uint_gt(p->n_away, 0);
    check_ways(p);
    yk__plan_free(p);
    yk__graph_free(&n.g);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("away");
    tcase_add_loop_test(c, bits_with_values_on_the_host, REF_CLAIM_NONE * LAST, (REF_CLAIM_ADD + 1) * LAST);
    tcase_add_test(c, sums_over_ranks_stay);
    tcase_add_test(c, nothing_leaves_without_backward);
    tcase_add_test(c, every_allocation_may_fail);
    return suite_run("plan", c);
}
