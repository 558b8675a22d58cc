/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory objects of a host's ranks: makes them, hands them out, marks deaths, reads notes. core/launch calls it in the launcher's
 * process. Without our launcher, bootstrap.c makes the objects in the host's lowest rank. That rank's agent thread then hands them out and
 * reads notes (agent.c).
 */
#include "config.h"

#include "core/control/control_internal.h"
#include "core/control/control_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/limit.h"
#include "core/base/mem.h"

/* Makes an object that no process can shrink: an access beyond its end would kill the ranks. */
static yk_status make_object(const yk__control_job *j, const char *name, uint64_t bytes, int seals, int *fd, yk_error *err)
{
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: memfd_create: %s", j->ranks, yk__limit_reason(errno).text);
    if (ftruncate(*fd, (off_t)bytes))
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: ftruncate: %s", j->ranks, strerror(errno));
    if (fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL | seals))
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: sealing: %s", j->ranks, strerror(errno));
    return YK_OK;
}

static yk_status make_objects(yk__control_job *j, yk_error *err)
{
    j->bytes = yk__control_bytes(j->ranks);
    if (make_object(j, "yoke-job", j->bytes, F_SEAL_GROW, &j->object, err) ||
        make_object(j, "yoke-memory", 0, 0, &j->memory, err))
        return err->status;
    j->head = mmap(NULL, j->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, j->object, 0);
    if (j->head == MAP_FAILED) {
        j->head = NULL;
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: mmap: %s", j->ranks, strerror(errno));
    }
    return YK_OK;
}

static yk_status fill_head(yk__control_job *j, const uint8_t *secret, yk_error *err)
{
    yk__control_head *h = j->head;
    if (secret)
        memcpy(h->secret, secret, sizeof h->secret);
    else if (getrandom(h->secret, sizeof h->secret, 0) != (ssize_t)sizeof h->secret)
        return yk__fail(err, YK_E_IO, "the job's secret: getrandom: %s", strerror(errno));
    if (getrandom(&h->host, sizeof h->host, 0) != (ssize_t)sizeof h->host)
        return yk__fail(err, YK_E_IO, "a number of this host: getrandom: %s", strerror(errno));
    h->magic = YK__CONTROL_MAGIC;
    h->version = YK__CONTROL_VERSION;
    h->ranks = j->ranks;
    h->bytes = yk__control_bytes(j->ranks);
    return YK_OK;
}

yk_status yk__control_job_hand(yk__control_job *j, uint32_t rank, int fd, yk_error *err)
{
    yk__control_hello hello = {YK__CONTROL_MAGIC, YK__CONTROL_VERSION, rank, j->ranks, j->server, j->head->bytes, {0}};
    const int fds[YK__CONTROL_OBJECTS] = {j->object, j->memory};
    struct iovec iov = {&hello, sizeof hello};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    j->fd[rank][0] = fd;
    memcpy(hello.secret, j->head->secret, sizeof hello.secret);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    if (sendmsg(fd, &m, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return yk__fail(err, YK_E_IO, "handing the job to rank %u: %s", rank, strerror(errno));
    return YK_OK;
}

yk_status yk__control_job_pair(yk__control_job *j, uint32_t rank, yk_error *err)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd))
        return yk__fail(err, YK_E_IO, "a socket for rank %u: %s", rank, yk__limit_reason(errno).text);
    j->fd[rank][1] = fd[1];
    return yk__control_job_hand(j, rank, fd[0], err);
}

yk_status yk__control_job_make(uint32_t ranks, uint32_t server, const uint8_t *secret, yk__control_job **job, yk_error *err)
{
    yk__control_job *j;
    if (!ranks || ranks > INT32_MAX / sizeof *j->fd)
        return yk__fail(err, YK_E_ARG, "a job of %u ranks: expected 1 or more, and fewer than a machine has descriptors", ranks);
    j = yk__calloc(1, sizeof *j);
    if (!j)
        return yk__fail_mem(err, sizeof *j, "a job");
    j->ranks = ranks;
    j->server = server;
    j->object = j->memory = -1;
    j->fd = yk__calloc(ranks, sizeof *j->fd);
    if (!j->fd) {
        yk__free(j);
        return yk__fail_mem(err, ranks * sizeof *j->fd, "a job's sockets");
    }
    memset(j->fd, 0xff, ranks * sizeof *j->fd);
    if (make_objects(j, err) || fill_head(j, secret, err)) {
        yk__control_job_free(j);
        return err->status;
    }
    *job = j;
    return YK_OK;
}

