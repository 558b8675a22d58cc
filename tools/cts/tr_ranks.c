/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks of a transport's test (yoke-cts --transport): processes forked for it, with a shared piece of memory for their meetings and
 * verdicts. The groups tr_*.c call cts_tr_run in the child that yoke-cts started for the group; tests call the other functions in the
 * ranks. No rank waits for another for longer than a test may take, even if the transport hangs.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/cts/tr.h"

enum { PAUSE_US = 200, GRACE_MS = 500 };

struct cts_tr_meeting {
    uint32_t entered[CTS_TR_RANKS]; /* atomic: meetings that the rank has come to */
    uint32_t died[CTS_TR_RANKS];    /* atomic: it is no more */
    cts_tr_verdicts verdicts;
    uint8_t blob[2][CTS_TR_RANKS][CTS_TR_BLOB]; /* for even and odd meetings, as no rank is two meetings ahead */
};

/* ---- In a rank ----------------------------------------------------------------------------------------------------------- */

/* Waits until the counters of ranks from .. to - 1 have reached `value`; drives the transport, if it is open. */
static bool ranks_await(cts_tr *t, const uint32_t *reached, uint32_t from, uint32_t to, uint32_t value)
{
    const int64_t until = yk__clock_ms() + t->limit_ms;
    for (uint32_t r = from; r < to;) {
        uint64_t events = 0;
        yk_tr_error error = {""};
        if (__atomic_load_n(&reached[r], __ATOMIC_ACQUIRE) >= value) {
            r++;
            continue;
        }
        if (cts_tr_any_failed(t->verdicts))
            return cts_tr_late(t, "another rank has failed");
        if (yk__clock_ms() > until)
            return cts_tr_late(t, "rank %u did not come within %d ms", r, t->limit_ms);
        if (t->tr && !cts_tr_ok(t, t->table->progress(t->tr, 0, &events, &error), &error, "progress"))
            return false;
        usleep(PAUSE_US);
    }
    return true;
}

bool cts_tr_exchange(cts_tr *t, const void *own, uint32_t bytes, void *all)
{
    cts_tr_meeting *m = t->meeting;
    const uint32_t number = m->entered[t->rank] + 1;
    if (bytes > CTS_TR_BLOB)
        return cts_tr_fail(t, "the transport exchanges %u bytes, at most %d are allowed", bytes, CTS_TR_BLOB);
    memcpy(m->blob[number % 2][t->rank], own, bytes);
    __atomic_store_n(&m->entered[t->rank], number, __ATOMIC_RELEASE);
    if (!ranks_await(t, m->entered, 0, t->ranks, number))
        return false;
    for (uint32_t r = 0; r < t->ranks; r++)
        memcpy((uint8_t *)all + (size_t)r * bytes, m->blob[number % 2][r], bytes);
    return true;
}

bool cts_tr_meet(cts_tr *t)
{
    uint8_t all[CTS_TR_RANKS];
    return cts_tr_exchange(t, "", 1, all);
}

uint32_t cts_tr_victim(const cts_tr *t)
{
    (void)t;
    return 1;
}

bool cts_tr_await_death(cts_tr *t, uint32_t rank)
{
    yk_tr *tr = t->tr;
    bool dead;
    t->tr = NULL; /* the test observes the transport's own reaction to the death */
    dead = ranks_await(t, t->meeting->died, rank, rank + 1, 1);
    t->tr = tr;
    return dead;
}

void cts_tr_die(cts_tr *t)
{
    (void)t;
    kill(getpid(), SIGKILL);
    _exit(4);
}

static yk_status exchange_blobs(void *arg, const void *own, uint32_t bytes, void *all, yk_tr_error *error)
{
    cts_tr *t = arg;
    if (cts_tr_exchange(t, own, bytes, all))
        return YK_OK;
    snprintf(error->text, sizeof error->text, "%.600s", t->verdicts->rank[t->rank].text);
    return YK_E_CANCELLED;
}

/* Plays the host's control plane. */
static yk_status check_ranks(void *arg, yk_tr_error *error)
{
    const cts_tr *t = arg;
    for (uint32_t r = 0; r < t->ranks; r++)
        if (__atomic_load_n(&t->meeting->died[r], __ATOMIC_ACQUIRE)) {
            snprintf(error->text, sizeof error->text, "rank %u has died", r);
            return YK_E_CANCELLED;
        }
    return YK_OK;
}

static bool rank_open(cts_tr *t, bool hosts)
{
    static const uint8_t secret[32] = "the secret of this conformance..";
    uint64_t host[CTS_TR_RANKS] = {0};
    yk_tr_error error = {""};
    const yk_tr_config config = {.size = sizeof config, .rank = t->rank, .ranks = t->ranks, .host = host, .name = "yoke-cts",
                                 .exchange = exchange_blobs, .exchange_arg = t, .secret = secret, .secret_bytes = sizeof secret,
                                 .shared = t->shared, .address = "127.0.0.1", .check = check_ranks};
    for (uint32_t r = 0; hosts && r < t->ranks; r++)
        host[r] = 7 + r;
    return cts_tr_ok(t, t->table->open(&config, &t->tr, &error), &error, "open");
}

bool cts_tr_open(cts_tr *t)
{
    return rank_open(t, false);
}

void cts_tr_close(cts_tr *t)
{
    t->table->close(t->tr);
    t->tr = NULL;
}

