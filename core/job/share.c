/* SPDX-License-Identifier: Apache-2.0 */
/* How the rows of a global micro batch are shared out over the ranks, from measured speed. */
#include <pthread.h>
#include <string.h>

#include <jansson.h>
#include <math.h>

#include "core/base/log.h"
#include "core/job/share.h"

#define TIMES 5 /* of the last steps, whose median counts: a machine that does other things too is measured by no single one */

#define PADDING (64u << 10)

#define FINDING 40  /* steps after which shares are looked at less often */
#define SETTLING 10 /* steps after which small gains are not worth new shares */

/* What a rank took for its part as the shares are now. */
typedef struct times {
    double seconds[TIMES];
    uint64_t rows, n;
} times;

struct yk__share {
    pthread_mutex_t lock;       /* share[] is read by the loader's thread */
    yk__balance *balance;
    uint64_t n;                 /* rows the shares are for; 0: none yet */
    uint64_t share[256], total[256];
    bool left_out[256], told[256];
    uint64_t steps;             /* windows of this job */
    uint64_t rows, compiles;    /* of the last one on this rank */
    bool fresh, clean;          /* a run has been made since the last exchange; its program was there already */
    times times[256];
    yk__rank_room room[256];
    uint64_t cap[256], most;    /* rows that fit each rank, 0: not known; most rows that ran here */
    uint64_t looked, soon;      /* steps at the last look; an early one, 0: none */
};

yk_status yk__share_new(yk_job *job, const yk__rank_room *room, yk_error *err)
{
    bool forced[256] = {false};
    if (job->world > 256)
        return yk__fail(err, YK_E_ARG, "%u ranks: at most 256", job->world);
    job->share = yk__calloc(1, sizeof *job->share);
    if (!job->share)
        return yk__fail_mem(err, sizeof *job->share, "the shares");
    pthread_mutex_init(&job->share->lock, NULL);
    for (uint32_t r = 0; r < job->world; r++) {
        job->share->room[r] = room[r];
        forced[r] = room[r].forced;
        if (room[r].limited && job->world > 1)
            job->share->soon = 1; /* the first shares are made before it is known what fits */
    }
    return job->world == 1 ? YK_OK : yk__balance_new(job->world, NULL, forced, &job->share->balance, err);
}

void yk__share_free(yk__share *s)
{
    if (!s)
        return;
    yk__balance_free(s->balance);
    pthread_mutex_destroy(&s->lock);
    yk__free(s);
}

/* A run that made its program first (planning, a driver's compiler) says nothing about speed, nor does one that is only
 * planned. */
void yk__share_note(yk_job *job, bool train)
{
    yk__engine_stats st;
    if (!train || !job->share)
        return;
    if (job->world == 1)
        return;
    yk__engine_stats_get(job->engine, &st);
    job->share->rows = job->empty ? 0 : (uint64_t)job->local;
    job->share->most = job->share->rows > job->share->most ? job->share->rows : job->share->most;
    job->share->clean = st.compiles == job->share->compiles && !job->config.plan_only;
    job->share->compiles = st.compiles;
    job->share->fresh = true;
}

/* Shares are looked at again after 2, 4, 8 steps, then every 5, after a while every 10. */
static bool due(const yk__share *s, uint64_t steps)
{
    const uint64_t every = steps <= FINDING ? 5 : 10;
    return steps == s->soon || steps == 2 || steps == 4 || steps == 8 || (steps > 8 && steps % every == 0);
}

/* The steps before that are timed; each rank waits for its device at their ends before it turns to the others. */
static bool timed(const yk__share *s, uint64_t steps)
{
    return steps <= FINDING || steps <= s->soon || (steps - 1) % 10 >= 10 - TIMES;
}

/* The first shares: even, the remainder to the first ranks. */
static void even_of(uint64_t *share, uint32_t world, uint64_t n)
{
    for (uint32_t r = 0; r < world; r++)
        share[r] = n / world + (r < n % world);
}

