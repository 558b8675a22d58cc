/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: each is a stream of the driver. The host calls it through the table in cuda_plugin.c, one thread at a time for each queue.
 *
 * A point is two events around a command, which also tell when it ran. Events of points that are not known to be done wait in a ring,
 * oldest first, and serve again afterwards. A failure stays: every later call returns it. A wait polls, with naps between, as a wait inside
 * the driver could not be given up (queue_abort).
 */
#include "backends/cuda/cuda_internal.h"

#include <stdio.h>
#include <time.h>

#include "plugins/kit/drain.h"
#include "plugins/kit/kit_clock.h"

#define SPIN_NS 50000u       /* how long a wait looks before it naps */
#define NAP_NS 20000
#define NAP_MOST_NS 200000

#define SPANS 64u /* points whose times are known */

typedef struct marks { /* before and behind a command; NULL: none */
    CUevent begin, end;
} marks;

typedef struct pending {
    uint64_t point;
    marks of;
} pending;

typedef struct span {
    uint64_t begin_ns, end_ns; /* since the device was opened */
} span;

struct yk_queue {
    yk_device *dev;
    CUstream stream, capture;
    cuda_scratch scratch;
    marks next;           /* marks of the point that is given next; owned by the thread that gives it */
    pthread_mutex_t lock; /* guards the next nine: another queue may ask for a point's event */
    pending *ring;
    marks *idle; /* without a point; as many places as the ring has */
    size_t first, n, cap, n_idle;
    uint64_t last, done;
    marks before;     /* marks of the last point that is done: the next one's times count from its end */
    span known[SPANS]; /* by point */
    atomic_flag failing; /* somebody writes why */
    _Atomic int failed;  /* yk_status */
    char why[CUDA_ERROR_BYTES];
};

/* ---- Failures ---- */

/* The status of a queue that has failed, with the words for it; YK_OK of one that has not. */
static yk_status queue_status(const yk_queue *q)
{
    const yk_status s = (yk_status)atomic_load(&q->failed);
    if (s)
        cuda_host->fail(CUDA_WHO, "%s", q->why);
    return s;
}

/* The first failure stays. */
static yk_status queue_fail(yk_queue *q, yk_status status, const char *why)
{
    if (!atomic_flag_test_and_set(&q->failing)) {
        snprintf(q->why, sizeof q->why, "%s", why);
        atomic_store(&q->failed, (int)status);
    }
    const yk_status first = queue_status(q);
    return first ? first : status; /* another thread is about to say so */
}

static yk_status queue_error(yk_queue *q, CUresult code, const char *what)
{
    const yk_status s = cuda_error(code, what);
    return queue_fail(q, s, cuda_error_last());
}

/* ---- Points ---- */

/* A place for one more point; under the lock. */
static bool ring_reserve(yk_queue *q)
{
    if (q->n < q->cap)
        return true;
    const size_t cap = q->cap ? 2 * q->cap : 16;
    pending *ring = cuda_alloc(cap * sizeof *ring);
    marks *idle = cuda_alloc(cap * sizeof *idle);
    if (!ring || !idle) {
        cuda_free(ring);
        cuda_free(idle);
        return false;
    }
    for (size_t i = 0; i < q->n; i++)
        ring[i] = q->ring[(q->first + i) % q->cap];
    for (size_t i = 0; i < q->n_idle; i++)
        idle[i] = q->idle[i];
    cuda_free(q->ring);
    cuda_free(q->idle);
    q->ring = ring;
    q->idle = idle;
    q->cap = cap;
    q->first = 0;
    return true;
}

static CUresult event_after(CUevent from, CUevent to, uint64_t *ns)
{
    float milliseconds = 0;
    const CUresult rc = cuda.event_elapsed(&milliseconds, from, to);
    *ns += (uint64_t)(milliseconds > 0 ? 1e6 * (double)milliseconds : 0);
    return rc;
}

/* When a point that is done was worked on: from the end of the one before, so that no error adds up. Under the lock. */
static CUresult span_read(yk_queue *q, const pending *p)
{
    const CUevent from = q->before.end ? q->before.end : q->dev->origin;
    span s = {.begin_ns = q->done ? q->known[q->done % SPANS].end_ns : 0};
    CUresult rc = cuda.context_push(q->dev->context);
    if (rc)
        return rc;
    rc = event_after(from, p->of.begin, &s.begin_ns);
    s.end_ns = s.begin_ns;
    if (!rc)
        rc = event_after(p->of.begin, p->of.end, &s.end_ns);
    cuda_leave();
    q->known[p->point % SPANS] = s;
    return rc;
}

