/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the environment of an OpenCL driver, and keeps the program's over its calls. cl_list.c calls it before drivers load; each file
 * that calls a compiler saves the signal handlers and restores them (PoCL's LLVM replaces sixteen).
 *
 * The driver's cache lies in a folder with files that can be written and executed (else PoCL finds no device, or aborts). POCL_CACHE_DIR
 * names it; else it is in Yoke's cache folder, TMPDIR or /tmp. The driver's threads stay on YOKE_OPENCL_CORES.
 */
#define _GNU_SOURCE
#include "plugins/kit/kit_cores.h"
#include "backends/opencl/ocl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CACHE_LEAST (64u << 20) /* least free bytes of a folder for compiled kernels */

struct ocl_signals {
    struct sigaction action[NSIG];
    bool known[NSIG];
};

ocl_signals *ocl_signals_save(void)
{
    ocl_signals *s = ocl_host->alloc(sizeof *s, 16);
    if (!s)
        return NULL;
    for (int i = 1; i < NSIG; i++)
        s->known[i] = sigaction(i, NULL, &s->action[i]) == 0;
    return s;
}

void ocl_signals_restore(ocl_signals *s)
{
    if (!s)
        return;
    for (int i = 1; i < NSIG; i++)
        if (s->known[i] && i != SIGKILL && i != SIGSTOP)
            sigaction(i, &s->action[i], NULL);
    ocl_host->free(s);
}

/* ---- Cores ---- */

/* Limits the driver's cores: its threads inherit the mask of the thread that loads it; their number follows the mask too. */
static void env_bind(void)
{
    const char *list = ocl_option("CORES");
    cpu_set_t set;
    char n[16];
    int count = list ? kit_cores_parse(list, &set) : 0;
    if (!count)
        return;
    if (sched_setaffinity(0, sizeof set, &set))
        ocl_host->log(1, OCL_WHO, "CORES=%s: cannot bind to these cores", list);
    snprintf(n, sizeof n, "%d", count);
    setenv("POCL_MAX_PTHREAD_COUNT", n, 1); /* read by PoCL to 3.1 */
    setenv("POCL_CPU_MAX_CU_COUNT", n, 1);  /* read by later versions */
}

/* ---- Cache folder ---- */

static bool env_usable(const char *dir)
{
    struct statvfs fs;
    if (access(dir, W_OK | X_OK) || statvfs(dir, &fs))
        return false;
    if (fs.f_flag & (ST_NOEXEC | ST_RDONLY))
        return false;
    return (uint64_t)fs.f_bavail * fs.f_frsize >= CACHE_LEAST;
}

/* True if other users may write to the folder, whose contents are executed. */
static bool env_others_write(const struct stat *st)
{
    return st->st_uid != geteuid() || (st->st_mode & S_IWOTH) ||
           ((st->st_mode & S_IWGRP) && st->st_gid != getegid() && st->st_gid != 0);
}

static bool env_try(const char *base, const char *sub)
{
    char path[512];
    if (!base || !*base || !env_usable(base))
        return false;
    int n = snprintf(path, sizeof path, "%s/%s", base, sub);
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    if (mkdir(path, 0700) && !env_usable(path))
        return false;
    struct stat st;
    if (lstat(path, &st) || !S_ISDIR(st.st_mode) || env_others_write(&st) || !env_usable(path))
        return false;
    setenv("POCL_CACHE_DIR", path, 1); /* replaces a setuid program's value, which is ignored */
    return true;
}

static void env_cache(void)
{
    char own[48];
    const char *set = secure_getenv("POCL_CACHE_DIR"), *tmp = secure_getenv("TMPDIR");
    if (set && *set) { /* PoCL aborts on an empty value */
        if (access(set, F_OK) == 0 && !env_usable(set))
            ocl_host->log(1, OCL_WHO, "POCL_CACHE_DIR=%s: not writable, mounted noexec, or full", set);
        return;
    }
    snprintf(own, sizeof own, "yoke-pocl-%u", (unsigned)geteuid());
    if (!env_try(ocl_host->cache_dir(), "pocl") && !env_try(tmp, own) && !env_try("/tmp", own))
        ocl_host->log(1, OCL_WHO, "no folder for compiled kernels (writable, executable, 64 MiB free): set POCL_CACHE_DIR");
}

void ocl_env_setup(void)
{
    env_cache();
    env_bind();
}
