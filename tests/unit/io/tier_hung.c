/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that stops to answer in the midst of a request of the state on disk: a cancelled wait ends, the close gives the request up, and
 * the memory it uses goes when it ends. The same for a whole job by yk_cancel and yk_close.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/yoke.h>

#include "core/base/advance.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/io/tier.h"
#include "tests/support/run.h"

#define BLOCK (16 * YK__TIER_PAGE)

static atomic_int hung, moved; /* requests that do not end; and those that came to the disk */
static atomic_bool hangs;

static void disk_enter(void)
{
    moved++;
    hung += hangs;
    while (hangs)
        usleep(1000);
}

/* libc's place: the core's calls come here. Offsets have 64 bits: pread64 and pwrite64 of the C library. */
ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    ssize_t (*libc)(int, void *, size_t, off_t) = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64");
    disk_enter();
    return libc(fd, to, n, at);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    ssize_t (*libc)(int, const void *, size_t, off_t) = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64");
    disk_enter();
    return libc(fd, from, n, at);
}

static char dir[64];

static void folder_make(void)
{
    hangs = false;
    strcpy(dir, "/tmp/yoke-tier-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void folder_remove(void)
{
    ck_assert_msg(!rmdir(dir), "a file stays in %s", dir);
}

static bool has_file(void)
{
    char link[64], to[256];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, to, sizeof to - 1);
        to[n < 0 ? 0 : n] = 0;
        if (n > 0 && strstr(to, dir))
            return true;
    }
    return false;
}

static void wait_until_hung(void)
{
    while (!hung)
        usleep(1000);
}

/* The disk answers again: the request ends, and its thread closes the file and frees all. */
static void disk_release(void)
{
    const double begun = yk__clock_seconds();
    hangs = false;
    while (has_file() && yk__clock_seconds() - begun < 30)
        usleep(1000);
    ck_assert_msg(!has_file(), "the file stays open");
}

START_TEST(a_cancelled_wait_ends_and_the_close_gives_up)
{
    yk_error err = YK_ERROR_INIT;
    yk__tier *tier = NULL;
    volatile int cancel = 0;
    void *memory[2] = {yk__malloc_aligned(BLOCK, YK__TIER_PAGE), yk__malloc_aligned(BLOCK, YK__TIER_PAGE)};
    memset(memory[0], 1, BLOCK);
    ck_assert_msg(!yk__tier_open(dir, &cancel, &tier, &err), "%s", err.text);
    ck_assert(!yk__tier_reserve(tier, 0, 64 * BLOCK, &err));
    hangs = true;
    const uint64_t number = _i ? yk__tier_write(tier, memory[0], 0, BLOCK) : yk__tier_read(tier, memory[0], 0, BLOCK);
    wait_until_hung();
    __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
    const double begun = yk__clock_seconds();
    ck_assert_int_eq(yk__tier_wait(tier, number, &err), YK_E_CANCELLED);
    for (int i = 0; i < 100; i++) /* more than the ring holds: no call waits for the disk, and none of them begins */
        yk__tier_read(tier, memory[1], (uint64_t)BLOCK, BLOCK);
    yk__tier_give_back(tier, 0, BLOCK);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__tier_reserve(tier, 64 * BLOCK, BLOCK, &err), YK_E_CANCELLED);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__tier_idle(tier, &err), YK_E_CANCELLED);
    const double waited = yk__clock_seconds() - begun;
    ck_assert_int_eq(yk__act_now(), YK__ACT_FILE);
    yk__tier_close(tier, memory, 2);
    const double closed = yk__clock_seconds() - begun - waited;
    printf("# a cancelled wait: %.0f ms, the close: %.2f s\n", waited * 1e3, closed);
    ck_assert_msg(waited < 1.5 && closed > 1.9 && closed < 5, "%g s, %g s", waited, closed);
    ck_assert_int_eq(yk__act_now(), YK__ACT_OWN); /* the next job of this process is not blamed */
    disk_release();
    ck_assert_int_eq(moved, 1);
    ck_assert_int_eq(yk__act_now(), YK__ACT_OWN);
}
END_TEST

START_TEST(the_close_drops_what_has_not_begun)
{
    yk_error err = YK_ERROR_INIT;
    yk__tier *tier = NULL;
    void *memory = yk__malloc_aligned(BLOCK, YK__TIER_PAGE);
    ck_assert_msg(!yk__tier_open(dir, NULL, &tier, &err), "%s", err.text);
    ck_assert(!yk__tier_reserve(tier, 0, 64 * BLOCK, &err));
    hangs = true;
    for (int i = 0; i < 20; i++)
        yk__tier_read(tier, memory, (uint64_t)i * BLOCK, BLOCK);
    wait_until_hung();
    yk__tier_close(tier, &memory, 1);
    disk_release();
    ck_assert_int_eq(moved, 1);
}
END_TEST

typedef struct canceller {
    yk_job *job;
    double at; /* seconds */
} canceller;

static void *cancel_when_hung(void *argument)
{
    canceller *given = argument;
    wait_until_hung();
    given->at = yk__clock_seconds();
    yk_cancel(given->job);
    return NULL;
}

START_TEST(a_job_ends_by_yk_cancel)
{
    enum { SIDE = 64 };
    static float v[SIDE * SIDE];
    const int64_t dim[2] = {SIDE, SIDE};
    char offload[96];
    snprintf(offload, sizeof offload, "state=nvme:%s", dir);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu:0", .quiet = true, .offload = offload});
    canceller given = {.job = job};
    pthread_t thread;
    const yk_t w = yk_param(job, "w", 2, dim, (yk_init){YK_INIT_UNIFORM, -0.01f, 0.01f});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_when_hung, &given), 0);
    for (int step = 0; yk_ok(job); step++) {
        hangs = step == 3;
        yk_backward(yk_mean(yk_matmul(yk_input(job, YK_F32, 2, dim, v), w), 3, false));
        yk_step(opt);
        yk_sync(job);
    }
    const double ended = yk__clock_seconds();
    pthread_join(thread, NULL);
    ck_assert_msg(yk_error_status(job) == YK_E_CANCELLED, "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 1);
    const double closed = yk__clock_seconds();
    printf("# %.0f ms from yk_cancel to the loop's end, %.2f s to the job's\n", (ended - given.at) * 1e3, closed - given.at);
    ck_assert_msg(ended - given.at < 1.5 && closed - given.at < 6, "%g s, %g s", ended - given.at, closed - given.at);
    disk_release();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("tier_hung");
    tcase_add_checked_fixture(t, folder_make, folder_remove);
    tcase_add_loop_test(t, a_cancelled_wait_ends_and_the_close_gives_up, 0, 2);
    tcase_add_test(t, the_close_drops_what_has_not_begun);
    tcase_add_test(t, a_job_ends_by_yk_cancel);
    tcase_set_timeout(t, 60);
    return suite_run("tier_hung", t);
}
