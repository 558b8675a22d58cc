/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners write a checkpoint's files together: with any stage and transport the bytes are those of one writer, and each rank writes its own
 * slices. Ranks that do not reach rank 0's folder, or find another one's mark there, write nothing, and the bytes stay the same. A save
 * takes memory for a piece, not for a tensor.
 *
 * Without a launcher this is the test; as a rank it trains and saves: MODE FOLDER.
 */
#include <yoke/yoke.h>

#include <sys/stat.h>
#include <sys/syscall.h>

#include "core/io/checkpoint.h"
#include "tests/support/peak.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { RANKS = 3, ROWS = 4, WIDTH = 64, CLASSES = 8, SAID = 2048 };
#define TABLE (1 << 19 | 77)                                                  /* elements of a table that is no whole number of pieces */
#define LARGE (TEST_UNDER_ASAN || TEST_UNDER_TSAN ? 1 << 16 : 12 * (1 << 20)) /* of one that is larger than all pieces */
#define DEVICES "cpu:0! cpu:0! cpu:0!"

static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};

/* A rank's report of one save. */
typedef struct saved {
    uint64_t wrote; /* bytes by pwrite */
    double peak;    /* MiB above those before */
} saved;

static uint64_t wrote;

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    wrote += n;
    return syscall(SYS_pwrite64, fd, data, n, at);
}

/* ---- As a rank ---------------------------------------------------------------------------------------------------- */

typedef struct net {
    yk_job *job;
    yk_t weight, table, frozen, mean, count;
    yk_opt *opt;
} net;

static void net_make(net *m, const char *mode)
{
    const yk_init normal = {YK_INIT_NORMAL, 0, 0.1f};
    const int64_t table = strstr(mode, "large") ? LARGE : TABLE, frozen = 5000, one = WIDTH;
    m->job = yk_open(&(yk_config){.seed = 3,
                                  .quiet = true,
                                  .shares = "equal",
                                  .shard_parts = strstr(mode, "uneven") ? "2:1:3" : NULL,
                                  .offload = strstr(mode, "offload") ? "state=host" : NULL,
                                  .shard = strstr(mode, "params") ? "params" : strstr(mode, "gradients") ? "gradients" : "state"});
    m->weight = yk_param(m->job, "weight", 2, (int64_t[]){CLASSES, WIDTH}, normal);
    m->table = yk_param(m->job, "table", 1, &table, normal);
    m->frozen = yk_param(m->job, "frozen", 1, &frozen, normal);
    if (strstr(mode, "unlike") && yk_rank(m->job) == 1)
        yk_state(m->job, "extra", YK_F32, 1, &one, 0);
    m->mean = yk_state(m->job, "mean", YK_F32, 1, &one, 0.5f);
    m->count = yk_state(m->job, "count", YK_I32, 0, NULL, 7);
    yk_freeze(m->frozen, true);
    m->opt = yk_adam(m->job, &(yk_adam_config){.lr = 0.01});
}

static void net_step(const net *m)
{
    const int64_t n = ROWS;
    float x[ROWS * WIDTH];
    int32_t label[ROWS], row[ROWS];
    for (int i = 0; i < ROWS; i++) {
        row[i] = (int32_t)yk_rank(m->job) * ROWS + i;
        label[i] = row[i] % CLASSES;
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = (float)((row[i] * 31 + k * 7) % 19) / 9 - 1;
    }
    yk_set_rows(m->job, ROWS, row, (int64_t)ROWS * yk_world_size(m->job));
    const yk_t points = yk_input(m->job, YK_F32, 2, (int64_t[]){ROWS, WIDTH}, x);
    const yk_t loss = yk_cross_entropy(yk_linear(points, m->weight, YK_NO), yk_input(m->job, YK_I32, 1, &n, label));
    yk_backward(yk_add(loss, yk_mean(yk_mul(m->table, m->table), 1, false)));
    yk_step(m->opt);
}

static void save_counted(const net *m, const char *folder, const char *name, const char *path)
{
    const double before = status_mib("VmRSS");
    saved out;
    peak_reset();
    wrote = 0;
    yk_save(m->job, path);
    out = (saved){wrote, status_mib("VmHWM") - before};
    ranks_write(folder, name, yk_rank(m->job), &out, sizeof out);
}

