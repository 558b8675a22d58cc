/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts --transport, groups wait, threads, cancel and death: waits that end, from any thread, even if no message comes any more.
 * tr_groups.c lists them; each test runs in the ranks that tr_ranks.c forks.
 */
#include "config.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/tr.h"

enum { SHORT_MS = 40, LONG_BYTES = 4 << 20 };

/* ---- wait ---------------------------------------------------------------------------------------------------------------- */

/* Posts three receives; only the message of the second one comes. */
static bool wait_names_the_done(cts_tr *t)
{
    uint32_t data[5] = {0}, index = 99;
    yk_tr_op *op[5] = {NULL};
    yk_tr_error error = {""};
    if (t->rank == 0)
        return cts_tr_meet(t) && cts_tr_send_whole(t, 1, 12, data, 4) && cts_tr_meet(t) && cts_tr_send_whole(t, 1, 10, data, 4) &&
               cts_tr_send_whole(t, 1, 14, data, 4);
    for (uint32_t i = 0; i < 5; i += 2)
        if (!(op[i] = cts_tr_recv(t, 0, 10 + i, &data[i], 4)))
            return false;
    if (!cts_tr_meet(t) || !cts_tr_ok(t, t->table->wait_any(t->tr, op, 5, t->limit_ms, &index, &error), &error, "wait_any"))
        return false;
    if (index != 2)
        return cts_tr_fail(t, "wait_any names operation %u, expected 2", index);
    index = 99;
    if (!cts_tr_ok(t, t->table->wait_any(t->tr, op, 5, 0, &index, &error), &error, "wait_any once more") || index != 2)
        return cts_tr_fail(t, "wait_any once more: operation %u, expected 2", index);
    return cts_tr_end(t, op[2], 4) && cts_tr_meet(t) && cts_tr_end(t, op[0], 4) && cts_tr_end(t, op[4], 4);
}

static bool wait_times_out(cts_tr *t)
{
    uint8_t byte = 1;
    yk_tr_op *op = NULL;
    if (t->rank == 0)
        return cts_tr_meet(t) && cts_tr_send_whole(t, 1, 1, &byte, 1);
    for (int ms = 0; ms <= SHORT_MS; ms += SHORT_MS) {
        const int64_t begin = yk__clock_ms();
        yk_tr_error error = {""};
        uint32_t index = 0;
        if (!op && !(op = cts_tr_recv(t, 0, 1, &byte, 1)))
            return false;
        if (!cts_tr_refused(t, t->table->wait_any(t->tr, &op, 1, ms, &index, &error), YK_E_TIMEOUT, &error, "wait_any"))
            return false;
        if (yk__clock_ms() - begin < ms - 1 || yk__clock_ms() - begin > ms + t->limit_ms / 2)
            return cts_tr_fail(t, "wait_any took %lld ms, the limit was %d", (long long)(yk__clock_ms() - begin), ms);
    }
    return cts_tr_meet(t) && cts_tr_end(t, op, 1);
}

/* A thread that sleeps in progress while an operation ends wakes early. */
static bool wait_progress_wakes(cts_tr *t)
{
    uint8_t byte = 1;
    uint64_t events = 0;
    yk_tr_op *op;
    yk_tr_error error = {""};
    int done = 0;
    if (t->rank == 0) {
        usleep(SHORT_MS * 1000);
        return cts_tr_send_whole(t, 1, 1, &byte, 1);
    }
    if (!(op = cts_tr_recv(t, 0, 1, &byte, 1)) ||
        !cts_tr_ok(t, t->table->progress(t->tr, 0, &events, &error), &error, "progress"))
        return false;
    while (!done) {
        const int64_t begin = yk__clock_ms();
        if (!cts_tr_ok(t, t->table->test(t->tr, op, &done, NULL, &error), &error, "test"))
            return false;
        if (!done && !cts_tr_ok(t, t->table->progress(t->tr, t->limit_ms, &events, &error), &error, "progress"))
            return false;
        if (yk__clock_ms() - begin > t->limit_ms / 2)
            return cts_tr_fail(t, "progress slept for %lld ms while an operation was done", (long long)(yk__clock_ms() - begin));
    }
    return true;
}

/* A completion that only test found is counted. */
static bool wait_counts_events(cts_tr *t)
{
    uint8_t byte = 1;
    uint64_t before = 0, after;
    yk_tr_error error = {""};
    if (t->rank == 0)
        return cts_tr_send_whole(t, 1, 1, &byte, 1);
    if (!cts_tr_ok(t, t->table->progress(t->tr, 0, &before, &error), &error, "progress") || !cts_tr_recv_whole(t, 0, 1, &byte, 1))
        return false;
    after = before;
    if (!cts_tr_ok(t, t->table->progress(t->tr, t->limit_ms, &after, &error), &error, "progress"))
        return false;
    return after != before || cts_tr_fail(t, "an operation was done, and progress counts %llu events as before",
                                          (unsigned long long)after);
}

