/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher of several hosts: starts a node per host, hears it, and ends all of them at the first error. It holds a child per host, ssh
 * or srun, and learns of a host only over that child. `yoke launch --hosts` calls it in a program with one thread.
 *
 * A node whose launcher asks it to end, or whose connection ends, ends its ranks itself. After the first error the launcher ends all nodes
 * by closing their input; it kills a connection that still exists END_MS later. A node that has not answered within YOKE_JOIN_MS fails the
 * job.
 */
#include "config.h"

#include "core/launch/remote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/control/control.h"
#include "core/launch/beat.h"
#include "core/launch/launch_signals.h"
#include "core/launch/node.h"
#include "core/launch/node_io.h"

#define END_MS 4000     /* a node needs 2 s at most */
#define URGENT_MS 2500  /* after a second signal */
#define DEATH_MS 1500   /* from SIGKILL to giving up */
#define DRAIN_MS 2000   /* a reader that takes nothing for so long counts as gone */
#define VERDICT_MS 500 /* from a rank's verdict on another to the word of that one's host, which saw its process end */
#define AGAIN_MS 65000 /* from the first host whose ranks have left to be started again to the last; each may take a minute (launch.c) */
#define SAY_MS 5000 /* a line names the hosts that have not answered */
#define SAY_HOSTS 8u
#define INTERRUPTED "interrupted by signal " /* launch.c begins so */
#define SSH_FAILED 255 /* exit code of ssh if its connection fails */
#define LOST_MS 3000 /* ranks of a host whose connection ended may run on for so long */

struct yk__remote {
    const yk__peer_config *config;
    yk__launch_say say;
    yk__peer *peer;       /* [hosts] */
    struct pollfd *poll;
    bool *heard;          /* [hosts]; something has come since the last check */
    uint32_t alive;
    bool running, said;
    yk__outlet out[2];    /* this process's standard output and error */
    pid_t beater;         /* process id, of beat.c; 0 if none */
    int64_t checked_at;    /* ms */
    bool urgent;          /* a second signal has come */
    bool heeds;           /* SIGUSR1 asks a rank to leave, as it says itself; another program may do anything then */
    bool lost;            /* a connection ended while ranks ran */
    uint32_t cut;         /* nodes that gave up a part of their output */
    const yk__peer *again; /* the first host whose ranks have left with YK__LAUNCH_AGAIN; NULL if none */
    int64_t again_at;      /* ms; the remaining hosts are late after this */
    int interrupted, code;
    yk_error err;         /* the first */
    const yk__peer *failed; /* the host of that error; NULL if none */
    int64_t kill_at;      /* ms, after an error */
    bool badly;            /* ranks of at least one host ended badly */
    int64_t verdict_at;    /* ms; the verdict counts from then on; 0 without a verdict */
    uint32_t verdict_rank; /* the rank at fault, by the verdict */
    char verdict[YK_ERROR_TEXT]; /* the cause of the job's end, by its ranks */
};

/* ---- Words of nodes ---------------------------------------------------------------------------------------------- */

static void say_end(yk__remote *remote, bool again)
{
    char text[YK_ERROR_TEXT + 64];
    yk__restart_describe(&remote->config->restart, again, remote->err.text, text, sizeof text);
    if (remote->say)
        remote->say(text);
    remote->said = true;
}

static void peers_hang_up(yk__remote *remote)
{
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        yk__peer_hang_up(&remote->peer[i]);
}

/* Later failures of programs without Yoke are their own, unless a host says that the signal ended them. */
static void signal_forget(yk__remote *remote, const char *text)
{
    if (remote->interrupted == SIGUSR1 && remote->running && !remote->heeds && !remote->again && !strstr(text, INTERRUPTED))
        remote->interrupted = 0;
}

