/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: an in-order command queue; a point is the event of the last command behind it. Events of points that are not
 * known to be done wait in a ring, oldest first. A failure stays: every later call returns it.
 */
#include "backends/opencl/ocl.h"

#include <time.h>

#define SPIN_NS 30000u /* how long a wait for a device with cores of its own looks before it sleeps */

typedef struct queue_pending {
    uint64_t point;
    cl_event event;
} queue_pending;

struct yk_queue {
    yk_device *dev;
    cl_command_queue commands;
    ocl_scratch scratch;
    pthread_mutex_t lock;          /* another queue may ask for a point's event */
    pthread_mutex_t callback_lock; /* of the next two; never held in a call of the driver, which may call back at once */
    pthread_cond_t callback_came;
    uint64_t n_callback_asked, n_callback; /* callbacks of events */
    queue_pending *ring;
    size_t first, n, cap;
    uint64_t last, done;
    yk_status failed;
    cl_int code;
    const char *what;
};

yk_status ocl_queue_new(yk_device *dev, yk_queue **out)
{
    pthread_condattr_t attr;
    cl_int rc;
    yk_queue *queue = ocl_alloc(sizeof *queue);
    if (!queue)
        return YK_E_MEM;
    queue->dev = dev;
    queue->commands = clCreateCommandQueue(dev->ctx, dev->id, 0, &rc);
    if (rc != CL_SUCCESS) {
        ocl_free(queue);
        return ocl_error(rc, "clCreateCommandQueue");
    }
    pthread_mutex_init(&queue->lock, NULL);
    pthread_mutex_init(&queue->callback_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->callback_came, &attr);
    pthread_condattr_destroy(&attr);
    *out = queue;
    return YK_OK;
}

void ocl_queue_free(yk_queue *queue)
{
    if (!queue)
        return;
    clFinish(queue->commands);
    pthread_mutex_lock(&queue->callback_lock);
    while (queue->n_callback < queue->n_callback_asked) /* the driver may still call */
        pthread_cond_wait(&queue->callback_came, &queue->callback_lock);
    pthread_mutex_unlock(&queue->callback_lock);
    for (size_t i = 0; i < queue->n; i++)
        clReleaseEvent(queue->ring[(queue->first + i) % queue->cap].event);
    ocl_scratch_free(&queue->scratch);
    clReleaseCommandQueue(queue->commands);
    pthread_cond_destroy(&queue->callback_came);
    pthread_mutex_destroy(&queue->callback_lock);
    pthread_mutex_destroy(&queue->lock);
    ocl_free(queue->ring);
    ocl_free(queue);
}

static yk_status queue_fail(yk_queue *queue, cl_int code, const char *what)
{
    if (queue->failed == YK_OK) {
        queue->code = code;
        queue->what = what;
        queue->failed = ocl_error(code, what);
    } else if (queue->what) {
        ocl_error(queue->code, queue->what);
    }
    return queue->failed;
}

/* Makes room for one more; under the lock. */
static bool ring_reserve(yk_queue *queue)
{
    if (queue->n < queue->cap)
        return true;
    size_t cap = queue->cap ? queue->cap * 2 : 16;
    queue_pending *ring = ocl_alloc(cap * sizeof *ring);
    if (!ring)
        return false;
    for (size_t i = 0; i < queue->n; i++)
        ring[i] = queue->ring[(queue->first + i) % queue->cap];
    ocl_free(queue->ring);
    queue->ring = ring;
    queue->cap = cap;
    queue->first = 0;
    return true;
}

