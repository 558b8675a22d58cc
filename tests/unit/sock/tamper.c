/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody between two ranks: a frame that is changed, repeated, left out or in another place is refused with an error that names rank
 * and connection, and no receive is done with it. The frames are made with rank 1's keys and go over its sockets.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/support/meeting.h"
#include "tests/support/run.h"
#include "transport/sock/sock.h"
#include "transport/sock/sock_internal.h"

enum { LONG = YK__MATCH_EAGER + 1000, MOST = YK__SOCK_HEAD + LONG + YK__SOCK_TAIL };

typedef struct frame {
    size_t bytes;
    uint8_t data[MOST];
} frame;

static uint8_t payload[LONG], got[LONG];

static void open_meeting(void)
{
    setenv("YOKE_SOCK_MAC", "always", 1); /* on the loopback device too */
    meeting_begin(yk__sock_transport());
    for (uint32_t i = 0; i < LONG; i++)
        payload[i] = (uint8_t)(i * 7 + 1);
    memset(got, 0, sizeof got);
}

static yk__sock_stream *stream_of(uint32_t number)
{
    return &meet.member[1].tr->peer[0].stream[number];
}

/* The next frame of rank 1 on that stream; its payload is the head's bytes of `payload`, from the head's place on. A segment is whole. */
static void frame_make(frame *f, uint32_t stream, yk__match_head head)
{
    yk__sock_output *out = &stream_of(stream)->out;
    const size_t bytes = head.bytes + (head.kind == YK__MATCH_SEGMENT ? 1 : 0);
    yk__match_head_encode(&head, f->data);
    yk__mac_of(out->key, out->number++, f->data, YK__MATCH_HEAD, f->data + YK__MATCH_HEAD);
    f->bytes = YK__SOCK_HEAD;
    if (!head.bytes)
        return;
    memcpy(f->data + YK__SOCK_HEAD, payload + head.place, head.bytes);
    f->data[YK__SOCK_HEAD + head.bytes] = 1;
    yk__mac_of(out->key, out->number++, f->data + YK__SOCK_HEAD, bytes, f->data + YK__SOCK_HEAD + bytes);
    f->bytes += bytes + YK__MAC_BYTES;
}

static void frame_send(const frame *f, uint32_t stream)
{
    ck_assert_int_eq(send(stream_of(stream)->fd, f->data, f->bytes, 0), (int)f->bytes);
}

static yk__match_head short_head(uint64_t tag, uint32_t bytes)
{
    return (yk__match_head){.kind = YK__MATCH_SHORT, .tag = tag, .total = bytes, .bytes = bytes};
}

/* A receive of rank 0, and what becomes of it. */
static yk_status receive_one(uint64_t tag, uint64_t bytes, yk_tr_error *error)
{
    yk_tr *t = meet.member[0].tr;
    yk_tr_op *op = NULL;
    uint32_t index;
    int done = 0;
    yk_status s = meet.table->recv(t, 1, tag, &(yk_tr_range){.data = got, .bytes = bytes}, &op, error);
    if (s)
        return s;
    s = meet.table->wait_any(t, &op, 1, MEETING_MS, &index, error);
    if (s)
        meet.table->cancel(t, op);
    else
        ck_assert(!meet.table->test(t, op, &done, NULL, error) && done);
    return s;
}

static void assert_refused(uint64_t tag, uint64_t bytes)
{
    yk_tr_error error = {""};
    ck_assert_int_eq(receive_one(tag, bytes, &error), YK_E_FORMAT);
    ck_assert_msg(strstr(error.text, "what came to rank 0 from rank 1 on stream ") && strstr(error.text, "(127.0.0.1:"), "%s",
                  error.text);
    ck_assert_int_eq(receive_one(tag, bytes, &error), YK_E_FORMAT); /* and so says every call from now on */
}

static void assert_received(uint64_t tag, uint64_t bytes)
{
    yk_tr_error error = {""};
    ck_assert_msg(!receive_one(tag, bytes, &error), "%s", error.text);
    ck_assert_mem_eq(got, payload, bytes);
}

START_TEST(a_whole_frame_is_received)
{
    frame f;
    meeting_assert_open();
    frame_make(&f, 0, short_head(3, 100));
    frame_send(&f, 0);
    assert_received(3, 100);
    meeting_assert_unharmed();
}
END_TEST

