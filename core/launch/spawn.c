/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the ranks of a job: each rank's environment, its process in a group of its own, and the report of a failed exec.
 *
 * launch.c calls it in a program with one thread, as it forks. A rank inherits the descriptor of the job's shared memory and its variables
 * YOKE_RANK and so on, in a node also YOKE_SECRET_FILE. If one rank cannot start, the error names it and the reason.
 */
#include "config.h"

#include "core/launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/option.h"

extern char **environ;

static bool is_ours(const char *variable)
{
    static const char *const names[] = {"YOKE_RANK=",     "YOKE_WORLD_SIZE=", "YOKE_LOCAL_RANK=", "YOKE_DEVICES=",
                                        "YOKE_JOB_FD=",   "YOKE_LAUNCHER=",   "YOKE_SIZE=",       "YOKE_ADDR=",
                                        "YOKE_PORT=",     "YOKE_SECRET_FILE=", "YOKE_LISTEN_FD=", "YOKE_RESTART_COUNT=",
                                        "YOKE_RUN_ID=",   "YOKE_NODE_FD="};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return true;
    return false;
}

/* A rank's number among all ranks of the job, from its number on this host. */
static uint32_t rank_number(const yk__launcher *launcher, uint32_t rank)
{
    return (launcher->node ? launcher->node->first : 0) + rank;
}

/* The environment of a rank: `own` allocated variables first, then the launcher's. */
typedef struct rank_env {
    char **variable; /* NULL behind the last */
    size_t count, own, cap;
    bool failed; /* memory ran out for a variable */
} rank_env;

static void env_free(rank_env *env)
{
    for (size_t i = 0; i < env->own; i++)
        yk__free(env->variable[i]);
    yk__free(env->variable);
}

static void env_append(rank_env *env, char *variable)
{
    env->failed = env->failed || yk__grow(&env->variable, &env->cap, env->count + 2, sizeof *env->variable);
    if (env->failed)
        return;
    env->variable[env->count++] = variable;
    env->variable[env->count] = NULL;
}

/* Adds an allocated variable and takes it over; NULL if memory ran out for it. */
static void env_add(rank_env *env, char *variable)
{
    env->failed = env->failed || !variable;
    env_append(env, variable);
    if (env->failed)
        yk__free(variable);
    else
        env->own++;
}

/* Adds the rank's way into its job: the launcher's descriptor, or rank 0's address. */
static void env_add_way(rank_env *env, const yk__launcher *launcher, uint32_t rank)
{
    const yk__node *node = launcher->node;
    if (!node) {
        env_add(env, yk__format("YOKE_JOB_FD=%d", yk__control_job_rank_fd(launcher->job, rank)));
        return;
    }
    env_add(env, yk__format("YOKE_SIZE=%u", node->size));
    env_add(env, yk__format("YOKE_ADDR=%s", node->address));
    env_add(env, yk__format("YOKE_PORT=%u", node->port));
    env_add(env, node->single ? yk__format("YOKE_SECRET_FILE=%s", yk__option_text(YK__OPTION_SECRET_FILE))
                             : yk__format("YOKE_SECRET_FILE=/proc/self/fd/%d", node->secret));
    env_add(env, yk__format("YOKE_NODE_FD=%d", yk__control_job_rank_fd(launcher->job, rank)));
    if (node->listener >= 0 && !rank)
        env_add(env, yk__format("YOKE_LISTEN_FD=%d", node->listener));
}

static void env_add_restart(rank_env *env, const yk__restart *restart)
{
    char *variable[YK__RESTART_VARIABLES];
    yk__restart_variables(restart, variable);
    env_add(env, variable[0]);
    if (restart->run[0])
        env_add(env, variable[1]);
}

/* Makes the environment before the fork, while allocation is safe. */
static yk_status env_make(rank_env *env, const yk__launcher *launcher, const yk__placement *place, uint32_t rank, yk_error *err)
{
    char device_spec[sizeof place->plugin + sizeof place->cores + 16];
    yk__placement_text(place, device_spec, sizeof device_spec);
    env_add(env, yk__format("YOKE_RANK=%u", rank_number(launcher, rank)));
    env_add(env, yk__format("YOKE_WORLD_SIZE=%u", launcher->node ? launcher->node->size : launcher->n_ranks));
    env_add(env, yk__format("YOKE_LOCAL_RANK=%u", rank));
    env_add(env, yk__format("YOKE_DEVICES=%s", device_spec));
    env_add_restart(env, &launcher->restart);
    env_add_way(env, launcher, rank);
    for (char **variable = environ; *variable; variable++)
        if (!is_ours(*variable))
            env_append(env, *variable);
    return env->failed ? yk__fail_mem(err, 0, "the environment of a rank") : YK_OK;
}

