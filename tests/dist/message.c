/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged messages of the local transport between processes. */
#include "config.h"

#include "tests/dist/harness.h"

#include <check.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "transport/local/local.h"

enum { MESSAGES = 24, TAGS = 5 };

static const yk_transport *table;
static yk_tr *tr;
static yk_tr_info me = {.size = sizeof me};
static uint32_t work; /* what this rank says of its progress */

static int report_wrong(const char *what, yk_status s, const yk_tr_error *why)
{
    yk_error err;
    yk__fail(&err, YK_E_INTERNAL, "%s: %s %s", what, yk__status_name(s), s ? why->text : "");
    yk__launch_report(&err);
    return 1;
}

static uint32_t draw_number(uint32_t from, uint32_t to, uint32_t k, uint32_t what)
{
    uint32_t c[4] = {from, to, k, what}, key[2] = {1, 2}, out[4];
    yk__philox(c, key, out);
    return out[0];
}

/* Both ends know what message k from one rank to another looks like. */
static uint64_t length_of(uint32_t from, uint32_t to, uint32_t k)
{
    static const uint64_t most[] = {1, 100, 5000, 70000, 300000, 1500000};
    return draw_number(from, to, k, 0) % most[draw_number(from, to, k, 1) % 6];
}

static uint64_t tag_of(uint32_t from, uint32_t to, uint32_t k)
{
    return draw_number(from, to, k, 2) % TAGS;
}

static unsigned char byte_of(uint32_t from, uint32_t to, uint32_t k, uint64_t i)
{
    return (unsigned char)(from * 17 + to * 5 + k * 3 + i * 7 + i / 251);
}

typedef struct letter {
    yk_tr_op *op;
    unsigned char *data;
    uint64_t n;
} letter;

static int post_sends(letter *l, uint32_t to)
{
    yk_tr_error why;
    for (uint32_t k = 0; k < MESSAGES; k++) {
        yk_status s;
        l[k].n = length_of(me.rank, to, k);
        l[k].data = malloc(l[k].n + 1);
        for (uint64_t i = 0; i < l[k].n; i++)
            l[k].data[i] = byte_of(me.rank, to, k, i);
        s = table->send(tr, to, tag_of(me.rank, to, k), l[k].data, l[k].n, &l[k].op, &why);
        if (s)
            return report_wrong("send", s, &why);
    }
    return 0;
}

/* Tag by tag, so mostly not in the order they were sent. */
static int receive_all(uint32_t from)
{
    yk_tr_error why;
    for (uint64_t tag = TAGS; tag-- > 0;)
        for (uint32_t k = 0; k < MESSAGES; k++) {
            uint64_t n = length_of(from, me.rank, k), got = 0;
            unsigned char *data;
            yk_tr_op *op;
            yk_status s;
            if (tag_of(from, me.rank, k) != tag)
                continue;
            data = malloc(n + 10);
            s = table->recv(tr, from, tag, data, n + 10, &op, &why);
            s = s ? s : table->wait(tr, op, -1, &got, &why);
            if (s || got != n)
                return report_wrong("receive", s, &why);
            for (uint64_t i = 0; i < n; i++)
                if (data[i] != byte_of(from, me.rank, k, i))
                    return report_wrong("contents", s, &why);
            free(data);
        }
    return 0;
}

static int case_all_to_all(void)
{
    letter l[8][MESSAGES];
    yk_tr_error why;
    for (uint32_t r = 0; r < me.ranks; r++)
        if (r != me.rank && post_sends(l[r], r))
            return 1;
    for (uint32_t r = 0; r < me.ranks; r++)
        if (r != me.rank && receive_all(r))
            return 1;
    for (uint32_t r = 0; r < me.ranks; r++)
        for (uint32_t k = 0; r != me.rank && k < MESSAGES; k++) {
            yk_status s = table->wait(tr, l[r][k].op, -1, NULL, &why);
            if (s)
                return report_wrong("end of a send", s, &why);
            free(l[r][k].data);
        }
    return 0;
}

static int sync_ranks(uint32_t value)
{
    yk_tr_error why;
    yk_status s = table->flag_set(tr, 0, value);
    for (uint32_t r = 0; r < me.ranks && !s; r++)
        s = table->flag_wait(tr, r, 0, value, "test", &why);
    return s ? report_wrong("flags", s, &why) : 0;
}

/* A message longer than anything that is taken in early waits in the ring until it is asked for. */
static int case_long(void)
{
    uint64_t n = 40u << 20, got = 0;
    unsigned char *data = malloc(n);
    yk_tr_op *op, *first = NULL;
    yk_tr_error why;
    yk_status s;
    int i;
    memset(data, (int)me.rank + 1, n);
    if (me.rank == 0) {
        s = table->send(tr, 1, 1, data, n, &op, &why);
        s = s ? s : table->wait(tr, op, -1, NULL, &why);
        free(data);
        return s ? report_wrong("a long send", s, &why) : 0;
    }
    s = table->recv(tr, 0, 2, data, 1, &first, &why); /* another tag: nothing comes */
    for (i = 0; i < 50 && !s; i++)
        s = table->progress(tr, &why);
    s = s ? s : table->wait(tr, first, 20, NULL, &why);
    if (s != YK_E_TIMEOUT)
        return report_wrong("waiting for nothing", s, &why);
    table->cancel(tr, first);
    s = table->recv(tr, 0, 1, data, n, &op, &why);
    s = s ? s : table->wait(tr, op, -1, &got, &why);
    if (s || got != n || data[0] != 1 || data[n - 1] != 1)
        return report_wrong("a long receive", s, &why);
    free(data);
    return 0;
}

