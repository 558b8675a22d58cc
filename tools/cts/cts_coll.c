/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, groups extension and processes: collectives of yk.coll.1. main.c runs each group in a child process. Each test joins members,
 * threads of this process or processes of their own, and runs one kind of collective over many lengths, roots and places.
 *
 * Every element bears its member and its position, so that a wrong order, part or root shows. Expected are the sums of float64 and, of
 * elements that only move, their bits.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/cts_coll.h"

#define MOST 4u             /* members */
#define GUARD 64u           /* elements before and after a result that must not change, at least */
#define LONGEST 1048579u    /* elements of a sum over all: more than 4 MiB */
#define LONGEST_PART 262145u /* elements of one member's part: more than 1 MiB */
#define LONGEST_NARROW 4099u
#define PAIR_COUNT 1021u
#define PATTERN 0xa5
#define LATE_COUNT 1021u
#define LATE_BYTES (8u << 20) /* bytes of each copy in the late work */
#define LATE_COPIES 12
#define LATE_ROUNDS 6

static const char *const kind_names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};

/* One kind of collective, and the numbers it is run on. */
typedef struct coll_test {
    uint32_t kind, dtype, wire;
    bool late; /* its operands are written by another queue, for which it waits */
} coll_test;

/* One collective. */
typedef struct coll_step {
    uint32_t kind, dtype, wire, root, salt;
    uint64_t count;
    bool in_place, special; /* special: infinities and NaNs are among the numbers */
} coll_step;

typedef struct member {
    uint32_t rank, device;
    yk_status status;
    char why[300]; /* the plugin's words for status */
    char bad[300]; /* the first wrong element; "": none */
    uint64_t bits; /* hash of the results that every member has */
    atomic_uint meetings;
    atomic_bool joined; /* or failed to join */
    yk_status ended;    /* status of the wait for a cancelled collective */
} member;

/* Lies in memory that processes share. */
typedef struct coll_team {
    uint32_t ranks;
    coll_test test;
    bool aborts; /* the first member gives a sum up instead */
    atomic_int ticket_state; /* 0: not made yet; 1: made; -1: it could not be */
    uint32_t ticket_bytes;
    uint8_t ticket[256];
    member m[MOST];
} coll_team;

/* A plugin's answer about its collectives. */
typedef struct coll_info {
    uint32_t flags, devices;
    char name[2][64]; /* name of its island, asked in two processes */
} coll_info;

/* A member at work. */
typedef struct worker {
    cts *c;
    coll_team *team;
    member *own;
    const yk_plugin *t;
    const yk_coll *coll;
    yk_device *dev;
    yk_queue *q, *other;
    yk_buffer *a, *b; /* operands; results that are not in place */
    yk_comm *comm;
    uint8_t *in, *out; /* on the host */
    uint64_t bytes;
} worker;

/* ---- Numbers ---- */

static uint32_t number_mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du; /* a mixer of 32 bits by Wellons, 2018 */
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Element i of a member's operand: numbers of many magnitudes, so that a sum depends on its order; now and then -0. */
static double number_of(const coll_step *s, uint32_t rank, uint64_t i)
{
    const uint32_t h = number_mix((uint32_t)i * 2654435761u + rank * 0x9e3779b9u + s->salt);
    uint8_t element[8];
    if (s->special && i % 5 == rank)
        return i % 2 ? (double)NAN : (double)INFINITY;
    if (s->dtype == YK_I32)
        return (double)((int32_t)h >> 3);
    const double x = h % 61 ? (double)((int32_t)h >> 8) * (double)(1u << (h & 7)) * 0x1p-23 : -0.0;
    if (s->dtype == YK_F32)
        return x;
    yk__element_set(element, s->dtype, 0, x);
    return yk__element(element, s->dtype, 0);
}

/* The same as it travels. */
static double number_sent(const coll_step *s, uint32_t rank, uint64_t i)
{
    const double x = number_of(s, rank, i);
    uint8_t element[8];
    if (s->wire == s->dtype)
        return x;
    yk__element_set(element, s->wire, 0, x);
    return yk__element(element, s->wire, 0);
}

