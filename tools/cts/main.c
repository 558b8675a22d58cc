/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke-cts, the conformance suite of plugins and transports: the command line, and the list of groups. Each group has a child process, so a
 * crash or a hang fails that group alone. Exit code 0 if all tests pass, 1 if one fails.
 */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/device/transport_load.h"
#include "tools/cli.h"
#include "tools/cts/record.h"
#include "tools/cts/tr.h"

#define DEATHS 20       /* processes of a group that may die before its other tests are skipped */
#define ENDED 42         /* exit code of a process that ran its tests: a plugin that ends the process gives another one */
#define COUNT_MS 60000
#define PROGRESS_SECONDS 10

static const cts_group plugin_groups[] = {
    {"abi", "the file, its one symbol, the table, starting twice", false, cts_group_abi},
    {"buffer", "buffers: new, put, get, map, wrap, out of memory", true, cts_group_buffer},
    {"queue", "queues: points, order, waits, polls", true, cts_group_queue},
    {"extension", "collectives among devices, shared buffers", true, cts_group_extension},
    {"op", "every primitive against the float64 reference", true, cts_group_op},
    {"composite", "every claimed composite against the float64 reference", true, cts_group_composite},
    {"body", "every claimed composite against its body on the device", true, cts_group_body},
    {"random", "random graphs", true, cts_group_random},
    {"gradients", "gradients of small networks", true, cts_group_gradients},
    {"guard", "nothing is written outside of values", true, cts_group_guard},
    {"rebind", "one program, other buffers and offsets", true, cts_group_rebind},
    {"leak", "objects that are made and released leave nothing behind", true, cts_group_leak},
    {"offsets", "bytes, values and rows beyond 4 GiB", true, cts_group_offsets},
    {"long", "sums of millions of terms", true, cts_group_long},
    {"processes", "collectives among devices of several processes", false, cts_group_processes},
    {"errors", "refusals, sticky failures", true, cts_group_errors},
};

static const yk__cli_option options[] = {
    {"plugin", "PATH", NULL, "the plugin: a file, or a name as in YOKE_DEVICES", NULL},
    {"transport", "PATH", NULL, "a transport instead: a file, or a name as in YOKE_TRANSPORT", NULL},
    {"device", "N", "0", "number of the device", NULL},
    {"group", "G,...", NULL, "groups to run, separated by commas", NULL},
    {"only", "PATTERN", NULL, "tests to run, such as 'op/dot.*'", NULL},
    {"seed", "S", "1", "of the numbers and the random graphs", NULL},
    {"count", "N", "60", "random graphs", NULL},
    {"claims", NULL, NULL, "composites are not run: one that is claimed passes", NULL},
    {"wide", NULL, NULL, "random graphs of many shapes and with more operations, whose kernels take longer to compile", NULL},
    {"quick", NULL, NULL, "one case in ten of every operation and type, with and without accumulation, for devices that compile slowly",
     NULL},
    {"long", NULL, NULL, "sums of a hundred million terms, too, which take 1 GiB and seconds each", NULL},
    {"timeout", "SECONDS", "60", "how long a point may take; a test is killed after twice that and 10 s", NULL},
    {"unsupported", "FILE", NULL, "patterns of tests that are not run", NULL},
    {"xfail", "FILE", NULL, "patterns of tests that are known to fail", NULL},
    {"verify", NULL, NULL, "run the listed tests too; one that passes fails the run", NULL},
    {"json", NULL, NULL, "one JSON object per line", NULL},
    {"list", NULL, NULL, "print how many tests each group has for this device, and run none", NULL},
    {"report", "FILE", NULL, "write the verdict, as JSON: what was tested, how, and with what result; the same bytes in each run", NULL},
};

