/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group queue, third part: tests of a device at work (spans, abort). cts_queue.c calls cts_queue_busy, in the group's child
 * process.
 *
 * A program is made so long that it takes most of a second. So a queue is surely busy when it is aborted, and the host's clock can judge a
 * span. A device whose runs are over when queue_run returns is never at work, and passes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/cts_ops.h"

#define SLOTS 4
#define LINKS 12        /* products of the program that is measured */
#define MOST_LINKS 3000
/* Seconds of a run. A plugin gives up on an aborted queue that finishes nothing for two seconds, and instrumented runs on a busy machine
 * come near that. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RUN_S 0.3
#else
#define RUN_S 0.8
#endif
#define SHORT_S 0.004   /* a run of LINKS products that is shorter says little: the matrices are made larger */
#define WOKEN_S 0.25    /* a wait is over, of the 100 ms that the header gives, on a busy machine too */
#define GIVEN_UP_S 1.5  /* a queue_free that is faster has not given up the work, for which it waits 2 s at least */
#define ENDLESS_S 6.0    /* a run that is not over when its queue is given up, after 2 s without a result */
#define FREED_S 4.0
#define FEW_LINKS 200
#define LARGE_SIDE 2048
#define SLICE_NS 20000000u
#define LONG_NS 20000000000u
#define NEVER_S 1e9
#define TRIES 3         /* the least of them counts */
#define KEPT 63         /* spans that are known at least */
#define MARK_BYTES 256
#define LATE_S 0.02      /* a wait for a done point that is shorter has waited for nothing */
#define CLOCK_NS 1000000 /* by which two readings of one clock may be out of order */

/* A chain of products; x, w and all that is made of them are zeros. */
typedef struct load {
    yk__graph g;
    yk__simple plan;
    yk_program *program;
    yk_buffer *slot[SLOTS];
    uint64_t offset[SLOTS], version[SLOTS];
    int64_t side;
    int links;
    double run_s; /* the least that a run took */
    bool stuck;   /* a run has not ended: its memory is left to it */
} load;

static void load_free(cts *c, load *l)
{
    if (l->stuck)
        return;
    if (l->program)
        c->t->program_free(l->program);
    for (uint32_t i = 0; i < SLOTS; i++)
        if (l->slot[i])
            c->t->buffer_free(l->slot[i]);
    if (l->plan.abi.n_slot)
        yk__simple_free(&l->plan);
    yk__graph_free(&l->g);
    memset(l, 0, sizeof *l);
}

static bool load_plan(cts *c, load *l, int64_t side, int links)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align, .share = true};
    const int64_t dim[] = {side, side};
    const uint64_t bytes = (uint64_t)(side * side) * sizeof(float);
    yk_error err = YK_ERROR_INIT;
    yk__graph_init(&l->g);
    yk__vid x = yk__leaf(&l->g, yk__slot_new(&l->g, YK_SLOT_INPUT, bytes, 0), 0, YK_F32, 2, dim);
    const yk__vid w = yk__leaf(&l->g, yk__slot_new(&l->g, YK_SLOT_INPUT, bytes, 1), 0, YK_F32, 2, dim);
    for (int i = 0; i < links; i++)
        x = yk__dot(&l->g, x, w, false, false);
    yk__simple_new(&l->g, &how, 1, &x, &l->plan, &err);
    return cts_error(c, &err) && cts_ok(c, c->t->program_new(c->dev->handle, &l->plan.abi, &l->program), "program_new");
}

static bool load_new(cts *c, load *l, int64_t side, int links)
{
    memset(l, 0, sizeof *l);
    bool ok = load_plan(c, l, side, links);
    l->side = side;
    l->links = links;
    for (uint32_t i = 0; i < l->plan.abi.n_slot && ok; i++) {
        const uint64_t bytes = l->plan.abi.slot[i].bytes;
        void *zeros = yk__calloc(bytes, 1);
        uint64_t point = 0;
        ok = cts_ok(c, zeros ? YK_OK : YK_E_MEM, "memory for the test") && cts_ok(c, cts_buffer_new(c, bytes, &l->slot[i]), "buffer_new") &&
             cts_ok(c, yk_put(c->t, c->dev->queue, l->slot[i], 0, zeros, bytes, &point), "queue_copy") && cts_wait(c, c->dev->queue, point);
        yk__free(zeros);
    }
    return ok;
}

