/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the ranks of a job on several hosts with rank 0, which tells each one the host of each rank. bootstrap.c calls yk__gather_ranks
 * in each rank's joining thread.
 *
 * Rank 0 listens on its own address alone. A peer has YK__HELLO_SECONDS for the hello, and at most YK__HELLO_PENDING peers are in it. One
 * more replaces the oldest, so silent strangers keep no rank out. A connection that fails the hello is closed silently and logged once.
 * Ranks that have come send heartbeats; if one dies or stops meanwhile, the start fails for every rank.
 */
#include "config.h"

#include "core/control/start/assemble.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/control/agent.h"
#include "core/control/mirror.h"
#include "core/net/tcp.h"

#define TICK_MS 50
#define STEP_MAX_MS 150  /* a longer step was a pause of this process itself */
#define LAST_WORDS_MS 1000
#define CONNECT_MS 2000
#define HELLO_TRIES 3    /* a full listener closes connections too */
#define ACCEPT_MOST (YK__HELLO_PENDING / 4) /* accepts between two steps of each hello, so that a rank gets steps before it is replaced */
#define BYTE_ORDER_MARK 0x01020304u

typedef struct frame_here {
    uint32_t order, version; /* BYTE_ORDER_MARK in this host's order; YK__CONTROL_VERSION */
    char name[64];           /* name of its host, for messages */
    yk__gather_entry entry;
} frame_here;

typedef struct frame_table {
    uint8_t nonce[16];
    yk__gather_entry entry[];
} frame_table;

typedef struct greeting { /* a connection in its hello */
    int fd;
    int64_t until;
    yk__hello hello;
} greeting;

typedef struct gather {
    const yk__gather_config *config;
    int listener;
    int64_t begin, last, beat_at; /* ms */
    greeting greeting[YK__HELLO_PENDING];
    uint32_t greetings, here; /* here: ranks that have described themselves, this one included */
    yk__link *link;           /* [ranks - 1]: link of rank r at r - 1 */
    bool *described;          /* [ranks] */
    char (*host)[64];         /* [ranks]: names of hosts */
    yk__gather_entry *entry;
    struct pollfd *poll;
    uint32_t refused; /* number of refused connections, */
    char why[256];    /* and the reason of the last refusal */
} gather;

static uint64_t job_number(const yk__gather_config *config)
{
    return (uint64_t)config->port << 32 | config->ranks;
}

static void hello_config(const yk__gather_config *config, uint32_t peer, yk__hello_config *hello)
{
    *hello = (yk__hello_config){.secret = config->secret, .secret_bytes = config->secret_bytes, .job = job_number(config),
                                .rank = config->rank, .peer = peer, .ranks = config->ranks, .role = YK__HELLO_CONTROL,
                                .stream = peer == YK__HELLO_ANY ? 1 : 0};
}

static void read_host_name(char name[64])
{
    if (gethostname(name, 64))
        name[0] = 0;
    name[63] = 0;
    yk__printable(name);
}

/* Milliseconds since the last call, bounded, for the owner of a link. */
static int64_t step_take(int64_t *last)
{
    const int64_t now = yk__clock_ms(), step = now - *last;
    *last = now;
    return step > STEP_MAX_MS ? STEP_MAX_MS : step;
}

/* ---- Rank 0: connections ----------------------------------------------------------------------------------------- */

static void connection_refuse(gather *g, int fd, const char *why)
{
    close(fd);
    if (!g->refused++)
        yk__log(YK_LOG_WARN, "control", "a connection to this job was refused, further ones are counted: %s", why);
    snprintf(g->why, sizeof g->why, "%.255s", why);
}

static void greeting_drop(gather *g, uint32_t i)
{
    yk__hello_end(&g->greeting[i].hello);
    if (i != g->greetings - 1)
        g->greeting[i] = g->greeting[g->greetings - 1];
    g->greetings--;
}

static void greeting_evict(gather *g)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < g->greetings; i++)
        if (g->greeting[i].until < g->greeting[oldest].until)
            oldest = i;
    connection_refuse(g, g->greeting[oldest].fd, "too many are in their hello, of which it was the oldest");
    greeting_drop(g, oldest);
}