static uint64_t elements_in(const coll_step *s, uint32_t ranks)
{
    return s->count * (s->kind == YK_COLL_REDUCE_SCATTER ? ranks : 1);
}

static uint64_t elements_out(const coll_step *s, uint32_t ranks)
{
    return s->count * (s->kind == YK_COLL_ALL_GATHER ? ranks : 1);
}

/* ---- Checking ---- */

/* Compares with sums in any order of f32; for a narrower type or wire each sum of two may be rounded to it. */
static bool sum_matches(const coll_step *s, uint32_t ranks, uint64_t i, double got, double *want)
{
    const uint32_t narrow = s->wire != s->dtype ? s->wire : s->dtype;
    double sum = 0, abs_sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        const double x = number_sent(s, r, i);
        sum += x;
        abs_sum += fabs(x);
    }
    *want = sum;
    if (s->dtype == YK_I32 || !isfinite(sum))
        return got == sum || (isnan(got) && isnan(sum));
    double may = 0x1p-24 * abs_sum * (ranks - 1);
    if (narrow != YK_F32)
        may += cts_half_ulp(abs_sum, narrow) * (s->wire != s->dtype ? ranks - 1 : ranks > 2 ? ranks - 2 : 0);
    return cts_rounds_to(got, s->dtype, sum - may, sum + may);
}

static bool element_right(const worker *w, const coll_step *s, uint64_t i, double got, double *want)
{
    const uint32_t ranks = w->team->ranks;
    const bool gathers = s->kind == YK_COLL_ALL_GATHER;
    if (s->kind == YK_COLL_ALL_REDUCE)
        return sum_matches(s, ranks, i, got, want);
    if (s->kind == YK_COLL_REDUCE_SCATTER)
        return sum_matches(s, ranks, w->own->rank * s->count + i, got, want);
    *want = gathers ? number_sent(s, (uint32_t)(i / s->count), i % s->count) : number_sent(s, s->root, i);
    return got == *want && !signbit(got) == !signbit(*want);
}

static void result_check(worker *w, const coll_step *s, const uint8_t *result)
{
    const uint64_t n = elements_out(s, w->team->ranks);
    double want = 0;
    for (uint64_t i = 0; i < n && !*w->own->bad; i++) {
        const double got = yk__element(result, s->dtype, i);
        if (!element_right(w, s, i, got, &want))
            snprintf(w->own->bad, sizeof w->own->bad,
                     "yk.coll.1: %s over %u members%s: element %llu of %llu at member %u is %.9g, expected %.9g (%s, root %u)",
                     kind_names[s->kind], w->team->ranks, s->in_place ? " in place" : "", (unsigned long long)i, (unsigned long long)n,
                     w->own->rank, got, want, yk__dtype_name((yk_dtype)s->dtype), s->root);
    }
    if (s->kind != YK_COLL_REDUCE_SCATTER)
        for (uint64_t i = 0; i < n * yk_dtype_bytes((yk_dtype)s->dtype); i++)
            w->own->bits = w->own->bits * 1099511628211u + result[i]; /* FNV-1a's prime */
}

static void guard_check(worker *w, const coll_step *s, const uint8_t *at, uint64_t bytes, const char *where)
{
    for (uint64_t i = 0; i < bytes && !*w->own->bad; i++)
        if (at[i] != PATTERN)
            snprintf(w->own->bad, sizeof w->own->bad, "yk.coll.1: %s of %llu over %u members%s writes byte %llu %s its result",
                     kind_names[s->kind], (unsigned long long)s->count, w->team->ranks, s->in_place ? " in place" : "",
                     (unsigned long long)i, where);
}

/* ---- One collective ---- */

static yk_status put_operands(worker *w, const coll_step *s, uint64_t lead, uint64_t *point)
{
    const uint64_t size = yk_dtype_bytes((yk_dtype)s->dtype), n = elements_in(s, w->team->ranks), all = (n + lead + GUARD) * size;
    memset(w->in, PATTERN, all);
    for (uint64_t i = 0; i < n; i++)
        yk__element_set(w->in + lead * size, s->dtype, i, number_of(s, w->own->rank, i));
    return yk_put(w->t, w->q, w->a, 0, w->in, all, point);
}

