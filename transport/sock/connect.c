/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of the sock transport: every rank listens, publishes its address by the rendezvous, connects to all lower ranks, and accepts all
 * higher ones. In the thread that joins a job sock.c calls yk__sock_connect.
 *
 * These steps run at once, so that ranks do not wait for each other in a chain. A connecting rank proves that it belongs to this job
 * (core/net/hello.h). A stranger is refused, and delays no rank.
 */
#include "config.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/net/bytes.h"
#include "core/net/hello.h"
#include "transport/sock/sock_internal.h"

enum {
    ADDRESS = 64,       /* bytes of a numeric address, with its terminator */
    CONTACT = ADDRESS + 16 + YK__WATCH_INFO,
    OPEN_MS = 60000,    /* time limit for connecting all ranks */
    SLICE_MS = 100      /* interval of the checks that the job goes on */
};

enum { AUTO, ALWAYS }; /* words of YOKE_SOCK_MAC */

/* The listening address of a rank. */
typedef struct contact {
    char address[ADDRESS];
    uint32_t port, streams;
    uint64_t job; /* rank 0's is the job's number */
} contact;

/* A connection whose hello is not finished. */
typedef struct pending {
    int fd; /* -1 if unused */
    bool connects, connected;
    int64_t begun_ms;
    uint32_t peer, stream; /* set for an outgoing connection */
    yk__hello hello;
    char from[ADDRESS + 8];
} pending;

typedef struct opening {
    yk_tr *t;
    const yk_tr_config *config;
    contact *contact; /* [ranks] */
    int listener;
    pending *pending; /* [outgoing + YK__HELLO_PENDING] */
    struct pollfd *poll; /* the listener, then the open entries of pending */
    pending **polled;    /* the entry of poll[1 + i] */
    uint32_t outgoing, slots, missing;
    uint64_t job;
    bool always_mac; /* also for bytes that never leave the kernel */
    bool refused; /* a stranger was logged */
} opening;

/* ---- Sockets ------------------------------------------------------------------------------------------------------ */

static yk_status address_parse(const char *address, uint32_t port, struct sockaddr_storage *to, socklen_t *bytes, yk_tr_error *error)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char number[16];
    int failed;
    snprintf(number, sizeof number, "%u", port);
    failed = port > 65535 ? EAI_SERVICE : getaddrinfo(address, number, &hints, &found);
    if (failed)
        return yk__tr_fail(error, YK_E_ARG, "'%s' port %u is no numeric address: %s", address, port, gai_strerror(failed));
    memcpy(to, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return YK_OK;
}

static void address_print(const struct sockaddr_storage *from, socklen_t bytes, char *to, size_t capacity)
{
    char host[ADDRESS] = "?", port[8] = "?";
    getnameinfo((const struct sockaddr *)from, bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(to, capacity, "%s:%s", host, port);
}

static uint32_t address_port(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                                                : ((const struct sockaddr_in *)address)->sin_port);
}

static bool address_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a, *b6 = (const struct sockaddr_in6 *)b;
    if (a->ss_family == AF_INET && b->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->ss_family == AF_INET6 && b->ss_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr) &&
           a6->sin6_scope_id == b6->sin6_scope_id;
}

/* Both ports of a connection whose ends have one address, for its hello; 0 if the addresses differ. */
static uint32_t loopback_ports(int fd)
{
    struct sockaddr_storage own, other;
    socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
    if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) || getpeername(fd, (struct sockaddr *)&other, &other_bytes) ||
        !address_same(&own, &other))
        return 0;
    return address_port(&own) << 16 | address_port(&other);
}

static yk_status listener_open(opening *o, contact *own, yk_tr_error *error)
{
    const char *address = NULL;
    struct sockaddr_storage a;
    socklen_t bytes = 0;
    if (yk__tr_address(o->config, &address, error))
        return YK_E_ARG;
    address = address ? address : "127.0.0.1";
    if (address_parse(address, 0, &a, &bytes, error))
        return YK_E_ARG;
    o->listener = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (o->listener < 0 || bind(o->listener, (struct sockaddr *)&a, bytes) || listen(o->listener, YK__HELLO_PENDING) ||
        getsockname(o->listener, (struct sockaddr *)&a, &bytes))
        return yk__tr_fail(error, YK_E_IO, "rank %u cannot listen on %s: %s", o->config->rank, address, strerror(errno));
    snprintf(own->address, sizeof own->address, "%s", address);
    own->port = address_port(&a);
    return YK_OK;
}

/* ---- Rendezvous --------------------------------------------------------------------------------------------------- */

static void contact_encode(const contact *own, uint8_t to[CONTACT])
{
    memcpy(to, own->address, ADDRESS);
    yk__bytes_put32(to + ADDRESS, own->port);
    yk__bytes_put32(to + ADDRESS + 4, own->streams);
    yk__bytes_put64(to + ADDRESS + 8, own->job);
}

