/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of NCCL that are called, with prototypes of our own: it is opened when ranks on cards of one host are joined. Types
 * have the names and layouts of nccl.h, and are left to it where it came first; tests/unit/cuda/header_nccl.c then compares
 * every prototype.
 */
#ifndef YOKE_BACKENDS_CUDA_NCCL_H
#define YOKE_BACKENDS_CUDA_NCCL_H

#include "backends/cuda/driver.h"

#ifndef NCCL_H_
typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
/* The members of NCCL 2.14; later ones fill in the rest for a caller that names this version. */
typedef struct ncclConfig {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize;
} ncclConfig_t;
typedef CUstream cudaStream_t;

enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = 2, ncclInvalidArgument = 4, ncclInvalidUsage = 5,
       ncclRemoteError = 6, ncclInProgress = 7 };
enum { ncclUint8 = 1, ncclInt32 = 2, ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 };
enum { ncclSum = 0 };
#endif

#define CUDA_NCCL_MAGIC 0xcafebeefu
#define CUDA_NCCL_VERSION 21400u /* whose configuration is given; the oldest with members that do not block */

/* X(member, symbol, parameters); all return an ncclResult_t. */
#define CUDA_NCCL_TABLE(X)                                                                                                                \
    X(version, ncclGetVersion, (int *version))                                                                                            \
    X(unique_id, ncclGetUniqueId, (ncclUniqueId * id))                                                                                    \
    X(comm_init, ncclCommInitRankConfig, (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config))                 \
    X(comm_state, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *state))                                                          \
    X(comm_finalize, ncclCommFinalize, (ncclComm_t comm))                                                                                 \
    X(comm_destroy, ncclCommDestroy, (ncclComm_t comm))                                                                                   \
    X(comm_abort, ncclCommAbort, (ncclComm_t comm))                                                                                       \
    X(all_reduce, ncclAllReduce,                                                                                                          \
      (const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))              \
    X(reduce_scatter, ncclReduceScatter,                                                                                                  \
      (const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream))              \
    X(all_gather, ncclAllGather,                                                                                                          \
      (const void *src, void *dst, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream))                              \
    X(broadcast, ncclBroadcast,                                                                                                           \
      (const void *src, void *dst, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream))

typedef struct cuda_nccl {
#define CUDA_NCCL_MEMBER(member, symbol, parameters) ncclResult_t(*member) parameters;
    CUDA_NCCL_TABLE(CUDA_NCCL_MEMBER)
#undef CUDA_NCCL_MEMBER
    const char *(*error_text)(ncclResult_t code);
    const char *(*error_last)(ncclComm_t comm);
} cuda_nccl;

/* ---- libnccl, opened (nccl.c) ---- */

/* NULL: there is none that can be used, which the log says once. Any thread. */
const cuda_nccl *cuda_nccl_open(void);
int cuda_nccl_version(void); /* 22809 is 2.28.9; 0: it cannot be used */
void cuda_nccl_forget(void); /* fini: the library stays, and is asked for again */

#endif
