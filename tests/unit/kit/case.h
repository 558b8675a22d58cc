/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs lowered with no device at all, for one test file: a host that counts and can fail to allocate, targets, a program's parts. */
#ifndef YOKE_TESTS_UNIT_KIT_CASE_H
#define YOKE_TESTS_UNIT_KIT_CASE_H

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "plugins/kit/lower/lower.h"
#include "tests/support/kit.h"
#include "tests/support/run.h"

static int allocs_left = -1, live; /* -1: no limit */
static char said[4096];

static inline void *host_alloc(size_t bytes, size_t align)
{
    if (allocs_left == 0)
        return NULL;
    allocs_left -= allocs_left > 0;
    live++;
    return kit_alloc(bytes, align);
}

static inline void host_free(void *p)
{
    live--;
    free(p);
}

static inline void host_fail(const char *who, const char *fmt, ...)
{
    va_list args;
    char line[1000];
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s: %s\n", who, line);
}

static const yk_host host = {.size = sizeof host, .abi = YK_ABI, .alloc = host_alloc, .free = host_free, .fail = host_fail};
static const kit_target processor = {.host = &host, .plugin = "none", .cpu_shape = true, .units = 2, .max_local = 1 << 20};
static const kit_target gpu = {.host = &host, .plugin = "none", .cpu_shape = false, .units = 80, .max_local = 48 << 10};

static inline void program_make(const kit_target *target, kit *k, kit_program *p)
{
    said[0] = 0;
    const yk_status s = kit_program_make(target, &k->g, p);
    ck_assert_msg(s == YK_OK, "status %d: %s", s, said);
}

static inline void program_refused(const kit_target *target, kit *k, yk_status want, const char *words)
{
    kit_program p;
    said[0] = 0;
    ck_assert_int_eq(kit_program_make(target, &k->g, &p), want);
    ck_assert_msg(strstr(said, words), "\"%s\" is not in \"%s\"", words, said);
    ck_assert_int_eq(live, 0);
    kit_program_free(&p); /* an empty one, no harm */
}

static inline const kit_arg *arg_at(const kit_program *p, uint32_t launch, uint32_t i)
{
    ck_assert_uint_lt(i, p->launch[launch].n_arg);
    return &p->arg[p->launch[launch].arg + i];
}

static inline void groups_are(const kit_launch *l, uint64_t x, uint64_t y, uint64_t z, uint32_t local)
{
    ck_assert_uint_eq(l->groups[0], x);
    ck_assert_uint_eq(l->groups[1], y);
    ck_assert_uint_eq(l->groups[2], z);
    ck_assert_uint_eq(l->local, local);
}

static inline void every_allocation_fails(const kit_target *target, const kit *k)
{
    kit_program p;
    yk_status s = YK_E_MEM;
    int n = 0;
    for (; s == YK_E_MEM && n < 1000; n++) {
        said[0] = 0;
        allocs_left = n;
        s = kit_program_make(target, &k->g, &p);
        allocs_left = -1;
        if (s == YK_E_MEM) {
            ck_assert_ptr_nonnull(strstr(said, "out of memory"));
            ck_assert_int_eq(live, 0);
        }
    }
    ck_assert_int_eq(s, YK_OK);
    ck_assert_int_gt(n, 5);
    kit_program_free(&p);
    ck_assert_int_eq(live, 0);
}

#endif
