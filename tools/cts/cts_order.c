/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group queue, second part: order between queues. cts_queue.c calls cts_queue_order, in the group's child process. A chain of
 * products takes so long that a missing wait shows; each order is tried several times with other numbers. The reference evaluator gives the
 * right result.
 */
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/cts_ops.h"

#define SIDE 64
#define LINKS 12 /* products of a chain */
#define ROUNDS 6
#define BYTES (SIDE * SIDE * sizeof(float))
#define WAITS 40  /* the most in a list */
#define QUEUES 3
#define SLICE_NS 1000000u
#define BESIDE_S 0.1 /* how long two queues are given runs */
#define BESIDE 12    /* runs of each at a time */
#define BEHIND 12 /* offset of results in another device's buffer */

/* y = x w w .. w, each time scaled so that numbers stay moderate. Slots: arena, x, w, result. */
typedef struct chain {
    yk__graph g;
    yk__simple plan;
    yk_program *program;
    uint32_t x, w, y; /* slots */
    uint64_t y_at;    /* offset of the result in its slot */
} chain;

/* The bindings of a run. Each has its own weights, so that one queue's packed ones are useless to another. */
typedef struct binding {
    yk_buffer *slot[8];
    uint64_t offset[8], version[8];
    float weights[SIDE * SIDE];
} binding;

/* The lists of one call. They are overwritten after its return: no later access is allowed. */
typedef struct lists {
    yk_submit submit;
    yk_copy copy;
    yk_wait wait[WAITS];
    yk_buffer *slot[8];
    uint64_t offset[8], version[8];
} lists;

static void numbers_fill(float *p, uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < SIDE * SIDE; i++)
        p[i] = (float)cts_below(&state, 2001) / 1000 - 1;
}

static yk__vid square_leaf(yk__graph *g, uint32_t *slot)
{
    static const int64_t dim[] = {SIDE, SIDE};
    *slot = yk__slot_new(g, YK_SLOT_INPUT, BYTES, 0);
    return *slot == YK_NONE ? YK_NONE : yk__leaf(g, *slot, 0, YK_F32, 2, dim);
}

static bool chain_new(cts *c, chain *k)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    yk__vid x, w;
    memset(k, 0, sizeof *k);
    yk__graph_init(&k->g);
    x = square_leaf(&k->g, &k->x);
    w = square_leaf(&k->g, &k->w);
    for (int i = 0; i < LINKS; i++)
        x = yk__scale(&k->g, yk__dot(&k->g, x, w, false, false), 0.2);
    if (yk__simple_new(&k->g, &how, 1, &x, &k->plan, &err))
        return cts_error(c, &err);
    k->y = k->plan.result;
    k->y_at = k->plan.abi.value[x].offset;
    return cts_ok(c, c->t->program_new(c->dev->handle, &k->plan.abi, &k->program), "program_new");
}

static void chain_free(cts *c, chain *k)
{
    if (k->program)
        c->t->program_free(k->program);
    if (k->plan.abi.n_slot)
        yk__simple_free(&k->plan);
    yk__graph_free(&k->g);
}

/* The reference's result for x. */
static bool chain_reference(cts *c, const chain *k, const float *weights, const float *x, float *y)
{
    void **slot = yk__simple_slots(&k->plan);
    yk_error err = YK_ERROR_INIT;
    if (!slot)
        return cts_fail(c, "no memory for the test"), false;
    memcpy(slot[k->x], x, BYTES);
    memcpy(slot[k->w], weights, BYTES);
    if (!yk__simple_eval(&k->plan, slot, &err))
        memcpy(y, (uint8_t *)slot[k->y] + k->y_at, BYTES);
    yk__simple_slots_free(&k->plan, slot);
    return cts_error(c, &err);
}

static bool binding_new(cts *c, const chain *k, uint64_t seed, binding *b)
{
    uint64_t point;
    memset(b, 0, sizeof *b);
    numbers_fill(b->weights, seed);
    for (uint32_t i = 0; i < k->plan.abi.n_slot; i++)
        if (!cts_ok(c, cts_buffer_new(c, k->plan.abi.slot[i].bytes, &b->slot[i]), "buffer_new"))
            return false;
    return cts_ok(c, yk_put(c->t, c->dev->queue, b->slot[k->w], 0, b->weights, BYTES, &point), "queue_copy") &&
           cts_wait(c, c->dev->queue, point);
}

static void binding_free(cts *c, const chain *k, binding *b)
{
    for (uint32_t i = 0; i < k->plan.abi.n_slot; i++)
        if (b->slot[i])
            c->t->buffer_free(b->slot[i]);
}

