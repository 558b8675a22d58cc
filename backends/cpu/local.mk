# SPDX-License-Identifier: Apache-2.0
# The CPU plugin. Its objects are a convenience library too, so that the unit tests reach the kernels.
noinst_LTLIBRARIES += libyokecpu.la
libyokecpu_la_SOURCES = backends/cpu/conv/cpu_conv.c backends/cpu/conv/cpu_conv.h backends/cpu/conv/conv_block.c \
	backends/cpu/conv/conv_block_dw.c backends/cpu/conv/conv_direct.c backends/cpu/conv/conv_direct_dw.c \
	backends/cpu/conv/conv_gemm.c backends/cpu/conv/conv_plane.c backends/cpu/conv/conv_plane.h backends/cpu/conv/conv_shape.c \
	backends/cpu/conv/conv_shape.h backends/cpu/conv/conv_wino.c backends/cpu/conv/conv_wino.h backends/cpu/conv/conv_wino_dw.c \
	backends/cpu/conv/cpu_window.c backends/cpu/exec/cpu_build.c backends/cpu/exec/cpu.h backends/cpu/exec/cpu_device.h \
	backends/cpu/exec/exec_internal.h backends/cpu/exec/migrate.c backends/cpu/exec/migrate.h backends/cpu/exec/cpu_pace.c \
	backends/cpu/exec/cpu_pace.h backends/cpu/exec/cpu_pool.c backends/cpu/exec/cpu_pool.h backends/cpu/exec/cpu_profile.c \
	backends/cpu/exec/cpu_profile.h backends/cpu/exec/cpu_program.c backends/cpu/exec/cpu_program.h backends/cpu/exec/cpu_queue.c \
	backends/cpu/exec/steal.c backends/cpu/exec/steal.h backends/cpu/gemm/blocking.c backends/cpu/gemm/blocking.h \
	backends/cpu/gemm/cpu_dot.c backends/cpu/gemm/cpu_dot.h backends/cpu/gemm/gemm.c backends/cpu/gemm/gemm.h \
	backends/cpu/gemm/pack.c backends/cpu/gemm/pack.h backends/cpu/isa/conv_kernels.h backends/cpu/isa/cpuid.c \
	backends/cpu/isa/gemm_kernels.h backends/cpu/isa/isa.h backends/cpu/isa/isa_amx.c backends/cpu/isa/isa_avx2.c \
	backends/cpu/isa/isa_avx512.c backends/cpu/isa/isa_avx512bf16.c backends/cpu/isa/isa_portable.c backends/cpu/isa/kern_amx.inc \
	backends/cpu/isa/kern_bf16.inc backends/cpu/isa/kern_bf16_rows.inc backends/cpu/isa/kern_block.inc \
	backends/cpu/isa/kern_chain.inc backends/cpu/isa/kern_convert.inc backends/cpu/isa/kern_f32.inc \
	backends/cpu/isa/kern_gelu.inc backends/cpu/isa/kern_gemm.inc \
	backends/cpu/isa/kern_isa.inc backends/cpu/isa/kern_map.inc backends/cpu/isa/kern_pack.inc backends/cpu/isa/kern_pool.inc \
	backends/cpu/isa/kern_rows.inc backends/cpu/isa/kern_span.inc backends/cpu/isa/kern_wino.inc backends/cpu/isa/kernels.h \
	backends/cpu/isa/map_kernels.h backends/cpu/isa/optim_kernels.h backends/cpu/isa/pack_kernels.h backends/cpu/isa/ranges.h \
	backends/cpu/isa/row_kernels.h \
	backends/cpu/isa/target.h backends/cpu/isa/vec.inc backends/cpu/isa/vec_kernels.h backends/cpu/isa/vmath.inc \
	backends/cpu/map/map_internal.h backends/cpu/map/map.c backends/cpu/map/map.h backends/cpu/map/map_chain.c \
	backends/cpu/map/map_node.c backends/cpu/map/map_plan.c backends/cpu/map/cpu_reduce.c backends/cpu/nn/cpu_attention.c \
	backends/cpu/nn/cpu_attention.h backends/cpu/nn/attention_bwd.c backends/cpu/nn/attention_fwd.c backends/cpu/nn/gather.c \
	backends/cpu/nn/loss.c backends/cpu/nn/nn.h backends/cpu/nn/cpu_norm.c backends/cpu/nn/cpu_optim.c backends/cpu/nn/cpu_round8.c \
	backends/cpu/cpu_ops.c backends/cpu/cpu_ops.h backends/cpu/cpu_plugin.c plugins/kit/kit_clock.h plugins/kit/kit_cores.c \
	plugins/kit/kit_cores.h plugins/kit/kit_options.c plugins/kit/kit_options.h plugins/kit/plugin.h plugins/kit/value.h
libyokecpu_la_CFLAGS = $(AM_CFLAGS) -fno-math-errno
if !SANITIZE_NONE
# The vector kernels are the text of isa_portable.c, which bears every check of UBSan, for other registers. In them the checks of pointers
# that ASan makes too would take half of the time to compile, and as much of the time to run. At -O1 the kernels take two to three times as
# long, and with them most tests that train; those for AVX-512 take a minute to compile at -O2, so that they are fast only where they run.
# Where each variable is, for a debugger, takes half of the time to compile them (a pattern: a target's own name would take the place of its
# rule).
few_checks = -fno-sanitize=null,alignment,object-size,pointer-overflow -fno-var-tracking
fast_where = $(if $(shell grep -m 1 -ow $(1) /proc/cpuinfo 2>/dev/null),-O2) $(few_checks)
%isa_avx2.lo: CFLAGS += -O2 $(few_checks)
%isa_avx512.lo: CFLAGS += $(call fast_where,avx512f)
%isa_avx512bf16.lo: CFLAGS += $(call fast_where,avx512_bf16)
%isa_amx.lo: CFLAGS += $(few_checks)
endif
libyokecpu_la_LIBADD = -lm -lpthread

plugin_LTLIBRARIES += yoke_cpu.la
yoke_cpu_la_SOURCES =
yoke_cpu_la_LIBADD = libyokecpu.la
yoke_cpu_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined -export-symbols-regex \
	'^yk_plugin_query$$'
