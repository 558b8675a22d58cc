/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank dies, stops or leaves while the job writes a checkpoint over an older one, or the launcher dies: the folder holds the old
 * checkpoint whole, or the new one where rank 0, which commits it, lives on; and every rank that is left says which one it was. So does
 * the end of a rank in the middle of the slices that it writes, or a disk that is full there: then the old one stays.
 * (tests/unit/job/kill.c kills one process at each of a save's file operations.)
 *
 * Without a launcher this is the test; as a rank it trains: VICTIM-HOW FOLDER, or "load" FOLDER, which opens what is there.
 */
#include <yoke/yoke.h>

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/support/ranks.h"
#include "tests/support/sanitize.h"

enum { RANKS = 3, ROWS = 4, WIDTH = 8192, CLASSES = 8, SAID = 2048, LAUNCHER = RANKS, LEFT = 3, UNHURT = 9 };

typedef struct net {
    yk_job *job;
    yk_t weight;
    yk_opt *opt;
    uint32_t victim; /* LAUNCHER: no rank */
    int signal;      /* the signal that it gets */
    bool writes;     /* it gets it in the middle of its slices */
    const char *folder;
} net;

/* A survivor's report to the test. */
typedef struct last_words {
    double seconds; /* from the death on */
    char text[512];
} last_words;

static void net_make(net *m, const char *folder)
{
    m->folder = folder;
    m->job = yk_open(&(yk_config){.seed = 3, .quiet = true, .shares = "equal"});
    m->weight = yk_param(m->job, "weight", 2, (int64_t[]){CLASSES, WIDTH}, (yk_init){YK_INIT_NORMAL, 0, 0.1f});
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
    yk_backward(yk_cross_entropy(yk_linear(points, m->weight, YK_NO), yk_input(m->job, YK_I32, 1, &n, label)));
    yk_step(m->opt);
}

/* On rank 0, when the tensors of the new checkpoint are written and it does not count yet. */
static void victim_kill(void *object, const char *dir)
{
    const net *m = object;
    char path[160];
    double now = ranks_now();
    pid_t pid = 0;
    (void)dir;
    snprintf(path, sizeof path, "%s/pid.%u", m->folder, m->victim);
    FILE *f = fopen(path, "rb");
    if (m->victim == LAUNCHER)
        kill(getppid(), m->signal);
    else if (f && fread(&pid, sizeof pid, 1, f) == 1 && pid > 0) {
        ranks_write(m->folder, "death", 0, &now, sizeof now);
        kill(pid, m->signal);
    }
    if (f)
        fclose(f);
}

static const net *writing; /* in a rank that breaks while it writes slices */

/* The second range of the save that counts: the first one is of the parameters, and this one of a moment. */
ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    static int ranges;
    const double now = ranks_now();
    if (writing && at && ++ranges == 2) {
        ranks_write(writing->folder, "death", 0, &now, sizeof now);
        if (!writing->signal) {
            errno = ENOSPC;
            return -1;
        }
        raise(writing->signal);
    }
    return syscall(SYS_pwrite64, fd, data, n, at);
}

static void words_write(const net *m)
{
    last_words words = {.seconds = 0};
    double death = 0;
    char path[160];
    snprintf(path, sizeof path, "%s/death.0", m->folder);
    FILE *f = fopen(path, "rb");
    if (f && fread(&death, sizeof death, 1, f) == 1)
        words.seconds = ranks_now() - death;
    if (f)
        fclose(f);
    snprintf(words.text, sizeof words.text, "%s", yk_error_text(m->job));
    ranks_write(m->folder, "words", yk_rank(m->job), &words, sizeof words);
}

/* A rank that ends by itself, in the middle of whatever it does. */
static void leave_now(int signal)
{
    (void)signal;
    _exit(LEFT);
}

static int rank_train(const char *what, const char *folder)
{
    net m = {.victim = (uint32_t)atoi(what), .signal = atoi(strchr(what, '-') + 1), .writes = strstr(what, "writes")};
    const pid_t pid = getpid();
    char checkpoint[160];
    uint64_t hash[2];
    signal(SIGUSR1, leave_now);
    signal(SIGTERM, SIG_IGN); /* the launcher's first hint that all is over: there is something to write yet */
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    net_make(&m, folder);
    ranks_write(folder, "pid", yk_rank(m.job), &pid, sizeof pid);
    net_step(&m);
    hash[0] = yk_param_hash(m.job);
    yk_save(m.job, checkpoint);
    net_step(&m);
    hash[1] = yk_param_hash(m.job);
    if (yk_rank(m.job) == 0)
        ranks_write(folder, "hash", 0, hash, sizeof hash);
    yk_barrier(m.job);
    if (!m.writes)
        yk_on_save(m.job, &m, victim_kill);
    writing = m.writes && m.victim == yk_rank(m.job) ? &m : NULL;
    if (yk_ok(m.job))
        yk_save(m.job, checkpoint);
    if (writing && yk_ok(m.job)) /* it owned too little: no case may wait for such an end */
        _exit(UNHURT);
    while (yk_ok(m.job)) /* a rank that has nothing to write may have done its part of the save */
        net_step(&m);
    words_write(&m);
    return yk_close(m.job);
}

