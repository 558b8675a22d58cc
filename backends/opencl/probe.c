/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers tried in a child process. A driver may abort or hang when it is loaded or first compiles, and that must not
 * take the job with it. Each loader entry (*.icd) is tried alone by the helper program, all at the same time; when one
 * fails, OCL_ICD_VENDORS is pointed to a folder with the others. The helper is the option PROBE, or lies beside the
 * plugin; PROBE=none leaves this out. Nothing is forked: the children are spawned from the one thread that asks. The
 * verdicts are kept (survey.c), so that this happens once after a driver or the machine changed.
 */
#define _GNU_SOURCE
#include "backends/opencl/survey.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

#define HELPER "yoke-probe-opencl"
#define VENDORS "/etc/OpenCL/vendors"
#define MAX_ENTRIES 32
#define LIMIT_MS 30000 /* PoCL's first kernel takes seconds */

extern char **environ;

typedef struct entry {
    char path[300];
    pid_t pid; /* 0: not running */
    bool good;
} entry;

typedef struct entries {
    uint32_t n;
    entry e[MAX_ENTRIES];
} entries;

/* ---- Which entries ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static void entries_add(entries *list, const char *dir, const char *name)
{
    if (list->n == MAX_ENTRIES || !ends_with(name, ".icd"))
        return;
    entry *e = &list->e[list->n];
    int n = dir ? snprintf(e->path, sizeof e->path, "%s/%s", dir, name) : snprintf(e->path, sizeof e->path, "%s", name);
    if (n > 0 && (size_t)n < sizeof e->path)
        list->n++;
}

static void entries_find(entries *list)
{
    const char *where = getenv("OCL_ICD_VENDORS");
    list->n = 0;
    if (where && *where && ends_with(where, ".icd")) {
        entries_add(list, NULL, where);
        return;
    }
    where = where && *where ? where : VENDORS;
    DIR *d = opendir(where);
    if (!d)
        return;
    for (struct dirent *f = readdir(d); f; f = readdir(d))
        entries_add(list, where, f->d_name);
    closedir(d);
}

/* ---- The helper ---- */

static bool helper_at(char *path, size_t n, const char *dir, int dir_n, const char *rest)
{
    int k = snprintf(path, n, "%.*s/%s%s", dir_n, dir, rest, HELPER);
    return k > 0 && (size_t)k < n && access(path, X_OK) == 0;
}

static bool helper_find(char *path, size_t n)
{
    const char *option = ocl_option("PROBE");
    Dl_info info;
    if (option) {
        snprintf(path, n, "%s", option);
        return strcmp(option, "none") != 0;
    }
    if (!dladdr((void *)&ocl_host, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *dir = slash ? info.dli_fname : ".";
    int dir_n = slash ? (int)(slash - info.dli_fname) : 1;
    if (helper_at(path, n, dir, dir_n, "") || helper_at(path, n, dir, dir_n, "../"))
        return true;
    ocl_host->log(2, OCL_WHO, "no %s beside the plugin: drivers are loaded untried", HELPER);
    return false;
}

/* The environment with OCL_ICD_VENDORS set to one entry; free it with ocl_free. */
static char **helper_env(char *setting)
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = ocl_alloc((n + 2) * sizeof *env);
    size_t k = 0;
    for (size_t i = 0; env && i < n; i++)
        if (strncmp(environ[i], "OCL_ICD_VENDORS=", 16))
            env[k++] = environ[i];
    if (env)
        env[k] = setting;
    return env;
}

static void helper_start(entry *e, const char *helper)
{
    char setting[340], parent[24]; /* with which the helper ends */
    char *argv[] = {(char *)helper, parent, NULL};
    posix_spawn_file_actions_t actions;
    snprintf(setting, sizeof setting, "OCL_ICD_VENDORS=%s", e->path);
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    char **env = helper_env(setting);
    if (!env || posix_spawn_file_actions_init(&actions)) {
        ocl_free(env);
        return;
    }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&e->pid, helper, &actions, NULL, argv, env))
        e->pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    ocl_free(env);
}

static void helper_verdict(entry *e, int status)
{
    e->pid = 0;
    e->good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!e->good && WIFSIGNALED(status))
        ocl_host->log(1, OCL_WHO, "%s is not used: its driver died of signal %d when tried", e->path, WTERMSIG(status));
    else if (!e->good)
        ocl_host->log(1, OCL_WHO, "%s is not used: its driver failed when tried (exit %d)", e->path, WEXITSTATUS(status));
}

/* One look at all children; the number still running. */
static uint32_t helper_collect(entries *list)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        entry *e = &list->e[i];
        int status = 0;
        if (!e->pid)
            continue;
        pid_t r = waitpid(e->pid, &status, WNOHANG);
        if (r == e->pid)
            helper_verdict(e, status);
        else if (r < 0 && errno == ECHILD) { /* the program ignores SIGCHLD: nobody can tell */
            e->pid = 0;
            e->good = true;
        } else
            running++;
    }
    return running;
}