static bool run_after(cts *c, const chain *k, yk_queue *q, binding *b, uint32_t n_wait, const yk_wait *wait, uint64_t *point)
{
    static lists l;
    const uint32_t n = k->plan.abi.n_slot;
    memcpy(l.slot, b->slot, n * sizeof *l.slot);
    memcpy(l.offset, b->offset, n * sizeof *l.offset);
    b->version[k->x]++;
    memcpy(l.version, b->version, n * sizeof *l.version);
    memcpy(l.wait, wait, n_wait * sizeof *wait);
    l.submit = (yk_submit){.size = sizeof l.submit,
                           .n_wait = n_wait,
                           .wait = l.wait,
                           .n_slot = n,
                           .program = k->program,
                           .slot = l.slot,
                           .slot_offset = l.offset,
                           .slot_version = l.version};
    const yk_status s = c->t->queue_run(q, &l.submit, point);
    memset(&l, 0xff, sizeof l);
    return cts_ok(c, s, "queue_run");
}

static bool run_now(cts *c, const chain *k, yk_queue *q, binding *b, uint64_t *point)
{
    return run_after(c, k, q, b, 0, &(yk_wait){NULL, 0}, point);
}

static bool copy_listed(cts *c, yk_queue *q, const yk_copy *copy, uint32_t n_wait, const yk_wait *wait, uint64_t *point)
{
    static lists l;
    memcpy(l.wait, wait, n_wait * sizeof *wait);
    l.copy = *copy;
    l.copy.size = sizeof l.copy;
    l.copy.n_wait = n_wait;
    l.copy.wait = l.wait;
    const yk_status s = c->t->queue_copy(q, &l.copy, point);
    memset(&l, 0xff, sizeof l);
    return cts_ok(c, s, "queue_copy");
}

/* A copy that waits for one point of another queue; none for a NULL queue. */
static bool copy_after(cts *c, yk_queue *q, yk_copy copy, yk_queue *other, uint64_t other_point, uint64_t *point)
{
    return copy_listed(c, q, &copy, other != NULL, &(yk_wait){other, other_point}, point);
}

/* A wrong order gives numbers of another input, so products of shorter operands may lose their share in each link. */
static bool result_right(cts *c, const float *got, const float *want, const char *what)
{
    const double share = 1e-4 + LINKS * yk__product_loss(&c->dev->caps);
    double most = 0;
    for (int i = 0; i < SIDE * SIDE; i++)
        if (fabs((double)want[i]) > most)
            most = fabs((double)want[i]);
    for (int i = 0; i < SIDE * SIDE; i++)
        if (!(fabs((double)got[i] - want[i]) <= share * most)) {
            cts_fail(c, "%s: element %d is %.8g, expected %.8g", what, i, got[i], want[i]);
            return false;
        }
    return true;
}

/* The common objects of these tests: a chain, two queues and one to wait for, two bindings, numbers. */
typedef struct scene {
    chain chain;
    yk_queue *q[QUEUES];
    binding b[2];
    float x[SIDE * SIDE], want[SIDE * SIDE], twice[SIDE * SIDE], got[SIDE * SIDE], zero[SIDE * SIDE];
} scene;

static void scene_close(cts *c, scene *s)
{
    for (int i = 0; i < QUEUES; i++)
        if (s->q[i])
            c->t->queue_free(s->q[i]);
    for (int i = 0; i < 2; i++)
        binding_free(c, &s->chain, &s->b[i]);
    chain_free(c, &s->chain);
    yk__free(s);
}

static scene *scene_open(cts *c)
{
    scene *s = yk__calloc(1, sizeof *s);
    if (!s)
        return cts_fail(c, "no memory for the test"), NULL;
    bool ok = chain_new(c, &s->chain) && binding_new(c, &s->chain, 99, &s->b[0]) && binding_new(c, &s->chain, 98, &s->b[1]);
    for (int i = 0; i < QUEUES && ok; i++)
        ok = cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &s->q[i]), "queue_new");
    if (ok)
        return s;
    scene_close(c, s);
    return NULL;
}

/* want: the first binding's result for x; twice: the second's result for that. */
static bool scene_numbers(cts *c, scene *s, uint64_t seed)
{
    numbers_fill(s->x, seed);
    return chain_reference(c, &s->chain, s->b[0].weights, s->x, s->want) &&
           chain_reference(c, &s->chain, s->b[1].weights, s->want, s->twice);
}

static bool put_x(cts *c, scene *s, int queue, int bound, uint64_t *point)
{
    return cts_ok(c, yk_put(c->t, s->q[queue], s->b[bound].slot[s->chain.x], 0, s->x, BYTES, point), "queue_copy");
}

