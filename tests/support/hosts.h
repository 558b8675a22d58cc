/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of a job over several hosts, which are one machine: YOKE_HOST_ID makes the difference. The test starts its own program as
 * the ranks, by hand (YOKE_RANK and so on), with one argument, the case; they come together over TCP on the loopback device, and what
 * they print on standard output the test can read when they have ended.
 */
#ifndef YOKE_TESTS_SUPPORT_HOSTS_H
#define YOKE_TESTS_SUPPORT_HOSTS_H

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/net/tcp.h"

#define HOSTS_RANKS 5 /* ranks of a job, at most */

typedef struct hosts_job {
    uint32_t ranks;
    char folder[64];
    char hosts[HOSTS_RANKS + 1]; /* a letter for each rank */
    char port[8];
    pid_t pid[HOSTS_RANKS];
    int status[HOSTS_RANKS];
    char said[HOSTS_RANKS][1024];
} hosts_job;

static inline void hosts_new(hosts_job *j, const char *hosts)
{
    char path[96];
    int fd;
    memset(j, 0, sizeof *j);
    j->ranks = (uint32_t)strlen(hosts);
    snprintf(j->hosts, sizeof j->hosts, "%s", hosts);
    snprintf(j->folder, sizeof j->folder, "/tmp/yoke-hosts-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(j->folder));
    snprintf(path, sizeof path, "%s/secret", j->folder);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, "sixteen bytes and more of secret", 32), 32);
    close(fd);
}

/* A port that is free now: rank 0 listens on it a moment later. */
static inline void hosts_choose_port(hosts_job *j)
{
    yk_error err = YK_ERROR_INIT;
    int fd = -1;
    ck_assert_msg(!yk__tcp_listen("127.0.0.1", 0, &fd, &err), "%s", err.text);
    snprintf(j->port, sizeof j->port, "%u", yk__tcp_port(fd));
    close(fd);
}

static inline void hosts_set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof text, "%u", value);
    setenv(name, text, 1);
}

static inline void hosts_become_rank(const hosts_job *j, uint32_t rank, const char *what, const char *secret)
{
    char path[96], host[2] = {j->hosts[rank], 0};
    char *argv[] = {(char[]){"/proc/self/exe"}, (char *)(uintptr_t)what, NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(path, sizeof path, "%s/said.%u", j->folder, rank);
    dup2(open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), 1);
    snprintf(path, sizeof path, "%s/ready.%u", j->folder, rank);
    setenv("TEST_READY", path, 1);
    setenv("TEST_HOSTS", j->hosts, 1);
    snprintf(path, sizeof path, "%s/%s", j->folder, secret);
    setenv("YOKE_SECRET_FILE", path, 1);
    setenv("YOKE_HOST_ID", host, 1);
    setenv("YOKE_ADDR", "127.0.0.1", 1);
    setenv("YOKE_PORT", j->port, 1);
    hosts_set_number("YOKE_RANK", rank);
    hosts_set_number("YOKE_SIZE", j->ranks);
    execv(argv[0], argv);
    _exit(127);
}

static inline void hosts_start_rank(hosts_job *j, uint32_t rank, const char *what, const char *secret)
{
    j->pid[rank] = fork();
    ck_assert_int_ge(j->pid[rank], 0);
    if (!j->pid[rank])
        hosts_become_rank(j, rank, what, secret);
}

static inline void hosts_start(hosts_job *j, const char *what)
{
    hosts_choose_port(j);
    for (uint32_t r = 0; r < j->ranks; r++)
        hosts_start_rank(j, r, what, "secret");
}

static inline void hosts_read_said(hosts_job *j, uint32_t rank)
{
    char path[96];
    snprintf(path, sizeof path, "%s/said.%u", j->folder, rank);
    FILE *f = fopen(path, "r");
    j->said[rank][f ? fread(j->said[rank], 1, sizeof j->said[rank] - 1, f) : 0] = 0;
    if (f)
        fclose(f);
}

/* Waits for the end of all but `spared`. */
static inline void hosts_wait(hosts_job *j, int spared)
{
    for (uint32_t r = 0; r < j->ranks; r++) {
        if ((int)r == spared || !j->pid[r])
            continue;
        ck_assert_int_eq(waitpid(j->pid[r], &j->status[r], 0), j->pid[r]);
        j->pid[r] = 0;
        hosts_read_said(j, r);
    }
}

static inline void hosts_free(hosts_job *j)
{
    char command[96];
    for (uint32_t r = 0; r < j->ranks; r++)
        if (j->pid[r]) {
            kill(j->pid[r], SIGKILL);
            waitpid(j->pid[r], NULL, 0);
        }
    snprintf(command, sizeof command, "rm -rf %s", j->folder);
    ck_assert_int_eq(system(command), 0);
}

static inline void hosts_assert_well(const hosts_job *j)
{
    for (uint32_t r = 0; r < j->ranks; r++)
        ck_assert_msg(WIFEXITED(j->status[r]) && WEXITSTATUS(j->status[r]) == 0, "rank %u of %s: status %x, '%s'", r, j->hosts,
                      (unsigned)j->status[r], j->said[r]);
}

#endif
