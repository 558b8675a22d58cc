/* SPDX-License-Identifier: Apache-2.0 */
/* The network, its data and one rank's part of them: rows and numbers follow from the seed, so every rank and every run has the same. */
#include "config.h"

#include "tests/dist/net.h"

#include <math.h>
#include <string.h>

const uint64_t size[N_PARAM] = {IN * MID, MID * OUT, OUT};

static float random_number(uint32_t *s)
{
    *s = *s * 1664525u + 1013904223u;
    return (float)(*s >> 8) / (1 << 24) - 0.5f;
}

yk_status net_setup(rig *r, yk__device *dev, yk__group *group, const yk__engine_config *c, yk__opt_kind kind, yk_error *err)
{
    static const uint32_t group_of[N_PARAM] = {0, 1, 0};
    uint32_t s = 11;
    r->dev = dev;
    r->group = group;
    if (yk__engine_new(dev, group, c, &r->e, err))
        return err->status;
    for (int i = 0; i < N_PARAM; i++) {
        const char name[3] = {'p', (char)('0' + i), 0};
        static float v[IN * MID];
        for (uint64_t k = 0; k < size[i]; k++)
            v[k] = random_number(&s) * 0.3f;
        if (yk__engine_param(r->e, name, size[i], true, &r->number[i], err) ||
            yk__engine_param_write(r->e, r->number[i], v, err))
            return err->status;
    }
    if (yk__engine_state(r->e, "mean", YK_F32, MID, &r->state, err))
        return err->status;
    return yk__engine_optimizer(r->e,
                                &(yk__opt_layout){.kind = kind, .momentum = true, .n_group = 2, .group_of = group_of},
                                err);
}

typedef struct net {
    yk__graph g;
    yk__vid loss, seed, mean;
} net;

/* h = x w1; h -= mean of h over all rows of all ranks; loss = sum of cross entropies of relu(h) w2 + b */
static yk_status net_build(net *n, const rig *r, yk_error *err)
{
    const int64_t rows = r->end - r->begin, dx[2] = {rows, IN}, dp[N_PARAM][2] = {{IN, MID}, {MID, OUT}, {OUT, 0}};
    const int64_t ce[2] = {-100, yk_attr_of_f64(0.0)}, dm = MID;
    yk__graph *g = &n->g;
    yk__vid p[N_PARAM], x, y, h, sum, in[2], out[2];
    yk__graph_init(g);
    for (int i = 0; i < N_PARAM; i++)
        p[i] = yk__leaf(g, yk__slot_new(g, YK_SLOT_PARAM, size[i] * 4, r->number[i]), 0, YK_F32, i == 2 ? 1 : 2, dp[i]);
    x = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, (uint64_t)rows * IN * 4, 0), 0, YK_F32, 2, dx);
    y = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, (uint64_t)rows * 4, 1), 0, YK_I32, 1, &rows);
    n->seed = yk__leaf(g, yk__slot_new(g, YK_SLOT_INPUT, 4, 2), 0, YK_F32, 0, NULL);
    h = yk__dot(g, x, p[0], false, false);
    sum = yk__sum(g, h, 1);
    sum = yk__scale(g, yk__all_reduce(g, sum), 1.0 / ROWS);
    n->mean = yk__reshape(g, sum, 1, &dm);
    h = yk__un(g, YK_OP_RELU, yk__bin(g, YK_OP_SUB, h, sum));
    h = yk__bin(g, YK_OP_ADD, yk__dot(g, h, p[1], false, false), p[2]);
    in[0] = h, in[1] = y;
    if (h != YK_NONE && yk__apply(g, YK_OP_CROSS_ENTROPY, 2, in, 2, ce, YK_DTYPE_COUNT, 0, NULL, out, 2))
        n->loss = yk__reshape(g, yk__sum(g, out[0], 1), 0, NULL);
    if (g->error.status)
        *err = g->error;
    return err->status;
}

yk_status net_micro(rig *r, uint32_t seed, bool first, yk_error *err)
{
    static float x[ROWS * IN];
    static int32_t y[ROWS];
    const float scale = r->scale != 0.0f ? r->scale : 1.0f;
    const void *input[3] = {x + r->begin * IN, y + r->begin, &scale};
    const uint64_t rows = (uint64_t)(r->end - r->begin), bytes[3] = {rows * IN * 4, rows * 4, 4};
    yk__assign a = {.state = r->state};
    uint64_t ticket;
    net n;
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = random_number(&seed);
    for (int i = 0; i < ROWS; i++)
        y[i] = (int32_t)((random_number(&seed) + 0.5f) * OUT);
    if (!net_build(&n, r, err)) {
        a.value = n.mean;
        yk__engine_run(r->e,
                       &(yk__micro){.trace = &n.g, .loss = n.loss, .seed = n.seed, .first = first,
                                    .empty = rows == 0, .n_input = 3, .input = input, .input_bytes = bytes,
                                    .n_assign = 1, .assign = &a},
                       &ticket, err);
    }
    yk__graph_free(&n.g);
    return err->status;
}

void net_hyper(yk__opt_kind kind, int step, float h[2][YK_HYPER_COUNT])
{
    memset(h, 0, 2 * sizeof h[0]);
    for (int i = 0; i < 2; i++) {
        h[i][YK_HYPER_LR] = kind == YK_OPT_ADAM ? 0.01f : 0.1f;
        h[i][YK_HYPER_B1] = 0.9f;
        h[i][YK_HYPER_B2] = kind == YK_OPT_ADAM ? 0.999f : 0.0f;
        h[i][YK_HYPER_EPS] = 1e-6f;
        h[i][YK_HYPER_DECAY] = i ? 0.0f : 0.1f;
        h[i][YK_HYPER_C1] = (float)(1 - pow(0.9, step));
        h[i][YK_HYPER_SQRT_C2] = (float)sqrt(1 - pow(0.999, step));
        h[i][YK_HYPER_FIRST] = step == 1;
    }
}
