/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-order queue: a ring of jobs and a thread, bound to the device's first core, that runs them and is worker 0 of
 * the pool. Short work that finds the queue idle runs at once in the caller: a hand-over would cost more.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/exec/device.h"

#define RING 256
#define INLINE_BYTES 65536
#define INLINE_NS 60000.0

typedef enum job_kind { JOB_RUN, JOB_COPY } job_kind;

/* The lists stay with the place in the ring and grow to what was ever needed: a step asks for no memory. */
typedef struct job {
    job_kind kind;
    yk_program *program;
    char **slot; /* where each slot of the program lies */
    yk_wait *wait;
    uint32_t n_wait, cap_slot, cap_wait;
    void *dst;
    const void *src;
    uint64_t bytes;
} job;

struct yk_queue {
    yk_device *dev;
    pthread_t thread;
    _Atomic bool stop, shared;        /* shared: the caller was last seen on the thread's own core */
    _Atomic uint64_t submitted, done; /* points, work done by the caller included */
    _Atomic uint64_t enqueued;        /* jobs put into the ring */
    _Atomic uint64_t awaited;         /* the first point that somebody may sleep for */
    _Atomic int status;
    cpu_event work, finished;
    char why[256];
    job ring[RING];
    job inline_job; /* run by the caller */
};

static void queue_fail(yk_queue *q, yk_status s, const char *why)
{
    if (atomic_load(&q->status) == YK_OK) {
        snprintf(q->why, sizeof q->why, "%s", why);
        atomic_store(&q->status, (int)s);
    }
}

static yk_status queue_status(yk_queue *q)
{
    yk_status s = (yk_status)atomic_load(&q->status);
    if (s != YK_OK)
        cpu_host->fail("cpu", "%s", q->why);
    return s;
}

/* ---- Running ---- */

static bool grow_scratch(yk_device *d, size_t need)
{
    if (need <= d->scratch_bytes)
        return true;
    cpu_host->free(d->scratch);
    d->scratch = cpu_host->alloc(cpu_round(need, 64), CPU_PAGE);
    d->scratch_bytes = d->scratch ? need : 0;
    return d->scratch;
}

static void run_program(yk_queue *q, const job *j)
{
    yk_device *d = q->dev;
    cpu_prog *p = j->program->prog;
    const uint64_t before = cpu_float_begin();
    pthread_mutex_lock(&d->lock);
    if (!grow_scratch(d, cpu_prog_scratch(p, d->n)))
        queue_fail(q, YK_E_MEM, "no memory for the scratch of a program");
    else
        cpu_prog_run(p, &(cpu_bound){j->slot, d->isa, d->scratch}, d->pool);
    pthread_mutex_unlock(&d->lock);
    cpu_float_end(before);
}

/* Wakes nobody before the point he waits for: a wake costs microseconds, and then there is one thread more than cores. */
static void one_more_done(yk_queue *q)
{
    uint64_t done = atomic_fetch_add(&q->done, 1) + 1;
    atomic_fetch_add(&q->finished.value, 1);
    if (done < atomic_load(&q->awaited))
        return;
    atomic_store(&q->awaited, UINT64_MAX);
    cpu_event_post(&q->finished); /* counts once more: whoever said what he awaits before the line above does not sleep */
}

static void run_job(yk_queue *q, job *j)
{
    for (uint32_t i = 0; i < j->n_wait; i++)
        if (j->wait[i].queue != q && cpu_queue_wait(j->wait[i].queue, j->wait[i].point, UINT64_MAX) != YK_OK)
            queue_fail(q, YK_E_CANCELLED, "a queue this one waited for has failed");
    if (atomic_load(&q->status) == YK_OK) {
        if (j->kind == JOB_RUN)
            run_program(q, j);
        else
            memcpy(j->dst, j->src, (size_t)j->bytes);
    }
    one_more_done(q);
}

static void *queue_main(void *arg)
{
    yk_queue *q = arg;
    cpu_pool_bind(q->dev->core0);
    for (uint64_t dequeued = 0;;) {
        uint32_t seen = atomic_load(&q->work.value);
        if (dequeued < atomic_load(&q->enqueued))
            run_job(q, &q->ring[dequeued++ % RING]);
        else if (q->stop)
            return NULL;
        else if (q->shared)
            cpu_event_sleep_until(&q->work, seen, UINT64_MAX);
        else
            cpu_event_wait(&q->work, seen);
    }
}

/* Whether the caller is on a worker's core: spinning would only keep the worker from it. */
static bool on_core_of_worker(yk_queue *q)
{
    int core = sched_getcpu();
    q->shared = core == q->dev->core0;
    return core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &q->dev->cores);
}

/* Until a point is done (true) or the time is over. */
static bool wait_until(yk_queue *q, uint64_t point, uint64_t end)
{
    for (;;) {
        uint32_t seen = atomic_load(&q->finished.value);
        if (atomic_load(&q->done) >= point)
            return true;
        for (uint64_t was = atomic_load(&q->awaited); was > point;)
            if (atomic_compare_exchange_weak(&q->awaited, &was, point))
                break;
        if (!(on_core_of_worker(q) ? cpu_event_sleep_until : cpu_event_wait_until)(&q->finished, seen, end))
            return atomic_load(&q->done) >= point;
    }
}

/* ---- The table's functions ---- */

yk_status cpu_queue_new(yk_device *dev, yk_queue **out)
{
    yk_queue *q = cpu_host->alloc(sizeof *q, 64);
    if (!q)
        return YK_E_MEM;
    memset(q, 0, sizeof *q);
    q->dev = dev;
    atomic_init(&q->awaited, UINT64_MAX);
    if (pthread_create(&q->thread, NULL, queue_main, q)) {
        cpu_host->fail("cpu", "no thread for a queue");
        cpu_host->free(q);
        return YK_E_MEM;
    }
    *out = q;
    return YK_OK;
}

