/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The in-order queue of the CPU device: a ring of jobs (programs and copies) and a thread that runs them. The thread is bound to the
 * device's first core, and is worker 0 of the pool.
 *
 * The plugin's table (cpu_plugin.c) calls it. One thread at a time submits work or asks for a span; any thread may poll, wait or abort
 * meanwhile. Another queue's thread waits, too (wait_for_other). A submission returns a point, and the points are done in order.
 * Short work that finds the queue idle runs at once in the caller: a hand-over would cost more. A failure stays: later calls return it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/exec/cpu_device.h"
#include "plugins/kit/kit_clock.h"
#include "plugins/kit/value.h"

#define RING 256
#define INLINE_BYTES 65536
#define INLINE_NS 60000.0
#define SPANS 64             /* spans of the last points; less than RING, so that no entry is written while it is read */
#define LOOK_NS 20000000     /* ns that the thread waits for another queue before it checks its own for an abort */

typedef enum job_kind { JOB_RUN, JOB_COPY } job_kind;

/* The lists stay with the ring's entry and grow to the largest need, so that a step allocates nothing. */
typedef struct job {
    job_kind kind;
    yk_program *program;
    char **slot; /* address of each slot of the program */
    yk_wait *wait;
    uint32_t n_wait, slot_capacity, wait_capacity;
    void *dst;
    const void *src;
    uint64_t bytes;
} job;

typedef struct job_span {
    uint64_t begin_ns, end_ns;
} job_span;

struct yk_queue {
    yk_device *dev;
    pthread_t thread;
    _Atomic bool stop, shared; /* shared: the caller was last seen on the thread's own core */
    _Atomic uint64_t submitted, done; /* points, work done by the caller included */
    _Atomic uint64_t handed;          /* jobs put into the ring */
    _Atomic uint64_t awaited;         /* the first point that a thread may sleep for */
    atomic_flag failed;               /* set by the thread that writes `why` */
    _Atomic int status;
    cpu_event work, finished;
    char why[256];
    job_span span[RING];              /* by point */
    job ring[RING];
    job own; /* run by the caller */
};