yk_status yk__control_job_new(uint32_t ranks, yk__control_job **job, yk_error *err)
{
    yk__control_job *j = NULL;
    if (yk__control_job_make(ranks, 0, NULL, &j, err))
        return err->status;
    for (uint32_t r = 0; r < ranks; r++)
        if (yk__control_job_pair(j, r, err)) {
            yk__control_job_free(j);
            return err->status;
        }
    *job = j;
    return YK_OK;
}

static void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void yk__control_job_free(yk__control_job *j)
{
    if (!j)
        return;
    for (uint32_t r = 0; r < j->ranks; r++) {
        fd_close(&j->fd[r][0]);
        fd_close(&j->fd[r][1]);
    }
    if (j->head)
        munmap(j->head, j->bytes);
    fd_close(&j->object);
    fd_close(&j->memory);
    yk__free(j->fd);
    yk__free(j);
}

void yk__control_job_name(yk__control_job *j, uint32_t rank, const char *name)
{
    yk__control_copy_name(j->head->slot[rank].name, name);
}

void yk__control_job_address(yk__control_job *j, const char *address)
{
    snprintf(j->head->address, sizeof j->head->address, "%s", address);
}

int yk__control_job_rank_fd(const yk__control_job *j, uint32_t rank)
{
    return j->fd[rank][1];
}

int yk__control_job_take_rank_fd(yk__control_job *j, uint32_t rank)
{
    const int fd = j->fd[rank][1];
    j->fd[rank][1] = -1;
    return fd;
}

int yk__control_job_fd(const yk__control_job *j, uint32_t rank)
{
    return j->fd[rank][0];
}

void yk__control_job_started(yk__control_job *j, uint32_t rank)
{
    fd_close(&j->fd[rank][1]);
}

bool yk__control_job_joined(const yk__control_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].state) == YK__RANK_JOINED;
}

bool yk__control_job_left(const yk__control_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].state) == YK__RANK_LEFT;
}

bool yk__control_job_heeds(const yk__control_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].heeds);
}

uint32_t yk__control_job_advance(const yk__control_job *job, uint32_t rank)
{
    return rank < job->ranks ? atomic_load(&job->head->slot[rank].advance) : 0;
}

uint32_t yk__control_job_patience(const yk__control_job *job, uint32_t rank)
{
    const uint32_t act = rank < job->ranks ? atomic_load(&job->head->slot[rank].act) : YK__ACT_OWN;
    const bool unlimited = act == YK__ACT_OWN || act == YK__ACT_WAIT || act == YK__ACT_OUTSIDE;
    return rank >= job->ranks || (unlimited && yk__call_ms()) ? 0 : atomic_load(&job->head->slot[rank].patience_ms);
}

pid_t yk__control_job_pid(const yk__control_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].pid);
}

bool yk__control_job_gone(yk__control_job *j, uint32_t rank)
{
    uint32_t absent = YK__RANK_ABSENT;
    return atomic_compare_exchange_strong(&j->head->slot[rank].state, &absent, YK__RANK_GONE);
}

bool yk__control_job_abort(yk__control_job *j, uint32_t rank, yk_status status, const char *text)
{
    return yk__control_record_end(j->head, rank, false, status, text);
}

bool yk__control_job_error(const yk__control_job *j, uint32_t *rank, bool *silent, yk_error *err)
{
    return yk__control_read_end(j->head, j->ranks, rank, silent, err);
}

/* Receives a message; true if it has exactly so many bytes. */
static bool message_take(yk__control_job *j, uint32_t rank, void *message, size_t bytes)
{
    ssize_t n = recv(j->fd[rank][0], message, bytes, MSG_DONTWAIT);
    if (n < 0 && errno == ECONNRESET) /* the rank ended before it read our message: the reset comes first, then its own message */
        n = recv(j->fd[rank][0], message, bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        fd_close(&j->fd[rank][0]);
    return n == (ssize_t)bytes;
}

bool yk__control_job_verdict(yk__control_job *j, uint32_t rank, uint32_t *who, yk_error *err)
{
    yk__control_verdict verdict;
    if (!message_take(j, rank, &verdict, sizeof verdict) || verdict.status >= YK_STATUS_COUNT)
        return false;
    verdict.text[sizeof verdict.text - 1] = 0;
    *who = verdict.rank;
    if (verdict.status)
        yk__fail(err, (yk_status)verdict.status, "%s", verdict.text);
    return true;
}

bool yk__control_job_notice(yk__control_job *j, uint32_t rank, yk_error *err)
{
    yk__control_note note;
    if (!message_take(j, rank, &note, sizeof note) || note.kind != YK__NOTE_ERROR || note.status >= YK_STATUS_COUNT)
        return false;
    note.text[sizeof note.text - 1] = 0;
    yk__fail(err, (yk_status)note.status, "%s", note.text);
    return true;
}
