/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives in common memory and over messages, of the local transport, of sock, and of a small one without any memory in common, with
 * and without a progress thread: each rank makes the sums in the order of rank numbers alone, and compares bit for bit; and all ways
 * give the same hash of all results.
 */
#include "config.h"

#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/coll/messages/msg_piece.h"
#include "core/coll/tune.h"
#include "tests/dist/coll_small.h"
#include "tests/support/loopback.h"
#include "tests/support/run.h"
#include "transport/local/local.h"
#include "transport/sock/sock.h"

/* ---- Slices ------------------------------------------------------------------------------------------------------- */

enum { BUCKETS = 6 };

typedef struct bucket {
    uint64_t n;
    yk__coll_buffer grad, param;
    yk__slices parts;
    yk__exact squares; /* squares of this rank's slice of the sum */
    yk__request *request;
} bucket;

static int make_buckets(bucket *b, const double *part, yk_error *err)
{
    static const uint64_t sizes[BUCKETS] = {1, 63, 64, 1025, 30011, 600001}; /* the last: many chunks, in large pages */
    for (uint32_t k = 0; k < BUCKETS; k++) {
        b[k] = (bucket){.n = sizes[k]};
        if (yk__slices_by(&b[k].parts, b[k].n, ranks, part, err) ||
            yk__coll_alloc(coll, "gradients", b[k].n * sizeof(float), YK__COLL_PRIVATE, &b[k].grad, err) ||
            yk__coll_alloc(coll, "parameters", b[k].n * sizeof(float), k % 2 ? YK__COLL_PRIVATE : YK__COLL_COMMON, &b[k].param, err))
            return 1;
    }
    return 0;
}

/* This rank's numbers of a request: 4096, over and over. */
static void input_fill(float *to, uint64_t n, uint32_t call)
{
    inputs_fill(to, call, n < 4096 ? (uint32_t)n : 4096);
    for (uint64_t at = 4096; at < n; at += 4096)
        memcpy(to + at, to, (n - at < 4096 ? n - at : 4096) * sizeof *to);
}

static int begin_buckets(yk__comm *comm, bucket *b, uint32_t call, yk_error *err)
{
    for (uint32_t k = 0; k < BUCKETS; k++) {
        float *grad = b[k].grad.mem, *param = b[k].param.mem;
        yk__coll_desc d = {.kind = YK__COLL_REDUCE_SCATTER, .dtype = YK_F32, .count = b[k].n, .buffer = &b[k].grad,
                           .parts = &b[k].parts, .squares = &b[k].squares};
        const uint64_t begin = b[k].parts.begin[rank];
        b[k].squares = (yk__exact){{0}, 0};
        input_fill(grad, b[k].n, call + k);
        d.out = call % 2 ? param + begin : grad + begin; /* beside, or in place */
        if (yk__coll_begin(comm, &d, &b[k].request, err))
            return 1;
    }
    return 0;
}

static int gather_bucket(yk__comm *comm, bucket *b, uint32_t call, yk_error *err)
{
    const yk__coll_desc d = {.kind = YK__COLL_ALL_GATHERV, .dtype = YK_F32, .count = b->n, .buffer = &b->param, .parts = &b->parts};
    const uint64_t begin = b->parts.begin[rank], n = b->parts.begin[rank + 1] - begin;
    float *param = b->param.mem;
    if (call % 2 == 0 && n)
        memcpy(param + begin, (float *)b->grad.mem + begin, n * sizeof(float));
    return yk__coll_run(comm, &d, err) != YK_OK;
}

/* The squares of this rank's slice, in parts of 64 of it, whatever the pieces it was summed in. */
static int check_squares(const bucket *b, const float *want)
{
    const uint64_t begin = b->parts.begin[rank], end = b->parts.begin[rank + 1];
    yk__exact all = {{0}, 0};
    double have[YK__EXACT_NUMBERS], expected[YK__EXACT_NUMBERS];
    for (uint64_t i = begin; i < end; i += 64) {
        float part[64];
        const uint64_t n = end - i < 64 ? end - i : 64;
        for (uint64_t j = 0; j < n; j++)
            part[j] = want[(i + j) % 4096];
        yk__exact_squares(&all, part, n);
    }
    yk__exact_get(&b->squares, have);
    yk__exact_get(&all, expected);
    return memcmp(have, expected, sizeof have) != 0;
}

