/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, group leak: repeats one action; the process's holdings (memory, descriptors, threads) may not grow in every part of the rounds.
 * main.c runs the group in a child process. tr_memory.c counts a transport's holdings with it, in a test rank.
 *
 * A filling cache grows in some parts and then stops; a leak grows in all parts. Memory in drivers' own threads counts too.
 */
#include "config.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define PARTS 8          /* the first does not count; the first without growth is the last */
#define ROUNDS 40        /* in a part */
#define RUNS 300         /* the same for runs: rings of some hundred places fill up in the first part */
#define LEAST_BYTES 24   /* bytes of a round: a lost object has at least so many, a part's noise has less */
#define LEAST_PAGES 8    /* 32 KiB of a round */

/* A sanitizer's counter; absent elsewhere. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static int64_t bytes_held(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return (int64_t)__sanitizer_get_current_allocated_bytes();
#if defined __GLIBC__ && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
#else
    return 0;
#endif
}

static int64_t entries_of(const char *folder)
{
    DIR *d = opendir(folder);
    int64_t n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* 0 under a sanitizer, which does not return freed pages. */
static int64_t pages_held(void)
{
    long pages = 0;
    FILE *f = __sanitizer_get_current_allocated_bytes ? NULL : fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages;
}

static int64_t memory_free(const cts *c)
{
    yk_device_caps k = {.size = sizeof k};
    return c->t->device_caps(c->device, &k) ? 0 : (int64_t)k.mem_free;
}

/* True if the reported free memory changes only with the device's own buffers: some come and go without another change. */
static bool memory_is_own(const cts *c)
{
    const int64_t before = memory_free(c);
    bool own = before > 0;
    for (int64_t mib = 1; mib < 64 && own; mib *= 3) {
        const yk_buffer_desc desc = {.size = sizeof desc, .bytes = (uint64_t)mib << 20};
        yk_buffer *b = NULL;
        if (c->t->buffer_new(c->dev->handle, &desc, &b))
            return false;
        const int64_t took = before - memory_free(c);
        c->t->buffer_free(b);
        own = took >= mib << 20 && took <= (mib + 1) << 20 && memory_free(c) == before;
    }
    return own;
}

static bool counts_device;

/* A device's own memory. Host memory is shared with every process, so it is not counted. */
static int64_t device_held(const cts *c)
{
    return counts_device ? -memory_free(c) : 0;
}

cts_held cts_held_now(const cts *c)
{
    return (cts_held){bytes_held(), pages_held(), entries_of("/proc/self/fd"), entries_of("/proc/self/task"), device_held(c)};
}

cts_grown cts_held_grown(const cts_held *before, const cts_held *now, uint32_t rounds)
{
    return (cts_grown){
        .threads = now->threads - before->threads >= rounds / 2,
        .files = now->files - before->files >= rounds / 2,
        .bytes = now->bytes - before->bytes >= rounds * LEAST_BYTES,
        .pages = now->pages - before->pages >= rounds * LEAST_PAGES,
        .device = now->device - before->device >= rounds * 4096,
    };
}

static void fail_grown(cts *c, cts_grown g, const cts_held *first, const cts_held *last, double rounds)
{
    if (g.threads)
        cts_fail(c, "it keeps %.2f threads each time", (double)(last->threads - first->threads) / rounds);
    else if (g.files)
        cts_fail(c, "it keeps %.2f open files each time", (double)(last->files - first->files) / rounds);
    else if (g.bytes)
        cts_fail(c, "it keeps %.1f bytes each time", (double)(last->bytes - first->bytes) / rounds);
    else if (g.pages)
        cts_fail(c, "it keeps %.0f KiB of mapped memory each time", (double)(last->pages - first->pages) * 4 / rounds);
    else if (g.device)
        cts_fail(c, "it keeps %.0f KiB of the device's memory each time", (double)(last->device - first->device) / (1024 * rounds));
}

/* Calls part(arg), which acts `rounds` times, until nothing has grown in all parts so far: false. */
static bool grows_in_parts(cts *c, uint32_t rounds, void (*part)(cts *c, void *arg), void *arg, cts_grown *all, cts_held *first,
                           cts_held *last)
{
    *all = (cts_grown){true, true, true, true, true};
    part(c, arg);
    *last = *first = cts_held_now(c);
    for (int i = 1; i < PARTS && !c->failed_now; i++) {
        part(c, arg);
        const cts_held now = cts_held_now(c);
        const cts_grown g = cts_held_grown(last, &now, rounds);
        *all = (cts_grown){all->threads && g.threads, all->files && g.files, all->bytes && g.bytes, all->pages && g.pages,
                           all->device && g.device};
        if (!all->threads && !all->files && !all->bytes && !all->pages && !all->device)
            return false;
        *last = now;
    }
    return !c->failed_now;
}

/* Repeats a failure, as a leak leaks again; a driver's caches may grow through all parts once, on a busy machine. */
static void measure_parts(cts *c, uint32_t rounds, void (*part)(cts *c, void *arg), void *arg)
{
    cts_grown all;
    cts_held first, last;
    if (grows_in_parts(c, rounds, part, arg, &all, &first, &last) && grows_in_parts(c, rounds, part, arg, &all, &first, &last))
        fail_grown(c, all, &first, &last, (PARTS - 1.0) * rounds);
}

