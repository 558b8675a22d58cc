# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/plan/plan.h core/plan/inner.h core/plan/plan.c core/plan/remap.c core/plan/trace.c \
	core/plan/grad.c core/plan/inverse.c core/plan/claim.c core/plan/attention.c core/plan/narrow.c \
	core/plan/autocast.c core/plan/recompute.c core/plan/remat.c core/plan/factor.c \
	core/plan/fuse.h core/plan/fuse.c core/plan/fuse_emit.c core/plan/overlap.c core/plan/place.c core/plan/memory.c core/plan/segment.c

if WITH_CHECK
check_PROGRAMS += tests/unit/plan_passes.test
TESTS += tests/unit/plan_passes.test
tests_unit_plan_passes_test_SOURCES = tests/unit/plan_passes.c tests/unit/plan_lab.h tests/unit/refplugin.c tests/unit/refplugin.h
tests_unit_plan_passes_test_LDADD = $(TEST_LIBS)
tests_unit_plan_passes_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
