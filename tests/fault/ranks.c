/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that die, stop, leave or fail: the job ends within two seconds (3 are allowed here, for busy machines), the
 * error names the rank, and nothing is left: no process, no shared-memory object.
 */
#include "config.h"

#include "tests/support/ranks.h"
#include "tests/support/run.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT 3.0

/* ---- In a rank --------------------------------------------------------------------------------------------------- */

/* DIR/NAME.RANK holds one line. Written whole before it is seen. */
static void leave_note(const char *name, const char *rank, const char *text)
{
    const char *dir = getenv("YOKE_TEST_DIR");
    char path[512], temporary[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, rank);
    snprintf(temporary, sizeof temporary, "%s/new-%s.%s", dir, name, rank);
    f = fopen(temporary, "w");
    if (!f)
        return;
    fprintf(f, "%s\n", text);
    fclose(f);
    if (rename(temporary, path))
        perror(path);
}

static void leave_pid(const char *name)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", (long)getpid());
    leave_note(name, getenv("YOKE_RANK"), text);
}

static void leave_time(void)
{
    char text[48];
    snprintf(text, sizeof text, "%.6f", ranks_now());
    leave_note("time", "x", text);
}

/* A rank that takes no notice of anything. */
static _Noreturn void sleep_deaf(void)
{
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

/* The rank that misbehaves: 1, or 0 in a case whose name begins with "zero-", which *what loses. */
static uint32_t victim_of(const char **what)
{
    const bool zero = !strncmp(*what, "zero-", 5);
    *what += zero ? 5 : 0;
    return !zero;
}

/* That rank's misbehaviour after some rounds. */
static int rank_misbehave(const char *what, yk__group *g)
{
    yk_error err = YK_ERROR_INIT;
    leave_time();
    if (strstr(what, "kill"))
        raise(SIGKILL);
    if (!strcmp(what, "segv")) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (!strcmp(what, "abrt"))
        abort();
    if (!strcmp(what, "stop"))
        raise(SIGSTOP);
    if (!strcmp(what, "idle"))
        sleep_deaf();
    if (!strcmp(what, "spin"))
        for (volatile unsigned i = 0;; i++)
            ;
    if (!strcmp(what, "exit0"))
        _exit(0);
    if (!strcmp(what, "exit3"))
        _exit(3);
    if (!strcmp(what, "report") || !strcmp(what, "abort") || !strcmp(what, "input"))
        yk__fail(&err, YK_E_FORMAT, "file 'x.csv', line 3: expected a number");
    if (!strcmp(what, "abort"))
        yk__group_abort(g, &err);
    if (!strcmp(what, "report") || !strcmp(what, "input"))
        yk__group_report(&err);
    yk__group_leave(g);
    return !strcmp(what, "leave") ? 0 : !strcmp(what, "input") ? 2 : 1;
}

/* "excluded-..": rank 1, which misbehaves, is excluded. "member-..": rank 2 is, and sleeps. */
static uint32_t excluded_by(const char *what)
{
    return !strncmp(what, "excluded-", 9) ? 1 : !strncmp(what, "member-", 7) ? 2 : UINT32_MAX;
}

static yk_status exclude_rank(const char *what, yk__group *g, yk_error *err)
{
    bool member[3] = {true, true, true};
    if (excluded_by(what) == UINT32_MAX)
        return YK_OK;
    member[excluded_by(what)] = false;
    return yk__group_set_members(g, member, err);
}

/* Says by which error the group ended for this rank. */
static int note_end(yk__group *g, const yk_error *err)
{
    char text[YK_ERROR_TEXT + 64];
    snprintf(text, sizeof text, "%s %d %.6f %s", yk__status_name(err->status),
             __atomic_load_n(yk__group_cancel(g), __ATOMIC_ACQUIRE) != 0, ranks_now(), err->text);
    leave_note("survivor", getenv("YOKE_RANK"), text);
    yk__group_leave(g);
    return 1;
}

static int rank_survive(yk__group *g, bool by_members, yk_error *err)
{
    double v = 0;
    while (by_members ? !yk__group_sum_members(g, &v, 1, err) : !yk__group_barrier(g, err))
        if (by_members)
            usleep(1000);
    return note_end(g, err);
}

static int before_join(const char *what)
{
    leave_time();
    if (!strcmp(what, "early-kill"))
        raise(SIGKILL);
    if (!strcmp(what, "early-stop"))
        raise(SIGSTOP);
    if (!strcmp(what, "early-abrt"))
        abort();
    if (!strcmp(what, "early-never"))
        sleep_deaf();
    if (!strcmp(what, "early-late"))
        usleep(400000); /* the others wait for it by then */
    return strcmp(what, "early-end") && strcmp(what, "early-late");
}

/* Rank 1 forks a process that ends as a program does; the others notice nothing. */
static int fork_and_go_on(yk__group *g, bool one, yk_error *err)
{
    const pid_t pid = one ? fork() : -1;
    if (pid == 0) {
        yk__group_leave(g);
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
    for (int i = 0; i < 20; i++) {
        if (yk__group_barrier(g, err))
            return 1;
        usleep(20000);
    }
    yk__group_leave(g);
    return 0;
}

/* All leave in good order; then rank 1 does not end. */
static int linger_on(yk__group *g, bool one)
{
    yk__group_leave(g);
    if (!one)
        return 0;
    leave_time();
    sleep_deaf();
}

static int as_rank(const char *what)
{
    yk_error err = YK_ERROR_INIT;
    const uint32_t victim = victim_of(&what);
    const bool one = (uint32_t)atoi(getenv("YOKE_RANK")) == victim; /* this is it */
    yk__group *g;
    leave_pid("pid");
    if (one && !strncmp(what, "early", 5))
        return before_join(what);
    if (yk__group_join(NULL, &g, &err)) {
        leave_note("survivor", getenv("YOKE_RANK"), err.text);
        return 1;
    }
    if (!strcmp(what, "grandchild") && fork() == 0)
        leave_pid(one ? "grandone" : "grand"), sleep_deaf();
    for (int i = 0; i < 200; i++)
        if (yk__group_barrier(g, &err)) /* a busy machine may hold this rank in a barrier that the victim has left */
            return note_end(g, &err);
    leave_pid("joined");
    if (!strcmp(what, "fork"))
        return fork_and_go_on(g, one, &err);
    if (!strcmp(what, "linger"))
        return linger_on(g, one);
    if (!strcmp(what, "family") && fork() == 0)
        leave_pid(one ? "grandone" : "grand"), sleep_deaf();
    if (!strcmp(what, "pause")) {
        double end = ranks_now() + 6;
        uint32_t v = 0;
        while (!v && !yk__group_barrier(g, &err)) {
            double now = yk__group_rank(g) == 0 && ranks_now() > end;
            if (yk__group_sum_f64(g, &now, 1, &err))
                return 1;
            v = now != 0;
        }
        yk__group_leave(g);
        return 0;
    }
    if (exclude_rank(what, g, &err))
        return 1;
    if (one && excluded_by(what) != UINT32_MAX) {
        double v = 0;
        for (int i = 0; i < 100 && !yk__group_sum_members(g, &v, 1, &err); i++)
            ;
        return rank_misbehave(strchr(what, '-') + 1, g);
    }
    if (one && strcmp(what, "loop") && strcmp(what, "family"))
        return rank_misbehave(!strcmp(what, "grandchild") ? "kill" : what, g);
    if (!strcmp(what, "deaf-kill"))
        sleep_deaf();
    return rank_survive(g, excluded_by(what) != UINT32_MAX, &err);
}

/* ---- The launcher's side ----------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/yoke-fault-XXXXXX";

static void dir_make(void)
{
    strcpy(dir, "/tmp/yoke-fault-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("YOKE_TEST_DIR", dir, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come to this process, so that none is missed */
}

static void dir_remove(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(dir);
}

static bool read_note(const char *name, char *text, size_t n)
{
    char path[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "r");
    if (!f)
        return false;
    if (!fgets(text, (int)n, f))
        text[0] = 0;
    fclose(f);
    return true;
}

static void wait_note(const char *name, char *text, size_t n)
{
    double end = ranks_now() + 30;
    while (!read_note(name, text, n)) {
        ck_assert_msg(ranks_now() < end, "no note '%s' came", name);
        usleep(2000);
    }
}

static int shared_before; /* objects in /dev/shm that another build left there */

static int shm_objects(void)
{
    DIR *d = opendir("/dev/shm");
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d)))
        n += strstr(e->d_name, "yoke") != NULL;
    if (d)
        closedir(d);
    return n;
}

