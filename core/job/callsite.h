/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of a step's operations in the user's program: file and line by number of the call. A node of the trace, the plan and the
 * plugins' programs has this number (yk_node.stream), and so has an error (yk_error.node). So a late failure leads back to a line.
 *
 * The previous step's table is kept, as devices run behind and report a failure during the next step. A step that reuses a program has the
 * call numbers of the step that made it, as both make the same calls. A table that cannot grow leaves later calls without a place; that is
 * no error. Thread rule: that of the job.
 */
#ifndef YOKE_CORE_JOB_CALLSITE_H
#define YOKE_CORE_JOB_CALLSITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* file: a literal of the compiler; NULL if the caller gave none. */
typedef struct yk__call_site {
    const char *file;
    int line;
} yk__call_site;

typedef struct yk__call_table {
    yk__call_site *site;
    size_t n, cap;
} yk__call_table;

typedef struct yk__call_sites {
    yk__call_table now, before; /* entry k: call k + 1 */
} yk__call_sites;

void yk__call_sites_grow(yk__call_table *t, uint32_t number, yk__call_site s);

/* The place of call `number` (1, 2, ..) of the step. */
static inline void yk__call_sites_add(yk__call_sites *s, uint32_t number, const char *file, int line)
{
    if (number == s->now.n + 1 && number <= s->now.cap)
        s->now.site[s->now.n++] = (yk__call_site){file, line};
    else
        yk__call_sites_grow(&s->now, number, (yk__call_site){file, line});
}

void yk__call_sites_clear(yk__call_sites *s); /* called at the end of a step */
void yk__call_sites_free(yk__call_sites *s);
/* The place of call `number` (from 1) of the current step or, before that call, of the previous step; NULL if unknown. */
const yk__call_site *yk__call_sites_find(const yk__call_sites *s, uint32_t number);

#endif
