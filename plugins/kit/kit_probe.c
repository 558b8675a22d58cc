/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries a vendor's drivers in child processes, as a driver may abort or hang when it is loaded. It starts a helper for each, waits for the
 * verdicts, and keeps them between processes.
 *
 * The lists of devices of OpenCL, Vulkan and PJRT call it before they load drivers, one thread at a time. The helpers (tools/probe_*.c)
 * run at the same time, each with an environment variable that names one driver. A bad verdict excludes that driver and is a warning.
 */
#define _GNU_SOURCE
#include "plugins/kit/kit_probe.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plugins/kit/plugin.h"

#define HELPER_PATH 512
#define LIMIT_MS 30000 /* PoCL's first kernel takes seconds */

extern char **environ;

/* ---- Which entries ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

void kit_probe_add(kit_probe *probe, const char *dir, const char *name, const char *ending)
{
    if (probe->n == KIT_PROBE_ENTRIES || !ends_with(name, ending))
        return;
    kit_probe_entry *e = &probe->entry[probe->n];
    *e = (kit_probe_entry){.pid = 0};
    int n = dir ? snprintf(e->path, sizeof e->path, "%s/%s", dir, name) : snprintf(e->path, sizeof e->path, "%s", name);
    if (n > 0 && (size_t)n < sizeof e->path)
        probe->n++;
}

void kit_probe_add_folder(kit_probe *probe, const char *dir, const char *ending)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *f = readdir(d); f; f = readdir(d))
        kit_probe_add(probe, dir, f->d_name, ending);
    closedir(d);
}

/* ---- The helper ---- */

static const char *option_of(const kit_probe *probe, const char *key)
{
    return kit_option_value(probe->survey.host, probe->survey.plugin, key);
}

static bool helper_at(const kit_probe *probe, char *path, size_t n, const char *dir, int dir_n, const char *rest)
{
    int k = snprintf(path, n, "%.*s/%s%s", dir_n, dir, rest, probe->helper);
    return k > 0 && (size_t)k < n && access(path, X_OK) == 0;
}

static bool helper_find(const kit_probe *probe, char *path, size_t n)
{
    static const char here;
    const char *option = option_of(probe, "PROBE");
    Dl_info info;
    if (option) {
        snprintf(path, n, "%s", option);
        return strcmp(option, "none") != 0;
    }
    if (!dladdr(&here, &info) || !info.dli_fname)
        return false;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *dir = slash ? info.dli_fname : ".";
    int dir_n = slash ? (int)(slash - info.dli_fname) : 1;
    if (helper_at(probe, path, n, dir, dir_n, "") || helper_at(probe, path, n, dir, dir_n, "../"))
        return true;
    probe->survey.host->log(2, probe->survey.plugin, "no %s beside the plugin: drivers are loaded untried", probe->helper);
    return false;
}

/* The environment with the variable set to one entry; NULL when memory is gone. */
static char **helper_env(const kit_probe *probe, char *setting)
{
    const size_t name = strcspn(setting, "=") + 1;
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = probe->survey.host->alloc((n + 2) * sizeof *env, 64);
    size_t k = 0;
    for (size_t i = 0; env && i < n; i++)
        if (strncmp(environ[i], setting, name))
            env[k++] = environ[i];
    if (env)
        env[k] = setting, env[k + 1] = NULL;
    return env;
}

/* Spawns the helper for an entry; 0, or an error number. */
static int helper_spawn(const kit_probe *probe, kit_probe_entry *e, const char *helper)
{
    char setting[360], parent[24]; /* with which the helper ends */
    char *argv[] = {(char *)helper, parent, NULL};
    posix_spawn_file_actions_t actions;
    int error;
    snprintf(setting, sizeof setting, "%s=%s", probe->variable, e->path);
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    char **env = helper_env(probe, setting);
    if (!env)
        return ENOMEM;
    error = posix_spawn_file_actions_init(&actions);
    if (!error) {
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        error = posix_spawn(&e->pid, helper, &actions, NULL, argv, env);
        posix_spawn_file_actions_destroy(&actions);
    }
    probe->survey.host->free(env);
    return error;
}

/* An entry whose helper cannot be run at all is loaded untried, as if there were no helper. One that lacks memory or processes for the
 * moment leaves the entry out. No verdict is kept. */
static void helper_start(kit_probe *probe, kit_probe_entry *e, const char *helper)
{
    const int error = helper_spawn(probe, e, helper);
    if (!error)
        return;
    e->pid = 0;
    e->good = error != EAGAIN && error != ENOMEM;
    probe->untried = true;
    probe->survey.host->log(1, probe->survey.plugin, "%s is %s: %s cannot be started: %s", e->path, e->good ? "used untried" : "not used",
                            helper, strerror(error));
}

/* Why an entry is bad, in words. */
static void verdict_say(const kit_probe *probe, const kit_probe_entry *e, char *text, size_t n)
{
    const char *reason = probe->reason && e->code < 128 ? probe->reason(e->code) : NULL;
    if (e->code == KIT_PROBE_SILENT)
        snprintf(text, n, "its driver gave no answer in time when tried");
    else if (e->code >= 128)
        snprintf(text, n, "its driver died of signal %d when tried", e->code - 128);
    else
        snprintf(text, n, "its driver failed when tried (exit %d)%s%s", e->code, reason ? ": " : "", reason ? reason : "");
}

