/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds ranks that live but do nothing: a pause, an endless loop, a device that never finishes. A waiting rank (core/coll, and info.c in
 * core/control) looks now and then at the rank that delays it: its peer, or the rank that the peer waits for. A rank does something if its
 * count of calls or of work moves. Ranks that wait for each other in a circle do nothing either.
 *
 * The limit depends on the rank's act, which it shows with that act's normal time. A call of ours or of a device is lost after that time,
 * 30 s at least, or ten times as long while its process computes. A rank in its program's own code, or at a pipe or terminal, is named in
 * one log line after that time, and lost after YOKE_STUCK_MS. A compilation is lost after the time that its device allows
 * (yk_device_caps.compile_ms), if longer.
 *
 * If all ranks hang in a sync, none of them waits. So the beat thread (live.c) also looks at its own rank, for acts that end by themselves.
 *
 * A wait adds up time from its own short steps, each counted with a bound, so that a job that was stopped as a whole accuses no rank when
 * it continues.
 */
#include "config.h"

#include "core/control/control_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"

#define STEP_MAX_NS (150 * 1000000ll)

/* The rank that delays `peer`. *circle: it is this rank, so these ranks wait for each other. UINT32_MAX for a circle of other ranks,
 * which find it themselves. */
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
    snprintf(text, size, "%.*f %s", s >= 0.1 && s < 10 ? 1 : 0, s < 0.1 ? 1e3 * s : s, s < 0.1 ? "ms" : "s");
}

static yk__act act_of(const yk__control *c, uint32_t rank)
{
    const uint32_t act = atomic_load(&c->head->slot[rank].act);
    return act < YK__ACTS ? (yk__act)act : YK__ACT_OWN;
}

/* If both sides are in the same operation, the program is not at fault: their data does not arrive, or is stuck in a device. */
static yk_status fail_circle(const yk__control *c, const char *name, const char *in, const char *what, const char *time, yk_error *err)
{
    if (!strncmp(in, what, sizeof c->head->slot->waits_in - 1))
        return yk__fail(err, YK_E_DEVICE_LOST, "%s and %s wait for each other in %s, for %s (YOKE_STUCK_MS%s), and neither gets on: data "
                        "between them do not arrive", name, c->name[c->rank], what, time, c->call_ms ? " would set it" : "");
    return yk__fail(err, YK_E_INTERNAL, "%s waits in %s while %s waits in %s, for %s (YOKE_STUCK_MS%s): the ranks' calls differ", name, in,
                    c->name[c->rank], what, time, c->call_ms ? " would set it" : "");
}

static yk_status fail_idle(yk__control *c, uint32_t rank, bool circle, int64_t ns, const char *what, yk_error *err)
{
    char time[32], name[YK__CONTROL_NAME], in[sizeof c->head->slot->waits_in], act[64] = "";
    write_seconds(time, sizeof time, ns);
    yk__control_copy_name(name, c->head->slot[rank].name);
    memcpy(in, c->head->slot[rank].waits_in, sizeof in);
    in[sizeof in - 1] = 0;
    if (act_of(c, rank) != YK__ACT_OWN)
        snprintf(act, sizeof act, " in %s", yk__act_name(act_of(c, rank)));
    if (circle)
        fail_circle(c, name, in, what, time, err);
    else
        yk__fail(err, YK_E_DEVICE_LOST, "%s has made no progress%s for %s (YOKE_STUCK_MS%s) while %s waits in %s", name, act, time,
                 *act && c->call_ms ? " would set it" : "", c->name[c->rank], what);
    yk__control_end_for(c, rank, false, err->status, err->text);
    return err->status;
}

/* ms added for a rank's own wait for its device, which ends first and has a better error */
#define DEVICE_MORE_MS 3000u

static int64_t limit_ms(const yk__control *c, uint32_t rank, bool circle)
{
    const uint32_t patience = atomic_load(&c->head->slot[rank].patience_ms);
    const yk__act act = act_of(c, rank);
    if (act == YK__ACT_COMPILE && patience > c->stuck_ms) /* its device allows that much */
        return patience;
    const bool unlimited = act == YK__ACT_OWN || act == YK__ACT_WAIT || act == YK__ACT_OUTSIDE;
    if (!c->call_ms || !patience || patience >= c->stuck_ms || (!circle && unlimited))
        return c->stuck_ms;
    return act == YK__ACT_DEVICE ? patience + DEVICE_MORE_MS : patience;
}

