/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps facts about drivers in the cache folder, as loading drivers takes seconds: the verdict of each trial (kit_probe.c), and the devices
 * (devices.c). The OpenCL plugin keeps measured rates here, and each plugin's list of devices gives the key. One thread at a time.
 *
 * An answer holds while none of its dependencies has changed: this plugin's own file, the loader's entries, every library that was mapped
 * (path, size, time). The drivers' environment, device nodes and this boot of the machine count too, and for devices the cores. The check
 * needs only stat, and less than a millisecond. A damaged or outdated file counts as absent. A bad verdict holds for an hour, as the
 * reason may go away.
 */
#define _GNU_SOURCE
#include "plugins/kit/kit_survey.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "plugins/kit/kit_text.h"
#include "plugins/kit/plugin.h"

#define MAGIC 0x31796576727573ull /* "survey1" */
#define MAX_FILES 256
#define BAD_SECONDS 3600

extern char **environ;

typedef struct file_stamp {
    char path[264];
    int64_t size, sec, nsec; /* size -1: there is no such file */
} file_stamp;

typedef struct survey_image {
    uint64_t magic, key, made;
    uint32_t n_file, bytes; /* bytes of the answer, which follows the stamps; then a hash of everything */
    file_stamp file[MAX_FILES];
} survey_image;

/* ---- Dependencies of an answer ---- */

static void stamp_take(file_stamp *s, const char *path)
{
    struct stat st;
    memset(s, 0, sizeof *s);
    snprintf(s->path, sizeof s->path, "%s", path);
    s->size = -1;
    if (stat(path, &st) == 0) {
        s->size = st.st_size;
        s->sec = st.st_mtim.tv_sec;
        s->nsec = st.st_mtim.tv_nsec;
    }
}

static int add_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    survey_image *m = arg;
    (void)size;
    if (info->dlpi_name && info->dlpi_name[0] == '/' && strlen(info->dlpi_name) < sizeof m->file[0].path &&
        m->n_file < MAX_FILES)
        stamp_take(&m->file[m->n_file++], info->dlpi_name);
    return m->n_file == MAX_FILES;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    return kit_hash(h, s, strlen(s) + 1);
}

static uint64_t hash_environment(uint64_t h)
{
    static const char *const begins[] = {"OCL_",  "OPENCL_", "POCL_", "RUSTICL_", "CL_",  "LD_",   "CUDA_",   "NV",
                                         "HIP_",  "HSA_",    "ROC",   "GPU_",     "AMD_", "ZE_",   "ONEAPI_", "SYCL_",
                                         "INTEL", "NEO",     "IGC_",  "MESA_",    "LP_",  "DRI_",  "GALLIUM", "LIBGL_",
                                         "VK_",   "XDG_",    "YOKE_OPENCL_",      "YOKE_VULKAN_", "YOKE_PJRT"};
    uint64_t sum = 0; /* in any order */
    for (char **e = environ; *e; e++)
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            if (!strncmp(*e, begins[i], strlen(begins[i])) && strncmp(*e, "POCL_CACHE_DIR=", 15)) /* env.c sets it */
                sum += hash_text(KIT_HASH_SEED, *e);
    return kit_hash(h, &sum, sizeof sum);
}

/* The device nodes drivers open: their names and whether this user may. */
static uint64_t hash_nodes(uint64_t h, const char *dir, const char *const *begins, size_t n)
{
    char path[300];
    uint64_t sum = 0;
    DIR *d = opendir(dir);
    for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d))
        for (size_t i = 0; i < n; i++)
            if (!strncmp(f->d_name, begins[i], strlen(begins[i]))) {
                snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
                sum += hash_text(KIT_HASH_SEED + (access(path, R_OK | W_OK) == 0), path);
            }
    if (d)
        closedir(d);
    return kit_hash(h, &sum, sizeof sum);
}

static uint64_t hash_machine(uint64_t h)
{
    static const char *const nodes[] = {"nvidia", "kfd", "mali", "accel", "dxg", "galcore"}, *const dri[] = {"card", "render"};
    char boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f && !fgets(boot, sizeof boot, f))
        boot[0] = 0;
    if (f)
        fclose(f);
    h = hash_text(h, boot);
    h = hash_nodes(h, "/dev", nodes, sizeof nodes / sizeof *nodes);
    return hash_nodes(h, "/dev/dri", dri, sizeof dri / sizeof *dri);
}

/* This build of the plugin: another one may judge otherwise. */
static uint64_t hash_build(uint64_t h)
{
    static const char here;
    Dl_info info;
    file_stamp s;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return h;
    stamp_take(&s, info.dli_fname);
    return kit_hash(h, &s, sizeof s);
}

