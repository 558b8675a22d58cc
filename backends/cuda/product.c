/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products by cuBLASLt. The kit asks for a shape while a program is made, in any thread; cuda_program.c enqueues it.
 *
 * A shape is planned once for each device: descriptors, and the algorithm that cuBLASLt thinks best. Its sums must have a fixed order. So a
 * long sum has no parts, or a step of its own adds the parts in fp32. Its workspace must be within WORKSPACE. The kit's kernels compute a
 * product that cuBLASLt refuses. Workspace is scratch memory of the queue, which is there before anything is recorded. Operands of f32 are
 * rounded to TF32 with YOKE_CUDA_TF32=1 alone, in products of TF32_FROM multiplications or more. The kit makes operands of 8 bits, each
 * with a scale in the device's memory, which a description is given when the product is enqueued.
 *
 * cuBLASLt's matrices have columns one after the other, Yoke's rows. To cuBLASLt Yoke's are transposed, and C = A x B is C' = B' x A'.
 */
#include "backends/cuda/cublaslt.h"
#include "backends/cuda/cuda_internal.h"

#include <stdio.h>

#include "plugins/kit/emit.h"

#define WORKSPACE (4u << 20)
#define WORKSPACE_HOPPER (32u << 20) /* for compute capability 9.0 and later; NVIDIA advises both sizes */
#define TF32_FROM 1048576            /* multiplications */
#define SHAPE_TEXT 160

struct cuda_product {
    cuda_product *next;
    kit_product shape;
    bool is_taken;
    cublasLtMatmulDesc_t matmul;
    cublasLtMatrixLayout_t first, second, result; /* B, A and C to us */
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
};

/* A matrix of ours as it lies in memory to cuBLASLt. */
typedef struct stored {
    cudaDataType type;
    int64_t rows, cols, line; /* line: from column to column */
    int32_t transpose;        /* CUBLAS_OP_ */
} stored;

/* ---- Shapes ---- */

static bool is_eight(uint32_t dtype)
{
    return dtype == YK_F8E4M3 || dtype == YK_F8E5M2;
}

static const char *type_name(uint32_t dtype)
{
    return dtype == YK_F8E4M3 ? "e4m3" : dtype == YK_F8E5M2 ? "e5m2" : kit_type(dtype);
}

static void shape_text(const kit_product *p, char text[SHAPE_TEXT])
{
    const char *a = type_name(p->a.dtype), *b = type_name(p->b.dtype);
    snprintf(text, SHAPE_TEXT, "a product [%lld,%lld,%lld] x [%lld,%lld], %s%s%s to %s%s%s", (long long)p->batch, (long long)p->rows,
             (long long)p->terms, (long long)p->terms, (long long)p->cols, a, a == b ? "" : " x ", a == b ? "" : b, type_name(p->c.dtype),
             p->bias ? " with bias" : p->gelu ? " with gelu's slope" : "",
             p->gelu == KIT_GELU ? " and gelu" : p->addend ? " and a sum" : "");
}

static bool type_of(uint32_t dtype, cudaDataType *type)
{
    static const cudaDataType types[] = {[YK_F32] = CUDA_R_32F, [YK_F16] = CUDA_R_16F, [YK_BF16] = CUDA_R_16BF,
                                         [YK_F8E4M3] = CUDA_R_8F_E4M3, [YK_F8E5M2] = CUDA_R_8F_E5M2};
    if (dtype != YK_F32 && dtype != YK_F16 && dtype != YK_BF16 && !is_eight(dtype))
        return false;
    *type = types[dtype];
    return true;
}

/* False: its elements lie otherwise than cuBLASLt wants, or are too many. */
static bool stored_of(const kit_matrix *m, int64_t rows, int64_t cols, stored *s)
{
    if (!type_of(m->dtype, &s->type))
        return false;
    if (m->col_stride == 1 && m->row_stride >= cols)
        *s = (stored){s->type, cols, rows, m->row_stride, CUBLAS_OP_N};
    else if (m->row_stride == 1 && m->col_stride >= rows)
        *s = (stored){s->type, rows, cols, m->col_stride, CUBLAS_OP_T};
    else
        return false;
    return rows <= INT32_MAX && cols <= INT32_MAX && s->line <= INT32_MAX;
}

