/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts --transport, groups memory, put, arguments, close and leak: ownership and lifetimes of registered memory and operations.
 * tr_groups.c lists them; each test runs in the ranks that tr_ranks.c forks.
 */
#include "config.h"

#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "tools/cts/tr.h"

enum { BLOCK = 1 << 18, PART = 5000, NOTICES = 20 };

/* ---- memory -------------------------------------------------------------------------------------------------------------- */

static yk_tr_mem *memory_register(cts_tr *t, void *data, uint64_t bytes)
{
    const yk_tr_mem_source source = {.size = sizeof source, .kind = YK_TR_MEM_HOST, .data = data, .bytes = bytes};
    yk_tr_mem *mem = NULL;
    yk_tr_error error = {""};
    return cts_tr_ok(t, t->table->mem_register(t->tr, &source, &mem, &error), &error, "mem_register") ? mem : NULL;
}

static bool range_moves(cts_tr *t, yk_tr_mem *mem, uint64_t offset, uint64_t bytes)
{
    const yk_tr_range range = {.mem = mem, .offset = offset, .bytes = bytes};
    yk_tr_error error = {""};
    yk_tr_op *op = NULL;
    const yk_status s = t->rank ? t->table->recv(t->tr, 0, 2, &range, &op, &error) : t->table->send(t->tr, 1, 2, &range, &op, &error);
    return cts_tr_ok(t, s, &error, "a range of registered memory") && cts_tr_end(t, op, bytes);
}

static bool memory_ranges(cts_tr *t)
{
    static const uint64_t range[][2] = {{0, 100}, {PART, 7}, {PART, 100000}, {BLOCK - 1, 1}, {BLOCK, 0}, {0, BLOCK}};
    static uint8_t data[BLOCK];
    yk_tr_mem *mem = memory_register(t, data, sizeof data);
    for (uint32_t i = 0; i < sizeof range / sizeof *range; i++) {
        memset(data, 0xa5, sizeof data);
        if (t->rank == 0)
            cts_tr_fill(data + range[i][0], range[i][1], i);
        if (!mem || !range_moves(t, mem, range[i][0], range[i][1]) || !cts_tr_same(t, data + range[i][0], range[i][1], i, "a range"))
            return false;
        for (uint64_t k = 0; k < BLOCK; k++)
            if ((k < range[i][0] || k >= range[i][0] + range[i][1]) && data[k] != 0xa5)
                return cts_tr_fail(t, "byte %llu beside a range was written", (unsigned long long)k);
    }
    t->table->mem_release(t->tr, mem);
    return true;
}

/* A released block has no owner: another may use its address, with other bytes. */
static bool memory_released(cts_tr *t)
{
    uint8_t *block = NULL;
    for (uint32_t round = 0; round < 6; round++) {
        uint8_t *again = mmap(block, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (block ? MAP_FIXED : 0), -1, 0);
        yk_tr_mem *mem;
        if (again == MAP_FAILED)
            return cts_tr_fail(t, "no memory");
        block = again;
        if (!(mem = memory_register(t, block, BLOCK)))
            return false;
        if (t->rank == 0)
            cts_tr_fill(block, BLOCK, round);
        if (!range_moves(t, mem, 0, BLOCK) || !cts_tr_same(t, block, BLOCK, round, "a block at the address of an earlier one"))
            return false;
        t->table->mem_release(t->tr, mem);
        munmap(block, BLOCK);
    }
    return true;
}

