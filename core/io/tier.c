/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of working memory: blocks of a rank's state go to a disk and come back within one process (--offload state=nvme:DIR). The file
 * has no name, so it goes with the process.
 *
 * core/run/values/state_file.c and tools/plan/disk_probe.c call it, in the step or main thread. That thread appends requests to a ring,
 * and the tier's own thread runs them one after the other. So a write of a block stands before the next read into the same memory, without
 * a further rule. The first failure stays, and each wait returns it.
 *
 * A disk may hang in a request for ever. So the two threads share the object: the last one to let go frees it, with the memory of
 * requests.
 */
#include "config.h"

#include "core/io/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/advance.h"
#include "core/base/limit.h"
#include "core/base/mem.h"
#include "core/base/process/reserve.h"
#include "core/base/timed.h"
#include "core/io/folder.h"

#define PREFIX ".yoke-state-"
#define REQUESTS 32u
#define NAME_MOST 96
#define SLICE_NS 20000000          /* ns of a wait between two looks at `cancel` */
#define LEAVE_NS ((int64_t)2000000000) /* ns that the close waits for a request under way */

typedef struct tier_request {
    char *memory;
    uint64_t at, bytes;
    bool writes;
} tier_request;

struct yk__tier {
    char *dir;
    int fd;
    bool is_direct;
    const volatile int *cancel;
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tier_request request[REQUESTS]; /* request i at i % REQUESTS */
    uint64_t begun, done;           /* their numbers begin at 1 */
    bool runs;                      /* a request is under way */
    bool ends, is_over, is_given_up; /* the close has begun; the thread has ended; nobody waits for it */
    void *memory[YK__TIER_MEMORY];  /* of the caller's requests, once it is given up */
    yk_error failed;
};

/* ---- The thread ---- */

static yk_status request_fail(const yk__tier *tier, const tier_request *r, uint64_t done, int error, yk_error *err)
{
    const char *what = r->writes ? "write" : "read", *remedy = "look at that disk";
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        remedy = error == EFBIG ? "raise the limit of file size (ulimit -f)" : "free space there, or take another folder";
    return yk__fail(err, YK_E_IO, "%s: expected to %s %llu bytes of the state on disk at %llu, got %llu%s%s: %s", tier->dir, what,
                    (unsigned long long)r->bytes, (unsigned long long)r->at, (unsigned long long)done, error ? " and " : "",
                    error ? strerror(error) : ", the file's end", remedy);
}

/* The kernel may move fewer bytes than asked for. A rest that is no whole page has no next request with O_DIRECT: it is the file's end. */
static yk_status request_run(const yk__tier *tier, const tier_request *r, yk_error *err)
{
    uint64_t done = 0;
    while (done < r->bytes) {
        const off_t at = (off_t)(r->at + done);
        const ssize_t n = r->writes ? pwrite(tier->fd, r->memory + done, r->bytes - done, at)
                                    : pread(tier->fd, r->memory + done, r->bytes - done, at);
        const int error = n < 0 ? errno : 0;
        if (error == EINTR)
            continue;
        if (error)
            return request_fail(tier, r, done, error, err);
        yk__advance(); /* a long step on a slow disk is no standstill */
        done += (uint64_t)n;
        if (n == 0 || (done < r->bytes && done % YK__TIER_PAGE))
            return request_fail(tier, r, done, 0, err);
    }
    return YK_OK;
}

static void tier_free(yk__tier *tier)
{
    if (tier->fd >= 0)
        close(tier->fd);
    pthread_cond_destroy(&tier->changed);
    pthread_mutex_destroy(&tier->lock);
    for (uint32_t i = 0; i < YK__TIER_MEMORY; i++)
        yk__free(tier->memory[i]);
    yk__free(tier->dir);
    yk__free(tier);
}

/* Runs the next request, without the lock that it is called under. The close ends the act of a request that it gives up. */
static void request_next(yk__tier *tier, yk_error *err)
{
    const tier_request r = tier->request[(tier->done + 1) % REQUESTS];
    tier->runs = true;
    yk__act_begin(YK__ACT_FILE);
    pthread_mutex_unlock(&tier->lock);
    if (!err->status)
        request_run(tier, &r, err);
    pthread_mutex_lock(&tier->lock);
    if (!tier->is_given_up)
        yk__act_end(YK__ACT_FILE);
    tier->runs = false;
    tier->failed = *err;
    tier->done++;
    pthread_cond_broadcast(&tier->changed);
}