/* Copies `all` elements around the result to the host and checks them. For parts in place the neighbours are undefined afterwards. */
static yk_status take_result(worker *w, const coll_step *s, yk_buffer *from, uint64_t at, uint64_t lead, uint64_t *point)
{
    const uint64_t size = yk_dtype_bytes((yk_dtype)s->dtype), n = elements_out(s, w->team->ranks), begin = (at - lead) * size;
    const uint64_t all = (lead + n + GUARD) * size;
    const bool has_guards = !s->in_place || s->kind != YK_COLL_REDUCE_SCATTER;
    yk_status st = yk_get(w->t, w->q, from, begin, w->out, all, point);
    if (!st)
        st = w->t->queue_wait(w->q, *point, w->c->timeout_ns);
    if (st)
        return st;
    result_check(w, s, w->out + lead * size);
    if (has_guards) {
        guard_check(w, s, w->out, lead * size, "before");
        guard_check(w, s, w->out + (lead + n) * size, GUARD * size, "behind");
    }
    return YK_OK;
}

static yk_status step_run(worker *w, const coll_step *s)
{
    const uint64_t size = yk_dtype_bytes((yk_dtype)s->dtype), lead = GUARD + s->count % 3;
    const uint64_t part = s->kind == YK_COLL_REDUCE_SCATTER && s->in_place ? w->own->rank * s->count : 0;
    uint64_t point = 0;
    const yk_coll_op op = {.size = sizeof op, .kind = s->kind, .dtype = s->dtype, .wire = s->wire, .root = s->root, .src = w->a,
                           .dst = s->in_place ? w->a : w->b, .src_offset = lead * size, .dst_offset = (lead + part) * size,
                           .count = s->count};
    yk_status st = put_operands(w, s, lead, &point);
    if (!st && !s->in_place) {
        memset(w->out, PATTERN, (elements_out(s, w->team->ranks) + lead + GUARD) * size);
        st = yk_put(w->t, w->q, w->b, 0, w->out, (elements_out(s, w->team->ranks) + lead + GUARD) * size, &point);
    }
    if (!st)
        st = w->coll->run(w->q, w->comm, &op, &point);
    if (!st)
        st = take_result(w, s, op.dst, lead + part, lead, &point);
    return st;
}

/* Lengths around each power of two, then long ones; 0: no more. */
static uint64_t count_at(const coll_test *test, uint32_t n)
{
    const uint64_t longest = test->kind == YK_COLL_REDUCE_SCATTER || test->kind == YK_COLL_ALL_GATHER ? LONGEST_PART : LONGEST;
    const uint32_t powers = test->dtype == YK_F32 && test->wire == YK_F32 ? 16 : 12;
    if (n < 3 * powers)
        return ((uint64_t)2 << n / 3) + n % 3 - 1;
    return n == 3 * powers && powers == 16 ? longest : 0;
}

/* The results of two collectives, and the guards around them, get their pattern. */
static yk_status pair_clear(worker *w, uint64_t bytes)
{
    uint64_t point = 0;
    memset(w->out, PATTERN, bytes);
    yk_status st = yk_put(w->t, w->q, w->b, 0, w->out, bytes, &point);
    if (!st)
        st = w->t->queue_wait(w->q, point, w->c->timeout_ns);
    return st;
}

