/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport to begin from: unix sockets between the ranks of one host. The page docs/transport-guide.md builds, tests and trains with it;
 * the contract is <yoke/transport.h>. Change the three parts that know sockets (connecting, sending, receiving) into those of your network;
 * matching, waiting and the table may stay.
 *
 * Each rank listens on an abstract socket, whose random name and password the rendezvous gives to all ranks of the job. The later of two
 * ranks connects. A message travels in parts, one message of a pair after the other. A part is copied before it is written, so a message
 * can be given up between two parts. Messages without a receive wait in memory.
 *
 * One mutex guards everything. A thread that waits sleeps in poll without it; who ends an operation wakes it by an eventfd.
 */
#define _GNU_SOURCE
#include <yoke/transport.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PART = 64 << 10, NAME_CHARS = 40, SLICE_MS = 100 };
enum { KIND_PART = 1, KIND_GIVEN_UP };

typedef struct part_head {
    uint32_t kind, bytes; /* bytes: of this part, behind the head */
    uint64_t tag, total;  /* of the message */
    uint64_t at;          /* the part's offset in the message */
} part_head;

/* What the rendezvous gives to all ranks. */
typedef struct rank_info {
    char name[NAME_CHARS];
    uint64_t password[2];
} rank_info;

struct yk_tr_mem {
    uint8_t *data;
    uint64_t bytes;
};

struct yk_tr_op {
    yk_tr_op *next;
    uint32_t peer;
    uint64_t tag, bytes, moved; /* bytes: of the message, or the room of a receive */
    uint8_t *data;
    yk_status status;
    int is_send, begun, done, given_up;
};

/* A message that came before its receive. */
typedef struct early {
    struct early *next;
    uint64_t tag, total, have;
    uint8_t *data;
} early;

typedef struct line {
    int fd;               /* -1: this rank, another host, or closed */
    yk_tr_op *sends, *recvs; /* in the order of their begin */
    early *early;
    yk_tr_op *last;       /* the send whose last part is in `out` */
    yk_tr_op *into;       /* the receive, or */
    early *store;         /* the early message, that the incoming parts belong to */
    size_t out_n, out_at, in_n; /* bytes in `out`; written of them; bytes in `in` */
    uint8_t out[sizeof(part_head) + PART], in[sizeof(part_head) + PART];
} line;

struct yk_tr {
    uint32_t rank, ranks;
    uint64_t *host;
    line *line;
    pthread_mutex_t lock;
    uint64_t events; /* operations done so far */
    int wake;        /* an eventfd: an operation is done */
    uint32_t waiting; /* threads in poll */
};

static yk_status fail_with(yk_tr_error *error, yk_status s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(error->text, sizeof error->text, fmt, args);
    va_end(args);
    return s;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Lists of operations -------------------------------------------------------------------------------------------- */

static void op_append(yk_tr_op **list, yk_tr_op *op)
{
    while (*list)
        list = &(*list)->next;
    *list = op;
}

static void op_unlink(yk_tr_op **list, const yk_tr_op *op)
{
    while (*list && *list != op)
        list = &(*list)->next;
    if (*list)
        *list = op->next;
}

static void op_finish(yk_tr *t, yk_tr_op *op)
{
    const uint64_t one = 1;
    op->done = 1;
    t->events++;
    if (t->waiting && write(t->wake, &one, sizeof one) < 0) {
        /* the eventfd is full, so every thread wakes anyway */
    }
}

static void early_unlink(line *l, early *e)
{
    early **at = &l->early;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    free(e->data);
    free(e);
}

/* ---- Connecting ------------------------------------------------------------------------------------------------------ */

static socklen_t address_of(const char *name, struct sockaddr_un *a)
{
    memset(a, 0, sizeof *a);
    a->sun_family = AF_UNIX;
    memcpy(a->sun_path + 1, name, strlen(name)); /* begins with a 0: a name in no file system */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static int peer_reached(const yk_tr *t, uint32_t peer)
{
    return peer < t->ranks && peer != t->rank && t->host[peer] == t->host[t->rank];
}

/* Waits until the socket is ready; fails when the job has ended. */
static yk_status await_ready(const yk_tr_config *c, int fd, short events, yk_tr_error *error)
{
    struct pollfd p = {fd, events, 0};
    while (poll(&p, 1, SLICE_MS) <= 0)
        if (c->size > offsetof(yk_tr_config, check) && c->check && c->check(c->exchange_arg, error))
            return YK_E_CANCELLED;
    return YK_OK;
}

/* The first words over a connection: who calls, and the password of the one that is called. */
typedef struct hello {
    uint64_t rank, password[2];
} hello;

static yk_status connect_to(yk_tr *t, uint32_t peer, const rank_info *to, yk_tr_error *error)
{
    const hello h = {t->rank, {to->password[0], to->password[1]}};
    struct sockaddr_un a;
    const socklen_t n = address_of(to->name, &a);
    line *l = &t->line[peer];
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&a, n) || send(l->fd, &h, sizeof h, MSG_NOSIGNAL) != (ssize_t)sizeof h)
        return fail_with(error, YK_E_IO, "rank %u cannot connect to rank %u: %s", t->rank, peer, strerror(errno));
    return YK_OK;
}

