/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one graph on the device under test and by the reference (core/graph/eval.c), and compares the results. All groups of yoke-cts that
 * compute call it, each in its child process. A difference names the operation, the element and both numbers.
 *
 * The reference runs with float64 values between nodes and as results. For a tolerance that depends on the data, the reference runs again:
 * on absolute values (the sum of absolute products) or with the graph's own types (the effect of rounding alone).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

typedef struct side {
    yk__simple s;
    void **slot;
    bool planned;
} side;

void cts_check_init(cts_check *k, const cts *c)
{
    memset(k, 0, sizeof *k);
    yk__graph_init(&k->g);
    k->seed = c->seed;
    k->align = c->dev->caps.value_align;
    k->product_bits = yk__product_bits(&c->dev->caps);
    k->n = 1;
    k->tol = CTS_EXACT;
}

void cts_check_free(cts_check *k)
{
    yk__graph_free(&k->g);
}

void cts_want(cts_check *k, yk__vid v)
{
    if (k->n_want < 16)
        k->want[k->n_want++] = v;
}

/* ---- Comparing ----------------------------------------------------------------------------------------------------------- */

static double value_rounded(double v, uint32_t dtype)
{
    uint8_t element[8];
    yk__element_set(element, dtype, 0, v);
    return yk__element(element, dtype, 0);
}

/* The reference in the type's precision, for types whose stores are checked exactly. */
static double value_target(const cts_check *k, double ref, uint32_t dtype)
{
    bool whole = !yk__dtype_is_float(dtype);
    return k->tol == CTS_EXACT && !whole ? value_rounded(ref, dtype) : ref;
}

static double finite_max(const void *p, const yk_value *v)
{
    double m = 0;
    for (int64_t i = 0, n = yk__value_count(v); i < n; i++) {
        double a = fabs(yk__element(p, v->dtype, (uint64_t)i));
        m = a > m && isfinite(a) ? a : m;
    }
    return m;
}

/* The largest difference between the float64 reference and the one rounded at every node. */
static double rounding_noise(const yk_value *ref_v, const void *ref, const void *aux, uint32_t dtype)
{
    double m = 0;
    for (int64_t i = 0, n = yk__value_count(ref_v); i < n; i++) {
        double d = fabs(yk__element(ref, ref_v->dtype, (uint64_t)i) - yk__element(aux, dtype, (uint64_t)i));
        m = d > m && isfinite(d) ? d : m;
    }
    return m;
}

double cts_half_ulp(double x, uint32_t dtype)
{
    return x == 0 || !isfinite(x) ? 0 : ldexp(yk__epsilon(dtype) / 2, ilogb(x));
}

bool cts_rounds_to(double got, uint32_t dtype, double low, double high)
{
    return value_rounded(low, dtype) <= got && got <= value_rounded(high, dtype);
}

/* For f32, whose divisions and roots may miss the nearest number: half an epsilon. For 16 bits 0: rounding is exact (element_matches).
 * In f32 and bf16 subnormal numbers may be zero. */
static double one_rounding(double ref, uint32_t dtype)
{
    const double least = dtype == YK_F16 ? 0 : 0x1p-126, half = yk__epsilon(YK_F32) / 2;
    return (dtype == YK_F32 ? half * fabs(ref) * (1 + 0x1p-8) : 0) + least;
}

static bool node_multiplies(const yk__graph *g, const yk_node *n)
{
    const yk__op_info *info = yk__op_info_of(n->op);
    bool any = false;
    for (uint32_t i = 0; info && info->prec == YK_PREC_LOWP && i < 2 && i < n->n_in; i++)
        any = any || g->value[g->index[n->in + i]].dtype == YK_F32;
    return any;
}

double cts_product_loss(const cts_check *k)
{
    bool any = false;
    for (size_t i = 0; i < k->g.n_node; i++)
        any = any || node_multiplies(&k->g, &k->g.node[i]);
    for (size_t i = 0; i < k->g.n_body; i++)
        any = any || node_multiplies(&k->g, &k->g.body[i]);
    return any ? yk__product_loss(&(yk_device_caps){.product_bits = k->product_bits}) : 0;
}

/* Of one output: its largest element, the effects of stores and of shorter operands of products, and the loss of one product. */
typedef struct scale {
    double most, noise, shorter, loss;
} scale;

