# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/control/control.h core/control/info.c core/control/internal.h core/control/job.c \
	core/control/job.h core/control/join.c core/control/layout.c core/control/live.c core/control/stuck.c
if WITH_CHECK
UNIT_TESTS += tests/unit/control/garbage.test
tests_unit_control_garbage_test_SOURCES = tests/unit/control/garbage.c
endif