void cts_tr_group_wait(cts *c)
{
    cts_tr_run(c, "names_the_done", 2, CTS_TR_OPEN, wait_names_the_done);
    cts_tr_run(c, "times_out", 2, CTS_TR_OPEN, wait_times_out);
    cts_tr_run(c, "progress_wakes", 2, CTS_TR_OPEN, wait_progress_wakes);
    cts_tr_run(c, "counts_events", 2, CTS_TR_OPEN, wait_counts_events);
}

/* ---- threads ------------------------------------------------------------------------------------------------------------- */

typedef struct helper {
    cts_tr *t;
    uint32_t stop;   /* atomic */
    uint64_t tag;
    uint32_t rounds;
    bool good;
} helper;

static void *helper_move(void *arg)
{
    helper *h = arg;
    uint64_t events = 0;
    yk_tr_error error = {""};
    h->good = true;
    while (h->good && !__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE))
        h->good = cts_tr_ok(h->t, h->t->table->progress(h->t->tr, 5, &events, &error), &error, "progress of another thread");
    return NULL;
}

static bool rounds_exchange(cts_tr *t, uint64_t tag, uint32_t rounds)
{
    const uint64_t most = 90000;
    uint8_t *out = yk__malloc(most), *in = yk__malloc(most);
    bool good = (out && in) || cts_tr_fail(t, "out of memory");
    for (uint32_t i = 0; i < rounds && good; i++) {
        const uint64_t bytes = i % 5 == 4 ? most : 100 + i;
        yk_tr_op *sent;
        cts_tr_fill(out, bytes, tag + i + 100 * t->rank);
        sent = cts_tr_send(t, 1 - t->rank, tag, out, bytes);
        good = sent && cts_tr_recv_whole(t, 1 - t->rank, tag, in, bytes) && cts_tr_end(t, sent, bytes) &&
               cts_tr_same(t, in, bytes, tag + i + 100 * (1 - t->rank), "contents");
    }
    yk__free(out);
    yk__free(in);
    return good;
}

static void *helper_exchange(void *arg)
{
    helper *h = arg;
    h->good = rounds_exchange(h->t, h->tag, h->rounds);
    return NULL;
}

