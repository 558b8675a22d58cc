/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emergency checkpoints: a rank dies at any instant of a step, and what those that are left write is, byte for byte, what yk_save
 * wrote after that step or the one before in a training that nobody disturbed: parameters, moments, running statistics, the
 * schedule, and the user's own bytes. One process opens it and goes on.
 *
 * Without a launcher this is the test; as a rank it trains: MODE FOLDER, where MODE is "whole", or an instant of the last step; with
 * "single-" before it the others are excluded meanwhile, with "half-" products read 16-bit weights, which are once per host.
 */
#include <yoke/yoke.h> /* before core/job/job.h: calls record their line here */

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <sys/stat.h>

#include "core/job/job.h"
#include "core/run/engine.h"
#include "tests/support/own_roles.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { ROWS = 6, STEPS = 7, WIDTH = 64, CLASSES = 64, VICTIM = 1, LAST = 5,
       HIDDEN = TEST_UNDER_TSAN ? 300 : 1500 /* a step takes as long */ };

/* ---- Ranks -------------------------------------------------------------------------------------------------------- */

typedef struct net {
    yk_job *job;
    yk_t in, gamma, beta, out;
    yk_batch_norm_state running;
    yk_opt *opt;
    yk_sched *sched;
    int64_t counted; /* the user's own: steps */
} net;

static yk_t new_vector(yk_job *job, const char *name, yk_init_kind kind)
{
    const int64_t n = HIDDEN;
    return yk_param(job, name, 1, &n, (yk_init){kind, 0, 0});
}

static bool is_half;

static void make_net(net *m)
{
    const int64_t in[2] = {HIDDEN, WIDTH}, out[2] = {CLASSES, HIDDEN}, width = HIDDEN;
    m->job = yk_open(&(yk_config){.quiet = true, .seed = 9, .precision = is_half ? YK_BF16 : YK_F32});
    m->in = yk_param(m->job, "in", 2, in, (yk_init){YK_INIT_NORMAL, 0, 0.1f});
    m->out = yk_param(m->job, "out", 2, out, (yk_init){YK_INIT_NORMAL, 0, 0.1f});
    m->gamma = new_vector(m->job, "gamma", YK_INIT_ONES);
    m->beta = new_vector(m->job, "beta", YK_INIT_ZEROS);
    m->running = (yk_batch_norm_state){yk_state(m->job, "mean", YK_F32, 1, &width, 0),
                                       yk_state(m->job, "var", YK_F32, 1, &width, 1), YK_NO};
    m->opt = yk_adamw(m->job, &(yk_adam_config){.lr = 0.02, .weight_decay = 0.1});
    m->sched = yk_schedule(m->opt, &(yk_sched_config){.name = "linear", .total_steps = STEPS});
    yk_register_for_checkpointing(m->job, "counted", &m->counted, sizeof m->counted);
}

static bool is_single; /* the victim trains, and the others are excluded, from the second step on */

static void set_roles(yk_job *job)
{
    yk_error err = YK_ERROR_INIT;
    own_roles roles = own_roles_of(job->engine, yk_world_size(job));
    for (uint32_t r = 0; r < yk_world_size(job); r++) {
        roles.member[r] = r == VICTIM;
        roles.owns[r] = r == VICTIM ? 1.0 : 0.0;
    }
    if (own_roles_set(job->engine, &roles, &err))
        yk_fail(job, err.status, err.text);
}

