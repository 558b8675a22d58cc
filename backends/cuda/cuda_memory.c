/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory, and host memory that the driver may read and write by itself. The host calls it through the table in cuda_plugin.c, in the
 * step thread; cuda_program.c allocates for a program by cuda_memory_alloc. Sizes are bytes.
 *
 * Memory that was registered before (by another device of ours, by another library) serves as it is. Registration is of the process, not of
 * a device.
 */
#include "backends/cuda/cuda_internal.h"

#include <stdio.h>

#include "plugins/kit/drain.h"

yk_status cuda_memory_alloc(yk_device *dev, uint64_t bytes, CUdeviceptr *memory)
{
    char what[120];
    size_t left = 0, total = 0;
    (void)dev;
    *memory = 0;
    CUresult rc = bytes ? cuda.memory_alloc(memory, bytes) : CUDA_SUCCESS;
    if (!rc)
        return YK_OK;
    *memory = 0;
    if ((int)rc == CUDA_ERROR_OUT_OF_MEMORY && !cuda.memory_info(&left, &total))
        snprintf(what, sizeof what, "device memory of %llu bytes; %zu of %zu are free", (unsigned long long)bytes, left, total);
    else
        snprintf(what, sizeof what, "device memory of %llu bytes", (unsigned long long)bytes);
    return cuda_error(rc, what);
}

yk_status cuda_buffer_new(yk_device *dev, const yk_buffer_desc *desc, yk_buffer **out)
{
    yk_status s = YK_OK;
    yk_buffer *b = cuda_alloc(sizeof *b);
    if (!b)
        return YK_E_MEM;
    b->dev = dev;
    b->bytes = desc->bytes;
    if (cuda_enter(dev, &s)) {
        s = cuda_memory_alloc(dev, desc->bytes, &b->memory);
        cuda_leave();
    }
    if (s)
        cuda_free(b);
    else
        *out = b;
    return s;
}

/* A device that is lost refuses to free; its context takes all with it. */
void cuda_buffer_free(yk_buffer *b)
{
    yk_status s;
    if (!b)
        return;
    if (atomic_load(&b->dev->left_behind)) {
        kit_leave(b);
        return;
    }
    if (b->memory && cuda_enter(b->dev, &s)) {
        cuda.memory_free(b->memory);
        cuda_leave();
    }
    cuda_free(b);
}

yk_status cuda_host_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **out)
{
    yk_status s = YK_OK;
    yk_pin *pin = cuda_alloc(sizeof *pin);
    if (!pin)
        return YK_E_MEM;
    pin->dev = dev;
    pin->memory = memory;
    if (cuda_enter(dev, &s)) {
        const CUresult rc = cuda.host_register(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
        pin->shared = (int)rc == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        s = rc && !pin->shared ? cuda_error(rc, "registering host memory") : YK_OK;
        cuda_leave();
    }
    if (s)
        cuda_free(pin);
    else
        *out = pin;
    return s;
}

void cuda_host_unpin(yk_pin *pin)
{
    yk_status s;
    const bool entered = !pin->shared && cuda_enter(pin->dev, &s);
    if (!pin->shared)
        cuda.host_unregister(pin->memory); /* it is of the process: another context than ours will do */
    if (entered)
        cuda_leave();
    cuda_free(pin);
}
