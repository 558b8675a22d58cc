/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the user's program the operations of a step were called: file and line by number of the call. A node of the trace, of
 * the plan and of the plugin's programs has this number (yk_node.stream), and an error bears it (yk_error.node). So a late failure
 * leads back to a line.
 *
 * The table of the step before is kept: devices run behind, and tell of a failure when the next step is under way. Steps that
 * take a program found before have the numbers of the step that made it, as their calls are the same ones.
 * A table that cannot grow leaves the calls that follow without a place, and is no error. Thread rule: that of the job.
 */
#ifndef YOKE_CORE_JOB_CALLSITE_H
#define YOKE_CORE_JOB_CALLSITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* file: as the compiler named it, lives as long as the program; NULL: the caller did not say. */
typedef struct yk__call_site {
    const char *file;
    int line;
} yk__call_site;

typedef struct yk__call_table {
    yk__call_site *site;
    size_t n, cap;
} yk__call_table;

typedef struct yk__call_sites {
    yk__call_table now, before; /* entry k: of call k + 1 */
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

void yk__call_sites_clear(yk__call_sites *s); /* a step ends */
void yk__call_sites_free(yk__call_sites *s);
/* The place of call `number` (from 1) of the step under way or, where it has not come so far, of the one before; NULL: not known. */
const yk__call_site *yk__call_sites_find(const yk__call_sites *s, uint32_t number);

#endif
