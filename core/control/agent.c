/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: a thread in one rank of each host that keeps the slots of other hosts' ranks current (mirror.c), and tells their deaths.
 * bootstrap.c starts it when a job without a launcher of ours, or on several hosts, begins; join.c stops it at the end. Its loop serves the
 * sockets of the host's ranks, the listener for ranks that join, and the links to other hosts.
 *
 * A process that connects must belong to this user (SO_PEERCRED); its token and rank tell which rank it is. The thread adds up a link's
 * silence from its own short steps, each counted with a bound, as in live.c. A frame ends the silence, and so does data that a rank of this
 * host got from that host. On a line full of data, frames may be lost or late for longer than the limit.
 */
#include "config.h"

#include "core/control/agent.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/control/mirror.h"

#define LOCAL UINT32_MAX    /* agent.via of a rank of this host */
#define EXIT_MS 4000        /* time for a round at exit */
#define TICK_MS 50          /* interval of the checks without a wake-up */
#define STEP_MAX_MS 150     /* a longer step was a pause of this process itself */
#define LAST_WORDS_MS 1000  /* from the end of the job to the end of a thread whose peers do not listen */

struct yk__agent {
    yk__control_job *job;
    yk__control_head *head;
    uint32_t rank, ranks, links;
    uint32_t *via;           /* [ranks]: index of the link to the rank's host */
    uint32_t *heard;         /* [links]: data messages from the link's host to ranks of this host, at the last check */
    bool *joining;           /* [links]: true for a rank that its host's agent is to take over; no frames are relayed to it */
    yk__mirror_seen *seen;   /* [ranks] */
    yk__link *link;
    yk__rendezvous *rendezvous;      /* NULL once every rank of this host is here */
    struct pollfd *poll;
    int wake_fd;
    bool liveness, end_sent;
    int64_t last, beat_at, stop_at; /* ms; stop_at: time by which the thread of an ended job stops */
    _Atomic bool stopping, ended; /* ended: the thread does nothing more */
    _Atomic uint32_t rounds;      /* of the thread */
    pthread_t thread;
};

static bool job_ends(const yk__agent *agent)
{
    return atomic_load(&agent->head->abort) != YK__JOB_RUNNING;
}

static uint32_t state_of(const yk__agent *agent, uint32_t rank)
{
    return atomic_load(&agent->head->slot[rank].state);
}

static void end_job(yk__agent *agent, uint32_t rank, bool silent, yk_status status, const char *text)
{
    yk__control_record_end(agent->head, rank, silent, status, text);
}

/* ---- Links ------------------------------------------------------------------------------------------------------- */

static bool link_is_idle(const yk__agent *agent, uint32_t at)
{
    for (uint32_t r = 0; r < agent->ranks; r++)
        if (agent->via[r] == at && state_of(agent, r) != YK__RANK_LEFT)
            return false;
    return true;
}

/* Handles a link that ended or fell silent: its ranks are lost, unless they have said goodbye. */
static void link_lost(yk__agent *agent, uint32_t at, bool silent, const char *why)
{
    const uint32_t peer = agent->link[at].peer;
    char name[YK__CONTROL_NAME], others[64] = "", text[YK_ERROR_TEXT];
    uint32_t more = 0;
    yk__link_close(&agent->link[at]);
    agent->link[at].peer = peer;
    if (job_ends(agent) || (!agent->joining[at] && link_is_idle(agent, at)))
        return;
    for (uint32_t r = 0; r < agent->ranks; r++)
        more += agent->via[r] == at && r != peer;
    if (more && !agent->joining[at])
        snprintf(others, sizeof others, " and %u more of its host", more);
    yk__control_copy_name(name, agent->head->slot[peer].name);
    snprintf(text, sizeof text, "%s%s%s", name, others, agent->joining[at] ? " ended before it joined the other ranks" : why);
    end_job(agent, peer, silent, YK_E_DEVICE_LOST, text);
}

static void link_fail(yk__agent *agent, uint32_t at, const yk_error *err)
{
    char text[YK_ERROR_TEXT + 64];
    snprintf(text, sizeof text, " was lost: %s", err->text);
    link_lost(agent, at, false, text);
}