typedef struct thing {
    bool (*once)(cts *c, cts_check *k);
    cts_check *k;
} thing;

static void do_thing(cts *c, void *arg)
{
    const thing *t = arg;
    for (int i = 0; i < ROUNDS && !c->failed_now; i++)
        t->once(c, t->k);
}

static void test_leak(cts *c, const char *name, bool (*once)(cts *c, cts_check *k), cts_check *k)
{
    thing t = {once, k};
    if (!cts_begin(c, "%s", name))
        return;
    measure_parts(c, ROUNDS, do_thing, &t);
    cts_pass(c);
}

/* Runs the test if the device has the feature. */
static void test_leak_if(cts *c, const char *name, bool offered, const char *lacks, bool (*once)(cts *c, cts_check *k))
{
    if (offered)
        test_leak(c, name, once, NULL);
    else if (cts_begin(c, "%s", name))
        cts_unsupported(c, "%s", lacks);
}

static bool open_once(cts *c, cts_check *k)
{
    yk_device *dev = NULL;
    (void)k;
    if (!cts_ok(c, c->t->device_open(c->device, &dev), "device_open"))
        return false;
    c->t->device_close(dev);
    return true;
}

static bool buffer_once(cts *c, cts_check *k)
{
    yk_buffer *b = NULL;
    uint8_t data[64] = {1};
    uint64_t point = 0;
    (void)k;
    if (!cts_ok(c, cts_buffer_new(c, 3u << 20, &b), "buffer_new")) /* small and large buffers may come from other lists */
        return false;
    c->t->buffer_free(b);
    if (!cts_ok(c, cts_buffer_new(c, 1u << 18, &b), "buffer_new"))
        return false;
    if (cts_ok(c, yk_put(c->t, c->dev->queue, b, 0, data, sizeof data, &point), "queue_copy"))
        cts_wait(c, c->dev->queue, point);
    c->t->buffer_free(b);
    return true;
}

static bool queue_once(cts *c, cts_check *k)
{
    yk_queue *q = NULL;
    (void)k;
    if (!cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new"))
        return false;
    c->t->queue_free(q);
    return true;
}

static bool pin_once(cts *c, cts_check *k)
{
    static uint8_t memory[8192];
    yk_pin *pin = NULL;
    (void)k;
    if (!cts_ok(c, c->t->host_pin(c->dev->handle, memory + 100, 5000, &pin), "host_pin"))
        return false;
    c->t->host_unpin(pin);
    return true;
}

static bool wrap_once(cts *c, cts_check *k)
{
    static uint8_t memory[8192] __attribute__((aligned(4096)));
    yk_buffer *b = NULL;
    (void)k;
    if (!cts_ok(c, c->t->buffer_wrap(c->dev->handle, memory, sizeof memory, &b), "buffer_wrap"))
        return false;
    c->t->buffer_free(b);
    return true;
}

/* Two queues, a copy of one that waits for the other, and a refused copy. */
static bool waits_once(cts *c, cts_check *k)
{
    yk_queue *q[2] = {NULL, NULL};
    yk_buffer *b = NULL;
    uint8_t data[64] = {1};
    uint64_t point = 0;
    (void)k;
    bool ok = cts_ok(c, cts_buffer_new(c, sizeof data, &b), "buffer_new") &&
              cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q[0]), "queue_new") &&
              cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q[1]), "queue_new") &&
              cts_ok(c, yk_put(c->t, q[0], b, 0, data, sizeof data, &point), "queue_copy");
    const yk_wait wait = {q[0], point};
    const yk_copy copy = {.size = sizeof copy, .n_wait = 1, .wait = &wait, .src = b, .dst_host = data, .bytes = sizeof data};
    if (ok && yk_get(c->t, q[1], b, 1, data, sizeof data, &point) == YK_OK)
        cts_fail(c, "a copy beyond the end of a buffer is taken");
    yk__plugin_message();
    if (ok && cts_ok(c, c->t->queue_copy(q[1], &copy, &point), "queue_copy"))
        cts_wait(c, q[1], point);
    for (int i = 1; i >= 0; i--)
        if (q[i])
            c->t->queue_free(q[i]);
    if (b)
        c->t->buffer_free(b);
    return ok;
}

static bool abort_once(cts *c, cts_check *k)
{
    yk_queue *q = NULL;
    yk_buffer *b = NULL;
    uint8_t data[64] = {1};
    uint64_t point = 0;
    (void)k;
    bool ok = cts_ok(c, cts_buffer_new(c, sizeof data, &b), "buffer_new") && cts_ok(c, cts_queue_new(c, YK_QUEUE_COMPUTE, &q), "queue_new");
    for (int i = 0; i < 4 && ok; i++)
        ok = cts_ok(c, yk_put(c->t, q, b, 0, data, sizeof data, &point), "queue_copy");
    if (q) {
        c->t->queue_abort(q, YK_E_CANCELLED);
        c->t->queue_free(q);
    }
    if (b)
        c->t->buffer_free(b);
    return ok;
}

