/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers tried in a child process (plugins/kit/probe.h): each loader entry (*.icd) by itself; when one fails, OCL_ICD_VENDORS is
 * pointed to a folder with the others. The verdicts are kept (survey.c), so that this happens once after a driver or the machine
 * changed.
 */
#define _GNU_SOURCE
#include "backends/opencl/survey.h"
#include "plugins/kit/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VENDORS "/etc/OpenCL/vendors"

static kit_probe probed = {.plugin = OCL_WHO, .options = "YOKE_OPENCL_", .helper = "yoke-probe-opencl", .variable = "OCL_ICD_VENDORS"};

/* ---- Which entries ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static void entries_find(void)
{
    const char *where = getenv("OCL_ICD_VENDORS");
    probed.host = ocl_host;
    probed.n = 0;
    if (where && *where && ends_with(where, ".icd"))
        kit_probe_add(&probed, NULL, where, ".icd");
    else
        kit_probe_add_folder(&probed, where && *where ? where : VENDORS, ".icd");
}

/* ---- Leaving out ---- */

static bool link_entry(const char *dir, const kit_probe_entry *e)
{
    char path[640];
    snprintf(path, sizeof path, "%s/%s", dir, strrchr(e->path, '/') ? strrchr(e->path, '/') + 1 : e->path);
    return symlink(e->path, path) == 0;
}

static void unlink_all(const char *dir, const kit_probe *list)
{
    char path[640];
    for (uint32_t i = 0; i < list->n; i++) {
        const char *name = strrchr(list->entry[i].path, '/');
        snprintf(path, sizeof path, "%s/%s", dir, name ? name + 1 : list->entry[i].path);
        unlink(path);
    }
    rmdir(dir);
}

/* The folder is needed until the loader has read it: the caller removes it after the first call. */
static void entries_keep(const kit_probe *list, char *dir, size_t n)
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
        if (list->entry[i].good && !link_entry(dir, &list->entry[i]))
            ocl_host->log(1, OCL_WHO, "%s is not used: cannot link it in %s", list->entry[i].path, dir);
    setenv("OCL_ICD_VENDORS", dir, 1);
}

static char private_dir[320];
static uint64_t probe_key;
static bool probe_fresh; /* tried by this process */
static bool probe_reported;  /* which drivers are not used */

uint64_t ocl_probe_key(void)
{
    const char *path[KIT_PROBE_ENTRIES];
    entries_find();
    probe_reported = false;
    for (uint32_t i = 0; i < probed.n; i++)
        path[i] = probed.entry[i].path;
    probe_key = probed.n ? ocl_survey_key(path, probed.n) : 0;
    return probe_key;
}

/* The entries are part of the key: verdict i is that of entry i. */
static bool probe_recall(void)
{
    uint8_t good[KIT_PROBE_ENTRIES];
    uint64_t age;
    uint32_t n, bad = 0;
    if (!ocl_survey_read("tried", probe_key, good, sizeof good, &n, &age) || n != probed.n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        bad += !good[i];
    if (bad && ocl_survey_old(age))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        probed.entry[i].good = good[i];
        if (!good[i] && !probe_reported)
            ocl_host->log(1, OCL_WHO, "%s is not used: its driver failed when tried %llu minutes ago (it is tried again after an hour)",
                          probed.entry[i].path, (unsigned long long)age / 60);
    }
    probe_reported = true;
    return true;
}

bool ocl_probe_believed(void)
{
    char helper[512];
    return !kit_probe_find_helper(&probed, helper, sizeof helper) || probe_recall();
}

static void probe_keep(void)
{
    uint8_t good[KIT_PROBE_ENTRIES];
    for (uint32_t i = 0; i < probed.n; i++)
        good[i] = probed.entry[i].good;
    if (probe_fresh)
        ocl_survey_write("tried", probe_key, good, probed.n);
    probe_fresh = false;
}

void ocl_probe_drivers(void)
{
    char helper[512];
    uint32_t good = 0;
    private_dir[0] = 0;
    if (!probed.n || !kit_probe_find_helper(&probed, helper, sizeof helper))
        return;
    probe_fresh = !probe_recall();
    if (probe_fresh)
        kit_probe_try(&probed, helper);
    for (uint32_t i = 0; i < probed.n; i++)
        good += probed.entry[i].good;
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