/* All begun, then waited for in another order, one of them by looking; a small sum overtakes them. */
static int run_step(yk__comm *comm, bucket *b, uint32_t call, yk_error *err)
{
    if (begin_buckets(comm, b, call, err) || check_sums(comm, call, 17, false, err))
        return 1;
    for (uint32_t j = 0; j < BUCKETS; j++) {
        const uint32_t k = (j * 5 + call) % BUCKETS;
        bool done = false;
        while (j == 2 && !done)
            if (yk__coll_test(b[k].request, &done, err))
                return 1;
        if (j != 2 && yk__coll_wait(b[k].request, err))
            return 1;
    }
    for (uint32_t k = 0; k < BUCKETS; k++) {
        const float *want = sums_expect(comm, call + k, b[k].n < 4096 ? (uint32_t)b[k].n : 4096);
        if (gather_bucket(comm, &b[k], call, err) || check_squares(&b[k], want))
            return 1;
        for (uint64_t at = 0; at < b[k].n; at += 4096)
            if (memcmp((float *)b[k].param.mem + at, want, (b[k].n - at < 4096 ? b[k].n - at : 4096) * sizeof(float)))
                return 1;
        mix_hash(b[k].param.mem, b[k].n * sizeof(float));
    }
    return 0;
}

static void free_buckets(bucket *b)
{
    for (uint32_t k = 0; k < BUCKETS; k++) {
        yk__coll_release(coll, &b[k].grad);
        yk__coll_release(coll, &b[k].param);
        yk__slices_free(&b[k].parts);
    }
}

/* The steps of a communicator, whose members own by `part`. */
static int run_steps(yk__comm *comm, const double *part, yk_error *err)
{
    bucket b[BUCKETS];
    if (make_buckets(b, part, err))
        return report_wrong(err, "buffers", 0);
    const uint32_t calls = TEST_UNDER_TSAN || TEST_UNDER_ASAN ? 2 : 4; /* in place and beside; more have other numbers */
    for (uint32_t call = 0; call < calls && yk__comm_has(comm, rank); call++)
        if (run_step(comm, b, call, err))
            return report_wrong(err, "slices", call);
    free_buckets(b);
    return 0;
}

static int case_slices(yk_error *err)
{
    double part[MAX_RANKS];
    for (uint32_t r = 0; r < ranks; r++)
        part[r] = r == 1 ? 0.0 : 1.0 + r; /* one owns nothing */
    return run_steps(yk__coll_world(coll), part, err);
}

/* Nobody to add: the sum is the rank's own numbers, there already where the result lies in their place. */
static int case_sole(yk_error *err)
{
    for (uint32_t r = 0; r < ranks; r++) {
        const bool member[MAX_RANKS] = {r == 0, r == 1, r == 2, r == 3};
        const double part[MAX_RANKS] = {r == 0, r == 1, r == 2, r == 3};
        yk__comm *comm = NULL;
        if (yk__comm_new(coll, member, &comm, err))
            return report_wrong(err, "a communicator", r);
        if (run_steps(comm, part, err))
            return 1;
    }
    return 0;
}

/* ---- Members ------------------------------------------------------------------------------------------------------ */

