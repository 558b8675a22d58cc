/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed messages over a transport in memory that changes, loses, doubles and swaps them: each fault is an error that names the ranks, a
 * lost message within its time, and without a fault nothing is said. Time passes by the test's own count.
 */
#include "core/coll/messages/sealed.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/crc32c.h"
#include "tests/support/run.h"

enum { LINES = 64, MOST = 1200, QUESTIONS = 0xfffe };

typedef struct letter {
    uint64_t tag, bytes;
    uint8_t data[MOST];
} letter;

struct yk_tr_op {
    int is_send, used;
    uint32_t from;
    uint64_t tag, bytes;
    void *data;
};

/* Letters on their way from this rank to the other. */
struct yk_tr {
    uint32_t rank;
    letter *line[LINES];
    uint32_t n;
};

typedef enum fault { NONE, FLIP, FLIP_HEAD, LOSE, LOSE_ALL_QUESTIONS, DOUBLE, SWAP, OTHER_TAG, CUT } fault;

static struct yk_tr end[2];
static yk__sealed *sealed[2];
static fault fault_now;
static int64_t now;

static void line_add(struct yk_tr *t, const letter *l)
{
    ck_assert_uint_lt(t->n, LINES);
    t->line[t->n] = malloc(sizeof *l);
    *t->line[t->n++] = *l;
}

static void letter_spoil(struct yk_tr *t, letter *l)
{
    if (fault_now == FLIP)
        l->data[l->bytes - 1] ^= 16;
    if (fault_now == FLIP_HEAD)
        l->data[17] ^= 1;
    if (fault_now == OTHER_TAG)
        l->tag++;
    if (fault_now == CUT)
        l->bytes--;
    if (fault_now == DOUBLE)
        line_add(t, l);
}

static yk_status mem_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error)
{
    letter l = {.tag = tag, .bytes = from->bytes};
    (void)error;
    ck_assert_uint_eq(peer, 1 - t->rank);
    ck_assert_uint_le(from->bytes, MOST);
    memcpy(l.data, from->data, from->bytes);
    *op = calloc(1, sizeof **op);
    **op = (yk_tr_op){.is_send = 1};
    if (tag == QUESTIONS ? fault_now == LOSE_ALL_QUESTIONS : fault_now == LOSE)
        return YK_OK;
    if (tag != QUESTIONS)
        letter_spoil(t, &l);
    line_add(t, &l);
    if (fault_now == SWAP && t->n > 1) {
        letter *last = t->line[t->n - 1];
        t->line[t->n - 1] = t->line[t->n - 2];
        t->line[t->n - 2] = last;
    }
    return YK_OK;
}

static yk_status mem_recv(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error)
{
    (void)error;
    (void)t;
    *op = calloc(1, sizeof **op);
    **op = (yk_tr_op){.from = peer, .tag = tag, .bytes = to->bytes, .data = to->data};
    return YK_OK;
}

static yk_status mem_test(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    struct yk_tr *from = &end[op->from];
    (void)t;
    (void)error;
    *done = op->is_send;
    for (uint32_t i = 0; i < from->n && !*done; i++) {
        letter *l = from->line[i];
        if (l->tag != op->tag)
            continue;
        memcpy(op->data, l->data, l->bytes < op->bytes ? l->bytes : op->bytes);
        if (bytes)
            *bytes = l->bytes;
        memmove(&from->line[i], &from->line[i + 1], (from->n - i - 1) * sizeof *from->line);
        from->n--;
        free(l);
        *done = 1;
    }
    if (*done)
        free(op);
    return YK_OK;
}

static void mem_cancel(yk_tr *t, yk_tr_op *op)
{
    (void)t;
    free(op);
}

static const yk_transport table = {.name = "memory", .send = mem_send, .recv = mem_recv, .test = mem_test, .cancel = mem_cancel};

/* ---- Two ranks ---------------------------------------------------------------------------------------------------- */

static void ranks_begin(void)
{
    yk_tr_error error;
    fault_now = NONE;
    now = yk__clock_ms(); /* a receive reads the real clock when it begins */
    for (uint32_t r = 0; r < 2; r++) {
        const yk__sealed_config c = {.table = &table, .tr = &end[r], .rank = r, .ranks = 2, .question_tag = QUESTIONS, .lost_ms = 4000};
        end[r] = (struct yk_tr){.rank = r};
        ck_assert_int_eq(yk__sealed_new(&c, &sealed[r], &error), YK_OK);
    }
}

static void ranks_finish(void)
{
    for (uint32_t r = 0; r < 2; r++) {
        yk__sealed_free(sealed[r]);
        while (end[r].n)
            free(end[r].line[--end[r].n]);
    }
}

