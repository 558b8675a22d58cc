/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways by which a starting process reaches the control object, the memory in which the ranks of a host meet. It takes the job's name if
 * one host has all ranks, else rank 0's address. core/group calls yk__bootstrap in the opening thread, if no `yoke launch` hands the object
 * out. It returns the rank's socket to that object.
 *
 * In a job of several hosts every rank opens a socket for the ranks of its host, and then connects to rank 0. So the socket exists before
 * other ranks learn its name. The lowest rank of a host uses its socket; the other ranks close theirs. The job's secret is in the file
 * YOKE_SECRET_FILE, or in the launcher's store.
 */
#include "config.h"

#include "core/control/start/bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/control/agent.h"
#include "core/control/mirror.h"
#include "core/control/start/assemble.h"
#include "core/control/start/meeting.h"
#include "core/control/start/pmi.h"
#include "core/control/start/secret.h"

#define NAP_MS 20
#define TAKEN_MS 1000   /* ms until it reports that another process has the job's name */
#define GOODBYE_MS 2000 /* ms from the last frame to the end of the connection */

typedef struct start {
    const yk__origin *origin;
    uint32_t join_ms;
    bool liveness;
    int64_t deadline;  /* yk__clock_ms; 0 for none */
    yk__waiting waiting;
    uint32_t *lowest;  /* [size]: the lowest rank of each rank's host */
    int listener;      /* socket for the other ranks of this host; -1 if none */
    uint8_t token[YK__RENDEZVOUS_TOKEN];
    uint8_t secret[YK__SECRET_MOST];
    uint32_t secret_bytes;
} start;

/* ---- The lowest rank of a host ----------------------------------------------------------------------------------- */

static void name_ranks(yk__control_job *job, const uint32_t *lowest, uint32_t own, uint32_t ranks)
{
    char host[64] = "", name[YK__CONTROL_NAME];
    if (gethostname(host, sizeof host))
        host[0] = 0;
    host[sizeof host - 1] = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        if (lowest[r] == lowest[own] && host[0])
            snprintf(name, sizeof name, "rank %u (%s)", r, host);
        else
            snprintf(name, sizeof name, "rank %u", r);
        yk__control_job_name(job, r, name);
    }
}

/* Takes over the listener and the links. */
static yk_status serve_host(start *st, const uint8_t *secret, yk__link *link, uint32_t links, int *job_fd, yk__agent **agent,
                            yk_error *err)
{
    const uint32_t own = st->origin->rank, ranks = st->origin->size;
    yk__control_job *job = NULL;
    yk__agent_config config = {.rank = own, .ranks = ranks, .lowest = st->lowest, .listener = st->listener, .link = link,
                               .links = links, .liveness = st->liveness};
    char address[YK__TCP_ADDRESS];
    int fd = -1;
    memcpy(config.token, st->token, sizeof config.token);
    if (!yk__control_job_make(ranks, 1 + own, secret, &job, err) && !yk__control_job_pair(job, own, err)) {
        name_ranks(job, st->lowest, own, ranks);
        if (links) {
            yk__tcp_own_address(link[0].fd, address);
            yk__control_job_address(job, address);
        }
        fd = yk__control_job_take_rank_fd(job, own);
        config.job = job;
        st->listener = -1;
        if (!yk__agent_start(&config, agent, err))
            *job_fd = fd;
        else
            close(fd);
        return err->status;
    }
    for (uint32_t i = 0; i < links; i++)
        yk__link_close(&link[i]);
    yk__free(link);
    yk__control_job_free(job);
    return err->status;
}

/* ---- One host ---------------------------------------------------------------------------------------------------- */

static yk_status listen_for_host(start *st, const yk__rendezvous_place *place, yk_error *err)
{
    const int64_t late = yk__clock_ms() + TAKEN_MS;
    bool said = false;
    while (yk__rendezvous_listen(place, &st->listener, err)) {
        if (st->deadline && yk__clock_ms() > st->deadline)
            return err->status;
        if (!said && yk__clock_ms() > late) {
            yk__log(YK_LOG_WARN, "control", "%s; waiting for it to end", err->text);
            said = true;
        }
        *err = (yk_error)YK_ERROR_INIT; /* it may belong to an earlier program of the same launcher: try again */
        nanosleep(&(struct timespec){0, NAP_MS * 1000000}, NULL);
    }
    return YK_OK;
}

