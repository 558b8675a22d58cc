/* SPDX-License-Identifier: Apache-2.0 */
/* yoke-cts: the command line, the groups, and a process for each of them. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "tools/cli.h"
#include "tools/cts/cts.h"

const cts_group cts_groups[] = {
    {"abi", "the file, its one symbol, the table, starting twice", false, cts_group_abi},
    {"buffer", "buffers: new, put, get, map, wrap, out of memory", true, cts_group_buffer},
    {"queue", "queues: points, order, waits, polls", true, cts_group_queue},
    {"op", "every primitive against the float64 reference", true, cts_group_op},
    {"composite", "every claimed composite against the float64 reference", true, cts_group_composite},
    {"body", "every claimed composite against its body on the device", true, cts_group_body},
    {"random", "random graphs", true, cts_group_random},
    {"gradients", "gradients of small networks", true, cts_group_gradients},
    {"guard", "nothing is written outside of values", true, cts_group_guard},
    {"rebind", "one program, other buffers and offsets", true, cts_group_rebind},
    {"errors", "refusals, sticky failures", true, cts_group_errors},
};
const uint32_t cts_n_group = sizeof cts_groups / sizeof *cts_groups;

static const yk__cli_option options[] = {
    {"plugin", "PATH", NULL, "the plugin: a file, or a name as in YOKE_DEVICES", NULL},
    {"device", "N", "0", "number of the device", NULL},
    {"group", "G,...", NULL, "groups to run: abi buffer queue op composite body random gradients guard rebind errors", NULL},
    {"only", "PATTERN", NULL, "tests to run, such as 'op/dot.*'", NULL},
    {"seed", "S", "1", "of the numbers and the random graphs", NULL},
    {"quick", NULL, NULL, "one case in ten of every operation and type, for devices that compile slowly", NULL},
    {"timeout", "SECONDS", "60", "how long a point may take", NULL},
    {"unsupported", "FILE", NULL, "patterns of tests that are not run", NULL},
    {"xfail", "FILE", NULL, "patterns of tests that are known to fail", NULL},
    {"verify", NULL, NULL, "run the listed tests too; one that passes fails the run", NULL},
    {"json", NULL, NULL, "one JSON object per line", NULL},
};

static const yk__cli_command command = {
    .name = "cts",
    .apart = true,
    .usage = "--plugin PATH [options]",
    .summary = "conformance suite for compute plugins",
    .text = "Runs the tests of <yoke/plugin.h> on one device of a plugin and prints a line for each, and the totals. "
            "Every group runs in a process of its own. Exit code: 0 all passed, 1 some failed, 2 wrong usage or a plugin "
            "that cannot be read.\n"
            "The files of --unsupported and --xfail hold one pattern a line, as for --only; '#' begins a comment. A test "
            "named in neither is expected to pass, or to be something the plugin does not claim.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
};

static const cts_group *find_group(const char *name, size_t n)
{
    for (uint32_t i = 0; i < cts_n_group; i++)
        if (strlen(cts_groups[i].name) == n && !strncmp(cts_groups[i].name, name, n))
            return &cts_groups[i];
    return NULL;
}

static int check_groups(const char *words)
{
    const char *names[32], *near;
    char word[32];
    for (uint32_t i = 0; i < cts_n_group; i++)
        names[i] = cts_groups[i].name;
    while (words && *words) {
        size_t n = strcspn(words, ",");
        if (n && !find_group(words, n)) {
            snprintf(word, sizeof word, "%.*s", (int)n, words);
            near = yk__nearest(word, names, cts_n_group);
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

static void run_group(cts *c, const cts_group *g)
{
    yk_error err = YK_ERROR_INIT;
    c->group = g->name;
    if (g->open && !open_device(c, &err)) {
        if (cts_begin(c, "open"))
            cts_fail(c, "%s (%s)", err.text, yk__status_name(err.status));
        return;
    }
    g->run(c);
    yk__device_close(c->dev);
    yk__plugins_fini();
}

/* ---- The parent ----------------------------------------------------------------------------------------------------------- */

/* The last test that began tells where a crash happened. */
static void read_results(FILE *in, cts_totals *t, const cts_lists *l, char *last, size_t n)
{
    char line[1200];
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (*line == 'B')
            snprintf(last, n, "%.*s", (int)strcspn(line + 1, "\t"), line + 1);
        else {
            cts_take(t, l, line);
            last[0] = 0;
        }
    }
}

