/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of one output folder: which there are, the newest, and removing the oldest. */
#include "tools/train/checkpoints.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/option.h"
#include "core/io/checkpoint.h"

typedef struct entry {
    int64_t step;
    double saved_at;
    bool old; /* called checkpoint-STEP.old */
} entry;

typedef struct listing {
    entry *item; /* oldest first */
    size_t n, cap;
} listing;

static void entry_path(const char *dir, const entry *e, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/checkpoint-%" PRId64 "%s", dir, e->step, e->old ? ".old" : "");
}

/* The step in "checkpoint-STEP", or in "checkpoint-STEP.old"; false for every other name. */
static bool entry_parse(const char *name, entry *e)
{
    char again[64];
    *e = (entry){0};
    if (sscanf(name, "checkpoint-%" SCNd64, &e->step) != 1 || e->step < 0)
        return false;
    snprintf(again, sizeof again, "checkpoint-%" PRId64, e->step);
    if (!strcmp(name, again))
        return true;
    strcat(again, ".old");
    e->old = true;
    return !strcmp(name, again);
}

/* Whether that folder holds a checkpoint of ours, and when it was written. */
static bool state_read(const char *path, double *saved)
{
    yk_error ignored = YK_ERROR_INIT;
    struct stat st;
    json_t *state = NULL;
    if (lstat(path, &st) || !S_ISDIR(st.st_mode) || yk__checkpoint_state(path, &state, &ignored))
        return false;
    const char *format = json_string_value(json_object_get(state, "format"));
    const bool ours = format && !strcmp(format, "yoke-checkpoint");
    const json_t *saved_at = json_object_get(state, "saved_at");
    *saved = json_is_number(saved_at) ? json_number_value(saved_at) : 0;
    json_decref(state);
    return ours;
}

static bool entry_read(const char *dir, entry *e)
{
    char path[4352];
    entry_path(dir, e, path, sizeof path);
    return state_read(path, &e->saved_at);
}

static int entry_order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->saved_at != y->saved_at)
        return x->saved_at < y->saved_at ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static bool listing_has(const listing *l, int64_t step, bool old)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->item[i].step == step && l->item[i].old == old)
            return true;
    return false;
}

/* A .old is one only where an interrupted save left no other. */
static void listing_drop_old(listing *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n; i++)
        if (!l->item[i].old || !listing_has(l, l->item[i].step, false))
            l->item[n++] = l->item[i];
    l->n = n;
}

/* What there is in dir; false: out of memory. */
static bool listing_read(const char *dir, listing *l)
{
    DIR *d = opendir(dir);
    bool ok = true;
    entry e;
    *l = (listing){0};
    for (struct dirent *f = d ? readdir(d) : NULL; f && ok; f = readdir(d)) {
        if (!entry_parse(f->d_name, &e) || !entry_read(dir, &e))
            continue;
        ok = !yk__grow(&l->item, &l->cap, l->n + 1, sizeof *l->item);
        if (ok)
            l->item[l->n++] = e;
    }
    if (d)
        closedir(d);
    if (l->n) {
        listing_drop_old(l);
        qsort(l->item, l->n, sizeof *l->item, entry_order);
    }
    return ok;
}

