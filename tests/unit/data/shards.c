/* SPDX-License-Identifier: Apache-2.0 */
/* core/read/blob, tokens, shards: token files that stay on disk, several of them as one stream, and files that go wrong. */
#include <check.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/data/loader.h"
#include "core/read/shards.h"
#include "tests/support/suite.h"

static yk_error err;
static char dir[64];

static const char *path_of(const char *name)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ & 3];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void folder_make(void)
{
    strcpy(dir, "/tmp/yoke-shards-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void folder_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void bytes_write(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(path_of(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* Ids first.. of a stream whose id i is i, as u16, or as u32 with a header. */
static void ids_write(const char *name, int first, int count, int width)
{
    uint8_t bytes[32 + 4 * 4096] = "YKTOKENS\1\0\0\0\4";
    const size_t start = width == 4 ? 32 : 0;
    for (int k = 0; k < 8; k++)
        bytes[16 + k] = (uint8_t)((uint64_t)count >> 8 * k);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < width; k++)
            bytes[start + (size_t)(i * width + k)] = (uint8_t)((uint32_t)(first + i) >> 8 * k);
    bytes_write(name, bytes, start + (size_t)(count * width));
}

static yk__dataset *set_open(const char *name, const char *keys, bool eval)
{
    char spec[512];
    yk__dataset *set;
    snprintf(spec, sizeof spec, "tokens:%s%s", name, keys);
    ck_assert_msg(yk__dataset_open(spec, &(yk__dataset_options){.eval = eval}, &set, &err) == YK_OK, "%s", err.text);
    return set;
}

static void rows_compare(const yk__dataset *a, const yk__dataset *b)
{
    int32_t x[2][10], y[2][10];
    void *one[] = {x[0], y[0]}, *other[] = {x[1], y[1]};
    ck_assert_int_eq(yk__dataset_rows(a), yk__dataset_rows(b));
    ck_assert_int_eq(yk__dataset_vocab(a), yk__dataset_vocab(b));
    for (int64_t row = 0; row < yk__dataset_rows(a); row++) {
        ck_assert(yk__dataset_fill(a, &row, 1, 10, one, &err) == YK_OK && yk__dataset_fill(b, &row, 1, 10, other, &err) == YK_OK);
        ck_assert(!memcmp(x[0], x[1], sizeof x[0]) && !memcmp(y[0], y[1], sizeof y[0]));
        ck_assert(x[0][9] == x[0][0] + 9 || y[0][9] == -100);
    }
    uint64_t hash[2];
    ck_assert(yk__dataset_hash(a, &hash[0], &err) == YK_OK && yk__dataset_hash(b, &hash[1], &err) == YK_OK);
    ck_assert_uint_eq(hash[0], hash[1]);
}

/* As a folder, a glob and a list: three files, the second of one id, are what one file is that holds all their ids. */
START_TEST(shards_are_one_stream)
{
    char list[512];
    folder_make();
    ids_write("whole", 0, 1001, 2);
    ids_write("train-00.bin", 0, 333, 2);
    ids_write("train-01.bin", 333, 1, 2);
    ids_write("train-1.bin", 334, 667, 2);
    bytes_write("notes.txt", "no ids", 6);
    ids_write("._train-00.bin", 5000, 333, 2); /* hidden */
    snprintf(list, sizeof list, "%s+%s", path_of("train-0?.bin"), path_of("train-1.bin"));
    const char *const names[] = {dir, path_of("train-*.bin"), list};
    for (int eval = 0; eval < 2; eval++) {
        yk__dataset *whole = set_open(path_of("whole"), ",seq-len=10,stride=7", eval);
        for (int k = 0; k < 3; k++) {
            yk__dataset *shards = set_open(names[k], ",seq-len=10,stride=7", eval);
            rows_compare(whole, shards);
            yk__dataset_close(shards);
        }
        yk__dataset_close(whole);
    }
    folder_remove();
}
END_TEST

/* A row names the file that it begins in, by its ids there. */
START_TEST(row_names_its_file)
{
    char where[512];
    folder_make();
    ids_write("a.bin", 0, 15, 4);
    ids_write("b.bin", 15, 40, 4);
    yk__dataset *set = set_open(dir, ",seq-len=10,split=1", false);
    yk__dataset_where(set, 1, where, sizeof where);
    ck_assert_msg(strstr(where, "a.bin: ids 10 to 14 and on in the next file") != NULL, "%s", where);
    yk__dataset_where(set, 2, where, sizeof where);
    ck_assert_msg(strstr(where, "b.bin: ids 5 to 15") != NULL, "%s", where);
    yk__dataset_close(set);
    folder_remove();
}
END_TEST

/* '+', '*' and '[' belong to the name where a file has it. */
START_TEST(names_that_exist_are_meant)
{
    folder_make();
    ids_write("a+b[1]*.bin", 0, 30, 2);
    yk__dataset *set = set_open(path_of("a+b[1]*.bin"), ",seq-len=10,split=1", false);
    ck_assert_int_eq(yk__dataset_rows(set), 2);
    yk__dataset_close(set);
    folder_remove();
}
END_TEST

static void expect_refused(const char *name, const char *keys, const char *text)
{
    char spec[512];
    yk__dataset *set;
    err = (yk_error)YK_ERROR_INIT;
    snprintf(spec, sizeof spec, "tokens:%s%s", name, keys);
    ck_assert_msg(yk__dataset_open(spec, &(yk__dataset_options){.seq_len = 2}, &set, &err) != YK_OK, "%s: accepted", spec);
    ck_assert_msg(strstr(err.text, text) != NULL, "%s: %s", spec, err.text);
}

START_TEST(bad_shards_are_refused_by_name)
{
    folder_make();
    expect_refused(dir, "", "expected token files, *.bin or *.bin.gz, found none");
    expect_refused(path_of("x*.bin"), "", "x*.bin: no file has such a name");
    ids_write("a.bin", 0, 100, 2);
    ids_write("b.bin", 100, 100, 4);
    expect_refused(dir, "", "b.bin: ids of 4 bytes, expected 2 as in ");
    expect_refused(dir, ",dtype=u16", "b.bin: byte 12: expected ids of 2 bytes, found 4");
    ids_write("b.bin", 100, 100, 2);
    bytes_write("a.bin.gz", "", 0); /* as gzip -k leaves it: the rows would be there twice */
    expect_refused(dir, "", "a.bin.gz: expected one copy of each file, and ");
    expect_refused(path_of("*.bin*"), "", "a.bin.gz: expected one copy of each file, and ");
    folder_remove();
}
END_TEST

START_TEST(damaged_shards_are_refused_by_name)
{
    char list[512];
    folder_make();
    ids_write("a.bin", 0, 100, 2);
    bytes_write("b.bin", "", 0);
    expect_refused(dir, "", "b.bin: 0 bytes of ids");
    bytes_write("b.bin", "\1\0\2", 3);
    expect_refused(dir, "", "b.bin: 3 bytes of ids, expected a multiple of 2");
    bytes_write("b.bin", "YKTOKENS\1\0\0\0", 12);
    expect_refused(dir, "", "b.bin: byte 0: expected a token header of 32 bytes, found 12");
    ids_write("b.bin", 0, 100, 4);
    ck_assert_int_eq(truncate(path_of("b.bin"), 32 + 4 * 99), 0);
    expect_refused(path_of("b.bin"), "", "b.bin: byte 16: expected the number of ids that follow, found 100");
    ck_assert_int_eq(unlink(path_of("b.bin")), 0);
    ck_assert_int_eq(symlink("/nonexistent", path_of("b.bin")), 0);
    expect_refused(dir, "", "b.bin: cannot be opened");
    ck_assert_int_eq(unlink(path_of("b.bin")), 0);
    ck_assert_int_eq(mkdir(path_of("b.bin"), 0700), 0);
    expect_refused(dir, "", "b.bin: is a directory");
    snprintf(list, sizeof list, "%s+%s", path_of("a.bin"), path_of("c.bin"));
    expect_refused(list, "", "c.bin: cannot be opened");
    expect_refused(path_of("a.bin"), ",vocab=99", "a.bin: byte 198: id 99, expected less than 99");
    folder_remove();
}
END_TEST

/* Under the reader's eyes: an error of the batch, with the file's name, and no SIGBUS. */
START_TEST(file_that_shrinks_is_an_error)
{
    const yk__loader_batch *batch;
    yk__loader *loader;
    yk_status s = YK_OK;
    folder_make();
    ids_write("a.bin", 0, 1000, 2);
    ids_write("b.bin", 1000, 1000, 2);
    yk__dataset *set = set_open(dir, ",seq-len=10,split=1", false);
    ck_assert_int_eq(truncate(path_of("b.bin"), 1024), 0);
    ck_assert_int_eq(yk__loader_open(set, &(yk__loader_options){.global_batch = 10}, &loader, &err), YK_OK);
    int batches = 0;
    while (!(s = yk__loader_next(loader, &batch, &err)) && batch)
        batches++;
    ck_assert_int_eq(s, YK_E_IO);
    ck_assert_int_eq(batches, 9); /* the tenth reads b.bin, too */
    ck_assert_msg(strstr(err.text, "b.bin: has 1024 bytes, and had 2000 when it was opened") != NULL, "%s", err.text);
    yk__loader_close(loader);
    yk__dataset_close(set);
    folder_remove();
}
END_TEST

/* 100 million ids that are 0 but for one: opening reads none of them, and the one is found when its row is. */
START_TEST(large_file_is_checked_as_it_is_read)
{
    static uint8_t head[32] = "YKTOKENS\1\0\0\0\2\0\0\0\0\xe1\xf5\5\0\0\0\0\x64";
    int32_t x[100], y[100];
    void *buffers[] = {x, y};
    const int64_t good = 499999, bad = 500000;
    folder_make();
    bytes_write("big.bin", head, sizeof head);
    ck_assert_int_eq(truncate(path_of("big.bin"), 32 + 200000000), 0);
    FILE *f = fopen(path_of("big.bin"), "r+b");
    ck_assert_int_eq(fseek(f, 32 + 2 * 50000050, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite("\x64\0", 1, 2, f), 2);
    fclose(f);
    yk__dataset *set = set_open(path_of("big.bin"), ",seq-len=100,split=1", false);
    ck_assert_int_eq(yk__dataset_vocab(set), 100);
    ck_assert_int_eq(yk__dataset_fill(set, &good, 1, 100, buffers, &err), YK_OK);
    ck_assert_int_eq(yk__dataset_fill(set, &bad, 1, 100, buffers, &err), YK_E_FORMAT);
    ck_assert_msg(strstr(err.text, "big.bin: byte 100000132: id 100, expected less than 100") != NULL, "%s", err.text);
    yk__dataset_close(set);
    folder_remove();
}
END_TEST

/* Reads of a file without a descriptor open it by its name, where another one of its size and time may be by then. */
static void replaced_file_is_an_error(const yk__dataset *set)
{
    int32_t x[10], y[10];
    void *buffers[] = {x, y};
    const int64_t row = 3 * 600 / 10;
    struct stat st;
    err = (yk_error)YK_ERROR_INIT;
    ck_assert_msg(yk__dataset_fill(set, &row, 1, 10, buffers, &err) == YK_OK, "%s", err.text);
    ids_write("other", 0, 3, 2);
    ck_assert_int_eq(stat(path_of("600.bin"), &st), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, path_of("other"), (struct timespec[]){st.st_atim, st.st_mtim}, 0), 0);
    ck_assert_int_eq(rename(path_of("other"), path_of("600.bin")), 0);
    ck_assert_int_eq(yk__dataset_fill(set, &row, 1, 10, buffers, &err), YK_E_IO);
    ck_assert_msg(strstr(err.text, "600.bin: is another file than the one that was opened") != NULL, "%s", err.text);
    err = (yk_error)YK_ERROR_INIT;
}

START_TEST(more_files_than_descriptors)
{
    struct rlimit limit, few;
    char name[32];
    folder_make();
    for (int i = 0; i < 700; i++) {
        snprintf(name, sizeof name, "%03d.bin", i);
        ids_write(name, 3 * i, 3, 2);
    }
    ids_write("whole", 0, 2100, 2);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = (struct rlimit){.rlim_cur = 320, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    yk__dataset *shards = set_open(dir, ",seq-len=10,split=1", false), *whole = set_open(path_of("whole"), ",seq-len=10,split=1", false);
    rows_compare(whole, shards);
    replaced_file_is_an_error(shards);
    yk__dataset_close(shards);
    yk__dataset_close(whole);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    folder_remove();
}
END_TEST

/* The most that the batches of an epoch take. In the midst of it the caller waits until the thread has read more than `ahead` bytes,
 * 30 s at most: on a busy machine that takes longer than a batch. */
static size_t most_bytes(const yk__dataset *set, size_t max_bytes, size_t ahead)
{
    const yk__loader_options options = {.global_batch = 64, .depth = 16, .max_bytes = max_bytes};
    const yk__loader_batch *batch;
    yk__loader *loader;
    size_t most = 0;
    int64_t batches = 0;
    ck_assert_int_eq(yk__loader_open(set, &options, &loader, &err), YK_OK);
    while (!yk__loader_next(loader, &batch, &err) && batch) {
        ck_assert_int_eq(batch->index, batches++);
        ck_assert_int_eq(((int32_t *)batch->field[0])[0], 0);
        for (int ms = 0; ms < (batches == 20 ? 30000 : 4); ms++) {
            const size_t bytes = yk__loader_bytes(loader);
            most = bytes > most ? bytes : most;
            if (batches == 20 && most > ahead)
                break;
            usleep(1000);
        }
    }
    ck_assert_int_eq(batches, 64);
    yk__loader_close(loader);
    return most;
}

/* Batches of 2 MiB, 16 deep. */
START_TEST(batches_ahead_are_bounded_in_bytes)
{
    const size_t mib = (size_t)1 << 20;
    folder_make();
    ids_write("a.bin", 0, 1, 2);
    ck_assert_int_eq(truncate(path_of("a.bin"), (off_t)(32 * mib + 2)), 0);
    yk__dataset *set = set_open(dir, ",seq-len=4096,split=1", false);
    const size_t bound = most_bytes(set, 7 * mib, 4 * mib), least = most_bytes(set, 1, 0), none = most_bytes(set, 0, 7 * mib);
    printf("# batches take %zu MiB at most of 7, %zu of none, %zu without a bound\n", bound / mib, least / mib, none / mib);
    ck_assert(bound > 4 * mib && bound <= 7 * mib);
    ck_assert(least <= 4 * mib); /* the caller's and the next */
    ck_assert_uint_gt(none, 7 * mib);
    yk__dataset_close(set);
    folder_remove();
}
END_TEST

START_TEST(failing_allocations)
{
    char spec[256];
    folder_make();
    ids_write("a.bin", 0, 100, 2);
    ids_write("b.bin", 100, 100, 2);
    static const char *const names[] = {"tokens:%s,seq-len=10", "tokens:%s/*.bin,seq-len=10", "tokens:%s/a.bin+/dev/null,seq-len=10"};
    for (int k = 0; k < 3; k++) {
        yk_status s = YK_E_MEM;
        snprintf(spec, sizeof spec, names[k], dir);
        for (long n = 0; s == YK_E_MEM; n++) {
            yk__dataset *set = NULL;
            yk__mem_fail_after(n);
            s = yk__dataset_open(spec, &(yk__dataset_options){0}, &set, &err);
            yk__mem_fail_after(-1);
            yk__dataset_close(set);
        }
        ck_assert_msg(k == 2 ? s == YK_E_FORMAT : s == YK_OK, "%s: %s", spec, err.text);
    }
    folder_remove();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("shards");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, shards_are_one_stream);
    tcase_add_test(t, row_names_its_file);
    tcase_add_test(t, names_that_exist_are_meant);
    tcase_add_test(t, bad_shards_are_refused_by_name);
    tcase_add_test(t, damaged_shards_are_refused_by_name);
    tcase_add_test(t, file_that_shrinks_is_an_error);
    tcase_add_test(t, large_file_is_checked_as_it_is_read);
    tcase_add_test(t, more_files_than_descriptors);
    tcase_add_test(t, batches_ahead_are_bounded_in_bytes);
    tcase_add_test(t, failing_allocations);
    return suite_run("shards", t);
}
