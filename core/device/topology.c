/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine, by hwloc: the usable cores of this process, with one processing unit per physical core, and the cores near a PCI device.
 * Selection of devices (select.c) and `yoke info` ask it; the caller frees it. YOKE_TOPOLOGY_XML names a recorded machine instead. A
 * machine that HWLOC_SYNTHETIC, HWLOC_XMLFILE or HWLOC_FSROOT describes is an error without HWLOC_THISSYSTEM=1.
 *
 * I/O devices are discovered only on demand, as it takes most of the time. Also hwloc's opencl and gl components would load vendor drivers
 * into this process.
 */
#include "config.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/device_internal.h"

struct yk__topology {
    uint32_t n;
    int *core; /* OS index of the first usable processing unit of each core */
};

static const char *recorded_file(void)
{
    return yk__option_text(YK__OPTION_TOPOLOGY_XML);
}

bool yk__topology_recorded(void)
{
    return recorded_file() != NULL;
}

#ifdef HAVE_HWLOC

/* Refuses hwloc's own variables that describe another machine, whose processors may not exist here. */
static yk_status check_made_up(yk_error *err)
{
    static const char *const names[] = {"HWLOC_SYNTHETIC", "HWLOC_XMLFILE", "HWLOC_FSROOT"};
    const char *this_system = getenv("HWLOC_THISSYSTEM");
    for (size_t i = 0; i < sizeof names / sizeof *names && !recorded_file() && !(this_system && atoi(this_system)); i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return yk__fail(err, YK_E_ARG, "topology: %s=%.200s describes another machine, to whose processors nothing can be bound: "
                            "unset it (YOKE_TOPOLOGY_XML=FILE plans for a recorded machine)", names[i], value);
    }
    return YK_OK;
}

static int open_hwloc(hwloc_topology_t *t, bool io)
{
    const char *xml = recorded_file() ? recorded_file() : getenv("HWLOC_XMLFILE"); /* hwloc itself may ignore that variable */
    if (hwloc_topology_init(t))
        return -1;
    hwloc_topology_set_components(*t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "opencl");
    hwloc_topology_set_components(*t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "gl");
    if (io)
        hwloc_topology_set_io_types_filter(*t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if ((xml && *xml && hwloc_topology_set_xml(*t, xml)) || hwloc_topology_load(*t)) {
        hwloc_topology_destroy(*t);
        return -1;
    }
    return 0;
}

/* The usable set of this process: hwloc's allowed set within the process's binding. */
static hwloc_cpuset_t usable_set(hwloc_topology_t t)
{
    hwloc_cpuset_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(t)), bound = hwloc_bitmap_alloc();
    if (set && bound && hwloc_topology_is_thissystem(t) && !hwloc_get_cpubind(t, bound, HWLOC_CPUBIND_PROCESS))
        hwloc_bitmap_and(set, set, bound);
    hwloc_bitmap_free(bound);
    return set;
}

/* Lists the cores of `within`, one unit each, in hwloc's order, so that neighbours share caches. */
static uint32_t list_cores(hwloc_topology_t t, hwloc_const_cpuset_t within, int *core, uint32_t max)
{
    hwloc_cpuset_t set = usable_set(t), part = hwloc_bitmap_alloc();
    hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    hwloc_obj_t obj = NULL;
    uint32_t n = 0;
    while (set && part && (obj = hwloc_get_next_obj_by_type(t, type, obj)) && n < max) {
        hwloc_bitmap_and(part, obj->cpuset, set);
        if (within)
            hwloc_bitmap_and(part, part, within);
        if (!hwloc_bitmap_iszero(part))
            core[n++] = hwloc_bitmap_first(part);
    }
    hwloc_bitmap_free(part);
    hwloc_bitmap_free(set);
    return n;
}

static yk_status fail_reading(yk_error *err)
{
    const char *xml = getenv("HWLOC_XMLFILE");
    if (recorded_file())
        return yk__fail(err, YK_E_IO, "topology: hwloc could not read %s", recorded_file());
    if (xml && *xml)
        return yk__fail(err, YK_E_IO, "topology: hwloc could not read HWLOC_XMLFILE=%.200s", xml);
    return yk__fail(err, YK_E_IO, "topology: hwloc could not read this machine");
}

static yk_status topology_discover(yk__topology *t, yk_error *err)
{
    hwloc_topology_t h;
    int pus;
    if (check_made_up(err))
        return err->status;
    if (open_hwloc(&h, false))
        return fail_reading(err);
    pus = hwloc_get_nbobjs_by_type(h, HWLOC_OBJ_PU);
    t->core = yk__calloc(pus > 0 ? (size_t)pus : 1, sizeof *t->core);
    if (t->core)
        t->n = list_cores(h, NULL, t->core, pus > 0 ? (uint32_t)pus : 0);
    hwloc_topology_destroy(h);
    return t->core ? YK_OK : yk__fail_mem(err, (unsigned long long)pus * sizeof *t->core, "the list of cores");
}

