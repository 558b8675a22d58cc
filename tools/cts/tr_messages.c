/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts --transport, groups connect, order, sizes, match and many: messages arrive at the right receive, whole, and in order.
 * tr_groups.c lists them; each test runs in the ranks that tr_ranks.c forks.
 */
#include "config.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "tools/cts/tr.h"

enum { GUARD = 64, LETTERS = 200, CROWD = 400, UNASKED = 2500 };

/* ---- connect ------------------------------------------------------------------------------------------------------------- */

static bool peer_described(cts_tr *t, uint32_t r, bool hosts)
{
    yk_tr_peer info = {.size = sizeof info};
    yk_tr_error error = {""};
    if (!cts_tr_ok(t, t->table->peer(t->tr, r, &info, &error), &error, "peer"))
        return false;
    if (info.host != (hosts ? 7 + r : 0))
        return cts_tr_fail(t, "rank %u is said to run on host %llu", r, (unsigned long long)info.host);
    if (r != t->rank && !(info.caps & YK_TR_CAP_MESSAGES))
        return cts_tr_fail(t, "rank %u has no messages with rank %u", t->rank, r);
    return !(info.caps & YK_TR_CAP_PUT) || (t->table->size >= sizeof *t->table && t->table->put && t->table->mem_key &&
           t->table->mem_import && t->table->notices) || cts_tr_fail(t, "YK_TR_CAP_PUT, but not all functions for puts");
}

/* A message from each to each. */
static bool greet_all(cts_tr *t)
{
    yk_tr_op *out[CTS_TR_RANKS] = {NULL};
    uint32_t said[CTS_TR_RANKS], heard;
    for (uint32_t r = 0; r < t->ranks; r++) {
        said[r] = 100 * t->rank + r;
        if (r != t->rank && !(out[r] = cts_tr_send(t, r, 5, &said[r], sizeof said[r])))
            return false;
    }
    for (uint32_t r = 0; r < t->ranks; r++) {
        if (r == t->rank)
            continue;
        if (!cts_tr_recv_whole(t, r, 5, &heard, sizeof heard) || !cts_tr_end(t, out[r], sizeof said[r]))
            return false;
        if (heard != 100 * r + t->rank)
            return cts_tr_fail(t, "what rank %u said arrived as %u", r, heard);
    }
    return true;
}

static bool connect_one_host(cts_tr *t)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        if (!peer_described(t, r, false))
            return false;
    return greet_all(t);
}

static bool connect_hosts(cts_tr *t)
{
    for (uint32_t r = 0; r < t->ranks; r++) {
        yk_tr_peer info = {.size = sizeof info};
        yk_tr_error error = {""};
        if (r != t->rank && !t->table->peer(t->tr, r, &info, &error) && !info.caps)
            return cts_tr_unsupported(t, "it serves one host: rank %u has no messages with rank %u of another", t->rank, r);
        if (!peer_described(t, r, true))
            return false;
    }
    return greet_all(t);
}

static bool connect_again(cts_tr *t)
{
    for (int i = 0; i < 3; i++) {
        if (!cts_tr_open(t) || !greet_all(t) || !cts_tr_meet(t))
            return false;
        cts_tr_close(t);
    }
    return true;
}

/* Like the host's exchange: a rank that waits for a dead one gets an error. */
static yk_status exchange_and_die(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    cts_tr *t = arg;
    if (!cts_tr_exchange(t, own, bytes, all)) {
        snprintf(error->text, sizeof error->text, "the other rank has died");
        return YK_E_CANCELLED;
    }
    if (t->rank == cts_tr_victim(t))
        cts_tr_die(t);
    return YK_OK;
}

static yk_status end_of_job(void *arg, yk_tr_error *error)
{
    (void)arg;
    snprintf(error->text, sizeof error->text, "rank 1 has died");
    return YK_E_CANCELLED;
}