static yk_status contact_decode(const uint8_t *from, uint32_t rank, contact *to, yk_tr_error *error)
{
    memcpy(to->address, from, ADDRESS);
    to->port = yk__bytes_get32(from + ADDRESS);
    to->streams = yk__bytes_get32(from + ADDRESS + 4);
    to->job = yk__bytes_get64(from + ADDRESS + 8);
    if (memchr(to->address, 0, ADDRESS) && to->streams >= 1 && to->streams <= YK__SOCK_STREAMS)
        return YK_OK;
    return yk__tr_fail(error, YK_E_FORMAT, "expected an address of rank %u, got unreadable bytes", rank);
}

/* Exchanges contacts; every rank uses the least number of streams of all ranks. */
static yk_status exchange_contacts(opening *o, const contact *own, yk_tr_error *error)
{
    const yk_tr_config *c = o->config;
    uint8_t own_encoded[CONTACT], *all = yk__calloc(c->ranks, CONTACT);
    yk_status s;
    if (!all)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (addresses of %u ranks)", c->ranks);
    contact_encode(own, own_encoded);
    yk__watch_publish(o->t, own_encoded + CONTACT - YK__WATCH_INFO);
    s = c->exchange(c->exchange_arg, own_encoded, CONTACT, all, error);
    o->t->streams = own->streams;
    for (uint32_t r = 0; r < c->ranks && !s; r++) {
        s = contact_decode(all + (size_t)r * CONTACT, r, &o->contact[r], error);
        if (!s && o->contact[r].streams < o->t->streams)
            o->t->streams = o->contact[r].streams;
        for (uint32_t i = 0; i < YK__SOCK_STREAMS && !s; i++)
            yk__watch_know(o->t, &o->t->peer[r].stream[i].line, r, all + (size_t)(r + 1) * CONTACT - YK__WATCH_INFO);
    }
    o->job = o->contact[0].job;
    yk__free(all);
    return s;
}

/* ---- New connections ---------------------------------------------------------------------------------------------- */

static void pending_end(pending *p)
{
    if (p->fd >= 0)
        close(p->fd);
    yk__hello_end(&p->hello);
    p->fd = -1;
}

/* Starts the hello of a connected socket. */
static yk_status pending_begin(const opening *o, pending *p, yk_error *err)
{
    const yk_tr_config *c = o->config;
    const yk__hello_config hello = {.secret = c->secret, .secret_bytes = c->secret_bytes, .job = o->job, .rank = c->rank,
                                    .peer = p->connects ? p->peer : YK__HELLO_ANY, .ranks = c->ranks, .role = YK__HELLO_DATA,
                                    .stream = p->connects ? p->stream : o->t->streams,
                                    .loopback = o->always_mac ? 0 : loopback_ports(p->fd)};
    p->begun_ms = yk__clock_ms();
    return yk__hello_begin(&p->hello, &hello, p->connects, err);
}

/* Fails with errno's text; for a lack of descriptors the text has the limit and the remedy. */
static yk_status fail_descriptors(const opening *o, const char *what, yk_tr_error *error)
{
    const int failed = errno;
    char limit[160];
    yk__limit_explain_descriptors(failed, (o->t->base.ranks - 1) * o->t->streams, limit, sizeof limit);
    return yk__tr_fail(error, YK_E_IO, "rank %u, %s: %s%s", o->t->base.rank, what, strerror(failed), limit);
}

static yk_status connect_stream(opening *o, uint32_t peer, uint32_t stream, pending *p, yk_tr_error *error)
{
    const contact *to = &o->contact[peer];
    struct sockaddr_storage a;
    socklen_t bytes = 0;
    if (address_parse(to->address, to->port, &a, &bytes, error))
        return YK_E_ARG;
    *p = (pending){.fd = -1, .connects = true, .peer = peer, .stream = stream};
    address_print(&a, bytes, p->from, sizeof p->from);
    p->fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return fail_descriptors(o, "connecting to a lower rank", error);
    if (connect(p->fd, (struct sockaddr *)&a, bytes) && errno != EINPROGRESS)
        return yk__tr_fail(error, YK_E_IO, "rank %u cannot connect to rank %u at %s: %s", o->config->rank, peer, p->from,
                             strerror(errno));
    return YK_OK;
}

static yk_status connect_lower(opening *o, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (uint32_t i = 0; i < o->outgoing && !s; i++)
        s = connect_stream(o, i / o->t->streams, i % o->t->streams, &o->pending[i], error);
    return s;
}

/* A free entry for an incoming connection; NULL: it waits in the kernel until an entry is done or late. */
static pending *pending_free(opening *o)
{
    for (uint32_t i = o->outgoing; i < o->slots; i++)
        if (o->pending[i].fd < 0)
            return &o->pending[i];
    return NULL;
}

