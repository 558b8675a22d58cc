/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport's calls for the tests of yoke-cts --transport: every failure is reported in the transport's words, and every wait has an end.
 * The groups tr_*.c call it in each test rank, a forked process; two tests of tr_waits.c, `exchange` and `wait`, call it from a second
 * thread too.
 *
 * cts_tr_end releases the operation, by `test`; after a timeout or a failure of wait_any the operation stays.
 */
#include "config.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "tools/cts/tr.h"

enum { NOTHING_MS = 30 };

static yk_tr_op *op_begin(cts_tr *t, bool send, uint32_t peer, uint64_t tag, void *data, uint64_t bytes)
{
    const yk_tr_range range = {.data = data, .bytes = bytes};
    yk_tr_error error = {""};
    yk_tr_op *op = NULL;
    const yk_status s = send ? t->table->send(t->tr, peer, tag, &range, &op, &error)
                             : t->table->recv(t->tr, peer, tag, &range, &op, &error);
    if (!cts_tr_ok(t, s, &error, send ? "send" : "recv"))
        return NULL;
    if (!op)
        cts_tr_fail(t, "%s gives no operation", send ? "send" : "recv");
    return op;
}

yk_tr_op *cts_tr_send(cts_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes)
{
    return op_begin(t, true, peer, tag, (void *)(uintptr_t)data, bytes);
}

yk_tr_op *cts_tr_recv(cts_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t bytes)
{
    return op_begin(t, false, peer, tag, data, bytes);
}

bool cts_tr_end(cts_tr *t, yk_tr_op *op, uint64_t bytes)
{
    uint64_t moved = UINT64_MAX;
    uint32_t index = 99;
    yk_tr_error error = {""};
    int done = 0;
    yk_status s;
    if (!op)
        return false;
    s = t->table->wait_any(t->tr, &op, 1, t->limit_ms, &index, &error);
    if (s == YK_E_TIMEOUT)
        return cts_tr_late(t, "wait_any: %s", error.text);
    if (!cts_tr_ok(t, s, &error, "wait_any"))
        return false;
    if (index != 0)
        return cts_tr_fail(t, "wait_any of one operation: index %u", index);
    if (!cts_tr_ok(t, t->table->test(t->tr, op, &done, &moved, &error), &error, "test"))
        return false;
    if (!done)
        return cts_tr_fail(t, "wait_any names an operation that test says is not done");
    return moved == bytes || cts_tr_fail(t, "%llu bytes were moved, expected %llu", (unsigned long long)moved, (unsigned long long)bytes);
}

bool cts_tr_send_whole(cts_tr *t, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes)
{
    return cts_tr_end(t, cts_tr_send(t, peer, tag, data, bytes), bytes);
}

bool cts_tr_recv_whole(cts_tr *t, uint32_t peer, uint64_t tag, void *data, uint64_t bytes)
{
    return cts_tr_end(t, cts_tr_recv(t, peer, tag, data, bytes), bytes);
}

bool cts_tr_nothing(cts_tr *t, yk_tr_op *op)
{
    yk_tr_error error = {""};
    uint32_t index = 0;
    yk_status s;
    if (!op)
        return false;
    s = t->table->wait_any(t->tr, &op, 1, NOTHING_MS, &index, &error);
    return s ? cts_tr_refused(t, s, YK_E_TIMEOUT, &error, "waiting for nothing")
             : cts_tr_fail(t, "a receive is done that nobody has sent anything for");
}

bool cts_tr_move(cts_tr *t, int ms)
{
    const int64_t until = yk__clock_ms() + ms;
    uint64_t events = 0;
    yk_tr_error error = {""};
    bool good = true;
    while (good && yk__clock_ms() <= until)
        good = cts_tr_ok(t, t->table->progress(t->tr, 1, &events, &error), &error, "progress");
    return good;
}

static uint8_t byte_at(uint64_t number, uint64_t i)
{
    return (uint8_t)(number * 37 + i * 7 + i / 251 + i / 65521);
}

void cts_tr_fill(void *data, uint64_t bytes, uint64_t number)
{
    for (uint64_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = byte_at(number, i);
}

bool cts_tr_same(cts_tr *t, const void *data, uint64_t bytes, uint64_t number, const char *what)
{
    const uint8_t *at = data;
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != byte_at(number, i))
            return cts_tr_fail(t, "%s: byte %llu of %llu is %u, expected %u", what, (unsigned long long)i, (unsigned long long)bytes,
                               at[i], byte_at(number, i));
    return true;
}
