/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for any machine: four lanes, which compilers have for SSE2, NEON and the RISC-V vector set. The file compiles the common
 * kernel sources (kern_*.inc) without special instructions; cpuid.c always lists the table. Its functions run on the workers of a device
 * that chose the table, or of any processor that is no x86-64.
 */
#include "backends/cpu/isa/kernels.h"

#define CPU_VW 4
#include "backends/cpu/isa/vec.inc"
#include "backends/cpu/isa/vmath.inc"
#include "backends/cpu/isa/kern_convert.inc"
#include "backends/cpu/isa/kern_pack.inc"
#include "backends/cpu/isa/kern_map.inc"
#include "backends/cpu/isa/kern_bf16.inc"
#include "backends/cpu/isa/kern_chain.inc"
#include "backends/cpu/isa/kern_gelu.inc"
#include "backends/cpu/isa/kern_rows.inc"
#include "backends/cpu/isa/kern_bf16_rows.inc"
#include "backends/cpu/isa/kern_wino.inc"
#include "backends/cpu/isa/kern_pool.inc"
#include "backends/cpu/isa/kern_f32.inc"
#include "backends/cpu/isa/kern_isa.inc"

const cpu_isa cpu_isa_portable = {.name = "portable", CPU_ISA_COMMON};
