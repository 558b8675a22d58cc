/* SPDX-License-Identifier: Apache-2.0 */
/* A convolution, or one of its gradients, as a graph of one of cuDNN's operations. */
#ifndef YOKE_BACKENDS_CUDA_CUDNN_CONV_H
#define YOKE_BACKENDS_CUDA_CUDNN_CONV_H

#include "backends/cuda/dnn_graph.h"

/* Arguments of a run; a gradient stands in place of its operand. */
enum { CUDA_CONV_X = 1, CUDA_CONV_W, CUDA_CONV_Y };

void cuda_conv_build(cuda_dnn_graph *graph, const kit_convolution *c);

#endif
