/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin "far" (plugins/template/far.c) with one fault of its queues, chosen by -D: what the suite must find.
 */
#define yk_plugin_query good_query
#include "plugins/template/far.c"
#undef yk_plugin_query

static yk_plugin bad;

/* Runs do not wait; not for the last of what they are to wait for; for no more than one, or eight. */
#if defined BREAK_WAITS || defined BREAK_LAST_WAIT || defined BREAK_FIRST_WAIT || defined BREAK_EIGHT_WAITS
#define HASTY
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_submit hasty = *s;
#if defined BREAK_WAITS
    hasty.n_wait = 0;
#elif defined BREAK_LAST_WAIT
    hasty.n_wait -= hasty.n_wait > 0;
#elif defined BREAK_FIRST_WAIT
    hasty.n_wait = hasty.n_wait > 1 ? 1 : hasty.n_wait;
#else
    hasty.n_wait = hasty.n_wait > 8 ? 8 : hasty.n_wait;
#endif
    return kit_queue_run(q, &hasty, point);
}
#endif

/* Copies do not wait; copies of 0 bytes; not for what stands behind a point of their own queue. */
#if defined BREAK_COPY_WAITS || defined BREAK_EMPTY_WAITS || defined BREAK_OWN_WAIT
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy hasty = *c;
#ifdef BREAK_EMPTY_WAITS
    hasty.n_wait = c->bytes ? c->n_wait : 0;
#elif defined BREAK_OWN_WAIT
    for (uint32_t i = c->n_wait; i-- > 0;)
        hasty.n_wait = c->wait[i].queue == q ? i : hasty.n_wait;
#else
    hasty.n_wait = 0;
#endif
    return kit_queue_copy(q, &hasty, point);
}
#endif

/* The caller's list of waits, of slots, or of a copy's waits is read when its turn has come. */
#if defined BREAK_KEPT_WAITS || defined BREAK_KEPT_SLOTS || defined BREAK_KEPT_COPY_WAITS
typedef struct kept {
    yk_device *dev;
    uint32_t n_wait;
    const yk_wait *wait;
    yk_submit submit;
    yk_copy copy;
} kept;

static yk_status kept_call(void *arg, char why[KIT_WHY])
{
    kept *k = arg;
    yk_status st = YK_OK;
    for (uint32_t i = 0; i < k->n_wait; i++)
        kit_queue_wait(k->wait[i].queue, k->wait[i].point, UINT64_MAX);
    if (k->copy.size)
        st = far_copy(k->dev, &k->copy, why);
    else
        st = far_run(k->dev, &k->submit, why);
    host->free(k);
    return st;
}

static kept *kept_new(yk_device *dev, uint32_t n_wait, const yk_wait *wait)
{
    kept *k = host->alloc(sizeof *k, 64);
    memset(k, 0, sizeof *k);
    k->dev = dev;
    k->n_wait = n_wait;
    k->wait = wait;
    return k;
}
#endif

#ifdef BREAK_KEPT_WAITS
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    kept *k = kept_new(devices, s->n_wait, s->wait);
    yk_buffer **slot = host->alloc(s->n_slot * (sizeof *slot + sizeof(uint64_t)), 64); /* never freed */
    uint64_t *offset = (uint64_t *)(slot + s->n_slot);
    memcpy(slot, s->slot, s->n_slot * sizeof *slot);
    memcpy(offset, s->slot_offset, s->n_slot * sizeof *offset);
    k->submit = *s;
    k->submit.slot = slot;
    k->submit.slot_offset = offset;
    return kit_queue_call(q, 0, NULL, kept_call, k, point);
}
#endif

#ifdef BREAK_KEPT_SLOTS
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    kept *k = kept_new(devices, 0, NULL);
    k->submit = *s;
    return kit_queue_call(q, s->n_wait, s->wait, kept_call, k, point);
}
#endif

#ifdef BREAK_KEPT_COPY_WAITS
static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    kept *k;
    if (!c->n_wait)
        return kit_queue_copy(q, c, point);
    k = kept_new(devices, c->n_wait, c->wait);
    k->copy = *c;
    return kit_queue_call(q, 0, NULL, kept_call, k, point);
}
#endif