/* Takes finished points off the ring; under the lock. */
static void ring_reap(yk_queue *q)
{
    while (q->n) {
        const pending *p = &q->ring[q->first];
        CUresult rc = cuda.event_query(p->of.end);
        if ((int)rc == CUDA_ERROR_NOT_READY)
            return;
        if (!rc)
            rc = span_read(q, p);
        if (rc) {
            queue_error(q, rc, "a command of the queue");
            return;
        }
        q->done = p->point;
        if (q->before.end)
            q->idle[q->n_idle++] = q->before;
        q->before = p->of;
        q->first = (q->first + 1) % q->cap;
        q->n--;
    }
}

static CUresult marks_make(marks *m)
{
    CUresult rc = cuda.event_new(&m->begin, CU_EVENT_DEFAULT);
    if (!rc && (rc = cuda.event_new(&m->end, CU_EVENT_DEFAULT)) != CUDA_SUCCESS)
        cuda.event_free(m->begin);
    if (rc)
        *m = (marks){NULL, NULL};
    return rc;
}

static void marks_free(const marks *m)
{
    if (!m->end)
        return;
    cuda.event_free(m->begin);
    cuda.event_free(m->end);
}

/* A place and events for the next point, made before anything is enqueued. The context is current. */
static yk_status point_reserve(yk_queue *q)
{
    CUresult rc = CUDA_SUCCESS;
    pthread_mutex_lock(&q->lock);
    ring_reap(q);
    const bool reserved = ring_reserve(q);
    if (!q->next.end && q->n_idle)
        q->next = q->idle[--q->n_idle];
    else if (reserved && !q->next.end)
        rc = marks_make(&q->next);
    pthread_mutex_unlock(&q->lock);
    if (!reserved)
        return queue_fail(q, YK_E_MEM, "no memory for a point");
    return rc ? queue_error(q, rc, "an event for a point") : queue_status(q);
}

/* Records the event before a command, behind the work that it waits for. The context is current. */
static yk_status point_begin(yk_queue *q)
{
    const CUresult rc = cuda.event_record(q->next.begin, q->stream);
    return rc ? queue_error(q, rc, "an event before a command") : YK_OK;
}

/* Records the event behind a command. The context is current. */
static yk_status point_give(yk_queue *q, uint64_t *point)
{
    pthread_mutex_lock(&q->lock);
    const CUresult rc = cuda.event_record(q->next.end, q->stream);
    if (!rc) {
        q->ring[(q->first + q->n) % q->cap] = (pending){++q->last, q->next};
        q->next = (marks){NULL, NULL};
        q->n++;
        *point = q->last;
    }
    pthread_mutex_unlock(&q->lock);
    return rc ? queue_error(q, rc, "an event behind a command") : YK_OK;
}

/* ---- Making and freeing ---- */

static CUresult streams_make(yk_queue *q, int priority)
{
    CUresult rc = cuda.stream_new(&q->stream, CU_STREAM_NON_BLOCKING, -priority); /* the driver's lower numbers go first */
    if (!rc && (rc = cuda.stream_new(&q->capture, CU_STREAM_NON_BLOCKING, 0)) != CUDA_SUCCESS)
        cuda.stream_free(q->stream);
    return rc;
}

yk_status cuda_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **out)
{
    yk_status s = YK_OK;
    yk_queue *q = cuda_alloc(sizeof *q);
    if (!q)
        return YK_E_MEM;
    q->dev = dev;
    if (cuda_enter(dev, &s)) {
        const CUresult rc = streams_make(q, desc->priority);
        s = rc ? cuda_error(rc, "making a stream") : YK_OK;
        cuda_leave();
    }
    if (s) {
        cuda_free(q);
        return s;
    }
    atomic_flag_clear(&q->failing);
    pthread_mutex_init(&q->lock, NULL);
    *out = q;
    return YK_OK;
}

/* How many points are not done. */
static size_t ring_left(yk_queue *q)
{
    size_t left;
    pthread_mutex_lock(&q->lock);
    for (left = q->n; left; left--)
        if ((int)cuda.event_query(q->ring[(q->first + q->n - left) % q->cap].of.end) == CUDA_ERROR_NOT_READY)
            break;
    pthread_mutex_unlock(&q->lock);
    return left;
}

