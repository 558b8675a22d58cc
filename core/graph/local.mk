# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/graph/graph.h core/graph/internal.h core/graph/table.c core/graph/value.c \
	core/graph/view.c core/graph/build.c core/graph/shape.c core/graph/shape_prim.c core/graph/shape_comp.c \
	core/graph/body.c core/graph/body.h core/graph/body_window.c core/graph/body_norm.c core/graph/body_attention.c \
	core/graph/eval.c core/graph/eval_prim.c core/graph/eval_conv.c core/graph/eval_norm.c \
	core/graph/eval_attention.c core/graph/eval_opt.c core/graph/text.c core/graph/check.c core/graph/serial.c

if WITH_CHECK
check_PROGRAMS += tests/unit/graph_build.test
TESTS += tests/unit/graph_build.test
tests_unit_graph_build_test_SOURCES = tests/unit/graph_build.c
tests_unit_graph_build_test_LDADD = $(TEST_LIBS)
tests_unit_graph_build_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/unit/graph_body.test
TESTS += tests/unit/graph_body.test
tests_unit_graph_body_test_SOURCES = tests/unit/graph_body.c tests/unit/graph_lab.h
tests_unit_graph_body_test_LDADD = $(TEST_LIBS)
tests_unit_graph_body_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/unit/graph_serial.test
TESTS += tests/unit/graph_serial.test
tests_unit_graph_serial_test_SOURCES = tests/unit/graph_serial.c tests/unit/graph_lab.h tests/fuzz/graph_input.h
tests_unit_graph_serial_test_LDADD = $(TEST_LIBS)
tests_unit_graph_serial_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/unit/graph_eval.test
TESTS += tests/unit/graph_eval.test
tests_unit_graph_eval_test_SOURCES = tests/unit/graph_eval.c tests/unit/graph_lab.h
tests_unit_graph_eval_test_LDADD = $(TEST_LIBS)
tests_unit_graph_eval_test_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
check_PROGRAMS += tests/fuzz/graph.test
TESTS += tests/fuzz/graph.test
tests_fuzz_graph_test_SOURCES = tests/fuzz/fuzz_graph.c tests/fuzz/graph_input.h tests/fuzz/mutate.h
tests_fuzz_graph_test_LDADD = libyokecore.la
tests_fuzz_graph_test_CFLAGS = $(AM_CFLAGS)
endif