/* Takes finished points off the ring; under the lock. */
static void ring_reap(yk_queue *queue)
{
    while (queue->n) {
        queue_pending *p = &queue->ring[queue->first];
        cl_int state = CL_QUEUED;
        cl_int rc = clGetEventInfo(p->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (rc != CL_SUCCESS || state < 0) {
            queue_fail(queue, rc != CL_SUCCESS ? rc : state, "a command of the queue");
            return;
        }
        if (state != CL_COMPLETE)
            return;
        queue->done = p->point;
        clReleaseEvent(p->event);
        queue->first = (queue->first + 1) % queue->cap;
        queue->n--;
    }
}

static yk_status queue_point(yk_queue *queue, cl_event event, uint64_t *point)
{
    pthread_mutex_lock(&queue->lock);
    ring_reap(queue);
    bool reserved = ring_reserve(queue);
    if (reserved) {
        queue->ring[(queue->first + queue->n) % queue->cap] = (queue_pending){++queue->last, event};
        queue->n++;
        *point = queue->last;
    }
    pthread_mutex_unlock(&queue->lock);
    if (!reserved) {
        clFinish(queue->commands);
        clReleaseEvent(event);
        return queue->failed = YK_E_MEM;
    }
    clFlush(queue->commands);
    return YK_OK;
}

/* ---- Waiting for other queues ---- */

/* The event of a point, retained; NULL if it is done. Later points stand for it, as the queue is in order. */
static cl_event queue_event(yk_queue *queue, uint64_t point)
{
    cl_event event = NULL;
    pthread_mutex_lock(&queue->lock);
    ring_reap(queue);
    for (size_t i = 0; i < queue->n && !event; i++) {
        queue_pending *p = &queue->ring[(queue->first + i) % queue->cap];
        if (p->point >= point)
            event = p->event;
    }
    if (event)
        clRetainEvent(event);
    pthread_mutex_unlock(&queue->lock);
    return event;
}

/* Collects the events to wait for. Those of another context cannot be given to this queue: they are waited for here. */
static yk_status queue_waits(yk_queue *queue, const yk_submit *s, cl_event *event, cl_uint *n)
{
    for (uint32_t i = 0; i < s->n_wait; i++) {
        yk_queue *other = s->wait[i].queue;
        if (other == queue)
            continue;
        cl_event e = queue_event(other, s->wait[i].point);
        if (other->failed != YK_OK)
            queue->failed = other->failed;
        if (!e)
            continue;
        if (other->dev->ctx == queue->dev->ctx && *n < 16) {
            event[(*n)++] = e;
            continue;
        }
        clWaitForEvents(1, &e);
        clReleaseEvent(e);
    }
    return queue->failed;
}

/* ---- Commands ---- */

static yk_status queue_submit(yk_queue *queue, const yk_submit *s, cl_event *last)
{
    cl_event wait[16];
    cl_uint n = 0;
    yk_status st = queue_waits(queue, s, wait, &n);
    if (st == YK_OK)
        st = ocl_program_run(s->program, s, queue->commands, &queue->scratch, n, n ? wait : NULL, last);
    if (st == YK_OK && !*last) {
        cl_int rc = clEnqueueMarkerWithWaitList(queue->commands, n, n ? wait : NULL, last);
        if (rc != CL_SUCCESS)
            st = queue_fail(queue, rc, "clEnqueueMarkerWithWaitList");
    }
    for (cl_uint i = 0; i < n; i++)
        clReleaseEvent(wait[i]);
    return st;
}

yk_status ocl_queue_run(yk_queue *queue, const yk_submit *s, uint64_t *point)
{
    cl_event last = NULL;
    if (queue->failed != YK_OK)
        return queue_fail(queue, queue->code, queue->what);
    yk_status st = queue_submit(queue, s, &last);
    if (st != YK_OK) {
        queue->failed = st;
        return st;
    }
    return queue_point(queue, last, point);
}

static bool queue_inside(const yk_buffer *buffer, uint64_t offset, uint64_t bytes)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset)
        return true;
    ocl_host->fail(OCL_WHO, "bytes %llu + %llu of a buffer of %llu", (unsigned long long)offset,
                   (unsigned long long)bytes, (unsigned long long)buffer->bytes);
    return false;
}

yk_status ocl_queue_put(yk_queue *queue, yk_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, uint64_t *point)
{
    cl_event e;
    if (queue->failed != YK_OK)
        return queue_fail(queue, queue->code, queue->what);
    if (!queue_inside(buffer, offset, bytes))
        return YK_E_ARG;
    cl_int rc = bytes ? clEnqueueWriteBuffer(queue->commands, buffer->mem, CL_FALSE, offset, bytes, src, 0, NULL, &e)
                      : clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, &e);
    return rc == CL_SUCCESS ? queue_point(queue, e, point) : queue_fail(queue, rc, "clEnqueueWriteBuffer");
}

yk_status ocl_queue_get(yk_queue *queue, yk_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, uint64_t *point)
{
    cl_event e;
    if (queue->failed != YK_OK)
        return queue_fail(queue, queue->code, queue->what);
    if (!queue_inside(buffer, offset, bytes))
        return YK_E_ARG;
    cl_int rc = bytes ? clEnqueueReadBuffer(queue->commands, buffer->mem, CL_FALSE, offset, bytes, dst, 0, NULL, &e)
                      : clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, &e);
    return rc == CL_SUCCESS ? queue_point(queue, e, point) : queue_fail(queue, rc, "clEnqueueReadBuffer");
}

