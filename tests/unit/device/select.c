/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device words over four plugins that exist only here: "corex" is the host's cores, "gpux" has three devices of which
 * two hang at a PCI bus, "otherx" has these two as well, "jitx" is a CPU behind another interface.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/run.h"

#ifdef HAVE_HWLOC
#include "tests/support/machines.h"
#endif

#include "core/base/mem.h"
#include "core/device/device.h"
#include "core/device/rival.h"

static yk_status plugin_init(const yk_host *host)
{
    (void)host;
    return YK_OK;
}

static yk_status count_one(uint32_t *n)
{
    *n = 1;
    return YK_OK;
}

static yk_status count_two(uint32_t *n)
{
    *n = 2;
    return YK_OK;
}

static yk_status count_three(uint32_t *n)
{
    *n = 3;
    return YK_OK;
}

static void caps_fill(yk_device_caps *c, uint32_t flags, const char *name)
{
    uint32_t size = c->size;
    memset(c, 0, sizeof *c);
    c->size = size;
    c->flags = flags;
    c->align = 64;
    snprintf(c->name, sizeof c->name, "%s", name);
}

static yk_status caps_core(uint32_t i, yk_device_caps *c)
{
    caps_fill(c, YK_CAP_CPU | YK_CAP_CORES, "cores");
    return i ? YK_E_ARG : YK_OK;
}

static yk_status caps_jit(uint32_t i, yk_device_caps *c)
{
    caps_fill(c, YK_CAP_CPU, "jit");
    return i ? YK_E_ARG : YK_OK;
}

static yk_status caps_gpu(uint32_t i, yk_device_caps *c)
{
    caps_fill(c, 0, "gpu");
    if (i < 2)
        snprintf(c->locality, sizeof c->locality, "pci:0000:0%u:00.0", i + 1);
    return i > 2 ? YK_E_ARG : YK_OK;
}

/* The first two of them once more, by another interface. */
static yk_status caps_other(uint32_t i, yk_device_caps *c)
{
    yk_status s = caps_gpu(i, c);
    return s ? s : i > 1 ? YK_E_ARG : YK_OK;
}

static bool together; /* the plugins have collectives among devices */

static const void *extension_any(const char *name)
{
    static const int something = 1;
    return together && !strcmp(name, "yk.coll.1") ? &something : NULL;
}

static yk_status no_function(void)
{
    return YK_E_UNSUPPORTED;
}

#define NO (void *)no_function
#define PLUGIN(title, count, capabilities)                                                                             \
    {                                                                                                                  \
        .size = sizeof(yk_plugin), .abi = YK_ABI, .name = title, .version = "0", .sanitizer = YK_SANITIZER,            \
        .init = plugin_init, .device_count = count, .device_caps = capabilities, .device_open = NO, .buffer_new = NO,  \
        .program_new = NO, .queue_new = NO, .queue_run = NO, .queue_copy = NO, .queue_wait = NO,                         \
        .buffer_free = (void *)no_function, .program_free = (void *)no_function, .queue_free = (void *)no_function,    \
        .queue_poll = NO, .extension = extension_any, .n_op = YK_OP_COUNT, .n_dtype = YK_DTYPE_COUNT                     \
    }

static const yk_plugin corex = PLUGIN("corex", count_one, caps_core), gpux = PLUGIN("gpux", count_three, caps_gpu),
                       jitx = PLUGIN("jitx", count_one, caps_jit), otherx = PLUGIN("otherx", count_two, caps_other);

static const yk_plugin *query_core(uint32_t abi)
{
    return abi == YK_ABI ? &corex : NULL;
}

static const yk_plugin *query_gpu(uint32_t abi)
{
    return abi == YK_ABI ? &gpux : NULL;
}

static const yk_plugin *query_other(uint32_t abi)
{
    return abi == YK_ABI ? &otherx : NULL;
}

static const yk_plugin *query_jit(uint32_t abi)
{
    return abi == YK_ABI ? &jitx : NULL;
}

static yk__topology *topology;

static void tests_setup(void)
{
    yk_error err = YK_ERROR_INIT;
    yk__plugin *p;
    static bool done;
    if (done)
        return;
    done = true;
    setenv("YOKE_PLUGIN_DIR", "/nonexistent", 1);
    unsetenv("YOKE_PLUGINS");
    unsetenv("YOKE_LAYERS");
    ck_assert_int_eq(yk__plugin_register(query_core, "corex", &p, &err), YK_OK);
    ck_assert_int_eq(yk__plugin_register(query_gpu, "gpux", &p, &err), YK_OK);
    ck_assert_int_eq(yk__plugin_register(query_other, "otherx", &p, &err), YK_OK);
    ck_assert_int_eq(yk__plugin_register(query_jit, "jitx", &p, &err), YK_OK);
    ck_assert_int_eq(yk__topology_new(&topology, &err), YK_OK);
}

