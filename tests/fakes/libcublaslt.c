/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cuBLASLt without cards, for tests: libfake_cublaslt.so stands for libcublasLt.so beside the fake driver, whose memory and streams it
 * uses. It computes products on the host by cuBLASLt's definitions: columns one after the other, sums in fp32, operands
 * rounded to TF32 if that is allowed. It refuses mismatches: sizes, lines, types, alignments, workspace, memory of
 * the host, an algorithm that was chosen for another product.
 *
 * Long sums have parts that meet in the workspace, all of which is overwritten afterwards; in an order that changes from launch to launch
 * if the allowed reduction scheme promises none.
 *
 * Operands of 8 bits (E4M3, E5M2, not both E5M2) are numbers of their own arithmetic here, and have a scale each in the device's memory.
 * There is an algorithm for them as NVIDIA says: compute capability 8.9 or later, terms side by side in both ("TN"), sizes that are
 * multiples of 16, memory at multiples of 16 bytes, results of 16 or 32 bits.
 *
 * A bias of the result's type is added to every column of D, and D is gelu of that sum, which is stored beside if it is asked for; pointers
 * are there when an algorithm is chosen, as the real one has none without them. C may be other memory than D.
 *
 * The environment: FAKE_CUBLASLT_FAIL=n: the n-th call of this process fails. FAKE_CUBLASLT_REFUSE=1: there is no algorithm.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cublaslt.h"
#include "tests/fakes/beside.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/support/f16.h"

#define MAGIC 0x746c4b4146ull
#define PARTS 3
#define LONG_SUM 48 /* terms, from which on a sum has parts */

#define X(member, symbol, parameters) FAKE_EXPORT cublasStatus_t symbol parameters;
CUDA_CUBLASLT_TABLE(X)
#undef X
FAKE_EXPORT const char *cublasLtGetStatusString(cublasStatus_t status);
FAKE_EXPORT size_t cublasLtGetVersion(void);

struct cublasLtContext {
    int device;
};
struct cuda_lt_matmul {
    cublasComputeType_t compute;
    int32_t transpose[2];
    uint32_t epilogue;
    int64_t before_line;
    const void *scale[2]; /* scales of A and B, in the device's memory; NULL means 1 */
    const void *bias, *before;
};
struct cuda_lt_layout {
    cudaDataType type;
    int32_t batch;
    uint64_t rows, cols;
    int64_t line, stride;
};
struct cuda_lt_preference {
    uint64_t most;
    uint32_t scheme, align[4];
};

/* A product: the key of an algorithm, and with the pointers a kernel's input. No padding. */
typedef struct problem {
    int64_t rows, cols, terms, batch; /* size of D; length of the sums */
    int64_t type[3];                  /* types of A, B, D */
    int64_t transpose[2], tf32;
    int64_t line[3], stride[3]; /* strides of A, B, D */
    int64_t epilogue, before_line;
} problem;
typedef struct job {
    problem of;
    int64_t parts, any_order;
    char *a, *b, *c, *d, *workspace, *scale[2]; /* scale: NULL: 1 */
    char *bias, *before;                        /* NULL: there is none */
    uint64_t workspace_bytes;
    double beta;
} job;
enum { JOB_WORDS = sizeof(job) / 8 };

static struct {
    pthread_once_t once;
    int (*device)(void);
    int (*capability)(void);
    void *(*memory)(CUdeviceptr memory, size_t bytes);
    int (*launch)(CUstream stream, const fake_kernel *kernel, void **parameters);
    atomic_ullong fail_at;
    atomic_bool refuse;
    int bytes[JOB_WORDS]; /* sizes of a kernel's parameters */
} fake = {.once = PTHREAD_ONCE_INIT};
static atomic_ullong calls, live, products, eights, behinds, aligned, runs;
static _Atomic(const char *) wrong = "";

/* ---- Calls ---- */

static void fake_begin(void)
{
    fake_driver_symbol("fake_cuda_device", &fake.device);
    fake_driver_symbol("fake_cuda_capability", &fake.capability);
    fake_driver_symbol("fake_cuda_memory", &fake.memory);
    fake_driver_symbol("fake_cuda_launch", &fake.launch);
    atomic_store(&fake.fail_at, fake_number("FAKE_CUBLASLT_FAIL"));
    atomic_store(&fake.refuse, fake_number("FAKE_CUBLASLT_REFUSE") != 0);
    for (int i = 0; i < JOB_WORDS; i++)
        fake.bytes[i] = 8;
}

