/* SPDX-License-Identifier: Apache-2.0 */
/* The prototypes, numbers and sizes of backends/cuda/cudnn.h are those of cudnn_graph.h; compiled where that is (header.sh). */
#include <cuda.h>
#include <cudnn_graph.h>

#include "backends/cuda/cudnn.h"

#ifndef CUDNN_GRAPH_H_
#error "cudnn_graph.h no longer says CUDNN_GRAPH_H_, by which backends/cuda/cudnn.h knows it"
#endif

#define X(member, symbol, parameters) \
    _Static_assert(__builtin_types_compatible_p(cudnnStatus_t(*) parameters, __typeof__(&symbol)), #symbol " has another prototype");
CUDA_CUDNN_TABLE(X)
#undef X
_Static_assert(__builtin_types_compatible_p(const char *(*)(cudnnStatus_t), __typeof__(&cudnnGetErrorString)), "words for a status");
_Static_assert(__builtin_types_compatible_p(size_t (*)(void), __typeof__(&cudnnGetVersion)), "the version");
_Static_assert(__builtin_types_compatible_p(size_t (*)(void), __typeof__(&cudnnGetCudartVersion)), "the version of its CUDA");
_Static_assert(CUDNN_STATUS_SUCCESS == 0 && CUDNN_STATUS_NOT_INITIALIZED == 1001 && CUDNN_STATUS_BAD_PARAM == 2000 &&
               CUDNN_STATUS_NOT_SUPPORTED == 3000 && CUDNN_STATUS_INTERNAL_ERROR == 4000 && CUDNN_STATUS_EXECUTION_FAILED == 5000,
               "a status has another number");
_Static_assert(CUDNN_DATA_FLOAT == 0 && CUDNN_DATA_HALF == 2 && CUDNN_DATA_INT32 == 4 && CUDNN_DATA_BFLOAT16 == 9 &&
               CUDNN_DATA_BOOLEAN == 11, "a type has another number");
_Static_assert(CUDNN_POINTWISE_ADD == 0 && CUDNN_POINTWISE_MUL == 1 && CUDNN_POINTWISE_DIV == 6 && CUDNN_POINTWISE_SUB == 9 &&
               CUDNN_POINTWISE_EXP == 13 && CUDNN_POINTWISE_LOG == 15 && CUDNN_POINTWISE_CMP_GE == 303 &&
               CUDNN_POINTWISE_GEN_INDEX == 501 && CUDNN_POINTWISE_BINARY_SELECT == 601, "a pointwise operation has another number");
_Static_assert(CUDNN_REDUCE_TENSOR_ADD == 0 && CUDNN_REDUCE_TENSOR_MAX == 3, "a reduction has another number");
_Static_assert(CUDNN_HEUR_MODE_A == 3, "a way to choose engines has another number");
_Static_assert(CUDNN_BACKEND_POINTWISE_DESCRIPTOR == 0 && CUDNN_BACKEND_ENGINECFG_DESCRIPTOR == 3 &&
               CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR == 4 && CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR == 5 &&
               CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR == 13 && CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR == 15 &&
               CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR == 16 && CUDNN_BACKEND_TENSOR_DESCRIPTOR == 17 &&
               CUDNN_BACKEND_MATMUL_DESCRIPTOR == 18 && CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR == 19 &&
               CUDNN_BACKEND_REDUCTION_DESCRIPTOR == 21 && CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR == 22 &&
               CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR == 31, "a kind of descriptors has another number");
_Static_assert(CUDNN_TYPE_HANDLE == 0 && CUDNN_TYPE_DATA_TYPE == 1 && CUDNN_TYPE_BOOLEAN == 2 && CUDNN_TYPE_INT64 == 3 &&
               CUDNN_TYPE_VOID_PTR == 6 && CUDNN_TYPE_HEUR_MODE == 8 && CUDNN_TYPE_POINTWISE_MODE == 14 &&
               CUDNN_TYPE_BACKEND_DESCRIPTOR == 15 && CUDNN_TYPE_REDUCTION_OPERATOR_TYPE == 18,
               "a type of attributes has another number");
_Static_assert(CUDNN_ATTR_POINTWISE_MODE == 0 && CUDNN_ATTR_POINTWISE_MATH_PREC == 1 && CUDNN_ATTR_POINTWISE_AXIS == 9 &&
               CUDNN_ATTR_ENGINEHEUR_MODE == 200 && CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH == 201 &&
               CUDNN_ATTR_ENGINEHEUR_RESULTS == 202 && CUDNN_ATTR_EXECUTION_PLAN_HANDLE == 400 &&
               CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG == 401 && CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE == 402 &&
               CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR == 750 && CUDNN_ATTR_OPERATION_POINTWISE_XDESC == 751 &&
               CUDNN_ATTR_OPERATION_POINTWISE_BDESC == 752 && CUDNN_ATTR_OPERATION_POINTWISE_YDESC == 753 &&
               CUDNN_ATTR_OPERATION_POINTWISE_TDESC == 758 && CUDNN_ATTR_OPERATIONGRAPH_HANDLE == 800 &&
               CUDNN_ATTR_OPERATIONGRAPH_OPS == 801 && CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT == 900 && CUDNN_ATTR_TENSOR_DATA_TYPE == 901 &&
               CUDNN_ATTR_TENSOR_DIMENSIONS == 902 && CUDNN_ATTR_TENSOR_STRIDES == 903 && CUDNN_ATTR_TENSOR_UNIQUE_ID == 906 &&
               CUDNN_ATTR_TENSOR_IS_VIRTUAL == 907 && CUDNN_ATTR_TENSOR_IS_BY_VALUE == 908 &&
               CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS == 1000 && CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS == 1001 &&
               CUDNN_ATTR_VARIANT_PACK_WORKSPACE == 1003 && CUDNN_ATTR_MATMUL_COMP_TYPE == 1500 &&
               CUDNN_ATTR_OPERATION_MATMUL_ADESC == 1520 && CUDNN_ATTR_OPERATION_MATMUL_BDESC == 1521 &&
               CUDNN_ATTR_OPERATION_MATMUL_CDESC == 1522 && CUDNN_ATTR_OPERATION_MATMUL_DESC == 1523 &&
               CUDNN_ATTR_REDUCTION_OPERATOR == 1600 && CUDNN_ATTR_REDUCTION_COMP_TYPE == 1601 &&
               CUDNN_ATTR_OPERATION_REDUCTION_XDESC == 1610 && CUDNN_ATTR_OPERATION_REDUCTION_YDESC == 1611 &&
               CUDNN_ATTR_OPERATION_REDUCTION_DESC == 1612 && CUDNN_ATTR_OPERATION_RESHAPE_XDESC == 2200 &&
               CUDNN_ATTR_OPERATION_RESHAPE_YDESC == 2201, "an attribute has another number");
_Static_assert(CUDNN_CROSS_CORRELATION == 1 && CUDNN_NUMERICAL_NOTE_TENSOR_CORE == 0 &&
               CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS == 1 && CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION == 2 &&
               CUDNN_NUMERICAL_NOTE_FFT == 3 && CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC == 4 && CUDNN_NUMERICAL_NOTE_WINOGRAD == 5 &&
               CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR == 1 && CUDNN_BACKEND_ENGINE_DESCRIPTOR == 2 &&
               CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR == 10 &&
               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR == 11 &&
               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR == 12 && CUDNN_TYPE_FLOAT == 4 &&
               CUDNN_TYPE_CONVOLUTION_MODE == 7 && CUDNN_TYPE_NUMERICAL_NOTE == 11, "a number of convolutions or notes is another");
_Static_assert(CUDNN_ATTR_CONVOLUTION_COMP_TYPE == 100 && CUDNN_ATTR_CONVOLUTION_CONV_MODE == 101 &&
               CUDNN_ATTR_CONVOLUTION_DILATIONS == 102 && CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES == 103 &&
               CUDNN_ATTR_CONVOLUTION_POST_PADDINGS == 104 && CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS == 105 &&
               CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS == 106 && CUDNN_ATTR_ENGINECFG_ENGINE == 300 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA == 700 && CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA == 701 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC == 702 && CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W == 703 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X == 704 && CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y == 705 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA == 706 && CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA == 707 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC == 708 && CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W == 709 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX == 710 && CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY == 711 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA == 712 && CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA == 713 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC == 714 && CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW == 715 &&
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X == 716 && CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY == 717 &&
               CUDNN_ATTR_ENGINE_NUMERICAL_NOTE == 1303,
               "an attribute of convolutions or engines has another number");
/* the sizes of our own definitions */
_Static_assert(sizeof(cudnnStatus_t) == sizeof(int) && sizeof(cudnnBackendDescriptorType_t) == sizeof(int) &&
                   sizeof(cudnnBackendAttributeName_t) == sizeof(int) && sizeof(cudnnBackendAttributeType_t) == sizeof(int) &&
                   sizeof(cudnnDataType_t) == sizeof(int) && sizeof(cudnnPointwiseMode_t) == sizeof(int) &&
                   sizeof(cudnnReduceTensorOp_t) == sizeof(int) && sizeof(cudnnBackendHeurMode_t) == sizeof(int) &&
                   sizeof(cudnnBackendDescriptor_t) == sizeof(void *) && sizeof(cudnnHandle_t) == sizeof(void *),
               "a number has another size");
