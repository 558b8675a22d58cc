/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a cuDNN graph: makes its descriptors, and chooses one of its engines. flash.c (attention) and cudnn_conv.c (convolutions)
 * build their graphs with it. dnn.c then asks for the plan under the device's lock, while a program is made, in any thread.
 *
 * g->rc keeps the first failure, and later calls then do nothing; cuda_dnn_plan_new clears it for each engine. dnn.c logs cuDNN's words.
 */
#include "backends/cuda/dnn_graph.h"

#define NOTES 16 /* most notes of an engine that are read */

/* ---- Descriptors ---- */

void *cuda_dnn_new(cuda_dnn_graph *g, cudnnBackendDescriptorType_t type)
{
    void *d = NULL;
    if (!g->rc && g->n_made == CUDA_DNN_MADE)
        g->rc = CUDNN_STATUS_INTERNAL_ERROR;
    if (!g->rc)
        g->rc = g->dnn->descriptor_new(type, &d);
    if (!g->rc)
        g->made[g->n_made++] = d;
    return d;
}

void cuda_dnn_set(cuda_dnn_graph *g, void *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                  const void *value)
{
    if (!g->rc)
        g->rc = g->dnn->attribute_set(d, name, type, n, value);
}

void cuda_dnn_number(cuda_dnn_graph *g, void *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int value)
{
    cuda_dnn_set(g, d, name, type, 1, &value);
}

void cuda_dnn_link(cuda_dnn_graph *g, void *d, cudnnBackendAttributeName_t name, void *to)
{
    cuda_dnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

void cuda_dnn_end(cuda_dnn_graph *g, void *d)
{
    if (!g->rc)
        g->rc = g->dnn->descriptor_end(d);
}

void *cuda_dnn_tensor(cuda_dnn_graph *g, cudnnDataType_t type, const cuda_shape *s, int64_t uid, int is_virtual, int is_value)
{
    void *d = cuda_dnn_new(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t align = CUDA_DNN_ALIGN;
    const uint8_t yes = 1;
    cuda_dnn_number(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, s->dim);
    cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, s->stride);
    cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (is_virtual)
        cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (is_value)
        cuda_dnn_set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    cuda_dnn_end(g, d);
    return d;
}

void cuda_dnn_operation(cuda_dnn_graph *g, void *d)
{
    cuda_dnn_end(g, d);
    if (!g->rc && g->n_op == CUDA_DNN_OPS)
        g->rc = CUDNN_STATUS_INTERNAL_ERROR; /* the plugin builds no graph with so many */
    if (!g->rc)
        g->op[g->n_op++] = d;
}

cuda_shape cuda_shape_dense(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (cuda_shape){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

cudnnDataType_t cuda_dnn_type(uint32_t dtype)
{
    return dtype == YK_F32 ? CUDNN_DATA_FLOAT : dtype == YK_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

/* ---- Plans ---- */

/* True if none of the engine's notes is refused. */
static bool notes_allow(const cuda_cudnn *dnn, void *engine, uint32_t refused)
{
    int note[NOTES];
    int64_t n = 0;
    if (dnn->attribute_get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &n, note))
        return false;
    for (int64_t i = 0; i < n && i < NOTES; i++)
        if (note[i] >= 0 && note[i] < 32 && refused >> note[i] & 1)
            return false;
    return true;
}

/* A call that fails here excludes one engine; g->rc stays clear, so another engine may make the plan. */
static bool engine_allowed(const cuda_cudnn *dnn, void *config, uint32_t refused)
{
    void *engine = NULL;
    int64_t n = 0;
    if (!refused)
        return true;
    if (dnn->descriptor_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine))
        return false;
    const bool allowed = !dnn->attribute_get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) &&
                         notes_allow(dnn, engine, refused);
    dnn->descriptor_free(engine);
    return allowed;
}

/* NULL if this engine cannot make a plan. */
static void *plan_of(cuda_dnn_graph *g, cudnnHandle_t handle, void *config, int64_t most, int64_t *workspace)
{
    int64_t got = 0;
    g->rc = CUDNN_STATUS_SUCCESS;
    void *d = cuda_dnn_new(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    cuda_dnn_set(g, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    cuda_dnn_link(g, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    cuda_dnn_end(g, d);
    if (!g->rc)
        g->rc = g->dnn->attribute_get(d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, workspace);
    if (!g->rc && (*workspace < 0 || *workspace > most))
        g->rc = CUDNN_STATUS_NOT_SUPPORTED;
    return g->rc ? NULL : d;
}

/* Fills config with cuDNN's proposals, the best first, and returns their number. */
static int64_t engines_list(cuda_dnn_graph *g, cudnnHandle_t handle, int64_t most, void *config[CUDA_DNN_ENGINES])
{
    void *graph = cuda_dnn_new(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    int64_t n = 0;
    cuda_dnn_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    cuda_dnn_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_op, g->op);
    cuda_dnn_end(g, graph);
    void *choice = cuda_dnn_new(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cuda_dnn_link(g, choice, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    cuda_dnn_number(g, choice, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    cuda_dnn_end(g, choice);
    for (int64_t i = 0; i < most; i++)
        config[i] = cuda_dnn_new(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!g->rc)
        g->rc = g->dnn->attribute_get(choice, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &n, config);
    return g->rc ? 0 : n < most ? n : most;
}

void *cuda_dnn_plan_new(cuda_dnn_graph *g, cudnnHandle_t handle, const cuda_dnn_limits *limits, int64_t *workspace)
{
    void *config[CUDA_DNN_ENGINES], *plan = NULL;
    const int64_t n = engines_list(g, handle, limits->engines, config);
    if (!g->rc)
        g->rc = CUDNN_STATUS_NOT_SUPPORTED; /* until there is one */
    for (int64_t i = 0; i < n && !plan; i++)
        if (engine_allowed(g->dnn, config[i], limits->refused))
            plan = plan_of(g, handle, config[i], limits->workspace, workspace);
    return plan;
}

void cuda_dnn_graph_free(cuda_dnn_graph *g)
{
    while (g->n_made)
        g->dnn->descriptor_free(g->made[--g->n_made]);
    g->n_op = 0;
}