/* The second queue runs on the first one's result, and the first one reads its result. */
static bool runs_wait_once(cts *c, scene *s, int first)
{
    yk_queue *a = s->q[first], *b = s->q[!first];
    const chain *k = &s->chain;
    uint64_t pa = 0, pb = 0, pc = 0;
    const yk_copy over = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst = s->b[1].slot[k->x], .bytes = BYTES};
    const yk_copy back = {.src = s->b[1].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    return put_x(c, s, first, 0, &pa) && run_now(c, k, a, &s->b[0], &pa) && copy_after(c, a, over, NULL, 0, &pa) &&
           run_after(c, k, b, &s->b[1], 1, &(yk_wait){a, pa}, &pb) && copy_after(c, a, back, b, pb, &pc) && cts_wait(c, a, pc) &&
           result_right(c, s->got, s->twice, "a run that waits for another queue's run, read by a copy that waits for it");
}

/* The copy between them is the second queue's. */
static bool copies_wait_once(cts *c, scene *s, int first)
{
    yk_queue *a = s->q[first], *b = s->q[!first];
    const chain *k = &s->chain;
    uint64_t pa = 0, pb = 0;
    const yk_copy back = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    return put_x(c, s, first, 0, &pa) && run_now(c, k, a, &s->b[0], &pa) && copy_after(c, b, back, a, pa, &pb) &&
           cts_wait(c, b, pb) && result_right(c, s->got, s->want, "a copy to the host that waits for another queue's run");
}

/* New input may not arrive before the run that reads the old one has ended. */
static bool overwrites_wait_once(cts *c, scene *s, int first)
{
    yk_queue *a = s->q[first], *b = s->q[!first];
    const chain *k = &s->chain;
    uint64_t pa = 0, pb = 0, pc = 0;
    const yk_copy zero = {.src_host = s->zero, .dst = s->b[0].slot[k->x], .bytes = BYTES};
    const yk_copy lost = {.src_host = s->zero, .dst = s->b[0].slot[k->y], .dst_offset = k->y_at, .bytes = BYTES};
    const yk_copy back = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    return put_x(c, s, first, 0, &pa) && copy_after(c, a, lost, NULL, 0, &pa) && run_now(c, k, a, &s->b[0], &pa) &&
           copy_after(c, b, zero, a, pa, &pb) && copy_after(c, a, back, b, pb, &pc) && cts_wait(c, a, pc) &&
           result_right(c, s->got, s->want, "a run whose input another queue overwrites once it is over");
}

/* A copy of 0 bytes waits as any other work does. A third queue makes it, so that no later work of the scene waits for it. */
static bool empty_copy_waits(cts *c, scene *s, yk_queue *a, uint64_t point)
{
    const yk_copy none = {.dst = s->b[0].slot[s->chain.x]};
    uint64_t behind = 0, done = 0;
    if (!copy_after(c, s->q[2], none, a, point, &behind) || !cts_wait(c, s->q[2], behind) ||
        !cts_ok(c, c->t->queue_poll(a, &done), "queue_poll"))
        return false;
    if (done < point)
        cts_fail(c, "a copy of 0 bytes that waits for point %llu of another queue is done, and that queue is at point %llu",
                 (unsigned long long)point, (unsigned long long)done);
    return done >= point;
}

/* Only the host waits here: a point that is done is done for every queue. */
static bool point_is_true_once(cts *c, scene *s, int first)
{
    yk_queue *a = s->q[first], *b = s->q[!first];
    const chain *k = &s->chain;
    uint64_t pa = 0, pb = 0;
    const yk_copy back = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    return put_x(c, s, first, 0, &pa) && run_now(c, k, a, &s->b[0], &pa) && empty_copy_waits(c, s, a, pa) && cts_wait(c, a, pa) &&
           copy_after(c, b, back, NULL, 0, &pb) && cts_wait(c, b, pb) &&
           result_right(c, s->got, s->want, "a result read by another queue when the run's point is done");
}

/* Runs on both queues, each with a copy of its result to its own place; all are compared once both are idle. */
static bool overlapped_results(cts *c, scene *s, int first, float *got)
{
    const chain *k = &s->chain;
    const float *want[2] = {s->want, s->twice};
    uint64_t point[2] = {0, 0};
    bool ok = true;
    for (int n = 0; n < 2 * BESIDE && ok; n++) {
        const int i = (n & 1) ^ first;
        ok = run_now(c, k, s->q[i], &s->b[i], &point[i]) &&
             cts_ok(c, yk_get(c->t, s->q[i], s->b[i].slot[k->y], k->y_at, got + n * SIDE * SIDE, BYTES, &point[i]), "queue_copy");
    }
    for (int i = 0; i < 2 && ok; i++)
        ok = cts_wait(c, s->q[i], point[i]);
    for (int n = 0; n < 2 * BESIDE && ok; n++)
        ok = result_right(c, got + n * SIDE * SIDE, want[(n & 1) ^ first], "one program on two queues at a time");
    return ok;
}