static int rank_load(const char *folder)
{
    net m;
    char checkpoint[160];
    uint64_t hash;
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", folder);
    net_make(&m, folder);
    yk_load(m.job, checkpoint);
    hash = yk_param_hash(m.job);
    if (yk_ok(m.job))
        ranks_write(folder, "loaded", 0, &hash, sizeof hash);
    return yk_close(m.job);
}

/* ---- Tests -------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *transport, *what; /* its number and its signal */
    const char *words;
} cases[] = {
    {"shm", "0-9", "was killed by signal 9"},   {"shm", "1-9", "was killed by signal 9"},  {"local", "0-9", "was killed by signal 9"},
    {"local", "2-9", "was killed by signal 9"}, {"shm", "1-19", "was stopped"},            {"shm", "0-6", "was killed by signal 6"},
    {"local", "2-10", "ended with exit code 3"},
    {"shm", "1-9-writes", "was killed by signal 9"},   {"local", "2-9-writes", "was killed by signal 9"},
    {"shm", "0-9-writes", "was killed by signal 9"},   {"local", "1-19-writes", "was stopped"},
    {"shm", "1-0-writes", "optimizer.safetensors: writing failed: No space left on device"},
};

/* expected: in the error of each rank that lives on. */
static void check_words(uint32_t victim, const char *expected, bool lives)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        last_words words;
        if (r == victim && !lives)
            continue;
        ranks_read("words", r, &words, sizeof words);
        ck_assert_msg(strstr(words.text, expected), "rank %u says of the end of rank %u: '%s'", r, victim, words.text);
        ck_assert_msg(words.seconds < (TEST_UNDER_ASAN ? 10 : 2.5), "rank %u hears of it after %.2f s", r, words.seconds);
    }
}

/* Rank 0 takes the new checkpoint's files away, if it lives on. */
static void check_remains(void)
{
    char path[160];
    snprintf(path, sizeof path, "%s/checkpoint.yoke-tmp", ranks_folder);
    ck_assert_msg(access(path, F_OK) != 0, "%s was left", path);
}

static void check_checkpoint(bool may_be_new)
{
    char said[SAID];
    uint64_t hash[2], loaded = 0;
    ranks_read("hash", 0, hash, sizeof hash);
    ck_assert_msg(ranks_run("cpu:0!", "load", said, sizeof said) == 0, "%s", said);
    ranks_read("loaded", 0, &loaded, sizeof loaded);
    ck_assert_msg(loaded == hash[0] || (may_be_new && loaded == hash[1]), "the checkpoint is neither the old nor the new one");
}

START_TEST(a_death_in_a_save_leaves_a_whole_checkpoint)
{
    const uint32_t victim = (uint32_t)atoi(cases[_i].what);
    const bool writes = strstr(cases[_i].what, "writes"), lives = strstr(cases[_i].what, "-0-");
    char said[SAID], name[128];
    ranks_folder_make();
    setenv("YOKE_TRANSPORT", cases[_i].transport, 1);
    ck_assert_msg(ranks_run("cpu:0! cpu:0! cpu:0!", cases[_i].what, said, sizeof said) == 1, "%s", said);
    snprintf(name, sizeof name, "rank %u (cpu:0!)", victim);
    ck_assert_msg(strstr(said, name) && strstr(said, cases[_i].words), "%s", said);
    check_words(victim, lives ? cases[_i].words : name, lives);
    if (victim > 0)
        check_remains();
    check_checkpoint(victim > 0 && !writes);
    ranks_folder_remove();
}
END_TEST

/* All ranks are gone soon after their launcher, which is no rank and writes nothing. */
START_TEST(launcher_killed_in_a_save)
{
    char said[SAID], what[16];
    double begin;
    ranks_folder_make();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans come to this process */
    snprintf(what, sizeof what, "%d-%d", LAUNCHER, SIGKILL);
    ck_assert_int_eq(ranks_run("cpu:0! cpu:0! cpu:0!", what, said, sizeof said), -1);
    begin = ranks_now();
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    ck_assert_msg(ranks_now() - begin < (TEST_UNDER_ASAN ? 10 : 2.5), "a rank lived on for %.2f s", ranks_now() - begin);
    check_checkpoint(true);
    ranks_folder_remove();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return strcmp(argv[1], "load") ? rank_train(argv[1], argv[2]) : rank_load(argv[2]);
    TCase *t = tcase_create("killed_save");
    tcase_add_loop_test(t, a_death_in_a_save_leaves_a_whole_checkpoint, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, launcher_killed_in_a_save);
    tcase_set_timeout(t, RANKS_TIMEOUT);
    return suite_run("killed_save", t);
}
