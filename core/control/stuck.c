/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that live and do nothing: a pause, an endless loop, a device that never finishes. Whoever waits looks, now and then, at
 * the rank that holds it up: the one it waits for, or the one which that rank waits for itself. A rank does something when its
 * calls for others or its count of work move. Ranks that wait for each other in a circle do nothing either.
 *
 * Time is added up from this wait's own short steps, each counted with a bound, so that a job that was stopped as a whole
 * accuses nobody when it goes on.
 */
#include "config.h"

#include "core/control/internal.h"

#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"

#define STEP_MAX_NS (150 * 1000000ll)

/* The rank that holds `peer` up; *circle: it is this rank, so that all wait for each other. UINT32_MAX: a circle of others,
 * who will find it themselves. */
static uint32_t find_culprit(const yk__control *c, uint32_t peer, bool *circle)
{
    uint32_t at = peer;
    for (uint32_t i = 0; i < c->size; i++) {
        const uint32_t next = atomic_load(&c->head->slot[at].waits_for);
        if (!next || next > c->size)
            return at;
        at = next - 1;
        *circle = at == c->rank;
        if (*circle)
            return peer;
    }
    return UINT32_MAX;
}

static void write_seconds(char *text, size_t size, int64_t ns)
{
    const double s = (double)ns * 1e-9;
    snprintf(text, size, "%.*f s", s < 10 ? 1 : 0, s);
}

static yk_status fail_idle(yk__control *c, uint32_t rank, bool circle, int64_t ns, const char *what, yk_error *err)
{
    char time[32], name[YK__CONTROL_NAME], in[sizeof c->head->slot->waits_in];
    yk_status s;
    write_seconds(time, sizeof time, ns);
    yk__control_copy_name(name, c->head->slot[rank].name);
    memcpy(in, c->head->slot[rank].waits_in, sizeof in);
    in[sizeof in - 1] = 0;
    if (circle)
        s = yk__fail(err, YK_E_INTERNAL,
                     "%s waits in %s while %s waits in %s, for %s (YOKE_STUCK_MS): the ranks' calls differ", name, in,
                     c->name[c->rank], what, time);
    else
        s = yk__fail(err, YK_E_DEVICE_LOST, "%s has made no progress for %s (YOKE_STUCK_MS) while %s waits in %s", name, time,
                     c->name[c->rank], what);
    yk__control_end_for(c, rank, false, s, err->text);
    return s;
}

static void note_waiting(yk__control *c, uint32_t peer, const char *what)
{
    yk__control_slot *s = &c->head->slot[c->rank];
    snprintf(s->waits_in, sizeof s->waits_in, "%s", what);
    atomic_store(&s->waits_for, peer + 1);
}

yk_status yk__control_look(yk__control *c, yk__control_wait *wait, uint32_t peer, const char *what, yk_error *err)
{
    const int64_t now = yk__clock_ns(), step = now - wait->last;
    bool circle = false;
    uint32_t rank, calls, advance;
    if (yk__control_check(c, err))
        return err->status;
    if (!wait->last || !atomic_load(&c->head->slot[c->rank].waits_for))
        note_waiting(c, peer, what);
    wait->last = now;
    rank = find_culprit(c, peer, &circle);
    if (rank == UINT32_MAX || !c->stuck_ms || atomic_load(&c->head->slot[rank].state) != YK__RANK_JOINED) {
        wait->rank = 0;
        return YK_OK;
    }
    calls = atomic_load(&c->head->slot[rank].calls);
    advance = atomic_load(&c->head->slot[rank].advance);
    if (wait->rank != rank + 1 || wait->calls != calls || wait->advance != advance) {
        *wait = (yk__control_wait){.rank = rank + 1, .calls = calls, .advance = advance, .last = now};
        return YK_OK;
    }
    wait->ns += step < STEP_MAX_NS ? step : STEP_MAX_NS;
    return wait->ns < c->stuck_ms * 1000000ll ? YK_OK : fail_idle(c, rank, circle, wait->ns, what, err);
}

void yk__control_waited(yk__control *c, const yk__control_wait *wait)
{
    if (wait->last)
        atomic_store(&c->head->slot[c->rank].waits_for, 0);
}