/* A rank dies while all open: the other ranks' open ends, well or not, and if well so does their close. */
static bool connect_lost(cts_tr *t)
{
    static const uint64_t host[CTS_TR_RANKS];
    static const uint8_t secret[32] = "the secret of this conformance..";
    const int64_t begin = yk__clock_ms();
    yk_tr_error error = {""};
    const yk_tr_config config = {.size = sizeof config, .rank = t->rank, .ranks = t->ranks, .host = host, .name = "yoke-cts",
                                 .exchange = exchange_and_die, .exchange_arg = t, .secret = secret, .secret_bytes = sizeof secret,
                                 .shared = t->shared, .address = "127.0.0.1", .check = end_of_job};
    const yk_status s = t->table->open(&config, &t->tr, &error);
    if (s) {
        t->tr = NULL;
        return cts_tr_refused(t, s, s, &error, "open");
    }
    cts_tr_close(t);
    return yk__clock_ms() - begin < t->limit_ms || cts_tr_fail(t, "open and close took longer than a wait may");
}

void cts_tr_group_connect(cts *c)
{
    cts_tr_run(c, "alone", 1, CTS_TR_OPEN, connect_one_host);
    cts_tr_run(c, "two", 2, CTS_TR_OPEN, connect_one_host);
    cts_tr_run(c, "three", 3, CTS_TR_OPEN, connect_one_host);
    cts_tr_run(c, "hosts", 2, CTS_TR_HOSTS, connect_hosts);
    cts_tr_run(c, "again", 2, CTS_TR_CLOSED, connect_again);
    cts_tr_run(c, "lost", 2, CTS_TR_CLOSED | CTS_TR_LOSES, connect_lost);
}

/* ---- order --------------------------------------------------------------------------------------------------------------- */

static uint64_t length_of(uint32_t number)
{
    static const uint64_t length[] = {0, 10, 700, 70000, 4, 9000, 300000, 1};
    return number % 50 == 7 ? 1u << 20 : length[number % 8];
}

typedef struct letters {
    uint8_t *data[LETTERS];
    yk_tr_op *op[LETTERS];
} letters;

static void letters_free(letters *l)
{
    for (uint32_t i = 0; i < LETTERS; i++)
        yk__free(l->data[i]);
}

static bool letters_send(cts_tr *t, letters *l, uint32_t peer, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        l->data[i] = yk__malloc(length_of(i) + 1);
        if (!l->data[i])
            return cts_tr_fail(t, "out of memory");
        cts_tr_fill(l->data[i], length_of(i), 1000 * t->rank + i);
        if (!(l->op[i] = cts_tr_send(t, peer, 3, l->data[i], length_of(i))))
            return false;
    }
    return true;
}

static bool letters_receive(cts_tr *t, uint32_t peer, uint32_t n)
{
    static uint8_t data[(1u << 20) + 1];
    char what[40];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(what, sizeof what, "message %u of rank %u", i, peer);
        if (!cts_tr_end(t, cts_tr_recv(t, peer, 3, data, sizeof data), length_of(i)) ||
            !cts_tr_same(t, data, length_of(i), 1000 * peer + i, what))
            return false;
    }
    return true;
}

static bool letters_end(cts_tr *t, letters *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!cts_tr_end(t, l->op[i], length_of(i)))
            return false;
    return true;
}

/* Everybody to everybody, short ones and long ones with one tag. */
static bool order_all(cts_tr *t, uint32_t n, bool early)
{
    letters l[CTS_TR_RANKS] = {{{NULL}, {NULL}}};
    bool good = true;
    for (uint32_t r = 0; r < t->ranks && good; r++)
        good = r == t->rank || letters_send(t, &l[r], r, n);
    if (good && early)
        good = cts_tr_meet(t) && cts_tr_move(t, 20);
    for (uint32_t r = 0; r < t->ranks && good; r++)
        good = r == t->rank || letters_receive(t, r, n);
    for (uint32_t r = 0; r < t->ranks && good; r++)
        good = r == t->rank || letters_end(t, &l[r], n);
    for (uint32_t r = 0; r < t->ranks && good; r++)
        letters_free(&l[r]);
    return good;
}

static bool order_one_tag(cts_tr *t)
{
    return order_all(t, LETTERS, false);
}

static bool order_unasked(cts_tr *t)
{
    return order_all(t, 40, true);
}

static bool order_three(cts_tr *t)
{
    return order_all(t, 60, false);
}

