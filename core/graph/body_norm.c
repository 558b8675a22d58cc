/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of normalisations, softmax, cross entropy and the optimizers' steps: their definitions in primitives, for devices that do not run
 * them.
 *
 * body.c finds them through the table of operations (op_table.h), in the thread that plans. A body appends nodes to the caller's graph.
 */
#include <math.h>

#include "core/graph/body.h"

enum { LAST = 1u << 1 }; /* the last axis of [R, C] */

static yk__vid column_of(yk__inline *b, uint32_t i) /* [R] as [R, 1] */
{
    return yk__reshape(b->g, yk__body_widen(b, i), 2, (const int64_t[]){b->x[i]->dim[0], 1});
}

static void column_put(yk__inline *b, uint32_t i, yk__vid v) /* [R, 1] as [R] */
{
    yk__body_output(b, i, yk__reshape(b->g, v, 1, b->y[i]->dim));
}

static yk__vid row_mean(yk__inline *b, yk__vid x, int64_t n)
{
    return yk__scale(b->g, yk__sum(b->g, x, LAST), 1.0 / (double)n);
}

static yk__vid body_mul(yk__inline *b, yk__vid x, yk__vid y)
{
    return yk__bin(b->g, YK_OP_MUL, x, y);
}

static yk__vid body_sub(yk__inline *b, yk__vid x, yk__vid y)
{
    return yk__bin(b->g, YK_OP_SUB, x, y);
}

static yk__vid body_add(yk__inline *b, yk__vid x, yk__vid y)
{
    return yk__bin(b->g, YK_OP_ADD, x, y);
}

/* ---- Norms ---- */

void yk__body_bn_stats(yk__inline *b)
{
    const int64_t c = b->x[0]->dim[1], n = b->x[0]->dim[0] * b->x[0]->dim[2], one[2] = {1, c};
    const yk__vid shift = yk__reshape(b->g, yk__body_widen(b, 1), 3, (const int64_t[]){1, c, 1});
    const yk__vid d = body_sub(b, yk__body_widen(b, 0), shift);
    const yk__vid s = yk__sum(b->g, d, 1u | 1u << 2), m = yk__scale(b->g, s, n ? 1.0 / (double)n : 0.0);
    const yk__vid square = body_sub(b, yk__sum(b->g, body_mul(b, d, d), 1u | 1u << 2), body_mul(b, s, m));
    yk__vid rows[3];
    rows[0] = yk__reshape(b->g, body_add(b, shift, m), 2, one);
    rows[1] = yk__reshape(b->g, yk__bin(b->g, YK_OP_MAX, square, yk__body_number(b, 0.0)), 2, one);
    rows[2] = yk__fill(b->g, (double)n, yk__body_dtype(b), 2, one);
    yk__body_output(b, 0, yk__concat(b->g, 3, rows, 0));
}

void yk__body_layer_norm(yk__inline *b)
{
    const int64_t c = b->x[0]->dim[1];
    const yk__vid x = yk__body_widen(b, 0), mu = row_mean(b, x, c), d = body_sub(b, x, mu);
    const yk__vid var = row_mean(b, body_mul(b, d, d), c);
    const yk__vid rstd = yk__un(b->g, YK_OP_RSQRT, body_add(b, var, yk__body_number(b, yk_attr_f64(b->attr[0]))));
    yk__vid y = body_mul(b, d, rstd);
    if (b->n_in > 1)
        y = body_mul(b, y, yk__body_widen(b, 1));
    if (b->n_in > 2)
        y = body_add(b, y, yk__body_widen(b, 2));
    yk__body_output(b, 0, y);
    column_put(b, 1, mu);
    column_put(b, 2, rstd);
}

/* gx = rstd (h - mean(h) - xh mean(h xh)), h = gy gamma, xh = (x - mean) rstd (Ba et al. 2016) */
void yk__body_layer_norm_bwd(yk__inline *b)
{
    const int64_t c = b->x[0]->dim[1];
    const yk__vid gy = yk__body_widen(b, 0), rstd = column_of(b, 3),
                  xh = body_mul(b, body_sub(b, yk__body_widen(b, 1), column_of(b, 2)), rstd);
    const yk__vid h = b->n_in > 4 ? body_mul(b, gy, yk__body_widen(b, 4)) : gy;
    yk__vid gx = body_sub(b, h, row_mean(b, h, c));
    gx = body_sub(b, gx, body_mul(b, xh, row_mean(b, body_mul(b, h, xh), c)));
    yk__body_output(b, 0, body_mul(b, gx, rstd));
    if (b->n_out < 3)
        return;
    column_put(b, 1, yk__sum(b->g, body_mul(b, gy, xh), 1));
    column_put(b, 2, yk__sum(b->g, gy, 1));
}

/* ---- Softmax and cross entropy over the last axis of [R, C] ---- */

void yk__body_softmax(yk__inline *b)
{
    const yk__vid x = yk__body_widen(b, 0), d = body_sub(b, x, yk__rmax(b->g, x, LAST)), e = yk__un(b->g, YK_OP_EXP, d);
    const yk__vid sum = yk__sum(b->g, e, LAST);
    yk__body_output(b, 0, b->attr[0] ? body_sub(b, d, yk__un(b->g, YK_OP_LOG, sum)) : yk__bin(b->g, YK_OP_DIV, e, sum));
}

