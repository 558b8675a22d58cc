/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, softmax and losses of the CPU plugin on every instruction set of this machine, against plain double arithmetic. */
#include "tests/support/cpu_near.h"
#include "tests/support/run.h"

#define F64(x) yk_attr_of_f64(x)

static void one_layer_norm(const cpu_isa *isa, int64_t r, int64_t c, bool gamma, int dtype)
{
    kit *k = kit_new();
    uint32_t x = KIT(k, dtype, r, c), g = KIT(k, YK_F32, c), b = KIT(k, YK_F32, c), y = KIT(k, dtype, r, c);
    uint32_t m = KIT(k, YK_F32, r), s = KIT(k, YK_F32, r), gy = KIT(k, dtype, r, c), gx = KIT(k, dtype, r, c);
    uint32_t gg = KIT(k, YK_F32, c), gb = KIT(k, YK_F32, c);
    kit_random(k, x, 3, 5);
    kit_random(k, g, 0.5, 1.5);
    kit_random(k, b, -1, 1);
    kit_random(k, gy, -1, 1);
    const int64_t attr[] = {F64(1e-5)};
    kit_node(k, YK_OP_LAYER_NORM, gamma ? KIT_IDS(x, g, b) : KIT_IDS(x), KIT_IDS(y, m, s), attr, 1);
    kit_node(k, YK_OP_LAYER_NORM_BWD, gamma ? KIT_IDS(gy, x, m, s, g) : KIT_IDS(gy, x, m, s),
             gamma ? KIT_IDS(gx, gg, gb) : KIT_IDS(gx), attr, 1);
    run_all(k, isa, KIT_IDS(y, gx));
    double *wy = calloc((size_t)(r * c), 8), *wx = calloc((size_t)(r * c), 8), *wg = calloc((size_t)c, 8);
    double *wb = calloc((size_t)c, 8);
    for (int64_t i = 0; i < r; i++) {
        double mean = 0, var = 0, m1 = 0, m2 = 0;
        for (int64_t j = 0; j < c; j++)
            mean += kit_get(k, x, i * c + j) / (double)c;
        for (int64_t j = 0; j < c; j++)
            var += pow(kit_get(k, x, i * c + j) - mean, 2) / (double)c;
        double rs = 1 / sqrt(var + 1e-5);
        for (int pass = 0; pass < 2; pass++)
            for (int64_t j = 0; j < c; j++) {
                double h = (kit_get(k, x, i * c + j) - mean) * rs, gj = gamma ? kit_get(k, g, j) : 1;
                double d = kit_get(k, gy, i * c + j) * gj;
                wy[i * c + j] = h * gj + (gamma ? kit_get(k, b, j) : 0);
                if (pass) {
                    wx[i * c + j] = rs * (d - m1 - h * m2);
                    continue;
                }
                m1 += d / (double)c;
                m2 += d * h / (double)c;
                wg[j] += kit_get(k, gy, i * c + j) * h;
                wb[j] += kit_get(k, gy, i * c + j);
            }
    }
    kit_near(isa, "layer_norm", k, y, wy, dtype == YK_F32 ? 2e-5 : 4e-3);
    kit_near(isa, "layer_norm gx", k, gx, wx, dtype == YK_F32 ? 2e-5 : 4e-3);
    if (gamma) {
        kit_near(isa, "ggamma", k, gg, wg, 5e-5);
        kit_near(isa, "gbeta", k, gb, wb, 2e-5);
    }
    free(wy), free(wx), free(wg), free(wb);
    kit_free(k);
}

START_TEST(layer_norms)
{
    for (int q = 0; kit_isa(q); q++)
        for (int d = 0; d < 2; d++) {
            const int dtype = d ? YK_BF16 : YK_F32;
            one_layer_norm(kit_isa(q), 37, 100, true, dtype);
            one_layer_norm(kit_isa(q), 300, 33, true, dtype);
            one_layer_norm(kit_isa(q), 5, 768, false, dtype);
        }
}
END_TEST

/* columns around each set's one and two vectors, of 4, 8 and 16 numbers */
static const int64_t row_lengths[] = {1, 3, 4, 5, 7, 8, 9, 10, 13, 15, 16, 17, 21, 30, 31, 32, 33, 75};
#define ROW_LENGTHS (int)(sizeof row_lengths / sizeof *row_lengths)

