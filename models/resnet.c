/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residual networks (He et al. 2015, "Deep residual learning", sections 4.1 and 4.2). registry.c builds one, and model.c traces it,
 * in the step thread.
 *
 * resnet20, resnet32: three stages of 16, 32, 64 channels, shortcut option A (every second pixel, zero channels before
 * and after), names as in common checkpoints (conv1, bn1, layer1.0.conv1, .., linear).
 * resnet18, resnet50: the ImageNet networks with torchvision's structure and names: a 7x7 stem with a maximum over 3x3, both of stride 2,
 * shortcut option B (downsample.0, downsample.1), fc. A block of resnet50 has kernels of 1x1, 3x3, 1x1, the middle one with the stride
 * and a quarter of the block's channels.
 * Keys: num_channels, num_labels, widths ("16+32+64"), blocks_per_stage ("3", "3+4+6+3"), stem ("3x3" of stride 1 without a maximum, for
 * small images, or "7x7"), hidden_act, batch_norm_eps, batch_norm_momentum.
 */
#include "models/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_STAGES = 4, MAX_BLOCKS = 64, MAX_CONVS = 3, NARROW = 4 };

/* The differences between the networks. */
typedef struct resnet_shape {
    uint32_t stages, convs; /* stages; convolutions of a block: 2, or 3 of which the first and last are 1x1 */
    int64_t width[MAX_STAGES], blocks[MAX_STAGES];
    bool option_b, large_stem;
    const char *head;
} resnet_shape;

typedef struct batch_norm {
    yk_t weight, bias;
    yk_batch_norm_state running;
} batch_norm;

typedef struct resnet_block {
    yk_t conv[MAX_CONVS], downsample;
    batch_norm bn[MAX_CONVS], downsample_bn;
    int64_t in, middle, out;
    uint32_t convs;
    int32_t stride;
    bool projected;
} resnet_block;

typedef struct resnet {
    yk_t conv1;
    batch_norm bn1;
    resnet_block block[MAX_BLOCKS];
    model_linear head;
    resnet_shape shape;
    uint32_t n_blocks;
    int64_t n_channels, n_classes, image_height, image_width;
    model_activation *activation;
    float eps, momentum;
} resnet;

static batch_norm norm_new(yk_model *m, const char *prefix, int64_t width)
{
    batch_norm n;
    n.weight = model_param(m, (yk_init){YK_INIT_ONES, 0, 0}, 1, &width, "%s.weight", prefix);
    n.bias = model_param(m, (yk_init){YK_INIT_ZEROS, 0, 0}, 1, &width, "%s.bias", prefix);
    n.running.mean = model_state(m, YK_F32, 1, &width, 0, "%s.running_mean", prefix);
    n.running.var = model_state(m, YK_F32, 1, &width, 1, "%s.running_var", prefix);
    n.running.count = model_state(m, YK_I32, 0, NULL, 0, "%s.num_batches_tracked", prefix);
    return n;
}

/* Kaiming normal, fan out: std = sqrt(2 / (out * k * k)) (He et al. 2015, "Delving deep into rectifiers"). */
static yk_t conv_new(yk_model *m, const char *name, int64_t in, int64_t out, int64_t k)
{
    return model_param(m, model_normal(sqrt(2.0 / ((double)out * (double)k * (double)k))), 4, (int64_t[]){out, in, k, k},
                       "%s.weight", name);
}

/* Kernel length of convolution k of a block; below, its channels and its stride. */
static int64_t kernel_of(const resnet_block *b, uint32_t k)
{
    return b->convs == 2 || k == 1 ? 3 : 1;
}

static int64_t inputs_of(const resnet_block *b, uint32_t k)
{
    return k == 0 ? b->in : b->middle;
}

static int64_t outputs_of(const resnet_block *b, uint32_t k)
{
    return k + 1 == b->convs ? b->out : b->middle;
}

