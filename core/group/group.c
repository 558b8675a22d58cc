/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group holds this process's control plane and collectives. core/job calls its operations in the step thread. yk_cancel calls
 * yk__group_abort in any thread, and exit() runs yk__group_exits and yk__group_leave_at_exit in the exiting thread. core/run begins its
 * large requests itself, on yk__group_coll, and so does core/job/session/host_coll.c. core/run calls yk__group_all_gather and
 * yk__group_set_members too.
 *
 * yk_open makes a group. A launched process joins one group at its first job, and leaves it at its exit; later jobs share it
 * (core/job/team/job_join.c). Any other process has a group of one for each job until yk_close. Ranks join within YOKE_JOIN_MS; a rank that
 * is silent for YOKE_LIVENESS_MS is taken for dead.
 *
 * Two communicators carry the operations. The world has all ranks; the members are the ranks that take part in a step. A rank outside the
 * members is excluded: no member waits for it (core/coll/coll.h). An operation of the members either feeds its result to excluded ranks
 * (`feeds`), or does nothing on an excluded rank.
 */
#include "config.h"

#include "core/group/group.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/control/start/bootstrap.h"
#include "core/control/start/origin.h"
#include "core/group/transport_choice.h"

struct yk__group {
    yk__control *control; /* NULL for a group of one */
    yk__coll *coll;
    uint32_t rank, size;
    pthread_t closer;   /* waits for the process's exit, and closes the collectives then */
    pid_t closer_pid;   /* the process that has it: a forked child has not */
    int closer_fd;      /* wakes it; -1: there is none */
    _Atomic bool exits; /* set before it is woken at an exit */
    _Atomic bool closed;
};

enum { EXIT_SECONDS = 4 }; /* seconds for the last messages of a process that exits */

static yk__group *joined; /* a process joins one group at a time */
static pid_t joined_by;   /* a fork of the rank is no rank */
static yk__group *volatile left_at_exit; /* never freed, as the allocator has locks too; volatile, so that a leak checker sees it */

/* True if a launcher prints the error; else this process prints it, as does a fork of a rank. */
bool yk__group_report(const yk_error *why)
{
    if (joined && joined_by != getpid())
        return false;
    if (!joined)
        return yk__control_report(yk__launch_fd(), why);
    yk__group_abort(joined, why); /* ends the other ranks before this rank leaves, so that each of them reports the reason */
    return yk__launch_fd() >= 0;
}

void yk__group_explain(const yk__group *g, yk_error *err)
{
    yk_error why = YK_ERROR_INIT;
    if (err->status == YK_E_CANCELLED && g && g->coll && yk__coll_why(g->coll, &why))
        *err = why;
}

/* ---- Making -------------------------------------------------------------------------------------------------------- */

/* Ends the job for a rank that fails between joining and its first collective, as the other ranks would wait for it. */
static void end_for_all(yk__control *control, const yk_error *why)
{
    const char *name = yk__control_name(control, yk__control_rank(control));
    yk_error named = *why;
    if (strncmp(why->text, name, strlen(name)))
        yk__fail_in(&named, "%s", name);
    yk__control_end(control, yk__control_rank(control), named.status, named.text);
}

static void *closer_main(void *arg)
{
    yk__group *g = arg;
    uint64_t woken;
    while (read(g->closer_fd, &woken, sizeof woken) < 0)
        if (errno != EINTR)
            return NULL;
    if (!atomic_load(&g->exits))
        return NULL;
    pthread_detach(pthread_self()); /* the exiting thread does not join it */
    yk__coll_free(g->coll);
    atomic_store(&g->closed, true);
    return NULL;
}

/* An exit needs a thread that is there already, as its start takes locks of the allocator. Requests in memory need no end. */
static yk_status closer_start(yk__group *g, yk_error *err)
{
    sigset_t all, old;
    int failed;
    if (!yk__coll_sends(g->coll))
        return YK_OK;
    g->closer_fd = eventfd(0, EFD_CLOEXEC);
    if (g->closer_fd < 0)
        return yk__fail(err, YK_E_IO, "eventfd: %s", yk__limit_reason(errno).text);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&g->closer, NULL, closer_main, g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    g->closer_pid = getpid();
    if (!failed)
        return YK_OK;
    close(g->closer_fd);
    g->closer_fd = -1;
    return yk__fail(err, YK_E_IO, "starting the thread that leaves the job at an exit: %s", yk__limit_thread_reason(failed).text);
}