/* A SIGKILL takes effect where its process gets a processor; orphans are reaped here. */
static bool process_gone(pid_t pid)
{
    double end = ranks_now() + 3;
    do {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (kill(pid, 0) && errno == ESRCH)
            return true;
        usleep(1000);
    } while (ranks_now() < end);
    return false;
}

static void expect_no_process(void)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char text[64];
        if (strncmp(e->d_name, "pid.", 4) && strncmp(e->d_name, "grand", 5))
            continue;
        ck_assert(read_note(e->d_name, text, sizeof text));
        ck_assert_msg(process_gone((pid_t)atol(text)), "process %s (%s) is still there", text, e->d_name);
    }
    if (d)
        closedir(d);
    ck_assert_int_le(shm_objects(), shared_before);
}

static double fault_time(void)
{
    char text[64];
    wait_note("time.x", text, sizeof text);
    return atof(text);
}

/* Each survivor's wait ended in time with the words that name rank 1. */
static void expect_survivor(const char *rank, const char *words)
{
    char name[32], text[1024], status[64];
    int cancelled;
    double at;
    snprintf(name, sizeof name, "survivor.%s", rank);
    ck_assert_msg(read_note(name, text, sizeof text), "rank %s did not say how it ended", rank);
    ck_assert_int_eq(sscanf(text, "%63s %d %lf", status, &cancelled, &at), 3);
    ck_assert_msg(strstr(text, words) != NULL, "rank %s says '%s', expected '%s'", rank, text, words);
    ck_assert_msg(at - fault_time() < LIMIT, "rank %s took %.3f s", rank, at - fault_time());
    printf("# rank %s knew after %.3f s\n", rank, at - fault_time());
}