/* softmax: y (gy - sum(gy y)); log softmax: gy - e^y sum(gy) */
void yk__body_softmax_bwd(yk__inline *b)
{
    const yk__vid gy = yk__body_widen(b, 0), y = yk__body_widen(b, 1);
    if (b->attr[0])
        yk__body_output(b, 0, body_sub(b, gy, body_mul(b, yk__un(b->g, YK_OP_EXP, y), yk__sum(b->g, gy, LAST))));
    else
        yk__body_output(b, 0, body_mul(b, y, body_sub(b, gy, yk__sum(b->g, body_mul(b, gy, y), LAST))));
}

typedef struct label_masks {
    yk__vid hit;     /* bool [R, C]: c is the label */
    yk__vid ignored; /* bool [R, 1] */
    yk__vid bad;     /* bool [R, 1]: outside the classes and not ignored */
    yk__vid weight;  /* weight of the label [R, 1], or YK_NONE */
    yk__vid all;     /* weights [1, C], or YK_NONE */
} label_masks;

static label_masks labels_read(yk__inline *b, yk__vid y, uint32_t weight, int64_t r, int64_t c)
{
    yk__graph *g = b->g;
    const yk__vid col = yk__reshape(g, y, 2, (const int64_t[]){r, 1}), zero = yk__const(g, 0, YK_I32);
    const yk__vid low = yk__bin(g, YK_OP_LT, col, zero),
                  high = yk__bin(g, YK_OP_LT, col, yk__const(g, (double)c, YK_I32));
    label_masks l = {.weight = YK_NONE, .all = YK_NONE};
    l.hit = yk__bin(g, YK_OP_EQ, yk__iota(g, 1, YK_I32, 2, (const int64_t[]){r, c}), col);
    l.ignored = yk__bin(g, YK_OP_EQ, col, yk__const(g, (double)b->attr[0], YK_I32));
    /* outside: below 0, or not below C */
    l.bad = yk__select(g, low, low, yk__bin(g, YK_OP_EQ, yk__cast(g, high, YK_I32), zero));
    if (weight >= b->n_in)
        return l;
    l.all = yk__reshape(g, yk__body_widen(b, weight), 2, (const int64_t[]){1, c});
    l.weight = yk__reshape(g, yk__gather(g, yk__body_widen(b, weight), y), 2, (const int64_t[]){r, 1});
    return l;
}

/* 0 for an ignored label, NaN for a label outside the classes, else v. */
static yk__vid loss_guard(yk__inline *b, const label_masks *l, yk__vid v)
{
    v = yk__select(b->g, l->bad, yk__body_number(b, NAN), v);
    return yk__select(b->g, l->ignored, yk__body_number(b, 0), v);
}

void yk__body_cross_entropy(yk__inline *b)
{
    yk__graph *g = b->g;
    const int64_t r = b->x[0]->dim[0], c = b->x[0]->dim[1];
    const double s = yk_attr_f64(b->attr[1]);
    const yk__vid x = yk__body_widen(b, 0), top = yk__rmax(g, x, LAST);
    const yk__vid log = yk__un(g, YK_OP_LOG, yk__sum(g, yk__un(g, YK_OP_EXP, body_sub(b, x, top)), LAST)),
                  lse = body_add(b, top, log);
    const label_masks l = labels_read(b, b->in[1], 2, r, c);
    yk__vid loss = body_sub(b, top, yk__sum(g, yk__select(g, l.hit, x, yk__body_number(b, 0)), LAST));
    loss = body_add(b, loss, log); /* never lse - x: beside a large maximum the logarithm is lost in lse */
    if (l.weight != YK_NONE)
        loss = body_mul(b, loss, l.weight);
    if (s != 0) {
        yk__vid each = body_add(b, body_sub(b, top, x), log);
        each = l.all != YK_NONE ? body_mul(b, each, l.all) : each;
        loss = body_add(b, yk__scale(g, loss, 1 - s), yk__scale(g, yk__sum(g, each, LAST), s / (double)c));
    }
    column_put(b, 0, loss_guard(b, &l, loss));
    column_put(b, 1, lse);
}

/* gz[c] = gloss (w[y](1-s)(p[c] - [c = y]) + s/C (p[c] sum(w) - w[c])). p = softmax(z) is computed from z again, as lse in f32
 * is too coarse for large logits. */
