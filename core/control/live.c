/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Liveness: a thread per rank, the beat, shows that this process lives, and checks the other processes. join.c starts and stops it;
 * msg_piece.c (core/coll) tells it of each arrived piece, in the thread that drives messages. A process that is silent too long ends the
 * job with its name.
 *
 * The thread adds up silence from its own short steps, each counted with a bound. So a job that was stopped as a whole (Ctrl-Z, a suspended
 * machine) finds its peers alive when it continues.
 *
 * A thread that is ready to run, and gets no processor, is silent and alive. With 50 busy threads on two processors a beat came up to 1.0 s
 * late. Each thread that was late by 0.6 s was ready to run (13 looks). So the system's word decides at the end of the time. One look is
 * not enough: a thread was found asleep that had waited for a processor between a beat and its next sleep. This was 1.4 s after that beat,
 * of 64 ranks on two processors.
 */
#include "config.h"

#include "core/control/control_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/process/thread_id.h"

#define STEP_MAX_MS 150 /* a longer step was a pause of this process itself */
#define ASLEEP_MS 300   /* a thread that lives sleeps for YK__CONTROL_BEAT_MS, and then beats: two looks at least find it asleep */

/* True if the peer's beat thread waits for a processor. */
static bool peer_starves(const yk__control *c, const yk__control_slot *peer)
{
    yk__thread_id thread = {.number = atomic_load(&peer->thread)}; /* first, as it is written last */
    thread.space = atomic_load(&peer->thread_space);
    thread.began = atomic_load(&peer->thread_began);
    return yk__thread_ready(&thread, c->thread_space);
}

static void find_silent(yk__control *c, uint32_t peer, int64_t step_ms)
{
    yk__control_slot *s = &c->head->slot[peer];
    yk__control_silence *silence = &c->silence[peer];
    const uint32_t beat = atomic_load(&s->beat);
    yk_error err;
    char name[YK__CONTROL_NAME];
    const bool other_host = atomic_load(&s->host) != c->head->host; /* the agent checks that host */
    if (beat != silence->beat || other_host || atomic_load(&s->state) != YK__RANK_JOINED) {
        *silence = (yk__control_silence){.beat = beat};
        return;
    }
    silence->ms += step_ms;
    if (silence->ms + ASLEEP_MS < c->liveness_ms)
        return;
    silence->asleep_ms = peer_starves(c, s) ? 0 : silence->asleep_ms + step_ms;
    if (silence->ms < c->liveness_ms)
        return;
    if (silence->asleep_ms < ASLEEP_MS && silence->asleep_ms < c->liveness_ms) {
        silence->ms = c->liveness_ms - 1; /* the next look asks again */
        return;
    }
    yk__control_copy_name(name, s->name); /* c->name may be incomplete at this moment */
    yk__fail(&err, YK_E_DEVICE_LOST, "%s gave no sign of life for %.1f s (stopped, hung or dead)", name, (double)silence->ms / 1000);
    yk__control_end_for(c, peer, true, err.status, err.text);
}

/* True once the other end, the launcher or the host's lowest rank, has closed the socket. Nobody sends to a rank after the hello. */
static bool server_gone(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Ends the job: the lowest rank of a host leaves only after the host's other ranks. */
static void note_server_gone(yk__control *c)
{
    char name[YK__CONTROL_NAME], text[YK__CONTROL_NAME + 80];
    if (!c->server) {
        yk__control_record_end(c->head, c->rank, false, YK_E_CANCELLED, "the launcher of the job has died");
        return;
    }
    if (atomic_load(&c->head->slot[c->rank].state) == YK__RANK_LEFT)
        return;
    yk__control_copy_name(name, c->head->slot[c->server - 1].name);
    snprintf(text, sizeof text, "%s ended without leaving the job (killed, or by an exit of its own)", name);
    yk__control_record_end(c->head, c->server - 1, false, YK_E_DEVICE_LOST, text);
}

void yk__control_heard(yk__control *c, uint32_t rank)
{
    atomic_fetch_add_explicit(&c->head->slot[rank].heard, 1, memory_order_relaxed);
}

/* Publishes this rank's act, and the patience that other ranks should have with it; looks at it for itself. */
static void note_still(yk__control *c, int64_t step_ms)
{
    yk__control_slot *s = &c->head->slot[c->rank];
    const yk__act act = atomic_load(&s->waits_for) ? YK__ACT_WAIT : yk__act_now();
    const uint32_t patience_ms = yk__standing_note(&c->still, act, atomic_load(&s->calls), atomic_load(&s->advance), (uint64_t)step_ms,
                                                   c->call_ms, c->stuck_ms);
    atomic_store(&s->act, act);
    atomic_store(&s->patience_ms, patience_ms);
    yk__control_look_own(c, patience_ms);
}

/* Publishes by which number the system knows this thread. */
static void thread_show(yk__control *c)
{
    yk__control_slot *own = &c->head->slot[c->rank];
    const yk__thread_id thread = yk__thread_own();
    c->thread_space = thread.space;
    atomic_store(&own->thread_space, thread.space);
    atomic_store(&own->thread_began, thread.began);
    atomic_store(&own->thread, thread.number);
}

static void *beat_main(void *arg)
{
    yk__control *c = arg;
    struct pollfd p[2] = {{c->wake_fd, POLLIN, 0}, {c->job_fd, POLLIN, 0}};
    int64_t last = yk__clock_ns();
    thread_show(c);
    for (;;) {
        int64_t now, step;
        if (poll(p, 2, YK__CONTROL_BEAT_MS) < 0 && errno != EINTR)
            return NULL;
        if (p[0].revents)
            return NULL;
        atomic_fetch_add(&c->head->slot[c->rank].beat, 1);
        if (c->advance)
            atomic_store(&c->head->slot[c->rank].advance, __atomic_load_n(c->advance, __ATOMIC_RELAXED));
        if (p[1].revents && server_gone(c->job_fd)) {
            note_server_gone(c);
            p[1].fd = -1;
        }
        now = yk__clock_ns();
        step = (now - last) / 1000000;
        step = step > STEP_MAX_MS ? STEP_MAX_MS : step;
        last = now;
        note_still(c, step);
        for (uint32_t r = 0; c->liveness_ms && r < c->size; r++)
            if (r != c->rank)
                find_silent(c, r, step);
    }
}

yk_status yk__control_beat_start(yk__control *c, yk_error *err)
{
    sigset_t all, old;
    int e;
    c->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (c->wake_fd < 0)
        return yk__fail(err, YK_E_IO, "eventfd: %s", yk__limit_reason(errno).text);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&c->beat, NULL, beat_main, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e)
        return yk__fail(err, YK_E_IO, "starting the liveness thread: %s", yk__limit_thread_reason(e).text);
    c->beating = true;
    return YK_OK;
}

void yk__control_beat_stop(yk__control *c)
{
    uint64_t one = 1;
    if (c->beating && write(c->wake_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(c->beat, NULL);
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    c->beating = false;
    c->wake_fd = -1;
}