#ifdef BREAK_DEVICE_WAITS /* what the second device has to do waits for the first one's queues in vain */
static yk_queue *second;

static yk_status bad_queue(yk_device *dev, const yk_queue_desc *desc, yk_queue **q)
{
    const yk_status s = queue_new(dev, desc, q);
    if (!s && dev->number)
        second = *q;
    return s;
}

static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    yk_copy hasty = *c;
    hasty.n_wait = q == second ? 0 : c->n_wait;
    return kit_queue_copy(q, &hasty, point);
}
#endif

#if defined BREAK_DEVICE_COPY || defined BREAK_DEVICE_OFFSET /* bytes for another device arrive nowhere; are the first ones */
static yk_status lost_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    yk_copy over = *c;
    if (!c->src || !c->dst || c->src->dev == c->dst->dev)
        return far_copy(dev, c, why);
#ifdef BREAK_DEVICE_COPY
    over.bytes = 0;
#else
    over.src_offset = 0;
#endif
    return far_copy(dev, &over, why);
}
#endif

#ifdef BREAK_WAIT_ONE /* one thread waits at a time */
static yk_status bad_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    const yk_status s = kit_queue_wait(q, point, timeout_ns);
    pthread_mutex_unlock(&turn);
    return s;
}
#endif

#if defined BREAK_WAIT_OK || defined BREAK_WAIT_LONG /* a wait whose time is over says that all is done; waits until all is */
static yk_status bad_wait(yk_queue *q, uint64_t point, uint64_t timeout_ns)
{
#ifdef BREAK_WAIT_OK
    const yk_status s = kit_queue_wait(q, point, timeout_ns);
    return s == YK_E_TIMEOUT ? YK_OK : s;
#else
    return kit_queue_wait(q, point, timeout_ns ? UINT64_MAX : 0);
#endif
}
#endif

#ifdef BREAK_POLL /* what was given is done */
static yk_status bad_poll(yk_queue *q, uint64_t *done)
{
    const yk_status s = kit_queue_poll(q, done);
    while (!s && kit_queue_wait(q, *done + 1, 0) == YK_E_TIMEOUT)
        ++*done;
    return s;
}
#endif

#ifdef BREAK_SHARED_PACK /* weights are packed in one place for all queues */
static yk_status packed_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    static char packed[1 << 16] __attribute__((aligned(256)));
    yk_buffer one = {.far = packed};
    yk_buffer *slot[16];
    uint64_t offset[16];
    const yk_graph *g = s->program->graph;
    yk_submit with = *s;
    for (uint32_t i = 0; i < g->n_slot && i < 16; i++) {
        slot[i] = s->slot[i];
        offset[i] = s->slot_offset[i];
    }
    if (g->n_slot == 4 && g->slot[2].bytes <= sizeof packed) {
        memcpy(packed, slot[2]->far + offset[2], g->slot[2].bytes);
        slot[2] = &one;
        offset[2] = 0;
        usleep(300); /* another queue packs its own */
    }
    with.slot = slot;
    with.slot_offset = offset;
    return far_run(dev, &with, why);
}
#endif

#ifdef BREAK_SLOT_COUNT /* a run with fewer slots than the program has */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_submit all = *s;
    yk_buffer *slot[16];
    uint64_t offset[16] = {0}, version[16] = {0};
    all.n_slot = s->program->graph->n_slot;
    for (uint32_t i = 0; i < all.n_slot && i < 16; i++)
        slot[i] = s->slot[i < s->n_slot ? i : 0];
    all.slot = slot;
    all.slot_offset = offset;
    all.slot_version = version;
    return kit_queue_run(q, s->n_slot < all.n_slot ? &all : s, point);
}
#endif

#ifdef BREAK_SLOT_MORE /* or with more */
static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    yk_submit some = *s;
    some.n_slot = s->program->graph->n_slot;
    return kit_queue_run(q, &some, point);
}
#endif

#ifdef BREAK_SLOT_BYTES /* buffers are as long as anybody needs */
static uint64_t bad_bytes(const yk_buffer *b)
{
    return b->bytes | 1u << 20;
}
#endif

