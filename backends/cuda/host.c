/* SPDX-License-Identifier: Apache-2.0 */
/* What all parts share and nothing below them: the host's table, its memory, time, and the texts of failed calls. */
#include "backends/cuda/internal.h"

#include <stdio.h>
#include <time.h>

const yk_host *cuda_host;

void *cuda_alloc(size_t bytes)
{
    void *p = cuda_host->alloc(bytes ? bytes : 1, 64);
    if (p)
        memset(p, 0, bytes);
    else
        cuda_host->fail(CUDA_WHO, "out of memory: %zu bytes", bytes);
    return p;
}

void cuda_free(void *p)
{
    if (p)
        cuda_host->free(p);
}

uint64_t cuda_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *cuda_option(const char *key)
{
    const char *value = cuda_host->option(CUDA_WHO, key);
    return value && *value ? value : NULL;
}

/* After these the context is of no more use: whoever wants the device again needs a new process. */
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
