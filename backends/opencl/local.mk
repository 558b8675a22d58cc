# SPDX-License-Identifier: Apache-2.0
if WITH_OPENCL
plugin_LTLIBRARIES += yoke_opencl.la
yoke_opencl_la_SOURCES = backends/opencl/build.c backends/opencl/cores.c backends/opencl/cores.h backends/opencl/device.c \
	backends/opencl/env.c backends/opencl/host.c backends/opencl/list.c backends/opencl/memory.c backends/opencl/ocl.h \
	backends/opencl/options.c backends/opencl/plugin.c backends/opencl/probe.c backends/opencl/program.c \
	backends/opencl/queue.c backends/opencl/shape.c backends/opencl/shape.h backends/opencl/survey.c \
	backends/opencl/survey.h backends/opencl/watch.c
yoke_opencl_la_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_opencl_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -export-symbols-regex '^yk_plugin_query$$'
yoke_opencl_la_LIBADD = libkit.la $(OPENCL_LIBS)

# tries a driver in a process of its own; looked for beside the plugin
plugin_PROGRAMS = yoke-probe-opencl
yoke_probe_opencl_SOURCES = tools/probe_opencl.c
yoke_probe_opencl_CFLAGS = $(AM_CFLAGS) $(CONVERSION) $(OPENCL_CFLAGS)
yoke_probe_opencl_LDADD = $(OPENCL_LIBS)
OPENCL_KIT = tests/support/opencl_kit.c tests/support/opencl_kit.h $(KIT)
if WITH_CHECK
UNIT_TESTS += tests/unit/opencl/fake.test tests/unit/opencl/nn.test tests/unit/opencl/prims.test \
	tests/unit/opencl/traps.test
tests_unit_opencl_prims_test_SOURCES = tests/unit/opencl/prims.c $(OPENCL_KIT)
tests_unit_opencl_nn_test_SOURCES = tests/unit/opencl/nn.c $(OPENCL_KIT)
tests_unit_opencl_nn_test_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_opencl_nn_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(OPENCL_CFLAGS)
tests_unit_opencl_traps_test_SOURCES = tests/unit/opencl/traps.c $(OPENCL_KIT)
tests_unit_opencl_traps_test_LDADD = $(CHECK_LIBS)
check_LTLIBRARIES += tests/unit/opencl/bad_icd.la
tests_unit_opencl_bad_icd_la_SOURCES = tests/unit/opencl/bad_icd.c
tests_unit_opencl_bad_icd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += tests/unit/opencl/hang_icd.la
tests_unit_opencl_hang_icd_la_SOURCES = tests/unit/opencl/hang_icd.c
tests_unit_opencl_hang_icd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
check_LTLIBRARIES += tests/unit/opencl/fake_icd.la
tests_unit_opencl_fake_icd_la_SOURCES = tests/unit/opencl/fake_icd.c
tests_unit_opencl_fake_icd_la_CFLAGS = $(AM_CFLAGS) $(OPENCL_CFLAGS)
tests_unit_opencl_fake_icd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath /nowhere
tests_unit_opencl_fake_test_SOURCES = tests/unit/opencl/fake.c
tests_unit_opencl_fake_test_LDADD = $(CHECK_LIBS) $(OPENCL_LIBS)
tests_unit_opencl_fake_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) $(OPENCL_CFLAGS)
endif
endif
