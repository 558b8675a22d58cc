/* SPDX-License-Identifier: Apache-2.0 */
/* The topology of machines: this one, recorded and made-up ones of many shapes, and unreadable files. */
#include "config.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_HWLOC
#include "tests/support/machines.h"
#endif

#include "core/base/mem.h"
#include "core/device/device.h"
#include "tests/support/run.h"

START_TEST(lists_of_cores)
{
    int core[16];
    ck_assert_uint_eq(yk__cores_parse("0-3,6", core, 16), 5);
    ck_assert_int_eq(core[3], 3);
    ck_assert_int_eq(core[4], 6);
    ck_assert_uint_eq(yk__cores_parse("7", core, 16), 1);
    ck_assert_uint_eq(yk__cores_parse("", core, 16), 0);
    ck_assert_uint_eq(yk__cores_parse("3-1", core, 16), 0);
    ck_assert_uint_eq(yk__cores_parse("1,", core, 16), 0);
    ck_assert_uint_eq(yk__cores_parse("1x", core, 16), 0);
    ck_assert_uint_eq(yk__cores_parse("-1", core, 16), 0);
    ck_assert_uint_eq(yk__cores_parse("0-99999999999", core, 16), 0);
    ck_assert_uint_eq(yk__cores_parse("0-16", core, 16), 0);
}
END_TEST

static yk__topology *machine_open(void)
{
    yk_error err = YK_ERROR_INIT;
    yk__topology *t = NULL;
    ck_assert_msg(yk__topology_new(&t, &err) == YK_OK, "%s", err.text);
    return t;
}

START_TEST(this_machine)
{
    yk_error err = YK_ERROR_INIT;
    yk__topology *t;
    cpu_set_t set;
    char *all;
    int core[1024];
    uint32_t n;
    unsetenv("YOKE_TOPOLOGY_XML");
    t = machine_open();
    all = yk__topology_core_list(t);
    n = yk__cores_parse(all, core, 1024);
    ck_assert_uint_eq(n, yk__topology_cores(t));
    ck_assert_uint_ge(n, 1);
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (uint32_t i = 0; i < n; i++)
        ck_assert(CPU_ISSET(core[i], &set));
    yk__free(all);
    all = yk__topology_part(t, 0, n, &err);
    ck_assert_msg(yk__bind_cores(all, &err) == YK_OK, "%s", err.text);
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    ck_assert_int_eq(CPU_COUNT(&set), 1);
    yk__free(all);
    ck_assert_ptr_null(yk__topology_part(t, 0, n + 1, &err));
    ck_assert_int_eq(err.status, YK_E_ARG);
    yk__topology_free(t);
}
END_TEST

START_TEST(binding_to_nonsense)
{
    yk_error err = YK_ERROR_INIT, again = YK_ERROR_INIT;
    unsetenv("YOKE_TOPOLOGY_XML");
    ck_assert_int_eq(yk__bind_cores("one", &err), YK_E_ARG);
    ck_assert_ptr_nonnull(strstr(err.text, "\"one\""));
    ck_assert_int_eq(yk__bind_cores("60000", &again), YK_E_ARG);
}
END_TEST

#ifdef HAVE_HWLOC
static char recorded[64];

/* A machine that is not this one; a PCI device hangs at its last package. */
static void topology_record(const char *synthetic)
{
    static const char device[] = "<object type=\"Bridge\" gp_index=\"9001\" bridge_type=\"0-1\" depth=\"0\" "
                                 "bridge_pci=\"0000:[80-8f]\"><object type=\"PCIDev\" gp_index=\"9002\" "
                                 "pci_busid=\"0000:83:00.0\" pci_type=\"0302 [10de:2330] [10de:0000] a1\" "
                                 "pci_link_speed=\"0.000000\"/></object>";
    hwloc_topology_t t;
    char *xml = NULL, *at = NULL;
    int n = 0;
    FILE *f;
    ck_assert_int_eq(hwloc_topology_init(&t), 0);
    ck_assert_int_eq(hwloc_topology_set_synthetic(t, synthetic), 0);
    ck_assert_int_eq(hwloc_topology_load(t), 0);
    ck_assert_int_eq(hwloc_topology_export_xmlbuffer(t, &xml, &n, 0), 0);
    for (char *s = xml, *last = NULL; (s = strstr(s, "</object>")); s++) {
        at = last; /* the end of the last package, before that of the machine */
        last = s;
    }
    ck_assert_ptr_nonnull(at);
    snprintf(recorded, sizeof recorded, "topology-%d.xml", (int)getpid());
    f = fopen(recorded, "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%.*s%s%s", (int)(at - xml), xml, device, at);
    fclose(f);
    hwloc_free_xmlbuffer(t, xml);
    hwloc_topology_destroy(t);
    setenv("YOKE_TOPOLOGY_XML", recorded, 1);
}

static void part_is(const yk__topology *t, uint32_t part, uint32_t parts, const char *want)
{
    yk_error err = YK_ERROR_INIT;
    char *list = yk__topology_part(t, part, parts, &err);
    ck_assert_msg(list != NULL, "%s", err.text);
    ck_assert_str_eq(list, want);
    yk__free(list);
}