typedef struct relay {
    yk__agent *agent;
    uint32_t from; /* link that the frame came over; LOCAL for this host */
} relay;

static void link_send(yk__agent *agent, uint32_t at, uint32_t kind, const void *data, uint32_t bytes)
{
    yk_error err = YK_ERROR_INIT;
    if (agent->link[at].fd >= 0 && (!agent->joining[at] || kind == YK__FRAME_HEARTBEAT) &&
        yk__link_send(&agent->link[at], kind, data, bytes, &err))
        link_fail(agent, at, &err);
}

static void end_relay(yk__agent *agent)
{
    yk__frame_end end;
    if (agent->end_sent || !job_ends(agent) || !yk__mirror_end(agent->head, &end))
        return;
    agent->end_sent = true;
    for (uint32_t i = 0; i < agent->links; i++)
        link_send(agent, i, YK__FRAME_END, &end, sizeof end);
}

/* Relays the end of the job before a state that may follow from it. Else a rank would see that its peer left, but not why. */
static void relay_frame(void *arg, uint32_t kind, const void *data, uint32_t bytes)
{
    const relay *r = arg;
    if (kind == YK__FRAME_STATE)
        end_relay(r->agent);
    for (uint32_t i = 0; i < r->agent->links; i++)
        if (i != r->from)
            link_send(r->agent, i, kind, data, bytes);
}

static yk_status take_frame(yk__agent *agent, uint32_t at, const yk__frame *frame, yk_error *err)
{
    relay on = {agent, at};
    uint32_t rank;
    if (frame->kind == YK__FRAME_HEARTBEAT)
        return YK_OK;
    if (frame->kind == YK__FRAME_END)
        return yk__mirror_apply_end(agent->head, frame, err); /* the end then goes to the other links like this host's own */
    if (yk__mirror_rank(agent->head, frame, &rank, err))
        return err->status;
    if (agent->joining[at] || agent->via[rank] != at)
        return yk__fail(err, YK_E_FORMAT, "a frame about rank %u, which is not of that host", rank);
    if (yk__mirror_apply(agent->head, frame, err))
        return err->status;
    relay_frame(&on, frame->kind, frame->data, frame->bytes);
    return YK_OK;
}

static void link_read(yk__agent *agent, uint32_t at)
{
    yk__link *link = &agent->link[at];
    yk_error err = YK_ERROR_INIT;
    yk__frame frame;
    bool ended = false;
    yk_status s = yk__link_read(link, &ended, &err);
    while (!s && !(s = yk__link_next(link, sizeof(yk__frame_blob), &frame, &err)) && frame.data) {
        if (frame.kind == YK__FRAME_GOODBYE && agent->joining[at]) {
            yk__link_close(link);
            return;
        }
        s = take_frame(agent, at, &frame, &err);
    }
    if (s)
        link_fail(agent, at, &err);
    else if (ended)
        link_lost(agent, at, false, " ended without leaving the job");
}

static void links_serve(yk__agent *agent)
{
    yk_error err = YK_ERROR_INIT;
    for (uint32_t i = 0; i < agent->links; i++) {
        if (agent->link[i].fd >= 0 && yk__link_flush(&agent->link[i], &err))
            link_fail(agent, i, &err);
        if (agent->link[i].fd >= 0)
            link_read(agent, i);
    }
}

/* Counts data messages from this peer's host only, not from hosts that rank 0 relays. */
static uint32_t count_heard(const yk__agent *agent, uint32_t at)
{
    const yk__control_slot *slot = agent->head->slot;
    uint32_t n = 0;
    for (uint32_t r = 0; r < agent->ranks; r++)
        n += agent->via[r] == at && slot[r].host == slot[agent->link[at].peer].host ? atomic_load(&slot[r].heard) : 0;
    return n;
}

