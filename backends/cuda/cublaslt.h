/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of cuBLASLt that are called, with prototypes of our own: it is opened at run time, not linked (cublaslt.c). Types have the
 * names and layouts of cublasLt.h, and are left to it where it came first; tests/unit/cuda/header_cublaslt.c then compares every
 * prototype and number.
 */
#ifndef YOKE_BACKENDS_CUDA_CUBLASLT_H
#define YOKE_BACKENDS_CUDA_CUBLASLT_H

#include <stdint.h>

#include "backends/cuda/driver.h"

#ifndef CUBLAS_VERSION
typedef int cublasStatus_t;
typedef int cublasComputeType_t;
typedef int cudaDataType;
typedef cudaDataType cudaDataType_t;
typedef int cublasLtMatmulDescAttributes_t;
typedef int cublasLtMatmulPreferenceAttributes_t;
typedef int cublasLtMatrixLayoutAttribute_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cuda_lt_matmul *cublasLtMatmulDesc_t;
typedef struct cuda_lt_layout *cublasLtMatrixLayout_t;
typedef struct cuda_lt_preference *cublasLtMatmulPreference_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#ifndef NCCL_H_
typedef CUstream cudaStream_t;
#endif

enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7,
       CUBLAS_STATUS_EXECUTION_FAILED = 13, CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15 };
enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14, CUDA_R_8F_E4M3 = 28, CUDA_R_8F_E5M2 = 29 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4, CUBLASLT_MATMUL_DESC_EPILOGUE = 7,
       CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER = 11, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = 12,
       CUBLASLT_MATMUL_DESC_A_SCALE_POINTER = 17, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER = 18 };
enum { CUBLASLT_EPILOGUE_DEFAULT = 1, CUBLASLT_EPILOGUE_BIAS = 4, CUBLASLT_EPILOGUE_GELU_BIAS = 36, CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
       CUBLASLT_EPILOGUE_DGELU = 192 };
enum { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8 };
enum { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
#endif

/* X(member, symbol, parameters); all return a cublasStatus_t. */
#define CUDA_CUBLASLT_TABLE(X)                                                                                                            \
    X(create, cublasLtCreate, (cublasLtHandle_t * handle))                                                                                \
    X(destroy, cublasLtDestroy, (cublasLtHandle_t handle))                                                                                \
    X(matmul_new, cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t * matmul, cublasComputeType_t compute, cudaDataType_t scale))          \
    X(matmul_free, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t matmul))                                                              \
    X(matmul_set, cublasLtMatmulDescSetAttribute,                                                                                         \
      (cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes))                           \
    X(layout_new, cublasLtMatrixLayoutCreate,                                                                                             \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t line))                                   \
    X(layout_free, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                                                          \
    X(layout_set, cublasLtMatrixLayoutSetAttribute,                                                                                       \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value, size_t bytes))                        \
    X(preference_new, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))                                          \
    X(preference_free, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))                                          \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                                               \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes))           \
    X(choose, cublasLtMatmulAlgoGetHeuristic,                                                                                             \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, \
       cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t *found, int *n))        \
    X(matmul, cublasLtMatmul,                                                                                                             \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,           \
       const void *b, cublasLtMatrixLayout_t b_layout, const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,         \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream))

typedef struct cuda_cublaslt {
#define CUDA_CUBLASLT_MEMBER(member, symbol, parameters) cublasStatus_t(*member) parameters;
    CUDA_CUBLASLT_TABLE(CUDA_CUBLASLT_MEMBER)
#undef CUDA_CUBLASLT_MEMBER
    const char *(*status_text)(cublasStatus_t status);
    size_t (*version)(void); /* 130100 is 13.1.0 */
} cuda_cublaslt;

/* ---- libcublasLt, opened (cublaslt.c) ---- */

/* NULL: there is none that can be used, or none is wanted, which the log says once. Any thread. */
const cuda_cublaslt *cuda_cublaslt_open(void);
void cuda_cublaslt_forget(void); /* fini: the library stays, and is asked for again */

#endif
