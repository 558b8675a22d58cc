/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for AVX-512 (F, BW, DQ, VL): sixteen lanes. */
#include "cpu.h"

#if defined __x86_64__
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define CPU_VW 16
#include "vec.h"
#include "vmath.h"
#include "kern_pack.h"
#include "kern_map.h"
#include "kern_half.h"
#include "kern_chain.h"
#include "kern_rows.h"
#include "kern_wino.h"
#include "kern_pool.h"
#define G_NAME(x) f32_##x
#define G_PAIR float
#define G_BCAST(p) v_set1(*(p))
#define G_MAC(a, b, c) v_fma(a, b, c)
#define G_TABLE static const cpu_gemm_kernel f32_kernels
#define G_TAPS_TABLE static const cpu_taps_kernel f32_taps
#define G_LINES_TABLE static const cpu_lines_kernel f32_lines
#define G_ROWS_TABLE static const cpu_rows_kernel f32_rows
#define G_OUTER_TABLE static const cpu_outer_kernel f32_outer
#include "kern_gemm.h"
#include "kern_isa.h"

const cpu_isa cpu_isa_avx512 = {.name = "avx512", CPU_ISA_COMMON};
#endif