static void links_watch(yk__agent *agent, int64_t step)
{
    char why[96];
    for (uint32_t i = 0; i < agent->links; i++) {
        yk__link *link = &agent->link[i];
        if (link->fd < 0 || agent->joining[i])
            continue;
        const uint32_t heard = count_heard(agent, i);
        link->silent_ms = heard == agent->heard[i] ? link->silent_ms + step : 0;
        agent->heard[i] = heard;
        if (link->silent_ms < YK__AGENT_SILENT_MS || !agent->liveness)
            continue;
        snprintf(why, sizeof why, " gave no sign of life for %.1f s (stopped, dead, or the network is down)",
                 (double)link->silent_ms / 1000);
        link_lost(agent, i, true, why);
    }
}

/* ---- Ranks of this host ------------------------------------------------------------------------------------------ */

/* Handles a closed socket: the rank's process has ended. */
static void rank_closed(yk__agent *agent, uint32_t rank)
{
    const uint32_t state = state_of(agent, rank);
    char name[YK__CONTROL_NAME], text[YK_ERROR_TEXT];
    if (state == YK__RANK_LEFT || job_ends(agent))
        return;
    yk__control_copy_name(name, agent->head->slot[rank].name);
    snprintf(text, sizeof text, "%s ended %s", name,
             state == YK__RANK_JOINED ? "without leaving the job (killed, or by an exit of its own)" : "before it joined the other ranks");
    end_job(agent, rank, false, YK_E_DEVICE_LOST, text);
}

