/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: an in-order command queue; a point is the event of the last command behind it. Events of points that are not
 * known to be done wait in a ring, oldest first. A failure stays: every later call returns it.
 */
#include "backends/opencl/ocl.h"

#include <time.h>

#define SPIN_NS 30000u /* how long a wait for a device with cores of its own looks before it sleeps */

typedef struct pending {
    uint64_t point;
    cl_event event;
} pending;

struct yk_queue {
    yk_device *dev;
    cl_command_queue q;
    ocl_scratch scratch;
    pthread_mutex_t lock;          /* another queue may ask for a point's event */
    pthread_mutex_t callback_lock; /* of the next two; never held in a call of the driver, which may call back at once */
    pthread_cond_t callback_came;
    uint64_t n_callback_asked, n_callback; /* callbacks of events */
    pending *ring;
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
    yk_queue *q = ocl_alloc(sizeof *q);
    if (!q)
        return YK_E_MEM;
    q->dev = dev;
    q->q = clCreateCommandQueue(dev->ctx, dev->id, 0, &rc);
    if (rc != CL_SUCCESS) {
        ocl_free(q);
        return ocl_error(rc, "clCreateCommandQueue");
    }
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->callback_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->callback_came, &attr);
    pthread_condattr_destroy(&attr);
    *out = q;
    return YK_OK;
}

void ocl_queue_free(yk_queue *q)
{
    if (!q)
        return;
    clFinish(q->q);
    pthread_mutex_lock(&q->callback_lock);
    while (q->n_callback < q->n_callback_asked) /* the driver may still call */
        pthread_cond_wait(&q->callback_came, &q->callback_lock);
    pthread_mutex_unlock(&q->callback_lock);
    for (size_t i = 0; i < q->n; i++)
        clReleaseEvent(q->ring[(q->first + i) % q->cap].event);
    ocl_scratch_free(&q->scratch);
    clReleaseCommandQueue(q->q);
    pthread_cond_destroy(&q->callback_came);
    pthread_mutex_destroy(&q->callback_lock);
    pthread_mutex_destroy(&q->lock);
    ocl_free(q->ring);
    ocl_free(q);
}

static yk_status queue_fail(yk_queue *q, cl_int code, const char *what)
{
    if (q->failed == YK_OK) {
        q->code = code;
        q->what = what;
        q->failed = ocl_error(code, what);
    } else if (q->what) {
        ocl_error(q->code, q->what);
    }
    return q->failed;
}

/* Makes room for one more; under the lock. */
static bool ring_reserve(yk_queue *q)
{
    if (q->n < q->cap)
        return true;
    size_t cap = q->cap ? q->cap * 2 : 16;
    pending *ring = ocl_alloc(cap * sizeof *ring);
    if (!ring)
        return false;
    for (size_t i = 0; i < q->n; i++)
        ring[i] = q->ring[(q->first + i) % q->cap];
    ocl_free(q->ring);
    q->ring = ring;
    q->cap = cap;
    q->first = 0;
    return true;
}