static void helper_verdict(const kit_probe *probe, kit_probe_entry *e, int status)
{
    char text[240];
    e->pid = 0;
    e->good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    e->code = (uint8_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    if (e->good)
        return;
    verdict_say(probe, e, text, sizeof text);
    probe->survey.host->log(1, probe->survey.plugin, "%s is not used: %s", e->path, text);
}

/* Checks every child once; returns the number still running. */
static uint32_t helper_collect(kit_probe *probe)
{
    uint32_t running = 0;
    for (uint32_t i = 0; i < probe->n; i++) {
        kit_probe_entry *e = &probe->entry[i];
        int status = 0;
        if (!e->pid)
            continue;
        pid_t r = waitpid(e->pid, &status, WNOHANG);
        if (r == e->pid)
            helper_verdict(probe, e, status);
        else if (r < 0 && errno == ECHILD) { /* the program ignores SIGCHLD, so the exit code is lost */
            e->pid = 0;
            e->good = true;
        } else
            running++;
    }
    return running;
}

static int limit_ms(const kit_probe *probe)
{
    const char *option = option_of(probe, "PROBE_MS");
    return option ? atoi(option) : probe->limit_ms ? probe->limit_ms : LIMIT_MS;
}

static void helper_kill(const kit_probe *probe, kit_probe_entry *e, int limit)
{
    const kit_survey *who = &probe->survey;
    who->host->log(1, who->plugin, "%s is not used: its driver gave no answer within %d ms when tried (%sPROBE_MS)", e->path, limit,
                   probe->options);
    kill(e->pid, SIGKILL);
    waitpid(e->pid, NULL, 0);
    e->pid = 0;
    e->code = KIT_PROBE_SILENT;
}

static void helper_wait(kit_probe *probe)
{
    const int limit = limit_ms(probe);
    for (int ms = 0; helper_collect(probe); ms += 2) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        for (uint32_t i = 0; i < probe->n && ms >= limit; i++)
            if (probe->entry[i].pid)
                helper_kill(probe, &probe->entry[i], limit);
    }
}

static void probe_try(kit_probe *probe, const char *helper)
{
    for (uint32_t i = 0; i < probe->n; i++)
        helper_start(probe, &probe->entry[i], helper);
    helper_wait(probe);
}

/* ---- Verdicts that are kept ---- */

static const char *entry_file(const kit_probe *probe, uint32_t i, char file[sizeof probe->entry[0].path])
{
    if (!probe->file)
        return probe->entry[i].path;
    probe->file(probe->entry[i].path, file, sizeof probe->entry[i].path);
    return file;
}

uint64_t kit_probe_key(kit_probe *probe)
{
    const char *path[KIT_PROBE_ENTRIES];
    char file[KIT_PROBE_ENTRIES][sizeof probe->entry[0].path];
    probe->fresh = probe->reported = false;
    for (uint32_t i = 0; i < probe->n; i++)
        path[i] = entry_file(probe, i, file[i]);
    probe->key = probe->n ? kit_survey_key(&probe->survey, path, probe->n) : 0;
    return probe->key;
}

static void verdict_report(const kit_probe *probe, const kit_probe_entry *e, uint64_t age)
{
    char text[240];
    verdict_say(probe, e, text, sizeof text);
    probe->survey.host->log(1, probe->survey.plugin, "%s is not used: %s; that was %llu minutes ago, and it is tried again after an hour",
                            e->path, text, (unsigned long long)age / 60);
}

/* The key covers the entries, so verdict i belongs to entry i. */
static bool verdicts_recall(kit_probe *probe)
{
    uint8_t code[KIT_PROBE_ENTRIES];
    uint64_t age;
    uint32_t n;
    if (!kit_survey_read(&probe->survey, "tried", probe->key, code, sizeof code, &n, &age) || n != probe->n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (code[i] && kit_survey_old(age))
            return false;
    for (uint32_t i = 0; i < n; i++) {
        probe->entry[i].good = !code[i];
        probe->entry[i].code = code[i];
        if (code[i] && !probe->reported)
            verdict_report(probe, &probe->entry[i], age);
    }
    probe->reported = true;
    return true;
}

bool kit_probe_known(kit_probe *probe)
{
    char helper[HELPER_PATH];
    return !helper_find(probe, helper, sizeof helper) || verdicts_recall(probe);
}

bool kit_probe_tries(const kit_probe *probe)
{
    char helper[HELPER_PATH];
    return helper_find(probe, helper, sizeof helper);
}

bool kit_probe_drivers(kit_probe *probe)
{
    char helper[HELPER_PATH];
    uint32_t good = 0;
    if (!probe->n || !helper_find(probe, helper, sizeof helper))
        return false;
    probe->fresh = !verdicts_recall(probe);
    probe->untried = false;
    if (probe->fresh)
        probe_try(probe, helper);
    probe->fresh = probe->fresh && !probe->untried;
    for (uint32_t i = 0; i < probe->n; i++)
        good += probe->entry[i].good;
    return good < probe->n;
}

void kit_probe_done(kit_probe *probe)
{
    uint8_t code[KIT_PROBE_ENTRIES]; /* 0: good */
    for (uint32_t i = 0; i < probe->n; i++)
        code[i] = probe->entry[i].good ? 0 : probe->entry[i].code ? probe->entry[i].code : KIT_PROBE_SILENT;
    if (probe->fresh)
        kit_survey_write(&probe->survey, "tried", probe->key, code, probe->n);
    probe->fresh = false;
}
