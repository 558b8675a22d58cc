/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's handle of cuDNN and its plans, one for each shape: made, found, enqueued. cuda_attention.c and conv_request.c ask for plans,
 * in any thread; cuda_program.c enqueues them.
 *
 * A plan may take some tenths of a second of cuDNN's compiler. The handle has one stream, so a lock lets one caller enqueue at a time.
 */
#include "backends/cuda/dnn.h"

#include <stdio.h>

struct cuda_dnn_plan {
    cuda_dnn_plan *next;
    const cuda_dnn_kind *kind;
    union {
        kit_attention attention;
        kit_convolution convolution;
    } shape;
    bool is_taken;
    cuda_dnn_graph graph;
    void *plan;
    int64_t workspace;
};

/* ---- Plans; under the device's lock ---- */

static void plan_make(yk_device *dev, cuda_dnn_plan *p)
{
    char text[CUDA_DNN_TEXT];
    const cuda_dnn_limits limits = p->kind->limit(dev, &p->shape);
    p->graph.dnn = dev->dnn.library;
    p->kind->build(&p->graph, &p->shape);
    p->plan = cuda_dnn_plan_new(&p->graph, dev->dnn.handle, &limits, &p->workspace);
    p->is_taken = p->plan != NULL;
    p->kind->write(&p->shape, text);
    if (p->is_taken) {
        cuda_host->log(3, CUDA_WHO, "%s: by cuDNN, %lld bytes of workspace", text, (long long)p->workspace);
        return;
    }
    cuda_host->log(3, CUDA_WHO, "%s: not by cuDNN (%s); the plugin's own kernels compute it", text,
                   p->graph.dnn->status_text(p->graph.rc));
    cuda_dnn_graph_free(&p->graph);
}

/* False: cuDNN is not used. The context is current. */
static bool handle_open(yk_device *dev)
{
    cuda_dnn *all = &dev->dnn;
    if (all->is_open)
        return all->handle != NULL;
    all->is_open = true;
    if (!(all->library = cuda_cudnn_open()))
        return false;
    const cudnnStatus_t rc = all->library->create(&all->handle);
    if (rc) {
        all->handle = NULL;
        cuda_host->log(1, CUDA_WHO, "cuDNN does not begin (%s): attention and convolutions are computed by the plugin's own kernels, which "
                       "are slower", all->library->status_text(rc));
    }
    return !rc;
}

static cuda_dnn_plan *plan_find(const yk_device *dev, const cuda_dnn_kind *kind, const void *shape)
{
    cuda_dnn_plan *p = dev->dnn.first;
    while (p && (p->kind != kind || memcmp(&p->shape, shape, kind->bytes)))
        p = p->next;
    return p;
}

/* NULL: no memory, or no cuDNN. */
static cuda_dnn_plan *plan_new(yk_device *dev, const cuda_dnn_kind *kind, const void *shape)
{
    yk_status s;
    cuda_dnn_plan *p = NULL;
    if (!cuda_enter(dev, &s))
        return NULL;
    if (handle_open(dev) && (p = cuda_alloc(sizeof *p)) != NULL) {
        p->kind = kind;
        memcpy(&p->shape, shape, kind->bytes);
        plan_make(dev, p);
        p->next = dev->dnn.first;
        dev->dnn.first = p;
    }
    cuda_leave();
    return p;
}

bool cuda_dnn_take(yk_device *dev, const cuda_dnn_kind *kind, const void *shape, uint64_t *scratch)
{
    pthread_mutex_lock(&dev->dnn.lock);
    const cuda_dnn_plan *p = plan_find(dev, kind, shape);
    if (!p)
        p = plan_new(dev, kind, shape);
    pthread_mutex_unlock(&dev->dnn.lock);
    if (p && p->is_taken)
        *scratch = (uint64_t)p->workspace;
    return p && p->is_taken;
}

const cuda_dnn_plan *cuda_dnn_of(yk_device *dev, const cuda_dnn_kind *kind, const void *shape)
{
    pthread_mutex_lock(&dev->dnn.lock);
    const cuda_dnn_plan *p = plan_find(dev, kind, shape);
    pthread_mutex_unlock(&dev->dnn.lock);
    return p;
}

void cuda_dnn_free(yk_device *dev)
{
    cuda_dnn *all = &dev->dnn;
    for (cuda_dnn_plan *p = all->first, *next; p; p = next) {
        next = p->next;
        cuda_dnn_graph_free(&p->graph);
        cuda_free(p);
    }
    if (all->handle)
        all->library->destroy(all->handle);
    pthread_mutex_destroy(&all->lock);
}

/* ---- Running ---- */

/* Under the lock. */
static cudnnStatus_t plan_enqueue(const yk_device *dev, const cuda_dnn_plan *p, const CUdeviceptr *at, CUstream stream)
{
    const cuda_cudnn *dnn = dev->dnn.library;
    cuda_dnn_given given = {.n = 0};
    void *pack = NULL;
    p->kind->give(&p->shape, at, &given);
    cudnnStatus_t rc = dnn->descriptor_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (rc)
        return rc;
    rc = dnn->attribute_set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, given.n, given.uid);
    if (!rc)
        rc = dnn->attribute_set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, given.n, given.memory);
    if (!rc)
        rc = dnn->attribute_set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &given.workspace);
    if (!rc)
        rc = dnn->descriptor_end(pack);
    if (!rc)
        rc = dnn->stream_set(dev->dnn.handle, (cudaStream_t)stream);
    if (!rc)
        rc = dnn->execute(dev->dnn.handle, p->plan, pack);
    dnn->descriptor_free(pack);
    return rc;
}

yk_status cuda_dnn_run(yk_device *dev, const cuda_dnn_plan *p, const CUdeviceptr at[CUDA_LIBRARY_ARGS], uint32_t node, CUstream stream)
{
    pthread_mutex_lock(&dev->dnn.lock);
    const cudnnStatus_t rc = plan_enqueue(dev, p, at, stream);
    pthread_mutex_unlock(&dev->dnn.lock);
    if (!rc)
        return YK_OK;
    char what[100];
    snprintf(what, sizeof what, "node %u, %s", node, p->kind->name);
    return cuda_error_library(dev, YK_E_INTERNAL, what, "cuDNN", dev->dnn.library->status_text(rc), (int)rc);
}
