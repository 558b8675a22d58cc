/* SPDX-License-Identifier: Apache-2.0 */
/* The hello of a connection: a peer with the secret is accepted, and no other one, with any bytes. */
#include "config.h"

#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/net/bytes.h"
#include "core/net/hello.h"
#include "tests/support/run.h"

static const uint8_t secret[32] = "the secret of this job, 32 bytes";
static const uint8_t another[32] = "The secret of this job, 32 bytes";

static yk__hello_config config_of(uint32_t rank, uint32_t peer)
{
    return (yk__hello_config){.secret = secret, .secret_bytes = sizeof secret, .job = 77, .rank = rank, .peer = peer, .ranks = 3,
                              .role = YK__HELLO_DATA, .stream = peer == YK__HELLO_ANY ? 4 : 2};
}

typedef struct ends {
    int fd[2]; /* socket of the connecting side, of the accepting side */
    yk__hello hello[2];
    yk_error err[2];
} ends;

static ends pair;

static void open_pair(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.fd), 0);
    memset(pair.err, 0, sizeof pair.err);
}

static void close_pair(void)
{
    close(pair.fd[0]);
    close(pair.fd[1]);
    for (int i = 0; i < 2; i++)
        yk__hello_end(&pair.hello[i]);
}

static void begin_both(const yk__hello_config *connecting, const yk__hello_config *accepting)
{
    ck_assert_msg(!yk__hello_begin(&pair.hello[0], connecting, true, &pair.err[0]), "%s", pair.err[0].text);
    ck_assert_msg(!yk__hello_begin(&pair.hello[1], accepting, false, &pair.err[1]), "%s", pair.err[1].text);
}

/* Both in turn until they are done or one fails. */
static void step_both(void)
{
    for (int i = 0; i < 8; i++)
        if (pair.err[i % 2].status || yk__hello_step(&pair.hello[i % 2], pair.fd[i % 2], &pair.err[i % 2]))
            return;
}

static void assert_refused(int end, const char *text)
{
    ck_assert_int_eq(pair.err[end].status, YK_E_FORMAT);
    ck_assert_msg(strstr(pair.err[end].text, text) != NULL, "\"%s\" instead of \"%s\"", pair.err[end].text, text);
    ck_assert_int_ne(pair.hello[end].state, YK__HELLO_DONE);
}

START_TEST(both_sides_agree_on_ranks_stream_and_keys)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    uint8_t earlier[YK__AUTH_BYTES];
    begin_both(&a, &b);
    step_both();
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(!pair.err[i].status, "%s", pair.err[i].text);
        ck_assert_int_eq(pair.hello[i].state, YK__HELLO_DONE);
        ck_assert_uint_eq(pair.hello[i].peer, i ? 2 : 0);
        ck_assert_uint_eq(pair.hello[i].stream, 2);
        ck_assert_mem_eq(pair.hello[i].send_key, pair.hello[!i].recv_key, YK__AUTH_BYTES);
    }
    ck_assert_mem_ne(pair.hello[0].send_key, pair.hello[0].recv_key, YK__AUTH_BYTES);
    memcpy(earlier, pair.hello[0].send_key, sizeof earlier);
    begin_both(&a, &b);
    step_both();
    ck_assert_int_eq(pair.hello[1].state, YK__HELLO_DONE);
    ck_assert_mem_ne(pair.hello[0].send_key, earlier, sizeof earlier); /* keys of one connection alone */
}
END_TEST

/* Own port << 16 | the other's, of both ends, and whether that is a connection which nobody passes on. */
static const struct {
    uint32_t connecting, accepting;
    bool is_loopback;
} ports[] = {
    {40000u << 16 | 50000, 50000u << 16 | 40000, true},
    {40000u << 16 | 50000, 0, false},
    {0, 50000u << 16 | 40000, false},
    {0, 0, false},
    {40000u << 16 | 50000, 50000u << 16 | 40001, false}, /* a tunnel */
    {40000u << 16 | 50000, 40000u << 16 | 50000, false},
};

