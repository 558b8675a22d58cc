/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process was started, as its environment tells (origin.h has the order): by yoke launch, with a descriptor that works or
 * one that a program between has closed; by hand; by another launcher (launchers.c); or by nobody.
 */
#include "config.h"

#include "core/control/origin_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "core/base/option.h"

/* ---- Variables --------------------------------------------------------------------------------------------------- */

const char *yk__variable_text(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

bool yk__variable_number(const char *name, unsigned long long *value)
{
    const char *s = yk__variable_text(name);
    char *end;
    if (!s || *s < '0' || *s > '9')
        return false;
    errno = 0;
    *value = strtoull(s, &end, 10);
    return !errno && !*end;
}

void yk__missing_add(yk__missing *missing, const char *name)
{
    const size_t used = strlen(missing->names);
    if (!yk__variable_text(name))
        snprintf(missing->names + used, sizeof missing->names - used, "%s%s", used ? ", " : "", name);
}

yk_status yk__missing_fail(const yk__missing *missing, const yk__origin *origin, yk_error *err)
{
    const bool secret = strstr(missing->names, "YOKE_SECRET_FILE") != NULL;
    return yk__fail(err, YK_E_ARG,
                    "this process is one of several of %s (%s), but how they find each other is not known; not set: %s.%s If each "
                    "process is a job of its own, set YOKE_LAUNCHER=none; for one host 'yoke launch --devices \"cpu:0 cpu:1\" "
                    "PROGRAM' needs none of this",
                    origin->launcher, origin->why, missing->names,
                    secret ? " A secret: head -c 32 /dev/urandom > FILE; chmod 600 FILE; the same file on each host." : "");
}

yk_status yk__origin_read_port(yk__origin *origin, yk_error *err)
{
    const char *text = yk__variable_text("YOKE_PORT");
    unsigned long long port = 0;
    if (!text)
        return YK_OK;
    if (!yk__variable_number("YOKE_PORT", &port) || !port || port > 65535)
        return yk__fail(err, YK_E_ARG, "YOKE_PORT=%.40s: expected a number from 1 to 65535", text);
    origin->port = (uint16_t)port;
    return YK_OK;
}

yk_status yk__origin_meet(yk__origin *origin, yk_error *err)
{
    yk__missing missing = {""};
    const char *address = yk__variable_text("YOKE_ADDR");
    if (address)
        snprintf(origin->address, sizeof origin->address, "%s", address);
    if (yk__origin_read_port(origin, err))
        return err->status;
    if (!origin->address[0])
        yk__missing_add(&missing, "YOKE_ADDR");
    if (!origin->port)
        yk__missing_add(&missing, "YOKE_PORT");
    yk__missing_add(&missing, "YOKE_SECRET_FILE");
    origin->kind = YK__ORIGIN_ADDRESS;
    return missing.names[0] ? yk__missing_fail(&missing, origin, err) : YK_OK;
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
    if (is_own_job() || !yk__variable_number("YOKE_JOB_FD", &fd) || fd > INT32_MAX || !is_job_socket((int)fd))
        return -1;
    return (int)fd;
}

/* Whether the variables of yoke launch are here, its descriptor or not. On several hosts it starts ranks as one does by hand. */
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
        snprintf(what, sizeof what, "YOKE_JOB_FD is not set");
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

/* YOKE_RANK beside YOKE_WORLD_SIZE=1 is what a rank of yoke launch passed on; YOKE_SIZE beside another launcher's number of this
 * process (Kubernetes) belongs to that. */
static bool is_by_hand(void)
{
    return (yk__variable_text("YOKE_RANK") && (yk__variable_text("YOKE_SIZE") || !yk__variable_text("YOKE_WORLD_SIZE"))) ||
           (yk__variable_text("YOKE_SIZE") && !yk__variable_text("JOB_COMPLETION_INDEX"));
}

static yk_status find_by_hand(yk__origin *origin, yk_error *err)
{
    const char *rank_text = yk__variable_text("YOKE_RANK"), *size_text = yk__variable_text("YOKE_SIZE");
    unsigned long long rank = 0, size = 0;
    yk__missing missing = {""};
    const bool numbers = yk__variable_number("YOKE_RANK", &rank) && yk__variable_number("YOKE_SIZE", &size);
    *origin = (yk__origin){.kind = YK__ORIGIN_ADDRESS, .launcher = "YOKE_RANK and YOKE_SIZE"};
    snprintf(origin->why, sizeof origin->why, "YOKE_RANK=%.20s, YOKE_SIZE=%.20s", rank_text ? rank_text : "",
             size_text ? size_text : "");
    if (rank_text && size_text && (!numbers || rank >= size || size > YK__ORIGIN_RANKS))
        return yk__fail(err, YK_E_ARG, "YOKE_RANK=%.20s, YOKE_SIZE=%.20s: expected a rank below the number of ranks, of which there "
                        "are at most %u", rank_text, size_text, YK__ORIGIN_RANKS);
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
    return yk__missing_fail(&missing, origin, err);
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
    return is_by_hand() ? find_by_hand(origin, err) : yk__launcher_find(origin, own_log, err);
}

yk_status yk__origin_find(yk__origin *origin, yk_error *err)
{
    bool own_log;
    return find_origin(origin, &own_log, err);
}

void yk__origin_text(const yk__origin *o, char *text, size_t size)
{
    char meet[320] = "";
    if (o->kind == YK__ORIGIN_SINGLE) {
        snprintf(text, size, "a single process (%s)", o->why);
        return;
    }
    if (o->kind == YK__ORIGIN_LAUNCH) {
        snprintf(text, size, "a rank of yoke launch (%s)", o->why);
        return;
    }
    if (o->kind == YK__ORIGIN_HOST || o->kind == YK__ORIGIN_STORE)
        snprintf(meet, sizeof meet, "all on this host");
    else if (o->kind == YK__ORIGIN_SHARED)
        snprintf(meet, sizeof meet, "the ranks meet where rank 0 says over %s", o->store_fd >= 0 ? "PMI" : "PMIx");
    else
        snprintf(meet, sizeof meet, "the ranks meet at %s, port %u", o->address, o->port);
    snprintf(text, size, "rank %u of %u of %s (%s); %s", o->rank, o->size, o->launcher, o->why, meet);
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

bool yk__launch_speaks(void)
{
    yk_error ignored = YK_ERROR_INIT;
    unsigned long long rank = 0;
    yk__origin origin;
    bool own_log;
    if (!find_origin(&origin, &own_log, &ignored))
        return true;
    if (is_ours()) {
        /* The launcher ends the job before a second rank says the same; it does not where rank 0 is well. */
        if (yk__variable_number("YOKE_RANK", &rank) && rank)
            nanosleep(&(struct timespec){3, 0}, NULL);
        return true;
    }
    return own_log || !origin.rank;
}
