/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher: one process per rank, each in a process group of its own, so that what a rank starts ends with it.
 *
 * The first error that ends the job stands in the job's shared record, whoever found it: the launcher (an exit, a
 * signal, a stop), a rank (its own failure) or the liveness thread of a rank (silence). From then on the ranks have a
 * little time to end by themselves, then SIGTERM, then SIGKILL.
 */
#include "config.h"

#include "core/group/group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/device/device.h"
#include "transport/local/local.h"

#define GRACE_MS 1600       /* from the error to SIGKILL ... */
#define GRACE_SILENT_MS 360 /* ... and where finding it has taken most of the two seconds */
#define STOPPED_MS 1100     /* some, not all, ranks stopped for so long: lost. Before their silence tells the others */
#define RANK_VARIABLES 5

extern char **environ;

typedef struct child {
    pid_t pid; /* 0: not started or reaped */
    int code;  /* exit code, or 128 + signal */
    bool stopped;
    char name[128];
} child;

typedef struct launch {
    yk__local_job *job;
    child *rank;
    uint32_t n, alive;
    char *const *argv;
    sigset_t mask; /* the caller's */
    int signal_fd;
    int interrupted; /* the signal, after SIGINT, SIGTERM or SIGHUP */
    bool ending, termed;
    int64_t term_at, kill_at; /* ms, once ending */
    int64_t stopped_since;    /* ms; 0: none, or all, are stopped */
} launch;

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- Starting ---------------------------------------------------------------------------------------------------- */

