/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions, pools, attention and updates of the CPU plugin on every instruction set of this machine, against plain double
 * arithmetic. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/isa/vec_kernels.h"
#include "tests/support/cpu_near.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"

#define F64(x) yk_attr_of_f64(x)

static double *values_of(const kit *k, uint32_t v)
{
    double *x = malloc((size_t)kit_stored(k, v) * sizeof *x);
    for (int64_t i = 0; i < kit_stored(k, v); i++)
        x[i] = kit_get(k, v, i);
    return x;
}

/* ---- convolution ---- */

typedef struct conv_case {
    int64_t n, c, h, w, o, kh, kw, sh, sw, ph, pw, dh, dw, groups;
} conv_case;

typedef void (*conv_visit)(void *arg, int64_t x, int64_t w, int64_t y);

/* the taps of y[at], a result of image i and filter o in row oy and column ox */
TEST_LOOPS static inline void result_walk(const conv_case *s, conv_visit f, void *arg, int64_t at, const int64_t of[4])
{
    const int64_t cg = s->c / s->groups, og = s->o / s->groups, first = of[0] * s->c + of[1] / og * cg;
    const int64_t top = of[2] * s->sh - s->ph, left = of[3] * s->sw - s->pw;
    for (int64_t c = 0; c < cg; c++)
        for (int64_t ky = 0, iy = top; ky < s->kh; ky++, iy += s->dh)
            for (int64_t kx = 0, ix = left; kx < s->kw && iy >= 0 && iy < s->h; kx++, ix += s->dw)
                if (ix >= 0 && ix < s->w)
                    f(arg, ((first + c) * s->h + iy) * s->w + ix, ((of[1] * cg + c) * s->kh + ky) * s->kw + kx, at);
}

/* every multiplication of the convolution, by index into x, w and y */
TEST_LOOPS static inline void conv_walk(const conv_case *s, conv_visit f, void *arg)
{
    const int64_t oh = (s->h + 2 * s->ph - s->dh * (s->kh - 1) - 1) / s->sh + 1;
    const int64_t ow = (s->w + 2 * s->pw - s->dw * (s->kw - 1) - 1) / s->sw + 1;
    for (int64_t i = 0; i < s->n * s->o * oh * ow; i++)
        result_walk(s, f, arg, i, (int64_t[]){i / (s->o * oh * ow), i / (oh * ow) % s->o, i / ow % oh, i % ow});
}

typedef struct conv_data {
    double *x, *w, *gy, *y, *gx, *gw;
} conv_data;

TEST_LOOPS static inline void conv_sum(void *arg, int64_t x, int64_t w, int64_t y)
{
    conv_data *d = arg;
    d->y[y] += d->x[x] * d->w[w];
    d->gx[x] += d->gy[y] * d->w[w];
    d->gw[w] += d->gy[y] * d->x[x];
}

/* y, and both gradients */
TEST_LOOPS static void conv_solve(const conv_case *s, conv_data *d)
{
    conv_walk(s, conv_sum, d);
}

typedef struct conv_plain {
    const float *x, *w;
    float *y;
} conv_plain;

TEST_LOOPS static inline void conv_add(void *arg, int64_t x, int64_t w, int64_t y)
{
    conv_plain *p = arg;
    p->y[y] += p->x[x] * p->w[w];
}

