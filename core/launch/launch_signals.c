/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the launcher's signals (SIGINT, SIGTERM, SIGCHLD and so on) as records from a descriptor, so that its loop can poll for them.
 *
 * cmd_launch.c takes them; launch.c and remote.c read them, in a program with one thread. The signals are blocked meanwhile: Linux keeps
 * blocked signals even if they are ignored, and a descriptor shows the sender of each.
 */
#include "config.h"

#include "core/launch/launch_signals.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"

#define TWICE_MS 50
#define PASSED_ON_MS 500 /* over a connection between hosts */

static bool is_ignored(int sig)
{
    struct sigaction now;
    return !sigaction(sig, NULL, &now) && now.sa_handler == SIG_IGN;
}

yk_status yk__signals_take(yk__signals *signals, yk_error *err)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGTSTP};
    const struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (taken[i] == SIGINT || !is_ignored(taken[i]))
            sigaddset(&set, taken[i]);
    signals->last = 0;
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd < 0)
        return yk__fail(err, YK_E_IO, "signalfd: %s", yk__limit_reason(errno).text);
    sigaction(SIGCHLD, &act, &signals->old_child); /* an ignored SIGCHLD would throw the exit codes away */
    sigprocmask(SIG_BLOCK, &set, &signals->mask);
    signals->ranks = signals->mask;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (sigismember(&set, taken[i]))
            sigdelset(&signals->ranks, taken[i]);
    return YK_OK;
}

/* True for a signal that the parent, yoke trace, passes on behind the same one of another sender. */
static bool is_passed_again(const yk__signals *signals, const struct signalfd_siginfo *info)
{
    return info->ssi_code == SI_QUEUE && (pid_t)info->ssi_pid == getppid() && (int)info->ssi_signo == signals->last;
}

int yk__signals_next(yk__signals *signals)
{
    struct signalfd_siginfo info;
    while (read(signals->fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (is_passed_again(signals, &info))
            continue;
        else if (info.ssi_signo != SIGINT || info.ssi_code <= 0 || !is_ignored(SIGINT)) {
            signals->typed = info.ssi_code > 0;
            return (int)info.ssi_signo;
        }
    return 0;
}

/* The kernel ignores a SIGTSTP with its default action in an orphaned process group, in which no shell has a `fg`. `ssh -t HOST yoke`, tmux
 * and a container make such groups. A sender of SIGTSTP by kill can send SIGCONT as well. */
void yk__signals_stop(const yk__signals *signals)
{
    const struct sigaction act = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigset_t stop, blocked;
    if (!signals->typed) {
        raise(SIGSTOP);
        return;
    }
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    sigaction(SIGTSTP, &act, &before);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, &blocked); /* here it stops */
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigaction(SIGTSTP, &before, NULL);
}

bool yk__signals_repeated(yk__signals *signals, int sig, bool order)
{
    const int64_t now = yk__clock_ms(), most = order == signals->last_order ? TWICE_MS : PASSED_ON_MS;
    const bool repeated = sig == signals->last && now - signals->last_at < most;
    signals->last = sig;
    signals->last_order = order;
    signals->last_at = now;
    return repeated;
}

void yk__signals_release(yk__signals *signals)
{
    if (signals->fd < 0)
        return;
    while (yk__signals_next(signals))
        ;
    close(signals->fd);
    signals->fd = -1;
    sigprocmask(SIG_SETMASK, &signals->mask, NULL);
    sigaction(SIGCHLD, &signals->old_child, NULL);
}
