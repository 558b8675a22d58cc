/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds from the environment how this process was started: by yoke launch, by hand, by another launcher (launchers.c), or alone
 * (YOKE_LAUNCHER=none). origin.h has the order. A faulty or missing variable is an error that names it, as is a descriptor of yoke launch
 * that is closed.
 *
 * core/group, core/job and the `yoke` command ask it, in their own thread, and connect nothing by it. Errors ask, too: a rank other than
 * 0 waits PATIENCE_MS before it prints one, as its launcher may end it first.
 */
#include "config.h"

#include "core/control/start/origin.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "core/base/option.h"
#include "core/control/start/launchers.h"

#define PATIENCE_MS 3000u /* ms that a rank waits before it prints an error that another rank may print */

/* ---- The descriptor of yoke launch ------------------------------------------------------------------------------- */

static bool is_own_job(void)
{
    const char *s = yk__option_text(YK__OPTION_LAUNCHER);
    return s && !strcmp(s, "none");
}

/* True for the launcher's socket; a program between may have opened another file under the same number. */
static bool is_job_socket(int fd)
{
    int type = 0, domain = 0;
    socklen_t n = sizeof type, m = sizeof domain;
    return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) && type == SOCK_SEQPACKET &&
           !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &m) && domain == AF_UNIX;
}

static int find_socket(const char *variable)
{
    unsigned long long fd;
    if (is_own_job() || !yk__variable_number(variable, &fd) || fd > INT32_MAX || !is_job_socket((int)fd))
        return -1;
    return (int)fd;
}

int yk__launch_fd(void)
{
    return find_socket("YOKE_JOB_FD");
}

int yk__node_fd(void)
{
    return find_socket("YOKE_NODE_FD");
}

/* True if yoke launch's variables are set, with or without its descriptor. On several hosts yoke launch sets YOKE_SIZE and
 * YOKE_RANK, as a user by hand does, so this is false for them. */
static bool is_ours(void)
{
    unsigned long long n;
    return yk__variable_text("YOKE_JOB_FD") ||
           (yk__variable_number("YOKE_WORLD_SIZE", &n) && n > 1 && !(yk__variable_text("YOKE_SIZE") && yk__variable_text("YOKE_RANK")));
}

static yk_status descriptor_fail(yk_error *err)
{
    const char *fd = yk__variable_text("YOKE_JOB_FD"), *rank = yk__variable_text("YOKE_RANK"), *size = yk__variable_text("YOKE_WORLD_SIZE");
    char what[160];
    unsigned long long n = 0;
    if (!fd)
        snprintf(what, sizeof what, "YOKE_JOB_FD is not set (started by hand? then YOKE_SIZE says how many ranks there are)");
    else if (!yk__variable_number("YOKE_JOB_FD", &n) || n > INT32_MAX)
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

/* ---- By hand ----------------------------------------------------------------------------------------------------- */

/* YOKE_RANK with YOKE_WORLD_SIZE=1 was passed on by a rank of yoke launch. YOKE_SIZE with another launcher's process number (Kubernetes)
 * belongs to that launcher. */
static bool is_by_hand(void)
{
    return (yk__variable_text("YOKE_RANK") && (yk__variable_text("YOKE_SIZE") || !yk__variable_text("YOKE_WORLD_SIZE"))) ||
           (yk__variable_text("YOKE_SIZE") && !yk__variable_text("JOB_COMPLETION_INDEX"));
}

/* No launcher ends the other ranks when one fails, and each rank may have its own terminal. */
static yk_status find_by_hand(yk__origin *origin, bool *own_log, yk_error *err)
{
    const char *rank_text = yk__variable_text("YOKE_RANK"), *size_text = yk__variable_text("YOKE_SIZE");
    unsigned long long rank = 0, size = 0;
    yk__missing missing = {""};
    const bool numbers = yk__variable_number("YOKE_RANK", &rank) && yk__variable_number("YOKE_SIZE", &size);
    *origin = (yk__origin){.kind = YK__ORIGIN_ADDRESS, .launcher = "YOKE_RANK and YOKE_SIZE"};
    *own_log = true;
    snprintf(origin->why, sizeof origin->why, "YOKE_RANK=%.20s, YOKE_SIZE=%.20s", rank_text ? rank_text : "",
             size_text ? size_text : "");
    if (rank_text && size_text && (!numbers || rank >= size || size > YK__RANKS))
        return yk__fail(err, YK_E_ARG, "YOKE_RANK=%.20s, YOKE_SIZE=%.20s: expected a rank below the number of ranks, of which there "
                        "are at most %u", rank_text, size_text, YK__RANKS);
    origin->rank = (uint32_t)rank;
    origin->size = (uint32_t)size;
    if (size == 1 && rank_text) {
        origin->kind = YK__ORIGIN_SINGLE;
        return YK_OK;
    }
    if (rank_text && size_text)
        return yk__origin_meet(origin, err);
    yk__missing_add(&missing, "YOKE_RANK");
    yk__missing_add(&missing, "YOKE_SIZE");
    yk__missing_add(&missing, "YOKE_ADDR");
    yk__missing_add(&missing, "YOKE_PORT");
    yk__missing_add(&missing, "YOKE_SECRET_FILE");
    return yk__origin_incomplete(origin, &missing, err);
}

/* ---- The order --------------------------------------------------------------------------------------------------- */

static yk_status find_origin(yk__origin *origin, bool *own_log, yk_error *err)
{
    *own_log = false;
    *origin = (yk__origin){.kind = YK__ORIGIN_SINGLE, .launcher = "nobody", .why = "no launcher's variables are set", .size = 1};
    if (yk__option_check(YK__OPTION_LAUNCHER, err))
        return err->status;
    if (is_own_job()) {
        snprintf(origin->why, sizeof origin->why, "YOKE_LAUNCHER=none");
        return YK_OK;
    }
    if (yk__launch_fd() >= 0) {
        *origin = (yk__origin){.kind = YK__ORIGIN_LAUNCH, .launcher = "yoke launch"};
        snprintf(origin->why, sizeof origin->why, "YOKE_JOB_FD=%d", yk__launch_fd());
        return YK_OK;
    }
    if (is_ours())
        return descriptor_fail(err);
    return is_by_hand() ? find_by_hand(origin, own_log, err) : yk__launcher_find(origin, own_log, err);
}

yk_status yk__origin_find(yk__origin *origin, yk_error *err)
{
    bool own_log;
    return find_origin(origin, &own_log, err);
}

bool yk__launched(void)
{
    yk__origin origin;
    yk_error ignored = YK_ERROR_INIT;
    return !yk__origin_find(&origin, &ignored) && origin.kind != YK__ORIGIN_SINGLE;
}

yk_status yk__launch_check(yk_error *err)
{
    yk__origin origin;
    return yk__origin_find(&origin, err);
}

uint32_t yk__launch_patience(void)
{
    yk_error ignored = YK_ERROR_INIT;
    unsigned long long rank = 0;
    yk__origin origin;
    bool own_log;
    if (!find_origin(&origin, &own_log, &ignored))
        return 0;
    if (is_ours())
        return yk__variable_number("YOKE_RANK", &rank) && rank ? PATIENCE_MS : 0;
    return origin.rank && !own_log ? PATIENCE_MS : 0;
}

void yk__launch_await_turn(void)
{
    const uint32_t ms = yk__launch_patience();
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}
