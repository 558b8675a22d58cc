/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by cuDNN: the kit's request (flash.c has the graph), and the arguments of a run. The kit asks while a program is made, in any
 * thread; cuda_program.c enqueues the plan. cuda_attention_take returns false if cuDNN is absent or refuses: the kit's kernels compute it
 * then.
 */
#include "backends/cuda/dnn.h"
#include "backends/cuda/flash.h"

#include <math.h>
#include <stdio.h>

#include "plugins/kit/emit.h"

#define ENGINES 8 /* most engines of cuDNN that are tried, in its order */

static void attention_build(cuda_dnn_graph *graph, const void *shape)
{
    const kit_attention *a = shape;
    (a->backward ? cuda_flash_backward : cuda_flash_forward)(graph, a);
}

/* Any workspace is allowed, as no matrix of scores lies in it. The graph itself fixes the order of sums (flash.c). */
static cuda_dnn_limits attention_limit(const yk_device *dev, const void *shape)
{
    (void)dev, (void)shape;
    return (cuda_dnn_limits){.engines = ENGINES, .workspace = INT64_MAX};
}

static void attention_write(const void *shape, char text[CUDA_DNN_TEXT])
{
    const kit_attention *a = shape;
    snprintf(text, CUDA_DNN_TEXT, "attention%s [%lld,%lld,%lld,%lld] of %s", a->backward ? "'s gradients" : "", (long long)a->batch,
             (long long)a->heads, (long long)a->queries, (long long)a->size, kit_type(a->dtype));
}

static void memory_give(cuda_dnn_given *g, int64_t uid, void *memory)
{
    g->uid[g->n] = uid;
    g->memory[g->n++] = memory;
}

static void attention_give(const void *shape, const CUdeviceptr *at, cuda_dnn_given *g)
{
    static const int64_t forward[] = {CUDA_AT_Q, CUDA_AT_K, CUDA_AT_V, CUDA_AT_OUT, CUDA_AT_LSE};
    static const int64_t backward[] = {CUDA_AT_GOUT, CUDA_AT_OUT, CUDA_AT_LSE, CUDA_AT_Q, CUDA_AT_K,
                                       CUDA_AT_V, CUDA_AT_GQ, CUDA_AT_GK, CUDA_AT_GV, CUDA_AT_DELTA};
    const kit_attention *a = shape;
    const size_t count = (a->backward ? sizeof backward : sizeof forward) / sizeof *forward;
    for (size_t i = 0; i < count; i++)
        memory_give(g, a->backward ? backward[i] : forward[i], (void *)(uintptr_t)at[i]);
    g->workspace = (void *)(uintptr_t)at[count];
    g->number[0] = a->scale, g->number[1] = 1, g->number[2] = -INFINITY;
    memory_give(g, CUDA_AT_SCALE, &g->number[0]);
    if (a->backward)
        memory_give(g, CUDA_AT_ONE, &g->number[1]);
    if (a->causal)
        memory_give(g, CUDA_AT_LOWEST, &g->number[2]);
}

static const cuda_dnn_kind attention = {"an attention", sizeof(kit_attention), attention_build, attention_limit,
                                        attention_give, attention_write};

bool cuda_attention_take(yk_device *dev, const kit_attention *shape, uint64_t *scratch)
{
    return cuda_dnn_take(dev, &attention, shape, scratch);
}

const cuda_dnn_plan *cuda_attention_of(yk_device *dev, const kit_attention *shape)
{
    return cuda_dnn_of(dev, &attention, shape);
}