/* Accepts one connection. A caller without the password is turned away, and is no error. */
static yk_status accept_one(yk_tr *t, const yk_tr_config *c, int listener, const rank_info *own, uint32_t *missing, yk_tr_error *error)
{
    hello h = {0};
    int fd;
    yk_status s = await_ready(c, listener, POLLIN, error);
    if (s)
        return s;
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return YK_OK;
    s = await_ready(c, fd, POLLIN, error);
    if (s || recv(fd, &h, sizeof h, MSG_WAITALL) != (ssize_t)sizeof h || memcmp(h.password, own->password, sizeof h.password) ||
        h.rank <= t->rank || !peer_reached(t, (uint32_t)h.rank) || t->line[h.rank].fd >= 0) {
        close(fd);
        return s;
    }
    t->line[h.rank].fd = fd;
    --*missing;
    return YK_OK;
}

static int listen_as(rank_info *own)
{
    uint64_t name[2];
    struct sockaddr_un a;
    socklen_t n;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (getrandom(name, sizeof name, 0) != sizeof name || getrandom(own->password, sizeof own->password, 0) != sizeof own->password)
        memset(own->password, 0, sizeof own->password);
    snprintf(own->name, sizeof own->name, "yoke-%016llx%016llx", (unsigned long long)name[0], (unsigned long long)name[1]);
    n = address_of(own->name, &a);
    if (fd >= 0 && own->password[0] && !bind(fd, (struct sockaddr *)&a, n) && !listen(fd, SOMAXCONN))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static yk_status connect_all(yk_tr *t, const yk_tr_config *c, yk_tr_error *error)
{
    rank_info own = {{0}, {0}}, *all = calloc(c->ranks, sizeof *all);
    const int listener = listen_as(&own);
    uint32_t missing = 0;
    yk_status s = all ? c->exchange(c->exchange_arg, &own, sizeof own, all, error) : YK_E_MEM;
    if (!s && listener < 0)
        s = fail_with(error, YK_E_IO, "rank %u cannot listen: %s", t->rank, strerror(errno));
    for (uint32_t r = 0; r < t->ranks && !s; r++)
        if (peer_reached(t, r) && r < t->rank)
            s = connect_to(t, r, &all[r], error);
        else
            missing += (uint32_t)peer_reached(t, r);
    while (missing && !s)
        s = accept_one(t, c, listener, &own, &missing, error);
    for (uint32_t r = 0; r < t->ranks && !s; r++)
        if (t->line[r].fd >= 0)
            fcntl(t->line[r].fd, F_SETFL, O_NONBLOCK);
    if (listener >= 0)
        close(listener);
    free(all);
    return s;
}

/* ---- Sending ------------------------------------------------------------------------------------------------------------ */

/* Copies the next part of the first send. */
static void part_copy(line *l)
{
    yk_tr_op *op = l->sends;
    const uint64_t left = op->bytes - op->moved;
    const uint32_t n = op->given_up ? 0 : left < PART ? (uint32_t)left : PART;
    const part_head h = {op->given_up ? KIND_GIVEN_UP : KIND_PART, n, op->tag, op->bytes, op->moved};
    memcpy(l->out, &h, sizeof h);
    if (n)
        memcpy(l->out + sizeof h, op->data + op->moved, n);
    l->out_n = sizeof h + n;
    l->out_at = 0;
    op->begun = 1;
    op->moved += n;
    if (!op->given_up && op->moved < op->bytes)
        return;
    l->sends = op->next;
    if (op->given_up)
        free(op);
    else
        l->last = op;
}

static void send_some(yk_tr *t, line *l)
{
    while (l->fd >= 0 && (l->out_n || l->sends)) {
        ssize_t n;
        if (!l->out_n)
            part_copy(l);
        n = send(l->fd, l->out + l->out_at, l->out_n - l->out_at, MSG_NOSIGNAL);
        if (n < 0)
            return; /* full; or the peer is gone, and the host says so */
        l->out_at += (size_t)n;
        if (l->out_at < l->out_n)
            continue;
        l->out_n = 0;
        if (l->last)
            op_finish(t, l->last);
        l->last = NULL;
    }
}

/* ---- Receiving ---------------------------------------------------------------------------------------------------------- */

/* Finds the place for a message that begins: the first receive of its tag, or memory. False if memory is out. */
static int message_begin(line *l, const part_head *h)
{
    yk_tr_op *op = l->recvs;
    early *e, **end = &l->early;
    while (op && (op->tag != h->tag || op->begun))
        op = op->next;
    l->into = op;
    if (op) {
        op->begun = 1;
        op->status = h->total > op->bytes ? YK_E_ARG : YK_OK;
        return 1;
    }
    e = calloc(1, sizeof *e);
    if (!e || !(e->data = malloc(h->total + 1))) {
        free(e);
        return 0;
    }
    e->tag = h->tag;
    e->total = h->total;
    while (*end)
        end = &(*end)->next;
    *end = l->store = e;
    return 1;
}

/* Its sender gives the message up: as if it had never begun. */
static void message_drop(line *l)
{
    if (l->into)
        l->into->begun = 0, l->into->moved = 0, l->into->status = YK_OK;
    if (l->store)
        early_unlink(l, l->store);
    l->into = NULL;
    l->store = NULL;
}

static void part_take(yk_tr *t, line *l, const part_head *h, const uint8_t *data)
{
    if (h->kind == KIND_GIVEN_UP) {
        message_drop(l);
        return;
    }
    if (h->at == 0 && !message_begin(l, h)) {
        close(l->fd);
        l->fd = -1; /* without memory the line cannot go on: the host sees that nothing comes */
        return;
    }
    if (l->into && !l->into->status && h->bytes)
        memcpy(l->into->data + h->at, data, h->bytes);
    if (l->into)
        l->into->moved = h->at + h->bytes;
    if (l->store) {
        memcpy(l->store->data + h->at, data, h->bytes);
        l->store->have = h->at + h->bytes;
    }
    if (h->at + h->bytes < h->total)
        return;
    if (l->into) {
        op_unlink(&l->recvs, l->into);
        op_finish(t, l->into);
    }
    l->into = NULL;
    l->store = NULL;
}

static void receive_some(yk_tr *t, line *l)
{
    while (l->fd >= 0) {
        part_head h = {0};
        size_t want = sizeof h;
        ssize_t n;
        if (l->in_n >= sizeof h) {
            memcpy(&h, l->in, sizeof h);
            want += h.bytes;
        }
        n = l->in_n < want ? recv(l->fd, l->in + l->in_n, want - l->in_n, 0) : 0;
        if (l->in_n < want && n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                close(l->fd);
                l->fd = -1;
            }
            return;
        }
        l->in_n += (size_t)n;
        if (l->in_n < want || (want == sizeof h && ((part_head *)(void *)l->in)->bytes))
            continue;
        memcpy(&h, l->in, sizeof h);
        l->in_n = 0;
        part_take(t, l, &h, l->in + sizeof h);
    }
}

