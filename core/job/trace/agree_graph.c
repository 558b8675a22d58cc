/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the call at which the graphs of two ranks part. agree.c calls it for its error, in the step thread on all ranks. All ranks walk
 * together from the loss towards the inputs, at each call to its first differing operand. The walk ends at a call that itself differs, or
 * whose differing operand no call made, or whose operand the other rank has at another place. A value's sign (core/job/recipe.h) is a hash
 * of its making, so equal signs are equal graphs.
 */
#include "core/job/trace/agree_graph.h"

#include <stdio.h>
#include <string.h>

#include "core/job/trace/sharding.h"

#define OPERANDS 64
#define SETTINGS 24
#define NOWHERE UINT32_MAX

typedef struct graph_setting {
    char name[32];
    double value;
} graph_setting;

/* One rank's call, as the other ranks receive it. */
typedef struct graph_place {
    char name[32], at[160];
    uint32_t n_operand, n_setting;
    uint64_t operand[OPERANDS]; /* signs */
    graph_setting setting[SETTINGS];
} graph_place;

/* The compared ranks (odd: the one that differs; like: one of the majority), and a table of all ranks' calls. */
typedef struct graph_walk {
    yk_job *job;
    uint32_t odd, like;
    graph_place own, *all;
} graph_walk;

uint64_t yk__agree_loss(const yk_job *job)
{
    return job->step.loss == YK_NONE ? 0 : yk__sharding_of(job, job->step.loss).sign;
}

/* ---- One rank's call ---- */

static void call_text(const yk_job *job, uint32_t call, char *buf, size_t n)
{
    const yk__call_site *at = yk__call_sites_find(&job->sites, call);
    if (at)
        snprintf(buf, n, "%.130s:%d", at->file, at->line);
    else
        snprintf(buf, n, "call %u of the step", call);
}

/* Describes the step itself: its loss, then its assigned states. */
static void place_of_step(const yk_job *job, graph_place *p)
{
    const yk__recipes *r = &job->step.recipes;
    snprintf(p->name, sizeof p->name, "yk_backward");
    call_text(job, job->step.n_call, p->at, sizeof p->at);
    p->operand[p->n_operand++] = yk__agree_loss(job);
    for (size_t i = 0; i < r->n_assigned && p->n_operand < OPERANDS; i++)
        p->operand[p->n_operand++] = r->assigned[i];
}

static void place_of_recipe(const yk_job *job, const yk__recipe *made, graph_place *p)
{
    const yk__recipes *r = &job->step.recipes;
    snprintf(p->name, sizeof p->name, "%s", made->name);
    call_text(job, made->call, p->at, sizeof p->at);
    p->n_operand = made->n_operand < OPERANDS ? made->n_operand : OPERANDS;
    p->n_setting = made->n_setting < SETTINGS ? made->n_setting : SETTINGS;
    memcpy(p->operand, r->operand + made->operand, p->n_operand * sizeof *p->operand);
    for (uint32_t i = 0; i < p->n_setting; i++) {
        snprintf(p->setting[i].name, sizeof p->setting[i].name, "%s", r->setting[made->setting + i].name);
        p->setting[i].value = r->setting[made->setting + i].value;
    }
}

static const yk__job_param *param_of_sign(const yk_job *job, uint64_t sign)
{
    for (size_t i = 0; i < job->n_param; i++)
        if (job->param[i].sign == sign)
            return &job->param[i];
    return NULL;
}

/* "w1 [64, 2]", "yk_relu at a.c:9", "nothing" */
static void operand_text(const yk_job *job, uint64_t sign, char *buf, size_t n)
{
    const yk__recipe *made = yk__recipe_find(&job->step.recipes, sign);
    const yk__job_param *p = made ? NULL : param_of_sign(job, sign);
    char at[160];
    if (made) {
        call_text(job, made->call, at, sizeof at);
        snprintf(buf, n, "%s at %s", made->name, at);
        return;
    }
    size_t used = (size_t)snprintf(buf, n, p ? "%.60s [" : "nothing", p ? p->name : "");
    for (uint32_t d = 0; p && d < p->dims && used < n; d++)
        used += (size_t)snprintf(buf + used, n - used, d ? ", %lld" : "%lld", (long long)p->dim[d]);
    if (p && used < n)
        snprintf(buf + used, n - used, "]");
}

/* ---- Comparing two ---- */

static bool settings_equal(const graph_setting *a, const graph_setting *b)
{
    return !strcmp(a->name, b->name) && !memcmp(&a->value, &b->value, sizeof a->value);
}

/* Index of the first setting that differs, or the number of settings that both have. */
static uint32_t setting_differs(const graph_place *a, const graph_place *b)
{
    uint32_t i = 0;
    while (i < a->n_setting && i < b->n_setting && settings_equal(&a->setting[i], &b->setting[i]))
        i++;
    return i;
}

static bool calls_differ(const graph_place *a, const graph_place *b)
{
    return strcmp(a->name, b->name) || a->n_setting != b->n_setting || setting_differs(a, b) < a->n_setting;
}

/* Index of the first operand that differs; NOWHERE if none does. */
static uint32_t operand_differs(const graph_place *a, const graph_place *b)
{
    uint32_t i = 0;
    while (i < a->n_operand && i < b->n_operand && a->operand[i] == b->operand[i])
        i++;
    return i < a->n_operand || i < b->n_operand ? i : NOWHERE;
}

static void setting_text(const graph_place *p, uint32_t i, char *buf, size_t n)
{
    *buf = 0;
    if (i < p->n_setting)
        snprintf(buf, n, " with %s %.9g", p->setting[i].name, p->setting[i].value);
}

