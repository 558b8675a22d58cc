/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the sock transport among strangers: each of them is refused, the job is unharmed, and the log says it once. Ranks are threads
 * of this process; a rank that is about to connect does first what the strangers do, so that nothing depends on time.
 */
#include "config.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/net/bytes.h"
#include "core/net/hello.h"
#include "tests/support/run.h"
#include "transport/sock/internal.h"
#include "transport/sock/sock.h"

enum { RANKS = 2, CONTACT = 80, PORT_AT = 64, JOB_AT = 72, IDLE = YK__HELLO_PENDING + 6 };

static const uint8_t secret[32] = "the secret of this job, 32 bytes";
static uint64_t host[RANKS];

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all_here;
    uint32_t here, gone;
    uint8_t blob[RANKS][CONTACT];
    void (*stranger)(const uint8_t *contact); /* what rank 1 does with rank 0's address before it connects itself */
    bool ended; /* what check says */
} meeting;

typedef struct member {
    uint32_t rank;
    const char *address;
    yk_tr *tr;
    yk_tr_error error;
    yk_status s;
} member;

static meeting meet;
static member member_of[RANKS];
static char log_path[] = "/tmp/yoke-sock-XXXXXX";
static int saved_stderr;

static void open_meeting(void)
{
    int fd;
    memset(&meet, 0, sizeof meet);
    memset(member_of, 0, sizeof member_of);
    memset(host, 0, sizeof host);
    pthread_mutex_init(&meet.lock, NULL);
    pthread_cond_init(&meet.all_here, NULL);
    strcpy(log_path, "/tmp/yoke-sock-XXXXXX");
    fd = mkstemp(log_path);
    ck_assert_int_ge(fd, 0);
    saved_stderr = dup(2);
    dup2(fd, 2);
    close(fd);
}

static void close_meeting(void)
{
    dup2(saved_stderr, 2);
    close(saved_stderr);
    unlink(log_path);
}

static int logged_lines(const char *text)
{
    char line[1000];
    int n = 0;
    FILE *f = fopen(log_path, "r");
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

static yk_status exchange_blobs(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    const member *m = arg;
    (void)error;
    ck_assert_uint_eq(bytes, CONTACT);
    pthread_mutex_lock(&meet.lock);
    memcpy(meet.blob[m->rank], own, bytes);
    meet.here++;
    pthread_cond_broadcast(&meet.all_here);
    while (meet.here < RANKS)
        pthread_cond_wait(&meet.all_here, &meet.lock);
    memcpy(all, meet.blob, sizeof meet.blob);
    pthread_mutex_unlock(&meet.lock);
    if (m->rank == 1 && meet.stranger)
        meet.stranger(meet.blob[0]);
    return YK_OK;
}

static yk_status check_job(void *arg, yk_tr_error *error)
{
    const member *m = arg;
    if (m->rank == 0 && meet.ended) {
        snprintf(error->text, sizeof error->text, "the job has ended");
        return YK_E_CANCELLED;
    }
    return YK_OK;
}

static void *open_member(void *arg)
{
    member *m = arg;
    const yk_tr_config c = {.size = sizeof c, .rank = m->rank, .ranks = RANKS, .host = host, .name = "test",
                            .exchange = exchange_blobs, .exchange_arg = m, .secret = secret, .secret_bytes = sizeof secret,
                            .address = m->address, .check = check_job};
    m->s = yk__sock_transport()->open(&c, &m->tr, &m->error);
    return NULL;
}

static void open_both(void)
{
    pthread_t thread;
    for (uint32_t r = 0; r < RANKS; r++)
        member_of[r].rank = r;
    pthread_create(&thread, NULL, open_member, &member_of[1]);
    open_member(&member_of[0]);
    pthread_join(thread, NULL);
}

static void close_both(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        if (member_of[r].tr)
            yk__sock_transport()->close(member_of[r].tr);
}

/* A message each way. */
static void assert_unharmed(void)
{
    const yk_transport *table = yk__sock_transport();
    for (uint32_t r = 0; r < RANKS; r++)
        ck_assert_msg(!member_of[r].s, "rank %u: %s", r, member_of[r].error.text);
    for (uint32_t r = 0; r < RANKS; r++) {
        char text[6] = "hello", got[6] = "";
        yk_tr_op *op[2];
        yk_tr_error error;
        uint32_t index;
        int done = 0;
        ck_assert(!table->send(member_of[r].tr, 1 - r, 5, &(yk_tr_range){.data = text, .bytes = 6}, &op[0], &error));
        ck_assert(!table->recv(member_of[1 - r].tr, r, 5, &(yk_tr_range){.data = got, .bytes = 6}, &op[1], &error));
        for (int i = 0; i < 2; i++) {
            yk_tr *tr = member_of[i ? 1 - r : r].tr;
            ck_assert(!table->wait_any(tr, &op[i], 1, 20000, &index, &error));
            ck_assert(!table->test(tr, op[i], &done, NULL, &error) && done);
        }
        ck_assert_str_eq(got, "hello");
    }
}

/* ---- Strangers ---------------------------------------------------------------------------------------------------- */

static int connect_to(const char *address, const uint8_t *contact)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)yk__bytes_get32(contact + PORT_AT))};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, address ? address : (const char *)contact, &a.sin_addr);
    if (!connect(fd, (struct sockaddr *)&a, sizeof a))
        return fd;
    close(fd);
    return -1;
}