static bool memory_refused(cts_tr *t)
{
    static uint8_t data[100];
    const yk_tr_mem_source kind = {.size = sizeof kind, .kind = 99, .data = data, .bytes = sizeof data};
    const yk_tr_mem_source dmabuf = {.size = sizeof dmabuf, .kind = YK_TR_MEM_DMABUF, .fd = -1, .bytes = sizeof data};
    yk_tr_mem *mem = memory_register(t, data, sizeof data), *none = NULL;
    yk_tr_range beyond = {.mem = mem, .offset = 60, .bytes = 41}, far = {.mem = mem, .offset = UINT64_MAX - 10, .bytes = 50};
    yk_tr_error error[6] = {{""}};
    yk_tr_op *op = NULL;
    const uint32_t peer = 1 - t->rank;
    yk_status s;
    if (!mem || !cts_tr_refused(t, t->table->mem_register(t->tr, &kind, &none, &error[0]), YK_E_ARG, &error[0], "memory of kind 99"))
        return false;
    s = t->table->mem_register(t->tr, &dmabuf, &none, &error[1]);
    return cts_tr_refused(t, s, s ? s : YK_E_ARG, &error[1], "a dma-buf that is none") &&
           cts_tr_refused(t, t->table->send(t->tr, peer, 1, &beyond, &op, &error[2]), YK_E_ARG, &error[2], "a send beyond the memory") &&
           cts_tr_refused(t, t->table->recv(t->tr, peer, 1, &beyond, &op, &error[3]), YK_E_ARG, &error[3], "a recv beyond the memory") &&
           cts_tr_refused(t, t->table->send(t->tr, peer, 1, &far, &op, &error[4]), YK_E_ARG, &error[4], "a send far beyond") &&
           cts_tr_refused(t, t->table->recv(t->tr, peer, 1, &far, &op, &error[5]), YK_E_ARG, &error[5], "a recv far beyond") &&
           (t->table->mem_release(t->tr, mem), true);
}

void cts_tr_group_memory(cts *c)
{
    cts_tr_run(c, "ranges", 2, CTS_TR_OPEN, memory_ranges);
    cts_tr_run(c, "released", 2, CTS_TR_OPEN, memory_released);
    cts_tr_run(c, "refused", 2, CTS_TR_OPEN, memory_refused);
}

/* ---- put ----------------------------------------------------------------------------------------------------------------- */

typedef struct exported {
    uint32_t bytes;
    uint8_t key[YK_TR_KEY_BYTES];
} exported;

/* Registers the rank's memory, and imports the other rank's. */
static bool memory_exchange(cts_tr *t, void *data, yk_tr_mem **own, yk_tr_mem **theirs)
{
    exported local = {.bytes = YK_TR_KEY_BYTES}, all[CTS_TR_RANKS];
    yk_tr_peer info = {.size = sizeof info};
    yk_tr_error error = {""};
    if (!cts_tr_ok(t, t->table->peer(t->tr, 1 - t->rank, &info, &error), &error, "peer"))
        return false;
    if (!(info.caps & YK_TR_CAP_PUT))
        return cts_tr_unsupported(t, "no one-sided writes (YK_TR_CAP_PUT)");
    *own = memory_register(t, data, BLOCK);
    return *own && cts_tr_ok(t, t->table->mem_key(t->tr, *own, local.key, &local.bytes, &error), &error, "mem_key") &&
           (local.bytes <= YK_TR_KEY_BYTES || cts_tr_fail(t, "a key of %u bytes", local.bytes)) &&
           cts_tr_exchange(t, &local, sizeof local, all) &&
           cts_tr_ok(t, t->table->mem_import(t->tr, 1 - t->rank, all[1 - t->rank].key, all[1 - t->rank].bytes, theirs, &error), &error,
                     "mem_import");
}

static bool notices_await(cts_tr *t, uint32_t notice, uint64_t expected)
{
    uint64_t count = 0, events = 0;
    yk_tr_error error = {""};
    for (int i = 0; i < t->limit_ms && count < expected; i++)
        if (!cts_tr_ok(t, t->table->progress(t->tr, 1, &events, &error), &error, "progress") ||
            !cts_tr_ok(t, t->table->notices(t->tr, 0, notice, &count, &error), &error, "notices"))
            return false;
    return count == expected || cts_tr_fail(t, "%llu puts with notice %u have arrived, expected %llu", (unsigned long long)count, notice,
                                            (unsigned long long)expected);
}