static void rank_read(yk__agent *agent, uint32_t rank)
{
    yk_error err = YK_ERROR_INIT;
    char name[YK__CONTROL_NAME], text[YK_ERROR_TEXT + YK__CONTROL_NAME + 2];
    while (yk__control_job_fd(agent->job, rank) >= 0) {
        char peek;
        if (yk__control_job_notice(agent->job, rank, &err)) {
            yk__control_copy_name(name, agent->head->slot[rank].name);
            snprintf(text, sizeof text, "%s: %s", name, err.text);
            end_job(agent, rank, false, err.status, text);
        } else if (yk__control_job_fd(agent->job, rank) >= 0 &&
                   recv(yk__control_job_fd(agent->job, rank), &peek, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            return;
    }
    rank_closed(agent, rank);
}

static void rendezvous_serve(yk__agent *agent)
{
    yk_error err = YK_ERROR_INIT;
    if (!agent->rendezvous || yk__rendezvous_serve(agent->rendezvous, agent->job, &err) == YK_OK)
        return;
    end_job(agent, agent->rank, false, err.status, err.text);
}

static void slots_scan(yk__agent *agent, bool all)
{
    relay own = {agent, LOCAL};
    for (uint32_t r = 0; r < agent->ranks; r++)
        if (agent->via[r] == LOCAL)
            yk__mirror_scan(agent->head, r, all, &agent->seen[r], relay_frame, &own);
    end_relay(agent);
}

/* ---- The thread -------------------------------------------------------------------------------------------------- */

/* For ranks of this host the state sent to other hosts counts: a rank that leaves after the last scan would seem lost there. */
static bool has_left(const yk__agent *agent, uint32_t rank)
{
    if (agent->via[rank] == LOCAL)
        return agent->seen[rank].state.state == YK__RANK_LEFT;
    return agent->rank || state_of(agent, rank) == YK__RANK_LEFT;
}

/* True once a stopping thread has no work left. */
static bool work_is_done(yk__agent *agent)
{
    bool left = true, sent = true;
    for (uint32_t r = 0; r < agent->ranks; r++)
        left = left && has_left(agent, r);
    for (uint32_t i = 0; i < agent->links; i++)
        sent = sent && (agent->link[i].fd < 0 || !yk__link_waiting(&agent->link[i]));
    if (!atomic_load(&agent->stopping))
        return false;
    if (!job_ends(agent))
        return left && sent;
    if (!agent->stop_at)
        agent->stop_at = agent->last + LAST_WORDS_MS;
    return (agent->end_sent && sent) || agent->last >= agent->stop_at;
}

static nfds_t poll_fill(const yk__agent *agent)
{
    nfds_t n = 0;
    agent->poll[n++] = (struct pollfd){agent->wake_fd, POLLIN, 0};
    for (uint32_t r = 0; r < agent->ranks; r++)
        if (agent->via[r] == LOCAL && yk__control_job_fd(agent->job, r) >= 0)
            agent->poll[n++] = (struct pollfd){yk__control_job_fd(agent->job, r), POLLIN, 0};
    for (uint32_t i = 0; i < agent->links; i++)
        if (agent->link[i].fd >= 0)
            agent->poll[n++] = (struct pollfd){agent->link[i].fd, yk__link_waiting(&agent->link[i]) ? POLLIN | POLLOUT : POLLIN, 0};
    return n + (agent->rendezvous ? yk__rendezvous_poll(agent->rendezvous, agent->poll + n) : 0);
}

static void beat_send(yk__agent *agent)
{
    relay own = {agent, LOCAL};
    const int64_t now = yk__clock_ms(), step = now - agent->last;
    agent->last = now;
    links_watch(agent, step > STEP_MAX_MS ? STEP_MAX_MS : step);
    if (now < agent->beat_at)
        return;
    agent->beat_at = now + YK__AGENT_BEAT_MS;
    relay_frame(&own, YK__FRAME_HEARTBEAT, NULL, 0);
}

static void agent_serve(yk__agent *agent)
{
    int64_t all_at = 0;
    while (!work_is_done(agent)) {
        atomic_fetch_add(&agent->rounds, 1);
        const int64_t now = yk__clock_ms();
        uint64_t ignored;
        if (poll(agent->poll, poll_fill(agent), TICK_MS) < 0 && errno != EINTR)
            return;
        if (agent->poll[0].revents && read(agent->wake_fd, &ignored, sizeof ignored) < 0)
            return;
        rendezvous_serve(agent);
        for (uint32_t r = 0; r < agent->ranks; r++)
            if (agent->via[r] == LOCAL && yk__control_job_fd(agent->job, r) >= 0)
                rank_read(agent, r);
        links_serve(agent);
        slots_scan(agent, now >= all_at);
        all_at = now >= all_at ? now + TICK_MS : all_at;
        beat_send(agent);
    }
}

static void *agent_main(void *arg)
{
    yk__agent *agent = arg;
    agent_serve(agent);
    atomic_store(&agent->ended, true);
    return NULL;
}

/* ---- Start and stop ---------------------------------------------------------------------------------------------- */

static void agent_free(yk__agent *agent)
{
    for (uint32_t i = 0; i < agent->links; i++)
        yk__link_close(&agent->link[i]);
    if (agent->wake_fd >= 0)
        close(agent->wake_fd);
    yk__rendezvous_free(agent->rendezvous);
    yk__control_job_free(agent->job);
    yk__free(agent->poll);
    yk__free(agent->link);
    yk__free(agent->seen);
    yk__free(agent->joining);
    yk__free(agent->heard);
    yk__free(agent->via);
    yk__free(agent);
}

/* Sets each rank's link: on rank 0 the link to its host's lowest rank, on other hosts the only link. */
static void place_ranks(yk__agent *agent, const yk__agent_config *config)
{
    for (uint32_t r = 0; r < agent->ranks; r++) {
        agent->via[r] = config->lowest[r] == agent->rank ? LOCAL : 0;
        for (uint32_t i = 0; i < agent->links && !agent->rank && agent->via[r] != LOCAL; i++)
            if (config->link[i].peer == config->lowest[r])
                agent->via[r] = i;
    }
    for (uint32_t i = 0; i < agent->links; i++)
        agent->joining[i] = !agent->rank && config->lowest[config->link[i].peer] != config->link[i].peer;
}

static yk_status agent_fill(yk__agent *agent, const yk__agent_config *config, yk_error *err)
{
    const size_t fds = (size_t)agent->ranks + agent->links + YK__RENDEZVOUS_POLL + 1;
    agent->via = yk__calloc(agent->ranks, sizeof *agent->via);
    agent->heard = yk__calloc(agent->links + 1, sizeof *agent->heard);
    agent->joining = yk__calloc(agent->links + 1, sizeof *agent->joining);
    agent->seen = yk__calloc(agent->ranks, sizeof *agent->seen);
    agent->poll = yk__calloc(fds, sizeof *agent->poll);
    agent->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!agent->via || !agent->heard || !agent->joining || !agent->seen || !agent->poll)
        return yk__fail_mem(err, agent->ranks * sizeof *agent->seen, "the agent of a host");
    if (agent->wake_fd < 0)
        return yk__fail(err, YK_E_IO, "eventfd: %s", yk__limit_reason(errno).text);
    place_ranks(agent, config);
    agent->head->relayed = agent->links > 0;
    for (uint32_t r = 0; r < agent->ranks; r++)
        agent->head->slot[r].host = agent->via[r] == LOCAL ? agent->head->host : 0;
    return YK_OK;
}

static yk_status thread_start(yk__agent *agent, yk_error *err)
{
    sigset_t all, old;
    int e;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&agent->thread, NULL, agent_main, agent);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e ? yk__fail(err, YK_E_IO, "starting the agent of this host: %s", yk__limit_thread_reason(e).text) : YK_OK;
}

