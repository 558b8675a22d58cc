/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A custom layer is a function that composes operations; Yoke derives its backward pass. Here: Llama's gated feed-forward
 * block, x + (silu(x G) * (x U)) D after a norm, twice, as a classifier of images.
 *
 *   own_layer [IDX-DIR [ROWS]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/yoke.h>

enum { WIDTH = 128, INNER = 256, BLOCKS = 2 };

typedef struct gated {
    yk_t norm, gate, up, down;
} gated;

typedef struct net {
    yk_t in, out;
    gated block[BLOCKS];
} net;

static yk_t matrix_new(yk_job *job, const char *layer, const char *name, int64_t out, int64_t in)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s.weight", layer, name);
    return yk_param(job, full, 2, (int64_t[]){out, in}, (yk_init){YK_INIT_NORMAL, 0, 0.05f});
}

/* Makes the parameters, once, before the first step; the saved file has their names. */
static gated gated_new(yk_job *job, const char *name)
{
    char norm[64];
    snprintf(norm, sizeof norm, "%s.norm.weight", name);
    return (gated){yk_param(job, norm, 1, (int64_t[]){WIDTH}, (yk_init){YK_INIT_ONES, 0, 0}), matrix_new(job, name, "gate", INNER, WIDTH),
                   matrix_new(job, name, "up", INNER, WIDTH), matrix_new(job, name, "down", WIDTH, INNER)};
}

/* x / sqrt(mean(x^2) + eps), scaled: RMSNorm (Zhang and Sennrich 2019), from primitives. x: [n, WIDTH] */
static yk_t rms_norm(yk_t x, yk_t weight)
{
    return yk_mul(yk_mul(x, yk_rsqrt(yk_shift(yk_mean(yk_mul(x, x), 2, true), 1e-5f))), weight);
}

static yk_t gated_forward(const gated *g, yk_t x)
{
    const yk_t h = rms_norm(x, g->norm);
    const yk_t inner = yk_mul(yk_silu(yk_linear(h, g->gate, YK_NO)), yk_linear(h, g->up, YK_NO));
    return yk_add(x, yk_linear(inner, g->down, YK_NO));
}

static yk_t net_forward(const net *n, yk_t images)
{
    yk_t x = yk_linear(yk_flatten(images, 1), n->in, YK_NO);
    for (int i = 0; i < BLOCKS; i++)
        x = gated_forward(&n->block[i], x);
    return yk_linear(x, n->out, YK_NO);
}

int main(int argc, char **argv)
{
    char spec[4096];
    snprintf(spec, sizeof spec, "idx:%s", argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist");
    yk_job *job = yk_open(&(yk_config){.seed = 7});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = 64, .max_rows = argc > 2 ? strtoull(argv[2], NULL, 10) : 0});
    int64_t chw[3] = {0, 0, 0};
    yk_data_shape(data, chw);
    net n = {.in = matrix_new(job, "embed", "in", WIDTH, chw[0] * chw[1] * chw[2]),
             .out = matrix_new(job, "head", "out", yk_data_classes(data), WIDTH)};
    for (int i = 0; i < BLOCKS; i++) {
        char name[32];
        snprintf(name, sizeof name, "block.%d", i);
        n.block[i] = gated_new(job, name);
    }
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 1e-3});
    for (int epoch = 0; epoch < 4; epoch++) {
        yk_each (batch, job, data) {
            yk_backward(yk_cross_entropy(net_forward(&n, batch.x), batch.labels));
            yk_step(opt);
        }
        yk_print(job, "epoch %d: loss of the last step %.4f\n", epoch, yk_step_loss(opt));
    }
    return yk_close(job);
}