static yk_status start_on_host(start *st, const char *name, int *job_fd, yk__agent **agent, yk_error *err)
{
    yk__rendezvous_place place;
    const uint64_t hash = yk__hash_bytes(~YK_HASH_SEED, name, strlen(name));
    yk__rendezvous_address(name, &place);
    memcpy(st->token, &hash, sizeof hash);
    if (st->origin->rank)
        return yk__rendezvous_join(&place, st->token, st->origin->rank, st->origin->size, st->deadline, &st->waiting, job_fd, err);
    return listen_for_host(st, &place, err) ? err->status : serve_host(st, NULL, NULL, 0, job_fd, agent, err);
}

static yk_status start_by_store(start *st, int *job_fd, yk__agent **agent, yk_error *err)
{
    char name[YK__PMI_VALUE];
    return yk__pmi_job_name(st->origin->store_fd, name, err) ? err->status : start_on_host(st, name, job_fd, agent, err);
}

/* ---- Several hosts ----------------------------------------------------------------------------------------------- */

/* Identifies the running kernel and the network namespace: a pod has a namespace of its own, and abstract sockets do not cross it.
 * YOKE_HOST_ID splits one host into two, for tests. */
static uint64_t host_number(void)
{
    const char *given = yk__option_text(YK__OPTION_HOST_ID);
    char boot[64] = "", net[64] = "";
    uint64_t hash = YK_HASH_SEED;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f) {
        hash = yk__hash_bytes(hash, boot, fread(boot, 1, sizeof boot, f));
        fclose(f);
    }
    const ssize_t n = readlink("/proc/self/ns/net", net, sizeof net);
    hash = yk__hash_bytes(hash, net, n > 0 ? (size_t)n : 0);
    return given ? yk__hash_bytes(hash, given, strlen(given)) : hash;
}

static void find_lowest(const yk__gathered *all, uint32_t ranks, uint32_t *lowest)
{
    for (uint32_t r = 0; r < ranks; r++) {
        lowest[r] = r;
        for (uint32_t q = 0; q < r && lowest[r] == r; q++)
            if (all->entry[q].host == all->entry[r].host)
                lowest[r] = q;
    }
}

/* Ends the connection in order. Closing it with unread heartbeats would reset it, and the last frames might be lost. */
static yk_status say_goodbye(yk__link *link, yk_error *err)
{
    const int64_t until = yk__clock_ms() + GOODBYE_MS;
    bool ended = false;
    if (yk__link_send(link, YK__FRAME_GOODBYE, NULL, 0, err))
        return err->status;
    while (!ended && yk__clock_ms() < until) {
        struct pollfd p = {link->fd, POLLIN, 0};
        if (poll(&p, 1, NAP_MS) > 0 && yk__link_read(link, &ended, err))
            return err->status;
    }
    return YK_OK;
}

/* Joins at the host's lowest rank, on any other rank of that host, and then ends the connection with rank 0. */
static yk_status go_to_lowest(start *st, yk__gathered *all, int *job_fd, yk_error *err)
{
    const uint32_t own = st->origin->rank;
    yk__rendezvous_place place;
    yk__rendezvous_address_of(all->entry[st->lowest[own]].name, &place);
    if (yk__rendezvous_join(&place, st->token, own, st->origin->size, st->deadline, &st->waiting, job_fd, err))
        return err->status;
    return say_goodbye(all->link, err);
}

static yk_status start_gathered(start *st, yk__gathered *all, int *job_fd, yk__agent **agent, yk_error *err)
{
    uint8_t secret[YK__CONTROL_SECRET], token[YK__AUTH_BYTES];
    yk__link *link = all->link;
    uint32_t links = all->links;
    yk__auth_derive(st->secret, st->secret_bytes, "job", all->nonce, sizeof all->nonce, secret);
    yk__auth_derive(st->secret, st->secret_bytes, "host", all->nonce, sizeof all->nonce, token);
    memcpy(st->token, token, sizeof st->token);
    find_lowest(all, st->origin->size, st->lowest);
    if (st->lowest[st->origin->rank] != st->origin->rank)
        return go_to_lowest(st, all, job_fd, err);
    all->link = NULL;
    serve_host(st, secret, link, links, job_fd, agent, err);
    yk__auth_wipe(secret, sizeof secret);
    return err->status;
}