/* Logs the rank once per host and occurrence. */
static void name_busy(const yk__control *c, uint32_t rank, int64_t ns, const char *what)
{
    const int64_t limit = limit_ms(c, rank, false);
    yk__control_slot *s = &c->head->slot[rank];
    const uint32_t stamp = atomic_load(&s->advance) + 1;
    char time[32], name[YK__CONTROL_NAME];
    if (atomic_exchange(&s->named, stamp) == stamp)
        return;
    write_seconds(time, sizeof time, ns);
    yk__control_copy_name(name, s->name);
    yk__log(YK_LOG_WARN, "control", "%s has been in %s for %s while %s waits in %s; the job ends when it has been so for %lld s%s", name,
            yk__act_name(act_of(c, rank)), time, c->name[c->rank], what, (long long)limit / 1000,
            limit > c->stuck_ms ? ", which its device allows" : " (YOKE_STUCK_MS)");
}

/* True if the rank is in its own code, or in an act without a limit, for so long that a log line should name it. */
static bool is_to_name(const yk__control *c, uint32_t rank, int64_t ns)
{
    const int64_t patience = atomic_load(&c->head->slot[rank].patience_ms);
    const int64_t least = c->call_ms ? c->call_ms : c->stuck_ms;
    const int64_t after = patience && patience < c->stuck_ms ? patience : least; /* 0 before its first beat */
    return (c->call_ms || patience > c->stuck_ms) && ns >= after * 1000000ll;
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
    if (!wait->last || atomic_load(&c->head->slot[c->rank].waits_for) != peer + 1)
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
    wait->ns += (int64_t)yk__standing_step((uint64_t)step, STEP_MAX_NS);
    if (wait->ns >= limit_ms(c, rank, circle) * 1000000ll)
        return fail_idle(c, rank, circle, wait->ns, what, err);
    if (!circle && is_to_name(c, rank, wait->ns))
        name_busy(c, rank, wait->ns, what);
    return YK_OK;
}

void yk__control_waited(yk__control *c, const yk__control_wait *wait)
{
    if (wait->last)
        atomic_store(&c->head->slot[c->rank].waits_for, 0);
}

/* ---- A rank that no other one awaits ---- */

#define OWN_MORE_MS 1000u  /* a rank that waits ends the job first, and tells its own operation, too */
#define OWN_END_MS 4000u   /* more, from the job's end to the process's: a launcher of ours takes less */

/* The program's own code, a pipe and a wait for other ranks may last; a device's wait has its own limit (core/device/point.c). */
static bool act_ends_itself(yk__act act)
{
    return act == YK__ACT_SYNC || act == YK__ACT_FILE || act == YK__ACT_OPEN || act == YK__ACT_COMPILE || act == YK__ACT_CALL;
}

static void end_own(yk__control *c)
{
    char time[32], name[YK__CONTROL_NAME];
    yk_error err = YK_ERROR_INIT;
    write_seconds(time, sizeof time, (int64_t)c->still.ms * 1000000);
    yk__control_copy_name(name, c->head->slot[c->rank].name);
    yk__fail(&err, YK_E_DEVICE_LOST, "%s has made no progress in %s for %s (YOKE_STUCK_MS%s)", name, yk__act_name(c->still.act), time,
             c->call_ms ? " would set it" : "");
    yk__control_end_for(c, c->rank, false, err.status, err.text);
}

/* Under another program's launcher nobody else ends a process that hangs, nor reports its error. */
static void process_end(const yk__control *c)
{
    yk_error err = YK_ERROR_INIT;
    char text[YK_ERROR_TEXT + 8];
    uint32_t rank;
    bool silent;
    if (c->server && c->node_fd < 0 && yk__control_read_end(c->head, c->size, &rank, &silent, &err) && rank == c->rank) {
        const int n = snprintf(text, sizeof text, "yoke: %s\n", err.text);
        if (write(STDERR_FILENO, text, (size_t)n) < 0)
            _exit(1); /* nobody is left to tell */
    }
    _exit(1); /* the thread that hangs cannot end */
}

void yk__control_met(yk__control *c)
{
    atomic_store(&c->met, true);
}

/* If no rank waits, a disk or a file server that is merely slow may take its time. */
static uint32_t own_limit_ms(const yk__control *c, uint32_t patience_ms)
{
    const bool stored = c->still.act == YK__ACT_SYNC || c->still.act == YK__ACT_FILE;
    return stored && patience_ms && patience_ms < c->stuck_ms ? c->stuck_ms : patience_ms;
}

void yk__control_look_own(yk__control *c, uint32_t patience_ms)
{
    patience_ms = own_limit_ms(c, patience_ms);
    if (c->size < 2 || !patience_ms || !atomic_load(&c->met) || !act_ends_itself(c->still.act) ||
        c->still.ms < patience_ms + OWN_MORE_MS || atomic_load(&c->head->slot[c->rank].state) != YK__RANK_JOINED)
        return;
    if (atomic_load(&c->head->abort) == YK__JOB_RUNNING)
        end_own(c);
    else if (c->still.ms >= patience_ms + OWN_MORE_MS + OWN_END_MS)
        process_end(c);
}
