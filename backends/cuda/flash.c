/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention and its gradient as a graph of cuDNN: products, pointwise operations and reductions over tensors of [batch, heads, rows,
 * elements]. cuda_attention.c asks for it while a program is made, in any thread. cuDNN recognises attention in it and runs one kernel
 * ("Fused Flash Attention" in its documentation); none of the virtual tensors is stored. With P = exp(scale Q K' - lse), masked:
 *
 *     lse = max + log(sum(exp(S - max))), S = scale Q K';  out = P V
 *     gv = P' gout;  dS = (gout V' - delta) P scale, delta = sum(gout out);  gk = dS' Q;  gq = dS K
 *
 * gq is a product by itself, without a sum in memory that many groups add to: so its sums have a fixed order (cuDNN's frontend calls it the
 * deterministic algorithm). P and dS are rounded to the operands' type before the products over queries.
 */
#include "backends/cuda/flash.h"

enum { UID_VIRTUAL = 100 }; /* those of virtual tensors count from there; others are CUDA_AT_ */

/* ---- Tensors ---- */

/* Its last two dimensions swapped, in the same memory. */
static cuda_shape shape_transposed(const cuda_shape *s)
{
    return (cuda_shape){{s->dim[0], s->dim[1], s->dim[3], s->dim[2]}, {s->stride[0], s->stride[1], s->stride[3], s->stride[2]}};
}

static void *tensor_virtual(cuda_dnn_graph *f, cudnnDataType_t type, const cuda_shape *s)
{
    return cuda_dnn_tensor(f, type, s, UID_VIRTUAL + f->n_made, 1, 0);
}

/* A number that is given at each run. */
static void *tensor_value(cuda_dnn_graph *f, int64_t uid)
{
    const cuda_shape one = cuda_shape_dense(1, 1, 1, 1);
    return cuda_dnn_tensor(f, CUDNN_DATA_FLOAT, &one, uid, 0, 1);
}

static void *tensor_real(cuda_dnn_graph *f, cudnnDataType_t type, cuda_shape s, int64_t uid)
{
    return cuda_dnn_tensor(f, type, &s, uid, 0, 0);
}

/* ---- Operations ---- */