/* Each put is there when its notice is. */
static bool put_arrives(cts_tr *t)
{
    static uint8_t data[BLOCK], source[NOTICES][PART];
    yk_tr_mem *own = NULL, *theirs = NULL;
    yk_tr_op *op[NOTICES] = {NULL};
    yk_tr_error error = {""};
    if (!memory_exchange(t, data, &own, &theirs))
        return false;
    for (uint32_t i = 0; i < NOTICES && t->rank == 0; i++) {
        const yk_tr_range from = {.data = source[i], .bytes = PART - i};
        cts_tr_fill(source[i], PART, i);
        if (!cts_tr_ok(t, t->table->put(t->tr, &from, theirs, (uint64_t)i * PART, i % 3, &op[i], &error), &error, "put"))
            return false;
    }
    for (uint32_t i = 0; i < NOTICES && t->rank == 0; i++)
        if (!cts_tr_end(t, op[i], PART - i))
            return false;
    for (uint32_t n = 0; n < 3 && t->rank == 1; n++)
        if (!notices_await(t, n, (NOTICES - n + 2) / 3))
            return false;
    for (uint32_t i = 0; i < NOTICES && t->rank == 1; i++)
        if (!cts_tr_same(t, data + i * PART, PART - i, i, "a put") || data[i * PART + PART - 1] != (i ? 0 : data[PART - 1]))
            return cts_tr_fail(t, "put %u has written beside its place", i);
    if (!cts_tr_meet(t))
        return false;
    t->table->mem_release(t->tr, theirs);
    t->table->mem_release(t->tr, own);
    return true;
}

static bool put_refused(cts_tr *t)
{
    static uint8_t data[BLOCK];
    const yk_tr_range from = {.data = data, .bytes = 10};
    yk_tr_mem *own = NULL, *theirs = NULL, *none = NULL;
    yk_tr_op *op = NULL;
    yk_tr_error error[4] = {{""}};
    uint64_t count;
    uint32_t bytes = 0;
    if (!memory_exchange(t, data, &own, &theirs))
        return false;
    return cts_tr_refused(t, t->table->put(t->tr, &from, theirs, 0, YK_TR_NOTICES, &op, &error[0]), YK_E_ARG, &error[0],
                          "a put with notice 64") &&
           cts_tr_refused(t, t->table->notices(t->tr, 1 - t->rank, YK_TR_NOTICES, &count, &error[1]), YK_E_ARG, &error[1],
                          "the count of notice 64") &&
           cts_tr_refused(t, t->table->mem_key(t->tr, own, data, &bytes, &error[2]), YK_E_ARG, &error[2], "a key into no bytes") &&
           cts_tr_refused(t, t->table->mem_import(t->tr, 1 - t->rank, data, 0, &none, &error[3]), YK_E_ARG, &error[3], "an empty key") &&
           (t->table->mem_release(t->tr, theirs), t->table->mem_release(t->tr, own), true);
}

void cts_tr_group_put(cts *c)
{
    cts_tr_run(c, "arrives", 2, CTS_TR_OPEN, put_arrives);
    cts_tr_run(c, "refused", 2, CTS_TR_OPEN, put_refused);
}

/* ---- arguments ----------------------------------------------------------------------------------------------------------- */

static bool arguments_peers(cts_tr *t)
{
    uint8_t data[4] = {0};
    const uint32_t wrong[] = {t->rank, t->ranks, 99, UINT32_MAX};
    const yk_tr_range range = {.data = data, .bytes = sizeof data};
    yk_tr_peer info = {.size = sizeof info};
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        yk_tr_error error[3] = {{""}};
        yk_tr_op *op = NULL;
        if (!cts_tr_refused(t, t->table->send(t->tr, wrong[i], 1, &range, &op, &error[0]), YK_E_ARG, &error[0], "a send to a wrong rank") ||
            !cts_tr_refused(t, t->table->recv(t->tr, wrong[i], 1, &range, &op, &error[1]), YK_E_ARG, &error[1], "a recv of a wrong rank") ||
            (i > 0 && !cts_tr_refused(t, t->table->peer(t->tr, wrong[i], &info, &error[2]), YK_E_ARG, &error[2], "peer of a wrong rank")))
            return false;
    }
    return true;
}

