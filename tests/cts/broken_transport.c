/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback transport as a shared object, transport_loopback.so, with one fault, which YOKE_TEST_FAULT names; without it, with none.
 * Faults are made around the loopback's table, so that an operation here is one of the loopback with some words beside it.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/loopback.h"
#include "transport/transport_op.h"

typedef struct wrapped {
    yk_tr_op *inner; /* NULL: it is not the loopback's (yet) */
    yk_tr *tr;
    uint32_t peer;
    uint64_t tag;
    yk_tr_range range;
    bool is_send, forgotten;
    pthread_t thread; /* that began it */
    void *lost; /* memory that nobody releases */
} wrapped;

static uint32_t sends, receives; /* atomic: so far */
static wrapped *held;            /* a send, or a receive, that waits for the next one */
static void *volatile spent[3];  /* lasts longer than its fault, on purpose: no leak */

static bool fault_is(const char *name)
{
    const char *fault = getenv("YOKE_TEST_FAULT");
    return fault && !strcmp(fault, name);
}

/* The number of the message that the fault meets, instead of `preset`. */
static uint32_t fault_at(uint32_t preset)
{
    const char *at = getenv("YOKE_TEST_FAULT_AT");
    return at ? (uint32_t)strtoul(at, NULL, 10) : preset;
}

static void sleep_forever(void)
{
    for (;;)
        pause();
}

static wrapped *wrapped_of(yk_tr_op *op)
{
    return (wrapped *)(void *)op;
}

static yk_status open_wrapped(const yk_tr_config *config, yk_tr **t, yk_tr_error *error)
{
    yk_tr_config c = *config;
    if (fault_is("OPEN"))
        c.check = NULL;
    return loopback_transport()->open(&c, t, error);
}

static yk_status describe_peer(const yk_tr *t, uint32_t peer, yk_tr_peer *info, yk_tr_error *error)
{
    const yk_status s = loopback_transport()->peer(t, peer, info, error);
    info->host += fault_is("HOST");
    return s;
}

/* ---- Sends and receives --------------------------------------------------------------------------------------------------- */

static yk_status send_inner(wrapped *w, yk_tr_error *error)
{
    const uint64_t tag = fault_is("TAGS") ? w->tag & UINT32_MAX : w->tag;
    return loopback_transport()->send(w->tr, w->peer, tag, &w->range, &w->inner, error);
}

static yk_status refusal_spoil(yk_status s, yk_tr_error *error)
{
    if (s && fault_is("SILENT"))
        *error->text = 0;
    return s && fault_is("STATUS") ? YK_E_INTERNAL : s;
}

