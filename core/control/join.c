/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's side of the start and end: joins a job, and leaves it. core/group calls it, in the thread that opens or closes the job. peers.c
 * has the rank's knowledge of the other ranks, stuck.c the waits, live.c the beat.
 *
 * The launcher has left one message in the inherited socket: this rank's number (hello), with descriptors of two shared memory objects, the
 * table of ranks and the host's common memory (core/coll/shm/shm.h). Both are checked before they are mapped: an object without a size seal
 * could shrink and end the process later. A rank that has marked itself as joined waits until all ranks have joined, ended, or are late.
 */
#include "config.h"

#include "core/control/control_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/control/agent.h"
#include "core/control/start/origin.h"
#include "core/control/start/waiting.h"

/* Moves a descriptor above standard error: a program that closed that would log into the job's memory. */
static int descriptor_lift(int fd)
{
    int high;
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return high;
}

static yk_status receive_hello(yk__control *c, yk__control_hello *hello, yk_error *err)
{
    int fds[YK__CONTROL_OBJECTS] = {-1, -1};
    struct iovec iov = {hello, sizeof *hello};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)];
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->job_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *part = n < 0 ? NULL : CMSG_FIRSTHDR(&m);
    if (n < 0)
        return yk__fail(err, YK_E_ARG, "descriptor %d is not the launcher's, or the job was joined before: %s", c->job_fd,
                        strerror(errno));
    if (part && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS && part->cmsg_len <= CMSG_LEN(sizeof fds))
        memcpy(fds, CMSG_DATA(part), part->cmsg_len - CMSG_LEN(0));
    c->fd = descriptor_lift(fds[0]);
    c->memory_fd = descriptor_lift(fds[1]);
    /* no room for the second here; a third would be cut off, too */
    if (n == (ssize_t)sizeof *hello && hello->magic == YK__CONTROL_MAGIC && (m.msg_flags & MSG_CTRUNC) && fds[1] < 0)
        return yk__fail(err, YK_E_IO, "the job's memory, over descriptor %d: %s", c->job_fd, yk__limit_reason(EMFILE).text);
    if (n != (ssize_t)sizeof *hello || (m.msg_flags & MSG_CTRUNC) || c->fd < 0 || c->memory_fd < 0 ||
        hello->magic != YK__CONTROL_MAGIC)
        return yk__fail(err, YK_E_FORMAT, "expected a job over descriptor %d, got other bytes", c->job_fd);
    if (hello->version != YK__CONTROL_VERSION)
        return yk__fail(err, YK_E_FORMAT, "the launcher speaks version %u, this program %u: use one version", hello->version,
                        YK__CONTROL_VERSION);
    if (!hello->ranks || hello->rank >= hello->ranks || hello->server > hello->ranks || hello->bytes != yk__control_bytes(hello->ranks))
        return yk__fail(err, YK_E_FORMAT, "the launcher's description of the job does not fit: rank %u of %u", hello->rank,
                        hello->ranks);
    return YK_OK;
}

static yk_status check_object(int fd, uint64_t bytes, yk_error *err)
{
    const int seals = fcntl(fd, F_GET_SEALS); /* -1 for another kind of file, which cannot have seals */
    struct stat st;
    if (fstat(fd, &st) || (uint64_t)st.st_size < bytes)
        return yk__fail(err, YK_E_FORMAT, "the job's shared memory is shorter than %llu bytes", (unsigned long long)bytes);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return yk__fail(err, YK_E_FORMAT, "the job's shared memory is not sealed");
    return YK_OK;
}

