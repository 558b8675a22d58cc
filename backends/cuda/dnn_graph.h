/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph of cuDNN's operations under construction, of descriptors and their attributes, and the plan that cuDNN makes of it. One thread
 * per object; the device's context is current. Descriptors are kept until cuda_dnn_graph_free. After a failure nothing more is asked for.
 */
#ifndef YOKE_BACKENDS_CUDA_DNN_GRAPH_H
#define YOKE_BACKENDS_CUDA_DNN_GRAPH_H

#include "backends/cuda/cudnn.h"
#include "plugins/kit/kit_program.h"

#define CUDA_DNN_MADE 192   /* descriptors of one plan, at most */
#define CUDA_DNN_OPS 24     /* operations of a graph */
#define CUDA_DNN_ENGINES 48 /* most engines of cuDNN that are looked at */
#define CUDA_DNN_ALIGN 16   /* bytes that each operand's place is a multiple of */

typedef struct cuda_shape {
    int64_t dim[4], stride[4];
} cuda_shape;

typedef struct cuda_dnn_graph {
    const cuda_cudnn *dnn;
    cudnnStatus_t rc; /* result of the first call that failed */
    void *made[CUDA_DNN_MADE], *op[CUDA_DNN_OPS];
    int n_made, n_op;
} cuda_dnn_graph;

/* Which engines may be chosen. */
typedef struct cuda_dnn_limits {
    int64_t engines, workspace; /* that are looked at, CUDA_DNN_ENGINES at most; bytes */
    uint32_t refused;           /* 1 << CUDNN_NUMERICAL_NOTE_ of those that may not. 0: notes are not asked for */
} cuda_dnn_limits;

/* ---- Descriptors ---- */

void *cuda_dnn_new(cuda_dnn_graph *g, cudnnBackendDescriptorType_t type);
void cuda_dnn_set(cuda_dnn_graph *g, void *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                  const void *value);
void cuda_dnn_number(cuda_dnn_graph *g, void *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int value);
void cuda_dnn_link(cuda_dnn_graph *g, void *d, cudnnBackendAttributeName_t name, void *to);
void cuda_dnn_end(cuda_dnn_graph *g, void *d);
/* uid: the name of the tensor at a run, or any other number of a virtual one; is_value: a number that is given at each run. */
void *cuda_dnn_tensor(cuda_dnn_graph *g, cudnnDataType_t type, const cuda_shape *s, int64_t uid, int is_virtual, int is_value);
void cuda_dnn_operation(cuda_dnn_graph *g, void *d); /* ends it, and it is of the graph */

cuda_shape cuda_shape_dense(int64_t a, int64_t b, int64_t c, int64_t d);
cudnnDataType_t cuda_dnn_type(uint32_t dtype); /* the type for YK_F32, YK_F16, YK_BF16 */

/* ---- Plans ---- */

/* The plan of the operations by the first engine, in cuDNN's order, that may be chosen and that it makes one of; and the bytes of memory
 * that it works in. NULL: g->rc says why. */
void *cuda_dnn_plan_new(cuda_dnn_graph *g, cudnnHandle_t handle, const cuda_dnn_limits *limits, int64_t *workspace);
void cuda_dnn_graph_free(cuda_dnn_graph *g);

#endif