/* Accepts one connection. A connection that ended before, or whose network is gone, is the other end's problem. */
static yk_status accept_one(opening *o, pending *p, yk_tr_error *error)
{
    struct sockaddr_storage a;
    socklen_t bytes = sizeof a;
    yk_error err = YK_ERROR_INIT;
    const int fd = accept4(o->listener, (struct sockaddr *)&a, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        return fail_descriptors(o, "taking a connection of another rank", error);
    if (fd < 0)
        return YK_OK;
    *p = (pending){.fd = fd, .connected = true};
    address_print(&a, bytes, p->from, sizeof p->from);
    if (pending_begin(o, p, &err))
        pending_end(p);
    return YK_OK;
}

/* ---- The hello ---------------------------------------------------------------------------------------------------- */

/* Closes an incoming connection of a stranger. Logged once, so that strangers cannot fill the log. */
static void refuse_stranger(opening *o, pending *p, const char *why)
{
    if (!o->refused)
        yk__log(YK_LOG_WARN, "sock", "rank %u refuses a connection from %s: %s; more of them are not reported", o->config->rank,
                p->from, why);
    o->refused = true;
    pending_end(p);
}

/* Hands a connection to its stream, under the transport's lock: other streams may be in use already, and the watch reads them. */
static yk_status keep_stream(opening *o, pending *p, yk__sock_stream *stream, yk_tr_error *error)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = stream};
    memcpy(stream->out.key, p->hello.send_key, sizeof stream->out.key);
    memcpy(stream->in.key, p->hello.recv_key, sizeof stream->in.key);
    stream->out.mac_bytes = stream->in.mac_bytes = p->hello.is_loopback ? 0 : YK__MAC_BYTES;
    if (yk__sock_stream_begin(stream, p->fd, error))
        return YK_E_MEM;
    p->fd = -1;
    if (epoll_ctl(o->t->poll, EPOLL_CTL_ADD, stream->fd, &e))
        return yk__tr_fail(error, YK_E_IO, "a stream to rank %u: %s", p->hello.peer, strerror(errno));
    pending_end(p);
    o->missing--;
    return YK_OK;
}

static yk_status finish_pending(opening *o, pending *p, yk_tr_error *error)
{
    yk__sock_stream *stream = &o->t->peer[p->hello.peer].stream[p->hello.stream];
    char why[80];
    yk_status s = YK_OK;
    bool wanted;
    pthread_mutex_lock(&o->t->base.lock);
    wanted = p->connects || (p->hello.peer > o->config->rank && !stream->in.data);
    if (wanted)
        s = keep_stream(o, p, stream, error);
    pthread_mutex_unlock(&o->t->base.lock);
    if (wanted)
        return s;
    snprintf(why, sizeof why, "stream %u of rank %u is connected already", p->hello.stream, p->hello.peer);
    refuse_stranger(o, p, why);
    return YK_OK;
}

/* Checks the result of connect(), then starts the hello. */
static yk_status finish_connect(opening *o, pending *p, yk_tr_error *error)
{
    int failed = 0;
    socklen_t bytes = sizeof failed;
    yk_error err = YK_ERROR_INIT;
    getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &failed, &bytes);
    p->connected = true;
    if (failed)
        return yk__tr_fail(error, YK_E_IO, "rank %u cannot connect to rank %u at %s: %s", o->config->rank, p->peer, p->from,
                             strerror(failed));
    return pending_begin(o, p, &err) ? yk__tr_fail(error, err.status, "%.600s", err.text) : YK_OK;
}

static yk_status step_pending(opening *o, pending *p, yk_tr_error *error)
{
    yk_error err = YK_ERROR_INIT;
    const yk_status s = p->connected ? YK_OK : finish_connect(o, p, error);
    if (s)
        return s;
    if (!yk__hello_step(&p->hello, p->fd, &err))
        return p->hello.state == YK__HELLO_DONE ? finish_pending(o, p, error) : YK_OK;
    if (!p->connects) {
        refuse_stranger(o, p, err.text);
        return YK_OK;
    }
    return yk__tr_fail(error, err.status, "rank %u connects to rank %u at %s: %.400s", o->config->rank, p->peer, p->from, err.text);
}

static void drop_late(opening *o)
{
    const int64_t now = yk__clock_ms();
    for (uint32_t i = o->outgoing; i < o->slots; i++)
        if (o->pending[i].fd >= 0 && now - o->pending[i].begun_ms > YK__HELLO_SECONDS * 1000)
            refuse_stranger(o, &o->pending[i], "it sent no hello within 5 s");
}

/* ---- All connections ---------------------------------------------------------------------------------------------- */

