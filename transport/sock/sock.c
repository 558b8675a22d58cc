/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the sock transport. Nobody drives it but its callers: test, progress and wait_any read and write what the kernel is ready
 * for, under one lock; who has nothing to do sleeps in epoll without it.
 */
#include "config.h"

#include "transport/sock/internal.h"
#include "transport/sock/sock.h"

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
#include "core/base/mem.h"
#include "core/base/option.h"

enum {
    READY = 32,     /* streams that epoll names at a time */
    SLICE_MS = 20,  /* of sleeping: another thread may have taken the bell's ring */
    SPIN_US = 20,   /* before that */
    LINGER_MS = 1000 /* of close, for what was sent */
};

/* ---- Moving ------------------------------------------------------------------------------------------------------- */

static void bell_ring(const yk_tr *t)
{
    const uint64_t one = 1;
    if (t->sleepers && write(t->bell, &one, sizeof one) < 0 && errno != EAGAIN)
        return; /* it has rung, or rings in a slice */
}

static void bell_take(const yk_tr *t)
{
    uint64_t rung;
    if (read(t->bell, &rung, sizeof rung) < 0)
        return; /* another thread was first */
}

/* What epoll named: a stream, or the bell. */
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

/* Under the lock. */
static yk_status serve_events(yk_tr *t, const struct epoll_event *event, int n, yk_tr_error *error)
{
    const uint64_t events = t->events;
    for (int i = 0; i < n && !t->failed; i++)
        t->failed = serve_event(t, &event[i], &t->why);
    if (t->events != events)
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

/* Sleeps, then moves; *events: those done. */
static yk_status sleep_and_move(yk_tr *t, int sleep_ms, uint64_t *events, yk_tr_error *error)
{
    struct epoll_event event[READY];
    yk_status s;
    const int n = epoll_wait(t->poll, event, READY, sleep_ms);
    pthread_mutex_lock(&t->lock);
    s = serve_events(t, event, n, error);
    *events = t->events;
    pthread_mutex_unlock(&t->lock);
    return s;
}

static void sleepers_add(yk_tr *t, int more)
{
    pthread_mutex_lock(&t->lock);
    t->sleepers += (uint32_t)more;
    pthread_mutex_unlock(&t->lock);
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
        sleep_ms = spent_us < SPIN_US ? 0 : (int)((timeout_ms * 1000ll - spent_us + 999) / 1000);
        sleep_ms = sleep_ms < SLICE_MS ? sleep_ms : SLICE_MS;
    }
    sleepers_add(t, -1);
    if (!s)
        *events = done;
    return s;
}

/* ---- Opening and closing ------------------------------------------------------------------------------------------ */

/* Operations that nobody has given up. What is half written of a long message is filled up with zeros. */
static void drop_operations(yk_tr *t, yk__sock_peer *p)
{
    for (uint32_t i = 0; i < t->streams; i++) {
        p->stream[i].out.op = NULL;
        p->stream[i].in.op = NULL;
    }
    yk__tr_free_all(&p->sends);
    yk__tr_free_all(&p->announced);
    yk__tr_free_all(&p->asked);
    yk__tr_free_all(&p->recvs);
}

/* Throws away what comes in: a socket that is closed with bytes unread resets the connection, and what was sent is lost. */
static void drain_input(yk__sock_stream *stream)
{
    ssize_t n;
    do
        n = recv(stream->fd, stream->in.data, YK__SOCK_INPUT, MSG_DONTWAIT);
    while (n > 0);
    if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        yk__sock_hang_up(stream);
}

