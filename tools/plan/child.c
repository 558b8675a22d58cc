/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs this program as a child process, and reads its output through a pipe. Also sets environment variables for children, and restores
 * them.
 *
 * describe.c, search.c and tools/bench/mixed.c call it in the main thread, and wait for the child's end.
 */
#define _GNU_SOURCE
#include "tools/plan/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

enum { EXIT_SECONDS = 60 }; /* between the end of a child's output and its own end */

static _Noreturn void child_exec(char **argv, const char *errors, const int *pipes, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* its own ranks die with it in the same way */
    if (getppid() != parent)
        _exit(1); /* child: the parent died before the prctl */
    const int to = errors ? open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (to >= 0)
        dup2(to, STDERR_FILENO);
    dup2(pipes[1], STDOUT_FILENO);
    execv(argv[0], argv);
    _exit(127);
}

/* Reads until the child closes its output, at most `most` seconds; false if it has not by then. */
static bool output_read(int fd, double most, char *out, size_t size, size_t *used)
{
    const double end = yk__clock_seconds() + most;
    ssize_t n = 1;
    while (n && *used < size - 1) {
        const double left = end - yk__clock_seconds();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (!(left > 0))
            return false;
        const int ready = poll(&wait, 1, left < 1e6 ? (int)(1e3 * left) + 1 : -1);
        if (ready <= 0 && (ready == 0 || errno == EINTR))
            continue;
        n = read(fd, out + *used, size - 1 - *used);
        if (n < 0 && errno != EINTR)
            return true;
        *used += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Waits for a child whose output has ended, and kills one that an exit handler holds up, a driver's perhaps. False if it does not die. */
static bool child_reap(pid_t pid, int *status, int *error)
{
    const double end = yk__clock_seconds() + EXIT_SECONDS;
    pid_t gone;
    while ((gone = waitpid(pid, status, WNOHANG)) != pid) {
        const double late = yk__clock_seconds() - end;
        if ((gone < 0 && errno != EINTR) || late > EXIT_SECONDS) {
            errno = gone < 0 ? errno : ETIMEDOUT;
            return false;
        }
        if (late > 0 && *error != ETIMEDOUT) {
            *error = ETIMEDOUT;
            kill(pid, SIGKILL);
        }
        poll(NULL, 0, 5);
    }
    return true;
}

int child_run(char **argv, double most, const char *errors, char *out, size_t size)
{
    int pipes[2], status = 0;
    size_t used = 0;
    const pid_t parent = getpid();
    out[0] = 0;
    if (pipe2(pipes, O_CLOEXEC))
        return -1;
    const pid_t pid = fork();
    if (pid == 0)
        child_exec(argv, errors, pipes, parent);
    int error = pid < 0 ? errno : 0;
    close(pipes[1]);
    if (pid > 0 && !output_read(pipes[0], most, out, size, &used)) {
        error = ETIMEDOUT;
        kill(pid, SIGKILL);
    }
    close(pipes[0]);
    out[used] = 0;
    if (pid > 0 && !child_reap(pid, &status, &error))
        return -1;
    errno = error;
    return pid > 0 && !error && used < size - 1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void environment_put(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

void child_set(const char *name, const char *value, char **kept)
{
    const char *now = getenv(name);
    *kept = now ? yk__strdup(now) : NULL;
    environment_put(name, value);
}

void child_restore(const char *name, char **kept)
{
    environment_put(name, *kept);
    yk__free(*kept);
    *kept = NULL;
}
