/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of a job: each rank's environment, its process in a group of its own, and the word of a failed exec. */
#include "config.h"

#include "core/launch/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/mem.h"

#define RANK_VARIABLES 5

extern char **environ;

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
static char **env_new(const yk__launcher *launcher, const yk__placement *place, uint32_t rank)
{
    char device_spec[sizeof place->plugin + sizeof place->cores + 16];
    size_t n = 0, at = RANK_VARIABLES;
    char **env;
    while (environ[n])
        n++;
    env = yk__calloc(n + RANK_VARIABLES + 1, sizeof *env);
    if (!env)
        return NULL;
    yk__placement_text(place, device_spec, sizeof device_spec);
    env[0] = yk__format("YOKE_RANK=%u", rank);
    env[1] = yk__format("YOKE_WORLD_SIZE=%u", launcher->n_ranks);
    env[2] = yk__format("YOKE_LOCAL_RANK=%u", rank);
    env[3] = yk__format("YOKE_DEVICES=%s", device_spec);
    env[4] = yk__format("YOKE_JOB_FD=%d", yk__control_job_rank_fd(launcher->job, rank));
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
static void become_rank(const yk__launcher *launcher, uint32_t rank, char **env, pid_t parent, int report)
{
    int e, null;
    setpgid(0, 0);
    yk__guard_add(&launcher->guard, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);                       /* child: the launcher died before the prctl */
    if (rank || isatty(STDIN_FILENO)) { /* a background process that reads the terminal would be stopped */
        null = open("/dev/null", O_RDONLY);
        if (null >= 0 && null != STDIN_FILENO) {
            dup2(null, STDIN_FILENO);
            close(null);
        }
    }
    fcntl(yk__control_job_rank_fd(launcher->job, rank), F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &launcher->mask, NULL);
    yk__limit_restore();
    environ = env;
    execvp(launcher->argv[0], launcher->argv);
    e = errno;
    if (write(report, &e, sizeof e) < 0)
        _exit(126); /* child */
    _exit(127);     /* child */
}

static yk_status start_rank(yk__launcher *launcher, const yk__placement *place, uint32_t rank, yk_error *err)
{
    char **env = env_new(launcher, place, rank);
    pid_t parent = getpid(), pid;
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
        become_rank(launcher, rank, env, parent, report[1]);
    e = pid < 0 ? errno : 0;
    close(report[1]);
    env_free(env, RANK_VARIABLES);
    if (pid > 0) {
        setpgid(pid, pid); /* whoever comes first */
        launcher->rank[rank].pid = pid;
        launcher->alive++;
        yk__control_job_started(launcher->job, rank);
        do
            got = read(report[0], &e, sizeof e); /* nothing, once the program runs */
        while (got < 0 && errno == EINTR);
        e = got == (ssize_t)sizeof e ? e : 0;
    }
    close(report[0]);
    return e ? yk__fail(err, YK_E_ARG, "cannot start '%s' for rank %u: %s", launcher->argv[0], rank, strerror(e))
             : YK_OK;
}

yk_status yk__launcher_start(yk__launcher *launcher, const yk__placement *place, yk_error *err)
{
    char device_spec[80]; /* a longer list of cores is cut in messages */
    yk_status s = YK_OK;
    for (uint32_t r = 0; r < launcher->n_ranks; r++) {
        yk__placement_text(&place[r], device_spec, sizeof device_spec);
        snprintf(launcher->rank[r].name, sizeof launcher->rank[r].name, "rank %u (%s)", r, device_spec);
        yk__control_job_name(launcher->job, r, launcher->rank[r].name);
    }
    for (uint32_t r = 0; r < launcher->n_ranks && !s; r++)
        s = start_rank(launcher, &place[r], r, err);
    return s;
}
