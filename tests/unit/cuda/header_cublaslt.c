/* SPDX-License-Identifier: Apache-2.0 */
/* The prototypes, numbers and sizes of backends/cuda/cublaslt.h are those of cublasLt.h; compiled where that is (header.sh). */
#include <cuda.h>
#include <cublasLt.h>
#include <stddef.h>

#include "backends/cuda/cublaslt.h"

#define X(member, symbol, parameters) \
    _Static_assert(__builtin_types_compatible_p(cublasStatus_t(*) parameters, __typeof__(&symbol)), #symbol " has another prototype");
CUDA_CUBLASLT_TABLE(X)
#undef X
_Static_assert(__builtin_types_compatible_p(const char *(*)(cublasStatus_t), __typeof__(&cublasLtGetStatusString)), "words for a status");
_Static_assert(__builtin_types_compatible_p(size_t (*)(void), __typeof__(&cublasLtGetVersion)), "the version");
_Static_assert(CUBLAS_STATUS_SUCCESS == 0 && CUBLAS_STATUS_NOT_INITIALIZED == 1 && CUBLAS_STATUS_ALLOC_FAILED == 3 &&
                   CUBLAS_STATUS_INVALID_VALUE == 7 && CUBLAS_STATUS_EXECUTION_FAILED == 13 && CUBLAS_STATUS_INTERNAL_ERROR == 14 &&
                   CUBLAS_STATUS_NOT_SUPPORTED == 15, "a status has another number");
_Static_assert(CUDA_R_32F == 0 && CUDA_R_16F == 2 && CUDA_R_16BF == 14 && CUDA_R_8F_E4M3 == 28 && CUDA_R_8F_E5M2 == 29 &&
                   CUBLAS_COMPUTE_32F == 68 && CUBLAS_COMPUTE_32F_FAST_TF32 == 77,
               "a type has another number");
_Static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && CUBLASLT_MATMUL_DESC_TRANSA == 3 && CUBLASLT_MATMUL_DESC_TRANSB == 4 &&
                   CUBLASLT_MATMUL_DESC_A_SCALE_POINTER == 17 && CUBLASLT_MATMUL_DESC_B_SCALE_POINTER == 18,
               "transposing has other numbers");
_Static_assert(CUBLASLT_MATMUL_DESC_EPILOGUE == 7 && CUBLASLT_MATMUL_DESC_BIAS_POINTER == 8 &&
                   CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER == 11 && CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD == 12 &&
                   CUBLASLT_EPILOGUE_DEFAULT == 1 && CUBLASLT_EPILOGUE_BIAS == 4 && CUBLASLT_EPILOGUE_GELU_BIAS == 36 &&
                   CUBLASLT_EPILOGUE_GELU_AUX_BIAS == 164 && CUBLASLT_EPILOGUE_DGELU == 192, "what is behind a product has other numbers");
_Static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == 5 && CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == 6, "batches have other numbers");
_Static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == 1 && CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK == 3 &&
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES == 5 && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES == 6 &&
                   CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES == 7 && CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES == 8 &&
                   CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE == 2, "a preference has another number");
/* the sizes of our own definitions */
_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64 && sizeof(cublasLtMatmulHeuristicResult_t) == 96 &&
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64 &&
                   offsetof(cublasLtMatmulHeuristicResult_t, state) == 72, "a result has another size");
_Static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int) && sizeof(cudaDataType) == sizeof(int),
               "a number has another size");
