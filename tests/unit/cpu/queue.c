/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU plugin through its table: device, buffers, the in-order queue, errors; and the pool's phases. */
#define _GNU_SOURCE
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/exec/cpu_device.h"
#include "backends/cpu/exec/cpu_pace.h"
#include "backends/cpu/exec/migrate.h"
#include "backends/cpu/exec/steal.h"
#include "core/base/clock.h"
#include "plugins/kit/value.h"
#include "tests/support/cpu_kit.h"
#include "tests/support/run.h"

const yk_plugin *yk_plugin_query(uint32_t abi);

enum { PATIENCE = 60 }; /* seconds: of a machine on which all else failed */

static char said[512];
static const char *isa_wanted, *cores_wanted;

static void host_hear(const char *who, const char *fmt, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* several threads may be refused at once */
    (void)who;
    pthread_mutex_lock(&lock);
    snprintf(said, sizeof said, "%s", fmt);
    pthread_mutex_unlock(&lock);
}

static const char *host_option(const char *plugin, const char *key)
{
    (void)plugin;
    return !strcmp(key, "ISA") ? isa_wanted : !strcmp(key, "CORES") ? cores_wanted : NULL;
}

static const yk_plugin *open_plugin(void)
{
    static yk_host host;
    kit_host();
    host = *cpu_host;
    host.fail = host_hear;
    host.option = host_option;
    const yk_plugin *p = yk_plugin_query(YK_ABI);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(p->init(&host), YK_OK);
    return p;
}

/* z = x + y + x, n elements, as two nodes */
static kit *sum_graph(int64_t n, uint32_t v[4])
{
    kit *k = kit_new();
    static const int64_t none[1];
    for (int i = 0; i < 4; i++)
        v[i] = KIT(k, YK_F32, n);
    kit_node(k, YK_OP_ADD, KIT_IDS(v[0], v[1]), KIT_IDS(v[2]), none, 0);
    kit_node(k, YK_OP_ADD, KIT_IDS(v[2], v[0]), KIT_IDS(v[3]), none, 0);
    return k;
}

/* With a unit so small that all numbers are below the normal ones they count as zero. */
static void run_sums(const yk_plugin *p, yk_device *dev, int64_t n, int times, float unit)
{
    uint32_t v[4];
    kit *k = sum_graph(n, v);
    open_plugin();
    yk_buffer *b[4];
    yk_queue *q;
    yk_program *prog;
    uint64_t bytes = (uint64_t)n * 4, point = 0, last = 0, done = 0, offset[4] = {0}, version[4] = {0};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(p->buffer_new(dev, KIT_BYTES(bytes), &b[i]), YK_OK);
    ck_assert_int_eq(p->queue_new(dev, KIT_QUEUE, &q), YK_OK);
    ck_assert_int_eq(p->program_new(dev, &k->g, &prog), YK_OK);
    float *x = malloc(bytes), *y = malloc(bytes), *z = malloc(bytes);
    yk_submit s = {.size = sizeof s, .n_slot = 4, .program = prog, .slot = b, .slot_offset = offset,
                   .slot_version = version};
    for (int t = 0; t < times; t++) {
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)(i % 100 + t) * unit;
            y[i] = (float)(i % 7) * unit;
        }
        ck_assert_int_eq(yk_put(p, q, b[0], 0, x, bytes, &point), YK_OK);
        ck_assert_uint_eq(point, ++last);
        ck_assert_int_eq(yk_put(p, q, b[1], 0, y, bytes, &point), YK_OK);
        ck_assert_uint_eq(point, ++last);
        ck_assert_int_eq(p->queue_run(q, &s, &point), YK_OK);
        ck_assert_uint_eq(point, ++last);
        ck_assert_int_eq(yk_get(p, q, b[3], 0, z, bytes, &point), YK_OK);
        ck_assert_uint_eq(point, ++last);
        ck_assert_int_eq(p->queue_wait(q, point, UINT64_MAX), YK_OK);
        ck_assert_int_eq(p->queue_poll(q, &done), YK_OK);
        ck_assert_uint_eq(done, last);
        int64_t wrong = 0; /* an assertion for each element would take longer than all else */
        for (int64_t i = 0; i < n; i++)
            wrong += z[i] != (unit == 1 ? 2 * x[i] + y[i] : 0);
        ck_assert_int_eq(wrong, 0);
    }
    ck_assert_int_eq(p->queue_wait(q, last + 1, 2000000), YK_E_ARG);
    ck_assert_int_eq(yk_put(p, q, b[0], bytes, x, 4, &point), YK_E_ARG);
    for (int puts = 0; puts < 2; puts++) { /* no memory at one end */
        *said = 0;
        ck_assert_int_eq(puts ? yk_put(p, q, b[0], 0, NULL, 4, &point) : yk_get(p, q, b[0], 0, NULL, 4, &point), YK_E_ARG);
        ck_assert_msg(strstr(said, "got NULL"), "the plugin said '%s'", said);
    }
    p->queue_free(q);
    p->program_free(prog);
    for (int i = 0; i < 4; i++)
        p->buffer_free(b[i]);
    free(x), free(y), free(z);
    kit_free(k);
}

