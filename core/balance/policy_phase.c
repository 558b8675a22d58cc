/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Phase transitions of the policy (policy.c lists the phases). A phase that ends calls X_begin of the next one, and policy.c hands that
 * phase the next window's times. So the phases' files need not know each other's fields. All run in the step thread.
 */
#include "core/balance/policy_inner.h"

void yk__looks_clear(yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++)
        p->rank[r].busy.n = 0;
    p->wall.n = 0;
}

void yk__phase_begin(yk__policy *p, yk__phase to)
{
    p->phase = to;
    p->now.settled = to == STEADY;
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

static void settled_keep(yk__policy *p)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        p->rank[r].settled.share = p->now.share[r];
        if (p->now.member[r])
            p->rank[r].settled.line = p->fit->rank[r].line;
    }
}

void yk__steady_begin(yk__policy *p)
{
    yk__excursion_end(p->schedule);
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