static void closer_stop(yk__group *g)
{
    const uint64_t one = 1;
    if (g->closer_fd < 0)
        return;
    if (g->closer_pid == getpid() && write(g->closer_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(g->closer, NULL);
    close(g->closer_fd);
    g->closer_fd = -1;
}

static yk_status group_new(yk__control *control, yk__group **out, yk_error *err)
{
    yk__coll_config config = {.control = control};
    yk__group *g = yk__calloc(1, sizeof *g);
    if (!g) {
        yk__control_leave(control);
        return yk__fail_mem(err, sizeof *g, "a group");
    }
    g->control = control;
    g->closer_fd = -1;
    if (control && yk__control_size(control) > YK__RANKS) {
        yk__fail(err, YK_E_ARG, "a job of %u ranks: at most %u are supported (YK__RANKS in core/control/control.h); start fewer",
                 yk__control_size(control), YK__RANKS);
        yk__group_leave(g);
        return err->status;
    }
    g->rank = control ? yk__control_rank(control) : 0;
    g->size = control ? yk__control_size(control) : 1;
    if ((control && yk__transport_choose(&config, err)) || yk__coll_new(&config, &g->coll, err) || closer_start(g, err)) {
        if (control)
            end_for_all(control, err);
        yk__group_leave(g);
        return err->status;
    }
    *out = g;
    return YK_OK;
}

yk_status yk__group_solo(yk__group **out, yk_error *err)
{
    return yk__transport_check(err) ? err->status : group_new(NULL, out, err);
}

static yk_status join_job(const yk__origin *origin, const char *name, yk__control **control, yk_error *err)
{
    yk__control_config c = {.job_fd = yk__launch_fd(),
                            .name = name,
                            .liveness_ms = (uint32_t)yk__option_number(YK__OPTION_LIVENESS_MS),
                            .join_ms = (uint32_t)yk__option_number(YK__OPTION_JOIN_MS),
                            .stuck_ms = yk__stuck_ms(),
                            .call_ms = yk__call_ms(),
                            .origin = origin,
                            .advance = yk__advance_count()};
    if (origin->kind != YK__ORIGIN_LAUNCH) {
        c.name = NULL;
        if (yk__bootstrap(origin, c.join_ms, c.liveness_ms > 0, &c.job_fd, &c.agent, err))
            return yk__fail_in(err, "joining the group");
    } else
        fcntl(c.job_fd, F_SETFD, FD_CLOEXEC); /* programs that this one starts must not inherit it */
    return yk__control_join(&c, control, err) ? yk__fail_in(err, "joining the group") : YK_OK;
}

yk_status yk__group_join(const char *name, yk__group **out, yk_error *err)
{
    yk__control *control = NULL;
    yk__group *g = NULL;
    yk__origin origin;
    if (yk__origin_find(&origin, err))
        return err->status;
    if (origin.kind == YK__ORIGIN_SINGLE)
        return yk__fail(err, YK_E_ARG, "no group to join: this is a single process (%s); start it by 'yoke launch'", origin.why);
    if (join_job(&origin, name, &control, err) || group_new(control, &g, err))
        return err->status;
    joined = g;
    joined_by = getpid();
    yk__control_met(control);
    yk__log_set_rank((int)g->rank);
    *out = g;
    return YK_OK;
}

void yk__group_exits(yk__group *g, int code)
{
    if (g->control)
        yk__control_exits(g->control, code);
}

void yk__group_heeds_signal(void)
{
    if (joined && joined->control)
        yk__control_heeds_signal(joined->control);
}

void yk__group_leave(yk__group *g)
{
    if (!g)
        return;
    if (g == joined)
        joined = NULL;
    closer_stop(g);
    yk__coll_free(g->coll);
    yk__control_leave(g->control);
    yk__free(g);
}

/* A program may exit in the handler of a signal that interrupted one of our calls, or the allocator. The exiting thread then holds a lock
 * that it must not wait for. So it starts no thread, frees and unmaps nothing, and another thread closes the collectives. */
void yk__group_leave_at_exit(yk__group *g)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    const uint64_t one = 1;
    left_at_exit = g;
    joined = NULL;
    atomic_store(&g->exits, true);
    if (g->closer_fd >= 0 && write(g->closer_fd, &one, sizeof one) == (ssize_t)sizeof one) {
        const int64_t until = yk__clock_ns() + EXIT_SECONDS * 1000000000ll;
        while (!atomic_load(&g->closed) && yk__clock_ns() < until)
            nanosleep(&pause, NULL);
    }
    yk__control_leave_at_exit(g->control);
}

/* ---- Membership ---------------------------------------------------------------------------------------------------- */

void yk__group_abort(yk__group *g, const yk_error *why)
{
    yk__coll_abort(g->coll, why);
}

yk__coll *yk__group_coll(const yk__group *g)
{
    return g->coll;
}

uint32_t yk__group_rank(const yk__group *g)
{
    return g->rank;
}

uint32_t yk__group_size(const yk__group *g)
{
    return g->size;
}

bool yk__group_same_host(const yk__group *g, uint32_t rank, uint32_t other)
{
    return rank == other || (g->control && yk__control_host(g->control, rank) == yk__control_host(g->control, other));
}

static yk__comm *world_of(const yk__group *g)
{
    return yk__coll_world(g->coll);
}

static yk__comm *members_of(const yk__group *g)
{
    return yk__coll_members(g->coll);
}

void yk__group_show(yk__group *g, float number)
{
    yk__coll_show(yk__group_coll(g), number);
}

float yk__group_shown(const yk__group *g, uint32_t rank)
{
    return yk__coll_shown(yk__group_coll(g), rank);
}

bool yk__group_member(const yk__group *g, uint32_t rank)
{
    return yk__comm_has(members_of(g), rank);
}

bool yk__group_excludes(const yk__group *g)
{
    return yk__comm_size(members_of(g)) < g->size;
}

yk_status yk__group_set_members(yk__group *g, const bool *member, yk_error *err)
{
    return yk__comm_set_members(members_of(g), member, err);
}

void yk__group_place(yk__group *g, void (*place)(const char **file, int *line))
{
    yk__coll_place(g->coll, place);
}

/* none: a flag of the caller that stays; errors read it to say that this rank has no rows in the step. */
void yk__group_rows(yk__group *g, const bool *none)
{
    yk__coll_rows(g->coll, none);
}

uint64_t yk__group_host(const yk__group *g, uint32_t rank)
{
    return g->control ? yk__control_host(g->control, rank) : 0;
}

const char *yk__group_name(const yk__group *g, uint32_t rank)
{
    if (g->control)
        return yk__control_name(g->control, rank);
    return rank ? "" : "rank 0";
}

const volatile int *yk__group_cancel(const yk__group *g)
{
    return yk__coll_cancelled(g->coll);
}

/* ---- Collectives --------------------------------------------------------------------------------------------------- */

yk_status yk__group_barrier(yk__group *g, yk_error *err)
{
    return yk__coll_run(world_of(g), &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err);
}

/* feeds: set for the members. An excluded rank then makes the same call, adds nothing, and gets the result. */
static yk_status gather_bytes(yk__comm *comm, bool feeds, const void *in, size_t bytes, void *out, yk_error *err)
{
    const yk__coll_desc d = {
        .kind = YK__COLL_ALL_GATHER, .dtype = YK_U8, .feeds = feeds, .in = in, .out = out, .count = bytes};
    return yk__coll_run(comm, &d, err);
}

yk_status yk__group_all_gather(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err)
{
    return gather_bytes(world_of(g), false, in, bytes, out, err);
}

yk_status yk__group_gather_members(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err)
{
    return gather_bytes(members_of(g), true, in, bytes, out, err);
}

/* feeds: as in gather_bytes. v: this rank's numbers, and then the sums. */
static yk_status sum_numbers(yk__comm *comm, bool feeds, double *v, uint32_t n, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .feeds = feeds, .out = v, .count = n};
    return yk__coll_run(comm, &d, err);
}

yk_status yk__group_sum_f64(yk__group *g, double *v, uint32_t n, yk_error *err)
{
    return sum_numbers(world_of(g), false, v, n, err);
}

yk_status yk__group_sum_members(yk__group *g, double *v, uint32_t n, yk_error *err)
{
    return sum_numbers(members_of(g), true, v, n, err);
}

yk_status yk__group_broadcast_members(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_BROADCAST, .dtype = YK_U8, .root = root, .out = data, .count = bytes};
    return yk__group_member(g, g->rank) ? yk__coll_run(members_of(g), &d, err) : YK_OK;
}
