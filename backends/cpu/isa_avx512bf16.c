/* SPDX-License-Identifier: Apache-2.0 */
/* Register kernels on pairs of bf16: vdpbf16ps. */
#include "isa_bf16.h"

#if defined __x86_64__
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")
#define CPU_VW 16
#include "vec.h"
#define G_NAME(x) pair_##x
#define G_PAIR int32_t
#define G_BCAST(p) ((vf)_mm512_set1_epi32(*(p)))
#define G_MAC(a, b, c) ((vf)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))

#define G_TABLE const cpu_gemm_kernel cpu_bf16_kernels
#define G_TAPS_TABLE const cpu_taps_kernel cpu_bf16_taps
#define G_LINES_TABLE const cpu_lines_kernel cpu_bf16_lines
#define G_ROWS_TABLE const cpu_rows_kernel cpu_bf16_rows
#define G_OUTER_TABLE const cpu_outer_kernel cpu_bf16_outer
#include "kern_gemm.h"
#endif