/* A send that is given up half way; the next message with that tag arrives whole. */
static int case_cancel(void)
{
    static unsigned char large[4 << 20], small[10] = "abcdefghi";
    uint64_t got = 0;
    yk_tr_op *op, *next;
    yk_tr_error why;
    yk_status s;
    if (me.rank == 0) {
        s = table->send(tr, 1, 7, large, sizeof large, &op, &why);
        s = s ? s : table->progress(tr, &why);
        table->cancel(tr, op);
        s = s ? s : table->send(tr, 1, 7, small, sizeof small, &next, &why);
        s = s ? s : table->wait(tr, next, -1, NULL, &why);
        return s ? report_wrong("send after a cancelled one", s, &why) : sync_ranks(1);
    }
    s = table->recv(tr, 0, 7, large, sizeof large, &op, &why);
    s = s ? s : table->wait(tr, op, -1, &got, &why);
    if (s || got != sizeof small || memcmp(large, small, sizeof small))
        return report_wrong("receive after a cancelled send", s, &why);
    return sync_ranks(1);
}

static int case_room(void)
{
    unsigned char data[64] = {0};
    yk_tr_op *op;
    yk_tr_error why;
    yk_status s;
    if (table->send(tr, me.rank, 0, data, 1, &op, &why) != YK_E_ARG ||
        table->send(tr, 99, 0, data, 1, &op, &why) != YK_E_ARG ||
        table->recv(tr, !me.rank, YK_TR_TAG_ANY, data, 1, &op, &why) != YK_E_ARG ||
        table->flag_set(tr, YK_TR_FLAGS, 1) != YK_E_ARG || table->flag_wait(tr, 9, 0, 1, "x", &why) != YK_E_ARG)
        return report_wrong("bad arguments", YK_OK, &why);
    if (me.rank == 0) {
        s = table->send(tr, 1, 3, data, 64, &op, &why);
        s = s ? s : table->wait(tr, op, -1, NULL, &why);
        return s ? report_wrong("send", s, &why) : sync_ranks(1);
    }
    s = table->recv(tr, 0, 3, data, 63, &op, &why);
    s = s ? s : table->wait(tr, op, -1, NULL, &why);
    if (s != YK_E_ARG || !strstr(why.text, "64 bytes") || !strstr(why.text, "room for 63"))
        return report_wrong("too little room", s, &why);
    return sync_ranks(1);
}

/* What was sent before goodbye still arrives; what was not ends the wait with the rank's name. */
static int case_left(void)
{
    unsigned char c = 42, got = 0;
    yk_tr_op *op;
    yk_tr_error why;
    yk_status s;
    if (me.rank == 0) {
        s = table->send(tr, 1, 3, &c, 1, &op, &why);
        s = s ? s : table->wait(tr, op, -1, NULL, &why);
        return s ? report_wrong("send", s, &why) : 0;
    }
    usleep(100000);
    s = table->recv(tr, 0, 3, &got, 1, &op, &why);
    s = s ? s : table->wait(tr, op, -1, NULL, &why);
    if (s || got != 42)
        return report_wrong("the last message", s, &why);
    s = table->recv(tr, 0, 3, &got, 1, &op, &why);
    s = s ? s : table->wait(tr, op, -1, NULL, &why);
    return s == YK_E_DEVICE_LOST && strstr(why.text, "rank 0 (opencl:0@0) left") ? 0
                                                                                 : report_wrong("a peer that left", s, &why);
}

/* Behind a message that is too long to be taken in early none is let: the send says so, instead of two programs that hang. */
static int case_behind(void)
{
    const uint64_t n = 32u << 20;
    unsigned char *data = calloc(1, n), two = 2;
    yk_tr_op *op = NULL, *next = NULL;
    yk_tr_error why = {""};
    yk_status s;
    if (me.rank == 0) {
        s = table->send(tr, 1, 1, data, n, &op, &why);
        if (s || table->send(tr, 1, 2, &two, 1, &next, &why) != YK_E_ARG || !strstr(why.text, "lets no other pass"))
            return report_wrong("a message behind a long one", s, &why);
        s = table->wait(tr, op, -1, NULL, &why);
        s = s ? s : table->send(tr, 1, 2, &two, 1, &next, &why);
    } else {
        s = table->recv(tr, 0, 1, data, n, &op, &why);
        s = s ? s : table->wait(tr, op, -1, NULL, &why);
        s = s ? s : table->recv(tr, 0, 2, &two, 1, &next, &why);
    }
    s = s ? s : table->wait(tr, next, -1, NULL, &why);
    free(data);
    return s ? report_wrong("a message after a long one", s, &why) : 0;
}

