/* SPDX-License-Identifier: Apache-2.0 */
/* Tagged messages between processes, over each transport: the same cases, the same results. */
#include "config.h"

#include "tests/support/ranks.h"

#include <check.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "core/coll/shm/shm.h"
#include "tests/support/loopback.h"
#include "tests/support/run.h"
#include "tests/support/sanitize.h"
#include "transport/local/local.h"
#include "transport/sock/sock.h"

enum { MESSAGES = 24, TAGS = 5 };

static const yk_transport *table;
static yk_tr *tr;
static yk__control *control;
static uint32_t rank, ranks;

static int report_wrong(const char *what, yk_status s, const yk_tr_error *why)
{
    yk_error err;
    yk__fail(&err, YK_E_INTERNAL, "%s: %s %s", what, yk__status_name(s), s ? why->text : "");
    yk__group_report(&err);
    return 1;
}

static yk_status send_bytes(uint32_t to, uint64_t tag, const void *data, uint64_t n, yk_tr_op **op, yk_tr_error *why)
{
    return table->send(tr, to, tag, &(yk_tr_range){.data = (void *)(uintptr_t)data, .bytes = n}, op, why);
}

static yk_status recv_bytes(uint32_t from, uint64_t tag, void *data, uint64_t capacity, yk_tr_op **op, yk_tr_error *why)
{
    return table->recv(tr, from, tag, &(yk_tr_range){.data = data, .bytes = capacity}, op, why);
}

/* Until it is done, and releases it. */
static yk_status wait_op(yk_tr_op *op, uint64_t *bytes, yk_tr_error *why)
{
    uint32_t index;
    int done = 0;
    yk_status s = table->wait_any(tr, &op, 1, -1, &index, why);
    if (!s)
        s = table->test(tr, op, &done, bytes, why);
    return s;
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

static unsigned char contents[1500000]; /* of one message: what goes to the transport and what comes is copied and compared as a whole */

TEST_LONE_LOOPS static void contents_make(uint32_t from, uint32_t to, uint32_t k, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        contents[i] = (unsigned char)(from * 17 + to * 5 + k * 3 + i * 7 + i / 251);
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
        l[k].n = length_of(rank, to, k);
        l[k].data = malloc(l[k].n + 1);
        contents_make(rank, to, k, l[k].n);
        memcpy(l[k].data, contents, l[k].n);
        s = send_bytes(to, tag_of(rank, to, k), l[k].data, l[k].n, &l[k].op, &why);
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
            uint64_t n = length_of(from, rank, k), got = 0;
            unsigned char *data;
            yk_tr_op *op;
            yk_status s;
            if (tag_of(from, rank, k) != tag)
                continue;
            data = malloc(n + 10);
            s = recv_bytes(from, tag, data, n + 10, &op, &why);
            if (!s)
                s = wait_op(op, &got, &why);
            if (s || got != n)
                return report_wrong("receive", s, &why);
            contents_make(from, rank, k, n);
            if (memcmp(data, contents, n))
                return report_wrong("contents", s, &why);
            free(data);
        }
    return 0;
}

static int case_all_to_all(void)
{
    letter l[8][MESSAGES];
    yk_tr_error why;
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank && post_sends(l[r], r))
            return 1;
    for (uint32_t r = 0; r < ranks; r++)
        if (r != rank && receive_all(r))
            return 1;
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t k = 0; r != rank && k < MESSAGES; k++) {
            yk_status s = wait_op(l[r][k].op, NULL, &why);
            if (s)
                return report_wrong("end of a send", s, &why);
            free(l[r][k].data);
        }
    return 0;
}

static int sync_ranks(void)
{
    yk_error err = YK_ERROR_INIT;
    char none = 0, all[8];
    yk_tr_error why = {""};
    return yk__control_exchange(control, "test", &none, 1, all, &err) ? report_wrong("exchange", err.status, &why) : 0;
}

/* Nothing comes for that tag. */
static int expect_nothing(uint32_t from, uint64_t tag)
{
    unsigned char data;
    yk_tr_op *op = NULL;
    yk_tr_error why = {""};
    uint64_t events = 0;
    uint32_t index;
    yk_status s = recv_bytes(from, tag, &data, 1, &op, &why);
    for (int i = 0; i < 50 && !s; i++)
        s = table->progress(tr, 0, &events, &why);
    if (!s)
        s = table->wait_any(tr, &op, 1, 20, &index, &why);
    if (s != YK_E_TIMEOUT)
        return report_wrong("waiting for nothing", s, &why);
    table->cancel(tr, op);
    return 0;
}