typedef struct fault {
    const char *name, *words;
    int code;
    bool survivors;
    const char *stuck_ms; /* YOKE_STUCK_MS; NULL: as it is */
} fault;

static const fault faults[] = {
    {"kill", "rank 1 (opencl:0@1) was killed by signal 9", 1, true, NULL},
    {"segv", "rank 1 (opencl:0@1) was killed by signal 11", 1, true, NULL},
    {"stop", "rank 1 (opencl:0@1) was stopped", 1, true, NULL},
    {"exit0", "rank 1 (opencl:0@1) ended without leaving the group", 1, true, NULL},
    {"exit3", "rank 1 (opencl:0@1) ended with exit code 3", 1, true, NULL},
    {"leave", "rank 1 (opencl:0@1) left the group", 1, true, NULL},
    {"abort", "rank 1 (opencl:0@1): file 'x.csv', line 3: expected a number", 1, true, NULL},
    {"report", "rank 1 (opencl:0@1): file 'x.csv', line 3: expected a number", 1, true, NULL},
    {"input", "rank 1 (opencl:0@1): file 'x.csv', line 3: expected a number", 2, true, NULL},
    {"excluded-kill", "rank 1 (opencl:0@1) was killed by signal 9", 1, true, NULL},
    {"excluded-stop", "rank 1 (opencl:0@1) was stopped", 1, true, NULL},
    {"excluded-exit0", "rank 1 (opencl:0@1) ended without leaving the group", 1, true, NULL},
    {"member-kill", "rank 1 (opencl:0@1) was killed by signal 9", 1, true, NULL},
    {"member-stop", "rank 1 (opencl:0@1) was stopped", 1, true, NULL},
    {"member-leave", "rank 1 (opencl:0@1) left the group", 1, true, NULL},
    {"early-kill", "rank 1 (opencl:0@1) was killed by signal 9", 1, false, NULL},
    {"early-stop", "rank 1 (opencl:0@1) was stopped", 1, false, NULL},
    {"early-exit", "rank 1 (opencl:0@1) ended with exit code 1", 1, false, NULL},
    {"deaf-kill", "rank 1 (opencl:0@1) was killed by signal 9", 1, false, NULL},
    {"grandchild", "rank 1 (opencl:0@1) was killed by signal 9", 1, true, NULL},
    {"idle", "rank 1 (opencl:0@1) has made no progress for 0.", 1, true, "700"},
    {"member-idle", "rank 1 (opencl:0@1) has made no progress for 0.", 1, true, "700"},
    {"spin", "while rank ", 1, true, "700"},
    {"early-end", "rank 1 (opencl:0@1) ended (exit code 0) before it joined the other ranks", 1, false, NULL},
    {"early-late", "rank 1 (opencl:0@1) ended (exit code 0) before it joined the other ranks", 1, false, NULL},
    {"abrt", "rank 1 (opencl:0@1) was killed by signal 6", 1, true, NULL},
    {"early-abrt", "rank 1 (opencl:0@1) was killed by signal 6", 1, false, NULL},
    {"zero-kill", "rank 0 (opencl:0@0) was killed by signal 9", 1, true, NULL},
    {"zero-abrt", "rank 0 (opencl:0@0) was killed by signal 6", 1, true, NULL},
    {"zero-stop", "rank 0 (opencl:0@0) was stopped", 1, true, NULL},
    {"zero-exit3", "rank 0 (opencl:0@0) ended with exit code 3", 1, true, NULL},
    {"zero-early-kill", "rank 0 (opencl:0@0) was killed by signal 9", 1, false, NULL},
    {"zero-early-stop", "rank 0 (opencl:0@0) was stopped", 1, false, NULL},
    {"zero-early-exit", "rank 0 (opencl:0@0) ended with exit code 1", 1, false, NULL},
    {"linger", "rank 1 (opencl:0@1) left the group but has not ended within 0.5 s", 1, false, "500"},
};
#define FAULTS ((int)(sizeof faults / sizeof *faults))

