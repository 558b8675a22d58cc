/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selecting devices for a launch, in a child process: drivers start threads of their own, some end the process, and
 * none likes a fork after its first use. The launcher stays a program with one thread that no driver has touched.
 */
#include "config.h"

#include "core/launch/choose.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/device/device.h"
#include "core/group/group.h"
#include "core/launch/lines.h"

typedef struct answer {
    yk_error err;
    uint32_t n;
} answer;

static bool read_all(int fd, void *data, size_t n)
{
    for (char *p = data; n;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static _Noreturn void select_and_exit(const char *device_specs, int fd)
{
    answer a = {YK_ERROR_INIT, 0};
    yk__placement *place = NULL;
    yk__topology *t = NULL;
    if (!yk__topology_new(&t, &a.err) && !yk__device_select(device_specs, t, &place, &a.n, &a.err) && a.n > YK__RANKS)
        yk__fail(&a.err, YK_E_ARG, "%u devices were selected: a job has at most %u ranks", a.n, YK__RANKS);
    if (yk__write_all(fd, &a, sizeof a) && !a.err.status)
        yk__write_all(fd, place, a.n * sizeof *place);
    _exit(0); /* child: no exit handlers of drivers */
}

static yk_status read_answer(int fd, yk__placement **place, uint32_t *n, bool *whole, yk_error *err)
{
    answer a;
    yk__placement *p;
    *whole = read_all(fd, &a, sizeof a);
    if (!*whole)
        return YK_E_DEVICE_LOST;
    if (a.err.status) {
        *err = a.err;
        return err->status;
    }
    p = yk__calloc(a.n, sizeof *p);
    if (!p)
        return yk__fail_mem(err, a.n * sizeof *p, "the selected devices");
    *whole = read_all(fd, p, a.n * sizeof *p);
    if (!*whole) {
        yk__free(p);
        return YK_E_DEVICE_LOST;
    }
    *place = p;
    *n = a.n;
    return YK_OK;
}

yk_status yk__launch_select(const char *device_specs, struct yk__placement **place, uint32_t *n, yk_error *err)
{
    int fd[2], status = 0;
    bool whole = false;
    pid_t pid, launcher;
    yk_status s;
    if (pipe2(fd, O_CLOEXEC))
        return yk__fail(err, YK_E_IO, "selecting devices: pipe: %s", strerror(errno));
    launcher = getpid();
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != launcher)
            _exit(1); /* child: the launcher died before the prctl */
        close(fd[0]);
        select_and_exit(device_specs, fd[1]);
    }
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return yk__fail(err, YK_E_IO, "selecting devices: fork: %s", strerror(errno));
    }
    s = read_answer(fd[0], place, n, &whole, err);
    close(fd[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (whole)
        return s;
    if (WIFSIGNALED(status))
        return yk__fail(err, YK_E_DEVICE_LOST,
                        "selecting devices: a driver ended the process by signal %d (%s); name the "
                        "devices to use, or the plugins in YOKE_PLUGINS",
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
    return yk__fail(err, YK_E_DEVICE_LOST,
                    "selecting devices: a driver ended the process with exit code %d; name the "
                    "devices to use, or the plugins in YOKE_PLUGINS",
                    WEXITSTATUS(status));
}

/* ---- So many ranks ----------------------------------------------------------------------------------------------- */

/* `n` devices become those of `ranks`, in turn: several ranks share one. */
static yk_status places_repeat(yk__placement **place, uint32_t *n, uint32_t ranks, yk_error *err)
{
    yk__placement *all = yk__calloc(ranks, sizeof *all);
    if (!all)
        return yk__fail_mem(err, ranks * sizeof *all, "the devices of this host");
    for (uint32_t r = 0; r < ranks; r++)
        all[r] = (*place)[r % *n];
    yk__free(*place);
    *place = all;
    *n = ranks;
    return YK_OK;
}

/* Equal parts of the cores; where there are fewer cores than ranks, all of them for each. */
static yk_status cores_split(yk__placement **place, uint32_t *n, uint32_t ranks, yk_error *err)
{
    yk_error few = YK_ERROR_INIT;
    char spec[32];
    yk__free(*place);
    *place = NULL;
    snprintf(spec, sizeof spec, "cpu/%u", ranks);
    if (!yk__launch_select(spec, place, n, &few))
        return YK_OK;
    return yk__launch_select("cpu", place, n, err) ? err->status : places_repeat(place, n, ranks, err);
}

yk_status yk__launch_select_ranks(const char *device_specs, uint32_t ranks, struct yk__placement **place, uint32_t *n, yk_error *err)
{
    const bool automatic = !device_specs || !*device_specs || !strcmp(device_specs, "auto");
    if (yk__launch_select(device_specs, place, n, err))
        return err->status;
    if (!ranks || *n == ranks)
        return YK_OK;
    if (*n > ranks) {
        *n = ranks;
        return YK_OK;
    }
    if (automatic)
        return cores_split(place, n, ranks, err);
    if (*n == 1)
        return places_repeat(place, n, ranks, err);
    return yk__fail(err, YK_E_ARG, "devices \"%.200s\" are %u, for %u ranks: give as many, or one that all share", device_specs, *n, ranks);
}
