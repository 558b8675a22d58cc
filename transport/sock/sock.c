/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the sock transport (TCP), as its table has them. core/coll calls them in the step thread and the progress thread.
 * YOKE_SOCK_STREAMS connections join two ranks.
 *
 * It has no thread for moving bytes: test, progress and wait_any read and write whatever the kernel is ready for, under one lock. A thread
 * without work sleeps in epoll without the lock.
 */
#include "config.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "transport/sock/sock.h"
#include "transport/sock/sock_internal.h"

enum {
    READY = 32,     /* streams that one epoll call reports */
    SLICE_MS = 20,  /* slice of a sleep, as another thread may have consumed the bell's ring */
    SPIN_US = 20,   /* yk_tr.spin_us with a processor for each rank */
    LINGER_MS = 1000, /* time limit of close, for sent bytes */
    LOSSY_TIMES = 8  /* factor on the silence limit of a stream that loses packets */
};

/* ---- Moving ------------------------------------------------------------------------------------------------------- */

/* The bell is an eventfd beside the streams in epoll. It wakes threads that sleep there when another thread has completed an operation. */
static void bell_ring(const yk_tr *t)
{
    const uint64_t one = 1;
    if (t->sleepers && write(t->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        return; /* it is set already, or rings in the next slice */
}

static void bell_take(const yk_tr *t)
{
    uint64_t rung;
    if (read(t->bell, &rung, sizeof rung) < 0)
        return; /* another thread was first */
}

/* Handles an event of epoll: a stream, or the bell. */
static yk_status serve_event(yk_tr *t, const struct epoll_event *e, yk_tr_error *error)
{
    yk__sock_stream *stream = e->data.ptr;
    yk_status s = YK_OK;
    if (!stream) {
        bell_take(t);
        return YK_OK;
    }
    if (stream->fd >= 0 && e->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        s = yk__sock_read(t, stream, error);
    if (!s && stream->fd >= 0 && e->events & EPOLLOUT)
        s = yk__sock_write(t, stream, error);
    return s;
}

/* Called under the lock. */
static yk_status serve_events(yk_tr *t, const struct epoll_event *event, int n, yk_tr_error *error)
{
    const uint64_t events = t->base.events;
    for (int i = 0; i < n && !t->failed; i++)
        t->failed = serve_event(t, &event[i], &t->why);
    if (t->base.events != events)
        bell_ring(t);
    if (t->failed)
        *error = t->why;
    return t->failed;
}

static yk_status move_ready(yk_tr *t, yk_tr_error *error)
{
    struct epoll_event event[READY];
    return serve_events(t, event, epoll_wait(t->poll, event, READY, 0), error);
}

/* Sleeps, then moves; *events gets the number of completed operations. */
static yk_status sleep_and_move(yk_tr *t, int sleep_ms, uint64_t *events, yk_tr_error *error)
{
    struct epoll_event event[READY];
    yk_status s;
    const int n = epoll_wait(t->poll, event, READY, sleep_ms);
    pthread_mutex_lock(&t->base.lock);
    s = serve_events(t, event, n, error);
    *events = t->base.events;
    pthread_mutex_unlock(&t->base.lock);
    return s;
}

static void sleepers_add(yk_tr *t, int more)
{
    pthread_mutex_lock(&t->base.lock);
    t->sleepers += (uint32_t)more;
    pthread_mutex_unlock(&t->base.lock);
}

static yk_status sock_progress(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error)
{
    const int64_t begin = yk__clock_ns();
    int sleep_ms = 0;
    yk_status s = YK_OK;
    uint64_t done;
    sleepers_add(t, 1);
    for (;;) {
        int64_t spent_us;
        s = sleep_and_move(t, sleep_ms, &done, error);
        spent_us = (yk__clock_ns() - begin) / 1000;
        if (s || done != *events || spent_us >= timeout_ms * 1000ll)
            break;
        sleep_ms = spent_us < t->spin_us ? 0 : (int)((timeout_ms * 1000ll - spent_us + 999) / 1000);
        sleep_ms = sleep_ms < SLICE_MS ? sleep_ms : SLICE_MS;
    }
    sleepers_add(t, -1);
    if (!s)
        *events = done;
    return s;
}

/* ---- Watching ------------------------------------------------------------------------------------------------------ */

/* Moves data on all streams; epoll reports some of them at a time, in turn. */
static void move_all(yk_tr *t)
{
    struct epoll_event event[READY];
    yk_tr_error ignored;
    int n = READY;
    for (uint32_t named = 0; n == READY && named <= t->base.ranks * t->streams; named += READY) {
        n = epoll_wait(t->poll, event, READY, 0);
        serve_events(t, event, n, &ignored);
    }
}

static void peer_lose(yk_tr *t, const yk__sock_stream *stream)
{
    yk__sock_peer *p = &t->peer[stream->peer];
    p->lost = true;
    yk__line_explain(&stream->line, t->base.rank, stream->peer, &p->why);
    yk__match_fail_all(&p->match, YK_E_IO, p->why.text);
    for (uint32_t i = 0; i < t->streams; i++)
        p->stream[i].in.op = p->stream[i].out.op = NULL;
    bell_ring(t);
}

static bool another_is_heard(const yk_tr *t, const yk__sock_stream *stream)
{
    bool heard = false;
    for (uint32_t i = 0; i < t->streams; i++)
        heard = heard || (i != stream->number && t->peer[stream->peer].stream[i].line.silent_ms < YK__WATCH_SILENT_MS / 2);
    return heard;
}

/* Extends the limit of a line that loses packets, as long as another line of the same two ranks carries data. The kernel may repeat lost
 * packets only after seconds. */
static int64_t stream_silent_ms(const yk_tr *t, yk__sock_stream *stream)
{
    const int64_t most = yk__watch_silent_ms(t);
    if (stream->line.heard != stream->line.heard_before)
        stream->lossy = yk__sock_loses_packets(stream);
    return stream->lossy && another_is_heard(t, stream) ? LOSSY_TIMES * most : most;
}

/* Watches one stream; sends a beat if nothing waits to be written. */
static bool stream_watch(yk_tr *t, yk__sock_stream *stream, int64_t step_ms)
{
    const yk__sock_output *out = &stream->out;
    const yk__line_state state = yk__line_look(&stream->line, step_ms, stream_silent_ms(t, stream));
    if (state == YK__LINE_QUIET && out->begin == out->end && !out->open && !t->failed)
        t->failed = yk__sock_say_on(t, stream, YK__SOCK_BEAT, &t->why);
    return state != YK__LINE_LOST;
}

static uint32_t sock_watch(yk_tr *t, int64_t step_ms, yk_tr_error *why)
{
    uint32_t lost = UINT32_MAX;
    move_all(t);
    for (uint32_t r = 0; r < t->base.ranks && lost == UINT32_MAX; r++)
        for (uint32_t i = 0; i < t->streams && !t->peer[r].lost; i++) {
            yk__sock_stream *stream = &t->peer[r].stream[i];
            if (!stream->in.data || stream_watch(t, stream, step_ms)) /* no buffer before it is connected */
                continue;
            peer_lose(t, stream);
            *why = t->peer[r].why;
            lost = r;
        }
    return lost;
}

/* ---- Opening and closing ------------------------------------------------------------------------------------------ */

/* Gives the remaining operations up. Zeros replace the missing bytes of a long message that is half written. */
static void drop_operations(yk_tr *t, yk__sock_peer *p)
{
    for (uint32_t i = 0; i < t->streams; i++) {
        p->stream[i].out.op = NULL;
        p->stream[i].in.op = NULL;
    }
    yk__match_drop_ops(&p->match);
}

/* Reads and drops input: closing a socket with unread bytes resets the connection and loses sent bytes. */
static void drain_input(yk__sock_stream *stream)
{
    ssize_t n;
    do
        n = recv(stream->fd, stream->in.data, stream->in.capacity, MSG_DONTWAIT);
    while (n > 0);
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        yk__sock_hang_up(stream, n ? errno : 0);
}

static bool still_sending(yk_tr *t)
{
    bool sending = false;
    yk_tr_error ignored;
    for (uint32_t r = 0; r < t->base.ranks; r++)
        for (uint32_t i = 0; i < t->streams; i++) {
            yk__sock_stream *stream = &t->peer[r].stream[i];
            int unsent = 0;
            if (stream->fd >= 0 && !t->failed)
                yk__sock_write(t, stream, &ignored);
            if (stream->fd >= 0)
                drain_input(stream);
            sending = sending || (stream->fd >= 0 && !ioctl(stream->fd, SIOCOUTQ, &unsent) && unsent);
        }
    return sending || (!t->failed && yk__sock_unwritten(t));
}

/* Announces the close, so that other ranks take neither silence nor the end for a fault. */
static void say_bye(yk_tr *t)
{
    yk_tr_error ignored;
    for (uint32_t r = 0; r < t->base.ranks; r++)
        for (uint32_t i = 0; i < t->streams; i++)
            yk__sock_say_on(t, &t->peer[r].stream[i], YK__SOCK_BYE, &ignored);
}

static void finish_sending(yk_tr *t)
{
    const int64_t until = yk__clock_ms() + LINGER_MS;
    const struct timespec pause = {0, 200000};
    yk_tr_error ignored;
    while (!yk__tr_check(t, &ignored) && still_sending(t) && yk__clock_ms() < until)
        nanosleep(&pause, NULL);
}

static void close_peer(yk__sock_peer *p)
{
    for (uint32_t i = 0; i < YK__SOCK_STREAMS; i++) {
        yk__sock_stream *stream = &p->stream[i];
        if (stream->fd >= 0)
            yk__sock_hang_up(stream, 0);
        yk__free(stream->out.data);
        yk__free(stream->in.data);
        yk__auth_wipe(stream->out.key, sizeof stream->out.key);
        yk__auth_wipe(stream->in.key, sizeof stream->in.key);
    }
    yk__match_drop_early(&p->match);
}

static void sock_close(yk_tr *t)
{
    if (!t)
        return;
    yk__watch_stop(t);
    for (uint32_t r = 0; t->peer && r < t->base.ranks; r++)
        drop_operations(t, &t->peer[r]);
    if (t->peer) {
        say_bye(t);
        finish_sending(t);
    }
    for (uint32_t r = 0; t->peer && r < t->base.ranks; r++)
        close_peer(&t->peer[r]);
    if (t->poll >= 0)
        close(t->poll);
    if (t->bell >= 0)
        close(t->bell);
    yk__free(t->peer);
    yk__tr_free(t);
}

static yk_status peers_new(yk_tr *t, yk_tr_error *error)
{
    static const yk__match_calls calls = {.say = yk__sock_say, .detach = yk__sock_detach_recv};
    t->peer = yk__calloc(t->base.ranks, sizeof *t->peer);
    if (!t->peer)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (connections to %u ranks)", t->base.ranks);
    for (uint32_t r = 0; r < t->base.ranks; r++) {
        t->peer[r].match = (yk__match){.calls = &calls, .t = t, .peer = r, .events = &t->base.events};
        for (uint32_t i = 0; i < YK__SOCK_STREAMS; i++)
            t->peer[r].stream[i] = (yk__sock_stream){.fd = -1, .peer = r, .number = i};
    }
    return YK_OK;
}

static yk_status poll_new(yk_tr *t, yk_tr_error *error)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    t->poll = epoll_create1(EPOLL_CLOEXEC);
    t->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->poll < 0 || t->bell < 0 || epoll_ctl(t->poll, EPOLL_CTL_ADD, t->bell, &e))
        return yk__tr_fail(error, YK_E_IO, "making an epoll and an eventfd: %s", yk__limit_reason(errno).text);
    return YK_OK;
}

static int64_t spin_time(const yk_tr *t)
{
    long ranks = 0;
    for (uint32_t r = 0; r < t->base.ranks; r++)
        ranks += t->base.host[r] == t->base.host[t->base.rank];
    return ranks > sysconf(_SC_NPROCESSORS_ONLN) ? 0 : SPIN_US;
}

/* ---- Operations --------------------------------------------------------------------------------------------------- */

static bool sock_reaches(const yk_tr *t, uint32_t peer)
{
    return peer != t->base.rank;
}

/* Fails the transport, not only the operation. */
static yk_status op_begin(yk_tr *t, yk_tr_op *op, yk_tr_error *error)
{
    const uint64_t events = t->base.events;
    yk__match *match = &t->peer[op->peer].match;
    if (!t->failed && t->peer[op->peer].lost) {
        *error = t->peer[op->peer].why;
        return YK_E_IO;
    }
    if (!t->failed && op->is_send) {
        yk__match_send(match, op);
        t->failed = yk__sock_write_peer(t, op->peer, &t->why);
    } else if (!t->failed) {
        t->failed = yk__match_recv(match, op, &t->why);
    }
    if (t->failed)
        *error = t->why;
    if (t->base.events != events)
        bell_ring(t);
    return t->failed;
}

static void op_give_up(yk_tr *t, yk_tr_op *op)
{
    bool revoke;
    yk__match_cancel(&t->peer[op->peer].match, op, &revoke);
    if (op->is_send)
        yk__sock_detach_send(t, op);
    if (revoke && !t->failed)
        t->failed = yk__sock_say(t, op->peer, YK__MATCH_REVOKE, op->number, &t->why);
    yk__free(op);
}

/* ---- The table ---------------------------------------------------------------------------------------------------- */

static yk_status sock_open(const yk_tr_config *c, yk_tr **out, yk_tr_error *error)
{
    static const yk__tr_calls calls = {.op_bytes = sizeof(yk_tr_op), .reaches = sock_reaches, .begin = op_begin, .move = move_ready,
                                       .give_up = op_give_up, .progress = sock_progress, .watch = sock_watch};
    yk_tr *t = NULL;
    yk_status s = yk__tr_new(sizeof *t, &calls, c, &t, error);
    if (s)
        return s;
    t->streams = (uint32_t)yk__option_number(YK__OPTION_SOCK_STREAMS);
    t->spin_us = spin_time(t);
    t->poll = t->bell = -1;
    s = peers_new(t, error);
    if (!s)
        s = poll_new(t, error);
    if (!s)
        s = yk__sock_connect(t, c, error);
    if (s)
        sock_close(t);
    else
        *out = t;
    return s;
}

const yk_transport *yk__sock_transport(void)
{
    static const yk_transport table = {
        YK__TR_TABLE,
        .name = "sock",
        .extension = yk__tr_checked,
        .shared_bytes = yk__tr_no_shared_bytes,
        .open = sock_open,
        .close = sock_close,
        .peer = yk__tr_peer,
        .progress = sock_progress,
    };
    return &table;
}
