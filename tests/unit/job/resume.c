/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a resumed run gives the bits of the run that was not interrupted; damage is found before use. */
#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/io/safetensors.h"
#include "core/job/opt.h"
#include "tests/support/run.h"

#define VOCAB 64
#define WIDTH 24

static char folder[64], text_file[96], checkpoint[96];

static const char *newer; /* a folder that takes the checkpoint's place when its tensors are opened; NULL: none does */

/* libc's place: the library's calls come here. The check of sums follows no links, and comes first. */
int open(const char *path, int flags, ...)
{
    int (*libc)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    char older[128];
    va_list more;
    va_start(more, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(more, unsigned) : 0;
    va_end(more);
    if (newer && strstr(path, "/checkpoint/model.safetensors") && !(flags & O_NOFOLLOW)) {
        snprintf(older, sizeof older, "%s/older", folder);
        ck_assert(!rename(checkpoint, older) && !rename(newer, checkpoint));
        newer = NULL;
    }
    return libc(path, flags, mode);
}

/* A run over a small text: embedding, dropout, linear; AdamW with a schedule. */
typedef struct run {
    yk_job *job;
    yk_t table, weight, seen;
    yk_opt *opt;
    yk_sched *sched;
    yk_data *data;
} run;

static void make_files(void)
{
    strcpy(folder, "/tmp/yoke-resume-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(text_file, sizeof text_file, "%s/text", folder);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    FILE *f = fopen(text_file, "w");
    for (int i = 0; i < 3000; i++)
        fputc("the yoke pulls unlike beasts\n"[(i * i / 7 + i) % 29], f);
    fclose(f);
}

static void remove_files(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", folder);
    ck_assert_int_eq(system(cmd), 0);
}

static run run_start(bool sgd)
{
    const int64_t t[2] = {VOCAB, WIDTH};
    char spec[128];
    run r = {.job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .seed = 11})};
    ck_assert_msg(yk_ok(r.job), "%s", yk_error_text(r.job));
    r.table = yk_param(r.job, "table", 2, t, (yk_init){YK_INIT_NORMAL, 0, 0.1f});
    r.weight = yk_param(r.job, "weight", 2, t, (yk_init){YK_INIT_NORMAL, 0, 0.1f});
    r.seen = yk_state(r.job, "seen", YK_I32, 0, NULL, 0);
    snprintf(spec, sizeof spec, "text:%s", text_file);
    r.data = yk_data_open(r.job, spec, &(yk_data_config){.global_batch = 8, .tokenizer = "char", .seq_len = 16});
    r.opt = sgd ? yk_sgd(r.job, &(yk_sgd_config){.lr = 0.1, .momentum = 0.9})
                : yk_adamw(r.job, &(yk_adam_config){.lr = 0.01, .weight_decay = 0.1});
    r.sched = yk_schedule(r.opt, &(yk_sched_config){.name = "linear", .warmup_steps = 3, .total_steps = 60});
    ck_assert_msg(yk_ok(r.job), "%s", yk_error_text(r.job));
    return r;
}

static void one_step(run *r, const yk_batch *b)
{
    int32_t one = 1;
    yk_t h = yk_dropout(yk_embedding(b->input_ids, r->table, -1), 0.2f);
    yk_assign(r->seen, yk_add(r->seen, yk_input(r->job, YK_I32, 0, NULL, &one)));
    yk_backward(yk_cross_entropy(yk_linear(h, r->weight, YK_NO), b->labels));
    yk_step(r->opt);
    yk_sched_step(r->sched);
}

/* Steps until the optimizer has done `to`; saves after `save` of them. */
static void run_train(run *r, uint64_t to, uint64_t save)
{
    while (yk_ok(r->job) && yk_steps(r->opt) < to)
        yk_each(b, r->job, r->data)
        {
            one_step(r, &b);
            if (yk_steps(r->opt) == save)
                yk_save(r->job, checkpoint);
            if (yk_steps(r->opt) == to)
                break;
        }
    ck_assert_msg(yk_ok(r->job), "%s", yk_error_text(r->job));
}

