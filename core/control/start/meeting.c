/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of several hosts find rank 0 by one text in their launcher's store (PMI or PMIx). bootstrap.c calls yk__meeting_share in each
 * rank's joining thread. A second thread logs a line if that takes long (waiting.c).
 *
 * Rank 0 writes "ADDRESS PORT CREDENTIAL", or "ADDRESS PORT file" if YOKE_SECRET_FILE has the secret. After a failure it writes "!" and its
 * error, so every rank ends with the error and no rank waits.
 */
#include "config.h"

#include "core/control/start/meeting.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/control/start/munge.h"
#include "core/control/start/pmi.h"
#include "core/control/start/pmix.h"
#include "core/net/tcp.h"

#define TEXT YK__PMI_TEXT
#define CREDENTIAL 320

/* The first address of an interface that is up and not loopback. IPv4 alone, as an IPv6 address may hold for one link only. */
static bool find_interface(char address[YK__TCP_ADDRESS])
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list))
        return false;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next)
        found = at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK) &&
                !getnameinfo(at->ifa_addr, sizeof(struct sockaddr_in), address, YK__TCP_ADDRESS, NULL, 0, NI_NUMERICHOST);
    freeifaddrs(list);
    return found;
}

/* Listens on the address of this host's name, as other hosts see it. If that is loopback (Debian's 127.0.1.1), on the first other
 * address; a host without a network only reaches itself. */
static yk_status listen_for_ranks(uint16_t port, yk__meeting *meeting, yk_error *err)
{
    char name[256];
    yk_error ignored = YK_ERROR_INIT;
    if (gethostname(name, sizeof name))
        name[0] = 0;
    name[sizeof name - 1] = 0;
    if (!yk__tcp_listen(name, port, &meeting->listener, &ignored)) {
        yk__tcp_own_address(meeting->listener, meeting->address);
        meeting->port = yk__tcp_port(meeting->listener);
        if (!yk__tcp_is_loopback(meeting->address))
            return YK_OK;
        close(meeting->listener);
        meeting->listener = -1;
    }
    if (!find_interface(meeting->address))
        snprintf(meeting->address, sizeof meeting->address, "127.0.0.1");
    if (yk__tcp_listen(meeting->address, port, &meeting->listener, err))
        return err->status;
    meeting->port = yk__tcp_port(meeting->listener);
    return YK_OK;
}

static yk_status secret_seal(yk__meeting *meeting, char *credential, yk_error *err)
{
    if (getrandom(meeting->secret, sizeof meeting->secret, 0) != (ssize_t)sizeof meeting->secret)
        return yk__fail(err, YK_E_IO, "the job's secret: no random bytes");
    if (yk__munge_seal(meeting->secret, sizeof meeting->secret, credential, CREDENTIAL, err))
        return yk__fail_in(err, "ranks on several hosts need a secret: set YOKE_SECRET_FILE to a file with one on each host (head -c 32 "
                           "/dev/urandom > FILE; chmod 600 FILE), or run munged");
    return YK_OK;
}

static yk_status meeting_open(const yk__origin *origin, bool secret, yk__meeting *meeting, char *text, yk_error *err)
{
    char credential[CREDENTIAL] = "file";
    if ((secret && secret_seal(meeting, credential, err)) || listen_for_ranks(origin->port, meeting, err)) {
        snprintf(text, TEXT, "!%.*s", TEXT - 2, err->text);
        return err->status;
    }
    if ((size_t)snprintf(text, TEXT, "%s %u %s", meeting->address, meeting->port, credential) >= TEXT)
        yk__fail(err, YK_E_INTERNAL, "rank 0's address and secret are longer than %d bytes", TEXT);
    return err->status;
}

static yk_status meeting_take(const char *text, bool secret, yk__meeting *meeting, yk_error *err)
{
    char credential[CREDENTIAL];
    unsigned port = 0;
    if (text[0] == '!')
        return yk__fail(err, YK_E_ARG, "%s", text + 1);
    if (sscanf(text, "%63s %u %319s", meeting->address, &port, credential) != 3 || !port || port > UINT16_MAX)
        return yk__fail(err, YK_E_FORMAT, "the launcher's store: expected rank 0's address, port and credential, got another text");
    meeting->port = (uint16_t)port;
    if (secret != (strcmp(credential, "file") != 0))
        return yk__fail(err, YK_E_ARG, "YOKE_SECRET_FILE is set on rank 0 %s this one: set it on all ranks or none",
                        secret ? "and not on" : "not, but on");
    return secret ? yk__munge_open(credential, meeting->secret, sizeof meeting->secret, err) : YK_OK;
}

/* Collective. */
static yk_status text_share(yk__waiting *waiting, uint32_t ms, char text[TEXT], yk_error *err)
{
    const yk__origin *origin = waiting->origin;
    yk__waiting_watch watch;
    yk__waiting_begin_watch(&watch, waiting, origin->store_fd >= 0 ? "other ranks (PMI does not tell which; each that waits says so)"
                                                                    : "other ranks (PMIx does not tell which; each that waits says so)");
    if (origin->store_fd >= 0)
        yk__pmi_share(origin->store_fd, origin->rank, ms, text, TEXT, err);
    else if (yk__pmix_share(origin->rank, ms, text, TEXT, err) == YK_E_UNSUPPORTED)
        yk__fail_in(err, "ranks of several hosts: set YOKE_ADDR, YOKE_PORT and YOKE_SECRET_FILE, or install libpmix");
    yk__waiting_end_watch(&watch);
    yk__waiting_begin(waiting, origin); /* for rank 0, which names ranks */
    return err->status;
}

yk_status yk__meeting_share(yk__waiting *waiting, uint32_t ms, bool secret, yk__meeting *meeting, yk_error *err)
{
    const yk__origin *origin = waiting->origin;
    yk_error why = YK_ERROR_INIT;
    char text[TEXT] = "";
    meeting->listener = -1;
    if (!origin->rank)
        meeting_open(origin, secret, meeting, text, &why); /* an error goes to all ranks first */
    text_share(waiting, ms, text, err);
    if (why.status)
        *err = why;
    if (!err->status && origin->rank)
        meeting_take(text, secret, meeting, err);
    if (err->status && meeting->listener >= 0) {
        close(meeting->listener);
        meeting->listener = -1;
    }
    return err->status;
}