/* True if the two have their rows along other axes, or one has none; it is the last setting of a call that has it. */
static bool rows_differ(const graph_place *a, const graph_place *b)
{
    const graph_setting *one = a->n_setting ? &a->setting[a->n_setting - 1] : NULL;
    const graph_setting *other = b->n_setting ? &b->setting[b->n_setting - 1] : NULL;
    return one && other && !strcmp(one->name, "axis of rows") && !strcmp(other->name, one->name) && !settings_equal(one, other);
}

/* A likely reason for setting i of a, which differs. */
static const char *setting_hint(const graph_place *a, const graph_place *b, uint32_t i)
{
    const char *name = i < a->n_setting ? a->setting[i].name : "";
    if (!strcmp(name, "factor") || !strcmp(name, "value"))
        return " (a mean over this rank's rows alone? yk_mean, or divide by the rows of all)";
    if (rows_differ(a, b))
        return " (an input whose first length is the number of rows on some ranks only by chance? yk_replicated says that it is the "
               "same on all)";
    return "";
}

static void tell_calls(const graph_place *a, const graph_place *b, char *buf, size_t n)
{
    char with[2][64];
    const bool same = !strcmp(a->name, b->name);
    const uint32_t i = setting_differs(a, b);
    setting_text(a, same ? i : NOWHERE, with[0], sizeof with[0]);
    setting_text(b, same ? i : NOWHERE, with[1], sizeof with[1]);
    snprintf(buf, n, ": %s%s at %s, where that has %s%s at %s%s", a->name, with[0], a->at, b->name, with[1], b->at,
             same ? setting_hint(a, b, i) : "");
}

/* Tells the two ranks' operands; every rank takes part. */
static yk_status tell_operands(const graph_walk *w, uint32_t i, char *buf, size_t n, yk_error *err)
{
    enum { TEXT = 224 };
    const graph_place *a = &w->all[w->odd], *b = &w->all[w->like];
    char own[TEXT] = "", *all = yk__calloc(w->job->team.world, TEXT);
    if (!all)
        return yk__fail_mem(err, (uint64_t)w->job->team.world * TEXT, "the places of ranks");
    operand_text(w->job, i < w->own.n_operand ? w->own.operand[i] : 0, own, TEXT);
    if (!yk__group_all_gather(w->job->team.group, own, TEXT, all, err))
        snprintf(buf, n, ": %s of %s at %s, where that has it of %s at %s", a->name, all + w->odd * TEXT, a->at,
                 all + w->like * TEXT, b->at);
    yk__free(all);
    return err->status;
}

/* ---- The way from the loss ---- */

/* Facts that decide if the walk continues at a differing operand. */
typedef struct graph_operand {
    bool is_known; /* this rank also has the other rank's operand */
    bool is_made;  /* a call made it */
} graph_operand;

/* *on: calls made the operand on both ranks, and neither rank has the other's, so the calls differ. */
static yk_status operand_followed(const graph_walk *w, uint32_t i, bool *on, yk_error *err)
{
    const yk__recipes *r = &w->job->step.recipes;
    const graph_place *other = &w->all[w->job->team.rank == w->odd ? w->like : w->odd];
    graph_operand own = {.is_known = i < other->n_operand && yk__recipe_find(r, other->operand[i]),
                         .is_made = i < w->own.n_operand && yk__recipe_find(r, w->own.operand[i])};
    graph_operand *all = yk__calloc(w->job->team.world, sizeof *all);
    if (!all)
        return yk__fail_mem(err, w->job->team.world * sizeof *all, "the operands of ranks");
    if (!yk__group_all_gather(w->job->team.group, &own, sizeof own, all, err))
        *on = all[w->odd].is_made && all[w->like].is_made && !all[w->odd].is_known && !all[w->like].is_known;
    yk__free(all);
    return err->status;
}

/* Visits one call after another, alike on all ranks; ranks that are not compared send empty calls. */
static yk_status walk_graph(graph_walk *w, char *buf, size_t n, yk_error *err)
{
    const yk__recipe *made = NULL;
    bool on = true;
    memset(&w->own, 0, sizeof w->own);
    place_of_step(w->job, &w->own);
    while (on && !yk__group_all_gather(w->job->team.group, &w->own, sizeof w->own, w->all, err)) {
        const graph_place *a = &w->all[w->odd], *b = &w->all[w->like];
        const uint32_t i = operand_differs(a, b);
        on = false;
        if (i != NOWHERE && !strcmp(a->name, b->name) && operand_followed(w, i, &on, err))
            return err->status;
        if (!on && calls_differ(a, b))
            tell_calls(a, b, buf, n);
        else if (!on && i != NOWHERE)
            tell_operands(w, i, buf, n, err);
        if (on) {
            made = i < w->own.n_operand ? yk__recipe_find(&w->job->step.recipes, w->own.operand[i]) : NULL;
            memset(&w->own, 0, sizeof w->own);
            if (made)
                place_of_recipe(w->job, made, &w->own);
        }
    }
    return err->status;
}

yk_status yk__agree_graph_place(yk_job *job, uint32_t odd, uint32_t like, char *buf, size_t n, yk_error *err)
{
    graph_walk w = {.job = job, .odd = odd, .like = like, .all = yk__calloc(job->team.world, sizeof(graph_place))};
    *buf = 0;
    if (!w.all)
        return yk__fail_mem(err, job->team.world * sizeof *w.all, "the ranks' graphs");
    walk_graph(&w, buf, n, err);
    yk__free(w.all);
    return err->status;
}