/* The last rank goes and comes back; meanwhile it gets what feeds it. */
static int case_members(yk_error *err)
{
    yk__comm *members = yk__coll_members(coll), *pair = NULL;
    bool all[MAX_RANKS], some[MAX_RANKS];
    const bool last = rank + 1 == ranks;
    for (uint32_t r = 0; r < MAX_RANKS; r++)
        all[r] = true, some[r] = r + 1 < ranks;
    if (yk__comm_new(coll, some, &pair, err))
        return report_wrong(err, "a communicator", 0);
    for (uint32_t turn = 0; turn < 3; turn++) {
        if (yk__comm_set_members(members, some, err) || yk__comm_size(members) != ranks - 1 ||
            yk__comm_generation(members) != 2 * turn + 1)
            return report_wrong(err, "members", turn);
        for (uint32_t i = 0; i < 40; i++)
            if (check_sums(members, i, 1 + i * 50, true, err) || check_gather(members, i, i * 20, true, err) ||
                (!last && (check_broadcast(members, i, 70000, err) || check_sums(pair, i, 9, false, err))))
                return report_wrong(err, "members' sums", i);
        if (check_broadcast(yk__coll_world(coll), turn, 1000, err))
            return report_wrong(err, "a broadcast to all", turn);
        if (yk__comm_set_members(members, all, err) || check_sums(members, turn, 100, true, err))
            return report_wrong(err, "all members", turn);
    }
    return 0;
}

/* A result for the last rank is longer than what a socket takes, and the member that sends it does not get to it for a while: it is beyond
 * that request, and no error. */
static int case_late(yk_error *err)
{
    yk__comm *members = yk__coll_members(coll);
    const bool some[MAX_RANKS] = {true, true};
    float v[3] = {1, 2, 3};
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = 3};
    yk__request *request = NULL;
    if (yk__comm_set_members(members, some, err) || check_gather(members, 1, 65536, true, err) ||
        check_gather(members, 2, 65536, true, err))
        return report_wrong(err, "a result", 0);
    if (yk__comm_has(members, rank)) {
        if (yk__coll_begin(members, &d, &request, err))
            return report_wrong(err, "begin", 0);
        usleep(300000);
        if (yk__coll_wait(request, err))
            return report_wrong(err, "wait", 0);
    } else {
        loopback_hold(1000); /* holds the other ranks' messages of a barrier */
    }
    if (yk__coll_run(yk__coll_world(coll), &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err))
        return report_wrong(err, "barrier", 0);
    if (check_gather(yk__coll_world(coll), 3, 8, false, err))
        return report_wrong(err, "all-gather", 0);
    return yk__coll_run(yk__coll_world(coll), &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err) ? report_wrong(err, "barrier", 1) : 0;
}

/* ---- Faults ------------------------------------------------------------------------------------------------------- */

static void test_place(const char **file, int *line)
{
    *file = rank ? "other.c" : "main.c";
    *line = 10 + (int)rank;
}

static int case_diverge(yk_error *err)
{
    yk__comm *world = yk__coll_world(coll);
    static const bool none = true;
    double v[3] = {0};
    yk__coll_place(coll, test_place);
    if (!rank)
        yk__coll_rows(coll, &none);
    if (rank)
        yk__coll_run(world, &(yk__coll_desc){.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .out = v, .count = 3}, err);
    else
        yk__coll_run(world, &(yk__coll_desc){.kind = YK__COLL_BROADCAST, .dtype = YK_F64, .out = v, .count = 3}, err);
    return report_wrong(err, "unlike requests", 0);
}

static int case_roots(yk_error *err)
{
    double v[3] = {0};
    yk__coll_place(coll, test_place);
    yk__coll_run(yk__coll_world(coll),
                 &(yk__coll_desc){.kind = YK__COLL_BROADCAST, .dtype = YK_F64, .out = v, .count = 3, .root = rank ? 1 : 0}, err);
    return report_wrong(err, "unlike roots", 0);
}

/* A reduce-scatter of unlike lengths. */
static int case_lengths(yk_error *err)
{
    yk__slices parts = {0};
    yk__coll_buffer b = {0};
    float out[2048];
    const uint64_t n = rank ? 1024 : 2048;
    yk__coll_place(coll, test_place);
    if (!yk__slices_even(&parts, n, ranks, err) &&
        !yk__coll_alloc(coll, "gradients", 2048 * sizeof(float), YK__COLL_PRIVATE, &b, err))
        yk__coll_run(yk__coll_world(coll),
                     &(yk__coll_desc){.kind = YK__COLL_REDUCE_SCATTER,
                                      .dtype = YK_F32,
                                      .out = out,
                                      .count = n,
                                      .buffer = &b,
                                      .parts = &parts},
                     err);
    report_wrong(err, "unlike lengths", 0);
    yk__coll_release(coll, &b);
    yk__slices_free(&parts);
    return 1;
}

