/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for AVX2 with FMA and F16C: eight lanes. The file compiles the common kernel sources (kern_*.inc) once for this instruction
 * set; cpuid.c lists the table if the machine has it. Its functions run on the workers of a device that chose the table.
 */
#include "backends/cpu/isa/kernels.h"

#if defined __x86_64__
#include "backends/cpu/isa/target.h"
CPU_TARGET_BEGIN("avx2,fma,f16c")
#define CPU_VW 8
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

const cpu_isa cpu_isa_avx2 = {.name = "avx2", CPU_ISA_COMMON};
CPU_TARGET_END
#endif