static void train_step(net *m, int s)
{
    static float x[ROWS * WIDTH];
    int32_t y[ROWS], row[ROWS];
    const bool all = yk_rank(m->job) == VICTIM;
    const int64_t even = ROWS / (int64_t)yk_world_size(m->job), n = !is_single || s < 2 ? even : all ? ROWS : 0;
    const int64_t first = n == even ? n * yk_rank(m->job) : 0;
    const int64_t plain[2] = {n, WIDTH}, image[4] = {n, HIDDEN, 1, 1}, flat[2] = {n, HIDDEN};
    for (int64_t i = 0; i < n; i++) {
        row[i] = (int32_t)(first + i);
        y[i] = (row[i] + s) % CLASSES;
        for (int64_t k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = (float)((row[i] * 37 + s * 11 + k * 13) % 64) / 32.0f - 1.0f;
    }
    if (is_single && s == 2)
        set_roles(m->job);
    yk_set_rows(m->job, n, row, ROWS);
    yk_t h = yk_linear(yk_input(m->job, YK_F32, 2, plain, x), m->in, YK_NO);
    h = yk_batch_norm(yk_reshape(h, 4, image), m->gamma, m->beta, m->running, 0, 1e-5f);
    h = yk_linear(yk_relu(yk_reshape(h, 2, flat)), m->out, YK_NO);
    yk_backward(yk_cross_entropy(h, yk_input(m->job, YK_I32, 1, &n, y)));
    yk_step(m->opt);
    yk_sched_step(m->sched);
    m->counted++;
}

static int train_whole(const char *folder)
{
    net m = {0};
    char path[128];
    make_net(&m);
    for (int s = 1; s <= STEPS && yk_ok(m.job); s++) {
        train_step(&m, s);
        snprintf(path, sizeof path, "%s/step-%d", folder, s);
        yk_save(m.job, path);
    }
    return yk_close(m.job);
}

typedef struct death {
    const yk__snapshot *snapshot;
    uint64_t number; /* the snapshot that is about to be made */
    useconds_t later;
} death;

/* Its record changes when it begins to write. */
static void *die_keeping(void *arg)
{
    const death *d = arg;
    const yk__snapshot_record *own = yk__snapshot_record_of(d->snapshot, (int)(d->number % 2), VICTIM);
    while (atomic_load(&own->number) == d->number - 2)
        ;
    raise(SIGKILL);
    return NULL;
}

static void *die_later(void *arg)
{
    usleep(((death *)arg)->later);
    raise(SIGKILL);
    return NULL;
}

/* In the last step it dies at the end, if not before. */
static int train_to_death(const char *instant, int last, const char *folder)
{
    net m = {0};
    pthread_t thread;
    death d = {.number = (uint64_t)last - 1, .later = (useconds_t)atoi(instant)};
    const bool dies = !strcmp(getenv("YOKE_RANK"), "1");
    (void)folder;
    make_net(&m);
    d.snapshot = &m.job->engine->snapshot;
    for (int s = 1; s <= STEPS && yk_ok(m.job); s++) {
        if (s == last && dies && strcmp(instant, "between"))
            pthread_create(&thread, NULL, strcmp(instant, "keeping") ? die_later : die_keeping, &d);
        train_step(&m, s);
        if (s == last && dies)
            raise(SIGKILL);
    }
    return yk_close(m.job);
}

/* The job continues, as it does for members that have not heard of its end: a claimed step stays. */
static int train_with_claim(void)
{
    enum { KEPT = HIDDEN * WIDTH };
    static float before[KEPT];
    net m = {0};
    int copy = -1;
    make_net(&m);
    for (int s = 1; s <= STEPS && yk_ok(m.job); s++) {
        train_step(&m, s);
        if (s == 3 && yk_rank(m.job) == 0) {
            copy = yk__snapshot_claim(&m.job->engine->snapshot);
            if (copy < 0)
                yk_fail(m.job, YK_E_INTERNAL, "no whole step after the third");
            else
                memcpy(before, yk__snapshot_param(&m.job->engine->snapshot, copy, 0), sizeof before);
        }
    }
    if (copy >= 0 && memcmp(before, yk__snapshot_param(&m.job->engine->snapshot, copy, 0), sizeof before))
        yk_fail(m.job, YK_E_INTERNAL, "the step that was claimed is another one now");
    return yk_close(m.job);
}

static int rank_main(const char *mode, const char *folder)
{
    if (!strcmp(mode, "claimed"))
        return train_with_claim();
    is_half = !strncmp(mode, "half-", 5);
    mode += is_half ? 5 : 0;
    is_single = !strncmp(mode, "single-", 7);
    mode += is_single ? 7 : 0;
    return !strcmp(mode, "whole") ? train_whole(folder) : train_to_death(mode, LAST, folder);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static const char devices[] = "cpu:0! cpu:0! cpu:0!";

static char *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    char *data;
    ck_assert_msg(f && !fstat(fileno(f), &st), "%s is not there", path);
    data = malloc((size_t)st.st_size + 1);
    *bytes = fread(data, 1, (size_t)st.st_size, f);
    fclose(f);
    return data;
}

static void expect_same_file(const char *saved, const char *whole, const char *name, const char *instant)
{
    char path[192];
    size_t n, other;
    char *a, *b;
    snprintf(path, sizeof path, "%s/%s", saved, name);
    a = read_file(path, &n);
    snprintf(path, sizeof path, "%s/%s", whole, name);
    b = read_file(path, &other);
    ck_assert_msg(n == other && !memcmp(a, b, n), "%s of %s differs, after a death at %s", name, whole, instant);
    free(a);
    free(b);
}

static json_t *read_state(const char *folder)
{
    char path[192];
    json_t *state;
    snprintf(path, sizeof path, "%s/trainer_state.json", folder);
    state = json_load_file(path, 0, NULL);
    ck_assert_msg(state != NULL, "%s: no state", path);
    return state;
}

/* Returns the step that was saved. */
static int expect_one_step(const char *instant)
{
    static const char *const same[] = {"micro_step", "seed", "optimizer", "data", "files", "accumulate"};
    char saved[64], whole[64];
    json_t *state, *other;
    int step;
    snprintf(saved, sizeof saved, "%s/saved", ranks_folder);
    state = read_state(saved);
    step = (int)json_integer_value(json_object_get(state, "global_step"));
    ck_assert_msg(step == LAST - 2 || step == LAST - 1, "step %d was saved after a death in step %d (%s)", step, LAST, instant);
    snprintf(whole, sizeof whole, "%s/step-%d", ranks_folder, step);
    expect_same_file(saved, whole, "model.safetensors", instant);
    expect_same_file(saved, whole, "optimizer.safetensors", instant);
    expect_same_file(saved, whole, "registered.safetensors", instant);
    other = read_state(whole);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(json_equal(json_object_get(state, same[i]), json_object_get(other, same[i])), "%s: %s differs", instant, same[i]);
    json_decref(state);
    json_decref(other);
    return step;
}

static void run_to_death(const char *instant)
{
    char said[4096], command[96];
    snprintf(command, sizeof command, "rm -rf %s/saved", ranks_folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(ranks_run(devices, instant, said, sizeof said) == 1, "%s: %s", instant, said);
    ck_assert_msg(strstr(said, "rank 1 (cpu:0!) was killed by signal 9"), "%s: %s", instant, said);
    ck_assert_msg(strstr(said, "the last whole one"), "%s: %s", instant, said);
}

/* One process takes it up, and can go on. */
static void expect_going_on(int step)
{
    net m = {0};
    char saved[64];
    snprintf(saved, sizeof saved, "%s/saved", ranks_folder);
    unsetenv("YOKE_EMERGENCY_CHECKPOINT");
    setenv("YOKE_DEVICES", "cpu:0", 1);
    make_net(&m);
    yk_load(m.job, saved);
    ck_assert_uint_eq(yk_steps(m.opt), (uint64_t)step);
    ck_assert_int_eq(m.counted, step);
    train_step(&m, step + 1);
    ck_assert_msg(yk_ok(m.job), "%s", yk_error_text(m.job));
    ck_assert_int_eq(yk_close(m.job), 0);
}

START_TEST(what_is_left_is_one_step)
{
    static const char *const instants[] = {"between", "keeping", "0", "1000", "keeping", "300", "3000"}; /* four under a sanitizer */
    char said[4096], saved[64];
    int step = 0;
    ranks_folder_make();
    ck_assert_msg(ranks_run(devices, "whole", said, sizeof said) == 0, "%s", said);
    snprintf(saved, sizeof saved, "%s/saved", ranks_folder);
    setenv("YOKE_EMERGENCY_CHECKPOINT", saved, 1);
    for (size_t i = 0; i < (TEST_UNDER_TSAN || TEST_UNDER_ASAN ? 4 : sizeof instants / sizeof *instants); i++) {
        run_to_death(instants[i]);
        step = expect_one_step(instants[i]);
    }
    expect_going_on(step);
    ranks_folder_remove();
}
END_TEST

START_TEST(excluded_ranks_write_what_the_only_member_left)
{
    static const char *const instants[] = {"single-between", "single-keeping", "single-300"};
    char said[4096], saved[64];
    ranks_folder_make();
    ck_assert_msg(ranks_run(devices, "single-whole", said, sizeof said) == 0, "%s", said);
    snprintf(saved, sizeof saved, "%s/saved", ranks_folder);
    setenv("YOKE_EMERGENCY_CHECKPOINT", saved, 1);
    for (size_t i = 0; i < sizeof instants / sizeof *instants; i++) {
        run_to_death(instants[i]);
        expect_one_step(instants[i]);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(weights_of_16_bits_leave_no_trace)
{
    static const char *const instants[] = {"half-between", "half-keeping", "half-single-keeping"};
    char said[4096], saved[64], whole[32];
    ranks_folder_make();
    snprintf(saved, sizeof saved, "%s/saved", ranks_folder);
    for (size_t i = 0; i < sizeof instants / sizeof *instants; i++) {
        snprintf(whole, sizeof whole, "half-%swhole", i == 2 ? "single-" : "");
        unsetenv("YOKE_EMERGENCY_CHECKPOINT");
        ck_assert_msg(i == 1 || ranks_run(devices, whole, said, sizeof said) == 0, "%s", said);
        setenv("YOKE_EMERGENCY_CHECKPOINT", saved, 1);
        run_to_death(instants[i]);
        expect_one_step(instants[i]);
    }
    ranks_folder_remove();
}
END_TEST

START_TEST(what_is_claimed_is_not_written_over)
{
    char said[4096], saved[64];
    ranks_folder_make();
    snprintf(saved, sizeof saved, "%s/saved", ranks_folder);
    setenv("YOKE_EMERGENCY_CHECKPOINT", saved, 1);
    ck_assert_msg(ranks_run(devices, "claimed", said, sizeof said) == 0, "%s", said);
    ranks_folder_remove();
}
END_TEST

/* Errors come before the first step; an empty folder still exists afterwards. */
START_TEST(a_place_that_takes_no_checkpoint_is_refused)
{
    char said[4096], file[64], folder[64];
    struct stat st;
    ranks_folder_make();
    setenv("YOKE_EMERGENCY_CHECKPOINT", "/proc/nodir", 1);
    ck_assert_int_ne(ranks_run(devices, "whole", said, sizeof said), 0);
    ck_assert_msg(strstr(said, "YOKE_EMERGENCY_CHECKPOINT: /proc/nodir.yoke-tmp: cannot make the folder: No such file"), "%s", said);
    snprintf(file, sizeof file, "%s/file", ranks_folder);
    ck_assert_int_eq(fclose(fopen(file, "we")), 0);
    setenv("YOKE_EMERGENCY_CHECKPOINT", file, 1);
    ck_assert_int_ne(ranks_run(devices, "whole", said, sizeof said), 0);
    ck_assert_msg(strstr(said, "file: is no folder"), "%s", said);
    snprintf(folder, sizeof folder, "%s/new/folder", ranks_folder);
    setenv("YOKE_EMERGENCY_CHECKPOINT", folder, 1);
    ck_assert_msg(ranks_run(devices, "whole", said, sizeof said) == 0, "%s", said);
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    setenv("YOKE_EMERGENCY_CHECKPOINT", folder, 1);
    ck_assert_msg(ranks_run(devices, "whole", said, sizeof said) == 0, "%s", said);
    ck_assert(!stat(folder, &st) && S_ISDIR(st.st_mode));
    ranks_folder_remove();
}
END_TEST

START_TEST(ranks_without_common_memory_are_refused)
{
    char said[4096];
    ranks_folder_make();
    setenv("YOKE_EMERGENCY_CHECKPOINT", "saved", 1);
    setenv("YOKE_TRANSPORT", "local", 1);
    ck_assert_int_ne(ranks_run(devices, "whole", said, sizeof said), 0);
    ck_assert_msg(strstr(said, "YOKE_EMERGENCY_CHECKPOINT") && strstr(said, "no memory in common"), "%s", said);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return rank_main(argv[1], argv[2]);
    TCase *t = tcase_create("emergency");
    tcase_add_test(t, what_is_left_is_one_step);
    tcase_add_test(t, excluded_ranks_write_what_the_only_member_left);
    tcase_add_test(t, weights_of_16_bits_leave_no_trace);
    tcase_add_test(t, what_is_claimed_is_not_written_over);
    tcase_add_test(t, a_place_that_takes_no_checkpoint_is_refused);
    tcase_add_test(t, ranks_without_common_memory_are_refused);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("emergency", t);
}
