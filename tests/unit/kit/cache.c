/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of compiled code: its limit, and the files that go first. */
#define _GNU_SOURCE
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugins/kit/kit_cache.h"
#include "tests/support/run.h"

#define ONE 1000 /* bytes of a file without its head of 32 */

static char folder[64];
static const char *folder_of(void)
{
    return folder;
}

static void *memory_of(size_t bytes, size_t align)
{
    (void)align;
    return malloc(bytes);
}

static void log_none(int level, const char *who, const char *fmt, ...)
{
    (void)level, (void)who, (void)fmt;
}

static const yk_host host = {.size = sizeof host, .alloc = memory_of, .free = free, .log = log_none, .cache_dir = folder_of};

static void folder_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/yoke-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_drop(void)
{
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(folder);
}

static void file_age(const char *name, int64_t seconds)
{
    char path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(stat(path, &st), 0);
    const struct timespec t[2] = {{.tv_sec = st.st_mtim.tv_sec - seconds}, {.tv_sec = st.st_mtim.tv_sec - seconds}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void key_age(const char *prefix, uint64_t key, int64_t seconds)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%016llx.bin", prefix, (unsigned long long)key);
    file_age(name, seconds);
}

static bool is_kept(const kit_cache *cache, uint64_t key)
{
    size_t bytes = 0;
    void *data = kit_cache_read(cache, key, &bytes);
    free(data);
    return data && bytes == ONE;
}

START_TEST(files_used_longest_ago_go_first)
{
    static const char data[ONE];
    const kit_cache cache = {&host, "x", "x", 3 * ONE + 200};
    folder_make();
    for (uint64_t key = 1; key <= 3; key++) {
        kit_cache_write(&cache, key, data, ONE);
        key_age("x", key, (int64_t)(100 - key)); /* 1 is the oldest */
    }
    ck_assert(is_kept(&cache, 1)); /* its use makes it the newest */
    kit_cache_write(&cache, 4, data, ONE);
    ck_assert(!is_kept(&cache, 2));
    ck_assert(is_kept(&cache, 1) && is_kept(&cache, 3) && is_kept(&cache, 4));
    folder_drop();
}
END_TEST

START_TEST(a_file_beyond_the_limit_is_not_kept)
{
    static const char data[4 * ONE];
    const kit_cache cache = {&host, "x", "x", 3 * ONE};
    folder_make();
    kit_cache_write(&cache, 1, data, ONE);
    kit_cache_write(&cache, 2, data, 4 * ONE);
    ck_assert(is_kept(&cache, 1) && !is_kept(&cache, 2));
    folder_drop();
}
END_TEST

/* Other files of the folder are let be; the remains of a killed write count, and go. */
START_TEST(the_limit_is_that_of_one_prefix)
{
    static const char data[ONE];
    const kit_cache all = {&host, "y", "y", 0}, cache = {&host, "x", "x", 2 * ONE + 100};
    static const char *const names[] = {"x-tried-0123456789abcdef.bin", "x-0123456789abcdef.bin.77"};
    char path[256];
    folder_make();
    kit_cache_write(&all, 9, data, ONE);
    key_age("y", 9, 500);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(fwrite(data, 1, ONE, f), ONE);
        fclose(f);
        file_age(names[i], 400);
    }
    kit_cache_write(&cache, 1, data, ONE);
    kit_cache_write(&cache, 2, data, ONE);
    ck_assert(is_kept(&cache, 1) && is_kept(&cache, 2) && is_kept(&all, 9));
    ck_assert_int_ne(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/%s", folder, names[0]);
    ck_assert_int_eq(access(path, F_OK), 0);
    folder_drop();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("cache");
    tcase_add_test(t, files_used_longest_ago_go_first);
    tcase_add_test(t, a_file_beyond_the_limit_is_not_kept);
    tcase_add_test(t, the_limit_is_that_of_one_prefix);
    return suite_run("kit_cache", t);
}