/* Two collectives of the same operands, given at once, whose results lie side by side. */
static yk_status pair_run(worker *w, const coll_step *s)
{
    const uint64_t size = yk_dtype_bytes((yk_dtype)s->dtype), n = elements_out(s, w->team->ranks), at[2] = {GUARD, n + 2 * GUARD};
    uint64_t point = 0;
    yk_status st = put_operands(w, s, GUARD, &point);
    if (!st)
        st = w->t->queue_wait(w->q, point, w->c->timeout_ns);
    if (!st)
        st = pair_clear(w, (2 * n + 3 * GUARD) * size);
    for (int i = 0; i < 2 && !st; i++) {
        const yk_coll_op op = {.size = sizeof op, .kind = s->kind, .dtype = s->dtype, .wire = s->wire, .root = s->root, .src = w->a,
                               .dst = w->b, .src_offset = GUARD * size, .dst_offset = at[i] * size, .count = s->count};
        st = w->coll->run(w->q, w->comm, &op, &point);
    }
    for (int i = 0; i < 2 && !st; i++)
        st = take_result(w, s, w->b, at[i], GUARD, &point);
    return st;
}

/* Sums with infinities and NaNs, which tell that numbers passed a format's range; and two collectives in flight. */
static yk_status further_steps(worker *w)
{
    const coll_test *test = &w->team->test;
    const uint64_t bits = w->own->bits; /* a NaN has many */
    coll_step s = {.kind = test->kind, .dtype = test->dtype, .wire = test->wire, .salt = 12345, .count = PAIR_COUNT};
    yk_status st = pair_run(w, &s);
    s.special = true;
    if (!st && test->dtype == YK_F32 && test->wire == YK_F32 && test->kind <= YK_COLL_REDUCE_SCATTER)
        st = step_run(w, &s);
    w->own->bits = bits;
    return st;
}

static yk_status steps_run(worker *w)
{
    const coll_test *test = &w->team->test;
    const bool fixed = w->coll->flags & YK_COLL_FIXED_ORDER && test->kind == YK_COLL_ALL_REDUCE;
    yk_status st = YK_OK;
    for (uint32_t place = 0; place < (test->kind == YK_COLL_ALL_GATHER ? 1u : 2u) && !st; place++)
        for (uint32_t n = 0; count_at(test, n) && !st; n++) {
            const coll_step s = {.kind = test->kind, .dtype = test->dtype, .wire = test->wire, .root = n % w->team->ranks,
                                 .salt = n * 77 + place, .count = count_at(test, n), .in_place = place};
            w->own->bits = fixed ? w->own->bits : 0;
            st = step_run(w, &s);
        }
    if (!st)
        st = further_steps(w);
    return st;
}

/* ---- Waits ---- */

/* All members come here; false: one does not. */
static bool members_meet(worker *w)
{
    const unsigned number = atomic_fetch_add(&w->own->meetings, 1) + 1;
    const int64_t until = yk__clock_ns() + (int64_t)w->c->timeout_ns;
    for (uint32_t r = 0; r < w->team->ranks; r++)
        while (atomic_load(&w->team->m[r].meetings) < number) {
            if (yk__clock_ns() > until)
                return false;
            nanosleep(&(struct timespec){0, 20000}, NULL);
        }
    return true;
}

/* Another queue is busy with copies, then writes the operands; the collective names that point, and may not begin before. */
static yk_status late_round(worker *w, yk_buffer *large, const coll_step *s)
{
    const uint64_t bytes = s->count * sizeof(float);
    uint64_t point = 0, late = 0;
    coll_step old = *s;
    old.salt += 1000;
    yk_status st = put_operands(w, s, GUARD, &point); /* the operands are in a; earlier ones are in b, from which the collective reads */
    for (uint64_t i = 0; i < s->count; i++)
        yk__element_set(w->out, YK_F32, i, number_of(&old, w->own->rank, i));
    if (!st)
        st = yk_put(w->t, w->q, w->b, 0, w->out, bytes, &point);
    if (!st)
        st = w->t->queue_wait(w->q, point, w->c->timeout_ns);
    if (!st && !members_meet(w))
        return YK_E_TIMEOUT;
    const yk_copy busy = {.size = sizeof busy, .src = large, .src_offset = LATE_BYTES, .dst = large, .bytes = LATE_BYTES};
    const yk_copy over = {.size = sizeof over, .src = w->a, .src_offset = GUARD * sizeof(float), .dst = w->b, .bytes = bytes};
    for (int i = 0; i < LATE_COPIES && !st; i++)
        st = w->t->queue_copy(w->other, &busy, &late);
    if (!st)
        st = w->t->queue_copy(w->other, &over, &late);
    const yk_wait wait = {w->other, late};
    const yk_coll_op op = {.size = sizeof op, .kind = s->kind, .dtype = YK_F32, .wire = YK_F32, .n_wait = 1, .wait = &wait, .src = w->b,
                           .dst = w->b, .count = s->count};
    if (!st)
        st = w->coll->run(w->q, w->comm, &op, &point);
    if (!st)
        st = take_result(w, s, w->b, 0, 0, &point);
    if (!st)
        st = w->t->queue_wait(w->other, late, w->c->timeout_ns);
    return st;
}

