/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel family of a device, and the reason; see cl_shape.c. */
#ifndef YOKE_BACKENDS_OPENCL_CL_SHAPE_H
#define YOKE_BACKENDS_OPENCL_CL_SHAPE_H

#include "backends/opencl/ocl.h"

typedef struct ocl_shape {
    bool cpu;     /* the CPU shape */
    char why[48]; /* reason, for reports */
} ocl_shape;

/*
 * Compiles and runs kernels unless the answer is stored; key: hash of everything that an answer depends on, 0: store nothing. The caller
 * has loaded the drivers and saved signal handlers. YK_E_UNSUPPORTED if the option requests what the device cannot do.
 */
yk_status ocl_shape_choose(cl_device_id id, uint64_t key, ocl_shape *out);

#endif