/* The same, but little for ranks whose memory is limited as long as others have room: their first rows tell how many fit. */
static void first_of(const yk_job *job, uint64_t *share, uint64_t n)
{
    const uint64_t little = n / (4ull * job->world);
    uint32_t limited = 0, seen = 0;
    for (uint32_t r = 0; r < job->world; r++)
        limited += job->share->room[r].limited;
    even_of(share, job->world, n);
    if (!limited || limited == job->world || !little)
        return;
    for (uint32_t r = 0; r < job->world; r++) {
        const uint64_t rest = n - little * limited, others = job->world - limited;
        share[r] = job->share->room[r].limited ? little : rest / others + (seen++ < rest % others);
    }
}

/* Rows that fit this rank's memory, from what those that ran took: what grows with them, and what does not. Later steps may
 * have more inputs under way; PADDING is for what is rounded up. */
static uint64_t rows_that_fit(const yk_job *job, const yk__engine_stats *st)
{
    const yk__share *s = job->share;
    const uint64_t room = s->room[job->rank].bytes, fixed = st->param_bytes + st->grad_bytes + st->state_bytes + PADDING;
    const uint64_t grows = st->arena_bytes + 2 * st->input_bytes + st->scratch_bytes; /* the last: at most like rows */
    double fit;
    if (!room || !s->most || !grows)
        return 0;
    fit = room > fixed ? (double)s->most * ((double)(room - fixed) / (double)grows) : 0.0;
    return fit < (double)s->most ? s->most : fit < 9e15 ? (uint64_t)fit : (uint64_t)9e15;
}

static void tell_left_out(yk_job *job)
{
    yk__share *s = job->share;
    for (uint32_t r = 0; r < job->world; r++) {
        if (s->told[r] && s->share[r] > 1) {
            s->told[r] = false;
            if (job->rank == 0)
                yk__log(YK_LOG_INFO, "balance", "rank %u (%s) takes part again", r, job->rank_name[r]);
        }
        if (s->left_out[r] && !s->told[r] && job->rank == 0)
            yk__log(YK_LOG_WARN, "balance", "rank %u (%s) is left out: the job is faster without it ('!' behind its word keeps "
                                            "it in)",
                    r, job->rank_name[r]);
        s->told[r] = s->told[r] || s->left_out[r];
    }
}

static void times_add(times *t, uint64_t rows, double seconds)
{
    if (t->rows != rows)
        *t = (times){.rows = rows};
    t->seconds[t->n++ % TIMES] = seconds;
}

