/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: every allocation of the core goes through here, so that tests can make the n-th one fail.
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
/* align: a power of two; release with yk__free. Whole pages (4096 or more) of 2 MiB or more are made huge ones where the system has
 * them, for fewer faults and misses of the address cache. */
void *yk__malloc_aligned(size_t bytes, size_t align);
char *yk__strdup(const char *s);
char *yk__strndup(const char *s, size_t n);
char *yk__format(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* an allocated string */
void yk__free(void *p);

/* Makes room for `need` elements of `size` bytes in *array (capacity *cap elements), growing by half at least.
 * Returns 0, or -1 with *array as it was. */
int yk__grow(void *array, size_t *cap, size_t need, size_t size);

/* Tests: the n-th allocation from now on fails (0 = the next one), and all after it; a negative n ends that. */
void yk__mem_fail_after(long n);
/* The same, but those after it succeed: what is done in spite of a failure shows. */
void yk__mem_fail_once(long n);
/* Allocations asked for so far: a step whose program is known must ask for none. */
unsigned long yk__mem_count(void);

#endif
