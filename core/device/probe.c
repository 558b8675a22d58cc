/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start-up probe: one small program with the arithmetic of a network, run on the device and by the reference. device_open.c runs it
 * once for each opened device, in the thread that opens it, unless YOKE_PROBE=off.
 *
 * It takes milliseconds, and finds a driver or processor that computes wrongly before training does. The error names the first wrong value.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/device/device_internal.h"
#include "core/device/simple.h"

#define ROWS 16
#define DEPTH 40
#define COLS 24
#define TOLERANCE 2e-5 /* relative to the largest element: f32 sums of 40, exp and erf to a few ulp */
#define LOSSES 4       /* of a product's absolute terms, relative to the largest element of a value made of that product */

typedef struct probe {
    yk__graph g;
    yk__vid want[8];
    const char *name[8];
    bool multiplied[8]; /* made of a product */
    uint32_t n_want;
} probe;

static yk__vid probe_leaf(yk__graph *g, yk_dtype dtype, uint32_t dims, int64_t a, int64_t b)
{
    int64_t dim[2] = {a, b};
    uint64_t bytes = (uint64_t)(a * (dims > 1 ? b : 1)) * yk_dtype_bytes(dtype);
    uint32_t slot = yk__slot_new(g, YK_SLOT_INPUT, bytes, 0);
    return slot == YK_NONE ? YK_NONE : yk__leaf(g, slot, 0, dtype, dims, dim);
}

static void probe_want(probe *p, const char *name, yk__vid v, bool multiplied)
{
    p->want[p->n_want] = v;
    p->multiplied[p->n_want] = multiplied;
    p->name[p->n_want++] = name;
}

static yk__vid probe_apply(yk__graph *g, yk_op op, uint32_t n, const yk__vid *in, int64_t attr)
{
    yk__vid out[4] = {YK_NONE, YK_NONE, YK_NONE, YK_NONE};
    const yk__op_info *info = yk__op_info_of(op);
    yk__apply(g, op, n, in, info->n_attr, &attr, YK_DTYPE_COUNT, YK_NONE, NULL, out, 4);
    return out[0];
}

static void probe_build(probe *p)
{
    yk__graph *g = &p->g;
    int64_t dim[2] = {ROWS, COLS};
    yk__vid x = probe_leaf(g, YK_F32, 2, ROWS, DEPTH), w = probe_leaf(g, YK_F32, 2, DEPTH, COLS), b = probe_leaf(g, YK_F32, 1, COLS, 0);
    yk__vid gamma = probe_leaf(g, YK_F32, 1, COLS, 0), key = probe_leaf(g, YK_I32, 1, 4, 0), rows = probe_leaf(g, YK_I32, 1, ROWS, 0);
    yk__vid h = yk__bin(g, YK_OP_ADD, yk__dot(g, x, w, false, false), b);
    yk__vid a = probe_apply(g, YK_OP_GELU, 1, &h, 0);
    yk__vid norm_in[3] = {a, gamma, b};
    yk__vid norm = probe_apply(g, YK_OP_LAYER_NORM, 3, norm_in, yk_attr_of_f64(1e-5));
    yk__vid soft = probe_apply(g, YK_OP_SOFTMAX, 1, &norm, 0);
    yk__vid u = yk__rng(g, key, rows, 7, 2, dim);
    probe_want(p, "dot, add and gelu", a, true);
    probe_want(p, "layer_norm", norm, true);
    probe_want(p, "softmax", soft, true);
    probe_want(p, "rng", u, false);
    probe_want(p, "mul and sum", yk__sum(g, yk__bin(g, YK_OP_MUL, soft, u), 2), true);
}

/* Fills slots with different numbers from a linear congruential generator (Numerical Recipes). */
static void slots_fill(const yk__simple *s, void **slot)
{
    uint32_t r = 1;
    for (uint32_t v = 0; v < s->abi.n_value; v++) {
        const yk_value *value = &s->abi.value[v];
        if (value->base != v || value->slot == YK_NONE || s->abi.slot[value->slot].kind != YK_SLOT_INPUT)
            continue;
        for (int64_t i = 0; i < yk__value_count(value); i++) {
            r = r * 1664525u + 1013904223u;
            yk__element_set(slot[value->slot], value->dtype, (uint64_t)i, value->dtype == YK_I32 ? r >> 20 : r * 0x1p-31 - 1);
        }
    }
}

static yk_status results_compare(const probe *p, const yk__device *dev, const yk__simple *got, void **got_slot, const yk__simple *ref,
                         void **ref_slot, yk_error *err)
{
    for (uint32_t k = 0; k < p->n_want; k++) {
        const yk_value *a = &got->abi.value[p->want[k]], *b = &ref->abi.value[p->want[k]];
        const uint8_t *x = (const uint8_t *)got_slot[a->slot] + a->offset, *y = (const uint8_t *)ref_slot[b->slot] + b->offset;
        const double share = TOLERANCE + LOSSES * (p->multiplied[k] ? yk__product_loss(&dev->caps) : 0);
        double most = 0;
        for (int64_t i = 0; i < yk__value_count(b); i++)
            most = fmax(most, fabs(yk__element(y, b->dtype, (uint64_t)i)));
        for (int64_t i = 0; i < yk__value_count(b); i++) {
            double u = yk__element(x, a->dtype, (uint64_t)i), v = yk__element(y, b->dtype, (uint64_t)i);
            if (!(fabs(u - v) <= share * most))
                return yk__fail(err, YK_E_DEVICE_LOST, "%s:%u (%s) computes wrongly: in the start-up probe element %lld of %s "
                                "is %.9g, expected %.9g; YOKE_PROBE=off uses it all the same", dev->plugin->name,
                                dev->place.device, dev->caps.name, (long long)i, p->name[k], u, v);
        }
    }
    return YK_OK;
}

/* Slots that the host fills have the same numbers in both plans. */
static yk_status run_both(const probe *p, yk__device *dev, const yk__simple *got, const yk__simple *ref, yk_error *err)
{
    void **got_slot = yk__simple_slots(got), **ref_slot = yk__simple_slots(ref);
    if (!got_slot || !ref_slot) {
        yk__fail_mem(err, got->abi.slot[0].bytes, "the start-up probe");
    } else {
        slots_fill(got, got_slot);
        slots_fill(ref, ref_slot);
        if (!yk__simple_eval(ref, ref_slot, err) && !yk__simple_run(got, dev, got_slot, err))
            results_compare(p, dev, got, got_slot, ref, ref_slot, err);
    }
    yk__simple_slots_free(got, got_slot);
    yk__simple_slots_free(ref, ref_slot);
    return err->status;
}

yk_status yk__probe(yk__device *dev, yk_error *err)
{
    yk__simple_how on_device = {.claims = yk__simple_claims, .arg = dev, .align = dev->caps.align};
    yk__simple_how reference = {.widen = true};
    yk__simple got, ref;
    probe p = {.n_want = 0};
    yk__graph_init(&p.g);
    probe_build(&p);
    if (yk__simple_new(&p.g, &on_device, p.n_want, p.want, &got, err) == YK_OK) {
        if (yk__simple_new(&p.g, &reference, p.n_want, p.want, &ref, err) == YK_OK) {
            run_both(&p, dev, &got, &ref, err);
            yk__simple_free(&ref);
        }
        yk__simple_free(&got);
    }
    yk__graph_free(&p.g);
    if (err->status && err->status != YK_E_DEVICE_LOST)
        yk__fail_in(err, "start-up probe");
    return err->status;
}