static void expect_resumed(bool sgd)
{
    float a[VOCAB * WIDTH], b[VOCAB * WIDTH], seen = 0;
    make_files();
    run r = run_start(sgd);
    uint64_t epoch = yk_data_batches(r.data), half = epoch + epoch / 2, all = 2 * epoch + 3;
    ck_assert_uint_gt(epoch, 4);
    run_train(&r, all, half);
    yk_param_read(r.weight, a, VOCAB * WIDTH);
    double lr = yk_lr(r.opt);
    uint64_t hash = yk_param_hash(r.job);
    ck_assert_int_eq(yk_close(r.job), 0);

    r = run_start(sgd);
    yk_load(r.job, checkpoint);
    ck_assert_msg(yk_ok(r.job), "%s", yk_error_text(r.job));
    ck_assert_uint_eq(yk_steps(r.opt), half);
    run_train(&r, all, 0);
    yk_param_read(r.weight, b, VOCAB * WIDTH);
    yk_param_read(r.seen, &seen, 1);
    ck_assert_mem_eq(a, b, sizeof a);
    ck_assert(yk_param_hash(r.job) == hash);
    ck_assert(yk_lr(r.opt) == lr);
    ck_assert_float_eq(seen, (float)all);
    ck_assert_int_eq(yk_close(r.job), 0);
    remove_files();
}

START_TEST(resume_adamw)
{
    expect_resumed(false);
}
END_TEST

START_TEST(resume_sgd)
{
    expect_resumed(true);
}
END_TEST

/* Flips a byte, or cuts the file. */
/* The parameters would be of the newer checkpoint, and the steps of the older one. */
START_TEST(a_checkpoint_that_is_written_again_meanwhile)
{
    char other[96];
    make_files();
    snprintf(other, sizeof other, "%s/newer", folder);
    run r = run_start(false);
    run_train(&r, 4, 4);
    ck_assert_int_eq(rename(checkpoint, other), 0);
    ck_assert_int_eq(yk_close(r.job), 0);
    r = run_start(false);
    run_train(&r, 2, 2);
    ck_assert_int_eq(yk_close(r.job), 0);
    r = run_start(false);
    newer = other;
    yk_load(r.job, checkpoint);
    ck_assert_ptr_null(newer);
    ck_assert(!yk_ok(r.job));
    ck_assert_msg(strstr(yk_error_text(r.job), "checkpoint: was written again while it was read") != NULL, "%s", yk_error_text(r.job));
    yk_close(r.job);
    remove_files();
}
END_TEST

static void file_damage(const char *name, long at)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", checkpoint, name);
    FILE *f = fopen(path, "r+");
    ck_assert_ptr_nonnull(f);
    if (at < 0) {
        fclose(f);
        ck_assert_int_eq(truncate(path, 100), 0);
        return;
    }
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

static void expect_refusal(const char *words)
{
    run r = run_start(false);
    yk_load(r.job, checkpoint);
    ck_assert_int_eq(yk_error_status(r.job), YK_E_FORMAT);
    ck_assert_msg(strstr(yk_error_text(r.job), words), "%s", yk_error_text(r.job));
    ck_assert_int_eq(yk_close(r.job), 2);
}

START_TEST(damage_is_found)
{
    make_files();
    run r = run_start(false);
    run_train(&r, 2, 2);
    ck_assert_int_eq(yk_close(r.job), 0);
    file_damage("model.safetensors", 2000);
    expect_refusal("model.safetensors");
    file_damage("model.safetensors", 2000); /* as it was */
    file_damage("optimizer.safetensors", -1);
    expect_refusal("optimizer.safetensors");
    file_damage("trainer_state.json", 0);
    expect_refusal("trainer_state.json");
    remove_files();
}
END_TEST

/* sed on the state: another person may have written there. */
static void state_edit(const char *script)
{
    char cmd[900];
    snprintf(cmd, sizeof cmd, "cp %s/trainer_state.json %s/good && sed -i '%s' %s/trainer_state.json && ! cmp -s %s/good "
                              "%s/trainer_state.json", checkpoint, folder, script, checkpoint, folder, checkpoint);
    ck_assert_msg(system(cmd) == 0, "%s", cmd);
}

static void edited_refuses(const char *script, const char *words)
{
    char cmd[256];
    state_edit(script);
    expect_refusal(words);
    snprintf(cmd, sizeof cmd, "cp %s/good %s/trainer_state.json", folder, checkpoint);
    ck_assert_int_eq(system(cmd), 0);
}