START_TEST(in_order)
{
    const yk_plugin *p = open_plugin();
    yk_device *dev;
    cores_wanted = isa_wanted = NULL;
    ck_assert_int_eq(p->device_open(0, &dev), YK_OK);
    run_sums(p, dev, 17, 300, 1);    /* in the caller */
    run_sums(p, dev, 300000, 40, 1); /* in the queue's thread, shared */
    p->device_close(dev);
}
END_TEST

START_TEST(denormals_are_zero)
{
    const yk_plugin *p = open_plugin();
    volatile float small = 0x1p-126f;
    yk_device *dev;
    cores_wanted = isa_wanted = NULL;
    ck_assert_int_eq(p->device_open(0, &dev), YK_OK);
    run_sums(p, dev, 17, 3, 0x1p-140f);
    run_sums(p, dev, 300000, 3, 0x1p-140f);
    p->device_close(dev);
    ck_assert(small * 0.5f > 0); /* the caller's own arithmetic is as it was */
}
END_TEST

static size_t allocated; /* in whole pages */

static void *count_alloc(size_t bytes, size_t align)
{
    allocated += align < 4096 ? 0 : bytes;
    return aligned_alloc(align, kit_round_bytes(bytes, align));
}

/* graph_scratch reports exactly the first run's allocation. */
START_TEST(scratch_is_reported)
{
    const yk_plugin *p = open_plugin();
    yk_host host = *cpu_host;
    yk_device *dev;
    yk_program *prog;
    yk_queue *q;
    uint64_t reported = 0, point, offset[3] = {0}, version[3] = {0};
    static const int64_t none[1];
    kit *k = kit_new();
    uint32_t a = KIT(k, YK_F32, 200, 400), b = KIT(k, YK_F32, 400, 300), c = KIT(k, YK_F32, 200, 300);
    yk_buffer *buffer[3];
    kit_node(k, YK_OP_DOT, KIT_IDS(a, b), KIT_IDS(c), none, 0);
    host.alloc = count_alloc;
    host.option = host_option;
    cores_wanted = isa_wanted = NULL;
    ck_assert_int_eq(p->init(&host), YK_OK);
    ck_assert_int_eq(p->device_open(0, &dev), YK_OK);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(p->buffer_new(dev, KIT_BYTES(k->slot[i].bytes), &buffer[i]), YK_OK);
    ck_assert_int_eq(p->queue_new(dev, KIT_QUEUE, &q), YK_OK);
    ck_assert_int_eq(p->program_new(dev, &k->g, &prog), YK_OK);
    ck_assert_int_eq(p->graph_scratch(dev, &k->g, &reported), YK_OK);
    const yk_submit s = {
        .size = sizeof s, .n_slot = 3, .program = prog, .slot = buffer, .slot_offset = offset, .slot_version = version};
    allocated = 0;
    for (int i = 0; i < 2; i++)
        ck_assert(p->queue_run(q, &s, &point) == YK_OK && p->queue_wait(q, point, UINT64_MAX) == YK_OK);
    ck_assert_uint_eq(allocated, reported);
    ck_assert_uint_ge(reported, 4 * 400 * 32); /* a panel at least */
    p->queue_free(q);
    p->program_free(prog);
    for (int i = 0; i < 3; i++)
        p->buffer_free(buffer[i]);
    p->device_close(dev);
    kit_free(k);
}
END_TEST