START_TEST(fault_ends_job)
{
    const fault *f = &faults[_i];
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    if (f->stuck_ms)
        setenv("YOKE_STUCK_MS", f->stuck_ms, 1);
    yk_status s = ranks_start(3, f->name, NULL, &code, &err);
    double took = ranks_now() - fault_time();
    printf("# %s: %.3f s: %s\n", f->name, took, err.text);
    ck_assert_int_ne(s, YK_OK);
    ck_assert_int_eq(code, f->code);
    /* a rank that waits for the one that left names it, and fails by that */
    ck_assert_msg(strstr(err.text, f->words) != NULL, "'%s', expected '%s'", err.text, f->words);
    ck_assert_msg(took < LIMIT, "%s: took %.3f s", f->name, took);
    if (f->survivors) {
        expect_survivor(!strncmp(f->name, "zero-", 5) ? "1" : "0", f->words);
        expect_survivor("2", f->words);
    }
    expect_no_process();
}
END_TEST

static pid_t launch_child(uint32_t n, const char *what)
{
    pid_t pid = fork();
    if (pid == 0) {
        yk_error err = YK_ERROR_INIT;
        int code;
        ranks_start(n, what, NULL, &code, &err);
        leave_note("launcher", "x", err.text);
        _exit(code);
    }
    return pid;
}

