/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best evaluation of a training. This file keeps its checkpoint (DIR/checkpoint-best) and its record (best.json), loads it at the end,
 * and says when to stop without progress.
 *
 * cmd_train.c (tools/cmd) reads the options and hangs the record on each checkpoint; loop.c judges each evaluation. All calls are in the
 * main thread of every rank, with equal results. A resumed run finds the record in its checkpoint.
 */
#include "tools/train/best.h"

#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/io/json.h"

train_best train_best_read(const yk__cli *cli, bool keeps, bool *bad)
{
    const char *by = yk__cli_text(cli, "metric-for-best-model");
    const int m = by ? metric_find(by) : METRIC_LOSS;
    train_best b = {.load = yk__cli_on(cli, "load-best-model-at-end"), .by = m < 0 ? METRIC_LOSS : (metric)m};
    b.save = keeps || b.load;
    b.result = metric_none();
    b.record = NAN;
    b.rises = yk__cli_given(cli, "greater-is-better") ? yk__cli_on(cli, "greater-is-better") : metric_rises(b.by);
    b.patience = (uint64_t)yk__cli_int(cli, "early-stopping-patience", 0, 1 << 30, bad);
    b.threshold = yk__cli_real(cli, "early-stopping-threshold", 0, 1e30, bad);
    if (m < 0) {
        metric_refuse(cli, "metric-for-best-model", by, false);
        *bad = true;
    } else if (!b.save && !b.patience && (by || yk__cli_given(cli, "greater-is-better"))) {
        yk__cli_usage(cli->command, "--%s has no effect without --load-best-model-at-end, --save-strategy best or "
                      "--early-stopping-patience", by ? "metric-for-best-model" : "greater-is-better");
        *bad = true;
    } else if (!b.patience && yk__cli_given(cli, "early-stopping-threshold")) {
        yk__cli_usage(cli->command, "--early-stopping-threshold has no effect without --early-stopping-patience");
        *bad = true;
    }
    return b;
}

/* Writes enough digits to distinguish any two numbers: a resumed training compares its evaluations with these. */
static void write_best(void *object, const char *dir)
{
    const train_best *b = object;
    char path[4352];
    FILE *f;
    if (isnan(b->record))
        return;
    snprintf(path, sizeof path, "%s/best.json", dir);
    f = fopen(path, "we");
    if (!f)
        return; /* the checkpoint's own check names a folder that cannot be written */
    fprintf(f, "{\"metric\": \"%s\", \"step\": %llu, \"current\": %d, \"waited\": %llu, \"record\": %.17g", metric_names[b->by],
            (unsigned long long)b->step, b->current, (unsigned long long)b->waited, b->record);
    for (int i = 0; i < METRIC_COUNT; i++)
        if (isfinite(b->result.value[i]))
            fprintf(f, ", \"eval_%s\": %.17g", metric_names[i], b->result.value[i]);
    json_t *from = b->from[0] ? json_string(b->from) : NULL; /* NULL too for a path that is not UTF-8 */
    char *folder = from ? yk__json_dump(from, JSON_ENCODE_ANY) : NULL;
    if (folder)
        fprintf(f, ", \"folder\": %s", folder);
    yk__free(folder);
    json_decref(from);
    fprintf(f, "}\n");
    fclose(f);
}

void train_best_attach(yk_job *job, train_best *best)
{
    if (best->save || best->patience)
        yk_on_save(job, best, write_best);
}

/* Reads checkpoint/best.json for the same metric; false if it has none. Folders of earlier versions lack "current": there the best one is
 * current at `step`. */
static bool read_best(yk_job *job, metric by, const char *checkpoint, uint64_t step, train_best *best)
{
    char path[4352], key[64];
    snprintf(path, sizeof path, "%s/best.json", checkpoint);
    if (access(path, R_OK))
        return false;
    yk_settings *s = yk_settings_new(job, NULL);
    yk_settings_json(s, path);
    const bool same = !strcmp(yk_settings_text(s, "metric", ""), metric_names[by]); /* another metric has another best */
    best->step = (uint64_t)yk_settings_int(s, "step", 0);
    best->current = yk_settings_int(s, "current", best->step == step) != 0;
    best->waited = (uint64_t)yk_settings_int(s, "waited", 0);
    for (int i = 0; i < METRIC_COUNT; i++) {
        snprintf(key, sizeof key, "eval_%s", metric_names[i]);
        best->result.value[i] = yk_settings_real(s, key, NAN);
    }
    best->record = yk_settings_real(s, "record", best->result.value[by]); /* folders of earlier versions lack it */
    snprintf(best->from, sizeof best->from, "%s", yk_settings_text(s, "folder", ""));
    yk_settings_free(s);
    return same && isfinite(best->result.value[by]);
}