/* One program on two queues at a time, with two bindings, until both were surely at work together. */
static bool side_by_side_once(cts *c, scene *s, int first)
{
    const double until = yk__clock_seconds() + BESIDE_S;
    float *got = yk__malloc(2 * BESIDE * BYTES);
    uint64_t point[2] = {0, 0};
    if (!got)
        return cts_fail(c, "no memory for the test"), false;
    bool ok = put_x(c, s, 0, 0, &point[0]) &&
              cts_ok(c, yk_put(c->t, s->q[1], s->b[1].slot[s->chain.x], 0, s->want, BYTES, &point[1]), "queue_copy");
    for (bool again = ok; again && ok; again = yk__clock_seconds() < until)
        ok = overlapped_results(c, s, first, got);
    yk__free(got);
    return ok;
}

/* Points of the third queue that are done: what a list has beside its late point. */
static bool waits_fill(cts *c, scene *s, uint32_t n, yk_wait wait[WAITS])
{
    uint64_t point = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!cts_ok(c, yk_put(c->t, s->q[2], s->b[0].slot[s->chain.x], 0, NULL, 0, &point), "queue_copy of 0 bytes"))
            return false;
        wait[i] = (yk_wait){s->q[2], point};
    }
    return cts_wait(c, s->q[2], point);
}

/* The first queue's result goes to the second binding, whose run waits for it; then the other way: no read is too early. The list is
 * filled before the first queue starts: filling it takes as long as a run where cores are busy. */
static bool waits_all_once(cts *c, scene *s, int first, uint32_t n, bool late_first)
{
    yk_queue *a = s->q[first], *b = s->q[!first];
    const chain *k = &s->chain;
    const uint32_t late = late_first ? 0 : n - 1;
    uint64_t pa = 0, pb = 0, pc = 0;
    yk_wait wait[WAITS];
    char what[100];
    const yk_copy over = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst = s->b[1].slot[k->x], .bytes = BYTES};
    const yk_copy back = {.src = s->b[1].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    snprintf(what, sizeof what, "a run and a copy with %u waits, of which the %s one is late", n, late_first ? "first" : "last");
    if (!waits_fill(c, s, n, wait) || !put_x(c, s, first, 0, &pa) || !run_now(c, k, a, &s->b[0], &pa) ||
        !copy_after(c, a, over, NULL, 0, &pa))
        return false;
    wait[late] = (yk_wait){a, pa};
    if (!run_after(c, k, b, &s->b[1], n, wait, &pb))
        return false;
    wait[late] = (yk_wait){b, pb};
    wait[n - 1 - late] = (yk_wait){a, pa}; /* of its own queue, which it follows anyway */
    return copy_listed(c, a, &back, n, wait, &pc) && cts_wait(c, a, pc) && result_right(c, s->got, s->twice, what);
}

static bool waits_two_once(cts *c, scene *s, int first)
{
    return waits_all_once(c, s, first, 2, false) && waits_all_once(c, s, first, 2, true);
}

static bool waits_many_once(cts *c, scene *s, int first)
{
    return waits_all_once(c, s, first, WAITS, false) && waits_all_once(c, s, first, WAITS, true);
}

/* A slow device has as many rounds as a point may take time, and one at least. */
static void test_order(cts *c, const char *name, bool (*once)(cts *c, scene *s, int first))
{
    scene *s;
    if (!cts_begin(c, "%s", name))
        return;
    const double until = yk__clock_seconds() + (double)c->timeout_ns * 1e-9;
    s = scene_open(c);
    for (uint64_t round = 0; s && round < ROUNDS && !c->failed_now && (!round || yk__clock_seconds() < until); round++)
        if (scene_numbers(c, s, round + 1))
            once(c, s, round % 2);
    if (s)
        scene_close(c, s);
    cts_pass(c);
}

/* ---- Waiting from another thread ---- */

typedef struct waiter {
    cts *c;
    yk_queue *q;
    uint64_t point;
    yk_status status;
} waiter;

static void *waiter_main(void *arg)
{
    waiter *w = arg;
    w->status = w->c->t->queue_wait(w->q, w->point, w->c->timeout_ns);
    return NULL;
}