void yk__body_cross_entropy_bwd(yk__inline *b)
{
    yk__graph *g = b->g;
    const int64_t r = b->x[1]->dim[0], c = b->x[1]->dim[1];
    const double s = yk_attr_f64(b->attr[1]);
    const yk__vid one = yk__body_number(b, 1), zero = yk__body_number(b, 0);
    const yk__vid z = yk__body_widen(b, 1), e = yk__un(g, YK_OP_EXP, body_sub(b, z, yk__rmax(g, z, LAST)));
    const yk__vid p = yk__bin(g, YK_OP_DIV, e, yk__sum(g, e, LAST));
    const label_masks l = labels_read(b, b->in[2], 4, r, c);
    yk__vid d = body_sub(b, p, yk__select(g, l.hit, one, zero));
    if (l.weight != YK_NONE)
        d = body_mul(b, d, l.weight);
    if (s != 0) {
        const yk__vid all = l.all != YK_NONE ? l.all : one;
        const yk__vid total = l.all != YK_NONE ? yk__sum(g, l.all, LAST) : yk__body_number(b, (double)c);
        d = body_add(b, yk__scale(g, d, 1 - s), yk__scale(g, body_sub(b, body_mul(b, p, total), all), s / (double)c));
    }
    yk__body_output(b, 0, loss_guard(b, &l, body_mul(b, d, column_of(b, 0))));
}

/* ---- Optimizers: plugin.h gives the formulas ---- */

static yk__vid hyper_at(yk__inline *b, uint32_t operand, int64_t i)
{
    return yk__slice(b->g, b->in[operand], 0, i, i + 1, 1);
}

static yk__vid one_minus(yk__inline *b, yk__vid x)
{
    return body_sub(b, yk__body_number(b, 1), x);
}

static yk__vid scaled_gradient(yk__inline *b, uint32_t h)
{
    yk__vid g = body_mul(b, b->in[0], hyper_at(b, h, YK_HYPER_GRAD_SCALE)), clip = hyper_at(b, h, YK_HYPER_CLIP);
    g = yk__bin(b->g, YK_OP_MIN, g, clip);
    g = yk__bin(b->g, YK_OP_MAX, g, yk__un(b->g, YK_OP_NEG, clip));
    return b->attr[0] & YK_OPT_MAXIMIZE ? yk__un(b->g, YK_OP_NEG, g) : g;
}

void yk__body_adam_step(yk__inline *b)
{
    const yk__vid b1 = hyper_at(b, 4, YK_HYPER_B1), b2 = hyper_at(b, 4, YK_HYPER_B2), lr = hyper_at(b, 4, YK_HYPER_LR);
    const yk__vid decay = hyper_at(b, 4, YK_HYPER_DECAY);
    yk__vid g = scaled_gradient(b, 4), p = b->in[1], m, v, root;
    if (b->attr[0] & YK_OPT_DECOUPLED)
        p = body_mul(b, p, one_minus(b, body_mul(b, lr, decay)));
    else
        g = body_add(b, g, body_mul(b, p, decay));
    m = body_add(b, body_mul(b, b->in[2], b1), body_mul(b, g, one_minus(b, b1)));
    v = body_add(b, body_mul(b, b->in[3], b2), body_mul(b, body_mul(b, g, g), one_minus(b, b2)));
    b->out[1] = m;
    b->out[2] = v;
    if (b->attr[0] & YK_OPT_AMSGRAD)
        b->out[3] = v = yk__bin(b->g, YK_OP_MAX, b->in[5], v);
    root = yk__bin(b->g, YK_OP_DIV, yk__un(b->g, YK_OP_SQRT, v), hyper_at(b, 4, YK_HYPER_SQRT_C2));
    root = body_add(b, root, hyper_at(b, 4, YK_HYPER_EPS));
    m = body_mul(b, m, yk__bin(b->g, YK_OP_DIV, lr, hyper_at(b, 4, YK_HYPER_C1)));
    b->out[0] = body_sub(b, p, yk__bin(b->g, YK_OP_DIV, m, root));
}

void yk__body_sgd_step(yk__inline *b)
{
    const uint32_t h = b->n_in - 1;
    const yk__vid b1 = hyper_at(b, h, YK_HYPER_B1), lr = hyper_at(b, h, YK_HYPER_LR);
    yk__vid g = body_add(b, scaled_gradient(b, h), body_mul(b, b->in[1], hyper_at(b, h, YK_HYPER_DECAY))), buf, later;
    if (b->n_in == 4) {
        later = body_add(b, body_mul(b, b->in[2], b1), body_mul(b, g, one_minus(b, hyper_at(b, h, YK_HYPER_B2))));
        buf =
            yk__select(b->g, yk__bin(b->g, YK_OP_LT, yk__body_number(b, 0), hyper_at(b, h, YK_HYPER_FIRST)), g, later);
        b->out[1] = buf;
        g = b->attr[0] & YK_OPT_NESTEROV ? body_add(b, g, body_mul(b, buf, b1)) : buf;
    }
    b->out[0] = body_sub(b, b->in[1], body_mul(b, g, lr));
}

/* x - x is 0 except for infinities and NaN. */
void yk__body_grad_stats(yk__inline *b)
{
    yk__graph *g = b->g;
    const yk__vid y = body_mul(b, b->in[0], b->in[1]), zero = yk__body_number(b, 0);
    const yk__vid finite = yk__bin(g, YK_OP_EQ, body_sub(b, b->in[0], b->in[0]), zero);
    yk__vid two[2];
    two[0] = yk__sum(g, body_mul(b, y, y), 1);
    two[1] = yk__sum(g, yk__select(g, finite, zero, yk__body_number(b, 1)), 1);
    b->out[0] = yk__concat(g, 2, two, 0);
}