/* A bit of the tag, of the head's MAC, of the payload, of its MAC. */
static const size_t places[] = {8, YK__MATCH_HEAD + 3, YK__SOCK_HEAD + 50, YK__SOCK_HEAD + 100 + 9};

START_TEST(a_changed_frame_is_refused)
{
    frame f;
    meeting_assert_open();
    frame_make(&f, 0, short_head(3, 100));
    f.data[places[_i]] ^= 16;
    frame_send(&f, 0);
    assert_refused(3, 100);
}
END_TEST

START_TEST(a_repeated_frame_is_refused)
{
    frame f;
    meeting_assert_open();
    frame_make(&f, 0, short_head(3, 100));
    frame_send(&f, 0);
    assert_received(3, 100);
    frame_send(&f, 0);
    assert_refused(3, 100);
}
END_TEST

START_TEST(frames_in_another_order_are_refused)
{
    frame first, second;
    meeting_assert_open();
    frame_make(&first, 0, short_head(3, 100));
    frame_make(&second, 0, short_head(4, 100));
    frame_send(&second, 0);
    frame_send(&first, 0);
    assert_refused(4, 100);
}
END_TEST

START_TEST(a_frame_of_another_stream_is_refused)
{
    frame f;
    meeting_assert_open();
    ck_assert_uint_gt(meet.member[0].tr->streams, 1);
    frame_make(&f, 1, short_head(3, 100));
    frame_send(&f, 0);
    assert_refused(3, 100);
}
END_TEST

static void send_announced(void)
{
    frame f;
    frame_make(&f, 0, (yk__match_head){.kind = YK__MATCH_ANNOUNCE, .tag = 3, .total = LONG, .number = 1});
    frame_send(&f, 0);
}

static void segment_make(frame *f)
{
    frame_make(f, 1, (yk__match_head){.kind = YK__MATCH_SEGMENT, .tag = 3, .total = LONG, .number = 1, .bytes = LONG});
}

START_TEST(a_whole_segment_is_received)
{
    frame f;
    meeting_assert_open();
    send_announced();
    segment_make(&f);
    frame_send(&f, 1);
    assert_received(3, LONG);
}
END_TEST

/* The payload's last byte, and the byte that says that the segment is whole. */
static const size_t segment_places[] = {LONG - 1, LONG};

/* A segment is read to its place before its MAC is there; the message is not done by that. */
START_TEST(a_changed_segment_is_refused)
{
    frame f;
    meeting_assert_open();
    send_announced();
    segment_make(&f);
    f.data[YK__SOCK_HEAD + segment_places[_i]] ^= 1;
    frame_send(&f, 1);
    assert_refused(3, LONG);
}
END_TEST

/* Good proofs, and what no rank sends. */
START_TEST(a_frame_that_cannot_be_is_an_error_that_names_the_rank)
{
    frame f;
    yk_tr_error error = {""};
    meeting_assert_open();
    frame_make(&f, 0, (yk__match_head){.kind = 77});
    frame_send(&f, 0);
    ck_assert_int_eq(receive_one(1, 1, &error), YK_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.text, "rank 1 sent a frame on stream 0 that rank 0 cannot take: kind 77"));
    ck_assert_int_eq(receive_one(1, 1, &error), YK_E_FORMAT);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("frames");
    tcase_add_checked_fixture(t, open_meeting, meeting_end);
    tcase_add_test(t, a_whole_frame_is_received);
    tcase_add_loop_test(t, a_changed_frame_is_refused, 0, (int)(sizeof places / sizeof *places));
    tcase_add_test(t, a_repeated_frame_is_refused);
    tcase_add_test(t, frames_in_another_order_are_refused);
    tcase_add_test(t, a_frame_of_another_stream_is_refused);
    tcase_add_test(t, a_whole_segment_is_received);
    tcase_add_loop_test(t, a_changed_segment_is_refused, 0, (int)(sizeof segment_places / sizeof *segment_places));
    tcase_add_test(t, a_frame_that_cannot_be_is_an_error_that_names_the_rank);
    return suite_run("sock", t);
}