yk_status ocl_queue_poll(yk_queue *queue, uint64_t *done)
{
    pthread_mutex_lock(&queue->lock);
    ring_reap(queue);
    *done = queue->done;
    pthread_mutex_unlock(&queue->lock);
    return queue->failed;
}

/* From a thread of the driver, when the point it was asked for is done. */
static void CL_CALLBACK event_callback(cl_event event, cl_int state, void *arg)
{
    yk_queue *queue = arg;
    (void)event;
    (void)state;
    pthread_mutex_lock(&queue->callback_lock);
    queue->n_callback++;
    pthread_cond_broadcast(&queue->callback_came);
    pthread_mutex_unlock(&queue->callback_lock);
}

/* A driver's threads share the cores with this one where the device is the CPU; elsewhere looking is faster than sleeping. */
static bool wait_spin(yk_queue *queue, uint64_t point, uint64_t start)
{
    uint64_t done = 0;
    if (queue->dev->target.cpu_shape)
        return ocl_queue_poll(queue, &done) != YK_OK || done >= point;
    do
        if (ocl_queue_poll(queue, &done) != YK_OK || done >= point)
            return true;
    while (ocl_now_ns() - start < SPIN_NS);
    return false;
}

/* Until another callback than those `seen` has come; false when the time is over. */
static bool wait_call(yk_queue *queue, uint64_t seen, uint64_t end)
{
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&queue->callback_lock);
    while (queue->n_callback == seen && !rc)
        rc = pthread_cond_timedwait(&queue->callback_came, &queue->callback_lock, &until);
    pthread_mutex_unlock(&queue->callback_lock);
    return !rc;
}

static uint64_t calls_seen(yk_queue *queue, int more)
{
    pthread_mutex_lock(&queue->callback_lock);
    queue->n_callback_asked += (uint64_t)more;
    uint64_t came = queue->n_callback;
    pthread_mutex_unlock(&queue->callback_lock);
    return came;
}

static yk_status wait_limited(yk_queue *queue, uint64_t point, uint64_t timeout_ns)
{
    const uint64_t start = ocl_now_ns(), end = start + timeout_ns < start ? UINT64_MAX : start + timeout_ns;
    uint64_t done = 0;
    cl_event e = wait_spin(queue, point, start) ? NULL : queue_event(queue, point);
    yk_status s = e && !timeout_ns ? YK_E_TIMEOUT : YK_OK;
    if (e && s != YK_OK)
        clReleaseEvent(e);
    if (e && s == YK_OK) {
        uint64_t seen = calls_seen(queue, 1);
        cl_int rc = clSetEventCallback(e, CL_COMPLETE, event_callback, queue);
        clReleaseEvent(e);
        if (rc != CL_SUCCESS) {
            calls_seen(queue, -1);
            return queue_fail(queue, rc, "clSetEventCallback");
        }
        while (ocl_queue_poll(queue, &done) == YK_OK && done < point && s == YK_OK) {
            s = wait_call(queue, seen, end) ? YK_OK : YK_E_TIMEOUT;
            seen = calls_seen(queue, 0);
        }
    }
    return queue->failed != YK_OK ? queue_fail(queue, queue->code, queue->what) : done >= point || !e ? YK_OK : s;
}

yk_status ocl_queue_wait(yk_queue *queue, uint64_t point, uint64_t timeout_ns)
{
    if (point > queue->last) {
        ocl_host->fail(OCL_WHO, "waiting for point %llu; the last one is %llu", (unsigned long long)point,
                       (unsigned long long)queue->last);
        return YK_E_ARG;
    }
    if (queue->failed != YK_OK)
        return queue_fail(queue, queue->code, queue->what);
    if (timeout_ns != UINT64_MAX)
        return wait_limited(queue, point, timeout_ns);
    cl_event e = queue_event(queue, point);
    if (e) {
        cl_int rc = clWaitForEvents(1, &e);
        clReleaseEvent(e);
        if (rc != CL_SUCCESS)
            return queue_fail(queue, rc, "clWaitForEvents");
    }
    uint64_t done;
    yk_status s = ocl_queue_poll(queue, &done);
    return s == YK_OK ? YK_OK : queue_fail(queue, queue->code, queue->what);
}
