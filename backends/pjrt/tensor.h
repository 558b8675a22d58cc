/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StableHLO text, an operation a line. A tensor is the result of one line. After a failure (out of memory, too many dimensions) the text is
 * bad for good, which its reader asks once at the end. One thread.
 */
#ifndef YOKE_BACKENDS_PJRT_TENSOR_H
#define YOKE_BACKENDS_PJRT_TENSOR_H

#include "plugins/kit/text.h"

#define PJ_DIMS (2 * YK_MAX_DIMS + 2)

/* Element types of StableHLO: a dtype of Yoke by its number, then those that only the text uses. A bool is i1. */
enum { PJ_U32 = YK_DTYPE_COUNT, PJ_U64, PJ_TYPES };

typedef struct pj_tensor {
    uint32_t id;
    uint32_t type, dims;
    int64_t dim[PJ_DIMS];
} pj_tensor;

typedef struct pj_text {
    kit_text text;
    uint32_t n; /* results so far */
} pj_text;

const char *pj_type_name(uint32_t type);
int64_t pj_count(const pj_tensor *t);
/* The same shape with another type. */
pj_tensor pj_like(const pj_tensor *t, uint32_t type);
/* "tensor<2x3xf32>" */
void pj_put_type(pj_text *p, const pj_tensor *t);
/* A new result: "%N = stablehlo.OP"; the caller writes the rest of the line. */
pj_tensor pj_begin(pj_text *p, const char *op, pj_tensor shape);

pj_tensor pj_number(pj_text *p, pj_tensor shape, double value);
pj_tensor pj_integer(pj_text *p, pj_tensor shape, int64_t value);
pj_tensor pj_unary(pj_text *p, const char *op, pj_tensor a);
pj_tensor pj_binary(pj_text *p, const char *op, pj_tensor a, pj_tensor b);
pj_tensor pj_compare(pj_text *p, const char *how, pj_tensor a, pj_tensor b);
pj_tensor pj_select(pj_text *p, pj_tensor c, pj_tensor a, pj_tensor b);
pj_tensor pj_convert(pj_text *p, pj_tensor a, uint32_t type);
pj_tensor pj_iota(pj_text *p, pj_tensor shape, uint32_t axis);
pj_tensor pj_reshape(pj_text *p, pj_tensor a, uint32_t dims, const int64_t *dim);
pj_tensor pj_transpose(pj_text *p, pj_tensor a, const uint32_t *axis);
/* Dimension i of a becomes dimension axis[i] of the result. */
pj_tensor pj_broadcast(pj_text *p, pj_tensor a, const uint32_t *axis, uint32_t dims, const int64_t *dim);
pj_tensor pj_slice(pj_text *p, pj_tensor a, const int64_t *begin, const int64_t *end, const int64_t *step);
/* Pads, or cuts where a number is negative, with `value`, a scalar; `inner` between elements, NULL: none. */
pj_tensor pj_pad(pj_text *p, pj_tensor a, pj_tensor value, const int64_t *low, const int64_t *high, const int64_t *inner);
pj_tensor pj_concat(pj_text *p, uint32_t n, const pj_tensor *a, uint32_t axis);
/* Reduces the dimensions of a bit mask, which vanish, from `first`, a scalar. */
pj_tensor pj_reduce(pj_text *p, const char *op, pj_tensor a, pj_tensor first, uint64_t mask);
/* Products over ca and cb, and alike over the first `batch` dimensions; the result has type `type`. */
pj_tensor pj_dot(pj_text *p, pj_tensor a, pj_tensor b, uint32_t batch, uint32_t ca, uint32_t cb, uint32_t type);

static inline pj_tensor pj_scalar(uint32_t type)
{
    return (pj_tensor){.type = type};
}

#endif