/* A job of one parameter saves or loads. False after an error, which `text` then has. */
static bool five_do(void (*act)(yk_job *, const char *), float *w, char text[256])
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .seed = 1});
    const yk_t param = yk_param(job, "w", 1, (int64_t[]){5}, (yk_init){YK_INIT_ZEROS, 0, 0});
    yk_param_write(param, w, 5);
    yk_sgd(job, &(yk_sgd_config){.lr = 0.1, .momentum = 0.9});
    act(job, checkpoint);
    if (yk_ok(job))
        yk_param_read(param, w, 5);
    snprintf(text, 256, "%s", yk_error_text(job));
    return yk_close(job) == 0;
}

/* Places of a schedule and rates that the program may set, and numbers that an optimizer takes. */
START_TEST(a_step_of_a_schedule_beyond_the_updates)
{
    static const struct {
        uint64_t seek, twice;
        double dampening, lr;
    } cases[] = {{50, 0, 0, 0}, {0, 1, 0, 0}, {UINT64_MAX, 0, 0, 0}, {0, 0, -0.5, 0}, {0, 0, 0, 1e60}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double lr[2] = {0, 0};
        make_files();
        for (int loads = 0; loads < 2; loads++) {
            run r = {.job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .seed = 11})};
            r.weight = yk_param(r.job, "weight", 0, NULL, (yk_init){0});
            r.opt = yk_sgd(r.job, &(yk_sgd_config){.lr = 0.1, .momentum = 0.5, .dampening = cases[i].dampening});
            r.sched = yk_schedule(r.opt, &(yk_sched_config){.name = "linear", .warmup_steps = 3, .total_steps = 60});
            if (loads) {
                yk_load(r.job, checkpoint);
            } else {
                yk_backward(yk_mul(r.weight, r.weight));
                yk_step(r.opt);
                for (uint64_t k = 0; k <= cases[i].twice; k++)
                    yk_sched_step(r.sched);
                if (cases[i].seek)
                    yk_sched_seek(r.sched, cases[i].seek);
                if (cases[i].lr > 0)
                    yk_set_lr(r.opt, cases[i].lr);
                yk_save(r.job, checkpoint);
            }
            ck_assert_msg(yk_ok(r.job), "%zu: %s", i, yk_error_text(r.job));
            lr[loads] = yk_lr(r.opt);
            ck_assert_int_eq(yk_close(r.job), 0);
        }
        ck_assert_double_eq(lr[0], lr[1]);
        remove_files();
    }
}
END_TEST

/* The sums are those that a checkpoint of these values had when files had a "sum" of 64 bits. */
START_TEST(a_checkpoint_with_the_sums_of_earlier_versions)
{
    float w[5] = {0.5f, -1, 2, -4, 8}, got[5] = {0};
    char text[256];
    make_files();
    ck_assert(five_do(yk_save, w, text));
    state_edit("/\"model.safetensors\"/,/}/ s/\"crc32c\": \".*\"/\"sum\": \"afd5a07447ae5d08\"/; "
               "/\"optimizer.safetensors\"/,/}/ s/\"crc32c\": \".*\"/\"sum\": \"fe96dbb0b35141fa\"/");
    ck_assert_msg(five_do(yk_load, got, text), "%s", text);
    ck_assert_mem_eq(got, w, sizeof w);
    file_damage("optimizer.safetensors", 120);
    ck_assert(!five_do(yk_load, got, text));
    ck_assert_msg(strstr(text, "optimizer.safetensors: its sum is ") && strstr(text, "expected fe96dbb0b35141fa"), "%s", text);
    remove_files();
}
END_TEST