static int32_t stride_of(const resnet_block *b, uint32_t k)
{
    return k == (b->convs == 2 ? 0u : 1u) ? b->stride : 1;
}

static void block_new(yk_model *m, resnet_block *b, const char *prefix)
{
    char name[96];
    for (uint32_t k = 0; k < b->convs; k++) {
        snprintf(name, sizeof name, "%s.conv%u", prefix, k + 1);
        b->conv[k] = conv_new(m, name, inputs_of(b, k), outputs_of(b, k), kernel_of(b, k));
        snprintf(name, sizeof name, "%s.bn%u", prefix, k + 1);
        b->bn[k] = norm_new(m, name, outputs_of(b, k));
    }
    if (!b->projected)
        return;
    snprintf(name, sizeof name, "%s.downsample.0", prefix);
    b->downsample = conv_new(m, name, b->in, b->out, 1);
    snprintf(name, sizeof name, "%s.downsample.1", prefix);
    b->downsample_bn = norm_new(m, name, b->out);
}

/* Reads blocks per stage; a single number serves all stages. */
static void read_blocks(yk_model *m, resnet_shape *shape)
{
    int64_t blocks[MAX_STAGES];
    const uint32_t n = yk_settings_ints(m->settings, "blocks_per_stage", blocks, MAX_STAGES);
    if (n > 1 && n != shape->stages)
        model_fail(m->job, YK_E_ARG, "blocks_per_stage: expected 1 or %u numbers, one for each of widths, got %u: change this key",
                   shape->stages, n);
    for (uint32_t s = 0; s < shape->stages && n; s++)
        shape->blocks[s] = blocks[s < n ? s : n - 1];
}

static void read_stem(yk_model *m, resnet_shape *shape)
{
    const char *preset = shape->large_stem ? "7x7" : "3x3", *stem = model_word(m->settings, "stem", preset);
    shape->large_stem = !strcmp(stem, "7x7");
    if (!shape->large_stem && strcmp(stem, "3x3") != 0)
        model_fail(m->job, YK_E_ARG, "stem: expected 3x3 or 7x7, got %s: change this key", stem);
    yk_settings_put(m->settings, "stem", shape->large_stem ? "7x7" : "3x3");
}

static void read_settings(yk_model *m, resnet *net, const yk_data *data, const resnet_shape *shape)
{
    int64_t chw[3] = {0, 0, 0};
    if (data)
        yk_data_shape(data, chw);
    net->shape = *shape;
    if (yk_settings_has(m->settings, "widths"))
        net->shape.stages = yk_settings_ints(m->settings, "widths", net->shape.width, MAX_STAGES);
    read_blocks(m, &net->shape);
    read_stem(m, &net->shape);
    net->n_channels = yk_settings_int(m->settings, "num_channels", chw[0] ? chw[0] : 3);
    net->n_classes = model_classes(m, data, 10);
    net->image_height = yk_settings_int(m->settings, "image_size", chw[1] ? chw[1] : 32);
    net->image_width = chw[2] ? chw[2] : net->image_height;
    net->activation = model_activation_of(m, "hidden_act", "relu");
    net->eps = model_eps(m, "batch_norm_eps", 1e-5);
    net->momentum = (float)yk_settings_real(m->settings, "batch_norm_momentum", 0.1);
    model_put_int(m, "num_channels", net->n_channels);
    model_put_int(m, "image_size", net->image_height);
}

static bool check_shape(const yk_model *m, const resnet_shape *shape)
{
    int64_t blocks = 0;
    bool any = shape->stages > 0, narrows = true;
    for (uint32_t s = 0; s < shape->stages; s++) {
        any = any && shape->blocks[s] > 0;
        narrows = narrows && (shape->convs == 2 || shape->width[s] % NARROW == 0);
        blocks += shape->blocks[s];
    }
    if (!any || blocks > MAX_BLOCKS)
        model_fail(m->job, YK_E_ARG, "resnet: expected widths and blocks_per_stage of 1 to %d blocks in 1 to %d stages: "
                   "change these keys", MAX_BLOCKS, MAX_STAGES);
    else if (!narrows)
        model_fail(m->job, YK_E_ARG, "resnet: expected widths in multiples of %d for blocks of three convolutions: "
                   "change widths", NARROW);
    return any && blocks <= MAX_BLOCKS && narrows;
}