void cts_tr_group_order(cts *c)
{
    cts_tr_run(c, "one_tag", 2, CTS_TR_OPEN, order_one_tag);
    cts_tr_run(c, "before_they_are_asked_for", 2, CTS_TR_OPEN, order_unasked);
    cts_tr_run(c, "three_ranks", 3, CTS_TR_OPEN, order_three);
}

/* ---- sizes --------------------------------------------------------------------------------------------------------------- */

/* At an odd address, into a larger receive, with bytes around that have to stay. */
static bool size_sent(cts_tr *t, uint8_t *block, uint64_t bytes, uint64_t capacity)
{
    uint8_t *data = block + GUARD + 1;
    if (t->rank == 0) {
        cts_tr_fill(data, bytes, bytes);
        return cts_tr_send_whole(t, 1, 7, data, bytes);
    }
    memset(block, 0xa5, capacity + 2 * GUARD + 1);
    if (!cts_tr_end(t, cts_tr_recv(t, 0, 7, data, capacity), bytes) || !cts_tr_same(t, data, bytes, bytes, "contents"))
        return false;
    for (uint64_t i = 0; i < capacity + 2 * GUARD + 1; i++)
        if ((i < GUARD + 1 || i >= GUARD + 1 + bytes) && block[i] != 0xa5)
            return cts_tr_fail(t, "a message of %llu bytes: byte %lld beside it was written", (unsigned long long)bytes,
                               (long long)i - GUARD - 1);
    return true;
}

static bool sizes_sent(cts_tr *t, const uint64_t *sizes, uint32_t n)
{
    uint8_t *block = yk__malloc(sizes[n - 1] + 3 * GUARD + 1);
    bool good = block || cts_tr_fail(t, "out of memory");
    for (uint32_t i = 0; i < n && good; i++)
        good = size_sent(t, block, sizes[i], sizes[i]) && size_sent(t, block, sizes[i], sizes[i] + GUARD / 2);
    yk__free(block);
    return good;
}

static bool sizes_small(cts_tr *t)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 191, 192, 193, 1000, 4095, 4096, 4097};
    return sizes_sent(t, sizes, sizeof sizes / sizeof *sizes);
}

/* Sizes at which transports change their way of sending. */
static bool sizes_rules(cts_tr *t)
{
    static const uint64_t sizes[] = {8191, 8192, 8193, 16383, 16384, 16385, 32767, 32768, 32769, 65535, 65536, 65537, 131071, 131072,
                                     131073, 262143, 262144, 262145, 524287, 524288, 524289};
    return sizes_sent(t, sizes, sizeof sizes / sizeof *sizes);
}

static bool sizes_long(cts_tr *t)
{
    static const uint64_t sizes[] = {1000003, 1048577, 8388609};
    return sizes_sent(t, sizes, sizeof sizes / sizeof *sizes);
}

/* Buckets of parameters are as long. */
static bool sizes_longest(cts_tr *t)
{
    static const uint64_t sizes[] = {(16u << 20) + 1, 40000003, 300000001};
    return sizes_sent(t, sizes, t->suite->longest ? 3 : 2);
}

void cts_tr_group_sizes(cts *c)
{
    cts_tr_run(c, "small", 2, CTS_TR_OPEN, sizes_small);
    cts_tr_run(c, "rules", 2, CTS_TR_OPEN, sizes_rules);
    cts_tr_run(c, "long", 2, CTS_TR_OPEN, sizes_long);
    cts_tr_run(c, "longest", 2, CTS_TR_OPEN, sizes_longest);
}

/* ---- match --------------------------------------------------------------------------------------------------------------- */

static const uint64_t odd_tags[] = {0, 1, 2, UINT32_MAX, 1ull << 32, 1ull << 48, 1ull << 60, 1ull << 62, 1ull << 63,
                                    (1ull << 63) + 1, UINT64_MAX - 1, UINT64_MAX};
#define ODD_TAGS (sizeof odd_tags / sizeof *odd_tags)

