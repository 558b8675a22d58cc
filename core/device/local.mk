# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/device/device.h core/device/intern.h core/device/cores.c core/device/topology.c \
	core/device/bind.c core/device/host.c core/device/table.c core/device/nearest.c core/device/plugin.c \
	core/device/pluginlist.c core/device/select.c core/device/open.c core/device/layers.c core/device/hook.h core/device/hook.c \
	core/device/validate.c core/device/pace.c core/device/probe.c \
	core/device/simple.h core/device/simple.c core/device/simplerun.c

if WITH_CHECK
check_PROGRAMS += tests/unit/device_topology.test tests/unit/device_select.test tests/unit/device_layers.test
TESTS += tests/unit/device_topology.test tests/unit/device_select.test tests/unit/device_layers.test
tests_unit_device_topology_test_SOURCES = tests/unit/device_topology.c tests/unit/machines.h
tests_unit_device_topology_test_LDADD = $(TEST_LIBS) $(HWLOC_LIBS)
tests_unit_device_topology_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_device_select_test_SOURCES = tests/unit/device_select.c tests/unit/machines.h
tests_unit_device_select_test_LDADD = $(TEST_LIBS) $(HWLOC_LIBS)
tests_unit_device_select_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
tests_unit_device_layers_test_SOURCES = tests/unit/device_layers.c
tests_unit_device_layers_test_LDADD = $(TEST_LIBS)
tests_unit_device_layers_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
