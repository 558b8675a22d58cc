/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's queue for devices that a host thread drives: a list of jobs, and the thread that runs them in order. It checks submissions,
 * gives out points, waits for other queues' points, and keeps the first failure.
 *
 * PJRT, Vulkan and kit_device.c make their queues with it. The queue's thread calls back the plugin's functions for a run and a copy. The
 * host calls the rest in any thread. One lock per queue suffices, as jobs are large. A job is one piece of memory with copies of the
 * submission's lists, so the caller's may go at once.
 */
#include "plugins/kit/kit_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugins/kit/kit_clock.h"
#include "plugins/kit/plugin.h"

#define SPANS 64             /* spans kept of the last points */
#define LOOK_NS 20000000u    /* ns that the thread waits for another queue before it checks its own */
#define LEAVE_NS 2000000000u /* ns that kit_queue_free waits for an aborted queue's work */

typedef struct job {
    struct job *next;
    const yk_wait *wait;
    uint32_t n_wait;
    bool runs; /* a program; else a copy, or the plugin's own call */
    yk_status (*call)(void *arg, char why[KIT_WHY]);
    void *arg;
    yk_submit submit;
    yk_copy copy;
} job;

typedef struct span {
    uint64_t begin_ns, end_ns;
} span;

struct yk_queue {
    yk_device *dev;
    const kit_queue_ops *ops;
    void *own; /* the plugin's */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    job *first, **end;
    uint64_t given, done;
    yk_status failed;
    char why[KIT_WHY];
    uint32_t node; /* that failed, by its yk_node.stream; 0 if the failure is of no node */
    bool stop, ended;
    span span[SPANS];
};

static _Thread_local uint32_t blamed; /* node at fault in the current work of a queue's thread */
static _Thread_local yk_queue *current; /* the queue that this thread works for */

yk_queue *kit_queue_current(void)
{
    return current;
}

void **kit_queue_own(yk_queue *q)
{
    return &q->own;
}

void kit_queue_blame(uint32_t stream)
{
    blamed = stream;
}