static bool threads_progress(cts_tr *t)
{
    helper h = {.t = t};
    pthread_t thread;
    bool good;
    if (pthread_create(&thread, NULL, helper_move, &h))
        return cts_tr_fail(t, "a thread could not be started");
    good = rounds_exchange(t, 50, 60);
    __atomic_store_n(&h.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    return good && h.good;
}

static bool threads_exchange(cts_tr *t)
{
    helper h = {.t = t, .tag = 1000, .rounds = 60};
    pthread_t thread;
    bool good;
    if (pthread_create(&thread, NULL, helper_exchange, &h))
        return cts_tr_fail(t, "a thread could not be started");
    good = rounds_exchange(t, 2000, 60);
    pthread_join(thread, NULL);
    return good && h.good;
}

static void *helper_wait(void *arg)
{
    helper *h = arg;
    uint8_t byte = 0;
    h->good = cts_tr_recv_whole(h->t, 0, h->tag, &byte, 1) && (byte == 9 || cts_tr_fail(h->t, "it got %u", byte));
    return NULL;
}

/* One thread waits, and another takes its message from the wire. */
static bool threads_wait(cts_tr *t)
{
    helper h = {.t = t, .tag = 77};
    const uint8_t nine = 9;
    pthread_t thread;
    bool good = true;
    if (t->rank == 0) {
        usleep(SHORT_MS * 500);
        return cts_tr_send_whole(t, 1, 77, &nine, 1);
    }
    if (pthread_create(&thread, NULL, helper_wait, &h))
        return cts_tr_fail(t, "a thread could not be started");
    good = cts_tr_move(t, 2 * SHORT_MS);
    pthread_join(thread, NULL);
    return good && h.good;
}

void cts_tr_group_threads(cts *c)
{
    cts_tr_run(c, "progress", 2, CTS_TR_OPEN, threads_progress);
    cts_tr_run(c, "exchange", 2, CTS_TR_OPEN, threads_exchange);
    cts_tr_run(c, "wait", 2, CTS_TR_OPEN, threads_wait);
}

/* ---- cancel -------------------------------------------------------------------------------------------------------------- */

typedef struct given_up {
    cts_tr *t;
    yk_tr_op *op;
} given_up;

static void *helper_cancel(void *arg)
{
    const given_up *g = arg;
    g->t->table->cancel(g->t->tr, g->op);
    return NULL;
}

/* Cancels in this thread, or in another one. */
static bool op_cancel(cts_tr *t, yk_tr_op *op, bool other)
{
    given_up g = {t, op};
    pthread_t thread;
    if (!other)
        helper_cancel(&g);
    else if (pthread_create(&thread, NULL, helper_cancel, &g))
        return cts_tr_fail(t, "no thread");
    else
        pthread_join(thread, NULL);
    return true;
}

/* A receive that is given up: the next one gets the message, and its bytes stay. */
static bool cancel_receive(cts_tr *t, uint64_t bytes, bool other)
{
    uint8_t *first = yk__malloc(bytes), *second = yk__malloc(bytes);
    bool good = (first && second) || cts_tr_fail(t, "out of memory");
    if (good && t->rank == 0) {
        cts_tr_fill(first, bytes, 5);
        good = cts_tr_meet(t) && cts_tr_send_whole(t, 1, 6, first, bytes);
    } else if (good) {
        yk_tr_op *op = cts_tr_recv(t, 0, 6, first, bytes);
        good = op && op_cancel(t, op, other);
        cts_tr_fill(first, bytes, 8);
        good = good && cts_tr_meet(t) && cts_tr_recv_whole(t, 0, 6, second, bytes) &&
               cts_tr_same(t, second, bytes, 5, "the next receive") &&
               cts_tr_same(t, first, bytes, 8, "the bytes of a receive that was given up");
    }
    yk__free(first);
    yk__free(second);
    return good;
}

static bool cancel_receive_short(cts_tr *t)
{
    return cancel_receive(t, 100, false);
}

static bool cancel_receive_long(cts_tr *t)
{
    return cancel_receive(t, 1000000, false);
}

static bool cancel_receive_thread(cts_tr *t)
{
    return cancel_receive(t, 1000000, true);
}

/* Rank 1's end of a cancelled send: it gets the whole message or nothing; then the next one. */
static bool cancelled_received(cts_tr *t, yk_tr_op *op, uint8_t *data)
{
    uint64_t moved = 0;
    uint32_t index = 0;
    yk_tr_error error = {""};
    int done = 0;
    if (!op || !cts_tr_ok(t, t->table->wait_any(t->tr, &op, 1, t->limit_ms, &index, &error), &error, "wait_any") ||
        !cts_tr_ok(t, t->table->test(t->tr, op, &done, &moved, &error), &error, "test"))
        return false;
    if (moved == LONG_BYTES && data[0] == 1) {
        for (uint32_t i = 0; i < LONG_BYTES; i++)
            if (data[i] != 1)
                return cts_tr_fail(t, "a message that was given up, and is said to be whole, is not: byte %u is %u", i, data[i]);
        return cts_tr_recv_whole(t, 0, 7, data, 10) && cts_tr_same(t, data, 10, 3, "the next message");
    }
    return (moved == 10 || cts_tr_fail(t, "%llu bytes were moved, expected 10", (unsigned long long)moved)) &&
           cts_tr_same(t, data, 10, 3, "the next message");
}

/* A send that is given up, before it is asked for or while it is sent: the next message with its tag arrives instead. */
static bool cancel_send(cts_tr *t, bool asked)
{
    uint8_t *data = yk__malloc(LONG_BYTES), small[10];
    yk_tr_op *op = NULL;
    bool good = data || cts_tr_fail(t, "out of memory");
    cts_tr_fill(small, sizeof small, 3);
    if (good && t->rank == 1 && asked)
        good = (op = cts_tr_recv(t, 0, 7, data, LONG_BYTES)) != NULL;
    if (good && t->rank == 0) {
        memset(data, 1, LONG_BYTES);
        good = (op = cts_tr_send(t, 1, 7, data, LONG_BYTES)) != NULL;
    }
    for (int i = 0; i < 2 && good && asked; i++) /* it begins to come */
        good = cts_tr_move(t, 0);
    if (good && t->rank == 0) {
        t->table->cancel(t->tr, op);
        memset(data, 2, LONG_BYTES);
    }
    good = good && cts_tr_meet(t);
    if (good && t->rank == 0)
        good = cts_tr_send_whole(t, 1, 7, small, sizeof small);
    if (good && t->rank == 1 && !asked)
        good = (op = cts_tr_recv(t, 0, 7, data, LONG_BYTES)) != NULL;
    if (good && t->rank == 1)
        good = cancelled_received(t, op, data);
    good = good && cts_tr_meet(t);
    yk__free(data);
    return good;
}

static bool cancel_send_unasked(cts_tr *t)
{
    return cancel_send(t, false);
}

static bool cancel_send_half(cts_tr *t)
{
    return cancel_send(t, true);
}

void cts_tr_group_cancel(cts *c)
{
    cts_tr_run(c, "receive", 2, CTS_TR_OPEN, cancel_receive_short);
    cts_tr_run(c, "long_receive", 2, CTS_TR_OPEN, cancel_receive_long);
    cts_tr_run(c, "thread", 2, CTS_TR_OPEN, cancel_receive_thread);
    cts_tr_run(c, "send", 2, CTS_TR_OPEN, cancel_send_unasked);
    cts_tr_run(c, "half_sent", 2, CTS_TR_OPEN, cancel_send_half);
}

/* ---- death --------------------------------------------------------------------------------------------------------------- */

/* An operation with the dead rank: not done, or failed with words that name it. Then it is given up. */
static bool op_is_over(cts_tr *t, yk_tr_op *op, bool send)
{
    yk_tr_error error = {""};
    uint32_t index = 0;
    int done = 0;
    yk_status s;
    if (!op)
        return true; /* the call failed: op_try has looked at it */
    s = t->table->wait_any(t->tr, &op, 1, 100, &index, &error);
    if (s == YK_OK)
        s = t->table->test(t->tr, op, &done, NULL, &error);
    if (!done)
        t->table->cancel(t->tr, op);
    if (s && s != YK_E_TIMEOUT && !strstr(error.text, "rank 1"))
        return cts_tr_fail(t, "rank 1 has died, and the error does not name it: %s", error.text);
    return s || send || cts_tr_fail(t, "a receive from a rank that has died and sent nothing is done");
}

static bool op_try(cts_tr *t, bool send, uint8_t *data, uint64_t bytes, yk_tr_op **op)
{
    const yk_tr_range range = {.data = data, .bytes = bytes};
    yk_tr_error error = {""};
    const yk_status s = send ? t->table->send(t->tr, 1, 3, &range, op, &error) : t->table->recv(t->tr, 1, 3, &range, op, &error);
    if (s)
        *op = NULL;
    return !s || strstr(error.text, "rank 1") || cts_tr_fail(t, "rank 1 has died, and the error does not name it: %s", error.text);
}

/* Sends and receives of a dying rank, begun before or after its death, end; living ranks still reach each other. */
static bool death_ends(cts_tr *t, bool before)
{
    const uint32_t other = 2 - t->rank;
    const int64_t begin = yk__clock_ms();
    uint8_t *data = yk__calloc(1, LONG_BYTES), byte = 7, *in = yk__malloc(LONG_BYTES);
    yk_tr_op *op[3] = {NULL};
    bool good = (data && in) || cts_tr_fail(t, "out of memory");
    if (!good || !cts_tr_meet(t))
        return false;
    if (t->rank == 1)
        cts_tr_die(t);
    good = (before || cts_tr_await_death(t, 1)) && op_try(t, false, in, LONG_BYTES, &op[0]) &&
           op_try(t, true, data, LONG_BYTES, &op[1]) && op_try(t, true, data, 10, &op[2]) && (!before || cts_tr_await_death(t, 1));
    for (uint32_t i = 0; i < 3 && good; i++)
        good = op_is_over(t, op[i], i > 0);
    good = good && (t->rank == 0 ? cts_tr_send_whole(t, other, 5, &byte, 1) && cts_tr_recv_whole(t, other, 5, &byte, 1)
                                 : cts_tr_recv_whole(t, other, 5, &byte, 1) && cts_tr_send_whole(t, other, 5, &byte, 1));
    if (!good)
        return false;
    cts_tr_close(t);
    yk__free(data);
    yk__free(in);
    return yk__clock_ms() - begin < t->limit_ms + 5000 || cts_tr_fail(t, "ending took %lld ms", (long long)(yk__clock_ms() - begin));
}

static bool death_while_they_wait(cts_tr *t)
{
    return death_ends(t, true);
}

static bool death_before_they_begin(cts_tr *t)
{
    return death_ends(t, false);
}

void cts_tr_group_death(cts *c)
{
    cts_tr_run(c, "while_they_wait", 3, CTS_TR_LOSES, death_while_they_wait);
    cts_tr_run(c, "before_they_begin", 3, CTS_TR_LOSES, death_before_they_begin);
}
