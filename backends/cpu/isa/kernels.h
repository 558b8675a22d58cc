/* SPDX-License-Identifier: Apache-2.0 */
/* All tables of an instruction set, for the files that fill them: isa_*.c. */
#ifndef YOKE_BACKENDS_CPU_ISA_KERNELS_H
#define YOKE_BACKENDS_CPU_ISA_KERNELS_H

#include "backends/cpu/isa/conv_kernels.h"
#include "backends/cpu/isa/gemm_kernels.h"
#include "backends/cpu/isa/map_kernels.h"
#include "backends/cpu/isa/optim_kernels.h"
#include "backends/cpu/isa/pack_kernels.h"
#include "backends/cpu/isa/ranges.h"
#include "backends/cpu/isa/row_kernels.h"
#include "backends/cpu/isa/vec_kernels.h"

#endif
