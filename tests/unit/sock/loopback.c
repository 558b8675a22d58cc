/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams with MACs: all except streams whose two ends have one address and both say so; a rank that wants MACs gets them. In each case
 * messages arrive, so the ends agree.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/meeting.h"
#include "tests/support/run.h"
#include "transport/sock/sock.h"
#include "transport/sock/sock_internal.h"

enum { LONG = 2 * YK__SOCK_SEGMENT + 1000 };

static uint8_t sent[LONG], got[LONG];

static void open_meeting(void)
{
    unsetenv("YOKE_SOCK_MAC");
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

int main(void)
{
    const TTest *const tests[] = {
        one_address_at_both_ends_needs_no_macs, always_is_obeyed, the_end_that_accepts_gets_the_macs_that_it_wants,
        the_end_that_connects_gets_the_macs_that_it_wants, two_addresses_have_macs,
    };
    return suite_run_all("sock", tests, sizeof tests / sizeof *tests, open_meeting, meeting_end);
}