/* Until the other end has closed it. */
static void await_end(int fd)
{
    char byte;
    struct pollfd p = {fd, POLLIN, 0};
    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    ck_assert_msg(recv(fd, &byte, 1, 0) <= 0, "a stranger was answered");
    close(fd);
}

static void send_garbage(const uint8_t *contact)
{
    static const char request[] =
        "GET / HTTP/1.1\r\nHost: somebody\r\nUser-Agent: whoever it may be, for 104 bytes at least, "
        "or some more of them\r\n\r\n";
    uint8_t random[300];
    int fd = connect_to(NULL, contact);
    yk__auth_random(random, sizeof random);
    ck_assert_int_gt(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), 0);
    await_end(fd);
    fd = connect_to(NULL, contact);
    ck_assert_int_gt(send(fd, random, sizeof random, MSG_NOSIGNAL), 0);
    await_end(fd);
    fd = connect_to(NULL, contact);
    ck_assert_int_gt(send(fd, random, 50, MSG_NOSIGNAL), 0);
    shutdown(fd, SHUT_WR);
    await_end(fd);
    close(connect_to(NULL, contact));
}

START_TEST(garbage_is_refused_and_logged_once)
{
    meet.stranger = send_garbage;
    open_both();
    assert_unharmed();
    ck_assert_int_eq(logged_lines("rank 0 refuses a connection from 127.0.0.1:"), 1);
    ck_assert_int_eq(logged_lines("no hello of Yoke; more of them are not reported"), 1);
}
END_TEST

static int step_hello(yk__hello *h, const yk__hello_config *c, int fd)
{
    yk_error err = YK_ERROR_INIT;
    ck_assert(!yk__hello_begin(h, c, true, &err));
    while (!yk__hello_step(h, fd, &err) && h->state != YK__HELLO_DONE) {
        struct pollfd p = {fd, (short)(h->state == YK__HELLO_WRITE ? POLLOUT : POLLIN), 0};
        ck_assert_int_eq(poll(&p, 1, 30000), 1);
    }
    return err.status;
}

static yk__hello_config config_of(const uint8_t *contact, const uint8_t *key)
{
    return (yk__hello_config){.secret = key, .secret_bytes = 32, .job = yk__bytes_get64(contact + JOB_AT), .rank = 1, .ranks = RANKS,
                              .role = YK__HELLO_DATA};
}

static void use_another_secret(const uint8_t *contact)
{
    static const uint8_t another[32] = "The secret of this job, 32 bytes";
    const yk__hello_config c = config_of(contact, another);
    const int fd = connect_to(NULL, contact);
    yk__hello h;
    ck_assert_int_ne(step_hello(&h, &c, fd), YK_OK);
    close(fd);
}

START_TEST(another_secret_is_refused)
{
    meet.stranger = use_another_secret;
    open_both();
    assert_unharmed();
    ck_assert_int_eq(logged_lines("no knowledge of this job's secret"), 1);
}
END_TEST

static int first_claim;

/* Who knows the secret claims rank 1's first stream twice. */
static void claim_twice(const uint8_t *contact)
{
    const yk__hello_config c = config_of(contact, secret);
    yk__hello h;
    int fd = first_claim = connect_to(NULL, contact);
    ck_assert_int_eq(step_hello(&h, &c, fd), YK_OK);
    fd = connect_to(NULL, contact);
    ck_assert_int_eq(step_hello(&h, &c, fd), YK_OK);
    await_end(fd);
}

