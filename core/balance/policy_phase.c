/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phase transitions. A phase that ends calls X_begin of the next one, and policy.c hands that phase the next window's look. Phases know
 * nothing else of each other.
 */
#include <math.h>
#include <string.h>

#include "core/balance/policy_inner.h"

void yk__looks_clear(yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        p->busy[r].n = 0;
    p->wall.n = 0;
}

void yk__phase_begin(yk__policy *p, yk__phase to)
{
    p->phase = to;
    p->in_phase = 0;
    p->unreported = 0;
    yk__looks_clear(p);
}

void yk__settle_begin(yk__policy *p)
{
    p->looks = p->calm = 0;
    p->doubted = false;
    yk__phase_begin(p, SETTLE);
}

void yk__doubt_begin(yk__policy *p)
{
    yk__settle_begin(p);
    p->doubted = true;
}

void yk__excursion_begin(yk__policy *p, uint32_t rank, bool retry)
{
    p->away = (yk__excursion){.usual = p->usual, .rank = rank, .retry = retry};
}

void yk__excursion_charge(yk__policy *p, const yk__report *report)
{
    double wall = 0, windows = 0, compiling = 0, lost;
    if (p->away.usual <= 0)
        return;
    for (uint32_t r = 0; r < p->ranks; r++) {
        wall = fmax(wall, report[r].wall);
        windows = fmax(windows, report[r].windows);
        compiling = fmax(compiling, report[r].compiling);
    }
    lost = fmax(wall - windows * p->away.usual, 0) + compiling;
    p->away.lost += lost;
    *(p->away.retry ? &p->spent : &p->trial_cost) += lost;
}

void yk__excursion_end(yk__policy *p)
{
    if (p->away.usual > 0)
        p->price[p->away.rank] = p->away.lost;
    p->away.usual = 0;
}

static void settled_keep(yk__policy *p)
{
    memcpy(p->settled.share, p->share, sizeof p->share);
    for (uint32_t r = 0; r < p->ranks; r++)
        if (p->member[r])
            p->settled.line[r] = p->fit->rank[r].line;
}

void yk__steady_begin(yk__policy *p)
{
    yk__excursion_end(p);
    settled_keep(p);
    p->early = false;
    p->usual = 0;
    p->usual_n = 0;
    yk__phase_begin(p, STEADY);
}

void yk__alert_confirmed(yk__policy *p)
{
    p->pause = p->pause ? (p->pause < 160 ? 2 * p->pause : p->pause) : EVERY;
    p->alert_after = p->windows + p->pause;
}