static yk_status late_run(worker *w)
{
    const yk_buffer_desc desc = {.size = sizeof desc, .bytes = 2 * LATE_BYTES};
    yk_buffer *large = NULL;
    yk_status st = w->t->buffer_new(w->dev, &desc, &large);
    memset(w->out, PATTERN, w->bytes);
    if (!st)
        st = yk_put(w->t, w->q, w->b, 0, w->out, (LATE_COUNT + GUARD) * sizeof(float), &(uint64_t){0});
    for (uint32_t round = 0; round < LATE_ROUNDS && !st; round++) {
        const coll_step s = {.kind = YK_COLL_ALL_REDUCE, .dtype = YK_F32, .wire = YK_F32, .salt = round, .count = LATE_COUNT,
                             .in_place = true};
        st = late_round(w, large, &s);
    }
    if (large)
        w->t->buffer_free(large);
    return st;
}

/* ---- Members ---- */

static void ticket_make(worker *w)
{
    const yk_status st = w->coll->ticket(w->dev, w->team->ticket, &w->team->ticket_bytes);
    w->own->status = st;
    atomic_store(&w->team->ticket_state, st ? -1 : 1);
}

static yk_status ticket_take(const worker *w)
{
    for (uint64_t ns = 0; !atomic_load(&w->team->ticket_state) && ns < w->c->timeout_ns; ns += 100000)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    return atomic_load(&w->team->ticket_state) == 1 ? YK_OK : YK_E_CANCELLED;
}

/* Room for the longest step of the test, on the device and on the host. */
static uint64_t worker_bytes(const coll_team *team)
{
    const bool parts = team->test.kind == YK_COLL_REDUCE_SCATTER || team->test.kind == YK_COLL_ALL_GATHER;
    const bool narrow = team->test.dtype != YK_F32 || team->test.wire != YK_F32;
    const uint64_t n = narrow ? 2 * LONGEST_NARROW * MOST : parts ? (uint64_t)LONGEST_PART * team->ranks : LONGEST;
    return (n + 3 * GUARD) * sizeof(float);
}

static yk_status worker_open(worker *w)
{
    const yk_queue_desc queue = {.size = sizeof queue, .kind = YK_QUEUE_COLL}, other = {.size = sizeof other, .kind = YK_QUEUE_COPY};
    w->bytes = worker_bytes(w->team);
    const yk_buffer_desc buffer = {.size = sizeof buffer, .bytes = w->bytes};
    w->in = yk__calloc(1, w->bytes);
    w->out = yk__calloc(1, w->bytes);
    yk_status st = w->in && w->out ? w->t->device_open(w->own->device, &w->dev) : YK_E_MEM;
    if (!st)
        st = w->t->queue_new(w->dev, &queue, &w->q);
    if (!st)
        st = w->t->queue_new(w->dev, &other, &w->other);
    if (!st)
        st = w->t->buffer_new(w->dev, &buffer, &w->a);
    if (!st)
        st = w->t->buffer_new(w->dev, &buffer, &w->b);
    if (w->own->rank == 0 && !st)
        ticket_make(w);
    else if (w->own->rank == 0)
        atomic_store(&w->team->ticket_state, -1);
    if (!st)
        st = ticket_take(w);
    if (!st)
        st = w->coll->join(w->dev, w->team->ticket, w->team->ticket_bytes, w->own->rank, w->team->ranks, &w->comm);
    return st;
}

