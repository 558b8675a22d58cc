/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failed calls of the CUDA driver, or of a library on top of it. Maps the number to a status of plugin.h, and reports its text to the host.
 *
 * Each file of the plugin that calls the driver ends in cuda_error if a call fails, in the calling thread. An error after which the context
 * is unusable becomes YK_E_DEVICE_LOST.
 */
#include "backends/cuda/cuda_internal.h"

#include <stdarg.h>
#include <stdio.h>

/* After these the context is of no more use: the device needs a new process. */
static bool error_loses_device(CUresult code)
{
    switch ((int)code) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

static _Thread_local char last[CUDA_ERROR_BYTES];

const char *cuda_error_last(void)
{
    return last;
}

void cuda_error_forget(void)
{
    *last = 0;
}

yk_status cuda_error_say(yk_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(last, sizeof last, format, list);
    va_end(list);
    cuda_host->fail(CUDA_WHO, "%s", last);
    return status;
}

yk_status cuda_error_library(const yk_device *dev, yk_status status, const char *what, const char *library, const char *words, int code)
{
    const CUresult lost = status == YK_E_MEM ? CUDA_SUCCESS : cuda.event_query(dev->origin);
    return lost ? cuda_error(lost, what) : cuda_error_say(status, "%s: %s: %s (%d)", what, library, words, code);
}

yk_status cuda_error(CUresult code, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (cuda.error_name(code, &name) || !name)
        name = "an error of CUDA without a name";
    if (cuda.error_text(code, &text) || !text)
        text = "";
    snprintf(last, sizeof last, "%s: %s (%d)%s%s", what, name, (int)code, *text ? ", " : "", text);
    cuda_host->fail(CUDA_WHO, "%s", last);
    if ((int)code == CUDA_ERROR_OUT_OF_MEMORY)
        return YK_E_MEM;
    return error_loses_device(code) ? YK_E_DEVICE_LOST : YK_E_INTERNAL;
}
