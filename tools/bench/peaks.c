/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `yoke bench peaks`: the processor's highest rates of arithmetic and memory. Threads bound to cores run a loop for as long as it takes to
 * be measured; the best and the median of several rounds count. cmd_bench.c (tools/cmd) calls bench_peaks in the main thread.
 */
#define _GNU_SOURCE
#include "tools/bench/peaks.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/bench/peak_loops.h"
#include "tools/train/train.h"

/* A measurement is the best and the median of ROUNDS short runs: neighbours and clock changes only ever make one slower. */
enum { ROUNDS = 21, MOST_THREADS = 1024 };
#define RUN_SECONDS 0.002

typedef struct task { /* one thread's work, and its times */
    const peaks_math *math;
    const peaks_memory *memory;
    uint64_t iterations;
    char *to, *from;
    size_t bytes;
    double begin, end;
    int core;
    atomic_int *ready, *go;
} task;

typedef struct rate { /* in units a second */
    double best, median;
} rate;

static void task_work(const task *t)
{
    if (t->math)
        t->math->run(t->iterations);
    for (uint64_t i = 0; t->memory && i < t->iterations; i++)
        t->memory->run(t->to, t->from, t->bytes);
}

static void *task_thread(void *p)
{
    task *t = p;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)t->core, &set);
    sched_setaffinity(0, sizeof set, &set); /* refused: it runs where the system puts it */
    if (t->math && t->math->begin)
        t->math->begin();
    atomic_fetch_add(t->ready, 1);
    while (!atomic_load(t->go))
        sched_yield();
    t->begin = train_seconds();
    task_work(t);
    t->end = train_seconds();
    if (t->math && t->math->end)
        t->math->end();
    return NULL;
}

static double tasks_span(const task *t, int n)
{
    double begin = t[0].begin, end = t[0].end;
    for (int i = 1; i < n; i++) {
        begin = t[i].begin < begin ? t[i].begin : begin;
        end = t[i].end > end ? t[i].end : end;
    }
    return end - begin;
}

/* All tasks at once, each on its thread; seconds from the first begin to the last end. 0: no threads to be had. */
static double run_all(task *t, int n)
{
    pthread_t id[MOST_THREADS];
    atomic_int ready = 0, go = 0;
    int made = 0;
    for (; made < n; made++) {
        t[made].ready = &ready;
        t[made].go = &go;
        if (pthread_create(&id[made], NULL, task_thread, &t[made]))
            break;
    }
    while (atomic_load(&ready) < made)
        sched_yield();
    atomic_store(&go, 1);
    for (int i = 0; i < made; i++)
        pthread_join(id[i], NULL);
    return made == n ? tasks_span(t, n) : 0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* units: work of one iteration of one task. */
static rate rate_measure(task *t, int n, int rounds, double units)
{
    double seconds[64];
    for (int i = 0; i < rounds; i++)
        seconds[i] = run_all(t, n);
    qsort(seconds, (size_t)rounds, sizeof seconds[0], by_size);
    units *= (double)t[0].iterations * n;
    if (!(seconds[0] > 0))
        return (rate){0, 0};
    return (rate){units / seconds[0], units / seconds[rounds / 2]};
}

/* Turns that take about RUN_SECONDS on one thread. */
static uint64_t task_calibrate(task *t)
{
    for (t->iterations = 1; t->iterations < (uint64_t)1 << 40; t->iterations *= 4) {
        const double s = run_all(t, 1);
        if (!(s > 0))
            break;
        if (s > RUN_SECONDS / 4)
            return (uint64_t)((double)t->iterations * RUN_SECONDS / s) + 1;
    }
    return 1;
}

typedef struct machine {
    int core[MOST_THREADS], cores;
    size_t l2, l3, dram; /* bytes of a buffer that fits half of the cache, or no cache */
    char *buffer;        /* 2 * dram */
} machine;

/* -1 for a name that no C library knows. musl has none for caches. */
#ifdef _SC_LEVEL2_CACHE_SIZE
enum { LEVEL2 = _SC_LEVEL2_CACHE_SIZE, LEVEL3 = _SC_LEVEL3_CACHE_SIZE };
#else
enum { LEVEL2 = -1, LEVEL3 = -1 };
#endif

static size_t cache_size(int name, size_t preset)
{
    const long n = sysconf(name);
    return n > 0 ? (size_t)n : preset;
}

static bool machine_read(machine *m)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE && m->cores < MOST_THREADS; i++)
        if (CPU_ISSET((size_t)i, &set))
            m->core[m->cores++] = i;
    m->l2 = cache_size(LEVEL2, (size_t)1 << 20);
    m->l3 = cache_size(LEVEL3, (size_t)16 << 20);
    m->dram = 2 * m->l3; /* two such buffers: four times the cache */
    m->dram = m->dram < (size_t)32 << 20 ? (size_t)32 << 20 : m->dram > (size_t)256 << 20 ? (size_t)256 << 20 : m->dram;
    m->buffer = mmap(NULL, 2 * m->dram, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->buffer == MAP_FAILED || !m->cores) {
        fprintf(stderr, "yoke bench: peaks needs %zu MiB of memory and a core to run on\n", 2 * m->dram >> 20);
        return false;
    }
    madvise(m->buffer, 2 * m->dram, MADV_HUGEPAGE);
    memset(m->buffer, 1, 2 * m->dram);
    return true;
}