static bool types_fit(const kit_product *p)
{
    if (is_eight(p->a.dtype))
        return is_eight(p->b.dtype) && (p->a.dtype == YK_F8E4M3 || p->b.dtype == YK_F8E4M3) && !is_eight(p->c.dtype);
    return p->a.dtype == p->b.dtype && (p->c.dtype == p->a.dtype || p->c.dtype == YK_F32) && p->batch <= INT32_MAX;
}

/* ---- Plans ---- */

static cublasStatus_t layout_make(const cuda_cublaslt *lt, const stored *s, int64_t batch, int64_t stride, cublasLtMatrixLayout_t *layout)
{
    const int32_t n = (int32_t)batch;
    cublasStatus_t rc = lt->layout_new(layout, s->type, (uint64_t)s->rows, (uint64_t)s->cols, s->line);
    if (!rc && batch > 1)
        rc = lt->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);
    if (!rc && batch > 1)
        rc = lt->layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return rc;
}

/* A small product saves no time by it. */
static bool rounds_to_tf32(const yk_device *dev, const kit_product *k)
{
    return dev->tf32 && k->a.dtype == YK_F32 && (double)k->batch * (double)k->rows * (double)k->cols * (double)k->terms >= TF32_FROM;
}

static cublasStatus_t matmul_make(const yk_device *dev, const cuda_cublaslt *lt, cuda_product *p, const stored *b, const stored *a)
{
    const bool rounds = rounds_to_tf32(dev, &p->shape);
    cublasStatus_t rc = lt->matmul_new(&p->matmul, rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!rc)
        rc = lt->matmul_set(p->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &b->transpose, sizeof b->transpose);
    if (!rc)
        rc = lt->matmul_set(p->matmul, CUBLASLT_MATMUL_DESC_TRANSB, &a->transpose, sizeof a->transpose);
    return rc;
}

/* The work of cuBLASLt before it stores. It chooses no algorithm without pointers, and a run's pointers are new. */
static cublasStatus_t behind_make(const cuda_cublaslt *lt, const cuda_product *p)
{
    const kit_product *k = &p->shape;
    const uint32_t what = !k->gelu                        ? CUBLASLT_EPILOGUE_BIAS
                          : k->gelu == KIT_GELU_GRADIENT ? CUBLASLT_EPILOGUE_DGELU
                          : k->before                    ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                                         : CUBLASLT_EPILOGUE_GELU_BIAS;
    const void *some = (const void *)(uintptr_t)KIT_PRODUCT_ALIGN;
    const int64_t line = k->c.row_stride;
    if (!k->bias && !k->gelu)
        return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t rc = lt->matmul_set(p->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &what, sizeof what);
    if (!rc && k->bias)
        rc = lt->matmul_set(p->matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &some, sizeof some);
    if (!rc && k->before)
        rc = lt->matmul_set(p->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &line, sizeof line);
    if (!rc && k->before)
        rc = lt->matmul_set(p->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &some, sizeof some);
    return rc;
}

static cublasStatus_t description_make(const yk_device *dev, const cuda_cublaslt *lt, cuda_product *p)
{
    const kit_product *k = &p->shape;
    stored a, b, c;
    if (!types_fit(k) || !stored_of(&k->a, k->rows, k->terms, &a) || !stored_of(&k->b, k->terms, k->cols, &b) ||
        !stored_of(&k->c, k->rows, k->cols, &c))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    cublasStatus_t rc = matmul_make(dev, lt, p, &b, &a);
    if (!rc)
        rc = behind_make(lt, p);
    if (!rc)
        rc = layout_make(lt, &b, k->batch, k->b.batch_stride, &p->first);
    if (!rc)
        rc = layout_make(lt, &a, k->batch, k->a.batch_stride, &p->second);
    if (!rc)
        rc = layout_make(lt, &c, k->batch, k->c.batch_stride, &p->result);
    return rc;
}