static wrapped *wrap_op(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *range)
{
    wrapped *w = calloc(1, sizeof *w);
    *w = (wrapped){.tr = t, .peer = peer, .tag = tag, .range = *range, .thread = pthread_self()};
    if (fault_is("LEAK"))
        w->lost = malloc(100);
    if (fault_is("FILES") && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
        abort();
    return w;
}

static yk_status recv_inner(wrapped *w, yk_tr_error *error)
{
    const uint64_t tag = fault_is("TAGS") ? w->tag & UINT32_MAX : w->tag;
    return loopback_transport()->recv(w->tr, w->peer, tag, &w->range, &w->inner, error);
}

/* True for each fifth message, or for one alone. */
static bool is_reordered(uint32_t number)
{
    return getenv("YOKE_TEST_FAULT_AT") ? number == fault_at(0) : number % 5 == 3;
}

/* The bytes of a send that is done before it begins: the caller may change its own. */
static void keep_bytes(wrapped *w)
{
    void *bytes = malloc(w->range.bytes + 1);
    memcpy(bytes, w->range.mem ? w->range.mem->data + w->range.offset : w->range.data, w->range.bytes);
    w->range = (yk_tr_range){.data = bytes, .bytes = w->range.bytes};
    spent[0] = w;
    spent[1] = bytes;
}

/* What was held back goes after the one that was given meanwhile. */
static yk_status give_reordered(wrapped *w, uint32_t number, yk_status (*give)(wrapped *, yk_tr_error *), yk_tr_error *error)
{
    yk_status s;
    if (is_reordered(number)) {
        if (w->is_send)
            keep_bytes(w);
        held = w;
        return YK_OK;
    }
    s = give(w, error);
    if (!s && held) {
        s = give(held, error);
        held = NULL;
    }
    return s;
}

static yk_status send_twice(wrapped *w, yk_tr_error *error)
{
    yk_tr_op *again;
    const yk_status s = loopback_transport()->send(w->tr, w->peer, w->tag, &w->range, &again, error);
    if (s)
        return s;
    spent[2] = again;
    return send_inner(w, error);
}

static yk_status send_wrapped(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error)
{
    const uint32_t number = __atomic_fetch_add(&sends, 1, __ATOMIC_RELAXED);
    wrapped *w = wrap_op(t, peer, tag, from);
    yk_status s;
    w->is_send = true;
    if ((fault_is("LOSE") && number == fault_at(10)) ||
        (fault_is("UNASKED") && number > 1000 + __atomic_load_n(&receives, __ATOMIC_RELAXED)))
        s = YK_OK;
    else if (fault_is("LATE"))
        s = YK_OK, held = w;
    else if (fault_is("REORDER"))
        s = give_reordered(w, number, send_inner, error);
    else
        s = fault_is("DUPLICATE") && number == fault_at(0) ? send_twice(w, error) : send_inner(w, error);
    if (s)
        free(w->lost), free(w);
    else
        *op = (yk_tr_op *)(void *)w;
    return refusal_spoil(s, error);
}

static yk_status recv_wrapped(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *to, yk_tr_op **op, yk_tr_error *error)
{
    wrapped *w = wrap_op(t, peer, tag, to);
    const uint32_t number = __atomic_fetch_add(&receives, 1, __ATOMIC_RELAXED);
    const yk_status s = fault_is("SWAP") ? give_reordered(w, number, recv_inner, error) : recv_inner(w, error);
    w->forgotten = number == 5 && fault_is("FORGET");
    if (s)
        free(w->lost), free(w);
    else
        *op = (yk_tr_op *)(void *)w;
    return refusal_spoil(s, error);
}

/* ---- Waiting -------------------------------------------------------------------------------------------------------------- */

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static yk_status progress_wrapped(yk_tr *t, int timeout_ms, uint64_t *events, yk_tr_error *error)
{
    const uint64_t before = *events;
    yk_status s;
    if (fault_is("OVERSLEEP"))
        sleep_ms(timeout_ms);
    s = loopback_transport()->progress(t, timeout_ms, events, error);
    if (fault_is("EVENTS"))
        *events = before;
    return s;
}

/* What a receive brought is spoiled. */
static void spoil_received(const wrapped *w, uint64_t *bytes)
{
    static uint32_t long_ones;
    uint8_t *data = w->range.mem ? w->range.mem->data + w->range.offset : w->range.data;
    if (w->is_send || !bytes || !data)
        return;
    if (fault_is("CORRUPT") && *bytes)
        data[*bytes / 2] ^= 1;
    if (fault_is("RARE_BIT") && *bytes > 4096 && ++long_ones % fault_at(5000) == 0)
        data[*bytes / 2] ^= 4;
    if (fault_is("CUT") && *bytes > 16u << 20)
        memset(data + (16u << 20), 0, *bytes - (16u << 20));
    if (fault_is("OVERRUN"))
        data[w->range.bytes] = 1;
    if (fault_is("LENGTH"))
        *bytes = w->range.bytes;
}

static yk_status test_wrapped(yk_tr *t, yk_tr_op *op, int *done, uint64_t *bytes, yk_tr_error *error)
{
    wrapped *w = wrapped_of(op);
    yk_status s = YK_OK;
    uint64_t moved = w->range.bytes;
    *done = 1;
    if (w->forgotten)
        *done = 0;
    else if (w->inner)
        s = loopback_transport()->test(t, w->inner, done, &moved, error);
    if (!*done)
        return s;
    spoil_received(w, &moved);
    if (bytes)
        *bytes = moved;
    if (w != held && !fault_is("LEAK"))
        free(w->lost), free(w);
    return fault_is("CLIP") ? YK_OK : s;
}

static yk_status wait_wrapped(yk_tr *t, yk_tr_op *const *op, uint32_t n, int timeout_ms, uint32_t *index, yk_tr_error *error)
{
    yk_tr_op **all = calloc(n + 1, sizeof *all);
    yk_status s = YK_OK;
    bool over = false;
    for (uint32_t i = 0; i < n && !over; i++) {
        wrapped *w = wrapped_of(op[i]);
        all[i] = w && !w->forgotten ? w->inner : NULL;
        over = w && !w->inner;
        *index = i;
    }
    if (!over)
        s = loopback_transport()->wait_any(t, all, n, timeout_ms, index, error);
    free(all);
    if (s == YK_E_TIMEOUT && fault_is("HANG"))
        sleep_forever();
    if (fault_is("INDEX"))
        *index = 0;
    return fault_is("TIMEOUT") ? YK_OK : refusal_spoil(s, error);
}

static void cancel_wrapped(yk_tr *t, yk_tr_op *op)
{
    wrapped *w = wrapped_of(op);
    int done = 0;
    yk_tr_error error;
    while (fault_is("WAIT") && !done)
        loopback_transport()->test(t, w->inner, &done, NULL, &error);
    if (!done && !fault_is("CANCEL") && (!fault_is("THREAD") || pthread_equal(w->thread, pthread_self())))
        loopback_transport()->cancel(t, w->inner);
    free(w->lost);
    free(w);
}

/* ---- Memory --------------------------------------------------------------------------------------------------------------- */

static yk_status register_wrapped(yk_tr *t, const yk_tr_mem_source *source, yk_tr_mem **mem, yk_tr_error *error)
{
    static void *first; /* a cache that knows a block by nothing but its kind and length */
    yk_tr_mem_source s = *source;
    if (fault_is("KIND"))
        s.kind = YK_TR_MEM_HOST;
    if (fault_is("STALE") && s.kind == YK_TR_MEM_HOST) {
        if (!first)
            first = calloc(1, s.bytes);
        s.data = first;
    }
    return loopback_transport()->mem_register(t, &s, mem, error);
}

/* The notice comes when half of the bytes are there. */
static yk_status put_halves(yk_tr *t, const yk_tr_range *from, yk_tr_mem *to, uint64_t offset, uint32_t notice, wrapped *w,
                            yk_tr_error *error)
{
    yk_tr_range half = *from;
    half.bytes /= 2;
    return loopback_transport()->put(t, &half, to, offset, notice, &w->inner, error);
}

static yk_status put_wrapped(yk_tr *t, const yk_tr_range *from, yk_tr_mem *to, uint64_t offset, uint32_t notice, yk_tr_op **op,
                             yk_tr_error *error)
{
    wrapped *w = wrap_op(t, 0, 0, from);
    yk_status s;
    w->is_send = true;
    if (fault_is("HALF"))
        s = put_halves(t, from, to, offset, notice, w, error);
    else
        s = loopback_transport()->put(t, from, to, offset, fault_is("NOTICE") ? 0 : notice, &w->inner, error);
    if (s)
        free(w->lost), free(w);
    else
        *op = (yk_tr_op *)(void *)w;
    return s;
}

/* ---- The table ------------------------------------------------------------------------------------------------------------ */

__attribute__((visibility("default"))) const yk_transport *yk_transport_query(uint32_t major);

const yk_transport *yk_transport_query(uint32_t major)
{
    static yk_transport table;
    if (major != YK_TRANSPORT_MAJOR && !fault_is("MAJOR"))
        return NULL;
    table = *loopback_transport();
    table.name = fault_is("NAME") ? "Another One" : loopback_transport()->name;
    table.open = open_wrapped;
    table.peer = describe_peer;
    table.mem_register = register_wrapped;
    table.send = send_wrapped;
    table.recv = recv_wrapped;
    table.progress = progress_wrapped;
    table.test = test_wrapped;
    table.wait_any = wait_wrapped;
    table.cancel = cancel_wrapped;
    table.put = put_wrapped;
    return &table;
}
