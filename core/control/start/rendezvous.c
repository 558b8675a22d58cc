/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of the unix socket by which ranks of one host find its control object, the memory in which they show their state. The lowest
 * rank listens, and its agent's thread hands descriptors out (agent.c). Other ranks connect in their joining thread (bootstrap.c).
 *
 * A peer must belong to this user, and send the job's token and a free rank. The listener refuses any other.
 */
#include "config.h"

#include "core/control/start/rendezvous.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define REQUEST_MAGIC 0x31746976656b6f79ull /* "yokevit1" */
#define REQUEST_MS 5000 /* ms from a connection to its request */
#define NAP_MS 20

typedef struct request {
    uint64_t magic;
    uint8_t token[YK__RENDEZVOUS_TOKEN];
    uint32_t rank, ranks;
} request;

struct yk__rendezvous {
    int listener;
    uint32_t rank, ranks, absent; /* absent: ranks of this host that have not come */
    bool *expected;               /* [ranks] */
    uint8_t token[YK__RENDEZVOUS_TOKEN];
    bool refusal_logged;
    struct {
        int fd;
        int64_t until;
    } pending[YK__RENDEZVOUS_PENDING];
    uint32_t n_pending;
};

/* ---- Addresses --------------------------------------------------------------------------------------------------- */

void yk__rendezvous_address(const char *job, yk__rendezvous_place *place)
{
    const uint64_t hash = yk__hash_bytes(YK_HASH_SEED, job, strlen(job));
    int n;
    memset(place, 0, sizeof *place);
    place->at.sun_family = AF_UNIX;
    n = snprintf(place->at.sun_path + 1, sizeof place->at.sun_path - 1, "yoke-%u-%016llx", (unsigned)geteuid(), (unsigned long long)hash);
    place->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

void yk__rendezvous_address_of(const uint8_t name[YK__RENDEZVOUS_NAME], yk__rendezvous_place *place)
{
    memset(place, 0, sizeof *place);
    place->at.sun_family = AF_UNIX;
    memcpy(place->at.sun_path + 1, name, YK__RENDEZVOUS_NAME);
    place->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strnlen((const char *)name, YK__RENDEZVOUS_NAME));
}

static yk_status bind_listener(const yk__rendezvous_place *place, int *fd, yk_error *err)
{
    const int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int e;
    if (s < 0)
        return yk__fail(err, YK_E_IO, "a socket for the ranks of this host: %s", yk__limit_reason(errno).text);
    if (!bind(s, (const struct sockaddr *)&place->at, place->bytes) && !listen(s, YK__RENDEZVOUS_PENDING)) {
        *fd = s;
        return YK_OK;
    }
    e = errno;
    close(s);
    return yk__fail(err, YK_E_IO, "a socket for the ranks of this host: %s%s", strerror(e),
                    e == EADDRINUSE ? ": another rank 0 of this job is there already (its launcher's variables are the same)" : "");
}

yk_status yk__rendezvous_listen(const yk__rendezvous_place *place, int *fd, yk_error *err)
{
    return bind_listener(place, fd, err);
}

yk_status yk__rendezvous_listen_any(int *fd, uint8_t name[YK__RENDEZVOUS_NAME], yk_error *err)
{
    const yk__rendezvous_place any = {{.sun_family = AF_UNIX}, sizeof(sa_family_t)};
    struct sockaddr_un at = {0};
    socklen_t bytes = sizeof at;
    if (bind_listener(&any, fd, err))
        return err->status;
    if (getsockname(*fd, (struct sockaddr *)&at, &bytes) || bytes <= offsetof(struct sockaddr_un, sun_path) + 1 ||
        bytes > offsetof(struct sockaddr_un, sun_path) + 1 + YK__RENDEZVOUS_NAME) {
        close(*fd);
        return yk__fail(err, YK_E_IO, "the name of a socket for the ranks of this host: %s", strerror(errno));
    }
    memset(name, 0, YK__RENDEZVOUS_NAME);
    memcpy(name, at.sun_path + 1, bytes - offsetof(struct sockaddr_un, sun_path) - 1);
    return YK_OK;
}

