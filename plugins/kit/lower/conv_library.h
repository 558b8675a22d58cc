/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and their gradients by a library of the vendor's. No state. */
#ifndef YOKE_PLUGINS_KIT_LOWER_CONV_LIBRARY_H
#define YOKE_PLUGINS_KIT_LOWER_CONV_LIBRARY_H

#include "plugins/kit/lower/conv_plan.h"

/* Adds the library's launch. False if nothing was added; the kit's kernels must then compute it. */
bool kit_conv_by_library(kit_lowering *ctx, const yk_node *n, const kit_conv_plan *conv);

#endif