static bool is_stuck(const checkpoints *c, int64_t step)
{
    for (size_t i = 0; i < c->n_stuck; i++)
        if (c->stuck[i] == step)
            return true;
    return false;
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
    if (!listing_read(c->dir, &l)) {
        fprintf(stderr, "yoke train: --save-total-limit: out of memory: nothing is removed this time\n");
        yk__free(l.item);
        return;
    }
    for (size_t i = 0; i < l.n; i++)
        count += !is_stuck(c, l.item[i].step);
    for (size_t i = 0; i < l.n && count > c->limit; i++) {
        if (l.item[i].step == written || is_stuck(c, l.item[i].step))
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

/* Whether all its files are there and as long as they were written; else a line says which is not. */
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

/* The path of the newest whole one in dir that was not written before `since`; "": there is none. */
static void find_newest(checkpoints *c, yk_job *job, double since, char *path, size_t bytes)
{
    listing l;
    path[0] = 0;
    if (!listing_read(c->dir, &l)) {
        yk_fail(job, YK_E_MEM, "out of memory for the list of checkpoints");
    } else {
        size_t n = l.n;
        while (n && l.item[n - 1].saved_at >= since) {
            entry_path(c->dir, &l.item[--n], path, bytes);
            if (!n || l.item[n - 1].saved_at < since || is_whole(path, yk_is_main(job)))
                break; /* the last that is left is taken as it is: loading it says what is wrong */
        }
    }
    yk__free(l.item);
}

/* Of what earlier attempts have written, the newest. */
static void find_own(checkpoints *c, yk_job *job)
{
    const char *emergency = yk__option_text(YK__OPTION_EMERGENCY_CHECKPOINT);
    double newest = c->since, saved;
    find_newest(c, job, c->since, c->from, sizeof c->from);
    if (c->from[0])
        state_read(c->from, &newest);
    if (emergency && state_read(emergency, &saved) && saved >= newest)
        snprintf(c->from, sizeof c->from, "%s", emergency);
}

/* Rank 0 chooses, for other hosts may not see yet what was written last. */
static void resume_own(checkpoints *c, yk_job *job)
{
    if (yk_is_main(job) && c->since > 0)
        find_own(c, job);
    yk_broadcast(job, c->from, sizeof c->from, 0);
    if (!yk_ok(job))
        return;
    if (c->from[0])
        yk_load(job, c->from);
    if (yk_is_main(job) && c->from[0])
        fprintf(stderr, "yoke train: restart %u goes on from %s\n", yk_restart_count(), c->from);
    else if (c->since > 0)
        fprintf(stderr, "yoke train: restart %u: no checkpoint of an earlier attempt is in %s\n", yk_restart_count(), c->dir);
}

void checkpoint_resume(checkpoints *c, yk_job *job, const char *from)
{
    char text[4608];
    c->from[0] = 0;
    if (yk_ok(job) && yk_restart_count())
        resume_own(c, job);
    if (!from || !yk_ok(job) || c->from[0])
        return;
    if (strcmp(from, "last") != 0 && strcmp(from, "True") != 0) /* Trainer.train(resume_from_checkpoint=True) */
        snprintf(c->from, sizeof c->from, "%s", from);
    else
        find_newest(c, job, 0, c->from, sizeof c->from);
    snprintf(text, sizeof text, "--resume-from-checkpoint %s: there is no checkpoint in the output folder %s", from, c->dir);
    if (yk_ok(job) && !c->from[0])
        yk_fail(job, YK_E_ARG, text);
    if (yk_ok(job))
        yk_load(job, c->from);
}

/* Whole numbers are text where they may exceed what JSON's readers take. */
static bool is_number(const json_t *o, const char *key, uint64_t number)
{
    const json_t *v = json_object_get(o, key);
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return !v || (json_is_string(v) ? !strcmp(json_string_value(v), text) : json_integer_value(v) == (json_int_t)number);
}

bool checkpoint_same_steps(const checkpoints *c, uint64_t rows, uint64_t batch, uint64_t accumulate)
{
    yk_error ignored = YK_ERROR_INIT;
    json_t *state = NULL;
    if (yk__checkpoint_state(c->from, &state, &ignored))
        return true;
    const json_t *place = json_array_get(json_object_get(state, "data"), 0);
    const bool same = is_number(place, "rows", rows) && is_number(place, "global_batch", batch) &&
                      is_number(state, "accumulate", accumulate);
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
        const size_t n = strlen(f->d_name);
        if (n < 5 || n >= sizeof name || strcmp(f->d_name + n - 4, ".tmp") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(n - 4), f->d_name);
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (((entry_parse(name, &e) && !e.old) || !strcmp(name, "checkpoint-best")) && !lstat(path, &st) && S_ISDIR(st.st_mode))
            yk__checkpoint_remove(path, &ignored); /* what is not a checkpoint's stays */
    }
    if (d)
        closedir(d);
}

bool checkpoint_any(const char *dir)
{
    listing l;
    const bool any = listing_read(dir, &l) && l.n;
    yk__free(l.item);
    return any;
}

void checkpoints_free(checkpoints *c)
{
    yk__free(c->stuck);
    *c = (checkpoints){0};
}
