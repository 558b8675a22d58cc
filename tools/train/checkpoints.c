/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoints of one output folder, DIR/checkpoint-STEP: writes one, finds the newest to resume from, and removes the oldest
 * (--save-total-limit).
 *
 * cmd_train.c (tools/cmd), loop.c, output.c and reports.c call it in the main thread of every rank; rank 0 lists and removes files. Folders
 * of other programs are neither counted nor touched.
 */
#include "tools/train/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "core/base/absent.h"
#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/base/word.h"
#include "core/io/checkpoint.h"
#include "core/io/folder.h"
#include "core/job/checkpoint/save.h"
#include "tools/train/train_restart.h"

typedef struct entry {
    int64_t step;
    uint64_t saves;  /* its number, larger than every earlier one's; 0 in old versions */
    double saved_at; /* order of checkpoints of such a version */
    bool own;        /* written by this launch */
    int ending;      /* index in endings */
} entry;

/* Endings of names after checkpoint-STEP. A save of an earlier version, or a user, made one of COPY: it is read, and never removed. */
enum { PLAIN, ASIDE, COPY, ENDINGS };
static const char *const endings[ENDINGS] = {"", YK__CHECKPOINT_OLD, ".old"};

typedef struct listing {
    entry *item; /* oldest first */
    size_t n, cap;
} listing;

static void entry_path(const char *dir, const entry *e, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/checkpoint-%" PRId64 "%s", dir, e->step, endings[e->ending]);
}

/* The step in "checkpoint-STEP" and its ending; false for every other name. */
static bool entry_parse(const char *name, entry *e)
{
    char again[64];
    *e = (entry){0};
    if (sscanf(name, "checkpoint-%" SCNd64, &e->step) != 1 || e->step < 0)
        return false;
    for (; e->ending < ENDINGS; e->ending++) {
        snprintf(again, sizeof again, "checkpoint-%" PRId64 "%s", e->step, endings[e->ending]);
        if (!strcmp(name, again))
            return true;
    }
    return false;
}

/* Reads an integer, which is text if it may exceed the range of JSON readers. */
static uint64_t count_read(const json_t *number)
{
    return json_is_string(number) ? strtoull(json_string_value(number), NULL, 10) : (uint64_t)json_integer_value(number);
}

/* True if that folder holds a checkpoint of Yoke; sets its facts. */
static bool state_read(const char *path, entry *e)
{
    yk_error ignored = YK_ERROR_INIT;
    struct stat st;
    json_t *state = NULL;
    if (lstat(path, &st) || !S_ISDIR(st.st_mode) || yk__checkpoint_state(path, &state, &ignored))
        return false;
    const bool ours = yk__checkpoint_ours(state);
    const json_t *saved_at = json_object_get(state, "saved_at");
    const char *run = json_string_value(json_object_get(state, "run")), *own = restart_run();
    e->saved_at = json_is_number(saved_at) ? json_number_value(saved_at) : 0;
    e->saves = count_read(json_object_get(state, "saves"));
    e->own = run && own && !strcmp(run, own);
    json_decref(state);
    return ours;
}

static bool entry_read(const char *dir, entry *e)
{
    char path[4352];
    entry_path(dir, e, path, sizeof path);
    return state_read(path, e);
}

static int entry_order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->saves != y->saves)
        return x->saves < y->saves ? -1 : 1;
    if (x->saved_at != y->saved_at)
        return x->saved_at < y->saved_at ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static bool listing_has(const listing *l, int64_t step)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->item[i].step == step && l->item[i].ending == PLAIN)
            return true;
    return false;
}

/* Drops names with an ending, unless an interrupted save left no checkpoint of that step. */
static void listing_drop_old(listing *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->item[i].ending == PLAIN || !listing_has(l, l->item[i].step))
            l->item[n++] = l->item[i];
    l->n = n;
}

/* Lists the checkpoints in dir, none if there is no such folder. A failure fills the error: it does not count as a folder without
 * checkpoints. */
