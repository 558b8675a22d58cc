/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job over several hosts, which are one machine here, split by YOKE_HOST_ID. Ranks are started by hand (YOKE_RANK and so on) and meet
 * over TCP. Exchanges, published data, the end of the job, deaths; refused strangers.
 */
#include "config.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/control/control.h"
#include "core/control/start/bootstrap.h"
#include "core/control/start/origin.h"
#include "core/net/auth.h"
#include "core/net/tcp.h"
#include "tests/support/hosts.h"
#include "tests/support/run.h"

#define WATCHDOG_S 100 /* ends a rank that hangs */
#define EXCHANGES 40

/* ---- A rank ------------------------------------------------------------------------------------------------------ */

static yk_status rank_join(yk__control **c, yk_error *err)
{
    static uint32_t advance;
    yk__control_config config = {.liveness_ms = 1300, .join_ms = 30000, .stuck_ms = 30000, .advance = &advance};
    const char *join = getenv("TEST_JOIN_MS");
    yk__origin origin;
    if (join)
        config.join_ms = (uint32_t)atoi(join);
    if (yk__origin_find(&origin, err) || yk__bootstrap(&origin, config.join_ms, true, &config.job_fd, &config.agent, err))
        return err->status;
    return yk__control_join(&config, c, err);
}

static void fill_blob(uint8_t *blob, uint32_t bytes, uint32_t rank, uint32_t turn)
{
    for (uint32_t i = 0; i < bytes; i++)
        blob[i] = (uint8_t)(rank * 31 + turn * 7 + i);
}

static yk_status exchange_once(yk__control *c, uint32_t turn, yk_error *err)
{
    static uint8_t own[YK__CONTROL_BLOB], all[HOSTS_RANKS * YK__CONTROL_BLOB];
    const uint32_t bytes = 1 + turn * 977 % YK__CONTROL_BLOB, size = yk__control_size(c);
    uint8_t expected[YK__CONTROL_BLOB];
    fill_blob(own, bytes, yk__control_rank(c), turn);
    if (yk__control_exchange(c, "a test", own, bytes, all, err))
        return err->status;
    for (uint32_t r = 0; r < size; r++) {
        fill_blob(expected, bytes, r, turn);
        if (memcmp(expected, all + (size_t)r * bytes, bytes))
            return yk__fail(err, YK_E_INTERNAL, "exchange %u: rank %u's %u bytes are others", turn, r, bytes);
    }
    return YK_OK;
}

static yk_status exchange_often(yk__control *c, yk_error *err)
{
    for (uint32_t turn = 0; turn < EXCHANGES; turn++)
        if (exchange_once(c, turn, err))
            return err->status;
    return YK_OK;
}

