/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residual networks for small images (He et al. 2015, "Deep residual learning", section 4.2).
 * resnet20, resnet32: three stages of 16, 32, 64 channels, shortcut option A (every second pixel, zero channels before
 * and after), names as in common checkpoints (conv1, bn1, layer1.0.conv1, .., linear).
 * resnet18: the ImageNet network with a 3x3 stem for small images, shortcut option B (downsample.0, downsample.1), fc.
 * Keys: num_channels, num_labels, widths ("16+32+64"), blocks_per_stage, hidden_act, batch_norm_eps, batch_norm_momentum.
 */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STAGES = 4, MOST_BLOCKS = 64 };

typedef struct batch_norm {
    yk_t weight, bias;
    yk_batch_norm_state running;
} batch_norm;

typedef struct block {
    yk_t conv1, conv2, down;
    batch_norm bn1, bn2, down_bn;
    int64_t in, out;
    int32_t stride;
    bool projected;
} block;

typedef struct resnet {
    yk_t conv1;
    batch_norm bn1;
    block block[MOST_BLOCKS];
    model_linear head;
    uint32_t stages, per_stage;
    int64_t width[MOST_STAGES], channels, classes, height, wide;
    model_activation *act;
    float eps, momentum;
} resnet;

static batch_norm norm_new(yk_model *m, const char *prefix, int64_t width)
{
    batch_norm n;
    char name[128];
    n.weight = model_param(m, (yk_init){YK_INIT_ONES, 0, 0}, 1, &width, "%s.weight", prefix);
    n.bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &width, "%s.bias", prefix);
    snprintf(name, sizeof name, "%s.running_mean", prefix);
    n.running.mean = yk_state(m->job, name, YK_F32, 1, &width, 0);
    snprintf(name, sizeof name, "%s.running_var", prefix);
    n.running.var = yk_state(m->job, name, YK_F32, 1, &width, 1);
    snprintf(name, sizeof name, "%s.num_batches_tracked", prefix);
    n.running.count = yk_state(m->job, name, YK_I32, 0, NULL, 0);
    return n;
}

/* Kaiming normal, fan out: std = sqrt(2 / (out * k * k)) (He et al. 2015, "Delving deep into rectifiers"). */
static yk_t conv_new(yk_model *m, const char *name, int64_t in, int64_t out, int64_t k)
{
    return model_param(m, model_normal(sqrt(2.0 / ((double)out * (double)k * (double)k))), 4, (int64_t[]){out, in, k, k},
                       "%s.weight", name);
}

static void block_new(yk_model *m, block *b, int stage, uint32_t i, int64_t in, int64_t out, bool option_b)
{
    char name[64];
    int n = snprintf(name, sizeof name, "layer%d.%u.", stage + 1, i);
    char *tail = name + n;
    const size_t room = sizeof name - (size_t)n;
    b->in = in;
    b->out = out;
    b->stride = stage > 0 && i == 0 ? 2 : 1;
    b->projected = option_b && (in != out || b->stride != 1);
    snprintf(tail, room, "conv1");
    b->conv1 = conv_new(m, name, in, out, 3);
    snprintf(tail, room, "bn1");
    b->bn1 = norm_new(m, name, out);
    snprintf(tail, room, "conv2");
    b->conv2 = conv_new(m, name, out, out, 3);
    snprintf(tail, room, "bn2");
    b->bn2 = norm_new(m, name, out);
    if (!b->projected)
        return;
    snprintf(tail, room, "downsample.0");
    b->down = conv_new(m, name, in, out, 1);
    snprintf(tail, room, "downsample.1");
    b->down_bn = norm_new(m, name, out);
}

static void read_settings(yk_model *m, resnet *p, const yk_data *data, const int64_t *width, uint32_t stages, int64_t blocks)
{
    int64_t chw[3] = {0, 0, 0};
    if (data)
        yk_data_shape(data, chw);
    memcpy(p->width, width, stages * sizeof *width);
    p->stages = yk_settings_has(m->settings, "widths") ? yk_settings_ints(m->settings, "widths", p->width, MOST_STAGES) : stages;
    p->per_stage = (uint32_t)yk_settings_int(m->settings, "blocks_per_stage", blocks);
    p->channels = yk_settings_int(m->settings, "num_channels", chw[0] ? chw[0] : 3);
    p->classes = model_classes(m, data, 10);
    p->height = yk_settings_int(m->settings, "image_size", chw[1] ? chw[1] : 32);
    p->wide = chw[2] ? chw[2] : p->height;
    p->act = model_activation_of(m, yk_settings_text(m->settings, "hidden_act", "relu"));
    p->eps = (float)yk_settings_real(m->settings, "batch_norm_eps", 1e-5);
    p->momentum = (float)yk_settings_real(m->settings, "batch_norm_momentum", 0.1);
    model_put_int(m, "num_channels", p->channels);
    model_put_int(m, "image_size", p->height);
}