/* What products of shorter operands add to the allowed error. `shorter` is the effect of rounding to nearest, as the reference does it:
 * a device that cuts off has twice as much, and of one sign. */
static double product_error(const cts_check *k, double ref, double abs_sum, const scale *s)
{
    switch (k->tol) {
    case CTS_ABSSUM:
        return s->loss * abs_sum;
    case CTS_SHARE:
        return s->loss * fabs(ref);
    default:
        return s->loss > 0 ? 8 * s->shorter + 4 * s->loss * s->most : 0;
    }
}

/* By how much the number before its rounding to 16 bits may differ from the reference, or the result of f32. */
static double error_allowed(const cts_check *k, double ref, uint32_t dtype, double abs_sum, const scale *s)
{
    double eps32 = yk__epsilon(YK_F32), one = one_rounding(ref, dtype);
    switch (k->tol) {
    case CTS_EXACT:
        return 0;
    case CTS_ROUND: /* arithmetic in f32 rounds numbers that f32 cannot hold */
        return one + (dtype == YK_F32 || (double)(float)ref == ref ? 0 : eps32 * fabs(ref));
    case CTS_ULP: /* a function of 16 bits may be as much coarser as changes few roundings */
        return one + (16 * eps32 + (dtype == YK_F32 ? 0 : yk__epsilon(dtype) / 64)) * fabs(ref) + 0x1p-120;
    case CTS_ABSSUM:
        return one + 4 * sqrt(k->n) * eps32 * abs_sum;
    case CTS_LARGEST:
        return one + (16 + 4 * sqrt(k->n)) * eps32 * s->most + k->low * yk__epsilon(k->in_type) * s->most;
    case CTS_SHARE:
        return k->n * fabs(ref) + (dtype == YK_F32 ? 0 : one);
    case CTS_NOISE:
        return 2 * one + 8 * s->noise + 64 * eps32 * s->most + 4 * (dtype == YK_F32 ? 0 : yk__epsilon(dtype)) * s->most;
    }
    return 0;
}

/* A result of 16 bits is a number near the reference, rounded exactly: the rule of half an epsilon allows twice as much just below each
 * power of two. */
static bool element_matches(const cts_check *k, uint32_t dtype, double got, double ref, double may)
{
    if (k->tol == CTS_EXACT && !k->any_zero && got == 0 && ref == 0)
        return !signbit(got) == !signbit(ref);
    if (got == ref || (got != got && ref != ref) || value_rounded(ref, dtype) == got) /* infinities of a narrow type */
        return true;
    if (!isfinite(ref)) /* a share of infinity would allow any number */
        return false;
    if (dtype == YK_BF16 || dtype == YK_F16)
        return cts_rounds_to(got, dtype, ref - may, ref + may);
    return fabs(got - ref) <= may;
}

static scale scale_of(const cts_check *k, const yk_value *got_v, const cts_reference *ref)
{
    scale s = {.most = finite_max(ref->at, ref->v), .loss = cts_product_loss(k)};
    s.most = s.most > k->least ? s.most : k->least;
    if (k->tol == CTS_NOISE)
        s.noise = rounding_noise(ref->v, ref->at, ref->aux, got_v->dtype);
    if (ref->shorter)
        s.shorter = rounding_noise(ref->v, ref->at, ref->shorter, ref->v->dtype);
    return s;
}

bool cts_compare(cts *c, const cts_check *k, uint32_t which, const yk_value *got_v, const void *got, const cts_reference *ref)
{
    const scale s = scale_of(k, got_v, ref);
    char shape[120], bits[80] = "";
    if (s.loss > 0)
        snprintf(bits, sizeof bits, "; it says that products keep %u bits (product_bits)", k->product_bits);
    for (int64_t i = 0, n = yk__value_count(got_v); i < n; i++) {
        double x = yk__element(got, got_v->dtype, (uint64_t)i), y = yk__element(ref->at, ref->v->dtype, (uint64_t)i);
        double a = k->tol == CTS_ABSSUM ? fabs(yk__element(ref->aux, ref->v->dtype, (uint64_t)i)) : 0, may = 0;
        y = value_target(k, y, got_v->dtype);
        if (yk__dtype_is_float(got_v->dtype))
            may = error_allowed(k, y, got_v->dtype, a, &s) + product_error(k, y, a, &s);
        if (element_matches(k, got_v->dtype, x, y, may))
            continue;
        cts_fail(c, "output %u %s element %lld is %.9g, expected %.9g, allowed error %.3g%s%s%s%s", which,
                 yk__value_shape_text(got_v, shape, sizeof shape), (long long)i, x, y, may,
                 k->arenas ? "; the program has two arenas (YK_SLOT_ARENA)" : "", bits, k->advice ? "; " : "", k->advice ? k->advice : "");
        return false;
    }
    return true;
}