static bool listing_read(const char *dir, listing *l, yk_error *why)
{
    DIR *d = opendir(dir);
    entry e;
    *l = (listing){0};
    if (!d && errno != ENOENT && errno != ENOTDIR)
        yk__fail_open(why, dir, errno);
    for (struct dirent *f; d && !why->status && (f = yk__folder_next(d, dir, why));) {
        if (!entry_parse(f->d_name, &e) || !entry_read(dir, &e))
            continue;
        if (yk__grow(&l->item, &l->cap, l->n + 1, sizeof *l->item))
            yk__fail_mem(why, l->n * sizeof *l->item, "the list of checkpoints");
        else
            l->item[l->n++] = e;
    }
    if (d)
        closedir(d);
    if (l->n) {
        listing_drop_old(l);
        qsort(l->item, l->n, sizeof *l->item, entry_order);
    }
    return !why->status;
}

/* True if the entry stays, without counting: a copy, or a folder whose removal failed. */
static bool is_stuck(const checkpoints *c, const entry *e)
{
    for (size_t i = 0; i < c->n_stuck; i++)
        if (c->stuck[i] == e->step)
            return true;
    return e->ending == COPY;
}

static void remove_entry(checkpoints *c, const entry *e)
{
    yk_error err = YK_ERROR_INIT;
    char path[4352];
    entry_path(c->dir, e, path, sizeof path);
    if (!yk__checkpoint_remove(path, &err))
        return;
    fprintf(stderr, "yoke train: --save-total-limit: %s\n", err.text);
    if (!yk__grow(&c->stuck, &c->cap_stuck, c->n_stuck + 1, sizeof *c->stuck))
        c->stuck[c->n_stuck++] = e->step;
}

/* Removes the oldest, but never the one just written. */
static void checkpoints_trim(checkpoints *c, int64_t written)
{
    listing l;
    size_t count = 0;
    yk_error why = YK_ERROR_INIT;
    if (!listing_read(c->dir, &l, &why)) {
        fprintf(stderr, "yoke train: --save-total-limit: %s: nothing is removed this time\n", why.text);
        yk__free(l.item);
        return;
    }
    for (size_t i = 0; i < l.n; i++)
        count += !is_stuck(c, &l.item[i]);
    for (size_t i = 0; i < l.n && count > c->limit; i++) {
        if (l.item[i].step == written || is_stuck(c, &l.item[i]))
            continue;
        remove_entry(c, &l.item[i]);
        count--;
    }
    yk__free(l.item);
}

void checkpoint_save(checkpoints *c, yk_job *job, uint64_t steps)
{
    const entry e = {.step = (int64_t)steps};
    char path[4352];
    entry_path(c->dir, &e, path, sizeof path);
    yk_save(job, path);
    if (yk_ok(job) && yk_is_main(job) && c->limit)
        checkpoints_trim(c, e.step); /* the new one is safe by now */
}

/* True if all files of the checkpoint exist with their full length; else a line names the broken file. */
static bool is_whole(const char *path, bool speaks)
{
    yk_error err = YK_ERROR_INIT;
    json_t *state = NULL;
    if (!yk__checkpoint_state(path, &state, &err))
        yk__checkpoint_sizes(path, state, &err);
    json_decref(state);
    if (err.status && speaks)
        fprintf(stderr, "yoke train: %s: an older one is taken\n", err.text);
    return !err.status;
}

static void listing_keep_own(listing *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (l->item[i].own)
            l->item[n++] = l->item[i];
    l->n = n;
}

/* The newest complete checkpoint in dir, of this launch only or of all launches; its path is "" if none. */
static entry find_newest(checkpoints *c, yk_job *job, bool own, char *path, size_t bytes)
{
    listing l;
    entry newest = {0};
    yk_error why = YK_ERROR_INIT;
    path[0] = 0;
    if (!listing_read(c->dir, &l, &why))
        yk_fail(job, why.status, why.text);
    if (own)
        listing_keep_own(&l);
    for (size_t n = l.n; n && yk_ok(job);) {
        newest = l.item[--n];
        entry_path(c->dir, &newest, path, bytes);
        if (!n || is_whole(path, yk_is_main(job)))
            break; /* the last candidate is taken anyway: loading it reports the error */
    }
    yk__free(l.item);
    return newest;
}

