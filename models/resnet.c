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

enum { MAX_STAGES = 4, MAX_BLOCKS = 64 };

typedef struct batch_norm {
    yk_t weight, bias;
    yk_batch_norm_state running;
} batch_norm;

typedef struct resnet_block {
    yk_t conv1, conv2, downsample;
    batch_norm bn1, bn2, downsample_bn;
    int64_t in, out;
    int32_t stride;
    bool projected;
} resnet_block;

typedef struct resnet {
    yk_t conv1;
    batch_norm bn1;
    resnet_block block[MAX_BLOCKS];
    model_linear head;
    uint32_t n_stages, blocks_per_stage;
    int64_t stage_width[MAX_STAGES], n_channels, n_classes, image_height, image_width;
    model_activation *activation;
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

static void block_new(yk_model *m, resnet_block *b, int stage, uint32_t i, int64_t in, int64_t out, bool option_b)
{
    char name[64];
    int n = snprintf(name, sizeof name, "layer%d.%u.", stage + 1, i);
    char *tail = name + n;
    const size_t tail_size = sizeof name - (size_t)n;
    b->in = in;
    b->out = out;
    b->stride = stage > 0 && i == 0 ? 2 : 1;
    b->projected = option_b && (in != out || b->stride != 1);
    snprintf(tail, tail_size, "conv1");
    b->conv1 = conv_new(m, name, in, out, 3);
    snprintf(tail, tail_size, "bn1");
    b->bn1 = norm_new(m, name, out);
    snprintf(tail, tail_size, "conv2");
    b->conv2 = conv_new(m, name, out, out, 3);
    snprintf(tail, tail_size, "bn2");
    b->bn2 = norm_new(m, name, out);
    if (!b->projected)
        return;
    snprintf(tail, tail_size, "downsample.0");
    b->downsample = conv_new(m, name, in, out, 1);
    snprintf(tail, tail_size, "downsample.1");
    b->downsample_bn = norm_new(m, name, out);
}

static void read_settings(yk_model *m, resnet *net, const yk_data *data, const int64_t *width, uint32_t stages,
                          int64_t blocks)
{
    int64_t chw[3] = {0, 0, 0};
    if (data)
        yk_data_shape(data, chw);
    memcpy(net->stage_width, width, stages * sizeof *width);
    net->n_stages = yk_settings_has(m->settings, "widths")
                        ? yk_settings_ints(m->settings, "widths", net->stage_width, MAX_STAGES)
                        : stages;
    net->blocks_per_stage = (uint32_t)yk_settings_int(m->settings, "blocks_per_stage", blocks);
    net->n_channels = yk_settings_int(m->settings, "num_channels", chw[0] ? chw[0] : 3);
    net->n_classes = model_classes(m, data, 10);
    net->image_height = yk_settings_int(m->settings, "image_size", chw[1] ? chw[1] : 32);
    net->image_width = chw[2] ? chw[2] : net->image_height;
    net->activation = model_activation_of(m, yk_settings_text(m->settings, "hidden_act", "relu"));
    net->eps = (float)yk_settings_real(m->settings, "batch_norm_eps", 1e-5);
    net->momentum = (float)yk_settings_real(m->settings, "batch_norm_momentum", 0.1);
    model_put_int(m, "num_channels", net->n_channels);
    model_put_int(m, "image_size", net->image_height);
}

/* Everything from the stem to the head, in the order of the forward pass. */
static void layers_build(yk_model *m, resnet *net, bool option_b, const char *head)
{
    int64_t in = net->stage_width[0];
    if (net->n_stages < 1 || net->blocks_per_stage < 1 || net->n_stages * net->blocks_per_stage > MAX_BLOCKS) {
        yk_fail(m->job, YK_E_ARG, "resnet: widths and blocks_per_stage must give 1 to 64 blocks in 1 to 4 stages");
        return;
    }
    net->conv1 = conv_new(m, "conv1", net->n_channels, in, 3);
    net->bn1 = norm_new(m, "bn1", in);
    for (uint32_t s = 0; s < net->n_stages; s++)
        for (uint32_t i = 0; i < net->blocks_per_stage; i++) {
            block_new(m, &net->block[s * net->blocks_per_stage + i], (int)s, i, in, net->stage_width[s], option_b);
            in = net->stage_width[s];
        }
    net->head = model_linear_new(m, head, in, net->n_classes, true, NULL);
}

static void resnet20_build(yk_model *m, void *object, const yk_data *data)
{
    read_settings(m, object, data, (int64_t[]){16, 32, 64}, 3, 3);
    layers_build(m, object, false, "linear");
}

static void resnet32_build(yk_model *m, void *object, const yk_data *data)
{
    read_settings(m, object, data, (int64_t[]){16, 32, 64}, 3, 5);
    layers_build(m, object, false, "linear");
}

static void resnet18_build(yk_model *m, void *object, const yk_data *data)
{
    read_settings(m, object, data, (int64_t[]){64, 128, 256, 512}, 4, 2);
    layers_build(m, object, true, "fc");
}

static yk_t norm_on(const resnet *net, const batch_norm *n, yk_t x)
{
    return yk_batch_norm(x, n->weight, n->bias, n->running, net->momentum, net->eps);
}

static yk_t conv_on(yk_t x, yk_t w, int32_t stride, int32_t padding)
{
    return yk_conv2d(x, w, YK_NO, &(yk_conv2d_config){.stride = {stride, stride}, .padding = {padding, padding}});
}

/* The identity where shapes allow it, else option A: every second pixel, zero channels around; or B: a 1x1 kernel. */
static yk_t shortcut_on(const resnet *net, const resnet_block *b, yk_t x)
{
    const int64_t more = b->out - b->in;
    if (b->projected)
        return norm_on(net, &b->downsample_bn, conv_on(x, b->downsample, b->stride, 0));
    if (b->stride != 1)
        x = yk_slice(yk_slice(x, 2, 0, -1, b->stride), 3, 0, -1, b->stride);
    return more ? yk_pad(x, 1, more / 2, more - more / 2, 0) : x;
}

static yk_t block_on(const resnet *net, const resnet_block *b, yk_t x)
{
    yk_t y = net->activation(norm_on(net, &b->bn1, conv_on(x, b->conv1, b->stride, 1)));
    y = norm_on(net, &b->bn2, conv_on(y, b->conv2, 1, 1));
    return net->activation(yk_add(y, shortcut_on(net, b, x)));
}

/* Images [n, C, H, W] to logits [n, classes]. */
static yk_t resnet_part(yk_model *m, void *object, const yk_batch *batch, const char *name)
{
    const resnet *net = object;
    yk_t x;
    if (strcmp(name, "logits"))
        return YK_NO;
    x = net->activation(norm_on(net, &net->bn1, conv_on(batch->x, net->conv1, 1, 1)));
    for (uint32_t i = 0; i < net->n_stages * net->blocks_per_stage; i++)
        model_block_begin(m), x = block_on(net, &net->block[i], x), model_block_end(m);
    x = yk_mean(x, 1u << 2 | 1u << 3, false);
    return model_linear_on(net->head, x);
}

static double resnet_flops(const void *object, int64_t width)
{
    const resnet *net = object;
    double area = (double)net->image_height * (double)net->image_width,
           stem = 18.0 * (double)net->n_channels * (double)net->stage_width[0] * area, n = 0;
    (void)width;
    for (uint32_t i = 0; i < net->n_stages * net->blocks_per_stage; i++) {
        const resnet_block *b = &net->block[i];
        area /= b->stride * b->stride;
        n += area * (18.0 * (double)b->out * (double)(b->in + b->out) + (b->projected ? 2.0 * (double)(b->in * b->out) : 0));
    }
    return 2 * stem + 3 * (n + 2.0 * (double)net->n_classes * (double)net->stage_width[net->n_stages - 1]);
}

const model_kind model_resnet20 = {
    .name = "resnet20",
    .text = "ResNet-20 for small images",
    .model_type = "resnet",
    .input = MODEL_IMAGES,
    .net_size = sizeof(resnet),
    .blocks = true,
    .build = resnet20_build,
    .part = resnet_part,
    .flops = resnet_flops,
};
const model_kind model_resnet32 = {
    .name = "resnet32",
    .text = "ResNet-32 for small images",
    .model_type = "resnet",
    .input = MODEL_IMAGES,
    .net_size = sizeof(resnet),
    .blocks = true,
    .build = resnet32_build,
    .part = resnet_part,
    .flops = resnet_flops,
};
const model_kind model_resnet18 = {
    .name = "resnet18",
    .text = "ResNet-18 with a 3x3 stem",
    .model_type = "resnet",
    .input = MODEL_IMAGES,
    .net_size = sizeof(resnet),
    .blocks = true,
    .build = resnet18_build,
    .part = resnet_part,
    .flops = resnet_flops,
};
