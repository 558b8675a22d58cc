/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of call sites, places in the user's source, of this step and the last one. handle.c adds the place of each operation. flush.c
 * (core/job/loop) swaps the tables at a step's end, and open.c (core/job/session) frees them. Errors look the user's line up by the number
 * of a graph node. All of it is in the step thread.
 */
#include "core/job/callsite.h"

#include "core/base/mem.h"

void yk__call_sites_grow(yk__call_table *t, uint32_t number, yk__call_site s)
{
    if (number == t->n + 1 && !yk__grow(&t->site, &t->cap, number, sizeof s))
        t->site[t->n++] = s;
}

void yk__call_sites_clear(yk__call_sites *s)
{
    const yk__call_table over = s->before;
    s->before = s->now;
    s->now = over;
    s->now.n = 0;
}

void yk__call_sites_free(yk__call_sites *s)
{
    yk__free(s->now.site);
    yk__free(s->before.site);
}

const yk__call_site *yk__call_sites_find(const yk__call_sites *s, uint32_t number)
{
    const yk__call_table *t = number <= s->now.n ? &s->now : &s->before;
    return number && number <= t->n && t->site[number - 1].file ? &t->site[number - 1] : NULL;
}