/* Fills poll and returns its length. Only open entries, as poll() fails with EINVAL for more entries than the descriptor limit. */
static uint32_t poll_fill(opening *o)
{
    uint32_t n = 0;
    o->poll[0] = (struct pollfd){pending_free(o) ? o->listener : -1, POLLIN, 0};
    for (uint32_t i = 0; i < o->slots; i++) {
        pending *p = &o->pending[i];
        const bool writes = !p->connected || p->hello.state == YK__HELLO_WRITE;
        if (p->fd < 0)
            continue;
        o->polled[n++] = p;
        o->poll[n] = (struct pollfd){p->fd, writes ? POLLOUT : POLLIN, 0};
    }
    return n;
}

static yk_status poll_round(opening *o, yk_tr_error *error)
{
    const uint32_t n = poll_fill(o);
    const int ready = poll(o->poll, 1 + n, SLICE_MS);
    yk_status s = YK_OK;
    if (ready < 0 && errno != EINTR)
        return fail_descriptors(o, "waiting for connections", error);
    if (ready <= 0)
        return YK_OK;
    for (uint32_t i = 0; i < n && !s; i++)
        if (o->poll[1 + i].revents)
            s = step_pending(o, o->polled[i], error);
    if (o->poll[0].revents && !s)
        s = accept_one(o, pending_free(o), error);
    return s;
}

static yk_status fail_missing(const opening *o, yk_tr_error *error)
{
    for (uint32_t r = 0; r < o->t->base.ranks; r++)
        for (uint32_t i = 0; i < o->t->streams; i++)
            if (r != o->t->base.rank && !o->t->peer[r].stream[i].in.data)
                return yk__tr_fail(error, YK_E_TIMEOUT, "rank %u has no connection with rank %u (%s:%u) after %d s; %u streams of all "
                                     "are missing", o->t->base.rank, r, o->contact[r].address, o->contact[r].port, OPEN_MS / 1000,
                                     o->missing);
    return YK_OK;
}

static yk_status connect_all(opening *o, yk_tr_error *error)
{
    const int64_t begin = yk__clock_ms();
    yk_status s;
    pthread_mutex_lock(&o->t->base.lock);
    yk__watch_begin(o->t);
    pthread_mutex_unlock(&o->t->base.lock);
    s = connect_lower(o, error);
    while (!s && o->missing) {
        s = poll_round(o, error);
        drop_late(o);
        if (!s)
            s = yk__tr_check(o->t, error);
        if (!s && o->missing && yk__clock_ms() - begin > OPEN_MS)
            s = fail_missing(o, error);
    }
    return s;
}

static yk_status opening_reserve(opening *o, yk_tr_error *error)
{
    o->outgoing = o->t->base.rank * o->t->streams;
    o->slots = o->outgoing + YK__HELLO_PENDING;
    o->missing = (o->t->base.ranks - 1) * o->t->streams;
    o->pending = yk__calloc(o->slots, sizeof *o->pending);
    o->poll = yk__calloc(1 + o->slots, sizeof *o->poll);
    o->polled = yk__calloc(o->slots, sizeof *o->polled);
    if (!o->pending || !o->poll || !o->polled)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (%u connections)", o->slots);
    for (uint32_t i = 0; i < o->slots; i++)
        o->pending[i].fd = -1;
    return YK_OK;
}

static void opening_end(opening *o)
{
    for (uint32_t i = 0; o->pending && i < o->slots; i++)
        pending_end(&o->pending[i]);
    if (o->listener >= 0)
        close(o->listener);
    yk__free(o->pending);
    yk__free(o->poll);
    yk__free(o->polled);
    yk__free(o->contact);
}

yk_status yk__sock_connect(yk_tr *t, const yk_tr_config *config, yk_tr_error *error)
{
    opening o = {.t = t, .config = config, .listener = -1, .contact = yk__calloc(config->ranks, sizeof *o.contact)};
    contact own = {.streams = t->streams};
    yk_error err = YK_ERROR_INIT;
    yk_status s = YK_OK;
    if (!o.contact)
        return yk__tr_fail(error, YK_E_MEM, "out of memory (addresses of %u ranks)", config->ranks);
    o.always_mac = yk__option_words(YK__OPTION_SOCK_MAC) == ALWAYS;
    if (yk__auth_init(&err))
        s = yk__tr_fail(error, err.status, "%.600s", err.text);
    else
        yk__auth_random(&own.job, sizeof own.job);
    if (!s)
        s = listener_open(&o, &own, error);
    if (!s)
        s = yk__watch_start(t, error);
    if (!s)
        s = exchange_contacts(&o, &own, error);
    if (!s)
        s = opening_reserve(&o, error);
    if (!s)
        s = connect_all(&o, error);
    opening_end(&o);
    return s;
}