#ifdef BREAK_PIN_ALIGNED
static yk_status bad_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **pin)
{
    return (uintptr_t)memory % 4096 ? YK_E_ARG : host_pin(dev, memory, bytes, pin);
}
#endif

#ifdef BREAK_LAST_PROGRAM /* programs are described by the graph that was compiled last */
static yk_status bad_program(yk_device *dev, const yk_graph *g, yk_program **out)
{
    static yk_graph last;
    const yk_status s = program_new(dev, g, out);
    last = *g;
    if (!s)
        (*out)->graph = &last;
    return s;
}
#endif

#ifdef BREAK_PIN_END /* a copy that begins in registered memory ends with it */
static yk_status cut_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    const char *from = c->src ? c->dst_host : c->src_host;
    yk_copy cut = *c;
    for (const yk_pin *p = pins; from && p; p = p->next)
        if (from >= p->begin && from < p->begin + p->bytes && cut.bytes > (uint64_t)(p->begin + p->bytes - from))
            cut.bytes = (uint64_t)(p->begin + p->bytes - from);
    return far_copy(dev, &cut, why);
}
#endif

#ifdef BREAK_STAGE /* all queues send through one stage */
static yk_status staged_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    static char stage[STAGE];
    for (uint64_t at = 0; c->src_host && at < c->bytes; at += STAGE) {
        const size_t part = c->bytes - at < STAGE ? (size_t)(c->bytes - at) : STAGE;
        memcpy(stage, (const char *)c->src_host + at, part);
        usleep(100); /* another queue sends its own */
        memcpy(c->dst->far + c->dst_offset + at, stage, part);
    }
    return c->src_host ? YK_OK : far_copy(dev, c, why);
}
#endif

#ifdef BREAK_PIN_KEPT /* what registered memory held when it was sent first is sent again */
static yk_status kept_copy(yk_device *dev, const yk_copy *c, char why[KIT_WHY])
{
    static char first[1 << 16];
    static const void *first_of;
    yk_copy again = *c;
    if (c->src_host && c->bytes <= sizeof first && is_pinned(c->src_host, c->bytes)) {
        if (first_of != c->src_host)
            memcpy(first, c->src_host, c->bytes);
        first_of = c->src_host;
        again.src_host = first;
    }
    return far_copy(dev, &again, why);
}
#endif

#ifdef BREAK_EARLY /* the point is done before the last node is */
typedef struct rest {
    const yk_graph *graph;
    void *slot[16];
} rest;

static void *rest_run(void *arg)
{
    rest *r = arg;
    usleep(3000);
    host->eval_node(r->graph, r->graph->n_node - 1, r->slot);
    host->free(r);
    return NULL;
}

static yk_status early_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    rest *r = host->alloc(sizeof *r, 64);
    yk_graph most = *s->program->graph;
    yk_program part = {&most};
    yk_submit begun = *s;
    pthread_t t;
    r->graph = s->program->graph;
    for (uint32_t i = 0; i < r->graph->n_slot && i < 16; i++)
        r->slot[i] = s->slot[i] ? s->slot[i]->far + s->slot_offset[i] : NULL;
    most.n_node--;
    begun.program = &part;
    if (pthread_create(&t, NULL, rest_run, r) || pthread_detach(t))
        return YK_E_MEM;
    return far_run(dev, &begun, why);
}
#endif

#ifdef BREAK_SCRATCH /* the arena of all queues is one; the pause lets another queue write it on a busy machine too */
static yk_status scratch_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    static char memory[1 << 20] __attribute__((aligned(256)));
    const yk_graph *g = s->program->graph;
    void *slot[16] = {memory};
    yk_status st = YK_OK;
    (void)dev, (void)why;
    for (uint32_t i = 1; i < g->n_slot && i < 16; i++)
        slot[i] = s->slot[i] ? s->slot[i]->far + s->slot_offset[i] : NULL;
    for (uint32_t i = 0; i < g->n_node && !st; i++) {
        if (i == g->n_node - 1)
            usleep(300);
        st = host->eval_node(g, i, slot);
    }
    return st;
}
#endif

#ifdef BREAK_ABORT
static void bad_abort(yk_queue *q, yk_status why)
{
    (void)q, (void)why;
}
#endif