static yk_submit load_submit(const load *l)
{
    return (yk_submit){.size = sizeof(yk_submit), .n_slot = l->plan.abi.n_slot, .program = l->program, .slot = l->slot,
                       .slot_offset = l->offset, .slot_version = l->version};
}

static bool load_run(cts *c, load *l, yk_queue *q, uint64_t *point)
{
    const yk_submit s = load_submit(l);
    return cts_ok(c, c->t->queue_run(q, &s, point), "queue_run");
}

/* Runs on the device's own queue, and times it from call to end; as it works, it gets longer than a point of other tests. */
static bool load_time(cts *c, load *l, uint64_t *point, double *took)
{
    const double began = yk__clock_seconds();
    if (!load_run(c, l, c->dev->queue, point))
        return false;
    const yk_status s = c->t->queue_wait(c->dev->queue, *point, c->timeout_ns > LONG_NS ? c->timeout_ns : LONG_NS);
    *took = yk__clock_seconds() - began;
    l->stuck = s == YK_E_TIMEOUT;
    return cts_ok(c, s, "queue_wait for a run");
}

/* The first run may compile. */
static bool load_measure(cts *c, load *l)
{
    uint64_t point = 0;
    l->run_s = 1e9;
    for (int i = 0; i < 3; i++) {
        double took = 0;
        if (!load_time(c, l, &point, &took))
            return false;
        l->run_s = i && took < l->run_s ? took : l->run_s;
        if (i && took > RUN_S)
            break;
    }
    return true;
}

/* A program whose run takes about RUN_S. */
static bool load_new_long(cts *c, load *l)
{
    static const int64_t sides[] = {64, 256, 1024};
    int64_t side = 0;
    for (uint32_t i = 0; i < 3; i++) {
        side = sides[i];
        if (!load_new(c, l, side, LINKS) || !load_measure(c, l))
            return load_free(c, l), false;
        if (l->run_s >= SHORT_S)
            break;
        if (i < 2)
            load_free(c, l);
    }
    const double links = LINKS * RUN_S / l->run_s;
    if (links < 2 * LINKS)
        return true;
    load_free(c, l);
    if (load_new(c, l, side, links < MOST_LINKS ? (int)links : MOST_LINKS) && load_measure(c, l))
        return true;
    return load_free(c, l), false;
}

/* The same for all tests of a group, as most of their time goes into making and measuring it. */
static bool load_ready(cts *c, load *l)
{
    return (l->program && !l->stuck) || load_new_long(c, l);
}

/* A test that failed may have left it in a state that the next one is not to meet. */
static void load_done(cts *c, load *l)
{
    if (c->failed_now)
        load_free(c, l);
    cts_pass(c);
}

/* ---- Aborting a queue that is at work ---------------------------------------------------------------------------------------- */

typedef struct waiting {
    cts *c;
    yk_queue *q;
    uint64_t point;
    atomic_bool begun;
    yk_status status;
    double back;
} waiting;

static void *waiting_main(void *arg)
{
    waiting *w = arg;
    atomic_store(&w->begun, true);
    w->status = w->c->t->queue_wait(w->q, w->point, w->c->timeout_ns);
    w->back = yk__clock_seconds();
    return NULL;
}

/* True if the point is still open after a slice of time. */
static bool queue_works(cts *c, yk_queue *q, uint64_t point)
{
    const bool works = c->t->queue_wait(q, point, SLICE_NS) == YK_E_TIMEOUT;
    if (works)
        yk__plugin_message();
    return works;
}

