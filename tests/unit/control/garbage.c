/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that finds nonsense in the control object or on its socket says so; it does not crash. */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/control/control_internal.h"
#include "core/control/control_job.h"
#include "tests/support/run.h"

typedef struct fake {
    yk__control_hello hello;
    yk__control_head *head; /* the whole object */
    uint64_t bytes;
    int object, memory, fd[2], fds; /* fds: how many descriptors go with the hello */
    size_t length;         /* length of the hello */
    bool seal;
} fake;

static void fake_new(fake *f, uint32_t ranks)
{
    memset(f, 0, sizeof *f);
    f->bytes = yk__control_bytes(ranks);
    f->object = memfd_create("yoke-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(f->object, 0);
    ck_assert_int_eq(ftruncate(f->object, (off_t)f->bytes), 0);
    f->memory = memfd_create("yoke-test-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(f->memory, 0);
    ck_assert_int_eq(fcntl(f->memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    f->head = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->object, 0);
    ck_assert_ptr_ne(f->head, MAP_FAILED);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f->fd), 0);
    f->hello = (yk__control_hello){YK__CONTROL_MAGIC, YK__CONTROL_VERSION, 0, ranks, 0, f->bytes, {1, 2, 3}};
    f->head->magic = YK__CONTROL_MAGIC;
    f->head->version = YK__CONTROL_VERSION;
    f->head->ranks = ranks;
    f->head->bytes = f->bytes;
    memcpy(f->head->secret, f->hello.secret, sizeof f->hello.secret);
    for (uint32_t r = 1; r < ranks; r++)
        atomic_store(&f->head->slot[r].state, YK__RANK_JOINED);
    f->fds = YK__CONTROL_OBJECTS;
    f->length = sizeof f->hello;
    f->seal = true;
}

static void fake_send(fake *f)
{
    struct iovec iov = {&f->hello, f->length};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    const int objects[] = {f->object, f->memory, f->memory};
    if (f->seal)
        ck_assert_int_eq(fcntl(f->object, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    if (f->fds) {
        struct cmsghdr *c;
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE((size_t)f->fds * sizeof(int));
        c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)f->fds * sizeof(int));
        memcpy(CMSG_DATA(c), objects, (size_t)f->fds * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(f->fd[0], &m, 0), (ssize_t)f->length);
}

static void fake_free(fake *f)
{
    munmap(f->head, f->bytes);
    close(f->object);
    close(f->memory);
    close(f->fd[0]);
    close(f->fd[1]);
}

/* silent_ms: as yk__control_config.liveness_ms */
static yk_status join_watching(fake *f, uint32_t silent_ms, yk__control **c, yk_error *err)
{
    const yk__control_config config = {.job_fd = f->fd[1], .name = "rank 0 (test)", .join_ms = 200, .liveness_ms = silent_ms};
    fake_send(f);
    return yk__control_join(&config, c, err);
}

static yk_status join_fake(fake *f, yk__control **c, yk_error *err)
{
    return join_watching(f, 0, c, err);
}

typedef void (*harm)(fake *f);
static void no_harm(fake *f)
{
    (void)f;
}
static void hello_magic(fake *f)
{
    f->hello.magic++;
}
static void hello_version(fake *f)
{
    f->hello.version++;
}
static void hello_rank(fake *f)
{
    f->hello.rank = 2;
}
static void hello_ranks(fake *f)
{
    f->hello.ranks = UINT32_MAX;
}
static void hello_no_ranks(fake *f)
{
    f->hello.ranks = 0;
}
static void hello_bytes(fake *f)
{
    f->hello.bytes = UINT64_MAX;
}
static void hello_short(fake *f)
{
    f->length = 8;
}
static void hello_no_fd(fake *f)
{
    f->fds = 0;
}
static void hello_one_fd(fake *f)
{
    f->fds = 1;
}
static void hello_three_fds(fake *f)
{
    f->fds = 3;
}
static void object_short(fake *f)
{
    ck_assert_int_eq(ftruncate(f->object, 4096), 0);
}
static void object_open(fake *f)
{
    f->seal = false;
}
static void object_is_a_file(fake *f)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ck_assert(write(fileno(file), f->head, f->bytes) == (ssize_t)f->bytes);
    ck_assert_int_ge(dup2(fileno(file), f->object), 0);
    fclose(file);
    f->seal = false;
}
static void head_magic(fake *f)
{
    f->head->magic = 0;
}
static void head_version(fake *f)
{
    f->head->version = 77;
}
static void head_ranks(fake *f)
{
    f->head->ranks = 3;
}
static void head_bytes(fake *f)
{
    f->head->bytes++;
}
static void head_secret(fake *f)
{
    f->head->secret[31] ^= 1;
}
static void slot_taken(fake *f)
{
    atomic_store(&f->head->slot[0].state, YK__RANK_JOINED);
}
static void peer_absent(fake *f)
{
    atomic_store(&f->head->slot[1].state, YK__RANK_ABSENT);
}
static void job_ending(fake *f)
{
    atomic_store(&f->head->abort, 99);
    atomic_store(&f->head->slot[1].state, YK__RANK_ABSENT);
}

static const struct {
    harm harm;
    yk_status status;
    const char *words;
} harms[] = {
    {no_harm, YK_OK, ""},
    {hello_magic, YK_E_FORMAT, "expected a job"},
    {hello_version, YK_E_FORMAT, "use one version"},
    {hello_rank, YK_E_FORMAT, "rank 2 of 2"},
    {hello_ranks, YK_E_FORMAT, "of 4294967295"},
    {hello_no_ranks, YK_E_FORMAT, "of 0"},
    {hello_bytes, YK_E_FORMAT, "does not fit"},
    {hello_short, YK_E_FORMAT, "expected a job"},
    {hello_no_fd, YK_E_FORMAT, "expected a job"},
    {hello_one_fd, YK_E_FORMAT, "expected a job"},
    {hello_three_fds, YK_E_FORMAT, "expected a job"},
    {object_short, YK_E_FORMAT, "shorter than"},
    {object_open, YK_E_FORMAT, "not sealed"},
    {object_is_a_file, YK_E_FORMAT, "not sealed"},
    {head_magic, YK_E_FORMAT, "not the launcher's"},
    {head_version, YK_E_FORMAT, "not the launcher's"},
    {head_ranks, YK_E_FORMAT, "not the launcher's"},
    {head_bytes, YK_E_FORMAT, "not the launcher's"},
    {head_secret, YK_E_FORMAT, "not the launcher's"},
    {slot_taken, YK_E_FORMAT, "joined already"},
    {peer_absent, YK_E_TIMEOUT, "has not joined within 0.2 s (YOKE_JOIN_MS)"},
    {job_ending, YK_E_DEVICE_LOST, "died before it could say why"},
};

START_TEST(joining_what_is_no_job_is_refused)
{
    fake f;
    yk__control *c = NULL;
    yk_error err = YK_ERROR_INIT;
    yk_status s;
    fake_new(&f, 2);
    harms[_i].harm(&f);
    s = join_fake(&f, &c, &err);
    ck_assert_msg(s == harms[_i].status && strstr(err.text, harms[_i].words), "case %d: %d '%s'", _i, (int)s, err.text);
    if (!s)
        yk__control_leave(c);
    fake_free(&f);
}
END_TEST

/* Names and the abort text without an end. */
START_TEST(endless_text)
{
    fake f;
    yk__control *c = NULL;
    yk__control_wait wait = {0};
    yk_error err = YK_ERROR_INIT;
    fake_new(&f, 2);
    memset(f.head->slot[1].name, 'n', YK__CONTROL_NAME);
    f.head->slot[1].name[3] = '\n';
    ck_assert_int_eq(join_fake(&f, &c, &err), YK_OK);
    ck_assert_uint_eq(strlen(yk__control_name(c, 1)), YK__CONTROL_NAME - 1);
    ck_assert_int_eq(yk__control_name(c, 1)[3], '?');
    ck_assert_str_eq(yk__control_name(c, 2), "");
    memset(f.head->abort_text, 'x', sizeof f.head->abort_text);
    f.head->abort_status = 12345;
    f.head->abort_rank = 12345;
    atomic_store(&f.head->abort, YK__JOB_ENDED);
    ck_assert_int_ne(*yk__control_cancelled(c), 0);
    ck_assert_int_eq(yk__control_look(c, &wait, 1, "test", &err), YK_E_DEVICE_LOST);
    ck_assert_uint_eq(strlen(err.text), sizeof f.head->abort_text - 1);
    yk__control_leave(c);
    fake_free(&f);
}
END_TEST

/* A rank's published info is never seen half written; an exchange of too many bytes is refused. */
START_TEST(shown_info)
{
    fake f;
    yk__control *c = NULL;
    yk_error err = YK_ERROR_INIT;
    uint8_t shown[YK__CONTROL_INFO], seen[YK__CONTROL_INFO] = {0};
    fake_new(&f, 2);
    ck_assert_int_eq(join_fake(&f, &c, &err), YK_OK);
    memset(shown, 7, sizeof shown);
    ck_assert(!yk__control_read(c, 0, seen, sizeof seen)); /* nothing yet */
    yk__control_publish(c, shown, sizeof shown);
    ck_assert(yk__control_read(c, 0, seen, sizeof seen));
    ck_assert_mem_eq(shown, seen, sizeof seen);
    atomic_fetch_add(&f.head->slot[0].stamp, 1);
    ck_assert(!yk__control_read(c, 0, seen, sizeof seen));
    ck_assert_int_eq(yk__control_exchange(c, "keys", shown, YK__CONTROL_BLOB + 1, seen, &err), YK_E_ARG);
    yk__control_leave(c);
    fake_free(&f);
}
END_TEST

static _Atomic bool spins;
static _Atomic int spinner;

static void *thread_spin(void *unused)
{
    atomic_store(&spinner, (int)syscall(SYS_gettid));
    while (atomic_load(&spins))
        ;
    return unused;
}

static void ms_pass(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000l}, NULL);
}