static bool is_own_user(int fd)
{
    struct ucred peer = {0};
    socklen_t n = sizeof peer;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) && peer.uid == geteuid();
}

/* ---- The joining rank -------------------------------------------------------------------------------------------- */

static int connect_place(const yk__rendezvous_place *place)
{
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int e;
    if (fd >= 0 && !connect(fd, (const struct sockaddr *)&place->at, place->bytes))
        return fd;
    e = errno;
    if (fd >= 0)
        close(fd);
    errno = e;
    return -1;
}

static int ms_until(int64_t deadline)
{
    const int64_t left = deadline - yk__clock_ms();
    return !deadline ? -1 : left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* Waits for the hello and leaves it in the socket. */
static yk_status wait_hello(int fd, int64_t deadline, yk_error *err)
{
    struct pollfd p = {fd, POLLIN, 0};
    char first;
    int n;
    do
        n = poll(&p, 1, ms_until(deadline));
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return yk__fail(err, YK_E_TIMEOUT, "the lowest rank of this host has not let this one in (YOKE_JOIN_MS)");
    if (recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) <= 0)
        return yk__fail(err, YK_E_DEVICE_LOST, "the lowest rank of this host ended, or refused this one: its rank is there already, or "
                        "it is of another job");
    return YK_OK;
}

static yk_status connect_until(const yk__rendezvous_place *place, int64_t deadline, yk__waiting *waiting, int *fd, yk_error *err)
{
    while ((*fd = connect_place(place)) < 0) {
        if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
            return yk__fail(err, YK_E_IO, "going to the lowest rank of this host: %s", yk__limit_reason(errno).text);
        if (deadline && yk__clock_ms() > deadline)
            return yk__fail(err, YK_E_TIMEOUT, "the lowest rank of this host (rank 0, where all are on one) is not there (YOKE_JOIN_MS)");
        if (yk__waiting_due(waiting))
            yk__waiting_say(waiting, "the lowest rank of this host (rank 0, where all are on one)");
        nanosleep(&(struct timespec){0, NAP_MS * 1000000}, NULL);
    }
    return YK_OK;
}

yk_status yk__rendezvous_join(const yk__rendezvous_place *place, const uint8_t token[YK__RENDEZVOUS_TOKEN], uint32_t rank,
                    uint32_t ranks, int64_t deadline, yk__waiting *waiting, int *job_fd, yk_error *err)
{
    request ask = {.magic = REQUEST_MAGIC, .rank = rank, .ranks = ranks};
    int fd = -1;
    if (connect_until(place, deadline, waiting, &fd, err))
        return err->status;
    memcpy(ask.token, token, sizeof ask.token);
    if (!is_own_user(fd))
        yk__fail(err, YK_E_ARG, "another user's process listens under the name of this job");
    else if (send(fd, &ask, sizeof ask, MSG_NOSIGNAL) != (ssize_t)sizeof ask)
        yk__fail(err, YK_E_IO, "asking the lowest rank of this host: %s", strerror(errno));
    else
        wait_hello(fd, deadline, err);
    if (err->status)
        close(fd);
    else
        *job_fd = fd;
    return err->status;
}

/* ---- The admitting rank ------------------------------------------------------------------------------------------ */

yk_status yk__rendezvous_new(int listener, const uint8_t token[YK__RENDEZVOUS_TOKEN], uint32_t rank, uint32_t ranks,
                             const uint32_t *lowest, yk__rendezvous **out, yk_error *err)
{
    yk__rendezvous *v;
    *out = NULL;
    if (listener < 0)
        return YK_OK;
    v = yk__calloc(1, sizeof *v);
    if (!v) {
        close(listener);
        return yk__fail_mem(err, sizeof *v, "the ranks of this host");
    }
    v->listener = listener;
    v->rank = rank;
    v->ranks = ranks;
    memcpy(v->token, token, sizeof v->token);
    v->expected = yk__calloc(v->ranks, sizeof *v->expected);
    if (!v->expected) {
        yk__rendezvous_free(v);
        return yk__fail_mem(err, v->ranks, "the ranks of this host");
    }
    for (uint32_t r = 0; r < v->ranks; r++) {
        v->expected[r] = r != v->rank && lowest[r] == v->rank;
        v->absent += v->expected[r];
    }
    *out = v;
    return YK_OK;
}