/* A message longer than its receive: an error of that receive, with both numbers; the next message arrives. */
static bool message_too_long(cts_tr *t, uint64_t bytes, bool early)
{
    static uint8_t data[1 << 20], small[100];
    char number[24];
    yk_tr_op *op;
    yk_tr_error error = {""};
    uint32_t index;
    int done = 0;
    yk_status s;
    if (t->rank == 0) {
        op = early ? cts_tr_send(t, 1, 1, data, bytes) : NULL;
        return cts_tr_meet(t) && (op || (op = cts_tr_send(t, 1, 1, data, bytes))) && cts_tr_end(t, op, bytes) &&
               cts_tr_send_whole(t, 1, 1, data, 10);
    }
    memset(small, 7, sizeof small);
    op = early ? NULL : cts_tr_recv(t, 0, 1, small, 50);
    if (!cts_tr_meet(t) || (!op && !(op = cts_tr_recv(t, 0, 1, small, 50))) ||
        !cts_tr_ok(t, t->table->wait_any(t->tr, &op, 1, t->limit_ms, &index, &error), &error, "wait_any"))
        return false;
    s = t->table->test(t->tr, op, &done, NULL, &error);
    snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
    if (!cts_tr_refused(t, s, YK_E_ARG, &error, "a message longer than its receive"))
        return false;
    if (!done || !strstr(error.text, number) || !strstr(error.text, "50"))
        return cts_tr_fail(t, "a message of %s bytes into 50: done is %d, and the text is \"%s\"", number, done, error.text);
    for (uint32_t i = 50; i < sizeof small; i++)
        if (small[i] != 7)
            return cts_tr_fail(t, "byte %u behind the receive was written", i);
    return cts_tr_recv_whole(t, 0, 1, small, 10);
}

static bool arguments_too_long(cts_tr *t)
{
    return message_too_long(t, 51, false) && message_too_long(t, 51, true);
}

static bool arguments_much_too_long(cts_tr *t)
{
    return message_too_long(t, 1 << 20, false) && message_too_long(t, 1 << 20, true);
}

static bool arguments_nothing(cts_tr *t)
{
    return t->rank ? cts_tr_recv_whole(t, 0, 1, NULL, 0) : cts_tr_send_whole(t, 1, 1, NULL, 0);
}

void cts_tr_group_arguments(cts *c)
{
    cts_tr_run(c, "ranks", 2, CTS_TR_OPEN, arguments_peers);
    cts_tr_run(c, "too_long", 2, CTS_TR_OPEN, arguments_too_long);
    cts_tr_run(c, "much_too_long", 2, CTS_TR_OPEN, arguments_much_too_long);
    cts_tr_run(c, "nothing", 2, CTS_TR_OPEN, arguments_nothing);
}

/* ---- close --------------------------------------------------------------------------------------------------------------- */

/* A finished send arrives, though its sender closes at once and its receiver comes late. */
static bool close_flushes(cts_tr *t)
{
    static uint8_t data[20][3000];
    if (!cts_tr_open(t) || !cts_tr_meet(t)) /* a rank that ends before the other has opened would rightly count as dead */
        return false;
    for (uint32_t i = 0; i < 20 && t->rank == 0; i++) {
        cts_tr_fill(data[i], sizeof data[i], i);
        if (!cts_tr_send_whole(t, 1, i % 3, data[i], sizeof data[i]))
            return false;
    }
    if (t->rank == 1)
        usleep(100000);
    for (uint32_t i = 0; i < 20 && t->rank == 1; i++)
        if (!cts_tr_recv_whole(t, 0, i % 3, data[i], sizeof data[i]) || !cts_tr_same(t, data[i], sizeof data[i], i, "a last message"))
            return false;
    cts_tr_close(t);
    return true;
}

/* Operations that were neither ended nor cancelled. */
static bool close_gives_up(cts_tr *t)
{
    static uint8_t data[1 << 20], in[1 << 20];
    if (!cts_tr_open(t) || !cts_tr_meet(t) || !cts_tr_send(t, 1 - t->rank, 1, data, sizeof data) ||
        !cts_tr_send(t, 1 - t->rank, 2, data, 10) ||
        !cts_tr_recv(t, 1 - t->rank, 3, in, sizeof in) || !cts_tr_move(t, 5))
        return false;
    cts_tr_close(t);
    return true;
}

void cts_tr_group_close(cts *c)
{
    cts_tr_run(c, "flushes", 2, CTS_TR_CLOSED, close_flushes);
    cts_tr_run(c, "gives_up", 2, CTS_TR_CLOSED, close_gives_up);
}