/* All wait for rank 3, which begins and stands still; rank 1 waits for rank 2 first, which is late, as is what rank 3 would go on with. */
static int case_still(yk_error *err)
{
    float v[3] = {1, 2, 3};
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = 3};
    yk__request *request = NULL;
    usleep(rank == 2 ? 400000 : rank == 4 ? 200000 : 0);
    if (yk__coll_begin(yk__coll_world(coll), &d, &request, err))
        return report_wrong(err, "begin", 0);
    while (rank == 3)
        pause();
    if (!yk__coll_wait(request, err)) /* done: its messages were sent before */
        yk__coll_run(yk__coll_world(coll), &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err);
    return report_wrong(err, "a rank that stands still", 0);
}

static int case_kill(yk_error *err)
{
    for (uint32_t i = 0;; i++) {
        if (rank == 1 && i == 100)
            raise(SIGKILL);
        if (check_sums(yk__coll_world(coll), i, 500, false, err))
            return report_wrong(err, "a killed peer", i);
    }
}

/* A request is given up on all ranks; the communicator is of use again when its members are set. */
static int case_cancel(yk_error *err)
{
    const bool all[MAX_RANKS] = {true, true, true, true, true, true, true, true};
    yk__comm *members = yk__coll_members(coll);
    double v = 1;
    const yk__coll_desc d = {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .out = &v, .count = 1};
    yk_error refused = YK_ERROR_INIT;
    yk__request *request = NULL;
    if (yk__coll_begin(members, &d, &request, err))
        return report_wrong(err, "begin", 0);
    yk__coll_cancel(request);
    if (yk__coll_begin(members, &d, &request, &refused) != YK_E_CANCELLED)
        return report_wrong(err, "a request after a cancelled one", 0);
    if (yk__comm_set_members(members, all, err) || check_sums(members, 1, 300, false, err))
        return report_wrong(err, "members set anew", 0);
    return 0;
}

/* One too many, and what cannot be. */
static int case_limits(yk_error *err)
{
    yk__request *r[YK__COLL_REQUESTS], *more;
    const yk__coll_desc d = {.kind = YK__COLL_BARRIER};
    yk__comm *world = yk__coll_world(coll);
    double v[3] = {0};
    yk_error refused = YK_ERROR_INIT;
    for (uint32_t i = 0; i < YK__COLL_REQUESTS; i++)
        if (yk__coll_begin(world, &d, &r[i], err))
            return report_wrong(err, "begin", i);
    if (yk__coll_begin(world, &d, &more, &refused) != YK_E_ARG ||
        yk__comm_set_members(world, (const bool[MAX_RANKS]){true}, &refused) != YK_E_ARG)
        return report_wrong(err, "too many requests", 0);
    for (uint32_t i = YK__COLL_REQUESTS; i-- > 0;)
        if (yk__coll_wait(r[i], err))
            return report_wrong(err, "wait", i);
    if (yk__coll_run(world, &(yk__coll_desc){.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .op = YK__COLL_MAX, .out = v, .count = 3},
                     &refused) != YK_E_ARG ||
        yk__coll_run(world, &(yk__coll_desc){.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F64, .out = v, .count = 9000}, &refused) !=
            YK_E_ARG ||
        yk__coll_run(world, &(yk__coll_desc){.kind = YK__COLL_BROADCAST, .root = ranks, .out = v}, &refused) != YK_E_ARG)
        return report_wrong(err, "bad requests", 0);
    return 0;
}

/* ---- Which goes first --------------------------------------------------------------------------------------------- */

static uint32_t sent[256], n_sent; /* which request each chunk was of, in the order they were sent */
static uint32_t records;           /* messages with records so far */

