/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulls over messages (core/coll/pull.h), by the transports local and sock and a small one without any memory in common: ranks with random
 * delays read random ranges of each other's slices, and find the version of their own step. A rank that is in its own code answers. An ask
 * that is old, early, cut, doubled, forged or out of range ends the job with both names, and so does a false answer. An owner that dies or
 * stands still in a pull ends it in time.
 */
#include "config.h"

#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

#include <check.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "core/coll/coll.h"
#include "core/coll/messages/msg_plane.h"
#include "core/coll/pull.h"
#include "tests/support/loopback.h"
#include "tests/support/run.h"
#include "transport/local/local.h"
#include "transport/sock/sock.h"

enum { VECTORS = 3, FLIGHTS = 3, STEPS = TEST_UNDER_TSAN ? 12 : 40 };

static const uint64_t sizes[VECTORS] = {192, 65536, 700000}; /* elements; the last one's answers have several messages */

static yk__control *control;
static yk__coll *coll;
static uint32_t rank, ranks;
static yk__slices parts[VECTORS];
static uint32_t *own[VECTORS]; /* this rank's slice */

static int wrong_tell(const yk_error *err, const char *what)
{
    yk_error why = YK_ERROR_INIT;
    yk__fail(&why, YK_E_INTERNAL, "%s: %s", what, err->status ? err->text : "other values");
    yk__coll_abort(coll, err->status ? err : &why);
    yk__control_report(atoi(getenv("YOKE_JOB_FD")), err->status ? err : &why);
    return 1;
}

/* Ranks draw other numbers than each other. */
static uint32_t number_draw(uint32_t step, uint32_t k)
{
    uint32_t c[4] = {rank, step, k, 0}, key[2] = {3, 4}, out[4];
    yk__philox(c, key, out);
    return out[0];
}

static uint32_t value_of(uint32_t vector, uint64_t i, uint32_t version)
{
    return (uint32_t)i * 2654435761u + version * 40503u + vector;
}

static int slices_write(uint32_t version, yk_error *err)
{
    if (yk__coll_withdraw(coll, err))
        return 1;
    for (uint32_t v = 0; v < VECTORS; v++)
        for (uint64_t i = parts[v].begin[rank]; i < parts[v].begin[rank + 1]; i++)
            own[v][i - parts[v].begin[rank]] = value_of(v, i, version);
    usleep(number_draw(version, 100) % 3000);
    yk__coll_publish(coll);
    return 0;
}

/* The last of three ranks or more has no slice of the last vector. */
static int slices_make(yk_error *err)
{
    for (uint32_t v = 0; v < VECTORS; v++) {
        double part[16];
        for (uint32_t r = 0; r < ranks; r++)
            part[r] = ranks > 2 && v == VECTORS - 1 && r == ranks - 1 ? 0 : 1 + r % 3;
        if (yk__slices_by(&parts[v], sizes[v], ranks, part, err))
            return 1;
        const uint64_t at = parts[v].begin[rank], n = parts[v].begin[rank + 1] - at;
        own[v] = calloc(n + 1, sizeof *own[v]);
        if (n && yk__coll_offer(coll, v, own[v], at * sizeof *own[v], n * sizeof *own[v], err))
            return 1;
    }
    return 0;
}

typedef struct flight {
    yk__pulling *pulling;
    uint32_t vector;
    uint64_t from, to;
    uint32_t *data;
} flight;

static yk_status flight_begin(flight *f, uint32_t step, uint32_t k, yk_error *err)
{
    yk__pull_part list[16];
    uint32_t n = 0;
    f->vector = number_draw(step, 4 * k) % VECTORS;
    f->from = number_draw(step, 4 * k + 1) % sizes[f->vector];
    f->to = f->from + 1 + number_draw(step, 4 * k + 2) % (sizes[f->vector] - f->from);
    f->data = calloc(f->to - f->from, sizeof *f->data);
    for (uint32_t r = 0; r < ranks; r++) {
        const uint64_t *begin = parts[f->vector].begin;
        const uint64_t from = f->from > begin[r] ? f->from : begin[r], to = f->to < begin[r + 1] ? f->to : begin[r + 1];
        if (from >= to)
            continue;
        if (r == rank)
            memcpy(f->data + (from - f->from), own[f->vector] + (from - begin[r]), (to - from) * sizeof *f->data);
        else
            list[n++] = (yk__pull_part){r, from * sizeof *f->data, (to - from) * sizeof *f->data, f->data + (from - f->from)};
    }
    return yk__coll_pull(coll, f->vector, list, n, &f->pulling, err);
}