static void queue_fail(yk_queue *q, yk_status s, const char *why)
{
    if (!atomic_flag_test_and_set(&q->failed)) {
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
    d->scratch = cpu_host->alloc(kit_round_bytes(need, 64), CPU_PAGE);
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
        cpu_prog_run(p, &(cpu_bound){j->slot, d->isa, d->scratch}, d->pool, &q->status);
    pthread_mutex_unlock(&d->lock);
    cpu_float_end(before);
}

/* Counts a finished job. Wakes a thread only at its point, as a wake costs microseconds and then one thread more than cores is running. */
static void one_more_done(yk_queue *q)
{
    uint64_t done = atomic_fetch_add(&q->done, 1) + 1;
    atomic_fetch_add(&q->finished.value, 1);
    if (done < atomic_load(&q->awaited))
        return;
    atomic_store(&q->awaited, UINT64_MAX);
    cpu_event_post(&q->finished); /* counts again: a thread that stored its point before the line above does not sleep */
}

/* Runs a job, which is the one after the last finished point, and notes its times. */
static void do_job(yk_queue *q, const job *j)
{
    job_span *span = &q->span[(atomic_load(&q->done) + 1) % RING];
    span->begin_ns = kit_now_ns();
    if (j->kind == JOB_RUN)
        run_program(q, j);
    else if (j->bytes)
        memcpy(j->dst, j->src, (size_t)j->bytes);
    span->end_ns = kit_now_ns();
}

static void wait_for_other(yk_queue *q, const yk_wait *w)
{
    yk_status s = YK_E_TIMEOUT;
    while (s == YK_E_TIMEOUT && atomic_load(&q->status) == YK_OK)
        s = cpu_queue_wait(w->queue, w->point, LOOK_NS);
    if (s != YK_OK)
        queue_fail(q, YK_E_CANCELLED, "a queue this one waited for has failed");
}

static void run_job(yk_queue *q, job *j)
{
    for (uint32_t i = 0; i < j->n_wait; i++)
        if (j->wait[i].queue != q)
            wait_for_other(q, &j->wait[i]);
    if (atomic_load(&q->status) == YK_OK)
        do_job(q, j);
    one_more_done(q);
}

static void *queue_main(void *arg)
{
    yk_queue *q = arg;
    cpu_pool_bind(q->dev->core0);
    for (uint64_t taken = 0;;) {
        uint32_t seen = atomic_load(&q->work.value);
        if (taken < atomic_load(&q->handed))
            run_job(q, &q->ring[taken++ % RING]);
        else if (q->stop)
            return NULL;
        else if (q->shared)
            cpu_event_sleep_until(&q->work, seen, UINT64_MAX);
        else
            cpu_event_wait(&q->work, seen);
    }
}

/* True if the caller is on a worker's core, which spinning would take from the worker. */
static bool on_core_of_worker(yk_queue *q)
{
    int core = sched_getcpu();
    q->shared = core == q->dev->core0;
    return core >= 0 && core < CPU_SETSIZE && CPU_ISSET(core, &q->dev->cores);
}

/* Until a point is done or the queue has failed (true), or the time is over. */
static bool wait_until(yk_queue *q, uint64_t point, uint64_t end)
{
    for (;;) {
        uint32_t seen = atomic_load(&q->finished.value);
        if (atomic_load(&q->done) >= point || atomic_load(&q->status) != YK_OK)
            return true;
        for (uint64_t was = atomic_load(&q->awaited); was > point;)
            if (atomic_compare_exchange_weak(&q->awaited, &was, point))
                break;
        if (!(on_core_of_worker(q) ? cpu_event_sleep_until : cpu_event_wait_until)(&q->finished, seen, end))
            return atomic_load(&q->done) >= point;
    }
}

/* ---- The table's functions ---- */

yk_status cpu_queue_new(yk_device *dev, const yk_queue_desc *desc, yk_queue **out)
{
    (void)desc; /* one kind serves for all; the system shares the cores out */
    yk_queue *q = cpu_host->alloc(sizeof *q, 64);
    if (!q)
        return YK_E_MEM;
    memset(q, 0, sizeof *q);
    q->dev = dev;
    atomic_flag_clear(&q->failed);
    atomic_init(&q->awaited, UINT64_MAX);
    const int failed = pthread_create(&q->thread, NULL, queue_main, q);
    if (failed) {
        cpu_host->fail("cpu", "no thread for a queue: %s%s", strerror(failed),
                       failed == EAGAIN ? ": raise the limit (ulimit -u or -v, or pids.max of the control group)" : "");
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
    job_free(&q->own);
    cpu_host->free(q);
}

static bool queue_is_idle(yk_queue *q)
{
    return atomic_load(&q->done) == atomic_load(&q->submitted);
}

/* The next place of the ring, once it is free; NULL if the queue fails meanwhile. */
static job *ring_place(yk_queue *q)
{
    uint64_t n = atomic_load(&q->submitted);
    if (n >= RING)
        wait_until(q, n - RING + 1, UINT64_MAX);
    return queue_status(q) == YK_OK ? &q->ring[atomic_load(&q->handed) % RING] : NULL;
}

/* Hands the job in the next place over; *point is its own. */
static void submit_count(yk_queue *q, uint64_t *point)
{
    *point = atomic_fetch_add(&q->submitted, 1) + 1;
    atomic_fetch_add(&q->handed, 1);
    cpu_event_post(&q->work);
}

/* The queue is idle, so no other thread counts; only a wait on another thread may read the count. */
static void run_inline(yk_queue *q, const job *j, uint64_t *point)
{
    do_job(q, j);
    *point = atomic_fetch_add(&q->submitted, 1) + 1;
    one_more_done(q);
}

static bool job_reserve(job *j, uint32_t slots, uint32_t waits)
{
    if (j->slot_capacity < slots) {
        cpu_host->free(j->slot);
        j->slot = cpu_host->alloc(slots * sizeof *j->slot, 64);
        j->slot_capacity = j->slot ? slots : 0;
    }
    if (j->wait_capacity < waits) {
        cpu_host->free(j->wait);
        j->wait = cpu_host->alloc(waits * sizeof *j->wait, 64);
        j->wait_capacity = j->wait ? waits : 0;
    }
    return j->slot_capacity >= slots && j->wait_capacity >= waits;
}

/* Checks the binding of a slot that the program uses. */
static yk_status slot_check(const cpu_prog *p, const yk_buffer *b, uint32_t i, uint64_t offset)
{
    const uint64_t bytes = cpu_prog_slot_bytes(p, i);
    if (!b)
        cpu_host->fail("cpu", "slot %u is used by the program but no buffer is bound to it", (unsigned)i);
    else if (offset > b->bytes || bytes > b->bytes - offset)
        cpu_host->fail("cpu", "slot %u needs %llu bytes from %llu on; its buffer has %llu", (unsigned)i, (unsigned long long)bytes,
                       (unsigned long long)offset, (unsigned long long)b->bytes);
    else
        return YK_OK;
    return YK_E_ARG;
}

static yk_status bind_slots(const yk_submit *s, char **slot)
{
    const cpu_prog *p = s->program->prog;
    if (s->n_slot != cpu_prog_slots(p)) {
        cpu_host->fail("cpu", "%u slots are bound, the program has %u", (unsigned)s->n_slot, (unsigned)cpu_prog_slots(p));
        return YK_E_ARG;
    }
    for (uint32_t i = 0; i < s->n_slot; i++) {
        const yk_buffer *b = s->slot[i];
        const uint64_t offset = s->slot_offset ? s->slot_offset[i] : 0;
        slot[i] = b ? b->data + offset : NULL;
        if (cpu_prog_uses(p, i) && slot_check(p, b, i, offset))
            return YK_E_ARG;
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
    job *j = now ? &q->own : ring_place(q);
    st = j ? job_bind(j, s) : queue_status(q);
    if (st == YK_E_MEM)
        queue_fail(q, st, "no memory for a submission");
    if (st != YK_OK)
        return st;
    if (now)
        run_inline(q, j, point);
    else
        submit_count(q, point);
    return YK_OK;
}

/* Address of an end of a copy. NULL, with a message, if the buffer is too short, or if bytes should come from or go to NULL. */
static char *copy_end(const yk_buffer *b, const void *host, uint64_t offset, uint64_t bytes)
{
    if (!b && bytes && !host)
        cpu_host->fail("cpu", "a copy of %llu bytes: expected a buffer or host memory at each end, got NULL", (unsigned long long)bytes);
    if (!b)
        return (char *)(uintptr_t)host;
    if (offset <= b->bytes && bytes <= b->bytes - offset)
        return b->data + offset;
    cpu_host->fail("cpu", "bytes %llu to %llu of a buffer of %llu", (unsigned long long)offset,
                   (unsigned long long)(offset + bytes), (unsigned long long)b->bytes);
    return NULL;
}

static yk_status copy_bind(job *j, const yk_copy *c)
{
    if (!c->src && !c->dst) {
        cpu_host->fail("cpu", "a copy: expected a buffer at one end, got host memory at both: use memcpy");
        return YK_E_ARG;
    }
    j->src = copy_end(c->src, c->src_host, c->src_offset, c->bytes);
    j->dst = copy_end(c->dst, c->dst_host, c->dst_offset, c->bytes);
    if (c->bytes && (!j->src || !j->dst))
        return YK_E_ARG;
    if (!job_reserve(j, 0, c->n_wait))
        return YK_E_MEM;
    j->kind = JOB_COPY;
    j->bytes = c->bytes;
    j->n_wait = c->n_wait;
    if (c->n_wait)
        memcpy(j->wait, c->wait, c->n_wait * sizeof *j->wait);
    return YK_OK;
}

yk_status cpu_queue_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_status st = queue_status(q);
    if (st != YK_OK)
        return st;
    bool now = !c->n_wait && c->bytes <= INLINE_BYTES && queue_is_idle(q);
    job *j = now ? &q->own : ring_place(q);
    st = j ? copy_bind(j, c) : queue_status(q);
    if (st == YK_E_MEM)
        queue_fail(q, st, "no memory for a submission");
    if (st != YK_OK)
        return st;
    if (now)
        run_inline(q, j, point);
    else
        submit_count(q, point);
    return YK_OK;
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
    if (point > atomic_load(&q->submitted)) {
        cpu_host->fail("cpu", "waiting for point %llu; the last one is %llu", (unsigned long long)point,
                       (unsigned long long)atomic_load(&q->submitted));
        return YK_E_ARG;
    }
    return wait_until(q, point, cpu_event_deadline(timeout_ns)) ? queue_status(q) : YK_E_TIMEOUT;
}

/* The running program ends after its current step; run_job skips later jobs. */
void cpu_queue_abort(yk_queue *q, yk_status why)
{
    queue_fail(q, why, "the queue was aborted");
    atomic_store(&q->awaited, UINT64_MAX);
    cpu_event_post(&q->finished);
}

yk_status cpu_queue_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    const yk_status s = queue_status(q);
    const uint64_t done = atomic_load(&q->done), last = atomic_load(&q->submitted);
    if (s != YK_OK)
        return s;
    if (!point || point > done || last - point > SPANS) {
        cpu_host->fail("cpu", "expected one of the last %d points, up to %llu, got point %llu, whose span is not kept", SPANS,
                       (unsigned long long)done, (unsigned long long)point);
        return YK_E_ARG;
    }
    *begin_ns = q->span[point % RING].begin_ns;
    *end_ns = q->span[point % RING].end_ns;
    return YK_OK;
}