/* A checkpoint from another person: pipes do not block, sums cannot be turned off, numbers are in their ranges. */
START_TEST(foreign_checkpoints)
{
    char path[160], cmd[400];
    make_files();
    run r = run_start(false);
    run_train(&r, 2, 2);
    ck_assert_int_eq(yk_close(r.job), 0);
    edited_refuses("s/\"files\": {/\"files\": {}, \"others\": {/", "model.safetensors and optimizer.safetensors");
    edited_refuses("s/\"lr\": .*,/\"lr\": -1.0,/", "optimizer: lr is -1.0, expected a number from 0");
    edited_refuses("s/\"lr\": .*,/\"lr\": \"nan\",/", "optimizer: lr is \"nan\"");
    edited_refuses("s/\"beta1\": .*,/\"beta1\": 5,/", "optimizer: beta1 is 5");
    edited_refuses("s/\"steps\": \"2\"/\"steps\": \"18446744073709551615\"/", "optimizer: steps");
    edited_refuses("s/\"param_steps\": {}/\"param_steps\": {\"fc\": \"1\"}/", "names of the job");
    edited_refuses("s/\"micro_step\"/\"shares\": {\"rows\": 32, \"share\": [0.5, 31.5]}, \"micro_step\"/", "whole numbers of rows");
    edited_refuses("s/\"global_batch\": [0-9]*/\"global_batch\": true/", "data: global_batch is true");
    edited_refuses("s/\"micro_step\"/\"shares\": {\"rows\": 32, \"share\": [1, 30]}, \"micro_step\"/", "add up");
    snprintf(cmd, sizeof cmd, "cd %s && mv optimizer.safetensors o && mkfifo optimizer.safetensors", checkpoint);
    ck_assert_int_eq(system(cmd), 0);
    expect_refusal("optimizer.safetensors: is no regular file");
    snprintf(cmd, sizeof cmd, "cd %s && mv o optimizer.safetensors && mv trainer_state.json o && mkfifo trainer_state.json", checkpoint);
    ck_assert_int_eq(system(cmd), 0);
    expect_refusal("trainer_state.json: is no regular file");
    snprintf(path, sizeof path, "%s/trainer_state.json", checkpoint);
    unlink(path);
    ck_assert_int_eq(symlink("/dev/zero", path), 0);
    r = run_start(false);
    yk_load(r.job, checkpoint);
    ck_assert_msg(strstr(yk_error_text(r.job), "links are not followed"), "%s", yk_error_text(r.job));
    yk_close(r.job);
    remove_files();
}
END_TEST

/* A checkpoint of other parameters than are trained now. */
static void load_frozen(bool was, bool now, const char *words)
{
    run r = run_start(false);
    yk_freeze(r.table, was);
    run_train(&r, 2, 2);
    ck_assert_int_eq(yk_close(r.job), 0);
    r = run_start(false);
    yk_freeze(r.table, now);
    yk_load(r.job, checkpoint);
    ck_assert_msg(strstr(yk_error_text(r.job), words), "%s", yk_error_text(r.job));
    yk_close(r.job);
}

START_TEST(a_checkpoint_of_other_trained_parameters)
{
    make_files();
    load_frozen(true, false, "2 tensors, the job has 4; the job has exp_avg.table, the file has not: was it frozen then?");
    load_frozen(false, true, "4 tensors, the job has 2; the file has exp_avg.table, the job has not: is it frozen now?");
    remove_files();
}
END_TEST

static void expect_batch(run *r, uint64_t epoch, uint64_t index, bool go_on)
{
    int seen = 0;
    yk_each(b, r->job, r->data)
    {
        if (seen++ == 0)
            ck_assert_msg(b.epoch == epoch && b.index == index, "batch %d of epoch %d", (int)b.index, (int)b.epoch);
        if (!go_on)
            break;
    }
    ck_assert_int_gt(seen, 0);
}

/* As a new `for` over a DataLoader; a place that was said is where the loop begins. */
START_TEST(a_loop_after_a_break_is_a_new_epoch)
{
    yk_batch batch;
    make_files();
    run r = run_start(false);
    const uint64_t all = yk_data_batches(r.data);
    expect_batch(&r, 0, 0, false);
    expect_batch(&r, 1, 0, false);
    ck_assert(yk_data_next(r.data, &batch) && batch.epoch == 1 && batch.index == 1); /* by hand: from where the data are */
    yk_end(r.job);
    expect_batch(&r, 2, 0, true);
    expect_batch(&r, 3, 0, true);
    yk_data_seek(r.data, 7, all - 1);
    expect_batch(&r, 7, all - 1, false); /* behind the last batch */
    expect_batch(&r, 8, 0, false);
    yk_data_seek(r.data, 9, 2);
    expect_batch(&r, 9, 2, true);
    ck_assert_int_eq(yk_close(r.job), 0);
    remove_files();
}
END_TEST

/* Moments that are not finite: the run is lost, whatever its rate is then. */
START_TEST(a_run_that_diverged)
{
    make_files();
    run r = run_start(false);
    run_train(&r, 2, 0);
    float w[VOCAB * WIDTH];
    yk_param_read(r.weight, w, VOCAB * WIDTH);
    w[3] = INFINITY;
    yk_param_write(r.weight, w, VOCAB * WIDTH);
    yk_save(r.job, checkpoint);
    ck_assert_int_eq(yk_close(r.job), 0);
    expect_refusal("tensor weight: element 3 is inf: the run had diverged");
    remove_files();
}
END_TEST

