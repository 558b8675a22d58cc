/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-layer perceptron: fc1, activation, fc2, .., fcN. The smallest of the models, so the one to read first.
 * registry.c calls mlp_build, which reads settings and makes parameters; model.c calls mlp_part, which traces the forward
 * pass of a batch. Both run in the step thread.
 *
 * Keys: input_size, hidden ("512+256"), num_labels, hidden_act (relu), dropout (0).
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

enum { MAX_HIDDEN = 32 };

typedef struct mlp {
    int64_t size[MAX_HIDDEN + 2];    /* sizes of the input, of each hidden layer, and number of classes */
    model_linear fc[MAX_HIDDEN + 1]; /* weight [size[i + 1], size[i]] */
    uint32_t n_layers;
    model_activation *activation;
    float dropout;
} mlp;

/* Numbers per image; 0 without data. */
static int64_t data_pixels(const yk_data *data)
{
    int64_t chw[3] = {0, 0, 0};
    if (data)
        yk_data_shape(data, chw);
    return chw[0] * chw[1] * chw[2];
}

/* Settings, then parameters. The chosen values go back into the settings, so that config.json has them. */
static void mlp_build(yk_model *m, void *object, const yk_data *data)
{
    mlp *net = object;
    char prefix[16];
    uint32_t hidden = yk_settings_ints(m->settings, "hidden", net->size + 1, MAX_HIDDEN);
    if (!yk_settings_has(m->settings, "hidden")) {
        hidden = 2;
        net->size[1] = 512;
        net->size[2] = 256;
        yk_settings_put(m->settings, "hidden", "512+256");
    }
    net->n_layers = hidden + 1;
    net->size[0] = yk_settings_int(m->settings, "input_size", data_pixels(data) ? data_pixels(data) : 784);
    net->size[net->n_layers] = model_classes(m, data, 10);
    net->activation = model_activation_of(m, "hidden_act", "relu");
    net->dropout = (float)yk_settings_real(m->settings, "dropout", 0);
    model_put_int(m, "input_size", net->size[0]);
    for (uint32_t i = 0; i < net->n_layers; i++) {
        snprintf(prefix, sizeof prefix, "fc%u", i + 1);
        net->fc[i] = i + 1 < net->n_layers ? model_linear_new(m, prefix, net->size[i], net->size[i + 1], true, NULL)
                                           : model_head_new(m, prefix, net->size[i], net->size[i + 1], NULL);
    }
}

/* Images [n, C, H, W] to logits [n, classes]. */
static yk_t mlp_part(yk_model *m, void *object, const yk_batch *batch, const char *name)
{
    const mlp *net = object;
    yk_t x = yk_flatten(batch->x, 1);
    (void)m;
    if (strcmp(name, "logits") != 0)
        return YK_NO;
    for (uint32_t i = 0; i < net->n_layers; i++) {
        x = model_linear_on(net->fc[i], x);
        if (i + 1 < net->n_layers)
            x = yk_dropout(net->activation(x), net->dropout);
    }
    return x;
}

/* Products forward and, twice, backward; the images get no gradient. */
static double mlp_flops(const void *object, int64_t width)
{
    const mlp *net = object;
    double n = 0;
    (void)width;
    for (uint32_t i = 0; i < net->n_layers; i++)
        n += (i ? 6.0 : 4.0) * (double)net->size[i] * (double)net->size[i + 1];
    return n;
}

static const char *const layers[] = {"fc", NULL};

const model_kind model_mlp = {
    .name = "mlp",
    .text = "multi-layer perceptron",
    .model_type = "mlp",
    .layers = layers,
    .numbered = "fc#.",
    .input = MODEL_IMAGES,
    .net_size = sizeof(mlp),
    .build = mlp_build,
    .part = mlp_part,
    .flops = mlp_flops,
};
