/* SPDX-License-Identifier: Apache-2.0 */
/* core/io: a listing or a read that ends early is no whole one, a file is one file to its end, and a line of a log is one write. */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
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
static int opened_as;         /* flags of the last open */
static struct swap {
    const char *from, *to; /* `from` takes the place of `to` */
    int opens;             /* opens of `to` before that; 0: no swap */
} swap;

static bool owner_stays, list_refused; /* no fchown, no fsetxattr */
static int chmod_to = -1;              /* fchmod fails and sets that mode; -1: it does its work */

/* libc's place: the core's calls come here. */
int fchown(int fd, uid_t owner, gid_t group)
{
    int (*libc)(int, uid_t, gid_t) = (int (*)(int, uid_t, gid_t))dlsym(RTLD_NEXT, "fchown");
    errno = EPERM;
    return owner_stays ? -1 : libc(fd, owner, group);
}

int fchmod(int fd, mode_t mode)
{
    int (*libc)(int, mode_t) = (int (*)(int, mode_t))dlsym(RTLD_NEXT, "fchmod");
    if (chmod_to < 0)
        return libc(fd, mode);
    ck_assert_int_eq(libc(fd, (mode_t)chmod_to), 0);
    errno = EPERM;
    return -1;
}

int fsetxattr(int fd, const char *name, const void *value, size_t bytes, int flags)
{
    int (*libc)(int, const char *, const void *, size_t, int) =
        (int (*)(int, const char *, const void *, size_t, int))dlsym(RTLD_NEXT, "fsetxattr");
    errno = ENOTSUP;
    return list_refused ? -1 : libc(fd, name, value, bytes, flags);
}

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
    opened_as = flags;
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

#define CUT_HEADER "{\"a\":{\"dtype\":\"U8\",\"shape\":[400000],\"data_offsets\":[0,400000]}}"
#define CUT_BYTES (8 + sizeof CUT_HEADER - 1 + 400000)

/* Three readers of a file: rows by place, a whole text, tensors. Each has read a part; `row` lies behind what opening reads. */
typedef struct readers {
    char path[32];
    int fd;
    yk__blob *blob;
    yk__file *file;
    yk__safetensors *tensors;
    yk_error err;
} readers;

static const uint64_t row = 200000;

static void readers_open(readers *r)
{
    static uint8_t bytes[CUT_BYTES] = {sizeof CUT_HEADER - 1};
    char got[100];
    *r = (readers){.path = "/tmp/yoke-cut-XXXXXX", .err = YK_ERROR_INIT};
    memcpy(bytes + 8, CUT_HEADER, sizeof CUT_HEADER - 1);
    r->fd = mkstemp(r->path);
    ck_assert_int_eq(write(r->fd, bytes, sizeof bytes), sizeof bytes);
    ck_assert_msg(!yk__blob_open(r->path, &r->blob, &r->err) && !yk__file_open(r->path, YK__FILE_PLAIN, &r->file, &r->err) &&
                  !yk__safetensors_open(r->path, &r->tensors, &r->err), "%s", r->err.text);
    ck_assert(!yk__blob_read(r->blob, row, got, 100, &r->err));
    ck_assert(!yk__safetensors_load(r->tensors, yk__safetensors_at(r->tensors, 0), row, 100, got, &r->err));
}

/* Reads on by reader i. */
static yk_status readers_go(readers *r, int i)
{
    char got[100], *rest = NULL;
    size_t n;
    r->err = (yk_error)YK_ERROR_INIT;
    const yk_status s = i == 0   ? yk__blob_read(r->blob, row + 1000, got, 100, &r->err)
                        : i == 1 ? yk__file_read_rest(r->file, 1 << 20, &rest, &n, &r->err)
                                 : yk__safetensors_load(r->tensors, yk__safetensors_at(r->tensors, 0), row + 1000, 100, got, &r->err);
    yk__free(rest);
    return s;
}

static void readers_close(readers *r)
{
    yk__safetensors_close(r->tensors);
    yk__file_close(r->file);
    yk__blob_close(r->blob);
    close(r->fd);
    unlink(r->path);
}

/* A clock's tick may be longer than this test. */
static void file_age(int fd, int s)
{
    const struct timespec at[2] = {{.tv_sec = 1000000000 + s}, {.tv_sec = 1000000000 + s}};
    ck_assert_int_eq(futimens(fd, at), 0);
}