static double times_median(const times *t)
{
    double v[TIMES];
    const uint64_t n = t->n < TIMES ? t->n : TIMES;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = i;
        for (; k && v[k - 1] > t->seconds[i]; k--)
            v[k] = v[k - 1];
        v[k] = t->seconds[i];
    }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static bool exchange(yk_job *job)
{
    yk__share *s = job->share;
    yk_error err = YK_ERROR_INIT;
    yk__engine_stats st;
    yk__engine_stats_get(job->engine, &st);
    double mine[3] = {st.busy_seconds, s->clean ? (double)s->rows : 0.0, (double)rows_that_fit(job, &st)}, all[256][3];
    if (yk__group_gather_members(job->group, mine, sizeof mine, all, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    for (uint32_t r = 0; r < job->world; r++) {
        if (all[r][1] > 0.0)
            times_add(&s->times[r], (uint64_t)all[r][1], all[r][0]);
        s->cap[r] = (uint64_t)all[r][2];
        yk__balance_cap(s->balance, r, s->cap[r]);
    }
    return true;
}

/* The medians since the last look go into the fits. */
static void record(yk__share *s, uint32_t world)
{
    for (uint32_t r = 0; r < world; r++) {
        if (s->times[r].n)
            yk__balance_record(s->balance, r, s->times[r].rows, times_median(&s->times[r]));
        s->times[r].n = 0;
    }
}

/* Shares in steps of 1/128 of the batch, about what the dead band leaves open: each number of rows is a program of its own.
 * The largest takes the rest. */
static void round_shares(const yk__share *s, uint64_t *share, uint32_t world, uint64_t n)
{
    uint64_t step = n / 128 ? n / 128 : 1, sum = 0, rounded[256];
    uint32_t largest = 0;
    bool fits = true;
    for (uint32_t r = 1; r < world; r++)
        largest = share[r] > share[largest] ? r : largest;
    for (uint32_t r = 0; r < world; r++) {
        uint64_t near = (share[r] + step / 2) / step * step;
        rounded[r] = r == largest || !share[r] ? 0 : near ? near : step;
        if (s->cap[r] && rounded[r] > s->cap[r])
            rounded[r] = share[r];
        sum += rounded[r];
    }
    fits = sum < n && (!s->cap[largest] || n - sum <= s->cap[largest]);
    rounded[largest] = n - sum;
    if (fits)
        memcpy(share, rounded, world * sizeof *share);
}

bool yk__share_update(yk_job *job, int64_t n, bool *changed)
{
    yk__share *s = job->share;
    yk_error err = YK_ERROR_INIT;
    uint64_t next[256];
    *changed = false;
    if (job->world == 1)
        return true;
    if (s->n == 0) {
        *changed = s->soon == 1; /* a loader that is there already split evenly */
        pthread_mutex_lock(&s->lock);
        first_of(job, s->share, (uint64_t)n);
        s->n = (uint64_t)n;
        pthread_mutex_unlock(&s->lock);
        yk__engine_measure(job->engine, true);
    }
    if (!s->fresh || (job->opt && job->opt->micro)) /* times are known when the window is over */
        return true;
    s->fresh = false;
    s->steps++;
    yk__engine_measure(job->engine, timed(s, s->steps + 1));
    if (timed(s, s->steps) && !exchange(job))
        return false;
    if (!due(s, s->steps))
        return true;
    record(s, job->world);
    if (s->steps <= SETTLING)
        yk__balance_forget(s->balance);
    if (yk__balance_pass(s->balance, s->steps - s->looked)) { /* a rank is tried again: not for longer than it takes */
        s->soon = s->steps + 3;
        yk__engine_measure(job->engine, true);
    }
    s->looked = s->steps;
    if (yk__balance_split(s->balance, s->n, next, s->left_out, &err)) {
        yk__job_fail(job, &err);
        return false;
    }
    round_shares(s, next, job->world, s->n);
    *changed = memcmp(next, s->share, job->world * sizeof *next) != 0;
    pthread_mutex_lock(&s->lock);
    memcpy(s->share, next, job->world * sizeof *next);
    pthread_mutex_unlock(&s->lock);
    tell_left_out(job);
    return true;
}

/* ---- In checkpoints ---- */

static json_t *list_of(const uint64_t *v, uint32_t n)
{
    json_t *a = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(a, json_integer((json_int_t)v[i]));
    return a;
}

json_t *yk__share_save(const yk_job *job)
{
    const yk__share *s = job->share;
    const uint32_t n = job->world > 1 ? yk__balance_count(s->balance) : 0;
    double *v = yk__calloc(n + 1ull, sizeof *v);
    json_t *o, *a;
    if (!n || !s->n || !v) {
        yk__free(v);
        return NULL;
    }
    o = json_object();
    a = json_array();
    yk__balance_get(s->balance, v);
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(a, json_real(v[i]));
    json_object_set_new(o, "rows", json_integer((json_int_t)s->n));
    json_object_set_new(o, "steps", json_integer((json_int_t)(s->steps + s->fresh))); /* the last one is looked at later */
    json_object_set_new(o, "looked", json_integer((json_int_t)s->looked));
    json_object_set_new(o, "share", list_of(s->share, job->world));
    json_object_set_new(o, "total", list_of(s->total, job->world));
    json_object_set_new(o, "balance", a);
    yk__free(v);
    return o;
}

static bool numbers_of(const json_t *a, uint32_t n, double *v)
{
    for (uint32_t i = 0; i < n; i++) {
        v[i] = json_number_value(json_array_get(a, i));
        if (!json_is_number(json_array_get(a, i)) || !isfinite(v[i]) || v[i] < 0.0)
            return false;
    }
    return json_array_size(a) == n;
}

/* Shares that add up to their batch, and the balance's numbers behind them. */
static bool read_shares(yk__share *s, uint32_t world, const json_t *o, uint32_t count, double *v)
{
    const double rows = json_number_value(json_object_get(o, "rows")), steps = json_number_value(json_object_get(o, "steps"));
    const double looked = json_number_value(json_object_get(o, "looked"));
    double share[256], total[256], sum = 0.0;
    if (!numbers_of(json_object_get(o, "share"), world, share) || !numbers_of(json_object_get(o, "total"), world, total) ||
        !numbers_of(json_object_get(o, "balance"), count, v))
        return false;
    for (uint32_t r = 0; r < world; r++)
        sum += share[r];
    if (!(rows >= 1.0) || rows > 1e15 || sum != rows || !(steps >= 0.0) || !(looked >= 0.0) || looked > steps || steps > 1e15)
        return false;
    for (uint32_t r = 0; r < world; r++) {
        s->share[r] = (uint64_t)share[r];
        s->total[r] = (uint64_t)total[r];
    }
    s->n = (uint64_t)rows;
    s->steps = (uint64_t)steps;
    s->looked = (uint64_t)looked;
    return true;
}

void yk__share_load(yk_job *job, const json_t *o)
{
    yk__share *s = job->share;
    const uint32_t n = job->world > 1 ? yk__balance_count(s->balance) : 0;
    double *v;
    if (!n || !o || s->steps)
        return;
    v = yk__calloc(n, sizeof *v);
    pthread_mutex_lock(&s->lock);
    if (v && read_shares(s, job->world, o, n, v)) {
        yk__balance_set(s->balance, v);
        s->soon = 0;
        yk__engine_measure(job->engine, timed(s, s->steps + 1));
    } else if (job->rank == 0) {
        yk__log(YK_LOG_INFO, "balance", "the checkpoint's shares are for other ranks; they are measured anew");
    }
    pthread_mutex_unlock(&s->lock);
    yk__free(v);
}

/* ---- A batch's parts ---- */

void yk__share_part(const yk_job *job, int64_t n, int64_t *first, int64_t *count)
{
    yk__share *s = job->share;
    int64_t begin = 0, end = n;
    pthread_mutex_lock(&s->lock);
    if (job->world > 1 && s->n) {
        uint64_t before = 0;
        for (uint32_t r = 0; r < job->rank; r++)
            before += s->share[r];
        begin = (int64_t)((uint64_t)n * before / s->n);
        end = (int64_t)((uint64_t)n * (before + s->share[job->rank]) / s->n);
    } else if (job->world > 1) {
        begin = n * job->rank / job->world;
        end = n * (job->rank + 1) / job->world;
    }
    pthread_mutex_unlock(&s->lock);
    *first = begin;
    *count = end - begin;
}

void yk__share_count(yk_job *job, int64_t n)
{
    yk__share *s = job->share;
    uint64_t before = 0;
    if (job->world == 1 || !s->n)
        return;
    for (uint32_t r = 0; r < job->world; r++) {
        uint64_t begin = (uint64_t)n * before / s->n;
        before += s->share[r];
        s->total[r] += (uint64_t)n * before / s->n - begin;
    }
}

void yk_split(yk_job *job, uint64_t n, uint64_t *first, uint64_t *count)
{
    bool changed;
    int64_t begin = 0, part = 0;
    *first = *count = 0;
    if (!yk_ok(job) || n > INT32_MAX || !yk__share_update(job, (int64_t)n, &changed))
        return;
    yk__share_part(job, (int64_t)n, &begin, &part);
    yk__share_count(job, (int64_t)n);
    *first = (uint64_t)begin;
    *count = (uint64_t)part;
}

double yk_share(const yk_job *job, uint32_t rank)
{
    uint64_t all = 0;
    if (!job || rank >= job->world)
        return 0.0;
    if (job->world == 1 || !job->share)
        return 1.0;
    for (uint32_t r = 0; r < job->world; r++)
        all += job->share->total[r];
    return all ? (double)job->share->total[rank] / (double)all : 1.0 / (double)job->world;
}
