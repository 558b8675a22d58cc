/* SPDX-License-Identifier: Apache-2.0 */
/* core/io: a listing or a read that ends early is no whole one, a file is one file to its end, and a line of a log is one write. */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/io/file.h"
#include "core/io/folder.h"
#include "core/io/safetensors.h"
#include "core/io/tracker.h"
#include "core/read/blob.h"
#include "core/read/paths.h"
#include "tests/support/run.h"

static int entries_left = -1; /* entries until readdir fails; -1: it never does */
static int writes;            /* calls of write */
static struct swap {
    const char *from, *to; /* `from` takes the place of `to` */
    int opens;             /* opens of `to` before that; 0: no swap */
} swap;

/* libc's place: the core's calls come here. */
struct dirent *readdir(DIR *dir)
{
    struct dirent *(*libc)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    if (!entries_left) {
        errno = EIO;
        return NULL;
    }
    entries_left -= entries_left > 0;
    return libc(dir);
}

ssize_t write(int fd, const void *p, size_t n)
{
    ssize_t (*libc)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    writes++;
    return libc(fd, p, n);
}

int open(const char *path, int flags, ...)
{
    int (*libc)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    va_list more;
    va_start(more, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;
    va_end(more);
    const int fd = libc(path, flags, mode);
    if (swap.opens && !strcmp(path, swap.to) && !--swap.opens)
        ck_assert_int_eq(rename(swap.from, swap.to), 0);
    return fd;
}

static bool name_any(const void *user, const char *name)
{
    (void)user;
    return name[0] != '.';
}

static bool name_own(void *user, const char *name)
{
    return name_any(user, name);
}

static void folder_fill(char *dir)
{
    strcpy(dir, "/tmp/yoke-cut-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    for (int i = 0; i < 8; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/part-%d.bin", dir, i);
        FILE *f = fopen(path, "we");
        ck_assert(f && !fclose(f));
    }
}

static void fails_with_reason(yk_status s, const yk_error *err)
{
    ck_assert_msg(s == YK_E_IO && strstr(err->text, "cannot be listed to its end") && strstr(err->text, strerror(EIO)), "%d: %s", (int)s,
                  err->text);
    entries_left = -1;
}

START_TEST(a_listing_that_fails_is_an_error)
{
    char dir[64], to[64];
    yk__paths paths = {0};
    yk_error err = YK_ERROR_INIT;
    folder_fill(dir);
    folder_fill(to);
    entries_left = 4;
    fails_with_reason(yk__paths_add_folder(&paths, dir, name_any, NULL, &err), &err);
    yk__paths_free(&paths);
    err = (yk_error)YK_ERROR_INIT;
    entries_left = 4;
    fails_with_reason(yk__folder_sync(dir, &err), &err);
    err = (yk_error)YK_ERROR_INIT;
    entries_left = 4;
    fails_with_reason(yk__folder_move(dir, to, NULL, NULL, &err), &err);
    err = (yk_error)YK_ERROR_INIT;
    entries_left = 4;
    fails_with_reason(yk__folder_remove(to, name_own, NULL, &err), &err);
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_msg(!yk__folder_remove(dir, name_own, NULL, &err) && !yk__folder_remove(to, name_own, NULL, &err), "%s", err.text);
}
END_TEST

START_TEST(a_line_of_the_log_is_one_write)
{
    static char names[128][100];
    const char *name[128];
    double value[128];
    char path[] = "/tmp/yoke-cut-XXXXXX";
    yk__tracker *tracker;
    yk_error err = YK_ERROR_INIT;
    const int fd = mkstemp(path);
    ck_assert(fd >= 0 && !close(fd));
    for (int i = 0; i < 128; i++) {
        memset(names[i], 'a' + i % 26, sizeof names[i] - 1);
        name[i] = names[i];
        value[i] = i / 3.0;
    }
    ck_assert_msg(!yk__tracker_open(path, &tracker, &err), "%s", err.text);
    writes = 0;
    yk__tracker_line(tracker, 7, 128, name, value);
    const int done = writes;
    struct stat st;
    ck_assert(!stat(path, &st) && st.st_size > 128 * 100);
    ck_assert_msg(!yk__tracker_close(tracker, &err), "%s", err.text);
    unlink(path);
    ck_assert_int_eq(done, 1);
}
END_TEST

START_TEST(a_size_beyond_all_bounds_is_refused_by_its_value)
{
    static const uint8_t five[] = "12345";
    yk_error err = YK_ERROR_INIT;
    yk__file *f;
    void *p;
    ck_assert_int_eq(yk__file_from_memory("five", five, 5, YK__FILE_AUTO, &f, &err), YK_OK);
    ck_assert_int_eq(yk__file_read_exact(f, INT64_MAX, "elements", &p, &err), YK_E_FORMAT);
    yk__file_close(f);
    ck_assert_msg(strstr(err.text, "9223372036854775807 bytes of elements, expected less than 2^63"), "%s", err.text);
}
END_TEST

static void file_write(const char *path, char byte, size_t n)
{
    char *bytes = malloc(n);
    FILE *f = fopen(path, "we");
    memset(bytes, byte, n);
    ck_assert(bytes && f && fwrite(bytes, 1, n, f) == n && !fclose(f));
    free(bytes);
}

