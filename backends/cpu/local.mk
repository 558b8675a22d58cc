# SPDX-License-Identifier: Apache-2.0
# The CPU plugin. Its objects are a convenience library too, so that the unit tests reach the kernels.
noinst_LTLIBRARIES += libyokecpu.la
libyokecpu_la_SOURCES = backends/cpu/cpu.h backends/cpu/cpuid.c backends/cpu/pool.c backends/cpu/pool.h \
	backends/cpu/profile.c backends/cpu/profile.h backends/cpu/program.c backends/cpu/program.h \
	backends/cpu/plugin.c backends/cpu/queue.c backends/cpu/device.h \
	backends/cpu/target.h backends/cpu/vec.h backends/cpu/vmath.h backends/cpu/kern_pack.h backends/cpu/kern_map.h backends/cpu/kern_chain.h \
	backends/cpu/kern_gelu.h backends/cpu/kern_half.h backends/cpu/kern_half_rows.h backends/cpu/kern_pool.h \
	backends/cpu/kern_rows.h backends/cpu/kern_gemm.h backends/cpu/kern_f32.h backends/cpu/kern_amx.h backends/cpu/kern_isa.h \
	backends/cpu/kern_block.h backends/cpu/kern_span.h backends/cpu/kern_wino.h \
	backends/cpu/isa_bf16.h backends/cpu/isa_portable.c backends/cpu/isa_avx2.c backends/cpu/isa_avx512.c \
	backends/cpu/isa_avx512bf16.c backends/cpu/isa_amx.c backends/cpu/gemm.c backends/cpu/gemm.h \
	backends/cpu/pace.c backends/cpu/pace.h backends/cpu/steal.c backends/cpu/steal.h \
	backends/cpu/dot.c backends/cpu/map.c backends/cpu/map_plan.c backends/cpu/map_chain.c backends/cpu/map_inner.h \
	backends/cpu/map.h backends/cpu/reduce.c backends/cpu/data.c \
	backends/cpu/attention.c backends/cpu/attention.h backends/cpu/attention_bwd.c backends/cpu/conv.c backends/cpu/conv.h \
	backends/cpu/conv_direct.c backends/cpu/conv_dw.c backends/cpu/conv_wino.c \
	backends/cpu/conv_wino.h backends/cpu/conv_wino_dw.c backends/cpu/conv_plane.c backends/cpu/conv_block.c \
	backends/cpu/conv_block_dw.c backends/cpu/window.c \
	backends/cpu/norm.c backends/cpu/loss.c backends/cpu/optim.c
libyokecpu_la_CFLAGS = $(AM_CFLAGS) -fno-math-errno
libyokecpu_la_LIBADD = -lm -lpthread

plugin_LTLIBRARIES += yoke_cpu.la
yoke_cpu_la_SOURCES =
yoke_cpu_la_LIBADD = libyokecpu.la
yoke_cpu_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
	-export-symbols-regex '^yk_plugin_query$$'

CPU_KIT = tests/unit/cpu_kit.c tests/unit/cpu_kit.h $(KIT)
noinst_PROGRAMS += bench/cpu_kernels bench/gemm_peer
bench_gemm_peer_SOURCES = bench/gemm_peer.c $(CPU_KIT)
bench_gemm_peer_LDADD = libyokecpu.la $(ONEDNN_LIBS)
bench_cpu_kernels_SOURCES = bench/cpu_kernels.c $(CPU_KIT)
bench_cpu_kernels_LDADD = libyokecpu.la

if WITH_CHECK
check_PROGRAMS += tests/unit/cpu_ops.test tests/unit/cpu_chain.test tests/unit/cpu_gemm.test tests/unit/cpu_nets.test \
	tests/unit/cpu_rows.test tests/unit/cpu_queue.test
TESTS += tests/unit/cpu_ops.test tests/unit/cpu_chain.test tests/unit/cpu_gemm.test tests/unit/cpu_nets.test \
	tests/unit/cpu_rows.test tests/unit/cpu_queue.test
tests_unit_cpu_queue_test_SOURCES = tests/unit/cpu_queue.c $(CPU_KIT)
tests_unit_cpu_queue_test_LDADD = libyokecpu.la $(CHECK_LIBS)
tests_unit_cpu_queue_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_cpu_rows_test_SOURCES = tests/unit/cpu_rows.c tests/unit/cpu_near.h $(CPU_KIT)
tests_unit_cpu_rows_test_LDADD = libyokecpu.la $(CHECK_LIBS)
tests_unit_cpu_rows_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_cpu_nets_test_SOURCES = tests/unit/cpu_nets.c tests/unit/cpu_near.h $(CPU_KIT)
tests_unit_cpu_nets_test_LDADD = libyokecpu.la $(CHECK_LIBS)
tests_unit_cpu_nets_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_cpu_chain_test_SOURCES = tests/unit/cpu_chain.c $(CPU_KIT)
tests_unit_cpu_chain_test_LDADD = libyokecpu.la $(CHECK_LIBS)
tests_unit_cpu_chain_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_cpu_ops_test_SOURCES = tests/unit/cpu_ops.c $(CPU_KIT)
tests_unit_cpu_ops_test_LDADD = libyokecpu.la $(CHECK_LIBS)
tests_unit_cpu_ops_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_cpu_gemm_test_SOURCES = tests/unit/cpu_gemm.c $(CPU_KIT) \
	backends/cpu/isa_amx_emu.c
tests_unit_cpu_gemm_test_LDADD = libyokecpu.la $(CHECK_LIBS)
tests_unit_cpu_gemm_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