START_TEST(a_rank_claimed_twice_is_refused_the_second_time)
{
    char byte;
    meet.stranger = claim_twice;
    open_both();
    ck_assert_int_eq(logged_lines("stream 0 of rank 1 is connected already"), 1);
    ck_assert_int_eq(recv(first_claim, &byte, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(first_claim);
}
END_TEST

static int idle[IDLE];

/* More than may wait at a time, and they stay. */
static void connect_idle(const uint8_t *contact)
{
    for (int i = 0; i < IDLE; i++)
        idle[i] = connect_to(NULL, contact);
}

START_TEST(idle_connections_hold_nobody_up)
{
    meet.stranger = connect_idle;
    open_both();
    assert_unharmed();
    ck_assert_int_eq(logged_lines("it sent no hello within 5 s"), 1);
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
}
END_TEST

/* ---- Addresses ---------------------------------------------------------------------------------------------------- */

START_TEST(listens_while_it_opens_only)
{
    open_both();
    assert_unharmed();
    for (uint32_t r = 0; r < RANKS; r++) {
        ck_assert_str_eq((const char *)meet.blob[r], "127.0.0.1");
        ck_assert_int_eq(connect_to(NULL, meet.blob[r]), -1);
    }
}
END_TEST

/* Rank 0 listens on the address that it was given, so on no other of this host. */
static void try_other_address(const uint8_t *contact)
{
    ck_assert_str_eq((const char *)contact, "127.0.0.2");
    ck_assert_int_eq(connect_to("127.0.0.1", contact), -1);
}

START_TEST(listens_on_the_given_address)
{
    host[1] = 7;
    member_of[0].address = "127.0.0.2";
    member_of[1].address = "127.0.0.3";
    meet.stranger = try_other_address;
    open_both();
    assert_unharmed();
}
END_TEST

START_TEST(an_unknown_address_among_hosts_is_an_error)
{
    host[1] = 7;
    open_member(&member_of[0]);
    ck_assert_int_eq(member_of[0].s, YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(member_of[0].error.text, "its address in their network is not known"));
    member_of[0].address = "example.org"; /* names are for the host to resolve */
    open_member(&member_of[0]);
    ck_assert_int_eq(member_of[0].s, YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(member_of[0].error.text, "'example.org' port 0 is no numeric address"));
}
END_TEST

START_TEST(the_end_of_the_job_ends_opening)
{
    meet.here = 1; /* rank 1 has an address, but never comes */
    snprintf((char *)meet.blob[1], PORT_AT, "127.0.0.1");
    yk__bytes_put32(meet.blob[1] + PORT_AT + 4, 2);
    meet.ended = true;
    open_member(&member_of[0]);
    ck_assert_int_eq(member_of[0].s, YK_E_CANCELLED);
    ck_assert_str_eq(member_of[0].error.text, "the job has ended");
}
END_TEST

/* ---- A peer that sends nonsense ----------------------------------------------------------------------------------- */

START_TEST(a_damaged_stream_is_an_error_that_names_the_rank)
{
    const yk_transport *table = yk__sock_transport();
    uint8_t nonsense[YK__SOCK_HEAD], byte;
    yk_tr_op *op = NULL;
    yk_tr_error error;
    yk_status s = YK_OK;
    uint32_t index;
    open_both();
    memset(nonsense, 0xee, sizeof nonsense);
    ck_assert_int_eq(send(member_of[1].tr->peer[0].stream[0].fd, nonsense, sizeof nonsense, 0), sizeof nonsense);
    ck_assert(!table->recv(member_of[0].tr, 1, 1, &(yk_tr_range){.data = &byte, .bytes = 1}, &op, &error));
    s = table->wait_any(member_of[0].tr, &op, 1, 20000, &index, &error);
    ck_assert_int_eq(s, YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.text, "rank 1 sent a frame on stream 0 that rank 0 cannot take"));
    ck_assert_int_eq(table->send(member_of[0].tr, 1, 1, &(yk_tr_range){.data = &byte, .bytes = 1}, &op, &error), YK_E_FORMAT);
}
END_TEST

static void close_all(void)
{
    close_both();
    close_meeting();
}

int main(void)
{
    const TTest *const tests[] = {
        garbage_is_refused_and_logged_once, another_secret_is_refused, a_rank_claimed_twice_is_refused_the_second_time,
        idle_connections_hold_nobody_up, listens_while_it_opens_only, listens_on_the_given_address,
        an_unknown_address_among_hosts_is_an_error, the_end_of_the_job_ends_opening,
        a_damaged_stream_is_an_error_that_names_the_rank,
    };
    return suite_run_all("sock", tests, sizeof tests / sizeof *tests, open_meeting, close_all);
}
