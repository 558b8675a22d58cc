/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's streams, each a thread that does one thing after the other; events; copies, of which those from and
 * to memory that is not page-locked end before they return, as the driver's do; kernels; graphs by capture.
 */
#define _GNU_SOURCE
#include "tests/fakes/libcuda_stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/fakes/libcuda_memory.h"

#define AT_ONCE 65536u /* bytes of pageable memory that are taken at once */

/* Under the lock. */
static void event_release(CUevent e)
{
    if (--e->uses == 0)
        free(e);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* A stream's thread */

static void op_free(fake_op *op)
{
    if (op->event)
        event_release(op->event);
    free(op->snapshot);
    free(op);
}

/* Under the lock; let go while it works. The context is lost if the kernel's threads do not agree about a barrier. */
static void op_launch(CUstream s, const fake_op *op, char *stacks)
{
    const bool hangs = ++fake.kernels == fake.hang_at;
    while (hangs && !fake.released && !s->context->lost)
        pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    const int good = op->kernel->run(op->parameter, op->grid, op->threads, stacks);
    pthread_mutex_lock(&fake.lock);
    if (!good && !s->context->lost)
        s->context->lost = CUDA_ERROR_LAUNCH_FAILED;
}

static void op_copy(const fake_op *op)
{
    pthread_mutex_unlock(&fake.lock);
    memcpy(op->to, op->from, op->bytes);
    pthread_mutex_lock(&fake.lock);
}

static void op_call(const fake_op *op)
{
    pthread_mutex_unlock(&fake.lock);
    op->function(op->argument);
    pthread_mutex_lock(&fake.lock);
}

/* Under the lock. Work for a lost device is dropped; a call owns its arguments, and frees them. */
static void op_do(CUstream s, const fake_op *op, char *stacks)
{
    if (s->context->lost && op->kind != FAKE_CALL)
        return;
    switch (op->kind) {
    case FAKE_LAUNCH:
        op_launch(s, op, stacks);
        return;
    case FAKE_COPY:
        op_copy(op);
        return;
    case FAKE_RECORD:
        op->event->done = op->record > op->event->done ? op->record : op->event->done;
        op->event->when_ns = now_ns();
        return;
    case FAKE_WAIT:
        while (op->event->done < op->record && !s->context->lost && !op->event->context->lost)
            pthread_cond_wait(&fake.changed, &fake.lock);
        return;
    case FAKE_GRAPH:
        for (const fake_op *part = op->exec->first; part && !s->context->lost; part = part->next)
            op_launch(s, part, stacks);
        return;
    case FAKE_CALL:
        op_call(op);
        return;
    }
}

static void *stream_main(void *arg)
{
    CUstream s = arg;
    char *stacks = mmap(NULL, (size_t)FAKE_STACK * FAKE_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1, 0);
    pthread_mutex_lock(&fake.lock);
    while (s->first || !s->stop) {
        fake_op *op = s->first;
        if (!op) {
            pthread_cond_wait(&fake.changed, &fake.lock);
            continue;
        }
        op_do(s, op, stacks);
        if (!(s->first = op->next))
            s->end = &s->first;
        s->done++;
        if (op->finished)
            *op->finished = true;
        op_free(op);
        pthread_cond_broadcast(&fake.changed);
    }
    pthread_mutex_unlock(&fake.lock);
    munmap(stacks, (size_t)FAKE_STACK * FAKE_THREADS);
    return NULL;
}

CUstream fake_stream_start(CUcontext context)
{
    CUstream s = calloc(1, sizeof *s);
    s->context = context;
    s->end = &s->first;
    if (pthread_create(&s->thread, NULL, stream_main, s)) {
        free(s);
        return NULL;
    }
    return s;
}

void fake_stream_stop(CUstream s)
{
    pthread_mutex_lock(&fake.lock);
    s->stop = true;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    pthread_join(s->thread, NULL);
    free(s);
}

/* ---- Giving ---- */

static CUstream stream_of(CUstream s, CUcontext context)
{
    return s ? s : fake.null_stream[context - fake.device];
}

static fake_op *op_new(int kind, size_t behind)
{
    fake_op *op = calloc(1, sizeof *op + behind);
    op->kind = kind;
    return op;
}

/* Under the lock. */
static void stream_give(CUstream s, fake_op *op)
{
    *s->end = op;
    s->end = &op->next;
    s->given++;
    pthread_cond_broadcast(&fake.changed);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    (void)flags, (void)priority;
    if (rc)
        return rc;
    if (!(*stream = fake_stream_start(context)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_object_add(FAKE_STREAM, *stream, context);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    fake_object_remove(stream);
    fake_stream_stop(stream);
    return rc;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUcontext context;
    CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    CUstream s = stream_of(stream, context);
    pthread_mutex_lock(&fake.lock);
    const uint64_t given = s->given;
    while (s->done < given)
        pthread_cond_wait(&fake.changed, &fake.lock);
    rc = (CUresult)s->context->lost;
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

/* ---- Events ---- */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    (void)flags;
    if (rc)
        return rc;
    *event = calloc(1, sizeof **event);
    **event = (struct CUevent_st){.context = context, .uses = 1};
    fake_object_add(FAKE_EVENT, *event, context);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    fake_object_remove(event);
    pthread_mutex_lock(&fake.lock);
    event_release(event);
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

/* An event's record, or a wait for it, to a stream. Under the lock. */
static void event_give(CUstream s, int kind, CUevent event, uint64_t record)
{
    fake_op *op = op_new(kind, 0);
    op->event = event;
    op->record = record;
    event->uses++;
    stream_give(s, op);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    CUstream s = stream_of(stream, context);
    if (s->context != event->context)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    event_give(s, FAKE_RECORD, event, ++event->asked);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc || flags)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    event_give(stream_of(stream, context), FAKE_WAIT, event, event->asked);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event)
{
    CUresult rc;
    if (fake_call_fails(&rc))
        return rc;
    pthread_mutex_lock(&fake.lock);
    rc = event->context->lost ? (CUresult)event->context->lost : event->done >= event->asked ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    CUcontext context;
    CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    if (begin->context != context || end->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&fake.lock);
    rc = !begin->asked || !end->asked ? CUDA_ERROR_INVALID_HANDLE
         : begin->done < begin->asked || end->done < end->asked ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    if (!rc)
        *milliseconds = (float)(1e-6 * (double)(end->when_ns - begin->when_ns));
    pthread_mutex_unlock(&fake.lock);
    return rc;
}

/* ---- Copies ---- */

/* Until the copy is over. Under the lock. */
static void copy_finish(CUstream s, fake_op *op)
{
    bool finished = false;
    op->finished = &finished;
    stream_give(s, op);
    while (!finished)
        pthread_cond_wait(&fake.changed, &fake.lock);
}

static CUresult copy_give(CUstream stream, char *to, const char *from, size_t bytes, const void *host, bool host_reads)
{
    CUcontext context = fake_context_now();
    CUstream s = stream_of(stream, context);
    fake_op *op = op_new(FAKE_COPY, 0);
    op->to = to;
    op->from = (char *)from;
    op->bytes = bytes;
    pthread_mutex_lock(&fake.lock);
    const bool pageable = host && !fake_is_pinned(host, bytes);
    fake.pageable += pageable && (host_reads || bytes > AT_ONCE); /* the host waits in the call */
    if (pageable && !host_reads && bytes <= AT_ONCE) {
        op->from = op->snapshot = memcpy(malloc(bytes + 1), host, bytes);
        stream_give(s, op);
    } else if (pageable) {
        copy_finish(s, op);
    } else {
        stream_give(s, op);
    }
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

/* The start of every copy: checks that device memory exists; NULL for an end on the host. */
static CUresult copy_begin(const CUdeviceptr *to, const CUdeviceptr *from, size_t bytes)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    pthread_mutex_lock(&fake.lock);
    const bool good = (!to || fake_memory_covers(*to, bytes)) && (!from || fake_memory_covers(*from, bytes));
    pthread_mutex_unlock(&fake.lock);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    const CUresult rc = copy_begin(&to, NULL, bytes);
    return rc ? rc : copy_give(stream, fake_host(to), from, bytes, from, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const CUresult rc = copy_begin(NULL, &from, bytes);
    return rc ? rc : copy_give(stream, to, fake_host(from), bytes, to, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const CUresult rc = copy_begin(&to, &from, bytes);
    return rc ? rc : copy_give(stream, fake_host(to), fake_host(from), bytes, NULL, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)
{
    const CUresult rc = copy_begin(&to, &from, bytes);
    if (rc || !to_context || !from_context)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    return copy_give(stream, fake_host(to), fake_host(from), bytes, NULL, false);
}

/* ---- Kernels ---- */

/* A launch with its arguments behind it: pointers, then 8 bytes each. */
static fake_op *launch_new(const fake_kernel *kernel, const unsigned grid[3], unsigned threads, void **parameter)
{
    const size_t n = (size_t)kernel->n_parameter;
    fake_op *op = op_new(FAKE_LAUNCH, n * (sizeof(void *) + 8));
    op->kernel = kernel;
    op->threads = threads;
    memcpy(op->grid, grid, sizeof op->grid);
    op->parameter = (void **)(op + 1);
    for (size_t i = 0; i < n; i++) {
        op->parameter[i] = (char *)(op->parameter + n) + 8 * i;
        if (parameter)
            memcpy(op->parameter[i], parameter[i], (size_t)kernel->bytes[i]);
    }
    return op;
}

static bool grid_good(const unsigned grid[3], unsigned threads)
{
    return grid[0] && grid[1] && grid[2] && grid[0] <= 2147483647u && grid[1] <= 65535 && grid[2] <= 65535 && threads &&
           threads <= FAKE_THREADS;
}

static void launch_give(CUstream stream, CUcontext context, fake_op *op)
{
    CUstream s = stream_of(stream, context);
    pthread_mutex_lock(&fake.lock);
    if (++fake.launches == fake.lose_at)
        context->lost = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (s->capture) {
        *s->capture->end = op;
        s->capture->end = &op->next;
    } else {
        stream_give(s, op);
    }
    pthread_mutex_unlock(&fake.lock);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra)
{
    const unsigned grid[3] = {grid_x, grid_y, grid_z};
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    if (!grid_good(grid, block_x) || block_y != 1 || block_z != 1 || shared_bytes || extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (function->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    launch_give(stream, context, launch_new(function->kernel, grid, block_x, parameters));
    return CUDA_SUCCESS;
}

int fake_cuda_launch(CUstream stream, const fake_kernel *kernel, void **parameters)
{
    const unsigned grid[3] = {1, 1, 1};
    CUcontext context = fake_context_now();
    pthread_mutex_lock(&fake.lock);
    const int lost = context ? context->lost : CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_unlock(&fake.lock);
    if (lost || (stream && stream->context != context))
        return lost ? lost : CUDA_ERROR_INVALID_HANDLE;
    launch_give(stream, context, launch_new(kernel, grid, 1, parameters));
    return 0;
}

/* ---- Graphs ---- */

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    (void)mode;
    if (rc || !stream || stream->capture)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    stream->capture = calloc(1, sizeof *stream->capture);
    stream->capture->end = &stream->capture->first;
    fake_object_add(FAKE_CAPTURED, stream->capture, context);
    return CUDA_SUCCESS;
}

static void ops_free(fake_op *op)
{
    for (fake_op *next; op; op = next) {
        next = op->next;
        op_free(op);
    }
}

static void graph_free(CUgraph graph)
{
    ops_free(graph->first);
    free(graph);
}

static void exec_free(CUgraphExec exec)
{
    ops_free(exec->first);
    free(exec);
}

/* A capture that fails here is over all the same, without a graph. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (!stream->capture)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = rc ? NULL : stream->capture;
    if (rc) {
        fake_object_remove(stream->capture);
        graph_free(stream->capture);
    }
    stream->capture = NULL;
    return rc;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc || flags)
        return rc ? rc : CUDA_ERROR_INVALID_VALUE;
    CUgraphExec e = calloc(1, sizeof *e);
    fake_op **end = &e->first;
    for (const fake_op *op = graph->first; op; op = op->next) {
        *end = launch_new(op->kernel, op->grid, op->threads, op->parameter);
        end = &(*end)->next;
    }
    fake_object_add(FAKE_EXEC, e, context);
    *exec = e;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    if (rc)
        return rc;
    fake_op *op = op_new(FAKE_GRAPH, 0);
    op->exec = exec;
    pthread_mutex_lock(&fake.lock);
    fake.graphs++;
    stream_give(stream_of(stream, context), op);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    fake_object_remove(graph);
    graph_free(graph);
    return rc;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUcontext context;
    const CUresult rc = fake_call_begin(&context);
    fake_object_remove(exec);
    exec_free(exec);
    return rc;
}

/* ---- Calls, for the fake NCCL ---- */

void fake_cuda_call(CUstream stream, void (*function)(void *argument), void *argument)
{
    fake_op *op = op_new(FAKE_CALL, 0);
    op->function = function;
    op->argument = argument;
    pthread_mutex_lock(&fake.lock);
    stream_give(stream_of(stream, fake_context_now()), op);
    pthread_mutex_unlock(&fake.lock);
}

/* ---- The end of a context ---- */

void fake_stream_object_free(fake_kind kind, void *object)
{
    if (kind == FAKE_STREAM)
        fake_stream_stop(object);
    if (kind == FAKE_CAPTURED)
        graph_free(object);
    if (kind == FAKE_EXEC)
        exec_free(object);
    if (kind != FAKE_EVENT)
        return;
    pthread_mutex_lock(&fake.lock);
    event_release(object);
    pthread_mutex_unlock(&fake.lock);
}