static void job_free(job *j)
{
    cpu_host->free(j->slot);
    cpu_host->free(j->wait);
}

void cpu_queue_free(yk_queue *q)
{
    if (!q)
        return;
    q->stop = true;
    cpu_event_post(&q->work);
    pthread_join(q->thread, NULL);
    for (int i = 0; i < RING; i++)
        job_free(&q->ring[i]);
    job_free(&q->inline_job);
    cpu_host->free(q);
}

static bool queue_is_idle(yk_queue *q)
{
    return atomic_load(&q->done) == atomic_load(&q->submitted);
}

/* The next place of the ring, once it is free. */
static job *ring_place(yk_queue *q)
{
    uint64_t n = atomic_load(&q->submitted);
    if (n >= RING)
        wait_until(q, n - RING + 1, UINT64_MAX);
    return &q->ring[atomic_load(&q->enqueued) % RING];
}

/* Hands the job in the next place over; *point is its own. */
static void queue_submit(yk_queue *q, uint64_t *point)
{
    *point = atomic_fetch_add(&q->submitted, 1) + 1;
    atomic_fetch_add(&q->enqueued, 1);
    cpu_event_post(&q->work);
}

/* The queue is idle, so nobody else counts; only a wait on another thread may look on. */
static void run_inline(yk_queue *q, const job *j, uint64_t *point)
{
    if (j->kind == JOB_RUN)
        run_program(q, j);
    else
        memcpy(j->dst, j->src, (size_t)j->bytes);
    *point = atomic_fetch_add(&q->submitted, 1) + 1;
    one_more_done(q);
}

static bool job_reserve(job *j, uint32_t slots, uint32_t waits)
{
    if (j->cap_slot < slots) {
        cpu_host->free(j->slot);
        j->slot = cpu_host->alloc(slots * sizeof *j->slot, 64);
        j->cap_slot = j->slot ? slots : 0;
    }
    if (j->cap_wait < waits) {
        cpu_host->free(j->wait);
        j->wait = cpu_host->alloc(waits * sizeof *j->wait, 64);
        j->cap_wait = j->wait ? waits : 0;
    }
    return j->cap_slot >= slots && j->cap_wait >= waits;
}

static yk_status bind_slots(const yk_submit *s, char **slot)
{
    const cpu_prog *p = s->program->prog;
    for (uint32_t i = 0; i < cpu_prog_slots(p); i++) {
        yk_buffer *b = i < s->n_slot ? s->slot[i] : NULL;
        slot[i] = b ? b->data + (s->slot_offset ? s->slot_offset[i] : 0) : NULL;
        if (!b && cpu_prog_uses(p, i)) {
            cpu_host->fail("cpu", "slot %u is used by the program but no buffer is bound to it", (unsigned)i);
            return YK_E_ARG;
        }
    }
    return YK_OK;
}

static yk_status job_bind(job *j, const yk_submit *s)
{
    if (!job_reserve(j, cpu_prog_slots(s->program->prog) + 1, s->n_wait))
        return YK_E_MEM;
    j->kind = JOB_RUN;
    j->program = s->program;
    j->n_wait = s->n_wait;
    if (s->n_wait)
        memcpy(j->wait, s->wait, s->n_wait * sizeof *j->wait);
    return bind_slots(s, j->slot);
}

yk_status cpu_queue_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    const cpu_prog *p = s->program->prog;
    yk_status st = queue_status(q);
    if (st != YK_OK)
        return st;
    bool now = !s->n_wait && cpu_prog_is_serial(p) && cpu_prog_work(p) < INLINE_NS && queue_is_idle(q);
    job *j = now ? &q->inline_job : ring_place(q);
    st = job_bind(j, s);
    if (st != YK_OK)
        return st;
    if (now)
        run_inline(q, j, point);
    else
        queue_submit(q, point);
    return YK_OK;
}

static yk_status queue_copy(yk_queue *q, yk_buffer *b, uint64_t offset, void *dst, const void *src, uint64_t bytes,
                            uint64_t *point)
{
    yk_status st = queue_status(q);
    if (st != YK_OK)
        return st;
    if (offset > b->bytes || bytes > b->bytes - offset) {
        cpu_host->fail("cpu", "bytes %llu to %llu of a buffer of %llu", (unsigned long long)offset,
                       (unsigned long long)(offset + bytes), (unsigned long long)b->bytes);
        return YK_E_ARG;
    }
    bool now = bytes <= INLINE_BYTES && queue_is_idle(q);
    job *j = now ? &q->inline_job : ring_place(q);
    j->kind = JOB_COPY;
    j->n_wait = 0;
    j->bytes = bytes;
    j->dst = dst ? dst : b->data + offset;
    j->src = src ? src : b->data + offset;
    if (now)
        run_inline(q, j, point);
    else
        queue_submit(q, point);
    return YK_OK;
}

yk_status cpu_queue_put(yk_queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, uint64_t *point)
{
    return queue_copy(q, b, offset, NULL, src, bytes, point);
}

yk_status cpu_queue_get(yk_queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, uint64_t *point)
{
    return queue_copy(q, b, offset, dst, NULL, bytes, point);
}

yk_status cpu_queue_poll(yk_queue *q, uint64_t *done)
{
    yk_status s = queue_status(q);
    if (s == YK_OK)
        *done = atomic_load(&q->done);
    return s;
}

yk_status cpu_queue_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    return wait_until(q, point, cpu_event_deadline(timeout_ns)) ? queue_status(q) : YK_E_TIMEOUT;
}