static yk_status connections_accept(gather *g, yk_error *err)
{
    yk__hello_config hello;
    int fd;
    hello_config(g->config, YK__HELLO_ANY, &hello);
    for (uint32_t i = 0; i < ACCEPT_MOST; i++) {
        if (yk__tcp_accept(g->listener, &fd, err))
            return err->status;
        if (fd < 0)
            return YK_OK;
        if (g->greetings == YK__HELLO_PENDING)
            greeting_evict(g);
        greeting *next = &g->greeting[g->greetings];
        if (yk__hello_begin(&next->hello, &hello, false, err)) {
            close(fd);
            return err->status;
        }
        next->fd = fd;
        next->until = yk__clock_ms() + YK__HELLO_SECONDS * 1000;
        g->greetings++;
    }
    return YK_OK;
}

/* Makes a link of connection i, whose hello is done. */
static void greeting_finish(gather *g, uint32_t i)
{
    const uint32_t peer = g->greeting[i].hello.peer;
    const int fd = g->greeting[i].fd;
    char why[64];
    snprintf(why, sizeof why, "it says that it is rank %u, which is there already", peer);
    if (peer == 0 || g->link[peer - 1].fd >= 0)
        connection_refuse(g, fd, why);
    else
        yk__link_open(&g->link[peer - 1], fd, &g->greeting[i].hello);
    greeting_drop(g, i);
}

static void greetings_serve(gather *g)
{
    const int64_t now = yk__clock_ms();
    for (uint32_t i = g->greetings; i-- > 0;) {
        yk_error why = YK_ERROR_INIT;
        if (!yk__hello_step(&g->greeting[i].hello, g->greeting[i].fd, &why) && g->greeting[i].hello.state != YK__HELLO_DONE) {
            if (now < g->greeting[i].until)
                continue;
            yk__fail(&why, YK_E_TIMEOUT, "its hello took more than %d s", YK__HELLO_SECONDS);
        }
        if (!why.status) {
            greeting_finish(g, i);
            continue;
        }
        connection_refuse(g, g->greeting[i].fd, why.text);
        greeting_drop(g, i);
    }
}

/* ---- Rank 0: ranks ----------------------------------------------------------------------------------------------- */

static yk_status take_description(gather *g, uint32_t rank, const yk__frame *frame, yk_error *err)
{
    frame_here in;
    if (frame->kind == YK__FRAME_HEARTBEAT)
        return YK_OK;
    if (frame->kind != YK__FRAME_HERE || frame->bytes != sizeof in || g->described[rank])
        return yk__fail(err, YK_E_IO, "rank %u sent a frame of kind %u and %u bytes at the start of the job (another version of "
                        "Yoke?): install one version on all hosts", rank, frame->kind, frame->bytes);
    memcpy(&in, frame->data, sizeof in);
    in.name[sizeof in.name - 1] = 0;
    memcpy(g->host[rank], yk__printable(in.name), sizeof in.name);
    if (in.order != BYTE_ORDER_MARK)
        return yk__fail(err, YK_E_FORMAT, "rank %u on %s has numbers in another byte order: expected the order of %s: give a job hosts of "
                        "one byte order", rank, g->host[rank], g->host[0]);
    if (in.version != YK__CONTROL_VERSION)
        return yk__fail(err, YK_E_FORMAT, "rank %u on %s runs version %u of Yoke's protocol, expected %u as here: install one version on "
                        "all hosts", rank, g->host[rank], in.version, YK__CONTROL_VERSION);
    g->entry[rank] = in.entry;
    g->described[rank] = true;
    g->here++;
    return YK_OK;
}

static yk_status fail_ended(const gather *g, uint32_t rank, yk_error *err)
{
    return yk__fail(err, YK_E_DEVICE_LOST, "rank %u%s%s ended before the job began", rank, g->host[rank][0] ? " on " : "",
                    g->host[rank]);
}

