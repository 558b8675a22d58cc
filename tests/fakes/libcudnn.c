/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cuDNN without cards, for tests: libfake_cudnn.so stands for libcudnn.so.9 beside the fake driver, whose memory and streams it
 * uses. Descriptors are objects whose attributes have a name, a type and a count; a mismatch is refused when it is set,
 * when a descriptor is finalized or when a plan is executed. A plan is its graph of operations, computed one after the other
 * (libcudnn_graph.c), even if the real one has no kernel for them.
 *
 * There are two engines for a graph of attention, of which the first can never be planned. There is none, as NVIDIA says, below compute
 * capability 8.0 and for heads of other than a multiple of 8 elements, 128 at most. For a convolution of tensors of one type there are
 * those of `engines`, most of which a caller that wants the same bits each time must not choose. The workspace is overwritten at each run;
 * one of them has none, as some of the real one.
 *
 * The environment: FAKE_CUDNN_FAIL=n: the n-th call of this process fails. FAKE_CUDNN_REFUSE=1: there is no engine.
 * FAKE_CUDNN_VERSION=n: another version than 91900. FAKE_CUDNN_CUDA=n: it was made with this version of CUDA (12090: 12.9) and ends the
 * process, as the real one does, when it looks for engines where no cuBLASLt of that CUDA is open; else it needs none.
 */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cudnn.h"
#include "tests/fakes/beside.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/libcudnn_conv.h"
#include "tests/fakes/libcudnn_rules.h"

#define ENGINES 2
#define WORKSPACE 1024
#define WORKSPACE_FAR (1ll << 50) /* more than there is */
#define ATTRIBUTES 8
#define HEAD_MOST 128

#define X(member, symbol, parameters) FAKE_EXPORT cudnnStatus_t symbol parameters;
CUDA_CUDNN_TABLE(X)
#undef X
FAKE_EXPORT const char *cudnnGetErrorString(cudnnStatus_t status);
FAKE_EXPORT size_t cudnnGetVersion(void);
FAKE_EXPORT size_t cudnnGetCudartVersion(void);

struct cudnnContext {
    int device;
    bool has_stream;
    CUstream stream;
};

typedef struct attribute {
    int name;
    int64_t n;
    void *value;
} attribute;

typedef struct descriptor {
    int type;
    bool is_final;
    attribute attribute[ATTRIBUTES];
    cudnnHandle_t handle;        /* a graph's, an engine's, a plan's */
    const fake_dnn_graph *graph; /* the same */
    int engine;                  /* for a configuration, an engine, a plan */
} descriptor;

/* A convolution's engines. */
static const struct {
    int note; /* -1: none */
    int64_t workspace; /* -1: it cannot be planned */
    bool is_wrong;     /* it must not run */
} engines[] = {{-1, -1, true},
               {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, WORKSPACE, true},
               {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, WORKSPACE, true},
               {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, WORKSPACE, true},
               {CUDNN_NUMERICAL_NOTE_FFT, WORKSPACE, true},
               {CUDNN_NUMERICAL_NOTE_WINOGRAD, WORKSPACE, true},
               {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, WORKSPACE_FAR, true},
               {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, WORKSPACE, false}, /* for f32: TF32 */
               {-1, 0, false}};
enum { CONV_ENGINES = sizeof engines / sizeof *engines };

typedef struct job {
    const fake_dnn_graph *graph;
    int64_t rounds; /* operands of f32 to TF32 */
    char *workspace;
    char *at[FAKE_GIVEN]; /* by tensors that are not virtual, in the graph's order */
    double value[FAKE_GIVEN];
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
    pthread_mutex_t lock; /* guards: */
    fake_dnn_graph *graphs;
} fake = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};
static atomic_ullong calls, live, attentions, convolutions;
static _Atomic(const char *) wrong = "";

/* ---- Calls ---- */

