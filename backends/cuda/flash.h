/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as a graph of cuDNN's operations, and the plan that cuDNN makes of it. One thread per object; the device's context is
 * current. What is made is kept until cuda_flash_free.
 */
#ifndef YOKE_BACKENDS_CUDA_FLASH_H
#define YOKE_BACKENDS_CUDA_FLASH_H

#include "backends/cuda/cudnn.h"
#include "plugins/kit/program.h"

#define CUDA_FLASH_MADE 128   /* descriptors of one plan, at most */
#define CUDA_FLASH_OPS 24     /* operations of a graph */
#define CUDA_FLASH_ENGINES 8  /* of cuDNN's that are tried, in its order */
#define CUDA_FLASH_ALIGN 16   /* bytes that each operand's place is a multiple of */

/* What a run is given: memory, and numbers. */
enum { CUDA_AT_Q = 1, CUDA_AT_K, CUDA_AT_V, CUDA_AT_OUT, CUDA_AT_LSE, CUDA_AT_GOUT, CUDA_AT_GQ, CUDA_AT_GK, CUDA_AT_GV, CUDA_AT_DELTA,
       CUDA_AT_SCALE, CUDA_AT_ONE, CUDA_AT_LOWEST, CUDA_ATS };

typedef struct cuda_flash {
    const cuda_cudnn *dnn;
    cudnnStatus_t rc; /* of the first call that failed */
    void *made[CUDA_FLASH_MADE], *op[CUDA_FLASH_OPS];
    int n_made, n_op;
} cuda_flash;

void cuda_flash_forward(cuda_flash *f, const kit_attention *a);
void cuda_flash_backward(cuda_flash *f, const kit_attention *a);
/* The plan of the operations, and the bytes of memory that it works in. NULL: f->rc says why. */
void *cuda_flash_plan(cuda_flash *f, cudnnHandle_t handle, int64_t *workspace);
void cuda_flash_free(cuda_flash *f);

#endif