void cts_queue_refuses(cts *c, yk_queue *q, yk_status why, yk_buffer *b, const yk_submit *run)
{
    static const char *const names[] = {"queue_wait", "queue_poll", "queue_copy", "queue_run", "queue_span", "queue_wait again"};
    static uint8_t back[64]; /* a copy that is not refused may come later */
    uint64_t point = 77, done = 0, begin, end;
    for (uint32_t i = 0; i < sizeof names / sizeof *names && !c->failed_now; i++) {
        memset(back, 0x5a, sizeof back);
        const yk_status s = i == 1   ? c->t->queue_poll(q, &done)
                            : i == 2 ? yk_get(c->t, q, b, 0, back, sizeof back, &point)
                            : i == 3 ? c->t->queue_run(q, run, &point)
                            : i == 4 ? c->t->queue_span(q, 1, &begin, &end)
                                     : c->t->queue_wait(q, 1, c->timeout_ns);
        if (i == 4 && s == YK_E_UNSUPPORTED) /* not offered */
            yk__plugin_message();
        else if (s != why)
            cts_fail(c, "%s on a queue that was aborted gives %s, expected its reason, %s", names[i], yk__status_name(s),
                     yk__status_name(why));
        else if (!*yk__plugin_message())
            cts_fail(c, "%s on a queue that was aborted says nothing through host->fail", names[i]);
        else if (point != 77)
            cts_fail(c, "%s on a queue that was aborted gives out a point", names[i]);
        for (uint32_t k = 0; k < sizeof back && !c->failed_now; k++)
            if (back[k] != 0x5a)
                cts_fail(c, "a copy that a failed queue refuses changes memory");
    }
}

/* Queues of one round: the aborted one, and the one that it waits for (or itself). The aborted one's last command copies the pattern to the
 * mark, which was zeros. */
typedef struct busy_round {
    yk_queue *q, *other;
    yk_buffer *pattern, *mark;
    waiting w;
    double woken_s;
    bool worked;
    bool stuck; /* a queue was given up, and may still work: its memory is left to it */
} busy_round;

static bool marks_new(cts *c, busy_round *r)
{
    uint8_t pattern[MARK_BYTES], zeros[MARK_BYTES] = {0};
    uint64_t point = 0;
    cts_pattern_fill(pattern, MARK_BYTES, 6);
    return cts_ok(c, cts_buffer_new(c, MARK_BYTES, &r->pattern), "buffer_new") &&
           cts_ok(c, cts_buffer_new(c, MARK_BYTES, &r->mark), "buffer_new") &&
           cts_ok(c, yk_put(c->t, c->dev->queue, r->pattern, 0, pattern, MARK_BYTES, &point), "queue_copy") &&
           cts_ok(c, yk_put(c->t, c->dev->queue, r->mark, 0, zeros, MARK_BYTES, &point), "queue_copy") && cts_wait(c, c->dev->queue, point);
}

/* across: the queue's only command is the copy, which waits for another queue's runs. */
static bool round_begin(cts *c, load *l, busy_round *r, bool across)
{
    uint64_t point = 0;
    if (!marks_new(c, r) || !cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &r->q), "queue_new") ||
        (across && !cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &r->other), "queue_new")))
        return false;
    yk_queue *runs = across ? r->other : r->q;
    for (int i = 0; i < 2; i++)
        if (!load_run(c, l, runs, &point))
            return false;
    r->w = (waiting){.c = c, .q = r->q};
    const yk_wait wait = {runs, point};
    const yk_copy copy = {.size = sizeof copy, .n_wait = across, .wait = &wait, .src = r->pattern, .dst = r->mark, .bytes = MARK_BYTES};
    if (!cts_ok(c, c->t->queue_copy(r->q, &copy, &r->w.point), "queue_copy"))
        return false;
    r->worked = queue_works(c, runs, 1);
    return true;
}

static void round_abort(cts *c, load *l, busy_round *r)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, waiting_main, &r->w)) {
        cts_fail(c, "no thread for the test");
        return;
    }
    while (!atomic_load(&r->w.begun))
        ;
    r->worked = queue_works(c, r->other ? r->other : r->q, 1); /* the thread sleeps meanwhile */
    const double began = yk__clock_seconds();
    c->t->queue_abort(r->q, YK_E_CANCELLED);
    pthread_join(thread, NULL);
    r->woken_s = r->w.back - began;
    if (r->worked && r->w.status != YK_E_CANCELLED)
        cts_fail(c, "a wait under way gives %s when its queue is aborted, expected YK_E_CANCELLED", yk__status_name(r->w.status));
    const yk_submit run = load_submit(l);
    if (!c->failed_now)
        cts_queue_refuses(c, r->q, YK_E_CANCELLED, l->slot[1], &run);
}