static bool program_once(cts *c, cts_check *k)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    yk__simple s;
    yk_program *p = NULL;
    if (yk__simple_new(&k->g, &how, k->n_want, k->want, &s, &err))
        return cts_error(c, &err);
    if (cts_ok(c, c->t->program_new(c->dev->handle, &s.abi, &p), "program_new"))
        c->t->program_free(p);
    yk__simple_free(&s);
    return true;
}

typedef struct program_run {
    yk__simple s;
    void **slot;
} program_run;

static void do_runs(cts *c, void *arg)
{
    program_run *run = arg;
    yk_error err = YK_ERROR_INIT;
    double least, mean;
    if (yk__simple_time(&run->s, c->dev, run->slot, RUNS, 1e9, NULL, NULL, &least, &mean, &err))
        cts_error(c, &err);
}

/* One program and its buffers, run over and over. */
static void test_runs(cts *c, cts_check *k)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    program_run run;
    if (!cts_begin(c, "runs"))
        return;
    if (yk__simple_new(&k->g, &how, k->n_want, k->want, &run.s, &err)) {
        cts_error(c, &err);
        return;
    }
    run.slot = yk__simple_slots(&run.s);
    if (run.slot)
        measure_parts(c, RUNS, do_runs, &run);
    yk__simple_slots_free(&run.s, run.slot);
    yk__simple_free(&run.s);
    cts_pass(c);
}

#define HELD ((uint64_t)32 << 20) /* bytes of an operand and of its result */

typedef struct held_memory {
    cts *c;
    int64_t before; /* free bytes without the program's buffers */
    bool seen;
} held_memory;

/* While the buffers are there. Some drivers take a moment to count them. */
static void free_compare(void *arg)
{
    held_memory *m = arg;
    for (int i = 0; i < 100 && !(m->seen = memory_free(m->c) != m->before); i++)
        usleep(20000);
}

static void free_falls(cts *c, int64_t before)
{
    static const int64_t dim[] = {(int64_t)(HELD / sizeof(float))};
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    held_memory m = {.c = c, .before = before};
    program_run run;
    cts_check k;
    double least, mean;
    cts_check_init(&k, c);
    cts_want(&k, yk__un(&k.g, YK_OP_NEG, cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 1, dim)));
    if (!yk__simple_new(&k.g, &how, k.n_want, k.want, &run.s, &err)) {
        run.slot = yk__simple_slots(&run.s);
        if (run.slot && !yk__simple_time(&run.s, c->dev, run.slot, 1, 1e9, free_compare, &m, &least, &mean, &err) && !m.seen)
            cts_fail(c, "mem_free is %lld before and after a program has got %llu bytes of buffers: report the free bytes, or 0 if they "
                     "are unknown", (long long)before, 2 * (unsigned long long)HELD);
        yk__simple_slots_free(&run.s, run.slot);
        yk__simple_free(&run.s);
    }
    cts_error(c, &err);
    cts_check_free(&k);
}

/* A number that no buffer changes is not that of the free memory. The host plans by it. */
static void test_free(cts *c)
{
    const yk_device_caps *k = &c->dev->caps;
    if (!cts_begin(c, "mem_free"))
        return;
    const int64_t before = memory_free(c);
    if (before <= 0)
        cts_unsupported(c, "it does not know its free memory");
    else if (before < 4 * (int64_t)HELD || (k->max_alloc && k->max_alloc < 2 * HELD))
        cts_unsupported(c, "64 MiB are too much for this device");
    else
        free_falls(c, before);
    cts_pass(c);
}

void cts_group_leak(cts *c)
{
    static const int64_t dim[] = {24, 24};
    cts_check k;
    yk__vid x;
#if defined __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* the one that mallinfo2 counts */
#endif
    counts_device = !(c->dev->caps.flags & YK_CAP_CPU) || memory_is_own(c);
    cts_check_init(&k, c);
    x = cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 2, dim);
    x = yk__bin(&k.g, YK_OP_ADD, yk__dot(&k.g, x, x, false, false), yk__sum(&k.g, x, 2));
    cts_want(&k, yk__un(&k.g, YK_OP_TANH, x));
    test_leak(c, "open", open_once, &k);
    test_leak(c, "buffer", buffer_once, &k);
    test_leak(c, "queue", queue_once, &k);
    test_leak(c, "program", program_once, &k);
    test_leak_if(c, "pin", c->dev->caps.flags & YK_CAP_PINS, "no YK_CAP_PINS", pin_once);
    test_leak_if(c, "wrap", c->dev->caps.flags & YK_CAP_WRAP, "no YK_CAP_WRAP", wrap_once);
    test_leak(c, "waits", waits_once, &k);
    test_leak_if(c, "abort", yk__plugin_aborts(c->dev->plugin), "queue_abort is not offered", abort_once);
    test_runs(c, &k);
    cts_check_free(&k);
    test_free(c);
}