static void *tier_main(void *arg)
{
    yk__tier *tier = arg;
    yk_error err = YK_ERROR_INIT;
    pthread_mutex_lock(&tier->lock);
    while (!tier->ends) /* nobody reads the requests that have not begun by then */
        if (tier->done == tier->begun)
            pthread_cond_wait(&tier->changed, &tier->lock);
        else
            request_next(tier, &err);
    tier->is_over = true;
    const bool is_given_up = tier->is_given_up;
    pthread_cond_broadcast(&tier->changed);
    pthread_mutex_unlock(&tier->lock);
    if (is_given_up)
        tier_free(tier);
    return NULL;
}

/* All signals stay with other threads; SIGXFSZ of a write is then an error of that write. */
static yk_status thread_start(yk__tier *tier, yk_error *err)
{
    sigset_t all, old;
    int failed;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&tier->thread, NULL, tier_main, tier);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        return yk__fail(err, YK_E_IO, "starting the thread of the state on disk: %s", yk__limit_thread_reason(failed).text);
    tier->has_thread = true;
    return YK_OK;
}

/* ---- Requests ---- */

static bool is_cancelled(const void *tier)
{
    const volatile int *cancel = ((const yk__tier *)tier)->cancel;
    return cancel && __atomic_load_n(cancel, __ATOMIC_ACQUIRE);
}

/* Called under the lock. False if the job ended before. */
static bool await_done(yk__tier *tier, uint64_t number)
{
    while (tier->done < number && !is_cancelled(tier))
        yk__timed_wait(&tier->changed, &tier->lock, yk__clock_ns() + SLICE_NS);
    return tier->done >= number;
}

/* Once the job ends, a request that finds no place is dropped: its wait fails all the same. */
static uint64_t request_begin(yk__tier *tier, tier_request r)
{
    uint64_t number;
    pthread_mutex_lock(&tier->lock);
    number = tier->begun + 1;
    if (number <= REQUESTS || await_done(tier, number - REQUESTS)) {
        tier->begun = number;
        tier->request[number % REQUESTS] = r;
        pthread_cond_broadcast(&tier->changed);
    }
    pthread_mutex_unlock(&tier->lock);
    return number;
}

uint64_t yk__tier_read(yk__tier *tier, void *to, uint64_t at, uint64_t bytes)
{
    return request_begin(tier, (tier_request){to, at, bytes, false});
}

uint64_t yk__tier_write(yk__tier *tier, const void *from, uint64_t at, uint64_t bytes)
{
    return request_begin(tier, (tier_request){(char *)from, at, bytes, true});
}

yk_status yk__tier_wait(yk__tier *tier, uint64_t number, yk_error *err)
{
    pthread_mutex_lock(&tier->lock);
    const bool is_done = await_done(tier, number);
    if (tier->failed.status)
        *err = tier->failed;
    else if (!is_done)
        yk__fail(err, YK_E_CANCELLED, "%s: the wait for the state on disk was cancelled", tier->dir);
    pthread_mutex_unlock(&tier->lock);
    return err->status;
}

yk_status yk__tier_idle(yk__tier *tier, yk_error *err)
{
    return yk__tier_wait(tier, tier->begun, err);
}

/* ---- Space ---- */

static uint64_t space_left(const yk__tier *tier)
{
    struct statvfs s;
    return fstatvfs(tier->fd, &s) ? UINT64_MAX : (uint64_t)s.f_bavail * s.f_frsize;
}

yk_status yk__tier_expect(const yk__tier *tier, uint64_t bytes, const char *what, yk_error *err)
{
    const uint64_t left = space_left(tier);
    if (left >= bytes)
        return YK_OK;
    return yk__fail(err, YK_E_IO, "expected %llu bytes free in %s, got %llu: free space for %s, or take another folder",
                    (unsigned long long)bytes, tier->dir, (unsigned long long)left, what);
}

/* A file system without fallocate takes the space when it is written. */
yk_status yk__tier_reserve(yk__tier *tier, uint64_t at, uint64_t bytes, yk_error *err)
{
    yk__limit_held held;
    struct stat now = {0};
    int failed;
    yk__limit_hold(&held);
    failed = yk__reserve(tier->fd, at, bytes, is_cancelled, tier);
    if (failed == EOPNOTSUPP || failed == ENOSYS)
        failed = fstat(tier->fd, &now) || ((uint64_t)now.st_size < at + bytes && ftruncate(tier->fd, (off_t)(at + bytes))) ? errno : 0;
    yk__limit_release(&held);
    if (!failed)
        return YK_OK;
    if (failed == ECANCELED)
        return yk__fail(err, YK_E_CANCELLED, "%s: taking space for the state on disk was cancelled", tier->dir);
    if (failed == ENOSPC || failed == EDQUOT)
        return yk__fail(err, YK_E_IO, "expected %llu bytes free in %s, got %llu (%s): free space there, or take another folder",
                        (unsigned long long)bytes, tier->dir, (unsigned long long)space_left(tier), strerror(failed));
    return yk__fail(err, YK_E_IO, "%s: expected a file of %llu bytes for the state on disk, got: %s%s", tier->dir,
                    (unsigned long long)(at + bytes), strerror(failed), failed == EFBIG ? ": raise the limit (ulimit -f)" : "");
}