static FILE *taken;
static int standard;

/* Standard error goes to a file until log_give. */
static void log_take(void)
{
    taken = tmpfile();
    standard = dup(2);
    fflush(stderr);
    dup2(fileno(taken), 2);
}

static void log_give(char *said, size_t size)
{
    dup2(standard, 2);
    close(standard);
    rewind(taken);
    said[fread(said, 1, size - 1, taken)] = 0;
    fclose(taken);
}

/* A run without a schedule, whose rate the program may move. `said` has the log of a resume. */
static yk_opt *plain_sgd(yk_job **job, double lr, yk_t *w)
{
    const int64_t two = 2;
    *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true});
    *w = yk_param(*job, "w", 1, &two, (yk_init){YK_INIT_ONES, 0, 0});
    return yk_sgd(*job, &(yk_sgd_config){.lr = lr});
}

static void resumed_rate(double lr, double want, const char *words)
{
    char said[1000];
    yk_job *job;
    yk_t w;
    yk_opt *opt = plain_sgd(&job, lr, &w);
    log_take();
    yk_load(job, checkpoint);
    log_give(said, sizeof said);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_double_eq(yk_lr(opt), want);
    ck_assert_msg(words ? strstr(said, words) != NULL : !strstr(said, "resume"), "\"%s\"", said);
    ck_assert_int_eq(yk_close(job), 0);
}

/* The rate of now rules where another was set; one that the program moved in mid-run is state. */
START_TEST(rates_without_a_schedule)
{
    yk_job *job;
    yk_t w;
    make_files();
    yk_opt *opt = plain_sgd(&job, 0.5, &w);
    yk_backward(yk_sum(w, 1, false));
    yk_step(opt);
    yk_save(job, checkpoint);
    ck_assert_int_eq(yk_close(job), 0);
    resumed_rate(0.5, 0.5, NULL);
    resumed_rate(0.125, 0.125, "the present ones hold: learning rate 0.125, not 0.5");
    opt = plain_sgd(&job, 0.5, &w);
    yk_load(job, checkpoint);
    yk_set_lr(opt, 0.0625);
    yk_save(job, checkpoint);
    ck_assert_int_eq(yk_close(job), 0);
    resumed_rate(0.5, 0.0625, NULL);
    resumed_rate(0.125, 0.125, "the present ones hold: learning rate 0.125, not 0.5");
    state_edit("s/\"base_lr\": .*,//"); /* as an earlier version wrote it */
    resumed_rate(0.0625, 0.0625, NULL);
    resumed_rate(0.5, 0.5, "the present ones hold: learning rate 0.5, not 0.0625");
    remove_files();
}
END_TEST

/* A job of fp16 saves or loads; *scale has the scale at its end. */
static void scaled_do(void (*act)(yk_job *, const char *), yk_scale_config rule, double *scale)
{
    yk_job *job = yk_open(&(yk_config){.devices = "cpu", .quiet = true, .precision = YK_F16, .scale = rule});
    const yk_t w = yk_param(job, "w", 0, NULL, (yk_init){YK_INIT_ONES, 0, 0});
    yk_opt *opt = yk_sgd(job, &(yk_sgd_config){.lr = 0.1});
    if (act == yk_save) {
        yk_backward(yk_mul(w, w));
        yk_step(opt);
    }
    act(job, checkpoint);
    *scale = yk_loss_scale(opt);
    ck_assert_msg(yk_ok(job), "%s", yk_error_text(job));
    ck_assert_int_eq(yk_close(job), 0);
}