/* Which algorithms may be chosen. */
static cublasStatus_t preference_fill(const cuda_cublaslt *lt, const kit_product *k, uint64_t most, cublasLtMatmulPreference_t preference)
{
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } set[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most},
               {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->b.align, sizeof k->b.align},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->a.align, sizeof k->a.align},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->c.align, sizeof k->c.align},
               {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->c.align, sizeof k->c.align}};
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof set / sizeof *set && !rc; i++)
        rc = lt->preference_set(preference, set[i].attribute, set[i].value, set[i].bytes);
    return rc;
}

static cublasStatus_t algorithm_choose(const yk_device *dev, const cuda_cublaslt *lt, cuda_product *p)
{
    const uint64_t most = dev->sm >= 90 ? WORKSPACE_HOPPER : WORKSPACE;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    int n = 0;
    cublasStatus_t rc = lt->preference_new(&preference);
    if (!rc)
        rc = preference_fill(lt, &p->shape, most, preference);
    if (!rc)
        rc = lt->choose(dev->products.handle, p->matmul, p->first, p->second, p->result, p->result, preference, 1, &found, &n);
    if (!rc)
        rc = n < 1 || found.workspaceSize > most ? CUBLAS_STATUS_NOT_SUPPORTED : found.state;
    if (preference)
        lt->preference_free(preference);
    p->algo = found.algo;
    p->workspace = found.workspaceSize;
    return rc;
}

static void description_free(const cuda_cublaslt *lt, cuda_product *p)
{
    if (p->result)
        lt->layout_free(p->result);
    if (p->second)
        lt->layout_free(p->second);
    if (p->first)
        lt->layout_free(p->first);
    if (p->matmul)
        lt->matmul_free(p->matmul);
    p->first = p->second = p->result = NULL;
    p->matmul = NULL;
}

/* Plan of a product that had none. The context is current. */
static void product_plan(const yk_device *dev, const cuda_cublaslt *lt, cuda_product *p)
{
    char text[SHAPE_TEXT];
    cublasStatus_t rc = description_make(dev, lt, p);
    if (!rc)
        rc = algorithm_choose(dev, lt, p);
    p->is_taken = rc == CUBLAS_STATUS_SUCCESS;
    shape_text(&p->shape, text);
    if (p->is_taken) {
        cuda_host->log(3, CUDA_WHO, "%s: by cuBLASLt, %zu bytes of workspace", text, p->workspace);
        return;
    }
    cuda_host->log(2, CUDA_WHO, "%s: not by cuBLASLt (%s); %s", text, lt->status_text(rc),
                   is_eight(p->shape.a.dtype) ? "it is computed of 16 bits"
                   : p->shape.bias || p->shape.gelu ? "a separate kernel computes the rest"
                                              : "the plugin's own kernel computes it");
    description_free(lt, p);
}

/* ---- A device's products; under its lock ---- */

/* False: cuBLASLt is not used. The context is current. */
static bool handle_open(yk_device *dev)
{
    cuda_products *all = &dev->products;
    if (all->is_open)
        return all->handle != NULL;
    all->is_open = true;
    if (!(all->lt = cuda_cublaslt_open()))
        return false;
    const cublasStatus_t rc = all->lt->create(&all->handle);
    if (rc) {
        all->handle = NULL;
        cuda_host->log(1, CUDA_WHO, "cuBLASLt does not begin (%s): products are computed by the plugin's own kernels, which are slower",
                       all->lt->status_text(rc));
    }
    return !rc;
}

static cuda_product *product_find(const yk_device *dev, const kit_product *shape)
{
    cuda_product *p = dev->products.first;
    while (p && memcmp(&p->shape, shape, sizeof *shape))
        p = p->next;
    return p;
}

/* NULL: no memory, or no cuBLASLt. */
static cuda_product *product_new(yk_device *dev, const kit_product *shape)
{
    yk_status s;
    cuda_product *p = NULL;
    if (!cuda_enter(dev, &s))
        return NULL;
    if (handle_open(dev) && (p = cuda_alloc(sizeof *p)) != NULL) {
        p->shape = *shape;
        product_plan(dev, dev->products.lt, p);
        p->next = dev->products.first;
        dev->products.first = p;
    }
    cuda_leave();
    return p;
}

