/* SPDX-License-Identifier: Apache-2.0 */
/* Several models in a job: the names of their parameters there, and in the folders that are saved. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "tests/support/run.h"

static yk_job *open_job(void)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .seed = 1});
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    return job;
}

static void close_job(yk_job *job)
{
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
}

static const char small_bert[] = "vocab_size=9,hidden_size=4,num_hidden_layers=1,num_attention_heads=1,max_position_embeddings=4";

static const struct {
    const char *given, *file; /* --model-config; the key in a saved folder's config.json, NULL: a model without a file */
    int row;                  /* that learns nothing; -1: none, -2: refused */
} paddings[] = {
    {"", NULL, 0}, {",pad_token_id=3", NULL, 3}, {",pad_token_id=9", NULL, -2}, {"", "\"pad_token_id\": 2", 2},
    {"", "\"pad_token_id\": null", -1}, {"", "\"transformers_version\": \"5\"", 0}, {"", "\"pad_token_id\": 9", -2},
};

static void give_padding(yk_job *job, const char *file, const char *dir)
{
    char command[256];
    yk_model_save(yk_model_new(job, "bert", small_bert, NULL), dir);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    snprintf(command, sizeof command, "sed -i 's/\"model_type\"/%s, &/' %s/config.json", file, dir);
    ck_assert_int_eq(system(command), 0);
}

/* As transformers' padding_idx does, the embedding of pad_token_id has no gradient, wherever the token stands. */
START_TEST(padding_learns_nothing)
{
    const int32_t id[4] = {0, 1, 2, 3};
    char dir[] = "/tmp/yoke-models-XXXXXX", config[256];
    float grad[9][4];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    yk_job *job = open_job();
    snprintf(config, sizeof config, "%s%s", small_bert, paddings[_i].given);
    if (paddings[_i].file)
        give_padding(job, paddings[_i].file, dir);
    yk_model *m = paddings[_i].file ? yk_model_from_pretrained(job, dir, "prefix=b.", NULL) : yk_model_new(job, "bert", config, NULL);
    if (paddings[_i].row == -2) {
        ck_assert_msg(strstr(yk_error_text(job), "pad_token_id=9: expected a token of the vocabulary, 0 to 8"), "%s", yk_error_text(job));
        ck_assert_int_eq(yk_close(job), 2);
    } else {
        const yk_batch batch = {.input_ids = yk_input(job, YK_I32, 2, (int64_t[]){1, 4}, id)};
        yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
        yk_t x = yk_model_part(m, &batch, "embeddings");
        yk_backward(yk_sum(yk_mul(x, yk_tanh(x)), 7, false));
        yk_step(opt);
        yk_grad_read(yk_param_find(job, paddings[_i].file ? "b.bert.embeddings.word_embeddings.weight"
                                                          : "bert.embeddings.word_embeddings.weight"), grad[0], 36);
        for (int row = 0; row < 4; row++)
            ck_assert_msg((grad[row][0] == 0 && grad[row][1] == 0) == (row == paddings[_i].row), "case %d: row %d has %g", _i, row,
                          (double)grad[row][0]);
        close_job(job);
    }
    snprintf(config, sizeof config, "rm -rf %s", dir);
    ck_assert_int_eq(system(config), 0);
}
END_TEST

/* A teacher beside its student: names of their own in the job, those of published files in the folder. */
START_TEST(two_models_by_their_prefixes)
{
    char dir[] = "/tmp/yoke-models-XXXXXX", config[256], command[64];
    float a[16], b[16];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    yk_job *job = open_job();
    snprintf(config, sizeof config, "%s,prefix=teacher.", small_bert);
    yk_model_new(job, "bert", small_bert, NULL);
    yk_model *teacher = yk_model_new(job, "bert", config, NULL);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_t student_weight = yk_param_find(job, "bert.pooler.dense.weight");
    yk_t teacher_weight = yk_param_find(job, "teacher.bert.pooler.dense.weight");
    yk_param_read(teacher_weight, a, 16);
    yk_model_save(teacher, dir);
    yk_model_from_pretrained(job, dir, "prefix=copy.", NULL);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    yk_param_read(yk_param_find(job, "copy.bert.pooler.dense.weight"), b, 16);
    ck_assert_mem_eq(a, b, sizeof a);
    yk_param_read(student_weight, b, 16);
    ck_assert_mem_ne(a, b, sizeof a);
    yk_weights *w = yk_weights_open(job, dir);
    ck_assert(yk_weights_has(w, "bert.pooler.dense.weight") && yk_weights_count(w) > 20 && !yk_weights_name(w, yk_weights_count(w)));
    yk_weights_close(w);
    yk_settings *s = yk_settings_new(job, NULL);
    snprintf(config, sizeof config, "%s/config.json", dir);
    yk_settings_json(s, config);
    ck_assert(!yk_settings_has(s, "prefix") && yk_settings_int(s, "hidden_size", 0) == 4);
    yk_settings_free(s);
    close_job(job);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Number of this process's open files of this path. */
static int open_files(const char *path)
{
    char link[64], to[256];
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t length = readlink(link, to, sizeof to - 1);
        to[length < 0 ? 0 : length] = '\0';
        n += !strcmp(to, path);
    }
    return n;
}