static yk_status map_head(yk__control *c, const yk__control_hello *hello, yk_error *err)
{
    void *p = NULL;
    if (check_object(c->fd, hello->bytes, err) || check_object(c->memory_fd, 0, err))
        return err->status;
    p = mmap(NULL, hello->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (p == MAP_FAILED)
        return yk__fail(err, YK_E_MEM, "mapping the job's shared memory: %s", strerror(errno));
    c->head = p;
    c->bytes = hello->bytes;
    c->rank = hello->rank;
    c->size = hello->ranks;
    c->server = hello->server;
    if (c->head->magic != hello->magic || c->head->version != hello->version || c->head->ranks != hello->ranks ||
        c->head->bytes != hello->bytes || !yk__control_same_secret(c->head->secret, hello->secret))
        return yk__fail(err, YK_E_FORMAT, "the job's shared memory is not the launcher's: its secret or size differs");
    if (atomic_load(&c->head->slot[c->rank].state) != YK__RANK_ABSENT)
        return yk__fail(err, YK_E_FORMAT, "rank %u has joined already", c->rank);
    return YK_OK;
}

static yk_status fail_join(yk__control *c, uint32_t peer, yk_status status, const char *what, yk_error *err)
{
    char name[YK__CONTROL_NAME];
    yk__control_copy_name(name, c->head->slot[peer].name);
    yk__fail(err, status, "%s %s", name, what);
    yk__control_end_for(c, peer, false, status, err->text);
    return status;
}

/* Logs the missing ranks; only the lowest waiting rank does so. */
static void say_absent(const yk__control *c, const yk__waiting *waiting)
{
    yk__rank_names names = {.count = 0};
    for (uint32_t r = 0; r < c->size; r++) {
        const bool absent = atomic_load(&c->head->slot[r].state) == YK__RANK_ABSENT;
        if (!absent && r < c->rank)
            return;
        if (absent)
            yk__rank_names_add(&names, r);
    }
    if (names.count)
        yk__waiting_say(waiting, "%s", names.text);
}

static yk_status wait_joined(yk__control *c, uint32_t peer, int64_t begin, uint32_t join_ms, yk__waiting *waiting, yk_error *err)
{
    struct timespec ms = {0, 1000000};
    char what[64];
    uint32_t state;
    while ((state = atomic_load(&c->head->slot[peer].state)) == YK__RANK_ABSENT || state == YK__RANK_GONE) {
        if (yk__control_check(c, err))
            return err->status;
        if (state == YK__RANK_GONE)
            return fail_join(c, peer, YK_E_DEVICE_LOST, "ended (exit code 0) before it joined the other ranks", err);
        if (join_ms && yk__clock_ns() - begin > join_ms * 1000000ll) {
            snprintf(what, sizeof what, "has not joined within %.1f s (YOKE_JOIN_MS)", (double)join_ms / 1000);
            return fail_join(c, peer, YK_E_TIMEOUT, what, err);
        }
        if (yk__waiting_due(waiting))
            say_absent(c, waiting);
        nanosleep(&ms, NULL);
    }
    yk__control_copy_name(c->name[peer], c->head->slot[peer].name);
    return YK_OK;
}

static yk_status lists_new(yk__control *c, yk_error *err)
{
    c->name = yk__calloc(c->size, sizeof *c->name);
    c->silence = yk__calloc(c->size, sizeof *c->silence);
    return c->name && c->silence ? YK_OK : yk__fail_mem(err, c->size * sizeof *c->name, "the names of a job's ranks");
}

static yk_status job_join(yk__control *c, const yk__control_config *config, yk_error *err)
{
    const int64_t begin = yk__clock_ns();
    yk__control_slot *own = &c->head->slot[c->rank];
    uint32_t absent = YK__RANK_ABSENT;
    yk__waiting waiting;
    yk__waiting_begin(&waiting, config->origin);
    if (lists_new(c, err))
        return err->status;
    for (uint32_t r = 0; r < c->size; r++)
        yk__control_copy_name(c->name[r], c->head->slot[r].name);
    memcpy(c->address, c->head->address, sizeof c->address - 1);
    if (config->name)
        yk__control_copy_name(own->name, config->name);
    if (yk__control_beat_start(c, err))
        return err->status;
    c->pid = getpid();
    atomic_store(&own->pid, c->pid);
    atomic_store(&own->host, c->head->host);
    if (!atomic_compare_exchange_strong(&own->state, &absent, YK__RANK_JOINED))
        return fail_join(c, c->rank, YK_E_DEVICE_LOST, "joined after the launcher saw it end: its program must stay in front", err);
    yk__control_report_change(c);
    for (uint32_t r = 0; r < c->size; r++)
        if (wait_joined(c, r, begin, config->join_ms, &waiting, err))
            return err->status;
    return YK_OK;
}

static void close_object(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void say_left(const yk__control *c)
{
    atomic_store(&c->head->slot[c->rank].state, YK__RANK_LEFT);
    yk__control_report_left(c);
}

void yk__control_leave_at_exit(yk__control *c)
{
    if (!c)
        return;
    say_left(c);
    yk__agent_stop_at_exit(c->agent);
}

void yk__control_leave(yk__control *c)
{
    if (!c)
        return;
    if (c->beating && c->pid == getpid()) /* a forked child has no beat thread, and does not leave for the rank */
        say_left(c);
    if (c->pid == getpid() || !c->pid) {
        yk__agent_stop(c->agent);
        yk__control_beat_stop(c);
    } else
        yk__agent_forget(c->agent);
    if (c->server)
        close_object(c->job_fd); /* the launcher's descriptor stays open, as the environment names it for other readers */
    if (c->head)
        munmap(c->head, c->bytes);
    close_object(c->fd);
    close_object(c->memory_fd);
    yk__free(c->silence);
    yk__free(c->name);
    yk__free(c);
}

yk_status yk__control_join(const yk__control_config *config, yk__control **out, yk_error *err)
{
    yk__control_hello hello;
    yk__control *c = yk__calloc(1, sizeof *c);
    if (!c) {
        yk__agent_stop(config->agent);
        return yk__fail_mem(err, sizeof *c, "the control plane");
    }
    c->fd = c->memory_fd = c->wake_fd = -1;
    c->node_fd = yk__node_fd();
    if (c->node_fd >= 0)
        fcntl(c->node_fd, F_SETFD, FD_CLOEXEC); /* programs that this one starts must not inherit it */
    c->job_fd = config->job_fd;
    c->agent = config->agent;
    c->liveness_ms = config->liveness_ms;
    c->stuck_ms = config->stuck_ms;
    c->call_ms = config->call_ms;
    c->advance = config->advance;
    if (receive_hello(c, &hello, err) || map_head(c, &hello, err) || job_join(c, config, err)) {
        yk__control_leave(c);
        return err->status;
    }
    *out = c;
    return YK_OK;
}