static void read_nothing(void)
{
    const int null = open("/dev/null", O_RDONLY); /* kept over exec: it may be number 0 itself */
    if (null >= 0 && null != STDIN_FILENO) {
        dup2(null, STDIN_FILENO);
        close(null);
    }
}

/* Keeps the rank's descriptors open over exec. */
static void keep_descriptors(const yk__launcher *launcher, uint32_t rank)
{
    fcntl(yk__control_job_rank_fd(launcher->job, rank), F_SETFD, 0);
    if (!yk__launcher_led(launcher))
        return;
    fcntl(launcher->node->secret, F_SETFD, 0);
    if (launcher->node->listener >= 0 && !rank)
        fcntl(launcher->node->listener, F_SETFD, 0);
}

/* Resets handlers to those of a new program: handlers of the caller are not for its ranks, which these signals end. */
static void reset_handlers(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction now;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (!sigaction(ending[i], NULL, &now) && now.sa_handler != SIG_IGN)
            signal(ending[i], SIG_DFL);
}

/* A fork that continues this program keeps none of the launcher's descriptors. Otherwise its end would stay hidden from the ranks on
 * their sockets, from the guard, and from the launcher that waits for `report`. */
static _Noreturn void call_function(const yk__launcher *launcher, uint32_t rank, int report)
{
    int code;
    for (uint32_t r = 0; r < launcher->n_ranks; r++) {
        close(yk__control_job_fd(launcher->job, r));
        if (r != rank && yk__control_job_rank_fd(launcher->job, r) >= 0)
            close(yk__control_job_rank_fd(launcher->job, r));
    }
    if (launcher->guard.fd >= 0)
        close(launcher->guard.fd);
    close(launcher->signals.fd);
    close(report);
    code = launcher->function(launcher->argument);
    fflush(NULL);
    _exit(code); /* child: exit handlers are the caller's */
}

/* After the fork: only async-signal-safe calls, but for a function of the caller. Never returns. output: descriptors for the rank's
 * standard output and error, or NULL. */
static void become_rank(const yk__launcher *launcher, uint32_t rank, char **env, pid_t parent, const int *output, int report)
{
    int e;
    setpgid(0, 0);
    yk__guard_add(&launcher->guard, getpid());
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* child: the launcher died before the prctl */
    if (rank || yk__launcher_led(launcher) || isatty(STDIN_FILENO))
        read_nothing(); /* a background process that reads the terminal would be stopped */
    if (output) {
        dup2(output[0], STDOUT_FILENO);
        dup2(output[1], STDERR_FILENO);
    }
    keep_descriptors(launcher, rank);
    if (launcher->function)
        reset_handlers();
    signal(SIGINT, SIG_DFL); /* a shell ignores it behind '&' because of the terminal, which does not reach a rank's group */
    sigprocmask(SIG_SETMASK, launcher->function ? &launcher->signals.mask : &launcher->signals.ranks, NULL); /* a function keeps its mask */
    yk__limit_restore();
    environ = env;
    if (launcher->function)
        call_function(launcher, rank, report);
    execvp(launcher->argv[0], launcher->argv);
    e = errno;
    if (write(report, &e, sizeof e) < 0)
        _exit(126); /* child */
    _exit(127);     /* child */
}

/* Returns 0 if the process runs, else the errno of its exec; counts the process in every case. */
static int await_exec(yk__launcher *launcher, uint32_t rank, pid_t pid, int report)
{
    ssize_t got;
    int e = 0;
    setpgid(pid, pid); /* parent and child each call it, as either may run first */
    launcher->rank[rank].pid = pid;
    launcher->alive++;
    yk__control_job_started(launcher->job, rank);
    do
        got = read(report, &e, sizeof e); /* no byte comes once the program runs */
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof e ? e : 0;
}

