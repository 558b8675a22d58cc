/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks started as one does by hand: variables, fork and exec, and a wait that ends the rest when one fails. */
#include "tools/cmd/launch_node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/device.h"
#include "core/launch/lines.h"
#include "tools/cli.h"

enum { GRACE_SECONDS = 5 };

static volatile pid_t *ranks_of_node; /* 0: has ended */
static volatile uint32_t rank_count;
static volatile sig_atomic_t interrupted;

static void ranks_signal(int signal)
{
    for (uint32_t i = 0; i < rank_count; i++)
        if (ranks_of_node[i] > 0)
            kill(ranks_of_node[i], signal);
}

static void on_signal(int signal)
{
    const int before = errno;
    if (signal != SIGALRM)
        interrupted = signal;
    ranks_signal(signal == SIGALRM ? SIGKILL : signal);
    errno = before;
}

static void signals_take(void)
{
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaction(taken[i], &action, NULL);
}

static void number_set(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

/* In the child; does not return. */
static void rank_become(const yk__placement *place, uint32_t local, uint32_t rank, char *const *argv, pid_t parent)
{
    const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
    char spec[sizeof place->plugin + sizeof place->cores + 16];
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        signal(taken[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(YK_EXIT_FAILED);
    yk__placement_text(place, spec, sizeof spec);
    setenv("YOKE_DEVICES", spec, 1);
    number_set("YOKE_RANK", rank);
    number_set("YOKE_LOCAL_RANK", local);
    execvp(argv[0], argv);
    fprintf(stderr, "yoke launch: %s: %s\n", argv[0], strerror(errno));
    _exit(YK_EXIT_USAGE);
}

static void rank_tell(uint32_t rank, int status)
{
    char text[96];
    snprintf(text, sizeof text, WIFSIGNALED(status) ? "rank %u was killed by signal %d" : "rank %u ended with exit code %d", rank,
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    yk__launch_tell("yoke launch", text);
}

/* All of them; the first that fails decides the exit code. */
static int ranks_await(uint32_t n, uint32_t first)
{
    int code = YK_EXIT_OK, status;
    for (uint32_t left = n; left;) {
        const pid_t pid = waitpid(-1, &status, 0);
        uint32_t i = 0;
        if (pid < 0 && errno != EINTR)
            return YK_EXIT_FAILED;
        while (i < n && ranks_of_node[i] != pid)
            i++;
        if (pid < 0 || i == n)
            continue;
        ranks_of_node[i] = 0;
        left--;
        if ((WIFEXITED(status) && !WEXITSTATUS(status)) || code)
            continue;
        code = WIFEXITED(status) && WEXITSTATUS(status) == YK_EXIT_USAGE ? YK_EXIT_USAGE : YK_EXIT_FAILED;
        if (!interrupted)
            rank_tell(first + i, status);
        ranks_signal(SIGTERM);
        alarm(GRACE_SECONDS);
    }
    alarm(0);
    return interrupted ? 128 + interrupted : code;
}

int launch_node(const yk__placement *place, uint32_t n, uint32_t first, uint32_t size, char *const *argv)
{
    const pid_t parent = getpid();
    bool started = true;
    int code;
    ranks_of_node = calloc(n, sizeof *ranks_of_node);
    if (!ranks_of_node)
        return YK_EXIT_FAILED;
    number_set("YOKE_SIZE", size);
    signals_take();
    for (uint32_t i = 0; i < n && started; i++) {
        const pid_t pid = fork();
        if (!pid)
            rank_become(&place[i], i, first + i, argv, parent);
        started = pid > 0;
        ranks_of_node[i] = pid > 0 ? pid : 0;
        rank_count = i + (pid > 0);
    }
    if (!started) {
        yk__launch_tell("yoke launch", "a rank cannot be started: fork failed");
        ranks_signal(SIGTERM);
        alarm(GRACE_SECONDS);
    }
    code = ranks_await(rank_count, first);
    free((void *)ranks_of_node);
    ranks_of_node = NULL;
    rank_count = 0;
    return started ? code : YK_EXIT_FAILED;
}
