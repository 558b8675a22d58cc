/* SPDX-License-Identifier: Apache-2.0 */
/* The prototypes of backends/cuda/driver.h are those of CUDA's own headers; compiled where those are (header.sh). */
#include <cuda.h>
#include <nvrtc.h>

#include "backends/cuda/driver.h"

#define X(member, symbol, parameters) \
    _Static_assert(__builtin_types_compatible_p(CUresult(*) parameters, __typeof__(&symbol)), #symbol " has another prototype");
CUDA_DRIVER_TABLE(X)
#undef X
#define X(member, symbol, parameters) \
    _Static_assert(__builtin_types_compatible_p(nvrtcResult(*) parameters, __typeof__(&symbol)), #symbol " has another prototype");
CUDA_COMPILER_TABLE(X)
#undef X