/* True for a passing shortage, unlike a missing program. */
static bool is_scarce(int reason)
{
    return reason == EAGAIN || reason == ENOMEM || reason == EMFILE || reason == ENFILE || reason == EIO || reason == ETXTBSY;
}

/* The remedy for a program that cannot be run. A name without '/' is looked for in PATH alone, and a script is no program by itself. */
static void exec_advise(const char *program, int reason, char *text, size_t size)
{
    const char *dot = strrchr(program, '.');
    const char *by = !dot ? NULL : !strcmp(dot, ".py") ? "python3" : !strcmp(dot, ".sh") ? "sh" : NULL;
    *text = 0;
    if ((reason != ENOENT && reason != EACCES && reason != ENOEXEC) || access(program, F_OK))
        return;
    if (dot && (!strcmp(dot, ".c") || !strcmp(dot, ".cpp") || !strcmp(dot, ".cc")))
        snprintf(text, size, ": is a source: compile it, and name the program");
    else if (by)
        snprintf(text, size, ": name the program that runs it: %s %s", by, program);
    else if (reason == ENOENT && !strchr(program, '/'))
        snprintf(text, size, " in PATH: ./%s is the file of this folder", program);
    else if (reason == EACCES)
        snprintf(text, size, ": expected a program, a file that may be executed (chmod +x)");
    else
        snprintf(text, size, ": its interpreter (its first line, #!..) is not there, or it is a program of another machine");
}

static yk_status fork_rank(yk__launcher *launcher, uint32_t rank, char **env, const int *output, yk_error *err)
{
    const pid_t parent = getpid();
    pid_t pid;
    int report[2], e;
    if (pipe2(report, O_CLOEXEC))
        return yk__fail(err, YK_E_IO, "starting rank %u: pipe: %s", rank_number(launcher, rank), yk__limit_reason(errno).text);
    pid = fork();
    if (pid == 0)
        become_rank(launcher, rank, env, parent, output, report[1]);
    e = pid < 0 ? errno : 0;
    close(report[1]);
    if (pid > 0)
        e = await_exec(launcher, rank, pid, report[0]);
    close(report[0]);
    char advice[300] = "";
    if (e && !launcher->function)
        exec_advise(launcher->argv[0], e, advice, sizeof advice);
    if (e)
        yk__fail(err, is_scarce(e) ? YK_E_IO : YK_E_ARG, "cannot start '%s' for rank %u: %s%s",
                 launcher->function ? "a fork" : launcher->argv[0], rank_number(launcher, rank), yk__limit_thread_reason(e).text, advice);
    return err->status;
}

static yk_status start_rank(yk__launcher *launcher, const yk__placement *place, uint32_t rank, yk_error *err)
{
    yk__node *node = yk__launcher_led(launcher);
    int output[2] = {-1, -1};
    rank_env env = {.count = 0};
    env_make(&env, launcher, place, rank, err);
    for (int i = 0; node && i < 2 && !err->status; i++)
        yk__lines_open(&node->output[2 * rank + (uint32_t)i], &output[i], err);
    if (!err->status)
        fork_rank(launcher, rank, env.variable, node ? output : NULL, err);
    for (int i = 0; i < 2; i++)
        if (output[i] >= 0)
            close(output[i]);
    env_free(&env);
    return err->status;
}

static void name_rank(yk__launcher *launcher, uint32_t rank, const yk__placement *place)
{
    char device_spec[80]; /* messages cut a longer list of cores */
    char *name = launcher->rank[rank].name;
    yk__placement_text(place, device_spec, sizeof device_spec);
    if (yk__launcher_led(launcher))
        snprintf(name, sizeof launcher->rank[rank].name, "rank %u (%.60s on %.40s)", rank_number(launcher, rank), device_spec,
                 launcher->node->host);
    else
        snprintf(name, sizeof launcher->rank[rank].name, "rank %u (%s)", rank_number(launcher, rank), device_spec);
    yk__control_job_name(launcher->job, rank, name);
}

yk_status yk__launcher_start(yk__launcher *launcher, const yk__placement *place, yk_error *err)
{
    for (uint32_t r = 0; r < launcher->n_ranks; r++)
        name_rank(launcher, r, &place[r]);
    for (uint32_t r = 0; r < launcher->n_ranks && !err->status; r++)
        start_rank(launcher, &place[r], r, err);
    return err->status;
}