/* The scale of a dynamic rule is state; a fixed one and the rule are settings, of which those of now hold. */
START_TEST(loss_scaling_of_now_holds)
{
    static const struct {
        yk_scale_config was, now;
        const char *edit;
        double want;
        const char *words;
    } cases[] = {
        {{.init = 256}, {.fixed = 1024}, NULL, 1024, "loss scaling fixed, not torch; loss scale 1024, not 256"},
        {{.init = 256}, {.fixed = 1024}, "s/\"rule\": .*,//", 1024, "the present ones hold: loss scale 1024, not 256"},
        {{.fixed = 1024}, {.fixed = 2048}, NULL, 2048, "the present ones hold: loss scale 2048, not 1024"},
        {{.fixed = 1024}, {.init = 512}, NULL, 512, "loss scaling torch, not fixed"},
        {{.init = 256}, {.init = 512, .rule = YK_SCALE_MEGATRON}, NULL, 256, "loss scaling megatron, not torch"},
        {{.init = 256}, {.init = 512, .interval = 7}, NULL, 256, "interval of the loss scale 7, not 2000"},
        {{.init = 256}, {.init = 2048, .floor = 1024}, NULL, 1024, "least loss scale 1024"},
        {{.init = 256}, {.init = 2048, .floor = 1024, .rule = YK_SCALE_DEEPSPEED}, NULL, 1024, "loss scaling deepspeed, not torch"},
        {{.init = 256}, {.init = 512}, NULL, 256, NULL},
        {{.init = 256}, {.init = 512}, "s/\"rule\": .*,//", 256, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char said[1000];
        double scale;
        make_files();
        scaled_do(yk_save, cases[i].was, &scale);
        if (cases[i].edit)
            state_edit(cases[i].edit);
        log_take();
        scaled_do(yk_load, cases[i].now, &scale);
        log_give(said, sizeof said);
        ck_assert_msg(scale == cases[i].want, "%zu: %g", i, scale);
        ck_assert_msg(cases[i].words ? strstr(said, cases[i].words) != NULL : !strstr(said, "resume"), "%zu: \"%s\"", i, said);
        remove_files();
    }
}
END_TEST

/* The first step after a resume has the rate of the schedule of now. */
START_TEST(a_changed_schedule_rules_at_once)
{
    make_files();
    run r = run_start(false);
    run_train(&r, 10, 10);
    ck_assert_int_eq(yk_close(r.job), 0);
    r = run_start(false);
    yk__sched_free(r.opt->sched->rule);
    yk_error err = YK_ERROR_INIT;
    ck_assert(!yk__sched_new("linear", 0, 20, "", 0.02, &r.opt->sched->rule, &err));
    yk_load(r.job, checkpoint);
    ck_assert_msg(yk_ok(r.job), "%s", yk_error_text(r.job));
    ck_assert_double_eq_tol(yk_lr(r.opt), 0.01, 1e-12);
    ck_assert_int_eq(yk_close(r.job), 0);
    remove_files();
}
END_TEST

/* Half a checkpoint, which a save that was killed left behind. */
START_TEST(remains_are_cleared)
{
    static const char *const remains[] = {"added_tokens.json", "generation_config.json", "chat_template.jinja", "best.json",
                                          "tokenizer_config.json.yoke-tmp", "trainer_state.json.yoke-tmp", "registered.safetensors"};
    char path[200];
    struct stat st;
    make_files();
    run r = run_start(false);
    snprintf(path, sizeof path, "%s.yoke-tmp", checkpoint);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof remains / sizeof *remains; i++) {
        snprintf(path, sizeof path, "%s.yoke-tmp/%s", checkpoint, remains[i]);
        fclose(fopen(path, "w"));
    }
    yk_save(r.job, checkpoint);
    ck_assert_msg(yk_ok(r.job), "%s", yk_error_text(r.job));
    ck_assert_int_eq(yk_close(r.job), 0);
    snprintf(path, sizeof path, "%s.yoke-tmp", checkpoint);
    ck_assert(stat(path, &st) != 0);
}
END_TEST

START_TEST(saving_again_replaces)
{
    char path[160];
    struct stat st;
    make_files();
    run r = run_start(false);
    run_train(&r, 1, 1);
    run_train(&r, 3, 3);
    ck_assert_int_eq(yk_close(r.job), 0);
    snprintf(path, sizeof path, "%s.yoke-tmp", checkpoint);
    ck_assert(stat(path, &st) != 0);
    snprintf(path, sizeof path, "%s.yoke-old", checkpoint);
    ck_assert(stat(path, &st) != 0);
    r = run_start(false);
    yk_load(r.job, checkpoint);
    ck_assert_uint_eq(yk_steps(r.opt), 3);
    ck_assert_int_eq(yk_close(r.job), 0);
    r = run_start(true); /* another optimizer */
    yk_load(r.job, checkpoint);
    ck_assert_msg(strstr(yk_error_text(r.job), "another optimizer"), "%s", yk_error_text(r.job));
    yk_close(r.job);
    remove_files();
}
END_TEST

