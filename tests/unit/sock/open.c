/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the sock transport among strangers: each of them is refused, the job is unharmed, and the log says it once. Ranks are threads
 * of this process; a rank that is about to connect does first what the strangers do, so that nothing depends on time.
 */
#include "config.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/net/bytes.h"
#include "core/net/hello.h"
#include "tests/support/meeting.h"
#include "tests/support/run.h"
#include "transport/sock/sock.h"
#include "transport/sock/sock_internal.h"

enum { PORT_AT = 64, JOB_AT = 72, IDLE = YK__HELLO_PENDING + 6 };

static void (*stranger)(const uint8_t *contact); /* rank 1's use of rank 0's address before it connects itself */

static void meet_stranger(uint32_t rank)
{
    if (rank == 1 && stranger)
        stranger(meet.blob[0]);
}

static void open_meeting(void)
{
    stranger = NULL;
    meeting_begin(yk__sock_transport());
    meet.met = meet_stranger;
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
    stranger = send_garbage;
    meeting_open_both();
    meeting_assert_unharmed();
    ck_assert_int_eq(meeting_logged("rank 0 refuses a connection from 127.0.0.1:"), 1);
    ck_assert_int_eq(meeting_logged("no hello of Yoke; more of them are not reported"), 1);
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
    return (yk__hello_config){.secret = key, .secret_bytes = 32, .job = yk__bytes_get64(contact + JOB_AT), .rank = 1,
                              .ranks = MEETING_RANKS, .role = YK__HELLO_DATA};
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
    stranger = use_another_secret;
    meeting_open_both();
    meeting_assert_unharmed();
    ck_assert_int_eq(meeting_logged("no knowledge of this job's secret"), 1);
}
END_TEST

static int first_claim;

/* A peer with the secret claims rank 1's first stream twice. */
static void claim_twice(const uint8_t *contact)
{
    const yk__hello_config c = config_of(contact, meeting_secret);
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
    stranger = claim_twice;
    meeting_open_both();
    ck_assert_int_eq(meeting_logged("stream 0 of rank 1 is connected already"), 1);
    ck_assert_int_eq(recv(first_claim, &byte, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(first_claim);
}
END_TEST

static int idle[IDLE];
static pthread_t trickle;
static atomic_bool trickling;

/* A byte now and then, of what begins as a hello does: each is a sign of life, and all together no hello. */
static void *trickle_main(void *arg)
{
    (void)arg;
    for (uint8_t byte = 1; trickling; byte++) {
        for (int i = 0; i < YK__HELLO_PENDING; i++)
            send(idle[i], &byte, 1, MSG_NOSIGNAL);
        usleep(200000);
    }
    return NULL;
}

/* More than may wait at a time, and they stay; those that come first trickle. */
static void connect_idle(const uint8_t *contact)
{
    for (int i = 0; i < IDLE; i++)
        idle[i] = connect_to(NULL, contact);
    trickling = true;
    ck_assert_int_eq(pthread_create(&trickle, NULL, trickle_main, NULL), 0);
}

START_TEST(idle_connections_hold_nobody_up)
{
    stranger = connect_idle;
    meeting_open_both();
    meeting_assert_unharmed();
    ck_assert_int_eq(meeting_logged("it sent no hello within 5 s"), 1);
    trickling = false;
    pthread_join(trickle, NULL);
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
}
END_TEST

static int latecomer;
static struct rlimit descriptors;

/* A connection waits, and there is no descriptor for it. */
static void use_up_descriptors(uint32_t rank)
{
    struct rlimit fewer;
    latecomer = connect_to(NULL, meet.blob[rank]);
    ck_assert(latecomer >= 0 && !getrlimit(RLIMIT_NOFILE, &descriptors));
    fewer = descriptors;
    fewer.rlim_cur = (rlim_t)latecomer + 1; /* no lower one is free */
    ck_assert(!setrlimit(RLIMIT_NOFILE, &fewer));
}

START_TEST(too_few_descriptors_are_an_error_with_the_limit)
{
    char limit[80];
    meet.here = 1; /* rank 1 never comes */
    snprintf((char *)meet.blob[1], PORT_AT, "127.0.0.1");
    yk__bytes_put32(meet.blob[1] + PORT_AT + 4, 2);
    meet.met = use_up_descriptors;
    meeting_open(0);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    snprintf(limit, sizeof limit, "Too many open files: this process may have %d descriptors", latecomer + 1);
    ck_assert_int_eq(meet.member[0].s, YK_E_IO);
    ck_assert_msg(strstr(meet.member[0].error.text, limit) && strstr(meet.member[0].error.text, "ulimit -n"), "%s",
                  meet.member[0].error.text);
    close(latecomer);
}
END_TEST

/* ---- Addresses ---------------------------------------------------------------------------------------------------- */

START_TEST(listens_while_it_opens_only)
{
    meeting_open_both();
    meeting_assert_unharmed();
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
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
    meet.host[1] = 7;
    meet.member[0].address = "127.0.0.2";
    meet.member[1].address = "127.0.0.3";
    stranger = try_other_address;
    meeting_open_both();
    meeting_assert_unharmed();
}
END_TEST

START_TEST(an_unknown_address_among_hosts_is_an_error)
{
    meet.host[1] = 7;
    meeting_open(0);
    ck_assert_int_eq(meet.member[0].s, YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(meet.member[0].error.text, "its address in their network is not known"));
    meet.member[0].address = "example.org"; /* names are for the host to resolve */
    meeting_open(0);
    ck_assert_int_eq(meet.member[0].s, YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(meet.member[0].error.text, "'example.org' port 0 is no numeric address"));
}
END_TEST

START_TEST(the_end_of_the_job_ends_opening)
{
    meet.here = 1; /* rank 1 has an address, but never comes */
    snprintf((char *)meet.blob[1], PORT_AT, "127.0.0.1");
    yk__bytes_put32(meet.blob[1] + PORT_AT + 4, 2);
    meet.ended[0] = true;
    meeting_open(0);
    ck_assert_int_eq(meet.member[0].s, YK_E_CANCELLED);
    ck_assert_str_eq(meet.member[0].error.text, "the job has ended");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        garbage_is_refused_and_logged_once, another_secret_is_refused, a_rank_claimed_twice_is_refused_the_second_time,
        idle_connections_hold_nobody_up, listens_while_it_opens_only, listens_on_the_given_address,
        an_unknown_address_among_hosts_is_an_error, the_end_of_the_job_ends_opening, too_few_descriptors_are_an_error_with_the_limit,
    };
    return suite_run_all("sock", tests, sizeof tests / sizeof *tests, open_meeting, meeting_end);
}