/* One thread waits while another submits. */
static void test_wait_any(cts *c)
{
    scene *s;
    uint64_t point = 0, done = 0;
    if (!cts_begin(c, "wait_from_another_thread"))
        return;
    s = scene_open(c);
    for (int round = 0; s && round < ROUNDS && !c->failed_now; round++) {
        pthread_t thread;
        waiter w = {.c = c, .q = s->q[0]};
        if (!put_x(c, s, 0, 0, &point) || !run_now(c, &s->chain, s->q[0], &s->b[0], &w.point))
            break;
        if (pthread_create(&thread, NULL, waiter_main, &w))
            break;
        for (int i = 0; i < 8 && put_x(c, s, 0, 0, &point); i++)
            ;
        cts_wait(c, s->q[0], point);
        pthread_join(thread, NULL);
        if (w.status || c->t->queue_poll(s->q[0], &done) || done < w.point)
            cts_fail(c, "a wait in another thread gives %s", yk__status_name(w.status));
    }
    if (s)
        scene_close(c, s);
    cts_pass(c);
}

/* ---- How long a wait takes ---- */

/* Number of runs in half a second: on a fast device more than it starts at once, on a slow one a few. */
static bool much_to_do(cts *c, scene *s, int most, int *runs)
{
    uint64_t point;
    double took = 0;
    for (int i = 0; i < 2; i++) { /* the first one may compile */
        const double began = yk__clock_seconds();
        if (!run_now(c, &s->chain, s->q[0], &s->b[0], &point) || !cts_wait(c, s->q[0], point))
            return false;
        took = yk__clock_seconds() - began;
    }
    *runs = took > 0.1 ? 5 : took > 0.5 / most ? (int)(0.5 / took) : most;
    return true;
}

/* Runs of the second binding keep the queue busy; then the first one's result, 0 until then, comes to the host. */
static bool late_result(cts *c, scene *s, int runs, uint64_t *point)
{
    const chain *k = &s->chain;
    const yk_copy lost = {.src_host = s->zero, .dst = s->b[0].slot[k->y], .dst_offset = k->y_at, .bytes = BYTES};
    const yk_copy back = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    memset(s->got, 0, sizeof s->got);
    bool ok = put_x(c, s, 0, 0, point) && put_x(c, s, 0, 1, point) && copy_after(c, s->q[0], lost, NULL, 0, point);
    for (int i = 0; i < runs && ok; i++)
        ok = run_now(c, k, s->q[0], &s->b[1], point);
    return ok && run_now(c, k, s->q[0], &s->b[0], point) && copy_after(c, s->q[0], back, NULL, 0, point);
}

/* A wait of a millisecond comes back in time, done or not. *over: it is done. */
static bool wait_slice(cts *c, scene *s, uint64_t point, uint64_t timeout_ns, bool *over)
{
    const yk_status st = c->t->queue_wait(s->q[0], point, timeout_ns);
    *over = st == YK_OK;
    if (st == YK_E_TIMEOUT)
        yk__plugin_message();
    return st == YK_E_TIMEOUT || cts_ok(c, st, "queue_wait");
}

/* The least of a few waits of a millisecond: on a busy machine a single one tells little. */
static bool wait_is_short(cts *c, scene *s, int runs, double *least)
{
    bool over = false, ok = true;
    *least = 1e9;
    for (int i = 0; i < 3 && ok && *least > 0.1; i++) {
        uint64_t point = 0;
        double began;
        ok = late_result(c, s, runs, &point) && wait_slice(c, s, point, 0, &over);
        if (ok && over)
            ok = result_right(c, s->got, s->want, "a copy to the host that a wait without time says is done");
        began = yk__clock_seconds();
        ok = ok && wait_slice(c, s, point, SLICE_NS, &over);
        *least = yk__clock_seconds() - began < *least ? yk__clock_seconds() - began : *least;
        while (ok && !over)
            ok = wait_slice(c, s, point, SLICE_NS, &over);
        ok = ok && result_right(c, s->got, s->want, "a copy to the host that a wait of 1 ms says is done");
        for (uint64_t timeout_ns = 0; ok && timeout_ns <= SLICE_NS; timeout_ns += SLICE_NS)
            ok = cts_ok(c, c->t->queue_wait(s->q[0], point, timeout_ns), "a short wait for a point that is done");
    }
    return ok;
}