static void wait_joined(uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        char name[32], text[32];
        snprintf(name, sizeof name, "joined.%u", r);
        wait_note(name, text, sizeof text);
    }
}

/* Until nothing that left a pid lives. */
static double time_until_gone(uint32_t n)
{
    double begin = ranks_now();
    for (uint32_t r = 0; r < n; r++) {
        char name[32], text[32];
        snprintf(name, sizeof name, "pid.%u", r);
        wait_note(name, text, sizeof text);
        while (!kill((pid_t)atol(text), 0) && ranks_now() - begin < 10) {
            waitpid((pid_t)atol(text), NULL, WNOHANG);
            usleep(2000);
        }
    }
    return ranks_now() - begin;
}

START_TEST(launcher_killed)
{
    pid_t pid = launch_child(3, "loop");
    double took;
    wait_joined(3);
    kill(pid, SIGKILL);
    took = time_until_gone(3);
    waitpid(pid, NULL, 0);
    printf("# launcher killed: ranks gone after %.3f s\n", took);
    ck_assert_msg(took < LIMIT, "took %.3f s", took);
    expect_no_process();
}
END_TEST

/* The last one has not come: it is in as_rank, before it joins. */
START_TEST(launcher_killed_in_bootstrap)
{
    pid_t pid = launch_child(3, "early-never");
    char text[64];
    double took;
    for (int r = 0; r < 3; r++) {
        char name[16];
        snprintf(name, sizeof name, "pid.%d", r);
        wait_note(name, text, sizeof text);
    }
    wait_note("time.x", text, sizeof text);
    kill(pid, SIGKILL);
    took = time_until_gone(3);
    waitpid(pid, NULL, 0);
    ck_assert_msg(took < LIMIT, "took %.3f s", took);
    expect_no_process();
}
END_TEST

/* A process that a rank started has no parent that is killed with the launcher. */
START_TEST(launcher_killed_with_family)
{
    pid_t pid = launch_child(2, "family");
    char text[64];
    wait_joined(2);
    wait_note("grand.0", text, sizeof text);
    wait_note("grandone.1", text, sizeof text);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    time_until_gone(2);
    expect_no_process();
}
END_TEST

