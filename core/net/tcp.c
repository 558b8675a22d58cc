/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP sockets of a job's control plane: listening, connecting with a time limit, this host's address. core/control/start and node.c call it
 * while a job starts, and own_host.c asks for this host's addresses, in the caller's thread. Each connect resolves the name again, as a
 * pod's name appears some time after the pod.
 */
#include "config.h"

#include "core/base/limit.h"
#include "core/net/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PENDING 64         /* connections that the kernel keeps for a listener */
#define LOST_MS 10000      /* ms until the kernel gives up unacknowledged bytes; a second net below the heartbeats */

/* This process has no descriptor or memory for another socket: no second try helps. */
static bool is_scarce(int e)
{
    return e == EMFILE || e == ENFILE || e == ENOBUFS || e == ENOMEM;
}

/* IPv6 addresses may stand in brackets, as in lists of hosts and in URLs. */
static yk_status find_host(const char *host, uint16_t port, struct addrinfo **list, yk_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const size_t n = strlen(host);
    char service[8], bare[YK__TCP_ADDRESS];
    int e;
    snprintf(service, sizeof service, "%u", port);
    if (n > 2 && n < sizeof bare && host[0] == '[' && host[n - 1] == ']')
        snprintf(bare, sizeof bare, "%.*s", (int)(n - 2), host + 1);
    else
        bare[0] = 0;
    e = getaddrinfo(*bare ? bare : host, service, &hints, list);
    if (e == EAI_SYSTEM && is_scarce(errno))
        return yk__fail(err, YK_E_MEM, "host %.200s: %s", host, yk__limit_reason(errno).text);
    if (e)
        return yk__fail(err, YK_E_ARG, "host %.200s: %s", host, e == EAI_SYSTEM ? strerror(errno) : gai_strerror(e));
    return YK_OK;
}

/* A connection carries few, short messages next to the job's bulk data. So it asks for the queues of interactive traffic (ip(7));
 * networks that ignore the mark do no harm. Lost bytes are sent again at even intervals. The usual doubling would, after three losses in
 * a row, stay silent for longer than the time after which a host counts as dead. */
static void set_options(int fd)
{
    const int one = 1, ms = LOST_MS, tos = IPTOS_LOWDELAY;
    setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
    setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof tos);
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static int listen_on(const struct addrinfo *at)
{
    const int one = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int e;
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, PENDING))
        return fd;
    e = errno;
    close(fd);
    errno = e;
    return -1;
}

yk_status yk__tcp_listen(const char *host, uint16_t port, int *fd, yk_error *err)
{
    struct addrinfo *list = NULL;
    int e = EADDRNOTAVAIL, listener = -1;
    if (find_host(host, port, &list, err))
        return err->status;
    for (const struct addrinfo *at = list; at && listener < 0; at = at->ai_next) {
        listener = listen_on(at);
        e = listener < 0 ? errno : 0;
    }
    freeaddrinfo(list);
    if (listener < 0)
        return yk__fail(err, e == EADDRINUSE || is_scarce(e) ? YK_E_IO : YK_E_ARG, "listening on %.200s port %u: %s%s", host, port,
                        yk__limit_reason(e).text,
                        e == EADDRNOTAVAIL ? "; rank 0 must run on that host" : e == EADDRINUSE ? "; choose another (YOKE_PORT)" : "");
    *fd = listener;
    return YK_OK;
}

uint16_t yk__tcp_port(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &n))
        return 0;
    return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port : ((struct sockaddr_in *)&at)->sin_port);
}

void yk__tcp_own_address(int fd, char address[YK__TCP_ADDRESS])
{
    struct sockaddr_storage own;
    socklen_t n = sizeof own;
    if (getsockname(fd, (struct sockaddr *)&own, &n) ||
        getnameinfo((struct sockaddr *)&own, n, address, YK__TCP_ADDRESS, NULL, 0, NI_NUMERICHOST))
        address[0] = 0;
}

bool yk__tcp_is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1") || !strcmp(address, "[::1]") || !*address;
}

yk_status yk__tcp_accept(int listener, int *fd, yk_error *err)
{
    *fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (*fd >= 0)
        set_options(*fd);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        return yk__fail(err, YK_E_IO, "accepting a connection: %s", yk__limit_reason(errno).text);
    return YK_OK;
}

/* Returns 0 or an errno. */
static int connect_to(const struct addrinfo *at, int ms, int *fd)
{
    const int s = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd p = {s, POLLOUT, 0};
    int e = 0;
    socklen_t n = sizeof e;
    if (s < 0)
        return errno;
    set_options(s);
    if (connect(s, at->ai_addr, at->ai_addrlen) && errno != EINPROGRESS)
        e = errno;
    else if (poll(&p, 1, ms) <= 0)
        e = ETIMEDOUT;
    else if (getsockopt(s, SOL_SOCKET, SO_ERROR, &e, &n))
        e = errno;
    if (e)
        close(s);
    else
        *fd = s;
    return e;
}

yk_status yk__tcp_connect(const char *host, uint16_t port, int ms, int *fd, yk_error *err)
{
    struct addrinfo *list = NULL;
    int e = EHOSTUNREACH;
    if (find_host(host, port, &list, err))
        return err->status;
    for (const struct addrinfo *at = list; at && e; at = at->ai_next)
        e = connect_to(at, ms, fd);
    freeaddrinfo(list);
    return e ? yk__fail(err, e == ETIMEDOUT ? YK_E_TIMEOUT : is_scarce(e) ? YK_E_MEM : YK_E_IO, "%.200s port %u: %s", host, port,
                        yk__limit_reason(e).text)
             : YK_OK;
}