static cublasStatus_t call_begin(void)
{
    pthread_once(&fake.once, fake_begin);
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&fake.fail_at) ? CUBLAS_STATUS_INTERNAL_ERROR : CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t call_wrong(const char *why)
{
    atomic_store(&wrong, why);
    return CUBLAS_STATUS_INVALID_VALUE;
}

void fake_cublaslt_fail(uint64_t n)
{
    pthread_once(&fake.once, fake_begin);
    atomic_store(&fake.fail_at, n ? atomic_load(&calls) + n : 0);
}

void fake_cublaslt_refuse(int yes)
{
    pthread_once(&fake.once, fake_begin);
    atomic_store(&fake.refuse, yes != 0);
}

uint64_t fake_cublaslt_calls(void)
{
    return atomic_load(&calls);
}

uint64_t fake_cublaslt_live(void)
{
    return atomic_load(&live);
}

uint64_t fake_cublaslt_products(void)
{
    return atomic_load(&products);
}

uint64_t fake_cublaslt_eights(void)
{
    return atomic_load(&eights);
}

uint64_t fake_cublaslt_behinds(void)
{
    return atomic_load(&behinds);
}

uint64_t fake_cublaslt_aligned(void)
{
    return atomic_load(&aligned);
}

const char *fake_cublaslt_wrong(void)
{
    return atomic_load(&wrong);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported, says the fake cuBLASLt" : "an error of the fake cuBLASLt";
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

/* ---- Handles and descriptors; freeing works even if it is the call that fails ---- */

static cublasStatus_t object_new(void *object, size_t bytes)
{
    const cublasStatus_t rc = call_begin();
    void *own = rc ? NULL : calloc(1, bytes);
    if (rc)
        return rc;
    atomic_fetch_add(&live, 1);
    memcpy(object, &own, sizeof own);
    return rc;
}

static cublasStatus_t object_free(void *object)
{
    const cublasStatus_t rc = call_begin();
    free(object);
    atomic_fetch_sub(&live, 1);
    return rc;
}

/* An attribute's value, if it has the size that it should. */
static cublasStatus_t value_take(void *to, size_t size, const void *value, size_t bytes)
{
    const cublasStatus_t rc = call_begin();
    if (!rc && (!to || bytes != size))
        return call_wrong(to ? "the size of an attribute's value" : "an attribute that the fake does not know");
    if (!rc)
        memcpy(to, value, bytes);
    return rc;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    const cublasStatus_t rc = object_new(handle, sizeof **handle);
    if (rc)
        return rc;
    (*handle)->device = fake.device();
    return (*handle)->device < 0 ? call_wrong("no context is current") : rc;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return object_free(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmul, cublasComputeType_t compute, cudaDataType_t scale)
{
    if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) || scale != CUDA_R_32F)
        return call_wrong("a compute or scale type");
    const cublasStatus_t rc = object_new(matmul, sizeof **matmul);
    if (!rc)
        **matmul = (struct cuda_lt_matmul){.compute = compute, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    return rc;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmul)
{
    return object_free(matmul);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes)
{
    const int i = attribute - CUBLASLT_MATMUL_DESC_TRANSA, scale = attribute - CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
    if (scale >= 0 && scale < 2)
        return value_take(&matmul->scale[scale], sizeof *matmul->scale, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE)
        return value_take(&matmul->epilogue, sizeof matmul->epilogue, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        return value_take(&matmul->bias, sizeof matmul->bias, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)
        return value_take(&matmul->before, sizeof matmul->before, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)
        return value_take(&matmul->before_line, sizeof matmul->before_line, value, bytes);
    return value_take(i >= 0 && i < 2 ? &matmul->transpose[i] : NULL, sizeof *matmul->transpose, value, bytes);
}

static bool is_eight(int64_t type)
{
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t line)
{
    if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF && !is_eight(type))
        return call_wrong("a matrix of another type");
    if (!rows || !cols || line < (int64_t)rows)
        return call_wrong("a matrix whose lines are shorter than its columns");
    const cublasStatus_t rc = object_new(layout, sizeof **layout);
    if (!rc)
        **layout = (struct cuda_lt_layout){.type = type, .batch = 1, .rows = rows, .cols = cols, .line = line};
    return rc;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return object_free(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        return value_take(&layout->batch, sizeof layout->batch, value, bytes);
    return value_take(attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? &layout->stride : NULL, sizeof layout->stride, value,
                      bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    const cublasStatus_t rc = object_new(preference, sizeof **preference);
    if (!rc)
        **preference = (struct cuda_lt_preference){.scheme = 7, .align = {256, 256, 256, 256}};
    return rc;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return object_free(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes)
{
    const int i = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return value_take(&preference->most, sizeof preference->most, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return value_take(&preference->scheme, sizeof preference->scheme, value, bytes);
    return value_take(i >= 0 && i < 4 ? &preference->align[i] : NULL, sizeof *preference->align, value, bytes);
}

/* Rules */

static size_t type_bytes(int64_t type)
{
    return is_eight(type) ? 1 : type == CUDA_R_32F ? 4 : 2;
}

static bool types_fit(const int64_t type[3])
{
    if (is_eight(type[0]) || is_eight(type[1]))
        return is_eight(type[0]) && is_eight(type[1]) && (type[0] == CUDA_R_8F_E4M3 || type[1] == CUDA_R_8F_E4M3) && !is_eight(type[2]);
    return type[0] == type[1] && (type[2] == type[0] || type[2] == CUDA_R_32F);
}

/* True if there is a kernel for operands of 8 bits. */
static bool eight_fits(const problem *p, const uint32_t align[4])
{
    for (int i = 0; i < 4; i++)
        if (align[i] % 16)
            return false;
    for (int i = 0; i < 3; i++)
        if (p->line[i] * (int64_t)type_bytes(p->type[i]) % 16 || p->stride[i] * (int64_t)type_bytes(p->type[i]) % 16)
            return false;
    return fake.capability() >= 89 && p->transpose[0] && !p->transpose[1] && p->rows % 16 == 0 && p->cols % 16 == 0 && p->terms % 16 == 0;
}

static bool has_bias(int64_t epilogue)
{
    return epilogue != CUBLASLT_EPILOGUE_DGELU && epilogue & CUBLASLT_EPILOGUE_BIAS;
}

static bool has_before(int64_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU;
}

/* NULL, or what is wrong. */
static const char *epilogue_wrong(const struct cuda_lt_matmul *matmul, const struct cuda_lt_layout *d)
{
    const int64_t e = matmul->epilogue;
    if (e != CUBLASLT_EPILOGUE_DEFAULT && e != CUBLASLT_EPILOGUE_BIAS && e != CUBLASLT_EPILOGUE_GELU_BIAS && !has_before(e))
        return "an epilogue that the fake does not know";
    if ((has_bias(e) && !matmul->bias) || (has_before(e) && !matmul->before))
        return "an epilogue without its pointers";
    if (has_before(e) && (matmul->before_line < (int64_t)d->rows || matmul->before_line % 8 || (uintptr_t)matmul->before % 16))
        return "lines or memory of what is stored before gelu";
    return e != CUBLASLT_EPILOGUE_DEFAULT && d->batch != 1 ? "an epilogue of a batch" : NULL;
}

/* NULL: *p is the product; else what is wrong. */
static const char *problem_of(cublasLtMatmulDesc_t matmul, const struct cuda_lt_layout *a, const struct cuda_lt_layout *b,
                              const struct cuda_lt_layout *d, problem *p)
{
    const bool at = matmul->transpose[0] == CUBLAS_OP_T, bt = matmul->transpose[1] == CUBLAS_OP_T;
    *p = (problem){.rows = (int64_t)d->rows,
                   .cols = (int64_t)d->cols,
                   .terms = (int64_t)(at ? a->rows : a->cols),
                   .batch = d->batch,
                   .type = {a->type, b->type, d->type},
                   .transpose = {at, bt},
                   .tf32 = matmul->compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                   .line = {a->line, b->line, d->line},
                   .stride = {a->stride, b->stride, d->stride},
                   .epilogue = matmul->epilogue,
                   .before_line = matmul->before_line};
    if (epilogue_wrong(matmul, d))
        return epilogue_wrong(matmul, d);
    if ((at ? a->cols : a->rows) != d->rows || (bt ? b->rows : b->cols) != d->cols || (bt ? b->cols : b->rows) != (uint64_t)p->terms)
        return "sizes of a product's matrices";
    if (!types_fit(p->type) || (p->tf32 && a->type != CUDA_R_32F))
        return "types of a product's matrices";
    if (a->batch != b->batch || a->batch != d->batch || d->batch < 1)
        return "batches of a product's matrices";
    if (d->batch > 1 && d->stride < (int64_t)d->cols * d->line)
        return "a batch of results that overlap";
    return NULL;
}

static uint64_t problem_key(const problem *p)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    const unsigned char *byte = (const unsigned char *)p;
    for (size_t i = 0; i < sizeof *p; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3ull;
    return hash;
}

/* An algorithm consists of MAGIC, key, parts, a flag for any order, workspace, and the alignments of A, B, D. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t *found,
                                              int *n)
{
    problem p;
    const char *why = problem_of(matmul, a, b, d, &p);
    const cublasStatus_t rc = call_begin();
    *n = 0;
    if (rc)
        return rc;
    if (why || c != d || most < 1 || handle->device != fake.device())
        return call_wrong(why ? why : "what an algorithm is asked for");
    for (int i = 0; i < 4; i++)
        if (preference->align[i] < type_bytes(p.type[i < 2 ? i : 2]) || preference->align[i] & (preference->align[i] - 1))
            return call_wrong("alignments that an algorithm is asked for");
    if (atomic_load(&fake.refuse) || (is_eight(p.type[0]) && !eight_fits(&p, preference->align)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t bytes = PARTS * (uint64_t)p.rows * (uint64_t)p.cols * sizeof(float);
    const bool parts = p.terms >= LONG_SUM && bytes <= preference->most && preference->scheme;
    const uint32_t any_order = preference->scheme & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    *found = (cublasLtMatmulHeuristicResult_t){.workspaceSize = parts ? bytes : 0, .wavesCount = 1};
    const uint64_t algo[8] = {MAGIC, problem_key(&p), parts ? PARTS : 1, any_order, found->workspaceSize,
                              preference->align[0], preference->align[1], preference->align[3]};
    memcpy(found->algo.data, algo, sizeof algo);
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Computing, in a stream's thread ---- */

/* E4M3 has no infinity, and 448 where others have it; E5M2 is the upper half of fp16. */
static float eight_value(uint8_t bits, int64_t type)
{
    const int exponent = bits >> 3 & 15;
    if (type == CUDA_R_8F_E5M2)
        return (float)f16_value((uint16_t)(bits << 8));
    const int digits = exponent ? 8 + (bits & 7) : bits & 7;
    const float size = (bits & 0x7f) == 0x7f ? NAN : ldexpf((float)digits, exponent ? exponent - 10 : -9);
    return bits & 0x80 ? -size : size;
}

static float value_load(const char *from, int64_t type, int64_t i)
{
    uint16_t half;
    uint32_t bits;
    float f;
    if (type == CUDA_R_32F) {
        memcpy(&f, from + 4 * i, sizeof f);
        return f;
    }
    if (is_eight(type))
        return eight_value((uint8_t)from[i], type);
    memcpy(&half, from + 2 * i, sizeof half);
    if (type == CUDA_R_16F)
        return (float)f16_value(half);
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To the nearest number whose last `cut` bits are 0, ties to even. */
static uint32_t bits_round(float f, int cut)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(f))
        return bits;
    return (bits + ((1u << cut) / 2 - 1) + (bits >> cut & 1)) & ~((1u << cut) - 1);
}

static void value_store(char *to, int64_t type, int64_t i, float f)
{
    const uint16_t half = type == CUDA_R_16F ? f16_bits(f) : (uint16_t)(bits_round(f, 16) >> 16);
    if (type == CUDA_R_32F)
        memcpy(to + 4 * i, &f, sizeof f);
    else
        memcpy(to + 2 * i, &half, sizeof half);
}

/* op(x), element (i, k) at [k * rows + i]. */
TEST_LOOPS static float *operand_load(const problem *p, int which, const char *x, int64_t rows, int64_t cols, int64_t z)
{
    float *own = malloc((size_t)(rows * cols) * sizeof *own);
    const int64_t from = z * p->stride[which], line = p->line[which];
    for (int64_t k = 0; k < cols; k++)
        for (int64_t i = 0; i < rows; i++) {
            const float f = value_load(x, p->type[which], from + (p->transpose[which] ? i * line + k : k * line + i));
            const uint32_t rounded = bits_round(f, 13);
            memcpy(&own[k * rows + i], p->tf32 ? (const void *)&rounded : (const void *)&f, sizeof f);
        }
    return own;
}

/* sum[i] of terms from..to of column j, added one after the other; a and b as operand_load leaves them. Eight terms at a time stay in
 * registers: the sums are stored once for them. */
TEST_LOOPS static void column_sum(const problem *p, const float *a, const float *b, int64_t j, int64_t from, int64_t to,
                                  float *restrict sum)
{
    enum { TERMS = 8 };
    const int64_t rows = p->rows;
    const float *by = b + j * p->terms;
    int64_t k = from;
    memset(sum, 0, (size_t)rows * sizeof *sum);
    for (; k + TERMS <= to; k += TERMS)
        for (int64_t i = 0; i < rows; i++) {
            float s = sum[i];
            for (int64_t t = 0; t < TERMS; t++)
                s += a[(k + t) * rows + i] * by[k + t];
            sum[i] = s;
        }
    for (; k < to; k++)
        for (int64_t i = 0; i < rows; i++)
            sum[i] += a[k * rows + i] * by[k];
}

static float gelu_value(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    const float inner = 0.7978845608f * (x + 0.044715f * x * x * x), t = tanhf(inner);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

/* part: rows x PARTS sums of a column. */
static void column_store(const job *x, int64_t j, int64_t z, const float *part, bool backwards)
{
    const problem *p = &x->of;
    for (int64_t i = 0; i < p->rows; i++) {
        const int64_t at = z * p->stride[2] + j * p->line[2] + i;
        float sum = 0, by = 1;
        for (int k = 0; k < 2; k++)
            by *= x->scale[k] ? value_load(x->scale[k], CUDA_R_32F, 0) : 1;
        for (int64_t k = 0; k < x->parts; k++)
            sum += part[(backwards ? x->parts - 1 - k : k) * p->rows + i];
        sum = sum * by + (x->beta == 0 ? 0 : (float)x->beta * value_load(x->c, p->type[2], at));
        if (x->bias)
            sum += value_load(x->bias, p->type[2], i);
        if (p->epilogue == CUBLASLT_EPILOGUE_DGELU)
            sum *= gelu_slope(value_load(x->before, p->type[2], j * p->before_line + i));
        else if (x->before)
            value_store(x->before, p->type[2], j * p->before_line + i, sum);
        value_store(x->d, p->type[2], at, p->epilogue & 32 ? gelu_value(sum) : sum);
    }
}

static void matrix_multiply(const job *x, int64_t z, bool backwards)
{
    const problem *p = &x->of;
    float *a = operand_load(p, 0, x->a, p->rows, p->terms, z), *b = operand_load(p, 1, x->b, p->terms, p->cols, z);
    float *own = malloc((size_t)(x->parts * p->rows) * sizeof *own);
    for (int64_t j = 0; j < p->cols; j++) {
        float *part = x->parts > 1 ? (float *)(void *)x->workspace + j * x->parts * p->rows : own;
        for (int64_t k = 0; k < x->parts; k++)
            column_sum(p, a, b, j, k * p->terms / x->parts, (k + 1) * p->terms / x->parts, part + k * p->rows);
        column_store(x, j, z, part, backwards);
    }
    free(own);
    free(b);
    free(a);
}

static int job_run(void **parameter, const unsigned grid[3], unsigned threads, char *stacks)
{
    char bytes[sizeof(job)];
    job own;
    (void)grid, (void)threads, (void)stacks;
    for (int i = 0; i < JOB_WORDS; i++)
        memcpy(bytes + 8 * i, parameter[i], 8);
    memcpy(&own, bytes, sizeof own);
    const bool backwards = own.any_order && atomic_fetch_add(&runs, 1) & 1;
    for (int64_t z = 0; z < own.of.batch; z++)
        matrix_multiply(&own, z, backwards);
    if (own.workspace_bytes)
        memset(own.workspace, 0xff, own.workspace_bytes);
    return 1;
}

/* ---- Giving ---- */

/* Address of a product's matrix; NULL if it breaks a rule. */
static char *matrix_memory(const void *at, const struct cuda_lt_layout *x, uint64_t align)
{
    const int64_t last = (x->batch - 1) * x->stride + ((int64_t)x->cols - 1) * x->line + (int64_t)x->rows;
    return (uintptr_t)at % align ? NULL : fake.memory((CUdeviceptr)(uintptr_t)at, (size_t)last * type_bytes(x->type));
}

/* True if it suits tensor cores best, as NVIDIA says: lines, sizes along lines and memory at multiples of 16 bytes. */
static bool problem_aligned(const problem *p, const void *const at[3])
{
    const int64_t along[] = {p->transpose[0] ? p->terms : p->rows, p->transpose[1] ? p->cols : p->terms, p->rows};
    for (int i = 0; i < 3; i++) {
        const int64_t sizes = along[i] | p->line[i] | (p->batch > 1 ? p->stride[i] : 0);
        if (sizes * (int64_t)type_bytes(p->type[i]) % 16 || (uintptr_t)at[i] % 16)
            return false;
    }
    return true;
}

static cublasStatus_t job_give(const job *own, CUstream stream)
{
    static const fake_kernel kernel = {"cublasLtMatmul", JOB_WORDS, fake.bytes, job_run};
    void *parameter[JOB_WORDS];
    for (int i = 0; i < JOB_WORDS; i++)
        parameter[i] = (char *)own + 8 * i;
    atomic_fetch_add(&products, 1);
    atomic_fetch_add(&eights, is_eight(own->of.type[0]));
    atomic_fetch_add(&behinds, own->of.epilogue != CUBLASLT_EPILOGUE_DEFAULT);
    return fake.launch(stream, &kernel, parameter) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    job own = {.parts = (int64_t)algo->data[2], .any_order = (int64_t)algo->data[3], .workspace_bytes = workspace_bytes};
    const char *why = problem_of(matmul, a_layout, b_layout, d_layout, &own.of);
    const cublasStatus_t rc = call_begin();
    float one, keep;
    if (rc)
        return rc;
    if (why || algo->data[0] != MAGIC || algo->data[1] != problem_key(&own.of))
        return call_wrong(why ? why : "an algorithm that was chosen for another product");
    memcpy(&one, alpha, sizeof one);
    memcpy(&keep, beta, sizeof keep);
    own.beta = keep;
    own.a = matrix_memory(a, a_layout, algo->data[5]);
    own.b = matrix_memory(b, b_layout, algo->data[6]);
    own.c = keep == 0 ? NULL : matrix_memory(c, c_layout, algo->data[7]);
    own.d = matrix_memory(d, d_layout, algo->data[7]);
    if (has_bias(own.of.epilogue))
        own.bias = fake.memory((CUdeviceptr)(uintptr_t)matmul->bias, d_layout->rows * type_bytes(d_layout->type));
    if (has_before(own.of.epilogue))
        own.before = fake.memory((CUdeviceptr)(uintptr_t)matmul->before, d_layout->cols * d_layout->rows * type_bytes(d_layout->type));
    own.workspace = workspace_bytes ? fake.memory((CUdeviceptr)(uintptr_t)workspace, workspace_bytes) : NULL;
    for (int i = 0; i < 2 && is_eight(own.of.type[0]); i++)
        if ((uintptr_t)matmul->scale[i] % 16) /* as 13.1 does on an H200, and not before it is run */
            return CUBLAS_STATUS_NOT_SUPPORTED;
        else if (matmul->scale[i] && !(own.scale[i] = fake.memory((CUdeviceptr)(uintptr_t)matmul->scale[i], sizeof(float))))
            return call_wrong("a scale that is not in the device's memory");
    if (handle->device != fake.device() || one != 1.0f || c_layout != d_layout)
        return call_wrong("how a product is enqueued");
    if (has_bias(own.of.epilogue) != !!own.bias || has_before(own.of.epilogue) != !!own.before)
        return call_wrong("a bias, or what is stored before gelu, that is not in the device's memory");
    if (!own.a || !own.b || !own.d || (keep != 0 && !own.c))
        return call_wrong("memory of a product that is not there, or not aligned as was said");
    if (workspace_bytes < algo->data[4] || (workspace_bytes && !own.workspace) || (uintptr_t)workspace % 256)
        return call_wrong("a product's workspace");
    atomic_fetch_add(&aligned, problem_aligned(&own.of, (const void *const[]){a, b, d}));
    return job_give(&own, (CUstream)stream);
}