static bool flight_end(flight *f, uint32_t version, yk_error *err)
{
    bool good = !yk__coll_pulled(&f->pulling, err);
    for (uint64_t i = f->from; i < f->to && good; i++)
        good = f->data[i - f->from] == value_of(f->vector, i, version);
    free(f->data);
    return good;
}

static yk_status ranks_meet(yk_error *err)
{
    return yk__coll_run(yk__coll_world(coll), &(yk__coll_desc){.kind = YK__COLL_BARRIER}, err);
}

static void slices_free(void)
{
    yk_error ignored = YK_ERROR_INIT;
    for (uint32_t v = 0; v < VECTORS; v++) {
        yk__coll_offer(coll, v, NULL, 0, 0, &ignored);
        yk__slices_free(&parts[v]);
        free(own[v]);
    }
}

/* The barrier is the norm of a step: no rank writes before all have read. */
static int case_versions(yk_error *err)
{
    if (slices_make(err))
        return wrong_tell(err, "slices");
    for (uint32_t step = 1; step <= STEPS; step++) {
        flight f[FLIGHTS];
        if (slices_write(step, err))
            return wrong_tell(err, "a new version");
        if (number_draw(step, 101) % 8 == 0)
            loopback_hold((int)(number_draw(step, 102) % 20));
        for (uint32_t k = 0; k < FLIGHTS; k++)
            if (flight_begin(&f[k], step, k, err))
                return wrong_tell(err, "begin");
        usleep(number_draw(step, 103) % 2000);
        for (uint32_t k = 0; k < FLIGHTS; k++)
            if (!flight_end(&f[k], step, err))
                return wrong_tell(err, "a pull");
        if (ranks_meet(err))
            return wrong_tell(err, "a barrier");
    }
    slices_free();
    return 0;
}

/* Rank 1 is in its own code until rank 0 has read from it. */
static int case_busy(yk_error *err)
{
    const char *file = getenv("YOKE_TEST_FILE");
    if (slices_make(err) || slices_write(1, err))
        return wrong_tell(err, "slices");
    for (int i = 0; rank && i < 20000 && access(file, F_OK); i++)
        usleep(1000);
    if (rank && access(file, F_OK))
        return wrong_tell(err, "rank 0 got no answer of a rank in its own code");
    for (uint32_t k = 0; k < 8 && !rank; k++) {
        flight f;
        if (flight_begin(&f, 1, k, err) || !flight_end(&f, 1, err))
            return wrong_tell(err, "a pull");
    }
    if (!rank)
        fclose(fopen(file, "w"));
    if (ranks_meet(err))
        return wrong_tell(err, "a barrier");
    slices_free();
    return 0;
}

/* ---- Faults ------------------------------------------------------------------------------------------------------- */

/* An ask as it travels (msg_pull.c). */
typedef struct ask {
    uint32_t magic, key;
    uint64_t number, version, at, bytes;
} ask;

/* Sends bytes to rank 0, which is in a barrier. */
static int bytes_send(uint64_t tag, const void *data, uint64_t bytes, uint32_t times, yk_error *err)
{
    const yk_tr_range range = {.data = (void *)(uintptr_t)data, .bytes = bytes};
    yk_tr_op *op[2] = {NULL, NULL};
    yk_tr_error why = {""};
    uint64_t events = 0;
    yk__msg_lock(coll);
    for (uint32_t i = 0; i < times && rank; i++)
        yk__msg_send(coll->plane, 0, tag, &range, &op[i], &why);
    yk__msg_unlock(coll);
    while (rank && !yk__coll_why(coll, err) && !coll->plane->table->progress(coll->plane->tr, 1, &events, &why))
        ;
    if (!rank)
        ranks_meet(err);
    yk__msg_lock(coll);
    for (uint32_t i = 0; i < times && op[i]; i++)
        yk__msg_cancel(coll->plane, op[i]);
    yk__msg_unlock(coll);
    return wrong_tell(err, "a fault");
}

