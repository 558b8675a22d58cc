# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/grad/grad.c core/grad/grad.h core/grad/internal.h core/grad/rules_comp.c \
	core/grad/rules_prim.c

if WITH_CHECK
UNIT_TESTS += tests/unit/grad/rules.test tests/unit/graph/golden.test tests/unit/graph/vectors.test
tests_unit_grad_rules_test_SOURCES = tests/unit/grad/rules.c tests/support/graph_lab.h
tests_unit_graph_golden_test_SOURCES = tests/unit/graph/golden.c tests/support/graph_lab.h tests/support/graph_file.h
tests_unit_graph_golden_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
tests_unit_graph_vectors_test_SOURCES = tests/unit/graph/vectors.c tests/unit/graph/vectors_layers.c \
	tests/support/graph_vectors.h tests/support/graph_lab.h tests/support/graph_file.h
tests_unit_graph_vectors_test_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
endif
