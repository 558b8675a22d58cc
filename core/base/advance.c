/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress count of this process, and its acts, such as a read of a file, a compilation or a call of a plugin. Each layer notes its
 * acts and progress, in any thread. So a hang can be told from work: core/control shows them to other ranks, and
 * core/job/session/standing.c to a rank alone. All words are atomic. yk__stuck_ms reads YOKE_STUCK_MS, and returns 0 with
 * YOKE_LIVENESS_MS=0 alone; yk__call_ms returns 0 if YOKE_STUCK_MS is set.
 */
#include "core/base/advance.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/option.h"
#include "core/base/process/thread_id.h"

uint32_t yk__advanced;

const volatile uint32_t *yk__advance_count(void)
{
    return &yk__advanced;
}

uint32_t yk__stuck_ms(void)
{
    if (!yk__option_text(YK__OPTION_STUCK_MS) && !yk__option_number(YK__OPTION_LIVENESS_MS))
        return 0;
    return (uint32_t)yk__option_number(YK__OPTION_STUCK_MS);
}

uint32_t yk__call_ms(void)
{
    return yk__option_text(YK__OPTION_STUCK_MS) ? 0 : YK__CALL_MS;
}

/* ---- Acts ---- */

static atomic_int acting[YK__ACTS]; /* threads in each act; below 0 in a child that was forked within an act and leaves it */
static atomic_int acting_pid;       /* of the process that the counts are of; 0: no act has begun */

void yk__act_begin(yk__act act)
{
    if (!atomic_load_explicit(&acting_pid, memory_order_relaxed))
        atomic_store(&acting_pid, (int)getpid());
    atomic_fetch_add_explicit(&acting[act], 1, memory_order_relaxed);
}

void yk__act_end(yk__act act)
{
    atomic_fetch_sub_explicit(&acting[act], 1, memory_order_relaxed);
}

yk__act yk__act_now(void)
{
    if (atomic_load_explicit(&acting[YK__ACT_OUTSIDE], memory_order_relaxed) > 0)
        return YK__ACT_OUTSIDE;
    for (yk__act act = YK__ACT_WAIT + 1; act < YK__ACT_OUTSIDE; act++)
        if (atomic_load_explicit(&acting[act], memory_order_relaxed) > 0)
            return act;
    return YK__ACT_OWN;
}

void yk__acts_own(void)
{
    const int pid = (int)getpid();
    const int before = atomic_exchange(&acting_pid, pid);
    for (yk__act act = 0; before && before != pid && act < YK__ACTS; act++)
        atomic_store(&acting[act], 0);
}

yk__act yk__act_entered(yk__act act)
{
    yk__act_begin(act);
    return act;
}

void yk__act_left(const yk__act *act)
{
    yk__act_end(*act);
}

const char *yk__act_name(yk__act act)
{
    static const char *const names[] = {"its program's own code", "a wait for other ranks", "waiting for a disk", "compiling a program",
                                        "opening its device", "waiting for its device", "reading or writing a file",
                                        "a call of Yoke", "waiting for a pipe, a terminal or its log"};
    return act < YK__ACTS ? names[act] : "an unknown act";
}

static atomic_uint compile_allowed_ms;

void yk__compile_allow(uint32_t ms)
{
    atomic_store(&compile_allowed_ms, ms);
}

uint32_t yk__compile_allowed_ms(void)
{
    return atomic_load(&compile_allowed_ms);
}

uint32_t yk__act_patience_ms(yk__act act, uint32_t least_ms, uint32_t most_ms, uint64_t longest_ms)
{
    const uint64_t long_ms = 20 * longest_ms;
    if (!least_ms || (act == YK__ACT_SYNC && !longest_ms))
        return most_ms;
    return long_ms < least_ms ? (least_ms < most_ms ? least_ms : most_ms) : long_ms < most_ms ? (uint32_t)long_ms : most_ms;
}

uint32_t yk__act_busy_ms(yk__act act, uint32_t patience_ms, uint32_t most_ms)
{
    const bool computes = act == YK__ACT_OPEN || act == YK__ACT_COMPILE || act == YK__ACT_CALL; /* the others wait only */
    return !computes || patience_ms > most_ms / 10 ? (computes ? most_ms : patience_ms) : 10 * patience_ms;
}

uint64_t yk__standing_step(uint64_t step, uint64_t usual)
{
    return step <= usual ? step : usual * usual / step;
}

uint32_t yk__standing_note(yk__standing *standing, yk__act act, uint32_t calls, uint32_t advance, uint64_t step_ms, uint32_t least_ms,
                           uint32_t most_ms)
{
    const int64_t cpu_ms = yk__clock_of(CLOCK_PROCESS_CPUTIME_ID) / 1000000;
    const uint64_t used_ms = (uint64_t)(cpu_ms - standing->cpu_ms);
    uint32_t patience_ms;
    standing->cpu_ms = cpu_ms;
    if (act == standing->act && calls == standing->calls && advance == standing->advance) {
        standing->ms += step_ms;
        standing->used_ms += used_ms < step_ms ? used_ms : step_ms;
    } else {
        if (standing->ms > standing->longest_ms[standing->act])
            standing->longest_ms[standing->act] = standing->ms;
        standing->act = act;
        standing->calls = calls;
        standing->advance = advance;
        standing->ms = standing->used_ms = 0;
    }
    patience_ms = yk__act_patience_ms(act, least_ms, most_ms, standing->longest_ms[act]);
    if (yk__act_busy_ms(act, patience_ms, most_ms) > patience_ms && standing->used_ms <= standing->ms / 20 &&
        standing->ms > patience_ms / 2 &&
        yk__process_ready(act != YK__ACT_CALL)) /* on a machine under load, or a driver's compiler is a process of its own */
        standing->used_ms += step_ms;
    if (standing->used_ms > standing->ms / 20)
        patience_ms = yk__act_busy_ms(act, patience_ms, most_ms);
    if (act == YK__ACT_COMPILE && patience_ms && patience_ms < yk__compile_allowed_ms())
        patience_ms = yk__compile_allowed_ms();
    return patience_ms;
}
