/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: a sealed frame arrives as it was, in order, or not at all. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/net/bytes.h"
#include "core/net/frame.h"
#include "tests/support/run.h"

static const uint8_t key[YK__AUTH_BYTES] = "a key of one direction, 32 bytes";
static yk__frame_channel out, in;
static uint8_t wire[1000];
static yk__frame frame;
static uint32_t need;
static yk_error err;

static void open_channel(void)
{
    memset(&err, 0, sizeof err);
    ck_assert_msg(!yk__auth_init(&err), "%s", err.text);
    yk__frame_channel_init(&out, key);
    yk__frame_channel_init(&in, key);
}

static void close_channel(void)
{
}

/* The status of opening an exact copy, so that a sanitizer sees a read past its end. */
static yk_status open_copy(const uint8_t *from, size_t have, uint32_t limit)
{
    uint8_t *copy = malloc(have ? have : 1);
    yk_status s;
    if (have)
        memcpy(copy, from, have);
    memset(&err, 0, sizeof err);
    s = yk__frame_open(&in, copy, have, limit, &frame, &need, &err);
    free(copy);
    return s;
}

START_TEST(opens_frames_one_after_the_other)
{
    const uint32_t first = yk__frame_seal(&out, 7, "hello", 5, wire), second = yk__frame_seal(&out, 8, NULL, 0, wire + first);
    ck_assert_uint_eq(first, 5 + YK__FRAME_EXTRA);
    ck_assert(!yk__frame_open(&in, wire, first + second, 100, &frame, &need, &err));
    ck_assert_uint_eq(frame.kind, 7);
    ck_assert_uint_eq(frame.bytes, 5);
    ck_assert_mem_eq(frame.data, "hello", 5);
    ck_assert_uint_eq(need, first);
    ck_assert(!yk__frame_open(&in, wire + first, second, 100, &frame, &need, &err));
    ck_assert_uint_eq(frame.kind, 8);
    ck_assert_uint_eq(frame.bytes, 0);
    ck_assert_ptr_nonnull(frame.data);
}
END_TEST

START_TEST(waits_for_all_of_a_frame)
{
    const uint32_t bytes = yk__frame_seal(&out, 7, "hello", 5, wire);
    for (uint32_t have = 0; have < bytes; have++) {
        ck_assert(!open_copy(wire, have, 100));
        ck_assert_ptr_null(frame.data);
        ck_assert_uint_eq(need, have < YK__FRAME_HEAD ? YK__FRAME_HEAD : bytes);
    }
    ck_assert(!open_copy(wire, bytes, 100));
    ck_assert_uint_eq(frame.bytes, 5);
}
END_TEST

START_TEST(refuses_a_change_of_any_byte)
{
    const uint32_t bytes = yk__frame_seal(&out, 7, "hello", 5, wire);
    for (uint32_t i = 4; i < bytes; i++) {
        wire[i] ^= 0x40;
        ck_assert_int_eq(open_copy(wire, bytes, 100), YK_E_IO);
        wire[i] ^= 0x40;
    }
    wire[0]--; /* its length */
    ck_assert_int_eq(open_copy(wire, bytes, 100), YK_E_IO);
    wire[0]++;
    ck_assert(!open_copy(wire, bytes, 100));
}
END_TEST

START_TEST(refuses_repeated_and_missing_frames)
{
    const uint32_t first = yk__frame_seal(&out, 1, "a", 1, wire), second = yk__frame_seal(&out, 2, "b", 1, wire + first);
    ck_assert_int_eq(open_copy(wire + first, second, 100), YK_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "expected frame 0, got 1"));
    ck_assert(!open_copy(wire, first, 100));
    ck_assert_int_eq(open_copy(wire, first, 100), YK_E_IO);
    ck_assert(!open_copy(wire + first, second, 100));
}
END_TEST

/* Frames of the other direction have another key. */
START_TEST(refuses_a_reflected_frame)
{
    const uint32_t bytes = yk__frame_seal(&out, 7, "hello", 5, wire);
    in.key[31] ^= 1;
    ck_assert_int_eq(open_copy(wire, bytes, 100), YK_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "was not made by the peer"));
}
END_TEST

START_TEST(refuses_a_length_beyond_the_limit_at_once)
{
    yk__bytes_put32(wire, 101);
    ck_assert_int_eq(open_copy(wire, YK__FRAME_HEAD, 100), YK_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "a frame of 101 bytes; at most 100 are allowed"));
    yk__bytes_put32(wire, 100);
    ck_assert(!open_copy(wire, YK__FRAME_HEAD, 100));
    yk__bytes_put32(wire, UINT32_MAX);
    ck_assert_int_eq(open_copy(wire, YK__FRAME_HEAD, UINT32_MAX), YK_E_IO);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        opens_frames_one_after_the_other, waits_for_all_of_a_frame, refuses_a_change_of_any_byte, refuses_repeated_and_missing_frames,
        refuses_a_reflected_frame, refuses_a_length_beyond_the_limit_at_once,
    };
    return suite_run_all("frame", tests, sizeof tests / sizeof *tests, open_channel, close_channel);
}