static void report_end(const cts_group *g, int status, const char *last, cts_totals *t, const cts_lists *l)
{
    char name[200], message[120];
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !*last)
        return;
    snprintf(name, sizeof name, "%s%s", *last ? last : g->name, *last ? "" : "/end");
    if (WIFSIGNALED(status))
        snprintf(message, sizeof message, "the process was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(message, sizeof message, "the process ended with code %d", WEXITSTATUS(status));
    cts_report(t, l, CTS_FAIL, name, message);
}

static int in_child(const cts *c, const cts_group *g, cts_totals *t)
{
    char last[160] = "";
    int end[2], status = 0;
    FILE *in;
    pid_t pid;
    if (pipe2(end, O_CLOEXEC) || (fflush(stdout), pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        cts mine = *c;
        close(end[0]);
        mine.out = fdopen(end[1], "w");
        if (!mine.out)
            _exit(3);
        alarm((unsigned)(c->timeout_ns / 1000000000u) * 60); /* a plugin that never returns */
        run_group(&mine, g);
        fclose(mine.out);
        exit(0);
    }
    close(end[1]);
    in = fdopen(end[0], "r");
    if (in) {
        read_results(in, t, c->lists, last, sizeof last);
        fclose(in);
    }
    if (waitpid(pid, &status, 0) != pid)
        return -1;
    report_end(g, status, last, t, c->lists);
    return 0;
}

static int totals_print(const cts_totals *t)
{
    if (t->json)
        printf("{\"passed\": %u, \"failed\": %u, \"unsupported\": %u, \"expected_failures\": %u}\n", t->passed, t->failed,
               t->unsupported, t->expected);
    else {
        printf("1..%u\n", t->number);
        if (t->expected)
            printf("# %u failed as the list says\n", t->expected);
        printf("# %u passed, %u failed, %u unsupported\n", t->passed, t->failed, t->unsupported);
    }
    return t->failed || !t->number ? YK_EXIT_FAILED : YK_EXIT_OK;
}

static int run_all(cts *c, const char *groups, bool json)
{
    cts_totals t = {.json = json};
    for (uint32_t i = 0; i < cts_n_group; i++)
        if (group_chosen(groups, cts_groups[i].name) && in_child(c, &cts_groups[i], &t)) {
            fprintf(stderr, "yoke-cts: a process for group %s could not be run\n", cts_groups[i].name);
            return YK_EXIT_FAILED;
        }
    return totals_print(&t);
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

static int run_suite(int argc, char **argv)
{
    yk__cli cli;
    cts_lists lists = {NULL, NULL, false};
    cts c = {.lists = &lists};
    bool bad = false;
    int code = yk__cli_parse(&command, argc, argv, &cli);
    if (code >= 0)
        return code;
    c.path = yk__cli_text(&cli, "plugin");
    c.only = yk__cli_text(&cli, "only");
    c.quick = yk__cli_on(&cli, "quick");
    c.device = (uint32_t)yk__cli_int(&cli, "device", 0, 1024, &bad);
    c.seed = (uint64_t)yk__cli_int(&cli, "seed", 0, INT64_MAX, &bad);
    c.timeout_ns = (uint64_t)yk__cli_int(&cli, "timeout", 1, 3600, &bad) * 1000000000u;
    if (bad)
        return YK_EXIT_USAGE;
    yk_error err = YK_ERROR_INIT;
    if (yk__options_check(&err))
        return yk__cli_usage(&command, "%s", err.text);
    if (!c.path)
        return yk__cli_usage(&command, "--plugin is missing: which plugin is to be tested?");
    if (strchr(c.path, '/') && access(c.path, R_OK))
        return yk__cli_usage(&command, "%s cannot be read", c.path);
    code = check_groups(yk__cli_text(&cli, "group"));
    if (!code)
        code = read_lists(&cli, &lists);
    setenv("YOKE_PROBE", "off", 1); /* what it would find is what the tests are to find, one by one */
    if (!code)
        code = run_all(&c, yk__cli_text(&cli, "group"), yk__cli_on(&cli, "json"));
    cts_list_free(lists.unsupported);
    cts_list_free(lists.expected);
    return code;
}

int main(int argc, char **argv)
{
    return yk__cli_close_output("yoke-cts", run_suite(argc, argv));
}
