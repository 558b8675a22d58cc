/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: every allocation of the core uses these functions, so that tests can make the n-th one fail.
 *
 * All functions return NULL when memory is gone or a size computation overflows; none aborts. yk__free takes NULL.
 * Thread rule: all are thread-safe; yk__mem_fail_after is for tests with one thread.
 */
#ifndef YOKE_CORE_BASE_MEM_H
#define YOKE_CORE_BASE_MEM_H

#include <stddef.h>

void *yk__malloc(size_t bytes);
void *yk__calloc(size_t count, size_t size);
void *yk__realloc(void *p, size_t count, size_t size);
/* align: a power of two; release with yk__free. Blocks of 2 MiB or more that are aligned to pages (4096 or more) use huge pages if the
 * system has them, for fewer page faults and TLB misses. */
void *yk__malloc_aligned(size_t bytes, size_t align);
char *yk__strdup(const char *s);
char *yk__strndup(const char *s, size_t n);
char *yk__format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* an allocated string */
void yk__free(void *p);

/* Ensures capacity for `need` elements of `size` bytes in *array (capacity *cap elements), growing by half at least.
 * Returns 0, or -1 with *array as it was. */
int yk__grow(void *array, size_t *cap, size_t need, size_t size);

/* Tests: the n-th allocation from now on fails (0 = the next one), and all later ones; a negative n ends that. */
void yk__mem_fail_after(long n);
/* Tests: only the n-th allocation fails, so a test sees work that goes on after the failure. */
void yk__mem_fail_once(long n);
/* Number of allocations requested so far. A step with a cached program must request none. */
unsigned long yk__mem_count(void);

#endif
