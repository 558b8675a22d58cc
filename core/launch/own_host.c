/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds this host in a list of hosts, by name or address, as it needs no ssh. Also finds the address by which other hosts reach it.
 *
 * cmd_launch.c marks this host in the list, launch_words.c asks about one name, and peer.c asks for the address, in the launcher's main
 * thread. A name that resolves to none of this host's addresses is another host's, even if this host has the same short name.
 */
#include "config.h"

#include "core/launch/own_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME_MOST 256

/* address: in network order, of `bytes` bytes. True if it is the one of an interface. */
static bool interface_has(const struct ifaddrs *interface, int family, const void *address, size_t bytes)
{
    const void *own;
    if (!interface->ifa_addr || interface->ifa_addr->sa_family != family)
        return false;
    own = family == AF_INET ? (const void *)&((const struct sockaddr_in *)interface->ifa_addr)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)interface->ifa_addr)->sin6_addr;
    return !memcmp(own, address, bytes);
}

static bool address_is_own(const char *name)
{
    uint8_t address[sizeof(struct in6_addr)];
    struct ifaddrs *list = NULL;
    const int family = inet_pton(AF_INET, name, address) == 1 ? AF_INET : inet_pton(AF_INET6, name, address) == 1 ? AF_INET6 : 0;
    bool found = false;
    if (!family || getifaddrs(&list))
        return false;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next)
        found = interface_has(at, family, address, family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr));
    freeifaddrs(list);
    return found;
}

/* True if the name has addresses, and none of them is this host's: another domain has a host of the same short name. */
static bool name_is_elsewhere(const char *name)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *list = NULL;
    char text[YK__TCP_ADDRESS];
    bool own = false;
    if (getaddrinfo(name, NULL, &hints, &list))
        return false;
    for (const struct addrinfo *at = list; at && !own; at = at->ai_next)
        own = !getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) &&
              (yk__tcp_is_loopback(text) || address_is_own(text));
    freeaddrinfo(list);
    return !own;
}

/* A name counts with a domain and without one. */
static bool name_is_own(const char *name)
{
    char own[NAME_MOST] = "";
    size_t n;
    if (gethostname(own, sizeof own - 1) || !*own)
        return false;
    n = strlen(own) < strlen(name) ? strlen(own) : strlen(name);
    if (strncmp(own, name, n) != 0 || (own[n] && own[n] != '.') || (name[n] && name[n] != '.'))
        return false;
    return !name[n] || !name_is_elsewhere(name);
}

bool yk__own_host_is(const char *name)
{
    const bool local = !strncmp(name, "localhost", 9) && (!name[9] || name[9] == '.');
    return local || yk__tcp_is_loopback(name) || address_is_own(name) || name_is_own(name);
}

yk_status yk__own_host_mark(yk__hosts *hosts, yk_error *err)
{
    const char *first = NULL;
    for (uint32_t i = 0; i < hosts->count; i++) {
        yk__host *host = &hosts->host[i];
        host->own = yk__own_host_is(host->name);
        if (host->own && first)
            return yk__fail(err, YK_E_ARG, "hosts '%s' and '%s' are this host under two names: give one of them the ranks of both "
                            "(%s:COUNT)", first, host->name, first);
        if (host->own)
            first = host->name;
    }
    return YK_OK;
}

/* ---- Its address ------------------------------------------------------------------------------------------------- */

/* A datagram socket takes the route's address when it is connected, and sends nothing. False for a loopback address. */
static bool route_find(const struct addrinfo *to, char text[YK__TCP_ADDRESS])
{
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    text[0] = 0;
    if (fd >= 0 && !connect(fd, to->ai_addr, to->ai_addrlen))
        yk__tcp_own_address(fd, text);
    if (fd >= 0)
        close(fd);
    return !yk__tcp_is_loopback(text);
}

/* name: of a host, maybe with a user in front. */
static bool name_reach(const char *name, char text[YK__TCP_ADDRESS])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    const char *at = strrchr(name, '@');
    struct addrinfo *list = NULL;
    bool found = false;
    if (getaddrinfo(at ? at + 1 : name, "9", &hints, &list)) /* no packet goes to the port */
        return false;
    for (const struct addrinfo *to = list; to && !found; to = to->ai_next)
        found = route_find(to, text);
    freeaddrinfo(list);
    return found;
}

void yk__own_host_address(const yk__hosts *hosts, char text[YK__TCP_ADDRESS])
{
    char own[NAME_MOST] = "";
    for (uint32_t i = 0; i < hosts->count; i++)
        if (!hosts->host[i].own && name_reach(hosts->host[i].name, text))
            return;
    if (gethostname(own, sizeof own - 1) || !*own || !name_reach(own, text))
        text[0] = 0;
}
