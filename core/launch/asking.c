/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks plugins for their devices in a child process, as a driver may start threads, hang or end its process. Shared memory holds the name
 * of the plugin being asked, so that the waiting process can tell which driver died.
 *
 * device_choice.c and `yoke info` start a child, wait for it at most YOKE_JOIN_MS and read its answer, in a program with one thread.
 */
#include "config.h"

#include "core/launch/asking.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/option.h"
#include "core/device/device.h"

#define SLOW_MS 10000 /* drivers usually start within this */
#define ADVICE "name the devices to use, or the plugins in YOKE_PLUGINS"
#define ENDED 113 /* exit code of a process in which a driver called exit before run was done */

static void child_exited(void)
{
    _exit(ENDED); /* child: a driver calls exit, perhaps with 0 */
}

static _Noreturn void child_run(const yk__asking *a, pid_t parent, int (*run)(void *arg, int fd), void *arg, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* child: the parent died before the prctl */
    close(a->fd);
    atexit(child_exited);
    yk__plugin_watch(a->asked);
    const int code = run(arg, fd);
    fflush(stdout);
    _exit(code); /* child: no exit handlers of drivers */
}

yk_status yk__asking_start(yk__asking *a, int (*run)(void *arg, int fd), void *arg, yk_error *err)
{
    const pid_t parent = getpid();
    int fd[2];
    if (pipe2(fd, O_CLOEXEC))
        return yk__fail(err, YK_E_IO, "asking plugins: pipe: %s", yk__limit_reason(errno).text);
    *a = (yk__asking){.fd = fd[0]};
    a->asked = mmap(NULL, YK__ASKED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (a->asked == MAP_FAILED) {
        yk__fail_mem(err, YK__ASKED, "asking plugins");
    } else {
        fflush(stdout); /* or both processes would write it */
        a->pid = fork();
        if (a->pid == 0)
            child_run(a, parent, run, arg, fd[1]);
        if (a->pid < 0)
            yk__fail(err, YK_E_IO, "asking plugins: fork: %s", yk__limit_thread_reason(errno).text);
    }
    close(fd[1]);
    if (!err->status)
        return YK_OK;
    close(fd[0]);
    if (a->asked != MAP_FAILED)
        munmap(a->asked, YK__ASKED);
    return err->status;
}

/* The other process owns the name's memory. */
static void asked_read(const yk__asking *a, char name[YK__ASKED])
{
    memcpy(name, a->asked, YK__ASKED);
    name[YK__ASKED - 1] = 0;
}

yk_status yk__asking_await(yk__asking *a, yk_error *err)
{
    const int64_t begin = yk__clock_ms(), limit = (int64_t)yk__option_number(YK__OPTION_JOIN_MS);
    struct pollfd p = {a->fd, POLLIN, 0};
    char name[YK__ASKED];
    for (;;) {
        const int64_t left = begin + limit - yk__clock_ms();
        const int n = poll(&p, 1, left > SLOW_MS ? SLOW_MS : left > 0 ? (int)left : 0);
        if (n > 0)
            return YK_OK;
        asked_read(a, name);
        if (n == 0 && left <= SLOW_MS) {
            kill(a->pid, SIGKILL);
            return yk__fail(err, YK_E_TIMEOUT, "%s%s has not answered for %.1f s (YOKE_JOIN_MS): its driver hangs; " ADVICE,
                            *name ? "" : "a plugin", name, (double)limit / 1000);
        }
        if (n == 0)
            yk__log(YK_LOG_WARN, "plugins", "%s%s has not answered for %lld s; YOKE_PLUGINS=NAME,.. leaves out the plugins that it "
                    "does not name", *name ? "" : "a plugin", name, (long long)(yk__clock_ms() - begin) / 1000);
    }
}

yk_status yk__asking_end(yk__asking *a, int *code, yk_error *err)
{
    char name[YK__ASKED];
    int status = 0;
    close(a->fd);
    while (waitpid(a->pid, &status, 0) < 0 && errno == EINTR)
        ;
    asked_read(a, name);
    munmap(a->asked, YK__ASKED);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (err->status)
        return err->status;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) { /* nobody reads this process's output any more, and no plugin is to blame */
        *code = 128 + SIGPIPE;
        return YK_OK;
    }
    if (WIFSIGNALED(status))
        return yk__fail(err, YK_E_DEVICE_LOST, "%s%s, or its driver, ended the process by signal %d (%s); " ADVICE, *name ? "" : "a plugin",
                        name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (*code == ENDED)
        return yk__fail(err, YK_E_DEVICE_LOST, "%s%s, or its driver, ended the process by calling exit; " ADVICE, *name ? "" : "a plugin",
                        name);
    return YK_OK;
}