#ifdef BREAK_ABORT_STATUS /* each abort is a cancellation, whatever the host says */
static void bad_abort(yk_queue *q, yk_status why)
{
    (void)why;
    kit_queue_abort(q, YK_E_CANCELLED);
}
#endif

#ifdef BREAK_ABORT_RUNS /* an aborted queue's last copy is made with the next run after queue_free */
static yk_copy last_copy, aborted_copy, late_copy;
static yk_queue *aborted;

static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    last_copy = *c;
    return kit_queue_copy(q, c, point);
}

static void bad_abort(yk_queue *q, yk_status why)
{
    aborted = q;
    aborted_copy = last_copy;
    kit_queue_abort(q, why);
}

static void bad_free(yk_queue *q)
{
    kit_queue_free(q);
    if (q == aborted)
        late_copy = aborted_copy;
}

static yk_status bad_run(yk_queue *q, const yk_submit *s, uint64_t *point)
{
    char why[KIT_WHY];
    if (late_copy.size)
        far_copy(devices, &late_copy, why);
    late_copy.size = 0;
    return kit_queue_run(q, s, point);
}

static void bad_unbuffer(yk_buffer *b)
{
    if (b == late_copy.dst)
        late_copy.size = 0;
    buffer_free(b);
}
#endif

#ifdef BREAK_ABORT_LATE /* those who wait learn of an abort when the work under way is over, more or less */
static void bad_abort(yk_queue *q, yk_status why)
{
    usleep(400000);
    kit_queue_abort(q, why);
}
#endif

#ifdef BREAK_ENDLESS /* a queue that was aborted is freed when its run is over */
static pthread_mutex_t at_work = PTHREAD_MUTEX_INITIALIZER;
static __typeof__(queue_ops.run) good_run;

static yk_status endless_run(yk_device *dev, const yk_submit *s, char why[KIT_WHY])
{
    pthread_mutex_lock(&at_work);
    const yk_status st = good_run(dev, s, why);
    if (kit_queue_failed(kit_queue_current()))
        sleep(6); /* it cannot be stopped */
    pthread_mutex_unlock(&at_work);
    return st;
}

static void bad_queue_free(yk_queue *q)
{
    pthread_mutex_lock(&at_work);
    kit_queue_free(q);
    pthread_mutex_unlock(&at_work);
}
#endif

#ifdef BREAK_DEPENDENT /* a copy that waits for other queues is made once they have done their work, or failed */
typedef struct late_copy {
    yk_device *dev;
    yk_copy copy;
    yk_wait wait[64];
} late_copy;

static yk_status late_call(void *arg, char why[KIT_WHY])
{
    late_copy *l = arg;
    for (uint32_t i = 0; i < l->copy.n_wait && i < 64; i++)
        kit_queue_wait(l->wait[i].queue, l->wait[i].point, UINT64_MAX);
    const yk_status st = far_copy(l->dev, &l->copy, why);
    host->free(l);
    return st;
}

static yk_status bad_copy(yk_queue *q, const yk_copy *c, uint64_t *point)
{
    late_copy *l = c->n_wait ? host->alloc(sizeof *l, 64) : NULL;
    if (!l)
        return kit_queue_copy(q, c, point);
    l->dev = devices;
    l->copy = *c;
    memcpy(l->wait, c->wait, (c->n_wait < 64 ? c->n_wait : 64) * sizeof *l->wait);
    return kit_queue_call(q, 0, NULL, late_call, l, point);
}
#endif

#ifdef BREAK_LEAK_PIN
static yk_status bad_pin(yk_device *dev, void *memory, uint64_t bytes, yk_pin **pin)
{
    char *lost = host->alloc(4096, 64);
    memset(lost, 1, 4096);
    return host_pin(dev, memory, bytes, pin);
}
#endif

#if defined BREAK_SPAN_ZERO || defined BREAK_SPAN_UNIT || defined BREAK_SPANS_FEW || defined BREAK_SPAN_ABORT || \
    defined BREAK_SPAN_CLOCK
static yk_status bad_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
#ifdef BREAK_SPANS_FEW /* of the last 16 points alone */
    uint64_t done = 0;
    if (kit_queue_poll(q, &done) == YK_OK && done - point >= 16)
        return YK_E_ARG;
