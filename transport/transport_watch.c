/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a transport, a thread that finds a connection between living ranks that has ended, stalls, or is silent in one direction.
 * The sock and ofi transports start it when a job opens, and stop it at the end.
 *
 * The thread moves bytes before it judges a line, under the transport's lock, so its answer does not depend on the program's calls. Each
 * end sends a beat about once a second. Silence is the sum of the thread's own short steps, so a process that was stopped accuses no peer.
 * With YOKE_LIVENESS_MS=0 silence is no fault. A lost line fails its peer's operations.
 */
#include "config.h"

#include "transport/transport_watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/option.h"
#include "core/net/bytes.h"
#include "transport/base.h"

/* ---- A line -------------------------------------------------------------------------------------------------------- */

static void count_still(uint64_t now, uint64_t *before, int64_t *still_ms, int64_t step_ms)
{
    *still_ms = now != *before ? 0 : *still_ms + step_ms;
    *before = now;
}

int64_t yk__watch_step(int64_t step_ms)
{
    return step_ms < YK__WATCH_STEP_MS ? step_ms : YK__WATCH_STEP_MS;
}

/* True at the end of the silence if the peer's thread does not wait for a processor. One look is not enough: a thread that has waited for
 * one sleeps between two steps. */
static bool is_silent(yk__line *line, int64_t step_ms, int64_t silent_ms)
{
    if (!silent_ms || line->silent_ms + YK__WATCH_ASLEEP_MS < silent_ms) {
        line->asleep_ms = 0;
        return false;
    }
    line->asleep_ms = yk__thread_ready(&line->thread, line->space) ? 0 : line->asleep_ms + step_ms;
    if (line->silent_ms < silent_ms)
        return false;
    if (line->asleep_ms >= YK__WATCH_ASLEEP_MS || !line->thread.number)
        return true;
    line->silent_ms = silent_ms - 1; /* the next look asks again */
    return false;
}

yk__line_state yk__line_look(yk__line *line, int64_t step_ms, int64_t silent_ms)
{
    if (line->leaves)
        return YK__LINE_GOOD;
    if (line->ended) {
        line->ended_ms += step_ms;
        return line->ended_ms >= YK__WATCH_ENDED_MS ? YK__LINE_LOST : YK__LINE_GOOD;
    }
    count_still(line->heard, &line->heard_before, &line->silent_ms, step_ms);
    count_still(line->sent, &line->sent_before, &line->quiet_ms, step_ms);
    if (is_silent(line, step_ms, silent_ms)) {
        snprintf(line->why, sizeof line->why, "nothing has come over it for %.1f s", (double)line->silent_ms * 1e-3);
        return YK__LINE_LOST;
    }
    return line->quiet_ms >= (line->thread.number ? YK__WATCH_NEAR_BEAT_MS : YK__WATCH_BEAT_MS) ? YK__LINE_QUIET : YK__LINE_GOOD;
}

void yk__line_end(yk__line *line, const char *why)
{
    if (!line->ended)
        snprintf(line->why, sizeof line->why, "%s", why);
    line->ended = true;
}

void yk__line_explain(const yk__line *line, uint32_t rank, uint32_t peer, yk_tr_error *why)
{
    snprintf(why->text, sizeof why->text, "the data connection of rank %u (%s) with rank %u (%s) was lost, while both ranks live: %s; look "
             "for a firewall, a proxy or a cable between these addresses", rank, line->own, peer, line->other, line->why);
}

/* ---- The thread ---------------------------------------------------------------------------------------------------- */

static yk__tr_base *base_of(yk_tr *t)
{
    return (yk__tr_base *)(void *)t;
}

/* Sleeps until the next check; the lock is held before and after. */
static void sleep_step(yk__tr_base *base)
{
    const int64_t until = yk__clock_ns() + YK__WATCH_STEP_MS * 1000000ll;
    const struct timespec at = {until / 1000000000, until % 1000000000};
    while (!base->watch_stops && yk__clock_ns() < until)
        pthread_cond_timedwait(&base->watch_wakes, &base->lock, &at);
}

static void *watch_main(void *arg)
{
    yk_tr *t = arg;
    yk__tr_base *base = base_of(t);
    int64_t last;
    pthread_mutex_lock(&base->lock);
    base->watch_thread = yk__thread_own();
    base->watched = true;
    pthread_cond_broadcast(&base->watch_wakes);
    while (!base->watch_begins && !base->watch_stops)
        pthread_cond_wait(&base->watch_wakes, &base->lock);
    last = yk__clock_ms();
    while (!base->watch_stops) {
        const int64_t now = yk__clock_ms(), step = now - last;
        yk_tr_error why = {""};
        uint32_t lost;
        last = now;
        lost = base->calls->watch(t, yk__watch_step(step), &why);
        if (lost < base->ranks && base->lost) {
            pthread_mutex_unlock(&base->lock);
            base->lost(base->exchange_arg, lost, &why);
            pthread_mutex_lock(&base->lock);
        }
        sleep_step(base);
    }
    pthread_mutex_unlock(&base->lock);
    return NULL;
}

/* Starts the thread with all signals blocked: they belong to the program's own threads. */
yk_status yk__watch_start(yk_tr *t, yk_tr_error *error)
{
    yk__tr_base *base = base_of(t);
    sigset_t all, old;
    int failed;
    base->silent_ms = yk__option_number(YK__OPTION_LIVENESS_MS) ? YK__WATCH_SILENT_MS : 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&base->watch, NULL, watch_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        return yk__tr_fail(error, YK_E_IO, "starting the thread that watches connections: %s", yk__limit_thread_reason(failed).text);
    pthread_mutex_lock(&base->lock);
    while (!base->watched)
        pthread_cond_wait(&base->watch_wakes, &base->lock);
    pthread_mutex_unlock(&base->lock);
    return YK_OK;
}

void yk__watch_publish(const yk_tr *t, uint8_t info[YK__WATCH_INFO])
{
    const yk__thread_id *own = &((const yk__tr_base *)(const void *)t)->watch_thread;
    yk__bytes_put64(info, own->space);
    yk__bytes_put64(info + 8, own->began);
    yk__bytes_put64(info + 16, (uint64_t)own->number);
}

void yk__watch_know(const yk_tr *t, yk__line *line, uint32_t peer, const uint8_t info[YK__WATCH_INFO])
{
    const yk__tr_base *base = (const yk__tr_base *)(const void *)t;
    line->space = base->watch_thread.space;
    if (base->host[peer] == base->host[base->rank])
        line->thread = (yk__thread_id){.space = yk__bytes_get64(info), .began = yk__bytes_get64(info + 8),
                                       .number = (int32_t)yk__bytes_get64(info + 16)};
}

void yk__watch_begin(yk_tr *t)
{
    yk__tr_base *base = base_of(t);
    base->watch_begins = true;
    pthread_cond_broadcast(&base->watch_wakes);
}

int64_t yk__watch_silent_ms(const yk_tr *t)
{
    return ((const yk__tr_base *)(const void *)t)->silent_ms;
}

void yk__watch_stop(yk_tr *t)
{
    yk__tr_base *base = base_of(t);
    if (!base->watched)
        return;
    pthread_mutex_lock(&base->lock);
    base->watch_stops = true;
    pthread_cond_broadcast(&base->watch_wakes);
    pthread_mutex_unlock(&base->lock);
    pthread_join(base->watch, NULL);
    base->watched = false;
}