static void assert_loopback(uint32_t connecting, uint32_t accepting, bool expected)
{
    yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    a.loopback = connecting;
    b.loopback = accepting;
    begin_both(&a, &b);
    step_both();
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(!pair.err[i].status, "%s", pair.err[i].text);
        ck_assert_int_eq(pair.hello[i].state, YK__HELLO_DONE);
        ck_assert_msg(pair.hello[i].is_loopback == expected, "ports %x and %x", connecting, accepting);
    }
}

START_TEST(a_connection_is_loopback_where_both_ends_say_so)
{
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
        assert_loopback(ports[i].connecting, ports[i].accepting, ports[i].is_loopback);
}
END_TEST

START_TEST(reads_nothing_beyond_the_hello)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    char more[5] = "";
    begin_both(&a, &b);
    while (pair.hello[0].state != YK__HELLO_DONE) {
        ck_assert(!yk__hello_step(&pair.hello[0], pair.fd[0], &pair.err[0]));
        if (pair.hello[0].state == YK__HELLO_DONE)
            ck_assert_int_eq(send(pair.fd[0], "more", 4, 0), 4);
        ck_assert(!yk__hello_step(&pair.hello[1], pair.fd[1], &pair.err[1]));
    }
    ck_assert_int_eq(pair.hello[1].state, YK__HELLO_DONE);
    ck_assert_int_eq(recv(pair.fd[1], more, 4, MSG_DONTWAIT), 4);
    ck_assert_str_eq(more, "more");
}
END_TEST

START_TEST(refuses_another_secret_without_an_answer)
{
    const yk__hello_config b = config_of(0, YK__HELLO_ANY);
    yk__hello_config a = config_of(2, 0);
    char answer[YK__HELLO_BYTES];
    a.secret = another;
    begin_both(&a, &b);
    step_both();
    assert_refused(1, "no knowledge of this job's secret");
    ck_assert_int_lt(recv(pair.fd[0], answer, sizeof answer, MSG_DONTWAIT), 0);
}
END_TEST

/* The accepting side is the stranger. */
START_TEST(refuses_a_reply_of_another_secret)
{
    const yk__hello_config a = config_of(2, 0);
    yk__hello_config b = config_of(0, YK__HELLO_ANY);
    begin_both(&a, &b);
    memcpy(pair.hello[1].connect_key, pair.hello[0].connect_key, YK__AUTH_BYTES); /* it takes any hello */
    pair.hello[1].accept_key[0] ^= 1;
    step_both();
    assert_refused(0, "no knowledge of this job's secret");
}
END_TEST

/* All that one side of a connection said, again on another connection. */
START_TEST(refuses_a_replayed_hello)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    uint8_t said[3 * YK__HELLO_BYTES];
    begin_both(&a, &b);
    step_both();
    memcpy(said, pair.hello[1].said, sizeof said);
    close_pair();
    open_pair();
    begin_both(&a, &b);
    ck_assert_int_eq(send(pair.fd[0], said, YK__HELLO_BYTES, 0), YK__HELLO_BYTES);
    ck_assert_int_eq(send(pair.fd[0], said + 2 * YK__HELLO_BYTES, YK__HELLO_BYTES, 0), YK__HELLO_BYTES);
    yk__hello_step(&pair.hello[1], pair.fd[1], &pair.err[1]);
    assert_refused(1, "no knowledge of this job's secret");
    ck_assert_uint_eq(pair.hello[1].message, 2); /* the first message alone is good at any time, and gives nothing */
}
END_TEST

/* Whatever a side says is sent back to it. */
START_TEST(refuses_a_reflected_hello)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    uint8_t said[YK__HELLO_BYTES];
    begin_both(&a, &b);
    ck_assert(!yk__hello_step(&pair.hello[0], pair.fd[0], &pair.err[0]));
    ck_assert_int_eq(recv(pair.fd[1], said, sizeof said, 0), sizeof said);
    ck_assert_int_eq(send(pair.fd[1], said, sizeof said, 0), sizeof said);
    yk__hello_step(&pair.hello[0], pair.fd[0], &pair.err[0]);
    assert_refused(0, "no knowledge of this job's secret");
}
END_TEST