/* Word 22 of the thread's line in /proc. */
static unsigned long long thread_start(int thread)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", thread);
    FILE *f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    fclose(f);
    char *word = strrchr(text, ')'), *rest;
    word = strtok_r(word, " ", &rest);
    for (int i = 2; i < 22; i++)
        word = strtok_r(NULL, " ", &rest);
    return strtoull(word, NULL, 10);
}

/* Rank 1 never beats. Its thread is ready to run all the while, as one that gets no processor is. Then it is a thread that sleeps, or one
 * that has its number after its end. */
START_TEST(a_silent_rank_that_waits_for_a_processor_is_alive)
{
    fake f;
    yk__control *c = NULL;
    yk_error err = YK_ERROR_INIT;
    pthread_t thread;
    fake_new(&f, 2);
    atomic_store(&spins, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, thread_spin, NULL), 0);
    while (!atomic_load(&spinner))
        ;
    struct stat space;
    ck_assert_int_eq(stat("/proc/self/ns/pid", &space), 0);
    atomic_store(&f.head->slot[1].thread_space, (uint64_t)space.st_ino);
    atomic_store(&f.head->slot[1].thread_began, thread_start(atomic_load(&spinner)));
    atomic_store(&f.head->slot[1].thread, atomic_load(&spinner));
    ck_assert_int_eq(join_watching(&f, 300, &c, &err), YK_OK);
    ms_pass(1200);
    ck_assert_msg(yk__control_check(c, &err) == YK_OK, "%s", err.text);
    if (_i)
        atomic_fetch_add(&f.head->slot[1].thread_began, 1);
    else
        atomic_store(&f.head->slot[1].thread, (int)getpid());
    for (int i = 0; i < 100 && !yk__control_check(c, &err); i++)
        ms_pass(100);
    ck_assert_msg(err.status == YK_E_DEVICE_LOST && strstr(err.text, "gave no sign of life"), "%s", err.text);
    atomic_store(&spins, false);
    pthread_join(thread, NULL);
    yk__control_leave(c);
    fake_free(&f);
}
END_TEST

