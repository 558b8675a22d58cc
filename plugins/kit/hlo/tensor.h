/* SPDX-License-Identifier: Apache-2.0 */
/*
 * StableHLO text, an operation a line. A tensor is the result of one line. After a failure (out of memory, too many dimensions) the text is
 * bad for good, which its reader asks once at the end. One thread.
 */
#ifndef YOKE_PLUGINS_KIT_HLO_TENSOR_H
#define YOKE_PLUGINS_KIT_HLO_TENSOR_H

#include "plugins/kit/kit_text.h"

#define HLO_DIMS (2 * YK_MAX_DIMS + 2)

/* Element types of StableHLO: a dtype of Yoke has its own number, then types that only the text uses. A bool is i1. */
enum { HLO_U32 = YK_DTYPE_COUNT, HLO_U64, HLO_TYPES };

typedef struct hlo_tensor {
    uint32_t id;
    uint32_t type, dims;
    int64_t dim[HLO_DIMS];
} hlo_tensor;

typedef struct hlo_text {
    kit_text text;
    uint32_t n; /* results so far */
} hlo_text;

const char *hlo_type_name(uint32_t type);
int64_t hlo_count(const hlo_tensor *t);
/* The same shape with another type. */
hlo_tensor hlo_like(const hlo_tensor *t, uint32_t type);
/* "tensor<2x3xf32>" */
void hlo_put_type(hlo_text *p, const hlo_tensor *t);
/* A new result: "%N = stablehlo.OP"; the caller writes the rest of the line. */
hlo_tensor hlo_begin(hlo_text *p, const char *op, hlo_tensor shape);

hlo_tensor hlo_number(hlo_text *p, hlo_tensor shape, double value);
hlo_tensor hlo_integer(hlo_text *p, hlo_tensor shape, int64_t value);
hlo_tensor hlo_unary(hlo_text *p, const char *op, hlo_tensor a);
hlo_tensor hlo_binary(hlo_text *p, const char *op, hlo_tensor a, hlo_tensor b);
hlo_tensor hlo_compare(hlo_text *p, const char *how, hlo_tensor a, hlo_tensor b);
hlo_tensor hlo_select(hlo_text *p, hlo_tensor c, hlo_tensor a, hlo_tensor b);
hlo_tensor hlo_convert(hlo_text *p, hlo_tensor a, uint32_t type);
hlo_tensor hlo_iota(hlo_text *p, hlo_tensor shape, uint32_t axis);
hlo_tensor hlo_reshape(hlo_text *p, hlo_tensor a, uint32_t dims, const int64_t *dim);
hlo_tensor hlo_transpose(hlo_text *p, hlo_tensor a, const uint32_t *axis);
/* Dimension i of a becomes dimension axis[i] of the result. */
hlo_tensor hlo_broadcast(hlo_text *p, hlo_tensor a, const uint32_t *axis, uint32_t dims, const int64_t *dim);
hlo_tensor hlo_slice(hlo_text *p, hlo_tensor a, const int64_t *begin, const int64_t *end, const int64_t *step);
/* Pads with the scalar `value`, or cuts for a negative number; `inner` between elements, NULL for none. */
hlo_tensor hlo_pad(hlo_text *p, hlo_tensor a, hlo_tensor value, const int64_t *low, const int64_t *high, const int64_t *inner);
hlo_tensor hlo_concat(hlo_text *p, uint32_t n, const hlo_tensor *a, uint32_t axis);
/* Reduces the dimensions of a bit mask, which vanish, from `first`, a scalar. */
hlo_tensor hlo_reduce(hlo_text *p, const char *op, hlo_tensor a, hlo_tensor first, uint64_t mask);
/* Products over ca and cb, and alike over the first `batch` dimensions; the result has type `type`. */
hlo_tensor hlo_dot(hlo_text *p, hlo_tensor a, hlo_tensor b, uint32_t batch, uint32_t ca, uint32_t cb, uint32_t type);

static inline hlo_tensor hlo_scalar(uint32_t type)
{
    return (hlo_tensor){.type = type};
}

#endif