/* A file system without holes keeps the space, which its next owner writes. In a job that ends the disk may hang, and the file goes. */
void yk__tier_give_back(yk__tier *tier, uint64_t at, uint64_t bytes)
{
    if (!is_cancelled(tier))
        fallocate(tier->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

/* ---- The file ---- */

/* ".yoke-state-HOST-", which has an end where the host's name is long. */
static void prefix_make(char prefix[NAME_MOST])
{
    char host[65] = "";
    gethostname(host, sizeof host - 1);
    snprintf(prefix, NAME_MOST, PREFIX "%s-", host);
}

/* Names of processes of this host that were killed between making a file and removing its name. A living process needs its file's name no
 * more; on a network's file system another host's process does, for a moment. */
static yk_status names_remove(const char *dir, yk_error *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    char prefix[NAME_MOST];
    prefix_make(prefix);
    if (!d)
        return yk__fail(err, YK_E_IO, "%s: expected a folder for the state on disk, got: %s", dir, strerror(errno));
    while ((e = yk__folder_next(d, dir, err)))
        if (!strncmp(e->d_name, prefix, strlen(prefix)))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    return err->status;
}

static yk_status file_make(yk__tier *tier, yk_error *err)
{
    char prefix[NAME_MOST];
    prefix_make(prefix);
    char *name = yk__format("%s/%sXXXXXX", tier->dir, prefix);
    if (!name)
        return yk__fail_mem(err, strlen(tier->dir), "the state on disk");
    tier->fd = mkostemp(name, O_CLOEXEC);
    if (tier->fd < 0)
        yk__fail(err, YK_E_IO, "%s: expected a folder to write to, got: %s", tier->dir, strerror(errno));
    else
        unlink(name);
    yk__free(name);
    if (!err->status)
        tier->is_direct = !fcntl(tier->fd, F_SETFL, O_DIRECT);
    return err->status;
}

yk_status yk__tier_open(const char *dir, const volatile int *cancel, yk__tier **out, yk_error *err)
{
    yk__tier *tier = yk__calloc(1, sizeof *tier);
    if (!tier)
        return yk__fail_mem(err, sizeof *tier, "the state on disk");
    tier->fd = -1;
    tier->cancel = cancel;
    pthread_mutex_init(&tier->lock, NULL);
    yk__timed_init(&tier->changed);
    tier->dir = yk__strdup(dir);
    if (!tier->dir)
        yk__fail_mem(err, strlen(dir), "the state on disk");
    mkdir(dir, 0777); /* as an output folder is; names_remove says why there is none */
    if (err->status || names_remove(dir, err) || file_make(tier, err) || thread_start(tier, err)) {
        yk__tier_close(tier, NULL, 0);
        return err->status;
    }
    *out = tier;
    return YK_OK;
}

/* True once the thread has ended; false if it is left behind in a request, with the object. */
static bool thread_end(yk__tier *tier)
{
    const pthread_t thread = tier->thread;
    const int64_t until = yk__clock_ns() + LEAVE_NS;
    pthread_mutex_lock(&tier->lock);
    tier->ends = true;
    pthread_cond_broadcast(&tier->changed);
    while (!tier->is_over && yk__clock_ns() < until)
        yk__timed_wait(&tier->changed, &tier->lock, until);
    const bool is_over = tier->is_over;
    tier->is_given_up = !is_over;
    if (!is_over && tier->runs)
        yk__act_end(YK__ACT_FILE); /* no act of this process's next job */
    pthread_mutex_unlock(&tier->lock);
    if (is_over)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return is_over;
}

void yk__tier_close(yk__tier *tier, void *const *memory, uint32_t n)
{
    if (!tier)
        return;
    for (uint32_t i = 0; i < n; i++)
        tier->memory[i] = memory[i];
    if (!tier->has_thread || thread_end(tier))
        tier_free(tier);
}

bool yk__tier_is_direct(const yk__tier *tier)
{
    return tier->is_direct;
}