static void test_wait_short(cts *c)
{
    scene *s;
    double least = 0;
    int runs = 0;
    if (!cts_begin(c, "wait_short"))
        return;
    s = scene_open(c);
    if (s && scene_numbers(c, s, 11) && put_x(c, s, 0, 0, &(uint64_t){0}) && much_to_do(c, s, 1000, &runs) &&
        wait_is_short(c, s, runs, &least) && least > 0.1)
        cts_fail(c, "a wait of 1 ms returned after %.2f s", least);
    if (s)
        scene_close(c, s);
    cts_pass(c);
}

/* A point that poll reports as done has its results, without a wait. */
static void test_poll(cts *c)
{
    scene *s;
    uint64_t point = 0, done = 0;
    int runs = 0;
    bool ok;
    if (!cts_begin(c, "poll_is_true"))
        return;
    s = scene_open(c);
    ok = s && scene_numbers(c, s, 12) && put_x(c, s, 0, 0, &point) && much_to_do(c, s, 30, &runs) && late_result(c, s, runs, &point);
    const double until = yk__clock_seconds() + (double)c->timeout_ns * 1e-9;
    while (ok && done < point && yk__clock_seconds() < until)
        if ((ok = cts_ok(c, c->t->queue_poll(s->q[0], &done), "queue_poll")) && done < point)
            usleep(500);
    if (ok && done < point)
        cts_fail(c, "poll never says that point %llu is done", (unsigned long long)point);
    else if (ok)
        result_right(c, s->got, s->want, "a copy to the host that poll says is done");
    if (s)
        scene_close(c, s);
    cts_pass(c);
}

/* ---- Two devices ---- */

/* Objects on the plugin's other device: a queue, a buffer, and bytes that pass through it. */
typedef struct neighbour {
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
    uint32_t number;
    float out[SIDE * SIDE];
} neighbour;

static bool neighbour_open(cts *c, neighbour *n)
{
    const yk_queue_desc queue = {.size = sizeof queue, .kind = YK_QUEUE_COMPUTE};
    const yk_buffer_desc buffer = {.size = sizeof buffer, .bytes = BYTES + BEHIND};
    numbers_fill(n->out, 77);
    return cts_ok(c, c->t->device_open(n->number, &n->dev), "device_open of another device") &&
           cts_ok(c, c->t->queue_new(n->dev, &queue, &n->q), "queue_new on another device") &&
           cts_ok(c, c->t->buffer_new(n->dev, &buffer, &n->b), "buffer_new on another device");
}

static void neighbour_close(cts *c, neighbour *n)
{
    if (n->q)
        c->t->queue_free(n->q);
    if (n->b)
        c->t->buffer_free(n->b);
    if (n->dev)
        c->t->device_close(n->dev);
}

/* Both devices write the same host memory, the other one after the run here. */
static bool devices_wait(cts *c, scene *s, neighbour *n)
{
    const chain *k = &s->chain;
    uint64_t here = 0, there = 0;
    const yk_copy back = {.src = s->b[0].slot[k->y], .src_offset = k->y_at, .dst_host = s->got, .bytes = BYTES};
    const yk_copy over = {.src = n->b, .dst_host = s->got, .bytes = BYTES};
    return cts_ok(c, yk_put(c->t, n->q, n->b, 0, n->out, BYTES, &there), "queue_copy") && cts_wait(c, n->q, there) &&
           put_x(c, s, 0, 0, &here) && run_now(c, k, s->q[0], &s->b[0], &here) &&
           copy_after(c, s->q[0], back, NULL, 0, &here) && copy_after(c, n->q, over, s->q[0], here, &there) &&
           cts_wait(c, n->q, there) && cts_wait(c, s->q[0], here) &&
           result_right(c, s->got, n->out, "a copy that waits for a queue of another device");
}

/* One queue copies between devices in two parts, and the other one waits for it; not every plugin supports that. */
static bool devices_copy(cts *c, scene *s, neighbour *n, bool pull)
{
    const chain *k = &s->chain;
    yk_queue *by = pull ? n->q : s->q[0];
    const yk_copy back = {.src = n->b, .src_offset = BEHIND, .dst_host = s->got, .bytes = BYTES};
    uint64_t here = 0, there = 0, made = 0;
    yk_status st = YK_OK;
    if (!put_x(c, s, 0, 0, &here) || !run_now(c, k, s->q[0], &s->b[0], &here))
        return false;
    for (uint64_t at = 0; at < BYTES && !st; at += BYTES / 2) {
        const yk_copy over = {.size = sizeof over, .n_wait = pull, .wait = &(yk_wait){s->q[0], here}, .src = s->b[0].slot[k->y],
                              .src_offset = k->y_at + at, .dst = n->b, .dst_offset = BEHIND + at, .bytes = BYTES / 2};
        st = c->t->queue_copy(by, &over, &made);
    }
    if (st == YK_E_UNSUPPORTED)
        return yk__plugin_message(), cts_wait(c, s->q[0], here);
    return cts_ok(c, st, "queue_copy to another device") && copy_after(c, n->q, back, by, made, &there) && cts_wait(c, n->q, there) &&
           cts_wait(c, s->q[0], pull ? here : made) && result_right(c, s->got, s->want, "a copy from one device to another");
}

