/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random inputs of yoke-cts's graphs. A leaf's numbers stand in its slot's key (range and seed), so that every plan of a graph gets the
 * same. The cases and cts_check.c call it, in a group's child process.
 */
#include <math.h>
#include <string.h>

#include "tools/cts/cts.h"

#define OFFSET 4096 /* offset of a leaf in its slot, so that the slot's begin is not the value's */
#define BEHIND 512  /* bytes after it that must not change */

uint64_t cts_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint32_t cts_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)((cts_random(state) >> 32) * n >> 32);
}

static yk__vid leaf_in(yk__graph *g, yk_slot_kind kind, yk_dtype dtype, cts_dist dist, uint32_t n, uint32_t dims,
                       const int64_t *dim)
{
    uint64_t bytes = yk_dtype_bytes(dtype);
    uint32_t slot;
    for (uint32_t d = 0; d < dims; d++)
        bytes *= (uint64_t)dim[d];
    slot = yk__slot_new(g, kind, OFFSET + bytes + BEHIND, (uint32_t)dist | n << 8);
    return slot == YK_NONE ? YK_NONE : yk__leaf(g, slot, OFFSET, dtype, dims, dim);
}

yk__vid cts_leaf(yk__graph *g, yk_dtype dtype, cts_dist dist, uint32_t n, uint32_t dims, const int64_t *dim)
{
    return leaf_in(g, YK_SLOT_INPUT, dtype, dist, n, dims, dim);
}

yk__vid cts_state(yk__graph *g, yk_dtype dtype, cts_dist dist, uint32_t n, uint32_t dims, const int64_t *dim)
{
    return leaf_in(g, YK_SLOT_STATE, dtype, dist, n, dims, dim);
}

static double hyper_value(uint64_t i)
{
    static const double h[YK_HYPER_COUNT] = {
        [YK_HYPER_LR] = 0.01,       [YK_HYPER_B1] = 0.9,  [YK_HYPER_B2] = 0.99,      [YK_HYPER_EPS] = 1e-3,
        [YK_HYPER_DECAY] = 0.1,     [YK_HYPER_GRAD_SCALE] = 0.5, [YK_HYPER_CLIP] = 0.4,
        [YK_HYPER_C1] = 0.271,      [YK_HYPER_SQRT_C2] = 0.172, [YK_HYPER_FIRST] = 0,
    };
    return i == YK_HYPER_COUNT + YK_HYPER_LR ? 0.03 : h[i % YK_HYPER_COUNT]; /* values of two groups of parameters */
}

static double special_or(uint32_t pick, double otherwise)
{
    return pick == 0 ? NAN : pick == 1 ? INFINITY : pick == 2 ? -INFINITY : pick == 3 ? -0.0 : otherwise;
}

/* A number that rounding to n bits of fraction sends up, down, to the even one, or to the next power of two. */
static double edge_number(uint32_t n, uint64_t *state)
{
    static const double rest[] = {0.5, 0.5, 0.5 + 0x1p-10, 0.5 - 0x1p-10, 0.75, 0.25, 1 - 0x1p-10, 0};
    const uint32_t all = (1u << n) - 1, pick = cts_below(state, 4);
    const uint32_t bits = pick == 0 ? cts_below(state, all + 1) : pick == 1 ? 0 : pick == 2 ? all - 1 : all;
    const double x = ldexp(1 + ldexp(bits + rest[cts_below(state, 8)], -(int)n), (int)cts_below(state, 28) - 14);
    return cts_below(state, 2) ? x : -x;
}

