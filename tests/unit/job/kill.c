/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGKILL at each file operation of a save: afterwards there is the old whole, the new whole, or a file that is named on opening. The C
 * library's calls that change files are replaced here: each counts, and the selected one kills the process.
 */
#define _GNU_SOURCE
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/job/job.h"
#include "tests/support/run.h"

static int calls_left = -1; /* until the kill; below 0: none */
static bool no_exchange;     /* a file system that cannot exchange two names */
static char folder[64], place[96];

static void count_call(void)
{
    if (calls_left >= 0 && calls_left-- == 0)
        kill(getpid(), SIGKILL);
}

int renameat2(int from, const char *a, int to, const char *b, unsigned flags)
{
    count_call();
    errno = EINVAL;
    return flags && no_exchange ? -1 : (int)syscall(SYS_renameat2, from, a, to, b, flags);
}

int renameat(int from, const char *a, int to, const char *b)
{
    return renameat2(from, a, to, b, 0);
}

int rename(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, 0);
}

int unlinkat(int dir, const char *name, int flags)
{
    count_call();
    return (int)syscall(SYS_unlinkat, dir, name, flags);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode)
{
    count_call();
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int fsync(int fd)
{
    count_call();
    return (int)syscall(SYS_fsync, fd);
}

int fclose(FILE *f)
{
    static int (*real)(FILE *);
    count_call(); /* its memory is lost */
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fclose");
    return real(f);
}

static void shell_run(const char *fmt, ...)
{
    char command[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    ck_assert_msg(system(command) == 0, "%s", command);
}

/* Runs f in a process of its own; its exit code, or 128 + the signal that ended it. */
static int fork_run(int (*f)(int), int n)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(f(n));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Saves killed at call 0, 1, 2 .. until one comes through; `reset` makes the old state, `verify` looks at what there is: 1 old,
 * 2 new, anything else is wrong. Both kinds must have been seen. */
static void kill_everywhere(void (*reset)(void), int (*save)(int), int (*verify)(int))
{
    int seen = 0, code = 128 + SIGKILL;
    for (int n = 0; code == 128 + SIGKILL; n++) {
        ck_assert_int_lt(n, 200);
        reset();
        code = fork_run(save, n);
        ck_assert_msg(code == 0 || code == 128 + SIGKILL, "killed at call %d: %d", n, code);
        int is = fork_run(verify, 0);
        ck_assert_msg(is == 1 || is == 2, "killed at call %d: neither the old nor the new (%d)", n, is);
        ck_assert(code || is == 2);
        seen |= is;
    }
    ck_assert_int_eq(seen, 3);
}

static yk_job *open_job(void)
{
    return yk_open(&(yk_config){.devices = "cpu:0", .quiet = true, .seed = 3});
}

/* ---- A model ---- */

/* FOLDER/NAME: a model of that many hidden units, with a tokenizer's file and one of another's. */
static int model_make(int hidden)
{
    char config[64], dir[96];
    yk_job *job = open_job();
    snprintf(config, sizeof config, "input_size=6,num_labels=3,hidden=%d", hidden);
    snprintf(dir, sizeof dir, "%s/%d", folder, hidden);
    yk_model_save(yk_model_new(job, "mlp", config, NULL), dir);
    return yk_close(job);
}

static void model_reset(void)
{
    shell_run("rm -rf %s && cp -r %s/4 %s", place, folder, place);
}

static int model_save(int n)
{
    char from[96];
    yk_job *job = open_job();
    snprintf(from, sizeof from, "%s/7", folder);
    yk_model *m = yk_model_from_pretrained(job, from, NULL, NULL);
    calls_left = n;
    yk_model_save(m, place);
    calls_left = -1;
    return yk_close(job);
}

static bool text_is(const char *name, const char *want)
{
    char path[160], text[32] = "";
    snprintf(path, sizeof path, "%s/%s", place, name);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    return n == strlen(want) && !strcmp(text, want);
}

static int model_which(void)
{
    yk_job *job = open_job();
    yk_model *m = yk_model_from_pretrained(job, place, NULL, NULL);
    int64_t hidden = m && yk_ok(job) ? yk_dim(yk_param_find(job, "fc1.weight"), 0) : 0;
    if (!yk_ok(job) && strstr(yk_error_text(job), "interrupted"))
        hidden = -1;
    yk_close(job);
    const bool former = text_is("tokenizer.json", "four\n"), any = former || !text_is("tokenizer.json", "");
    if (hidden == 4 && text_is("vocab.txt", "four\n") && former)
        return 1;
    return hidden == 7 && text_is("vocab.txt", "seven\n") && !any ? 2 : (int)hidden;
}

static int model_verify(int unused)
{
    int is = model_which();
    (void)unused;
    if (is != -1)
        return is;
    /* as the error says */
    shell_run("cd %s/.yoke-save && for f in *.yoke-gone; do rm -f \"$f\" ../\"${f%%.yoke-gone}\"; done; mv * ..; cd .. && rmdir .yoke-save",
              place);
    return model_which() == 2 ? 2 : 9;
}

START_TEST(a_model)
{
    strcpy(folder, "/tmp/yoke-kill-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(place, sizeof place, "%s/model", folder);
    ck_assert_int_eq(fork_run(model_make, 4), 0);
    ck_assert_int_eq(fork_run(model_make, 7), 0);
    shell_run("cd %s; echo four | tee 4/vocab.txt >4/tokenizer.json; echo seven >7/vocab.txt", folder); /* tokenizer.json is read first */
    kill_everywhere(model_reset, model_save, model_verify);
    shell_run("rm -rf %s", folder);
}
END_TEST

/* A program that stages files of its own loses no other, but one that it names. */
START_TEST(a_commit_leaves_unstaged_files)
{
    strcpy(folder, "/tmp/yoke-kill-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(place, sizeof place, "%s/model", folder);
    shell_run("mkdir %s && cd %s && for f in tokenizer.json tokenizer_config.json vocab.txt generation_config.json merges.txt; do "
              "echo old >$f; done", place, place);
    yk_job *job = open_job();
    const char *stage = yk_stage_begin(job, place);
    ck_assert_ptr_nonnull(stage);
    shell_run("cd %s && echo new | tee config.json >tokenizer_config.json && : >merges.txt.yoke-gone", stage);
    yk_stage_commit(job, place);
    ck_assert_int_eq(yk_close(job), 0);
    ck_assert(text_is("tokenizer.json", "old\n") && text_is("vocab.txt", "old\n") && text_is("generation_config.json", "old\n"));
    ck_assert(text_is("config.json", "new\n") && text_is("tokenizer_config.json", "new\n"));
    shell_run("cd %s && test \"$(ls -A | wc -l)\" = 5", place);
    shell_run("rm -rf %s", folder);
}
END_TEST

/* A save that was interrupted is finished by the next one into that folder. */
START_TEST(a_model_saved_after_a_kill)
{
    strcpy(folder, "/tmp/yoke-kill-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(place, sizeof place, "%s/model", folder);
    ck_assert_int_eq(fork_run(model_make, 4), 0);
    ck_assert_int_eq(fork_run(model_make, 7), 0);
    shell_run("cd %s; echo four >4/tokenizer.json; echo seven >7/vocab.txt", folder);
    for (int n = 0; n < 40; n += 3) {
        model_reset();
        fork_run(model_save, n);
        ck_assert_int_eq(fork_run(model_save, -1), 0);
        ck_assert_int_eq(fork_run(model_verify, 0), 2);
        shell_run("test -z \"$(ls -A %s | grep yoke-save)\"", place);
    }
    shell_run("rm -rf %s", folder);
}
END_TEST

/* ---- A checkpoint that is there already ---- */

static yk_opt *one_step(yk_job *job, yk_opt *opt)
{
    const int64_t dim = 8;
    yk_t w = opt ? yk_param_find(job, "w") : yk_param(job, "w", 1, &dim, (yk_init){YK_INIT_ONES, 0, 0});
    opt = opt ? opt : yk_sgd(job, &(yk_sgd_config){.lr = 0.1, .momentum = 0.9});
    yk_backward(yk_sum(yk_mul(w, w), 1, false));
    yk_step(opt);
    return opt;
}

static void checkpoint_reset(void)
{
    shell_run("rm -rf %s %s.yoke-tmp %s.yoke-old && cp -r %s/first %s && echo mine >%s/notes", place, place, place, folder, place, place);
}

static int checkpoint_first(int unused)
{
    char dir[96];
    yk_job *job = open_job();
    (void)unused;
    snprintf(dir, sizeof dir, "%s/first", folder);
    one_step(job, NULL);
    yk_save(job, dir);
    return yk_close(job);
}

static int checkpoint_save(int n)
{
    yk_job *job = open_job();
    one_step(job, one_step(job, NULL));
    calls_left = n;
    yk_save(job, place);
    calls_left = -1;
    return yk_close(job);
}

static int checkpoint_verify(int unused)
{
    yk_job *job = open_job();
    yk_opt *opt = one_step(job, NULL);
    (void)unused;
    yk_load(job, place);
    int steps = yk_ok(job) ? (int)yk_steps(opt) : 9;
    yk_close(job);
    return steps;
}

START_TEST(a_checkpoint)
{
    strcpy(folder, "/tmp/yoke-kill-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(place, sizeof place, "%s/checkpoint", folder);
    ck_assert_int_eq(fork_run(checkpoint_first, 0), 0);
    kill_everywhere(checkpoint_reset, checkpoint_save, checkpoint_verify);
    ck_assert(text_is("notes", "mine\n")); /* a foreign file stays in a checkpoint that is written again */
    for (int n = 0; n < 40; n += 3) {      /* and what a kill left is cleared by the next save */
        checkpoint_reset();
        no_exchange = n % 2;
        fork_run(checkpoint_save, n);
        ck_assert_int_eq(fork_run(checkpoint_save, -1), 0);
        ck_assert_int_eq(fork_run(checkpoint_verify, 0), 2);
        shell_run("test \"$(ls -d %s*)\" = %s", place, place);
    }
    shell_run("rm -rf %s", folder);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("kill");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_model);
    tcase_add_test(t, a_commit_leaves_unstaged_files);
    tcase_add_test(t, a_model_saved_after_a_kill);
    tcase_add_test(t, a_checkpoint);
    return suite_run("job_kill", t);
}
