# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/graph/body.c core/graph/body.h core/graph/body_attention.c core/graph/body_norm.c \
	core/graph/body_window.c core/graph/build.c core/graph/check.c core/graph/eval.c core/graph/eval_attention.c \
	core/graph/eval_conv.c core/graph/eval_norm.c core/graph/eval_opt.c core/graph/eval_prim.c core/graph/graph.h \
	core/graph/internal.h core/graph/serial.c core/graph/shape.c core/graph/shape_comp.c core/graph/shape_prim.c \
	core/graph/table.c core/graph/text.c core/graph/value.c core/graph/view.c

if WITH_CHECK
UNIT_TESTS += tests/fuzz/graph.test tests/unit/graph/body.test tests/unit/graph/build.test \
	tests/unit/graph/eval.test tests/unit/graph/serial.test
tests_unit_graph_build_test_SOURCES = tests/unit/graph/build.c
tests_unit_graph_body_test_SOURCES = tests/unit/graph/body.c tests/support/graph_lab.h
tests_unit_graph_serial_test_SOURCES = tests/unit/graph/serial.c tests/support/graph_lab.h tests/fuzz/graph_input.h
tests_unit_graph_eval_test_SOURCES = tests/unit/graph/eval.c tests/support/graph_lab.h
tests_fuzz_graph_test_SOURCES = tests/fuzz/fuzz_graph.c tests/fuzz/graph_input.h tests/fuzz/mutate.h
tests_fuzz_graph_test_LDADD = libyokecore.la
endif