static void pending_drop(yk__rendezvous *v, uint32_t i)
{
    v->pending[i] = v->pending[--v->n_pending];
}

void yk__rendezvous_free(yk__rendezvous *v)
{
    if (!v)
        return;
    while (v->n_pending)
        close(v->pending[--v->n_pending].fd);
    if (v->listener >= 0)
        close(v->listener);
    yk__free(v->expected);
    yk__free(v);
}

nfds_t yk__rendezvous_poll(const yk__rendezvous *v, struct pollfd *poll)
{
    nfds_t n = 0;
    if (v->listener >= 0)
        poll[n++] = (struct pollfd){v->listener, POLLIN, 0};
    for (uint32_t i = 0; i < v->n_pending; i++)
        poll[n++] = (struct pollfd){v->pending[i].fd, POLLIN, 0};
    return n;
}

static void refuse_rank(yk__rendezvous *v, int fd, const char *why)
{
    close(fd);
    if (!v->refusal_logged)
        yk__log(YK_LOG_WARN, "control", "a process that wanted to join as a rank of this host was refused: %s", why);
    v->refusal_logged = true;
}

/* Without a descriptor for a rank that waits, the job could only wait for it. */
static yk_status accept_ranks(yk__rendezvous *v, yk_error *err)
{
    int fd = -1;
    errno = 0;
    while (v->listener >= 0 && (fd = accept4(v->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (!is_own_user(fd))
            refuse_rank(v, fd, "it belongs to another user");
        else if (v->n_pending == YK__RENDEZVOUS_PENDING)
            refuse_rank(v, fd, "too many wait");
        else {
            v->pending[v->n_pending].fd = fd;
            v->pending[v->n_pending++].until = yk__clock_ms() + REQUEST_MS;
        }
        errno = 0;
    }
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) /* a want of memory passes, and the rank waits meanwhile */
        yk__fail(err, YK_E_IO, "taking in a rank of this host: %s", yk__limit_reason(errno).text);
    return err->status;
}

/* Sets the rank that the request is from, or returns the reason to refuse it. */
static const char *request_rank(const yk__rendezvous *v, const request *ask, ssize_t bytes, uint32_t *rank)
{
    if (bytes != (ssize_t)sizeof *ask || ask->magic != REQUEST_MAGIC)
        return "it sent no request";
    if (memcmp(ask->token, v->token, sizeof v->token) || ask->ranks != v->ranks)
        return "it is of another job";
    if (ask->rank >= v->ranks || !v->expected[ask->rank])
        return "its rank is there already, or runs on another host";
    *rank = ask->rank;
    return NULL;
}

yk_status yk__rendezvous_serve(yk__rendezvous *v, yk__control_job *job, yk_error *err)
{
    if (accept_ranks(v, err))
        return err->status;
    for (uint32_t i = v->n_pending; i-- > 0;) {
        const int fd = v->pending[i].fd;
        request ask = {0};
        uint32_t rank = 0;
        const ssize_t n = recv(fd, &ask, sizeof ask, MSG_DONTWAIT);
        const char *why;
        if (n < 0 && (errno == EAGAIN || errno == EINTR) && yk__clock_ms() < v->pending[i].until)
            continue;
        pending_drop(v, i);
        why = n < 0 ? "it said nothing" : request_rank(v, &ask, n, &rank);
        if (why) {
            refuse_rank(v, fd, why);
            continue;
        }
        v->expected[rank] = false;
        v->absent--;
        if (yk__control_job_hand(job, rank, fd, err))
            return err->status;
    }
    if (!v->absent && v->listener >= 0) {
        close(v->listener); /* every expected rank has come */
        v->listener = -1;
    }
    return YK_OK;
}