START_TEST(fork_in_a_rank)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    ck_assert_msg(ranks_start(3, "fork", NULL, &code, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(code, 0);
}
END_TEST

/* A debugger stops one rank: nobody takes it for dead. */
START_TEST(one_rank_pauses)
{
    char text[512] = "";
    pid_t pid, rank;
    int status;
    setenv("YOKE_LIVENESS_MS", "0", 1);
    pid = launch_child(2, "pause");
    wait_joined(2);
    ck_assert(read_note("pid.1", text, sizeof text));
    rank = (pid_t)atol(text);
    kill(rank, SIGSTOP);
    usleep(2500000);
    kill(rank, SIGCONT);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(read_note("launcher.x", text, sizeof text));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", text);
}
END_TEST

/* ---- A process that SIGKILL does not end ------------------------------------------------------------------------- */

/* From here on kill() of this process does nothing, and says that it worked. False: this kernel has no seccomp. */
static bool blunt_kill(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void say_note(const char *text)
{
    static int lines;
    char name[16], stamped[600];
    snprintf(name, sizeof name, "said%d", ++lines);
    snprintf(stamped, sizeof stamped, "%.6f %s", ranks_now(), text);
    leave_note(name, "x", stamped);
}

static _Noreturn void launch_blunt(void)
{
    yk__placement place[2];
    char self[] = "/proc/self/exe", what[] = "stop";
    char *argv[] = {self, what, NULL};
    yk_error err = YK_ERROR_INIT;
    int code = 99;
    ranks_places(place, 2);
    if (blunt_kill())
        yk__launch(place, 2, argv, 0, say_note, &code, &err);
    _exit(code);
}

/* The line comes when the error is found, then which process does not die; the launcher leaves. */
START_TEST(a_rank_that_does_not_die)
{
    char first[700], second[700], want[64], pid_text[32];
    const double began = ranks_now();
    const pid_t pid = fork();
    int status;
    if (pid == 0)
        launch_blunt();
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 99) {
        printf("# without seccomp this cannot be tried\n");
        return;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    ck_assert(ranks_now() - began < 12);
    wait_note("said1.x", first, sizeof first);
    wait_note("said2.x", second, sizeof second);
    ck_assert_msg(strstr(first, "rank 1 (opencl:0@1) was stopped") != NULL, "%s", first);
    ck_assert_msg(atof(second) - atof(first) > 1.9, "%s%s", first, second);
    ck_assert(read_note("pid.1", pid_text, sizeof pid_text));
    snprintf(want, sizeof want, "rank 1 (opencl:0@1): process %ld has not died", atol(pid_text));
    ck_assert_msg(strstr(second, want) != NULL, "%s", second);
    expect_no_process();
}
END_TEST

/* If the launcher cannot tell, the ranks themselves find the silent one. */
START_TEST(silent_rank)
{
    pid_t pid = launch_child(3, "loop");
    char text[512], words[] = "rank 1 (opencl:0@1) gave no sign of life";
    double begin;
    int status;
    wait_joined(3);
    ck_assert(read_note("pid.1", text, sizeof text));
    kill(pid, SIGSTOP);
    begin = ranks_now();
    kill((pid_t)atol(text), SIGSTOP);
    wait_note("survivor.0", text, sizeof text);
    ck_assert_msg(strstr(text, words) != NULL, "%s", text);
    wait_note("survivor.2", text, sizeof text);
    ck_assert_msg(strstr(text, words) != NULL, "%s", text);
    printf("# silent rank: known after %.3f s\n", ranks_now() - begin);
    ck_assert(ranks_now() - begin < LIMIT);
    begin = ranks_now();
    kill(pid, SIGCONT);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    ck_assert(ranks_now() - begin < LIMIT); /* nothing is left to wait for */
    ck_assert(read_note("launcher.x", text, sizeof text));
    ck_assert_msg(strstr(text, words) != NULL, "%s", text);
    expect_no_process();
}
END_TEST

START_TEST(an_interruption_ends_every_rank)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    char text[512], want[64];
    pid_t pid;
    int status;
    signal(signals[_i], SIG_DFL); /* nohup has this process ignore one of them, and those it starts */
    pid = launch_child(2, "loop");
    wait_joined(2);
    kill(pid, signals[_i]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 128 + signals[_i]);
    ck_assert(read_note("launcher.x", text, sizeof text));
    snprintf(want, sizeof want, "interrupted by signal %d", signals[_i]);
    ck_assert_msg(strstr(text, want) != NULL, "%s", text);
    expect_no_process();
}
END_TEST

static int fail_first(void *argument)
{
    (void)argument;
    return !strcmp(getenv("YOKE_RESTART_COUNT"), "0") || pause();
}

static void say_and_signal(const char *text)
{
    if (strstr(text, "restart 1 of 1"))
        kill(getpid(), SIGTERM);
}
/* Nothing of the job runs then: the next attempt is started, hears of it, and is the last. */
START_TEST(a_signal_between_two_attempts_ends_the_job)
{
    const pid_t pid = fork();
    yk__placement place[1];
    yk_error err = YK_ERROR_INIT;
    int status, code = 99;
    if (pid == 0) {
        alarm(60);
        signal(SIGTERM, SIG_DFL);
        ranks_places(place, 1);
        yk__launch_call(place, 1, fail_first, NULL, 1, say_and_signal, &code, &err);
        _exit(strstr(err.text, "interrupted by signal 15") ? code : 98);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "the launcher died of signal %d", WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), 128 + SIGTERM);
    expect_no_process();
}
END_TEST

