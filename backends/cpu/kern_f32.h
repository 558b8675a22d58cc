/* SPDX-License-Identifier: Apache-2.0 */
/* The fp32 products of an instruction set: kern_gemm.h on words that are numbers. Included after vec.h. */
#define G_NAME(x) f32_##x
#define G_PAIR float
#define G_BCAST(p) v_set1(*(p))
#define G_MAC(a, b, c) v_fma(a, b, c)
#define G_TABLE static const cpu_gemm_kernel f32_kernels
#define G_TAPS_TABLE static const cpu_taps_kernel f32_taps
#define G_LINES_TABLE static const cpu_lines_kernel f32_lines
#define G_ROWS_TABLE static const cpu_rows_kernel f32_rows
#define G_OUTER_TABLE static const cpu_outer_kernel f32_outer
#define G_SPANS_TABLE static const cpu_spans_kernel f32_spans
#include "kern_gemm.h"