static void rank_run(cts_tr *t, unsigned how, cts_tr_test *test)
{
    if (!(how & CTS_TR_CLOSED) && !rank_open(t, (how & CTS_TR_HOSTS) != 0))
        _exit(1);
    if (!test(t) && !cts_tr_verdict_is(t->verdicts, t->rank, CTS_TR_UNSUPPORTED))
        _exit(1); /* operations in flight may refer to freed memory */
    if (!(how & (CTS_TR_CLOSED | CTS_TR_LOSES)))
        cts_tr_meet(t); /* no rank closes while other ranks need it */
    if (t->tr)
        cts_tr_close(t);
    fflush(stdout);
    _exit(0);
}

/* ---- In the process of the group ----------------------------------------------------------------------------------------- */

typedef struct trial {
    cts *c;
    cts_tr t; /* as every rank begins */
    unsigned how;
    pid_t pid[CTS_TR_RANKS]; /* 0: it has ended */
} trial;

static void *memory_share(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void ranks_start(trial *x, cts_tr_test *test)
{
    fflush(NULL);
    for (uint32_t r = 0; r < x->t.ranks; r++) {
        x->pid[r] = fork();
        if (x->pid[r] == 0) {
            x->t.rank = r;
            rank_run(&x->t, x->how, test);
        }
    }
}

static void rank_ended(trial *x, uint32_t r, int status)
{
    const bool meant = (x->how & CTS_TR_LOSES) && r == cts_tr_victim(&x->t);
    x->pid[r] = 0;
    __atomic_store_n(&x->t.meeting->died[r], 1, __ATOMIC_RELEASE);
    if (WIFSIGNALED(status) && !(meant && WTERMSIG(status) == SIGKILL)) {
        cts_tr_set_failed(x->t.verdicts);
        cts_fail(x->c, "rank %u was killed by signal %d (%s)", r, WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (WIFEXITED(status) && WEXITSTATUS(status) > 1) {
        cts_tr_set_failed(x->t.verdicts);
        cts_fail(x->c, "rank %u ended with code %d", r, WEXITSTATUS(status));
    }
}

/* True once all ranks have ended. */
static bool ranks_collect(trial *x)
{
    bool all = true;
    for (uint32_t r = 0; r < x->t.ranks; r++) {
        int status = 0;
        if (x->pid[r] > 0 && waitpid(x->pid[r], &status, WNOHANG) == x->pid[r])
            rank_ended(x, r, status);
        all = all && x->pid[r] <= 0;
    }
    return all;
}

static void ranks_kill(trial *x)
{
    for (uint32_t r = 0; r < x->t.ranks; r++)
        if (x->pid[r] > 0) {
            kill(x->pid[r], SIGKILL);
            waitpid(x->pid[r], NULL, 0);
            cts_fail(x->c, "rank %u did not end within %d ms", r, 2 * x->t.limit_ms);
        }
}

static void verdicts_fail(const trial *x, cts_tr_state state)
{
    for (uint32_t r = 0; r < x->t.ranks; r++)
        if (cts_tr_verdict_is(x->t.verdicts, r, state))
            cts_fail(x->c, "rank %u: %s", r, x->t.verdicts->rank[r].text);
}

/* Reports the most telling verdict: a failure before a hang, and a hang before a vain wait for another rank. */
static void trial_report(trial *x)
{
    verdicts_fail(x, CTS_TR_FAILED);
    ranks_kill(x);
    verdicts_fail(x, CTS_TR_LATE);
    for (uint32_t r = 0; r < x->t.ranks; r++)
        if (cts_tr_verdict_is(x->t.verdicts, r, CTS_TR_UNSUPPORTED) && !x->c->failed_now) {
            cts_unsupported(x->c, "%s", x->t.verdicts->rank[r].text);
            return;
        }
    cts_pass(x->c);
}

/* Waits until all ranks have ended, or their time is over; after a failure the other ranks get little more. */
static void ranks_finish(trial *x)
{
    int64_t until = yk__clock_ms() + 2 * x->t.limit_ms;
    bool hurry = false;
    while (!ranks_collect(x) && yk__clock_ms() < until) {
        if (!hurry && cts_tr_any_failed(x->t.verdicts)) {
            const int64_t early = yk__clock_ms() + x->t.limit_ms + GRACE_MS;
            until = early < until ? early : until;
            hurry = true;
        }
        usleep(PAUSE_US);
    }
}

void cts_tr_run(cts *c, const char *name, uint32_t ranks, unsigned how, cts_tr_test *test)
{
    const uint64_t bytes = c->transport->shared_bytes(ranks);
    trial x = {.c = c, .how = how, .t = {.suite = c, .table = c->transport, .ranks = ranks,
                                         .limit_ms = (int)(c->timeout_ns / 1000000u)}};
    if (!cts_begin(c, "%s", name))
        return;
    x.t.meeting = memory_share(sizeof *x.t.meeting);
    x.t.shared = bytes ? memory_share(bytes) : NULL;
    if (!x.t.meeting || (bytes && !x.t.shared)) {
        cts_fail(c, "memory for the ranks to share: %s", strerror(errno));
        return;
    }
    x.t.verdicts = &x.t.meeting->verdicts;
    ranks_start(&x, test);
    ranks_finish(&x);
    trial_report(&x);
    munmap(x.t.meeting, sizeof *x.t.meeting);
    if (x.t.shared)
        munmap(x.t.shared, bytes);
}
