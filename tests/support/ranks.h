/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that start their own program as the ranks of a job. As a rank the program has two arguments: which case, and what
 * more it needs (a folder); without arguments it is the test.
 *
 *     int main(int argc, char **argv)
 *     {
 *         return argc == 3 ? rank_main(argv[1], argv[2]) : run_suite();
 *     }
 *
 * ranks_start and ranks_pass place ranks on cores and open no device; ranks_run goes by device specs, as a user's job does.
 */
#ifndef YOKE_TESTS_SUPPORT_RANKS_H
#define YOKE_TESTS_SUPPORT_RANKS_H

#include <check.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <yoke/yoke.h>

#include "core/base/clock.h"
#include "core/control/start/origin.h"
#include "core/device/device.h"
#include "core/group/group.h"
#include "core/launch/launch.h"
#include "tests/support/run.h"

#define RANKS_SELF "/proc/self/exe"
/* Seconds from the start of ranks to an error that does not wait for a time: below YOKE_STUCK_MS of the tests (20 s), above what the
 * start of six instrumented ranks takes beside other tests. */
#define RANKS_SOON 15
/* Seconds of a case of several ranks: instrumented, at a load of 25, one took more than 120. */
#define RANKS_TIMEOUT 300

/* Seconds of a clock that only goes forward, the same in all processes. */
static inline double ranks_now(void)
{
    return yk__clock_seconds();
}

/* ---- The ranks of a group ---- */

static inline void ranks_places(yk__placement *place, uint32_t n)
{
    memset(place, 0, n * sizeof *place);
    for (uint32_t r = 0; r < n; r++) {
        strcpy(place[r].plugin, "opencl");
        snprintf(place[r].cores, sizeof place[r].cores, "%u", r);
    }
}

/* Runs a case as n ranks, 16 at most. */
static inline yk_status ranks_start(uint32_t n, const char *what, const char *more, int *code, yk_error *err)
{
    yk__placement place[16];
    char self[] = RANKS_SELF, name[64], rest[64];
    char *argv[] = {self, name, rest, NULL};
    snprintf(name, sizeof name, "%s", what);
    snprintf(rest, sizeof rest, "%s", more ? more : "");
    ranks_places(place, n);
    return yk__launch(place, n, argv, 0, NULL, code, err);
}

/* A case that no rank may fail. */
static inline void ranks_pass(uint32_t n, const char *what)
{
    yk_error err = YK_ERROR_INIT;
    int code = -1;
    ranks_start(n, what, NULL, &code, &err);
    ck_assert_msg(!err.status && code == 0, "%u ranks, %s: exit code %d: %s", n, what, code, err.text);
}

/* One rank of ranks_pass: joins, runs the case, and ends the job for all when it fails. The exit code. */
static inline int ranks_member(const char *what, yk_status (*run)(yk__group *g, const char *what, yk_error *err))
{
    yk_error err = YK_ERROR_INIT;
    yk__group *g;
    if (!yk__group_join("a rank", &g, &err)) {
        if (run(g, what, &err))
            yk__group_abort(g, &err);
        yk__group_leave(g);
    }
    if (err.status)
        yk__group_report(&err);
    return err.status != YK_OK;
}

/* ---- The ranks of a job ---- */

static char ranks_folder[] = "/tmp/yoke-ranks-XXXXXX"; /* the ranks' files for the test; each rank's second argument */

static inline void ranks_folder_make(void)
{
    strcpy(strrchr(ranks_folder, '-') + 1, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(ranks_folder));
}

static inline void ranks_folder_remove(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", ranks_folder);
    ck_assert_int_eq(system(command), 0);
}

/* In a process of its own: a job over the devices. One device is no job of several ranks: the process is the rank then. */
static inline void ranks_child(const char *devices, const char *what, const char *log)
{
    char self[] = RANKS_SELF;
    char *argv[] = {self, (char *)(uintptr_t)what, ranks_folder, NULL};
    const int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 2);
    const int code = yk_launch(devices, argv);
    if (code < 0)
        execv(self, argv);
    _exit(code < 0 ? 127 : code);
}

/* Runs a case on the devices: returns the exit code; the ranks' standard error in said[capacity]. */
static inline int ranks_run(const char *devices, const char *what, char *said, size_t capacity)
{
    char log[64];
    int status = -1;
    snprintf(log, sizeof log, "%s/said", ranks_folder);
    const pid_t child = fork();
    if (child == 0)
        ranks_child(devices, what, log);
    waitpid(child, &status, 0);
    FILE *f = fopen(log, "r");
    said[f ? fread(said, 1, capacity - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A file of the folder, for one rank's bytes: numbers of the case `what`. */
static inline void ranks_write(const char *folder, const char *what, uint32_t rank, const void *data, size_t bytes)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s.%u", folder, what, rank);
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(data, 1, bytes, f);
        fclose(f);
    }
}

static inline void ranks_read(const char *what, uint32_t rank, void *data, size_t bytes)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s.%u", ranks_folder, what, rank);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s is not there: the rank wrote nothing", path);
    ck_assert_uint_eq(fread(data, 1, bytes, f), bytes);
    fclose(f);
}

#endif