/* The texts of what the specs select, separated by spaces. */
static const char *selection_is(const char *words)
{
    static char text[16000];
    yk_error err = YK_ERROR_INIT;
    yk__placement *p = NULL;
    uint32_t n = 0;
    size_t used = 0;
    text[0] = 0;
    ck_assert_msg(yk__device_select(words, topology, &p, &n, &err) == YK_OK, "%s", err.text);
    for (uint32_t i = 0; i < n; i++) {
        char one_text[sizeof p->plugin + sizeof p->cores + 16];
        yk__placement_text(&p[i], one_text, sizeof one_text);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", one_text);
    }
    yk__free(p);
    return text;
}

static void selection_refused(const char *words, const char *say)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *p = NULL;
    uint32_t n = 0;
    ck_assert_int_ne(yk__device_select(words, topology, &p, &n, &err), YK_OK);
    ck_assert_msg(strstr(err.text, say) != NULL, "\"%s\" lacks \"%s\"", err.text, say);
}

/* Launchers bind each process to its own cores: cores of other processes do not exist for it. */
START_TEST(process_picks_its_own_of_a_list)
{
    static const struct {
        const char *words, *refused;
        uint32_t pick, n;
    } cases[] = {
        {"corex:4000 corex:%s", NULL, 1, 2},
        {"corex:%s corex:4000", NULL, 0, 2},
        {"corex:%s corex:4000", "core 4000 is not one this process may use", 1, 0},
        {"corex:4000", "core 4000 is not one this process may use", 1, 0},
        {"gpux:0,1@4000 corex:%s", NULL, 2, 3},
        {"gpux:0,1@4000 corex:%s", "core 4000 is not one this process may use", 1, 0},
        {"gpux:*@4000 corex:%s", NULL, 3, 4},
    };
    char *all = yk__topology_core_list(topology);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__placement *p = NULL;
        uint32_t n = 0;
        char words[8000];
        snprintf(words, sizeof words, cases[i].words, all);
        const yk_status s = yk__device_pick(words, topology, cases[i].pick, &p, &n, &err);
        ck_assert_msg(!s == !cases[i].refused, "%s: %s", words, err.text);
        ck_assert_uint_eq(n, cases[i].n);
        ck_assert_msg(!s || strstr(err.text, cases[i].refused), "%s: %s", words, err.text);
        yk__free(p);
    }
    yk__free(all);
}
END_TEST

static const char *with_cores(const char *fmt)
{
    static char text[8000];
    char *all = yk__topology_core_list(topology);
    snprintf(text, sizeof text, fmt, all, all);
    yk__free(all);
    return text;
}

START_TEST(devices_by_number)
{
    ck_assert_str_eq(selection_is("gpux:0"), "gpux:0");
    ck_assert_str_eq(selection_is("gpux:0! gpux:2"), "gpux:0! gpux:2");
    ck_assert_str_eq(selection_is("gpux:0-1!"), "gpux:0! gpux:1!");
    ck_assert_str_eq(selection_is("gpux:0,2,jitx:0"), "gpux:0 gpux:2 jitx:0");
    ck_assert_str_eq(selection_is("gpux:*"), "gpux:0 gpux:1 gpux:2");
    ck_assert_str_eq(selection_is(" gpux:*! "), "gpux:0! gpux:1! gpux:2!");
    selection_refused("gpux:3", "gpux has no device 3; there are: gpux:0 (gpu)");
    selection_refused("gpux/2", "not cores to split");
}
END_TEST

START_TEST(devices_by_cores)
{
    char *first = yk__topology_part(topology, 0, yk__topology_cores(topology), &(yk_error)YK_ERROR_INIT);
    char words[300], want[300];
    ck_assert_str_eq(selection_is("corex"), with_cores("corex:%s"));
    snprintf(words, sizeof words, "corex:%s! gpux:1@%s", first, first);
    snprintf(want, sizeof want, "corex:%s! gpux:1@%s", first, first);
    ck_assert_str_eq(selection_is(words), want);
    ck_assert_str_eq(selection_is(want), want); /* a placement's text selects it again */
    selection_refused("corex:60000", "core 60000 is not one this process may use");
    selection_refused("gpux:0@60000", "core 60000 is not one this process may use");
    selection_refused("corex/4000", "usable cores");
    selection_refused("corex:0@0", "names cores twice");
    if (yk__topology_cores(topology) > 1)
        ck_assert_ptr_nonnull(strchr(selection_is("corex/2"), ' '));
    yk__free(first);
}
END_TEST

