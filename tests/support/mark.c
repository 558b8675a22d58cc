/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of every check goes into a file, so that Check can say where a test was that crashed. In a loop over numbers that is a system
 * call for each, and the process that reads the file moves 8 KiB for each, which is most of a test's time under a sanitizer. A place is
 * written when it is met first, and again only 1 ms after the last one was: of a crash in a loop of several checks the line may be that
 * of another one of the loop. A check that fails says its place itself. The linker sends calls of _mark_point here (--wrap).
 */
#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define PLACES 256
#define SPARE_NS 1000000

void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line);

/* True if it is kept already; else it is kept, in the stead of another one. */
static bool place_known(const char *file, int line)
{
    static atomic_uint_fast64_t kept[PLACES];
    const uint64_t key = (uint64_t)(uintptr_t)file * 0x9e3779b97f4a7c15u ^ (uint64_t)line;
    atomic_uint_fast64_t *at = &kept[(unsigned)line % PLACES];
    return atomic_exchange_explicit(at, key, memory_order_relaxed) == key;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void __wrap__mark_point(const char *file, int line)
{
    static atomic_int_fast64_t written;
    const int64_t now = now_ns();
    if (place_known(file, line) && now - atomic_load_explicit(&written, memory_order_relaxed) < SPARE_NS)
        return;
    atomic_store_explicit(&written, now, memory_order_relaxed);
    __real__mark_point(file, line);
}
