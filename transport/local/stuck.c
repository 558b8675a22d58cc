/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that live and do nothing: a pause, an endless loop, a device that never finishes. Whoever waits looks, now and then, at
 * the rank that holds it up: the one it waits for, or the one which that rank waits for itself. A rank does something when its
 * calls of the transport or its count of work move. Ranks that wait for each other in a circle do nothing either.
 *
 * Time is added up from this wait's own short steps, each counted with a bound, so that a job that was stopped as a whole
 * accuses nobody when it goes on.
 */
#include "config.h"

#include "transport/local/layout.h"

#include <stdio.h>
#include <string.h>

#define STEP_MAX_NS (150 * 1000000ll)

/* The rank that holds `peer` up; *circle: it is this rank, so that all wait for each other. UINT32_MAX: a circle of others,
 * who will find it themselves. */
static uint32_t find_culprit(const yk_tr *t, uint32_t peer, bool *circle)
{
    uint32_t at = peer;
    for (uint32_t i = 0; i < t->ranks; i++) {
        const uint32_t next = atomic_load(&t->head->slot[at].waits_for);
        if (!next || next > t->ranks)
            return at;
        at = next - 1;
        *circle = at == t->rank;
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

static yk_status fail_idle(yk_tr *t, uint32_t rank, bool circle, int64_t ns, const char *what, yk_tr_error *why)
{
    char time[32], name[YK_LOCAL_NAME], in[sizeof t->head->slot->waits_in];
    yk_status s;
    write_seconds(time, sizeof time, ns);
    yk__local_name_copy(name, t->head->slot[rank].name);
    memcpy(in, t->head->slot[rank].waits_in, sizeof in);
    in[sizeof in - 1] = 0;
    if (circle)
        s = yk__local_fail(why, YK_E_INTERNAL,
                            "%s waits in %s while %s waits in %s, for %s (YOKE_STUCK_MS): the ranks' calls differ", name, in,
                            t->name[t->rank], what, time);
    else
        s = yk__local_fail(why, YK_E_DEVICE_LOST,
                            "%s has made no progress for %s (YOKE_STUCK_MS) while %s waits in %s", name, time, t->name[t->rank],
                            what);
    yk__local_end_for(t, rank, false, s, why->text);
    return s;
}

static void note_waiting(yk_tr *t, uint32_t peer, const char *what)
{
    yk__local_slot *s = &t->head->slot[t->rank];
    snprintf(s->waits_in, sizeof s->waits_in, "%s", what);
    atomic_store(&s->waits_for, peer + 1);
}

yk_status yk__local_look_idle(yk_tr *t, yk__local_idle *idle, uint32_t peer, const char *what, yk_tr_error *why)
{
    const int64_t now = yk__local_now(), step = now - idle->last;
    bool circle = false;
    uint32_t rank, calls, advance;
    if (!idle->last || !atomic_load(&t->head->slot[t->rank].waits_for))
        note_waiting(t, peer, what);
    idle->last = now;
    rank = find_culprit(t, peer, &circle);
    if (rank == UINT32_MAX || !t->stuck_ms || atomic_load(&t->head->slot[rank].state) != YK_LOCAL_JOINED) {
        idle->rank = 0;
        return YK_OK;
    }
    calls = atomic_load(&t->head->slot[rank].calls);
    advance = atomic_load(&t->head->slot[rank].advance);
    if (idle->rank != rank + 1 || idle->calls != calls || idle->advance != advance) {
        *idle = (yk__local_idle){.rank = rank + 1, .calls = calls, .advance = advance, .last = now};
        return YK_OK;
    }
    idle->ns += step < STEP_MAX_NS ? step : STEP_MAX_NS;
    return idle->ns < t->stuck_ms * 1000000ll ? YK_OK : fail_idle(t, rank, circle, idle->ns, what, why);
}

void yk__local_waited(yk_tr *t, const yk__local_idle *idle)
{
    if (idle->last)
        atomic_store(&t->head->slot[t->rank].waits_for, 0);
}