/* The first error counts: later ones follow from it, and after a signal all of them do. peer: the error's host, or NULL. */
static void job_fail(yk__remote *remote, const yk__peer *peer, int code, yk_status status, const char *text)
{
    const char *by = strstr(text, INTERRUPTED);
    if (remote->err.status)
        return;
    remote->failed = peer;
    remote->code = code;
    signal_forget(remote, text);
    if (remote->interrupted && by)
        yk__fail(&remote->err, YK_E_CANCELLED, "%s", by);
    else if (remote->interrupted)
        yk__fail(&remote->err, YK_E_CANCELLED, "interrupted by signal %d (%s)", remote->interrupted, strsignal(remote->interrupted));
    else
        yk__fail(&remote->err, status, "%s", text);
    remote->kill_at = yk__clock_ms() + (remote->urgent ? URGENT_MS : END_MS);
    peers_hang_up(remote);
    if (!remote->running || !yk__restart_left(&remote->config->restart))
        say_end(remote, false);
}

static void rank_take(yk__remote *remote, yk__peer *peer, const char *spec)
{
    if (yk__grow(&peer->device, &peer->capacity, peer->ranks + 1, sizeof *peer->device) ||
        !(peer->device[peer->ranks] = yk__strdup(spec)))
        job_fail(remote, peer, 1, YK_E_MEM, "out of memory for the devices of a host");
    else
        peer->ranks++;
}

static void ready_take(yk__remote *remote, yk__peer *peer, const char *answer)
{
    unsigned port = 0;
    if (sscanf(answer, "%255s %u", peer->address, &port) != 2 || port > UINT16_MAX || peer->ready) {
        char text[384];
        snprintf(text, sizeof text, "host %.200s answers '%.100s'", peer->name, answer);
        job_fail(remote, peer, 1, YK_E_FORMAT, text);
        return;
    }
    peer->port = port;
    peer->ready = true;
}

/* The first verdict counts, and does so at once if the host of the rank at fault reports it as its own error. */
static void verdict_take(yk__remote *remote, yk__peer *peer, const char *line)
{
    int n = 0;
    uint32_t rank;
    peer->said = true;
    if (remote->verdict_at || sscanf(line, "%u %n", &rank, &n) != 1 || !n)
        return;
    remote->verdict_at = yk__clock_ms() + VERDICT_MS;
    remote->verdict_rank = rank;
    snprintf(remote->verdict, sizeof remote->verdict, "%s", line + n);
}

/* Drops the verdict if all hosts have ended well: the job was over by then. */
static void verdict_settle(yk__remote *remote)
{
    if (!remote->alive && !remote->badly) {
        remote->verdict_at = 0;
        return;
    }
    const bool known = remote->verdict_rank < yk__remote_size(remote);
    job_fail(remote, known ? &remote->peer[yk__remote_host(remote, remote->verdict_rank)] : NULL, 1, YK_E_DEVICE_LOST, remote->verdict);
}

/* True for the end of another rank than the one at fault: a consequence. */
static bool is_consequence(const yk__remote *remote, const char *text)
{
    uint32_t rank;
    return remote->verdict_at && sscanf(text, "rank %u (", &rank) == 1 && rank != remote->verdict_rank;
}

static void error_take(yk__remote *remote, yk__peer *peer, const char *what)
{
    char text[YK_ERROR_TEXT];
    peer->said = true;
    if (is_consequence(remote, what))
        return;
    snprintf(text, sizeof text, peer->ready && !strncmp(what, "rank ", 5) ? "%.0s%.700s" : "host %.60s: %.600s", peer->name, what);
    job_fail(remote, peer, 1, YK_E_DEVICE_LOST, text); /* its exit code comes with its end; the other hosts hear of it now */
}

/* Takes a line of the node's own. */
static void answer_take(yk__remote *remote, yk__peer *peer, char *line)
{
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, "rank ", 5) && !peer->ready)
        rank_take(remote, peer, line + 5);
    else if (!strncmp(line, "ready ", 6))
        ready_take(remote, peer, line + 6);
    else if (!strncmp(line, "error ", 6))
        error_take(remote, peer, line + 6);
    else if (!strcmp(line, "end"))
        peer->whole = true;
    else if (!strcmp(line, "heeds"))
        remote->heeds = true;
    else if (!strncmp(line, "verdict ", 8) && peer->ready)
        verdict_take(remote, peer, line + 8);
}

typedef struct line_context {
    yk__remote *remote;
    yk__peer *peer;
} line_context;