/* Makes all layers from the stem to the head, in the order of the forward pass. */
static void resnet_build(yk_model *m, resnet *net, const yk_data *data, const resnet_shape *preset)
{
    const resnet_shape *shape = &net->shape;
    int64_t in;
    read_settings(m, net, data, preset);
    if (!check_shape(m, shape))
        return;
    in = shape->convs == 2 ? shape->width[0] : shape->width[0] / NARROW;
    net->conv1 = conv_new(m, "conv1", net->n_channels, in, shape->large_stem ? 7 : 3);
    net->bn1 = norm_new(m, "bn1", in);
    for (uint32_t s = 0; s < shape->stages; s++)
        for (uint32_t i = 0; i < shape->blocks[s]; i++) {
            resnet_block *b = &net->block[net->n_blocks++];
            char prefix[32];
            *b = (resnet_block){.in = in, .out = shape->width[s], .convs = shape->convs, .stride = s > 0 && i == 0 ? 2 : 1};
            b->middle = b->convs == 2 ? b->out : b->out / NARROW;
            b->projected = shape->option_b && (in != b->out || b->stride != 1);
            snprintf(prefix, sizeof prefix, "layer%u.%u", s + 1, i);
            block_new(m, b, prefix);
            in = b->out;
        }
    net->head = model_head_new(m, shape->head, in, net->n_classes, NULL);
}

static void resnet20_build(yk_model *m, void *object, const yk_data *data)
{
    resnet_build(m, object, data,
                 &(resnet_shape){.stages = 3, .convs = 2, .width = {16, 32, 64}, .blocks = {3, 3, 3, 3}, .head = "linear"});
}

static void resnet32_build(yk_model *m, void *object, const yk_data *data)
{
    resnet_build(m, object, data,
                 &(resnet_shape){.stages = 3, .convs = 2, .width = {16, 32, 64}, .blocks = {5, 5, 5, 5}, .head = "linear"});
}

static void resnet18_build(yk_model *m, void *object, const yk_data *data)
{
    const bool from_folder = yk_settings_has(m->settings, "yoke_model"); /* which names its stem, unless it is 3x3 */
    resnet_build(m, object, data, &(resnet_shape){.stages = 4, .convs = 2, .width = {64, 128, 256, 512}, .blocks = {2, 2, 2, 2},
                                                  .option_b = true, .large_stem = !from_folder, .head = "fc"});
}

static void resnet50_build(yk_model *m, void *object, const yk_data *data)
{
    resnet_build(m, object, data, &(resnet_shape){.stages = 4, .convs = 3, .width = {256, 512, 1024, 2048}, .blocks = {3, 4, 6, 3},
                                                  .option_b = true, .large_stem = true, .head = "fc"});
}

static yk_t norm_on(const resnet *net, const batch_norm *n, yk_t x)
{
    return yk_batch_norm(x, n->weight, n->bias, n->running, net->momentum, net->eps);
}

static yk_t conv_on(yk_t x, yk_t w, int32_t stride, int32_t padding)
{
    return yk_conv2d(x, w, YK_NO, &(yk_conv2d_config){.stride = {stride, stride}, .padding = {padding, padding}});
}

/* The identity if shapes allow it, else option A: every second pixel, zero channels around; or B: a 1x1 kernel. */
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
    yk_t y = x;
    for (uint32_t k = 0; k < b->convs; k++) {
        y = norm_on(net, &b->bn[k], conv_on(y, b->conv[k], stride_of(b, k), (int32_t)kernel_of(b, k) / 2));
        y = k + 1 < b->convs ? net->activation(y) : y;
    }
    return net->activation(yk_add(y, shortcut_on(net, b, x)));
}