static void send_text(uint64_t tag, const char *text)
{
    yk_tr_error error;
    yk_tr_op *op = NULL;
    int done = 0;
    const yk_tr_range range = {.data = (char *)(uintptr_t)text, .bytes = strlen(text)};
    ck_assert_int_eq(yk__sealed_send(sealed[0], 1, tag, &range, &op, &error), YK_OK);
    ck_assert_int_eq(yk__sealed_test(sealed[0], op, &done, NULL, &error), YK_OK);
    ck_assert_int_eq(done, 1);
}

static yk_tr_op *recv_begin(uint64_t tag, char *text, size_t size)
{
    yk_tr_error error;
    yk_tr_op *op = NULL;
    const yk_tr_range range = {.data = text, .bytes = size};
    memset(text, 0, size);
    ck_assert_int_eq(yk__sealed_recv(sealed[1], 0, tag, &range, &op, &error), YK_OK);
    return op;
}

/* Receives a text of that tag; `error` has the reason of a failure. */
static yk_status recv_text(uint64_t tag, char text[100], yk_tr_error *error)
{
    yk_tr_op *op = recv_begin(tag, text, 99);
    uint64_t bytes = 0;
    int done = 0;
    const yk_status s = yk__sealed_test(sealed[1], op, &done, &bytes, error);
    ck_assert_int_eq(done, 1);
    if (!s)
        ck_assert_uint_eq(bytes, strlen(text));
    return s;
}

/* Lets so many ms pass for both ranks, of which rank 1 waits. */
static yk_status pass_time(int64_t ms, yk_tr_error *error)
{
    yk_status s = YK_OK;
    for (int64_t until = now + ms; now < until && !s; now += 20) {
        yk__sealed_serve(sealed[0], now);
        yk__sealed_serve(sealed[1], now);
        s = yk__sealed_look(sealed[1], now, error);
    }
    return s;
}

/* ---- Tests ---------------------------------------------------------------------------------------------------------- */