static bool mark_read(cts *c, const busy_round *r, uint8_t *got)
{
    uint64_t point = 0;
    return cts_ok(c, yk_get(c->t, c->dev->queue, r->mark, 0, got, MARK_BYTES, &point), "queue_copy") && cts_wait(c, c->dev->queue, point);
}

static void round_queue_free(cts *c, yk_queue **q)
{
    if (*q)
        c->t->queue_free(*q);
    *q = NULL;
}

/* Frees the aborted queue: its work is over by then, as the host frees the memory next, or it was given up after a time. The other queue
 * was not aborted: its work is awaited, however long it takes. */
static void round_free(cts *c, load *l, busy_round *r)
{
    uint8_t first[MARK_BYTES], later[MARK_BYTES];
    uint64_t point = 0;
    double took = 0;
    const double began = yk__clock_seconds();
    round_queue_free(c, &r->q);
    r->stuck = yk__clock_seconds() - began > GIVEN_UP_S;
    c->left |= r->stuck;
    if (c->failed_now || r->stuck || !mark_read(c, r, first))
        return;
    round_queue_free(c, &r->other);
    if (load_time(c, l, &point, &took) && mark_read(c, r, later) && memcmp(first, later, MARK_BYTES))
        cts_fail(c, "a copy of a queue that was aborted is made after queue_free: a queue's memory may be freed then");
}

/* Buffers of queues that were given up: never freed, and no leak to a sanitizer, as they are still known here. */
static yk_buffer *volatile left[2 * 2 * TRIES];
static size_t n_left;

static void round_end(cts *c, busy_round *r)
{
    yk_buffer *buffer[] = {r->mark, r->pattern};
    round_queue_free(c, &r->q);
    round_queue_free(c, &r->other);
    for (size_t i = 0; i < 2; i++)
        if (r->stuck)
            left[n_left++] = buffer[i];
        else if (buffer[i])
            c->t->buffer_free(buffer[i]);
}

static bool abort_begins(cts *c, load *l, const char *name)
{
    if (!cts_begin(c, "%s", name))
        return false;
    if (!yk__plugin_aborts(c->dev->plugin)) {
        cts_unsupported(c, "queue_abort is not offered");
        return false;
    }
    return load_ready(c, l);
}

/* An abort within work wakes every waiting thread at once; the work may end. */
static void test_abort_busy(cts *c, load *l, const char *name, bool across)
{
    double least = NEVER_S;
    if (!abort_begins(c, l, name))
        return;
    for (int i = 0; i < TRIES && least > 0.1 && !c->failed_now; i++) {
        busy_round r = {.q = NULL};
        if (round_begin(c, l, &r, across) && r.worked)
            round_abort(c, l, &r), round_free(c, l, &r);
        if (r.worked && r.woken_s < least) /* a run that was over too soon proves nothing */
            least = r.woken_s;
        round_end(c, &r);
    }
    if (least < NEVER_S && least > WOKEN_S)
        cts_fail(c, "a wait returned %.2f s after queue_abort, which wakes those who wait within 0.1 s%s", least,
                 across ? "; what the queue waited for was still at work" : "");
    load_done(c, l);
}

