/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and their gradients by kernels of the GPU shape (kernels/conv_gpu.kc). No state. */
#ifndef YOKE_PLUGINS_KIT_LOWER_CONV_GPU_H
#define YOKE_PLUGINS_KIT_LOWER_CONV_GPU_H

#include "plugins/kit/lower/conv_plan.h"

/* True if the device has what this convolution needs; else its body runs. */
bool kit_conv_gpu_fits(const kit_target *target, const yk_graph *graph, const yk_node *n, const kit_conv_plan *conv);
/* Appends the launches. */
void kit_conv_gpu_lower(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv);

#endif