static void on_cores(const machine *m, task *t, int n)
{
    for (int i = 0; i < n; i++) {
        t[i] = t[0];
        t[i].core = m->core[i];
    }
}

typedef struct report { /* printed rows: one thread's, and all threads' */
    bool json;
    int rows;
    int threads[2], counts;
} report;

static void rate_show(report *r, const char *group, const char *name, const char *isa, const rate *v)
{
    if (r->json)
        printf("%s{\"what\": \"%s\", \"name\": \"%s\", \"isa\": \"%s\", \"giga\": {", r->rows ? ", " : "", group, name, isa);
    else
        printf("%-12s %-10s %-18s", group, name, isa);
    for (int i = 0; i < r->counts; i++)
        printf(r->json ? "%s\"%d\": {\"best\": %.6g, \"median\": %.6g}" : "%s%4d: %8.1f /%8.1f", i && r->json ? ", " : "",
               r->threads[i], v[i].best * 1e-9, v[i].median * 1e-9);
    printf(r->json ? "}}" : "\n");
    r->rows++;
}

static void math_report(const machine *m, report *r)
{
    peaks_math list[PEAKS_MOST];
    const int n = peaks_math_list(list);
    task t[MOST_THREADS];
    for (int k = 0; k < n; k++) {
        rate v[2];
        memset(&t[0], 0, sizeof t[0]);
        t[0].math = &list[k];
        on_cores(m, t, 1);
        t[0].iterations = task_calibrate(t);
        for (int i = 0; i < r->counts; i++) {
            on_cores(m, t, r->threads[i]);
            v[i] = rate_measure(t, r->threads[i], ROUNDS, list[k].ops);
        }
        rate_show(r, "math", list[k].format, list[k].isa, v);
    }
}

/* Each thread has its own part of the two buffers; in the cache levels each part fills half of what a thread has. */
static void memory_place(const machine *m, task *t, int n, const char *level)
{
    const size_t most = m->dram / (size_t)n;
    const size_t want = !strcmp(level, "l2") ? m->l2 / 4 : !strcmp(level, "l3") ? m->l3 / 4 / (size_t)m->cores : most;
    const size_t share = want < most ? want : most;
    on_cores(m, t, n);
    for (int i = 0; i < n; i++) {
        t[i].bytes = share / PEAKS_LINE * PEAKS_LINE;
        t[i].from = m->buffer + (size_t)i * t[i].bytes;
        t[i].to = m->buffer + m->dram + (size_t)i * t[i].bytes;
    }
}

static void memory_report(const machine *m, report *r, const char *level)
{
    peaks_memory list[PEAKS_MOST];
    const int n = peaks_memory_list(list);
    const bool dram = !strcmp(level, "dram");
    task t[MOST_THREADS];
    for (int k = 0; k < n; k++) {
        rate v[2];
        if (!dram && strstr(list[k].what, "_nt"))
            continue; /* past the caches they are no cache's peak */
        memset(&t[0], 0, sizeof t[0]);
        t[0].memory = &list[k];
        for (int i = 0; i < r->counts; i++) {
            memory_place(m, t, 1, level);
            t[0].iterations = dram ? 1 : task_calibrate(t);
            memory_place(m, t, r->threads[i], level);
            v[i] = rate_measure(t, r->threads[i], dram ? 7 : ROUNDS, (double)list[k].bytes * (double)t[0].bytes);
        }
        rate_show(r, level, list[k].what, "", v);
    }
}

int bench_peaks(const yk__cli *cli)
{
    machine m = {.cores = 0};
    report r = {.json = yk__cli_on(cli, "json")};
    if (!machine_read(&m))
        return YK_EXIT_FAILED;
    r.threads[r.counts++] = 1;
    if (m.cores > 1)
        r.threads[r.counts++] = m.cores;
    printf(r.json ? "{\"peaks\": [" : "billions of operations or bytes a second, best / median; threads: 1 and all\n");
    math_report(&m, &r);
    memory_report(&m, &r, "l2");
    memory_report(&m, &r, "l3");
    memory_report(&m, &r, "dram");
    printf(r.json ? "]}\n" : "");
    munmap(m.buffer, 2 * m.dram);
    return YK_EXIT_OK;
}
