# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/group/call.c core/group/collect.c core/group/feed.c core/group/group.c \
	core/group/group.h core/group/inner.h
if WITH_CHECK
UNIT_TESTS += tests/unit/launch/origin.test
tests_unit_launch_origin_test_SOURCES = tests/unit/launch/origin.c
endif