/* One run that is longer than a plugin may wait for it. The result of queue_free comes before the run's: it is left behind. */
static void endless_abort(cts *c, load *l)
{
    uint64_t point = 0;
    yk_queue *q = NULL;
    if (!cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new"))
        return;
    bool works = false;
    for (int i = 0; i < 2 && !works && !c->failed_now; i++) /* the first run may compile, and is over then when queue_run returns */
        works = load_run(c, l, q, &point) && queue_works(c, q, point);
    const double began = yk__clock_seconds();
    if (works)
        c->t->queue_abort(q, YK_E_CANCELLED);
    c->t->queue_free(q);
    const double took = yk__clock_seconds() - began;
    l->stuck = c->left = works && took > GIVEN_UP_S;
    if (works && took > FREED_S)
        cts_fail(c, "queue_free of an aborted queue took %.1f s, expected about 2 s: a run that finishes nothing for so long may never "
                 "end, and is left behind", took);
}

/* As long on large matrices: many small products take longer to enqueue than to compute on some devices, which were then idle. */
static bool endless_new(cts *c, const load *l, load *endless)
{
    double links = l->links * ENDLESS_S / l->run_s;
    int64_t side = l->side;
    do {
        side *= 2;
        links /= 8;
    } while (links > FEW_LINKS && side < LARGE_SIDE);
    return load_new(c, endless, side, links < MOST_LINKS ? (int)links + 1 : MOST_LINKS);
}

static void test_abort_endless(cts *c, load *l)
{
    static load endless; /* a run that is left behind may use it to the end of the process */
    uint64_t point = 0;
    if (c->quick || !abort_begins(c, l, "abort_endless"))
        return;
    const bool works = load_run(c, l, c->dev->queue, &point) && queue_works(c, c->dev->queue, point);
    if (works && cts_wait(c, c->dev->queue, point)) {
        if (endless_new(c, l, &endless))
            endless_abort(c, &endless);
        load_free(c, &endless);
    }
    load_done(c, l);
}

/* ---- Dependents of a failing queue -------------------------------------------------------------------------------------------- */

typedef struct dependents {
    yk_queue *first, *second;
    yk_buffer *mark, *copied;
    uint8_t pattern[MARK_BYTES], zeros[MARK_BYTES], got[MARK_BYTES];
    uint64_t first_point, second_point;
} dependents;

/* The first queue runs long, then makes a mark; the second one copies the mark when that is done. */
static bool dependents_begin(cts *c, load *l, dependents *d)
{
    uint64_t point = 0;
    cts_pattern_fill(d->pattern, MARK_BYTES, 5);
    if (!cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &d->first), "queue_new") ||
        !cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &d->second), "queue_new") ||
        !cts_ok(c, cts_buffer_new(c, MARK_BYTES, &d->mark), "buffer_new") ||
        !cts_ok(c, cts_buffer_new(c, MARK_BYTES, &d->copied), "buffer_new") ||
        !cts_ok(c, yk_put(c->t, c->dev->queue, d->mark, 0, d->zeros, MARK_BYTES, &point), "queue_copy") ||
        !cts_ok(c, yk_put(c->t, c->dev->queue, d->copied, 0, d->zeros, MARK_BYTES, &point), "queue_copy") ||
        !cts_wait(c, c->dev->queue, point) || !load_run(c, l, d->first, &point) ||
        !cts_ok(c, yk_put(c->t, d->first, d->mark, 0, d->pattern, MARK_BYTES, &d->first_point), "queue_copy"))
        return false;
    const yk_wait wait = {d->first, d->first_point};
    const yk_copy copy = {.size = sizeof copy, .n_wait = 1, .wait = &wait, .src = d->mark, .dst = d->copied, .bytes = MARK_BYTES};
    return cts_ok(c, c->t->queue_copy(d->second, &copy, &d->second_point), "queue_copy") && queue_works(c, d->first, 1);
}

/* The copy is the mark's, or was never made; and whether it was is known. */
static void dependents_check(cts *c, dependents *d)
{
    uint64_t point = 0;
    const yk_status s = c->t->queue_wait(d->second, d->second_point, c->timeout_ns);
    yk__plugin_message();
    if (s == YK_E_TIMEOUT)
        cts_fail(c, "work that waits for a queue which was aborted is neither done nor failed");
    c->t->queue_free(d->second);
    c->t->queue_free(d->first);
    d->first = d->second = NULL;
    if (c->failed_now || !cts_ok(c, yk_get(c->t, c->dev->queue, d->copied, 0, d->got, MARK_BYTES, &point), "queue_copy") ||
        !cts_wait(c, c->dev->queue, point))
        return;
    const bool made = !memcmp(d->got, d->pattern, MARK_BYTES);
    if (!made && (s == YK_OK || memcmp(d->got, d->zeros, MARK_BYTES)))
        cts_fail(c, "a queue went on although what it waited for was aborted and is not done: its copy is said to be %s",
                 s == YK_OK ? "done" : yk__status_name(s));
    else if (s && s != YK_E_CANCELLED && s != YK_E_DEVICE_LOST)
        cts_fail(c, "a queue that waited for one which failed with YK_E_DEVICE_LOST gives %s; expected that, or YK_E_CANCELLED",
                 yk__status_name(s));
}