static double pattern_number(uint32_t n, uint64_t i)
{
    uint32_t bits = (uint32_t)i & 0xffff;
    float x;
    if (n)
        bits = (bits & 0x807f) | (n - (bits >> 7 & 0xff) % 41) << 7;
    bits <<= 16;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

static double dist_number(cts_dist dist, uint32_t n, uint64_t i, uint64_t *state)
{
    double u = (double)(cts_random(state) >> 11) * 0x1p-53; /* 0..1 */
    uint32_t pick = cts_below(state, 12);
    switch (dist) {
    case CTS_UNIT:
        return 2 * u - 1;
    case CTS_WIDE:
        return 8 * u - 4;
    case CTS_POSITIVE:
        return 0.1 + 3.9 * u;
    case CTS_ZERO:
        return pick < 4 ? 0 : pick == 4 ? INFINITY : 0.1 + 3.9 * u;
    case CTS_NONZERO:
        return (pick & 1 ? 1 : -1) * (0.25 + 3.75 * u);
    case CTS_TIES:
        return floor(u * 9) / 2 - 2;
    case CTS_SPECIAL:
        return special_or(pick, floor(u * 9) / 2 - 2);
    case CTS_NAN:
        return pick < 9 ? NAN : u;
    case CTS_LOWEST:
        return -INFINITY;
    case CTS_TINY:
        return (pick & 1 ? 1 : -1) * floor(1 + u * 1022);
    case CTS_BYTES:
        return floor(u * 256);
    case CTS_WHOLE:
        return floor(u * 2001) - 1000;
    case CTS_INTEGER:
        return n & 1 ? 0x1p24 + floor(u * 4) : pick == 0 ? -0x1p31 : pick == 1 ? 0x1p31 - 1 : floor(u * 0x1p32) - 0x1p31;
    case CTS_SAME:
        return n / 10.0;
    case CTS_INDEX:
        return pick == 0 ? -1 : pick == 1 ? n : floor(u * n);
    case CTS_LABEL:
        return pick == 0 ? -100 : floor(u * n);
    case CTS_KEY:
        return i == 3 ? 0 : floor((u - 0.5) * 0x1p31);
    case CTS_ROWS:
        return pick < 4 ? floor(u * 0x1p30) : (double)i;
    case CTS_MASK:
        return i == 0 || u < 0.7;
    case CTS_MOVED:
        return special_or(pick, 2 * u - 1);
    case CTS_SHIFTED:
        return 999 + 2 * u;
    case CTS_HUGE:
        return ldexp(pick & 1 ? 1 + u : -1 - u, (int)n);
    case CTS_LARGE:
        return ldexp(1 + u, (int)n);
    case CTS_SMALL:
        return ldexp(2 * u - 1, -(int)n);
    case CTS_EDGE:
        return edge_number(n, state);
    case CTS_PATTERN:
        return pattern_number(n, i);
    case CTS_HYPER:
        return hyper_value(i);
    }
    return 0;
}

/* Bit patterns that a number cannot carry through a double: NaNs. */
static void store_nan(void *data, uint64_t i)
{
    static const uint32_t bits[] = {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u, 0x7f80ffffu};
    memcpy((uint8_t *)data + 4 * i, &bits[i % 6], 4);
}

static double tiny_unit(uint32_t dtype)
{
    return dtype == YK_F16 ? 0x1p-24 : dtype == YK_BF16 ? 0x1p-133 : 0x1p-136; /* 1022 of them are at most the least normal number */
}

static bool is_leaf(const yk__simple *s, uint32_t v)
{
    const yk_value *x = &s->abi.value[v];
    uint32_t kind;
    if (x->base != v || x->slot == YK_NONE)
        return false;
    kind = s->abi.slot[x->slot].kind;
    return kind != YK_SLOT_ARENA && kind != YK_SLOT_RESULT && x->offset >= OFFSET;
}

/* One number in all elements: long sums have millions. The copied part doubles. */
static void leaf_repeat(uint8_t *data, const yk_value *x, double a)
{
    const uint64_t bytes = yk__value_bytes(x);
    uint64_t done = yk_dtype_bytes(x->dtype);
    if (!bytes)
        return;
    yk__element_set(data, x->dtype, 0, a);
    for (; done < bytes; done *= 2)
        memcpy(data + done, data, done < bytes - done ? done : bytes - done);
}

static void leaf_fill(const yk_value *x, uint32_t key, uint8_t *data, uint64_t state, bool absolute)
{
    const cts_dist dist = (cts_dist)(key & 255);
    const uint64_t before = (x->offset - OFFSET) / yk_dtype_bytes(x->dtype); /* a slot may have several */
    const double unit = dist == CTS_TINY ? tiny_unit(x->dtype) : 1;
    if (dist == CTS_SAME) {
        leaf_repeat(data, x, dist_number(dist, key >> 8, 0, &state));
        return;
    }
    for (int64_t i = 0, n = yk__value_count(x); i < n; i++) {
        double a = dist_number(dist, key >> 8, before + (uint64_t)i, &state);
        a = (absolute && yk__dtype_is_float(x->dtype) ? fabs(a) : a) * unit;
        if (a != a && x->dtype == YK_F32 && dist == CTS_NAN)
            store_nan(data, (uint64_t)i);
        else
            yk__element_set(data, x->dtype, (uint64_t)i, a);
    }
}

void cts_fill(const yk__simple *s, void **slot, uint64_t seed, bool absolute)
{
    for (uint32_t v = 0; v < s->abi.n_value; v++)
        if (is_leaf(s, v))
            memset(slot[s->abi.value[v].slot], YK__GUARD_BYTE, s->abi.slot[s->abi.value[v].slot].bytes);
    for (uint32_t v = 0; v < s->abi.n_value; v++) {
        const yk_value *x = &s->abi.value[v];
        if (is_leaf(s, v))
            leaf_fill(x, s->abi.slot[x->slot].key, (uint8_t *)slot[x->slot] + x->offset, seed * 1000003 + x->slot, absolute);
    }
}

uint32_t cts_float_types(const cts *c, yk_dtype *types)
{
    static const yk_dtype all[] = {YK_F32, YK_BF16, YK_F16};
    uint32_t n = 0;
    for (int i = 0; i < 3; i++)
        if (c->dev->caps.store & c->dev->caps.compute & 1u << all[i])
            types[n++] = all[i];
    return n;
}