/* Each shows a number, and waits until it sees all the others'. */
static yk_status show_and_see(yk__control *c, yk_error *err)
{
    uint32_t info[YK__CONTROL_INFO / 4] = {yk__control_rank(c) + 100, 7};
    yk__control_publish(c, info, sizeof info);
    for (uint32_t r = 0; r < yk__control_size(c); r++) {
        uint32_t seen[YK__CONTROL_INFO / 4] = {0};
        yk__control_wait wait = {0};
        while (!yk__control_read(c, r, seen, sizeof seen) || seen[0] != r + 100 || seen[1] != 7) {
            if (yk__control_look(c, &wait, r, "a look", err))
                return err->status;
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        yk__control_waited(c, &wait);
    }
    return exchange_once(c, 1, err); /* or the first would leave while others look */
}

/* Hosts are told apart, and names are those of all. */
static yk_status know_hosts(yk__control *c, yk_error *err)
{
    const char *hosts = getenv("TEST_HOSTS");
    for (uint32_t r = 0; r < yk__control_size(c); r++) {
        const bool same = hosts[r] == hosts[yk__control_rank(c)];
        char start[32];
        snprintf(start, sizeof start, "rank %u (", r);
        if ((yk__control_host(c, r) == yk__control_host(c, yk__control_rank(c))) != same)
            return yk__fail(err, YK_E_INTERNAL, "rank %u is on %s host", r, same ? "another" : "the same");
        if (strncmp(yk__control_name(c, r), start, strlen(start)))
            return yk__fail(err, YK_E_INTERNAL, "rank %u is called '%s'", r, yk__control_name(c, r));
    }
    return YK_OK;
}

static yk_status end_by_two(yk__control *c, yk_error *err)
{
    if (exchange_once(c, 0, err))
        return err->status;
    if (yk__control_rank(c) == 2)
        yk__control_end(c, 2, YK_E_FORMAT, "rank 2 read nonsense");
    for (;;)
        if (exchange_once(c, 1, err))
            return err->status;
}

/* Until somebody dies. The test hears that the job goes on when the file of this rank is there. */
static yk_status work_on(yk__control *c, yk_error *err)
{
    for (uint32_t turn = 0;; turn++) {
        if (exchange_once(c, turn, err))
            return err->status;
        if (turn == 3)
            close(open(getenv("TEST_READY"), O_CREAT | O_WRONLY, 0600));
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
}

/* Ranks leave at unlike times, rank 0 and its host's agent first. */
static yk_status leave_in_turn(yk__control *c, yk_error *err)
{
    if (exchange_once(c, 0, err))
        return err->status;
    nanosleep(&(struct timespec){0, (long)yk__control_rank(c) * 100000000}, NULL);
    return yk__control_check(c, err);
}

typedef struct rank_case {
    const char *name;
    yk_status (*run)(yk__control *c, yk_error *err);
} rank_case;

static const rank_case rank_cases[] = {
    {"exchange", exchange_often}, {"show", show_and_see},  {"hosts", know_hosts},
    {"end", end_by_two},          {"work", work_on},       {"leave", leave_in_turn},
};

/* Writes what it ended with to descriptor 1. */
static int as_rank(const char *name)
{
    yk_error err = YK_ERROR_INIT;
    yk__control *c = NULL;
    alarm(WATCHDOG_S);
    if (!rank_join(&c, &err)) {
        for (size_t i = 0; i < sizeof rank_cases / sizeof *rank_cases; i++)
            if (!strcmp(rank_cases[i].name, name) && rank_cases[i].run(c, &err))
                yk__control_end(c, yk__control_rank(c), err.status, err.text);
        yk__control_leave(c);
    }
    printf("%s", err.text);
    return err.status ? 3 : 0;
}

/* ---- The test ---------------------------------------------------------------------------------------------------- */

static void wait_ready(const hosts_job *j)
{
    const int64_t until = yk__clock_ms() + WATCHDOG_S * 1000;
    for (uint32_t r = 0; r < j->ranks; r++) {
        char path[96];
        snprintf(path, sizeof path, "%s/ready.%u", j->folder, r);
        while (access(path, F_OK)) {
            ck_assert_msg(yk__clock_ms() < until, "rank %u does not work", r);
            nanosleep(&(struct timespec){0, 5000000}, NULL);
        }
    }
}

static const char *const layouts[] = {"aaa", "ab", "aabb", "abab", "abc", "abbbc"};

static void run_well(const char *hosts, const char *what)
{
    hosts_job j;
    hosts_new(&j, hosts);
    hosts_start(&j, what);
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    hosts_free(&j);
}

START_TEST(ranks_of_all_layouts_exchange_bytes)
{
    run_well(layouts[_i], "exchange");
}
END_TEST

START_TEST(ranks_see_what_others_show)
{
    run_well("aabb", "show");
}
END_TEST

START_TEST(ranks_know_hosts_and_names)
{
    run_well("abbbc", "hosts");
}
END_TEST

START_TEST(ranks_leave_at_unlike_times)
{
    run_well("aabbc", "leave");
}
END_TEST

START_TEST(end_by_one_reaches_all)
{
    hosts_job j;
    hosts_new(&j, "abbc");
    hosts_start(&j, "end");
    hosts_wait(&j, -1);
    for (uint32_t r = 0; r < j.ranks; r++)
        ck_assert_msg(!strcmp(j.said[r], "rank 2 read nonsense"), "rank %u: '%s'", r, j.said[r]);
    hosts_free(&j);
}
END_TEST

/* Whom it strikes in "aabb": the agent of rank 0's host, one of its other ranks, another host's agent, and one of that. */
typedef struct strike {
    uint32_t victim;
    int signal;
} strike;
static const strike strikes[] = {{0, SIGKILL}, {1, SIGKILL}, {2, SIGKILL}, {3, SIGKILL},
                                 {0, SIGSTOP}, {1, SIGSTOP}, {2, SIGSTOP}, {3, SIGSTOP}};
#define STRIKES ((int)(sizeof strikes / sizeof *strikes))
#define LIMIT_MS 10000 /* it takes 2.0 s of silence, or none; a machine under load takes longer */

START_TEST(death_of_one_is_named_by_all_others)
{
    const strike *s = &strikes[_i];
    char name[32];
    int64_t begin;
    hosts_job j;
    hosts_new(&j, "aabb");
    hosts_start(&j, "work");
    wait_ready(&j);
    snprintf(name, sizeof name, "rank %u (", s->victim);
    begin = yk__clock_ms();
    ck_assert_int_eq(kill(j.pid[s->victim], s->signal), 0);
    hosts_wait(&j, (int)s->victim);
    begin = yk__clock_ms() - begin;
    for (uint32_t r = 0; r < j.ranks; r++)
        if (r != s->victim)
            ck_assert_msg(WEXITSTATUS(j.status[r]) == 3 && strstr(j.said[r], name), "rank %u after signal %d to rank %u: status %x, '%s'",
                          r, s->signal, s->victim, (unsigned)j.status[r], j.said[r]);
    ck_assert_msg(begin < LIMIT_MS, "it took %lld ms", (long long)begin);
    if (getenv("TEST_VERBOSE"))
        fprintf(stderr, "signal %d to rank %u: %lld ms\n", s->signal, s->victim, (long long)begin);
    hosts_free(&j);
}
END_TEST

START_TEST(rank_that_never_comes_is_named)
{
    hosts_job j;
    hosts_new(&j, "abc");
    hosts_choose_port(&j);
    setenv("TEST_JOIN_MS", "4000", 1);
    for (uint32_t r = 0; r < 2; r++)
        hosts_start_rank(&j, r, "exchange", "secret");
    hosts_wait(&j, -1);
    for (uint32_t r = 0; r < 2; r++)
        ck_assert_msg(strstr(j.said[r], "rank 2 of 3 has not come to 127.0.0.1"), "rank %u: '%s'", r, j.said[r]);
    hosts_free(&j);
}
END_TEST

START_TEST(rank_zero_that_never_comes_is_named)
{
    hosts_job j;
    hosts_new(&j, "ab");
    hosts_choose_port(&j);
    setenv("TEST_JOIN_MS", "300", 1);
    hosts_start_rank(&j, 1, "exchange", "secret");
    hosts_wait(&j, -1);
    ck_assert_msg(strstr(j.said[1], "rank 0 cannot be reached within 0.3 s"), "'%s'", j.said[1]);
    hosts_free(&j);
}
END_TEST

/* Killed when it has come and another has not: all hear of it at once, not after the time to join. */
START_TEST(death_before_all_have_come_is_named)
{
    hosts_job j;
    hosts_new(&j, "abc");
    hosts_choose_port(&j);
    hosts_start_rank(&j, 0, "exchange", "secret");
    hosts_start_rank(&j, 1, "exchange", "secret");
    nanosleep(&(struct timespec){1, 0}, NULL); /* it may come later than that, and is then missing: both are right */
    kill(j.pid[1], SIGKILL);
    hosts_wait(&j, -1);
    ck_assert_msg(strstr(j.said[0], "rank 1 on ") || strstr(j.said[0], "has not come") || strstr(j.said[0], "have not come"), "'%s'",
                  j.said[0]);
    hosts_free(&j);
}
END_TEST

/* ---- Those who are to be refused ---- */

static void write_other_secret(const hosts_job *j)
{
    char path[96];
    snprintf(path, sizeof path, "%s/other", j->folder);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, "another secret of the same length", 32), 32);
    close(fd);
}