static void move_all(yk_tr *t)
{
    for (uint32_t r = 0; r < t->ranks; r++) {
        receive_some(t, &t->line[r]);
        send_some(t, &t->line[r]);
    }
}

/* ---- Operations ----------------------------------------------------------------------------------------------------------- */

/* Gives the first early message of its tag to a receive: whole, or as far as it is here. */
static void early_give(yk_tr *t, line *l, yk_tr_op *op)
{
    early *e = l->early;
    while (e && e->tag != op->tag)
        e = e->next;
    if (!e)
        return;
    op->begun = 1;
    op->status = e->total > op->bytes ? YK_E_ARG : YK_OK;
    op->moved = e->have;
    if (!op->status && e->have)
        memcpy(op->data, e->data, e->have);
    if (l->store == e) {
        l->store = NULL;
        l->into = op;
    } else {
        op_unlink(&l->recvs, op);
        op_finish(t, op);
    }
    early_unlink(l, e);
}

static yk_status op_begin(yk_tr *t, int is_send, uint32_t peer, uint64_t tag, const yk_tr_range *range, yk_tr_op **out,
                          yk_tr_error *error)
{
    yk_tr_op *op;
    line *l;
    if (peer >= t->ranks || peer == t->rank)
        return fail_with(error, YK_E_ARG, "rank %u: the peer is %u, expected another of %u ranks", t->rank, peer, t->ranks);
    if (!peer_reached(t, peer))
        return fail_with(error, YK_E_UNSUPPORTED, "rank %u runs on another host than rank %u: plain serves one host", peer, t->rank);
    if (range->mem && (range->offset > range->mem->bytes || range->bytes > range->mem->bytes - range->offset))
        return fail_with(error, YK_E_ARG, "rank %u: %llu bytes at %llu of %llu registered bytes", t->rank,
                         (unsigned long long)range->bytes, (unsigned long long)range->offset, (unsigned long long)range->mem->bytes);
    op = calloc(1, sizeof *op);
    if (!op)
        return fail_with(error, YK_E_MEM, "rank %u: out of memory (an operation)", t->rank);
    op->is_send = is_send;
    op->peer = peer;
    op->tag = tag;
    op->bytes = range->bytes;
    op->data = range->mem ? range->mem->data + range->offset : range->data;
    l = &t->line[peer];
    pthread_mutex_lock(&t->lock);
    op_append(is_send ? &l->sends : &l->recvs, op);
    if (!is_send) /* a send begins in test or progress, so that one that is given up at once was never sent */
        early_give(t, l, op);
    pthread_mutex_unlock(&t->lock);
    *out = op;
    return YK_OK;
}

