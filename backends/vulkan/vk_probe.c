/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preparation before a Vulkan driver is loaded: a child process tries each manifest that the loader would read (plugins/kit/kit_probe.h).
 * vk_list.c calls it. If one fails, the loader gets only the other manifests. VK_DRIVER_FILES or VK_ICD_FILENAMES names manifests; else
 * they lie in folders of XDG_CONFIG_DIRS, XDG_DATA_DIRS and HOME. A software driver's threads stay on YOKE_VULKAN_CORES.
 */
#define _GNU_SOURCE
#include "backends/vulkan/vlk.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "plugins/kit/kit_cores.h"
#include "plugins/kit/kit_probe.h"
#include "plugins/kit/kit_survey.h"

#define ENDING ".json"

static kit_probe probe = {.options = "YOKE_VULKAN_", .helper = "yoke-probe-vulkan", .variable = "VK_DRIVER_FILES"};

/* ---- Manifests, by the loader's own search ---- */

/* Adds each of a list of files and folders, separated by colons, with `below` behind each folder. */
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
    probe.survey = vlk_survey();
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

/* ---- Excluding drivers ---- */

/* Passes the good manifests to the loader, in this process and its children. */
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
    setenv("VK_ICD_FILENAMES", *good ? good : "/nonexistent.json", 1); /* the variable's name until 2022 */
    vlk_free(good);
}

/* Limits a software driver's cores: its threads inherit the mask of the thread that loads it; a variable sets their number. */
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
    snprintf(n, sizeof n, "%d", count == 1 ? 0 : count); /* 0: computes in the submitting thread */
    setenv("LP_NUM_THREADS", n, 0);
}

/* ---- Stored verdicts ---- */

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
    manifests_find();
    const uint64_t key = kit_probe_key(&probe);
    return key ? kit_survey_key_devices(&probe.survey, key) : 0;
}

bool vlk_probe_known(void)
{
    return kit_probe_known(&probe);
}

void vlk_probe_drivers(void)
{
    cores_bind();
    if (kit_probe_drivers(&probe))
        manifests_keep();
}

void vlk_probe_done(void)
{
    kit_probe_done(&probe);
}