/* ---- Running ------------------------------------------------------------------------------------------------------------- */

static uint32_t no_claims(void *arg, const yk_graph *g, uint32_t node)
{
    (void)arg, (void)g, (void)node;
    return 0;
}

static bool side_plan(cts *c, const cts_check *k, const yk__simple_how *how, side *x, bool absolute)
{
    yk_error err = YK_ERROR_INIT;
    yk__simple_new(&k->g, how, k->n_want, k->want, &x->s, &err);
    if (!cts_error(c, &err))
        return false;
    x->planned = true;
    x->slot = yk__simple_slots(&x->s);
    if (!x->slot) {
        cts_fail(c, "no memory for the test");
        return false;
    }
    cts_fill(&x->s, x->slot, k->seed, absolute);
    return true;
}

static void side_drop(side *x)
{
    if (!x->planned)
        return;
    yk__simple_slots_free(&x->s, x->slot);
    yk__simple_free(&x->s);
}

static bool side_reference(cts *c, const cts_check *k, side *x, const yk__simple_how *how, bool absolute)
{
    yk_error err = YK_ERROR_INIT;
    if (!side_plan(c, k, how, x, absolute))
        return false;
    yk__simple_eval(&x->s, x->slot, &err);
    return cts_error(c, &err);
}

/* The references of a check: exact, for a tolerance that depends on the data (aux), and with shorter operands of products. */
typedef struct references {
    side exact, aux, shorter;
} references;

static bool references_make(cts *c, const cts_check *k, references *r)
{
    /* CTS_NOISE rounds at every node that the device runs, or at every node of the bodies */
    const bool bodies = k->inlined || k->body_noise;
    const yk__simple_how exact = {.widen = true}, rounded = {.claims = bodies ? no_claims : NULL};
    const yk__simple_how shorter = {.widen = true, .claims = no_claims, .product_bits = k->product_bits};
    bool ready = side_reference(c, k, &r->exact, &exact, false);
    if (ready && k->tol == CTS_ABSSUM)
        ready = side_reference(c, k, &r->aux, &exact, true);
    if (ready && k->tol == CTS_NOISE)
        ready = side_reference(c, k, &r->aux, &rounded, false);
    if (ready && k->tol != CTS_ABSSUM && k->tol != CTS_SHARE && cts_product_loss(k) > 0)
        ready = side_reference(c, k, &r->shorter, &shorter, false);
    return ready;
}

static bool value_written(const yk__simple *s, uint32_t v)
{
    for (uint32_t i = 0; i < s->abi.n_node; i++)
        for (uint32_t j = 0; j < s->abi.node[i].n_out; j++) {
            uint32_t o = s->abi.index[s->abi.node[i].out + j];
            if (o == v || s->abi.value[o].base == v)
                return true;
        }
    return false;
}

static bool is_input(const yk__simple *s, uint32_t slot)
{
    return slot != s->result && s->abi.slot[slot].kind != YK_SLOT_ARENA;
}

