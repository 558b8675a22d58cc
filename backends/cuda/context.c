/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a device's context current on this thread, for calls of the driver. The functions that the host calls bracket such calls with
 * cuda_enter and cuda_leave. memory_free_now (cuda_list.c) and span_read (cuda_queue.c) push a context by themselves. cuda_build.c and
 * cuda_profile.c are called inside a bracket. Each cuda_enter that returned true needs one cuda_leave on the same thread. After a failed
 * one *s has the error, and there is nothing to leave.
 */
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
