/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention as cuDNN's graph API has it: a graph of products, pointwise operations and reductions over tensors of [batch, heads, rows,
 * elements], of which cuDNN recognises attention and runs one kernel ("Fused Flash Attention" in its documentation); none of the virtual
 * tensors is stored. With P = exp(scale Q K' - lse), masked:
 *
 *     lse = max + log(sum(exp(S - max))), S = scale Q K';  out = P V
 *     gv = P' gout;  dS = (gout V' - delta) P scale, delta = sum(gout out);  gk = dS' Q;  gq = dS K
 *
 * gq is a product by itself, without a sum in memory that many groups add to: so its sums have a fixed order (what cuDNN's frontend calls
 * the deterministic algorithm). P and dS are rounded to the operands' type before the products over queries.
 */
#include "backends/cuda/flash.h"

enum { UID_VIRTUAL = 100 }; /* those of virtual tensors count from there; others are CUDA_AT_ */

typedef struct shape {
    int64_t dim[4], stride[4];
} shape;

/* ---- Descriptors; after a failure nothing more is asked for ---- */

static void *descriptor_new(cuda_flash *f, cudnnBackendDescriptorType_t type)
{
    void *d = NULL;
    if (!f->rc && f->n_made == CUDA_FLASH_MADE)
        f->rc = CUDNN_STATUS_INTERNAL_ERROR;
    if (!f->rc)
        f->rc = f->dnn->descriptor_new(type, &d);
    if (!f->rc)
        f->made[f->n_made++] = d;
    return d;
}

static void attribute_set(cuda_flash *f, void *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                          const void *value)
{
    if (!f->rc)
        f->rc = f->dnn->attribute_set(d, name, type, n, value);
}

static void attribute_number(cuda_flash *f, void *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int value)
{
    attribute_set(f, d, name, type, 1, &value);
}

