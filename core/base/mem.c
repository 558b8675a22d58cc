/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's allocator (yk__malloc, yk__calloc, yk__free): malloc behind a counter of requests. All of core allocates with it, in any
 * thread; NULL if there is no memory. A test can make the n-th request fail, alone or with all later requests. Large blocks that are
 * aligned to pages get huge pages.
 */
#include "core/base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define HUGE_PAGE ((size_t)2 << 20)

static long fail_after = -1; /* requests that succeed before one fails; -1: none fails. No lock: tests of one thread set it */
static bool fails_once;      /* requests after the failed one succeed again */
static _Atomic unsigned long n_allocs;

unsigned long yk__mem_count(void)
{
    return atomic_load_explicit(&n_allocs, memory_order_relaxed);
}

void yk__mem_fail_after(long n)
{
    fail_after = n;
    fails_once = false;
}

void yk__mem_fail_once(long n)
{
    fail_after = n;
    fails_once = true;
}

/* Counts a request. Returns 1, with malloc's errno, if a test wants it to fail. */
static int alloc_refused(void)
{
    atomic_fetch_add_explicit(&n_allocs, 1, memory_order_relaxed);
    if (fail_after < 0)
        return 0;
    if (fail_after > 0) {
        fail_after--;
        return 0;
    }
    if (fails_once)
        fail_after = -1;
    errno = ENOMEM;
    return 1;
}

void *yk__malloc(size_t bytes)
{
    return alloc_refused() ? NULL : malloc(bytes ? bytes : 1);
}

void *yk__calloc(size_t count, size_t size)
{
    return alloc_refused() ? NULL : calloc(count ? count : 1, size ? size : 1);
}

void *yk__realloc(void *p, size_t count, size_t size)
{
    if (alloc_refused() || (size && count > SIZE_MAX / size))
        return NULL;
    return realloc(p, count && size ? count * size : 1);
}

void *yk__malloc_aligned(size_t bytes, size_t align)
{
    const bool huge = align >= PAGE && bytes >= HUGE_PAGE;
    void *p = NULL;
    if (huge && align < HUGE_PAGE)
        align = HUGE_PAGE;
    if (alloc_refused() || posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1))
        return NULL;
#ifdef MADV_HUGEPAGE
    if (huge)
        madvise(p, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a hint, may fail; other blocks may share the last page */
#endif
    return p;
}

char *yk__strndup(const char *s, size_t n)
{
    char *p = yk__malloc(n + 1);
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

char *yk__strdup(const char *s)
{
    return yk__strndup(s, strlen(s));
}

char *yk__format(const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;
    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    p = n < 0 ? NULL : yk__malloc((size_t)n + 1);
    if (p) {
        va_start(ap, fmt);
        vsnprintf(p, (size_t)n + 1, fmt, ap);
        va_end(ap);
    }
    return p;
}

void yk__free(void *p)
{
    free(p);
}

/* array: the address of the caller's pointer, of any type. */
int yk__grow(void *array, size_t *cap, size_t need, size_t size)
{
    void **slot = array;
    size_t want = *cap + *cap / 2;
    void *p;
    if (need <= *cap)
        return 0;
    if (want < need)
        want = need < 8 ? 8 : need;
    p = yk__realloc(*slot, want, size);
    if (!p)
        return -1;
    *slot = p;
    *cap = want;
    return 0;
}