static void worker_close(worker *w)
{
    if (w->comm)
        w->coll->leave(w->comm);
    if (w->q)
        w->t->queue_free(w->q);
    if (w->other)
        w->t->queue_free(w->other);
    if (w->a)
        w->t->buffer_free(w->a);
    if (w->b)
        w->t->buffer_free(w->b);
    if (w->dev)
        w->t->device_close(w->dev);
    yk__free(w->in);
    yk__free(w->out);
}

/* The first member begins a sum that the second one does not come to, and gives it up once it knows that the second has joined. */
static yk_status sum_abort(worker *w)
{
    const yk_coll_op op = {.size = sizeof op, .kind = YK_COLL_ALL_REDUCE, .dtype = YK_F32, .wire = YK_F32, .src = w->a, .dst = w->a,
                           .count = 1000};
    const member *second = &w->team->m[1];
    uint64_t point = 0;
    if (w->own->rank)
        return YK_OK;
    const yk_status st = w->coll->run(w->q, w->comm, &op, &point);
    if (st)
        return st;
    for (uint64_t ns = 0; !atomic_load(&second->joined) && ns < w->c->timeout_ns; ns += 100000)
        nanosleep(&(struct timespec){0, 100000}, NULL);
    w->coll->abort(w->comm);
    w->own->ended = w->t->queue_wait(w->q, point, w->c->timeout_ns);
    return YK_OK;
}

/* A failing member releases the other ones. */
static void worker_run(worker *w)
{
    const coll_team *team = w->team;
    yk_status st = worker_open(w);
    atomic_store(&w->own->joined, true);
    if (!st)
        st = team->aborts ? sum_abort(w) : team->test.late ? late_run(w) : steps_run(w);
    w->own->status = st;
    if (st)
        snprintf(w->own->why, sizeof w->own->why, "%.290s", yk__plugin_message());
    if (st && w->comm && st != YK_E_UNSUPPORTED)
        w->coll->abort(w->comm);
}

/* ---- Threads and processes ---- */

static void *thread_main(void *arg)
{
    worker_run(arg);
    return NULL;
}

/* Members close once all are done, as an aborted one may hold another's memory. A sum without an end is abandoned. */
static void run_in_threads(cts *c, coll_team *team)
{
    pthread_t thread[MOST];
    worker w[MOST];
    uint32_t begun = 0;
    for (uint32_t r = 0; r < team->ranks; r++)
        w[r] = (worker){.c = c, .team = team, .own = &team->m[r], .t = c->t, .coll = c->t->extension(YK_EXT_COLL)};
    while (begun < team->ranks && !pthread_create(&thread[begun], NULL, thread_main, &w[begun]))
        begun++;
    for (uint32_t r = 0; r < begun; r++)
        pthread_join(thread[r], NULL);
    if (begun < team->ranks)
        cts_fail(c, "no thread for member %u", begun);
    for (uint32_t r = 0; r < begun && team->m[0].ended != YK_E_TIMEOUT; r++)
        worker_close(&w[r]);
}

static void process_main(cts *c, coll_team *team, uint32_t rank)
{
    yk__placement place = {.device = team->m[rank].device};
    yk_error err = YK_ERROR_INIT;
    yk__device *dev = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(place.plugin, sizeof place.plugin, "%s", c->path);
    if (yk__device_open(&place, &dev, &err)) {
        team->m[rank].status = err.status;
        snprintf(team->m[rank].why, sizeof team->m[rank].why, "%.290s", err.text);
        atomic_store(&team->ticket_state, -1);
        _exit(0);
    }
    worker w = {.c = c, .team = team, .own = &team->m[rank], .t = dev->table, .coll = dev->table->extension(YK_EXT_COLL)};
    worker_run(&w);
    worker_close(&w);
    _exit(0);
}

