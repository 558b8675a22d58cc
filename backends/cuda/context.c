/* SPDX-License-Identifier: Apache-2.0 */
/* The device's context as this thread's, for calls of the driver. */
#include "backends/cuda/cuda_internal.h"

bool cuda_enter(const yk_device *dev, yk_status *s)
{
    const CUresult rc = cuda.context_push(dev->context);
    if (rc)
        *s = cuda_error(rc, "using the device's context");
    return !rc;
}

void cuda_leave(void)
{
    CUcontext own;
    cuda.context_pop(&own);
}
