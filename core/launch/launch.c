/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher: one process per rank, each in a process group of its own, so that what a rank starts ends with it.
 *
 * The first error that ends the job stands in the job's shared record, whoever found it: the launcher (an exit, a
 * signal, a stop), a rank (its own failure, or another's that does nothing) or the liveness thread of a rank (silence). From
 * then on the ranks have a little time to end by themselves, then SIGTERM, then SIGKILL; one that SIGKILL does not end is named
 * and left behind.
 */
#include "config.h"

#include "core/launch/launcher.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/cgroup.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/option.h"

#define GRACE_MS 1600       /* from the error to SIGKILL ... */
#define GRACE_SILENT_MS 360 /* ... and where finding it has taken most of the two seconds */
#define STOPPED_MS 1100     /* some, not all, ranks stopped for so long: lost. Before their silence tells the others */
#define DEATH_MS 2000       /* from SIGKILL to giving up */
#define LEFT_MS 60000       /* from a goodbye to the end of the process: exit handlers, of drivers mostly */

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

static void signal_all(const yk__launcher *l, int sig)
{
    for (uint32_t r = 0; r < l->n; r++)
        if (l->rank[r].pid)
            kill(-l->rank[r].pid, sig);
}

static void say_line(yk__launcher *l, const char *text)
{
    if (l->say)
        l->say(text);
    l->said = true;
}

static void kill_all(yk__launcher *l)
{
    signal_all(l, SIGKILL);
    if (!l->killed_at)
        l->killed_at = now_ms();
}

/* An error stands in the record: starts the clock. */
static void begin_end(yk__launcher *l)
{
    yk_error err = YK_ERROR_INIT;
    uint32_t rank;
    bool silent;
    int64_t grace;
    if (l->ending || !yk__control_job_error(l->job, &rank, &silent, &err))
        return;
    l->ending = true;
    say_line(l, err.text);
    grace = silent ? GRACE_SILENT_MS : GRACE_MS;
    l->kill_at = now_ms() + grace;
    l->term_at = l->kill_at - grace / 2;
    if (silent && rank < l->n && l->rank[rank].pid)
        kill(-l->rank[rank].pid, SIGKILL); /* it does not listen */
}

/* What SIGKILL does not end waits in the kernel, for a device or a file system, or is frozen; it dies when it wakes. */
static void give_up(yk__launcher *l)
{
    char text[256];
    for (uint32_t r = 0; r < l->n; r++)
        if (l->rank[r].pid) {
            snprintf(text, sizeof text,
                     "%s: process %ld has not died %d s after SIGKILL (frozen, or waiting for a device or a file system); it is "
                     "left behind",
                     l->rank[r].name, (long)l->rank[r].pid, DEATH_MS / 1000);
            say_line(l, text);
        }
    l->gave_up = true;
}

static void enforce(yk__launcher *l)
{
    int64_t now = now_ms();
    if (l->killed_at && l->alive && now - l->killed_at >= DEATH_MS)
        give_up(l);
    if (!l->ending)
        return;
    if (!l->termed && now >= l->term_at) {
        l->termed = true;
        signal_all(l, SIGTERM);
        signal_all(l, SIGCONT);
    }
    if (now >= l->kill_at) {
        kill_all(l);
        l->kill_at = now + 100;
    }
}

/* what: goes on after the rank's name. */
static void fail_rank(yk__launcher *l, uint32_t rank, yk_status status, const char *what)
{
    char words[YK_ERROR_TEXT + 160];
    snprintf(words, sizeof words, "%s%s", l->rank[rank].name, what);
    if (l->interrupted) {
        snprintf(words, sizeof words, "interrupted by signal %d (%s)", l->interrupted, strsignal(l->interrupted));
        status = YK_E_CANCELLED;
    }
    yk__control_job_abort(l->job, rank, status, words);
    begin_end(l);
}

static bool any_joined(const yk__launcher *l)
{
    for (uint32_t r = 0; r < l->n; r++)
        if (yk__control_job_joined(l->job, r))
            return true;
    return false;
}

static void note_end(yk__launcher *l, uint32_t rank, int status)
{
    yk__child *c = &l->rank[rank];
    char what[128];
    bool left_open = yk__control_job_joined(l->job, rank);
    c->pid = 0;
    c->stopped = false;
    l->alive--;
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status))
        snprintf(what, sizeof what, " was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGKILL && yk__cgroup_kills() > l->kills
                     ? "; the kernel killed a process of this control group for want of memory"
                     : "");
    else if (c->code)
        snprintf(what, sizeof what, " ended with exit code %d", c->code);
    else if (left_open)
        snprintf(what, sizeof what, " ended without leaving the group (exit code 0)");
    else if (yk__control_job_gone(l->job, rank) && any_joined(l))
        snprintf(what, sizeof what, " ended (exit code 0) before it joined the others");
    else
        return;
    fail_rank(l, rank, YK_E_DEVICE_LOST, what);
}