/* Lines without the node's mark are its ranks', or output of the host's shell when it starts. */
static void output_take(void *context, const char *text, size_t bytes)
{
    const line_context *line = context;
    char copy[YK__LINE_MOST];
    if (!strncmp(text, YK__NODE_LINE, sizeof YK__NODE_LINE - 1)) {
        snprintf(copy, sizeof copy, "%s", text + sizeof YK__NODE_LINE - 1);
        answer_take(line->remote, line->peer, copy);
    } else
        yk__outlet_put(&line->remote->out[0], text, bytes);
}

/* The last line of a host before its answer gives the reason of a failure. Until then only Yoke's own lines are printed. */
static void complaint_take(void *context, const char *text, size_t bytes)
{
    const line_context *line = context;
    if (!line->peer->ready && strncmp(text, "yoke: ", 6))
        snprintf(line->peer->complaint, sizeof line->peer->complaint, "%.*s", (int)strcspn(text, "\r\n"), text);
    else
        yk__outlet_put(&line->remote->out[1], text, bytes);
}

/* While this process's own output waits for a reader, so do the hosts; at the end the hosts' last output is still read. */
static bool is_held_up(const yk__remote *remote)
{
    return !remote->kill_at && (yk__outlet_full(&remote->out[0]) || yk__outlet_full(&remote->out[1]));
}