/* A long message that nobody has asked for lets others pass, short ones and long ones. */
static int case_long(void)
{
    const uint64_t n = (TEST_UNDER_TSAN || TEST_UNDER_ASAN ? 12u : 40u) << 20; /* more than sockets and rings hold */
    unsigned char *one = malloc(n), *two = malloc(n), three = 3;
    yk_tr_op *op[3] = {NULL};
    yk_tr_error why = {""};
    uint64_t got = 0;
    yk_status s;
    memset(one, rank ? 0 : 1, n);
    memset(two, rank ? 0 : 2, n);
    if (rank == 0) {
        s = send_bytes(1, 1, one, n, &op[0], &why);
        if (!s)
            s = send_bytes(1, 2, two, n, &op[1], &why);
        if (!s)
            s = send_bytes(1, 3, &three, 1, &op[2], &why);
        for (int i = 0; i < 3 && !s; i++)
            s = wait_op(op[i], NULL, &why);
    } else {
        three = 0;
        if (expect_nothing(0, 4))
            return 1;
        s = recv_bytes(0, 3, &three, 1, &op[2], &why);
        if (!s)
            s = wait_op(op[2], &got, &why);
        if (!s)
            s = recv_bytes(0, 2, two, n, &op[1], &why);
        if (!s)
            s = wait_op(op[1], &got, &why);
        if (!s)
            s = recv_bytes(0, 1, one, n, &op[0], &why);
        if (!s)
            s = wait_op(op[0], &got, &why);
    }
    if (s || three != 3 || one[0] != 1 || one[n - 1] != 1 || two[0] != 2 || two[n - 1] != 2)
        return report_wrong("long messages", s, &why);
    free(one);
    free(two);
    return 0;
}

static int move_some(void)
{
    yk_tr_error why = {""};
    uint64_t events = 0;
    yk_status s = YK_OK;
    for (int i = 0; i < 3 && !s; i++)
        s = table->progress(tr, 0, &events, &why);
    return s ? report_wrong("progress", s, &why) : 0;
}

/* Sends that are given up, one before it is asked for and one half way; the next message with that tag arrives whole. */
static int case_cancel(void)
{
    static unsigned char large[4 << 20], small[10] = "abcdefghi";
    uint64_t got = 0;
    yk_tr_op *op = NULL, *next = NULL;
    yk_tr_error why = {""};
    yk_status s = YK_OK;
    for (int turn = 0; turn < 2; turn++) {
        if (rank == 0 && send_bytes(1, 7, large, sizeof large, &op, &why))
            return report_wrong("send", s, &why);
        if (rank == 1 && turn == 1 && recv_bytes(0, 7, large, sizeof large, &op, &why))
            return report_wrong("receive", s, &why);
        for (int i = 0; i < 3 * turn; i++) /* it is asked for, and begins to come */
            if (((int)rank == i % 2 && move_some()) || sync_ranks())
                return 1;
        if (rank == 0)
            table->cancel(tr, op);
        if (sync_ranks())
            return 1;
    }
    if (rank == 0) {
        s = send_bytes(1, 7, small, sizeof small, &next, &why);
        if (!s)
            s = wait_op(next, NULL, &why);
        return s ? report_wrong("send after a cancelled one", s, &why) : sync_ranks();
    }
    s = wait_op(op, &got, &why);
    if (s || got != sizeof small || memcmp(large, small, sizeof small))
        return report_wrong("receive after a cancelled send", s, &why);
    return sync_ranks();
}

/* Two messages of one tag, long or short, of which the first is given up once it is asked for: the receive gets the second one. */
static int revoke_first(uint64_t bytes)
{
    static unsigned char first[16 << 20], second[100000], data[16 << 20]; /* more than sockets hold, so that it does not leave as a whole */
    uint64_t got = 0;
    yk_tr_op *op = NULL, *next = NULL;
    yk_tr_error why = {""};
    yk_status s = YK_OK;
    memset(second, 2, sizeof second);
    memset(data, 0, bytes);
    if (rank == 1)
        s = recv_bytes(0, 7, data, sizeof data, &op, &why);
    if (rank == 0)
        s = send_bytes(1, 7, first, sizeof first, &op, &why);
    if (!s && rank == 0)
        s = send_bytes(1, 7, second, bytes, &next, &why);
    if (s)
        return report_wrong("two messages", s, &why);
    for (uint32_t i = 0; i < 2; i++) /* rank 0 announces both, rank 1 asks for one */
        if ((rank == i && move_some()) || sync_ranks())
            return 1;
    if (rank == 0)
        table->cancel(tr, op);
    if (rank == 0 && move_some())
        return 1;
    s = wait_op(rank ? op : next, &got, &why);
    if (s || (rank && (got != bytes || memcmp(data, second, bytes))))
        return report_wrong("a message behind one that is given up", s, &why);
    return sync_ranks();
}