static void test_abort_dependent(cts *c, load *l)
{
    dependents d = {.first = NULL};
    if (!abort_begins(c, l, "abort_dependent"))
        return;
    if (dependents_begin(c, l, &d)) {
        c->t->queue_abort(d.first, YK_E_DEVICE_LOST);
        dependents_check(c, &d);
    }
    if (d.second)
        c->t->queue_free(d.second);
    if (d.first)
        c->t->queue_free(d.first);
    if (d.mark)
        c->t->buffer_free(d.mark);
    if (d.copied)
        c->t->buffer_free(d.copied);
    load_done(c, l);
}

/* ---- Spans --------------------------------------------------------------------------------------------------------------------- */

static bool spans_offered(cts *c)
{
    uint64_t begin, end;
    const bool offered = c->t->queue_span(c->dev->queue, UINT64_MAX, &begin, &end) != YK_E_UNSUPPORTED;
    yk__plugin_message();
    if (!offered)
        cts_unsupported(c, "queue_span is not offered");
    return offered;
}

/* The share of the host's time that a run's span covers, of the run that the host saw end soonest. */
static bool span_measure(cts *c, load *l, double *share, double *host_s)
{
    *host_s = 1e9;
    for (int i = 0; i < TRIES; i++) {
        uint64_t point = 0, begin = 0, end = 0;
        double took = 0;
        if (!load_time(c, l, &point, &took) || !cts_ok(c, c->t->queue_span(c->dev->queue, point, &begin, &end), "queue_span"))
            return false;
        if (took < *host_s) {
            *host_s = took;
            *share = ((double)end - (double)begin) * 1e-9 / took;
        }
    }
    return true;
}

/* The length of a span is the work's, in nanoseconds. */
static void test_span_length(cts *c, load *l)
{
    double share = 0, host_s = 0;
    if (!cts_begin(c, "span_length") || !spans_offered(c) || !load_ready(c, l))
        return;
    if (span_measure(c, l, &share, &host_s) && (share < 0.5 || share > 1.1))
        cts_fail(c, "a run that took %.3f s by the host's clock has a span of %.6f s; a span is the time of the work in ns", host_s,
                 share * host_s);
    load_done(c, l);
}

/* With many points done at once, spans of the last ones are kept, oldest first, in order. */
static void test_spans_kept(cts *c)
{
    uint64_t point = 0, last = 0;
    uint8_t data[64] = {0};
    yk_buffer *b = NULL;
    yk_queue *q = NULL;
    if (!cts_begin(c, "spans_kept") || !spans_offered(c))
        return;
    bool ok = cts_ok(c, cts_buffer_new(c, sizeof data, &b), "buffer_new") && cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new");
    for (int i = 0; i < 4 * KEPT && ok; i++)
        ok = cts_ok(c, yk_put(c->t, q, b, 0, data, sizeof data, &point), "queue_copy");
    ok = ok && cts_wait(c, q, point);
    for (uint64_t at = point - KEPT + 1; ok && at <= point; at++) {
        uint64_t begin = 0, end = 0;
        ok = cts_ok(c, c->t->queue_span(q, at, &begin, &end), "queue_span of one of the last 63 points");
        if (ok && (begin < last || end < begin))
            cts_fail(c, "the span of point %llu of %llu begins before the one before it ends", (unsigned long long)at,
                     (unsigned long long)point);
        last = end;
    }
    if (q)
        c->t->queue_free(q);
    if (b)
        c->t->buffer_free(b);
    cts_pass(c);
}

/* Work of two queues, each part done before the next is given: their spans follow one another, within the time by the host's clock. False
 * if they do not, of which the last try is told. */
static bool spans_follow(cts *c, yk_queue *const q[2], yk_buffer *b, bool last_try)
{
    const double began = yk__clock_seconds();
    uint8_t data[64] = {0};
    uint64_t point = 0, begin = 0, end = 0, first = 0, last = 0;
    for (int i = 0; i < 4; i++) {
        if (!cts_ok(c, yk_put(c->t, q[i % 2], b, 0, data, sizeof data, &point), "queue_copy") || !cts_wait(c, q[i % 2], point) ||
            !cts_ok(c, c->t->queue_span(q[i % 2], point, &begin, &end), "queue_span"))
            return true;
        first = i ? first : begin;
        if (i && begin + CLOCK_NS < last)
            break;
        last = end;
    }
    const double took = yk__clock_seconds() - began, said = ((double)end - (double)first) * 1e-9;
    const bool follow = begin + CLOCK_NS >= last && said <= took * 1.1 + CLOCK_NS * 1e-9;
    if (!follow && last_try)
        cts_fail(c, "copies on two queues in turn, %.6f s by the host's clock, span %.6f s; the spans of a device have one clock", took,
                 said);
    return follow;
}