static bool peer_pump(yk__remote *remote, yk__peer *peer)
{
    line_context line = {remote, peer};
    const bool out = yk__lines_pump(&peer->out, output_take, &line), err = yk__lines_pump(&peer->err, complaint_take, &line);
    return out || err;
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

static void fail_unreached(yk__remote *remote, const yk__peer *peer, const char *how)
{
    char text[YK_ERROR_TEXT];
    snprintf(text, sizeof text, "host %.100s cannot be reached: %.40s %s%s%.300s", peer->name, peer->argv[0], how,
             peer->complaint[0] ? ": " : "", peer->complaint);
    job_fail(remote, peer, 1, YK_E_IO, text);
}

/* The ranks of every host leave this way, one host after the other; it is no fault. */
static void note_again(yk__remote *remote, const yk__peer *peer)
{
    if (remote->again)
        return;
    remote->again = peer;
    remote->again_at = yk__clock_ms() + AGAIN_MS;
}

/* Handles the end of a host's child. */
static void peer_end(yk__remote *remote, yk__peer *peer, int status)
{
    char how[64], text[YK_ERROR_TEXT];
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    bool cut;
    peer->pid = 0;
    remote->alive--;
    remote->badly = remote->badly || (code && code != YK__LAUNCH_AGAIN);
    for (int i = 0; i < YK__PIPE_PUMPS && peer_pump(remote, peer); i++) /* its last output */
        ;
    yk__peer_hang_up(peer);
    cut = remote->running && peer->ready && !peer->whole && WIFEXITED(status) && code != SSH_FAILED;
    if (WIFEXITED(status))
        snprintf(how, sizeof how, "ended with exit code %d", code);
    else
        snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    if (peer == remote->failed)
        remote->code = code == 2 || code == YK__LAUNCH_AGAIN ? code : 1;
    else if (!peer->ready)
        fail_unreached(remote, peer, how);
    else if (code == YK__LAUNCH_AGAIN && remote->running)
        note_again(remote, peer);
    else if (code && remote->running && !(remote->verdict_at && peer->said)) {
        remote->lost = true;
        snprintf(text, sizeof text, "host %.100s: its connection (%.40s) %s", peer->name, peer->argv[0], how);
        job_fail(remote, peer, 1, YK_E_DEVICE_LOST, text);
        cut = cut && remote->failed != peer;
    }
    remote->cut += cut;
}

static void peers_reap(yk__remote *remote)
{
    for (uint32_t i = 0; i < remote->config->hosts->count; i++) {
        yk__peer *peer = &remote->peer[i];
        int status;
        if (peer->pid && waitpid(peer->pid, &status, WNOHANG) == peer->pid)
            peer_end(remote, peer, status);
    }
}

static void peer_kill(yk__peer *peer)
{
    if (!peer->pid)
        return;
    kill(-peer->pid, SIGKILL);
    if (!peer->killed_at)
        peer->killed_at = yk__clock_ms();
}

/* A process that survives SIGKILL belongs to another user (sudo), or waits in the kernel. */
static void peer_give_up(yk__remote *remote, yk__peer *peer)
{
    char text[384];
    snprintf(text, sizeof text, "host %.100s: process %ld (%.60s) has not ended after SIGKILL; it is left behind", peer->name,
             (long)peer->pid, peer->argv[0]);
    if (remote->say)
        remote->say(text);
    peer->pid = 0;
    remote->alive--;
    remote->badly = true;
}

static void fail_again(yk__remote *remote)
{
    char text[192];
    snprintf(text, sizeof text, "host %.100s: its ranks ended with exit code %d, and those of other hosts do not", remote->again->name,
             YK__LAUNCH_AGAIN);
    job_fail(remote, remote->again, 1, YK_E_DEVICE_LOST, text);
}

static void deadlines_enforce(yk__remote *remote)
{
    const int64_t now = yk__clock_ms();
    if (remote->again && remote->alive && now >= remote->again_at)
        fail_again(remote);
    const bool due = remote->kill_at && now >= remote->kill_at;
    for (uint32_t i = 0; i < remote->config->hosts->count; i++) {
        yk__peer *peer = &remote->peer[i];
        if (due)
            peer_kill(peer);
        if (peer->pid && peer->killed_at && now - peer->killed_at >= DEATH_MS)
            peer_give_up(remote, peer);
    }
    if (due)
        remote->kill_at = now + DEATH_MS;
}

/* A connection, and the program at its other end, may stop without a word. A step's length is limited, as in node_io.c. */
static void peers_watch(yk__remote *remote, const bool *heard, int64_t step)
{
    const int64_t limit = yk__node_silence_ms();
    char text[384];
    for (uint32_t i = 0; i < remote->config->hosts->count; i++) {
        yk__peer *peer = &remote->peer[i];
        peer->silent_ms = heard[i] || !remote->running || !limit ? 0 : peer->silent_ms + step;
        if (!peer->pid || !limit || peer->silent_ms <= limit)
            continue;
        remote->lost = true;
        snprintf(text, sizeof text, "host %.100s gave no sign of life for %.1f s: its connection (%.40s) or its part of yoke launch stands "
                 "still", peer->name, (double)peer->silent_ms / 1000, peer->argv[0]);
        job_fail(remote, peer, 1, YK_E_DEVICE_LOST, text);
        peer_kill(peer);
    }
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

static void peers_send(yk__remote *remote, int sig)
{
    const uint8_t byte = (uint8_t)sig;
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        if (remote->peer[i].in >= 0 && send(remote->peer[i].in, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
            yk__peer_hang_up(&remote->peer[i]);
}

/* Before the ranks run, a signal has no receiver to be passed on to. */
static void signal_take(yk__remote *remote, int sig)
{
    if (yk__signals_repeated(remote->config->signals, sig, false))
        return;
    /* the hosts kill their ranks; the launcher does not wait for one without an answer */
    if (remote->interrupted && (remote->interrupted != SIGUSR1 || remote->heeds)) {
        const int64_t at = yk__clock_ms() + URGENT_MS;
        remote->urgent = true;
        remote->kill_at = remote->kill_at && remote->kill_at < at ? remote->kill_at : at;
    } else
        remote->interrupted = sig;
    if (!remote->running) {
        job_fail(remote, NULL, 128 + sig, YK_E_CANCELLED, "");
        return;
    }
    peers_send(remote, sig);
}

/* Ctrl-Z reaches this process alone. The hosts still get beats (beat.c), and this process does not count its own stopped time. */
static void job_stop(yk__remote *remote)
{
    if (remote->running)
        peers_send(remote, SIGTSTP);
    yk__signals_stop(remote->config->signals);
    if (remote->running)
        peers_send(remote, SIGCONT);
}

static void signals_read(yk__remote *remote)
{
    int sig;
    while ((sig = yk__signals_next(remote->config->signals)))
        if (sig == SIGTSTP)
            job_stop(remote);
        else if (sig != SIGCHLD)
            signal_take(remote, sig);
}

static bool all_ready(const yk__remote *remote)
{
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        if (!remote->peer[i].ready)
            return false;
    return true;
}

static void fail_slow(yk__remote *remote)
{
    char text[256];
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        if (!remote->peer[i].ready) {
            snprintf(text, sizeof text, "host %.100s has not answered within %.1f s (YOKE_JOIN_MS)", remote->peer[i].name,
                     (double)yk__option_number(YK__OPTION_JOIN_MS) / 1000);
            job_fail(remote, &remote->peer[i], 1, YK_E_TIMEOUT, text);
            return;
        }
}

static void fail_many(yk__remote *remote)
{
    char text[128];
    snprintf(text, sizeof text, "the hosts have %u ranks together: a job has at most %u", yk__remote_size(remote), YK__RANKS);
    job_fail(remote, NULL, 2, YK_E_ARG, text);
}

static int timeout_find(const yk__remote *remote, int64_t ready_at)
{
    const int64_t at = remote->kill_at ? remote->kill_at : remote->verdict_at ? remote->verdict_at : ready_at, left = at - yk__clock_ms();
    const int64_t most = remote->running ? YK__NODE_BEAT_MS : 1000000;
    return !at ? (remote->running ? (int)most : -1) : left < 0 ? 0 : left > most ? (int)most : (int)left + 1;
}

static nfds_t polls_fill(yk__remote *remote)
{
    const bool held_up = is_held_up(remote);
    struct pollfd *p = remote->poll;
    nfds_t n = 0;
    p[n++] = (struct pollfd){remote->config->signals->fd, POLLIN, 0};
    for (int i = 0; i < 2; i++)
        p[n++] = (struct pollfd){yk__outlet_waits(&remote->out[i]) ? remote->out[i].fd : -1, POLLOUT, 0};
    for (uint32_t i = 0; i < remote->config->hosts->count; i++) {
        p[n++] = (struct pollfd){held_up ? -1 : remote->peer[i].out.fd, POLLIN, 0};
        p[n++] = (struct pollfd){held_up ? -1 : remote->peer[i].err.fd, POLLIN, 0};
    }
    return n;
}

/* Reads the hosts' output; a host that the launcher does not read is not silent. */
static void peers_hear(yk__remote *remote)
{
    const int64_t now = yk__clock_ms(), step = remote->checked_at ? now - remote->checked_at : 0;
    const bool held_up = is_held_up(remote);
    remote->checked_at = now;
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        remote->heard[i] = held_up || peer_pump(remote, &remote->peer[i]);
    peers_watch(remote, remote->heard, step < YK__NODE_BEAT_MS ? step : YK__NODE_BEAT_MS);
}

static void look_once(yk__remote *remote, int64_t ready_at)
{
    poll(remote->poll, polls_fill(remote), timeout_find(remote, ready_at));
    signals_read(remote);
    for (int i = 0; i < 2; i++)
        yk__outlet_flush(&remote->out[i]);
    peers_hear(remote);
    peers_reap(remote);
    if (remote->verdict_at && (yk__clock_ms() >= remote->verdict_at || !remote->alive))
        verdict_settle(remote);
    deadlines_enforce(remote);
}

/* Names the hosts that have not answered, the first eight of them. */
static void slow_say(const yk__remote *remote, int64_t left_ms)
{
    char names[512] = "";
    size_t n = 0;
    uint32_t slow = 0;
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        if (!remote->peer[i].ready && slow++ < SAY_HOSTS)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%.50s", n ? ", " : "", remote->peer[i].name);
    if (slow > SAY_HOSTS)
        snprintf(names + n, sizeof names - n, " and %u more", slow - SAY_HOSTS);
    yk__log(YK_LOG_WARN, "launch", "waited %d s so far for an answer of host%s %s: its shell may wait for a network, a password or a slow "
            "disk; the job ends in %.0f s more (YOKE_JOIN_MS)", SAY_MS / 1000, slow > 1 ? "s" : "", names, (double)left_ms / 1000);
}

/* Waits until every host has answered, or all children have ended after an error. */
static yk_status ready_wait(yk__remote *remote)
{
    const int64_t begun = yk__clock_ms(), until = begun + (int64_t)yk__option_number(YK__OPTION_JOIN_MS);
    int64_t say_at = begun + SAY_MS;
    while (remote->err.status ? remote->alive > 0 : !all_ready(remote)) {
        look_once(remote, say_at < until ? say_at : until);
        const int64_t now = yk__clock_ms();
        if (!remote->err.status && now >= say_at && now < until && !all_ready(remote)) {
            slow_say(remote, until - now);
            say_at = INT64_MAX;
        }
        if (!remote->err.status && now >= until)
            fail_slow(remote);
    }
    return remote->err.status;
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static yk_status remote_start(yk__remote *remote, yk_error *err)
{
    for (uint32_t i = 0; i < remote->config->hosts->count; i++) {
        if (yk__peer_start(&remote->peer[i], remote->config, i, &remote->config->signals->ranks, err))
            return err->status;
        remote->alive++;
    }
    return YK_OK;
}

static void remote_free(yk__remote *remote)
{
    for (int i = 0; i < 2; i++)
        yk__outlet_close(&remote->out[i]);
    yk__free(remote->peer);
    yk__free(remote->poll);
    yk__free(remote->heard);
    yk__free(remote);
}

static yk_status remote_new(const yk__peer_config *config, yk__remote **out, yk_error *err)
{
    const size_t hosts = config->hosts->count;
    yk__remote *remote = yk__calloc(1, sizeof *remote);
    if (!remote)
        return yk__fail_mem(err, sizeof *remote, "the hosts of a job");
    remote->config = config;
    remote->peer = yk__calloc(hosts, sizeof *remote->peer);
    remote->poll = yk__calloc(3 + 2 * hosts, sizeof *remote->poll);
    remote->heard = yk__calloc(hosts, sizeof *remote->heard);
    yk__outlet_open(&remote->out[0], STDOUT_FILENO);
    yk__outlet_open(&remote->out[1], STDERR_FILENO);
    for (uint32_t i = 0; remote->peer && i < hosts; i++) {
        yk__peer *peer = &remote->peer[i];
        peer->name = config->hosts->host[i].name;
        peer->in = peer->out.fd = peer->err.fd = -1;
    }
    if (remote->peer && remote->poll && remote->heard) {
        *out = remote;
        return YK_OK;
    }
    remote_free(remote);
    return yk__fail_mem(err, hosts * sizeof *remote->peer, "the hosts of a job");
}

yk_status yk__remote_open(const yk__peer_config *config, yk__launch_say say, yk__remote **out, int *code, yk_error *err)
{
    yk__remote *remote = NULL;
    *code = 1;
    if (remote_new(config, &remote, err)) {
        if (say)
            say(err->text);
        return err->status;
    }
    remote->say = say;
    if (remote_start(remote, err))
        job_fail(remote, NULL, 1, err->status, err->text);
    if (!ready_wait(remote) && yk__remote_size(remote) > YK__RANKS)
        fail_many(remote);
    if (!remote->err.status) {
        *code = 0;
        *out = remote;
        return YK_OK;
    }
    *err = remote->err;
    *code = remote->code;
    yk__remote_close(remote);
    return err->status;
}

static yk_status secret_make(char *text, yk_error *err)
{
    uint8_t secret[YK__NODE_SECRET];
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret)
        return yk__fail(err, YK_E_IO, "the job's secret: getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof secret; i++)
        snprintf(text + 2 * i, 3, "%02x", secret[i]);
    explicit_bzero(secret, sizeof secret);
    return YK_OK;
}

static void ranks_start(yk__remote *remote)
{
    yk_error err = YK_ERROR_INIT;
    char secret[2 * YK__NODE_SECRET + 1];
    yk__peer_begin begin = {.secret = secret, .size = yk__remote_size(remote), .address = remote->peer[0].address,
                            .port = remote->peer[0].port};
    if (secret_make(secret, &err)) {
        job_fail(remote, NULL, 1, err.status, err.text);
        return;
    }
    for (uint32_t i = 0; i < remote->config->hosts->count; i++) {
        yk__peer_run(&remote->peer[i], &begin);
        begin.first += remote->peer[i].ranks;
    }
    explicit_bzero(secret, sizeof secret);
    if (yk__beat_start(remote->peer, remote->config->hosts->count, &remote->beater, &err))
        job_fail(remote, NULL, 1, err.status, err.text);
}

/* An unreachable host ends its ranks by itself: until then they hold its devices. */
static void lost_wait(yk__remote *remote)
{
    const int64_t until = yk__clock_ms() + LOST_MS;
    remote->kill_at = until;
    while (!remote->interrupted && yk__clock_ms() < until)
        look_once(remote, 0);
}

/* errno of standard output that could not be written; 0 if none. Lost lines of standard error end no training, as on one host. */
static int output_failed(const yk__remote *remote)
{
    return remote->out[0].failed;
}

yk_status yk__remote_run(yk__remote *remote, bool *again, int *code, yk_error *err)
{
    remote->running = true;
    ranks_start(remote);
    while (remote->alive)
        look_once(remote, 0);
    yk__beat_stop(&remote->beater);
    if (remote->lost && yk__restart_left(&remote->config->restart))
        lost_wait(remote);
    signals_read(remote); /* a signal that came with the last host's end also prevents a restart */
    if (remote->again && !remote->err.status) {
        remote->code = YK__LAUNCH_AGAIN;
        yk__restart_again(remote->interrupted, &remote->err);
    }
    *code = remote->err.status && remote->interrupted && remote->code != YK__LAUNCH_AGAIN ? 128 + remote->interrupted : remote->code;
    *again = remote->err.status && !remote->interrupted && yk__restart_due(&remote->config->restart, *code);
    if (remote->err.status && !remote->said)
        say_end(remote, *again);
    *err = remote->err;
    if (!*code && output_failed(remote)) {
        *code = 1;
        yk__fail(err, YK_E_IO, "the ranks' output cannot be written: %s", strerror(output_failed(remote)));
    }
    return err->status;
}

/* Output without a reader, or room, is lost, and the user is warned. */
static void output_drain(yk__remote *remote)
{
    char text[160];
    uint64_t lost = remote->cut;
    for (int i = 0; i < 2; i++) {
        yk__outlet_drain(&remote->out[i], DRAIN_MS);
        lost += remote->out[i].lost;
        remote->out[i].lost = 0;
    }
    const int failed = output_failed(remote);
    snprintf(text, sizeof text, "the ranks' last output %s%s, and is lost (%llu piece%s)", failed ? "cannot be written: " : "was not read",
             failed ? strerror(failed) : "", (unsigned long long)lost, lost == 1 ? "" : "s");
    if (lost && remote->say)
        remote->say(text);
}

void yk__remote_close(yk__remote *remote)
{
    if (!remote)
        return;
    remote->running = false;
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        yk__peer_hang_up(&remote->peer[i]);
    if (!remote->kill_at)
        remote->kill_at = yk__clock_ms() + END_MS;
    while (remote->alive)
        look_once(remote, 0);
    yk__beat_stop(&remote->beater);
    output_drain(remote);
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        yk__peer_release(&remote->peer[i]);
    remote_free(remote);
}

uint32_t yk__remote_size(const yk__remote *remote)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < remote->config->hosts->count; i++)
        size += remote->peer[i].ranks;
    return size;
}

uint32_t yk__remote_host(const yk__remote *remote, uint32_t rank)
{
    uint32_t host = 0;
    while (rank >= remote->peer[host].ranks)
        rank -= remote->peer[host++].ranks;
    return host;
}

const char *yk__remote_device(const yk__remote *remote, uint32_t rank)
{
    uint32_t host = 0;
    while (rank >= remote->peer[host].ranks)
        rank -= remote->peer[host++].ranks;
    return remote->peer[host].device[rank];
}

void yk__remote_command(const yk__remote *remote, uint32_t host, char *text, size_t size)
{
    yk__peer_command(&remote->peer[host], text, size);
}