static yk_status note_send(yk_tr *t, uint32_t peer, uint64_t tag, const yk_tr_range *from, yk_tr_op **op, yk_tr_error *error)
{
    records += (tag & 0xffff) == YK__MSG_STEP_RECORD;
    if ((tag & 0xffff) >= YK__MSG_STEP_DATA && n_sent < sizeof sent / sizeof *sent)
        sent[n_sent++] = (uint32_t)(tag >> 16 & 0xffffff);
    return loopback_transport()->send(t, peer, tag, from, op, error);
}

static const yk_transport *noting_transport(void)
{
    static yk_transport table;
    table = *loopback_transport();
    table.send = note_send;
    return &table;
}

/* Requests of many chunks that begin at once run in order; only the next one's first chunk may go ahead. */
static int case_order(yk_error *err)
{
    enum { REQUESTS = 4, NUMBERS = 1 << 20 };
    yk__request *request[REQUESTS];
    yk__coll_buffer block;
    yk__slices parts = {0};
    uint32_t first, left[REQUESTS] = {0};
    if (yk__slices_even(&parts, NUMBERS, ranks, err) ||
        yk__coll_alloc(coll, "parameters", NUMBERS * sizeof(float), YK__COLL_COMMON, &block, err))
        return report_wrong(err, "buffers", 0);
    for (int i = 0; i < REQUESTS; i++)
        if (yk__coll_begin(yk__coll_world(coll), &(yk__coll_desc){.kind = YK__COLL_ALL_GATHERV, .dtype = YK_F32, .count = NUMBERS,
                                                                  .buffer = &block, .parts = &parts}, &request[i], err))
            return report_wrong(err, "begin", (uint32_t)i);
    for (int i = 0; i < REQUESTS; i++)
        if (yk__coll_wait(request[i], err))
            return report_wrong(err, "wait", (uint32_t)i);
    first = sent[0];
    for (uint32_t i = 0; i < n_sent; i++)
        left[sent[i] - first]++;
    for (uint32_t i = 0; i < n_sent; i++) {
        const uint32_t which = sent[i] - first;
        for (uint32_t k = 0; k + 1 < which; k++)
            if (left[k])
                return report_wrong(err, "a request that is not its turn's", which);
        left[which]--;
    }
    yk__coll_release(coll, &block);
    yk__slices_free(&parts);
    return n_sent == REQUESTS * (NUMBERS / ranks / YK__MSG_CHUNK) ? 0 : report_wrong(err, "chunks", n_sent);
}

/* The slices of short vectors go in the rounds of their records; those of a long vector, or of one owner, do not. */
static int count_slices(uint32_t rounds, yk_error *err)
{
    enum { NUMBERS = 1 << 20, SHORT = 3000 };
    const uint32_t direct = ranks - 1;
    const double first[MAX_RANKS] = {1};
    yk__coll_buffer block;
    yk__slices parts[3] = {{0}};
    if (yk__coll_alloc(coll, "numbers", NUMBERS * sizeof(float), YK__COLL_PRIVATE, &block, err) ||
        yk__slices_even(&parts[0], SHORT, ranks, err) || yk__slices_even(&parts[1], NUMBERS, ranks, err) ||
        yk__slices_by(&parts[2], SHORT, ranks, first, err))
        return report_wrong(err, "buffers", 0);
    for (uint32_t i = 0; i < 6; i++) {
        const yk__slices *p = &parts[i / 2];
        const yk__coll_desc d = {.kind = i % 2 ? YK__COLL_ALL_GATHERV : YK__COLL_REDUCE_SCATTER, .dtype = YK_F32,
                                 .count = p->begin[ranks], .buffer = &block, .parts = p, .out = (float *)block.mem + p->begin[rank]};
        const bool in_rounds = i < 2 && ranks >= 4;
        records = n_sent = 0;
        if (yk__coll_run(yk__coll_world(coll), &d, err))
            return report_wrong(err, "slices", i);
        if (records != rounds || (in_rounds ? n_sent > 0 : i < 4 && n_sent < direct))
            return report_wrong(err, "a number of messages of slices", i);
    }
    for (uint32_t i = 0; i < 3; i++)
        yk__slices_free(&parts[i]);
    yk__coll_release(coll, &block);
    return 0;
}

