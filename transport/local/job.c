/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side: makes the shared object, hands it out, marks deaths, takes notices. */
#include "config.h"

#include "transport/local/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/mem.h"

struct yk__local_job {
    yk__local_head *head;
    uint64_t bytes; /* mapped here: head and slots */
    uint32_t ranks;
    int memfd;
    int (*fd)[2]; /* the launcher's end, the rank's end */
};

static yk_status make_object(yk__local_job *j, yk_error *err)
{
    j->memfd = memfd_create("yoke-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (j->memfd < 0)
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: memfd_create: %s", j->ranks, strerror(errno));
    if (ftruncate(j->memfd, (off_t)yk__local_bytes(j->ranks)))
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: ftruncate: %s", j->ranks, strerror(errno));
    /* nobody may shrink it: an access behind the end would kill the ranks */
    if (fcntl(j->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL))
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: sealing: %s", j->ranks, strerror(errno));
    j->bytes = yk__local_head_bytes(j->ranks);
    j->head = mmap(NULL, j->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, j->memfd, 0);
    if (j->head == MAP_FAILED) {
        j->head = NULL;
        return yk__fail(err, YK_E_IO, "shared memory for %u ranks: mmap: %s", j->ranks, strerror(errno));
    }
    return YK_OK;
}

static yk_status fill_head(yk__local_job *j, yk_error *err)
{
    yk__local_head *h = j->head;
    if (getrandom(h->secret, sizeof h->secret, 0) != (ssize_t)sizeof h->secret)
        return yk__fail(err, YK_E_IO, "the job's secret: getrandom: %s", strerror(errno));
    h->magic = YK_LOCAL_MAGIC;
    h->version = YK_LOCAL_VERSION;
    h->ranks = j->ranks;
    h->bytes = yk__local_bytes(j->ranks);
    return YK_OK;
}

static yk_status send_hello(const yk__local_job *j, uint32_t rank, yk_error *err)
{
    yk__local_hello hello = {YK_LOCAL_MAGIC, YK_LOCAL_VERSION, rank, j->ranks, 0, j->head->bytes, {0}};
    struct iovec iov = {&hello, sizeof hello};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    memcpy(hello.secret, j->head->secret, sizeof hello.secret);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &j->memfd, sizeof(int));
    if (sendmsg(j->fd[rank][0], &m, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return yk__fail(err, YK_E_IO, "handing the job to rank %u: %s", rank, strerror(errno));
    return YK_OK;
}

static yk_status make_sockets(yk__local_job *j, yk_error *err)
{
    yk_status s = YK_OK;
    for (uint32_t r = 0; s == YK_OK && r < j->ranks; r++) {
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, j->fd[r])) {
            j->fd[r][0] = j->fd[r][1] = -1;
            return yk__fail(err, YK_E_IO, "a socket for rank %u: %s", r, strerror(errno));
        }
        s = send_hello(j, r, err);
    }
    return s;
}

yk_status yk__local_job_new(uint32_t ranks, yk__local_job **job, yk_error *err)
{
    yk__local_job *j;
    yk_status s;
    if (!ranks || ranks > YK_TR_RANKS)
        return yk__fail(err, YK_E_ARG, "a job of %u ranks: expected 1 to %u", ranks, YK_TR_RANKS);
    j = yk__calloc(1, sizeof *j);
    if (!j)
        return yk__fail_mem(err, sizeof *j, "a job");
    j->ranks = ranks;
    j->memfd = -1;
    j->fd = yk__calloc(ranks, sizeof *j->fd);
    if (!j->fd) {
        yk__free(j);
        return yk__fail_mem(err, ranks * sizeof *j->fd, "a job's sockets");
    }
    memset(j->fd, 0xff, ranks * sizeof *j->fd);
    s = make_object(j, err);
    s = s ? s : fill_head(j, err);
    s = s ? s : make_sockets(j, err);
    if (s) {
        yk__local_job_free(j);
        return s;
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

void yk__local_job_free(yk__local_job *j)
{
    if (!j)
        return;
    for (uint32_t r = 0; r < j->ranks; r++) {
        fd_close(&j->fd[r][0]);
        fd_close(&j->fd[r][1]);
    }
    if (j->head)
        munmap(j->head, j->bytes);
    fd_close(&j->memfd);
    yk__free(j->fd);
    yk__free(j);
}

void yk__local_job_name(yk__local_job *j, uint32_t rank, const char *name)
{
    yk__local_name_copy(j->head->slot[rank].name, name);
}

int yk__local_job_rank_fd(const yk__local_job *j, uint32_t rank)
{
    return j->fd[rank][1];
}

int yk__local_job_fd(const yk__local_job *j, uint32_t rank)
{
    return j->fd[rank][0];
}

void yk__local_job_started(yk__local_job *j, uint32_t rank)
{
    fd_close(&j->fd[rank][1]);
}

bool yk__local_job_joined(const yk__local_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].state) == YK_LOCAL_JOINED;
}

bool yk__local_job_left(const yk__local_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].state) == YK_LOCAL_LEFT;
}

pid_t yk__local_job_pid(const yk__local_job *j, uint32_t rank)
{
    return atomic_load(&j->head->slot[rank].pid);
}

bool yk__local_job_gone(yk__local_job *j, uint32_t rank)
{
    uint32_t absent = YK_LOCAL_ABSENT;
    return atomic_compare_exchange_strong(&j->head->slot[rank].state, &absent, YK_LOCAL_GONE);
}

bool yk__local_job_abort(yk__local_job *j, uint32_t rank, yk_status status, const char *words)
{
    return yk__local_end(j->head, rank, false, status, words);
}

bool yk__local_job_error(const yk__local_job *j, uint32_t *rank, bool *silent, yk_error *err)
{
    return yk__local_ended(j->head, j->ranks, rank, silent, err);
}

bool yk__local_job_notice(yk__local_job *j, uint32_t rank, yk_error *err)
{
    yk__local_note note;
    ssize_t n = recv(j->fd[rank][0], &note, sizeof note, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        fd_close(&j->fd[rank][0]);
    if (n != (ssize_t)sizeof note || note.kind != YK_LOCAL_NOTE_ERROR || note.status >= YK_STATUS_COUNT)
        return false;
    note.text[sizeof note.text - 1] = 0;
    yk__fail(err, (yk_status)note.status, "%s", note.text);
    return true;
}

static bool note_send(int fd, const yk__local_note *note)
{
    return fd >= 0 && send(fd, note, sizeof *note, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *note;
}

bool yk__local_report(int job_fd, const yk_error *why)
{
    yk__local_note note = {.kind = YK_LOCAL_NOTE_ERROR, .status = (uint32_t)why->status};
    memcpy(note.text, why->text, sizeof note.text);
    return note_send(job_fd, &note);
}

void yk__local_report_left(const yk_tr *t)
{
    const yk__local_note note = {.kind = YK_LOCAL_NOTE_LEFT};
    note_send(t->job_fd, &note); /* wakes the launcher; it reads the state itself */
}

void yk__local_end_for(yk_tr *t, uint32_t rank, bool silent, yk_status status, const char *words)
{
    yk__local_note note = {.kind = YK_LOCAL_NOTE_ABORT};
    if (yk__local_end(t->head, rank, silent, status, words))
        note_send(t->job_fd, &note); /* wakes the launcher; it reads the record itself */
}