/* Byte 9 was read by opening; the bytes of a row by that row's reader alone. */
START_TEST(a_file_that_is_written_to_is_an_error)
{
    static const struct {
        uint64_t at;
        int readers; /* that have read it: a bit each */
    } changes[] = {{9, 7}, {row + 50, 1}, {8 + sizeof CUT_HEADER - 1 + row + 50, 4}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) {
            readers r;
            if (!(changes[k].readers >> i & 1))
                continue;
            readers_open(&r);
            ck_assert_int_eq(pwrite(r.fd, "!", 1, (off_t)changes[k].at), 1);
            file_age(r.fd, 0);
            const yk_status s = readers_go(&r, i);
            ck_assert_msg(s == YK_E_IO && strstr(r.err.text, r.path) && strstr(r.err.text, "was written to after it was opened"),
                          "byte %d, reader %d: %s", (int)changes[k].at, i, r.err.text);
            readers_close(&r);
        }
}
END_TEST

/* touch twice, chmod, a hard link, and the same bytes written again, from before the line to behind it. */
START_TEST(a_file_that_is_touched_is_read_on)
{
    char other[40];
    readers r;
    readers_open(&r);
    file_age(r.fd, 0);
    snprintf(other, sizeof other, "%s.2", r.path);
    ck_assert(!fchmod(r.fd, 0400) && !link(r.path, other) && !unlink(other));
    for (int i = 0; i < 3; i++)
        ck_assert_msg(!readers_go(&r, i), "%d: %s", i, r.err.text);
    ck_assert_int_eq(pwrite(r.fd, "{", 1, 8), 1);
    file_age(r.fd, 1);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(!readers_go(&r, i), "%d: %s", i, r.err.text);
    ck_assert_int_eq(pwrite(r.fd, "!", 1, 8), 1); /* still watched */
    file_age(r.fd, 2);
    ck_assert(readers_go(&r, 0) == YK_E_IO && readers_go(&r, 2) == YK_E_IO);
    readers_close(&r);
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
    const int fd = mkstemp(path);
    ck_assert_int_eq(write(fd, bytes, sizeof bytes), sizeof bytes);
    ck_assert_msg(!yk__file_open(path, YK__FILE_PLAIN, &file, &err), "%s", err.text);
    ck_assert_int_eq(pwrite(fd, "!", 1, 7), 1);
    file_age(fd, 0);
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

/* The end of a disk takes no bytes; another process's file has lines already. */
START_TEST(a_device_is_written_from_its_begin_and_a_file_that_another_process_has_open_at_its_end)
{
    char path[] = "/tmp/yoke-cut-XXXXXX", other[64], text[16] = "";
    yk_error err = YK_ERROR_INIT;
    ck_assert_msg(!yk__folder_write_file("/dev/null", "x", 1, &err), "%s", err.text);
    ck_assert_int_eq(opened_as & (O_APPEND | O_ACCMODE), O_WRONLY);
    int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, "head", 4) == 4);
    const pid_t child = fork();
    if (!child) {
        pause();
        _exit(0);
    }
    snprintf(other, sizeof other, "/proc/%d/fd/%d", (int)child, fd);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_msg(!yk__folder_write_file(other, "tail", 4, &err), "%s", err.text);
    ck_assert(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert(read(fd, text, sizeof text - 1) == 8 && !close(fd) && !unlink(path));
    ck_assert_str_eq(text, "headtail");
}
END_TEST

START_TEST(a_descriptor_that_takes_no_stream_is_closed)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert(fd >= 0 && !yk__folder_stream(fd)); /* a stream that writes */
    ck_assert_int_eq(errno, EINVAL);
    ck_assert(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
}
END_TEST

/* ---- Permissions of a file that is replaced ---- */

static int mode_of(const char *path)
{
    struct stat st;
    return lstat(path, &st) ? -1 : (int)(st.st_mode & 07777);
}

static void file_make(const char *path, const char *text, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && !close(fd) && !chmod(path, mode));
}