static yk_status rank_serve(gather *g, uint32_t rank, int64_t step, yk_error *err)
{
    yk__link *link = &g->link[rank - 1];
    yk__frame frame;
    bool ended = false;
    if (link->fd < 0)
        return YK_OK;
    link->silent_ms += step;
    if (yk__link_flush(link, err) || yk__link_read(link, &ended, err))
        return fail_ended(g, rank, err);
    while (!yk__link_next(link, sizeof(frame_here), &frame, err) && frame.data)
        if (take_description(g, rank, &frame, err))
            return err->status;
    if (err->status)
        return err->status;
    if (ended)
        return fail_ended(g, rank, err);
    if (link->silent_ms >= YK__AGENT_SILENT_MS && g->config->liveness)
        return yk__fail(err, YK_E_DEVICE_LOST, "rank %u on %s gave no sign of life for %.1f s while the ranks came together", rank,
                        g->host[rank], (double)link->silent_ms / 1000);
    return YK_OK;
}

/* "; 3 connections were refused, the last one because ..", or nothing. */
static void refusals_write(const gather *g, char *text, size_t size)
{
    text[0] = 0;
    if (g->refused)
        snprintf(text, size, "; %u connection%s refused, the last as %s", g->refused, g->refused > 1 ? "s were" : " was", g->why);
}

/* A name that stands for a loopback address on rank 0's host alone, as Debian's 127.0.1.1, leads every other host elsewhere. */
static void loopback_write(const gather *g, char *text, size_t size)
{
    const char *name = g->config->address;
    char own[YK__TCP_ADDRESS];
    text[0] = 0;
    yk__tcp_own_address(g->listener, own);
    if (*own && yk__tcp_is_loopback(own) && !yk__tcp_is_loopback(name) && strncmp(name, "localhost", 9) != 0)
        snprintf(text, size, "; if ranks are on other hosts, %.80s stands for %.46s on this host, which they do not reach: set YOKE_ADDR "
                 "to an address of it in the job's network", name, own);
}

static yk__rank_names absent_names(const gather *g)
{
    yk__rank_names names = {.count = 0};
    for (uint32_t r = 1; r < g->config->ranks; r++)
        if (!g->described[r])
            yk__rank_names_add(&names, r);
    return names;
}

static void say_absent(const gather *g)
{
    char refused[320], loopback[320];
    refusals_write(g, refused, sizeof refused);
    loopback_write(g, loopback, sizeof loopback);
    yk__waiting_say(g->config->waiting, "%s%s%s", absent_names(g).text, refused, loopback);
}

static yk_status fail_absent(const gather *g, yk_error *err)
{
    const yk__rank_names names = absent_names(g);
    char refused[320], loopback[320];
    refusals_write(g, refused, sizeof refused);
    loopback_write(g, loopback, sizeof loopback);
    return yk__fail(err, YK_E_TIMEOUT, "%s of %u %s not come to %s port %u within %.1f s (YOKE_JOIN_MS)%s%s", names.text, g->config->ranks,
                    names.count > 1 ? "have" : "has", g->config->address, g->config->port, (double)g->config->join_ms / 1000, refused,
                    loopback);
}

static yk_status links_send(gather *g, uint32_t kind, const void *data, uint32_t bytes, yk_error *err)
{
    for (uint32_t r = 1; r < g->config->ranks; r++)
        if (g->link[r - 1].fd >= 0 && yk__link_send(&g->link[r - 1], kind, data, bytes, err))
            return fail_ended(g, r, err);
    return YK_OK;
}

static nfds_t poll_fill(const gather *g)
{
    nfds_t n = 0;
    g->poll[n++] = (struct pollfd){g->listener, POLLIN, 0};
    for (uint32_t i = 0; i < g->greetings; i++)
        g->poll[n++] =
            (struct pollfd){g->greeting[i].fd, g->greeting[i].hello.state == YK__HELLO_WRITE ? POLLOUT : POLLIN, 0};
    for (uint32_t r = 1; r < g->config->ranks; r++)
        if (g->link[r - 1].fd >= 0)
            g->poll[n++] = (struct pollfd){g->link[r - 1].fd, POLLIN, 0};
    return n;
}