/* A rank sends ceil(log2 n) messages for a small collective, and so many more than its data for any other. */
static int case_count(yk_error *err)
{
    static float v[400];
    static unsigned char all[MAX_RANKS * 8];
    const yk__coll_desc d[] = {{.kind = YK__COLL_BARRIER},
                               {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = 400},
                               {.kind = YK__COLL_ALL_REDUCE, .dtype = YK_F32, .out = v, .count = 3},
                               {.kind = YK__COLL_ALL_GATHER, .dtype = YK_U8, .in = v, .out = all, .count = 8},
                               {.kind = YK__COLL_BROADCAST, .dtype = YK_F32, .out = v, .count = 100}};
    uint32_t rounds = 0;
    while (1u << rounds < ranks)
        rounds++;
    if (count_slices(rounds, err))
        return 1;
    for (uint32_t i = 0; i < sizeof d / sizeof *d; i++) {
        records = n_sent = 0;
        if (yk__coll_run(yk__coll_world(coll), &d[i], err))
            return report_wrong(err, "a collective", i);
        if (records != rounds || (n_sent && (rank || d[i].kind != YK__COLL_BROADCAST)))
            return report_wrong(err, "a number of messages", i);
    }
    return 0;
}

/* ---- Ranks and launcher ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(yk_error *err);
} cases[] = {{"small", case_small},     {"slices", case_slices},   {"sole", case_sole}, {"members", case_members},
             {"diverge", case_diverge}, {"lengths", case_lengths}, {"kill", case_kill}, {"cancel", case_cancel},
             {"limits", case_limits},   {"late", case_late},       {"order", case_order},     {"roots", case_roots},
             {"few", case_few},         {"still", case_still},     {"count", case_count}};

static const struct {
    const char *name;
    const yk_transport *(*table)(void);
    bool messages_only, progress;
    uint64_t columns_from; /* member of yk__coll_config: 0 as measured, 1 always, UINT64_MAX never */
    uint64_t rounds_below; /* UINT64_MAX always, 0 never */
} ways[] = {{"shm", NULL, false, false, 0, 0},
            {"local", yk__local_transport, true, false, 4000, 600},
#ifdef HAVE_SODIUM
            {"sock", yk__sock_transport, true, false, 0, 0},
#endif
            {"loopback", loopback_transport, true, false, UINT64_MAX, 0},
            {"rounds", loopback_transport, true, false, UINT64_MAX, UINT64_MAX},
            {"threaded", loopback_transport, true, true, 1, 1},
            {"noting", noting_transport, true, false, UINT64_MAX, UINT64_MAX}};
#define WAYS ((int)(sizeof ways / sizeof *ways) - 1) /* the last is for one case alone */

static void leave_hash(void)
{
    FILE *f = rank ? NULL : fopen(getenv("YOKE_TEST_FILE"), "w");
    if (f) {
        fprintf(f, "%llx\n", (unsigned long long)hash);
        fclose(f);
    }
}

static int as_rank(const char *what, const char *way)
{
    const yk__control_config c = {.job_fd = atoi(getenv("YOKE_JOB_FD")), .liveness_ms = 1300, .join_ms = 10000,
                                  .stuck_ms = !strcmp(what, "still") ? 1500 : 20000};
    yk_error err = YK_ERROR_INIT;
    int bad = 1;
    size_t w = 0;
    while (strcmp(ways[w].name, way))
        w++;
    if (yk__control_join(&c, &control, &err))
        return 1;
    rank = yk__control_rank(control);
    ranks = yk__control_size(control);
    if (yk__coll_new(&(yk__coll_config){.control = control, .transport = ways[w].table ? ways[w].table() : NULL,
                                        .messages_only = ways[w].messages_only, .progress = ways[w].progress,
                                        .columns_from = ways[w].columns_from, .rounds_below = ways[w].rounds_below},
                     &coll, &err))
        return report_wrong(&err, "collectives", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, what))
            bad = cases[i].run(&err);
    if (!bad)
        leave_hash();
    yk__coll_free(coll);
    yk__control_leave(control);
    return bad;
}

