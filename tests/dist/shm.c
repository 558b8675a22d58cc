/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting in memory that ranks have in common: too much of it, and ranks that do nothing. */
#include "config.h"

#include "tests/support/ranks.h"
#include "tests/support/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/coll/shm/shm.h"

#define OWN_S 20

static yk__control *control;
static yk__shm *shm;
static yk__counter *counter; /* [ranks] */
static uint32_t rank, work;  /* work: this rank's count of progress */

/* In the place of the C library's: signals come so often that no call for more than so many bytes is done before the next. */
static off_t most_reserved = INT64_MAX;
static int interrupted;

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    if (mode || bytes <= most_reserved)
        return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
    if (++interrupted == 3 && !most_reserved)
        yk__control_end(control, 0, YK_E_ARG, "the user has had enough");
    if (interrupted == 1000)
        unlink(getenv("TEST_MARK"));
    errno = EINTR;
    return -1;
}

static int case_signals(void)
{
    yk_error err = YK_ERROR_INIT;
    void *mem = NULL;
    most_reserved = 32 << 20;
    return yk__shm_alloc(shm, "gradients", 200u << 20, &mem, &err) != YK_OK;
}

/* The job ends while rank 0 is at it. */
static int case_ended(void)
{
    yk_error err = YK_ERROR_INIT;
    void *mem = NULL;
    most_reserved = 0;
    return yk__shm_alloc(shm, "gradients", 200u << 20, &mem, &err) != YK_OK;
}

/* More than any machine has: an error with its bytes, before anybody writes there. */
static int case_memory(void)
{
    yk_error err = YK_ERROR_INIT;
    void *mem = NULL;
    return yk__shm_alloc(shm, "gradients", 1ull << 45, &mem, &err) != YK_OK;
}

/* A rank that has no room left in its addresses says so for all. */
static int case_map(void)
{
    yk_error err = YK_ERROR_INIT;
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    void *mem = NULL;
    if (!statm || fscanf(statm, "%lu", &pages) != 1)
        return 2;
    fclose(statm);
    const rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (64u << 20);
    if (rank == 1 && setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}))
        return 2;
    return yk__shm_alloc(shm, "gradients", 128u << 20, &mem, &err) != YK_OK;
}

/* Ranks that wait for each other: no rank does anything. */
static int case_circle(void)
{
    yk_error err = YK_ERROR_INIT;
    const char *what = rank ? "the parameter slices" : "a gradient bucket";
    return yk__shm_wait(shm, &counter[rank], 1, 1 - rank, what, &err) != YK_OK;
}

/* Both are in the same operation: their calls are not to blame. */
static int case_same(void)
{
    yk_error err = YK_ERROR_INIT;
    return yk__shm_wait(shm, &counter[rank], 1, 1 - rank, "a gradient bucket", &err) != YK_OK;
}

/* A call of ours hangs: it is found long before a program's own code would be. */
static int case_call(void)
{
    yk_error err = YK_ERROR_INIT;
    if (rank == 0)
        return yk__shm_wait(shm, &counter[1], 1, 1, "barrier", &err) != YK_OK;
    yk__act_begin(YK__ACT_COMPILE);
    sleep(20);
    return 0;
}

/* The act of a call around it counts, whatever hangs there. */
static int case_around(void)
{
    yk_error err = YK_ERROR_INIT;
    if (rank == 0)
        return yk__shm_wait(shm, &counter[1], 1, 1, "barrier", &err) != YK_OK;
    YK__ACT_HERE(YK__ACT_CALL);
    sleep(20);
    return 0;
}

/* A compiler that computes does something, though nobody sees what. */
static int case_compiles(void)
{
    const int64_t begin = yk__clock_ms();
    yk_error err = YK_ERROR_INIT;
    if (rank == 1) {
        yk__act_begin(YK__ACT_COMPILE);
        while (yk__clock_ms() - begin < 2000)
            ;
        yk__act_end(YK__ACT_COMPILE);
        yk__shm_set(shm, &counter[1], 1);
        return 0;
    }
    return yk__shm_wait(shm, &counter[1], 1, 1, "barrier", &err) != YK_OK;
}

static int lines_of(const char *path, const char *text)
{
    char line[1000];
    int n = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return n;
}

/* Seconds behind the text in the file. 0: it is not there. */
static double seconds_of(const char *path, const char *text)
{
    char line[1000];
    double s = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, text);
        char *end;
        s = at ? strtod(at + strlen(text), &end) : s;
        s /= at && !strncmp(end, " ms", 3) ? 1e3 : 1;
    }
    if (f)
        fclose(f);
    return s;
}

/* A rank in its program's own code is named once, and goes on when it likes; after 0.3 s, or 20 times its longest act, which a starved rank
 * makes seconds. So much is far from YOKE_STUCK_MS, here 60 s. */
static int case_own(void)
{
    const char *mark = getenv("TEST_MARK"), *text = "has been in its program's own code for ";
    yk_error err = YK_ERROR_INIT;
    if (rank == 1) {
        while (!lines_of(mark, text))
            usleep(10000);
        usleep(200000); /* it is not said again */
        yk__shm_set(shm, &counter[1], 1);
        return 0;
    }
    if (!freopen(mark, "w", stderr))
        return 1;
    setvbuf(stderr, NULL, _IONBF, 0);
    if (yk__shm_wait(shm, &counter[1], 1, 1, "barrier", &err))
        return 1;
    const double seconds = seconds_of(mark, text);
    return lines_of(mark, text) != 1 || seconds <= 0 || seconds >= OWN_S;
}