static bool still_sending(yk_tr *t)
{
    bool sending = false;
    yk_tr_error ignored;
    for (uint32_t r = 0; r < t->ranks; r++)
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

static void finish_sending(yk_tr *t)
{
    const int64_t until = yk__clock_ms() + LINGER_MS;
    const struct timespec pause = {0, 200000};
    yk_tr_error ignored;
    while ((!t->check || !t->check(t->exchange_arg, &ignored)) && still_sending(t) && yk__clock_ms() < until)
        nanosleep(&pause, NULL);
}

static void close_peer(yk__sock_peer *p)
{
    for (uint32_t i = 0; i < YK__SOCK_STREAMS; i++) {
        yk__sock_stream *stream = &p->stream[i];
        if (stream->fd >= 0)
            yk__sock_hang_up(stream);
        yk__free(stream->out.data);
        yk__free(stream->in.data);
        yk__free(stream->in.early);
    }
    while (p->early) {
        yk__sock_early *next = p->early->next;
        yk__free(p->early);
        p->early = next;
    }
}

static void sock_close(yk_tr *t)
{
    if (!t)
        return;
    for (uint32_t r = 0; t->peer && r < t->ranks; r++)
        drop_operations(t, &t->peer[r]);
    if (t->peer)
        finish_sending(t);
    for (uint32_t r = 0; t->peer && r < t->ranks; r++)
        close_peer(&t->peer[r]);
    if (t->poll >= 0)
        close(t->poll);
    if (t->bell >= 0)
        close(t->bell);
    pthread_mutex_destroy(&t->lock);
    yk__free(t->peer);
    yk__free(t->host);
    yk__free(t);
}

static yk_status peers_new(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    t->host = yk__calloc(t->ranks, sizeof *t->host);
    t->peer = yk__calloc(t->ranks, sizeof *t->peer);
    if (!t->host || !t->peer)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (connections to %u ranks)", t->ranks);
    memcpy(t->host, c->host, t->ranks * sizeof *t->host);
    for (uint32_t r = 0; r < t->ranks; r++)
        for (uint32_t i = 0; i < YK__SOCK_STREAMS; i++) {
            yk__sock_stream *stream = &t->peer[r].stream[i];
            *stream = (yk__sock_stream){.fd = -1, .peer = r, .number = i};
        }
    return YK_OK;
}

static yk_status inputs_new(yk_tr *t, yk_tr_error *error)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        for (uint32_t i = 0; i < t->streams && r != t->rank; i++)
            if (!(t->peer[r].stream[i].in.data = yk__malloc(YK__SOCK_INPUT)))
                return yk__tr_fail(error, YK_E_MEM, "out of memory (streams to %u ranks)", t->ranks);
    return YK_OK;
}

static yk_status poll_new(yk_tr *t, yk_tr_error *error)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    t->poll = epoll_create1(EPOLL_CLOEXEC);
    t->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->poll < 0 || t->bell < 0 || epoll_ctl(t->poll, EPOLL_CTL_ADD, t->bell, &e))
        return yk__tr_fail(error, YK_E_IO, "making an epoll and an eventfd: %s", strerror(errno));
    return YK_OK;
}

static bool config_fits(const yk_tr_config *c)
{
    return c->size >= offsetof(yk_tr_config, address) && c->ranks && c->rank < c->ranks && c->host && c->exchange;
}

static yk_status sock_open(const yk_tr_config *c, yk_tr **out, yk_tr_error *error)
{
    yk_tr *t;
    yk_status s;
    if (!config_fits(c))
        return yk__tr_fail(error, YK_E_ARG, "a transport for rank %u of %u: the description does not fit", c->rank, c->ranks);
    t = yk__calloc(1, sizeof *t);
    if (!t)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (a transport)");
    t->rank = c->rank;
    t->ranks = c->ranks;
    t->streams = (uint32_t)yk__option_number(YK__OPTION_SOCK_STREAMS);
    t->poll = t->bell = -1;
    if (c->size > offsetof(yk_tr_config, check))
        t->check = c->check;
    t->exchange_arg = c->exchange_arg;
    pthread_mutex_init(&t->lock, NULL);
    s = peers_new(t, c, error);
    if (!s)
        s = poll_new(t, error);
    if (!s)
        s = yk__sock_connect(t, c, error);
    if (!s)
        s = inputs_new(t, error);
    if (s)
        sock_close(t);
    else
        *out = t;
    return s;
}

