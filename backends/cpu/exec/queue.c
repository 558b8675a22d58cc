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
#include "plugins/kit/value.h"

#define RING 256
#define INLINE_BYTES 65536
#define INLINE_NS 60000.0

typedef enum job_kind { JOB_RUN, JOB_COPY } job_kind;

/* The lists stay with the place in the ring and grow to what was ever needed: a step asks for no memory. */
typedef struct queue_job {
    job_kind kind;
    yk_program *program;
    char **slot; /* where each slot of the program lies */
    yk_wait *wait;
    uint32_t n_wait, cap_slot, cap_wait;
    void *dst;
    const void *src;
    uint64_t bytes;
} queue_job;

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
    queue_job ring[RING];
    queue_job inline_job; /* run by the caller */
};

static void queue_fail(yk_queue *queue, yk_status s, const char *why)
{
    if (atomic_load(&queue->status) == YK_OK) {
        snprintf(queue->why, sizeof queue->why, "%s", why);
        atomic_store(&queue->status, (int)s);
    }
}

static yk_status queue_status(yk_queue *queue)
{
    yk_status s = (yk_status)atomic_load(&queue->status);
    if (s != YK_OK)
        cpu_host->fail("cpu", "%s", queue->why);
    return s;
}

/* ---- Running ---- */

static bool grow_scratch(yk_device *dev, size_t need)
{
    if (need <= dev->scratch_bytes)
        return true;
    cpu_host->free(dev->scratch);
    dev->scratch = cpu_host->alloc(kit_round_bytes(need, 64), CPU_PAGE);
    dev->scratch_bytes = dev->scratch ? need : 0;
    return dev->scratch;
}

static void run_program(yk_queue *queue, const queue_job *job)
{
    yk_device *dev = queue->dev;
    cpu_prog *prog = job->program->prog;
    const uint64_t before = cpu_float_begin();
    pthread_mutex_lock(&dev->lock);
    if (!grow_scratch(dev, cpu_prog_scratch(prog, dev->n)))
        queue_fail(queue, YK_E_MEM, "no memory for the scratch of a program");
    else
        cpu_prog_run(prog, &(cpu_bound){job->slot, dev->isa, dev->scratch}, dev->pool);
    pthread_mutex_unlock(&dev->lock);
    cpu_float_end(before);
}

/* Wakes nobody before the point he waits for: a wake costs microseconds, and then there is one thread more than cores. */
static void one_more_done(yk_queue *queue)
{
    uint64_t done = atomic_fetch_add(&queue->done, 1) + 1;
    atomic_fetch_add(&queue->finished.value, 1);
    if (done < atomic_load(&queue->awaited))
        return;
    atomic_store(&queue->awaited, UINT64_MAX);
    cpu_event_post(&queue->finished); /* counts once more: whoever said what he awaits before the line above does not sleep */
}

static void run_job(yk_queue *queue, queue_job *job)
{
    for (uint32_t i = 0; i < job->n_wait; i++)
        if (job->wait[i].queue != queue && cpu_queue_wait(job->wait[i].queue, job->wait[i].point, UINT64_MAX) != YK_OK)
            queue_fail(queue, YK_E_CANCELLED, "a queue this one waited for has failed");
    if (atomic_load(&queue->status) == YK_OK) {
        if (job->kind == JOB_RUN)
            run_program(queue, job);
        else
            memcpy(job->dst, job->src, (size_t)job->bytes);
    }
    one_more_done(queue);
}

static void *queue_main(void *arg)
{
    yk_queue *queue = arg;
    cpu_pool_bind(queue->dev->core0);
    for (uint64_t dequeued = 0;;) {
        uint32_t seen = atomic_load(&queue->work.value);
        if (dequeued < atomic_load(&queue->enqueued))
            run_job(queue, &queue->ring[dequeued++ % RING]);
        else if (queue->stop)
            return NULL;
        else if (queue->shared)
            cpu_event_sleep_until(&queue->work, seen, UINT64_MAX);
        else
            cpu_event_wait(&queue->work, seen);
    }
}

/* Whether the caller is on a worker's core: spinning would only keep the worker from it. */
static bool on_core_of_worker(yk_queue *queue)
{
    int core = sched_getcpu();
    queue->shared = core == queue->dev->core0;
    return core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &queue->dev->cores);
}

/* Until a point is done (true) or the time is over. */
static bool wait_until(yk_queue *queue, uint64_t point, uint64_t end)
{
    for (;;) {
        uint32_t seen = atomic_load(&queue->finished.value);
        if (atomic_load(&queue->done) >= point)
            return true;
        for (uint64_t was = atomic_load(&queue->awaited); was > point;)
            if (atomic_compare_exchange_weak(&queue->awaited, &was, point))
                break;
        if (!(on_core_of_worker(queue) ? cpu_event_sleep_until : cpu_event_wait_until)(&queue->finished, seen, end))
            return atomic_load(&queue->done) >= point;
    }
}

/* ---- The table's functions ---- */

yk_status cpu_queue_new(yk_device *dev, yk_queue **out)
{
    yk_queue *queue = cpu_host->alloc(sizeof *queue, 64);
    if (!queue)
        return YK_E_MEM;
    memset(queue, 0, sizeof *queue);
    queue->dev = dev;
    atomic_init(&queue->awaited, UINT64_MAX);
    if (pthread_create(&queue->thread, NULL, queue_main, queue)) {
        cpu_host->fail("cpu", "no thread for a queue");
        cpu_host->free(queue);
        return YK_E_MEM;
    }
    *out = queue;
    return YK_OK;
}

static void job_free(queue_job *job)
{
    cpu_host->free(job->slot);
    cpu_host->free(job->wait);
}

