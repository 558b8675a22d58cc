/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of cuDNN that are called, with prototypes of our own: it is opened when the first attention or convolution is
 * planned. Types have the names and sizes of cudnn_graph.h, and are left to it if it came first; tests/unit/cuda/header_cudnn.c then
 * compares every prototype and number. cuDNN's graph API has one function for each verb; numbers name its objects.
 */
#ifndef YOKE_BACKENDS_CUDA_CUDNN_H
#define YOKE_BACKENDS_CUDA_CUDNN_H

#include <stdint.h>

#include "backends/cuda/driver.h"

#ifndef CUDNN_GRAPH_H_
typedef int cudnnStatus_t;
typedef int cudnnBackendDescriptorType_t;
typedef int cudnnBackendAttributeName_t;
typedef int cudnnBackendAttributeType_t;
typedef int cudnnDataType_t;
typedef int cudnnPointwiseMode_t;
typedef int cudnnReduceTensorOp_t;
typedef int cudnnBackendHeurMode_t;
typedef void *cudnnBackendDescriptor_t;
typedef struct cudnnContext *cudnnHandle_t;
#ifndef NCCL_H_
typedef CUstream cudaStream_t;
#endif

enum { CUDNN_STATUS_SUCCESS = 0, CUDNN_STATUS_NOT_INITIALIZED = 1001, CUDNN_STATUS_BAD_PARAM = 2000, CUDNN_STATUS_NOT_SUPPORTED = 3000,
       CUDNN_STATUS_INTERNAL_ERROR = 4000, CUDNN_STATUS_EXECUTION_FAILED = 5000 };
enum { CUDNN_DATA_FLOAT = 0, CUDNN_DATA_HALF = 2, CUDNN_DATA_INT32 = 4, CUDNN_DATA_BFLOAT16 = 9, CUDNN_DATA_BOOLEAN = 11 };
enum { CUDNN_POINTWISE_ADD = 0, CUDNN_POINTWISE_MUL = 1, CUDNN_POINTWISE_DIV = 6, CUDNN_POINTWISE_SUB = 9, CUDNN_POINTWISE_EXP = 13,
       CUDNN_POINTWISE_LOG = 15, CUDNN_POINTWISE_CMP_GE = 303, CUDNN_POINTWISE_GEN_INDEX = 501, CUDNN_POINTWISE_BINARY_SELECT = 601 };
enum { CUDNN_REDUCE_TENSOR_ADD = 0, CUDNN_REDUCE_TENSOR_MAX = 3 };
enum { CUDNN_HEUR_MODE_A = 3 };
enum { CUDNN_CROSS_CORRELATION = 1 };
enum { CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
       CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2, CUDNN_NUMERICAL_NOTE_FFT = 3, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
       CUDNN_NUMERICAL_NOTE_WINOGRAD = 5 };
enum { CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1, CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
       CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 11,
       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 12, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
       CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16, CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
       CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19, CUDNN_BACKEND_REDUCTION_DESCRIPTOR = 21,
       CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 22, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 31 };
enum { CUDNN_TYPE_HANDLE = 0, CUDNN_TYPE_DATA_TYPE = 1, CUDNN_TYPE_BOOLEAN = 2, CUDNN_TYPE_INT64 = 3, CUDNN_TYPE_FLOAT = 4,
       CUDNN_TYPE_VOID_PTR = 6, CUDNN_TYPE_CONVOLUTION_MODE = 7, CUDNN_TYPE_HEUR_MODE = 8, CUDNN_TYPE_NUMERICAL_NOTE = 11,
       CUDNN_TYPE_POINTWISE_MODE = 14, CUDNN_TYPE_BACKEND_DESCRIPTOR = 15, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE = 18 };
enum { CUDNN_ATTR_POINTWISE_MODE = 0, CUDNN_ATTR_POINTWISE_MATH_PREC = 1, CUDNN_ATTR_POINTWISE_AXIS = 9,
       CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100, CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101, CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,
       CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,
       CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106, CUDNN_ATTR_ENGINEHEUR_MODE = 200, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,
       CUDNN_ATTR_ENGINEHEUR_RESULTS = 202, CUDNN_ATTR_ENGINECFG_ENGINE = 300, CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,
       CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717,
       CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750, CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,
       CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752, CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753, CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,
       CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800, CUDNN_ATTR_OPERATIONGRAPH_OPS = 801, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,
       CUDNN_ATTR_TENSOR_DATA_TYPE = 901, CUDNN_ATTR_TENSOR_DIMENSIONS = 902, CUDNN_ATTR_TENSOR_STRIDES = 903,
       CUDNN_ATTR_TENSOR_UNIQUE_ID = 906, CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907, CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,
       CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001, CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,
       CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303, CUDNN_ATTR_MATMUL_COMP_TYPE = 1500, CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,
       CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521, CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522, CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,
       CUDNN_ATTR_REDUCTION_OPERATOR = 1600, CUDNN_ATTR_REDUCTION_COMP_TYPE = 1601, CUDNN_ATTR_OPERATION_REDUCTION_XDESC = 1610,
       CUDNN_ATTR_OPERATION_REDUCTION_YDESC = 1611, CUDNN_ATTR_OPERATION_REDUCTION_DESC = 1612,
       CUDNN_ATTR_OPERATION_RESHAPE_XDESC = 2200, CUDNN_ATTR_OPERATION_RESHAPE_YDESC = 2201 };
#endif

/* X(member, symbol, parameters); all return a cudnnStatus_t. */
#define CUDA_CUDNN_TABLE(X)                                                                                                               \
    X(create, cudnnCreate, (cudnnHandle_t * handle))                                                                                      \
    X(destroy, cudnnDestroy, (cudnnHandle_t handle))                                                                                      \
    X(stream_set, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream))                                                            \
    X(descriptor_new, cudnnBackendCreateDescriptor, (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * descriptor))           \
    X(descriptor_free, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))                                              \
    X(descriptor_end, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                                                        \
    X(attribute_set, cudnnBackendSetAttribute,                                                                                            \
      (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,                \
       const void *value))                                                                                                                \
    X(attribute_get, cudnnBackendGetAttribute,                                                                                            \
      (cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,       \
       int64_t *n, void *value))                                                                                                          \
    X(execute, cudnnBackendExecute, (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

#define CUDA_CUDNN_VERSION 90000 /* the least: before it, numbers had other meanings */

typedef struct cuda_cudnn {
#define CUDA_CUDNN_MEMBER(member, symbol, parameters) cudnnStatus_t(*member) parameters;
    CUDA_CUDNN_TABLE(CUDA_CUDNN_MEMBER)
#undef CUDA_CUDNN_MEMBER
    const char *(*status_text)(cudnnStatus_t status);
    size_t (*version)(void); /* 91900 is 9.19.0 */
    size_t (*cuda_version)(void); /* version of the CUDA that it was made with: 12090 is 12.9 */
} cuda_cudnn;

/* ---- libcudnn, opened (cudnn.c) ---- */

/* NULL: there is none that can be used, or none is wanted, which the log says once. Any thread. */
const cuda_cudnn *cuda_cudnn_open(void);
void cuda_cudnn_forget(void); /* fini: the library stays, and is asked for again */

#endif
