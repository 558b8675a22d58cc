/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of one output folder: DIR/checkpoint-STEP. */
#include "tools/checkpoints.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The step number in "checkpoint-N"; -1 for other names. */
static int64_t checkpoint_number(const char *name)
{
    long long n;
    char tail;
    return sscanf(name, "checkpoint-%lld%c", &n, &tail) == 1 && n >= 0 ? n : -1;
}

/* The newest (or, with `oldest`, the oldest) checkpoint's step; *count: how many there are. */
static int64_t find_checkpoint(const char *dir, bool oldest, uint64_t *count)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int64_t best = -1;
    *count = 0;
    while (d && (e = readdir(d))) {
        int64_t n = checkpoint_number(e->d_name);
        if (n < 0)
            continue;
        (*count)++;
        best = best < 0 || (oldest ? n < best : n > best) ? n : best;
    }
    if (d)
        closedir(d);
    return best;
}

static void remove_checkpoint(const char *dir)
{
    char path[4352];
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

void checkpoint_save(yk_job *job, const char *dir, uint64_t steps, uint64_t limit)
{
    char path[4096];
    uint64_t count = 0;
    int64_t old;
    snprintf(path, sizeof path, "%s/checkpoint-%llu", dir, (unsigned long long)steps);
    yk_save(job, path);
    if (!yk_ok(job) || !yk_is_main(job) || !limit)
        return;
    while ((old = find_checkpoint(dir, true, &count)) >= 0 && count > limit) { /* the new one is safe by now */
        snprintf(path, sizeof path, "%s/checkpoint-%lld", dir, (long long)old);
        remove_checkpoint(path);
    }
}

void checkpoint_resume(yk_job *job, const char *dir, const char *from)
{
    char path[4096];
    uint64_t count;
    int64_t last;
    if (!from || !yk_ok(job))
        return;
    if (!strcmp(from, "last")) {
        last = find_checkpoint(dir, false, &count);
        if (last < 0) {
            yk_fail(job, YK_E_ARG, "--resume-from-checkpoint last: there is no checkpoint in the output folder");
            return;
        }
        snprintf(path, sizeof path, "%s/checkpoint-%lld", dir, (long long)last);
        from = path;
    }
    yk_load(job, from);
}