static int case_revoked(void)
{
    if (!strcmp(table->name, "loopback")) /* sends before it is asked to: nothing is left to be given up */
        return 0;
    return revoke_first(100000) || revoke_first(10);
}

static int case_capacity(void)
{
    unsigned char data[64] = {0};
    yk_tr_op *op;
    yk_tr_error why = {""};
    yk_status s;
    if (send_bytes(rank, 0, data, 1, &op, &why) != YK_E_ARG || send_bytes(99, 0, data, 1, &op, &why) != YK_E_ARG ||
        recv_bytes(99, 0, data, 1, &op, &why) != YK_E_ARG)
        return report_wrong("bad arguments", YK_OK, &why);
    if (rank == 0) {
        s = send_bytes(1, 3, data, 64, &op, &why);
        if (!s)
            s = wait_op(op, NULL, &why);
        return s ? report_wrong("send", s, &why) : sync_ranks();
    }
    s = recv_bytes(0, 3, data, 63, &op, &why);
    if (!s)
        s = wait_op(op, NULL, &why);
    if (s != YK_E_ARG || !strstr(why.text, "64 bytes") || !strstr(why.text, "buffer holds 63"))
        return report_wrong("too small a buffer", s, &why);
    return sync_ranks();
}

/* Sends that are done before one end closes still arrive. */
static int case_left(void)
{
    unsigned char c = 42, got = 0;
    yk_tr_op *op;
    yk_tr_error why = {""};
    yk_status s;
    if (rank == 0) {
        s = send_bytes(1, 3, &c, 1, &op, &why);
        if (!s)
            s = wait_op(op, NULL, &why);
        return s ? report_wrong("send", s, &why) : 0;
    }
    usleep(100000);
    s = recv_bytes(0, 3, &got, 1, &op, &why);
    if (!s)
        s = wait_op(op, NULL, &why);
    return s || got != 42 ? report_wrong("the last message", s, &why) : 0;
}

/* Registered memory: sent from and received into by range; beyond it is an error. */
static int case_registered(void)
{
    static unsigned char data[300000];
    const yk_tr_mem_source source = {.size = sizeof source, .kind = YK_TR_MEM_HOST, .data = data, .bytes = sizeof data};
    yk_tr_range range = {.offset = 1000, .bytes = 200000}, beyond = {.offset = 200000, .bytes = 200000};
    yk_tr_error why = {""};
    yk_tr_op *op = NULL;
    yk_tr_mem *mem = NULL;
    yk_status s = table->mem_register(tr, &source, &mem, &why);
    if (s)
        return report_wrong("registering", s, &why);
    range.mem = beyond.mem = mem;
    memset(data, rank ? 0 : 9, sizeof data);
    if (table->send(tr, 1 - rank, 1, &beyond, &op, &why) != YK_E_ARG)
        return report_wrong("beyond registered memory", YK_OK, &why);
    s = rank ? table->recv(tr, 0, 5, &range, &op, &why) : table->send(tr, 1, 5, &range, &op, &why);
    if (!s)
        s = wait_op(op, NULL, &why);
    for (uint32_t i = 0; rank && i < sizeof data; i++)
        if (data[i] != (i >= 1000 && i < 201000 ? 9 : 0))
            return report_wrong("contents", s, &why);
    table->mem_release(tr, mem);
    return s ? report_wrong("a registered range", s, &why) : sync_ranks();
}

