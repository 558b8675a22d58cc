/* SPDX-License-Identifier: Apache-2.0 */
/* Which family of kernels a device gets, and why; see shape.c. */
#ifndef YOKE_BACKENDS_OPENCL_SHAPE_H
#define YOKE_BACKENDS_OPENCL_SHAPE_H

#include "backends/opencl/ocl.h"

typedef struct ocl_shape {
    bool cpu;     /* the CPU shape */
    char why[48]; /* for reports */
} ocl_shape;

/*
 * Compiles and runs kernels unless the answer is known; key: of what an answer depends on, 0: none is kept. The drivers are
 * loaded, signal handlers are saved by the caller. YK_E_UNSUPPORTED: the option asks for what the device cannot do.
 */
yk_status ocl_shape_choose(cl_device_id id, uint64_t key, ocl_shape *out);

#endif
