/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, groups composite, body and guard: the cases of composites (cases*.c) run as they are claimed, and as their bodies. The group
 * guard takes lengths from 1 to 39. At odd ones, no multiple of a vector, k.around checks the bytes around each slot, which finds stores
 * that are too wide. main.c runs each group in a child process with the device under test open.
 */
#include <pthread.h>
#include <string.h>

#include "tools/cts/cts.h"

typedef void run_fn(cts *c, cts_check *k, const char *name);

/* Calls f for every case of a type. */
static void each_case(cts *c, yk_dtype dtype, run_fn *f)
{
    for (uint32_t i = 0; i < cts_n_composite; i++) {
        char name[100] = "";
        cts_check k;
        for (uint32_t number = 0;; number++) {
            bool more;
            cts_check_init(&k, c);
            more = cts_composites[i](&k, number, dtype, name, sizeof name);
            if (more)
                f(c, &k, name);
            cts_check_free(&k);
            if (!more)
                break;
        }
    }
}

static yk_dtype current_type;

static void case_run(cts *c, cts_check *k)
{
    if (c->claims)
        cts_pass(c);
    else
        cts_check_run(c, k);
}

#define ASKED 256 /* asker_main asks about no more nodes of a graph */

typedef struct asker {
    cts *c;
    const yk_graph *g;
    uint32_t answer[ASKED];
} asker;

static void *asker_main(void *arg)
{
    asker *a = arg;
    for (uint32_t i = 0; i < a->g->n_node && i < ASKED; i++)
        a->answer[i] = yk__simple_claims(a->c->dev, a->g, i);
    return NULL;
}

/* claims_alike checks that a node gets the same answer twice in this thread, and once in a new thread. */
static bool claims_alike(cts *c, cts_check *k, yk_error *err)
{
    asker first = {.c = c}, again = {.c = c}, other = {.c = c};
    yk_graph g;
    pthread_t thread;
    if (yk__graph_seal(&k->g, &g, err))
        return false;
    first.g = again.g = other.g = &g;
    asker_main(&first);
    if (pthread_create(&thread, NULL, asker_main, &other))
        return cts_fail(c, "no thread for the test"), false;
    pthread_join(thread, NULL);
    asker_main(&again);
    for (uint32_t i = 0; i < g.n_node && i < ASKED; i++)
        if (other.answer[i] != first.answer[i] || again.answer[i] != first.answer[i]) {
            cts_fail(c, "claims answers %u for node %u (%s), then %u in another thread and %u here; the same node always gets the same "
                     "answer, in any thread", first.answer[i], i, yk__op_info_of(g.node[i].op)->name, other.answer[i], again.answer[i]);
            return false;
        }
    return true;
}

static void as_claimed(cts *c, cts_check *k, const char *name)
{
    yk_error err = YK_ERROR_INIT;
    bool claimed;
    if (!cts_begin(c, "%s.%s", name, yk__dtype_name(current_type)))
        return;
    claimed = claims_alike(c, k, &err) && cts_claimed(c, k, &err);
    if (err.status)
        cts_error(c, &err);
    else if (!claimed)
        cts_unsupported(c, "not claimed");
    else
        case_run(c, k);
}

/* as_added checks that a composite claimed with YK_CLAIM_ACCUMULATE adds its result to its output. */
static void as_added(cts *c, cts_check *k, const char *name)
{
    yk_error err = YK_ERROR_INIT;
    k->claims |= YK_CLAIM_ACCUMULATE;
    if (!cts_claimed(c, k, &err) || !cts_accumulate(k) || !cts_begin(c, "%s.%s.accumulate", name, yk__dtype_name(current_type)))
        return;
    if (k->tol == CTS_EXACT)
        k->tol = CTS_ROUND;
    case_run(c, k);
}

void cts_group_composite(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++) {
        current_type = types[t];
        each_case(c, types[t], as_claimed);
        each_case(c, types[t], as_added);
    }
}

/*
 * A body cuts sums into steps that each round to f32, so as_body allows the error of a sum 16 times as long. A type other than f32
 * has 16 bits; each step rounds to it, so CTS_NOISE measures the effect of such rounding on the reference.
 */