/* The second barrier: an ask for version 1 is right until rank 0 has published version 2. */
static int case_asks(const ask *a, uint64_t bytes, uint32_t times, yk_error *err)
{
    if (slices_make(err) || slices_write(1, err) || ranks_meet(err) || slices_write(2, err) || ranks_meet(err))
        return wrong_tell(err, "slices");
    return bytes_send(YK__MSG_TAG_ASK, a, bytes, times, err);
}

#define MAGIC 0x6c6c7570u

static int case_old(yk_error *err)
{
    return case_asks(&(ask){MAGIC, 0, 1, 1, 0, 4}, sizeof(ask), 1, err);
}

static int case_early(yk_error *err)
{
    return case_asks(&(ask){MAGIC, 0, 1, 4, 0, 4}, sizeof(ask), 1, err);
}

static int case_cut(yk_error *err)
{
    return case_asks(&(ask){MAGIC, 0, 1, 2, 0, 4}, sizeof(ask) - 8, 1, err);
}

static int case_doubled(yk_error *err)
{
    return case_asks(&(ask){MAGIC, 0, 1, 2, 0, 4}, sizeof(ask), 2, err);
}

static int case_forged(yk_error *err)
{
    return case_asks(&(ask){7, 0, 1, 2, 0, 4}, sizeof(ask), 1, err);
}

static int case_outside(yk_error *err)
{
    return case_asks(&(ask){MAGIC, 1, 1, 2, 8, UINT64_MAX - 4}, sizeof(ask), 1, err);
}

static int case_unknown(yk_error *err)
{
    return case_asks(&(ask){MAGIC, 1000000, 1, 2, 0, 4}, sizeof(ask), 1, err);
}

/* Rank 1 offers nothing, so it does not listen, and sends what looks like an answer to another ask. */
static int case_answer(yk_error *err)
{
    static char data[64];
    yk__pulling *pulling;
    if (rank)
        return bytes_send(YK__MSG_TAG_ANSWER, &(ask){MAGIC, 0, 1, 1, 0, 4}, sizeof(ask), 1, err);
    if (slices_make(err) || slices_write(1, err) ||
        yk__coll_pull(coll, 0, &(yk__pull_part){1, 0, sizeof data, data}, 1, &pulling, err))
        return wrong_tell(err, "a pull");
    yk__coll_pulled(&pulling, err);
    return wrong_tell(err, "a false answer");
}

/* Rank 0 pulls from rank 1 until the signal comes: of a rank in mid-answer, or that has not published yet. */
static int pull_until(int number, bool published, yk_error *err)
{
    static uint32_t data[700000];
    const uint64_t n = sizes[2] / 2;
    if (slices_make(err) || ((published || !rank) && slices_write(1, err)))
        return wrong_tell(err, "slices");
    if (rank) {
        usleep(150000);
        raise(number);
    }
    while (!rank && !err->status) {
        yk__pulling *pulling;
        if (!yk__coll_pull(coll, 2, &(yk__pull_part){1, parts[2].begin[1] * 4, n * 4, data}, 1, &pulling, err))
            yk__coll_pulled(&pulling, err);
    }
    return wrong_tell(err, "an owner that is gone");
}

static int case_killed(yk_error *err)
{
    return pull_until(SIGKILL, true, err);
}

static int case_killed_before(yk_error *err)
{
    return pull_until(SIGKILL, false, err);
}

static int case_stopped(yk_error *err)
{
    return pull_until(SIGSTOP, true, err);
}