static int connect_loopback(const hosts_job *j)
{
    yk_error err = YK_ERROR_INIT;
    int fd = -1;
    for (int i = 0; i < 2000; i++) {
        if (!yk__tcp_connect("127.0.0.1", (uint16_t)atoi(j->port), 1000, &fd, &err))
            return fd;
        err = (yk_error)YK_ERROR_INIT;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    ck_abort_msg("rank 0 does not listen");
}

/* A rank with another secret, garbage, silence and a connection that ends at once: the job goes on when the right rank comes. */
START_TEST(strangers_are_refused_and_the_job_goes_on)
{
    char garbage[4096];
    int fd[70];
    hosts_job j;
    hosts_new(&j, "ab");
    write_other_secret(&j);
    hosts_choose_port(&j);
    hosts_start_rank(&j, 0, "exchange", "secret");
    memset(garbage, 0x5a, sizeof garbage);
    for (int i = 0; i < 70; i++) {
        fd[i] = connect_loopback(&j);
        if (i % 3 == 0)
            ck_assert_int_ge(send(fd[i], garbage, sizeof garbage, MSG_NOSIGNAL | MSG_DONTWAIT), 1);
        if (i % 3 == 1)
            close(fd[i]);
    }
    hosts_start_rank(&j, 1, "exchange", "other");
    ck_assert_int_eq(waitpid(j.pid[1], &j.status[1], 0), j.pid[1]);
    hosts_read_said(&j, 1);
    ck_assert_msg(WEXITSTATUS(j.status[1]) == 3 && strstr(j.said[1], "does not take rank 1 of 2"), "'%s'", j.said[1]);
    for (int i = 0; i < 70; i++)
        if (i % 3 != 1)
            close(fd[i]);
    hosts_start_rank(&j, 1, "exchange", "secret");
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    hosts_free(&j);
}
END_TEST

/* More strangers than there are places hold their connections and say nothing: a rank takes the place of one. */
START_TEST(flood_of_strangers_keeps_no_rank_out)
{
    int fd[200];
    hosts_job j;
    hosts_new(&j, "ab");
    hosts_choose_port(&j);
    hosts_start_rank(&j, 0, "exchange", "secret");
    for (int i = 0; i < 200; i++)
        fd[i] = connect_loopback(&j);
    hosts_start_rank(&j, 1, "exchange", "secret");
    hosts_wait(&j, -1);
    for (int i = 0; i < 200; i++)
        close(fd[i]);
    hosts_assert_well(&j);
    hosts_free(&j);
}
END_TEST

/* The second of two that say that they are rank 1. */
START_TEST(rank_that_is_there_already_is_refused)
{
    hosts_job j;
    hosts_new(&j, "abc");
    hosts_choose_port(&j);
    hosts_start_rank(&j, 0, "exchange", "secret");
    hosts_start_rank(&j, 1, "exchange", "secret");
    nanosleep(&(struct timespec){0, 300000000}, NULL); /* whichever comes first: one of them is refused */
    const pid_t first = j.pid[1];
    int first_status = 0, second_status = 0;
    hosts_start_rank(&j, 1, "exchange", "secret");
    const pid_t second = j.pid[1];
    nanosleep(&(struct timespec){1, 500000000}, NULL);
    hosts_start_rank(&j, 2, "exchange", "secret");
    ck_assert_int_eq(waitpid(first, &first_status, 0), first);
    ck_assert_int_eq(waitpid(second, &second_status, 0), second);
    ck_assert_msg((WEXITSTATUS(first_status) == 0) != (WEXITSTATUS(second_status) == 0), "%x, %x", (unsigned)first_status,
                  (unsigned)second_status);
    j.pid[1] = 0;
    hosts_wait(&j, -1);
    hosts_assert_well(&j);
    hosts_free(&j);
}
END_TEST

START_TEST(nothing_listens_once_all_have_come)
{
    yk_error err = YK_ERROR_INIT;
    int fd = -1;
    hosts_job j;
    hosts_new(&j, "aab");
    hosts_start(&j, "work");
    wait_ready(&j);
    ck_assert_int_eq(yk__tcp_connect("127.0.0.1", (uint16_t)atoi(j.port), 1000, &fd, &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, "refused"), "'%s'", err.text);
    hosts_free(&j);
}
END_TEST

static void assert_secret_refused(mode_t mode, size_t bytes, const char *words)
{
    char path[96], secret[64] = "a secret that is long enough to be one, were it not readable";
    hosts_job j;
    hosts_new(&j, "a");
    j.ranks = 2;
    snprintf(j.hosts, sizeof j.hosts, "ab");
    hosts_choose_port(&j);
    snprintf(path, sizeof path, "%s/other", j.folder);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, secret, bytes), (ssize_t)bytes);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
    hosts_start_rank(&j, 0, "exchange", "other");
    hosts_wait(&j, -1);
    ck_assert_msg(strstr(j.said[0], words), "'%s', expected '%s'", j.said[0], words);
    hosts_free(&j);
}