static bool is_ours(const char *variable)
{
    static const char *const names[] = {
        "YOKE_RANK=", "YOKE_WORLD_SIZE=", "YOKE_LOCAL_RANK=", "YOKE_DEVICES=", "YOKE_JOB_FD=", "YOKE_LAUNCHER="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return true;
    return false;
}

static void env_free(char **env, size_t own)
{
    for (size_t i = 0; env && i < own; i++)
        yk__free(env[i]);
    yk__free(env);
}

/* The rank's environment: RANK_VARIABLES of ours, then the launcher's. Made before the fork, where memory may be
 * asked for. */
static char **env_new(const launch *l, const yk__placement *p, uint32_t rank)
{
    char word[sizeof p->plugin + sizeof p->cores + 16];
    size_t n = 0, at = RANK_VARIABLES;
    char **env;
    while (environ[n])
        n++;
    env = yk__calloc(n + RANK_VARIABLES + 1, sizeof *env);
    if (!env)
        return NULL;
    yk__placement_text(p, word, sizeof word);
    env[0] = yk__format("YOKE_RANK=%u", rank);
    env[1] = yk__format("YOKE_WORLD_SIZE=%u", l->n);
    env[2] = yk__format("YOKE_LOCAL_RANK=%u", rank);
    env[3] = yk__format("YOKE_DEVICES=%s", word);
    env[4] = yk__format("YOKE_JOB_FD=%d", yk__local_job_rank_fd(l->job, rank));
    for (size_t i = 0; i < n; i++)
        if (!is_ours(environ[i]))
            env[at++] = environ[i];
    for (size_t i = 0; i < RANK_VARIABLES; i++)
        if (!env[i]) {
            env_free(env, RANK_VARIABLES);
            return NULL;
        }
    return env;
}

/* After the fork: only async-signal-safe calls. Never returns. */
static void become_rank(const launch *l, uint32_t rank, char **env, pid_t launcher, int report)
{
    int e, null;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher)
        _exit(1);                       /* child: the launcher died before the prctl */
    if (rank || isatty(STDIN_FILENO)) { /* a background process that reads the terminal would be stopped */
        null = open("/dev/null", O_RDONLY);
        if (null >= 0 && null != STDIN_FILENO) {
            dup2(null, STDIN_FILENO);
            close(null);
        }
    }
    fcntl(yk__local_job_rank_fd(l->job, rank), F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    environ = env;
    execvp(l->argv[0], l->argv);
    e = errno;
    if (write(report, &e, sizeof e) < 0)
        _exit(126); /* child */
    _exit(127);     /* child */
}

static yk_status start_rank(launch *l, const yk__placement *p, uint32_t rank, yk_error *err)
{
    char **env = env_new(l, p, rank);
    pid_t launcher = getpid(), pid;
    int report[2], e = 0;
    ssize_t got;
    if (!env)
        return yk__fail_mem(err, 0, "the environment of a rank");
    if (pipe2(report, O_CLOEXEC)) {
        env_free(env, RANK_VARIABLES);
        return yk__fail(err, YK_E_IO, "starting rank %u: pipe: %s", rank, strerror(errno));
    }
    pid = fork();
    if (pid == 0)
        become_rank(l, rank, env, launcher, report[1]);
    e = pid < 0 ? errno : 0;
    close(report[1]);
    env_free(env, RANK_VARIABLES);
    if (pid > 0) {
        setpgid(pid, pid); /* whoever comes first */
        l->rank[rank].pid = pid;
        l->alive++;
        yk__local_job_started(l->job, rank);
        do
            got = read(report[0], &e, sizeof e); /* nothing, once the program runs */
        while (got < 0 && errno == EINTR);
        e = got == (ssize_t)sizeof e ? e : 0;
    }
    close(report[0]);
    return e ? yk__fail(err, YK_E_ARG, "cannot start '%s' for rank %u: %s", l->argv[0], rank, strerror(e)) : YK_OK;
}

static yk_status start_all(launch *l, const yk__placement *place, yk_error *err)
{
    char word[80]; /* a longer list of cores is cut in messages */
    yk_status s = YK_OK;
    for (uint32_t r = 0; r < l->n; r++) {
        yk__placement_text(&place[r], word, sizeof word);
        snprintf(l->rank[r].name, sizeof l->rank[r].name, "rank %u (%s)", r, word);
        yk__local_job_name(l->job, r, l->rank[r].name);
    }
    for (uint32_t r = 0; r < l->n && !s; r++)
        s = start_rank(l, &place[r], r, err);
    return s;
}

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

static void signal_all(const launch *l, int sig)
{
    for (uint32_t r = 0; r < l->n; r++)
        if (l->rank[r].pid)
            kill(-l->rank[r].pid, sig);
}

/* An error stands in the record: starts the clock. */
static void begin_end(launch *l)
{
    yk_error err = YK_ERROR_INIT;
    uint32_t rank;
    bool silent;
    int64_t grace;
    if (l->ending || !yk__local_job_error(l->job, &rank, &silent, &err))
        return;
    l->ending = true;
    grace = silent ? GRACE_SILENT_MS : GRACE_MS;
    l->kill_at = now_ms() + grace;
    l->term_at = l->kill_at - grace / 2;
    if (silent && rank < l->n && l->rank[rank].pid)
        kill(-l->rank[rank].pid, SIGKILL); /* it does not listen */
}

static void enforce(launch *l)
{
    int64_t now = now_ms();
    if (!l->ending)
        return;
    if (!l->termed && now >= l->term_at) {
        l->termed = true;
        signal_all(l, SIGTERM);
        signal_all(l, SIGCONT);
    }
    if (now >= l->kill_at) {
        signal_all(l, SIGKILL);
        l->kill_at = now + 100;
    }
}

/* what: goes on after the rank's name. */
static void fail_rank(launch *l, uint32_t rank, yk_status status, const char *what)
{
    char words[YK_ERROR_TEXT + 160];
    snprintf(words, sizeof words, "%s%s", l->rank[rank].name, what);
    if (l->interrupted) {
        snprintf(words, sizeof words, "interrupted by signal %d (%s)", l->interrupted, strsignal(l->interrupted));
        status = YK_E_CANCELLED;
    }
    yk__local_job_abort(l->job, rank, status, words);
    begin_end(l);
}

static void note_end(launch *l, uint32_t rank, int status)
{
    child *c = &l->rank[rank];
    char what[128];
    bool left_open = yk__local_job_joined(l->job, rank);
    if (status || l->ending)
        kill(-c->pid, SIGKILL); /* what it started */
    c->pid = 0;
    c->stopped = false;
    l->alive--;
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status))
        snprintf(what, sizeof what, " was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (c->code)
        snprintf(what, sizeof what, " ended with exit code %d", c->code);
    else if (left_open)
        snprintf(what, sizeof what, " ended without leaving the group (exit code 0)");
    else
        return;
    fail_rank(l, rank, YK_E_DEVICE_LOST, what);
}

static void take_notices(launch *l, uint32_t rank)
{
    yk_error err = YK_ERROR_INIT;
    char what[YK_ERROR_TEXT + 2];
    bool told = yk__local_job_fd(l->job, rank) >= 0 && yk__local_job_notice(l->job, rank, &err);
    begin_end(l); /* if a rank has ended the job, its record is the first */
    snprintf(what, sizeof what, ": %s", err.text);
    if (told && !l->ending)
        fail_rank(l, rank, err.status, what);
}

