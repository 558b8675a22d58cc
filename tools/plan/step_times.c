/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs steps of the candidates of `yoke plan` in children (yoke estimate-memory --timed-seconds) and corrects the predictions by them.
 *
 * search.c calls steps_measure in the main thread, after it planned all candidates.
 */
#include "tools/plan/step_times.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/process/cgroup.h"
#include "tools/plan/describe.h"
#include "tools/train/train.h"

/* Seconds that a child times steps for; a child runs about four steps at least, as it settles first. */
#define LEAST_TIMED 0.15
#define MOST_TIMED 0.6
#define STEPS_OF_A_CHILD 4
enum { ROUNDS = 3 };
#define MAY_BE_BEST 2 /* of the least measured step */
enum { FEW_ROWS = 1, MORE_ROWS = 4 }; /* rows of a rank in short steps */

/* Seconds of a step in the parts that rows do not change, and in those that grow with rows; of the slowest rank. */
typedef struct halves {
    double fixed, rows;
} halves;

static halves halves_of(const search *s, const candidate *c)
{
    const cost_rank *slowest = &c->rank[0];
    for (uint32_t i = 1; i < s->devices.n; i++)
        if (cost_sum(&c->rank[i]) > cost_sum(slowest))
            slowest = &c->rank[i];
    const double rows = slowest->part[COST_COMPUTE] + slowest->part[COST_MEMORY];
    return (halves){cost_sum(slowest) - rows, rows};
}

/* A run of the candidate takes no other program's memory. */
static bool is_safe(const candidate *c)
{
    return c->fits && c->all < 0.9 * (double)yk__cgroup_memory_left();
}

static void candidate_scale(const search *s, candidate *c, double fixed, double rows, candidate_times how)
{
    c->factor_fixed = fixed * (c->times == TIMES_MODEL ? 1 : c->factor_fixed);
    c->factor_rows = rows * (c->times == TIMES_MODEL ? 1 : c->factor_rows);
    c->times = how;
    c->seconds = 0;
    for (uint32_t i = 0; i < s->devices.n; i++) {
        for (int k = 0; k < COST_BOUNDS; k++)
            c->rank[i].part[k] *= k == COST_COMPUTE || k == COST_MEMORY ? rows : fixed;
        c->seconds = fmax(c->seconds, cost_sum(&c->rank[i]));
    }
}

/* Seconds after which a child hangs: devices start and compile before it steps, which may take minutes. */
static double most_seconds(const search *s)
{
    return DESCRIBE_MOST + 10 * s->measures;
}

/* The least step of this measurement and of earlier ones. A candidate that hangs is none. */
static void whole_measure(const search *s, candidate *c, double seconds)
{
    yk_error err = YK_ERROR_INIT;
    const double t = search_timed(s, c, fmin(MOST_TIMED, fmax(LEAST_TIMED, seconds)), most_seconds(s), &err);
    if (err.status == YK_E_TIMEOUT && c->times != TIMES_MEASURED) {
        c->failure = yk__strdup(err.text);
        c->fits = false;
    }
    if (t > 0 && (c->times != TIMES_MEASURED || t < c->seconds))
        candidate_scale(s, c, t / c->seconds, t / c->seconds, TIMES_MEASURED);
}

/* Steps of one micro batch with few rows and with more, of the candidate's options: two unknown factors, two steps. */
static void short_measure(const search *s, candidate *c, double factor, double most)
{
    double t[2] = {0}, model[2] = {0};
    halves h[2];
    int n = 0;
    yk_error err = YK_ERROR_INIT;
    for (uint64_t rows = FEW_ROWS; rows <= MORE_ROWS && rows * s->devices.ranks <= c->batch; rows *= MORE_ROWS) {
        candidate one = {.shard = c->shard, .offload = c->offload, .recomputes = c->recomputes, .micros = 1};
        one.batch = rows * s->devices.ranks;
        const bool planned = search_plan(s, &one);
        if (planned && is_safe(&one) && STEPS_OF_A_CHILD * one.seconds * factor <= most) {
            model[n] = one.seconds;
            h[n] = halves_of(s, &one);
            t[n] = search_timed(s, &one, LEAST_TIMED, most_seconds(s), &err);
        }
        search_drop(&one);
        if (!(t[n] > 0))
            break;
        factor = t[n] / model[n];
        most -= STEPS_OF_A_CHILD * t[n];
        n++;
    }
    if (err.status == YK_E_TIMEOUT) {
        c->failure = yk__strdup(err.text);
        c->fits = false;
    }
    if (!n)
        return;
    const double area = n < 2 ? 0 : h[0].fixed * h[1].rows - h[1].fixed * h[0].rows;
    const double fixed = area > 0 ? (t[0] * h[1].rows - t[1] * h[0].rows) / area : 0;
    const double rows = area > 0 ? (t[1] * h[0].fixed - t[0] * h[1].fixed) / area : 0;
    const bool solved = fixed > 0 && rows > 0;
    candidate_scale(s, c, solved ? fixed : factor, solved ? rows : factor, TIMES_SCALED);
}