static yk_status queue_refuse(const yk_queue *q, yk_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static yk_status queue_refuse(const yk_queue *q, yk_status status, const char *fmt, ...)
{
    char text[KIT_WHY];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    q->ops->host->fail(q->ops->plugin, "%s", text);
    return status;
}

/* Under the lock. The first failure stays. */
static void queue_fail(yk_queue *q, yk_status status, uint32_t node, const char *why)
{
    if (q->failed)
        return;
    q->failed = status;
    q->node = node;
    snprintf(q->why, sizeof q->why, "%s", why);
    pthread_cond_broadcast(&q->changed);
}

/* Under the lock: the status, said to the host if it is a failure. */
static yk_status queue_status(const yk_queue *q)
{
    if (q->failed)
        KIT_FAIL_NODE(q->ops->host, q->ops->plugin, q->node, "%s", q->why);
    return q->failed;
}

/* Until something changes or the time is over (false). Under the lock. */
static bool queue_sleep(yk_queue *q, uint64_t end_ns)
{
    const struct timespec until = {(time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u)};
    if (end_ns == UINT64_MAX)
        return pthread_cond_wait(&q->changed, &q->lock) == 0;
    return pthread_cond_timedwait(&q->changed, &q->lock, &until) == 0;
}

static uint64_t deadline_ns(uint64_t timeout_ns)
{
    const uint64_t now = kit_now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* ---- The thread --------------------------------------------------------------------------------------------------- */

bool kit_queue_failed(yk_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const bool failed = q->failed != YK_OK;
    pthread_mutex_unlock(&q->lock);
    return failed;
}

/* Points of this queue are done, as jobs are in order. */
static yk_status job_wait(yk_queue *q, const job *j, char why[KIT_WHY])
{
    for (uint32_t i = 0; i < j->n_wait; i++) {
        yk_status s = j->wait[i].queue == q ? YK_OK : YK_E_TIMEOUT;
        while (s == YK_E_TIMEOUT && !kit_queue_failed(q))
            s = kit_queue_wait(j->wait[i].queue, j->wait[i].point, LOOK_NS);
        if (s) {
            snprintf(why, KIT_WHY, "a queue this one waited for has failed");
            return YK_E_CANCELLED;
        }
    }
    return YK_OK;
}

static yk_status job_work(const yk_queue *q, const job *j, char why[KIT_WHY])
{
    if (j->call)
        return j->call(j->arg, why);
    if (j->runs)
        return q->ops->run(q->dev, &j->submit, why);
    return j->copy.bytes ? q->ops->copy(q->dev, &j->copy, why) : YK_OK;
}

static void job_drop(const yk_queue *q, const job *j)
{
    if (j->call && q->ops->drop)
        q->ops->drop(j->arg);
}

static void job_do(yk_queue *q, const job *j)
{
    char why[KIT_WHY] = "the device failed";
    span took = {0, 0};
    yk_status s = job_wait(q, j, why);
    took.begin_ns = kit_now_ns();
    blamed = 0;
    if (s)
        job_drop(q, j);
    else
        s = job_work(q, j, why);
    took.end_ns = kit_now_ns();
    pthread_mutex_lock(&q->lock);
    if (s)
        queue_fail(q, s, blamed, why);
    if (!q->failed)
        q->span[++q->done % SPANS] = took;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* The next job; NULL if the queue is empty and ending. */
static job *queue_take(yk_queue *q)
{
    job *j;
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->stop)
        queue_sleep(q, UINT64_MAX);
    j = q->first;
    if (j && !(q->first = j->next))
        q->end = &q->first;
    pthread_mutex_unlock(&q->lock);
    return j;
}

static void *queue_main(void *arg)
{
    yk_queue *q = current = arg;
    for (job *j; (j = queue_take(q)) != NULL; q->ops->host->free(j))
        if (kit_queue_failed(q))
            job_drop(q, j);
        else
            job_do(q, j);
    if (q->ops->end)
        q->ops->end(q);
    pthread_mutex_lock(&q->lock);
    q->ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

yk_status kit_queue_new(yk_device *dev, const kit_queue_ops *ops, yk_queue **out)
{
    pthread_condattr_t attr;
    yk_queue *q = ops->host->alloc(sizeof *q, 64);
    if (!q) {
        ops->host->fail(ops->plugin, "no memory for a queue of %zu bytes", sizeof *q);
        return YK_E_MEM;
    }
    memset(q, 0, sizeof *q);
    q->dev = dev;
    q->ops = ops;
    q->end = &q->first;
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->changed, &attr);
    pthread_condattr_destroy(&attr);
    const int failed = pthread_create(&q->thread, NULL, queue_main, q);
    if (failed) {
        queue_refuse(q, YK_E_MEM, "no thread for a queue: %s%s", strerror(failed),
                     failed == EAGAIN ? ": raise the limit (ulimit -u or -v, or pids.max of the control group)" : "");
        ops->host->free(q);
        return YK_E_MEM;
    }
    *out = q;
    return YK_OK;
}

/* True once the thread has ended. A failed queue gets limited time, any other as long as it takes. */
static bool thread_ends(yk_queue *q)
{
    const uint64_t leave = deadline_ns(LEAVE_NS);
    bool waits = true;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->changed);
    while (!q->ended && waits)
        waits = queue_sleep(q, q->failed ? leave : UINT64_MAX);
    const bool ended = q->ended;
    pthread_mutex_unlock(&q->lock);
    return ended;
}

void kit_queue_free(yk_queue *q)
{
    if (!thread_ends(q)) {
        pthread_detach(q->thread); /* its work may never end: the thread and its queue are abandoned */
        if (q->ops->left)
            q->ops->left(q->dev, q);
        return;
    }
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    q->ops->host->free(q);
}

/* ---- Giving jobs --------------------------------------------------------------------------------------------------- */

/* A job with its lists in the same block; NULL if memory is out. */
static job *job_new(const yk_queue *q, uint32_t n_wait, uint32_t n_slot)
{
    const size_t bytes = sizeof(job) + n_wait * sizeof(yk_wait) + n_slot * (sizeof(yk_buffer *) + 2 * sizeof(uint64_t));
    job *j = q->ops->host->alloc(bytes, 64);
    if (j)
        memset(j, 0, bytes);
    return j;
}

/* Copies n items to *at, which moves on. */
static void *list_copy(char **at, const void *from, size_t n, size_t size)
{
    void *to = *at;
    if (n && from)
        memcpy(to, from, n * size);
    *at += n * size;
    return to;
}

static yk_status job_push(yk_queue *q, job *j, uint64_t *point)
{
    yk_status s;
    pthread_mutex_lock(&q->lock);
    s = queue_status(q);
    if (!s) {
        *q->end = j;
        q->end = &j->next;
        *point = ++q->given;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (s)
        q->ops->host->free(j);
    return s;
}

/* Memory for a job is gone: that is no refusal, the caller cannot do better. */
static yk_status queue_starves(yk_queue *q)
{
    pthread_mutex_lock(&q->lock);
    queue_fail(q, YK_E_MEM, 0, "no memory for a submission");
    const yk_status s = queue_status(q);
    pthread_mutex_unlock(&q->lock);
    return s;
}

static bool slot_is_used(const yk_graph *g, uint32_t slot)
{
    for (uint32_t i = 0; i < g->n_node; i++) {
        const yk_node *n = &g->node[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            if (g->value[g->index[n->in + k]].slot == slot)
                return true;
        for (uint32_t k = 0; k < n->n_out; k++)
            if (g->value[g->index[n->out + k]].slot == slot)
                return true;
    }
    return false;
}

/* Returns the failure of a failed queue. */
static yk_status queue_ready(yk_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const yk_status s = queue_status(q);
    pthread_mutex_unlock(&q->lock);
    return s;
}

static yk_status submit_check(const yk_queue *q, const yk_submit *s)
{
    const yk_graph *g = q->ops->graph(s->program);
    if (s->n_slot != g->n_slot)
        return queue_refuse(q, YK_E_ARG, "%u slots are bound, the program has %u", s->n_slot, g->n_slot);
    for (uint32_t i = 0; i < g->n_slot; i++) {
        const uint64_t bytes = s->slot[i] ? q->ops->bytes(s->slot[i]) : 0;
        if (!s->slot[i] && slot_is_used(g, i))
            return queue_refuse(q, YK_E_ARG, "slot %u is used by the program and not bound", i);
        if (s->slot[i] && (s->slot_offset[i] > bytes || g->slot[i].bytes > bytes - s->slot_offset[i]))
            return queue_refuse(q, YK_E_ARG, "slot %u needs %llu bytes from %llu on; its buffer has %llu", i,
                                (unsigned long long)g->slot[i].bytes, (unsigned long long)s->slot_offset[i],
                                (unsigned long long)bytes);
    }
    return q->ops->admit ? q->ops->admit(q->dev, s, NULL) : YK_OK;
}

yk_status kit_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_status st = queue_ready(q);
    job *j;
    char *at;
    if (st || (st = submit_check(q, s)))
        return st;
    if (!(j = job_new(q, s->n_wait, s->n_slot)))
        return queue_starves(q);
    at = (char *)(j + 1);
    j->runs = true;
    j->submit = *s;
    j->n_wait = s->n_wait;
    j->submit.wait = j->wait = list_copy(&at, s->wait, s->n_wait, sizeof *s->wait);
    j->submit.slot = list_copy(&at, s->slot, s->n_slot, sizeof *s->slot);
    j->submit.slot_offset = list_copy(&at, s->slot_offset, s->n_slot, sizeof *s->slot_offset);
    j->submit.slot_version = list_copy(&at, s->slot_version, s->n_slot, sizeof *s->slot_version);
    return job_push(q, j, point);
}

static bool end_fits(const yk_queue *q, const yk_buffer *b, uint64_t offset, uint64_t bytes)
{
    const uint64_t has = b ? q->ops->bytes(b) : 0;
    if (!b || (offset <= has && bytes <= has - offset))
        return true;
    queue_refuse(q, YK_E_ARG, "a copy of %llu bytes at %llu of a buffer of %llu", (unsigned long long)bytes,
                 (unsigned long long)offset, (unsigned long long)has);
    return false;
}

yk_status kit_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_status s = queue_ready(q);
    job *j;
    char *at;
    if (s)
        return s;
    if (!c->src && !c->dst)
        return queue_refuse(q, YK_E_ARG, "a copy: expected a buffer at one end, got host memory at both: use memcpy");
    if (!end_fits(q, c->src, c->src_offset, c->bytes) || !end_fits(q, c->dst, c->dst_offset, c->bytes))
        return YK_E_ARG;
    if (q->ops->admit && (s = q->ops->admit(q->dev, NULL, c)))
        return s;
    if (!(j = job_new(q, c->n_wait, 0)))
        return queue_starves(q);
    at = (char *)(j + 1);
    j->copy = *c;
    j->n_wait = c->n_wait;
    j->copy.wait = j->wait = list_copy(&at, c->wait, c->n_wait, sizeof *c->wait);
    return job_push(q, j, point);
}

yk_status kit_queue_call(yk_queue *q, uint32_t n_wait, const yk_wait *wait, yk_status (*call)(void *arg, char why[KIT_WHY]), void *arg,
                         uint64_t *point)
{
    yk_status s = queue_ready(q);
    job *j;
    char *at;
    if (s)
        return s;
    if (!(j = job_new(q, n_wait, 0)))
        return queue_starves(q);
    at = (char *)(j + 1);
    j->call = call;
    j->arg = arg;
    j->n_wait = n_wait;
    j->wait = list_copy(&at, wait, n_wait, sizeof *wait);
    return job_push(q, j, point);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------- */

yk_status kit_queue_poll(yk_queue *q, uint64_t *done)
{
    yk_status s;
    pthread_mutex_lock(&q->lock);
    *done = q->done;
    s = queue_status(q);
    pthread_mutex_unlock(&q->lock);
    return s;
}

yk_status kit_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    const uint64_t end = deadline_ns(timeout_ns);
    bool in_time = true;
    yk_status s;
    pthread_mutex_lock(&q->lock);
    const uint64_t given = q->given;
    while (point <= given && q->done < point && !q->failed && in_time)
        in_time = queue_sleep(q, end);
    s = queue_status(q);
    if (!s && q->done < point)
        s = point <= given ? YK_E_TIMEOUT
                           : queue_refuse(q, YK_E_ARG, "waiting for point %llu; the last one is %llu", (unsigned long long)point,
                                          (unsigned long long)given);
    pthread_mutex_unlock(&q->lock);
    return s;
}

void kit_queue_abort(yk_queue *q, yk_status why)
{
    pthread_mutex_lock(&q->lock);
    queue_fail(q, why, 0, "the queue was aborted");
    pthread_mutex_unlock(&q->lock);
}

yk_status kit_queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    yk_status s;
    pthread_mutex_lock(&q->lock);
    s = queue_status(q);
    if (!s && (!point || point > q->done || q->done - point >= SPANS))
        s = queue_refuse(q, YK_E_ARG, "expected one of the last %d points, up to %llu, got point %llu, whose span is not kept",
                         SPANS, (unsigned long long)q->done, (unsigned long long)point);
    if (!s) {
        *begin_ns = q->span[point % SPANS].begin_ns;
        *end_ns = q->span[point % SPANS].end_ns;
    }
    pthread_mutex_unlock(&q->lock);
    return s;
}
