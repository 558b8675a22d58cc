/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of ONNX that have a counterpart in yoke.h, or are a few of them together. */
#ifndef YOKE_TOOLS_CHECK_VECTORS_OPS_H
#define YOKE_TOOLS_CHECK_VECTORS_OPS_H

#include <yoke/yoke.h>

#include "core/io/json.h"
#include "core/io/safetensors.h"

enum { VECTOR_MOST = 16 };

typedef struct vector_case {
    yk_job *job;
    yk__safetensors *file;
    const char *op;
    json_t *attrs;
    const yk__safetensor *in_tensor[VECTOR_MOST]; /* NULL: an absent optional input */
    int n_in;
    yk_t out[3];
    bool unsupported;
} vector_case;

/* Builds the case into out[]; false if the operator, or this use of it, is not supported. */
bool vector_build(vector_case *c);

#endif
