/* SPDX-License-Identifier: Apache-2.0 */
/* Files several times larger than the memory that the process may have: tokens, trained on for an epoch; images, all rows of them. */
#include <check.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/data/dataset.h"
#include "core/data/images.h"
#include <yoke/yoke.h>

#include "tests/support/sanitize.h"
#include "tests/support/suite.h"

#define CHECKED (TEST_UNDER_ASAN || TEST_UNDER_TSAN) /* a sanitizer's own memory is many times the limit */

enum { SEQ_LEN = 16384, ROWS = 4096, BATCH = 32 };

#define FILE_BYTES (32 + 4ull * SEQ_LEN * ROWS + 4) /* 256 MiB */
#define LIMIT ((size_t)48 << 20)                    /* more than the process has when it begins to train */

static const char path[] = "/tmp/yoke-large-tokens.bin";
static char file[128];

/* A file with a hole: ids are 0, but for the first of each row, row % 8. */
static void file_make(void)
{
    uint8_t head[32] = "YKTOKENS\1\0\0\0\4";
    const uint64_t count = (uint64_t)SEQ_LEN * ROWS + 1;
    snprintf(file, sizeof file, "%s-%ld", path, (long)getpid());
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    for (int k = 0; k < 8; k++)
        head[16 + k] = (uint8_t)(count >> 8 * k);
    head[24] = 8;
    ck_assert_uint_eq(fwrite(head, 1, sizeof head, f), sizeof head);
    for (long row = 0; row < ROWS; row++) {
        ck_assert_int_eq(fseek(f, (long)sizeof head + 4 * SEQ_LEN * row, SEEK_SET), 0);
        ck_assert_int_eq(fputc((int)(row % 8), f), row % 8);
    }
    fclose(f);
    ck_assert_int_eq(truncate(file, (off_t)FILE_BYTES), 0);
}

/* "VmSize", "VmHWM": bytes of this process. */
static size_t memory_of(const char *what)
{
    char line[128];
    size_t kb = 0, n = strlen(what);
    FILE *f = fopen("/proc/self/status", "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, what, n) && line[n] == ':')
            kb = strtoul(line + n + 1, NULL, 10);
    fclose(f);
    ck_assert_uint_gt(kb, 0);
    return kb << 10;
}

/* One step on the first ids of the rows alone: the trained values do not matter here. */
static void step_run(yk_job *job, yk_t table, yk_opt *opt, const yk_batch *batch)
{
    yk_t ids = yk_slice(batch->input_ids, 1, 0, 1, 1);
    yk_t loss = yk_mean(yk_embedding(ids, table, -1), 1u << 0 | 1u << 1 | 1u << 2, false);
    yk_backward(loss);
    yk_step(opt);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
}

START_TEST(epoch_of_a_file_larger_than_memory)
{
    const int64_t shape[2] = {8, 4};
    char spec[256];
    yk_batch batch;
    int64_t rows = 0;
    if (CHECKED) {
        printf("# skipped: a limit of memory and a sanitizer\n");
        return;
    }
    file_make();
    snprintf(spec, sizeof spec, "tokens:%s,seq-len=%d,split=1", file, SEQ_LEN);
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    yk_t table = yk_param(job, "table", 2, shape, (yk_init){YK_INIT_NORMAL, 0, 1});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.1});
    yk_data *data = yk_data_open(job, spec, &(yk_data_config){.global_batch = BATCH});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    const size_t before = memory_of("VmHWM"), size = memory_of("VmSize");
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){size + LIMIT, size + LIMIT}), 0);
    while (yk_data_next(data, &batch)) {
        step_run(job, table, opt, &batch);
        rows += (int64_t)batch.rows;
    }
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(rows, ROWS);
    const size_t grown = memory_of("VmHWM") - before;
    printf("# %zu MiB read, %zu MiB more memory at the peak\n", (size_t)(FILE_BYTES >> 20), grown >> 20);
    ck_assert_uint_lt(grown, LIMIT);
    ck_assert_uint_gt(FILE_BYTES, 5 * LIMIT);
    ck_assert_int_eq(yk_close(job), 0);
    unlink(file);
}
END_TEST

/* ---- Images ---- */

enum { SIDE = 512, IDX_IMAGES = 1200, CIFAR_IMAGES = 100000 };

/* A file with holes: `put` writes the bytes before each of n records, by its number. */
static void records_make(const char *name, const uint8_t *head, size_t head_bytes, long record, long n, void (*put)(FILE *f, long i))
{
    FILE *f = fopen(name, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(head, 1, head_bytes, f), head_bytes);
    for (long i = 0; i < n; i++) {
        ck_assert_int_eq(fseek(f, (long)head_bytes + record * i, SEEK_SET), 0);
        put(f, i);
    }
    fclose(f);
    ck_assert_int_eq(truncate(name, (off_t)head_bytes + (off_t)record * n), 0);
}

static void label_put(FILE *f, long i)
{
    fputc((int)(i % 10), f);
}

static void pixel_put(FILE *f, long i)
{
    fputc((int)(i % 251), f);
}

static void labelled_pixel_put(FILE *f, long i)
{
    label_put(f, i);
    pixel_put(f, i);
}