/* True if dir/checkpoint-best is the best known one, and not one of abandoned steps. */
static bool is_kept(yk_job *job, const train_best *best, const char *dir)
{
    train_best kept = {.step = 0};
    char path[4352];
    snprintf(path, sizeof path, "%s/checkpoint-best", dir);
    return read_best(job, best->by, path, best->step, &kept) && kept.step == best->step &&
           kept.result.value[best->by] == best->result.value[best->by];
}

static bool best_is_in(yk_job *job, train_best *best, const char *dir)
{
    char real[PATH_MAX];
    if (!realpath(dir, real) || !is_kept(job, best, real))
        return false;
    snprintf(best->from, sizeof best->from, "%s", real);
    return true;
}

/* Finds the best model of a run that goes on in another output folder: beside the resumed checkpoint, by its name or a link's target, or
 * where that one's run knew it to be, as a run copies it at the end alone. */
static bool best_find(yk_job *job, train_best *best, const char *checkpoint)
{
    char known[sizeof best->from], place[sizeof best->from + 4];
    size_t n = strlen(checkpoint);
    snprintf(known, sizeof known, "%s", best->from);
    best->from[0] = 0;
    while (n > 1 && checkpoint[n - 1] == '/')
        n--;
    while (n && checkpoint[n - 1] != '/')
        n--;
    snprintf(place, sizeof place, "%.*s", n ? (int)n : 1, n ? checkpoint : ".");
    if (best_is_in(job, best, place))
        return true;
    snprintf(place, sizeof place, "%s/..", checkpoint);
    return best_is_in(job, best, place) || (known[0] && best_is_in(job, best, known));
}

void train_best_resume(yk_job *job, train_best *best, const char *checkpoint, uint64_t step, const char *dir)
{
    struct {
        train_best best;
        bool found, kept;
    } known = {.best = *best}; /* read by rank 0, whose files other hosts may not see */
    char path[4352];
    if (!yk_ok(job) || (!best->save && !best->patience))
        return;
    if (yk_is_main(job)) {
        known.found = read_best(job, best->by, checkpoint, step, &known.best);
        known.kept = known.found && best->save && is_kept(job, &known.best, dir);
        if (known.found && best->save && !known.kept && !known.best.current)
            known.kept = best_find(job, &known.best, checkpoint);
        else
            known.best.from[0] = 0;
    }
    yk_broadcast(job, &known, sizeof known, 0);
    if (!yk_ok(job) || !known.found)
        return;
    *best = known.best;
    best->found = !best->save || known.kept || best->current;
    snprintf(path, sizeof path, "%s/checkpoint-best", dir);
    if (best->save && !known.kept && best->found)
        yk_save(job, path);
    else if (best->from[0] && yk_is_main(job))
        fprintf(stderr, "yoke train: the best model so far, of step %llu, is %s/checkpoint-best: it %s, unless a later one is better\n",
                (unsigned long long)best->step, best->from, best->load ? "is left at the end" : "stays there");
    else if (!best->found && yk_is_main(job))
        fprintf(stderr, "yoke train: the best model so far, of step %llu, is not in %s: the best one is looked for from here on\n",
                (unsigned long long)best->step, path);
}

bool train_best_is_late(const train_best *best)
{
    return best->patience && best->waited >= best->patience;
}

/* By how much a value is better than another. */
static double best_gain(const train_best *best, double now, double before)
{
    return best->rises ? now - before : before - now;
}

void train_best_judge(yk_job *job, train_best *best, const train_result *result, uint64_t step, const char *dir)
{
    const double now = result->value[best->by], gain = isnan(best->record) ? INFINITY : best_gain(best, now, best->record);
    char path[4352];
    if (!yk_ok(job))
        return;
    if (!isfinite(now)) { /* an undefined metric is no improvement */
        best->waited++;
        return;
    }
    best->waited = gain > best->threshold ? 0 : best->waited + 1;
    if (gain > 0)
        best->record = now;
    if (best->found && !(best_gain(best, now, best->result.value[best->by]) > 0))
        return;
    best->found = true;
    best->current = true;
    best->from[0] = 0;
    best->step = step;
    best->result = *result;
    snprintf(path, sizeof path, "%s/checkpoint-best", dir);
    if (best->save)
        yk_save(job, path);
}

bool train_best_load(yk_job *job, train_best *best, const train_result *last, const char *dir)
{
    char path[4352];
    if (!best->load || !best->found || best->current || !yk_ok(job))
        return false;
    if (best_gain(best, last->value[best->by], best->result.value[best->by]) > 0)
        return false;
    snprintf(path, sizeof path, "%s/checkpoint-best", best->from[0] ? best->from : dir);
    yk_load(job, path);
    best->current = true;
    snprintf(path, sizeof path, "%s/checkpoint-best", dir);
    if (best->from[0] && yk_ok(job)) { /* a run that goes on from this folder finds it here */
        best->from[0] = 0;
        yk_save(job, path);
    }
    return yk_ok(job);
}
