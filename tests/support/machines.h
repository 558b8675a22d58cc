/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that are not this one, for tests of what is chosen on them: recorded by hwloc, read by YOKE_TOPOLOGY_XML. */
#ifndef YOKE_TESTS_SUPPORT_MACHINES_H
#define YOKE_TESTS_SUPPORT_MACHINES_H

#include <check.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct machine_case {
    const char *name, *synthetic;
    const char *units;   /* processing units that are left of it; NULL: all */
    const char *allowed; /* those a cgroup allows; NULL: all */
    uint32_t cores;
    const char *list, *second; /* one unit of each core; those of the second of two ranks; NULL: too long to write down */
} machine_case;

static const machine_case machine_cases[] = {
    {"one core", "core:1 pu:1", NULL, NULL, 1, "0", NULL},
    {"three cores", "core:3 pu:1", NULL, NULL, 3, "0-2", "1-2"},
    {"two threads a core", "core:4 pu:2", NULL, NULL, 4, "0,2,4,6", "4,6"},
    {"two memory nodes", "numa:2 core:4 pu:1", NULL, NULL, 8, "0-7", "4-7"},
    {"fast and small cores", "core:8 pu:2", "0-7,8,10,12,14", NULL, 8, "0,2,4,6,8,10,12,14", "8,10,12,14"},
    {"a cgroup's cpuset", "core:8 pu:1", NULL, "2-3,5", 3, "2-3,5", "3,5"},
    {"256 cores", "pack:2 core:128 pu:2", NULL, NULL, 256, NULL, NULL},
};
#define MACHINE_CASES (sizeof machine_cases / sizeof *machine_cases)

static void machine_record(const machine_case *c, const char *file)
{
    hwloc_topology_t t;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    ck_assert_int_eq(hwloc_topology_init(&t), 0);
    ck_assert_int_eq(hwloc_topology_set_flags(t, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED), 0);
    ck_assert_int_eq(hwloc_topology_set_synthetic(t, c->synthetic), 0);
    ck_assert_int_eq(hwloc_topology_load(t), 0);
    if (c->units) {
        hwloc_bitmap_list_sscanf(set, c->units);
        ck_assert_int_eq(hwloc_topology_restrict(t, set, 0), 0);
    }
    if (c->allowed) {
        hwloc_bitmap_list_sscanf(set, c->allowed);
        ck_assert_int_eq(hwloc_topology_allow(t, set, NULL, HWLOC_ALLOW_FLAG_CUSTOM), 0);
    }
    ck_assert_int_eq(hwloc_topology_export_xml(t, file, 0), 0);
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(t);
    setenv("YOKE_TOPOLOGY_XML", file, 1);
}

#endif