/* How much alike two candidates' steps are. */
static int likeness_count(const candidate *a, const candidate *b)
{
    return 4 * (a->recomputes == b->recomputes) + 2 * (a->offload == b->offload) + (a->shard == b->shard);
}

/* The measured candidate that is most like this one, the later of equals; NULL if none was measured. */
static const candidate *likest_of(candidate **list, uint32_t n, const candidate *c)
{
    const candidate *best = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (list[i]->times != TIMES_MODEL && (!best || likeness_count(list[i], c) >= likeness_count(best, c)))
            best = list[i];
    return best;
}

/* Measures a candidate whose steps take no longer than its share of the time, else steps of fewer rows, once for candidates alike. */
static void candidate_measure(const search *s, candidate **list, uint32_t n, candidate *c, double left, double share)
{
    enum { ALIKE = 7 };
    const candidate *like = likest_of(list, n, c);
    const double factor = like ? fmax(like->factor_rows, like->factor_fixed) : 1;
    if (is_safe(c) && STEPS_OF_A_CHILD * c->seconds * factor <= fmax(share, 2 * MOST_TIMED))
        whole_measure(s, c, share / 3);
    else if (!like || likeness_count(like, c) < ALIKE)
        short_measure(s, c, factor, left);
}

/* Predictions without steps of their own, by the factors of those that have. */
static void rest_scale(const search *s, candidate **list, uint32_t n)
{
    const candidate *like[SEARCH_MOST];
    for (uint32_t i = 0; i < n; i++)
        like[i] = list[i]->times == TIMES_MODEL ? likest_of(list, n, list[i]) : NULL;
    for (uint32_t i = 0; i < n; i++)
        if (like[i])
            candidate_scale(s, list[i], like[i]->factor_fixed, like[i]->factor_rows, TIMES_SCALED);
}

static int by_seconds(const void *a, const void *b)
{
    const candidate *x = *(candidate *const *)a, *y = *(candidate *const *)b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

/* One line on a terminal, a line for each candidate elsewhere; c NULL: the last one is done. */
static void progress_say(const search *s, uint32_t i, uint32_t n, const candidate *c)
{
    char text[OPTIONS_MOST];
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, c ? "\ryoke %s: measures steps of candidates, %u of %u" : "\r\033[K", s->cli->command->name, i + 1, n);
        fflush(stderr);
    } else if (c) {
        search_options(s, c, text, sizeof text);
        fprintf(stderr, "yoke %s: measures candidate %u of %u, %.3g ms predicted: %s\n", s->cli->command->name, i + 1, n,
                1e3 * c->seconds, text);
    }
}

/* Another program may have disturbed a measurement: the candidates that may be the best are measured again while there is time. */
static void steps_repeat(const search *s, candidate **list, uint32_t n, double end)
{
    double best = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        best = list[i]->times == TIMES_MEASURED ? fmin(best, list[i]->seconds) : best;
    for (int round = 1; round < ROUNDS; round++)
        for (uint32_t i = 0; i < n; i++)
            if (list[i]->times == TIMES_MEASURED && list[i]->seconds < MAY_BE_BEST * best &&
                STEPS_OF_A_CHILD * list[i]->seconds < end - train_seconds())
                whole_measure(s, list[i], MOST_TIMED);
}

void steps_measure(search *s, double seconds)
{
    s->measures = seconds;
    candidate *list[SEARCH_MOST];
    uint32_t n = 0, count[TIMES_SCALED + 1] = {0};
    const double began = train_seconds();
    for (uint32_t i = 0; i < s->n; i++)
        if (s->list[i].fits)
            list[n++] = &s->list[i];
    qsort(list, n, sizeof list[0], by_seconds);
    for (uint32_t i = 0; i < n; i++) {
        const double left = began + seconds - train_seconds();
        if (!(left > 0))
            break;
        progress_say(s, i, n, list[i]);
        candidate_measure(s, list, i, list[i], left, left / (n - i));
    }
    steps_repeat(s, list, n, began + seconds);
    rest_scale(s, list, n);
    progress_say(s, n, n, NULL);
    for (uint32_t i = 0; i < n; i++)
        count[list[i]->times]++;
    fprintf(stderr, "yoke %s: times of %u candidates are measured, of %u scaled by measured steps, of %u of small models (%.0f s)\n",
            s->cli->command->name, count[TIMES_MEASURED], count[TIMES_SCALED], count[TIMES_MODEL], train_seconds() - began);
}