void cpu_queue_free(yk_queue *queue)
{
    if (!queue)
        return;
    queue->stop = true;
    cpu_event_post(&queue->work);
    pthread_join(queue->thread, NULL);
    for (int i = 0; i < RING; i++)
        job_free(&queue->ring[i]);
    job_free(&queue->inline_job);
    cpu_host->free(queue);
}

static bool queue_is_idle(yk_queue *queue)
{
    return atomic_load(&queue->done) == atomic_load(&queue->submitted);
}

/* The next place of the ring, once it is free. */
static queue_job *ring_place(yk_queue *queue)
{
    uint64_t n = atomic_load(&queue->submitted);
    if (n >= RING)
        wait_until(queue, n - RING + 1, UINT64_MAX);
    return &queue->ring[atomic_load(&queue->enqueued) % RING];
}

/* Hands the job in the next place over; *point is its own. */
static void queue_submit(yk_queue *queue, uint64_t *point)
{
    *point = atomic_fetch_add(&queue->submitted, 1) + 1;
    atomic_fetch_add(&queue->enqueued, 1);
    cpu_event_post(&queue->work);
}

/* The queue is idle, so nobody else counts; only a wait on another thread may look on. */
static void run_inline(yk_queue *queue, const queue_job *job, uint64_t *point)
{
    if (job->kind == JOB_RUN)
        run_program(queue, job);
    else
        memcpy(job->dst, job->src, (size_t)job->bytes);
    *point = atomic_fetch_add(&queue->submitted, 1) + 1;
    one_more_done(queue);
}

static bool job_reserve(queue_job *job, uint32_t slots, uint32_t waits)
{
    if (job->cap_slot < slots) {
        cpu_host->free(job->slot);
        job->slot = cpu_host->alloc(slots * sizeof *job->slot, 64);
        job->cap_slot = job->slot ? slots : 0;
    }
    if (job->cap_wait < waits) {
        cpu_host->free(job->wait);
        job->wait = cpu_host->alloc(waits * sizeof *job->wait, 64);
        job->cap_wait = job->wait ? waits : 0;
    }
    return job->cap_slot >= slots && job->cap_wait >= waits;
}

static yk_status bind_slots(const yk_submit *s, char **slot)
{
    const cpu_prog *prog = s->program->prog;
    for (uint32_t i = 0; i < cpu_prog_slots(prog); i++) {
        yk_buffer *buffer = i < s->n_slot ? s->slot[i] : NULL;
        slot[i] = buffer ? buffer->data + (s->slot_offset ? s->slot_offset[i] : 0) : NULL;
        if (!buffer && cpu_prog_uses(prog, i)) {
            cpu_host->fail("cpu", "slot %u is used by the program but no buffer is bound to it", (unsigned)i);
            return YK_E_ARG;
        }
    }
    return YK_OK;
}

static yk_status job_bind(queue_job *job, const yk_submit *s)
{
    if (!job_reserve(job, cpu_prog_slots(s->program->prog) + 1, s->n_wait))
        return YK_E_MEM;
    job->kind = JOB_RUN;
    job->program = s->program;
    job->n_wait = s->n_wait;
    if (s->n_wait)
        memcpy(job->wait, s->wait, s->n_wait * sizeof *job->wait);
    return bind_slots(s, job->slot);
}

yk_status cpu_queue_run(yk_queue *queue, const yk_submit *s, uint64_t *point)
{
    const cpu_prog *prog = s->program->prog;
    yk_status st = queue_status(queue);
    if (st != YK_OK)
        return st;
    bool now = !s->n_wait && cpu_prog_is_serial(prog) && cpu_prog_work(prog) < INLINE_NS && queue_is_idle(queue);
    queue_job *job = now ? &queue->inline_job : ring_place(queue);
    st = job_bind(job, s);
    if (st != YK_OK)
        return st;
    if (now)
        run_inline(queue, job, point);
    else
        queue_submit(queue, point);
    return YK_OK;
}

static yk_status queue_copy(yk_queue *queue, yk_buffer *buffer, uint64_t offset, void *dst, const void *src, uint64_t bytes,
                            uint64_t *point)
{
    yk_status st = queue_status(queue);
    if (st != YK_OK)
        return st;
    if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
        cpu_host->fail("cpu", "bytes %llu to %llu of a buffer of %llu", (unsigned long long)offset,
                       (unsigned long long)(offset + bytes), (unsigned long long)buffer->bytes);
        return YK_E_ARG;
    }
    bool now = bytes <= INLINE_BYTES && queue_is_idle(queue);
    queue_job *job = now ? &queue->inline_job : ring_place(queue);
    job->kind = JOB_COPY;
    job->n_wait = 0;
    job->bytes = bytes;
    job->dst = dst ? dst : buffer->data + offset;
    job->src = src ? src : buffer->data + offset;
    if (now)
        run_inline(queue, job, point);
    else
        queue_submit(queue, point);
    return YK_OK;
}

yk_status cpu_queue_put(yk_queue *queue, yk_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, uint64_t *point)
{
    return queue_copy(queue, buffer, offset, NULL, src, bytes, point);
}

yk_status cpu_queue_get(yk_queue *queue, yk_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes, uint64_t *point)
{
    return queue_copy(queue, buffer, offset, dst, NULL, bytes, point);
}

yk_status cpu_queue_poll(yk_queue *queue, uint64_t *done)
{
    yk_status s = queue_status(queue);
    if (s == YK_OK)
        *done = atomic_load(&queue->done);
    return s;
}

yk_status cpu_queue_wait(yk_queue *queue, uint64_t point, uint64_t timeout_ns)
{
    return wait_until(queue, point, cpu_event_deadline(timeout_ns)) ? queue_status(queue) : YK_E_TIMEOUT;
}
