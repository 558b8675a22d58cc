/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output folder of a training: checks that it is unused, and locks it, so that two jobs do not write there. The lock is a flock on
 * DIR/.yoke-lock.
 *
 * cmd_train.c (tools/cmd) calls it before the first step, in the main thread of every rank; rank 0 holds the lock until output_release or
 * its end. A used folder is an error that names the remedy.
 */
#include "tools/train/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "tools/train/checkpoints.h"
#include "tools/train/train_restart.h"

#define LOCK_TEXT 352

static void output_fail(yk_job *job, yk_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void output_fail(yk_job *job, yk_status status, const char *fmt, ...)
{
    char text[4608];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yk_fail(job, status, text);
}

/* A model's file in the folder; NULL if it has none. */
static const char *find_model(const char *dir)
{
    static const char *const names[] = {"config.json", "model.safetensors", "model.safetensors.index.json", ".yoke-save"};
    char path[4352];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (!lstat(path, &st))
            return names[i];
    }
    return NULL;
}

void output_check(yk_job *job, const char *dir, bool allowed)
{
    const char *model;
    if (allowed || !yk_ok(job) || !yk_is_main(job))
        return;
    model = find_model(dir);
    if (model || checkpoint_any(dir))
        output_fail(job, YK_E_ARG,
                    "--output-dir %s: there is a training's output already (%s): --overwrite-output-dir replaces it, "
                    "--resume-from-checkpoint goes on from it, or choose another folder",
                    dir, model ? model : "checkpoints");
}

/* Names the lock's holder, from the text that it wrote there. */
static void fail_held(yk_job *job, const char *dir, int fd)
{
    char holder[320] = "";
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    output_fail(job, YK_E_IO, "--output-dir %s: another job writes there: %s holds its .yoke-lock; wait for it, or choose another folder",
                dir, holder[0] ? holder : "a process that has just started");
}

/* Writes the holder, for another process's message, and a unique number, for output_compare. */
static void lock_sign(int fd)
{
    YK__ACT_HERE(YK__ACT_SYNC);
    char host[256] = "", text[LOCK_TEXT];
    uint64_t number = 0;
    gethostname(host, sizeof host - 1);
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = (uint64_t)time(NULL);
    int n = snprintf(text, sizeof text, "process %ld on %s\n%016llx\n", (long)getpid(), host, (unsigned long long)number);
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n || fsync(fd)) /* the lock holds without */
        fprintf(stderr, "yoke train: .yoke-lock: %s\n", strerror(errno));
}

/* True if the locked file still has that name, as its last holder may have removed it. */
static bool is_named(int fd, const char *path)
{
    struct stat held, named;
    return !fstat(fd, &held) && !lstat(path, &named) && held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

static int lock_open(yk_job *job, const char *dir)
{
    char path[4352];
    snprintf(path, sizeof path, "%s/.yoke-lock", dir);
    for (;;) {
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (fd < 0) {
            output_fail(job, YK_E_IO, "--output-dir %s: its .yoke-lock cannot be opened: %s", dir, strerror(errno));
            return -1;
        }
        if (flock(fd, LOCK_EX | LOCK_NB)) {
            if (errno == EWOULDBLOCK)
                fail_held(job, dir, fd);
            else
                output_fail(job, YK_E_IO, "--output-dir %s: its .yoke-lock cannot be locked: %s", dir, strerror(errno));
            close(fd);
            return -1;
        }
        if (is_named(fd, path)) {
            lock_sign(fd);
            return fd;
        }
        close(fd);
    }
}

/* For a launch that may restart. */
static void output_mark(yk_job *job, const char *dir)
{
    const char *why = restart_claim(dir);
    if (why)
        output_fail(job, YK_E_IO, "--output-dir %s: its .yoke-run cannot be written: %s", dir, why);
}

int output_claim(yk_job *job, const char *dir, bool allowed)
{
    int lock = -1;
    yk_make_dir(job, dir);
    if (yk_ok(job) && yk_is_main(job))
        lock = lock_open(job, dir);
    output_check(job, dir, allowed);
    if (yk_ok(job) && yk_is_main(job)) {
        checkpoints_clear(dir);
        output_mark(job, dir);
    }
    yk_barrier(job);
    return lock;
}

/* ---- Several hosts ----------------------------------------------------------------------------------------------- */

/* Its lock as this host sees it. */
static void lock_read(const char *dir, char text[LOCK_TEXT])
{
    char path[4352];
    snprintf(path, sizeof path, "%s/.yoke-lock", dir);
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    memset(text, 0, LOCK_TEXT);
    if (fd < 0)
        return;
    if (pread(fd, text, LOCK_TEXT - 1, 0) < 0)
        text[0] = 0;
    close(fd);
}

/* True once this host sees the other host's text, which may take some time. */
static bool is_seen(const char *dir, const char *written)
{
    char text[LOCK_TEXT];
    for (int i = 0; i < 20; i++) {
        lock_read(dir, text);
        if (!strcmp(text, written))
            return true;
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    }
    return false;
}

void output_compare(yk_job *job, const char *dir)
{
    char written[LOCK_TEXT] = "", host[256] = "";
    const double last = yk_world_size(job), own = yk_rank(job);
    double first = 0; /* last - rank for ranks that do not see it: the largest is the first rank */
    if (!yk_ok(job) || yk_local_world_size(job) == yk_world_size(job))
        return;
    if (yk_is_main(job))
        lock_read(dir, written);
    yk_broadcast(job, written, sizeof written, 0);
    if (yk_ok(job) && yk_is_local_main(job) && !yk_is_main(job) && !is_seen(dir, written))
        first = last - own;
    yk_all_reduce_max(job, &first, 1);
    if (!yk_ok(job) || first <= 0)
        return;
    const uint32_t rank = (uint32_t)(last - first);
    gethostname(host, sizeof host - 1);
    yk_broadcast(job, host, sizeof host, rank);
    if (yk_ok(job) && yk_is_main(job))
        fprintf(stderr, "yoke train: --output-dir %s is not one folder on all hosts: rank %u (%s) does not see what rank 0 writes there, "
                        "and to go on from a checkpoint every host has to\n", dir, rank, host);
}

void output_release(const char *dir, int lock)
{
    char path[4352];
    if (lock < 0)
        return;
    snprintf(path, sizeof path, "%s/.yoke-lock", dir);
    unlink(path); /* while it is held: a process waiting for this file sees that it has no name any more */
    close(lock);
}