/* ---- leak ---------------------------------------------------------------------------------------------------------------- */

enum { LEAK_PARTS = 4, LEAK_ROUNDS = 40 };

typedef bool leak_round(cts_tr *t);

/* All ranks run equally many parts, so that none waits for one that has stopped. */
static bool leak_measure(cts_tr *t, leak_round *once)
{
    cts_grown all = {true, true, true, true, true};
    cts_held before = {0}, now;
#if defined __GLIBC__
    mallopt(M_ARENA_MAX, 1); /* the one that mallinfo2 counts */
#endif
    for (int part = 0; part < LEAK_PARTS; part++) {
        for (int i = 0; i < LEAK_ROUNDS; i++)
            if (!once(t))
                return false;
        if (!cts_tr_meet(t))
            return false;
        now = cts_held_now(t->suite);
        if (part > 0) {
            const cts_grown g = cts_held_grown(&before, &now, LEAK_ROUNDS);
            all = (cts_grown){all.threads && g.threads, all.files && g.files, all.bytes && g.bytes, all.pages && g.pages, false};
        }
        before = now;
    }
    if (all.threads || all.files || all.bytes || all.pages)
        return cts_tr_fail(t, "each round keeps %s", all.threads ? "threads" : all.files ? "open files" : all.bytes ? "bytes"
                                                                                                  : "mapped memory");
    return true;
}

static bool round_message(cts_tr *t)
{
    static uint8_t in[100000], out[100000];
    const uint32_t peer = 1 - t->rank;
    static uint32_t number;
    const uint64_t bytes = number++ % 4 == 3 ? sizeof in : 1000;
    yk_tr_op *op = cts_tr_send(t, peer, 1, out, bytes);
    return op && cts_tr_recv_whole(t, peer, 1, in, bytes) && cts_tr_end(t, op, bytes);
}

static bool round_cancel(cts_tr *t)
{
    static uint8_t in[100000], out[100000];
    yk_tr_op *recv = cts_tr_recv(t, 1 - t->rank, 2, in, sizeof in), *send = cts_tr_send(t, 1 - t->rank, 3, out, sizeof out);
    if (!recv || !send)
        return false;
    t->table->cancel(t->tr, recv);
    t->table->cancel(t->tr, send);
    return round_message(t);
}

static bool round_register(cts_tr *t)
{
    static uint8_t data[BLOCK];
    yk_tr_mem *mem = memory_register(t, data, sizeof data);
    const bool good = mem && range_moves(t, mem, 0, 1000);
    if (mem)
        t->table->mem_release(t->tr, mem);
    return good;
}

static bool leak_messages(cts_tr *t)
{
    return leak_measure(t, round_message);
}

static bool leak_cancelled(cts_tr *t)
{
    return leak_measure(t, round_cancel);
}

static bool leak_registered(cts_tr *t)
{
    return leak_measure(t, round_register);
}

/* Opened over and over: files and threads of this process stay as many as they were. */
static bool leak_opened(cts_tr *t)
{
    cts_held before = {0}, now;
    for (int i = 0; i < 6; i++) {
        if (!cts_tr_open(t) || !round_message(t) || !cts_tr_meet(t))
            return false;
        cts_tr_close(t);
        if (i == 1)
            before = cts_held_now(t->suite);
    }
    now = cts_held_now(t->suite);
    if (now.files - before.files >= 4)
        return cts_tr_fail(t, "each time %.1f files stay open", (double)(now.files - before.files) / 4);
    return now.threads - before.threads < 4 || cts_tr_fail(t, "each time %.1f threads stay", (double)(now.threads - before.threads) / 4);
}

void cts_tr_group_leak(cts *c)
{
    cts_tr_run(c, "messages", 2, CTS_TR_OPEN, leak_messages);
    cts_tr_run(c, "cancelled", 2, CTS_TR_OPEN, leak_cancelled);
    cts_tr_run(c, "registered", 2, CTS_TR_OPEN, leak_registered);
    cts_tr_run(c, "opened", 2, CTS_TR_CLOSED, leak_opened);
}