static yk_t stem_on(const resnet *net, yk_t x)
{
    const bool large = net->shape.large_stem;
    x = net->activation(norm_on(net, &net->bn1, conv_on(x, net->conv1, large ? 2 : 1, large ? 3 : 1)));
    return large ? yk_max_pool2d(x, &(yk_pool2d_config){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}) : x;
}

/* Images [n, C, H, W] to logits [n, classes]. */
static yk_t resnet_part(yk_model *m, void *object, const yk_batch *batch, const char *name)
{
    const resnet *net = object;
    yk_t x;
    if (strcmp(name, "logits"))
        return YK_NO;
    x = stem_on(net, batch->x);
    for (uint32_t i = 0; i < net->n_blocks; i++)
        model_block_begin(m), x = block_on(net, &net->block[i], x), model_block_end(m);
    x = yk_mean(x, 1u << 2 | 1u << 3, false);
    return model_linear_on(net->head, x);
}

/* Forward operations of a row, for an image of `area` pixels. */
static double block_flops(const resnet_block *b, double area)
{
    double n = b->projected ? 2.0 * (double)(b->in * b->out) * area / (b->stride * b->stride) : 0;
    for (uint32_t k = 0; k < b->convs; k++) {
        area /= stride_of(b, k) * stride_of(b, k);
        n += 2.0 * area * (double)(kernel_of(b, k) * kernel_of(b, k) * inputs_of(b, k) * outputs_of(b, k));
    }
    return n;
}

static double resnet_flops(const void *object, int64_t width)
{
    const resnet *net = object;
    const double kernel = net->shape.large_stem ? 49 : 9, shrinks = net->shape.large_stem ? 4 : 1;
    double area = (double)net->image_height * (double)net->image_width / shrinks, n = 0;
    const double stem = 2 * kernel * (double)(net->n_channels * (net->n_blocks ? net->block[0].in : 0)) * area;
    (void)width;
    area /= shrinks;
    for (uint32_t i = 0; i < net->n_blocks; i++) {
        n += block_flops(&net->block[i], area);
        area /= net->block[i].stride * net->block[i].stride;
    }
    return 2 * stem + 3 * (n + 2.0 * (double)(net->n_classes * net->shape.width[net->shape.stages - 1]));
}

static const char *const layers[] = {"conv1.", "bn1.", "layer", "fc.", "linear.", NULL};

const model_kind model_resnet20 = {
    .name = "resnet20",
    .text = "ResNet-20 for small images",
    .model_type = "yoke-resnet",
    .layers = layers,
    .numbered = "layer#.#.",
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
    .model_type = "yoke-resnet",
    .layers = layers,
    .numbered = "layer#.#.",
    .input = MODEL_IMAGES,
    .net_size = sizeof(resnet),
    .blocks = true,
    .build = resnet32_build,
    .part = resnet_part,
    .flops = resnet_flops,
};
const model_kind model_resnet18 = {
    .name = "resnet18",
    .text = "ResNet-18 with a 7x7 stem, names as torchvision's",
    .model_type = "yoke-resnet",
    .layers = layers,
    .numbered = "layer#.#.",
    .input = MODEL_IMAGES,
    .net_size = sizeof(resnet),
    .blocks = true,
    .build = resnet18_build,
    .part = resnet_part,
    .flops = resnet_flops,
};
const model_kind model_resnet50 = {
    .name = "resnet50",
    .text = "ResNet-50 with a 7x7 stem, names as torchvision's",
    .model_type = "yoke-resnet",
    .layers = layers,
    .numbered = "layer#.#.",
    .input = MODEL_IMAGES,
    .net_size = sizeof(resnet),
    .blocks = true,
    .build = resnet50_build,
    .part = resnet_part,
    .flops = resnet_flops,
};