/* They are asked for in the opposite order. */
static bool match_tags(cts_tr *t)
{
    uint64_t sent[ODD_TAGS], got = 0;
    yk_tr_op *op[ODD_TAGS];
    for (uint32_t i = 0; i < ODD_TAGS && t->rank == 0; i++) {
        sent[i] = 1000 + i;
        if (!(op[i] = cts_tr_send(t, 1, odd_tags[i], &sent[i], sizeof sent[i])))
            return false;
    }
    for (uint32_t i = ODD_TAGS; i-- > 0;) {
        if (t->rank == 0 ? !cts_tr_end(t, op[i], sizeof got) : !cts_tr_recv_whole(t, 0, odd_tags[i], &got, sizeof got))
            return false;
        if (t->rank == 1 && got != 1000 + i)
            return cts_tr_fail(t, "a receive with tag %#llx took message %llu of tag %#llx", (unsigned long long)odd_tags[i],
                               (unsigned long long)got - 1000, (unsigned long long)odd_tags[(got - 1000) % ODD_TAGS]);
    }
    return true;
}

static bool match_ranks(cts_tr *t)
{
    uint32_t got = 0;
    yk_tr_op *op;
    if (t->rank)
        return (op = cts_tr_send(t, 0, 9, &t->rank, sizeof got)) && cts_tr_meet(t) && cts_tr_end(t, op, sizeof got);
    if (!cts_tr_meet(t))
        return false;
    for (uint32_t r = t->ranks; --r > 0;) {
        if (!cts_tr_recv_whole(t, r, 9, &got, sizeof got))
            return false;
        if (got != r)
            return cts_tr_fail(t, "a receive from rank %u took a message of rank %u", r, got);
    }
    return true;
}

/* Unexpected messages let other messages pass, a short one and a long one. */
static bool match_pass(cts_tr *t)
{
    const uint64_t n = 8u << 20;
    uint8_t *data[2] = {yk__malloc(n), yk__malloc(n)}, small[3] = {1, 2, 3};
    yk_tr_op *op[3] = {NULL};
    bool good = (data[0] && data[1]) || cts_tr_fail(t, "out of memory");
    for (uint32_t i = 0; i < 2 && good && t->rank == 0; i++) {
        cts_tr_fill(data[i], n, i);
        good = (op[i] = cts_tr_send(t, 1, i, data[i], n)) != NULL;
    }
    if (t->rank == 0)
        good = good && (op[2] = cts_tr_send(t, 1, 2, small, 3)) && cts_tr_end(t, op[2], 3) && cts_tr_end(t, op[1], n) &&
               cts_tr_end(t, op[0], n);
    else
        good = good && cts_tr_recv_whole(t, 0, 2, small, 3) && cts_tr_recv_whole(t, 0, 1, data[1], n) &&
               cts_tr_same(t, data[1], n, 1, "the second") && cts_tr_recv_whole(t, 0, 0, data[0], n) &&
               cts_tr_same(t, data[0], n, 0, "the first");
    yk__free(data[0]);
    yk__free(data[1]);
    return good;
}

static bool match_once(cts_tr *t)
{
    uint8_t byte = 1;
    yk_tr_op *op;
    if (t->rank == 0)
        return cts_tr_send_whole(t, 1, 4, &byte, 1) && cts_tr_meet(t) && cts_tr_meet(t);
    if (!cts_tr_recv_whole(t, 0, 4, &byte, 1) || !cts_tr_meet(t) || !cts_tr_nothing(t, op = cts_tr_recv(t, 0, 4, &byte, 1)))
        return false;
    t->table->cancel(t->tr, op);
    return cts_tr_meet(t);
}

void cts_tr_group_match(cts *c)
{
    cts_tr_run(c, "tags", 2, CTS_TR_OPEN, match_tags);
    cts_tr_run(c, "ranks", 3, CTS_TR_OPEN, match_ranks);
    cts_tr_run(c, "pass", 2, CTS_TR_OPEN, match_pass);
    cts_tr_run(c, "once", 2, CTS_TR_OPEN, match_once);
}

/* ---- many ---------------------------------------------------------------------------------------------------------------- */