START_TEST(secret_of_others_is_refused)
{
    assert_secret_refused(0644, 32, "chmod 600");
    assert_secret_refused(0600, 8, "a secret of 8 bytes");
}
END_TEST

static int run_suite_hosts(void)
{
    TCase *t = tcase_create("hosts");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, ranks_of_all_layouts_exchange_bytes, 0, (int)(sizeof layouts / sizeof *layouts));
    tcase_add_test(t, ranks_see_what_others_show);
    tcase_add_test(t, ranks_know_hosts_and_names);
    tcase_add_test(t, ranks_leave_at_unlike_times);
    tcase_add_test(t, end_by_one_reaches_all);
    tcase_add_loop_test(t, death_of_one_is_named_by_all_others, 0, STRIKES);
    tcase_add_test(t, rank_that_never_comes_is_named);
    tcase_add_test(t, rank_zero_that_never_comes_is_named);
    tcase_add_test(t, death_before_all_have_come_is_named);
    tcase_add_test(t, strangers_are_refused_and_the_job_goes_on);
    tcase_add_test(t, flood_of_strangers_keeps_no_rank_out);
    tcase_add_test(t, rank_that_is_there_already_is_refused);
    tcase_add_test(t, nothing_listens_once_all_have_come);
    tcase_add_test(t, secret_of_others_is_refused);
    return suite_run("hosts", t);
}

int main(int argc, char **argv)
{
    return argc > 1 ? as_rank(argv[1]) : run_suite_hosts();
}