static void test_devices(cts *c)
{
    neighbour n = {.number = 0};
    uint32_t devices = 0;
    scene *s;
    if (!cts_begin(c, "two_devices") || !cts_ok(c, c->t->device_count(&devices), "device_count"))
        return;
    if (devices < 2) {
        cts_unsupported(c, "it has one device");
        return;
    }
    n.number = (c->device + 1) % devices;
    s = scene_open(c);
    for (uint64_t round = 0; s && round < ROUNDS && !c->failed_now; round++)
        if ((round || neighbour_open(c, &n)) && scene_numbers(c, s, round + 1) && devices_wait(c, s, &n))
            devices_copy(c, s, &n, round % 2);
    neighbour_close(c, &n);
    if (s)
        scene_close(c, s);
    cts_pass(c);
}

/* ---- Abort ---- */

static void abort_check(cts *c, scene *s, const waiter *w)
{
    const yk_submit run = {.size = sizeof run, .n_slot = s->chain.plan.abi.n_slot, .program = s->chain.program, .slot = s->b[0].slot,
                           .slot_offset = s->b[0].offset, .slot_version = s->b[0].version};
    if (w->status != YK_OK && w->status != YK_E_DEVICE_LOST)
        cts_fail(c, "a wait under way gives %s, expected YK_E_DEVICE_LOST", yk__status_name(w->status));
    else
        cts_queue_refuses(c, s->q[0], YK_E_DEVICE_LOST, s->b[0].slot[s->chain.x], &run);
}

/* A busy queue is aborted while a thread waits; another queue continues. */
static void test_abort(cts *c)
{
    waiter w = {.c = c};
    scene *s;
    double began;
    pthread_t thread;
    int runs = 0;
    bool ok;
    if (!cts_begin(c, "abort"))
        return;
    if (!yk__plugin_aborts(c->dev->plugin)) {
        cts_unsupported(c, "queue_abort is not offered");
        return;
    }
    s = scene_open(c);
    ok = s && scene_numbers(c, s, 7) && put_x(c, s, 0, 0, &w.point) && much_to_do(c, s, 30, &runs);
    for (int i = 0; i < runs && ok; i++)
        ok = run_now(c, &s->chain, s->q[0], &s->b[0], &w.point);
    if (ok && (w.q = s->q[0], pthread_create(&thread, NULL, waiter_main, &w)) == 0) {
        began = yk__clock_seconds();
        c->t->queue_abort(w.q, YK_E_DEVICE_LOST); /* not what a plugin would say by itself */
        pthread_join(thread, NULL);
        if (yk__clock_seconds() - began > 1) /* 100 ms, on a busy machine too */
            cts_fail(c, "a wait returned %.1f s after queue_abort", yk__clock_seconds() - began);
        abort_check(c, s, &w);
        began = yk__clock_seconds();
        c->t->queue_free(s->q[0]);
        s->q[0] = NULL;
        if (yk__clock_seconds() - began > 4)
            cts_fail(c, "queue_free took %.1f s after queue_abort", yk__clock_seconds() - began);
        if (chain_reference(c, &s->chain, s->b[1].weights, s->x, s->want) && put_x(c, s, 1, 1, &w.point) &&
            run_now(c, &s->chain, s->q[1], &s->b[1], &w.point) &&
            cts_ok(c, yk_get(c->t, s->q[1], s->b[1].slot[s->chain.y], s->chain.y_at, s->got, BYTES, &w.point), "queue_copy") &&
            cts_wait(c, s->q[1], w.point))
            result_right(c, s->got, s->want, "a run of another queue than the aborted one");
    }
    if (s)
        scene_close(c, s);
    cts_pass(c);
}

/* ---- Spans ---- */