/* A member that dies ends the others, as they wait for it. */
static void run_in_processes(cts *c, coll_team *team)
{
    pid_t pid[MOST] = {0};
    int status = 0;
    for (uint32_t r = 0; r < team->ranks; r++) {
        pid[r] = fork();
        if (pid[r] == 0)
            process_main(c, team, r);
    }
    for (uint32_t left = team->ranks; left;) {
        const pid_t ended = waitpid(-1, &status, 0);
        uint32_t r = 0;
        while (r < team->ranks && pid[r] != ended)
            r++;
        if (r == team->ranks)
            continue;
        left--;
        pid[r] = 0;
        if (status == 0)
            continue;
        cts_fail(c, "member %u of %u ended by signal %d", r, team->ranks, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        for (uint32_t i = 0; i < team->ranks; i++)
            if (pid[i] > 0)
                kill(pid[i], SIGKILL);
    }
}

/* ---- Tests ---- */

static coll_team *team_new(cts *c, uint32_t ranks, const coll_test *test)
{
    coll_team *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED)
        return cts_fail(c, "no memory for the test"), NULL;
    t->ranks = ranks;
    t->test = *test;
    for (uint32_t r = 0; r < ranks; r++)
        t->m[r].rank = r;
    return t;
}

/* True if all members alike refuse an optional feature. */
static bool team_refuses(const coll_team *t)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        if (t->m[r].status != YK_E_UNSUPPORTED)
            return false;
    return true;
}

/* The core calls three kinds, of f32. */
static bool test_needed(const coll_test *test)
{
    return test->dtype == YK_F32 && test->wire == YK_F32 && test->kind != YK_COLL_ALL_GATHER;
}

static void team_check(cts *c, const coll_info *info, const coll_team *t)
{
    if (!test_needed(&t->test) && team_refuses(t)) {
        cts_unsupported(c, "%.200s", t->m[0].why);
        return;
    }
    for (uint32_t r = 0; r < t->ranks; r++)
        if (*t->m[r].bad) {
            cts_fail(c, "%s", t->m[r].bad);
            return;
        }
    for (uint32_t round = 0; round < 2; round++) /* the cause first, then its consequences */
        for (uint32_t r = 0; r < t->ranks; r++)
            if (t->m[r].status && (round || t->m[r].status != YK_E_CANCELLED)) {
                cts_fail(c, "member %u of %u: %s (%s)", r, t->ranks, t->m[r].why, yk__status_name(t->m[r].status));
                return;
            }
    for (uint32_t r = 1; r < t->ranks && info->flags & YK_COLL_FIXED_ORDER; r++)
        if (t->m[r].bits != t->m[0].bits)
            cts_fail(c, "yk.coll.1: %s over %u members: members 0 and %u have other bits, though sums have a fixed order "
                     "(YK_COLL_FIXED_ORDER)", kind_names[t->test.kind], t->ranks, r);
}

/* Gives members their devices, the first one that which is tested. False, and said: there are too few. */
static bool members_fit(cts *c, const coll_info *info, coll_team *team)
{
    const bool shared = !(info->flags & YK_COLL_ONE_PER_DEVICE);
    for (uint32_t r = 0; r < team->ranks; r++)
        team->m[r].device = shared || !info->devices ? c->device : (c->device + r) % info->devices;
    if (shared || team->ranks <= info->devices)
        return true;
    cts_unsupported(c, "a device is a member once, and there are %u", info->devices);
    return false;
}

/* processes: members are such; else threads of this one. */
static void test_coll(cts *c, const coll_info *info, uint32_t ranks, const coll_test *test, bool processes)
{
    char type[40] = "";
    if (test->dtype != YK_F32 || test->wire != YK_F32)
        snprintf(type, sizeof type, ".%s%s%s", yk__dtype_name((yk_dtype)test->dtype), test->wire == test->dtype ? "" : "_as_",
                 test->wire == test->dtype ? "" : yk__dtype_name((yk_dtype)test->wire));
    if (!cts_begin(c, "coll.%s.%u%s%s", kind_names[test->kind], ranks, type, test->late ? ".waits" : ""))
        return;
    coll_team *team = team_new(c, ranks, test);
    if (team && members_fit(c, info, team)) {
        if (processes)
            run_in_processes(c, team);
        else
            run_in_threads(c, team);
        team_check(c, info, team);
    }
    if (team)
        munmap(team, sizeof *team);
    cts_pass(c);
}

