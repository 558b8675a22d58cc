/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of cuDNN for a device: of shapes, of two kinds (cuda_attention.c, conv_request.c). A shape is planned once for each device;
 * the kit's kernels compute a shape that cuDNN refuses.
 */
#ifndef YOKE_BACKENDS_CUDA_DNN_H
#define YOKE_BACKENDS_CUDA_DNN_H

#include "backends/cuda/cuda_internal.h"
#include "backends/cuda/dnn_graph.h"

#define CUDA_DNN_GIVEN 16 /* most arguments of a run */
#define CUDA_DNN_TEXT 160

/* Arguments of a run: memory, and numbers, which lie in `number` until it is enqueued. */
typedef struct cuda_dnn_given {
    int64_t n, uid[CUDA_DNN_GIVEN];
    void *memory[CUDA_DNN_GIVEN], *workspace;
    float number[3];
} cuda_dnn_given;

typedef struct cuda_dnn_kind {
    const char *name; /* for messages */
    size_t bytes;     /* size of a shape */
    void (*build)(cuda_dnn_graph *graph, const void *shape);
    cuda_dnn_limits (*limit)(const yk_device *dev, const void *shape);
    void (*give)(const void *shape, const CUdeviceptr *at, cuda_dnn_given *given); /* at: the launch's arguments, in order */
    void (*write)(const void *shape, char text[CUDA_DNN_TEXT]);
} cuda_dnn_kind;

/* As kit_target's questions; any thread. */
bool cuda_dnn_take(yk_device *dev, const cuda_dnn_kind *kind, const void *shape, uint64_t *scratch);
/* The plan of a shape that was taken. */
const cuda_dnn_plan *cuda_dnn_of(yk_device *dev, const cuda_dnn_kind *kind, const void *shape);

#endif