static void test_span(cts *c)
{
    uint64_t point = 0, begin[3], end[3], first = 0;
    bool known = true, ok;
    scene *s;
    if (!cts_begin(c, "span"))
        return;
    s = scene_open(c);
    ok = s && scene_numbers(c, s, 3) && put_x(c, s, 0, 0, &first);
    for (int i = 0; i < 2 && ok; i++)
        ok = run_now(c, &s->chain, s->q[0], &s->b[0], &point);
    ok = ok && cts_wait(c, s->q[0], point);
    for (uint32_t i = 0; i < 3 && ok && known; i++) {
        const yk_status st = c->t->queue_span(s->q[0], first + i, &begin[i], &end[i]);
        known = st != YK_E_UNSUPPORTED;
        ok = !known || cts_ok(c, st, "queue_span");
        if (ok && known && (end[i] < begin[i] || (i && begin[i] < end[i - 1])))
            cts_fail(c, "the work of point %llu is said to be from %llu to %llu ns, that of the point before ended at %llu",
                     (unsigned long long)(first + i), (unsigned long long)begin[i], (unsigned long long)end[i],
                     (unsigned long long)(i ? end[i - 1] : 0));
    }
    if (ok && known && c->t->queue_span(s->q[0], point + 1, begin, end) != YK_E_ARG)
        cts_fail(c, "the span of a point that is not done is not refused with YK_E_ARG");
    if (ok && known && end[1] == begin[1] && end[2] == begin[2])
        cts_fail(c, "two runs are said to have taken no time at all");
    if (s)
        scene_close(c, s);
    if (!known)
        cts_unsupported(c, "queue_span is not offered");
    else
        cts_pass(c);
}

/* ---- Copies ---- */

static void test_device_copy(cts *c)
{
    scene *s;
    uint64_t point = 0;
    if (!cts_begin(c, "copy_on_device"))
        return;
    s = scene_open(c);
    if (s) {
        yk_buffer *from = s->b[0].slot[s->chain.x], *to = s->b[1].slot[s->chain.w];
        const yk_copy over = {.size = sizeof over, .src = from, .src_offset = 4, .dst = to, .dst_offset = 12, .bytes = BYTES - 16};
        numbers_fill(s->x, 5);
        if (put_x(c, s, 0, 0, &point) && cts_ok(c, c->t->queue_copy(s->q[0], &over, &point), "queue_copy") &&
            cts_ok(c, yk_get(c->t, s->q[0], to, 12, s->got, BYTES - 16, &point), "queue_copy") && cts_wait(c, s->q[0], point) &&
            memcmp(s->got, s->x + 1, BYTES - 16))
            cts_fail(c, "bytes from one buffer to another arrive changed");
        scene_close(c, s);
    }
    cts_pass(c);
}

/* A queue of any kind and priority copies. */
static void test_copy_kinds(cts *c)
{
    static const char *const names[] = {"compute", "copy", "coll"};
    for (uint32_t kind = YK_QUEUE_COMPUTE; kind <= YK_QUEUE_COLL; kind++) {
        const yk_queue_desc desc = {.size = sizeof desc, .kind = kind, .priority = (int32_t)kind - 1};
        const char out[5] = "yoke";
        char in[5] = "";
        yk_queue *q = NULL;
        yk_buffer *b = NULL;
        uint64_t point = 0;
        if (!cts_begin(c, "kind.%s", names[kind]) || !cts_ok(c, c->t->queue_new(c->dev->handle, &desc, &q), "queue_new"))
            continue;
        if (cts_ok(c, cts_buffer_new(c, 5, &b), "buffer_new") && cts_ok(c, yk_put(c->t, q, b, 0, out, 5, &point), "queue_copy") &&
            cts_ok(c, yk_get(c->t, q, b, 0, in, 5, &point), "queue_copy") && cts_wait(c, q, point) && memcmp(in, out, 5))
            cts_fail(c, "what came back is not what was sent");
        if (b && cts_ok(c, yk_put(c->t, q, b, 5, NULL, 0, &point), "queue_copy of 0 bytes") && cts_wait(c, q, point) && point != 3)
            cts_fail(c, "a copy of 0 bytes gave point %llu, expected 3", (unsigned long long)point);
        if (b)
            c->t->buffer_free(b);
        c->t->queue_free(q);
        cts_pass(c);
    }
}

void cts_queue_order(cts *c)
{
    test_copy_kinds(c);
    test_device_copy(c);
    test_order(c, "run_after_run", runs_wait_once);
    test_order(c, "copy_after_run", copies_wait_once);
    test_order(c, "overwrite_after_run", overwrites_wait_once);
    test_order(c, "point_is_true", point_is_true_once);
    test_order(c, "side_by_side", side_by_side_once);
    test_order(c, "two_waits", waits_two_once);
    test_order(c, "many_waits", waits_many_once);
    test_wait_any(c);
    test_wait_short(c);
    test_poll(c);
    test_devices(c);
    test_abort(c);
    test_span(c);
}
