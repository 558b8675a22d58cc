/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries drivers in a child process (plugins/kit/kit_probe.h) before this process loads them, each loader entry (*.icd) by itself. cl_list.c
 * calls it. If one fails, OCL_ICD_VENDORS is set to a folder with the other entries, and a line warns.
 */
#define _GNU_SOURCE
#include "backends/opencl/cl_survey.h"
#include "plugins/kit/kit_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VENDORS "/etc/OpenCL/vendors"

static kit_probe probed = {.options = "YOKE_OPENCL_", .helper = "yoke-probe-opencl", .variable = "OCL_ICD_VENDORS"};

/* ---- Loader entries ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static void entries_find(void)
{
    const char *where = getenv("OCL_ICD_VENDORS");
    probed.survey = ocl_survey();
    probed.n = 0;
    if (where && *where && ends_with(where, ".icd"))
        kit_probe_add(&probed, NULL, where, ".icd");
    else
        kit_probe_add_folder(&probed, where && *where ? where : VENDORS, ".icd");
}

/* ---- Excluding drivers ---- */

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

/* Makes a folder with the good entries. The loader reads it at the first call; the caller removes it afterwards. */
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

static char private_dir[320]; /* exists until the loader has read it; empty if absent */

uint64_t ocl_probe_key(void)
{
    entries_find();
    return kit_probe_key(&probed);
}

bool ocl_probe_known(void)
{
    return kit_probe_known(&probed);
}

void ocl_probe_drivers(void)
{
    private_dir[0] = 0;
    if (kit_probe_drivers(&probed))
        entries_keep(&probed, private_dir, sizeof private_dir);
}

void ocl_probe_done(void)
{
    if (private_dir[0])
        unlink_all(private_dir, &probed);
    private_dir[0] = 0;
    kit_probe_done(&probed);
}
