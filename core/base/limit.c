/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two limits of the process: the signal SIGXFSZ, of a file that grows beyond `ulimit -f`, and the soft limit of descriptors.
 *
 * The main function of yoke calls yk__limit_is_error, and so does each launcher (core/launch/launch.c), also a user's program in yk_launch
 * or yk_launch_ranks. It ignores the signal, unless the program handles it, and raises the descriptors. yk_open raises the descriptors
 * alone, in any program. The last yk_close sets them as they were, even after yk__limit_is_error. Until yk__limit_release, yk__limit_hold
 * keeps the signal from one thread: its write fails instead. A child of a launcher calls yk__limit_restore before its program starts.
 */
#include "config.h"

#include "core/base/limit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS 65536 /* upper bound, as some programs loop over all possible descriptors */

static atomic_int changed;
static _Atomic uint64_t raised_from; /* the old soft limit of descriptors; 0 if unchanged */
static _Atomic uint64_t raised_to;
static pthread_mutex_t jobs_lock = PTHREAD_MUTEX_INITIALIZER; /* a limit is raised and lowered by one thread at a time */
static uint32_t jobs; /* that hold the limit up */

static void signal_ignore(void)
{
    struct sigaction now;
    if (sigaction(SIGXFSZ, NULL, &now) || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
        return;
    signal(SIGXFSZ, SIG_IGN);
    atomic_store(&changed, 1);
}

static void descriptors_raise(void)
{
    struct rlimit limit;
    uint64_t before, want;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    before = limit.rlim_cur;
    want = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    if (before >= want)
        return;
    limit.rlim_cur = want;
    if (setrlimit(RLIMIT_NOFILE, &limit))
        return;
    atomic_store(&raised_to, want);
    if (!atomic_load(&raised_from))
        atomic_store(&raised_from, before);
}

void yk__limit_raise(void)
{
    pthread_mutex_lock(&jobs_lock);
    jobs++;
    descriptors_raise();
    pthread_mutex_unlock(&jobs_lock);
}

static void descriptors_lower(void)
{
    const uint64_t before = atomic_exchange(&raised_from, 0);
    struct rlimit limit;
    if (!before || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur != atomic_load(&raised_to)) /* the program has set its own */
        return;
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void yk__limit_lower(void)
{
    pthread_mutex_lock(&jobs_lock);
    if (!--jobs)
        descriptors_lower();
    pthread_mutex_unlock(&jobs_lock);
}

/* SIGXFSZ of a write goes to the thread that writes: blocked, it is pending there, and is taken away. */
void yk__limit_hold(yk__limit_held *held)
{
    struct sigaction now;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    held->held = !sigaction(SIGXFSZ, NULL, &now) && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL &&
                 !pthread_sigmask(SIG_BLOCK, &set, &held->mask);
}

void yk__limit_release(const yk__limit_held *held)
{
    const struct timespec none = {0, 0};
    sigset_t set;
    if (!held->held)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    while (!sigismember(&held->mask, SIGXFSZ) && sigtimedwait(&set, NULL, &none) == SIGXFSZ)
        ;
    pthread_sigmask(SIG_SETMASK, &held->mask, NULL);
}

ssize_t yk__limit_write(int fd, const void *data, size_t bytes)
{
    yk__limit_held held;
    yk__limit_hold(&held);
    const ssize_t n = write(fd, data, bytes);
    const int error = errno;
    yk__limit_release(&held);
    errno = error;
    return n;
}

void yk__limit_is_error(void)
{
    signal_ignore();
    descriptors_raise();
}

void yk__limit_restore(void)
{
    const uint64_t before = atomic_load(&raised_from);
    struct rlimit limit;
    if (atomic_load(&changed))
        signal(SIGXFSZ, SIG_DFL);
    if (!before || getrlimit(RLIMIT_NOFILE, &limit))
        return;
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
}

yk__limit_text yk__limit_reason(int error)
{
    struct rlimit limit = {0, 0};
    yk__limit_text t;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (error == EMFILE)
        snprintf(t.text, sizeof t.text, "%s: this process may have %llu descriptors: raise the limit (ulimit -n)", strerror(error),
                 (unsigned long long)limit.rlim_cur);
    else
        snprintf(t.text, sizeof t.text, "%s%s", strerror(error),
                 error == ENFILE ? ": the system has no more descriptors (fs.file-max)" : "");
    return t;
}

yk__limit_text yk__limit_thread_reason(int error)
{
    yk__limit_text t;
    snprintf(t.text, sizeof t.text, "%s%s", strerror(error),
             error == EAGAIN ? ": no further process or thread: raise the limit (ulimit -u or -v, or pids.max of the control group)" : "");
    return t;
}

void yk__limit_explain_descriptors(int error, uint64_t connections, char *text, size_t capacity)
{
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    *text = 0;
    if (error == EMFILE || error == EINVAL)
        snprintf(text, capacity, ": this process may have %llu descriptors, and its connections with other ranks take %llu: raise the "
                 "limit (ulimit -n)", (unsigned long long)limit.rlim_cur, (unsigned long long)connections);
    if (error == ENFILE)
        snprintf(text, capacity, ": the system has no more descriptors (fs.file-max)");
}
