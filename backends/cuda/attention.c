/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by cuDNN (flash.c): its shape is planned once for each device, and what cuDNN refuses the kit's kernels compute. A plan is
 * some tenths of a second of cuDNN's compiler. The handle has the stream that is enqueued on, so one attention is enqueued at a time.
 */
#include "backends/cuda/flash.h"
#include "backends/cuda/internal.h"

#include <math.h>
#include <stdio.h>

#include "plugins/kit/emit.h"

struct cuda_attention {
    cuda_attention *next;
    kit_attention shape;
    bool is_taken;
    cuda_flash flash;
    void *plan;
    int64_t workspace;
};

/* ---- Plans; under the device's lock ---- */

static void attention_plan(yk_device *dev, cuda_attention *a)
{
    const kit_attention *k = &a->shape;
    a->flash.dnn = dev->attentions.dnn;
    (k->backward ? cuda_flash_backward : cuda_flash_forward)(&a->flash, k);
    a->plan = cuda_flash_plan(&a->flash, dev->attentions.handle, &a->workspace);
    a->is_taken = a->plan && a->workspace >= 0;
    cuda_host->log(3, CUDA_WHO, "attention%s [%lld,%lld,%lld,%lld] of %s: %sby cuDNN%s%s%s", k->backward ? "'s gradients" : "",
                   (long long)k->batch, (long long)k->heads, (long long)k->queries, (long long)k->size, kit_type(k->dtype),
                   a->is_taken ? "" : "not ", a->is_taken ? "" : " (", a->is_taken ? "" : a->flash.dnn->status_text(a->flash.rc),
                   a->is_taken ? "" : "); the plugin's own kernels compute it");
    if (!a->is_taken)
        cuda_flash_free(&a->flash);
}

/* False: cuDNN is not used. The context is current. */
static bool handle_open(yk_device *dev)
{
    cuda_attentions *all = &dev->attentions;
    if (all->is_open)
        return all->handle != NULL;
    all->is_open = true;
    if (!(all->dnn = cuda_cudnn_open()))
        return false;
    const cudnnStatus_t rc = all->dnn->create(&all->handle);
    if (rc) {
        all->handle = NULL;
        cuda_host->log(1, CUDA_WHO, "cuDNN does not begin (%s): attention is computed by the plugin's own kernels, which are slower",
                       all->dnn->status_text(rc));
    }
    return !rc;
}

static cuda_attention *attention_find(const yk_device *dev, const kit_attention *shape)
{
    cuda_attention *a = dev->attentions.first;
    while (a && memcmp(&a->shape, shape, sizeof *shape))
        a = a->next;
    return a;
}

/* NULL: no memory, or no cuDNN. */
static cuda_attention *attention_new(yk_device *dev, const kit_attention *shape)
{
    yk_status s;
    cuda_attention *a = NULL;
    if (!cuda_enter(dev, &s))
        return NULL;
    if (handle_open(dev) && (a = cuda_alloc(sizeof *a)) != NULL) {
        a->shape = *shape;
        attention_plan(dev, a);
        a->next = dev->attentions.first;
        dev->attentions.first = a;
    }
    cuda_leave();
    return a;
}

bool cuda_attention_take(yk_device *dev, const kit_attention *shape, uint64_t *scratch)
{
    pthread_mutex_lock(&dev->attentions.lock);
    const cuda_attention *a = attention_find(dev, shape);
    if (!a)
        a = attention_new(dev, shape);
    pthread_mutex_unlock(&dev->attentions.lock);
    if (a)
        *scratch = (uint64_t)a->workspace;
    return a && a->is_taken;
}

const cuda_attention *cuda_attention_of(yk_device *dev, const kit_attention *shape)
{
    pthread_mutex_lock(&dev->attentions.lock);
    const cuda_attention *a = attention_find(dev, shape);
    pthread_mutex_unlock(&dev->attentions.lock);
    return a;
}

void cuda_attentions_free(yk_device *dev)
{
    cuda_attentions *all = &dev->attentions;
    for (cuda_attention *a = all->first, *next; a; a = next) {
        next = a->next;
        cuda_flash_free(&a->flash);
        cuda_free(a);
    }
    if (all->handle)
        all->dnn->destroy(all->handle);
    pthread_mutex_destroy(&all->lock);
}

/* ---- Running ---- */

/* Memory in the order of the launch's arguments; numbers lie in `number` until it is enqueued. */
static int64_t pack_fill(const cuda_attention *a, const CUdeviceptr *at, float number[3], int64_t uid[CUDA_ATS], void *memory[CUDA_ATS])
{
    static const int64_t forward[] = {CUDA_AT_Q, CUDA_AT_K, CUDA_AT_V, CUDA_AT_OUT, CUDA_AT_LSE};
    static const int64_t backward[] = {CUDA_AT_GOUT, CUDA_AT_OUT, CUDA_AT_LSE, CUDA_AT_Q, CUDA_AT_K,
                                       CUDA_AT_V, CUDA_AT_GQ, CUDA_AT_GK, CUDA_AT_GV, CUDA_AT_DELTA};
    const bool back = a->shape.backward;
    const int64_t count = (int64_t)(back ? sizeof backward : sizeof forward) / (int64_t)sizeof *forward;
    int64_t n = 0;
    for (; n < count; n++) {
        uid[n] = back ? backward[n] : forward[n];
        memory[n] = (void *)(uintptr_t)at[n];
    }
    number[0] = a->shape.scale, number[1] = 1, number[2] = -INFINITY;
    uid[n] = CUDA_AT_SCALE, memory[n++] = &number[0];
    if (back)
        uid[n] = CUDA_AT_ONE, memory[n++] = &number[1];
    if (a->shape.causal)
        uid[n] = CUDA_AT_LOWEST, memory[n++] = &number[2];
    return n;
}

/* Under the lock. */
static cudnnStatus_t attention_enqueue(const yk_device *dev, const cuda_attention *a, const CUdeviceptr *at, CUstream stream)
{
    const cuda_cudnn *dnn = dev->attentions.dnn;
    float number[3];
    int64_t uid[CUDA_ATS];
    void *memory[CUDA_ATS], *pack = NULL, *workspace = (void *)(uintptr_t)at[a->shape.backward ? 10 : 5];
    const int64_t n = pack_fill(a, at, number, uid, memory);
    cudnnStatus_t rc = dnn->descriptor_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (rc)
        return rc;
    rc = dnn->attribute_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uid);
    if (!rc)
        rc = dnn->attribute_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, memory);
    if (!rc)
        rc = dnn->attribute_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!rc)
        rc = dnn->descriptor_end(pack);
    if (!rc)
        rc = dnn->stream_set(dev->attentions.handle, (cudaStream_t)stream);
    if (!rc)
        rc = dnn->execute(dev->attentions.handle, a->plan, pack);
    dnn->descriptor_free(pack);
    return rc;
}

yk_status cuda_attention_run(yk_device *dev, const cuda_attention *a, const CUdeviceptr at[CUDA_LIBRARY_ARGS], uint32_t node,
                             CUstream stream)
{
    pthread_mutex_lock(&dev->attentions.lock);
    const cudnnStatus_t rc = attention_enqueue(dev, a, at, stream);
    pthread_mutex_unlock(&dev->attentions.lock);
    if (!rc)
        return YK_OK;
    char what[100];
    snprintf(what, sizeof what, "node %u, an attention", node);
    return cuda_error_library(dev, YK_E_INTERNAL, what, "cuDNN", dev->attentions.dnn->status_text(rc), (int)rc);
}