static void take_notices(yk__launcher *l, uint32_t rank)
{
    yk_error err = YK_ERROR_INIT;
    char what[YK_ERROR_TEXT + 2];
    bool told = yk__control_job_fd(l->job, rank) >= 0 && yk__control_job_notice(l->job, rank, &err);
    begin_end(l); /* if a rank has ended the job, its record is the first */
    snprintf(what, sizeof what, ": %s", err.text);
    if (told && !l->ending)
        fail_rank(l, rank, err.status, what);
    if (l->left_ms && !l->rank[rank].left_at && yk__control_job_left(l->job, rank))
        l->rank[rank].left_at = now_ms();
}

/* Whether the process that joined lives: the rank's, or one in its group where a wrapper stands between. */
static bool member_lives(const yk__launcher *l, uint32_t rank)
{
    const pid_t pid = yk__control_job_pid(l->job, rank);
    return l->rank[rank].pid && pid > 0 && (pid == l->rank[rank].pid || getpgid(pid) == l->rank[rank].pid);
}

/* Processes that have left the group and do not end. A wrapper may have other work still. */
static void watch_left(yk__launcher *l)
{
    char what[160];
    for (uint32_t r = 0; r < l->n; r++) {
        if (!l->rank[r].left_at || now_ms() - l->rank[r].left_at < l->left_ms)
            continue;
        l->rank[r].left_at = 0;
        if (l->ending || !member_lives(l, r))
            continue;
        snprintf(what, sizeof what, " left the group but has not ended within %.1f s: an exit handler hangs, perhaps a driver's",
                 (double)l->left_ms / 1000);
        fail_rank(l, r, YK_E_DEVICE_LOST, what);
    }
}

/* Some ranks stopped while others run. When all are stopped the user did it, and they wait together. */
static void watch_stopped(yk__launcher *l)
{
    uint32_t stopped = 0, which = 0;
    for (uint32_t r = 0; r < l->n; r++)
        if (l->rank[r].pid && l->rank[r].stopped && !stopped++)
            which = r;
    if (!l->liveness || !stopped || stopped == l->alive) {
        l->stopped_since = 0;
        return;
    }
    if (!l->stopped_since)
        l->stopped_since = now_ms();
    if (!l->ending && now_ms() - l->stopped_since >= STOPPED_MS) {
        fail_rank(l, which, YK_E_DEVICE_LOST, " was stopped while others run");
        l->kill_at = now_ms() + GRACE_SILENT_MS;
        l->term_at = l->kill_at - GRACE_SILENT_MS / 2;
    }
}

static void note_stops(yk__child *c)
{
    siginfo_t si = {0};
    while (!waitid(P_PID, (id_t)c->pid, &si, WSTOPPED | WCONTINUED | WNOHANG) && si.si_pid) {
        c->stopped = si.si_code == CLD_STOPPED;
        si = (siginfo_t){0};
    }
}

/* What it started ends before it is reaped: afterwards the number of its group may be somebody else's. */
static void reap_rank(yk__launcher *l, uint32_t rank)
{
    const pid_t pid = l->rank[rank].pid;
    siginfo_t si = {0};
    int status;
    if (waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) || !si.si_pid)
        return;
    take_notices(l, rank); /* what it said before it died explains its end */
    if (l->ending || si.si_code != CLD_EXITED || si.si_status)
        kill(-pid, SIGKILL);
    yk__guard_remove(&l->guard, pid);
    if (waitpid(pid, &status, WNOHANG) == pid)
        note_end(l, rank, status);
}

static void reap(yk__launcher *l)
{
    for (uint32_t r = 0; r < l->n; r++) {
        if (l->rank[r].pid)
            note_stops(&l->rank[r]);
        if (l->rank[r].pid)
            reap_rank(l, r);
    }
    watch_stopped(l);
    watch_left(l);
}

/* ---- Signals to the launcher ------------------------------------------------------------------------------------- */

static void interrupt(yk__launcher *l, int sig)
{
    if (l->interrupted) {
        kill_all(l);
        return;
    }
    l->interrupted = sig;
    signal_all(l, sig);
    signal_all(l, SIGCONT);
}

/* Ctrl-Z reaches only the launcher's process group: the ranks stop first, then the launcher; all go on together. */
static void stop_job(const yk__launcher *l)
{
    signal_all(l, SIGSTOP);
    raise(SIGSTOP);
    signal_all(l, SIGCONT);
}

static void take_signals(yk__launcher *l)
{
    struct signalfd_siginfo si;
    while (read(l->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
        if (si.ssi_signo == SIGTSTP)
            stop_job(l);
        else if (si.ssi_signo != SIGCHLD)
            interrupt(l, (int)si.ssi_signo);
    }
}

/* Blocks the signals the launcher reads itself; those the caller ignores (nohup) stay ignored. */
static yk_status catch_signals(yk__launcher *l, struct sigaction *old_child, yk_error *err)
{
    static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct sigaction now;
        if (!sigaction(asked[i], NULL, &now) && now.sa_handler != SIG_IGN)
            sigaddset(&set, asked[i]);
    }
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0)
        return yk__fail(err, YK_E_IO, "signalfd: %s", strerror(errno));
    sigaction(SIGCHLD, &act, old_child); /* an ignored SIGCHLD would throw the exit codes away */
    sigprocmask(SIG_BLOCK, &set, &l->mask);
    return YK_OK;
}

