/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 with bf16: conversions and products of pairs (vdpbf16ps); and those of AMX beside the tiles. */
#include "backends/cpu/isa/isa_bf16.inc"

#if defined __x86_64__
#include "backends/cpu/isa/target.h"
CPU_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")
#define CPU_VW 16
#define CPU_CVT_BF16
#include "backends/cpu/isa/vec.inc"
#include "backends/cpu/isa/vmath.inc"
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
#define G_NAME(x) pair_##x
#define G_PAIR int32_t
#define G_BCAST(p) ((vf)_mm512_set1_epi32(*(p)))
#define G_MAC(a, b, c) ((vf)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define G_TABLE static const cpu_gemm_kernel pair_kernels
#define G_TAPS_TABLE static const cpu_taps_kernel pair_taps
#define G_UNPACKED_TABLE static const cpu_unpacked_kernel pair_unpacked
#define G_ROWS_TABLE static const cpu_rows_kernel pair_rows
#define G_OUTER_TABLE static const cpu_outer_kernel pair_outer
#define G_SPANS_TABLE static const cpu_spans_kernel pair_spans
#include "backends/cpu/isa/kern_gemm.inc"
#include "backends/cpu/isa/kern_isa.inc"

const cpu_isa cpu_isa_avx512bf16 = {.name = "avx512bf16", CPU_ISA_COMMON, .bf16 = 1, .pair = pair_kernels,
                                    .pair_taps = pair_taps, .pair_unpacked = pair_unpacked, .pair_rows = pair_rows,
                                    .pair_outer = pair_outer, .pair_spans = pair_spans};
const cpu_isa cpu_isa_amx = {.name = "amx", CPU_ISA_COMMON, .bf16 = 2, .tile = cpu_amx_tile,
                             .tile_begin = cpu_amx_begin, .tile_end = cpu_amx_end};
CPU_TARGET_END
#endif
