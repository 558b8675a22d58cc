# SPDX-License-Identifier: Apache-2.0
libyokecore_la_SOURCES += core/graph/body.c core/graph/body.h core/graph/body_attention.c core/graph/body_norm.c \
	core/graph/body_window.c core/graph/build.c core/graph/check.c core/graph/eval.c core/graph/eval_attention.c \
	core/graph/eval_conv.c core/graph/eval_norm.c core/graph/eval_opt.c core/graph/eval_prim.c core/graph/graph.h \
	core/graph/graph_internal.h core/graph/graph_node.c core/graph/op_table.h core/graph/round8.c core/graph/shape.c \
	core/graph/shape_comp.c core/graph/shape_prim.c core/graph/op_names.c core/graph/graph_text.c core/graph/value.c \
	core/graph/view.c