static void queue_release(yk_queue *q)
{
    cuda.stream_synchronize(q->stream); /* waits for work of a failed queue that has no point */
    for (size_t i = 0; i < q->n; i++)
        marks_free(&q->ring[(q->first + i) % q->cap].of);
    for (size_t i = 0; i < q->n_idle; i++)
        marks_free(&q->idle[i]);
    marks_free(&q->before);
    marks_free(&q->next);
    if (q->scratch.memory)
        cuda.memory_free(q->scratch.memory);
    cuda.stream_free(q->capture);
    cuda.stream_free(q->stream);
}

void cuda_queue_free(yk_queue *q)
{
    yk_status s;
    if (!q)
        return;
    if (!kit_drain(q, ring_left, &q->failed)) {
        atomic_store(&q->dev->left_behind, true);
        kit_leave(q);
        return;
    }
    if (cuda_enter(q->dev, &s)) {
        queue_release(q);
        cuda_leave();
    }
    pthread_mutex_destroy(&q->lock);
    cuda_free(q->ring);
    cuda_free(q->idle);
    cuda_free(q);
}

/* ---- Waiting for other queues ---- */

/* Lets the stream wait for a point of another queue: later points stand for it, as that queue is in order. */
static CUresult point_wait(yk_queue *q, yk_queue *other, uint64_t point)
{
    CUresult rc = CUDA_SUCCESS;
    pthread_mutex_lock(&other->lock);
    ring_reap(other);
    for (size_t i = 0; i < other->n; i++) {
        const pending *p = &other->ring[(other->first + i) % other->cap];
        if (p->point >= point) {
            rc = cuda.stream_wait_event(q->stream, p->of.end, 0);
            break;
        }
    }
    pthread_mutex_unlock(&other->lock);
    return rc;
}

static yk_status waits_enqueue(yk_queue *q, const yk_wait *wait, uint32_t n_wait)
{
    for (uint32_t i = 0; i < n_wait; i++) {
        if (wait[i].queue == q)
            continue;
        const CUresult rc = point_wait(q, wait[i].queue, wait[i].point);
        if (atomic_load(&wait[i].queue->failed))
            return queue_fail(q, YK_E_CANCELLED, "a queue this one waits for has failed");
        if (rc)
            return queue_error(q, rc, "waiting for another queue");
    }
    return YK_OK;
}

/* ---- Commands ---- */

/* The queue fails with the error of a call. */
static yk_status queue_close(yk_queue *q, yk_status s, const char *otherwise)
{
    return s ? queue_fail(q, s, *cuda_error_last() ? cuda_error_last() : otherwise) : YK_OK;
}

/* The context is current. */
static yk_status command_enqueue(yk_queue *q, const yk_wait *wait, uint32_t n_wait, cuda_command command, const void *what,
                                 uint64_t *point)
{
    yk_status s = point_reserve(q);
    if (!s)
        s = waits_enqueue(q, wait, n_wait);
    if (!s)
        s = point_begin(q);
    if (!s)
        s = queue_close(q, command(q, q->stream, what), "a command could not be enqueued");
    if (!s)
        s = point_give(q, point);
    return s;
}

yk_status cuda_queue_command(yk_queue *q, const yk_wait *wait, uint32_t n_wait, cuda_command command, const void *what, uint64_t *point)
{
    yk_status s = queue_status(q);
    if (s)
        return s;
    cuda_error_forget();
    if (!cuda_enter(q->dev, &s))
        return queue_close(q, s, "the device's context is gone");
    s = command_enqueue(q, wait, n_wait, command, what, point);
    cuda_leave();
    return s;
}

static yk_status run_start(yk_queue *q, CUstream stream, const void *what)
{
    const yk_submit *s = what;
    return cuda_program_run(s->program, s, stream, q->capture, &q->scratch);
}

yk_status cuda_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_status(q);
    if (!st)
        st = cuda_program_check(s->program, s);
    if (!st)
        st = cuda_queue_command(q, s->wait, s->n_wait, run_start, s, point);
    return st;
}

static bool end_fits(const yk_buffer *b, uint64_t offset, uint64_t bytes)
{
    if (!b || (offset <= b->bytes && bytes <= b->bytes - offset))
        return true;
    cuda_host->fail(CUDA_WHO, "a copy of %llu bytes at %llu of a buffer of %llu", (unsigned long long)bytes, (unsigned long long)offset,
                    (unsigned long long)b->bytes);
    return false;
}