static void build_any(yk_model *m, resnet *p, bool option_b, const char *head)
{
    int64_t in = p->width[0];
    if (p->stages < 1 || p->per_stage < 1 || p->stages * p->per_stage > MOST_BLOCKS) {
        yk_fail(m->job, YK_E_ARG, "resnet: widths and blocks_per_stage must give 1 to 64 blocks in 1 to 4 stages");
        return;
    }
    p->conv1 = conv_new(m, "conv1", p->channels, in, 3);
    p->bn1 = norm_new(m, "bn1", in);
    for (uint32_t s = 0; s < p->stages; s++)
        for (uint32_t i = 0; i < p->per_stage; i++) {
            block_new(m, &p->block[s * p->per_stage + i], (int)s, i, in, p->width[s], option_b);
            in = p->width[s];
        }
    p->head = model_linear_new(m, head, in, p->classes, true, NULL);
}

static void build20(yk_model *m, void *net, const yk_data *data)
{
    read_settings(m, net, data, (int64_t[]){16, 32, 64}, 3, 3);
    build_any(m, net, false, "linear");
}

static void build32(yk_model *m, void *net, const yk_data *data)
{
    read_settings(m, net, data, (int64_t[]){16, 32, 64}, 3, 5);
    build_any(m, net, false, "linear");
}

static void build18(yk_model *m, void *net, const yk_data *data)
{
    read_settings(m, net, data, (int64_t[]){64, 128, 256, 512}, 4, 2);
    build_any(m, net, true, "fc");
}

static yk_t norm_on(const resnet *p, const batch_norm *n, yk_t x)
{
    return yk_batch_norm(x, n->weight, n->bias, n->running, p->momentum, p->eps);
}

static yk_t conv_on(yk_t x, yk_t w, int32_t stride, int32_t padding)
{
    return yk_conv2d(x, w, YK_NO, &(yk_conv2d_config){.stride = {stride, stride}, .padding = {padding, padding}});
}

static yk_t shortcut(const resnet *p, const block *b, yk_t x)
{
    const int64_t more = b->out - b->in;
    if (b->projected)
        return norm_on(p, &b->down_bn, conv_on(x, b->down, b->stride, 0));
    if (b->stride != 1)
        x = yk_slice(yk_slice(x, 2, 0, -1, b->stride), 3, 0, -1, b->stride);
    return more ? yk_pad(x, 1, more / 2, more - more / 2, 0) : x;
}

static yk_t block_on(const resnet *p, const block *b, yk_t x)
{
    yk_t y = p->act(norm_on(p, &b->bn1, conv_on(x, b->conv1, b->stride, 1)));
    y = norm_on(p, &b->bn2, conv_on(y, b->conv2, 1, 1));
    return p->act(yk_add(y, shortcut(p, b, x)));
}

static yk_t part(yk_model *m, void *net, const yk_batch *batch, const char *name)
{
    const resnet *p = net;
    yk_t x;
    if (strcmp(name, "logits"))
        return YK_NO;
    x = p->act(norm_on(p, &p->bn1, conv_on(batch->x, p->conv1, 1, 1)));
    for (uint32_t i = 0; i < p->stages * p->per_stage; i++)
        model_block_begin(m), x = block_on(p, &p->block[i], x), model_block_end(m);
    x = yk_mean(x, 1u << 2 | 1u << 3, false);
    return model_linear_on(p->head, x);
}

static double flops(const void *net, int64_t width)
{
    const resnet *p = net;
    double area = (double)p->height * (double)p->wide, stem = 18.0 * (double)p->channels * (double)p->width[0] * area, n = 0;
    (void)width;
    for (uint32_t i = 0; i < p->stages * p->per_stage; i++) {
        const block *b = &p->block[i];
        area /= b->stride * b->stride;
        n += area * (18.0 * (double)b->out * (double)(b->in + b->out) + (b->projected ? 2.0 * (double)(b->in * b->out) : 0));
    }
    return 2 * stem + 3 * (n + 2.0 * (double)p->classes * (double)p->width[p->stages - 1]);
}

const model_kind model_resnet20 = {"resnet20", "ResNet-20 for small images", "resnet", NULL, MODEL_IMAGES, sizeof(resnet), build20,
                                    part, flops};
const model_kind model_resnet32 = {"resnet32", "ResNet-32 for small images", "resnet", NULL, MODEL_IMAGES, sizeof(resnet), build32,
                                    part, flops};
const model_kind model_resnet18 = {"resnet18", "ResNet-18 with a 3x3 stem", "resnet", NULL, MODEL_IMAGES, sizeof(resnet), build18,
                                    part, flops};
