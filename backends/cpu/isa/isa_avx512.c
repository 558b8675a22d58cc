/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for AVX-512 (F, BW, DQ, VL): sixteen lanes. The file compiles the common kernel sources (kern_*.inc) once for this
 * instruction set. cpuid.c lists the table cpu_isa_avx512 if the machine has the instructions. Its functions run on the workers of a
 * device that chose the table. For other processors the file is empty.
 */
#include "backends/cpu/isa/kernels.h"

#if defined __x86_64__
#include "backends/cpu/isa/target.h"
CPU_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define CPU_VW 16
#define CPU_TABLE /* not static: isa_avx512bf16.c uses these tables, too */
#define CPU_TABLE_NAME(x) cpu_avx512_##x
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

const cpu_isa cpu_isa_avx512 = {.name = "avx512", CPU_ISA_COMMON};
CPU_TARGET_END
#endif
