/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-layer perceptron: fc1, activation, fc2, .., fcN. Keys: input_size, hidden ("512+256"), num_labels,
 * hidden_act (relu), dropout (0). */
#include "models/model.h"

#include <stdio.h>

enum { MOST = 32 };

typedef struct mlp {
    int64_t size[MOST + 2];
    model_linear fc[MOST + 1];
    uint32_t layers;
    model_activation *act;
    float dropout;
} mlp;

static int64_t pixels(const yk_data *data)
{
    int64_t chw[3] = {0, 0, 0};
    if (data)
        yk_data_shape(data, chw);
    return chw[0] * chw[1] * chw[2];
}

static void build(yk_model *m, void *net, const yk_data *data)
{
    mlp *p = net;
    char prefix[16];
    uint32_t hidden = yk_settings_ints(m->settings, "hidden", p->size + 1, MOST);
    if (!yk_settings_has(m->settings, "hidden")) {
        hidden = 2;
        p->size[1] = 512;
        p->size[2] = 256;
        yk_settings_put(m->settings, "hidden", "512+256");
    }
    p->layers = hidden + 1;
    p->size[0] = yk_settings_int(m->settings, "input_size", pixels(data) ? pixels(data) : 784);
    p->size[p->layers] = model_classes(m, data, 10);
    p->act = model_activation_of(m, yk_settings_text(m->settings, "hidden_act", "relu"));
    p->dropout = (float)yk_settings_real(m->settings, "dropout", 0);
    model_put_int(m, "input_size", p->size[0]);
    for (uint32_t i = 0; i < p->layers; i++) {
        snprintf(prefix, sizeof prefix, "fc%u", i + 1);
        p->fc[i] = model_linear_new(m, prefix, p->size[i], p->size[i + 1], true, NULL);
    }
}

static yk_t part(yk_model *m, void *net, const yk_batch *batch, const char *name)
{
    const mlp *p = net;
    yk_t x = yk_flatten(batch->x, 1);
    (void)m;
    if (name[0] != 'l' || name[1] != 'o') /* only "logits" */
        return YK_NO;
    for (uint32_t i = 0; i < p->layers; i++) {
        x = model_linear_on(p->fc[i], x);
        if (i + 1 < p->layers)
            x = yk_dropout(p->act(x), p->dropout);
    }
    return x;
}

static double flops(const void *net, int64_t width)
{
    const mlp *p = net;
    double n = 0;
    (void)width;
    for (uint32_t i = 0; i < p->layers; i++)
        n += (i ? 6.0 : 4.0) * (double)p->size[i] * (double)p->size[i + 1];
    return n;
}

const model_kind model_mlp = {"mlp", "multi-layer perceptron", "mlp", NULL, MODEL_IMAGES, sizeof(mlp), build, part, flops};