static int limit_ms(void)
{
    const char *option = ocl_option("PROBE_MS");
    return option ? atoi(option) : LIMIT_MS;
}

static void helper_wait(entries *list)
{
    const int limit = limit_ms();
    for (int ms = 0; helper_collect(list); ms += 2) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        if (ms < limit)
            continue;
        for (uint32_t i = 0; i < list->n; i++)
            if (list->e[i].pid) {
                ocl_host->log(1, OCL_WHO, "%s is not used: its driver gave no answer within %d ms when tried (YOKE_OPENCL_PROBE_MS)",
                              list->e[i].path, limit);
                kill(list->e[i].pid, SIGKILL);
                waitpid(list->e[i].pid, NULL, 0);
                list->e[i].pid = 0;
            }
    }
}

/* ---- Leaving out ---- */

static bool link_entry(const char *dir, const entry *e)
{
    char path[640];
    snprintf(path, sizeof path, "%s/%s", dir, strrchr(e->path, '/') ? strrchr(e->path, '/') + 1 : e->path);
    return symlink(e->path, path) == 0;
}

static void unlink_all(const char *dir, const entries *list)
{
    char path[640];
    for (uint32_t i = 0; i < list->n; i++) {
        const char *name = strrchr(list->e[i].path, '/');
        snprintf(path, sizeof path, "%s/%s", dir, name ? name + 1 : list->e[i].path);
        unlink(path);
    }
    rmdir(dir);
}

/* The folder is needed until the loader has read it: the caller removes it after the first call. */
static void entries_keep(const entries *list, char *dir, size_t n)
{
    const char *base = ocl_host->cache_dir();
    snprintf(dir, n, "%s/ocl-icd-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(dir)) {
        ocl_host->log(0, OCL_WHO, "cannot make %s: no OpenCL device is used", dir);
        setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
        dir[0] = 0;
        return;
    }
    for (uint32_t i = 0; i < list->n; i++)
        if (list->e[i].good && !link_entry(dir, &list->e[i]))
            ocl_host->log(1, OCL_WHO, "%s is not used: cannot link it in %s", list->e[i].path, dir);
    setenv("OCL_ICD_VENDORS", dir, 1);
}

static entries probed;
static char private_dir[320];
static uint64_t probe_key;
static bool probe_fresh; /* tried by this process */
static bool probe_reported;  /* which drivers are not used */

uint64_t ocl_probe_key(void)
{
    const char *path[MAX_ENTRIES];
    entries_find(&probed);
    probe_reported = false;
    for (uint32_t i = 0; i < probed.n; i++)
        path[i] = probed.e[i].path;
    probe_key = probed.n ? ocl_survey_key(path, probed.n) : 0;
    return probe_key;
}

/* The entries are part of the key: verdict i is that of entry i. */
static bool probe_recall(void)
{
    uint8_t good[MAX_ENTRIES];
    uint64_t age;
    uint32_t n, bad = 0;
    if (!ocl_survey_read("tried", probe_key, good, sizeof good, &n, &age) || n != probed.n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        bad += !good[i];
    if (bad && ocl_survey_old(age))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        probed.e[i].good = good[i];
        if (!good[i] && !probe_reported)
            ocl_host->log(1, OCL_WHO, "%s is not used: its driver failed when tried %llu minutes ago (it is tried again after an hour)",
                          probed.e[i].path, (unsigned long long)age / 60);
    }
    probe_reported = true;
    return true;
}

bool ocl_probe_believed(void)
{
    char helper[512];
    return !helper_find(helper, sizeof helper) || probe_recall();
}

static void probe_keep(void)
{
    uint8_t good[MAX_ENTRIES];
    for (uint32_t i = 0; i < probed.n; i++)
        good[i] = probed.e[i].good;
    if (probe_fresh)
        ocl_survey_write("tried", probe_key, good, probed.n);
    probe_fresh = false;
}

void ocl_probe_drivers(void)
{
    char helper[512];
    uint32_t good = 0;
    private_dir[0] = 0;
    if (!probed.n || !helper_find(helper, sizeof helper))
        return;
    probe_fresh = !probe_recall();
    for (uint32_t i = 0; i < probed.n && probe_fresh; i++)
        helper_start(&probed.e[i], helper);
    if (probe_fresh)
        helper_wait(&probed);
    for (uint32_t i = 0; i < probed.n; i++)
        good += probed.e[i].good;
    if (good < probed.n)
        entries_keep(&probed, private_dir, sizeof private_dir);
}

void ocl_probe_done(void)
{
    if (private_dir[0])
        unlink_all(private_dir, &probed);
    private_dir[0] = 0;
    probe_keep();
}