START_TEST(recorded_machine)
{
    yk_error err = YK_ERROR_INIT;
    yk__topology *t;
    char *list;
    topology_record("pack:2 core:4 pu:2");
    t = machine_open();
    ck_assert_uint_eq(yk__topology_cores(t), 8); /* one unit per core: 0, 2, .. 14 */
    list = yk__topology_core_list(t);
    ck_assert_str_eq(list, "0,2,4,6,8,10,12,14");
    yk__free(list);
    part_is(t, 1, 2, "8,10,12,14");
    part_is(t, 2, 3, "10,12,14");
    ck_assert_int_eq(yk__bind_cores("14", &err), YK_OK); /* no effect: it is not this machine */
    list = yk__topology_near(t, "pci:0000:83:00.0");
    ck_assert_str_eq(list, "8,10,12,14");
    yk__free(list);
    list = yk__topology_near(t, "pci:0000:01:00.0");
    ck_assert_str_eq(list, "0,2,4,6,8,10,12,14");
    yk__free(list);
    list = yk__topology_near(t, "cores:2-5");
    ck_assert_str_eq(list, "2,4");
    yk__free(list);
    yk__topology_free(t);
    remove(recorded);
}
END_TEST

START_TEST(cores_of_many_machines)
{
    const machine_case *c = &machine_cases[_i];
    char file[64];
    snprintf(file, sizeof file, "machine-%d.xml", (int)getpid());
    machine_record(c, file);
    yk__topology *t = machine_open();
    remove(file);
    ck_assert_msg(yk__topology_cores(t) == c->cores, "%s: %u cores, expected %u", c->name, yk__topology_cores(t), c->cores);
    char *list = yk__topology_core_list(t);
    ck_assert_msg(!c->list || !strcmp(list, c->list), "%s: cores %s, expected %s", c->name, list, c->list);
    yk__free(list);
    if (c->second)
        part_is(t, 1, 2, c->second);
    for (uint32_t i = 0; i < c->cores; i++) {
        yk_error err = YK_ERROR_INIT;
        int core[2];
        list = yk__topology_part(t, i, c->cores, &err);
        ck_assert_uint_eq(yk__cores_parse(list, core, 2), 1);
        yk__free(list);
    }
    ck_assert_ptr_null(yk__topology_part(t, 0, c->cores + 1, &(yk_error)YK_ERROR_INIT));
    yk__topology_free(t);
}
END_TEST

/* hwloc's own variables may describe a machine this is not; nothing may be bound to processors that do not exist. */
START_TEST(made_up_by_hwloc)
{
    static const char *const said[][2] = {
        {"HWLOC_SYNTHETIC", "pack:4 core:8 pu:2"}, {"HWLOC_XMLFILE", "made.xml"}, {"HWLOC_XMLFILE", "/no/such.xml"}};
    yk_error err = YK_ERROR_INIT;
    yk__topology *t = NULL;
    unsetenv("YOKE_TOPOLOGY_XML");
    machine_record(&machine_cases[3], "made.xml");
    unsetenv("YOKE_TOPOLOGY_XML");
    setenv(said[_i][0], said[_i][1], 1);
    ck_assert_int_eq(yk__topology_new(&t, &err), YK_E_ARG);
    ck_assert_msg(strstr(err.text, said[_i][0]) && strstr(err.text, said[_i][1]) && strstr(err.text, "YOKE_TOPOLOGY_XML"), "%s",
                  err.text);
    unsetenv(said[_i][0]);
    remove("made.xml");
}
END_TEST

/* HWLOC_THISSYSTEM says it is this machine all the same: then only what is there counts. */
START_TEST(made_up_and_called_this_machine)
{
    cpu_set_t set;
    int core[1024];
    unsetenv("YOKE_TOPOLOGY_XML");
    setenv("HWLOC_SYNTHETIC", "pack:4 core:128 pu:1", 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    yk__topology *t = machine_open();
    char *list = yk__topology_core_list(t);
    ck_assert_int_eq(sched_getaffinity(0, sizeof set, &set), 0);
    const uint32_t n = yk__cores_parse(list, core, 1024);
    ck_assert_uint_ge(n, 1);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(CPU_ISSET(core[i], &set), "core %d of %s does not exist", core[i], list);
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
    yk__free(list);
    yk__topology_free(t);
}
END_TEST

START_TEST(recorded_file_is_bad)
{
    yk_error err = YK_ERROR_INIT;
    yk__topology *t = NULL;
    setenv("YOKE_TOPOLOGY_XML", "/no/such/file.xml", 1);
    ck_assert_int_eq(yk__topology_new(&t, &err), YK_E_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/such/file.xml"));
}
END_TEST
#endif

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_add_test(t, lists_of_cores);
    tcase_add_test(t, binding_to_nonsense);
#ifdef HAVE_HWLOC
    tcase_add_test(t, recorded_machine);
    tcase_add_loop_test(t, cores_of_many_machines, 0, MACHINE_CASES);
    tcase_add_loop_test(t, made_up_by_hwloc, 0, 3);
    tcase_add_test(t, made_up_and_called_this_machine);
    tcase_add_test(t, recorded_file_is_bad);
#endif
    tcase_add_test(t, this_machine); /* binds, so it is the last where nothing forks */
    return suite_run("device_topology", t);
}
