/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a job forks, and the fork calls the library: each of its calls fails with the reason, and the job trains to the bits of an
 * undisturbed one. Without a launcher this is the test; as a rank it runs the mode of its arguments: MODE FOLDER.
 */
#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

#define DEVICES "cpu:0! cpu:0!"

enum { STEPS = 6, WIDTH = 8, CODE = 7 };

static const char reason[] = "the job belongs to the process that opened it, and this process is a fork of that";

static void child_check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "in the fork: %s\n", what);
    fflush(stdout);
    _exit(1);
}

/* What a loop of the user, or a destructor of a binding, would call in a fork. */
static void child_call(yk_job *job, yk_t w, const char *mode)
{
    float v[WIDTH * WIDTH];
    double number = 1;
    if (!strcmp(mode, "opens")) {
        yk_job *other = yk_open(&(yk_config){.quiet = true});
        child_check(strstr(yk_error_text(other), "this process is a fork of rank"), yk_error_text(other));
        child_check(yk_close(other) == 2, "yk_close of a job that did not open");
        _exit(CODE);
    }
    child_check(!yk_ok(job) && yk_error_status(job) == YK_E_ARG && strstr(yk_error_text(job), reason), "the job is well");
    yk_barrier(job);
    yk_all_reduce_sum(job, &number, 1);
    yk_param_read(w, v, WIDTH * WIDTH);
    yk_end(job);
    child_check(number == 1, "a sum over ranks");
    child_check(yk_item(yk_sum(w, 3, false)) != yk_item(yk_sum(w, 3, false)), "a value");
    child_check(strstr(yk_error_text(job), reason), yk_error_text(job));
    yk_cancel(job);
    yk_fail(job, YK_E_ARG, "the fork's own words");
    child_check(yk_close(job) == 2, "yk_close of the parent's job");
    exit(CODE);
}

static void child_make(yk_job *job, yk_t w, const char *mode)
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (!child)
        child_call(job, w, mode);
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != CODE)
        yk_fail(job, YK_E_INTERNAL, "the fork ended otherwise");
}

static int rank_main(const char *mode)
{
    const int64_t dim[2] = {4, WIDTH};
    float v[4 * WIDTH];
    yk_job *job = yk_open(&(yk_config){.quiet = true, .seed = 9, .shares = "equal"});
    yk_t w = yk_param(job, "w", 2, (const int64_t[]){WIDTH, WIDTH}, (yk_init){YK_INIT_UNIFORM, -1, 1});
    yk_opt *opt = yk_adamw(job, &(yk_adam_config){.lr = 0.01});
    for (int step = 0; step < STEPS && yk_ok(job); step++) {
        for (int i = 0; i < 4 * WIDTH; i++)
            v[i] = (float)((i + step + (int)yk_rank(job)) % 7) - 3.0f;
        const yk_t y = yk_matmul(yk_input(job, YK_F32, 2, dim, v), w);
        yk_backward(yk_mean(yk_mul(y, y), 3, false));
        if (step == 2 && strcmp(mode, "plain"))
            child_make(job, w, mode); /* within a step */
        yk_step(opt);
        if (step == 3 && strcmp(mode, "plain"))
            child_make(job, w, mode);
    }
    const uint64_t hash = yk_param_hash(job);
    yk_warn(job, "hash %016llx", (unsigned long long)hash);
    return yk_close(job);
}

static void ranks_train(const char *mode, char hash[22])
{
    char said[8192];
    const int code = ranks_run(DEVICES, mode, said, sizeof said);
    const char *found = strstr(said, "hash ");
    ck_assert_msg(code == 0 && found, "%s: exit code %d: %s", mode, code, said);
    ck_assert_msg(!strstr(said, "in the fork:"), "%s: %s", mode, said);
    snprintf(hash, 22, "%.21s", found);
}

START_TEST(calls_of_a_fork_do_not_reach_the_job)
{
    char plain[22], calls[22], opens[22];
    ranks_train("plain", plain);
    ranks_train("calls", calls);
    ranks_train("opens", opens);
    ck_assert_str_eq(calls, plain);
    ck_assert_str_eq(opens, plain);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1]);
    if (TEST_UNDER_ASAN || TEST_UNDER_TSAN) {
        printf("1..0 # SKIP a sanitizer's runtime is not made for forks of a program with threads\n");
        return 0;
    }
    TCase *t = tcase_create("forks");
    tcase_add_checked_fixture(t, ranks_folder_make, ranks_folder_remove);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    tcase_add_test(t, calls_of_a_fork_do_not_reach_the_job);
    return suite_run("forked_rank", t);
}
