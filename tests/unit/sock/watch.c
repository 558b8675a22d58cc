/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that end or carry nothing while both ranks live: both are told, with both addresses, and operations fail. A line without
 * messages is none of these, nor one whose other end closes.
 */
#include "config.h"

#include <check.h>
#include <string.h>

#include "tests/support/meeting.h"
#include "tests/support/run.h"
#include "transport/sock/sock.h"
#include "transport/sock/sock_internal.h"

enum { LOST_MS = 20000 }; /* the thread that watches counts its own steps: on a busy machine these take longer */

static void open_meeting(void)
{
    meeting_begin(yk__sock_transport());
    meeting_assert_open();
}

static void assert_lost(uint32_t rank, const char *how)
{
    const yk__line *line = &meet.member[rank].tr->peer[1 - rank].stream[0].line;
    const yk_tr_error lost = meeting_lost(rank, LOST_MS);
    ck_assert_msg(strstr(lost.text, how) && strstr(lost.text, line->own) && strstr(lost.text, line->other), "rank %u: '%s'", rank,
                  lost.text);
    ck_assert(strstr(lost.text, "rank 0") && strstr(lost.text, "rank 1"));
    ck_assert_msg(!strstr(lost.text, "calls"), "%s", lost.text); /* the program is not blamed */
}

START_TEST(connections_that_are_cut_are_reported_to_both)
{
    meeting_cut();
    assert_lost(0, "was closed from outside");
    assert_lost(1, "was closed from outside");
}
END_TEST

/* As on two hosts, whose watches do not see each other's threads. On a busy host a watch waits for one that waits for a processor. */
static void neighbour_hide(uint32_t rank)
{
    yk_tr *tr = meet.member[rank].tr;
    pthread_mutex_lock(&tr->base.lock);
    for (uint32_t s = 0; s < YK__SOCK_STREAMS; s++)
        tr->peer[1 - rank].stream[s].line.thread.number = 0;
    pthread_mutex_unlock(&tr->base.lock);
}

START_TEST(a_connection_that_carries_nothing_fails_what_waits_for_it)
{
    uint8_t byte = 0;
    yk_tr_error error = {""};
    yk_tr_op *op = NULL;
    int done = 0;
    ck_assert(!meet.table->recv(meet.member[1].tr, 0, 5, &(yk_tr_range){.data = &byte, .bytes = 1}, &op, &error));
    neighbour_hide(1);
    meeting_deafen();
    assert_lost(1, "nothing has come over it for 4.");
    ck_assert_int_eq(meet.table->test(meet.member[1].tr, op, &done, NULL, &error), YK_E_IO);
    ck_assert_msg(done && strstr(error.text, "nothing has come over it"), "%s", error.text);
    ck_assert_int_eq(meet.table->send(meet.member[1].tr, 0, 5, &(yk_tr_range){.data = &byte, .bytes = 1}, &op, &error), YK_E_IO);
}
END_TEST

START_TEST(a_late_watch_gives_its_peers_the_time)
{
    static const int64_t counted[][2] = {{250, 250}, {40, 40}, {251, 250}, {350, 250}, {20000, 250}};
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        ck_assert_int_eq(yk__watch_step(counted[i][0]), counted[i][1]);
}
END_TEST

/* The state after the steps of ten seconds, in which the other end's thread is this one, which runs. */
static yk__line_state silence_look(yk__line *line)
{
    yk__line_state state = YK__LINE_GOOD;
    for (int i = 0; i < 40 && state != YK__LINE_LOST; i++)
        state = yk__line_look(line, 250, YK__WATCH_SILENT_MS);
    return state;
}

START_TEST(a_silent_peer_that_waits_for_a_processor_is_alive)
{
    const yk__thread_id own = yk__thread_own();
    yk__line line = {.thread = own, .space = own.space};
    ck_assert_int_ne(silence_look(&line), YK__LINE_LOST);
    line.thread.began++; /* its number is another thread's now */
    ck_assert_int_eq(silence_look(&line), YK__LINE_LOST);
    line = (yk__line){.thread = own, .space = own.space + 1};
    ck_assert_int_eq(silence_look(&line), YK__LINE_LOST);
    ck_assert_int_eq(line.silent_ms, YK__WATCH_SILENT_MS);
    line = (yk__line){.space = own.space}; /* on another host */
    ck_assert_int_eq(silence_look(&line), YK__LINE_LOST);
    ck_assert_int_eq(line.silent_ms, YK__WATCH_SILENT_MS);
}
END_TEST

START_TEST(a_line_without_messages_is_well)
{
    for (uint32_t r = 0; r < MEETING_RANKS; r++)
        ck_assert_str_eq(meeting_lost(r, (YK__WATCH_SILENT_MS + 600) / 2).text, "");
    meeting_assert_unharmed();
}
END_TEST

START_TEST(who_closes_is_not_lost)
{
    meeting_close(0);
    ck_assert_str_eq(meeting_lost(1, YK__WATCH_ENDED_MS + 600).text, "");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {connections_that_are_cut_are_reported_to_both, a_connection_that_carries_nothing_fails_what_waits_for_it,
                                  a_late_watch_gives_its_peers_the_time, a_silent_peer_that_waits_for_a_processor_is_alive,
                                  a_line_without_messages_is_well, who_closes_is_not_lost};
    return suite_run_all("sock_watch", tests, sizeof tests / sizeof *tests, open_meeting, meeting_end);
}