START_TEST(errors_are_named)
{
    const yk_plugin *p = open_plugin();
    yk_device *dev;
    yk_device_caps caps = {.size = sizeof caps};
    isa_wanted = "pentium";
    ck_assert_int_eq(p->device_open(0, &dev), YK_E_ARG);
    isa_wanted = "portable";
    cores_wanted = "0-x";
    ck_assert_int_eq(p->device_open(0, &dev), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(said, "CORES"));
    cores_wanted = "0";
    ck_assert_int_eq(p->device_caps(0, &caps), YK_OK);
    ck_assert_str_eq(caps.isa, "portable");
    ck_assert_str_eq(caps.locality, "cores:0");
    ck_assert_uint_eq(caps.units, 1);
    ck_assert_int_eq(p->device_caps(1, &caps), YK_E_ARG);
    ck_assert_ptr_null(yk_plugin_query(YK_ABI + 1));
    isa_wanted = cores_wanted = NULL;
}
END_TEST

START_TEST(unbound_slot)
{
    const yk_plugin *p = open_plugin();
    yk_device *dev;
    yk_queue *q;
    yk_program *prog;
    uint32_t v[4];
    kit *k = sum_graph(5, v);
    open_plugin();
    uint64_t point;
    yk_buffer *b[4] = {NULL, NULL, NULL, NULL};
    ck_assert_int_eq(p->device_open(0, &dev), YK_OK);
    ck_assert_int_eq(p->queue_new(dev, KIT_QUEUE, &q), YK_OK);
    ck_assert_int_eq(p->program_new(dev, &k->g, &prog), YK_OK);
    yk_submit s = {.size = sizeof s, .n_slot = 4, .program = prog, .slot = b};
    ck_assert_int_eq(p->queue_run(q, &s, &point), YK_E_ARG);
    p->program_free(prog);
    p->queue_free(q);
    p->device_close(dev);
    kit_free(k);
}
END_TEST

/* Several threads sleep for different points of one queue. A lost wake would cost one of them a second. */
enum { SLEEPERS = 3, NIGHTS = 100, JOBS = 24, JOB_BYTES = 128 << 10 };

typedef struct sleeper {
    const yk_plugin *p;
    yk_queue *q;
    uint64_t point;
    bool late, early;
} sleeper;

static void *sleep_for_point(void *arg)
{
    sleeper *s = arg;
    const double at = yk__clock_seconds();
    uint64_t done = 0;
    yk_status st;
    do
        st = s->p->queue_wait(s->q, s->point, UINT64_MAX);
    while (st == YK_E_ARG); /* not given out yet */
    s->early = st != YK_OK || s->p->queue_poll(s->q, &done) != YK_OK ||
               done < s->point;
    s->late = yk__clock_seconds() - at > 0.9;
    return NULL;
}

START_TEST(sleepers_are_woken)
{
    const yk_plugin *p = open_plugin();
    yk_device *dev;
    yk_queue *q;
    yk_buffer *b;
    uint64_t point = 0;
    int late = 0;
    char *from = calloc(JOB_BYTES, 1);
    cores_wanted = isa_wanted = NULL;
    ck_assert(p->device_open(0, &dev) == YK_OK && p->queue_new(dev, KIT_QUEUE, &q) == YK_OK &&
              p->buffer_new(dev, KIT_BYTES(JOB_BYTES), &b) == YK_OK);
    for (int night = 0; night < NIGHTS; night++) {
        sleeper s[SLEEPERS];
        pthread_t thread[SLEEPERS];
        for (int i = 0; i < SLEEPERS; i++) { /* the one who waits longest begins, or ends */
            const int place = night % 2 ? i : SLEEPERS - 1 - i;
            s[i] = (sleeper){p, q, point + JOBS / SLEEPERS * (1 + (uint64_t)place), false, false};
            ck_assert(!pthread_create(&thread[i], NULL, sleep_for_point, &s[i]));
        }
        for (int i = 0; i < JOBS; i++)
            ck_assert_int_eq(yk_put(p, q, b, 0, from, JOB_BYTES, &point), YK_OK);
        for (int i = 0; i < SLEEPERS; i++) {
            pthread_join(thread[i], NULL);
            ck_assert(!s[i].early);
            late += s[i].late;
        }
    }
    ck_assert_int_le(late, NIGHTS / 50); /* a busy machine may keep a thread from its core that long */
    p->queue_free(q);
    p->buffer_free(b);
    p->device_close(dev);
    free(from);
}
END_TEST

/* Phases of 1 to 40 pieces: each piece is done once, and all of them before the next phase. */
enum { PHASES = 3000, MOST = 40, WORKERS = 4 };

typedef struct phases {
    int at, pieces; /* of the current phase */
    double work;
    _Atomic int times[MOST];
    _Atomic int by[WORKERS]; /* pieces of each worker */
    bool wrong;
} phases;