/* 0 waits for 1, which waits for 2, which sleeps: it is 2 that is named. */
static int case_chain(void)
{
    yk_error err = YK_ERROR_INIT;
    if (rank < 2)
        return yk__shm_wait(shm, &counter[rank + 1], 1, rank + 1, "barrier", &err) != YK_OK;
    sleep(20);
    return 0;
}

/* One wait is for one rank and then another: rank 0 waits for rank 1, and by now for rank 2, so that rank 1 is in no circle with it. */
static int case_moved(void)
{
    yk_error err = YK_ERROR_INIT;
    yk__control_wait wait = {0};
    if (rank == 0 && (yk__control_look(control, &wait, 1, "a sum", &err) || yk__control_look(control, &wait, 2, "a sum", &err)))
        return 1;
    if (rank == 0)
        yk__shm_set(shm, &counter[0], 1);
    while (rank == 0 && !yk__control_check(control, &err))
        usleep(1000);
    if (rank == 1 && !yk__shm_wait(shm, &counter[0], 1, 0, "its beginning", &err))
        return yk__shm_wait(shm, &counter[0], 2, 0, "a sum", &err) != YK_OK;
    sleep(20);
    return 1;
}

/* A rank that the others wait for is at work in a way that others cannot see. */
static int case_busy(void)
{
    yk_error err = YK_ERROR_INIT;
    for (int i = 0; rank == 1 && i < 12; i++) {
        __atomic_store_n(&work, (uint32_t)i + 1, __ATOMIC_RELAXED);
        usleep(100000);
    }
    yk__shm_set(shm, &counter[rank], 1);
    return yk__shm_wait(shm, &counter[1 - rank], 1, 1 - rank, "test", &err) != YK_OK;
}

static const struct {
    const char *name;
    uint32_t ranks;
    int (*run)(void);
    const char *text; /* in the error that ends the job; NULL: it ends well */
    uint32_t stuck_ms, call_ms;
    const char *behind; /* and later in it, behind the time, which a starved rank counts in steps of up to 150 ms; NULL: anything */
} cases[] = {
    {"memory", 2, case_memory, "35184372088832 bytes of shared memory for gradients: ", 0, 0, NULL},
    {"map", 2, case_map, "mapping 134217728 bytes of shared memory for gradients: ", 0, 0, NULL},
    {"signals", 2, case_signals, NULL, 60000, 0, NULL},
    {"ended", 2, case_ended, "the user has had enough", 0, 0, NULL},
    {"circle", 2, case_circle, "the ranks' calls differ", 500, 0, NULL},
    {"same", 2, case_same, "in a gradient bucket, for 0.", 500, 0,
     " s (YOKE_STUCK_MS), and neither gets on: data between them do not arrive"},
    {"call", 2, case_call, "has made no progress in compiling a program for 0.", 60000, 500, NULL},
    {"around", 2, case_around, "has made no progress in a call of Yoke for 0.", 60000, 500, NULL},
    {"compiles", 2, case_compiles, NULL, 60000, 1000, NULL},
    {"own", 2, case_own, NULL, 60000, 300, NULL},
    {"chain", 3, case_chain, "rank 2 (opencl:0@2) has made no progress for 0.", 500, 0, " s (YOKE_STUCK_MS) while rank "},
    {"moved", 3, case_moved, "rank 2 (opencl:0@2) has made no progress for 0.", 500, 0, " s (YOKE_STUCK_MS) while rank 1"},
    {"busy", 2, case_busy, NULL, 600, 0, NULL},
};

static int report_wrong(const yk_error *err)
{
    yk__group_report(err);
    return 1;
}

static int as_rank(const char *what)
{
    yk__control_config c = {.job_fd = atoi(getenv("YOKE_JOB_FD")), .liveness_ms = 1300, .join_ms = 10000, .advance = &work};
    yk_error err = YK_ERROR_INIT;
    void *mem = NULL;
    size_t i = 0;
    int bad;
    while (strcmp(cases[i].name, what))
        i++;
    c.stuck_ms = cases[i].stuck_ms;
    c.call_ms = cases[i].call_ms;
    if (yk__control_join(&c, &control, &err) || yk__shm_attach(control, &shm, &err) ||
        yk__shm_alloc(shm, "counters", 8 * sizeof *counter, &mem, &err))
        return report_wrong(&err);
    counter = mem;
    rank = yk__control_rank(control);
    bad = cases[i].run();
    yk__shm_detach(shm);
    yk__control_leave(control);
    return bad;
}

START_TEST(waits_end_as_their_case_says)
{
    yk_error err = YK_ERROR_INIT;
    char mark[] = "/tmp/yoke-shm-XXXXXX";
    const int fd = mkstemp(mark);
    int code = -1;
    ck_assert(fd >= 0 && !setenv("TEST_MARK", mark, 1));
    yk_status s = ranks_start(cases[_i].ranks, cases[_i].name, NULL, &code, &err);
    if (cases[_i].text) {
        const char *found = strstr(err.text, cases[_i].text);
        ck_assert_msg(s && code == 1 && found && (!cases[_i].behind || strstr(found, cases[_i].behind)), "%s: '%s'", cases[_i].name,
                      err.text);
    } else
        ck_assert_msg(!s && !code, "%s, %u ranks: %s", cases[_i].name, cases[_i].ranks, err.text);
    close(fd);
    ck_assert_msg(!unlink(mark), "%s: a call was made a thousand times", cases[_i].name);
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("shm");
    tcase_add_loop_test(t, waits_end_as_their_case_says, 0, (int)(sizeof cases / sizeof *cases));
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("shm", t);
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 1 ? as_rank(argv[1]) : run_suite();
}
