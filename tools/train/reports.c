/* SPDX-License-Identifier: Apache-2.0 */
/* The files a training reports to. */
#include "tools/train/reports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/train/restart.h"

enum { REPORT_NONE, REPORT_JSONL, REPORT_TENSORBOARD, REPORT_CSV, REPORT_ALL, REPORT_NAMES };
static const char *const names[REPORT_NAMES] = {"none", "jsonl", "tensorboard", "csv", "all"};

/* The names of --report-to as a set of bits; -1 for a name there is none of, which is then in `wrong`. */
static int report_set(const yk__cli *cli, char wrong[64])
{
    const char *s = yk__cli_text(cli, "report-to");
    int set = 0;
    while (*s) {
        const size_t n = strcspn(s, ",");
        int k = 0;
        while (k < REPORT_NAMES && (strncmp(names[k], s, n) || names[k][n]))
            k++;
        if (k == REPORT_NAMES) {
            snprintf(wrong, 64, "%.*s", (int)n, s);
            return -1;
        }
        set |= k == REPORT_ALL ? 1 << REPORT_JSONL | 1 << REPORT_TENSORBOARD | 1 << REPORT_CSV : k == REPORT_NONE ? 0 : 1 << k;
        s += n + (s[n] == ',');
    }
    return set;
}

bool train_reports_read(const yk__cli *cli)
{
    char wrong[64] = "";
    const int set = report_set(cli, wrong);
    const char *run = yk__cli_text(cli, "run-name"), *idle = run ? "run-name" : "logging-dir";
    if (set < 0)
        yk__cli_usage(cli->command, "--report-to %s: expected names out of none, jsonl, tensorboard, csv, all: trackers write files, and "
                      "none goes over a network", wrong);
    else if (!set && (run || yk__cli_text(cli, "logging-dir")))
        yk__cli_usage(cli->command, "--%s has no effect without --report-to jsonl, tensorboard or csv", idle);
    else if (run && (!*run || strchr(run, '/') || run[0] == '.'))
        yk__cli_usage(cli->command, "--run-name %s: expected the name of a folder", run);
    else
        return true;
    return false;
}

static void fail_log(const train_run *r, const char *path, const char *reason)
{
    char text[4352];
    snprintf(text, sizeof text, "--log %.4000s: %s", path, reason);
    yk_fail(r->job, YK_E_IO, text);
}

static void open_log(train_run *r, const char *path)
{
    r->log = restart_open_log(path, r->kept.again);
    if (!r->log)
        fail_log(r, path, strerror(errno));
}

void train_reports_open(train_run *r)
{
    const yk__cli *cli = r->cli;
    const char *dir = yk__cli_text(cli, "logging-dir"), *run = yk__cli_text(cli, "run-name"), *log = yk__cli_text(cli, "log");
    char folder[4200], path[4300], text[512];
    const int set = report_set(cli, text);
    snprintf(folder, sizeof folder, "%s%s%s%s", dir ? dir : r->out, dir ? "" : "/runs", run ? "/" : "", run ? run : "");
    if (set)
        yk_make_dir(r->job, folder);
    if (!yk_ok(r->job) || !yk_is_main(r->job))
        return;
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    if (log || set & 1 << REPORT_JSONL)
        open_log(r, log ? log : path);
    if (set & (1 << REPORT_TENSORBOARD | 1 << REPORT_CSV) && yk_ok(r->job)) {
        r->trackers = trackers_open(folder, set & 1 << REPORT_CSV, set & 1 << REPORT_TENSORBOARD, r->kept.again, text,
                                    sizeof text);
        if (!r->trackers)
            yk_fail(r->job, YK_E_IO, text);
    }
}

void train_reports_close(train_run *r)
{
    const char *reason = yk__cli_close_file(r->log), *log = yk__cli_text(r->cli, "log");
    char text[512];
    if (reason)
        fail_log(r, log ? log : "log.jsonl", reason);
    if (!trackers_close(r->trackers, text, sizeof text))
        yk_fail(r->job, YK_E_IO, text);
}