static yk_status sock_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error)
{
    if (peer >= t->ranks)
        return yk__tr_fail(error, YK_E_ARG, "rank %u: there are %u ranks", peer, t->ranks);
    info->caps = peer == t->rank ? 0 : YK_TR_CAP_MESSAGES;
    info->host = t->host[peer];
    return YK_OK;
}

/* ---- Sends and receives ------------------------------------------------------------------------------------------- */

static yk_status op_new(const yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *range, yk_tr_op **op, yk_tr_error *error)
{
    return yk__tr_op_new(sizeof **op, t->rank, peer, peer < t->ranks && peer != t->rank, tag, range, op, error);
}

/* Begins it. A failure here is one of the transport. */
static yk_status begin_send(yk_tr *t, yk_tr_op *op)
{
    yk__sock_peer *p = &t->peer[op->peer];
    op->is_send = true;
    if (op->bytes > YK__SOCK_EAGER)
        op->number = ++p->numbers;
    yk__tr_append(&p->sends, op);
    return yk__sock_write_peer(t, op->peer, &t->why);
}

static yk_status begin_recv(yk_tr *t, yk_tr_op *op)
{
    yk__tr_append(&t->peer[op->peer].recvs, op);
    return yk__sock_adopt(t, op, &t->why);
}

static void op_give_up(yk_tr *t, yk_tr_op *op)
{
    if (op->is_send)
        yk__sock_cancel_send(t, op);
    else
        yk__sock_cancel_recv(t, op);
    yk__free(op);
}

static yk_status op_begin(yk_tr *t, yk_tr_op *op, yk_status (*begin)(yk_tr *, yk_tr_op *), yk_tr_error *error)
{
    uint64_t events;
    yk_status s;
    pthread_mutex_lock(&t->lock);
    events = t->events;
    if (!t->failed)
        t->failed = begin(t, op);
    s = t->failed;
    if (s) {
        *error = t->why;
        op_give_up(t, op);
    }
    if (t->events != events)
        bell_ring(t);
    pthread_mutex_unlock(&t->lock);
    return s;
}

static yk_status sock_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **out, yk_tr_error *error)
{
    yk_tr_op *op = NULL;
    yk_status s = op_new(t, peer, tag, from, &op, error);
    if (!s)
        s = op_begin(t, op, begin_send, error);
    if (!s)
        *out = op;
    return s;
}

static yk_status sock_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **out, yk_tr_error *error)
{
    yk_tr_op *op = NULL;
    yk_status s = op_new(t, peer, tag, to, &op, error);
    if (!s)
        s = op_begin(t, op, begin_recv, error);
    if (!s)
        *out = op;
    return s;
}

static void sock_cancel(yk_tr *t, yk_tr_op *op)
{
    pthread_mutex_lock(&t->lock);
    op_give_up(t, op);
    pthread_mutex_unlock(&t->lock);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

static yk_status sock_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk_status s = YK_OK;
    pthread_mutex_lock(&t->lock);
    if (!op->done)
        s = move_ready(t, error);
    *done = op->done;
    pthread_mutex_unlock(&t->lock);
    return *done ? yk__tr_op_end(op, bytes, error) : s;
}

static yk_status sock_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    const yk__tr_done how = {&t->lock, &t->events, sock_progress};
    return yk__tr_wait_any(t, &how, op, n, timeout_ms, index, error);
}

const yk_transport *yk__sock_transport(void)
{
    static const yk_transport table = {
        .size = sizeof table,
        .major = YK_TRANSPORT_MAJOR,
        .minor = YK_TRANSPORT_MINOR,
        .name = "sock",
        .extension = yk__tr_no_extension,
        .shared_bytes = yk__tr_no_shared_bytes,
        .open = sock_open,
        .close = sock_close,
        .peer = sock_peer,
        .mem_register = yk__tr_mem_register,
        .mem_release = yk__tr_mem_release,
        .send = sock_send,
        .recv = sock_recv,
        .progress = sock_progress,
        .test = sock_test,
        .wait_any = sock_wait_any,
        .cancel = sock_cancel,
    };
    return &table;
}