/* Checks slots other than arena and results: only values that nodes produce there may change. */
static bool inputs_untouched(cts *c, const cts_check *k, const side *got)
{
    void **before = yk__simple_slots(&got->s);
    bool ok = before != NULL;
    if (ok)
        cts_fill(&got->s, before, k->seed, false);
    for (uint32_t v = 0; ok && v < got->s.abi.n_value; v++) {
        const yk_value *x = &got->s.abi.value[v];
        if (x->base == v && x->slot != YK_NONE && is_input(&got->s, x->slot) && value_written(&got->s, v))
            memcpy((uint8_t *)before[x->slot] + x->offset, (uint8_t *)got->slot[x->slot] + x->offset, yk__value_bytes(x));
    }
    for (uint32_t i = 1; ok && i < got->s.abi.n_slot; i++) {
        uint64_t b = 0;
        ok = !is_input(&got->s, i) || !memcmp(before[i], got->slot[i], got->s.abi.slot[i].bytes);
        while (!ok && ((uint8_t *)before[i])[b] == ((uint8_t *)got->slot[i])[b])
            b++;
        if (!ok)
            cts_fail(c, "byte %llu of slot %u was changed; no node writes it", (unsigned long long)b, i);
    }
    yk__simple_slots_free(&got->s, before);
    return ok;
}

static bool gaps_untouched(cts *c, const side *got)
{
    uint32_t slot = 0;
    int64_t at = yk__simple_gaps(&got->s, got->slot, &slot);
    if (at >= 0)
        cts_fail(c, "byte %lld of slot %u (%s) was written; it lies between values", (long long)at, slot,
                 slot == got->s.result ? "results" : "arena");
    return at < 0;
}

/* Slots within larger buffers: `lead` bytes before each and as many behind it, which no run may change. */
typedef struct around {
    yk_program *program;
    yk_buffer **buffer;
    uint64_t *lead, *version, point;
} around;

static bool around_put(cts *c, around *a, const side *got, uint32_t i, uint8_t *block)
{
    const uint64_t lead = a->lead[i], bytes = got->s.abi.slot[i].bytes;
    memset(block, YK__GUARD_BYTE, bytes + 2 * lead);
    memcpy(block + lead, got->slot[i], bytes);
    return cts_ok(c, cts_buffer_new(c, bytes + 2 * lead, &a->buffer[i]), "buffer_new") &&
           cts_ok(c, yk_put(c->t, c->dev->queue, a->buffer[i], 0, block, bytes + 2 * lead, &a->point), "queue_copy") &&
           cts_wait(c, c->dev->queue, a->point);
}

static bool around_get(cts *c, around *a, const side *got, uint32_t i, uint8_t *block)
{
    const uint64_t lead = a->lead[i], bytes = got->s.abi.slot[i].bytes;
    if (!cts_ok(c, yk_get(c->t, c->dev->queue, a->buffer[i], 0, block, bytes + 2 * lead, &a->point), "queue_copy") ||
        !cts_wait(c, c->dev->queue, a->point))
        return false;
    for (uint64_t b = 0; b < 2 * lead; b++)
        if (block[b < lead ? b : bytes + b] != YK__GUARD_BYTE) {
            cts_fail(c, "byte %lld of slot %u, which has %llu, was written: it lies outside",
                     (long long)(b < lead ? b - lead : bytes + b - lead), i, (unsigned long long)bytes);
            return false;
        }
    memcpy(got->slot[i], block + lead, bytes);
    return true;
}

static bool around_each(cts *c, around *a, const side *got, bool (*act)(cts *, around *, const side *, uint32_t, uint8_t *))
{
    bool ok = true;
    for (uint32_t i = 0; i < got->s.abi.n_slot && ok; i++) {
        uint8_t *block = yk__malloc(got->s.abi.slot[i].bytes + 2 * a->lead[i]);
        ok = block && act(c, a, got, i, block);
        if (!block)
            cts_fail(c, "out of memory");
        yk__free(block);
    }
    return ok;
}

static void around_run(cts *c, const side *got, uint64_t lead)
{
    const yk_graph *g = &got->s.abi;
    around a = {.buffer = yk__calloc(g->n_slot, sizeof *a.buffer), .lead = yk__calloc(g->n_slot, sizeof *a.lead),
                .version = yk__calloc(g->n_slot, sizeof *a.version)};
    if (!a.buffer || !a.lead || !a.version)
        cts_fail(c, "out of memory");
    for (uint32_t i = 0; a.lead && i < g->n_slot; i++)
        a.lead[i] = lead;
    if (!c->failed_now && around_each(c, &a, got, around_put) &&
        cts_ok(c, c->t->program_new(c->dev->handle, g, &a.program), "program_new")) {
        const yk_submit s = {.size = sizeof s, .n_slot = g->n_slot, .program = a.program, .slot = a.buffer, .slot_offset = a.lead,
                             .slot_version = a.version};
        if (cts_ok(c, c->t->queue_run(c->dev->queue, &s, &a.point), "queue_run") && cts_wait(c, c->dev->queue, a.point))
            around_each(c, &a, got, around_get);
    }
    if (a.program)
        c->t->program_free(a.program);
    for (uint32_t i = 0; a.buffer && i < g->n_slot; i++)
        if (a.buffer[i])
            c->t->buffer_free(a.buffer[i]);
    yk__free(a.buffer);
    yk__free(a.lead);
    yk__free(a.version);
}