/* Takes finished points off the ring; under the lock. */
static void ring_reap(yk_queue *q)
{
    while (q->n) {
        pending *p = &q->ring[q->first];
        cl_int state = CL_QUEUED;
        cl_int rc = clGetEventInfo(p->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (rc != CL_SUCCESS || state < 0) {
            queue_fail(q, rc != CL_SUCCESS ? rc : state, "a command of the queue");
            return;
        }
        if (state != CL_COMPLETE)
            return;
        q->done = p->point;
        clReleaseEvent(p->event);
        q->first = (q->first + 1) % q->cap;
        q->n--;
    }
}

static yk_status queue_point(yk_queue *q, cl_event event, uint64_t *point)
{
    pthread_mutex_lock(&q->lock);
    ring_reap(q);
    bool reserved = ring_reserve(q);
    if (reserved) {
        q->ring[(q->first + q->n) % q->cap] = (pending){++q->last, event};
        q->n++;
        *point = q->last;
    }
    pthread_mutex_unlock(&q->lock);
    if (!reserved) {
        clFinish(q->q);
        clReleaseEvent(event);
        return q->failed = YK_E_MEM;
    }
    clFlush(q->q);
    return YK_OK;
}

/* ---- Waiting for other queues ---- */

/* The event of a point, retained; NULL if it is done. Later points stand for it, as the queue is in order. */
static cl_event queue_event(yk_queue *q, uint64_t point)
{
    cl_event event = NULL;
    pthread_mutex_lock(&q->lock);
    ring_reap(q);
    for (size_t i = 0; i < q->n && !event; i++) {
        pending *p = &q->ring[(q->first + i) % q->cap];
        if (p->point >= point)
            event = p->event;
    }
    if (event)
        clRetainEvent(event);
    pthread_mutex_unlock(&q->lock);
    return event;
}

/* Collects the events to wait for. Those of another context cannot be given to this queue: they are waited for here. */
static yk_status queue_waits(yk_queue *q, const yk_submit *s, cl_event *event, cl_uint *n)
{
    for (uint32_t i = 0; i < s->n_wait; i++) {
        yk_queue *other = s->wait[i].queue;
        if (other == q)
            continue;
        cl_event e = queue_event(other, s->wait[i].point);
        if (other->failed != YK_OK)
            q->failed = other->failed;
        if (!e)
            continue;
        if (other->dev->ctx == q->dev->ctx && *n < 16) {
            event[(*n)++] = e;
            continue;
        }
        clWaitForEvents(1, &e);
        clReleaseEvent(e);
    }
    return q->failed;
}

/* ---- Commands ---- */

static yk_status queue_submit(yk_queue *q, const yk_submit *s, cl_event *last)
{
    cl_event wait[16];
    cl_uint n = 0;
    yk_status st = queue_waits(q, s, wait, &n);
    if (st == YK_OK)
        st = ocl_program_run(s->program, s, q->q, &q->scratch, n, n ? wait : NULL, last);
    if (st == YK_OK && !*last) {
        cl_int rc = clEnqueueMarkerWithWaitList(q->q, n, n ? wait : NULL, last);
        if (rc != CL_SUCCESS)
            st = queue_fail(q, rc, "clEnqueueMarkerWithWaitList");
    }
    for (cl_uint i = 0; i < n; i++)
        clReleaseEvent(wait[i]);
    return st;
}

yk_status ocl_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    cl_event last = NULL;
    if (q->failed != YK_OK)
        return queue_fail(q, q->code, q->what);
    yk_status st = queue_submit(q, s, &last);
    if (st != YK_OK) {
        q->failed = st;
        return st;
    }
    return queue_point(q, last, point);
}

static bool queue_inside(const yk_buffer *b, uint64_t offset, uint64_t bytes)
{
    if (offset <= b->bytes && bytes <= b->bytes - offset)
        return true;
    ocl_host->fail(OCL_WHO, "bytes %llu + %llu of a buffer of %llu", (unsigned long long)offset,
                   (unsigned long long)bytes, (unsigned long long)b->bytes);
    return false;
}

yk_status ocl_queue_put(yk_queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, uint64_t *point)
{
    cl_event e;
    if (q->failed != YK_OK)
        return queue_fail(q, q->code, q->what);
    if (!queue_inside(b, offset, bytes))
        return YK_E_ARG;
    cl_int rc = bytes ? clEnqueueWriteBuffer(q->q, b->mem, CL_FALSE, offset, bytes, src, 0, NULL, &e)
                      : clEnqueueMarkerWithWaitList(q->q, 0, NULL, &e);
    return rc == CL_SUCCESS ? queue_point(q, e, point) : queue_fail(q, rc, "clEnqueueWriteBuffer");
}

yk_status ocl_queue_get(yk_queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, uint64_t *point)
{
    cl_event e;
    if (q->failed != YK_OK)
        return queue_fail(q, q->code, q->what);
    if (!queue_inside(b, offset, bytes))
        return YK_E_ARG;
    cl_int rc = bytes ? clEnqueueReadBuffer(q->q, b->mem, CL_FALSE, offset, bytes, dst, 0, NULL, &e)
                      : clEnqueueMarkerWithWaitList(q->q, 0, NULL, &e);
    return rc == CL_SUCCESS ? queue_point(q, e, point) : queue_fail(q, rc, "clEnqueueReadBuffer");
}

