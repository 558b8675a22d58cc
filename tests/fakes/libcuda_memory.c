/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's memory: of devices, at addresses that mean nothing on the host, and of the host, page-locked or registered. */
#define _GNU_SOURCE
#include "tests/fakes/libcuda_memory.h"

#include <stdlib.h>
#include <string.h>

/* A piece of memory: of a device (address with the tag), or of the host's (page-locked, registered). */
typedef struct piece {
    struct piece *next;
    uint64_t address;
    size_t bytes;
    bool on_device, own; /* own: of the host's, allocated here */
    void *memory;        /* a device's memory: its address, for a leak checker, which does not know the tag */
    CUcontext context;
} piece;

static piece *pieces; /* under the lock */

char *fake_host(CUdeviceptr address)
{
    return (char *)(uintptr_t)(address & ~FAKE_TAG);
}

static piece *piece_find(uint64_t address, size_t bytes, bool on_device)
{
    for (piece *p = pieces; p; p = p->next)
        if (p->on_device == on_device && address >= p->address && address - p->address <= p->bytes &&
            bytes <= p->bytes - (address - p->address))
            return p;
    return NULL;
}

bool fake_memory_covers(CUdeviceptr address, size_t bytes)
{
    return piece_find(address, bytes, true) != NULL;
}

bool fake_is_pinned(const void *memory, size_t bytes)
{
    return piece_find((uint64_t)(uintptr_t)memory, bytes, false) != NULL;
}

static void piece_add(piece p)
{
    piece *own = malloc(sizeof *own);
    *own = p;
    own->next = pieces;
    pieces = own;
}

/* Takes the piece that begins there off the list; a zero one if there is none. */
static piece piece_take(uint64_t address, bool on_device)
{
    piece found = {.bytes = 0};
    for (piece **at = &pieces; *at; at = &(*at)->next)
        if ((*at)->address == address && (*at)->on_device == on_device) {
            piece *p = *at;
            found = *p;
            *at = p->next;
            free(p);
            break;
        }
    return found;
}

uint64_t fake_memory_count(void)
{
    uint64_t n = 0;
    for (const piece *p = pieces; p; p = p->next)
        n++;
    return n;
}

void fake_memory_end(CUcontext context)
{
    for (piece **at = &pieces; *at;) {
        piece *p = *at;
        if (p->on_device && p->context == context) {
            *at = p->next;
            free(fake_host(p->address));
            free(p);
            fake.abandoned++;
        } else {
            at = &p->next;
        }
    }
    context->used = 0;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    *free_bytes = context->memory - context->used;
    *total_bytes = context->memory;
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes)
{
    CUcontext context;
    void *own = NULL;
    CUresult rc = fake_call_begin(&context);
    if (rc || !bytes)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    if (bytes > context->memory - context->used || posix_memalign(&own, 512, bytes)) {
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        memset(own, 0xa5, bytes);
        context->used += bytes;
        *memory = (uint64_t)(uintptr_t)own | FAKE_TAG;
        piece_add((piece){.address = *memory, .bytes = bytes, .on_device = true, .memory = own, .context = context});
    }
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

/* A failing call still frees: a driver asked to free only reports earlier failures. */
CUresult cuMemFree_v2(CUdeviceptr memory)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    pthread_mutex_lock(&fake.lock);
    if (context)
        fake_context_settle(context); /* as the driver does */
    const piece p = piece_take(memory, true);
    if (p.bytes) {
        p.context->used -= p.bytes;
        free(fake_host(p.address));
    }
    pthread_mutex_unlock(&fake.lock);
    return rc ? rc : p.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    CUcontext context;
    CUresult rc = fake_call_begin(&context);
    (void)flags;
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    if (posix_memalign(memory, 4096, bytes))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    else
        piece_add((piece){.address = (uint64_t)(uintptr_t)*memory, .bytes = bytes, .own = true});
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

CUresult cuMemFreeHost(void *memory)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    pthread_mutex_lock(&fake.lock);
    const piece p = piece_take((uint64_t)(uintptr_t)memory, false);
    pthread_mutex_unlock(&fake.lock);
    if (p.own)
        free(memory);
    return rc ? rc : p.own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    CUcontext context;
    CUresult rc = fake_call_begin(&context);
    (void)flags;
    if (rc || !memory || !bytes)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    if (fake_is_pinned(memory, bytes))
        rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else
        piece_add((piece){.address = (uint64_t)(uintptr_t)memory, .bytes = bytes});
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

CUresult cuMemHostUnregister(void *memory)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    pthread_mutex_lock(&fake.lock);
    const piece p = piece_take((uint64_t)(uintptr_t)memory, false);
    pthread_mutex_unlock(&fake.lock);
    return rc ? rc : p.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
