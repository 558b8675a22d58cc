/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training's logs and trackers: checks their options, opens them, writes lines and closes them. cmd_train.c (tools/cmd) opens and closes
 * them on all ranks, as the folder is made by all. loop.c and cmd_train.c write each line between report_begin and report_end. Rank 0 alone
 * has files. All calls are in the main thread.
 */
#include "tools/train/reports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/train/logfile.h"

enum { REPORT_NONE, REPORT_JSONL, REPORT_TENSORBOARD, REPORT_CSV, REPORT_ALL, REPORT_NAMES };
static const char *const names[REPORT_NAMES] = {"none", "jsonl", "tensorboard", "csv", "all"};

/* The names of --report-to as a set of bits; -1 with the name in `wrong` for an unknown one. */
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

/* Last step whose log lines stay in a resumed run; a new one replaces another's logs only if asked to. */
static int64_t lines_kept(const train_run *r)
{
    if (!r->kept.from[0])
        return r->kept.again ? LOGFILE_NO_STEP : yk__cli_on(r->cli, "overwrite-output-dir") ? LOGFILE_ANEW : LOGFILE_ASIDE;
    return checkpoint_same_steps(&r->kept, r->data, r->batch, r->accumulate) ? (int64_t)r->steps
                                                                                          : checkpoint_step(&r->kept);
}

static void open_log(train_run *r, FILE **log, const char *path)
{
    *log = logfile_open(path, lines_kept(r));
    if (!*log)
        fail_log(r, path, errno == ENXIO ? "is a FIFO that no program reads: start its reader first" : strerror(errno));
}

/* One file under two names is written once. */
static void drop_second_log(train_run *r)
{
    struct stat one, two;
    if (!r->log[0] || !r->log[1] || fstat(fileno(r->log[0]), &one) || fstat(fileno(r->log[1]), &two))
        return;
    if (one.st_dev != two.st_dev || one.st_ino != two.st_ino)
        return;
    fclose(r->log[1]);
    r->log[1] = NULL;
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
    if (log)
        open_log(r, &r->log[0], log);
    if (set & 1 << REPORT_JSONL)
        open_log(r, &r->log[1], path);
    drop_second_log(r);
    if (set & (1 << REPORT_TENSORBOARD | 1 << REPORT_CSV) && yk_ok(r->job)) {
        r->trackers = trackers_open(folder, set & 1 << REPORT_CSV, set & 1 << REPORT_TENSORBOARD, lines_kept(r), text, sizeof text);
        if (!r->trackers)
            yk_fail(r->job, YK_E_IO, text);
    }
}

FILE *report_begin(train_run *r)
{
    r->line = (report_line){NULL, NULL, 0};
    if (r->log[0] || r->log[1])
        r->line.file = open_memstream(&r->line.text, &r->line.bytes);
    return r->line.file;
}

void report_end(train_run *r)
{
    if (!r->line.file)
        return;
    fclose(r->line.file);
    for (int i = 0; i < 2; i++)
        if (r->log[i]) {
            fwrite(r->line.text, 1, r->line.bytes, r->log[i]);
            fflush(r->log[i]);
        }
    free(r->line.text);
    r->line = (report_line){NULL, NULL, 0};
}

void train_reports_close(train_run *r)
{
    const char *const path[2] = {yk__cli_text(r->cli, "log"), "log.jsonl"};
    char text[512];
    for (int i = 0; i < 2; i++) {
        const char *reason = yk__cli_close_file(r->log[i]);
        if (reason)
            fail_log(r, path[i], reason);
    }
    if (!trackers_close(r->trackers, text, sizeof text))
        yk_fail(r->job, YK_E_IO, text);
}