static void as_body(cts *c, cts_check *k, const char *name)
{
    bool low = current_type != YK_F32;
    if (k->claims) /* the case tests the composite alone */
        return;
    if (low ? !cts_begin(c, "%s.%s", name, yk__dtype_name(current_type)) : !cts_begin(c, "%s", name))
        return;
    k->inlined = true;
    if (k->tol != CTS_EXACT && low)
        k->tol = CTS_NOISE;
    if (k->tol != CTS_EXACT && k->tol != CTS_NOISE) {
        k->tol = CTS_LARGEST;
        k->n *= 16;
    }
    cts_check_run(c, k);
}

/* cts_group_body runs each case in each float type as its body (k->inlined), except for a case that tests its composite alone.
 * cts_check_run runs a map by the body in its graph, and copies the results of an optimizer's body to its operands. */
void cts_group_body(cts *c)
{
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++) {
        current_type = types[t];
        each_case(c, types[t], as_body);
    }
}

/* ---- guard --------------------------------------------------------------------------------------------------------------- */

#define FAR_BYTES (17ull << 20)

static yk__vid case_small(cts_check *k, uint32_t which, yk_dtype dtype, int64_t n)
{
    const int64_t row[] = {n}, square[] = {n, 3}, other[] = {3, n};
    uint32_t turn[] = {1, 0};
    yk__graph *g = &k->g;
    switch (which) {
    case 0:
        return yk__bin(g, YK_OP_ADD, cts_leaf(g, dtype, CTS_UNIT, 0, 1, row), cts_leaf(g, dtype, CTS_UNIT, 1, 1, row));
    case 1:
        return yk__un(g, YK_OP_ABS, cts_leaf(g, dtype, CTS_UNIT, 0, 2, square));
    case 2:
        return yk__sum(g, cts_leaf(g, dtype, CTS_UNIT, 0, 2, square), 2);
    case 3:
        return yk__sum(g, cts_leaf(g, dtype, CTS_UNIT, 0, 2, other), 1);
    case 4:
        return yk__dot(g, cts_leaf(g, dtype, CTS_UNIT, 0, 2, square), cts_leaf(g, dtype, CTS_UNIT, 1, 2, other), false, false);
    case 5:
        return yk__dense(g, yk__permute(g, cts_leaf(g, dtype, CTS_UNIT, 0, 2, square), turn));
    case 6:
        return yk__cast(g, cts_leaf(g, YK_F32, CTS_UNIT, 0, 1, row), YK_BOOL);
    default:
        return yk__fill(g, 1.5, dtype, 1, row);
    }
}

/* Slots that begin beyond 16 MiB of their buffers: no part of an offset may be lost. */
static void slots_far(cts *c)
{
    const yk_device_caps *caps = &c->dev->caps;
    const uint64_t has = cts_free_bytes(c);
    cts_check k;
    if (!cts_begin(c, "add.f32.far"))
        return;
    if ((caps->max_alloc && caps->max_alloc < 4 * FAR_BYTES) || (has && has < 16 * FAR_BYTES)) {
        cts_unsupported(c, "the device has too little memory for four buffers of 34 MiB");
        return;
    }
    cts_check_init(&k, c);
    k.around = true;
    k.lead = FAR_BYTES;
    k.tol = CTS_ROUND;
    cts_want(&k, case_small(&k, 0, YK_F32, 33));
    cts_check_run(c, &k);
    cts_check_free(&k);
}

void cts_group_guard(cts *c)
{
    static const char *const names[] = {"add", "abs", "sum_rows", "sum_cols", "dot", "transpose", "cast_bool", "fill"};
    yk_dtype types[4];
    uint32_t n = cts_float_types(c, types);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t which = 0; which < 8; which++)
            for (int64_t size = 1; size < 40; size += size < 18 ? 1 : 7) {
                cts_check k;
                if (!cts_begin(c, "%s.%s.%lld", names[which], yk__dtype_name(types[t]), (long long)size))
                    continue;
                cts_check_init(&k, c);
                k.around = size % 2;
                k.tol = which >= 2 && which <= 4 ? CTS_ABSSUM : which == 0 ? CTS_ROUND : CTS_EXACT;
                k.n = (double)size;
                cts_want(&k, case_small(&k, which, types[t], size));
                cts_check_run(c, &k);
                cts_check_free(&k);
            }
    slots_far(c);
}
