/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of the OpenCL plugin: each is an in-order command queue of the driver. The host calls it through the table in cl_plugin.c, one
 * thread at a time for each queue; cl_shape.c makes one for its trials.
 *
 * A point is the event of its last command. Events of points that are not known to be done wait in a ring, oldest first. A failure stays:
 * every later call returns it.
 */
#include "backends/opencl/ocl.h"
#include "plugins/kit/drain.h"
#include "plugins/kit/kit_clock.h"

#include <time.h>

#define OTHER_FAILED "a queue this one waits for has failed"
#define WAITS 16            /* most events passed to a command; the host waits for further ones */
#define SPIN_NS 30000u /* spinning before a sleep in a wait for a device with separate cores */

typedef struct pending {
    uint64_t point;
    cl_event event;
} pending;

struct yk_queue {
    yk_device *dev;
    cl_command_queue q;
    ocl_scratch scratch;
    pthread_mutex_t lock; /* another queue may ask for a point's event */
    pthread_mutex_t callback_lock; /* protects the next two; never held in a driver's call, which may call back at once */
    pthread_cond_t callback_came;
    uint64_t asked, came; /* callbacks requested, callbacks received */
    pending *ring;
    size_t first, n, cap;
    uint64_t last, done; /* under the lock */
    atomic_flag failing; /* a thread writes code and what */
    _Atomic int failed;  /* yk_status */
    cl_int code;
    const char *what;
};

yk_status ocl_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **out)
{
    (void)desc; /* the driver decides on parallelism */
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
    atomic_flag_clear(&q->failing);
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->callback_lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->callback_came, &attr);
    pthread_condattr_destroy(&attr);
    *out = q;
    return YK_OK;
}