static const yk__cli_command command = {
    .name = "cts",
    .own_program = true,
    .usage = "--plugin PATH | --transport PATH [options]",
    .summary = "conformance suite for compute plugins and transports",
    .text = "Runs the tests of <yoke/plugin.h> on one device of a plugin, or those of <yoke/transport.h> among up to three ranks "
            "that it starts itself, and prints a line for each, and the totals. "
            "Every group runs in a process of its own; after a test that crashes or hangs another goes on, and the failure names the "
            "command that runs the test under gdb. Exit code: 0 all passed, 1 some failed, 2 wrong usage or a file that cannot be "
            "read.\n"
            "A run of more than 10 s says on standard error when each group ends. --quick takes about 5 s of a processor on a device "
            "that compiles nothing, and minutes where each kernel is compiled; without it the suite runs six times as many cases.\n"
            "Groups of a plugin: abi buffer queue op composite body random gradients guard rebind leak offsets long extension processes "
            "errors; of a transport: abi connect order sizes match many wait threads cancel memory put arguments death close leak.\n"
            "The files of --unsupported and --xfail hold one pattern a line, as for --only; '#' begins a comment. A test "
            "named in neither is expected to pass, or to be something the plugin does not claim.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

static bool group_exists(const cts_suite *suite, const char *name, size_t n)
{
    for (uint32_t i = 0; i < suite->n; i++)
        if (strlen(suite->group[i].name) == n && !strncmp(suite->group[i].name, name, n))
            return true;
    return false;
}

static int check_groups(const cts_suite *suite, const char *words)
{
    const char *names[32], *near;
    char word[32];
    for (uint32_t i = 0; i < suite->n; i++)
        names[i] = suite->group[i].name;
    while (words && *words) {
        size_t n = strcspn(words, ",");
        if (n && !group_exists(suite, words, n)) {
            snprintf(word, sizeof word, "%.*s", (int)n, words);
            near = yk__nearest_word(word, names, suite->n);
            return yk__cli_usage(&command, "there is no group \"%s\"%s%s%s", word, near ? "; did you mean " : "",
                                 near ? near : "", near ? "?" : "");
        }
        words += n + (words[n] == ',');
    }
    return 0;
}

static bool group_chosen(const char *words, const char *name)
{
    size_t len = strlen(name);
    if (!words)
        return true;
    while (*words) {
        size_t n = strcspn(words, ",");
        if (n == len && !strncmp(words, name, n))
            return true;
        words += n + (words[n] == ',');
    }
    return false;
}

/* ---- The child ------------------------------------------------------------------------------------------------------------ */

static bool open_device(cts *c, yk_error *err)
{
    yk__placement p = {.device = c->device};
    snprintf(p.plugin, sizeof p.plugin, "%s", c->path);
    if (yk__device_open(&p, &c->dev, err))
        return false;
    c->t = c->dev->table;
    return true;
}

static bool open_tested(cts *c, yk_error *err)
{
    return c->transport_path ? !yk__transport_load(c->transport_path, &c->transport, err) : open_device(c, err);
}

static void run_group(cts *c, const cts_group *g)
{
    yk_error err = YK_ERROR_INIT;
    c->group = g->name;
    if (g->open && !open_tested(c, &err)) {
        if (cts_begin(c, "open"))
            cts_fail(c, "%s (%s)", err.text, yk__status_name(err.status));
        return;
    }
    g->run(c);
    if (c->left)
        return;
    yk__device_close(c->dev);
    yk__plugins_fini();
}

/* Time limit of one test: several waits, and compiling. */
static int cts_limit_ms(const cts *c)
{
    const uint64_t ms = c->timeout_ns / 1000000u * 2 + 10000;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* ---- The parent ----------------------------------------------------------------------------------------------------------- */

/* A process that runs the tests of a group from some number on, as the parent sees it. */
typedef struct child {
    pid_t pid;
    int results; /* the pipe */
    uint32_t number; /* number of the last begun test; number of tests if counting */
    char last[160]; /* its name; "" once its verdict has come */
    bool hung;
} child;

/* Redirects standard output to a file, so that a plugin's output is no line of the suite's. */
static void output_capture(cts *c)
{
    FILE *f = tmpfile();
    fflush(stdout);
    if (!f || dup2(fileno(f), STDOUT_FILENO) < 0)
        _exit(3);
    c->printed = STDOUT_FILENO;
}

static void child_main(const cts *c, const cts_group *g, int results)
{
    cts captured = *c;
    captured.out = fdopen(results, "w");
    if (!captured.out)
        _exit(3);
    output_capture(&captured);
    run_group(&captured, g);
    if (captured.counting)
        fprintf(captured.out, "N%u\n", captured.number);
    fclose(captured.out);
    if (captured.left) /* the plugin's code is at work still */
        _exit(ENDED);
    exit(ENDED);
}

static bool child_start(child *k, const cts *c, const cts_group *g)
{
    int end[2];
    if (pipe2(end, O_CLOEXEC))
        return false;
    fflush(stdout);
    *k = (child){.pid = fork(), .results = end[0], .number = c->from};
    if (k->pid == 0) {
        close(end[0]);
        child_main(c, g, end[1]);
    }
    close(end[1]);
    return k->pid > 0;
}

static void take_line(child *k, cts_totals *t, const cts_lists *l, const char *line)
{
    if (*line == 'N') {
        k->number = (uint32_t)strtoul(line + 1, NULL, 10);
    } else if (*line == 'B') {
        k->number = (uint32_t)strtoul(line + 1, NULL, 10);
        snprintf(k->last, sizeof k->last, "%s", line + strcspn(line, " ") + (strchr(line, ' ') != NULL));
        t->tol = -1;
    } else if (*line == 'T') {
        t->tol = atoi(line + 1);
    } else if (*line == 'A') {
        cts_record_about(t->record, line + 1);
    } else {
        cts_take(t, l, line);
        k->last[0] = 0;
    }
}

/* Reads until the child ends, or is silent for longer than a test may take: then kills it. */
static void read_results(child *k, int limit_ms, cts_totals *t, const cts_lists *l)
{
    char text[4096];
    size_t used = 0;
    struct pollfd p = {.fd = k->results, .events = POLLIN};
    for (ssize_t n = 1; n > 0;) {
        char *line = text, *stop;
        k->hung = poll(&p, 1, limit_ms) == 0;
        n = k->hung ? 0 : read(k->results, text + used, sizeof text - 1 - used);
        used += n > 0 ? (size_t)n : 0;
        text[used] = 0;
        for (; (stop = strchr(line, '\n')) != NULL; line = stop + 1) {
            *stop = 0;
            take_line(k, t, l, line);
        }
        used = strlen(line);
        memmove(text, line, used);
    }
    if (k->hung)
        kill(k->pid, SIGKILL);
    close(k->results);
}

/* The command that runs the test in which a process died once more, under a debugger; without a test, its group. */
static void command_print(const cts *c, const cts_group *g, const child *k, char *text, size_t n)
{
    const bool test = *k->last != 0;
    snprintf(text, n, "gdb -ex 'set follow-fork-mode child' -ex run --args yoke-cts --%s %s --device %u --group %s%s%s%s --seed %llu "
             "--count %u --timeout 3600%s%s%s",
             c->transport_path ? "transport" : "plugin", c->transport_path ? c->transport_path : c->path, c->device, g->name,
             test ? " --only '" : "", k->last, test ? "'" : "", (unsigned long long)c->seed, c->count, c->wide ? " --wide" : "",
             c->longest ? " --long" : "", c->claims ? " --claims" : "");
}

/* How the child ended, as a verdict on the test it was in; true if it ended well. */
static bool report_end(const cts *c, const cts_group *g, const child *k, int status, cts_totals *t)
{
    char name[200], message[1200], again[900];
    if (WIFEXITED(status) && WEXITSTATUS(status) == ENDED && !*k->last)
        return true;
    snprintf(name, sizeof name, "%s%s", *k->last ? k->last : g->name, *k->last ? "" : "/end");
    command_print(c, g, k, again, sizeof again);
    if (k->hung)
        snprintf(message, sizeof message, "it did not end within %d s (twice --timeout and 10 s) and was killed; again: %s",
                 cts_limit_ms(c) / 1000, again);
    else if (WIFSIGNALED(status))
        snprintf(message, sizeof message, "the process was killed by signal %d (%s) %s (seed %llu); again: %s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), *k->last ? "in this test" : "after its last test", (unsigned long long)c->seed, again);
    else
        snprintf(message, sizeof message, "the process ended with code %d %s; again: %s", WEXITSTATUS(status),
                 *k->last ? "in this test" : "after its last test", again);
    cts_report(t, c->lists, CTS_FAIL, name, message);
    return false;
}

/* Runs the group from c->from on in a process; k tells its progress. -1: no process, 1: it ended well. */
static int run_child(const cts *c, const cts_group *g, child *k, cts_totals *t)
{
    int status = 0;
    if (!child_start(k, c, g))
        return -1;
    read_results(k, c->counting ? COUNT_MS : cts_limit_ms(c), t, c->lists);
    if (waitpid(k->pid, &status, 0) != k->pid)
        return -1;
    return c->counting || report_end(c, g, k, status, t);
}

/* Counts the skipped tests after too many deaths. */
static void count_rest(const cts *c, const cts_group *g, uint32_t from, int deaths, cts_totals *t)
{
    cts counting = *c;
    char name[80], message[160];
    child k;
    counting.counting = true;
    counting.from = 0;
    const uint32_t rest = run_child(&counting, g, &k, t) == 1 && k.number > from ? k.number - from : 0;
    t->not_run += rest;
    cts_record_not_run(t->record, rest);
    snprintf(name, sizeof name, "%s/rest", g->name);
    snprintf(message, sizeof message, "%d processes died; the other tests of the group, %u of them at least, were not run", deaths,
             rest);
    cts_report(t, c->lists, CTS_FAIL, name, message);
}

static int run_group_all(const cts *c, const cts_group *g, cts_totals *t)
{
    cts now = *c;
    child k;
    for (int deaths = 0;; now.from = k.number) {
        const int ended = run_child(&now, g, &k, t);
        if (ended)
            return ended < 0 ? -1 : 0;
        if (++deaths == DEATHS || (!*k.last && k.number == now.from)) { /* or it died before the next test */
            count_rest(c, g, k.number, deaths, t);
            return 0;
        }
    }
}

static void group_opens(cts *c)
{
    (void)c;
}

/* A group without a device, or with a file that cannot be loaded, has no tests that a pattern could match: that is the failure then. */
static bool tested_opens(const cts *c, cts_totals *t)
{
    static const cts_group opens = {"device", NULL, true, group_opens}, loads = {"transport", NULL, true, group_opens};
    cts all = *c;
    child k;
    all.only = NULL;
    all.quick = false;
    return run_child(&all, c->transport_path ? &loads : &opens, &k, t) == 1 && !t->number;
}

/* An operation may be tested in another group than op: names the groups whose tests match behind the '/'. */
static int only_explain(const cts *c, const cts_suite *suite)
{
    const char *slash = strchr(c->only, '/');
    char pattern[200], found[200] = "";
    cts counting = *c;
    cts_totals none = {.tol = -1};
    size_t n = 0;
    child k;
    snprintf(pattern, sizeof pattern, "*/%s*", slash ? slash + 1 : c->only);
    counting.counting = true;
    counting.only = pattern;
    for (uint32_t i = 0; i < suite->n && n < sizeof found; i++)
        if (run_child(&counting, &suite->group[i], &k, &none) == 1 && k.number)
            n += (size_t)snprintf(found + n, sizeof found - n, "%s%s", n ? ", " : "", suite->group[i].name);
    fprintf(stderr, "yoke-cts: no test of these groups matches --only '%s'; ", c->only);
    if (n)
        fprintf(stderr, "group%s %s ha%s such tests; ", strchr(found, ',') ? "s" : "", found, strchr(found, ',') ? "ve" : "s");
    fprintf(stderr, "a name is GROUP/TEST, such as op/dot.f32*\n");
    return YK_EXIT_USAGE;
}

static int totals_print(const cts_totals *t)
{
    if (t->json)
        printf("{\"passed\": %u, \"failed\": %u, \"unsupported\": %u, \"expected_failures\": %u, \"not_run\": %u}\n", t->passed,
               t->failed, t->unsupported, t->expected, t->not_run);
    else {
        printf("1..%u\n", t->number);
        if (t->expected)
            printf("# %u failed as the list says\n", t->expected);
        printf("# %u passed, %u failed, %u unsupported", t->passed, t->failed, t->unsupported);
        printf(t->not_run ? ", %u not run\n" : "\n", t->not_run);
    }
    return t->failed || !t->number ? YK_EXIT_FAILED : YK_EXIT_OK;
}

/* False if the pattern of tests begins with another group's name: opening the device again for no test takes time. */
static bool group_named(const char *only, const char *name)
{
    const size_t n = only ? strcspn(only, "*?[\\/") : 0;
    return !only || only[n] != '/' || (strlen(name) == n && !strncmp(only, name, n));
}

/* Sums of millions of terms take some devices minutes: --quick runs them where --group names them. */
static bool group_runs(const cts *c, const char *groups, const cts_group *group)
{
    return group_chosen(groups, group->name) && group_named(c->only, group->name) &&
           (groups || !c->quick || group->run != cts_group_long);
}

/* A process loads what is tested, and says for the report how that calls itself. One that dies says nothing: group abi tells why. */
static void describe_tested(const cts *c, cts_totals *t)
{
    static const cts_group describe = {"describe", NULL, false, cts_describe};
    cts counting = *c;
    child k;
    counting.counting = true;
    run_child(&counting, &describe, &k, t);
}

static int report_write(const cts_totals *t, const cts *c, const char *groups, const char *path)
{
    yk_error err = YK_ERROR_INIT;
    if (!t->number || !cts_record_write(t->record, c, groups, path, &err))
        return YK_EXIT_OK;
    fprintf(stderr, "yoke-cts: %s\n", err.text);
    return YK_EXIT_USAGE;
}

/* Says to standard error that a group ended, once the run has lasted PROGRESS_SECONDS. */
static void progress_print(const char *group, uint32_t left, double seconds, const cts_totals *before, const cts_totals *now)
{
    if (seconds >= PROGRESS_SECONDS)
        fprintf(stderr, "yoke-cts: after %.0f s: group %s has ended, %u passed, %u failed; groups left: %u\n", seconds, group,
                now->passed - before->passed, now->failed - before->failed, left);
}

static int run_all(cts *c, const cts_suite *suite, const char *groups, cts_totals *t)
{
    const double start = yk__clock_seconds();
    uint32_t left = 0;
    if (t->record)
        describe_tested(c, t);
    for (uint32_t i = 0; i < suite->n; i++)
        left += group_runs(c, groups, &suite->group[i]);
    for (uint32_t i = 0; i < suite->n; i++) {
        const cts_totals before = *t;
        if (!group_runs(c, groups, &suite->group[i]))
            continue;
        if (run_group_all(c, &suite->group[i], t)) {
            fprintf(stderr, "yoke-cts: a process for group %s could not be run\n", suite->group[i].name);
            return YK_EXIT_FAILED;
        }
        progress_print(suite->group[i].name, --left, yk__clock_seconds() - start, &before, t);
    }
    return !t->number && c->only && tested_opens(c, t) ? only_explain(c, suite) : totals_print(t);
}

/* The numbers that a report's groups add up to. A device that does not open has none, and is a failure. */
static int groups_list(const cts *c, const cts_suite *suite, const yk__cli *cli)
{
    const char *groups = yk__cli_text(cli, "group");
    cts counting = *c;
    cts_totals none = {.tol = -1};
    child k;
    if (yk__cli_text(cli, "report") || yk__cli_on(cli, "json"))
        return yk__cli_usage(&command, "--list runs no test: expected neither --report nor --json beside it");
    if (!tested_opens(c, &none))
        return totals_print(&none);
    counting.counting = true;
    for (uint32_t i = 0; i < suite->n; i++) {
        if (!group_runs(c, groups, &suite->group[i]))
            continue;
        if (run_child(&counting, &suite->group[i], &k, &none) != 1 || k.hung) {
            fprintf(stderr, "yoke-cts: the tests of group %s could not be counted\n", suite->group[i].name);
            return YK_EXIT_FAILED;
        }
        printf("%s %u\n", suite->group[i].name, k.number);
    }
    return YK_EXIT_OK;
}

/* With the report, if one is asked for. */
static int run_reported(cts *c, const cts_suite *suite, const yk__cli *cli)
{
    const char *groups = yk__cli_text(cli, "group"), *path = yk__cli_text(cli, "report");
    cts_totals t = {.json = yk__cli_on(cli, "json"), .record = path ? cts_record_new() : NULL, .tol = -1};
    yk_error err = YK_ERROR_INIT;
    int code, failed = YK_EXIT_OK;
    if (path && !t.record)
        return yk__cli_usage(&command, "out of memory");
    if (path && cts_record_check(path, &err)) {
        cts_record_free(t.record);
        return yk__cli_usage(&command, "%s", err.text);
    }
    code = run_all(c, suite, groups, &t);
    if (path)
        failed = report_write(&t, c, groups, path);
    cts_record_free(t.record);
    return failed ? failed : code;
}

static int read_lists(const yk__cli *cli, cts_lists *l)
{
    yk_error err = YK_ERROR_INIT;
    const char *u = yk__cli_text(cli, "unsupported"), *x = yk__cli_text(cli, "xfail");
    l->verify = yk__cli_on(cli, "verify");
    if ((u && cts_list_read(u, &l->unsupported, &err)) || (x && cts_list_read(x, &l->expected, &err)))
        return yk__cli_usage(&command, "%s", err.text);
    return 0;
}

/* *file: the transport's file, allocated; NULL for a test of a plugin. */
static yk_status find_tested(const yk__cli *cli, cts *c, char **file, yk_error *err)
{
    const char *transport = yk__cli_text(cli, "transport");
    *file = transport ? yk__transport_path(transport, err) : NULL;
    c->path = yk__cli_text(cli, "plugin");
    c->transport_path = *file;
    return err->status;
}

static int check_tested(const cts *c)
{
    const char *file = c->transport_path ? c->transport_path : c->path;
    if (!c->transport_path == !c->path)
        return yk__cli_usage(&command, "expected --plugin or --transport: name the one to test");
    if (strchr(file, '/') && access(file, R_OK))
        return yk__cli_usage(&command, "%s cannot be read", file);
    return 0;
}

static int run_suite(int argc, char **argv)
{
    static const cts_suite plugins = {"plugin", plugin_groups, sizeof plugin_groups / sizeof *plugin_groups};
    const cts_suite transports = {"transport", cts_tr_groups, cts_n_tr_group}, *suite;
    yk__cli cli;
    cts_lists lists = {NULL, NULL, false};
    cts c = {.lists = &lists};
    char *path;
    bool bad = false;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    if (code >= 0)
        return code;
    c.only = yk__cli_text(&cli, "only");
    c.quick = yk__cli_on(&cli, "quick");
    c.longest = yk__cli_on(&cli, "long");
    c.wide = yk__cli_on(&cli, "wide");
    c.claims = yk__cli_on(&cli, "claims");
    c.device = (uint32_t)yk__cli_int(&cli, "device", 0, 1024, &bad);
    c.count = (uint32_t)yk__cli_int(&cli, "count", 1, 1000000, &bad);
    c.seed = (uint64_t)yk__cli_int(&cli, "seed", 0, INT64_MAX, &bad);
    c.timeout_ns = (uint64_t)yk__cli_int(&cli, "timeout", 1, 3600, &bad) * 1000000000u;
    if (bad)
        return YK_EXIT_USAGE;
    yk_error err = YK_ERROR_INIT;
    if (yk__options_check(&err) || find_tested(&cli, &c, &path, &err))
        return yk__cli_usage(&command, "%s", err.text);
    suite = path ? &transports : &plugins;
    code = check_tested(&c);
    if (!code)
        code = check_groups(suite, yk__cli_text(&cli, "group"));
    if (!code)
        code = read_lists(&cli, &lists);
    setenv("YOKE_PROBE", "off", 1); /* the tests find a probe's findings one by one */
    if (!code)
        code = yk__cli_on(&cli, "list") ? groups_list(&c, suite, &cli) : run_reported(&c, suite, &cli);
    cts_list_free(lists.unsupported);
    cts_list_free(lists.expected);
    yk__free(path);
    return code;
}

int main(int argc, char **argv)
{
    return yk__cli_close_output("yoke-cts", run_suite(argc, argv));
}