/* Finds the newest checkpoint of earlier attempts. A later step in YOKE_EMERGENCY_CHECKPOINT takes its place. */
static void find_own(checkpoints *c, yk_job *job)
{
    const char *emergency = yk__option_text(YK__OPTION_EMERGENCY_CHECKPOINT);
    const entry newest = find_newest(c, job, true, c->from, sizeof c->from);
    entry last;
    if (emergency && state_read(emergency, &last) && last.own && last.saves >= newest.saves) /* it has later steps than that save */
        snprintf(c->from, sizeof c->from, "%s", emergency);
}

/* Rank 0 reads the folder and shares the number with all ranks. */
static void number_saves(const checkpoints *c, yk_job *job)
{
    uint64_t saves = 0;
    listing l = {0};
    yk_error why = YK_ERROR_INIT;
    if (yk_is_main(job) && !listing_read(c->dir, &l, &why))
        yk_fail(job, why.status, why.text);
    else if (l.n)
        saves = l.item[l.n - 1].saves;
    yk__free(l.item);
    yk_broadcast(job, &saves, sizeof saves, 0);
    if (yk_ok(job))
        yk__save_after(job, saves);
}

/* Rank 0 chooses, as other hosts may not see the newest files yet. */
static void resume_own(checkpoints *c, yk_job *job)
{
    if (yk_is_main(job) && c->again)
        find_own(c, job);
    yk_broadcast(job, c->from, sizeof c->from, 0);
    if (!yk_ok(job))
        return;
    if (c->from[0])
        yk_load(job, c->from);
    if (yk_is_main(job) && c->from[0])
        fprintf(stderr, "yoke train: restart %u goes on from %s\n", yk_restart_count(), c->from);
    else if (c->again)
        fprintf(stderr, "yoke train: restart %u: no checkpoint of an earlier attempt is in %s\n", yk_restart_count(), c->dir);
}

/* True if dir is no checkpoint and holds some; text is the error that names the newest. */
static bool is_parent(const char *dir, char *text, size_t bytes)
{
    char path[4608];
    listing l = {0};
    yk_error ignored = YK_ERROR_INIT;
    snprintf(path, sizeof path, "%s/trainer_state.json", dir);
    const bool holds = access(path, F_OK) && listing_read(dir, &l, &ignored) && l.n;
    if (holds) {
        entry_path(dir, &l.item[l.n - 1], path, sizeof path);
        snprintf(text, bytes, "--resume-from-checkpoint %.2000s: is no checkpoint, and holds some: expected one, such as %.2000s", dir,
                 path);
    }
    yk__free(l.item);
    return holds;
}

/* Resumes from the user's choice. */
static void resume_named(checkpoints *c, yk_job *job, const char *from)
{
    char text[4608];
    if (yk__word_find("last=true", from, strlen(from)) < 0) /* Trainer.train(resume_from_checkpoint=True) */
        snprintf(c->from, sizeof c->from, "%s", from);
    else
        find_newest(c, job, false, c->from, sizeof c->from);
    snprintf(text, sizeof text, "--resume-from-checkpoint %s: there is no checkpoint in the output folder %s: a run writes some by "
             "--save-steps or --save-strategy epoch", from, c->dir);
    if (yk_ok(job) && !c->from[0])
        yk_fail(job, YK_E_ARG, text);
    if (yk_ok(job) && is_parent(c->from, text, sizeof text))
        yk_fail(job, YK_E_ARG, text);
    if (yk_ok(job))
        yk_load(job, c->from);
    if (yk_ok(job) && yk_is_main(job))
        fprintf(stderr, "yoke train: goes on from %s (step %lld)\n", c->from, (long long)checkpoint_step(c));
}

void checkpoint_resume(checkpoints *c, yk_job *job, const char *from)
{
    c->from[0] = 0;
    if (yk_ok(job) && yk_restart_count())
        resume_own(c, job);
    if (from && yk_ok(job) && !c->from[0])
        resume_named(c, job, from);
    if (yk_ok(job))
        number_saves(c, job);
}