static void phases_piece(void *arg, int worker, int piece, int pieces)
{
    phases *f = arg;
    if (pieces != f->pieces || piece >= pieces)
        f->wrong = true;
    else
        atomic_fetch_add(&f->times[piece], 1);
    atomic_fetch_add(&f->by[worker], 1);
}

static cpu_phase phases_next(void *arg, int worker)
{
    phases *f = arg;
    (void)worker;
    for (int i = 0; i < MOST; i++)
        f->wrong = f->wrong || atomic_exchange(&f->times[i], 0) != (i < f->pieces);
    f->pieces = ++f->at > PHASES ? 0 : 1 + f->at * 7 % MOST;
    return (cpu_phase){f->pieces, f->work};
}

static void phases_run(cpu_pool *pool, phases *f, double work, int workers)
{
    memset(f, 0, sizeof *f);
    f->work = work;
    cpu_pool_run(pool, &(cpu_work){phases_piece, phases_next, f}, workers);
    ck_assert(!f->wrong);
    ck_assert_int_eq(f->at, PHASES + 1);
    ck_assert_int_eq(f->pieces, 0);
}

START_TEST(phases_in_order)
{
    kit_host();
    for (int n = 1; n <= WORKERS; n++) {
        static const int cores[WORKERS] = {-1, -1, -1, -1};
        cpu_pool *pool = cpu_pool_new(cores, n);
        phases f;
        cpu_pool_measure(pool, 1.0);
        for (int i = 0; i < 3; i++)
            phases_run(pool, &f, 1e9, i == 1 ? (n + 1) / 2 : n);
        cpu_pool_free(pool);
    }
}
END_TEST

static int pieces_of_others(const phases *f)
{
    int pieces = 0;
    for (int i = 1; i < WORKERS; i++)
        pieces += f->by[i];
    return pieces;
}

/* Workers that sleep and are not worth waking are not waited for: worker 0 does all. On a busy machine workers fall asleep late. */
START_TEST(sleepers_are_not_waited_for)
{
    static const int cores[WORKERS] = {-1, -1, -1, -1};
    const struct timespec pause = {0, 50000000};
    const double end = yk__clock_seconds() + PATIENCE;
    kit_host();
    cpu_pool *pool = cpu_pool_new(cores, WORKERS);
    phases f;
    do {
        ck_assert_double_lt(yk__clock_seconds(), end);
        nanosleep(&pause, NULL);
        phases_run(pool, &f, 0.0, WORKERS);
    } while (pieces_of_others(&f));
    cpu_pool_free(pool);
}
END_TEST

/* Measured costs decide, and are within their limits on a busy machine too. */
START_TEST(costs_are_measured)
{
    static const int cores[WORKERS] = {-1, -1, -1, -1};
    kit_host();
    cpu_pool *pool = cpu_pool_new(cores, WORKERS);
    const cpu_costs guessed = cpu_pool_costs(pool);
    ck_assert(guessed.turn_ns == 0 && guessed.slowness == 1.0);
    cpu_pool_measure(pool, 2.5);
    const cpu_costs costs = cpu_pool_costs(pool);
    ck_assert(costs.turn_ns > 0 && costs.slowness == 2.5);
    ck_assert(costs.wake_ns >= 20000 && costs.wake_ns <= 200000);
    ck_assert(costs.share_ns >= CPU_SHARE_LEAST_NS && costs.share_ns <= 20000.0);
    cpu_pool_free(pool);
    ck_assert_double_gt(cpu_isa_slowness(&cpu_isa_portable), 0.1);
}
END_TEST

/* ---- Workers that lost their core ---- */

static cpu_set_t cores_of(int thread)
{
    cpu_set_t set;
    ck_assert_int_eq(sched_getaffinity(thread, sizeof set, &set), 0);
    return set;
}

typedef struct sitter {
    cpu_seat seat;
    pthread_barrier_t meet;
    cpu_set_t before, after;
} sitter;

static void *seat_hold(void *arg)
{
    sitter *s = arg;
    s->before = cores_of(0);
    cpu_seat_take(&s->seat);
    pthread_barrier_wait(&s->meet);
    pthread_barrier_wait(&s->meet); /* asleep here until it has been fetched */
    cpu_seat_return(&s->seat);
    s->after = cores_of(0);
    return NULL;
}