static void attribute_link(cuda_flash *f, void *d, cudnnBackendAttributeName_t name, void *to)
{
    attribute_set(f, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

static void descriptor_end(cuda_flash *f, void *d)
{
    if (!f->rc)
        f->rc = f->dnn->descriptor_end(d);
}

/* ---- Tensors ---- */

static shape shape_dense(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (shape){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

/* Its last two dimensions swapped, in the same memory. */
static shape shape_transposed(const shape *s)
{
    return (shape){{s->dim[0], s->dim[1], s->dim[3], s->dim[2]}, {s->stride[0], s->stride[1], s->stride[3], s->stride[2]}};
}

static void *tensor_new(cuda_flash *f, cudnnDataType_t type, const shape *s, int64_t uid, int is_virtual, int is_value)
{
    void *d = descriptor_new(f, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t align = CUDA_FLASH_ALIGN;
    const uint8_t yes = 1;
    attribute_number(f, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    attribute_set(f, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, s->dim);
    attribute_set(f, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, s->stride);
    attribute_set(f, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    attribute_set(f, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (is_virtual)
        attribute_set(f, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (is_value)
        attribute_set(f, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    descriptor_end(f, d);
    return d;
}

static void *tensor_virtual(cuda_flash *f, cudnnDataType_t type, const shape *s)
{
    return tensor_new(f, type, s, UID_VIRTUAL + f->n_made, 1, 0);
}

/* A number that is given at each run. */
static void *tensor_value(cuda_flash *f, int64_t uid)
{
    const shape one = shape_dense(1, 1, 1, 1);
    return tensor_new(f, CUDNN_DATA_FLOAT, &one, uid, 0, 1);
}

static void *tensor_real(cuda_flash *f, cudnnDataType_t type, shape s, int64_t uid)
{
    return tensor_new(f, type, &s, uid, 0, 0);
}

/* ---- Operations ---- */

static void operation_end(cuda_flash *f, void *d)
{
    descriptor_end(f, d);
    if (!f->rc && f->n_op < CUDA_FLASH_OPS)
        f->op[f->n_op++] = d;
}

/* b, test: NULL: it has none. axis: of an index. Returns y. */
static void *pointwise_add(cuda_flash *f, int mode, int64_t axis, void *x, void *b, void *test, void *y)
{
    void *what = descriptor_new(f, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    attribute_number(f, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    attribute_number(f, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                     mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        attribute_set(f, what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    descriptor_end(f, what);
    void *d = descriptor_new(f, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        attribute_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (test)
        attribute_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, test);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    operation_end(f, d);
    return y;
}

/* The same, to a virtual tensor of f32. */
static void *pointwise_new(cuda_flash *f, int mode, void *x, void *b, const shape *s)
{
    return pointwise_add(f, mode, 0, x, b, NULL, tensor_virtual(f, CUDNN_DATA_FLOAT, s));
}

static void *reduction_new(cuda_flash *f, int mode, void *x, const shape *s)
{
    void *what = descriptor_new(f, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), *y = tensor_virtual(f, CUDNN_DATA_FLOAT, s);
    attribute_number(f, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    attribute_number(f, what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
    descriptor_end(f, what);
    void *d = descriptor_new(f, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    operation_end(f, d);
    return y;
}

static void *matmul_add(cuda_flash *f, void *a, void *b, void *c)
{
    void *what = descriptor_new(f, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    attribute_number(f, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    descriptor_end(f, what);
    void *d = descriptor_new(f, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
    operation_end(f, d);
    return c;
}

/* x, whose shape is s, transposed. */
static void *transpose_new(cuda_flash *f, cudnnDataType_t type, void *x, const shape *s)
{
    const shape transposed = shape_transposed(s);
    void *y = tensor_virtual(f, type, &transposed), *d = descriptor_new(f, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    attribute_link(f, d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    operation_end(f, d);
    return y;
}

/* ---- Attention ---- */

static cudnnDataType_t type_of(const kit_attention *a)
{
    return a->dtype == YK_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

static shape shape_heads(const kit_attention *a, const kit_heads *h, int64_t rows)
{
    return (shape){{a->batch, a->heads, rows, a->size}, {h->batch, h->head, h->row, 1}};
}

static shape shape_scores(const kit_attention *a)
{
    return shape_dense(a->batch, a->heads, a->queries, a->keys);
}

static shape shape_rows(const kit_attention *a)
{
    return shape_dense(a->batch, a->heads, a->queries, 1);
}

/* Scores of keys behind their query are -infinity. */
static void *causal_add(cuda_flash *f, void *x, const shape *s)
{
    void *row = tensor_virtual(f, CUDNN_DATA_INT32, s), *col = tensor_virtual(f, CUDNN_DATA_INT32, s);
    void *seen = tensor_virtual(f, CUDNN_DATA_BOOLEAN, s);
    pointwise_add(f, CUDNN_POINTWISE_GEN_INDEX, 2, x, NULL, NULL, row);
    pointwise_add(f, CUDNN_POINTWISE_GEN_INDEX, 3, x, NULL, NULL, col);
    pointwise_add(f, CUDNN_POINTWISE_CMP_GE, 0, row, col, NULL, seen);
    return pointwise_add(f, CUDNN_POINTWISE_BINARY_SELECT, 0, x, tensor_value(f, CUDA_AT_LOWEST), seen,
                         tensor_virtual(f, CUDNN_DATA_FLOAT, s));
}

void cuda_flash_forward(cuda_flash *f, const kit_attention *a)
{
    const shape scores = shape_scores(a), rows = shape_rows(a), keys = shape_heads(a, &a->k, a->keys);
    const cudnnDataType_t type = type_of(a);
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
static void *delta_add(cuda_flash *f, const kit_attention *a, void *gout, void *out)
{
    const shape heads = shape_dense(a->batch, a->heads, a->queries, a->size), rows = shape_rows(a);
    void *sum = reduction_new(f, CUDNN_REDUCE_TENSOR_ADD, pointwise_new(f, CUDNN_POINTWISE_MUL, gout, out, &heads), &rows);
    return pointwise_add(f, CUDNN_POINTWISE_MUL, 0, sum, tensor_value(f, CUDA_AT_ONE), NULL,
                         tensor_real(f, CUDNN_DATA_FLOAT, rows, CUDA_AT_DELTA));
}

void cuda_flash_backward(cuda_flash *f, const kit_attention *a)
{
    const shape scores = shape_scores(a), keys = shape_heads(a, &a->k, a->keys), values = shape_heads(a, &a->v, a->keys);
    const shape keys_transposed = shape_transposed(&keys);
    const cudnnDataType_t type = type_of(a);
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

/* ---- Plans ---- */

/* The first of the engines, in cuDNN's own order, that it makes a plan of. */
static void *plan_new(cuda_flash *f, cudnnHandle_t handle, void *const *config, int64_t n)
{
    void *plan = NULL;
    for (int64_t i = 0; i < n && !plan; i++) {
        f->rc = CUDNN_STATUS_SUCCESS;
        void *d = descriptor_new(f, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        attribute_set(f, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        attribute_link(f, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config[i]);
        descriptor_end(f, d);
        if (!f->rc)
            plan = d;
    }
    return plan;
}

void *cuda_flash_plan(cuda_flash *f, cudnnHandle_t handle, int64_t *workspace)
{
    void *config[CUDA_FLASH_ENGINES], *graph = descriptor_new(f, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    int64_t n = 0, got = 0;
    attribute_set(f, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    attribute_set(f, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, f->n_op, f->op);
    descriptor_end(f, graph);
    void *choice = descriptor_new(f, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    attribute_link(f, choice, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    attribute_number(f, choice, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    descriptor_end(f, choice);
    for (int i = 0; i < CUDA_FLASH_ENGINES; i++)
        config[i] = descriptor_new(f, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!f->rc)
        f->rc = f->dnn->attribute_get(choice, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDA_FLASH_ENGINES, &n, config);
    if (!f->rc && n < 1)
        f->rc = CUDNN_STATUS_NOT_SUPPORTED;
    void *plan = f->rc ? NULL : plan_new(f, handle, config, n < CUDA_FLASH_ENGINES ? n : CUDA_FLASH_ENGINES);
    if (plan)
        f->rc = f->dnn->attribute_get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, workspace);
    return f->rc ? NULL : plan;
}

void cuda_flash_free(cuda_flash *f)
{
    while (f->n_made)
        f->dnn->descriptor_free(f->made[--f->n_made]);
    f->n_op = 0;
}