/* All rows of a set, the last first: the first pixel says which image it is, the others of its first row are black. */
static void rows_check(const char *spec, long n, long side, long channels)
{
    const yk__dataset_options options = {0};
    const size_t before = memory_of("VmHWM"), size = memory_of("VmSize");
    const float value[2] = {0.25f, 4}; /* mean, and one over the deviation */
    yk_error err = YK_ERROR_INIT;
    yk__dataset *set;
    int32_t label;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){size + LIMIT, size + LIMIT}), 0);
    ck_assert_msg(yk__dataset_open(spec, &options, &set, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(yk__dataset_rows(set), n);
    float *x = malloc((size_t)(channels * side * side) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t row = n; row-- > 0;) {
        ck_assert_msg(yk__dataset_fill(set, &row, 1, 1, (void *const[]){x, &label}, &err) == YK_OK, "%s", err.text);
        ck_assert_int_eq(label, (int)(row % 10));
        ck_assert_float_eq_tol(x[0], ((float)(row % 251) / 255 - value[0]) * value[1], 1e-6f);
        ck_assert_float_eq(x[side - 1], -value[0] * value[1]);
    }
    free(x);
    yk__dataset_close(set);
    printf("# %zu MiB more memory at the peak\n", (memory_of("VmHWM") - before) >> 20);
}

START_TEST(idx_images_larger_than_memory)
{
    const uint8_t pixels[16] = {0, 0, 8, 3, 0, 0, IDX_IMAGES >> 8, IDX_IMAGES & 255, 0, 0, SIDE >> 8, 0, 0, 0, SIDE >> 8, 0};
    const uint8_t labels[8] = {0, 0, 8, 1, 0, 0, IDX_IMAGES >> 8, IDX_IMAGES & 255};
    char folder[64], name[128], spec[256];
    if (CHECKED)
        return;
    ck_assert_uint_gt((uint64_t)SIDE * SIDE * IDX_IMAGES, YK__IMAGES_HELD);
    snprintf(folder, sizeof folder, "/tmp/yoke-large-idx-%ld", (long)getpid());
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    snprintf(name, sizeof name, "%s/train-labels-idx1-ubyte", folder);
    records_make(name, labels, sizeof labels, 1, IDX_IMAGES, label_put);
    snprintf(file, sizeof file, "%s/train-images-idx3-ubyte", folder);
    records_make(file, pixels, sizeof pixels, SIDE * SIDE, IDX_IMAGES, pixel_put);
    snprintf(spec, sizeof spec, "idx:%s,mean=0.25,std=0.25", folder);
    rows_check(spec, IDX_IMAGES, SIDE, 1);
    unlink(file);
    unlink(name);
    rmdir(folder);
}
END_TEST

START_TEST(cifar_images_larger_than_memory)
{
    char spec[256];
    if (CHECKED)
        return;
    ck_assert_uint_gt(3073ull * CIFAR_IMAGES, YK__IMAGES_HELD);
    snprintf(file, sizeof file, "/tmp/yoke-large-train-%ld.bin", (long)getpid());
    records_make(file, NULL, 0, 3073, CIFAR_IMAGES, labelled_pixel_put);
    snprintf(spec, sizeof spec, "cifar10:%s,mean=0.25+0.25+0.25,std=0.25+0.25+0.25", file);
    rows_check(spec, CIFAR_IMAGES, 32, 3);
    unlink(file);
}
END_TEST

/* The limit counts down over the files of a set; a larger file stays on disk. */
START_TEST(images_are_held_up_to_the_limit)
{
    static const uint8_t bytes[4] = {3, 1, 4, 1};
    yk__images images = {.held = YK__IMAGES_HELD - 10};
    ck_assert_uint_eq(yk__images_left(&images), 10);
    images.held += 20;
    ck_assert_uint_eq(yk__images_left(&images), 0);
    snprintf(file, sizeof file, "/tmp/yoke-large-blob-%ld", (long)getpid());
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, sizeof bytes, f), sizeof bytes);
    fclose(f);
    for (uint64_t held = 3; held < 5; held++) {
        yk_error err = YK_ERROR_INIT;
        yk__file *opened;
        yk__blob *blob;
        uint64_t begin;
        uint8_t two[2];
        ck_assert_int_eq(yk__file_open(file, YK__FILE_AUTO, &opened, &err), YK_OK);
        ck_assert_msg(yk__blob_of_rest(opened, 4, "bytes", held, &blob, &begin, &err) == YK_OK, "%s", err.text);
        ck_assert_int_eq(yk__blob_memory(blob) != NULL, held == 4);
        ck_assert_int_eq(yk__blob_read(blob, begin + 1, two, 2, &err), YK_OK);
        ck_assert(two[0] == 1 && two[1] == 4);
        yk__blob_close(blob);
        yk__file_close(opened);
    }
    unlink(file);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("large");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, epoch_of_a_file_larger_than_memory);
    tcase_add_test(t, idx_images_larger_than_memory);
    tcase_add_test(t, cifar_images_larger_than_memory);
    tcase_add_test(t, images_are_held_up_to_the_limit);
    return suite_run("large", t);
}
