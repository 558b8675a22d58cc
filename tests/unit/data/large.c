/* SPDX-License-Identifier: Apache-2.0 */
/* A token file several times larger than the memory that the process may have, trained on for an epoch. */
#include <check.h>
#include <sys/resource.h>

#include "core/data/loader.h"
#include <yoke/yoke.h>

#include "tests/support/suite.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECKED 1 /* a sanitizer's own memory is many times the limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECKED 1
#endif
#endif
#ifndef CHECKED
#define CHECKED 0
#endif

enum { SEQ_LEN = 16384, ROWS = 4096, BATCH = 32 };

#define FILE_BYTES (32 + 4ull * SEQ_LEN * ROWS + 4) /* 256 MiB */
#define LIMIT ((size_t)48 << 20)                    /* more than the process has when it begins to train */

static const char path[] = "/tmp/yoke-large-tokens.bin";
static char file[64];

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

/* One step on the first ids of the rows alone: what is trained does not matter here. */
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
    char spec[128];
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

int main(void)
{
    TCase *t = tcase_create("large");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, epoch_of_a_file_larger_than_memory);
    return suite_run("large", t);
}