static yk_status plain_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error)
{
    return op_begin(t, 1, peer, tag, from, op, error);
}

static yk_status plain_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error)
{
    return op_begin(t, 0, peer, tag, to, op, error);
}

static yk_status plain_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    yk_status s;
    pthread_mutex_lock(&t->lock);
    if (!op->done)
        move_all(t);
    *done = op->done;
    pthread_mutex_unlock(&t->lock);
    if (!*done)
        return YK_OK;
    s = op->status;
    if (s)
        fail_with(error, s, "rank %u: a message of %llu bytes from rank %u, the receive has %llu", t->rank, (unsigned long long)op->moved,
                  op->peer, (unsigned long long)op->bytes);
    if (bytes)
        *bytes = op->moved;
    free(op);
    return s;
}

static void plain_cancel(yk_tr *t, yk_tr_op *op)
{
    line *l = &t->line[op->peer];
    pthread_mutex_lock(&t->lock);
    if (op == l->last) { /* its last part leaves as it is */
        l->last = NULL;
        free(op);
    } else if (op->is_send && op->begun && !op->done) {
        op->given_up = 1; /* part_copy says so to the peer and frees it */
        op->data = NULL;
    } else {
        if (l->into == op)
            l->into = NULL; /* the rest of its message is dropped */
        op_unlink(op->is_send ? &l->sends : &l->recvs, op);
        free(op);
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------------------- */

/* Sleeps until a line has work or an operation is done; the caller holds the lock before and after. */
static void sleep_until_moved(yk_tr *t, int timeout_ms)
{
    struct pollfd *p = calloc(t->ranks + 1u, sizeof *p);
    uint64_t drained;
    for (uint32_t r = 0; p && r < t->ranks; r++)
        p[r] = (struct pollfd){t->line[r].fd, (short)(POLLIN | (t->line[r].sends || t->line[r].out_n ? POLLOUT : 0)), 0};
    if (p)
        p[t->ranks] = (struct pollfd){t->wake, POLLIN, 0};
    t->waiting++;
    pthread_mutex_unlock(&t->lock);
    poll(p, p ? t->ranks + 1u : 0, p ? timeout_ms : 1);
    pthread_mutex_lock(&t->lock);
    if (--t->waiting == 0 && read(t->wake, &drained, sizeof drained) < 0) {
        /* nobody woke it */
    }
    free(p);
}

static yk_status plain_progress(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error)
{
    const int64_t end = now_ms() + timeout_ms;
    (void)error;
    pthread_mutex_lock(&t->lock);
    move_all(t);
    for (int64_t left = timeout_ms; t->events == *events && left > 0; left = end - now_ms()) {
        sleep_until_moved(t, left < SLICE_MS ? (int)left : SLICE_MS);
        move_all(t);
    }
    *events = t->events;
    pthread_mutex_unlock(&t->lock);
    return YK_OK;
}

static yk_status plain_wait_any(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    const int64_t begin = now_ms();
    uint32_t found = n;
    int64_t left;
    pthread_mutex_lock(&t->lock);
    for (;;) {
        move_all(t);
        for (uint32_t i = 0; i < n && found == n; i++)
            if (op[i] && op[i]->done)
                found = i;
        left = timeout_ms < 0 ? SLICE_MS : timeout_ms - (now_ms() - begin);
        if (found < n || left <= 0)
            break;
        sleep_until_moved(t, left < SLICE_MS ? (int)left : SLICE_MS);
    }
    pthread_mutex_unlock(&t->lock);
    if (found == n)
        return fail_with(error, YK_E_TIMEOUT, "none of %u messages is done after %d ms", n, timeout_ms);
    *index = found;
    return YK_OK;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------------------ */

static void list_free(yk_tr_op *op)
{
    while (op) {
        yk_tr_op *next = op->next;
        free(op);
        op = next;
    }
}

static void plain_close(yk_tr *t)
{
    for (uint32_t r = 0; t->line && r < t->ranks; r++) {
        line *l = &t->line[r];
        if (l->fd >= 0)
            close(l->fd); /* the kernel keeps the written bytes for the peer */
        free(l->last);
        list_free(l->sends);
        list_free(l->recvs);
        while (l->early)
            early_unlink(l, l->early);
    }
    if (t->wake >= 0)
        close(t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t->line);
    free(t->host);
    free(t);
}

static yk_status plain_open(const yk_tr_config *c, yk_tr **out, yk_tr_error *error)
{
    yk_status s;
    yk_tr *t = calloc(1, sizeof *t);
    if (!t)
        return fail_with(error, YK_E_MEM, "rank %u: out of memory (a transport)", c->rank);
    pthread_mutex_init(&t->lock, NULL);
    t->rank = c->rank;
    t->ranks = c->ranks;
    t->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->line = calloc(c->ranks, sizeof *t->line);
    t->host = calloc(c->ranks, sizeof *t->host);
    if (t->wake < 0 || !t->line || !t->host) {
        plain_close(t);
        return fail_with(error, YK_E_MEM, "rank %u: out of memory (%u lines)", c->rank, c->ranks);
    }
    memcpy(t->host, c->host, c->ranks * sizeof *t->host);
    for (uint32_t r = 0; r < c->ranks; r++)
        t->line[r].fd = -1;
    s = connect_all(t, c, error);
    if (s)
        plain_close(t);
    else
        *out = t;
    return s;
}

static yk_status plain_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error)
{
    if (peer >= t->ranks)
        return fail_with(error, YK_E_ARG, "rank %u: there are %u ranks", peer, t->ranks);
    info->caps = peer_reached(t, peer) ? YK_TR_CAP_MESSAGES : 0;
    info->host = t->host[peer];
    return YK_OK;
}

static yk_status mem_register(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error)
{
    if (source->kind != YK_TR_MEM_HOST)
        return fail_with(error, YK_E_ARG, "rank %u: memory of kind %u, expected host memory (%d)", t->rank, source->kind, YK_TR_MEM_HOST);
    *mem = malloc(sizeof **mem);
    if (!*mem)
        return fail_with(error, YK_E_MEM, "rank %u: out of memory (registered memory)", t->rank);
    **mem = (yk_tr_mem){source->data, source->bytes};
    return YK_OK;
}

static void mem_release(yk_tr *t, yk_tr_mem *mem)
{
    (void)t;
    free(mem);
}

/* A transport whose messages bear a checksum already answers YK_TR_EXT_CHECKED here. */
static const void *plain_extension(const char *name)
{
    (void)name;
    return NULL;
}

static uint64_t plain_shared_bytes(uint32_t ranks)
{
    (void)ranks;
    return 0;
}

static const yk_transport plain = {
    .size = sizeof plain, .major = YK_TRANSPORT_MAJOR, .minor = YK_TRANSPORT_MINOR, .name = "plain", .extension = plain_extension,
    .shared_bytes = plain_shared_bytes, .open = plain_open, .close = plain_close, .peer = plain_peer, .mem_register = mem_register,
    .mem_release = mem_release, .send = plain_send, .recv = plain_recv, .progress = plain_progress, .test = plain_test,
    .wait_any = plain_wait_any, .cancel = plain_cancel,
};

__attribute__((visibility("default"))) const yk_transport *yk_transport_query(uint32_t major);

const yk_transport *yk_transport_query(uint32_t major)
{
    return major == YK_TRANSPORT_MAJOR ? &plain : NULL;
}