/* Some ranks stopped while others run. When all are stopped the user did it, and they wait together. */
static void watch_stopped(launch *l)
{
    uint32_t stopped = 0, which = 0;
    for (uint32_t r = 0; r < l->n; r++)
        if (l->rank[r].pid && l->rank[r].stopped && !stopped++)
            which = r;
    if (!stopped || stopped == l->alive) {
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

static void reap(launch *l)
{
    for (uint32_t r = 0; r < l->n; r++) {
        int status;
        while (l->rank[r].pid && waitpid(l->rank[r].pid, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0) {
            if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
                l->rank[r].stopped = WIFSTOPPED(status);
                continue;
            }
            take_notices(l, r); /* what it said before it died explains its end */
            note_end(l, r, status);
        }
    }
    watch_stopped(l);
}

/* ---- Signals to the launcher ------------------------------------------------------------------------------------- */

static void interrupt(launch *l, int sig)
{
    if (l->interrupted) {
        signal_all(l, SIGKILL);
        return;
    }
    l->interrupted = sig;
    signal_all(l, sig);
    signal_all(l, SIGCONT);
}

/* Ctrl-Z reaches only the launcher's process group: the ranks stop first, then the launcher; all go on together. */
static void stop_job(const launch *l)
{
    signal_all(l, SIGSTOP);
    raise(SIGSTOP);
    signal_all(l, SIGCONT);
}

static void take_signals(launch *l)
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
static yk_status catch_signals(launch *l, struct sigaction *old_child, yk_error *err)
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

static void release_signals(launch *l, const struct sigaction *old_child)
{
    take_signals(l); /* a signal that came late has nothing to end any more */
    close(l->signal_fd);
    sigprocmask(SIG_SETMASK, &l->mask, NULL);
    sigaction(SIGCHLD, old_child, NULL);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

static int next_timeout(const launch *l)
{
    int64_t at = l->ending ? (l->termed ? l->kill_at : l->term_at) : 0;
    if (!l->ending && l->stopped_since)
        at = l->stopped_since + STOPPED_MS;
    if (!at)
        return -1;
    at -= now_ms();
    return at < 0 ? 0 : (int)at + 1;
}

static void supervise(launch *l, struct pollfd *p)
{
    while (l->alive) {
        p[0] = (struct pollfd){l->signal_fd, POLLIN, 0};
        for (uint32_t r = 0; r < l->n; r++)
            p[r + 1] = (struct pollfd){yk__local_job_fd(l->job, r), POLLIN, 0};
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

static yk_status verdict(const launch *l, int *code, yk_error *err)
{
    uint32_t rank;
    bool silent;
    if (!yk__local_job_error(l->job, &rank, &silent, err)) {
        *code = 0;
        return YK_OK;
    }
    *code = l->interrupted ? 128 + l->interrupted : rank < l->n && l->rank[rank].code == 2 ? 2 : 1;
    return err->status;
}

static yk_status run(launch *l, const yk__placement *place, int *code, yk_error *err)
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
    s = start_all(l, place, err);
    if (s) {
        *code = s == YK_E_ARG ? 2 : 1;
        yk__local_job_abort(l->job, 0, s, err->text);
        signal_all(l, SIGKILL);
    }
    supervise(l, p);
    release_signals(l, &old_child);
    yk__free(p);
    return s ? s : verdict(l, code, err);
}

yk_status yk__launch(const struct yk__placement *place, uint32_t n, char *const *argv, int *code, yk_error *err)
{
    launch l = {.n = n, .argv = argv, .signal_fd = -1};
    yk_status s;
    *code = 1;
    if (!n || !argv || !argv[0])
        return yk__fail(err, YK_E_ARG, "nothing to launch: %u devices, program '%s'", n,
                        argv && argv[0] ? argv[0] : "");
    s = yk__local_job_new(n, &l.job, err);
    if (s)
        return s;
    l.rank = yk__calloc(n, sizeof *l.rank);
    s = l.rank ? run(&l, place, code, err) : yk__fail_mem(err, n * sizeof *l.rank, "the ranks of a job");
    yk__free(l.rank);
    yk__local_job_free(l.job);
    return s;
}
