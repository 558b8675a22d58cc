/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a small process of its own session that ends the ranks' children if the launcher is killed. The kernel then kills the
 * launcher's direct children, the ranks, but children of a rank's wrapper live on.
 *
 * The guard holds one end of a socket. launch.c starts it, and spawn.c registers each rank's process group. If the other end closes without
 * a goodbye, the launcher has died, and the guard kills the groups.
 */
#include "config.h"

#include "core/launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"

/* Closes descriptors that the guard would keep open for other processes: the pipe behind the launcher's output, the job's sockets. */
static void keep_only(int fd)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const long limit = sysconf(_SC_OPEN_MAX);
    for (int i = 0; null >= 0 && i <= 2; i++)
        dup2(null, i);
#ifdef SYS_close_range
    if ((fd == 3 || !syscall(SYS_close_range, 3, fd - 1, 0)) && !syscall(SYS_close_range, fd + 1, ~0u, 0))
        return;
#endif
    for (int i = 3; i < (limit < 0 || limit > 65536 ? 65536 : limit); i++)
        if (i != fd)
            close(i);
}

static void drop_group(pid_t *group, size_t *n, pid_t which)
{
    for (size_t i = 0; i < *n; i++)
        if (group[i] == which)
            group[i--] = group[--*n];
}

static _Noreturn void watch_launcher(int fd)
{
    pid_t *group = NULL;
    size_t n = 0, cap = 0;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* signals to the launcher's group or terminal must not end the guard */
    setsid();
    prctl(PR_SET_NAME, "yoke-guard");
    if (fd <= 2) /* the launcher was started without its standard descriptors */
        fd = fcntl(fd, F_DUPFD, 3);
    keep_only(fd);
    for (;;) {
        int32_t message;
        const ssize_t got = recv(fd, &message, sizeof message, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got != (ssize_t)sizeof message)
            break;
        if (!message)
            _exit(0); /* child: a goodbye */
        if (message > 0 && !yk__grow(&group, &cap, n + 1, sizeof *group))
            group[n++] = message;
        if (message < 0)
            drop_group(group, &n, -message);
    }
    for (size_t i = 0; i < n; i++)
        kill(-group[i], SIGKILL);
    _exit(0); /* child */
}

static void say_unguarded(const char *why)
{
    yk__log(YK_LOG_WARN, "launch", "no guard: if this launcher is killed, processes that its ranks have started live on: %s", why);
}

void yk__guard_start(yk__guard *guard)
{
    int fd[2];
    *guard = (yk__guard){0, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd)) {
        say_unguarded(yk__limit_reason(errno).text);
        return;
    }
    guard->pid = fork();
    if (guard->pid == 0) {
        close(fd[0]);
        watch_launcher(fd[1]);
    }
    const int failed = errno;
    close(fd[1]);
    if (guard->pid > 0) {
        guard->fd = fd[0];
        return;
    }
    say_unguarded(yk__limit_thread_reason(failed).text);
    guard->pid = 0;
    close(fd[0]);
}

static void guard_send(const yk__guard *guard, int32_t what)
{
    if (guard->fd >= 0 && send(guard->fd, &what, sizeof what, MSG_NOSIGNAL) < 0)
        return; /* the guard was killed: the job goes on without it */
}

void yk__guard_add(const yk__guard *guard, pid_t group)
{
    guard_send(guard, group);
}

void yk__guard_remove(const yk__guard *guard, pid_t group)
{
    guard_send(guard, -group);
}

void yk__guard_stop(yk__guard *guard)
{
    if (!guard->pid)
        return;
    guard_send(guard, 0); /* and SIGKILL follows, in case the guard is stopped */
    kill(guard->pid, SIGKILL);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(guard->fd);
    *guard = (yk__guard){0, -1};
}
