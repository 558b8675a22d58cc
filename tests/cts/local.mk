# SPDX-License-Identifier: Apache-2.0
CTS_TESTS = tests/cts/template.sh tests/cts/guide.sh tests/cts/older.sh tests/cts/broken.sh tests/cts/shrink.sh tests/cts/report.sh \
	tests/cts/trains.sh tests/cts/loader.sh tests/cts/cpu.sh \
	tests/cts/far.sh tests/cts/device.sh tests/cts/cuda.sh tests/cts/record.sh tests/cts/opencl.sh \
	tests/cts/opencl_machines.sh tests/cts/rusticl.sh tests/cts/seals.sh tests/cts/transport.sh \
	tests/cts/vulkan.sh tests/cts/vulkan_faults.sh tests/cts/same_card.sh tests/cts/pjrt.sh tests/cts/pjrt_coll.sh \
	tests/cts/slow_compile.sh \
	tests/cts/plugin_words.sh tests/cts/products.sh
check_LTLIBRARIES += tests/cts/transport_loopback.la
tests_cts_transport_loopback_la_SOURCES = tests/cts/broken_transport.c tests/support/loopback.c $(TRANSPORT_BASE) $(TRANSPORT_CORE)
tests_cts_transport_loopback_la_CFLAGS = $(AM_CFLAGS)
tests_cts_transport_loopback_la_LDFLAGS = $(TEST_MODULE) -export-symbols-regex '^yk_transport_query$$'
check_PROGRAMS += tests/cts/pjrt_members
tests_cts_pjrt_members_LDADD = libtestkit.la libkit.la libyokecore.la $(CORE_LIBS) $(CHECK_LIBS)
dist_check_SCRIPTS += $(CTS_TESTS)
TESTS += $(CTS_TESTS)
EXTRA_DIST += tests/cts/lib.sh tests/cts/pjrt_wheel.sh tests/cts/broken.c tests/cts/broken_far.c tests/cts/broken_graph.c \
	tests/cts/broken_island.c tests/cts/broken_kinds.c tests/cts/broken_wide.c \
	tests/cts/broken_caps.h tests/cts/broken_stats.h tests/cts/island.c \
	tests/cts/loader.c tests/cts/older.c tests/cts/pjrt_iree.c tests/cts/pjrt_layout.c tests/cts/pjrt_shim.c \
	tests/cts/iree.xfail tests/cts/rusticl.xfail tests/cts/vulkan.xfail tests/cts/abi.txt tests/cts/api.txt tests/cts/minors.txt \
	tests/cts/symbols.txt tests/cts/kept tests/cts/reports
# the plugin's queues and locks under TSan
TSAN_TESTS += tests/cts/vulkan.sh