/* b, test: NULL: it has none. axis: of an index. Returns y. */
static void *pointwise_add(cuda_dnn_graph *f, int mode, int64_t axis, void *x, void *b, void *test, void *y)
{
    void *what = cuda_dnn_new(f, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cuda_dnn_number(f, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    cuda_dnn_number(f, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                     mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        cuda_dnn_set(f, what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    cuda_dnn_end(f, what);
    void *d = cuda_dnn_new(f, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (test)
        cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, test);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    cuda_dnn_operation(f, d);
    return y;
}

/* The same, to a virtual tensor of f32. */
static void *pointwise_new(cuda_dnn_graph *f, int mode, void *x, void *b, const cuda_shape *s)
{
    return pointwise_add(f, mode, 0, x, b, NULL, tensor_virtual(f, CUDNN_DATA_FLOAT, s));
}

static void *reduction_new(cuda_dnn_graph *f, int mode, void *x, const cuda_shape *s)
{
    void *what = cuda_dnn_new(f, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), *y = tensor_virtual(f, CUDNN_DATA_FLOAT, s);
    cuda_dnn_number(f, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    cuda_dnn_number(f, what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
    cuda_dnn_end(f, what);
    void *d = cuda_dnn_new(f, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    cuda_dnn_operation(f, d);
    return y;
}

static void *matmul_add(cuda_dnn_graph *f, void *a, void *b, void *c)
{
    void *what = cuda_dnn_new(f, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    cuda_dnn_number(f, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    cuda_dnn_end(f, what);
    void *d = cuda_dnn_new(f, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
    cuda_dnn_operation(f, d);
    return c;
}

/* x, whose shape is s, transposed. */
static void *transpose_new(cuda_dnn_graph *f, cudnnDataType_t type, void *x, const cuda_shape *s)
{
    const cuda_shape transposed = shape_transposed(s);
    void *y = tensor_virtual(f, type, &transposed), *d = cuda_dnn_new(f, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    cuda_dnn_link(f, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    cuda_dnn_operation(f, d);
    return y;
}

/* ---- Attention ---- */

static cuda_shape shape_heads(const kit_attention *a, const kit_heads *h, int64_t rows)
{
    return (cuda_shape){{a->batch, a->heads, rows, a->size}, {h->batch, h->head, h->row, 1}};
}

static cuda_shape shape_scores(const kit_attention *a)
{
    return cuda_shape_dense(a->batch, a->heads, a->queries, a->keys);
}

static cuda_shape shape_rows(const kit_attention *a)
{
    return cuda_shape_dense(a->batch, a->heads, a->queries, 1);
}

/* Scores of keys behind their query are -infinity. */
static void *causal_add(cuda_dnn_graph *f, void *x, const cuda_shape *s)
{
    void *row = tensor_virtual(f, CUDNN_DATA_INT32, s), *col = tensor_virtual(f, CUDNN_DATA_INT32, s);
    void *seen = tensor_virtual(f, CUDNN_DATA_BOOLEAN, s);
    pointwise_add(f, CUDNN_POINTWISE_GEN_INDEX, 2, x, NULL, NULL, row);
    pointwise_add(f, CUDNN_POINTWISE_GEN_INDEX, 3, x, NULL, NULL, col);
    pointwise_add(f, CUDNN_POINTWISE_CMP_GE, 0, row, col, NULL, seen);
    return pointwise_add(f, CUDNN_POINTWISE_BINARY_SELECT, 0, x, tensor_value(f, CUDA_AT_LOWEST), seen,
                         tensor_virtual(f, CUDNN_DATA_FLOAT, s));
}

void cuda_flash_forward(cuda_dnn_graph *f, const kit_attention *a)
{
    const cuda_shape scores = shape_scores(a), rows = shape_rows(a), keys = shape_heads(a, &a->k, a->keys);
    const cudnnDataType_t type = cuda_dnn_type(a->dtype);
    void *q = tensor_real(f, type, shape_heads(a, &a->q, a->queries), CUDA_AT_Q);
    void *k = tensor_real(f, type, shape_transposed(&keys), CUDA_AT_K);
    void *v = tensor_real(f, type, shape_heads(a, &a->v, a->keys), CUDA_AT_V), *scale = tensor_value(f, CUDA_AT_SCALE);
    void *s = matmul_add(f, q, k, tensor_virtual(f, CUDNN_DATA_FLOAT, &scores));
    s = pointwise_new(f, CUDNN_POINTWISE_MUL, s, scale, &scores);
    if (a->causal)
        s = causal_add(f, s, &scores);
    void *most = reduction_new(f, CUDNN_REDUCE_TENSOR_MAX, s, &rows);
    void *e = pointwise_new(f, CUDNN_POINTWISE_EXP, pointwise_new(f, CUDNN_POINTWISE_SUB, s, most, &scores), NULL, &scores);
    void *sum = reduction_new(f, CUDNN_REDUCE_TENSOR_ADD, e, &rows), *logs = pointwise_new(f, CUDNN_POINTWISE_LOG, sum, NULL, &rows);
    pointwise_add(f, CUDNN_POINTWISE_ADD, 0, most, logs, NULL, tensor_real(f, CUDNN_DATA_FLOAT, rows, CUDA_AT_LSE));
    void *p = pointwise_add(f, CUDNN_POINTWISE_DIV, 0, e, sum, NULL, tensor_virtual(f, type, &scores));
    matmul_add(f, p, v, tensor_real(f, type, shape_heads(a, &a->out, a->queries), CUDA_AT_OUT));
}

/* delta: a number for each query, in memory between cuDNN's kernels. */
static void *delta_add(cuda_dnn_graph *f, const kit_attention *a, void *gout, void *out)
{
    const cuda_shape heads = cuda_shape_dense(a->batch, a->heads, a->queries, a->size), rows = shape_rows(a);
    void *sum = reduction_new(f, CUDNN_REDUCE_TENSOR_ADD, pointwise_new(f, CUDNN_POINTWISE_MUL, gout, out, &heads), &rows);
    return pointwise_add(f, CUDNN_POINTWISE_MUL, 0, sum, tensor_value(f, CUDA_AT_ONE), NULL,
                         tensor_real(f, CUDNN_DATA_FLOAT, rows, CUDA_AT_DELTA));
}

void cuda_flash_backward(cuda_dnn_graph *f, const kit_attention *a)
{
    const cuda_shape scores = shape_scores(a), keys = shape_heads(a, &a->k, a->keys), values = shape_heads(a, &a->v, a->keys);
    const cuda_shape keys_transposed = shape_transposed(&keys);
    const cudnnDataType_t type = cuda_dnn_type(a->dtype);
    void *q = tensor_real(f, type, shape_heads(a, &a->q, a->queries), CUDA_AT_Q);
    void *k = tensor_real(f, type, keys_transposed, CUDA_AT_K), *v = tensor_real(f, type, shape_transposed(&values), CUDA_AT_V);
    void *gout = tensor_real(f, type, shape_heads(a, &a->gout, a->queries), CUDA_AT_GOUT), *scale = tensor_value(f, CUDA_AT_SCALE);
    void *out = tensor_real(f, type, shape_heads(a, &a->out, a->queries), CUDA_AT_OUT), *delta = delta_add(f, a, gout, out);
    void *s = matmul_add(f, q, k, tensor_virtual(f, CUDNN_DATA_FLOAT, &scores));
    s = pointwise_new(f, CUDNN_POINTWISE_MUL, s, scale, &scores);
    s = pointwise_new(f, CUDNN_POINTWISE_SUB, s, tensor_real(f, CUDNN_DATA_FLOAT, shape_rows(a), CUDA_AT_LSE), &scores);
    if (a->causal)
        s = causal_add(f, s, &scores);
    void *p = pointwise_new(f, CUDNN_POINTWISE_EXP, s, NULL, &scores);
    matmul_add(f, transpose_new(f, type, p, &scores), gout, tensor_real(f, type, shape_heads(a, &a->gv, a->keys), CUDA_AT_GV));
    void *gp = matmul_add(f, gout, v, tensor_virtual(f, CUDNN_DATA_FLOAT, &scores));
    gp = pointwise_new(f, CUDNN_POINTWISE_MUL, pointwise_new(f, CUDNN_POINTWISE_SUB, gp, delta, &scores), p, &scores);
    void *ds = pointwise_new(f, CUDNN_POINTWISE_MUL, gp, scale, &scores);
    matmul_add(f, transpose_new(f, type, ds, &scores), q, tensor_real(f, type, shape_heads(a, &a->gk, a->keys), CUDA_AT_GK));
    matmul_add(f, ds, transpose_new(f, CUDNN_DATA_FLOAT, k, &keys_transposed),
               tensor_real(f, type, shape_heads(a, &a->gq, a->queries), CUDA_AT_GQ));
}