START_TEST(seats_are_fetched_and_return)
{
    sitter s = {0};
    pthread_t thread;
    ck_assert(!cpu_seat_stalled(&s.seat)); /* whose thread is not known */
    pthread_barrier_init(&s.meet, NULL, 2);
    ck_assert(!pthread_create(&thread, NULL, seat_hold, &s));
    pthread_barrier_wait(&s.meet);
    ck_assert(!cpu_seat_stalled(&s.seat)); /* not at work */
    atomic_store(&s.seat.holds_piece, true);
    for (const double end = yk__clock_seconds() + PATIENCE; !cpu_seat_stalled(&s.seat);)
        ck_assert_double_lt(yk__clock_seconds(), end);
    ck_assert(cpu_seat_fetch(&s.seat));
    ck_assert(!cpu_seat_fetch(&s.seat)); /* it is away */
    const cpu_set_t away = cores_of(atomic_load(&s.seat.thread));
    ck_assert_int_eq(CPU_COUNT(&away), 1);
    pthread_barrier_wait(&s.meet);
    pthread_join(thread, NULL);
    ck_assert(CPU_EQUAL(&s.before, &s.after));
    pthread_barrier_destroy(&s.meet);
}
END_TEST

/* Two pieces, one for each of two workers. Worker 1 begins each on its own core, and in every other phase sleeps until it is on the other's
 * core. */
typedef struct stall {
    int core[2], phase;
    _Atomic int begun; /* pieces of the phase */
    _Atomic int own, away; /* how often worker 1 was found on its own core, on the other one */
} stall;

static bool core_is(int core)
{
    const cpu_set_t at = cores_of(0);
    return CPU_COUNT(&at) == 1 && CPU_ISSET(core, &at);
}

static void stall_piece(void *arg, int worker, int piece, int pieces)
{
    stall *s = arg;
    const struct timespec nap = {0, 200000};
    const double end = yk__clock_seconds() + PATIENCE;
    bool away = false;
    (void)piece;
    if (worker)
        atomic_fetch_add(&s->own, core_is(s->core[1])); /* nobody waits for it yet */
    atomic_fetch_add(&s->begun, 1);
    while (atomic_load(&s->begun) < pieces && yk__clock_seconds() < end) /* so that each has one */
        sched_yield();
    while (worker && s->phase % 2 && !(away = core_is(s->core[0])) && yk__clock_seconds() < end)
        nanosleep(&nap, NULL);
    atomic_fetch_add(&s->away, away);
}

static cpu_phase stall_next(void *arg, int worker)
{
    stall *s = arg;
    (void)worker;
    atomic_store(&s->begun, 0);
    return (cpu_phase){++s->phase <= 4 ? 2 : 0, 1e9};
}

START_TEST(stalled_worker_is_fetched)
{
    cpu_set_t own = cores_of(0);
    stall s = {0};
    int n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &own))
            s.core[n++] = i;
    if (n < 2)
        return; /* one core: there is nowhere to go */
    kit_host();
    cpu_pool *pool = cpu_pool_new(s.core, 2);
    cpu_pool_bind(s.core[0]);
    cpu_pool_run(pool, &(cpu_work){stall_piece, stall_next, &s}, 2);
    ck_assert_int_eq(s.own, 4);
    ck_assert_int_eq(s.away, 2);
    cpu_pool_free(pool);
    sched_setaffinity(0, sizeof own, &own);
}
END_TEST

/* ---- How many workers ---- */

/* Runs on a machine on which n workers take cost[k] ns at level k; returns the loss against the best level, in runs. */
static double pace_lost(cpu_pace *p, int n, const double *cost, int runs, double best)
{
    double sum = 0.0;
    for (int i = 0; i < runs; i++) {
        const int workers = cpu_pace_workers(p, n);
        int level = 0;
        while (n >> level != workers)
            level++;
        sum += cost[level];
        cpu_pace_record(p, n, cost[level]);
    }
    return sum / best - runs;
}

START_TEST(pace_finds_the_best)
{
    static const double calm[] = {50, 100, 200}, busy[] = {300, 150, 200}, solo[] = {400, 300, 200};
    cpu_pace p = {0};
    ck_assert_int_eq(cpu_pace_workers(&p, 1), 1);
    ck_assert_double_lt(pace_lost(&p, 4, calm, 10000, 50), 40); /* two runs of a trial, ever more seldom */
    ck_assert_int_eq(p.level, 0);
    ck_assert_double_lt(pace_lost(&p, 4, busy, 400, 150), 60); /* cores are taken away: found within some runs */
    ck_assert_int_eq(p.level, 1);
    pace_lost(&p, 4, solo, 1500, 200);
    ck_assert_int_eq(p.level, 2);
    pace_lost(&p, 4, calm, 4000, 50); /* and back, when it is time for a trial */
    ck_assert_int_eq(p.level, 0);
    ck_assert_double_lt(pace_lost(&p, 4, calm, 10000, 50), 40);
}
END_TEST

