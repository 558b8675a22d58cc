# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/grad/grad.h core/grad/internal.h core/grad/grad.c core/grad/rules_prim.c \
	core/grad/rules_comp.c

if WITH_CHECK
check_PROGRAMS += tests/unit/grad_rules.test
TESTS += tests/unit/grad_rules.test
tests_unit_grad_rules_test_SOURCES = tests/unit/grad_rules.c tests/unit/graph_lab.h
tests_unit_grad_rules_test_LDADD = $(TEST_LIBS)
tests_unit_grad_rules_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/unit/graph_golden.test
TESTS += tests/unit/graph_golden.test
tests_unit_graph_golden_test_SOURCES = tests/unit/graph_golden.c tests/unit/graph_lab.h tests/unit/graph_file.h
tests_unit_graph_golden_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_graph_golden_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/unit/graph_vectors.test
TESTS += tests/unit/graph_vectors.test
tests_unit_graph_vectors_test_SOURCES = tests/unit/graph_vectors.c tests/unit/graph_vectors_layers.c \
	tests/unit/graph_vectors.h tests/unit/graph_lab.h tests/unit/graph_file.h
tests_unit_graph_vectors_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_graph_vectors_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
endif
