/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a graph of cuDNN's operations. */
#ifndef YOKE_BACKENDS_CUDA_FLASH_H
#define YOKE_BACKENDS_CUDA_FLASH_H

#include "backends/cuda/dnn_graph.h"

/* Arguments of a run: memory, and numbers. */
enum { CUDA_AT_Q = 1, CUDA_AT_K, CUDA_AT_V, CUDA_AT_OUT, CUDA_AT_LSE, CUDA_AT_GOUT, CUDA_AT_GQ, CUDA_AT_GK, CUDA_AT_GV, CUDA_AT_DELTA,
       CUDA_AT_SCALE, CUDA_AT_ONE, CUDA_AT_LOWEST, CUDA_ATS };

void cuda_flash_forward(cuda_dnn_graph *f, const kit_attention *a);
void cuda_flash_backward(cuda_dnn_graph *f, const kit_attention *a);

#endif
