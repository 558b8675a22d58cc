/* SPDX-License-Identifier: Apache-2.0 */
/* A graph of the fake cuDNN's operations, checked when it is made (libcudnn_graph.c) and computed in a stream's thread. */
#ifndef YOKE_TESTS_FAKES_LIBCUDNN_GRAPH_H
#define YOKE_TESTS_FAKES_LIBCUDNN_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_TENSORS 48
#define FAKE_STEPS 32
#define FAKE_GIVEN 16 /* tensors that a run is given: memory, numbers */

typedef struct fake_tensor {
    int64_t uid, dim[4], stride[4], align;
    int type; /* cudnnDataType_t */
    bool is_virtual, is_value, is_made;
} fake_tensor;

typedef struct fake_conv {
    int64_t stride[2], zeros[2], dilation[2];
    float alpha, beta;
} fake_conv;

/* mode: of pointwise operations and reductions; in: X or A, B, T (of a pointwise operation), or a convolution's X, W, Y but the result, as
 * numbers of tensors; -1: not there. */
typedef struct fake_step {
    int kind, mode; /* kind: the descriptor's type */
    int64_t axis;
    int in[3], out;
    fake_conv conv;
} fake_step;

typedef struct fake_dnn_graph {
    struct fake_dnn_graph *next; /* all that were ever made: a recorded launch may be there after its plan */
    fake_tensor tensor[FAKE_TENSORS];
    fake_step step[FAKE_STEPS];
    int n_tensor, n_step;
} fake_dnn_graph;

/* Adds an operation whose tensors are in the graph; NULL, or what is wrong with it. */
const char *fake_graph_add(fake_dnn_graph *graph, const fake_step *step);
const char *fake_graph_put(fake_dnn_graph *graph, const fake_step *step); /* the same for any kind, without a check of its computation */
/* The number of a tensor that is like this one; -1: too many, or another with its uid. */
int fake_graph_tensor(fake_dnn_graph *graph, const fake_tensor *tensor);
/* Elements of a head that the first product sums over; 0: there is no product. */
int64_t fake_graph_head(const fake_dnn_graph *graph);
int fake_type_bytes(int type); /* 0: a type that the fake does not know */
float fake_number_load(const char *at, int type);
void fake_number_store(char *at, int type, float f);
/* at: by tensor; value: by tensor, of those by value. */
void fake_graph_run(const fake_dnn_graph *graph, char *const at[FAKE_TENSORS], const float value[FAKE_TENSORS]);

#endif
