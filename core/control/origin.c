/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process was started, as its environment tells: by yoke launch (with a descriptor that works), by nobody, or in a
 * way in which it would train alone while it is one of several: behind a wrapper that closed the descriptor, or under another
 * launcher. The variables of other launchers are in one table.
 */
#include "config.h"

#include "core/control/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "core/base/option.h"

/* A launcher, and what it sets for each of its processes. One that tells no size (NULL) is believed to have started several
 * unless another row has told that there is one process. */
typedef struct launcher_row {
    const char *name;
    const char *size, *rank;   /* how many processes; the number of this one */
    const char *needs, *spoils; /* the row counts only where `needs` is set and `spoils` is not (NULL: always) */
    bool own_log;              /* what a process prints is not seen beside what the others print */
} launcher_row;

/* Slurm: sbatch sets SLURM_PROCID and SLURM_NTASKS for its script too, and salloc for its shell, where one process runs; those
 * of a step are set by srun alone. */
static const launcher_row launchers[] = {
    {"torchrun or a launcher like it", "WORLD_SIZE", "RANK", NULL, NULL, false},
    {"torchrun or a launcher like it", "WORLD_SIZE", "LOCAL_RANK", NULL, "RANK", false},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", NULL, NULL, false},
    {"mpirun (MVAPICH)", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", NULL, NULL, false},
    {"mpiexec (MPICH, Intel MPI) or srun with PMI", "PMI_SIZE", "PMI_RANK", NULL, NULL, false},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, NULL, false},
    {"srun", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", false},
    {"a PMIx launcher (prterun, srun)", NULL, "PMIX_RANK", NULL, NULL, false},
    {"a Kubernetes indexed job", NULL, "JOB_COMPLETION_INDEX", NULL, NULL, true},
};

typedef struct found_launcher {
    const launcher_row *row; /* NULL: none */
    unsigned long long size, rank;
} found_launcher;

static const char *variable_text(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

static bool variable_number(const char *name, unsigned long long *value)
{
    const char *s = variable_text(name);
    char *end;
    if (!s || *s < '0' || *s > '9')
        return false;
    errno = 0;
    *value = strtoull(s, &end, 10);
    return !errno && !*end;
}

static bool row_counts(const launcher_row *row, unsigned long long *rank)
{
    return variable_number(row->rank, rank) && (!row->needs || variable_text(row->needs)) &&
           (!row->spoils || !variable_text(row->spoils));
}

/* The first row that tells of more than one process. */
static found_launcher find_launcher(void)
{
    bool one = false; /* some row tells that there is one process */
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        found_launcher found = {&launchers[i], 0, 0};
        if (!row_counts(found.row, &found.rank) || (found.row->size && !variable_number(found.row->size, &found.size)))
            continue;
        if (found.row->size ? found.size > 1 : found.rank > 0 || !one)
            return found;
        one = true;
    }
    return (found_launcher){NULL, 0, 0};
}

/* ---- The descriptor of yoke launch ------------------------------------------------------------------------------- */

static bool is_own_job(void)
{
    const char *s = yk__option_text(YK__OPTION_LAUNCHER);
    return s && !strcmp(s, "none");
}

/* The launcher's socket, and not what a program between it and this one opened under the same number. */
static bool is_job_socket(int fd)
{
    int type = 0, domain = 0;
    socklen_t n = sizeof type, m = sizeof domain;
    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) && type == SOCK_SEQPACKET &&
           !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) && domain == AF_UNIX;
}

int yk__launch_fd(void)
{
    unsigned long long fd;
    if (is_own_job() || !variable_number("YOKE_JOB_FD", &fd) || fd > INT32_MAX || !is_job_socket((int)fd))
        return -1;
    return (int)fd;
}

bool yk__launched(void)
{
    return yk__launch_fd() >= 0;
}

/* Whether the variables of yoke launch are here, its descriptor or not. */
static bool is_ours(void)
{
    unsigned long long n;
    return variable_text("YOKE_JOB_FD") || (variable_number("YOKE_WORLD_SIZE", &n) && n > 1) ||
           (variable_number("YOKE_RANK", &n) && n > 0);
}

static yk_status descriptor_fail(yk_error *err)
{
    const char *fd = variable_text("YOKE_JOB_FD"), *rank = variable_text("YOKE_RANK"), *size = variable_text("YOKE_WORLD_SIZE");
    char what[160];
    unsigned long long n = 0;
    if (!fd)
        snprintf(what, sizeof what, "YOKE_JOB_FD is not set");
    else if (!variable_number("YOKE_JOB_FD", &n) || n > INT32_MAX)
        snprintf(what, sizeof what, "YOKE_JOB_FD=%.40s is not the number of a descriptor", fd);
    else if (fcntl((int)n, F_GETFD) < 0)
        snprintf(what, sizeof what, "YOKE_JOB_FD=%llu, but descriptor %llu is closed", n, n);
    else
        snprintf(what, sizeof what, "YOKE_JOB_FD=%llu, but descriptor %llu is not the launcher's", n, n);
    return yk__fail(err, YK_E_ARG,
                    "this process is rank %.20s of %.20s of a 'yoke launch', but cannot reach it: %s. A program between the "
                    "launcher and this one closed it, as Python's subprocess (close_fds=False keeps it), sudo and ssh do. Let "
                    "the rank keep its descriptors, or set YOKE_LAUNCHER=none if this process is a job of its own",
                    rank ? rank : "?", size ? size : "?", what);
}

/* ---- The check --------------------------------------------------------------------------------------------------- */

static yk_status launcher_fail(const found_launcher *found, yk_error *err)
{
    char size[96] = "";
    if (found->row->size)
        snprintf(size, sizeof size, "%s=%llu, ", found->row->size, found->size);
    return yk__fail(
        err, YK_E_ARG,
        "this process is one of several of %s (%s%s=%llu), which Yoke does not work under yet: each would train the "
        "whole for itself. Start the program once; 'yoke launch --devices \"cpu:0 cpu:1\" PROGRAM' runs it as the "
        "ranks of one job on this host. If each process is a job of its own, set YOKE_LAUNCHER=none",
        found->row->name, size, found->row->rank, found->rank);
}

yk_status yk__launch_check(yk_error *err)
{
    found_launcher found;
    if (yk__option_check(YK__OPTION_LAUNCHER, err))
        return err->status;
    if (is_own_job() || yk__launched())
        return YK_OK;
    if (is_ours())
        return descriptor_fail(err);
    found = find_launcher();
    return found.row ? launcher_fail(&found, err) : YK_OK;
}

bool yk__launch_speaks(void)
{
    yk_error ignored = YK_ERROR_INIT;
    unsigned long long rank = 0;
    found_launcher found;
    if (!yk__launch_check(&ignored))
        return true;
    if (is_ours()) {
        /* The launcher ends the job before a second rank says the same; it does not where rank 0 is well. */
        if (variable_number("YOKE_RANK", &rank) && rank)
            nanosleep(&(struct timespec){3, 0}, NULL);
        return true;
    }
    found = find_launcher();
    return !found.row || found.row->own_log || !found.rank;
}
