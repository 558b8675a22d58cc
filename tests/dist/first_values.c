/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ranks that exchange messages hold slices of the parameters alone while a model begins: with random first values, with weights of a
 * file, and at a resume. The peak of memory is compared with the slices, not with the model.
 *
 * Without a launcher this is the test; as a rank it begins a model: MODE FOLDER.
 */
#include <yoke/yoke.h>

#include "tests/support/peak.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { TABLES = 40, ROWS = 4, WIDTH = 64, CLASSES = 8, SAID = 2048 };
#define EACH (TEST_UNDER_ASAN || TEST_UNDER_TSAN ? 1 << 16 : 1 << 20) /* elements of a table */
#define MIB (1024.0 * 1024.0)

typedef struct beginning {
    double peak; /* MiB above those of the opened job */
    uint64_t hash;
} beginning;

static void weights_take(yk_job *job, const char *folder)
{
    char path[200];
    snprintf(path, sizeof path, "%s/checkpoint/model.safetensors", folder);
    yk_weights *w = yk_weights_open(job, path);
    for (uint32_t i = 0; i < yk_param_count(job); i++)
        yk_weights_read(w, yk_param_name(job, i), yk_param_at(job, i));
    yk_weights_close(w);
}

static void rank_step(yk_job *job, yk_t weight, yk_opt *opt)
{
    const int64_t n = ROWS;
    float x[ROWS * WIDTH];
    int32_t label[ROWS], row[ROWS];
    for (int i = 0; i < ROWS; i++) {
        row[i] = (int32_t)yk_rank(job) * ROWS + i;
        label[i] = row[i] % CLASSES;
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = (float)((row[i] * 31 + k * 7) % 19) / 9 - 1;
    }
    yk_set_rows(job, ROWS, row, (int64_t)ROWS * yk_world_size(job));
    const yk_t points = yk_input(job, YK_F32, 2, (int64_t[]){ROWS, WIDTH}, x);
    yk_backward(yk_cross_entropy(yk_linear(points, weight, YK_NO), yk_input(job, YK_I32, 1, &n, label)));
    yk_step(opt);
}

static int rank_begin(const char *mode, const char *folder)
{
    yk_job *job = yk_open(&(yk_config){.seed = 3, .quiet = true, .shard = "params", .shares = "equal"});
    const double before = status_mib("VmRSS");
    const int64_t each = EACH;
    beginning out;
    char checkpoint[200];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    peak_reset();
    yk_t weight = yk_param(job, "weight", 2, (int64_t[]){CLASSES, WIDTH}, (yk_init){YK_INIT_NORMAL, 0, 0.1f});
    for (int i = 0; i < TABLES; i++) {
        char name[16];
        snprintf(name, sizeof name, "table.%d", i);
        yk_param(job, name, 1, &each, (yk_init){i % 2 ? YK_INIT_NORMAL : YK_INIT_UNIFORM, -1, 1});
    }
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.01});
    if (!strcmp(mode, "read"))
        weights_take(job, folder);
    if (!strcmp(mode, "resumed"))
        yk_load(job, checkpoint);
    if (!strcmp(mode, "made"))
        rank_step(job, weight, opt);
    out.hash = yk_param_hash(job);
    rank_step(job, weight, opt);
    out.peak = status_mib("VmHWM") - before;
    ranks_write(folder, mode, yk_rank(job), &out, sizeof out);
    if (!strcmp(mode, "made"))
        yk_save(job, checkpoint);
    if (!strcmp(mode, "made")) {
        out.hash = yk_param_hash(job);
        ranks_write(folder, "saved", yk_rank(job), &out, sizeof out);
    }
    return yk_close(job);
}

/* The slices and the window's sums of as many elements, one tensor, and what a small model takes: messages, code, a lane and pieces. */
static double most_mib(void)
{
    return 2 * 0.5 * TABLES * EACH * sizeof(float) / MIB + EACH * sizeof(float) / MIB + 56;
}

START_TEST(a_model_begins_in_the_memory_of_its_slices)
{
    static const char *const modes[] = {"made", "read", "resumed"};
    beginning saved, begun[2];
    char said[SAID];
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", "local", 1);
    setenv("YOKE_BUCKET_BYTES", "4194304", 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(ranks_run("cpu:0! cpu:0!", modes[i], said, sizeof said) == 0, "%s: %s", modes[i], said);
        for (uint32_t r = 0; r < 2; r++) {
            ranks_read(modes[i], r, &begun[r], sizeof begun[r]);
            fprintf(stderr, "# %s, rank %u: %.0f MiB, at most %.0f\n", modes[i], r, begun[r].peak, most_mib());
            ck_assert_msg(TEST_UNDER_ASAN || TEST_UNDER_TSAN || begun[r].peak < most_mib(),
                          "%s: rank %u takes %.0f MiB, expected less than %.0f", modes[i], r, begun[r].peak, most_mib());
        }
        ranks_read("saved", 0, &saved, sizeof saved);
        ck_assert_msg(!i || begun[0].hash == saved.hash, "%s: other values than the file's", modes[i]);
    }
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_begin(argv[1], argv[2]);
    TCase *t = tcase_create("first_values");
    tcase_add_test(t, a_model_begins_in_the_memory_of_its_slices);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("first_values", t);
}