static bool on_device(cts *c, const cts_check *k, side *got)
{
    yk_error err = YK_ERROR_INIT;
    yk__simple_how how = {.claims = k->inlined ? no_claims : yk__simple_claims, .arg = c->dev, .gap = 192};
    how.share = k->share;
    how.arenas = k->arenas ? 2 : 1;
    how.align = c->dev->caps.align > 64 ? c->dev->caps.align : 64;
    if (!side_plan(c, k, &how, got, false))
        return false;
    if (k->around)
        around_run(c, got, how.align + k->lead);
    else
        yk__simple_run(&got->s, c->dev, got->slot, &err);
    if (!c->failed_now && cts_error(c, &err))
        return true;
    cts_queue_again(c);
    return false;
}

static const void *side_value(const side *x, uint32_t v)
{
    return x->planned ? (uint8_t *)x->slot[x->s.abi.value[v].slot] + x->s.abi.value[v].offset : NULL;
}

static void compare_all(cts *c, const cts_check *k, const side *got, const references *r)
{
    for (uint32_t i = 0; i < k->n_want; i++) {
        const uint32_t v = k->want[i];
        const cts_reference ref = {&r->exact.s.abi.value[v], side_value(&r->exact, v), side_value(&r->aux, v), side_value(&r->shorter, v)};
        if (!cts_compare(c, k, i, &got->s.abi.value[v], side_value(got, v), &ref))
            return;
    }
}

bool cts_check_run(cts *c, cts_check *k)
{
    side got = {.planned = false};
    references r = {.exact = {.planned = false}};
    const bool ready = references_make(c, k, &r);
    cts_held_to(c, k->tol);
    if (ready && on_device(c, k, &got)) {
        compare_all(c, k, &got, &r);
        if (gaps_untouched(c, &got))
            inputs_untouched(c, k, &got);
    }
    cts_pass(c);
    side_drop(&r.shorter);
    side_drop(&r.aux);
    side_drop(&r.exact);
    side_drop(&got);
    return ready;
}

bool cts_claimed(cts *c, cts_check *k, yk_error *err)
{
    yk_graph g;
    bool all = true;
    if (yk__graph_seal(&k->g, &g, err))
        return false;
    for (uint32_t i = 0; i < g.n_node; i++) {
        const yk__op_info *info = yk__op_info_of(g.node[i].op);
        if (info && (info->kind == YK_KIND_COMP || (g.node[i].op == YK_OP_DOT && k->claims & YK_CLAIM_STRIDED_OUT)))
            all = all && (yk__simple_claims(c->dev, &g, i) & (1 | k->claims)) == (1 | k->claims);
    }
    return all;
}

bool cts_accumulate(cts_check *k)
{
    for (size_t i = 0; i < k->g.n_node; i++) {
        yk_node *n = &k->g.node[i];
        const uint32_t y = k->g.index[n->out];
        const yk_value v = k->g.value[y];
        yk__vid there;
        if (yk_op_kind(n->op) != YK_OP_KIND_COMP)
            continue;
        if (n->n_out != 1 || k->n_want != 1 || k->want[0] != y || v.base != y || v.dtype != YK_F32 || v.slot != YK_NONE)
            return false;
        there = cts_state(&k->g, YK_F32, CTS_UNIT, 77, v.dims, v.dim);
        for (size_t at = 0; at < k->g.n_index && there != YK_NONE; at++)
            if (k->g.index[at] == y) /* of the body, too */
                k->g.index[at] = there;
        k->want[0] = there;
        k->g.node[i].flags |= YK_NODE_ACCUMULATE;
        return there != YK_NONE;
    }
    return false;
}
