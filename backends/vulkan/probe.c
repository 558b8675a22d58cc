/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be right before a driver is loaded: it was tried in a child process (plugins/kit/probe.h), each manifest that the loader
 * would read by itself, and where one failed the loader is told the others; a software driver's threads stay on the rank's cores.
 */
#define _GNU_SOURCE
#include "backends/vulkan/vlk.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugins/kit/cores.h"
#include "plugins/kit/probe.h"
#include "plugins/kit/survey.h"

#define ENDING ".json"

static uint64_t probe_key;
static bool probe_fresh;    /* tried by this process */
static bool probe_reported; /* which drivers are not used */
static kit_probe probe = {.plugin = VLK_WHO, .options = "YOKE_VULKAN_", .helper = "yoke-probe-vulkan", .variable = "VK_DRIVER_FILES"};

/* ---- Which manifests: the loader's own search ---- */

/* Each of a list of files and folders, separated by colons, with `below` behind each folder. */
static void paths_add(const char *paths, const char *below)
{
    char path[300];
    for (const char *p = paths; *p; p += strcspn(p, ":"), p += *p == ':') {
        const int n = snprintf(path, sizeof path, "%.*s%s", (int)strcspn(p, ":"), p, below);
        if (n <= 0 || (size_t)n >= sizeof path)
            continue;
        kit_probe_add(&probe, NULL, path, ENDING);
        kit_probe_add_folder(&probe, path, ENDING);
    }
}

static const char *named_by(const char *variable, const char *otherwise)
{
    const char *v = secure_getenv(variable);
    return v && *v ? v : otherwise;
}

static void manifests_find(void)
{
    const char *named = named_by("VK_DRIVER_FILES", named_by("VK_ICD_FILENAMES", NULL)), *user = secure_getenv("HOME");
    char own[280];
    probe.host = vlk_host;
    probe.n = 0;
    if (named) {
        paths_add(named, "");
        return;
    }
    paths_add(named_by("XDG_CONFIG_DIRS", "/etc/xdg"), "/vulkan/icd.d");
    paths_add("/usr/local/etc:/etc", "/vulkan/icd.d");
    paths_add(named_by("XDG_DATA_DIRS", "/usr/local/share:/usr/share"), "/vulkan/icd.d");
    if (user && snprintf(own, sizeof own, "%s/.local/share", user) < (int)sizeof own)
        paths_add(own, "/vulkan/icd.d");
}

/* ---- Leaving out ---- */

/* The good ones, for this process and what it starts. */
static void manifests_keep(void)
{
    char *good = vlk_alloc(KIT_PROBE_ENTRIES * (sizeof probe.entry->path + 1) + 16);
    if (!good)
        return;
    for (uint32_t i = 0; i < probe.n; i++)
        if (probe.entry[i].good) {
            strcat(good, *good ? ":" : "");
            strcat(good, probe.entry[i].path);
        }
    setenv("VK_DRIVER_FILES", *good ? good : "/nonexistent.json", 1);
    setenv("VK_ICD_FILENAMES", *good ? good : "/nonexistent.json", 1); /* its name until 2022 */
    vlk_free(good);
}

bool vlk_probe_helper(const char *v)
{
    return !strcmp(v, "none") || access(v, X_OK) == 0;
}

bool vlk_probe_cores(const char *v)
{
    cpu_set_t set;
    return kit_cores_parse(v, &set) > 0;
}

/* A software driver's threads inherit the mask of the thread that loads it; it starts as many as it is told. */
static void cores_bind(void)
{
    const char *cores = vlk_option("CORES");
    cpu_set_t set;
    char n[16];
    const int count = cores ? kit_cores_parse(cores, &set) : 0;
    if (!count)
        return;
    if (sched_setaffinity(0, sizeof set, &set))
        vlk_host->log(1, VLK_WHO, "CORES=%s: cannot bind to these cores", cores);
    snprintf(n, sizeof n, "%d", count == 1 ? 0 : count); /* 0: in the thread that submits */
    setenv("LP_NUM_THREADS", n, 0);
}

/* ---- Verdicts that are kept ---- */

kit_survey vlk_survey(void)
{
    return (kit_survey){.host = vlk_host,
                        .plugin = VLK_WHO,
                        .version = VLK_VERSION,
                        .prefix = "vk",
                        .option = {"CORES", "LIMITS", "SHAPE", "STAGING"}};
}

uint64_t vlk_probe_key(void)
{
    const char *path[KIT_PROBE_ENTRIES];
    const kit_survey own = vlk_survey();
    manifests_find();
    probe_reported = probe_fresh = false;
    for (uint32_t i = 0; i < probe.n; i++)
        path[i] = probe.entry[i].path;
    probe_key = probe.n ? kit_survey_key(&own, path, probe.n) : 0;
    return probe_key ? kit_survey_key_devices(&own, probe_key) : 0;
}

/* The manifests are part of the key: verdict i is that of manifest i. */
static bool probe_recall(void)
{
    const kit_survey own = vlk_survey();
    uint8_t good[KIT_PROBE_ENTRIES];
    uint64_t age;
    uint32_t n;
    if (!kit_survey_read(&own, "tried", probe_key, good, sizeof good, &n, &age) || n != probe.n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!good[i] && kit_survey_old(age))
            return false;
    for (uint32_t i = 0; i < n; i++) {
        probe.entry[i].good = good[i];
        if (!good[i] && !probe_reported)
            vlk_host->log(1, VLK_WHO, "%s is not used: its driver failed when tried %llu minutes ago (it is tried again after an hour)",
                          probe.entry[i].path, (unsigned long long)age / 60);
    }
    probe_reported = true;
    return true;
}

bool vlk_probe_believed(void)
{
    char helper[512];
    return !kit_probe_find_helper(&probe, helper, sizeof helper) || probe_recall();
}

void vlk_probe_done(void)
{
    const kit_survey own = vlk_survey();
    uint8_t good[KIT_PROBE_ENTRIES];
    for (uint32_t i = 0; i < probe.n; i++)
        good[i] = probe.entry[i].good;
    if (probe_fresh)
        kit_survey_write(&own, "tried", probe_key, good, probe.n);
    probe_fresh = false;
}

void vlk_probe_drivers(void)
{
    char helper[512];
    uint32_t good = 0;
    cores_bind();
    if (!probe.n || !kit_probe_find_helper(&probe, helper, sizeof helper))
        return;
    probe_fresh = !probe_recall();
    if (probe_fresh)
        kit_probe_try(&probe, helper);
    for (uint32_t i = 0; i < probe.n; i++)
        good += probe.entry[i].good;
    if (good < probe.n)
        manifests_keep();
}