static void refuse_field(size_t offset, uint32_t value, const char *text)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    uint8_t *m;
    open_pair();
    begin_both(&a, &b);
    m = pair.hello[0].said;
    yk__bytes_put32(m + offset, value);
    yk__auth_mac(pair.hello[0].connect_key, m, YK__HELLO_BYTES - YK__AUTH_BYTES, m + YK__HELLO_BYTES - YK__AUTH_BYTES);
    step_both();
    assert_refused(1, text);
    close_pair();
}

START_TEST(refuses_fields_that_do_not_fit)
{
    close_pair();
    refuse_field(0, 0x20544547, "no hello of Yoke");
    refuse_field(4, (YK__HELLO_VERSION + 1) << 16, "run the same Yoke on all hosts");
    refuse_field(4, YK__HELLO_VERSION << 16 | 1, "another form");
    refuse_field(8, YK__HELLO_CONTROL, "for another use: role 1, stream 2");
    refuse_field(12, 4, "for another use: role 2, stream 4");
    refuse_field(16, 3, "it is rank 3 of 3");
    refuse_field(16, 0, "it is rank 0 of 3; this is rank 0 of 3");
    refuse_field(20, 1, "takes this for rank 1");
    refuse_field(24, 4, "it is rank 2 of 4");
    refuse_field(32, 78, "another job, number 4e; this is 4d");
    open_pair();
}
END_TEST

START_TEST(connects_to_no_other_rank)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    begin_both(&a, &b);
    pair.hello[0].expected = 1; /* it sent its hello to 0, and 0 answers */
    step_both();
    assert_refused(0, "rank 0 takes this for rank 2; here is rank 2, which connects to rank 1");
}
END_TEST

START_TEST(a_cut_hello_is_a_failed_connection)
{
    const yk__hello_config a = config_of(2, 0), b = config_of(0, YK__HELLO_ANY);
    begin_both(&a, &b);
    ck_assert_int_eq(send(pair.fd[0], pair.hello[0].said, 50, 0), 50);
    ck_assert(!yk__hello_step(&pair.hello[1], pair.fd[1], &pair.err[1]));
    ck_assert_int_eq(pair.hello[1].state, YK__HELLO_READ);
    shutdown(pair.fd[0], SHUT_WR);
    yk__hello_step(&pair.hello[1], pair.fd[1], &pair.err[1]);
    ck_assert_int_eq(pair.err[1].status, YK_E_IO);
    ck_assert_ptr_nonnull(strstr(pair.err[1].text, "after 50 bytes"));
}
END_TEST

START_TEST(refuses_what_is_no_description)
{
    yk__hello_config c = config_of(2, 0);
    c.secret_bytes = YK__AUTH_SECRET_LEAST - 1;
    ck_assert_int_eq(yk__hello_begin(&pair.hello[0], &c, true, &pair.err[0]), YK_E_ARG);
    c = config_of(2, 2);
    ck_assert_int_eq(yk__hello_begin(&pair.hello[0], &c, true, &pair.err[0]), YK_E_ARG);
    c = config_of(3, YK__HELLO_ANY);
    ck_assert_int_eq(yk__hello_begin(&pair.hello[0], &c, false, &pair.err[0]), YK_E_ARG);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        both_sides_agree_on_ranks_stream_and_keys, a_connection_is_loopback_where_both_ends_say_so,
        reads_nothing_beyond_the_hello, refuses_another_secret_without_an_answer, refuses_a_reply_of_another_secret,
        refuses_a_replayed_hello, refuses_a_reflected_hello,
        refuses_fields_that_do_not_fit, connects_to_no_other_rank, a_cut_hello_is_a_failed_connection,
        refuses_what_is_no_description,
    };
    return suite_run_all("hello", tests, sizeof tests / sizeof *tests, open_pair, close_pair);
}
