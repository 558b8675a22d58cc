/* SPDX-License-Identifier: Apache-2.0 */
/* Results of a kit's graph beside expected ones, and the same bits from one, two and three workers. */
#ifndef YOKE_TESTS_SUPPORT_CPU_NEAR_H
#define YOKE_TESTS_SUPPORT_CPU_NEAR_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cpu_kit.h"

/* off by at most `tol` (1 + the expected number) */
static inline void kit_near(const cpu_isa *isa, const char *what, const kit *k, uint32_t v, const double *want, double tol)
{
    double worst = 0;
    for (int64_t i = 0; i < kit_stored(k, v); i++) {
        double got = kit_get(k, v, i), e = fabs(got - want[i]);
        if (got == want[i])
            continue;
        worst = e > worst ? e : worst;
        ck_assert_msg(e <= tol * (1 + fabs(want[i])), "%s, %s, element %lld: got %.9g, expected %.9g", isa->name, what,
                      (long long)i, got, want[i]);
    }
}

/* runs with 1, 2, 3 workers and demands the same bits in v */
static inline void run_all(kit *k, const cpu_isa *isa, const uint32_t *v)
{
    char *first[8];
    for (int nt = 1; nt <= 3; nt++) {
        ck_assert_int_eq(kit_run(k, isa, nt), YK_OK);
        for (int i = 0; v[i] != YK_NONE; i++) {
            size_t n = (size_t)k->slot[v[i]].bytes;
            if (nt == 1)
                first[i] = memcpy(malloc(n), k->data[v[i]], n);
            ck_assert_msg(!memcmp(first[i], k->data[v[i]], n), "%s: %d workers give other bits", isa->name, nt);
        }
    }
    for (int i = 0; v[i] != YK_NONE; i++)
        free(first[i]);
}

#endif