/* The socket on which this process's launcher already listens for it (YOKE_LISTEN_FD); -1 if none. */
static int inherited_listener(uint16_t port)
{
    const char *text = yk__option_text(YK__OPTION_LISTEN_FD);
    const int fd = text ? atoi(text) : -1;
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (fd < 3 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) || !listens || yk__tcp_port(fd) != port)
        return -1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* listener: rank 0's, taken over; -1 on other ranks. st->secret is known. */
static yk_status start_at(start *st, const char *address, uint16_t port, int listener, int *job_fd, yk__agent **agent, yk_error *err)
{
    const yk__origin *o = st->origin;
    yk__gather_config config = {.secret = st->secret, .secret_bytes = st->secret_bytes, .address = address, .port = port,
                                .listener = listener, .rank = o->rank, .ranks = o->size, .join_ms = st->join_ms, .liveness = st->liveness,
                                .waiting = &st->waiting};
    yk__gathered all = {.link = NULL};
    config.own.host = host_number();
    if (yk__rendezvous_listen_any(&st->listener, config.own.name, err)) {
        if (listener >= 0)
            close(listener);
        return err->status;
    }
    if (yk__gather_ranks(&config, &all, err))
        return err->status;
    start_gathered(st, &all, job_fd, agent, err);
    yk__gathered_free(&all);
    return err->status;
}

static yk_status read_secret_file(start *st, yk_error *err)
{
    const char *path = yk__option_text(YK__OPTION_SECRET_FILE);
    return path ? yk__secret_read(path, st->secret, &st->secret_bytes, err)
                : yk__fail(err, YK_E_ARG, "YOKE_SECRET_FILE is not read in a setuid program");
}

static yk_status start_at_address(start *st, int *job_fd, yk__agent **agent, yk_error *err)
{
    const yk__origin *o = st->origin;
    if (read_secret_file(st, err))
        return err->status;
    return start_at(st, o->address, o->port, o->rank ? -1 : inherited_listener(o->port), job_fd, agent, err);
}

/* Rank 0 publishes its address in the launcher's store, and the secret too unless a file has it. */
static yk_status start_by_meeting(start *st, int *job_fd, yk__agent **agent, yk_error *err)
{
    yk__meeting meeting = {.listener = -1};
    const bool file = yk__option_text(YK__OPTION_SECRET_FILE) != NULL;
    if ((file && read_secret_file(st, err)) || yk__meeting_share(&st->waiting, st->join_ms, !file, &meeting, err))
        return err->status;
    if (!file) {
        memcpy(st->secret, meeting.secret, sizeof meeting.secret);
        st->secret_bytes = sizeof meeting.secret;
        yk__auth_wipe(meeting.secret, sizeof meeting.secret);
    }
    return start_at(st, meeting.address, meeting.port, meeting.listener, job_fd, agent, err);
}

yk_status yk__bootstrap(const yk__origin *origin, uint32_t join_ms, bool liveness, int *job_fd, yk__agent **agent, yk_error *err)
{
    start *st = yk__calloc(1, sizeof *st);
    uint32_t *lowest = yk__calloc(origin->size + 1, sizeof *lowest); /* 0 for a job of one host */
    *agent = NULL;
    if (!st || !lowest) {
        yk__free(st);
        yk__free(lowest);
        return yk__fail_mem(err, origin->size * sizeof *lowest, "the ranks of a job");
    }
    *st = (start){.origin = origin, .join_ms = join_ms, .liveness = liveness, .lowest = lowest, .listener = -1};
    yk__waiting_begin(&st->waiting, origin);
    st->deadline = join_ms ? yk__clock_ms() + join_ms : 0;
    if (origin->kind == YK__ORIGIN_HOST)
        start_on_host(st, origin->job, job_fd, agent, err);
    else if (origin->kind == YK__ORIGIN_STORE)
        start_by_store(st, job_fd, agent, err);
    else if (origin->kind == YK__ORIGIN_SHARED)
        start_by_meeting(st, job_fd, agent, err);
    else
        start_at_address(st, job_fd, agent, err);
    if (st->listener >= 0)
        close(st->listener);
    yk__auth_wipe(st->secret, sizeof st->secret);
    yk__free(lowest);
    yk__free(st);
    return err->status;
}