/* Number of points that are not done. */
static size_t ring_left(yk_queue *q)
{
    size_t left;
    pthread_mutex_lock(&q->lock);
    for (left = q->n; left; left--) {
        cl_int state = CL_COMPLETE;
        clGetEventInfo(q->ring[(q->first + q->n - left) % q->cap].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (state > CL_COMPLETE)
            break;
    }
    pthread_mutex_unlock(&q->lock);
    return left;
}

void ocl_queue_free(yk_queue *q)
{
    if (!q)
        return;
    if (atomic_load(&q->failed) && !kit_drain(q, ring_left, &q->failed)) {
        atomic_store(&q->dev->left_behind, true);
        kit_leave(q);
        return;
    }
    ocl_finish(q->q);
    pthread_mutex_lock(&q->callback_lock);
    while (q->came < q->asked) /* the driver may still call back */
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

/* The status of a failed queue, with its error text; YK_OK otherwise. */
static yk_status queue_status(yk_queue *q)
{
    const yk_status s = (yk_status)atomic_load(&q->failed);
    if (s != YK_OK && q->code != CL_SUCCESS)
        ocl_error(q->code, q->what);
    else if (s != YK_OK)
        ocl_host->fail(OCL_WHO, "%s", q->what);
    return s;
}

/* Stores the first failure. code: OpenCL's, or CL_SUCCESS if the text is complete. */
static void queue_mark(yk_queue *q, yk_status status, cl_int code, const char *what)
{
    if (!atomic_flag_test_and_set(&q->failing)) {
        q->code = code;
        q->what = what;
        atomic_store(&q->failed, (int)status);
    }
}

static yk_status queue_fail(yk_queue *q, yk_status status, cl_int code, const char *what)
{
    queue_mark(q, status, code, what);
    const yk_status first = queue_status(q);
    return first != YK_OK ? first : status; /* another thread is about to report it */
}

static yk_status queue_error(yk_queue *q, cl_int code, const char *what)
{
    return queue_fail(q, ocl_error(code, what), code, what);
}

/* Ensures space for one more entry; under the lock. */
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

/* Removes finished points from the ring; under the lock. */
static void ring_reap(yk_queue *q)
{
    while (q->n) {
        pending *p = &q->ring[q->first];
        cl_int state = CL_QUEUED;
        cl_int rc = clGetEventInfo(p->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (rc != CL_SUCCESS || state < 0) {
            queue_error(q, rc != CL_SUCCESS ? rc : state, "a command of the queue");
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
        ocl_finish(q->q);
        clReleaseEvent(event);
        return queue_fail(q, YK_E_MEM, CL_SUCCESS, "no memory for a point");
    }
    clFlush(q->q);
    return YK_OK;
}

/* ---- Waiting for other queues ---- */

/* The event of a point, retained; NULL if the point is done. A later point's event serves too, as the queue is in order. */
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

/* Events of other queues that a command waits for. */
typedef struct waits {
    cl_event event[WAITS];
    cl_uint n;
} waits;

static const cl_event *waits_list(const waits *w)
{
    return w->n ? w->event : NULL;
}

static void waits_release(waits *w)
{
    for (cl_uint i = 0; i < w->n; i++)
        clReleaseEvent(w->event[i]);
}

/* Collects the events. An event of another context cannot be passed to this queue: the host waits for it here. */
static yk_status waits_collect(yk_queue *q, const yk_wait *wait, uint32_t n_wait, waits *w)
{
    w->n = 0;
    for (uint32_t i = 0; i < n_wait && queue_status(q) == YK_OK; i++) {
        yk_queue *other = wait[i].queue;
        cl_event e = other == q ? NULL : queue_event(other, wait[i].point);
        if (atomic_load(&other->failed) != YK_OK)
            queue_fail(q, YK_E_CANCELLED, CL_SUCCESS, OTHER_FAILED);
        if (!e)
            continue;
        if (other->dev->ctx == q->dev->ctx && w->n < WAITS) {
            w->event[w->n++] = e;
            continue;
        }
        if (clWaitForEvents(1, &e) != CL_SUCCESS || atomic_load(&other->failed) != YK_OK)
            queue_fail(q, YK_E_CANCELLED, CL_SUCCESS, OTHER_FAILED);
        clReleaseEvent(e);
    }
    return queue_status(q);
}

/* ---- Commands ---- */

static yk_status queue_submit(yk_queue *q, const yk_submit *s, cl_event *last)
{
    waits w;
    yk_status st = waits_collect(q, s->wait, s->n_wait, &w);
    if (st == YK_OK)
        st = ocl_program_run(s->program, s, q->q, &q->scratch, w.n, waits_list(&w), last);
    if (st == YK_OK && !*last) {
        cl_int rc = clEnqueueMarkerWithWaitList(q->q, w.n, waits_list(&w), last);
        if (rc != CL_SUCCESS)
            st = queue_error(q, rc, "clEnqueueMarkerWithWaitList");
    }
    waits_release(&w);
    return st;
}

/* Runs a program. A refused binding leaves the queue as it was, as no command was enqueued. */
yk_status ocl_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    cl_event last = NULL;
    yk_status st = queue_status(q);
    if (st == YK_OK)
        st = queue_submit(q, s, &last);
    if (st == YK_OK)
        return queue_point(q, last, point);
    if (st != YK_E_ARG)
        queue_mark(q, st, CL_SUCCESS, "a program could not be run");
    return st;
}

static bool end_inside(const yk_buffer *b, uint64_t offset, uint64_t bytes)
{
    if (!b || (offset <= b->bytes && bytes <= b->bytes - offset))
        return true;
    ocl_host->fail(OCL_WHO, "bytes %llu + %llu of a buffer of %llu", (unsigned long long)offset,
                   (unsigned long long)bytes, (unsigned long long)b->bytes);
    return false;
}

static yk_status copy_check(const yk_queue *q, const yk_copy *c)
{
    if (!end_inside(c->src, c->src_offset, c->bytes) || !end_inside(c->dst, c->dst_offset, c->bytes))
        return YK_E_ARG;
    if (!c->src && !c->dst) {
        ocl_host->fail(OCL_WHO, "a copy: expected a buffer at one end, got host memory at both: use memcpy");
        return YK_E_ARG;
    }
    if ((c->src && c->src->dev->ctx != q->dev->ctx) || (c->dst && c->dst->dev->ctx != q->dev->ctx)) {
        ocl_host->fail(OCL_WHO, "a copy between two devices goes through host memory");
        return YK_E_UNSUPPORTED;
    }
    return YK_OK;
}

static cl_int copy_enqueue(yk_queue *q, const yk_copy *c, const waits *w, cl_event *e)
{
    if (!c->bytes)
        return clEnqueueMarkerWithWaitList(q->q, w->n, waits_list(w), e);
    if (!c->src)
        return clEnqueueWriteBuffer(q->q, c->dst->mem, CL_FALSE, c->dst_offset, c->bytes, c->src_host, w->n, waits_list(w), e);
    if (!c->dst)
        return clEnqueueReadBuffer(q->q, c->src->mem, CL_FALSE, c->src_offset, c->bytes, c->dst_host, w->n, waits_list(w), e);
    return clEnqueueCopyBuffer(q->q, c->src->mem, c->dst->mem, c->src_offset, c->dst_offset, c->bytes, w->n, waits_list(w), e);
}

yk_status ocl_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    cl_event e;
    cl_int rc;
    waits w = {.n = 0};
    yk_status s = queue_status(q);
    if (s == YK_OK)
        s = copy_check(q, c);
    if (s == YK_OK)
        s = waits_collect(q, c->wait, c->n_wait, &w);
    if (s == YK_OK && (rc = copy_enqueue(q, c, &w, &e)) != CL_SUCCESS)
        s = queue_error(q, rc, "enqueueing a copy");
    waits_release(&w);
    return s == YK_OK ? queue_point(q, e, point) : s;
}

yk_status ocl_queue_poll(yk_queue *q, uint64_t *done)
{
    pthread_mutex_lock(&q->lock);
    ring_reap(q);
    *done = q->done;
    pthread_mutex_unlock(&q->lock);
    return queue_status(q);
}

/* Called by a driver's thread when the requested point is done. */
static void CL_CALLBACK wait_completed(cl_event event, cl_int state, void *arg)
{
    yk_queue *q = arg;
    (void)event;
    (void)state;
    pthread_mutex_lock(&q->callback_lock);
    q->came++;
    pthread_cond_broadcast(&q->callback_came);
    pthread_mutex_unlock(&q->callback_lock);
}

/* Spins for a short time if the device has separate cores; a CPU device's driver shares the cores with this thread, which sleeps. */
static bool wait_spin(yk_queue *q, uint64_t point, uint64_t start)
{
    uint64_t done = 0;
    if (q->dev->target.cpu_shape)
        return ocl_queue_poll(q, &done) != YK_OK || done >= point;
    do
        if (ocl_queue_poll(q, &done) != YK_OK || done >= point)
            return true;
    while (kit_now_ns() - start < SPIN_NS);
    return false;
}

/* Waits for a callback beyond the `seen` ones; false after the time limit. */
static bool wait_call(yk_queue *q, uint64_t seen, uint64_t end)
{
    const struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&q->callback_lock);
    while (q->came == seen && !rc && !atomic_load(&q->failed))
        rc = pthread_cond_timedwait(&q->callback_came, &q->callback_lock, &until);
    pthread_mutex_unlock(&q->callback_lock);
    return !rc;
}

static uint64_t calls_seen(yk_queue *q, int more)
{
    pthread_mutex_lock(&q->callback_lock);
    q->asked += (uint64_t)more;
    uint64_t came = q->came;
    pthread_mutex_unlock(&q->callback_lock);
    return came;
}

static yk_status wait_limited(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    const uint64_t start = kit_now_ns(), end = start + timeout_ns < start ? UINT64_MAX : start + timeout_ns;
    uint64_t done = 0;
    cl_event e = wait_spin(q, point, start) ? NULL : queue_event(q, point);
    yk_status s = e && !timeout_ns ? YK_E_TIMEOUT : YK_OK;
    if (e && s != YK_OK)
        clReleaseEvent(e);
    if (e && s == YK_OK) {
        uint64_t seen = calls_seen(q, 1);
        cl_int rc = clSetEventCallback(e, CL_COMPLETE, wait_completed, q);
        clReleaseEvent(e);
        if (rc != CL_SUCCESS) {
            calls_seen(q, -1);
            return queue_error(q, rc, "clSetEventCallback");
        }
        while (ocl_queue_poll(q, &done) == YK_OK && done < point && s == YK_OK) {
            s = wait_call(q, seen, end) ? YK_OK : YK_E_TIMEOUT;
            seen = calls_seen(q, 0);
        }
    }
    return atomic_load(&q->failed) ? queue_status(q) : done >= point || !e ? YK_OK : s;
}

static uint64_t queue_last(yk_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const uint64_t last = q->last;
    pthread_mutex_unlock(&q->lock);
    return last;
}

yk_status ocl_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    const yk_status s = queue_status(q);
    if (s != YK_OK)
        return s;
    if (point > queue_last(q)) {
        ocl_host->fail(OCL_WHO, "waiting for point %llu; the last one is %llu", (unsigned long long)point,
                       (unsigned long long)queue_last(q));
        return YK_E_ARG;
    }
    return wait_limited(q, point, timeout_ns);
}

void ocl_queue_abort(yk_queue *q, yk_status why)
{
    queue_fail(q, why, CL_SUCCESS, "the queue was aborted");
    pthread_mutex_lock(&q->callback_lock);
    pthread_cond_broadcast(&q->callback_came);
    pthread_mutex_unlock(&q->callback_lock);
}
