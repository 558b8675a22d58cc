/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group leak: the same thing is done over and over; what the process holds may not grow from each third of the rounds to the next.
 * A cache that fills once grows in one of them alone. What drivers keep in threads of their own is counted too.
 */
#include "config.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "tools/cts/cts.h"

#define ROUNDS 40        /* in each of three parts, the first of which does not count */
#define RUNS 300         /* the same for runs: rings of some hundred places fill up in the first part */
#define LEAST_BYTES 24   /* of a round: a lost object is at least so large, noise of a part less */
#define LEAST_PAGES 8    /* 32 KiB of a round */

typedef struct held {
    int64_t bytes, pages, files, threads, device;
} held;

/* What sanitizers count; absent elsewhere. */
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

/* 0 under a sanitizer, which does not give back what was freed. */
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

/* A device's own memory; that of the host is shared with everybody. */
static int64_t device_held(const cts *c)
{
    yk_device_caps k = {.size = sizeof k};
    if (c->dev->caps.flags & YK_CAP_CPU || c->t->device_caps(c->device, &k))
        return 0;
    return k.mem_free ? -(int64_t)k.mem_free : 0;
}

static held held_now(const cts *c)
{
    return (held){bytes_held(), pages_held(), entries_of("/proc/self/fd"), entries_of("/proc/self/task"), device_held(c)};
}

static bool held_grows(int64_t a, int64_t b, int64_t d, int64_t least)
{
    return b - a >= least && d - b >= least;
}

static void compare_held(cts *c, uint32_t rounds, const held *a, const held *b, const held *d)
{
    const double twice = 2.0 * rounds;
    if (held_grows(a->threads, b->threads, d->threads, rounds / 2))
        cts_fail(c, "it keeps %.2f threads each time", (double)(d->threads - a->threads) / twice);
    else if (held_grows(a->files, b->files, d->files, rounds / 2))
        cts_fail(c, "it keeps %.2f open files each time", (double)(d->files - a->files) / twice);
    else if (held_grows(a->bytes, b->bytes, d->bytes, rounds * LEAST_BYTES))
        cts_fail(c, "it keeps %.1f bytes each time", (double)(d->bytes - a->bytes) / twice);
    else if (held_grows(a->pages, b->pages, d->pages, rounds * LEAST_PAGES))
        cts_fail(c, "it keeps %.0f KiB of mapped memory each time", (double)(d->pages - a->pages) * 4 / twice);
    else if (held_grows(a->device, b->device, d->device, rounds * 4096))
        cts_fail(c, "it keeps %.0f KiB of the device's memory each time", (double)(d->device - a->device) / (1024 * twice));
}

static void test_leak(cts *c, const char *name, bool (*once)(cts *c, cts_check *k), cts_check *k)
{
    held at[3];
    if (!cts_begin(c, "%s", name))
        return;
    for (int part = 0; part < 3; part++) {
        for (int i = 0; i < ROUNDS && !c->failed_now; i++)
            once(c, k);
        at[part] = held_now(c);
    }
    compare_held(c, ROUNDS, &at[0], &at[1], &at[2]);
    cts_pass(c);
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

/* One program and its buffers, run over and over. */
static void test_runs(cts *c, cts_check *k)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = c->dev, .align = c->dev->caps.align};
    yk_error err = YK_ERROR_INIT;
    yk__simple s;
    void **slot;
    held at[3];
    double least;
    if (!cts_begin(c, "runs"))
        return;
    if (yk__simple_new(&k->g, &how, k->n_want, k->want, &s, &err)) {
        cts_error(c, &err);
        return;
    }
    slot = yk__simple_slots(&s);
    for (int part = 0; part < 3 && slot; part++) {
        if (yk__simple_time(&s, c->dev, slot, RUNS, 1e9, &least, &err))
            cts_error(c, &err);
        at[part] = held_now(c);
    }
    if (slot)
        compare_held(c, RUNS, &at[0], &at[1], &at[2]);
    yk__simple_slots_free(&s, slot);
    yk__simple_free(&s);
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
    cts_check_init(&k, c);
    x = cts_leaf(&k.g, YK_F32, CTS_UNIT, 0, 2, dim);
    x = yk__bin(&k.g, YK_OP_ADD, yk__dot(&k.g, x, x, false, false), yk__sum(&k.g, x, 2));
    cts_want(&k, yk__un(&k.g, YK_OP_TANH, x));
    test_leak(c, "open", open_once, &k);
    test_leak(c, "buffer", buffer_once, &k);
    test_leak(c, "queue", queue_once, &k);
    test_leak(c, "program", program_once, &k);
    test_runs(c, &k);
    cts_check_free(&k);
}
