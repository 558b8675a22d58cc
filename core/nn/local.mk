# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/nn/optim.c core/nn/optim.h core/nn/scaler.c core/nn/scaler.h core/nn/sched.c core/nn/sched.h \
	core/nn/sched_settings.c core/nn/sched_settings.h

if WITH_CHECK
check_PROGRAMS += tests/unit/nn_tables.test
TESTS += tests/unit/nn_tables.test
tests_unit_nn_tables_test_SOURCES = tests/unit/nn_tables.c tests/unit/suite.h
tests_unit_nn_tables_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_nn_tables_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