static void one_conv(const cpu_isa *isa, const conv_case *s, int dtype)
{
    kit *k = kit_new();
    int64_t oh = (s->h + 2 * s->ph - s->dh * (s->kh - 1) - 1) / s->sh + 1;
    int64_t ow = (s->w + 2 * s->pw - s->dw * (s->kw - 1) - 1) / s->sw + 1, cg = s->c / s->groups;
    const int64_t attr[] = {s->sh, s->sw, s->ph, s->pw, s->dh, s->dw, s->groups};
    uint32_t x = KIT(k, dtype, s->n, s->c, s->h, s->w), w = KIT(k, dtype, s->o, cg, s->kh, s->kw);
    uint32_t gy = KIT(k, dtype, s->n, s->o, oh, ow), y = KIT(k, dtype, s->n, s->o, oh, ow);
    uint32_t gx = KIT(k, dtype, s->n, s->c, s->h, s->w), gw = KIT(k, YK_F32, s->o, cg, s->kh, s->kw);
    kit_random(k, x, -1, 1);
    kit_random(k, w, -0.3, 0.3);
    kit_random(k, gy, -0.3, 0.3);
    conv_data d = {values_of(k, x), values_of(k, w), values_of(k, gy), calloc((size_t)kit_stored(k, y), 8),
                   calloc((size_t)kit_stored(k, x), 8), calloc((size_t)kit_stored(k, w), 8)};
    conv_solve(s, &d);
    kit_node(k, YK_OP_CONV2D, KIT_IDS(x, w), KIT_IDS(y), attr, 7);
    kit_node(k, YK_OP_CONV2D_DX, KIT_IDS(gy, w), KIT_IDS(gx), attr, 7);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(gy, x), KIT_IDS(gw), attr, 7);
    run_all(k, isa, KIT_IDS(y, gx, gw));
    double tol = dtype != YK_F32 ? 1e-2 : cg < 100 ? 2e-5 : 4e-5; /* with the root of the number of terms */
    kit_near(isa, "y", k, y, d.y, tol);
    kit_near(isa, "gx", k, gx, d.gx, tol);
    kit_near(isa, "gw", k, gw, d.gw, dtype == YK_F32 ? 5e-5 : 1e-4);
    kit_node(k, YK_OP_CONV2D_DW, KIT_IDS(gy, x), KIT_IDS(gw), attr, 7)->flags = YK_NODE_ACCUMULATE;
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    for (int64_t i = 0; i < kit_stored(k, gw); i++)
        d.gw[i] *= 2;
    kit_near(isa, "accumulated gw", k, gw, d.gw, dtype == YK_F32 ? 5e-5 : 1e-4);
    free(d.x), free(d.w), free(d.gy), free(d.y), free(d.gx), free(d.gw);
    kit_free(k);
}