/* The backward is that of the stored result. */
static void one_softmax(const cpu_isa *isa, int log, int64_t c, int dtype)
{
    kit *k = kit_new();
    int64_t r = 19;
    uint32_t x = KIT(k, dtype, r, c), y = KIT(k, dtype, r, c), gy = KIT(k, dtype, r, c), gx = KIT(k, dtype, r, c);
    kit_random(k, x, -20, 20);
    kit_random(k, gy, -1, 1);
    kit_node(k, YK_OP_SOFTMAX, KIT_IDS(x), KIT_IDS(y), (int64_t[]){log}, 1);
    kit_node(k, YK_OP_SOFTMAX_BWD, KIT_IDS(gy, y), KIT_IDS(gx), (int64_t[]){log}, 1);
    run_all(k, isa, KIT_IDS(y, gx));
    double *wy = calloc((size_t)(r * c), 8), *wx = calloc((size_t)(r * c), 8);
    for (int64_t i = 0; i < r; i++) {
        double sum = 0, dot = 0;
        for (int64_t j = 0; j < c; j++)
            sum += exp(kit_get(k, x, i * c + j));
        for (int64_t j = 0; j < c; j++) {
            double z = kit_get(k, x, i * c + j);
            wy[i * c + j] = log ? z - (double)logl((long double)sum) : exp(z) / sum;
            dot += kit_get(k, gy, i * c + j) * (log ? 1 : kit_get(k, y, i * c + j));
        }
        for (int64_t j = 0; j < c; j++) {
            double p = kit_get(k, y, i * c + j), g = kit_get(k, gy, i * c + j);
            wx[i * c + j] = log ? g - exp(p) * dot : p * (g - dot);
        }
    }
    kit_near(isa, "softmax", k, y, wy, dtype == YK_F32 ? 2e-6 : 4e-3);
    kit_near(isa, "softmax gx", k, gx, wx, dtype == YK_F32 ? 5e-6 : 4e-3);
    free(wy), free(wx);
    kit_free(k);
}

START_TEST(softmax_is_near_the_definition)
{
    for (int q = 0; kit_isa(q); q++)
        for (int i = 0; i < 4 * ROW_LENGTHS; i++)
            one_softmax(kit_isa(q), i & 1, row_lengths[i / 4], i & 2 ? YK_BF16 : YK_F32);
}
END_TEST

static void one_loss(const cpu_isa *isa, bool weighted, double s, int64_t c, int dtype)
{
    kit *k = kit_new();
    int64_t r = 9;
    uint32_t z = KIT(k, dtype, r, c), lab = KIT(k, YK_I32, r), w = KIT(k, YK_F32, c), loss = KIT(k, YK_F32, r);
    uint32_t lse = KIT(k, YK_F32, r), gl = kit_broadcast(k, YK_F32, (int64_t[]){r, -1}, weighted ? 1 : 0);
    uint32_t gz = KIT(k, dtype, r, c);
    kit_random(k, z, -8, 8);
    kit_random(k, lab, 0, (double)c);
    kit_random(k, w, 0.5, 2);
    kit_random(k, gl, 0.5, 1);
    ((int32_t *)(void *)k->data[lab])[4] = -100;
    const int64_t attr[] = {-100, F64(s)};
    kit_node(k, YK_OP_CROSS_ENTROPY, weighted ? KIT_IDS(z, lab, w) : KIT_IDS(z, lab), KIT_IDS(loss, lse), attr, 2);
    kit_node(k, YK_OP_CROSS_ENTROPY_BWD, weighted ? KIT_IDS(gl, z, lab, lse, w) : KIT_IDS(gl, z, lab, lse), KIT_IDS(gz),
             attr, 2);
    run_all(k, isa, KIT_IDS(loss, lse, gz));
    double *wl = calloc((size_t)r, 8), *we = calloc((size_t)r, 8), *wz = calloc((size_t)(r * c), 8);
    for (int64_t i = 0; i < r; i++) {
        double sum = 0, tw = 0, even = 0;
        int64_t y = (int64_t)kit_get(k, lab, i);
        for (int64_t j = 0; j < c; j++) {
            sum += exp(kit_get(k, z, i * c + j));
            tw += weighted ? kit_get(k, w, j) : 1;
        }
        we[i] = log(sum);
        for (int64_t j = 0; j < c; j++)
            even += (weighted ? kit_get(k, w, j) : 1) * (we[i] - kit_get(k, z, i * c + j));
        if (y < 0)
            continue;
        double wy = weighted ? kit_get(k, w, y) : 1;
        wl[i] = wy * (1 - s) * (we[i] - kit_get(k, z, i * c + y)) + s / (double)c * even;
        for (int64_t j = 0; j < c; j++)
            wz[i * c + j] = kit_at(k, gl, i) * ((wy * (1 - s) + s / (double)c * tw) * exp(kit_get(k, z, i * c + j)) / sum -
                                                (j == y) * wy * (1 - s) -
                                                s / (double)c * (weighted ? kit_get(k, w, j) : 1));
    }
    kit_near(isa, "loss", k, loss, wl, 5e-6);
    kit_near(isa, "lse", k, lse, we, 2e-6);
    kit_near(isa, "glogits", k, gz, wz, dtype == YK_F32 ? 1e-6 : 4e-3);
    free(wl), free(we), free(wz);
    kit_free(k);
}