/* A rank's notes to the launcher are checked too. */
START_TEST(notices_of_ranks_are_checked)
{
    yk_error err = YK_ERROR_INIT;
    yk__control_job *job = NULL;
    yk__control_note n = {.kind = YK__NOTE_ERROR, .status = 9999};
    yk_error why = YK_ERROR_INIT;
    int fd;
    ck_assert_int_eq(yk__control_job_new(0, &job, &err), YK_E_ARG);
    ck_assert_int_eq(yk__control_job_new(UINT32_MAX, &job, &err), YK_E_ARG);
    ck_assert_int_eq(yk__control_job_new(2, &job, &err), YK_OK);
    fd = yk__control_job_rank_fd(job, 1);
    ck_assert(!yk__control_job_notice(job, 1, &err));
    ck_assert_int_eq(send(fd, "x", 1, 0), 1);
    ck_assert(!yk__control_job_notice(job, 1, &err));
    memset(n.text, 'y', sizeof n.text);
    ck_assert_int_eq(send(fd, &n, sizeof n, 0), (ssize_t)sizeof n);
    ck_assert(!yk__control_job_notice(job, 1, &err));
    n.status = YK_E_IO;
    ck_assert_int_eq(send(fd, &n, sizeof n, 0), (ssize_t)sizeof n);
    ck_assert(yk__control_job_notice(job, 1, &err));
    ck_assert_int_eq(err.status, YK_E_IO);
    ck_assert_uint_eq(strlen(err.text), YK_ERROR_TEXT - 1);
    yk__fail(&why, YK_E_ARG, "no such file");
    ck_assert(yk__control_report(fd, &why));
    ck_assert(yk__control_job_notice(job, 1, &err));
    ck_assert_str_eq(err.text, "no such file");
    yk__control_job_started(job, 1);
    ck_assert(!yk__control_job_notice(job, 1, &err));
    ck_assert_int_eq(yk__control_job_fd(job, 1), -1); /* closed: the rank is gone */
    yk__control_job_free(job);
    yk__control_job_free(NULL);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("garbage");
    tcase_add_loop_test(t, joining_what_is_no_job_is_refused, 0, (int)(sizeof harms / sizeof *harms));
    tcase_add_test(t, endless_text);
    tcase_add_test(t, shown_info);
    tcase_add_loop_test(t, a_silent_rank_that_waits_for_a_processor_is_alive, 0, 2);
    tcase_add_test(t, notices_of_ranks_are_checked);
    tcase_set_timeout(t, 120);
    return suite_run("garbage", t);
}
