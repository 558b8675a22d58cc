/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels for AVX-512 with bf16: conversions and products of pairs (vdpbf16ps), also used with AMX besides the tiles. Kernels in fp32
 * without a conversion are AVX-512's (isa_avx512.c). cpuid.c lists both tables if the machine has them; their functions run on the workers
 * of a device that chose one.
 */
#include "backends/cpu/isa/kernels.h"

#if defined __x86_64__
#include "backends/cpu/isa/target.h"
CPU_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")
#define CPU_VW 16
#define CPU_TABLE static
#define CPU_TABLE_NAME(x) cpu_avx512_##x
#define CPU_CVT_BF16
#include "backends/cpu/isa/vec.inc"
#include "backends/cpu/isa/vmath.inc"
#include "backends/cpu/isa/kern_convert.inc"
#include "backends/cpu/isa/kern_map.inc"
#include "backends/cpu/isa/kern_bf16.inc"
#include "backends/cpu/isa/kern_chain.inc"
#include "backends/cpu/isa/kern_gelu.inc"
#include "backends/cpu/isa/kern_rows.inc"
#include "backends/cpu/isa/kern_bf16_rows.inc"
#define G_NAME(x) pair_##x
#define G_WORD int32_t
#define G_BCAST(p) ((vf)_mm512_set1_epi32(*(p)))
#define G_TERMS 2
#define G_FMA(a, b, c) ((vf)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#include "backends/cpu/isa/kern_gemm.inc"
#include "backends/cpu/isa/kern_isa.inc"

static const cpu_gemm_kernels pair_gemm = CPU_GEMM_TABLE(pair);
static const cpu_conv_kernels pair_conv = CPU_CONV_TABLE(pair);

const cpu_isa cpu_isa_avx512bf16 = {.name = "avx512bf16", .bf16 = CPU_BF16_PAIRS, .gemm[1] = &pair_gemm, .conv[1] = &pair_conv,
                                    CPU_ISA_COMMON};
const cpu_isa cpu_isa_amx = {.name = "amx", .bf16 = CPU_BF16_TILES, .tiles = &cpu_amx_tiles, CPU_ISA_COMMON};
CPU_TARGET_END
#endif