static void release_signals(yk__launcher *l, const struct sigaction *old_child)
{
    take_signals(l); /* a signal that came late has nothing to end any more */
    close(l->signal_fd);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    sigaction(SIGCHLD, old_child, NULL);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static int64_t earlier(int64_t at, int64_t other)
{
    return !other || (at && at < other) ? at : other;
}

static int next_timeout(const yk__launcher *l)
{
    int64_t at = l->ending ? (l->termed ? l->kill_at : l->term_at) : 0;
    if (!l->ending && l->stopped_since)
        at = l->stopped_since + STOPPED_MS;
    if (l->killed_at)
        at = earlier(at, l->killed_at + DEATH_MS);
    for (uint32_t r = 0; r < l->n; r++)
        if (l->rank[r].left_at && l->rank[r].pid)
            at = earlier(at, l->rank[r].left_at + l->left_ms);
    if (!at)
        return -1;
    at -= now_ms();
    return at < 0 ? 0 : (int)at + 1;
}

static void supervise(yk__launcher *l, struct pollfd *p)
{
    while (l->alive && !l->gave_up) {
        p[0] = (struct pollfd){l->signal_fd, POLLIN, 0};
        for (uint32_t r = 0; r < l->n; r++)
            p[r + 1] = (struct pollfd){yk__control_job_fd(l->job, r), POLLIN, 0};
        if (poll(p, l->n + 1, next_timeout(l)) < 0 && errno != EINTR)
            break;
        for (uint32_t r = 0; r < l->n; r++)
            if (p[r + 1].revents)
                take_notices(l, r);
        take_signals(l);
        reap(l);
        enforce(l);
    }
}

static yk_status verdict(const yk__launcher *l, int *code, yk_error *err)
{
    uint32_t rank;
    bool silent;
    if (!yk__control_job_error(l->job, &rank, &silent, err)) {
        *code = 0;
        return YK_OK;
    }
    *code = l->interrupted ? 128 + l->interrupted : rank < l->n && l->rank[rank].code == 2 ? 2 : 1;
    return err->status;
}

static yk_status run(yk__launcher *l, const yk__placement *place, int *code, yk_error *err)
{
    struct pollfd *p = yk__calloc(l->n + 1, sizeof *p);
    struct sigaction old_child;
    yk_status s;
    if (!p)
        return yk__fail_mem(err, (l->n + 1) * sizeof *p, "the launcher's descriptors");
    s = catch_signals(l, &old_child, err);
    if (s) {
        yk__free(p);
        return s;
    }
    yk__guard_start(&l->guard);
    s = yk__launcher_start(l, place, err);
    if (s) {
        *code = s == YK_E_ARG ? 2 : 1;
        yk__control_job_abort(l->job, 0, s, err->text);
        begin_end(l);
        kill_all(l);
    }
    supervise(l, p);
    yk__guard_stop(&l->guard);
    release_signals(l, &old_child);
    yk__free(p);
    return s ? s : verdict(l, code, err);
}

static yk_status prepare_launch(yk__launcher *l, yk_error *err)
{
    const int64_t stuck = yk__stuck_ms();
    if (!l->n || !l->argv || !l->argv[0])
        return yk__fail(err, YK_E_ARG, "nothing to launch: %u devices, program '%s'", l->n,
                        l->argv && l->argv[0] ? l->argv[0] : "");
    yk__limit_is_error();
    l->kills = yk__cgroup_kills();
    l->liveness = yk__option_number(YK__OPTION_LIVENESS_MS) != 0;
    l->left_ms = stuck < LEFT_MS ? stuck : LEFT_MS;
    if (yk__control_job_new(l->n, &l->job, err))
        return err->status;
    l->rank = yk__calloc(l->n, sizeof *l->rank);
    return l->rank ? YK_OK : yk__fail_mem(err, l->n * sizeof *l->rank, "the ranks of a job");
}

yk_status yk__launch(const struct yk__placement *place, uint32_t n, char *const *argv, yk__launch_say say, int *code,
                     yk_error *err)
{
    yk__launcher l = {.n = n, .argv = argv, .say = say, .guard = {0, -1}, .signal_fd = -1};
    yk_status s = prepare_launch(&l, err);
    *code = s == YK_E_ARG ? 2 : 1;
    s = s ? s : run(&l, place, code, err);
    if (s && !l.said)
        say_line(&l, err->text);
    yk__free(l.rank);
    yk__control_job_free(l.job);
    return s;
}
