/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams with MACs: all except streams whose two ends have one address and both say so; a rank that wants MACs gets them. In each case
 * messages arrive, so the ends agree. A message that is given up half-way does not arrive, with MACs and without.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/support/meeting.h"
#include "tests/support/run.h"
#include "transport/sock/sock.h"
#include "transport/sock/sock_internal.h"

enum { LONG = 2 * YK__SOCK_SEGMENT + 1000 };

static uint8_t sent[LONG], got[LONG];

static void open_meeting(void)
{
    unsetenv("YOKE_SOCK_MAC");
    unsetenv("YOKE_SOCK_STREAMS");
    meeting_begin(yk__sock_transport());
    for (uint32_t i = 0; i < LONG; i++)
        sent[i] = (uint8_t)(i * 7 + i / 251);
}

static void assert_mac_bytes(uint32_t expected)
{
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        const yk_tr *t = meet.member[r].tr;
        ck_assert_msg(!meet.member[r].s, "rank %u: %s", r, meet.member[r].error.text);
        for (uint32_t i = 0; i < t->streams; i++) {
            ck_assert_uint_eq(t->peer[1 - r].stream[i].out.mac_bytes, expected);
            ck_assert_uint_eq(t->peer[1 - r].stream[i].in.mac_bytes, expected);
        }
    }
}

static void assert_messages_arrive(void)
{
    meeting_assert_unharmed();
    for (uint32_t r = 0; r < MEETING_RANKS; r++) {
        memset(got, 0, sizeof got);
        meeting_carry(r, sent, got, LONG);
        ck_assert_mem_eq(got, sent, LONG);
    }
}

static void *open_first(void *arg)
{
    (void)arg;
    meeting_open(0);
    return NULL;
}

/* Rank 0 has read its options when it is in the exchange, and rank 1 reads its own after that. */
static void open_with_options(const char *of_first, const char *of_second)
{
    pthread_t first;
    setenv("YOKE_SOCK_MAC", of_first, 1);
    pthread_create(&first, NULL, open_first, NULL);
    pthread_mutex_lock(&meet.lock);
    while (!meet.here)
        pthread_cond_wait(&meet.all_here, &meet.lock);
    pthread_mutex_unlock(&meet.lock);
    setenv("YOKE_SOCK_MAC", of_second, 1);
    meeting_open(1);
    pthread_join(first, NULL);
}

START_TEST(one_address_at_both_ends_needs_no_macs)
{
    meeting_open_both();
    assert_mac_bytes(0);
    assert_messages_arrive();
}
END_TEST

START_TEST(always_is_obeyed)
{
    setenv("YOKE_SOCK_MAC", "always", 1);
    meeting_open_both();
    assert_mac_bytes(YK__MAC_BYTES);
    assert_messages_arrive();
}
END_TEST

START_TEST(the_end_that_accepts_gets_the_macs_that_it_wants)
{
    open_with_options("always", "auto");
    assert_mac_bytes(YK__MAC_BYTES);
    assert_messages_arrive();
}
END_TEST

START_TEST(the_end_that_connects_gets_the_macs_that_it_wants)
{
    open_with_options("auto", "always");
    assert_mac_bytes(YK__MAC_BYTES);
    assert_messages_arrive();
}
END_TEST

/* Rank 1 connects to 127.0.0.2, from 127.0.0.1. */
START_TEST(two_addresses_have_macs)
{
    meet.host[1] = 7;
    meet.member[0].address = "127.0.0.2";
    meet.member[1].address = "127.0.0.3";
    meeting_open_both();
    assert_mac_bytes(YK__MAC_BYTES);
    assert_messages_arrive();
}
END_TEST

/* ---- Giving up ----------------------------------------------------------------------------------------------------- */

/* Rank 0 begins a message to rank 1 with one segment for each stream; the streams take a part of their segments. */
static yk_tr_op *begin_half(uint64_t bytes, yk_tr_op **receive)
{
    const int least = 1;
    const yk_tr *t = meet.member[0].tr;
    const yk__sock_stream *last = &t->peer[1].stream[t->streams - 1];
    yk_tr_op *op = NULL;
    yk_tr_error error = {""};
    for (uint32_t i = 0; i < t->streams; i++)
        ck_assert(!setsockopt(t->peer[1].stream[i].fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least));
    ck_assert(!meet.table->recv(meet.member[1].tr, 0, 5, &(yk_tr_range){.data = got, .bytes = bytes}, receive, &error));
    ck_assert(!meet.table->send(meet.member[0].tr, 1, 5, &(yk_tr_range){.data = sent, .bytes = bytes}, &op, &error));
    for (int i = 0; i < 1000 && !last->out.open; i++) { /* until it is asked for */
        uint64_t events[MEETING_RANKS] = {0};
        for (uint32_t r = MEETING_RANKS; r-- && !last->out.open;)
            ck_assert(!meet.table->progress(meet.member[r].tr, 0, &events[r], &error));
    }
    ck_assert_msg(last->out.open && last->out.written > YK__SOCK_HEAD && last->out.written < YK__SOCK_SEGMENT, "%u bytes are written",
                  last->out.written);
    return op;
}

static void *close_first(void *arg)
{
    (void)arg;
    meeting_close(0);
    return NULL;
}

/* Bits of _i: one stream; MACs; the sender closes, and does not cancel. */
START_TEST(a_message_given_up_half_way_is_not_received)
{
    const bool closes = _i & 4;
    yk_tr_op *op, *receive = NULL;
    yk_tr_error error = {""};
    uint64_t events = 0, bytes = 0;
    pthread_t closing;
    int done = 0;
    setenv("YOKE_SOCK_STREAMS", _i & 1 ? "1" : "3", 1);
    setenv("YOKE_SOCK_MAC", _i & 2 ? "always" : "auto", 1);
    meeting_assert_open();
    op = begin_half((_i & 1 ? 1 : 2) * YK__SOCK_SEGMENT, &receive);
    if (closes)
        pthread_create(&closing, NULL, close_first, NULL);
    else
        meet.table->cancel(meet.member[0].tr, op);
    for (int i = 0; i < 100 && !done; i++) {
        if (!closes)
            meeting_move();
        ck_assert(!meet.table->progress(meet.member[1].tr, 2, &events, &error));
        ck_assert_msg(!meet.table->test(meet.member[1].tr, receive, &done, &bytes, &error), "%s", error.text);
    }
    ck_assert_msg(!done, "%llu bytes are received", (unsigned long long)bytes);
    meet.table->cancel(meet.member[1].tr, receive);
    if (closes)
        pthread_join(closing, NULL);
    else
        assert_messages_arrive();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        one_address_at_both_ends_needs_no_macs, always_is_obeyed, the_end_that_accepts_gets_the_macs_that_it_wants,
        the_end_that_connects_gets_the_macs_that_it_wants, two_addresses_have_macs,
    };
    TCase *t = tcase_create("loopback");
    tcase_add_checked_fixture(t, open_meeting, meeting_end);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    tcase_add_loop_test(t, a_message_given_up_half_way_is_not_received, 0, 8);
    return suite_run("sock", t);
}