static void test_abort(cts *c, const coll_info *info)
{
    const coll_test test = {YK_COLL_ALL_REDUCE, YK_F32, YK_F32, false};
    if (!cts_begin(c, "coll.abort"))
        return;
    coll_team *team = team_new(c, 2, &test);
    if (team && members_fit(c, info, team)) {
        team->aborts = true;
        run_in_threads(c, team);
        team_check(c, info, team);
        if (!c->failed_now && (team->m[0].ended == YK_OK || team->m[0].ended == YK_E_TIMEOUT))
            cts_fail(c, "yk.coll.1: after abort the wait for a sum of one member of two gives %s, expected a failure",
                     yk__status_name(team->m[0].ended));
    }
    if (team)
        munmap(team, sizeof *team);
    cts_pass(c);
}

static const coll_test kinds[] = {
    {YK_COLL_ALL_REDUCE, YK_F32, YK_F32, false},
    {YK_COLL_REDUCE_SCATTER, YK_F32, YK_F32, false},
    {YK_COLL_BROADCAST, YK_F32, YK_F32, false},
    {YK_COLL_ALL_GATHER, YK_F32, YK_F32, false},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Kinds that a plugin may refuse, except the last, whose operands come late. */
static const coll_test types[] = {
    {YK_COLL_ALL_REDUCE, YK_I32, YK_I32, false},  {YK_COLL_ALL_REDUCE, YK_BF16, YK_BF16, false},
    {YK_COLL_ALL_REDUCE, YK_F16, YK_F16, false},  {YK_COLL_BROADCAST, YK_BF16, YK_BF16, false},
    {YK_COLL_ALL_REDUCE, YK_F32, YK_BF16, false}, {YK_COLL_ALL_REDUCE, YK_F32, YK_F16, false},
    {YK_COLL_ALL_GATHER, YK_F32, YK_BF16, false}, {YK_COLL_ALL_REDUCE, YK_F32, YK_F32, true},
};

void cts_coll(cts *c, const yk_coll *coll)
{
    coll_info info = {.flags = coll->flags};
    if (c->t->device_count(&info.devices))
        info.devices = 0;
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        for (size_t i = 0; i < KINDS; i++)
            test_coll(c, &info, ranks, &kinds[i], false);
        for (size_t i = 0; i < sizeof types / sizeof *types && ranks % 2 == 0; i++)
            test_coll(c, &info, ranks, &types[i], false);
    }
    test_abort(c, &info);
}

/* ---- Group processes ---- */

/* Asks the plugin in a separate process, as forked children of a test must not find it in use. name: of the island. */
static void info_ask(cts *c, coll_info *info, uint32_t number)
{
    yk__placement place = {.device = c->device};
    yk_error err = YK_ERROR_INIT;
    const yk_coll *coll;
    snprintf(place.plugin, sizeof place.plugin, "%s", c->path);
    if (yk__device_open(&place, &c->dev, &err))
        _exit(1);
    coll = c->dev->table->extension(YK_EXT_COLL);
    if (coll && !coll->island(c->dev->handle, info->name[number]))
        info->flags = coll->flags;
    c->dev->table->device_count(&info->devices);
    _exit(0);
}

void cts_group_processes(cts *c)
{
    coll_info *info = mmap(NULL, sizeof *info, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (info == MAP_FAILED)
        return;
    for (uint32_t i = 0; i < 2; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            info_ask(c, info, i);
        if (pid > 0)
            waitpid(pid, &status, 0);
    }
    if (!*info->name[0] || strcmp(info->name[0], info->name[1])) {
        if (cts_begin(c, "coll"))
            cts_unsupported(c, "devices of several processes are not joined by %s", YK_EXT_COLL);
    } else {
        for (uint32_t ranks = 2; ranks <= MOST; ranks++)
            for (size_t i = 0; i < KINDS; i++)
                test_coll(c, info, ranks, &kinds[i], true);
    }
    munmap(info, sizeof *info);
}
