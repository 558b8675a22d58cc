# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/device/bind.c core/device/cores.c core/device/device.h core/device/hook.c \
	core/device/hook.h core/device/hook_copy.c core/device/host.c core/device/intern.h core/device/layers.c core/device/nearest.c \
	core/device/open.c core/device/pace.c core/device/plugin.c core/device/pluginlist.c core/device/probe.c \
	core/device/select.c core/device/simple.c core/device/simple.h core/device/simplerun.c core/device/table.c \
	core/device/topology.c core/device/validate.c

if WITH_CHECK
UNIT_TESTS += tests/unit/device/layers.test tests/unit/device/select.test tests/unit/device/topology.test
tests_unit_device_topology_test_SOURCES = tests/unit/device/topology.c tests/support/machines.h
tests_unit_device_topology_test_LDADD = $(TEST_LIBS) $(HWLOC_LIBS)
tests_unit_device_select_test_SOURCES = tests/unit/device/select.c tests/support/machines.h
tests_unit_device_select_test_LDADD = $(TEST_LIBS) $(HWLOC_LIBS)
tests_unit_device_layers_test_SOURCES = tests/unit/device/layers.c
endif
