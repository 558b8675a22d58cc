/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: the memory that a container's limit leaves to this process, in bytes, and the kills for lack of memory. Devices, shared
 * blocks, the launcher, `yoke info`, `yoke plan` and yoke-cts ask, in any thread.
 *
 * /proc/self/cgroup names this process's group as the host sees it or as the container does. The walk up to the mount skips folders that do
 * not exist, so both forms work.
 */
#include "config.h"

#include "core/base/process/cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATH_MOST 1024

/* File names of the two versions. cache: lines of memory.stat that count file pages, which the kernel reclaims before it kills. The
 * active ones count too: they fill a host that reads its data again and again. */
typedef struct cgroup_version {
    const char *mount, *limit, *usage, *cache[2];
    const char *events;
} cgroup_version;

static const cgroup_version versions[] = {
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"},
     "memory.oom_control"},
    {"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}, "memory.events"},
};

static const char *root = "";

void yk__cgroup_root(const char *folder)
{
    root = folder;
}

/* True if a list as "cpu,memory" holds the memory controller. */
static bool has_memory(const char *list)
{
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == 6 && !strncmp(list, "memory", 6))
            return true;
    return false;
}

/* Lines are NUMBER:CONTROLLERS:PATH; version 2 has number 0 and no controllers. A memory controller of version 1 takes precedence. */
static const cgroup_version *find_group(char *path, size_t n)
{
    char name[PATH_MOST], line[PATH_MOST];
    const cgroup_version *v = NULL;
    FILE *f;
    snprintf(name, sizeof name, "%s/proc/self/cgroup", root);
    f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (!has_memory(list + 1) && (v || strncmp(line, "0:", 2)))
            continue;
        v = &versions[!has_memory(list + 1)];
        snprintf(path, n, "%s", group);
    }
    if (f)
        fclose(f);
    return v;
}

/* Reads a file that holds one number, or its line "KEY NUMBER". False for "max" too. */
static bool read_number(const cgroup_version *v, const char *group, const char *file, const char *key, uint64_t *value)
{
    char name[3 * PATH_MOST], line[128];
    const size_t n = strlen(key);
    bool found = false;
    FILE *f;
    snprintf(name, sizeof name, "%s%s%s/%s", root, v->mount, group, file);
    f = fopen(name, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = !strncmp(line, key, n) && (!n || line[n] == ' ') && sscanf(line + n, "%" SCNu64, value) == 1;
    if (f)
        fclose(f);
    return found;
}

/* Moves to the parent group; false at the mount. */
static bool step_up(char *group)
{
    char *slash = strrchr(group, '/');
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static uint64_t read_cache(const cgroup_version *v, const char *group)
{
    uint64_t sum = 0, bytes;
    for (int i = 0; i < 2; i++)
        if (read_number(v, group, "memory.stat", v->cache[i], &bytes))
            sum += bytes;
    return sum;
}

bool yk__cgroup_memory(uint64_t *limit, uint64_t *left)
{
    char group[PATH_MOST];
    const cgroup_version *v = find_group(group, sizeof group);
    *limit = *left = UINT64_MAX;
    if (!v)
        return false;
    do {
        uint64_t most, used = 0, cache;
        if (!read_number(v, group, v->limit, "", &most) || most >= 1ull << 62) /* version 1's huge number means no limit */
            continue;
        read_number(v, group, v->usage, "", &used);
        cache = read_cache(v, group);
        used -= cache < used ? cache : used;
        *limit = most < *limit ? most : *limit;
        most -= used < most ? used : most;
        *left = most < *left ? most : *left;
    } while (step_up(group));
    return *limit != UINT64_MAX;
}

uint64_t yk__cgroup_memory_left(void)
{
    char name[PATH_MOST], line[128];
    uint64_t limit, left, kib, sum = 0;
    bool known = false;
    FILE *f;
    snprintf(name, sizeof name, "%s/proc/meminfo", root);
    f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            known = true;
        else if (sscanf(line, "SwapFree: %" SCNu64, &kib) != 1)
            continue;
        sum += kib * 1024;
    }
    if (f)
        fclose(f);
    yk__cgroup_memory(&limit, &left);
    return known && sum < left ? sum : left;
}

uint64_t yk__cgroup_kills(void)
{
    char group[PATH_MOST];
    uint64_t kills = 0;
    const cgroup_version *v = find_group(group, sizeof group);
    if (!v)
        return 0;
    while (!read_number(v, group, v->events, "oom_kill", &kills) && step_up(group))
        ;
    return kills;
}