/* Two workers that take 130, 130, 130 and 10 in turn are as fast as one that takes 100, but most steps are slower. */
START_TEST(pace_heeds_the_median)
{
    static const double two[] = {130, 130, 130, 10};
    cpu_pace p = {0};
    int single = 0;
    for (int i = 0, k = 0; i < 2000; i++) {
        const int workers = cpu_pace_workers(&p, 2);
        cpu_pace_record(&p, 2, workers == 2 ? two[k++ % 4] : 100.0);
        single += workers == 1;
    }
    ck_assert_int_eq(p.level, 1);
    ck_assert_int_gt(single, 1500);
}
END_TEST

/* Two workers on cores that somebody else computes on, and leaves: one worker may be faster then, or as fast as before. */
START_TEST(pace_takes_cores_back)
{
    static const double shared[] = {140, 100}, freed[] = {50, 95}, hardly[] = {110, 100};
    cpu_pace p = {0};
    pace_lost(&p, 2, shared, 10000, 100);
    ck_assert_int_eq(p.level, 1);
    ck_assert_double_lt(pace_lost(&p, 2, shared, 20000, 100), 0.008 * 20000);
    pace_lost(&p, 2, freed, 320, 50);
    ck_assert_int_eq(p.level, 0);
    pace_lost(&p, 2, hardly, 3000, 100);
    ck_assert_int_eq(p.level, 1);
    ck_assert_double_lt(pace_lost(&p, 2, hardly, 20000, 100), 0.008 * 20000);
    pace_lost(&p, 2, freed, 100, 50);
    ck_assert_int_eq(p.level, 0);
}
END_TEST

/* Pieces of phase after phase taken by all at once, as fast as can be: a worker that slept through phases takes none twice. */
enum { STEAL_PHASES = 20000, STEAL_PIECES = 7 };

typedef struct stealing {
    cpu_range range[WORKERS];
    _Atomic int left, times[STEAL_PHASES + 1];
} stealing;

typedef struct thief {
    stealing *s;
    int number;
} thief;

static void *steal_all(void *arg)
{
    const thief *t = arg;
    stealing *s = t->s;
    while (atomic_load(&s->left) >= 0) {
        int piece;
        if (!cpu_steal_next(s->range, WORKERS, t->number, &piece))
            continue;
        const uint64_t phase = atomic_load(&s->range[0].word) >> 24; /* does not end before this piece */
        atomic_fetch_add(&s->times[phase], 1 << 4 * piece);
        if (atomic_fetch_sub(&s->left, 1) != 1)
            continue;
        atomic_store(&s->left, phase == STEAL_PHASES ? -1 : STEAL_PIECES);
        if (phase < STEAL_PHASES)
            cpu_steal_begin(s->range, WORKERS, phase + 1, STEAL_PIECES);
    }
    return NULL;
}

START_TEST(every_piece_once)
{
    static stealing s;
    pthread_t thread[WORKERS];
    thief t[WORKERS];
    kit_host();
    s.left = STEAL_PIECES;
    cpu_steal_begin(s.range, WORKERS, 1, STEAL_PIECES);
    for (int i = 0; i < WORKERS; i++) {
        t[i] = (thief){&s, i};
        ck_assert(!pthread_create(&thread[i], NULL, steal_all, &t[i]));
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i <= STEAL_PHASES; i++)
        ck_assert_int_eq(s.times[i], 0x1111111);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 2 * PATIENCE); /* for a busy machine; none takes a second */
    tcase_add_test(t, in_order);
    tcase_add_test(t, denormals_are_zero);
    tcase_add_test(t, scratch_is_reported);
    tcase_add_test(t, errors_are_named);
    tcase_add_test(t, unbound_slot);
    tcase_add_test(t, sleepers_are_woken);
    tcase_add_test(t, phases_in_order);
    tcase_add_test(t, sleepers_are_not_waited_for);
    tcase_add_test(t, costs_are_measured);
    tcase_add_test(t, seats_are_fetched_and_return);
    tcase_add_test(t, stalled_worker_is_fetched);
    tcase_add_test(t, every_piece_once);
    tcase_add_test(t, pace_finds_the_best);
    tcase_add_test(t, pace_heeds_the_median);
    tcase_add_test(t, pace_takes_cores_back);
    return suite_run("cpu_queue all", t);
}