static yk_status wait_ranks(gather *g, yk_error *err)
{
    while (g->here < g->config->ranks) {
        int64_t step;
        if (poll(g->poll, poll_fill(g), TICK_MS) < 0 && errno != EINTR)
            return yk__fail(err, YK_E_IO, "waiting for the ranks of the job: %s", strerror(errno));
        if (connections_accept(g, err))
            return err->status;
        greetings_serve(g);
        step = step_take(&g->last);
        for (uint32_t r = 1; r < g->config->ranks; r++)
            if (rank_serve(g, r, step, err))
                return err->status;
        if (g->last >= g->beat_at) {
            g->beat_at = g->last + YK__AGENT_BEAT_MS;
            if (links_send(g, YK__FRAME_HEARTBEAT, NULL, 0, err))
                return err->status;
        }
        if (g->here < g->config->ranks && yk__waiting_due(g->config->waiting))
            say_absent(g);
        if (g->here < g->config->ranks && g->config->join_ms && g->last - g->begin > g->config->join_ms)
            return fail_absent(g, err);
    }
    return YK_OK;
}

/* Sends the reason of a failed start to the ranks that have come, so that every rank ends with the same words. */
static void send_failure(gather *g, const yk_error *why)
{
    const int64_t until = yk__clock_ms() + LAST_WORDS_MS;
    yk_error ignored = YK_ERROR_INIT;
    yk__frame_end end = {.status = (uint32_t)why->status};
    bool waiting = true;
    memcpy(end.text, why->text, sizeof end.text);
    for (uint32_t r = 1; r < g->config->ranks; r++)
        if (g->link[r - 1].fd >= 0 && yk__link_send(&g->link[r - 1], YK__FRAME_END, &end, sizeof end, &ignored))
            yk__link_close(&g->link[r - 1]);
    while (waiting && yk__clock_ms() < until) {
        waiting = false;
        for (uint32_t r = 1; r < g->config->ranks; r++)
            if (g->link[r - 1].fd >= 0 && !yk__link_flush(&g->link[r - 1], &ignored))
                waiting = waiting || yk__link_waiting(&g->link[r - 1]);
        if (waiting)
            nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
}

static yk_status send_table(gather *g, yk__gathered *out, yk_error *err)
{
    const size_t bytes = sizeof(frame_table) + g->config->ranks * sizeof(yk__gather_entry);
    frame_table *table = yk__malloc(bytes);
    if (!table)
        return yk__fail_mem(err, bytes, "the table of hosts");
    yk__auth_random(out->nonce, sizeof out->nonce);
    memcpy(table->nonce, out->nonce, sizeof table->nonce);
    memcpy(table->entry, g->entry, g->config->ranks * sizeof *table->entry);
    links_send(g, YK__FRAME_TABLE, table, (uint32_t)bytes, err);
    yk__free(table);
    return err->status;
}

static void gather_release(gather *g)
{
    while (g->greetings) {
        close(g->greeting[0].fd);
        greeting_drop(g, 0);
    }
    for (uint32_t r = 1; g->link && r < g->config->ranks; r++)
        yk__link_close(&g->link[r - 1]);
    if (g->listener >= 0)
        close(g->listener);
    yk__free(g->poll);
    yk__free(g->described);
    yk__free(g->host);
    yk__free(g->entry);
    yk__free(g->link);
    yk__free(g);
}

static yk_status gather_fill(gather *g, yk_error *err)
{
    const uint32_t ranks = g->config->ranks;
    g->link = yk__calloc(ranks, sizeof *g->link);
    g->described = yk__calloc(ranks, sizeof *g->described);
    g->host = yk__calloc(ranks, sizeof *g->host);
    g->entry = yk__calloc(ranks, sizeof *g->entry);
    g->poll = yk__calloc((size_t)ranks + YK__HELLO_PENDING + 1, sizeof *g->poll);
    for (uint32_t r = 0; g->link && r < ranks; r++)
        g->link[r].fd = -1;
    if (!g->link || !g->described || !g->host || !g->entry || !g->poll)
        return yk__fail_mem(err, ranks * sizeof *g->entry, "the ranks of a job");
    g->entry[0] = g->config->own;
    read_host_name(g->host[0]);
    g->here = 1;
    g->begin = g->last = yk__clock_ms();
    return g->listener >= 0 ? YK_OK : yk__tcp_listen(g->config->address, g->config->port, &g->listener, err);
}

static yk_status gather_all(const yk__gather_config *config, yk__gathered *out, yk_error *err)
{
    gather *g = yk__calloc(1, sizeof *g);
    if (!g)
        return yk__fail_mem(err, sizeof *g, "the ranks of a job");
    g->config = config;
    g->listener = config->listener;
    if (!gather_fill(g, err) && (wait_ranks(g, err) || send_table(g, out, err)))
        send_failure(g, err);
    if (!err->status) {
        out->links = config->ranks - 1;
        out->link = g->link;
        out->entry = g->entry;
        g->link = NULL;
        g->entry = NULL;
    }
    gather_release(g);
    return err->status;
}

/* ---- Other ranks ------------------------------------------------------------------------------------------------- */

static yk_status say_hello(const yk__gather_config *config, int fd, yk__hello *hello, yk_error *err)
{
    const int64_t until = yk__clock_ms() + YK__HELLO_SECONDS * 1000;
    yk__hello_config c;
    hello_config(config, 0, &c);
    if (yk__hello_begin(hello, &c, true, err))
        return err->status;
    while (!yk__hello_step(hello, fd, err) && hello->state != YK__HELLO_DONE) {
        struct pollfd p = {fd, hello->state == YK__HELLO_WRITE ? POLLOUT : POLLIN, 0};
        if (yk__clock_ms() >= until)
            return yk__fail(err, YK_E_TIMEOUT, "no answer to the hello within %d s", YK__HELLO_SECONDS);
        poll(&p, 1, TICK_MS);
    }
    return err->status;
}

/* Tries until rank 0 is there: its process may start later than this one, and its host's name may appear later still. */
static yk_status connect_rank0(const yk__gather_config *config, int64_t begin, int *fd, yk_error *err)
{
    while (yk__tcp_connect(config->address, config->port, CONNECT_MS, fd, err)) {
        if (err->status == YK_E_MEM)
            return yk__fail_in(err, "going to rank 0");
        if (config->join_ms && yk__clock_ms() - begin > config->join_ms)
            return yk__fail_in(err, "rank 0 cannot be reached within %.1f s (YOKE_JOIN_MS)", (double)config->join_ms / 1000);
        if (yk__waiting_due(config->waiting))
            yk__waiting_say(config->waiting, "rank 0 at %.200s port %u (%.200s)", config->address, config->port, err->text);
        *err = (yk_error)YK_ERROR_INIT;
        nanosleep(&(struct timespec){0, TICK_MS * 1000000}, NULL);
    }
    return YK_OK;
}

static yk_status link_rank0(const yk__gather_config *config, int64_t begin, yk__link *link, yk_error *err)
{
    for (int tries = 1;; tries++) {
        yk__hello hello;
        int fd = -1;
        if (connect_rank0(config, begin, &fd, err))
            return err->status;
        if (!say_hello(config, fd, &hello, err)) {
            yk__link_open(link, fd, &hello);
            yk__hello_end(&hello);
            return YK_OK;
        }
        yk__hello_end(&hello);
        close(fd);
        if (tries == HELLO_TRIES || err->status == YK_E_UNSUPPORTED)
            return yk__fail_in(err, "rank 0 at %.200s port %u does not take rank %u of %u (is the secret the same on all hosts, and is "
                               "no other rank the same?)", config->address, config->port, config->rank, config->ranks);
        *err = (yk_error)YK_ERROR_INIT;
        nanosleep(&(struct timespec){0, 4 * TICK_MS * 1000000}, NULL);
    }
}

static yk_status take_answer(const yk__gather_config *config, const yk__frame *frame, yk__gathered *out, yk_error *err)
{
    const size_t entries = config->ranks * sizeof(yk__gather_entry);
    yk__frame_end end;
    if (frame->kind == YK__FRAME_HEARTBEAT)
        return YK_OK;
    if (frame->kind == YK__FRAME_END && frame->bytes == sizeof end) {
        memcpy(&end, frame->data, sizeof end);
        end.text[sizeof end.text - 1] = 0;
        return yk__fail(err, end.status && end.status < YK_STATUS_COUNT ? (yk_status)end.status : YK_E_DEVICE_LOST, "%s", end.text);
    }
    if (frame->kind != YK__FRAME_TABLE || frame->bytes != sizeof(frame_table) + entries)
        return yk__fail(err, YK_E_IO, "rank 0 sent a frame of kind %u and %u bytes at the start of the job", frame->kind,
                        frame->bytes);
    out->entry = yk__malloc(entries);
    if (!out->entry)
        return yk__fail_mem(err, entries, "the table of hosts");
    memcpy(out->nonce, frame->data + offsetof(frame_table, nonce), sizeof out->nonce);
    memcpy(out->entry, frame->data + offsetof(frame_table, entry), entries);
    return YK_OK;
}

static yk_status wait_table(const yk__gather_config *config, yk__link *link, yk__gathered *out, yk_error *err)
{
    int64_t last = yk__clock_ms(), beat_at = 0;
    while (!out->entry) {
        struct pollfd p = {link->fd, POLLIN, 0};
        yk__frame frame;
        bool ended = false;
        if (poll(&p, 1, TICK_MS) < 0 && errno != EINTR)
            return yk__fail(err, YK_E_IO, "waiting for rank 0: %s", strerror(errno));
        link->silent_ms += step_take(&last);
        if (yk__link_flush(link, err) || yk__link_read(link, &ended, err))
            return err->status;
        while (!out->entry && !yk__link_next(link, YK__FRAME_MOST, &frame, err) && frame.data)
            if (take_answer(config, &frame, out, err))
                return err->status;
        if (err->status || out->entry)
            return err->status;
        if (ended)
            return yk__fail(err, YK_E_DEVICE_LOST, "rank 0 closed the connection before the job began: it ended, or had a rank %u already",
                            config->rank);
        if (link->silent_ms >= YK__AGENT_SILENT_MS && config->liveness)
            return yk__fail(err, YK_E_DEVICE_LOST, "rank 0 gave no sign of life for %.1f s while the ranks came together",
                            (double)link->silent_ms / 1000);
        if (last < beat_at)
            continue;
        beat_at = last + YK__AGENT_BEAT_MS;
        if (yk__link_send(link, YK__FRAME_HEARTBEAT, NULL, 0, err))
            return err->status;
    }
    return YK_OK;
}

static yk_status gather_one(const yk__gather_config *config, yk__gathered *out, yk_error *err)
{
    const int64_t begin = yk__clock_ms();
    frame_here here = {.order = BYTE_ORDER_MARK, .version = YK__CONTROL_VERSION, .entry = config->own};
    read_host_name(here.name);
    out->link = yk__calloc(1, sizeof *out->link);
    if (!out->link)
        return yk__fail_mem(err, sizeof *out->link, "a connection to rank 0");
    out->link->fd = -1;
    out->links = 1;
    if (link_rank0(config, begin, out->link, err) || yk__link_send(out->link, YK__FRAME_HERE, &here, sizeof here, err) ||
        wait_table(config, out->link, out, err))
        return err->status;
    return YK_OK;
}

yk_status yk__gather_ranks(const yk__gather_config *config, yk__gathered *out, yk_error *err)
{
    *out = (yk__gathered){.link = NULL};
    if (yk__auth_init(err)) {
        if (config->listener >= 0)
            close(config->listener);
        return err->status;
    }
    if (config->rank ? gather_one(config, out, err) : gather_all(config, out, err))
        yk__gathered_free(out);
    return err->status;
}

void yk__gathered_free(yk__gathered *gathered)
{
    for (uint32_t i = 0; gathered->link && i < gathered->links; i++)
        yk__link_close(&gathered->link[i]);
    yk__free(gathered->link);
    yk__free(gathered->entry);
    *gathered = (yk__gathered){.link = NULL};
}