START_TEST(cross_entropies)
{
    for (int q = 0; kit_isa(q); q++) {
        one_loss(kit_isa(q), false, 0.0, 5003, YK_F32);
        one_loss(kit_isa(q), true, 0.1, 5003, YK_F32);
        one_loss(kit_isa(q), false, 0.1, 5003, YK_BF16);
        for (int i = 0; i < 4 * ROW_LENGTHS; i++)
            one_loss(kit_isa(q), i & 1, i & 1 ? 0.1 : 0.0, row_lengths[i / 4], i & 2 ? YK_BF16 : YK_F32);
    }
}
END_TEST

/* all logits -1e30: lse cannot hold log(C), the gradient must */
START_TEST(cross_entropy_of_huge_logits)
{
    for (int q = 0; kit_isa(q); q++) {
        kit *k = kit_new();
        uint32_t z = KIT(k, YK_F32, 2, 4), lab = KIT(k, YK_I32, 2), loss = KIT(k, YK_F32, 2), lse = KIT(k, YK_F32, 2);
        uint32_t gl = KIT(k, YK_F32, 2), gz = KIT(k, YK_F32, 2, 4);
        const int64_t attr[] = {-100, F64(0.0)};
        kit_set(k, z, (double[]){-1e30, -1e30, -1e30, -1e30, 1e30, 1e30, 0, -1e30});
        kit_set(k, lab, (double[]){1, 0});
        kit_set(k, gl, (double[]){1, 2});
        kit_node(k, YK_OP_CROSS_ENTROPY, KIT_IDS(z, lab), KIT_IDS(loss, lse), attr, 2);
        kit_node(k, YK_OP_CROSS_ENTROPY_BWD, KIT_IDS(gl, z, lab, lse), KIT_IDS(gz), attr, 2);
        ck_assert_int_eq(kit_run(k, kit_isa(q), 1), YK_OK);
        kit_near(kit_isa(q), "glogits", k, gz, (double[]){0.25, -0.75, 0.25, 0.25, -1, 1, 0, 0}, 1e-6);
        kit_near(kit_isa(q), "loss", k, loss, (double[]){log(4), log(2)}, 1e-6);
        kit_free(k);
    }
}
END_TEST

START_TEST(batch_statistics)
{
    for (int q = 0; kit_isa(q); q++)
        for (int64_t inner = 1; inner < 4000; inner += 3000) {
            kit *k = kit_new();
            int64_t n = 13, c = 6;
            uint32_t x = KIT(k, YK_BF16, n, c, inner), s = KIT(k, YK_F32, c), y = KIT(k, YK_F32, 3, c);
            kit_random(k, x, 2, 4);
            kit_random(k, s, 2, 4);
            kit_node(k, YK_OP_BN_STATS, KIT_IDS(x, s), KIT_IDS(y), NULL, 0);
            run_all(k, kit_isa(q), KIT_IDS(y));
            double want[18] = {0};
            for (int64_t i = 0; i < n * c * inner; i++) {
                want[i / inner % c] += kit_get(k, x, i) / (double)(n * inner);
                want[2 * c + i / inner % c] += 1;
            }
            for (int64_t i = 0; i < n * c * inner; i++) {
                const double d = kit_get(k, x, i) - want[i / inner % c];
                want[c + i / inner % c] += d * d;
            }
            kit_near(kit_isa(q), "bn_stats", k, y, want, 5e-4); /* sums that nearly cancel */
            kit_free(k);
        }
}
END_TEST

/* ---- round8 ---- */

