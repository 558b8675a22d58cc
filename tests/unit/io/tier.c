/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of working memory: blocks come back as they were written, in the order of the calls; a disk that is full, fails or is shorter than
 * it was is one error that stays; and names of killed processes go, while a living one's file stays.
 */
#include "config.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/io/tier.h"
#include "tests/support/run.h"

#define BLOCK (16 * YK__TIER_PAGE)

static char dir[64];
static char *memory; /* three blocks */
static yk__tier *tier;
static yk_error err;

static void open_all(void)
{
    err = (yk_error)YK_ERROR_INIT;
    strcpy(dir, "/tmp/yoke-tier-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    memory = yk__malloc_aligned(3 * BLOCK, YK__TIER_PAGE);
    ck_assert_ptr_nonnull(memory);
    memset(memory, 0, 3 * BLOCK);
    ck_assert_msg(!yk__tier_open(dir, NULL, &tier, &err), "%s", err.text);
}

static void close_all(void)
{
    yk__tier_close(tier, (void *[]){memory}, 1);
    ck_assert_msg(!rmdir(dir), "a file stays in %s", dir);
}

/* The descriptor of the tier's file, which has no name. */
static int file_fd(void)
{
    char link[64], to[256];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, to, sizeof to - 1);
        to[n < 0 ? 0 : n] = 0;
        if (n > 0 && strstr(to, dir) && strstr(to, "(deleted)"))
            return fd;
    }
    ck_abort_msg("no file in %s", dir);
    return -1;
}

/* The file becomes another one. */
static void replace_file(const char *path, int flags)
{
    const int other = open(path, flags | O_CLOEXEC);
    ck_assert_int_ge(other, 0);
    ck_assert_int_ge(dup2(other, file_fd()), 0);
    close(other);
}

static void expect_failure(const char *text)
{
    ck_assert_int_eq(yk__tier_idle(tier, &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, text) && strstr(err.text, dir), "%s", err.text);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_int_eq(yk__tier_wait(tier, yk__tier_read(tier, memory, 0, BLOCK), &err), YK_E_IO); /* the first failure stays */
    ck_assert_msg(strstr(err.text, text) != NULL, "%s", err.text);
}

START_TEST(blocks_come_back_in_the_order_of_calls)
{
    char *other = memory + BLOCK;
    ck_assert(!yk__tier_expect(tier, BLOCK, "a test", &err) && !yk__tier_reserve(tier, 0, 100 * BLOCK, &err));
    yk__tier_read(tier, other, 7 * BLOCK, BLOCK);
    ck_assert(!yk__tier_idle(tier, &err) && !memcmp(other, memory, BLOCK)); /* zeros */
    for (int i = 0; i < 100; i++) { /* more than the ring of requests holds; each read stands behind the write of its memory */
        char *at = memory + i % 2 * BLOCK;
        ck_assert(!yk__tier_wait(tier, yk__tier_read(tier, at, (uint64_t)i * BLOCK, BLOCK), &err));
        memset(at, i + 1, BLOCK);
        yk__tier_write(tier, at, (uint64_t)i * BLOCK, BLOCK);
        yk__tier_read(tier, memory + 2 * BLOCK, (uint64_t)i * BLOCK, BLOCK);
        ck_assert(!yk__tier_idle(tier, &err));
        ck_assert(memory[2 * BLOCK] == i + 1 && memory[3 * BLOCK - 1] == i + 1);
    }
    yk__tier_give_back(tier, 0, 2 * BLOCK);
    ck_assert(!yk__tier_reserve(tier, 0, BLOCK, &err));
    yk__tier_read(tier, memory, 2 * BLOCK, BLOCK);
    ck_assert(!yk__tier_idle(tier, &err) && memory[0] == 3);
}
END_TEST

START_TEST(missing_space_is_named_before_the_first_block)
{
    ck_assert_int_eq(yk__tier_expect(tier, 1ull << 62, "a test", &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, "expected 4611686018427387904 bytes free in /tmp/yoke-tier-") && strstr(err.text, "a test"), "%s",
                  err.text);
}
END_TEST

START_TEST(a_limit_of_file_size_is_an_error)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = BLOCK;
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(yk__tier_reserve(tier, 0, 2 * BLOCK, &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, "ulimit -f") && strstr(err.text, dir), "%s", err.text);
    yk__tier_write(tier, memory, 2 * BLOCK, BLOCK);
    expect_failure("ulimit -f");
}
END_TEST

START_TEST(a_full_disk_is_an_error_that_stays)
{
    replace_file("/dev/full", O_RDWR);
    yk__tier_write(tier, memory, 0, BLOCK);
    expect_failure("No space left on device: free space there, or take another folder");
}
END_TEST

START_TEST(a_disk_that_fails_is_an_error)
{
    replace_file("/proc/self/mem", O_RDONLY); /* nothing lies at its begin */
    yk__tier_read(tier, memory, 0, BLOCK);
    expect_failure("expected to read 65536 bytes of the state on disk at 0, got 0 and Input/output error");
}
END_TEST

START_TEST(a_file_that_was_cut_is_an_error)
{
    ck_assert(!yk__tier_reserve(tier, 0, 4 * BLOCK, &err));
    ck_assert(!ftruncate(file_fd(), 3 * BLOCK + 1000));
    yk__tier_read(tier, memory, 3 * BLOCK, BLOCK);
    expect_failure("expected to read 65536 bytes of the state on disk at 196608, got ");
}
END_TEST

START_TEST(names_of_killed_processes_go)
{
    char name[256], foreign[128], host[65] = "";
    yk__tier *second = NULL;
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s/.yoke-state-%s-abcdef", dir, host);
    snprintf(foreign, sizeof foreign, "%s/.yoke-state-of.another.host-abcdef", dir);
    ck_assert(!mknod(name, S_IFREG | 0600, 0) && !mknod(foreign, S_IFREG | 0600, 0));
    memset(memory, 5, BLOCK);
    ck_assert(!yk__tier_reserve(tier, 0, BLOCK, &err));
    yk__tier_write(tier, memory, 0, BLOCK);
    ck_assert(!yk__tier_idle(tier, &err));
    ck_assert_msg(!yk__tier_open(dir, NULL, &second, &err), "%s", err.text);
    ck_assert_int_ne(access(name, F_OK), 0);
    ck_assert(!unlink(foreign)); /* another host may be about to remove it */
    yk__tier_read(tier, memory + BLOCK, 0, BLOCK); /* a living one keeps its file */
    ck_assert(!yk__tier_idle(tier, &err) && memory[BLOCK] == 5);
    yk__tier_close(second, NULL, 0);
}
END_TEST

START_TEST(a_missing_folder_is_named)
{
    yk__tier *other = NULL;
    ck_assert_int_eq(yk__tier_open("/tmp/yoke-no-such-folder/x", NULL, &other, &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, "/tmp/yoke-no-such-folder/x: expected a folder"), "%s", err.text);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("tier");
    tcase_add_checked_fixture(t, open_all, close_all);
    tcase_add_test(t, blocks_come_back_in_the_order_of_calls);
    tcase_add_test(t, missing_space_is_named_before_the_first_block);
    tcase_add_test(t, a_limit_of_file_size_is_an_error);
    tcase_add_test(t, a_full_disk_is_an_error_that_stays);
    tcase_add_test(t, a_disk_that_fails_is_an_error);
    tcase_add_test(t, a_file_that_was_cut_is_an_error);
    tcase_add_test(t, names_of_killed_processes_go);
    tcase_add_test(t, a_missing_folder_is_named);
    tcase_set_timeout(t, 60);
    return suite_run("tier", t);
}