START_TEST(test_checksums)
{
    static uint8_t data[4096];
    uint32_t whole;
    ck_assert_uint_eq(yk__crc32c(0, "123456789", 9), 0xe3069283u); /* the check value of CRC-32C */
    ck_assert_uint_eq(yk__crc32c(yk__crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t n = 0; n < 200; n++)
        ck_assert_uint_eq(yk__crc32c_thirds(false, 5, data + n % 8, n), yk__crc32c_thirds(true, 5, data + n % 8, n));
    whole = yk__crc32c_thirds(false, 0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit += 13) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_uint_ne(yk__crc32c_thirds(false, 0, data, sizeof data), whole);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
END_TEST

/* A file's writers know their own parts alone. */
START_TEST(a_whole_has_the_checksum_of_its_parts_in_any_order)
{
    static uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    for (size_t a = 0; a < sizeof data; a += 313)
        for (size_t b = a; b <= sizeof data; b += 977) {
            uint32_t parts = yk__crc32c_part(data + b, sizeof data - b, 0);
            parts ^= yk__crc32c_part(data, a, sizeof data - a);
            parts ^= yk__crc32c_part(data + a, b - a, sizeof data - b);
            ck_assert_uint_eq(yk__crc32c_whole(parts, sizeof data), yk__crc32c(0, data, sizeof data));
        }
    ck_assert_uint_eq(yk__crc32c_whole(0, 0), 0);
}
END_TEST

START_TEST(test_sound)
{
    yk_tr_error error = {""};
    char text[100];
    for (int i = 0; i < 3000; i++) {
        char want[32];
        snprintf(want, sizeof want, "text %d", i);
        send_text((uint64_t)(i % 7 ? i : 3), want);
        ck_assert_msg(recv_text((uint64_t)(i % 7 ? i : 3), text, &error) == YK_OK, "%s", error.text);
        ck_assert_str_eq(text, want);
    }
    send_text(1, "late");
    send_text(2, "early");
    send_text(3, "");
    ck_assert_int_eq(recv_text(3, text, &error), YK_OK);
    ck_assert_int_eq(recv_text(2, text, &error), YK_OK);
    ck_assert_str_eq(text, "early");
    ck_assert_int_eq(recv_text(1, text, &error), YK_OK);
    ck_assert_str_eq(text, "late");
}
END_TEST

static const struct {
    fault fault;
    const char *words;
} spoiled[] = {{FLIP, "message 2 of rank 0 (6 bytes) came with other bytes than were sent"},
               {FLIP_HEAD, "of rank 0 (6 bytes) came with other bytes than were sent"},
               {CUT, "a message of rank 0 came without a whole head"},
               {OTHER_TAG, "message 2 of rank 0 came with tag 8 to a receive of tag 9"}};

START_TEST(test_spoiled)
{
    yk_tr_error error = {""};
    char text[100];
    send_text(8, "before");
    ck_assert_int_eq(recv_text(8, text, &error), YK_OK);
    fault_now = spoiled[_i].fault;
    send_text(8, "second");
    ck_assert_int_eq(recv_text(fault_now == OTHER_TAG ? 9 : 8, text, &error), YK_E_IO);
    ck_assert_msg(strstr(error.text, spoiled[_i].words) != NULL, "%s", error.text);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(test_doubled)
{
    yk_tr_error error = {""};
    char text[100];
    fault_now = DOUBLE;
    send_text(8, "once");
    fault_now = NONE;
    send_text(8, "next");
    ck_assert_int_eq(recv_text(8, text, &error), YK_OK);
    ck_assert_int_eq(recv_text(8, text, &error), YK_E_IO);
    ck_assert_msg(strstr(error.text, "message 1 of rank 0 came twice") != NULL, "%s", error.text);
}
END_TEST

START_TEST(test_swapped)
{
    yk_tr_error error = {""};
    char text[100];
    send_text(8, "first");
    fault_now = SWAP;
    send_text(8, "second");
    ck_assert_int_eq(recv_text(8, text, &error), YK_E_IO);
    ck_assert_msg(strstr(error.text, "message 2 of rank 0 came, and message 1 before it on its tag did not") != NULL, "%s", error.text);
}
END_TEST

/* The sender has sent it: lost after four seconds of silence, at most a second later. */
START_TEST(test_lost)
{
    yk_tr_error error = {""};
    char text[100], other[100];
    yk_tr_op *op;
    fault_now = LOSE;
    send_text(8, "lost");
    fault_now = NONE;
    op = recv_begin(8, text, 99);
    send_text(9, "other");
    ck_assert_int_eq(recv_text(9, other, &error), YK_OK);
    ck_assert_int_eq(pass_time(4000, &error), YK_OK);
    ck_assert_int_eq(pass_time(1000, &error), YK_E_IO);
    ck_assert_msg(strstr(error.text, "message 1 of rank 0 to rank 1") && strstr(error.text, "is lost"), "%s", error.text);
    yk__sealed_cancel(sealed[1], op);
}
END_TEST

/* A message that nobody has sent yet is not lost, however long it takes; nor is anything while questions get lost. */
START_TEST(test_patient)
{
    yk_tr_error error = {""};
    char text[100];
    int done = 0;
    yk_tr_op *op = recv_begin(8, text, 99);
    ck_assert_msg(pass_time(60000, &error) == YK_OK, "%s", error.text);
    ck_assert(!yk__sealed_moved(sealed[1]));
    fault_now = LOSE_ALL_QUESTIONS;
    send_text(8, "at last");
    ck_assert_msg(pass_time(60000, &error) == YK_OK, "%s", error.text);
    ck_assert_int_eq(yk__sealed_test(sealed[1], op, &done, NULL, &error), YK_OK);
    ck_assert_int_eq(done, 1);
    ck_assert_str_eq(text, "at last");
    ck_assert(yk__sealed_moved(sealed[1]));
}
END_TEST

/* A question that got lost is asked again. */
START_TEST(test_asked_again)
{
    yk_tr_error error = {""};
    char text[100];
    yk_tr_op *op;
    fault_now = LOSE;
    send_text(8, "lost");
    op = recv_begin(8, text, 99);
    fault_now = LOSE_ALL_QUESTIONS;
    ck_assert_int_eq(pass_time(1000, &error), YK_OK);
    fault_now = NONE;
    ck_assert_int_eq(pass_time(8000, &error), YK_E_IO);
    yk__sealed_cancel(sealed[1], op);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("sealed");
    tcase_add_checked_fixture(t, ranks_begin, ranks_finish);
    tcase_add_test(t, test_checksums);
    tcase_add_test(t, a_whole_has_the_checksum_of_its_parts_in_any_order);
    tcase_add_test(t, test_sound);
    tcase_add_loop_test(t, test_spoiled, 0, sizeof spoiled / sizeof *spoiled);
    tcase_add_test(t, test_doubled);
    tcase_add_test(t, test_swapped);
    tcase_add_test(t, test_lost);
    tcase_add_test(t, test_patient);
    tcase_add_test(t, test_asked_again);
    return suite_run("sealed", t);
}