/* The longest that others may follow, received last. */
static int case_early(void)
{
    const uint64_t n = YK_TR_EARLY;
    unsigned char *data = calloc(1, n), two = 2;
    yk_tr_op *op = NULL, *next = NULL;
    yk_tr_error why = {""};
    const bool sends = me.rank == 0;
    yk_status s = sends ? table->send(tr, 1, 1, data, n, &op, &why) : table->recv(tr, 0, 2, &two, 1, &next, &why);
    if (sends)
        s = s ? s : table->send(tr, 1, 2, &two, 1, &next, &why);
    s = s ? s : table->wait(tr, next, -1, NULL, &why);
    if (!sends)
        s = s ? s : table->recv(tr, 0, 1, data, n, &op, &why);
    s = s ? s : table->wait(tr, op, -1, NULL, &why);
    free(data);
    return s ? report_wrong("an early message", s, &why) : 0;
}

/* More than any machine has: an error with its bytes, before anybody writes there. */
static int case_memory(void)
{
    yk_tr_error why;
    void *mem = NULL;
    return table->shared(tr, "gradients", 1ull << 45, &mem, &why) != YK_OK;
}

/* Ranks that wait for each other: no rank does anything. */
static int case_circle(void)
{
    yk_tr_error why;
    return table->flag_wait(tr, 1 - me.rank, me.rank, 1, me.rank ? "the parameter slices" : "a gradient bucket", &why) != YK_OK;
}

/* 0 waits for 1, which waits for 2, which sleeps: it is 2 that is named. */
static int case_chain(void)
{
    yk_tr_error why;
    if (me.rank < 2)
        return table->flag_wait(tr, me.rank + 1, 0, 1, "barrier", &why) != YK_OK;
    sleep(20);
    return 0;
}

/* A rank that the others wait for is at work in a way that the transport cannot see. */
static int case_busy(void)
{
    yk_tr_error why;
    for (int i = 0; me.rank == 1 && i < 12; i++) {
        __atomic_store_n(&work, (uint32_t)i + 1, __ATOMIC_RELAXED);
        usleep(100000);
    }
    return sync_ranks(1) || table->flag_wait(tr, 1 - me.rank, 0, 1, "test", &why);
}

static const struct {
    const char *name;
    uint32_t ranks;
    int (*run)(void);
    const char *words; /* in the error that ends the job; NULL: it ends well */
    uint32_t stuck_ms;
} cases[] = {
    {"all-to-all", 2, case_all_to_all, NULL, 0},
    {"all-to-all", 5, case_all_to_all, NULL, 0},
    {"long", 2, case_long, NULL, 0},
    {"behind", 2, case_behind, NULL, 0},
    {"early", 2, case_early, NULL, 0},
    {"cancel", 2, case_cancel, NULL, 0},
    {"room", 2, case_room, NULL, 0},
    {"left", 2, case_left, NULL, 0},
    {"memory", 2, case_memory, "35184372088832 bytes of shared memory for gradients: ", 0},
    {"circle", 2, case_circle, "the ranks' calls differ", 500},
    {"chain", 3, case_chain, "rank 2 (opencl:0@2) has made no progress for 0.5 s (YOKE_STUCK_MS) while rank ", 500},
    {"busy", 2, case_busy, NULL, 600},
};

static int as_rank(const char *what)
{
    yk_tr_config c = {.size = sizeof c, .job_fd = atoi(getenv("YOKE_JOB_FD")), .liveness_ms = 1300, .join_ms = 10000, .advance = &work};
    yk_tr_error why;
    yk_status s;
    int bad = 1;
    table = yk__local_transport();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, what))
            c.stuck_ms = cases[i].stuck_ms;
    s = table->open(&c, &tr, &why);
    if (s)
        return report_wrong("open", s, &why);
    table->info(tr, &me);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, what)) {
            bad = cases[i].run();
            break;
        }
    table->close(tr);
    return bad;
}

START_TEST(messages)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    yk_status s = harness_launch(cases[_i].ranks, cases[_i].name, NULL, &code, &err);
    if (cases[_i].words)
        ck_assert_msg(s && code == 1 && strstr(err.text, cases[_i].words), "%s: '%s'", cases[_i].name, err.text);
    else
        ck_assert_msg(!s && !code, "%s, %u ranks: %s", cases[_i].name, cases[_i].ranks, err.text);
}
END_TEST

static int run_suite(void)
{
    Suite *s = suite_create("message");
    TCase *t = tcase_create("message");
    SRunner *sr = srunner_create(s);
    tcase_add_loop_test(t, messages, 0, (int)(sizeof cases / sizeof *cases));
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    srunner_set_tap(sr, "-");
    srunner_run_all(sr, CK_SILENT);
    srunner_free(sr);
    return 0;
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 1 ? as_rank(argv[1]) : run_suite();
}