/* Copies that a user made of a checkpoint, beside it or in its place, stay as they are. */
START_TEST(copies_of_a_checkpoint_stay)
{
    static const char *const makings[] = {"cp -r checkpoint checkpoint.old; cp -r checkpoint checkpoint.tmp",
                                          "rm -r *.old *.tmp; cp -r checkpoint checkpoint.tmp; mv checkpoint checkpoint.old"};
    char cmd[300];
    make_files();
    run r = run_start(false);
    run_train(&r, 1, 1);
    snprintf(cmd, sizeof cmd, "cp -r %s %s/first", checkpoint, folder);
    ck_assert_int_eq(system(cmd), 0);
    for (size_t i = 0; i < sizeof makings / sizeof *makings; i++) {
        snprintf(cmd, sizeof cmd, "cd %s && %s", folder, makings[i]);
        ck_assert_int_eq(system(cmd), 0);
        yk_save(r.job, checkpoint);
        ck_assert_msg(yk_ok(r.job), "%s", yk_error_text(r.job));
        snprintf(cmd, sizeof cmd, "cd %s && diff -r first checkpoint.old && diff -r first checkpoint.tmp && [ -d checkpoint ]", folder);
        ck_assert_int_eq(system(cmd), 0);
        snprintf(cmd, sizeof cmd, "cd %s && rm -r first && cp -r checkpoint first", folder); /* the next copies are of this save */
        ck_assert_int_eq(system(cmd), 0);
    }
    ck_assert_int_eq(yk_close(r.job), 0);
    remove_files();
}
END_TEST

/* A folder that is no checkpoint is not one to replace. */
START_TEST(other_folders_are_not_replaced)
{
    char path[160];
    make_files();
    run r = run_start(false);
    yk_save(r.job, folder);
    ck_assert_msg(strstr(yk_error_text(r.job), "is no checkpoint"), "%s", yk_error_text(r.job));
    ck_assert_int_eq(access(text_file, F_OK), 0);
    ck_assert_int_eq(yk_close(r.job), 1);
    snprintf(path, sizeof path, "%s-link", folder);
    ck_assert_int_eq(symlink(folder, path), 0);
    r = run_start(false);
    yk_save(r.job, path);
    ck_assert_msg(strstr(yk_error_text(r.job), "is no folder"), "%s", yk_error_text(r.job));
    ck_assert_int_eq(access(text_file, F_OK), 0);
    ck_assert_int_eq(yk_close(r.job), 1);
    unlink(path);
    remove_files();
}
END_TEST

/* The folder of a checkpoint of Hugging Face's Trainer, which writes a file of the same name, and one whose state nobody can read. */
START_TEST(checkpoints_of_other_programs_are_not_replaced)
{
    static const char *const states[] = {"{\"global_step\": 2, \"log_history\": []}", "{\"files\": {}, \"format\": \"another\"}", "{", ""};
    char cmd[600];
    make_files();
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        snprintf(cmd, sizeof cmd, "mkdir -p %s && cd %s && echo theirs | tee model.safetensors config.json optimizer.pt >/dev/null && "
                 "printf '%%s' '%s' > trainer_state.json", checkpoint, checkpoint, states[i]);
        ck_assert_int_eq(system(cmd), 0);
        run r = run_start(false);
        yk_save(r.job, checkpoint);
        ck_assert_msg(strstr(yk_error_text(r.job), "is no checkpoint of Yoke"), "%s: %s", states[i], yk_error_text(r.job));
        ck_assert_int_eq(yk_close(r.job), 1);
        snprintf(cmd, sizeof cmd, "cd %s && [ \"$(cat model.safetensors config.json optimizer.pt | grep -c theirs)\" = 3 ]", checkpoint);
        ck_assert_int_eq(system(cmd), 0);
    }
    remove_files();
}
END_TEST

