/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that finds nonsense in the shared object or on its socket says so; it does not crash. */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "transport/local/layout.h"

typedef struct fake {
    yk__local_hello hello;
    yk__local_head *head; /* the whole object */
    uint64_t bytes;
    int memfd, fd[2], fds; /* fds: how many descriptors go with the hello */
    size_t length;         /* of the hello */
    bool seal;
} fake;

static uint32_t drawn;

static uint32_t draw_number(void)
{
    uint32_t c[4] = {drawn++, 1, 2, 3}, k[2] = {9, 9}, out[4];
    yk__philox(c, k, out);
    return out[0];
}

static void fake_new(fake *f, uint32_t ranks)
{
    memset(f, 0, sizeof *f);
    f->bytes = yk__local_bytes(ranks);
    f->memfd = memfd_create("yoke-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(f->memfd, 0);
    ck_assert_int_eq(ftruncate(f->memfd, (off_t)f->bytes), 0);
    f->head = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->memfd, 0);
    ck_assert_ptr_ne(f->head, MAP_FAILED);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f->fd), 0);
    f->hello = (yk__local_hello){YK_LOCAL_MAGIC, YK_LOCAL_VERSION, 0, ranks, 0, f->bytes, {1, 2, 3}};
    f->head->magic = YK_LOCAL_MAGIC;
    f->head->version = YK_LOCAL_VERSION;
    f->head->ranks = ranks;
    f->head->bytes = f->bytes;
    memcpy(f->head->secret, f->hello.secret, sizeof f->hello.secret);
    for (uint32_t r = 1; r < ranks; r++)
        atomic_store(&f->head->slot[r].state, YK_LOCAL_JOINED);
    f->fds = 1;
    f->length = sizeof f->hello;
    f->seal = true;
}

