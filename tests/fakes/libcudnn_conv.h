/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of the fake cuDNN that is a convolution, or a gradient of one (libcudnn_conv.c). */
#ifndef YOKE_TESTS_FAKES_LIBCUDNN_CONV_H
#define YOKE_TESTS_FAKES_LIBCUDNN_CONV_H

#include "tests/fakes/libcudnn_graph.h"

bool fake_step_is_conv(const fake_step *step);
const char *fake_conv_add(fake_dnn_graph *graph, const fake_step *step); /* as fake_graph_add */
bool fake_conv_types(const fake_dnn_graph *graph);        /* all of one type: the real one has no engine for others */
/* rounds: operands to TF32. */
void fake_conv_run(const fake_dnn_graph *graph, char *const at[FAKE_TENSORS], bool rounds);

#endif