START_TEST(auto_takes_each_device_once)
{
    const char *s = selection_is("auto");
    ck_assert_msg(!strncmp(s, "corex:", 6), "%s", s);
    ck_assert_ptr_nonnull(strstr(s, "gpux:2"));
    ck_assert_ptr_null(strstr(s, "jitx")); /* another has the cores */
    for (int i = 0; i < 2; i++) { /* the same device by two plugins: one of them */
        const char *names[2][2] = {{"gpux:0", "otherx:0"}, {"gpux:1", "otherx:1"}};
        ck_assert_int_eq(!!strstr(s, names[i][0]) + !!strstr(s, names[i][1]), 1);
    }
    ck_assert_ptr_null(strchr(s, '!'));
    ck_assert_str_eq(selection_is(NULL), selection_is("auto"));
    ck_assert_str_eq(selection_is("  "), selection_is(""));
    ck_assert_str_eq(selection_is("gpux:0 otherx:0"), "gpux:0 otherx:0"); /* a list that names both gets both */
}
END_TEST

/* Seconds of gpux:0, gpux:1, otherx:0, otherx:1 */
static double paces[2][2];

static double pace_reported(const char *plugin, uint32_t device)
{
    return device < 2 ? paces[!strcmp(plugin, "otherx")][device] : 0;
}

START_TEST(a_device_of_two_plugins_goes_to_the_faster)
{
    double (*const measure)(const char *, uint32_t) = yk__rival_measure;
    char first[1000];
    snprintf(first, sizeof first, "%s", selection_is("auto")); /* nothing of these computes: the first has it */
    yk__rival_measure = pace_reported;
    memcpy(paces, ((double[2][2]){{1e-3, 2e-3}, {2e-3, 1e-3}}), sizeof paces);
    const char *s = selection_is("auto!");
    ck_assert_msg(strstr(s, "gpux:0!") && !strstr(s, "gpux:1") && strstr(s, "otherx:1!") && !strstr(s, "otherx:0"), "%s", s);
    ck_assert_ptr_nonnull(strstr(s, "gpux:2!"));
    memcpy(paces, ((double[2][2]){{0, 1e-3}, {2e-3, 0}}), sizeof paces); /* one that does not compute has nothing */
    s = selection_is("auto");
    ck_assert_msg(strstr(s, "otherx:0") && strstr(s, "gpux:1") && !strstr(s, "gpux:0"), "%s", s);
    memcpy(paces, ((double[2][2]){{1e-3, 0.95e-3}, {0.95e-3, 1e-3}}), sizeof paces); /* noise changes nothing */
    ck_assert_str_eq(selection_is("auto"), first);
    together = true; /* a property that a product does not show */
    memcpy(paces, ((double[2][2]){{1e-3, 9e-3}, {9e-3, 1e-3}}), sizeof paces);
    s = selection_is("auto");
    together = false;
    yk__rival_measure = measure;
    ck_assert_str_eq(s, first);
}
END_TEST

START_TEST(words_that_match_nothing)
{
    selection_refused("gpx:0", "did you mean gpux?");
    selection_refused("gpx:0", "there are: ");
    selection_refused("gpux:", "cannot be read");
    selection_refused("gpux:one", "cannot be read");
    selection_refused("gpux:0@", "cannot be read");
    selection_refused(":0", "cannot be read");
    selection_refused("corex/0", "cannot be read");
    selection_refused("gpux:0x", "cannot be read");
    selection_refused("./no/such.so:0", "No such file");
}
END_TEST

/* A rank's YOKE_DEVICES gives its placement again, with its '!'; and no other text forces a device. */
START_TEST(a_text_selects_its_placement_again)
{
    static const char *const specs[] = {"gpux:0", "gpux:0!", "gpux:*!", "gpux:*", "jitx", "jitx!", "corex", "corex!", "auto", "auto!"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        yk_error err = YK_ERROR_INIT;
        yk__placement *p = NULL, *again = NULL;
        uint32_t n = 0, one = 0;
        ck_assert_int_eq(yk__device_select(specs[i], topology, &p, &n, &err), YK_OK);
        for (uint32_t r = 0; r < n; r++) {
            char text[600];
            yk__placement_text(&p[r], text, sizeof text);
            ck_assert_msg(p[r].forced == (strchr(specs[i], '!') != NULL), "%s of %s: forced %d", text, specs[i], p[r].forced);
            ck_assert_msg(!yk__device_select(text, topology, &again, &one, &err), "%s: %s", text, err.text);
            ck_assert_uint_eq(one, 1);
            ck_assert_mem_eq(again, &p[r], sizeof *p);
            yk__free(again);
        }
        yk__free(p);
    }
}
END_TEST

