/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by cuDNN: the kit's request (cudnn_conv.c has the graph), the engines that may be chosen, and the arguments of a run. The
 * kit asks while a program is made, in any thread; cuda_program.c enqueues the plan.
 *
 * Refused engines: sums without a fixed order; operands or sums rounded to less than the request; other computations than sums of products
 * (Winograd, FFT). To cuDNN a tensor core's engine of f32 is one of TF32, which is used on request alone (YOKE_CUDA_TF32=1), as in
 * products.
 */
#include "backends/cuda/cudnn_conv.h"
#include "backends/cuda/dnn.h"

#include <stdio.h>

#include "plugins/kit/emit.h"

#define WORKSPACE_MOST (1ull << 30) /* bytes, */
#define WORKSPACE_SHARE 32          /* and one in so many of the device's memory: copies of both large operands */
#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static void convolution_build(cuda_dnn_graph *graph, const void *shape)
{
    cuda_conv_build(graph, shape);
}

static cuda_dnn_limits convolution_limit(const yk_device *dev, const void *shape)
{
    const kit_convolution *c = shape;
    const uint64_t share = dev->target.memory / WORKSPACE_SHARE, most = share && share < WORKSPACE_MOST ? share : WORKSPACE_MOST;
    const uint32_t rounds = c->dtype == YK_F32 && !dev->tf32 ? NOTE(TENSOR_CORE) : 0;
    return (cuda_dnn_limits){.engines = CUDA_DNN_ENGINES,
                             .workspace = (int64_t)most,
                             .refused = NOTE(NONDETERMINISTIC) | NOTE(DOWN_CONVERT_INPUTS) | NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(FFT) |
                                        NOTE(WINOGRAD) | rounds};
}

static void convolution_write(const void *shape, char text[CUDA_DNN_TEXT])
{
    static const char *const of[] = {"", ", the gradient of its input", ", the gradient of its filter"};
    const kit_convolution *c = shape;
    snprintf(text, CUDA_DNN_TEXT, "a convolution [%lld,%lld,%lld,%lld] x [%lld,%lld,%lld,%lld] of %s%s", (long long)c->images,
             (long long)c->channels, (long long)c->height, (long long)c->width, (long long)c->filters,
             (long long)(c->channels / c->groups), (long long)c->tall, (long long)c->wide, kit_type(c->dtype), of[c->kind]);
}

static void convolution_give(const void *shape, const CUdeviceptr *at, cuda_dnn_given *g)
{
    static const int64_t uid[][3] = {[KIT_CONV_FORWARD] = {CUDA_CONV_X, CUDA_CONV_W, CUDA_CONV_Y},
                                     [KIT_CONV_DATA] = {CUDA_CONV_Y, CUDA_CONV_W, CUDA_CONV_X},
                                     [KIT_CONV_FILTER] = {CUDA_CONV_Y, CUDA_CONV_X, CUDA_CONV_W}};
    const kit_convolution *c = shape;
    for (g->n = 0; g->n < 3; g->n++) {
        g->uid[g->n] = uid[c->kind][g->n];
        g->memory[g->n] = (void *)(uintptr_t)at[g->n];
    }
    g->workspace = (void *)(uintptr_t)at[3];
}

static const cuda_dnn_kind convolution = {"a convolution", sizeof(kit_convolution), convolution_build, convolution_limit,
                                          convolution_give, convolution_write};

bool cuda_convolution_take(yk_device *dev, const kit_convolution *shape, uint64_t *scratch)
{
    return cuda_dnn_take(dev, &convolution, shape, scratch);
}

const cuda_dnn_plan *cuda_convolution_of(yk_device *dev, const kit_convolution *shape)
{
    return cuda_dnn_of(dev, &convolution, shape);
}