uint64_t kit_survey_key(const kit_survey *who, const char *const *entry, uint32_t n_entry)
{
    uint64_t h = hash_machine(hash_environment(hash_build(hash_text(KIT_HASH_SEED, who->version))));
    file_stamp s;
    for (uint32_t i = 0; i < n_entry; i++) {
        stamp_take(&s, entry[i]);
        h = kit_hash(h, &s, sizeof s);
    }
    return h;
}

uint64_t kit_survey_key_devices(const kit_survey *who, uint64_t key)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    key = kit_hash(key, &set, sizeof set);
    for (size_t i = 0; i < KIT_SURVEY_OPTIONS && who->option[i]; i++) {
        const char *v = who->host->option(who->plugin, who->option[i]);
        key = hash_text(key, v && *v ? v : "-");
    }
    return key;
}

/* ---- The files ---- */

static bool survey_path(const kit_survey *who, char *path, size_t n, const char *kind, uint64_t key)
{
    const char *dir = who->host->cache_dir();
    int k = dir ? snprintf(path, n, "%s/%s-%s-%016llx.bin", dir, who->prefix, kind, (unsigned long long)key) : -1;
    return k > 0 && (size_t)k < n;
}

static survey_image *image_new(const kit_survey *who)
{
    return kit_zeroed(who->host, who->plugin, sizeof(survey_image), "an answer that is kept");
}

static bool still_so(const survey_image *m)
{
    file_stamp now;
    for (uint32_t i = 0; i < m->n_file; i++) {
        stamp_take(&now, m->file[i].path);
        if (now.size != m->file[i].size || now.sec != m->file[i].sec || now.nsec != m->file[i].nsec)
            return false;
    }
    return true;
}

static bool read_image(FILE *f, survey_image *m, void *answer, uint32_t bytes)
{
    const size_t head = offsetof(survey_image, file);
    uint64_t sum = 0, want;
    if (fread(m, head, 1, f) != 1 || m->magic != MAGIC || m->n_file > MAX_FILES || m->bytes > bytes)
        return false;
    if (fread(m->file, sizeof *m->file, m->n_file, f) != m->n_file || fread(answer, 1, m->bytes, f) != m->bytes ||
        fread(&sum, sizeof sum, 1, f) != 1)
        return false;
    for (uint32_t i = 0; i < m->n_file; i++)
        m->file[i].path[sizeof m->file[i].path - 1] = 0;
    want = kit_hash(kit_hash(KIT_HASH_SEED, m, head + m->n_file * sizeof *m->file), answer, m->bytes);
    return sum == want;
}

bool kit_survey_read(const kit_survey *who, const char *kind, uint64_t key, void *answer, uint32_t bytes, uint32_t *got,
                     uint64_t *age)
{
    char path[700];
    FILE *f = survey_path(who, path, sizeof path, kind, key) ? fopen(path, "re") : NULL;
    survey_image *m = f ? image_new(who) : NULL;
    uint64_t now = (uint64_t)time(NULL);
    bool good = m && read_image(f, m, answer, bytes) && m->key == key && m->made <= now && still_so(m);
    if (good) {
        *got = m->bytes;
        *age = now - m->made;
    }
    if (m)
        who->host->free(m);
    if (f)
        fclose(f);
    return good;
}

static bool write_image(const char *path, const survey_image *m, const void *answer)
{
    char part[720];
    const size_t head = offsetof(survey_image, file) + m->n_file * sizeof *m->file;
    uint64_t sum = kit_hash(kit_hash(KIT_HASH_SEED, m, head), answer, m->bytes);
    snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    FILE *f = fopen(part, "we");
    if (!f)
        return false;
    bool good = fwrite(m, head, 1, f) == 1 && fwrite(answer, 1, m->bytes, f) == m->bytes &&
                fwrite(&sum, sizeof sum, 1, f) == 1;
    good = fclose(f) == 0 && good && rename(part, path) == 0;
    if (!good)
        unlink(part);
    return good;
}

void kit_survey_write(const kit_survey *who, const char *kind, uint64_t key, const void *answer, uint32_t bytes)
{
    char path[700];
    survey_image *m = survey_path(who, path, sizeof path, kind, key) ? image_new(who) : NULL;
    if (!m)
        return;
    m->magic = MAGIC;
    m->key = key;
    m->made = (uint64_t)time(NULL);
    m->bytes = bytes;
    stamp_take(&m->file[m->n_file++], "/etc/ld.so.cache"); /* a driver's library that was missing may come */
    dl_iterate_phdr(add_library, m);
    if (m->n_file == MAX_FILES || !write_image(path, m, answer))
        who->host->log(3, who->plugin, "%s is not kept", path);
    if (m)
        who->host->free(m);
}

bool kit_survey_old(uint64_t age)
{
    return age > BAD_SECONDS;
}