/* Rank 0 saves to FOLDER/name, and another rank under a path that is not there, or where another save left its mark. */
static void save_split(const net *m, const char *folder, const char *name, bool has_mark)
{
    char path[200], mark[240];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (yk_rank(m->job) == 1 || (yk_rank(m->job) > 1 && !has_mark)) {
        snprintf(path, sizeof path, "%s/%s.elsewhere.%u", folder, name, yk_rank(m->job));
        snprintf(mark, sizeof mark, "%s.yoke-tmp", path);
        if (has_mark && mkdir(mark, 0700) == 0) {
            strcat(mark, "/writers.mark");
            FILE *f = fopen(mark, "wb");
            fwrite("another one's 16", 1, 16, f);
            fclose(f);
        }
    }
    save_counted(m, folder, name, path);
}

static int rank_main(const char *mode, const char *folder)
{
    net m;
    char path[200];
    net_make(&m, mode);
    snprintf(path, sizeof path, "%s/together", folder);
    if (strstr(mode, "alone")) { /* one rank goes on from what several have written, and writes it again */
        yk_load(m.job, path);
        snprintf(path, sizeof path, "%s/alone", folder);
        yk_save(m.job, path);
        return yk_close(m.job);
    }
    if (strstr(mode, "first")) { /* before the ranks have compared a step */
        yk_save(m.job, path);
        return yk_close(m.job);
    }
    net_step(&m);
    net_step(&m);
    save_counted(&m, folder, "together", path);
    if (!strstr(mode, "large")) {
        save_split(&m, folder, "apart", false);
        save_split(&m, folder, "mixed", true);
        snprintf(path, sizeof path, "%s/weights", folder);
        yk_weights_save(m.job, path, 5, (const char *const[]){"weight", "table", "frozen", "mean", "count"},
                        (yk_t[]){m.weight, m.table, m.frozen, m.mean, m.count});
    }
    return yk_close(m.job);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static void expect_same(const char *name, const char *file)
{
    char command[400];
    snprintf(command, sizeof command, "cmp %s/together/%s %s/%s/%s", ranks_folder, file, ranks_folder, name, file);
    ck_assert_msg(system(command) == 0, "%s", command);
}

/* Compares the sums that the states have, as text, and the remains. */
static void expect_alike(const char *name)
{
    char command[800];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        expect_same(name, files[i]);
    snprintf(command, sizeof command,
             "for d in together %s; do sed -n '/\"files\"/,/\"model_files\"/p' %s/$d/trainer_state.json > %s/$d.files; done; "
             "grep -q crc32c %s/together.files && cmp %s/together.files %s/%s.files && ! ls -d %s/*tmp %s/*/*.mark 2>/dev/null | "
             "grep -v elsewhere",
             name, ranks_folder, ranks_folder, ranks_folder, ranks_folder, ranks_folder, name, ranks_folder, ranks_folder);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static uint64_t bytes_of(const char *file)
{
    char path[200];
    struct stat st = {0};
    snprintf(path, sizeof path, "%s/together/%s", ranks_folder, file);
    ck_assert_int_eq(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

/* The ranks in `writers`, a mask, write a part each, and the files are whole. */
static void expect_writers(const char *name, unsigned writers)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        saved one;
        ranks_read(name, r, &one, sizeof one);
        ck_assert_msg((one.wrote > TABLE / 2) == (writers >> r & 1), "%s: rank %u writes %llu bytes", name, r,
                      (unsigned long long)one.wrote);
        sum += one.wrote;
    }
    ck_assert_uint_eq(sum, bytes_of(files[0]) + bytes_of(files[1]));
}

static void byte_flip(const char *path, uint64_t at)
{
    FILE *f = fopen(path, "r+b");
    ck_assert(f && fseek(f, (long)at, SEEK_SET) == 0);
    const int byte = fgetc(f);
    ck_assert(fseek(f, (long)at, SEEK_SET) == 0 && fputc(byte ^ 1, f) >= 0 && fclose(f) == 0);
}

/* words: in the error; NULL if the checkpoint is whole. */
static void expect_read(const char *words)
{
    char folder[160];
    uint64_t mark;
    json_t *state = NULL;
    yk_error err = YK_ERROR_INIT;
    snprintf(folder, sizeof folder, "%s/together", ranks_folder);
    yk__checkpoint_read(folder, &state, &mark, &err);
    ck_assert_msg(words ? strstr(err.text, words) != NULL : !err.status, "'%s', expected '%s'", err.text, words ? words : "");
    if (!err.status)
        json_decref(state);
}

/* One byte in each owner's slice of the first moment, and the last byte. */
static void expect_damage_found(const char *file)
{
    const uint64_t bytes = bytes_of(file), moment = bytes / 2;
    char path[200], altered[64], cut[64];
    snprintf(path, sizeof path, "%s/together/%s", ranks_folder, file);
    snprintf(altered, sizeof altered, "%s: its sum is ", file);
    snprintf(cut, sizeof cut, "%s: %llu bytes, expected %llu: ", file, (unsigned long long)bytes - 1, (unsigned long long)bytes);
    for (uint32_t owner = 0; owner < RANKS; owner++) {
        byte_flip(path, moment * (2 * owner + 1) / (2 * RANKS));
        expect_read(altered);
        byte_flip(path, moment * (2 * owner + 1) / (2 * RANKS));
    }
    expect_read(NULL);
    ck_assert_int_eq(truncate(path, (off_t)bytes - 1), 0);
    expect_read(cut);
}

static const struct {
    const char *transport, *mode;
} cases[] = {{"shm", "state"},     {"shm", "gradients-uneven"}, {"shm", "state-offload"}, {"local", "state-uneven"},
             {"local", "gradients"}, {"local", "params-uneven"}};

START_TEST(owners_write_the_bytes_of_one_writer)
{
    char said[SAID], mode[64], command[300];
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", cases[_i].transport, 1);
    setenv("YOKE_BUCKET_BYTES", "1048576", 1);
    ck_assert_msg(ranks_run(DEVICES, cases[_i].mode, said, sizeof said) == 0, "%s: %s", cases[_i].mode, said);
    expect_writers("together", 7);
    expect_writers("apart", 1);
    expect_writers("mixed", 5);
    expect_alike("apart");
    expect_alike("mixed");
    snprintf(mode, sizeof mode, "alone-%s", cases[_i].mode);
    if (strstr(mode, "-uneven"))
        *strstr(mode, "-uneven") = 0;
    ck_assert_msg(ranks_run("cpu:0!", mode, said, sizeof said) == 0, "%s: %s", mode, said);
    expect_alike("alone");
    snprintf(command, sizeof command, "cmp %s/weights %s/together/model.safetensors", ranks_folder, ranks_folder);
    ck_assert_msg(system(command) == 0, "another writer of such files: %s", command);
    expect_damage_found(files[1]);
    ranks_folder_remove();
}
END_TEST

/* The words of the error; and nothing is left of the save. */
static void expect_refused(const char *mode, const char *words)
{
    char said[SAID], command[300];
    ck_assert_msg(ranks_run(DEVICES, mode, said, sizeof said) != 0 && strstr(said, words), "%s: %s", mode, said);
    snprintf(command, sizeof command, "! ls -d %s/together* 2>/dev/null", ranks_folder);
    ck_assert_msg(system(command) == 0, "%s leaves files", mode);
}

START_TEST(unlike_tensors_and_the_emergency_folder_are_refused)
{
    char folder[200];
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", "local", 1);
    expect_refused("first-unlike", "expected the same tensors on all ranks, got others on rank 1 than on rank 0");
    unsetenv("YOKE_TRANSPORT");
    snprintf(folder, sizeof folder, "%s/together", ranks_folder);
    setenv("YOKE_EMERGENCY_CHECKPOINT", folder, 1);
    expect_refused("first", "expected another folder than YOKE_EMERGENCY_CHECKPOINT's");
    unsetenv("YOKE_EMERGENCY_CHECKPOINT");
    ranks_folder_remove();
}
END_TEST

START_TEST(a_save_takes_memory_for_a_piece)
{
    char said[SAID];
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", "local", 1);
    unsetenv("YOKE_BUCKET_BYTES");
    ck_assert_msg(ranks_run("cpu:0! cpu:0!", "params-large", said, sizeof said) == 0, "%s", said);
    for (uint32_t r = 0; r < 2; r++) {
        saved one;
        ranks_read("together", r, &one, sizeof one);
        fprintf(stderr, "# rank %u: %.1f MiB beside its state, for a tensor of %.0f MiB\n", r, one.peak, LARGE * 4.0 / (1 << 20));
        ck_assert_msg(one.peak < 8, "rank %u takes %.1f MiB beside its state", r, one.peak);
    }
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("written");
    tcase_add_loop_test(t, owners_write_the_bytes_of_one_writer, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, unlike_tensors_and_the_emergency_folder_are_refused);
    tcase_add_test(t, a_save_takes_memory_for_a_piece);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("written", t);
}