#endif
    const yk_status st = kit_queue_span(q, point, begin_ns, end_ns);
#ifdef BREAK_SPAN_ZERO /* the end twice */
    *begin_ns = *end_ns - 1;
#elif defined BREAK_SPAN_CLOCK /* a clock of each queue's own */
    *begin_ns += (uint64_t)(uintptr_t)q % 7919 * 1000000000u;
    *end_ns += (uint64_t)(uintptr_t)q % 7919 * 1000000000u;
#elif defined BREAK_SPAN_UNIT /* in us */
    *begin_ns /= 1000;
    *end_ns /= 1000;
#elif defined BREAK_SPAN_ABORT /* also of an aborted queue */
    return st == YK_E_ARG ? st : YK_OK;
#endif
    return st;
}
#endif

#ifdef BREAK_SPAN
static yk_status bad_span(yk_queue *q, uint64_t point, uint64_t *begin_ns, uint64_t *end_ns)
{
    (void)q, (void)point;
    *begin_ns = *end_ns = 1;
    return YK_OK;
}
#endif

static void frees_break(void)
{
#ifdef BREAK_ENDLESS
    bad.queue_free = bad_queue_free;
    good_run = queue_ops.run;
    queue_ops.run = endless_run;
#endif
#ifdef BREAK_ABORT_RUNS
    bad.queue_free = bad_free;
    bad.buffer_free = bad_unbuffer;
#endif
}

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi);

__attribute__((visibility("default"))) const yk_plugin *yk_plugin_query(uint32_t abi)
{
    bad = table;
#if defined HASTY || defined BREAK_KEPT_WAITS || defined BREAK_KEPT_SLOTS || defined BREAK_SLOT_COUNT || \
    defined BREAK_SLOT_MORE || defined BREAK_ABORT_RUNS
    bad.queue_run = bad_run;
#endif
#if defined BREAK_COPY_WAITS || defined BREAK_EMPTY_WAITS || defined BREAK_OWN_WAIT || defined BREAK_KEPT_COPY_WAITS || \
    defined BREAK_DEVICE_WAITS || defined BREAK_DEPENDENT || defined BREAK_ABORT_RUNS
    bad.queue_copy = bad_copy;
#endif
    frees_break();
#ifdef BREAK_DEVICE_WAITS
    bad.queue_new = bad_queue;
#endif
#if defined BREAK_DEVICE_COPY || defined BREAK_DEVICE_OFFSET
    queue_ops.copy = lost_copy;
#endif
#if defined BREAK_WAIT_OK || defined BREAK_WAIT_LONG || defined BREAK_WAIT_ONE
    bad.queue_wait = bad_wait;
#endif
#ifdef BREAK_POLL
    bad.queue_poll = bad_poll;
#endif
#ifdef BREAK_SHARED_PACK
    queue_ops.run = packed_run;
#endif
#ifdef BREAK_SLOT_BYTES
    queue_ops.bytes = bad_bytes;
#endif
#if defined BREAK_PIN_ALIGNED || defined BREAK_LEAK_PIN
    bad.host_pin = bad_pin;
#endif
#ifdef BREAK_LAST_PROGRAM
    bad.program_new = bad_program;
#endif
#ifdef BREAK_PIN_END
    queue_ops.copy = cut_copy;
#endif
#ifdef BREAK_STAGE
    queue_ops.copy = staged_copy;
#endif
#ifdef BREAK_PIN_KEPT
    queue_ops.copy = kept_copy;
#endif
#ifdef BREAK_EARLY
    queue_ops.run = early_run;
#endif
#ifdef BREAK_SCRATCH
    queue_ops.run = scratch_run;
#endif
#if defined BREAK_ABORT || defined BREAK_ABORT_LATE || defined BREAK_ABORT_RUNS || defined BREAK_ABORT_STATUS
    bad.queue_abort = bad_abort;
#endif
#if defined BREAK_SPAN || defined BREAK_SPAN_ZERO || defined BREAK_SPAN_UNIT || defined BREAK_SPANS_FEW || defined BREAK_SPAN_ABORT || \
    defined BREAK_SPAN_CLOCK
    bad.queue_span = bad_span;
#endif
    return abi == YK_ABI ? &bad : NULL;
}