static bool is_number(const json_t *o, const char *key, uint64_t number)
{
    const json_t *v = json_object_get(o, key);
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return !v || (json_is_string(v) ? !strcmp(json_string_value(v), text) : json_integer_value(v) == (json_int_t)number);
}

/* A state's number is text or, where it fits, a number. 0 without one. */
static uint64_t number_of(const json_t *v)
{
    return json_is_string(v) ? strtoull(json_string_value(v), NULL, 10) : (uint64_t)json_integer_value(v);
}

bool checkpoint_same_steps(const checkpoints *c, const yk_data *data, uint64_t batch, uint64_t accumulate)
{
    yk_error ignored = YK_ERROR_INIT;
    json_t *state = NULL;
    if (yk__checkpoint_state(c->from, &state, &ignored))
        return true;
    const json_t *place = json_array_get(json_object_get(state, "data"), 0);
    /* An earlier version does not tell the number of batches, but none is behind the last. */
    const bool same = is_number(place, "rows", yk_data_rows(data)) && is_number(place, "global_batch", batch) &&
                      is_number(place, "batches", yk_data_batches(data)) && is_number(state, "accumulate", accumulate) &&
                      number_of(json_object_get(place, "batch")) <= yk_data_batches(data);
    json_decref(state);
    return same;
}

int64_t checkpoint_step(const checkpoints *c)
{
    yk_error ignored = YK_ERROR_INIT;
    json_t *state = NULL;
    if (yk__checkpoint_state(c->from, &state, &ignored))
        return -1;
    const json_t *step = json_object_get(state, "global_step");
    const int64_t steps = json_is_integer(step) ? (int64_t)json_integer_value(step) : -1;
    json_decref(state);
    return steps;
}

void checkpoints_clear(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *f = d ? readdir(d) : NULL; f; f = readdir(d)) {
        yk_error ignored = YK_ERROR_INIT;
        struct stat st;
        entry e;
        char path[4352], name[256];
        const size_t n = strlen(f->d_name), k = strlen(YK__CHECKPOINT_TMP);
        if (n <= k || n >= sizeof name || strcmp(f->d_name + n - k, YK__CHECKPOINT_TMP) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - k), f->d_name);
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (((entry_parse(name, &e) && e.ending == PLAIN) || !strcmp(name, "checkpoint-best")) && !lstat(path, &st) && S_ISDIR(st.st_mode))
            yk__checkpoint_remove(path, &ignored); /* files that are not a checkpoint's stay */
    }
    if (d)
        closedir(d);
}

/* True if a run of these steps saves under the name. best: it keeps checkpoint-best. */
static bool is_due(const char *name, const train_when *when, bool best, uint64_t first, uint64_t total, uint64_t epoch)
{
    entry e;
    if (!strcmp(name, "checkpoint-best"))
        return best;
    if (!entry_parse(name, &e) || e.ending != PLAIN)
        return false;
    const uint64_t step = (uint64_t)e.step;
    return step > first && step <= total && train_when_due(when, step, epoch && step % epoch == 0);
}

void checkpoints_place(const checkpoints *c, yk_job *job, const train_when *when, bool best, uint64_t first, uint64_t total,
                       uint64_t epoch)
{
    yk_error err = YK_ERROR_INIT;
    DIR *d = yk_ok(job) && yk_is_main(job) ? opendir(c->dir) : NULL;
    for (struct dirent *f; d && !err.status && (f = yk__folder_next(d, c->dir, &err));) {
        char path[4352];
        snprintf(path, sizeof path, "%s/%s", c->dir, f->d_name);
        if (is_due(f->d_name, when, best, first, total, epoch))
            yk__checkpoint_place(path, &err);
    }
    if (d)
        closedir(d);
    if (err.status)
        yk_fail(job, err.status, err.text);
    yk_barrier(job);
}

bool checkpoint_any(const char *dir)
{
    listing l;
    yk_error why = YK_ERROR_INIT;
    const bool any = !listing_read(dir, &l, &why) || l.n; /* a folder that cannot be listed is not taken for an empty one */
    yk__free(l.item);
    return any;
}

void checkpoints_free(checkpoints *c)
{
    yk__free(c->stuck);
    *c = (checkpoints){0};
}
