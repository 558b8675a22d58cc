/* SPDX-License-Identifier: Apache-2.0 */
/* The table of one instruction set. Included last, with CPU_ISA_TABLE and CPU_ISA_NAME defined. */
#define CPU_ISA_COMMON                                                                                                 \
    .vw = CPU_VW, .mr = CPU_VW == 16 ? 14 : 6, .f32 = f32_kernels, .f32_taps = f32_taps, .f32_lines = f32_lines,       \
    .f32_rows = f32_rows, .f32_outer = f32_outer, .f32_spans = f32_spans,                               \
    .span_rows = CPU_VW == 16 ? 6 : 3, .wino = &wino_kernels, .pool = &pool_kernels,                                   \
    .map = map_kernels, .half = half_kernels, .half_drop = half_drop,                                                  \
    .chain = chain_kernels, .gelu = gelu_kernels, .transpose = pack_transpose,                                         \
    .transpose_half = pack_transpose_half, .transpose_pairs = pack_transpose_pairs,                                    \
    .strips = pack_strips, .strip_pairs = pack_strip_pairs, .split_pairs = pack_split_pairs,                           \
    .to_f32 = pack_to_f32, .from_f32 = pack_from_f32,                                                                  \
    .spread = pack_spread, .planes_in = pack_planes_in, .planes_out = pack_planes_out,                                 \
    .fill32 = pack_fill32, .uniform = row_uniform, .rows = row_kernels, .softmax_grad = row_softmax_grad,              \
    .add = row_add, .scale = row_scale, .exp_scaled = row_exp_scaled,                                                  \
    .adam = row_adam, .sgd = row_sgd, .stats = row_stats, .drop = row_drop, .keep = row_keep