static void fake_begin(void)
{
    fake_driver_symbol("fake_cuda_device", &fake.device);
    fake_driver_symbol("fake_cuda_capability", &fake.capability);
    fake_driver_symbol("fake_cuda_memory", &fake.memory);
    fake_driver_symbol("fake_cuda_launch", &fake.launch);
    atomic_store(&fake.fail_at, fake_number("FAKE_CUDNN_FAIL"));
    atomic_store(&fake.refuse, fake_number("FAKE_CUDNN_REFUSE") != 0);
    for (int i = 0; i < JOB_WORDS; i++)
        fake.bytes[i] = 8;
}

static cudnnStatus_t call_begin(void)
{
    pthread_once(&fake.once, fake_begin);
    return atomic_fetch_add(&calls, 1) + 1 == atomic_load(&fake.fail_at) ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t call_wrong(const char *why)
{
    atomic_store(&wrong, why);
    return CUDNN_STATUS_BAD_PARAM;
}

void fake_cudnn_fail(uint64_t n)
{
    pthread_once(&fake.once, fake_begin);
    atomic_store(&fake.fail_at, n ? atomic_load(&calls) + n : 0);
}

void fake_cudnn_refuse(int yes)
{
    pthread_once(&fake.once, fake_begin);
    atomic_store(&fake.refuse, yes != 0);
}

uint64_t fake_cudnn_calls(void)
{
    return atomic_load(&calls);
}

uint64_t fake_cudnn_live(void)
{
    return atomic_load(&live);
}

uint64_t fake_cudnn_attentions(void)
{
    return atomic_load(&attentions);
}

uint64_t fake_cudnn_convolutions(void)
{
    return atomic_load(&convolutions);
}

const char *fake_cudnn_wrong(void)
{
    return atomic_load(&wrong);
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_NOT_SUPPORTED ? "not supported, says the fake cuDNN" : "an error of the fake cuDNN";
}

size_t cudnnGetVersion(void)
{
    const unsigned long long version = fake_number("FAKE_CUDNN_VERSION");
    return version ? version : 91900;
}

size_t cudnnGetCudartVersion(void)
{
    return fake_number("FAKE_CUDNN_CUDA");
}

static int object_is(struct dl_phdr_info *object, size_t size, void *name)
{
    const size_t all = strlen(object->dlpi_name), n = strlen(name);
    (void)size;
    return all >= n && !strcmp(object->dlpi_name + all - n, name);
}

static void cublaslt_need(void)
{
    char name[40];
    snprintf(name, sizeof name, "/libcublasLt.so.%zu", cudnnGetCudartVersion() / 1000);
    if (!cudnnGetCudartVersion() || dl_iterate_phdr(object_is, name))
        return;
    fputs("Invalid handle. Cannot load symbol cublasLtGetVersion (says the fake cuDNN)\n", stderr);
    abort();
}

/* ---- Handles and descriptors; freeing works even if it is the call that fails ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    const cudnnStatus_t rc = call_begin();
    if (rc)
        return rc;
    if (fake.device() < 0)
        return call_wrong("no context is current");
    *handle = calloc(1, sizeof **handle);
    (*handle)->device = fake.device();
    atomic_fetch_add(&live, 1);
    return rc;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    const cudnnStatus_t rc = call_begin();
    free(handle);
    atomic_fetch_sub(&live, 1);
    return rc;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    const cudnnStatus_t rc = call_begin();
    if (!rc) {
        handle->stream = (CUstream)stream;
        handle->has_stream = true;
    }
    return rc;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    const cudnnStatus_t rc = call_begin();
    bool known = (int)type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || (int)type == CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    for (int i = 0; i < fake_rule_count; i++)
        known = known || fake_rules[i].of == (int)type;
    if (rc)
        return rc;
    if (!known)
        return call_wrong("a descriptor that the fake does not know");
    descriptor *d = calloc(1, sizeof *d);
    d->type = (int)type;
    *out = d;
    atomic_fetch_add(&live, 1);
    return rc;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t given)
{
    const cudnnStatus_t rc = call_begin();
    descriptor *d = given;
    for (int i = 0; i < ATTRIBUTES; i++)
        free(d->attribute[i].value);
    free(d);
    atomic_fetch_sub(&live, 1);
    return rc;
}

/* ---- Attributes ---- */

static size_t type_size(int type)
{
    return type == CUDNN_TYPE_BOOLEAN ? 1
           : type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_BACKEND_DESCRIPTOR
               ? 8
               : 4;
}

/* NULL: it was not set. */
static const attribute *attribute_find(const descriptor *d, int name)
{
    for (int i = 0; i < ATTRIBUTES; i++)
        if (d->attribute[i].value && d->attribute[i].name == name)
            return &d->attribute[i];
    return NULL;
}

static void attribute_copy(const descriptor *d, int name, void *to, size_t bytes)
{
    const attribute *a = attribute_find(d, name);
    if (a)
        memcpy(to, a->value, bytes);
}

static int attribute_number(const descriptor *d, int name)
{
    int number = 0;
    attribute_copy(d, name, &number, sizeof number);
    return number;
}

static const descriptor *attribute_link(const descriptor *d, int name)
{
    const descriptor *to = NULL;
    attribute_copy(d, name, &to, sizeof to);
    return to;
}

static bool is_operation(int type)
{
    return type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR ||
           fake_step_is_conv(&(fake_step){.kind = type});
}

static const char *value_wrong(const fake_rule *r, int64_t n, const void *value)
{
    for (int64_t i = 0; i < n && r->to != FAKE_NO_LINK; i++) {
        const descriptor *to = ((descriptor *const *)value)[i];
        if (!to || !to->is_final)
            return to ? "a descriptor that is used before it is finalized" : "no descriptor where there should be one";
        if (r->to == FAKE_OPERATION ? !is_operation(to->type) : to->type != r->to)
            return "a descriptor of another kind";
    }
    return NULL;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t given, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t n, const void *value)
{
    const cudnnStatus_t rc = call_begin();
    descriptor *d = given;
    if (rc)
        return rc;
    const fake_rule *r = d ? fake_rule_find(d->type, (int)name) : NULL;
    if (!r || d->is_final)
        return call_wrong(r ? "an attribute of what is finalized" : "an attribute that the fake does not know");
    if (r->type != (int)type || n < r->least || n > r->most || !value)
        return call_wrong("the type or count of an attribute");
    if (value_wrong(r, n, value))
        return call_wrong(value_wrong(r, n, value));
    int i = 0;
    while (d->attribute[i].value && d->attribute[i].name != (int)name)
        i++;
    free(d->attribute[i].value);
    d->attribute[i] = (attribute){.name = (int)name, .n = n, .value = malloc((size_t)n * type_size(r->type))};
    memcpy(d->attribute[i].value, value, (size_t)n * type_size(r->type));
    return rc;
}

static bool graph_is_conv(const fake_dnn_graph *graph)
{
    return graph->n_step > 0 && fake_step_is_conv(&graph->step[0]);
}

/* The engines of a graph, into descriptors that are there. */
static cudnnStatus_t engines_give(const descriptor *d, int64_t most, int64_t *n, void *value)
{
    const int64_t all = graph_is_conv(d->graph) ? CONV_ENGINES : ENGINES;
    *n = most < all ? most : all;
    for (int i = 0; i < *n; i++) {
        descriptor *to = ((descriptor **)value)[i];
        if (!to || to->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
            return call_wrong("where an engine is put");
        to->graph = d->graph;
        to->handle = d->handle;
        to->engine = i;
        to->is_final = true;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* The engine of a configuration, into a descriptor that is there. */
static cudnnStatus_t engine_give(const descriptor *d, int64_t *n, void *value)
{
    descriptor *to = *(descriptor **)value;
    if (!to || to->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
        return call_wrong("where an engine is put");
    to->graph = d->graph;
    to->engine = d->engine;
    to->is_final = true;
    *n = 1;
    return CUDNN_STATUS_SUCCESS;
}

/* Notes that an engine of a convolution has. */
static cudnnStatus_t notes_give(const descriptor *d, int64_t *n, void *value)
{
    const int note = graph_is_conv(d->graph) ? engines[d->engine].note : -1;
    *n = note >= 0;
    if (note >= 0)
        memcpy(value, &note, sizeof note);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t workspace_give(const descriptor *d, int64_t *n, void *value)
{
    const int64_t bytes = graph_is_conv(d->graph) ? engines[d->engine].workspace : WORKSPACE;
    *n = 1;
    memcpy(value, &bytes, sizeof bytes);
    return CUDNN_STATUS_SUCCESS;
}

/* Requirements on a kind of descriptor. */
static const struct {
    int of, name, type;
    cudnnStatus_t (*give)(const descriptor *d, int64_t *n, void *value);
} answers[] = {
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, engine_give},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes_give},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, workspace_give},
};

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const given, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t *n, void *value)
{
    const cudnnStatus_t rc = call_begin();
    const descriptor *d = given;
    if (rc)
        return rc;
    if (!d || !d->is_final || most < 1)
        return call_wrong("what is asked of a descriptor that is not finalized");
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && (int)name == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
        (int)type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return engines_give(d, most, n, value);
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (d->type == answers[i].of && (int)name == answers[i].name && (int)type == answers[i].type)
            return answers[i].give(d, n, value);
    return call_wrong("an attribute that is asked for");
}

/* ---- Finalizing ---- */

static fake_tensor tensor_of(const descriptor *d)
{
    fake_tensor t = {.type = attribute_number(d, CUDNN_ATTR_TENSOR_DATA_TYPE)};
    attribute_copy(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, &t.uid, sizeof t.uid);
    attribute_copy(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &t.align, sizeof t.align);
    attribute_copy(d, CUDNN_ATTR_TENSOR_DIMENSIONS, t.dim, sizeof t.dim);
    attribute_copy(d, CUDNN_ATTR_TENSOR_STRIDES, t.stride, sizeof t.stride);
    attribute_copy(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, &t.is_virtual, 1);
    attribute_copy(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, &t.is_value, 1);
    return t;
}

static const char *tensor_wrong(const descriptor *d)
{
    const fake_tensor t = tensor_of(d);
    int64_t count = 1;
    for (int i = 0; i < 4; i++) {
        if (t.dim[i] < 1 || t.stride[i] < 0)
            return "dimensions or strides of a tensor";
        count *= t.dim[i];
    }
    if (!fake_type_bytes(t.type) || (!t.is_virtual && fake_type_bytes(t.type) == 1) || (!t.is_virtual && t.type == CUDNN_DATA_INT32))
        return "a type that the fake does not know, or not in memory";
    if (t.is_value && (t.is_virtual || count != 1 || t.type != CUDNN_DATA_FLOAT))
        return "a number that is virtual, not one or not a float";
    return t.align < 1 || t.align & (t.align - 1) ? "a tensor's alignment" : NULL;
}

static const char *mode_wrong(const descriptor *d)
{
    static const int modes[] = {CUDNN_POINTWISE_ADD,       CUDNN_POINTWISE_MUL,          CUDNN_POINTWISE_DIV,
                                CUDNN_POINTWISE_SUB,       CUDNN_POINTWISE_EXP,          CUDNN_POINTWISE_LOG,
                                CUDNN_POINTWISE_GEN_INDEX, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_POINTWISE_CMP_GE};
    const int mode = attribute_number(d, CUDNN_ATTR_POINTWISE_MODE);
    bool known = false;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        known = known || modes[i] == mode;
    if (!known || !!attribute_find(d, CUDNN_ATTR_POINTWISE_AXIS) != (mode == CUDNN_POINTWISE_GEN_INDEX))
        return known ? "an axis without an index, or an index without one" : "a pointwise operation that the fake does not know";
    const int math = attribute_number(d, CUDNN_ATTR_POINTWISE_MATH_PREC);
    const int want = mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    return math == want ? NULL : "in what a pointwise operation computes";
}

static const char *reduction_wrong(const descriptor *d)
{
    const int mode = attribute_number(d, CUDNN_ATTR_REDUCTION_OPERATOR);
    return (mode == CUDNN_REDUCE_TENSOR_ADD || mode == CUDNN_REDUCE_TENSOR_MAX) &&
                   attribute_number(d, CUDNN_ATTR_REDUCTION_COMP_TYPE) == CUDNN_DATA_FLOAT
               ? NULL
               : "a reduction that the fake does not know";
}

static const char *conv_wrong(const descriptor *d)
{
    int64_t dims = 0, before[2] = {0}, behind[2] = {0};
    attribute_copy(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &dims, sizeof dims);
    attribute_copy(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, before, sizeof before);
    attribute_copy(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, behind, sizeof behind);
    return dims == 2 && !memcmp(before, behind, sizeof before) &&
                   attribute_number(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
                   attribute_number(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION
               ? NULL
               : "a convolution that the fake does not know";
}

/* The tensor that an attribute leads to, in the graph; -1: it was not set; -2: it cannot be. */
static int graph_tensor(fake_dnn_graph *graph, const descriptor *op, int name)
{
    const descriptor *d = attribute_link(op, name);
    if (!d)
        return -1;
    const fake_tensor t = tensor_of(d);
    const int at = fake_graph_tensor(graph, &t);
    return at < 0 ? -2 : at;
}

/* Its operands are X, W, Y in this order, but for the result. */
static fake_step conv_of(fake_dnn_graph *graph, const descriptor *op)
{
    static const struct {
        int kind, tensor[3], out, what, alpha, beta;
    } kinds[] = {
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
         2, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
         0, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
         1, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    int k = 0;
    while (kinds[k].kind != op->type)
        k++;
    fake_step s = {.kind = op->type};
    for (int i = 0; i < 3; i++)
        s.in[i] = graph_tensor(graph, op, kinds[k].tensor[i]);
    s.out = s.in[kinds[k].out];
    s.in[kinds[k].out] = s.out == -2 ? -2 : -1;
    attribute_copy(op, kinds[k].alpha, &s.conv.alpha, sizeof s.conv.alpha);
    attribute_copy(op, kinds[k].beta, &s.conv.beta, sizeof s.conv.beta);
    const descriptor *what = attribute_link(op, kinds[k].what);
    attribute_copy(what, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.conv.stride, sizeof s.conv.stride);
    attribute_copy(what, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.conv.zeros, sizeof s.conv.zeros);
    attribute_copy(what, CUDNN_ATTR_CONVOLUTION_DILATIONS, s.conv.dilation, sizeof s.conv.dilation);
    return s;
}

static fake_step step_of(fake_dnn_graph *graph, const descriptor *op)
{
    static const struct {
        int kind, in[3], out, what, mode;
    } kinds[] = {
        {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
         CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE},
        {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, -1, -1}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
         CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_REDUCTION_OPERATOR},
        {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, -1}, CUDNN_ATTR_OPERATION_MATMUL_CDESC, -1, -1},
        {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
         {CUDNN_ATTR_OPERATION_RESHAPE_XDESC, -1, -1}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, -1, -1},
    };
    int k = 0;
    while (kinds[k].kind != op->type)
        k++;
    fake_step s = {.kind = op->type};
    for (int i = 0; i < 3; i++)
        s.in[i] = graph_tensor(graph, op, kinds[k].in[i]);
    s.out = graph_tensor(graph, op, kinds[k].out);
    const descriptor *what = attribute_link(op, kinds[k].what);
    if (what) {
        s.mode = attribute_number(what, kinds[k].mode);
        attribute_copy(what, CUDNN_ATTR_POINTWISE_AXIS, &s.axis, sizeof s.axis);
    }
    return s;
}

static const char *graph_fill(descriptor *d)
{
    const attribute *ops = attribute_find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    fake_dnn_graph *graph = calloc(1, sizeof *graph);
    const char *why = NULL;
    for (int64_t i = 0; i < ops->n && !why; i++) {
        const descriptor *op = ((descriptor *const *)ops->value)[i];
        const bool conv = fake_step_is_conv(&(fake_step){.kind = op->type});
        const fake_step s = conv ? conv_of(graph, op) : step_of(graph, op);
        why = s.in[0] == -2 || s.in[1] == -2 || s.in[2] == -2 ? "too many tensors, or two of one number"
              : conv                                          ? fake_conv_add(graph, &s)
                                                              : fake_graph_add(graph, &s);
    }
    attribute_copy(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &d->handle, sizeof d->handle);
    d->graph = graph;
    pthread_mutex_lock(&fake.lock);
    graph->next = fake.graphs;
    fake.graphs = graph;
    pthread_mutex_unlock(&fake.lock);
    return why ? why : d->handle->device != fake.device() ? "another device is current" : NULL;
}

static cudnnStatus_t engines_find(descriptor *d)
{
    const descriptor *graph = attribute_link(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const int64_t head = fake_graph_head(graph->graph);
    cublaslt_need();
    d->graph = graph->graph;
    d->handle = graph->handle;
    if (graph_is_conv(d->graph))
        return atomic_load(&fake.refuse) || fake.capability() < 80 || !fake_conv_types(d->graph) ? CUDNN_STATUS_NOT_SUPPORTED
                                                                                                : CUDNN_STATUS_SUCCESS;
    return atomic_load(&fake.refuse) || fake.capability() < 80 || head < 8 || head % 8 || head > HEAD_MOST ? CUDNN_STATUS_NOT_SUPPORTED
                                                                                                      : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t plan_make(descriptor *d)
{
    const descriptor *engine = attribute_link(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    attribute_copy(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &d->handle, sizeof d->handle);
    d->graph = engine->graph;
    d->engine = engine->engine;
    if (d->handle != engine->handle || d->handle->device != fake.device())
        return call_wrong("a plan with another handle, or for another device");
    return engine->engine == 0 ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

static const char *pack_wrong(const descriptor *d)
{
    const attribute *ids = attribute_find(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const int64_t *id = ids->value;
    for (int64_t i = 0; i < ids->n; i++)
        for (int64_t k = 0; k < i; k++)
            if (id[k] == id[i])
                return "a tensor that is given twice";
    return ids->n == attribute_find(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->n ? NULL : "more tensors than pointers, or fewer";
}

static const char *descriptor_wrong(descriptor *d)
{
    switch (d->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return tensor_wrong(d);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR: return mode_wrong(d);
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR: return reduction_wrong(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return conv_wrong(d);
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
        return attribute_number(d, CUDNN_ATTR_MATMUL_COMP_TYPE) == CUDNN_DATA_FLOAT ? NULL : "in what a product is summed";
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return graph_fill(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return pack_wrong(d);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return "an engine that was not given";
    default: return NULL;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t given)
{
    cudnnStatus_t rc = call_begin();
    descriptor *d = given;
    if (rc)
        return rc;
    if (!d || d->is_final)
        return call_wrong(d ? "a descriptor that is finalized twice" : "no descriptor");
    for (int i = 0; i < fake_rule_count; i++)
        if (fake_rules[i].of == d->type && fake_rules[i].is_needed && !attribute_find(d, fake_rules[i].name))
            return call_wrong("a descriptor that is finalized without an attribute");
    const char *why = descriptor_wrong(d);
    if (why)
        return call_wrong(why);
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        rc = engines_find(d);
    else if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        rc = plan_make(d);
    d->is_final = !rc;
    return rc;
}

/* ---- Executing ---- */

static int job_run(void **parameter, const unsigned grid[3], unsigned threads, char *stacks)
{
    char bytes[sizeof(job)], *at[FAKE_TENSORS] = {NULL};
    float value[FAKE_TENSORS] = {0};
    job own;
    (void)grid, (void)threads, (void)stacks;
    for (int i = 0; i < JOB_WORDS; i++)
        memcpy(bytes + 8 * i, parameter[i], 8);
    memcpy(&own, bytes, sizeof own);
    for (int i = 0, k = 0; i < own.graph->n_tensor; i++)
        if (!own.graph->tensor[i].is_virtual) {
            value[i] = (float)own.value[k];
            at[i] = own.at[k++];
        }
    if (own.workspace)
        memset(own.workspace, 0xff, WORKSPACE);
    if (graph_is_conv(own.graph))
        fake_conv_run(own.graph, at, own.rounds != 0);
    else
        fake_graph_run(own.graph, at, value);
    return 1;
}

/* Finds a tensor's memory in a pack; false if absent. */
static bool pack_find(const descriptor *pack, int64_t uid, void **to)
{
    const attribute *ids = attribute_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    void *const *pointer = attribute_find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->value;
    for (int64_t i = 0; i < ids->n; i++)
        if (((const int64_t *)ids->value)[i] == uid) {
            *to = pointer[i];
            return true;
        }
    return false;
}

/* Address of a tensor; NULL if it breaks a rule. */
static char *tensor_memory(const fake_tensor *t, const void *at)
{
    int64_t last = 0;
    for (int d = 0; d < 4; d++)
        last += (t->dim[d] - 1) * t->stride[d];
    return (uintptr_t)at % (uintptr_t)t->align ? NULL
                                               : fake.memory((CUdeviceptr)(uintptr_t)at, (size_t)((last + 1) * fake_type_bytes(t->type)));
}

/* NULL, or what is wrong. */
static const char *job_fill(job *own, const descriptor *pack)
{
    int k = 0;
    for (int i = 0; i < own->graph->n_tensor; i++) {
        const fake_tensor *t = &own->graph->tensor[i];
        void *at = NULL;
        float number;
        if (t->is_virtual)
            continue;
        if (k == FAKE_GIVEN || !pack_find(pack, t->uid, &at) || !at)
            return "a tensor that is not given";
        if (t->is_value) {
            if ((uintptr_t)at & FAKE_TAG)
                return "a number that is in a device's memory";
            memcpy(&number, at, sizeof number);
            own->value[k] = number;
        } else if (!(own->at[k] = tensor_memory(t, at)))
            return "memory of a tensor that is not there, or not aligned as was said";
        k++;
    }
    return attribute_find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->n == k ? NULL : "a tensor that is given and is not in the graph";
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t given, cudnnBackendDescriptor_t given_pack)
{
    static const fake_kernel kernel = {"cudnnBackendExecute", JOB_WORDS, fake.bytes, job_run};
    const descriptor *plan = given, *pack = given_pack;
    const cudnnStatus_t rc = call_begin();
    void *parameter[JOB_WORDS];
    if (rc)
        return rc;
    if (!plan || !pack || !plan->is_final || !pack->is_final || plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return call_wrong("what is executed");
    if (plan->handle != handle || handle->device != fake.device() || !handle->has_stream)
        return call_wrong("a plan with another handle, on another device or in no stream");
    const bool conv = graph_is_conv(plan->graph);
    job own = {.graph = plan->graph, .rounds = conv && engines[plan->engine].note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    const char *why = conv && engines[plan->engine].is_wrong ? "an engine that must not be chosen" : job_fill(&own, pack);
    void *workspace = NULL;
    attribute_copy(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace, sizeof workspace);
    const bool works = !conv || engines[plan->engine].workspace;
    own.workspace = (uintptr_t)workspace % 256 || !works ? NULL : fake.memory((CUdeviceptr)(uintptr_t)workspace, WORKSPACE);
    if (why || (works && !own.workspace))
        return call_wrong(why ? why : "the workspace of a run");
    for (int i = 0; i < JOB_WORDS; i++)
        parameter[i] = (char *)&own + 8 * i;
    atomic_fetch_add(conv ? &convolutions : &attentions, 1);
    return fake.launch(handle->stream, &kernel, parameter) ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