static const struct {
    double largest, least, step; /* number; normal one; between those below that */
} eights[] = {{448, 0x1p-6, 0x1p-9}, {57344, 0x1p-14, 0x1p-16}};

/* Trying powers of two, from the largest on. */
static double eight_scale(const double *x, int64_t n, int format)
{
    double most = 0x1p-90, scale = 0x1p127;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return 1;
        most = fabs(x[i]) > most ? fabs(x[i]) : most;
    }
    while (most * scale > eights[format].largest)
        scale /= 2;
    return scale;
}

static double eight_of(double x, double scale, int format)
{
    double v = fabs(x) * scale, step = eights[format].step;
    if (!isfinite(x))
        return x;
    v = v < eights[format].largest ? v : eights[format].largest;
    for (double top = 2 * eights[format].least; top <= v; top *= 2)
        step *= 2;
    return copysign(nearbyint(v / step) * step / scale, x);
}

static double bf16_at(const kit *k, uint32_t v, int64_t i)
{
    uint16_t half;
    memcpy(&half, k->data[k->value[v].slot] + 2 * i, sizeof half);
    const uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static void eight_fill(kit *k, uint32_t x, int kind)
{
    const int64_t n = kit_stored(k, x);
    const double special[] = {0, 0, 1, 448, INFINITY, NAN, 0x1p-100, 3e38, -1.75, -1.7500001};
    double *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++)
        v[i] = kind == 1 ? 0 : kind == 6 ? (kit_random_unit() - 0.5) * 0x1p-100 : ldexp(kit_random_unit() - 0.5, -(int)(i % 40));
    if (kind)
        v[n - 1] = special[kind];
    kit_set(k, x, v);
    free(v);
}

/* with_cast: of f32, and a cast of all of it behind, whose result may lie where x does */
static void one_eight(const cpu_isa *isa, int64_t n, int dtype, int format, int kind, bool with_cast, bool in_place)
{
    kit *k = kit_new();
    const uint32_t x = KIT(k, dtype, n), y = KIT(k, dtype, n), low = KIT(k, YK_BF16, n);
    if (in_place)
        k->value[low].slot = k->value[x].slot;
    kit_node(k, YK_OP_ROUND8, KIT_IDS(x), KIT_IDS(y), (int64_t[]){format}, 1);
    if (with_cast)
        kit_node(k, YK_OP_CAST, KIT_IDS(y), KIT_IDS(low), NULL, 0);
    double *in = malloc((size_t)n * sizeof *in);
    for (int workers = 1; workers < (n > 5000 ? 4 : 2); workers++) {
        eight_fill(k, x, kind);
        for (int64_t i = 0; i < n; i++)
            in[i] = kit_get(k, x, i);
        const double scale = eight_scale(in, n, format);
        ck_assert_int_eq(kit_run(k, isa, workers), YK_OK);
        for (int64_t i = 0; i < n; i++) {
            const double want = eight_of(in[i], scale, format), got = kit_get(k, y, i);
            const double cast = !with_cast ? want : in_place ? bf16_at(k, x, i) : kit_get(k, low, i);
            ck_assert_msg((got == want && cast == want) || (isnan(want) && isnan(got) && isnan(cast)),
                          "%s: element %lld of %lld, %a, is %a, cast %a, and should be %a", isa->name, (long long)i, (long long)n, in[i],
                          got, cast, want);
        }
    }
    free(in);
    kit_free(k);
}

START_TEST(round8_is_the_definition)
{
    static const int64_t length[] = {1, 3, 16, 31, 33, 75, 4097, 70001};
    for (int q = 0; kit_isa(q); q++)
        for (size_t i = 0; i < sizeof length / sizeof *length; i++)
            for (int kind = 0; kind < (length[i] < 5000 ? 10 : 1); kind++)
                for (int format = 0; format < 2; format++) {
                    one_eight(kit_isa(q), length[i], YK_BF16, format, kind, false, false);
                    for (int cast = 0; cast < 3; cast++)
                        one_eight(kit_isa(q), length[i], YK_F32, format, kind, cast > 0, cast > 1);
                }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_add_test(t, layer_norms);
    tcase_add_test(t, softmax_is_near_the_definition);
    tcase_add_test(t, cross_entropies);
    tcase_add_test(t, cross_entropy_of_huge_logits);
    tcase_add_test(t, batch_statistics);
    tcase_add_test(t, round8_is_the_definition);
    return suite_run("cpu_rows all", t);
}