static yk_status copy_check(const yk_queue *q, const yk_copy *c)
{
    const CUcontext own = q->dev->context;
    if (!end_fits(c->src, c->src_offset, c->bytes) || !end_fits(c->dst, c->dst_offset, c->bytes))
        return YK_E_ARG;
    if (!c->src && !c->dst) {
        cuda_host->fail(CUDA_WHO, "a copy: expected a buffer at one end, got host memory at both: use memcpy");
        return YK_E_ARG;
    }
    if ((c->src && c->src->dev->context == own) || (c->dst && c->dst->dev->context == own))
        return YK_OK;
    cuda_host->fail(CUDA_WHO, "a copy that this queue's device has no part in");
    return YK_E_ARG;
}

static CUresult copy_call(const yk_copy *c, CUstream stream)
{
    if (!c->bytes)
        return CUDA_SUCCESS;
    if (!c->src)
        return cuda.copy_to_device(c->dst->memory + c->dst_offset, c->src_host, c->bytes, stream);
    if (!c->dst)
        return cuda.copy_to_host(c->dst_host, c->src->memory + c->src_offset, c->bytes, stream);
    if (c->src->dev->context == c->dst->dev->context)
        return cuda.copy_on_device(c->dst->memory + c->dst_offset, c->src->memory + c->src_offset, c->bytes, stream);
    return cuda.copy_peer(c->dst->memory + c->dst_offset, c->dst->dev->context, c->src->memory + c->src_offset, c->src->dev->context,
                          c->bytes, stream);
}

static yk_status copy_start(yk_queue *q, CUstream stream, const void *what)
{
    const CUresult rc = copy_call(what, stream);
    (void)q;
    return rc ? cuda_error(rc, "starting a copy") : YK_OK;
}

yk_status cuda_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_status s = queue_status(q);
    if (!s)
        s = copy_check(q, c);
    if (!s)
        s = cuda_queue_command(q, c->wait, c->n_wait, copy_start, c, point);
    return s;
}

/* ---- Waiting ---- */

yk_status cuda_queue_poll(yk_queue *q, uint64_t *done)
{
    pthread_mutex_lock(&q->lock);
    if (!atomic_load(&q->failed))
        ring_reap(q);
    *done = q->done;
    pthread_mutex_unlock(&q->lock);
    return queue_status(q);
}

static uint64_t queue_last(yk_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const uint64_t last = q->last;
    pthread_mutex_unlock(&q->lock);
    return last;
}

static void wait_nap(uint64_t begin, long *nap)
{
    const struct timespec moment = {0, *nap};
    if (kit_now_ns() - begin < SPIN_NS)
        return;
    nanosleep(&moment, NULL);
    *nap = 2 * *nap < NAP_MOST_NS ? 2 * *nap : NAP_MOST_NS;
}

yk_status cuda_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    const uint64_t begin = kit_now_ns(), last = queue_last(q);
    uint64_t done = 0;
    long nap = NAP_NS;
    yk_status s = queue_status(q);
    if (!s && point > last) {
        cuda_host->fail(CUDA_WHO, "waiting for point %llu; the last one is %llu", (unsigned long long)point, (unsigned long long)last);
        return YK_E_ARG;
    }
    while (!s && !(s = cuda_queue_poll(q, &done)) && done < point) {
        if (kit_now_ns() - begin >= timeout_ns)
            return YK_E_TIMEOUT;
        wait_nap(begin, &nap);
    }
    return s;
}

void cuda_queue_abort(yk_queue *q, yk_status why)
{
    queue_fail(q, why, "the queue was aborted");
}

yk_status cuda_queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    uint64_t done = 0;
    const yk_status s = cuda_queue_poll(q, &done);
    if (s)
        return s;
    if (!point || point > done || done - point >= SPANS) {
        cuda_host->fail(CUDA_WHO, "expected one of the last %u points, up to %llu, got point %llu, whose span is not kept", SPANS,
                        (unsigned long long)done, (unsigned long long)point);
        return YK_E_ARG;
    }
    pthread_mutex_lock(&q->lock);
    *begin_ns = q->known[point % SPANS].begin_ns;
    *end_ns = q->known[point % SPANS].end_ns;
    pthread_mutex_unlock(&q->lock);
    return YK_OK;
}
