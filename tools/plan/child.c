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
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"

static void child_exec(char **argv, const char *errors, const int *pipes)
{
    const int to = errors ? open(errors, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    if (to >= 0)
        dup2(to, STDERR_FILENO);
    dup2(pipes[1], STDOUT_FILENO);
    execv(argv[0], argv);
    _exit(127);
}

int child_run(char **argv, const char *errors, char *out, size_t size)
{
    int pipes[2], status = 0;
    size_t used = 0;
    ssize_t n;
    pid_t pid;
    if (pipe2(pipes, O_CLOEXEC))
        return -1;
    pid = fork();
    if (pid == 0)
        child_exec(argv, errors, pipes);
    const int error = pid < 0 ? errno : 0;
    close(pipes[1]);
    while (pid > 0 && used < size - 1 && ((n = read(pipes[0], out + used, size - 1 - used)) > 0 || (n < 0 && errno == EINTR)))
        used += n > 0 ? (size_t)n : 0;
    close(pipes[0]);
    out[used] = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    errno = error;
    return pid > 0 && used < size - 1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
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