yk_status yk__agent_start(const yk__agent_config *config, yk__agent **out, yk_error *err)
{
    yk__agent *agent = yk__calloc(1, sizeof *agent);
    if (!agent) {
        for (uint32_t i = 0; i < config->links; i++)
            yk__link_close(&config->link[i]);
        yk__free(config->link);
        if (config->listener >= 0)
            close(config->listener);
        yk__control_job_free(config->job);
        return yk__fail_mem(err, sizeof *agent, "the agent of a host");
    }
    agent->job = config->job;
    agent->head = config->job->head;
    agent->rank = config->rank;
    agent->ranks = config->ranks;
    agent->link = config->link;
    agent->links = config->links;
    agent->liveness = config->liveness;
    agent->last = yk__clock_ms();
    if (yk__rendezvous_new(config->listener, config->token, config->rank, config->ranks, config->lowest, &agent->rendezvous, err) ||
        agent_fill(agent, config, err) || thread_start(agent, err)) {
        agent_free(agent);
        return err->status;
    }
    *out = agent;
    return YK_OK;
}

void yk__agent_stop(yk__agent *agent)
{
    const uint64_t one = 1;
    char name[YK__CONTROL_NAME], text[YK__CONTROL_NAME + 32];
    if (!agent)
        return;
    if (state_of(agent, agent->rank) != YK__RANK_LEFT) { /* it never joined, so no rank need wait for it */
        yk__control_copy_name(name, agent->head->slot[agent->rank].name);
        snprintf(text, sizeof text, "%s could not join the other ranks", name);
        end_job(agent, agent->rank, false, YK_E_DEVICE_LOST, text);
    }
    atomic_store(&agent->stopping, true);
    if (write(agent->wake_fd, &one, sizeof one) != (ssize_t)sizeof one)
        yk__log(YK_LOG_DEBUG, "control", "the agent wakes by itself"); /* within TICK_MS */
    pthread_join(agent->thread, NULL);
    agent_free(agent);
}

void yk__agent_stop_at_exit(yk__agent *agent)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    const uint64_t one = 1;
    uint32_t rounds = 0;
    if (!agent)
        return;
    pthread_detach(agent->thread); /* while it runs: nobody joins it */
    atomic_store(&agent->stopping, true);
    if (write(agent->wake_fd, &one, sizeof one) < 0)
        nanosleep(&pause, NULL); /* it wakes by itself within TICK_MS */
    for (int64_t until = 0; !atomic_load(&agent->ended); nanosleep(&pause, NULL)) {
        const uint32_t now = atomic_load(&agent->rounds);
        if (now != rounds || !until)
            until = yk__clock_ms() + EXIT_MS;
        rounds = now;
        if (yk__clock_ms() > until)
            return; /* it waits for a lock of this thread, perhaps the allocator's */
    }
}

void yk__agent_forget(yk__agent *agent)
{
    if (agent)
        agent_free(agent);
}