/* Lines that selecting writes to standard error; text: capacity bytes for them. */
static int lines_reported(const char *specs, uint32_t want, char *text, size_t capacity)
{
    yk_error err = YK_ERROR_INIT;
    yk__placement *p = NULL;
    FILE *to = tmpfile();
    const int was = dup(STDERR_FILENO);
    uint32_t n = 0;
    int lines = 0;
    ck_assert_ptr_nonnull(to);
    dup2(fileno(to), STDERR_FILENO);
    yk__device_select(specs, topology, &p, &n, &err);
    dup2(was, STDERR_FILENO);
    close(was);
    ck_assert_msg(n == want, "%s", err.text);
    yk__free(p);
    rewind(to);
    text[fread(text, 1, capacity - 1, to)] = 0;
    fclose(to);
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    return lines;
}

START_TEST(shared_cores_are_reported_once)
{
    char specs[3000] = "", text[2000];
    for (int i = 0; i < 300; i++)
        strcat(specs, "corex ");
    ck_assert_int_eq(lines_reported(specs, 300, text, sizeof text), 1);
    ck_assert_msg(strstr(text, "compute on the same cores, as do 298 more ranks") != NULL, "%s", text);
    ck_assert_int_eq(lines_reported("corex corex jitx jitx:0", 4, text, sizeof text), 3); /* one for each pair of plugins */
    ck_assert_int_eq(lines_reported("corex gpux:0", 2, text, sizeof text), 0);
}
END_TEST

/* Whatever allocation fails, the answer is an error and nothing is left half done. */
#ifdef HAVE_HWLOC
START_TEST(on_many_machines)
{
    const machine_case *c = &machine_cases[_i];
    yk_error err = YK_ERROR_INIT;
    yk__topology *host_topology = topology;
    char file[64], halves[200], *all;
    snprintf(file, sizeof file, "select-%d.xml", (int)getpid());
    machine_record(c, file);
    ck_assert_msg(yk__topology_new(&topology, &err) == YK_OK, "%s: %s", c->name, err.text);
    remove(file);
    ck_assert_str_eq(selection_is("corex"), with_cores("corex:%s"));
    const char *whole = selection_is("auto"); /* one rank for the cores, and each device that is not one */
    all = yk__topology_core_list(topology);
    ck_assert_msg(!strncmp(whole, "corex:", 6) && !strncmp(whole + 6, all, strlen(all)), "%s: %s", c->name, whole);
    ck_assert_msg(!strstr(whole, "jitx") && strstr(whole, "gpux:2"), "%s: %s", c->name, whole);
    yk__free(all);
    if (c->cores == 1)
        selection_refused("corex/2", "usable cores");
    else
        ck_assert_ptr_nonnull(strchr(selection_is("corex/2"), ' '));
    if (c->second) {
        snprintf(halves, sizeof halves, " corex:%s", c->second);
        ck_assert_ptr_nonnull(strstr(selection_is("corex/2"), halves));
    }
    if (c->allowed)
        selection_refused("corex:0", "core 0 is not one this process may use");
    ck_assert_str_eq(selection_is(with_cores("gpux:0@%s!")), with_cores("gpux:0@%s!"));
    yk__topology_free(topology);
    topology = host_topology;
    unsetenv("YOKE_TOPOLOGY_XML");
}
END_TEST
#endif

START_TEST(memory_runs_out)
{
    for (long n = 0;; n++) {
        yk_error err = YK_ERROR_INIT;
        yk__placement *p = NULL;
        uint32_t count = 0;
        yk_status s;
        yk__mem_fail_after(n);
        s = yk__device_select("gpux:0 corex gpux:1,2 jitx", topology, &p, &count, &err);
        yk__mem_fail_after(-1);
        if (s == YK_OK) {
            ck_assert_uint_eq(count, 5);
            ck_assert_int_gt(n, 3);
            yk__free(p);
            return;
        }
        ck_assert_msg(s == YK_E_MEM, "%s", err.text);
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, tests_setup, NULL);
    tcase_add_test(t, devices_by_number);
    tcase_add_test(t, devices_by_cores);
    tcase_add_test(t, process_picks_its_own_of_a_list);
    tcase_add_test(t, auto_takes_each_device_once);
    tcase_add_test(t, a_device_of_two_plugins_goes_to_the_faster);
    tcase_add_test(t, words_that_match_nothing);
    tcase_add_test(t, a_text_selects_its_placement_again);
    tcase_add_test(t, shared_cores_are_reported_once);
#ifdef HAVE_HWLOC
    tcase_add_loop_test(t, on_many_machines, 0, MACHINE_CASES);
#endif
    tcase_add_test(t, memory_runs_out);
    return suite_run("device_select", t);
}