START_TEST(convolutions_are_near_the_sum)
{
    static const conv_case cases[] = {
        {3, 5, 9, 8, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {2, 16, 16, 16, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {2, 6, 9, 11, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1},  {2, 6, 8, 8, 4, 1, 1, 2, 2, 0, 0, 1, 1, 1},
        {2, 4, 12, 10, 6, 3, 2, 1, 2, 2, 1, 2, 1, 2}, {1, 8, 7, 7, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8},
        {2, 3, 13, 13, 5, 7, 7, 2, 2, 3, 3, 1, 1, 1}, {9, 4, 4, 4, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {1, 2, 5, 5, 3, 2, 2, 3, 3, 0, 0, 1, 1, 1},   {4, 3, 32, 32, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {5, 5, 23, 22, 9, 3, 3, 2, 2, 1, 1, 1, 1, 1}, {4, 6, 20, 38, 8, 3, 2, 1, 2, 2, 1, 2, 1, 2},
        {4, 40, 12, 30, 30, 5, 5, 1, 1, 2, 2, 1, 1, 1}, {5, 20, 13, 14, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {33, 40, 4, 4, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}, {9, 8, 16, 12, 35, 3, 3, 1, 1, 0, 2, 1, 1, 1},
        {64, 9, 7, 8, 50, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {7, 9, 8, 7, 34, 3, 3, 2, 2, 1, 1, 1, 1, 1},
        {5, 24, 10, 9, 17, 1, 1, 2, 2, 0, 0, 1, 1, 1},  {4, 35, 11, 13, 8, 5, 3, 3, 2, 2, 0, 1, 2, 1},
        {4, 3, 30, 30, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {6, 6, 9, 28, 10, 3, 5, 1, 2, 1, 0, 1, 1, 2},
        {4, 14, 32, 31, 20, 3, 3, 2, 2, 1, 1, 1, 1, 1}, {4, 15, 31, 32, 17, 3, 3, 2, 2, 1, 1, 1, 1, 1},
        {4, 5, 8, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1},     {4, 16, 12, 35, 9, 3, 3, 2, 2, 0, 1, 1, 2, 1},
    };
    for (int q = 0; kit_isa(q); q++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            one_conv(kit_isa(q), &cases[i], YK_F32);
            one_conv(kit_isa(q), &cases[i], YK_BF16);
        }
}
END_TEST

/*
 * Winograd's F(4x4, 3x3) against a sum in f32, tap by tap: both round, but the products of transformed tiles are summed
 * with weights up to |A^T| |B^T| |G| in size. With points 0, +-5/8, +-3/2 the error measured in a model of the algorithm is
 * 1.6 to 2.3 times that of the plain sum (rms, 16 to 512 channels); 1, 2 as points would give 4.
 */
static void winograd_is_precise(const cpu_isa *isa, int64_t channels)
{
    const conv_case s = {4, channels, 8, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    kit *k = kit_new();
    uint32_t x = KIT(k, YK_F32, 4, channels, 8, 8), w = KIT(k, YK_F32, 16, channels, 3, 3), y = KIT(k, YK_F32, 4, 16, 8, 8);
    kit_random(k, x, 0, 1);
    kit_random(k, w, -0.1, 0.1);
    conv_data d = {values_of(k, x), values_of(k, w), values_of(k, y), calloc(4096, 8), calloc((size_t)kit_stored(k, x), 8),
                   calloc((size_t)kit_stored(k, w), 8)};
    conv_solve(&s, &d);
    kit_node(k, YK_OP_CONV2D, KIT_IDS(x, w), KIT_IDS(y), (int64_t[]){1, 1, 1, 1, 1, 1, 1}, 7);
    ck_assert_int_eq(kit_run(k, isa, 1), YK_OK);
    float *plain = calloc(4096, 4);
    double error = 0, allowed = 0;
    conv_plain p = {(const float *)(const void *)k->data[x], (const float *)(const void *)k->data[w], plain};
    conv_walk(&s, conv_add, &p);
    for (int64_t i = 0; i < 4096; i++) {
        error += pow(kit_get(k, y, i) - d.y[i], 2);
        allowed += pow(plain[i] - d.y[i], 2);
    }
    ck_assert_msg(error <= 9 * allowed, "%s, %lld channels: rms error %.3g, of a plain sum %.3g", isa->name, (long long)channels,
                  sqrt(error / 4096), sqrt(allowed / 4096));
    free(d.x), free(d.w), free(d.gy), free(d.y), free(d.gx), free(d.gw), free(plain);
    kit_free(k);
}

START_TEST(convolution_large)
{
    static const conv_case s = {64, 130, 4, 4, 131, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    int best = 0;
    while (kit_isa(best + 1))
        best++;
    one_conv(kit_isa(best), &s, YK_F32);
}
END_TEST

START_TEST(convolution_error)
{
    for (int q = 0; kit_isa(q); q++)
        for (int64_t channels = 16; channels <= 256; channels *= 4)
            winograd_is_precise(kit_isa(q), channels);
}
END_TEST

/* result i of a 3x3 convolution of 4x4 images, or of its dx */
static double result_of(const kit *k, uint32_t x, uint32_t w, int64_t source, int64_t results, bool dx, int64_t i)
{
    double sum = 0;
    int64_t r = i / 16 % results;
    for (int64_t t = 0; t < source * 9; t++) {
        int64_t c = t / 9, ky = t / 3 % 3 - 1, kx = t % 3 - 1, y = i / 4 % 4 + (dx ? -ky : ky), at = i % 4 + (dx ? -kx : kx);
        if (y >= 0 && y < 4 && at >= 0 && at < 4)
            sum += kit_get(k, x, ((i / (16 * results) * source + c) * 4 + y) * 4 + at) *
                   kit_get(k, w, dx ? (c * results + r) * 9 + t % 9 : (r * source + c) * 9 + t % 9);
    }
    return sum;
}

/* Channels outnumber tiles: panels of results, two of them for three workers in dx with 16 lanes; some results of each. */
static void few_tiles(const cpu_isa *isa, int dtype)
{
    const int64_t c = 64, o = 132, attr[] = {1, 1, 1, 1, 1, 1, 1};
    kit *k = kit_new();
    uint32_t x = KIT(k, dtype, 64, c, 4, 4), w = KIT(k, dtype, o, c, 3, 3), gy = KIT(k, dtype, 64, o, 4, 4);
    uint32_t y = KIT(k, dtype, 64, o, 4, 4), gx = KIT(k, dtype, 64, c, 4, 4);
    kit_random(k, x, -1, 1);
    kit_random(k, w, -0.3, 0.3);
    kit_random(k, gy, -0.3, 0.3);
    kit_node(k, YK_OP_CONV2D, KIT_IDS(x, w), KIT_IDS(y), attr, 7);
    kit_node(k, YK_OP_CONV2D_DX, KIT_IDS(gy, w), KIT_IDS(gx), attr, 7);
    run_all(k, isa, KIT_IDS(y, gx));
    for (int dx = 0; dx < 2; dx++)
        for (int64_t i = 0; i < 64 * 16 * (dx ? c : o); i += 97) {
            double want = dx ? result_of(k, gy, w, o, c, true, i) : result_of(k, x, w, c, o, false, i),
                   got = kit_get(k, dx ? gx : y, i);
            ck_assert_msg(fabs(got - want) <= (dtype == YK_F32 ? 4e-5 : 1e-2) * (1 + fabs(want)),
                          "%s, %s %lld: got %.9g, expected %.9g", isa->name, dx ? "gx" : "y", (long long)i, got, want);
        }
    kit_free(k);
}

START_TEST(convolution_of_few_tiles)
{
    for (int q = 0; kit_isa(q); q++) {
        few_tiles(kit_isa(q), YK_F32);
        few_tiles(kit_isa(q), YK_BF16);
    }
}
END_TEST

/* ---- pools ---- */

static void one_pool(const cpu_isa *isa, bool max, bool pad_counts)
{
    kit *k = kit_new();
    int64_t n = 2, c = 3, h = 9, w = 10, oh = (9 + 2 - 3) / 2 + 1, ow = (10 + 2 - 3) / 1 + 1;
    const int64_t attr[] = {3, 3, 2, 1, 1, 1, max ? 1 : pad_counts, 1};
    uint32_t x = KIT(k, YK_F32, n, c, h, w), gy = KIT(k, YK_F32, n, c, oh, ow), y = KIT(k, YK_F32, n, c, oh, ow);
    uint32_t gx = KIT(k, YK_F32, n, c, h, w);
    kit_random(k, x, -3, 3);
    kit_random(k, gy, -1, 1);
    if (max) /* equal maxima: the first wins */
        for (int64_t i = 0; i < kit_stored(k, x); i++)
            ((float *)(void *)k->data[x])[i] = (float)(int)((float *)(void *)k->data[x])[i];
    kit_node(k, max ? YK_OP_MAX_POOL : YK_OP_AVG_POOL, KIT_IDS(x), KIT_IDS(y), attr, max ? 8 : 7);
    kit_node(k, max ? YK_OP_MAX_POOL_BWD : YK_OP_AVG_POOL_BWD, max ? KIT_IDS(x, gy) : KIT_IDS(gy), KIT_IDS(gx), attr,
             max ? 8 : 7);
    run_all(k, isa, KIT_IDS(y, gx));
    double *wy = calloc((size_t)kit_stored(k, y), 8), *wx = calloc((size_t)kit_stored(k, x), 8);
    for (int64_t o = 0; o < kit_stored(k, y); o++) {
        int64_t p = o / (oh * ow) * h * w, top = o / ow % oh * 2 - 1, left = o % ow - 1, best = -1, count = 0;
        double sum = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t t = 0; t < 9; t++) {
                int64_t iy = top + t / 3, ix = left + t % 3, at = p + iy * w + ix;
                if (iy < 0 || iy >= h || ix < 0 || ix >= w)
                    continue;
                if (pass && !max)
                    wx[at] += kit_get(k, gy, o) / (double)(pad_counts ? 9 : count);
                if (pass)
                    continue;
                count++;
                sum += kit_get(k, x, at);
                best = best < 0 || kit_get(k, x, at) > kit_get(k, x, best) ? at : best;
            }
        }
        wy[o] = max ? kit_get(k, x, best) : sum / (double)(pad_counts ? 9 : count);
        if (max)
            wx[best] += kit_get(k, gy, o);
    }
    kit_near(isa, "y", k, y, wy, 1e-6);
    kit_near(isa, "gx", k, gx, wx, 1e-6);
    free(wy), free(wx);
    kit_free(k);
}

START_TEST(pools_are_near_the_definition)
{
    for (int q = 0; kit_isa(q); q++) {
        one_pool(kit_isa(q), true, false);
        one_pool(kit_isa(q), false, false);
        one_pool(kit_isa(q), false, true);
    }
}
END_TEST

/* ---- attention ---- */

typedef struct att_case {
    int64_t b, h, hk, tq, tk, d;
    int causal, flags, dtype;
} att_case;

static double philox_uniform(const uint32_t key[3], uint32_t stream, uint64_t c)
{
    float u;
    kit_isa(0)->random->uniform(&u, key, stream, c, 1);
    return (double)u;
}

typedef struct att_ref {
    double *q, *k, *v, *go, *o, *lse, *gq, *gk, *gv, *gb;
} att_ref;

/* one query of one head: row of probabilities and everything that follows from it */
static void att_query(const att_case *s, const kit *k, const uint32_t *id, att_ref *r, int64_t b, int64_t h, int64_t i)
{
    static double p[512], drop[512], dp[512];
    int64_t row = (b * s->h + h) * s->tq + i, kv = b * s->hk + h / (s->h / s->hk);
    const double *q = r->q + row * s->d, scale = 0.3;
    double sum = 0, delta = 0;
    const uint32_t key[3] = {7, 8, 9};
    for (int64_t j = 0; j < s->tk; j++) {
        double x = 0;
        bool seen = (!s->causal || j <= i + s->tk - s->tq) &&
                    (!(s->flags & YK_ATT_KEEP) || kit_get(k, id[0], b * s->tk + j) != 0);
        for (int64_t d = 0; d < s->d; d++)
            x += q[d] * r->k[(kv * s->tk + j) * s->d + d];
        x = x * scale + (s->flags & YK_ATT_BIAS ? kit_at(k, id[1], row * s->tk + j) : 0);
        p[j] = seen ? exp(x) : 0;
        sum += p[j];
        uint64_t at = (uint64_t)((3 + b) * s->h * s->tq * s->tk + (h * s->tq + i) * s->tk + j);
        drop[j] = !(s->flags & YK_ATT_DROP) ? 1 : philox_uniform(key, 5, at) >= (double)0.2f ? 1 / 0.8 : 0;
    }
    r->lse[row] = sum > 0 ? log(sum) : -INFINITY;
    for (int64_t j = 0; j < s->tk && sum > 0; j++) {
        p[j] /= sum;
        dp[j] = 0;
        for (int64_t d = 0; d < s->d; d++) {
            double v = r->v[(kv * s->tk + j) * s->d + d], g = r->go[row * s->d + d];
            r->o[row * s->d + d] += p[j] * drop[j] * v;
            dp[j] += g * v * drop[j];
            r->gv[(kv * s->tk + j) * s->d + d] += p[j] * drop[j] * g;
        }
        delta += p[j] * dp[j];
    }
    for (int64_t j = 0; j < s->tk && sum > 0; j++) {
        double ds = p[j] * (dp[j] - delta);
        r->gb[row * s->tk + j] = ds;
        for (int64_t d = 0; d < s->d; d++) {
            r->gq[row * s->d + d] += scale * ds * r->k[(kv * s->tk + j) * s->d + d];
            r->gk[(kv * s->tk + j) * s->d + d] += scale * ds * q[d];
        }
    }
}

static void one_attention(const cpu_isa *isa, const att_case *s)
{
    kit *k = kit_new();
    int64_t qs[] = {s->b, s->h, s->tq, s->d, -1}, ks[] = {s->b, s->hk, s->tk, s->d, -1};
    int64_t bs[] = {s->b, s->h, s->tq, s->tk, -1};
    uint32_t q = kit_value(k, s->dtype, qs), kk = kit_value(k, s->dtype, ks), v = kit_value(k, s->dtype, ks);
    uint32_t keep = KIT(k, YK_F32, s->b, s->tk), bias = kit_broadcast(k, YK_F32, bs, 1);
    uint32_t key = KIT(k, YK_I32, 4), rows = KIT(k, YK_I32, s->b), o = kit_value(k, s->dtype, qs);
    uint32_t lse = KIT(k, YK_F32, s->b, s->h, s->tq), go = kit_value(k, s->dtype, qs), gq = kit_value(k, s->dtype, qs);
    uint32_t gk = kit_value(k, s->dtype, ks), gv = kit_value(k, s->dtype, ks), gb = kit_value(k, YK_F32, bs);
    kit_random(k, q, -1, 1);
    kit_random(k, kk, -1, 1);
    kit_random(k, v, -1, 1);
    kit_random(k, go, -1, 1);
    kit_random(k, bias, -1, 1);
    for (int64_t i = 0; i < s->b * s->tk; i++)
        ((float *)(void *)k->data[keep])[i] = i % 3 != 1;
    kit_set(k, key, (double[]){7, 8, 9, 0});
    kit_set(k, rows, (double[]){3, 4, 5, 6});
    int64_t attr[] = {s->causal, F64(0.3), F64(s->flags & YK_ATT_DROP ? 0.2 : 0.0), 5, s->flags};
    uint32_t in[12] = {go, o, lse, q, kk, v}, n = 6, ids[] = {keep, bias};
    if (s->flags & YK_ATT_KEEP)
        in[n++] = keep;
    if (s->flags & YK_ATT_BIAS)
        in[n++] = bias;
    if (s->flags & YK_ATT_DROP)
        in[n++] = key, in[n++] = rows;
    in[n] = YK_NONE;
    kit_node(k, YK_OP_ATTENTION, in + 3, KIT_IDS(o, lse), attr, 5);
    attr[4] |= YK_ATT_GBIAS;
    kit_node(k, YK_OP_ATTENTION_BWD, in, KIT_IDS(gq, gk, gv, gb), attr, 5);
    run_all(k, isa, KIT_IDS(o, lse, gq, gk, gv, gb));
    size_t nq = (size_t)(s->b * s->h * s->tq * s->d), nk = (size_t)(s->b * s->hk * s->tk * s->d);
    att_ref r = {values_of(k, q), values_of(k, kk), values_of(k, v), values_of(k, go), calloc(nq, 8),
                 calloc(nq, 8), calloc(nq, 8), calloc(nk, 8), calloc(nk, 8),
                 calloc((size_t)(s->b * s->h * s->tq * s->tk), 8)};
    for (int64_t i = 0; i < s->b * s->h * s->tq; i++)
        att_query(s, k, ids, &r, i / (s->h * s->tq), i / s->tq % s->h, i % s->tq);
    double tol = s->dtype == YK_F32 ? 2e-5 : s->dtype == YK_F16 ? 3e-3 : 3e-2;
    kit_near(isa, "out", k, o, r.o, tol);
    kit_near(isa, "lse", k, lse, r.lse, 2e-5);
    kit_near(isa, "gq", k, gq, r.gq, tol);
    kit_near(isa, "gk", k, gk, r.gk, tol);
    kit_near(isa, "gv", k, gv, r.gv, tol);
    kit_near(isa, "gbias", k, gb, r.gb, tol);
    free(r.q), free(r.k), free(r.v), free(r.go), free(r.o), free(r.lse), free(r.gq), free(r.gk), free(r.gv), free(r.gb);
    kit_free(k);
}

START_TEST(attention_is_near_the_definition)
{
    static const att_case cases[] = {
        {1, 2, 2, 7, 7, 16, 1, 0, YK_F32},
        {2, 4, 2, 130, 130, 33, 1, 0, YK_F32},
        {2, 2, 2, 33, 70, 8, 1, YK_ATT_KEEP | YK_ATT_BIAS, YK_F32},
        {1, 3, 1, 70, 40, 16, 1, YK_ATT_DROP, YK_F32}, /* the first queries see no key */
        {2, 2, 1, 65, 401, 16, 0, YK_ATT_KEEP | YK_ATT_BIAS | YK_ATT_DROP, YK_F32},
        {1, 2, 2, 100, 101, 24, 0, YK_ATT_KEEP, YK_BF16},
        {1, 2, 2, 90, 90, 32, 1, 0, YK_BF16},
        {1, 2, 2, 40, 41, 16, 1, YK_ATT_DROP, YK_F16},
        {1, 1, 1, 1, 5, 4, 0, 0, YK_F32},
    };
    for (int q = 0; kit_isa(q); q++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            one_attention(kit_isa(q), &cases[i]);
}
END_TEST

/* ---- optimizers ---- */

static void one_adam(const cpu_isa *isa, int flags, bool clip)
{
    kit *k = kit_new();
    int64_t n = 10007;
    uint32_t g = KIT(k, YK_F32, n), p = KIT(k, YK_F32, n), m = KIT(k, YK_F32, n), v = KIT(k, YK_F32, n);
    uint32_t hyper = KIT(k, YK_F32, 16), x = KIT(k, YK_F32, n);
    kit_random(k, g, -1, 1);
    kit_random(k, p, -1, 1);
    kit_random(k, m, -1, 1);
    kit_random(k, v, 0, 1);
    kit_random(k, x, 0, 1);
    const double h[16] = {1e-2, 0.9, 0.999, 1e-8, 0.1, 0.5, clip ? 0.2 : INFINITY, 0.3, 0.2};
    kit_set(k, hyper, h);
    double *wp = values_of(k, p), *wm = values_of(k, m), *wv = values_of(k, v), *wx = values_of(k, x);
    for (int64_t i = 0; i < n; i++) {
        double t = fmax(fmin(kit_get(k, g, i) * h[5], h[6]), -h[6]);
        t = flags & YK_OPT_MAXIMIZE ? -t : t;
        if (flags & YK_OPT_DECOUPLED)
            wp[i] *= 1 - h[0] * h[4];
        else
            t += h[4] * wp[i];
        wm[i] = h[1] * wm[i] + (1 - h[1]) * t;
        wv[i] = h[2] * wv[i] + (1 - h[2]) * t * t;
        double u = wv[i];
        if (flags & YK_OPT_AMSGRAD)
            u = wx[i] = fmax(wx[i], wv[i]);
        wp[i] -= h[0] / h[7] * wm[i] / (sqrt(u) / h[8] + h[3]);
    }
    if (flags & YK_OPT_AMSGRAD)
        kit_node(k, YK_OP_ADAM_STEP, KIT_IDS(g, p, m, v, hyper, x), KIT_IDS(p, m, v, x), (int64_t[]){flags}, 1);
    else
        kit_node(k, YK_OP_ADAM_STEP, KIT_IDS(g, p, m, v, hyper), KIT_IDS(p, m, v), (int64_t[]){flags}, 1);
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    kit_near(isa, "p", k, p, wp, 1e-6);
    kit_near(isa, "m", k, m, wm, 1e-6);
    kit_near(isa, "v", k, v, wv, 1e-6);
    kit_near(isa, "vmax", k, x, wx, 1e-6);
    free(wp), free(wm), free(wv), free(wx);
    kit_free(k);
}

static void one_sgd(const cpu_isa *isa, int flags, bool momentum, bool first)
{
    kit *k = kit_new();
    int64_t n = 9001;
    uint32_t g = KIT(k, YK_F32, n), p = KIT(k, YK_F32, n), b = KIT(k, YK_F32, n), hyper = KIT(k, YK_F32, 16);
    kit_random(k, g, -1, 1);
    kit_random(k, p, -1, 1);
    kit_random(k, b, -1, 1);
    const double h[16] = {1e-1, 0.9, 0.25, 0, 0.1, 0.5, INFINITY, 0, 0, first};
    kit_set(k, hyper, h);
    double *wp = values_of(k, p), *wb = values_of(k, b);
    for (int64_t i = 0; i < n; i++) {
        double t = kit_get(k, g, i) * h[5] + h[4] * wp[i];
        if (momentum) {
            wb[i] = first ? t : h[1] * wb[i] + (1 - h[2]) * t;
            t = flags & YK_OPT_NESTEROV ? t + h[1] * wb[i] : wb[i];
        }
        wp[i] -= h[0] * t;
    }
    if (momentum)
        kit_node(k, YK_OP_SGD_STEP, KIT_IDS(g, p, b, hyper), KIT_IDS(p, b), (int64_t[]){flags}, 1);
    else
        kit_node(k, YK_OP_SGD_STEP, KIT_IDS(g, p, hyper), KIT_IDS(p), (int64_t[]){flags}, 1);
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    kit_near(isa, "p", k, p, wp, 1e-6);
    kit_near(isa, "b", k, b, wb, 1e-6);
    free(wp), free(wb);
    kit_free(k);
}

/* A cast of the first new values that follows the step: the same bits as one in a program of its own. */
static void one_kept(const cpu_isa *isa, int op, int dtype, int64_t n, int64_t kept)
{
    kit *k = kit_new(), *separate = kit_new();
    uint32_t g = KIT(k, YK_F32, n), p = KIT(k, YK_F32, n), m = KIT(k, YK_F32, n), v = KIT(k, YK_F32, n);
    uint32_t hyper = KIT(k, YK_F32, 16), low = KIT(k, dtype, n), x = KIT(separate, YK_F32, kept), y = KIT(separate, dtype, kept);
    const int64_t flags = 0, one = 1;
    const uint32_t head = kit_view(k, p, 1, &kept, &one, 0), to = kit_view(k, low, 1, &kept, &one, 0);
    kit_random(k, g, -1, 1);
    kit_random(k, p, -1, 1);
    kit_random(k, m, -1, 1);
    kit_random(k, v, 0, 1);
    kit_random(k, low, 0, 1);
    kit_set(k, hyper, (double[16]){1e-2, 0.9, 0.5, 1e-8, 0.1, 0.5, INFINITY, 0.3, 0.2});
    const double last = kit_get(k, low, n - 1);
    if (op == YK_OP_ADAM_STEP)
        kit_node(k, op, KIT_IDS(g, p, m, v, hyper), KIT_IDS(p, m, v), &flags, 1);
    else
        kit_node(k, op, KIT_IDS(g, p, m, hyper), KIT_IDS(p, m), &flags, 1);
    kit_node(k, YK_OP_CAST, KIT_IDS(head), KIT_IDS(to), NULL, 0);
    ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
    memcpy(separate->data[x], k->data[p], (size_t)kept * 4);
    kit_node(separate, YK_OP_CAST, KIT_IDS(x), KIT_IDS(y), NULL, 0);
    ck_assert_int_eq(kit_run(separate, isa, 1), YK_OK);
    ck_assert_mem_eq(k->data[low], separate->data[y], (size_t)kept * 2);
    ck_assert(kept == n || kit_get(k, low, n - 1) == last);
    kit_free(separate);
    kit_free(k);
}

START_TEST(steps_keep_16_bits)
{
    for (int q = 0; kit_isa(q); q++) {
        one_kept(kit_isa(q), YK_OP_ADAM_STEP, YK_BF16, 10007, 10007);
        one_kept(kit_isa(q), YK_OP_ADAM_STEP, YK_F16, 9000, 4097);
        one_kept(kit_isa(q), YK_OP_ADAM_STEP, YK_BF16, 500000, 499990);
        one_kept(kit_isa(q), YK_OP_SGD_STEP, YK_BF16, 5000, 3);
    }
}
END_TEST

START_TEST(optimizers_are_near_the_definition)
{
    for (int q = 0; kit_isa(q); q++) {
        const cpu_isa *isa = kit_isa(q);
        one_adam(isa, 0, false);
        one_adam(isa, YK_OPT_DECOUPLED, true);
        one_adam(isa, YK_OPT_AMSGRAD | YK_OPT_MAXIMIZE, false);
        one_sgd(isa, 0, false, false);
        one_sgd(isa, 0, true, true);
        one_sgd(isa, YK_OPT_NESTEROV, true, false);
        kit *k = kit_new();
        uint32_t g = KIT(k, YK_F32, 200001), s = KIT(k, YK_F32, 1), y = KIT(k, YK_F32, 2);
        kit_random(k, g, -1, 1);
        kit_set(k, s, (double[]){0.5});
        double want[2] = {0, 0};
        for (int64_t i = 0; i < 200001; i++)
            want[0] += kit_get(k, g, i) * kit_get(k, g, i) / 4;
        kit_node(k, YK_OP_GRAD_STATS, KIT_IDS(g, s), KIT_IDS(y), NULL, 0);
        run_all(k, isa, KIT_IDS(y));
        kit_near(isa, "grad_stats", k, y, want, 1e-6);
        ((float *)(void *)k->data[g])[70000] = NAN;
        ((float *)(void *)k->data[g])[200000] = INFINITY;
        ck_assert_int_eq(kit_run(k, isa, 2), YK_OK);
        ck_assert(kit_get(k, y, 1) == 2);
        kit_free(k);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_add_test(t, convolutions_are_near_the_sum);
    tcase_add_test(t, convolution_large);
    tcase_add_test(t, convolution_of_few_tiles);
    tcase_add_test(t, convolution_error);
    tcase_add_test(t, pools_are_near_the_definition);
    tcase_add_test(t, attention_is_near_the_definition);
    tcase_add_test(t, steps_keep_16_bits);
    tcase_add_test(t, optimizers_are_near_the_definition);
    return suite_run("cpu_nets all", t);
}
