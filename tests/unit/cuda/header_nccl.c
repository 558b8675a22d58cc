/* SPDX-License-Identifier: Apache-2.0 */
/* The prototypes and numbers of backends/cuda/nccl.h are those of nccl.h; compiled where that is (header.sh). */
#include <cuda.h>
#include <nccl.h>
#include <stddef.h>

#include "backends/cuda/nccl.h"

#define X(member, symbol, parameters) \
    _Static_assert(__builtin_types_compatible_p(ncclResult_t(*) parameters, __typeof__(&symbol)), #symbol " has another prototype");
CUDA_NCCL_TABLE(X)
#undef X
_Static_assert(ncclUnhandledCudaError == 1 && ncclSystemError == 2 && ncclInvalidArgument == 4 && ncclInvalidUsage == 5 &&
                   ncclRemoteError == 6 && ncclInProgress == 7, "results have other numbers");
_Static_assert(ncclUint8 == 1 && ncclInt32 == 2 && ncclFloat16 == 6 && ncclFloat32 == 7 && ncclBfloat16 == 9 && ncclSum == 0,
               "types have other numbers");
_Static_assert(sizeof(ncclUniqueId) == 128, "the name of a communicator");
#ifdef NCCL_API_MAGIC
_Static_assert(NCCL_API_MAGIC == CUDA_NCCL_MAGIC, "a configuration begins with another number");
#endif
_Static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16 &&
                   offsetof(ncclConfig_t, cgaClusterSize) == 20, "the configuration begins otherwise");