/* Writes into the peer's memory; the notice comes when all of it is there. */
static int case_put(void)
{
    static unsigned char data[100000], key[2][YK_TR_KEY_BYTES];
    const yk_tr_mem_source source = {.size = sizeof source, .kind = YK_TR_MEM_HOST, .data = data, .bytes = sizeof data};
    const yk_tr_range from = {.data = data, .bytes = 50000};
    uint32_t bytes = YK_TR_KEY_BYTES;
    uint64_t count = 0, events = 0;
    yk_tr_mem *mem = NULL, *theirs = NULL;
    yk_tr_peer peer = {.size = sizeof peer};
    yk_tr_error why = {""};
    yk_error err = YK_ERROR_INIT;
    yk_tr_op *op = NULL;
    yk_status s = table->peer(tr, 1 - rank, &peer, &why);
    if (s || (peer.caps & YK_TR_CAP_PUT) == 0)
        return s || table->put ? report_wrong("capabilities", s, &why) : 0; /* the local transport has no puts */
    memset(data, rank ? 0 : 9, sizeof data);
    s = table->mem_register(tr, &source, &mem, &why);
    if (!s)
        s = table->mem_key(tr, mem, key[rank], &bytes, &why);
    if (!s)
        s = yk__control_exchange(control, "keys", key[rank], YK_TR_KEY_BYTES, key, &err);
    if (rank == 0) {
        if (!s)
            s = table->mem_import(tr, 1, key[1], bytes, &theirs, &why);
        if (!s)
            s = table->put(tr, &from, theirs, 40000, 7, &op, &why);
        if (!s)
            s = wait_op(op, NULL, &why);
        table->mem_release(tr, theirs);
    }
    while (rank && !s && !count) {
        s = table->progress(tr, 10, &events, &why);
        if (!s)
            s = table->notices(tr, 0, 7, &count, &why);
    }
    for (uint32_t i = 0; rank && i < sizeof data; i++)
        if (data[i] != (i >= 40000 && i < 90000 ? 9 : 0))
            return report_wrong("contents of a put", s, &why);
    table->mem_release(tr, mem);
    return s ? report_wrong("a put", s, &why) : sync_ranks();
}

static const struct {
    const char *name;
    uint32_t ranks;
    int (*run)(void);
} cases[] = {
    {"all-to-all", 2, case_all_to_all}, {"all-to-all", 5, case_all_to_all}, {"long", 2, case_long},
    {"cancel", 2, case_cancel},         {"capacity", 2, case_capacity},     {"left", 2, case_left},
    {"registered", 2, case_registered}, {"put", 2, case_put},           {"revoked", 2, case_revoked},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static const struct {
    const char *name;
    const yk_transport *(*table)(void);
} transports[] = {
    {"local", yk__local_transport},
    {"loopback", loopback_transport},
#ifdef HAVE_SODIUM
    {"sock", yk__sock_transport},
#endif
};
#define TRANSPORTS ((int)(sizeof transports / sizeof *transports))

static yk_status exchange_blobs(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    yk_error err = YK_ERROR_INIT;
    (void)error;
    return yk__control_exchange(arg, "addresses", own, bytes, all, &err);
}

static yk_status open_transport(yk__shm *shm, yk_tr_error *why)
{
    static uint64_t host[8];
    yk_tr_config c = {.size = sizeof c, .rank = rank, .ranks = ranks, .host = host, .name = "test", .exchange = exchange_blobs,
                      .exchange_arg = control, .secret = yk__control_secret(control), .secret_bytes = YK__CONTROL_SECRET};
    yk_error err = YK_ERROR_INIT;
    for (uint32_t r = 0; r < ranks; r++)
        host[r] = yk__control_host(control, r);
    if (table->shared_bytes(ranks) && yk__shm_alloc(shm, "messages", table->shared_bytes(ranks), &c.shared, &err))
        return err.status;
    return table->open(&c, &tr, why);
}

static int as_rank(const char *what, const char *transport)
{
    const yk__control_config config = {.job_fd = atoi(getenv("YOKE_JOB_FD")), .liveness_ms = 1300, .join_ms = 10000};
    yk_error err = YK_ERROR_INIT;
    yk_tr_error why = {""};
    yk__shm *shm = NULL;
    yk_status s;
    int bad = 1;
    for (int i = 0; i < TRANSPORTS; i++)
        if (!strcmp(transport, transports[i].name))
            table = transports[i].table();
    if (yk__control_join(&config, &control, &err) || yk__shm_attach(control, &shm, &err))
        return report_wrong(err.text, err.status, &why);
    rank = yk__control_rank(control);
    ranks = yk__control_size(control);
    s = open_transport(shm, &why);
    if (s)
        return report_wrong("open", s, &why);
    for (size_t i = 0; i < CASES; i++)
        if (!strcmp(cases[i].name, what)) {
            bad = cases[i].run();
            break;
        }
    table->close(tr);
    yk__shm_detach(shm);
    yk__control_leave(control);
    return bad;
}

START_TEST(messages_arrive_on_each_transport)
{
    const char *transport = transports[_i / CASES].name;
    const int i = _i % CASES;
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    yk_status s = ranks_start(cases[i].ranks, cases[i].name, transport, &code, &err);
    ck_assert_msg(!s && !code, "%s, %u ranks, %s: %s", cases[i].name, cases[i].ranks, transport, err.text);
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("message");
    tcase_add_loop_test(t, messages_arrive_on_each_transport, 0, TRANSPORTS * CASES);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("message", t);
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 2 ? as_rank(argv[1], argv[2]) : run_suite();
}