typedef struct crowd {
    uint8_t *out, *in; /* messages of `bytes` each */
    uint64_t bytes;
    uint32_t tags; /* that they have in turn */
    yk_tr_op *send[UNASKED], *recv[UNASKED];
} crowd;

static bool crowd_post(cts_tr *t, crowd *x, bool send, uint32_t n)
{
    const uint32_t peer = 1 - t->rank;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *at = (send ? x->out : x->in) + i * x->bytes;
        yk_tr_op **op = send ? &x->send[i] : &x->recv[i];
        if (send)
            cts_tr_fill(at, x->bytes, 1000 * t->rank + i);
        *op = send ? cts_tr_send(t, peer, i % x->tags, at, x->bytes) : cts_tr_recv(t, peer, i % x->tags, at, x->bytes);
        if (!*op)
            return false;
    }
    return true;
}

/* Ends the last first: operations may be awaited in any order. */
static bool crowd_end(cts_tr *t, crowd *x, uint32_t n)
{
    char what[40];
    for (uint32_t i = n; i-- > 0;) {
        snprintf(what, sizeof what, "message %u of %u", i, n);
        if (!cts_tr_end(t, x->recv[i], x->bytes) || !cts_tr_end(t, x->send[i], x->bytes) ||
            !cts_tr_same(t, x->in + i * x->bytes, x->bytes, 1000 * (1 - t->rank) + i, what))
            return false;
    }
    return true;
}

/* Waits for a message that was sent behind the crowd: over a stream all of them have come before anybody asks for one. */
static bool crowd_arrives(cts_tr *t, const crowd *x)
{
    const uint32_t peer = 1 - t->rank;
    uint8_t out = 1, in = 0;
    yk_tr_op *op = cts_tr_send(t, peer, x->tags, &out, 1);
    return op && cts_tr_recv_whole(t, peer, x->tags, &in, 1) && cts_tr_end(t, op, 1);
}

static bool crowd_moves(cts_tr *t, uint32_t n, uint64_t bytes, uint32_t tags, bool posted)
{
    crowd x = {.out = yk__malloc(n * bytes), .in = yk__malloc(n * bytes), .bytes = bytes, .tags = tags};
    bool good = (x.out && x.in) || cts_tr_fail(t, "out of memory");
    good = good && (!posted || (crowd_post(t, &x, false, n) && cts_tr_meet(t))) && crowd_post(t, &x, true, n);
    good = good && (posted || (cts_tr_meet(t) && crowd_arrives(t, &x) && crowd_post(t, &x, false, n)));
    good = good && crowd_end(t, &x, n);
    yk__free(x.out);
    yk__free(x.in);
    return good;
}

static bool many_posted(cts_tr *t)
{
    return crowd_moves(t, CROWD, 1000, 7, true);
}

static bool many_early(cts_tr *t)
{
    return crowd_moves(t, CROWD, 1000, 7, false);
}

static bool many_long(cts_tr *t)
{
    return crowd_moves(t, 24, 500000, 7, true);
}

/* Receives with one tag take messages in posting order. */
static bool many_of_one_tag(cts_tr *t)
{
    return crowd_moves(t, CROWD, 1000, 1, true);
}

static bool many_unasked(cts_tr *t)
{
    return crowd_moves(t, UNASKED, 40, 1, false);
}

/* Repeats exchanges, for rare failures. */
static bool many_rounds(cts_tr *t)
{
    bool good = true;
    for (uint32_t round = 0; round < (t->suite->longest ? 60u : 15u) && good; round++)
        good = crowd_moves(t, CROWD, 5000, 3, true);
    return good;
}

void cts_tr_group_many(cts *c)
{
    cts_tr_run(c, "posted", 2, CTS_TR_OPEN, many_posted);
    cts_tr_run(c, "before_they_are_asked_for", 2, CTS_TR_OPEN, many_early);
    cts_tr_run(c, "long", 2, CTS_TR_OPEN, many_long);
    cts_tr_run(c, "one_tag", 2, CTS_TR_OPEN, many_of_one_tag);
    cts_tr_run(c, "unasked", 2, CTS_TR_OPEN, many_unasked);
    cts_tr_run(c, "rounds", 2, CTS_TR_OPEN, many_rounds);
}