/* A file that is cut after it is open fails the comparison of two values, which lets go of them: the file is closed. */
START_TEST(comparison_in_a_file_that_is_cut)
{
    enum { N = 16384 };
    static const char *const name[] = {"a", "b"};
    static float zeros[N];
    char dir[] = "/tmp/yoke-models-XXXXXX", file[64];
    yk_t x[2];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/w.safetensors", dir);
    yk_job *job = open_job();
    for (int i = 0; i < 2; i++) {
        x[i] = yk_param(job, name[i], 1, (int64_t[]){N}, (yk_init){.kind = YK_INIT_ZEROS});
        yk_param_write(x[i], zeros, N);
    }
    yk_weights_save(job, file, 2, name, x);
    yk_weights *w = yk_weights_open(job, file);
    ck_assert_msg(yk_weights_same(w, "a", "b"), "%s", yk_error_text(job));
    ck_assert_int_eq(open_files(file), 1);
    ck_assert_int_eq(truncate(file, (off_t)(2 * N - N / 2) * (off_t)sizeof *zeros), 0);
    ck_assert(!yk_weights_same(w, "a", "b"));
    ck_assert_msg(!strncmp(yk_error_text(job), file, strlen(file)) && strstr(yk_error_text(job), "must not be changed while it is read"),
                  "%s", yk_error_text(job));
    yk_weights_close(w);
    ck_assert_int_eq(open_files(file), 0);
    ck_assert_int_eq(yk_close(job), 1);
    ck_assert_int_eq(unlink(file), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Wherever it stands in the configuration. */
START_TEST(prefixes_stand_anywhere)
{
    static const char *const config[] = {"prefix=a.,input_size=3,hidden=2", "input_size=3,prefix=a.,hidden=2",
                                         "input_size=3,hidden=2,prefix=a."};
    for (int i = 0; i < 3; i++) {
        yk_job *job = open_job();
        yk_model_new(job, "mlp", config[i], NULL);
        ck_assert_str_eq(yk_param_name(job, 0), "a.fc1.weight");
        ck_assert_int_eq((int)yk_dim(yk_param_at(job, 0), 0), 2);
        ck_assert_int_eq((int)yk_dim(yk_param_at(job, 0), 1), 3);
        close_job(job);
    }
}
END_TEST

static const struct {
    const char *kind, *config, *error, *not; /* the model that loads the folder; a part of the error, and one of another error */
} others[] = {
    {"mlp", "input_size=3,hidden=2,num_labels=4", "shape", "--new-head"}, /* a hidden layer there has the classifier's name */
    {"bert", small_bert, "its config.json is of another model, model_type \"mlp\"", "--new-head"},
    {"mlp", "input_size=3,hidden=5+2,num_labels=7",
     "classifier (fc3.weight, fc3.bias) is of 6 classes, and there are 7: --new-head", "shape"},
    {NULL, NULL, "expected a checkpoint (trainer_state.json), got the folder of a model", "cannot be opened"},
};

/* The error names what differs: widths, the model, classes, or a folder that is no checkpoint. */
START_TEST(folders_of_other_models)
{
    char dir[] = "/tmp/yoke-models-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    yk_job *job = open_job();
    yk_model_save(yk_model_new(job, "mlp", "input_size=3,hidden=5+2,num_labels=6", NULL), dir);
    close_job(job);
    job = open_job();
    if (others[_i].kind)
        yk_model_load(yk_model_new(job, others[_i].kind, others[_i].config, NULL), dir);
    else
        yk_load(job, dir);
    ck_assert_msg(strstr(yk_error_text(job), others[_i].error) && !strstr(yk_error_text(job), others[_i].not), "%s", yk_error_text(job));
    ck_assert_int_ne(yk_close(job), 0);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("models");
    tcase_add_loop_test(t, folders_of_other_models, 0, (int)(sizeof others / sizeof *others));
    tcase_add_loop_test(t, padding_learns_nothing, 0, (int)(sizeof paddings / sizeof *paddings));
    tcase_add_test(t, two_models_by_their_prefixes);
    tcase_add_test(t, prefixes_stand_anywhere);
    tcase_add_test(t, comparison_in_a_file_that_is_cut);
    return suite_run("models", t);
}