/* ---- Ranks and launcher ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(yk_error *err);
    uint32_t ranks;
    const char *one, *two; /* texts of its error; NULL: it passes */
} cases[] = {{"versions", case_versions, 4, NULL, NULL},
             {"busy", case_busy, 3, NULL, NULL},
             {"old", case_old, 2, "rank 1 (opencl:0@1) asks rank 0 (opencl:0@0) in pull 1 for version 1",
              "expected the version that was published last, or the next"},
             {"early", case_early, 2, "for version 4", "expected the version that was published last, or the next"},
             {"cut", case_cut, 2, "a message of a pull from rank 1", "has 32 bytes: expected 40"},
             {"doubled", case_doubled, 2, "asks rank 0 (opencl:0@0) in pull 1", "no ask, or not the next"},
             {"forged", case_forged, 2, "rank 1 (opencl:0@1) asks rank 0", "no ask, or not the next"},
             {"outside", case_outside, 2, "rank 1 (opencl:0@1) asks rank 0", "this rank does not have them"},
             {"unknown", case_unknown, 2, "of bucket 1000000", "this rank does not have them"},
             {"answer", case_answer, 2, "rank 1 (opencl:0@1) answers pull 1 of rank 0 (opencl:0@0) with another one", ""},
             {"killed", case_killed, 2, "rank 1 (opencl:0@1) was killed by signal 9", ""},
             {"killed before", case_killed_before, 2, "rank 1 (opencl:0@1) was killed by signal 9", ""},
             {"stopped", case_stopped, 2, "rank 1 (opencl:0@1) was stopped while other ranks run", ""}};

static const struct {
    const char *name;
    const yk_transport *(*table)(void);
    yk__seal seal;
} ways[] = {{"loopback", loopback_transport, YK__SEAL_OFF},
            {"sealed", loopback_transport, YK__SEAL_ON},
#ifdef HAVE_SODIUM
            {"sock", yk__sock_transport, YK__SEAL_AUTO},
#endif
            {"local", yk__local_transport, YK__SEAL_AUTO}};

enum { CASES = sizeof cases / sizeof *cases, WAYS = sizeof ways / sizeof *ways };

static int as_rank(const char *what, const char *way)
{
    const yk__control_config c = {.job_fd = atoi(getenv("YOKE_JOB_FD")), .liveness_ms = 1300, .join_ms = 10000, .stuck_ms = 20000};
    yk_error err = YK_ERROR_INIT;
    int bad = 1;
    size_t w = 0;
    while (strcmp(ways[w].name, way))
        w++;
    if (yk__control_join(&c, &control, &err))
        return 1;
    rank = yk__control_rank(control);
    ranks = yk__control_size(control);
    if (yk__coll_new(&(yk__coll_config){.control = control, .transport = ways[w].table(), .seal = ways[w].seal, .messages_only = true,
                                        .progress = true},
                     &coll, &err)) {
        yk__control_report(c.job_fd, &err);
        return 1;
    }
    for (size_t i = 0; i < CASES; i++)
        if (!strcmp(cases[i].name, what))
            bad = cases[i].run(&err);
    yk__coll_free(coll);
    yk__control_leave(control);
    return bad;
}

static void case_run(int i, int way)
{
    yk_error err = YK_ERROR_INIT;
    char file[] = "/tmp/yoke-pulled-XXXXXX";
    const double begin = ranks_now();
    int code = -1;
    close(mkstemp(file));
    unlink(file);
    setenv("YOKE_TEST_FILE", file, 1);
    ranks_start(cases[i].ranks, cases[i].name, ways[way].name, &code, &err);
    unlink(file);
    if (!cases[i].one)
        ck_assert_msg(!err.status && !code, "%s, %s: exit code %d, %s", cases[i].name, ways[way].name, code, err.text);
    else
        ck_assert_msg(err.status && code == 1 && strstr(err.text, cases[i].one) && strstr(err.text, cases[i].two), "%s, %s: %s",
                      cases[i].name, ways[way].name, err.text);
    ck_assert_msg(!cases[i].one || ranks_now() - begin < RANKS_SOON, "%s, %s: %.1f s", cases[i].name, ways[way].name, ranks_now() - begin);
}

/* Each transport runs the cases that depend on it; two of them run the faults of asks, and one under TSan: other bytes in one thread. */
START_TEST(a_case)
{
    const bool any = !cases[_i].one || cases[_i].run == case_killed || cases[_i].run == case_stopped;
    for (int way = 0; way < WAYS; way += any ? 1 : TEST_UNDER_TSAN ? WAYS : WAYS - 1)
        case_run(_i, way);
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("pulled");
    tcase_add_loop_test(t, a_case, 0, CASES);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("pulled", t);
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 2 ? as_rank(argv[1], argv[2]) : run_suite();
}
