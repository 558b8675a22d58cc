# SPDX-License-Identifier: Apache-2.0
if WITH_OPENCL
plugin_LTLIBRARIES += yoke_opencl.la
yoke_opencl_la_SOURCES = backends/opencl/ocl.h backends/opencl/plugin.c backends/opencl/env.c backends/opencl/probe.c \
	backends/opencl/options.c backends/opencl/shape.c backends/opencl/shape.h \
	backends/opencl/survey.c backends/opencl/survey.h \
	backends/opencl/device.c backends/opencl/memory.c backends/opencl/queue.c backends/opencl/build.c \
	backends/opencl/watch.c \
	backends/opencl/program.c backends/opencl/lower.c backends/opencl/lower_data.c backends/opencl/lower_dot.c \
	backends/opencl/lower_conv.c backends/opencl/lower_nn.c
yoke_opencl_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_opencl_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_opencl_la_LIBADD = libkit.la $(OPENCL_LIBS)
$(yoke_opencl_la_OBJECTS): $(KIT_TEXTS)

# tries a driver in a process of its own; looked for beside the plugin
plugin_PROGRAMS = yoke-probe-opencl
yoke_probe_opencl_SOURCES = tools/probe_opencl.c
yoke_probe_opencl_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_probe_opencl_LDADD = $(OPENCL_LIBS)
OPENCL_KIT = tests/unit/opencl_kit.c tests/unit/opencl_kit.h $(KIT)
if WITH_CHECK
check_PROGRAMS += tests/unit/opencl_prims.test
TESTS += tests/unit/opencl_prims.test
tests_unit_opencl_prims_test_SOURCES = tests/unit/opencl_prims.c $(OPENCL_KIT)
tests_unit_opencl_prims_test_LDADD = $(TEST_LIBS)
tests_unit_opencl_prims_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/unit/opencl_nn.test
TESTS += tests/unit/opencl_nn.test
tests_unit_opencl_nn_test_SOURCES = tests/unit/opencl_nn.c $(OPENCL_KIT)
tests_unit_opencl_nn_test_LDADD = $(TEST_LIBS)
tests_unit_opencl_nn_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_opencl_nn_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(OPENCL_CFLAGS)
check_PROGRAMS += tests/unit/opencl_traps.test
TESTS += tests/unit/opencl_traps.test
tests_unit_opencl_traps_test_SOURCES = tests/unit/opencl_traps.c $(OPENCL_KIT)
tests_unit_opencl_traps_test_LDADD = $(CHECK_LIBS)
tests_unit_opencl_traps_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_LTLIBRARIES += tests/unit/opencl_bad_icd.la
tests_unit_opencl_bad_icd_la_SOURCES = tests/unit/opencl_bad_icd.c
tests_unit_opencl_bad_icd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += tests/unit/opencl_hang_icd.la
tests_unit_opencl_hang_icd_la_SOURCES = tests/unit/opencl_hang_icd.c
tests_unit_opencl_hang_icd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += tests/unit/opencl_fake_icd.la
tests_unit_opencl_fake_icd_la_SOURCES = tests/unit/opencl_fake_icd.c
tests_unit_opencl_fake_icd_la_CFLAGS = $(AM_CFLAGS) $(OPENCL_CFLAGS)
tests_unit_opencl_fake_icd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_PROGRAMS += tests/unit/opencl_fake.test
TESTS += tests/unit/opencl_fake.test
tests_unit_opencl_fake_test_SOURCES = tests/unit/opencl_fake.c
tests_unit_opencl_fake_test_LDADD = $(CHECK_LIBS) $(OPENCL_LIBS)
tests_unit_opencl_fake_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(OPENCL_CFLAGS)
endif
endif