static uint32_t near_pci(const char *bus_id, int *core, uint32_t max)
{
    hwloc_topology_t h;
    hwloc_obj_t dev, host;
    uint32_t n = 0;
    if (open_hwloc(&h, true))
        return 0;
    dev = hwloc_get_pcidev_by_busidstring(h, bus_id);
    host = dev ? hwloc_get_non_io_ancestor_obj(h, dev) : NULL;
    if (host && host->cpuset)
        n = list_cores(h, host->cpuset, core, max);
    hwloc_topology_destroy(h);
    return n;
}

#else

/* True if `cpu` is the first usable unit of its core. */
static bool first_of_core(int cpu, const cpu_set_t *set)
{
    char path[96], line[256];
    int sibling[64];
    uint32_t n = 0;
    FILE *f;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    f = fopen(path, "re");
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        n = yk__cores_parse(line, sibling, 64);
    }
    if (f)
        fclose(f);
    for (uint32_t i = 0; i < n; i++)
        if (sibling[i] < cpu && CPU_ISSET(sibling[i], set))
            return false;
    return true;
}

static yk_status topology_discover(yk__topology *t, yk_error *err)
{
    cpu_set_t set;
    if (recorded_file())
        return yk__fail(err, YK_E_UNSUPPORTED, "YOKE_TOPOLOGY_XML needs hwloc, which this build was made without");
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set))
        CPU_SET(0, &set);
    t->core = yk__calloc(CPU_SETSIZE, sizeof *t->core);
    if (!t->core)
        return yk__fail_mem(err, CPU_SETSIZE * sizeof *t->core, "the list of cores");
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set) && first_of_core(i, &set))
            t->core[t->n++] = i;
    return YK_OK;
}

static uint32_t near_pci(const char *bus_id, int *core, uint32_t max)
{
    char path[128], line[1024];
    uint32_t n = 0;
    FILE *f;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.32s/local_cpulist", bus_id);
    f = fopen(path, "re");
    if (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        n = yk__cores_parse(line, core, max);
    }
    if (f)
        fclose(f);
    return n;
}

#endif

yk_status yk__topology_new(yk__topology **out, yk_error *err)
{
    yk__topology *t = yk__calloc(1, sizeof *t);
    if (!t)
        return yk__fail_mem(err, sizeof *t, "the topology");
    if (topology_discover(t, err) == YK_OK && !t->n)
        yk__fail(err, YK_E_INTERNAL, "topology: no usable core was found");
    if (err->status) {
        yk__topology_free(t);
        return err->status;
    }
    *out = t;
    return YK_OK;
}

void yk__topology_free(yk__topology *t)
{
    if (t)
        yk__free(t->core);
    yk__free(t);
}

uint32_t yk__topology_cores(const yk__topology *t)
{
    return t->n;
}

char *yk__topology_core_list(const yk__topology *t)
{
    return yk__cores_text(t->core, t->n);
}

char *yk__topology_part(const yk__topology *t, uint32_t part, uint32_t parts, yk_error *err)
{
    uint64_t begin, end;
    char *list;
    if (!parts || part >= parts || parts > t->n) {
        yk__fail(err, YK_E_ARG, "part %u of %u: this process has %u usable cores; use at most that many parts", part, parts,
                 t->n);
        return NULL;
    }
    begin = (uint64_t)t->n * part / parts;
    end = (uint64_t)t->n * (part + 1) / parts;
    list = yk__cores_text(t->core + begin, (uint32_t)(end - begin));
    if (!list)
        yk__fail_mem(err, (end - begin) * 12, "a list of cores");
    return list;
}

static bool core_usable(const yk__topology *t, int core)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->core[i] == core)
            return true;
    return false;
}

char *yk__topology_near(const yk__topology *t, const char *locality)
{
    uint32_t n = 0, max = 4096, kept = 0;
    int *core = yk__calloc(max, sizeof *core);
    char *list;
    if (core && locality && !strncmp(locality, "pci:", 4))
        n = near_pci(locality + 4, core, max);
    else if (core && locality && !strncmp(locality, "cores:", 6))
        n = yk__cores_parse(locality + 6, core, max);
    for (uint32_t i = 0; i < n; i++)
        if (core_usable(t, core[i]))
            core[kept++] = core[i];
    list = kept ? yk__cores_text(core, kept) : yk__topology_core_list(t);
    yk__free(core);
    return list;
}