static void fake_send(fake *f)
{
    struct iovec iov = {&f->hello, f->length};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    int both[2] = {f->memfd, f->memfd};
    if (f->seal)
        ck_assert_int_eq(fcntl(f->memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    if (f->fds) {
        struct cmsghdr *c;
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE((size_t)f->fds * sizeof(int));
        c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)f->fds * sizeof(int));
        memcpy(CMSG_DATA(c), both, (size_t)f->fds * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(f->fd[0], &m, 0), (ssize_t)f->length);
}

static void fake_free(fake *f)
{
    munmap(f->head, f->bytes);
    close(f->memfd);
    close(f->fd[0]);
    close(f->fd[1]);
}

static yk_status open_fake(fake *f, yk_tr **t, yk_tr_error *why)
{
    yk_tr_config c = {.size = sizeof c, .job_fd = f->fd[1], .name = "rank 0 (test)", .join_ms = 200};
    fake_send(f);
    return yk__local_transport()->open(&c, t, why);
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
static void hello_two_fds(fake *f)
{
    f->fds = 2;
}
static void object_short(fake *f)
{
    ck_assert_int_eq(ftruncate(f->memfd, 4096), 0);
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
    ck_assert_int_ge(dup2(fileno(file), f->memfd), 0);
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
    atomic_store(&f->head->slot[0].state, YK_LOCAL_JOINED);
}
static void peer_absent(fake *f)
{
    atomic_store(&f->head->slot[1].state, YK_LOCAL_ABSENT);
}
static void job_ending(fake *f)
{
    atomic_store(&f->head->abort, 99);
    atomic_store(&f->head->slot[1].state, YK_LOCAL_ABSENT);
}

static const struct {
    harm harm;
    yk_status status;
    const char *words;
} harms[] = {
    {no_harm, YK_OK, ""},
    {hello_magic, YK_E_FORMAT, "not a job"},
    {hello_version, YK_E_FORMAT, "version 3"},
    {hello_rank, YK_E_FORMAT, "rank 2 of 2"},
    {hello_ranks, YK_E_FORMAT, "of 4294967295"},
    {hello_no_ranks, YK_E_FORMAT, "of 0"},
    {hello_bytes, YK_E_FORMAT, "does not fit"},
    {hello_short, YK_E_FORMAT, "not a job"},
    {hello_no_fd, YK_E_FORMAT, "not a job"},
    {hello_two_fds, YK_E_FORMAT, "not a job"},
    {object_short, YK_E_FORMAT, "shorter than"},
    {object_open, YK_E_FORMAT, "not sealed"},
    {object_is_a_file, YK_E_FORMAT, "not sealed"},
    {head_magic, YK_E_FORMAT, "not the launcher's"},
    {head_version, YK_E_FORMAT, "not the launcher's"},
    {head_ranks, YK_E_FORMAT, "not the launcher's"},
    {head_bytes, YK_E_FORMAT, "not the launcher's"},
    {head_secret, YK_E_FORMAT, "not the launcher's"},
    {slot_taken, YK_E_FORMAT, "joined already"},
    {peer_absent, YK_E_TIMEOUT, "has not joined"},
    {job_ending, YK_E_DEVICE_LOST, "died before it could say why"},
};

START_TEST(joining)
{
    fake f;
    yk_tr *t = NULL;
    yk_tr_error why = {""};
    yk_status s;
    fake_new(&f, 2);
    harms[_i].harm(&f);
    s = open_fake(&f, &t, &why);
    ck_assert_msg(s == harms[_i].status && strstr(why.text, harms[_i].words), "case %d: %d '%s'", _i, (int)s, why.text);
    if (!s)
        yk__local_transport()->close(t);
    fake_free(&f);
}
END_TEST

/* Names and the abort text without an end. */
START_TEST(endless_text)
{
    fake f;
    yk_tr *t = NULL;
    yk_tr_error why = {""};
    const yk_transport *table = yk__local_transport();
    fake_new(&f, 2);
    memset(f.head->slot[1].name, 'n', YK_LOCAL_NAME);
    f.head->slot[1].name[3] = '\n';
    ck_assert_int_eq(open_fake(&f, &t, &why), YK_OK);
    ck_assert_uint_eq(strlen(table->peer_name(t, 1)), YK_LOCAL_NAME - 1);
    ck_assert_int_eq(table->peer_name(t, 1)[3], '?');
    ck_assert_str_eq(table->peer_name(t, 2), "");
    memset(f.head->abort_text, 'x', sizeof f.head->abort_text);
    f.head->abort_status = 12345;
    f.head->abort_rank = 12345;
    atomic_store(&f.head->abort, YK_LOCAL_ENDED);
    ck_assert_int_ne(*table->cancelled(t), 0);
    ck_assert_int_eq(table->flag_wait(t, 1, 0, 1, "test", &why), YK_E_DEVICE_LOST);
    ck_assert_uint_lt(strlen(why.text), sizeof why.text);
    table->close(t);
    fake_free(&f);
}
END_TEST

static void fill_ring(fake *f, uint32_t turn)
{
    yk__local_ring *ring = yk__local_ring_at(f->head, 2, 1, 0);
    uint32_t *w = (void *)ring->data, n = 64;
    uint64_t q;
    for (uint32_t i = 0; i < n; i++)
        w[i] = draw_number();
    atomic_store(&ring->read, turn % 5 == 0 ? draw_number() : 0);
    atomic_store(&ring->written, turn % 3 == 0 ? draw_number() : draw_number() % 256);
    if (turn % 2) { /* frames that begin well */
        w[0] = 0x4d415246u;
        w[1] = turn % 4 == 1 ? draw_number() % 100 : draw_number();
        w[2] = turn % 8 == 1 ? 1 : 0;
        q = turn % 16 < 8 ? draw_number() % 4 : draw_number();
        memcpy(&w[4], &q, 8);
        q = turn % 32 < 16 ? w[1] : (uint64_t)draw_number() << 32 | draw_number();
        memcpy(&w[6], &q, 8);
        q = turn % 64 < 48 ? 0 : draw_number();
        memcpy(&w[8], &q, 8);
        if (turn % 3)
            atomic_store(&ring->written, 40 + w[1] % 200);
    }
}

START_TEST(ring_of_garbage)
{
    const yk_transport *table = yk__local_transport();
    int whole = 0, refused = 0;
    for (uint32_t turn = 0; turn < 600; turn++) {
        unsigned char data[128];
        yk_tr_error why = {""};
        yk_tr_op *op = NULL;
        yk_tr *t = NULL;
        yk_status s;
        fake f;
        fake_new(&f, 2);
        ck_assert_int_eq(open_fake(&f, &t, &why), YK_OK);
        ck_assert_int_eq(table->recv(t, 1, draw_number() % 4, data, sizeof data, &op, &why), YK_OK);
        fill_ring(&f, turn);
        for (int i = 0; i < 3; i++) {
            s = table->progress(t, &why);
            ck_assert_msg(s == YK_OK || s == YK_E_FORMAT, "%d: %s", (int)s, why.text);
        }
        refused += s == YK_E_FORMAT;
        s = table->wait(t, op, 0, NULL, &why);
        whole += s == YK_OK;
        if (s == YK_E_TIMEOUT)
            table->cancel(t, op);
        table->close(t);
        fake_free(&f);
    }
    ck_assert_msg(refused > 100, "%d of 600 refused", refused);
    ck_assert_msg(whole > 0, "no frame was whole: the test has lost its aim");
}
END_TEST

/* What a rank sends to the launcher is not trusted either. */
START_TEST(notices)
{
    yk_error err = YK_ERROR_INIT;
    yk__local_job *job = NULL;
    yk__local_note n = {.kind = YK_LOCAL_NOTE_ERROR, .status = 9999};
    yk_error why = YK_ERROR_INIT;
    int fd;
    ck_assert_int_eq(yk__local_job_new(0, &job, &err), YK_E_ARG);
    ck_assert_int_eq(yk__local_job_new(YK_TR_RANKS + 1, &job, &err), YK_E_ARG);
    ck_assert_int_eq(yk__local_job_new(2, &job, &err), YK_OK);
    fd = yk__local_job_rank_fd(job, 1);
    ck_assert(!yk__local_job_notice(job, 1, &err));
    ck_assert_int_eq(send(fd, "x", 1, 0), 1);
    ck_assert(!yk__local_job_notice(job, 1, &err));
    memset(n.text, 'y', sizeof n.text);
    ck_assert_int_eq(send(fd, &n, sizeof n, 0), (ssize_t)sizeof n);
    ck_assert(!yk__local_job_notice(job, 1, &err));
    n.status = YK_E_IO;
    ck_assert_int_eq(send(fd, &n, sizeof n, 0), (ssize_t)sizeof n);
    ck_assert(yk__local_job_notice(job, 1, &err));
    ck_assert_int_eq(err.status, YK_E_IO);
    ck_assert_uint_eq(strlen(err.text), YK_ERROR_TEXT - 1);
    yk__fail(&why, YK_E_ARG, "no such file");
    ck_assert(yk__local_report(fd, &why));
    ck_assert(yk__local_job_notice(job, 1, &err));
    ck_assert_str_eq(err.text, "no such file");
    yk__local_job_started(job, 1);
    ck_assert(!yk__local_job_notice(job, 1, &err));
    ck_assert_int_eq(yk__local_job_fd(job, 1), -1); /* closed: the rank is gone */
    yk__local_job_free(job);
    yk__local_job_free(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("garbage");
    TCase *t = tcase_create("garbage");
    SRunner *sr = srunner_create(s);
    tcase_add_loop_test(t, joining, 0, (int)(sizeof harms / sizeof *harms));
    tcase_add_test(t, endless_text);
    tcase_add_test(t, ring_of_garbage);
    tcase_add_test(t, notices);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}
