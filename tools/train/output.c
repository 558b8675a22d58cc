/* SPDX-License-Identifier: Apache-2.0 */
/* The output folder: whether it is used, and its lock. */
#include "tools/train/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/train/checkpoints.h"
#include "tools/train/restart.h"

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

/* What a model leaves in a folder; NULL: nothing of it is there. */
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

/* Who holds the lock, by what that process wrote into it. */
static void fail_held(yk_job *job, const char *dir, int fd)
{
    char holder[320] = "";
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = 0;
    holder[strcspn(holder, "\n")] = 0;
    output_fail(job, YK_E_IO, "--output-dir %s: another job writes there: %s holds its .yoke-lock; wait for it, or choose another folder",
                dir, holder[0] ? holder : "a process that has just started");
}

static void lock_sign(int fd)
{
    char host[256] = "", text[320];
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)n, 0) != n) /* only for another's message: the lock holds without */
        fprintf(stderr, "yoke train: .yoke-lock: %s\n", strerror(errno));
}

/* Whether the file that is locked is still the one of that name: its last holder may have removed it. */
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

void output_release(const char *dir, int lock)
{
    char path[4352];
    if (lock < 0)
        return;
    snprintf(path, sizeof path, "%s/.yoke-lock", dir);
    unlink(path); /* while it is held: who waits for this very file sees that it has no name any more */
    close(lock);
}