/* Ctrl-Z, three seconds, fg: nobody is taken for dead. */
START_TEST(whole_job_pauses)
{
    pid_t pid = launch_child(3, "pause");
    char text[512] = "";
    int status;
    wait_joined(3);
    kill(pid, SIGTSTP);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    sleep(3);
    kill(pid, SIGCONT);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(read_note("launcher.x", text, sizeof text));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", text);
    expect_no_process();
}
END_TEST

/* The ranks alone are stopped one after the other, and go on later. */
START_TEST(all_ranks_pause)
{
    pid_t pid = launch_child(3, "pause"), rank[3];
    char text[512] = "", name[16];
    int status;
    wait_joined(3);
    for (int r = 0; r < 3; r++) {
        snprintf(name, sizeof name, "pid.%d", r);
        ck_assert(read_note(name, text, sizeof text));
        rank[r] = (pid_t)atol(text);
        kill(rank[r], SIGSTOP);
        usleep(100000);
    }
    sleep(3);
    for (int r = 0; r < 3; r++) {
        kill(rank[r], SIGCONT);
        usleep(100000);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(read_note("launcher.x", text, sizeof text));
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", text);
}
END_TEST

START_TEST(no_such_program)
{
    yk__placement place[2];
    char program[] = "/nonexistent/program";
    char *argv[] = {program, NULL};
    yk_error err = YK_ERROR_INIT;
    int code = 0;
    ranks_places(place, 2);
    ck_assert_int_eq(yk__launch(place, 2, argv, 0, NULL, &code, &err), YK_E_ARG);
    ck_assert_int_eq(code, 2);
    ck_assert_msg(strstr(err.text, "/nonexistent/program") && strstr(err.text, "No such file"), "%s", err.text);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

static bool file_holds(const char *path, const void *what, size_t n)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t got = f ? fread(text, 1, sizeof text, f) : 0;
    if (f)
        fclose(f);
    return got && memmem(text, got, what, n) != NULL;
}

/* The only trace of the job in a rank's environment and arguments is the number of a descriptor. */
START_TEST(secret_is_not_shown)
{
    pid_t pid = launch_child(2, "loop");
    char text[64], path[96];
    wait_joined(2);
    ck_assert(read_note("pid.1", text, sizeof text));
    snprintf(path, sizeof path, "/proc/%ld/environ", atol(text));
    ck_assert(file_holds(path, "YOKE_JOB_FD=", 12));
    ck_assert(!file_holds(path, "SECRET", 6));
    snprintf(path, sizeof path, "/proc/%ld/cmdline", atol(text));
    ck_assert(file_holds(path, "loop", 5));
    ck_assert(!file_holds(path, "YOKE", 4));
    kill(pid, SIGKILL);
    time_until_gone(2);
    waitpid(pid, NULL, 0);
    expect_no_process();
}
END_TEST

static int run_suite(void)
{
    TCase *t = tcase_create("ranks");
    shared_before = shm_objects();
    tcase_add_checked_fixture(t, dir_make, dir_remove);
    tcase_add_loop_test(t, fault_ends_job, 0, FAULTS);
    tcase_add_test(t, launcher_killed);
    tcase_add_test(t, launcher_killed_in_bootstrap);
    tcase_add_test(t, launcher_killed_with_family);
    tcase_add_test(t, fork_in_a_rank);
    tcase_add_test(t, one_rank_pauses);
    tcase_add_test(t, a_rank_that_does_not_die);
    tcase_add_test(t, silent_rank);
    tcase_add_loop_test(t, an_interruption_ends_every_rank, 0, 3);
    tcase_add_test(t, a_signal_between_two_attempts_ends_the_job);
    tcase_add_test(t, whole_job_pauses);
    tcase_add_test(t, all_ranks_pause);
    tcase_add_test(t, no_such_program);
    tcase_add_test(t, secret_is_not_shown);
    tcase_set_timeout(t, 60);
    return suite_run("ranks", t);
}

int main(int argc, char **argv)
{
    return yk__launched() && argc > 1 ? as_rank(argv[1]) : run_suite();
}