/* Sizes alone would not tell: the file that takes the place has the same. */
START_TEST(a_file_is_opened_once)
{
    char dir[] = "/tmp/yoke-cut-XXXXXX", a[64], b[64], got[100];
    yk__blob *blob;
    yk_error err = YK_ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(a, sizeof a, "%s/a", dir);
    snprintf(b, sizeof b, "%s/b", dir);
    file_write(a, 'a', 5000);
    file_write(b, 'b', 5000);
    swap = (struct swap){b, a, 1};
    ck_assert_msg(!yk__blob_open(a, &blob, &err), "%s", err.text);
    ck_assert_int_eq(swap.opens, 0);
    ck_assert_msg(!yk__blob_read(blob, 4900, got, 100, &err), "%s", err.text);
    ck_assert(got[0] == 'a' && got[99] == 'a');
    yk__blob_close(blob);
    ck_assert(!unlink(a) && !rmdir(dir));
}
END_TEST

/* All ways of reading a file end with its stamp: rows by place, a whole text, tensors. */
START_TEST(a_file_that_is_written_to_is_an_error)
{
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[9000],\"data_offsets\":[0,9000]}}";
    char path[] = "/tmp/yoke-cut-XXXXXX", *rest, got[100];
    static uint8_t tensor[8 + sizeof header - 1 + 9000] = {sizeof header - 1};
    yk__blob *blob;
    yk__file *file;
    yk__safetensors *tensors;
    size_t n;
    yk_error err = YK_ERROR_INIT;
    const struct timespec later[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    memcpy(tensor + 8, header, sizeof header - 1);
    const int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, tensor, sizeof tensor), sizeof tensor);
    ck_assert_msg(!yk__blob_open(path, &blob, &err) && !yk__file_open(path, YK__FILE_PLAIN, &file, &err) &&
                  !yk__safetensors_open(path, &tensors, &err), "%s", err.text);
    ck_assert(!yk__blob_read(blob, 0, got, 100, &err) && !yk__safetensors_load(tensors, yk__safetensors_at(tensors, 0), 0, 100, got, &err));
    ck_assert_int_eq(futimens(fd, later), 0); /* as a write of the same length does; a clock's tick may be longer than this test */
    for (int i = 0; i < 3; i++) {
        err = (yk_error)YK_ERROR_INIT;
        const yk_status s = i == 0   ? yk__blob_read(blob, 0, got, 100, &err)
                            : i == 1 ? yk__file_read_rest(file, 1 << 20, &rest, &n, &err)
                                     : yk__safetensors_load(tensors, yk__safetensors_at(tensors, 0), 0, 100, got, &err);
        ck_assert_msg(s == YK_E_IO && strstr(err.text, path) && strstr(err.text, "was written to after it was opened"), "%d: %s", i,
                      err.text);
    }
    yk__safetensors_close(tensors);
    yk__file_close(file);
    yk__blob_close(blob);
    close(fd);
    unlink(path);
}
END_TEST

/* A reader of a known number of bytes never comes to the end: idx images, the bodies of pictures. */
START_TEST(a_part_of_a_file_that_is_written_to_is_an_error)
{
    static const uint8_t bytes[100000]; /* more than the buffer of core/io/file.c */
    char path[] = "/tmp/yoke-cut-XXXXXX";
    yk__file *file;
    void *part = NULL;
    yk_error err = YK_ERROR_INIT;
    const struct timespec later[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    const int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, bytes, sizeof bytes), sizeof bytes);
    ck_assert_msg(!yk__file_open(path, YK__FILE_PLAIN, &file, &err), "%s", err.text);
    ck_assert_int_eq(futimens(fd, later), 0);
    ck_assert_int_eq(yk__file_read_exact(file, sizeof bytes, "bytes", &part, &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, "was written to after it was opened") != NULL, "%s", err.text);
    yk__file_close(file);
    close(fd);
    unlink(path);
}
END_TEST

/* A machine of the other byte order swaps these. */
START_TEST(units_of_types_are_the_parts_that_have_an_order)
{
    static const char header[] = "{\"a\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[8,10]},"
                                 "\"c\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[10,13]},"
                                 "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[13,21]}}";
    static const int units[] = {4, 1, 1, 8};
    char path[] = "/tmp/yoke-cut-XXXXXX";
    uint8_t file[8 + sizeof header - 1 + 21] = {sizeof header - 1, (sizeof header - 1) >> 8};
    yk__safetensors *tensors;
    yk_error err = YK_ERROR_INIT;
    const int fd = mkstemp(path);
    memcpy(file + 8, header, sizeof header - 1);
    ck_assert(fd >= 0 && write(fd, file, sizeof file) == (ssize_t)sizeof file && !close(fd));
    ck_assert_msg(!yk__safetensors_open(path, &tensors, &err), "%s", err.text);
    for (int i = 0; i < 4; i++) {
        const yk__safetensor *t = yk__safetensors_at(tensors, i);
        ck_assert_msg(t->unit == units[t->name[0] - 'a'], "%s: %d", t->name, t->unit);
    }
    yk__safetensors_close(tensors);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("cut");
    tcase_add_test(t, a_listing_that_fails_is_an_error);
    tcase_add_test(t, a_line_of_the_log_is_one_write);
    tcase_add_test(t, a_size_beyond_all_bounds_is_refused_by_its_value);
    tcase_add_test(t, a_file_is_opened_once);
    tcase_add_test(t, a_file_that_is_written_to_is_an_error);
    tcase_add_test(t, a_part_of_a_file_that_is_written_to_is_an_error);
    tcase_add_test(t, units_of_types_are_the_parts_that_have_an_order);
    return suite_run("cut", t);
}