static char file[] = "/tmp/yoke-coll-XXXXXX";

static void file_make(void)
{
    strcpy(file, "/tmp/yoke-coll-XXXXXX");
    ck_assert_int_ge(mkstemp(file), 0);
    setenv("YOKE_TEST_FILE", file, 1);
}

static void file_remove(void)
{
    unlink(file);
}

static void run_way(int way, const char *what, uint32_t n, char *text, int size)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    FILE *f;
    ck_assert_msg(!ranks_start(n, what, ways[way].name, &code, &err) && !code, "%s, %u ranks, %s: %s", what, n, ways[way].name,
                  err.text);
    f = fopen(file, "r");
    ck_assert(f && fgets(text, size, f));
    fclose(f);
}

/* All ways give the same bits. */
static void expect_same_of(const char *what, uint32_t n)
{
    char first[64] = "", text[64] = "";
    for (int w = 0; w < WAYS; w++) {
        run_way(w, what, n, w ? text : first, 64);
        ck_assert_msg(!w || !strcmp(first, text), "%s, %u ranks, %s: other bits than %s", what, n, ways[w].name, ways[0].name);
    }
}

static void expect_same(const char *what)
{
    for (uint32_t n = 2; n <= (TEST_UNDER_TSAN || TEST_UNDER_ASAN ? 3 : 4); n++) /* four have no other threads, nor memory */
        expect_same_of(what, n);
}

START_TEST(small_ones_are_equal)
{
    expect_same("small");
}
END_TEST

START_TEST(small_ones_of_many_are_equal)
{
    char text[64];
    static const uint32_t n[] = {5, 8, 7, 16}; /* the last two by each way in ./check --long; else their rounds alone have values */
    for (size_t i = 0; i < (TEST_UNDER_TSAN ? 1 : getenv("YOKE_TEST_LONG") ? 4 : 2); i++) /* more have no other threads */
        expect_same_of("few", n[i]);
    if (TEST_UNDER_TSAN || TEST_UNDER_ASAN || getenv("YOKE_TEST_LONG"))
        return;
    for (int w = 0; w < WAYS; w++)
        for (size_t i = 2; i < 4 && !strcmp(ways[w].name, "rounds"); i++)
            run_way(w, "few", n[i], text, sizeof text);
}
END_TEST

START_TEST(messages_are_few)
{
    static const uint32_t n[] = {2, 3, 4, 5, 7, 8, 9, 16};
    char text[64];
    for (size_t i = 0; i < (TEST_UNDER_TSAN || TEST_UNDER_ASAN ? 4 : sizeof n / sizeof *n); i++)
        run_way(WAYS, "count", n[i], text, sizeof text);
}
END_TEST

START_TEST(slices_are_equal)
{
    expect_same("slices");
    for (uint32_t n = 5; n <= (TEST_UNDER_TSAN ? 0 : getenv("YOKE_TEST_LONG") ? 7 : 5); n += 2)
        expect_same_of("slices", n);
}
END_TEST

START_TEST(a_sole_member)
{
    char text[64];
    run_way(_i, "sole", 2, text, sizeof text);
}
END_TEST

START_TEST(members_change)
{
    expect_same("members");
}
END_TEST

START_TEST(a_result_may_be_late)
{
    char text[64];
    run_way(_i, "late", 3, text, sizeof text);
}
END_TEST

START_TEST(limits_are_errors)
{
    char text[64];
    run_way(_i, "limits", 3, text, sizeof text);
}
END_TEST

START_TEST(what_is_needed_first_goes_first)
{
    char text[64];
    run_way(WAYS, "order", 2, text, sizeof text);
}
END_TEST

START_TEST(cancelled_requests)
{
    char text[64];
    run_way(_i, "cancel", 3, text, sizeof text);
}
END_TEST

