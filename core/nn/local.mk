# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/nn/optim.c core/nn/optim.h core/nn/scaler.c core/nn/scaler.h core/nn/sched.c \
	core/nn/sched.h core/nn/sched_settings.c core/nn/sched_settings.h

if WITH_CHECK
UNIT_TESTS += tests/unit/nn/tables.test
tests_unit_nn_tables_test_SOURCES = tests/unit/nn/tables.c tests/support/suite.h
tests_unit_nn_tables_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
endif
