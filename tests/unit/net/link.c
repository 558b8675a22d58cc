/* SPDX-License-Identifier: Apache-2.0 */
/* A link whose peer has gone: its last message is read before its end, even if messages were sent to it meanwhile. A link whose peer is
 * slow. Addresses that a peer cannot use. */
#include "config.h"

#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/net/link.h"
#include "core/net/tcp.h"
#include "tests/support/run.h"

START_TEST(last_words_are_read_after_a_failed_send)
{
    yk_error err = YK_ERROR_INIT;
    yk__hello hello[2] = {{.peer = 1}, {.peer = 0}}; /* keys of zeros: the same both ways */
    yk__link link[2] = {{.fd = -1}, {.fd = -1}};
    yk__frame frame;
    bool ended = false;
    int fd[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    for (int i = 0; i < 2; i++)
        yk__link_open(&link[i], fd[i], &hello[i]);
    ck_assert_int_eq(yk__link_send(&link[1], 7, "farewell", 8, &err), YK_OK);
    yk__link_close(&link[1]);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(!yk__link_send(&link[0], 8, "hallo", 5, &err), "%s", err.text);
    ck_assert(!yk__link_waiting(&link[0]));
    ck_assert_int_eq(yk__link_read(&link[0], &ended, &err), YK_OK);
    ck_assert(ended);
    ck_assert_int_eq(yk__link_next(&link[0], 64, &frame, &err), YK_OK);
    ck_assert(frame.data && frame.bytes == 8 && !memcmp(frame.data, "farewell", 8));
    yk__link_close(&link[0]);
}
END_TEST

/* Reads all that a socket holds; returns how many bytes. */
static size_t bytes_taken(int fd)
{
    static char taken[1 << 16];
    size_t all = 0;
    ssize_t n;
    while ((n = recv(fd, taken, sizeof taken, MSG_DONTWAIT)) > 0)
        all += (size_t)n;
    return all;
}

/* A peer that takes a third of all bytes is never behind by more than the queue holds, though more than that was queued since the start:
 * bytes that were sent do not count. One that takes nothing more fails the link, at the bound. */
START_TEST(sent_bytes_do_not_count_as_waiting)
{
    static uint8_t data[YK__FRAME_MOST / 2];
    yk_error err = YK_ERROR_INIT;
    yk__link link;
    int fd[2];
    uint32_t more = 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    yk__link_open(&link, fd[0], &(yk__hello){.peer = 1});
    while (link.queued + sizeof data + YK__FRAME_EXTRA <= YK__LINK_QUEUE)
        ck_assert_msg(!yk__link_send(&link, 8, data, sizeof data, &err), "%s", err.text);
    while (link.sent < YK__LINK_QUEUE / 3 && bytes_taken(fd[1]) > 0)
        ck_assert_msg(!yk__link_flush(&link, &err), "%s", err.text);
    ck_assert_uint_lt(link.sent, link.queued / 2); /* they still lie in front */
    for (; more < YK__LINK_QUEUE / 4 / sizeof data; more++)
        ck_assert_msg(!yk__link_send(&link, 8, data, sizeof data, &err), "%s", err.text);
    while (more < 100 && !yk__link_send(&link, 8, data, sizeof data, &err))
        more++;
    ck_assert_int_eq(err.status, YK_E_IO);
    ck_assert_uint_gt(link.queued - link.sent + sizeof data + YK__FRAME_EXTRA, YK__LINK_QUEUE);
    ck_assert_uint_le(link.queued - link.sent, YK__LINK_QUEUE);
    yk__link_close(&link);
    close(fd[1]);
}
END_TEST

START_TEST(loopback_and_no_address_reach_nobody_else)
{
    ck_assert(yk__tcp_is_loopback("127.0.0.1") && yk__tcp_is_loopback("127.0.1.1") && yk__tcp_is_loopback("::1") &&
              yk__tcp_is_loopback("[::1]"));
    ck_assert(yk__tcp_is_loopback("")); /* address of a socket without one */
    ck_assert(!yk__tcp_is_loopback("12.7.0.1") && !yk__tcp_is_loopback("128.0.0.1") && !yk__tcp_is_loopback("fe80::1"));
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("link");
    tcase_add_test(t, last_words_are_read_after_a_failed_send);
    tcase_add_test(t, sent_bytes_do_not_count_as_waiting);
    tcase_add_test(t, loopback_and_no_address_reach_nobody_else);
    return suite_run("link", t);
}