yk_status ocl_queue_poll(yk_queue *q, uint64_t *done)
{
    pthread_mutex_lock(&q->lock);
    ring_reap(q);
    *done = q->done;
    pthread_mutex_unlock(&q->lock);
    return q->failed;
}

/* From a thread of the driver, when the point it was asked for is done. */
static void CL_CALLBACK event_callback(cl_event event, cl_int state, void *arg)
{
    yk_queue *q = arg;
    (void)event;
    (void)state;
    pthread_mutex_lock(&q->callback_lock);
    q->n_callback++;
    pthread_cond_broadcast(&q->callback_came);
    pthread_mutex_unlock(&q->callback_lock);
}

/* A driver's threads share the cores with this one where the device is the CPU; elsewhere looking is faster than sleeping. */
static bool wait_spin(yk_queue *q, uint64_t point, uint64_t start)
{
    uint64_t done = 0;
    if (q->dev->target.cpu_shape)
        return ocl_queue_poll(q, &done) != YK_OK || done >= point;
    do
        if (ocl_queue_poll(q, &done) != YK_OK || done >= point)
            return true;
    while (ocl_now_ns() - start < SPIN_NS);
    return false;
}

/* Until another callback than those `seen` has come; false when the time is over. */
static bool wait_call(yk_queue *q, uint64_t seen, uint64_t end)
{
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&q->callback_lock);
    while (q->n_callback == seen && !rc)
        rc = pthread_cond_timedwait(&q->callback_came, &q->callback_lock, &until);
    pthread_mutex_unlock(&q->callback_lock);
    return !rc;
}

static uint64_t calls_seen(yk_queue *q, int more)
{
    pthread_mutex_lock(&q->callback_lock);
    q->n_callback_asked += (uint64_t)more;
    uint64_t came = q->n_callback;
    pthread_mutex_unlock(&q->callback_lock);
    return came;
}

static yk_status wait_limited(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    const uint64_t start = ocl_now_ns(), end = start + timeout_ns < start ? UINT64_MAX : start + timeout_ns;
    uint64_t done = 0;
    cl_event e = wait_spin(q, point, start) ? NULL : queue_event(q, point);
    yk_status s = e && !timeout_ns ? YK_E_TIMEOUT : YK_OK;
    if (e && s != YK_OK)
        clReleaseEvent(e);
    if (e && s == YK_OK) {
        uint64_t seen = calls_seen(q, 1);
        cl_int rc = clSetEventCallback(e, CL_COMPLETE, event_callback, q);
        clReleaseEvent(e);
        if (rc != CL_SUCCESS) {
            calls_seen(q, -1);
            return queue_fail(q, rc, "clSetEventCallback");
        }
        while (ocl_queue_poll(q, &done) == YK_OK && done < point && s == YK_OK) {
            s = wait_call(q, seen, end) ? YK_OK : YK_E_TIMEOUT;
            seen = calls_seen(q, 0);
        }
    }
    return q->failed != YK_OK ? queue_fail(q, q->code, q->what) : done >= point || !e ? YK_OK : s;
}

yk_status ocl_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    if (point > q->last) {
        ocl_host->fail(OCL_WHO, "waiting for point %llu; the last one is %llu", (unsigned long long)point,
                       (unsigned long long)q->last);
        return YK_E_ARG;
    }
    if (q->failed != YK_OK)
        return queue_fail(q, q->code, q->what);
    if (timeout_ns != UINT64_MAX)
        return wait_limited(q, point, timeout_ns);
    cl_event e = queue_event(q, point);
    if (e) {
        cl_int rc = clWaitForEvents(1, &e);
        clReleaseEvent(e);
        if (rc != CL_SUCCESS)
            return queue_fail(q, rc, "clWaitForEvents");
    }
    uint64_t done;
    yk_status s = ocl_queue_poll(q, &done);
    return s == YK_OK ? YK_OK : queue_fail(q, q->code, q->what);
}