/* A state that was cut short, or is not to be read: the next save of the training takes the place, and says so. */
START_TEST(a_damaged_checkpoint_is_replaced)
{
    static const char *const harm[] = {": > trainer_state.json", "echo '{' > trainer_state.json",
                                       "rm trainer_state.json && mkfifo trainer_state.json", "sed -i '/\"files\"/,$d' trainer_state.json"};
    char cmd[600], said[1000];
    make_files();
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        run r = run_start(false);
        yk_save(r.job, checkpoint);
        ck_assert_int_eq(yk_close(r.job), 0);
        snprintf(cmd, sizeof cmd, "cd %s && echo mine > notes && %s", checkpoint, harm[i]);
        ck_assert_int_eq(system(cmd), 0);
        log_take();
        r = run_start(false);
        yk_save(r.job, checkpoint);
        log_give(said, sizeof said);
        ck_assert_msg(yk_ok(r.job), "%s: %s", harm[i], yk_error_text(r.job));
        ck_assert_msg(strstr(said, "is damaged, and a save replaces it") != NULL, "%s: \"%s\"", harm[i], said);
        yk_load(r.job, checkpoint);
        ck_assert_msg(yk_ok(r.job), "%s: %s", harm[i], yk_error_text(r.job));
        ck_assert_int_eq(yk_close(r.job), 0);
        snprintf(cmd, sizeof cmd, "[ \"$(cat %s/notes)\" = mine ]", checkpoint);
        ck_assert_int_eq(system(cmd), 0);
    }
    remove_files();
}
END_TEST

/* Counts of batches are integers beyond 2^24, the limit of f32, in weight files and in checkpoints. */
static void check_file(const char *path, int64_t want)
{
    yk__safetensors *st;
    yk_error err = YK_ERROR_INIT;
    int64_t v;
    ck_assert_msg(!yk__safetensors_open(path, &st, &err), "%s", err.text);
    const yk__safetensor *t = yk__safetensors_find(st, "seen");
    ck_assert(t && t->dtype == YK_I64);
    ck_assert(!yk__safetensors_load(st, t, 0, sizeof v, &v, &err));
    ck_assert_int_eq(v, want);
    yk__safetensors_close(st);
}

START_TEST(counts_stay_whole)
{
    char file[160], saved[160];
    const char *name = "seen";
    make_files();
    snprintf(file, sizeof file, "%s/seen.safetensors", folder);
    snprintf(saved, sizeof saved, "%s/model.safetensors", checkpoint);
    run r = run_start(false);
    const float v = 0x1p24f;
    yk_param_write(r.seen, &v, 1);
    run_train(&r, 3, 3);
    ck_assert_double_eq(yk_item(r.seen), 16777219.0);
    yk_weights_save(r.job, file, 1, &name, &r.seen);
    ck_assert_int_eq(yk_close(r.job), 0);
    check_file(file, 16777219);
    check_file(saved, 16777219);
    r = run_start(false);
    yk_weights *w = yk_weights_open(r.job, file);
    ck_assert(yk_weights_read(w, name, r.seen));
    yk_weights_close(w);
    ck_assert_double_eq(yk_item(r.seen), 16777219.0);
    yk_load(r.job, checkpoint);
    ck_assert_double_eq(yk_item(r.seen), 16777219.0);
    ck_assert_int_eq(yk_close(r.job), 0);
    remove_files();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("resume");
    tcase_add_test(t, resume_adamw);
    tcase_add_test(t, a_checkpoint_that_is_written_again_meanwhile);
    tcase_add_test(t, resume_sgd);
    tcase_add_test(t, damage_is_found);
    tcase_add_test(t, a_step_of_a_schedule_beyond_the_updates);
    tcase_add_test(t, a_checkpoint_with_the_sums_of_earlier_versions);
    tcase_add_test(t, foreign_checkpoints);
    tcase_add_test(t, a_checkpoint_of_other_trained_parameters);
    tcase_add_test(t, a_loop_after_a_break_is_a_new_epoch);
    tcase_add_test(t, a_run_that_diverged);
    tcase_add_test(t, rates_without_a_schedule);
    tcase_add_test(t, loss_scaling_of_now_holds);
    tcase_add_test(t, a_changed_schedule_rules_at_once);
    tcase_add_test(t, remains_are_cleared);
    tcase_add_test(t, saving_again_replaces);
    tcase_add_test(t, copies_of_a_checkpoint_stay);
    tcase_add_test(t, other_folders_are_not_replaced);
    tcase_add_test(t, checkpoints_of_other_programs_are_not_replaced);
    tcase_add_test(t, a_damaged_checkpoint_is_replaced);
    tcase_add_test(t, counts_stay_whole);
    return suite_run("job_resume", t);
}