/* Fresh places in a fresh folder: of a file, and of the one that will replace it. */
static void places_make(char dir[64], char path[96], char fresh[96])
{
    strcpy(dir, "/tmp/yoke-cut-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, 96, "%s/file", dir);
    snprintf(fresh, 96, "%s/file" YK__FOLDER_TMP, dir);
}

START_TEST(files_that_will_replace_closed_ones_are_closed_before)
{
    char dir[64], path[96], fresh[96], *stage = NULL;
    yk_error err = YK_ERROR_INIT;
    places_make(dir, path, fresh);
    const mode_t before = umask(022);
    ck_assert_msg(!yk__stage_begin(dir, &stage, &err), "%s", err.text);
    umask(before);
    ck_assert_int_eq(mode_of(stage), 0700);
    yk__stage_abandon(dir);
    yk__free(stage);
    rmdir(dir);
}
END_TEST

/* A link to another file, a FIFO, a link to nowhere: it goes, and nothing is written to it. */
START_TEST(a_file_under_construction_is_none_that_was_there)
{
    char dir[64], path[96], fresh[96], own[96], text[8] = "";
    yk_error err = YK_ERROR_INIT;
    places_make(dir, path, fresh);
    snprintf(own, sizeof own, "%s/one", dir);
    file_make(own, "text", 0644);
    for (int kind = 0; kind < 3; kind++) {
        ck_assert_int_eq(kind == 0 ? link(own, fresh) : kind == 1 ? mkfifo(fresh, 0666) : symlink("nowhere", fresh), 0);
        ck_assert_msg(!yk__folder_write_file(path, "new", 3, &err), "%d: %s", kind, err.text);
        ck_assert(mode_of(fresh) == -1 && mode_of(path) == 0644);
        const int fd = open(own, O_RDONLY | O_CLOEXEC);
        ck_assert(read(fd, text, sizeof text) == 4 && !memcmp(text, "text", 4) && !close(fd));
    }
    unlink(own);
    unlink(path);
    rmdir(dir);
}
END_TEST

START_TEST(a_file_that_stays_open_to_more_users_replaces_none)
{
    static const struct row {
        mode_t old;
        int becomes;
        bool replaces;
    } rows[] = {{0600, 0644, false}, {0640, 0644, false}, {0644, 0600, true}, {0644, 0640, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char dir[64], path[96], fresh[96];
        yk_error err = YK_ERROR_INIT;
        places_make(dir, path, fresh);
        file_make(path, "old", rows[i].old);
        chmod_to = rows[i].becomes;
        const yk_status s = yk__folder_write_file(path, "new", 3, &err);
        chmod_to = -1;
        ck_assert_msg(s == (rows[i].replaces ? YK_OK : YK_E_IO) && mode_of(fresh) == -1, "%zu: %d %s", i, (int)s, err.text);
        ck_assert_int_eq(mode_of(path), rows[i].replaces ? rows[i].becomes : (int)rows[i].old);
        unlink(path);
        rmdir(dir);
    }
}
END_TEST

START_TEST(a_group_that_is_lost_gives_its_permissions_to_nobody)
{
    static const int modes[][2] = {{0604, 0600}, {0640, 0600}, {0647, 0644}, {0664, 0644}, {0666, 0666}, {0600, 0600}};
    char dir[64], path[96], fresh[96];
    yk__folder_rights old;
    places_make(dir, path, fresh);
    file_make(path, "", 0600);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert(fd >= 0 && yk__folder_rights_of(fd, NULL, &old));
    old.st.st_gid++;
    owner_stays = true;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        old.st.st_mode = S_IFREG | (mode_t)modes[i][0];
        ck_assert(yk__folder_rights_keep(fd, &old));
        ck_assert_int_eq(mode_of(path), modes[i][1]);
    }
    owner_stays = false;
    close(fd);
    unlink(path);
    rmdir(dir);
}
END_TEST

/* A list has version 2, and entries of a tag, permissions and an id: the owner, user 4711, the group, the mask, other users. */
START_TEST(a_list_of_permissions_is_kept_or_leaves_the_file_closed)
{
    static const unsigned char list[] = {2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0x67, 0x12, 0, 0, 4, 0, 0, 0, 255, 255,
                                         255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255};
    const char *const name = "system.posix_acl_access";
    char dir[64], path[96], fresh[96];
    unsigned char kept[128];
    yk_error err = YK_ERROR_INIT;
    places_make(dir, path, fresh);
    file_make(path, "old", 0600);
    if (!setxattr(path, name, list, sizeof list, 0)) { /* else this file system has none */
        ck_assert_int_eq(mode_of(path), 0640); /* the mask */
        ck_assert_msg(!yk__folder_write_file(path, "new", 3, &err), "%s", err.text);
        ck_assert_int_eq(getxattr(path, name, kept, sizeof kept), sizeof list);
        ck_assert(!memcmp(kept, list, sizeof list) && mode_of(path) == 0640);
        list_refused = true;
        ck_assert_msg(!yk__folder_write_file(path, "new", 3, &err), "%s", err.text);
        list_refused = false;
        ck_assert(getxattr(path, name, kept, sizeof kept) < 0 && mode_of(path) == 0600);
    }
    unlink(path);
    rmdir(dir);
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
    tcase_add_test(t, a_file_that_is_touched_is_read_on);
    tcase_add_test(t, a_part_of_a_file_that_is_written_to_is_an_error);
    tcase_add_test(t, units_of_types_are_the_parts_that_have_an_order);
    tcase_add_test(t, a_device_is_written_from_its_begin_and_a_file_that_another_process_has_open_at_its_end);
    tcase_add_test(t, a_descriptor_that_takes_no_stream_is_closed);
    tcase_add_test(t, files_that_will_replace_closed_ones_are_closed_before);
    tcase_add_test(t, a_file_under_construction_is_none_that_was_there);
    tcase_add_test(t, a_file_that_stays_open_to_more_users_replaces_none);
    tcase_add_test(t, a_group_that_is_lost_gives_its_permissions_to_nobody);
    tcase_add_test(t, a_list_of_permissions_is_kept_or_leaves_the_file_closed);
    return suite_run("cut", t);
}