/* The second queue is younger by 20 ms, against a tolerance of 1 ms. A driver reads its clock late if the machine is under load, but not
 * each time. */
static void test_span_clock(cts *c)
{
    yk_queue *q[2] = {NULL, NULL};
    yk_buffer *b = NULL;
    if (!cts_begin(c, "span_clock") || !spans_offered(c))
        return;
    bool ok = cts_ok(c, cts_buffer_new(c, 64, &b), "buffer_new");
    for (int i = 0; i < 2 && ok; i++) {
        ok = cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q[i]), "queue_new");
        nanosleep(&(struct timespec){0, 20 * CLOCK_NS}, NULL);
    }
    for (int i = 1; ok && i <= 5 && !spans_follow(c, q, b, i == 5); i++)
        ;
    for (int i = 0; i < 2; i++)
        if (q[i])
            c->t->queue_free(q[i]);
    if (b)
        c->t->buffer_free(b);
    cts_pass(c);
}

/* ---- Two threads that wait -------------------------------------------------------------------------------------------------------- */

/* A wait for a done point, while another thread waits for a queue at work. True if it ended only with that queue's work. */
static bool wait_is_late(cts *c, load *l, yk_queue *idle, uint64_t done)
{
    waiting w = {.c = c, .q = c->dev->queue};
    pthread_t thread;
    uint64_t before = 0, after = 0;
    double took = 0;
    if (!load_run(c, l, w.q, &w.point))
        return false;
    if (!cts_ok(c, pthread_create(&thread, NULL, waiting_main, &w) ? YK_E_MEM : YK_OK, "a thread")) {
        cts_wait(c, w.q, w.point); /* the run uses the load's memory */
        return false;
    }
    while (!atomic_load(&w.begun))
        nanosleep(&(struct timespec){0, 100000}, NULL);
    nanosleep(&(struct timespec){0, SLICE_NS}, NULL); /* the thread comes to its wait */
    if (cts_ok(c, c->t->queue_poll(w.q, &before), "queue_poll")) {
        const double began = yk__clock_seconds();
        cts_ok(c, c->t->queue_wait(idle, done, c->timeout_ns), "queue_wait for a done point");
        took = yk__clock_seconds() - began;
        cts_ok(c, c->t->queue_poll(w.q, &after), "queue_poll");
    }
    pthread_join(thread, NULL);
    l->stuck = w.status == YK_E_TIMEOUT;
    return cts_ok(c, w.status, "queue_wait for a run") && before < w.point && after >= w.point && took > LATE_S;
}

static void test_waits_overlapped(cts *c, load *l)
{
    uint8_t data[64] = {0};
    uint64_t point = 0;
    yk_buffer *b = NULL;
    yk_queue *q = NULL;
    int late = 0;
    if (!cts_begin(c, "waits_overlapped") || !load_ready(c, l))
        return;
    bool ok = cts_ok(c, cts_buffer_new(c, sizeof data, &b), "buffer_new") &&
              cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new") &&
              cts_ok(c, yk_put(c->t, q, b, 0, data, sizeof data, &point), "queue_copy") && cts_wait(c, q, point);
    while (ok && late < TRIES && wait_is_late(c, l, q, point))
        late++;
    if (late == TRIES)
        cts_fail(c, "a wait for a done point returned %d times only when another queue's work was over, for which another thread waited",
                 late);
    if (q)
        c->t->queue_free(q);
    if (b)
        c->t->buffer_free(b);
    load_done(c, l);
}

void cts_queue_busy(cts *c)
{
    load l = {.program = NULL};
    test_abort_busy(c, &l, "abort_busy", false);
    test_abort_busy(c, &l, "abort_waiting", true);
    test_abort_dependent(c, &l);
    test_waits_overlapped(c, &l);
    test_span_length(c, &l);
    test_spans_kept(c);
    test_span_clock(c);
    test_abort_endless(c, &l);
    load_free(c, &l);
}