static void expect_error(int way, uint32_t n, const char *what, const char *one, const char *two)
{
    yk_error err = YK_ERROR_INIT;
    const double begin = ranks_now();
    int code = -1;
    ranks_start(n, what, ways[way].name, &code, &err);
    ck_assert_msg(err.status && code == 1 && strstr(err.text, one) && strstr(err.text, two), "%s, %u ranks, %s: %s", what, n,
                  ways[way].name, err.text);
    ck_assert_msg(ranks_now() - begin < RANKS_SOON, "%s, %s: %.1f s", what, ways[way].name, ranks_now() - begin);
}

START_TEST(diverging_ranks_end)
{
    for (uint32_t n = 3; n <= 6; n += 3) {
        expect_error(_i, n, "diverge", "a broadcast of 24 bytes from rank 0, with no rows of the step, called at main.c:10",
                     "a sum of f64 of 24 bytes called at other.c:1");
        expect_error(_i, n, "roots", "a broadcast of 24 bytes from rank 0 called at main.c:10",
                     "a broadcast of 24 bytes from rank 1 called at other.c:1");
        expect_error(_i, n, "lengths", "a reduce-scatter of 8192 bytes called at main.c:10",
                     "a reduce-scatter of 4096 bytes called at other.c:1");
    }
}
END_TEST

START_TEST(killed_peer)
{
    expect_error(_i, 3, "kill", "rank 1 (opencl:0@1) was killed by signal 9", "");
    expect_error(_i, 5, "kill", "rank 1 (opencl:0@1) was killed by signal 9", "");
}
END_TEST

START_TEST(a_rank_that_stands_still_is_named)
{
    expect_error(_i, 5, "still", "rank 3 (opencl:0@3) has made no progress", "");
}
END_TEST

/* a + s b in one round is a direct exchange, 2 a + s b 2/n in two is one by columns. */
START_TEST(columns_begin_where_they_are_faster)
{
    static const struct {
        double direct_ns, slope_ns;
        uint32_t ranks;
    } lines[] = {{300e3, 160.0, 3}, {300e3, 160.0, 8}, {20e3, 1.0, 4}, {5e3, 2.0, 1000}};
    static const yk__plan_line never[] = {{300e3, 160.0}, {300e3, 0.01}, {300e3, -1.0}};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const double a = lines[i].direct_ns, s = lines[i].slope_ns, n = lines[i].ranks;
        const yk__plan_line direct = {a, s};
        const uint64_t from = yk__plan_crossing(direct, yk__plan_by_columns(direct, lines[i].ranks));
        ck_assert_msg(from > 16 && from < YK__COLL_SMALL, "line %zu: %llu", i, (unsigned long long)from);
        for (uint64_t b = from - 16; b < from + 16; b++)
            if (b < from - 1 || b > from)
                ck_assert_msg((a + s * (double)b > 2 * a + s * (double)b * 2 / n) == (b >= from), "line %zu: %llu bytes", i,
                              (unsigned long long)b);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        ck_assert_uint_eq(yk__plan_crossing(never[i], yk__plan_by_columns(never[i], i ? 3 : 2)), UINT64_MAX);
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("coll");
    tcase_add_checked_fixture(t, file_make, file_remove);
    tcase_add_test(t, columns_begin_where_they_are_faster);
    tcase_add_test(t, small_ones_are_equal);
    tcase_add_test(t, small_ones_of_many_are_equal);
    tcase_add_test(t, messages_are_few);
    tcase_add_test(t, slices_are_equal);
    tcase_add_loop_test(t, a_sole_member, 0, WAYS);
    tcase_add_test(t, members_change);
    tcase_add_loop_test(t, a_result_may_be_late, 0, WAYS);
    tcase_add_loop_test(t, limits_are_errors, 0, WAYS);
    tcase_add_test(t, what_is_needed_first_goes_first);
    tcase_add_loop_test(t, cancelled_requests, 0, WAYS);
    tcase_add_loop_test(t, diverging_ranks_end, 0, WAYS);
    tcase_add_loop_test(t, killed_peer, 0, WAYS);
    tcase_add_loop_test(t, a_rank_that_stands_still_is_named, 0, WAYS);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("coll", t);
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 2 ? as_rank(argv[1], argv[2]) : run_suite();
}