bool cuda_product_take(yk_device *dev, const kit_product *shape, uint64_t *scratch)
{
    pthread_mutex_lock(&dev->products.lock);
    const cuda_product *p = product_find(dev, shape);
    if (!p)
        p = product_new(dev, shape);
    pthread_mutex_unlock(&dev->products.lock);
    if (p)
        *scratch = p->workspace;
    return p && p->is_taken;
}

const cuda_product *cuda_product_of(yk_device *dev, const kit_product *shape)
{
    pthread_mutex_lock(&dev->products.lock);
    const cuda_product *p = product_find(dev, shape);
    pthread_mutex_unlock(&dev->products.lock);
    return p;
}

void cuda_products_free(yk_device *dev)
{
    cuda_products *all = &dev->products;
    for (cuda_product *p = all->first, *next; p; p = next) {
        next = p->next;
        description_free(all->lt, p);
        cuda_free(p);
    }
    if (all->handle)
        all->lt->destroy(all->handle);
    pthread_mutex_destroy(&all->lock);
}

/* ---- Running ---- */

static yk_status run_error(const yk_device *dev, cublasStatus_t rc, uint32_t node)
{
    char what[100];
    snprintf(what, sizeof what, "node %u, a product", node);
    return cuda_error_library(dev, rc == CUBLAS_STATUS_ALLOC_FAILED ? YK_E_MEM : YK_E_INTERNAL, what, "cuBLASLt",
                              dev->products.lt->status_text(rc), (int)rc);
}

static cublasStatus_t matmul_enqueue(const yk_device *dev, const cuda_product *p, const CUdeviceptr at[CUDA_PRODUCT_ARGS], CUstream stream)
{
    const kit_product *k = &p->shape;
    const float one = 1, keep = k->accumulate || k->addend ? 1 : 0;
    void *const a = (void *)(uintptr_t)at[0], *const b = (void *)(uintptr_t)at[1], *const d = (void *)(uintptr_t)at[2];
    void *const c = k->addend ? (void *)(uintptr_t)at[5] : d;
    return dev->products.lt->matmul(dev->products.handle, p->matmul, &one, b, p->first, a, p->second, &keep, c, p->result, d, p->result,
                                    &p->algo, (void *)(uintptr_t)at[3], p->workspace, (cudaStream_t)stream);
}

/* Pointers of the description beside those of A, B and C, in the order of the arguments; returns how many. */
static int pointers_list(const kit_product *k, cublasLtMatmulDescAttributes_t attribute[2])
{
    int n = 0;
    if (is_eight(k->a.dtype)) {
        attribute[n++] = CUBLASLT_MATMUL_DESC_B_SCALE_POINTER;
        attribute[n++] = CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
    }
    if (k->bias)
        attribute[n++] = CUBLASLT_MATMUL_DESC_BIAS_POINTER;
    if (k->before)
        attribute[n++] = CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER;
    return n;
}

/* Other queues have the description, too; it is read while the product is enqueued. */
static cublasStatus_t pointers_enqueue(yk_device *dev, const cuda_product *p, const CUdeviceptr at[CUDA_PRODUCT_ARGS], CUstream stream)
{
    cublasLtMatmulDescAttributes_t attribute[2];
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    pthread_mutex_lock(&dev->products.lock);
    for (int i = 0, n = pointers_list(&p->shape, attribute); i < n && !rc; i++) {
        const void *to = (const void *)(uintptr_t)at[4 + i];
        rc = dev->products.lt->matmul_set(p->matmul, attribute[i], &to, sizeof to);
    }
    if (!rc)
        rc = matmul_enqueue(dev, p, at, stream);
    pthread_mutex_unlock(&dev->products.lock);
    return rc;
}

yk_status cuda_product_run(yk_device *dev, const cuda_product *p, const CUdeviceptr at[CUDA_PRODUCT_ARGS], uint32_t node, CUstream stream)
{
    cublasLtMatmulDescAttributes_t attribute[2];
    const cublasStatus_t rc = pointers_list(&p->shape, attribute) ? pointers_enqueue(dev, p, at, stream)
                                                                   : matmul_enqueue(dev, p, at, stream);
    return rc ? run_error(dev, rc, node) : YK_OK;
}
