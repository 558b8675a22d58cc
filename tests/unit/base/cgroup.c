/* SPDX-License-Identifier: Apache-2.0 */
/* Memory limits of control groups, by made-up folders of both versions; and the memory that a processor's device reports. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/process/cgroup.h"
#include "tests/support/refplugin.h"
#include "tests/support/run.h"

static char dir[] = "/tmp/yoke-cgroup-XXXXXX";

static void tree_setup(void)
{
    strcpy(dir, "/tmp/yoke-cgroup-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    yk__cgroup_root(dir);
}

static void tree_teardown(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Writes DIR/name and makes the folders above it. */
static void file_put(const char *name, const char *text)
{
    char path[512];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *s = strchr(path + strlen(dir) + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(path, 0700);
        *s = '/';
    }
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void expect_memory(uint64_t limit, uint64_t left)
{
    uint64_t got_limit, got_left;
    ck_assert(yk__cgroup_memory(&got_limit, &got_left) == (limit != UINT64_MAX));
    ck_assert_uint_eq(got_limit, limit);
    ck_assert_uint_eq(got_left, left);
}

START_TEST(version_2)
{
    expect_memory(UINT64_MAX, UINT64_MAX); /* nothing there */
    file_put("proc/self/cgroup", "0::/user.slice/job\n");
    expect_memory(UINT64_MAX, UINT64_MAX);
    file_put("sys/fs/cgroup/user.slice/job/memory.max", "max\n");
    expect_memory(UINT64_MAX, UINT64_MAX);
    file_put("sys/fs/cgroup/user.slice/memory.max", "1000000\n");
    file_put("sys/fs/cgroup/user.slice/memory.current", "700000\n");
    file_put("sys/fs/cgroup/user.slice/memory.stat", "anon 5\ninactive_file 150000\nactive_file 50000\n");
    expect_memory(1000000, 500000);
    file_put("sys/fs/cgroup/user.slice/job/memory.max", "600000\n");
    file_put("sys/fs/cgroup/user.slice/job/memory.current", "599999\n");
    expect_memory(600000, 1);
    ck_assert_uint_eq(yk__cgroup_kills(), 0);
    file_put("sys/fs/cgroup/user.slice/job/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 1\n");
    ck_assert_uint_eq(yk__cgroup_kills(), 3);
}
END_TEST

/* As a container sees it: the host's path, and the group's files at the mount. Both hierarchies are mounted; the memory
 * controller is in the first version's. */
START_TEST(version_1)
{
    file_put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
    file_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect_memory(UINT64_MAX, UINT64_MAX);
    file_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000000\n");
    file_put("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n");
    expect_memory(4000000, 0);
    file_put("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 700000\nactive_file 2\ntotal_active_file 1300000\n");
    expect_memory(4000000, 1000000);
    file_put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    ck_assert_uint_eq(yk__cgroup_kills(), 2);
}
END_TEST

START_TEST(what_is_left)
{
    ck_assert_uint_eq(yk__cgroup_memory_left(), UINT64_MAX);
    file_put("proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:  500 kB\nSwapTotal: 70 kB\nSwapFree: 50 kB\n");
    ck_assert_uint_eq(yk__cgroup_memory_left(), 550 * 1024);
    file_put("proc/self/cgroup", "0::/\n");
    file_put("sys/fs/cgroup/memory.max", "1000\n");
    ck_assert_uint_eq(yk__cgroup_memory_left(), 1000);
}
END_TEST

START_TEST(a_device_says_what_is_allowed)
{
    yk_error err = YK_ERROR_INIT;
    yk_device_caps caps = {.flags = YK_CAP_CPU, .mem_total = 1u << 30, .mem_free = 1u << 29};
    file_put("proc/self/cgroup", "0::/\n");
    file_put("sys/fs/cgroup/memory.max", "1000000\n");
    file_put("sys/fs/cgroup/memory.current", "400000\n");
    yk__device_cap_memory(&caps);
    ck_assert_uint_eq(caps.mem_total, 1000000);
    ck_assert_uint_eq(caps.mem_free, 600000);
    caps = (yk_device_caps){.flags = YK_CAP_CPU, .mem_total = 1u << 30}; /* its free memory is unknown */
    yk__device_cap_memory(&caps);
    ck_assert_uint_eq(caps.mem_free, 600000);
    caps = (yk_device_caps){.flags = YK_CAP_CPU, .mem_total = 500000}; /* nor has it as much as is left */
    yk__device_cap_memory(&caps);
    ck_assert_uint_eq(caps.mem_total, 500000);
    ck_assert_uint_eq(caps.mem_free, 500000);
    caps = (yk_device_caps){.mem_total = 1u << 30, .mem_free = 1u << 29}; /* a card has memory of its own */
    yk__device_cap_memory(&caps);
    ck_assert_uint_eq(caps.mem_total, 1u << 30);
    for (int wrap = 0; wrap < 2; wrap++) {
        yk__device *dev = NULL;
        ref.wrap = wrap;
        ck_assert_int_eq(ref_open(&dev, &err), YK_OK);
        if (dev->caps.flags & YK_CAP_CPU)
            ck_assert_uint_le(dev->caps.mem_total, 1000000);
        yk__device_close(dev);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("cgroup");
    tcase_add_checked_fixture(t, tree_setup, tree_teardown);
    tcase_add_test(t, version_2);
    tcase_add_test(t, version_1);
    tcase_add_test(t, what_is_left);
    tcase_add_test(t, a_device_says_what_is_allowed);
    return suite_run("cgroup", t);
}
