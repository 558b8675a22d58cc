/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the rows of a global batch are shared out: a line t = a + b n per rank, fitted online, and the split that makes
 * the slowest rank as fast as can be. Pure code: equal records give equal shares on all ranks.
 */
#include "core/group/group.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"

#define KEEP 0.85        /* weight of a record after the next one */
#define KEEP_EARLY 0.5   /* of a rank's first records: caches and drivers were cold */
#define EARLY 4
#define DEAD_BAND 0.01   /* gain that is worth new shares */
#define SURPRISE 0.03    /* difference from what was foreseen that is believed only when the next record has it too */
#define SPREAD 0.05      /* spread of n (relative) that tells something about a */
#define SLOPE_ERROR 0.25 /* standard error of b n (relative to t) above which a is not believed */
#define OUTLIER 4.0      /* a time above this multiple of what was foreseen counts as this multiple */
#define SEASONED 3       /* records before a rank is judged */
#define REMEMBERED 4     /* batch sizes whose shares are kept */
#define PATIENCE 200     /* windows after which a rank that was left out is tried again; each time twice as many */

typedef struct fit {
    uint32_t records;
    double w, n, nn, t, tt, nt; /* weighted sums of 1, n, n^2, t, t^2, n t */
    double a, b;
    enum { AS_FORESEEN, SLOWER, FASTER } surprise; /* the last record, by more than SURPRISE */
} fit;

typedef struct memory {
    uint64_t n; /* 0: unused */
    uint64_t *share;
} memory;

/* Of a rank that was left out: something else may have slowed its device for a while. */
typedef struct absence {
    bool out, again;     /* it is left out; it gets a row now, to be measured */
    uint64_t idle, wait; /* windows without it; after how many it is tried */
} absence;

struct yk__balance {
    uint32_t ranks;
    uint64_t *cap; /* UINT64_MAX: none known */
    bool *forced;
    fit *fit;
    absence *absence;
    memory last[REMEMBERED];
    uint32_t turn;
};

yk_status yk__balance_new(uint32_t ranks, const uint64_t *max_rows, const bool *forced, yk__balance **out,
                          yk_error *err)
{
    yk__balance *b;
    if (!ranks)
        return yk__fail(err, YK_E_ARG, "shares for no ranks");
    b = yk__calloc(1, sizeof *b);
    if (!b)
        return yk__fail_mem(err, sizeof *b, "batch shares");
    b->ranks = ranks;
    b->cap = yk__calloc(ranks, sizeof *b->cap);
    b->forced = yk__calloc(ranks, sizeof *b->forced);
    b->fit = yk__calloc(ranks, sizeof *b->fit);
    b->absence = yk__calloc(ranks, sizeof *b->absence);
    bool whole = b->cap && b->forced && b->fit && b->absence;
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        b->last[i].share = yk__calloc(ranks, sizeof(uint64_t));
        whole = whole && b->last[i].share;
    }
    if (!whole) {
        yk__balance_free(b);
        return yk__fail_mem(err, ranks * (sizeof(fit) + 6 * sizeof(uint64_t)), "batch shares");
    }
    for (uint32_t r = 0; r < ranks; r++) {
        b->cap[r] = max_rows && max_rows[r] ? max_rows[r] : UINT64_MAX;
        b->forced[r] = forced && forced[r];
        b->absence[r].wait = PATIENCE;
    }
    *out = b;
    return YK_OK;
}

void yk__balance_free(yk__balance *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < REMEMBERED; i++)
        yk__free(b->last[i].share);
    yk__free(b->absence);
    yk__free(b->fit);
    yk__free(b->forced);
    yk__free(b->cap);
    yk__free(b);
}

/* ---- The fit ----------------------------------------------------------------------------------------------------- */

/* Weighted least squares: b = cov(n, t) / var(n), a = mean(t) - b mean(n). Where the records say too little about the
 * slope (all n alike, or noise larger than the effect) a stays as it was and the line goes through the mean point. */
static void solve(fit *f)
{
    double mn = f->n / f->w, mt = f->t / f->w;
    double vn = f->nn / f->w - mn * mn, vt = f->tt / f->w - mt * mt, c = f->nt / f->w - mn * mt;
    if (vn > SPREAD * SPREAD * mn * mn && c > 0) {
        double b = c / vn, rest = vt - b * c;
        double se = sqrt((rest > 0 ? rest : 0) / (vn * (f->w > 1 ? f->w : 1)));
        if (se * mn < SLOPE_ERROR * mt)
            f->a = mt - b * mn;
    }
    if (f->a < 0 || !(f->a <= 0.95 * mt))
        f->a = f->a < 0 ? 0 : 0.95 * mt;
    f->b = (mt - f->a) / mn;
}

/* A rank that is tried again and was foreseen slower than it is: its whole line is scaled to what it took. */
static void rescale(fit *f, double factor)
{
    f->t *= factor, f->nt *= factor, f->tt *= factor * factor;
    f->a *= factor, f->b *= factor;
}

/* Cores of a shared machine are slow for a second now and then: shares that followed would be wrong twice, then and after.
 * The first record of such a time counts for no more than SURPRISE. */
static double believed(fit *f, double seen, double t)
{
    const int before = f->surprise;
    const double bound = seen * (t > seen ? 1 + SURPRISE : 1 - SURPRISE);
    if (f->records < SEASONED)
        return t;
    f->surprise = t > seen && t > bound ? SLOWER : t < seen && t < bound ? FASTER : AS_FORESEEN;
    if (f->surprise != AS_FORESEEN && (int)f->surprise != before)
        return bound;
    return t > OUTLIER * seen ? OUTLIER * seen : t;
}

static void add(fit *f, double n, double t)
{
    const double keep = f->records <= EARLY ? KEEP_EARLY : KEEP;
    f->records++;
    f->w = f->w * keep + 1;
    f->n = f->n * keep + n;
    f->nn = f->nn * keep + n * n;
    f->t = f->t * keep + t;
    f->tt = f->tt * keep + t * t;
    f->nt = f->nt * keep + n * t;
}

void yk__balance_record(yk__balance *b, uint32_t r, uint64_t rows, double seconds)
{
    fit *f;
    double n = (double)rows, t = seconds, seen;
    if (r >= b->ranks || !rows || !(seconds > 1e-9) || !isfinite(seconds))
        return;
    f = &b->fit[r];
    seen = f->a + f->b * n;
    if (b->absence[r].again && t < seen) {
        rescale(f, t / seen);
        seen = t;
    }
    b->absence[r].again = false;
    add(f, n, believed(f, seen, t));
    solve(f);
}

double yk__balance_predict(const yk__balance *b, uint32_t r, uint64_t rows)
{
    if (r >= b->ranks || !b->fit[r].records || !rows)
        return 0;
    return b->fit[r].a + b->fit[r].b * (double)rows;
}

/* ---- The split --------------------------------------------------------------------------------------------------- */

typedef struct line {
    double a, b;
    uint64_t least, most;
} line;

static double time_of(const line *l, uint64_t n)
{
    return n ? l->a + l->b * (double)n : 0;
}

/* Rows that the rank can do within t. */
static uint64_t rows_within(const line *l, double t)
{
    double n = t < l->a + l->b ? 0 : floor((t - l->a) / l->b);
    uint64_t k = n >= (double)l->most ? l->most : (uint64_t)n;
    while (k && time_of(l, k) > t) /* the division may have rounded up */
        k--;
    while (k < l->most && time_of(l, k + 1) <= t) /* or down */
        k++;
    return k < l->least ? l->least : k;
}

static bool enough_within(const line *l, uint32_t ranks, double t, uint64_t n)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t k = rows_within(&l[r], t);
        if (k >= n - sum)
            return true;
        sum += k;
    }
    return n == 0;
}

/* The least time within which n rows can be done, to the last bit: bisection until two neighbours are left. */
static double least_time(const line *l, uint32_t ranks, uint64_t n)
{
    double low = 0, high = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        double t = time_of(&l[r], l[r].most < n ? l[r].most : n);
        high = t > high ? t : high;
    }
    if (enough_within(l, ranks, low, n))
        return low;
    for (;;) {
        double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high)
            return high;
        if (enough_within(l, ranks, middle, n))
            high = middle;
        else
            low = middle;
    }
}

/* Rows beyond n are taken back, one at a time, from the rank that takes longest (the last of equals). */
static void take_back(const line *l, uint32_t ranks, uint64_t surplus, uint64_t *share)
{
    while (surplus) {
        uint32_t which = ranks;
        for (uint32_t r = 0; r < ranks; r++)
            if (share[r] > l[r].least &&
                (which == ranks || time_of(&l[r], share[r]) >= time_of(&l[which], share[which])))
                which = r;
        if (which == ranks)
            return;
        share[which]--;
        surplus--;
    }
}

static void minimax(const line *l, uint32_t ranks, uint64_t n, uint64_t *share)
{
    double t = least_time(l, ranks, n);
    uint64_t sum = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        share[r] = rows_within(&l[r], t);
        sum += share[r];
    }
    take_back(l, ranks, sum - n, share);
}

static double longest(const line *l, uint32_t ranks, const uint64_t *share)
{
    double t = 0;
    for (uint32_t r = 0; r < ranks; r++)
        t = time_of(&l[r], share[r]) > t ? time_of(&l[r], share[r]) : t;
    return t;
}

/* Ranks of which nothing is known are taken to be as fast as the mean of the others. A rank that may not be left out,
 * or of which too little is known, gets a row at least, as long as there are rows. */
static void lines_of(const yk__balance *b, uint64_t n, line *l)
{
    double a = 0, slope = 0;
    uint32_t known = 0;
    for (uint32_t r = 0; r < b->ranks; r++)
        if (b->fit[r].records) {
            known++;
            a += b->fit[r].a;
            slope += b->fit[r].b;
        }
    for (uint32_t r = 0; r < b->ranks; r++) {
        const fit *f = &b->fit[r];
        bool stays = b->forced[r] || f->records < SEASONED || b->absence[r].again;
        l[r].a = f->records ? f->a : known ? a / known : 0;
        l[r].b = f->records ? f->b : known ? slope / known : 1;
        l[r].most = b->cap[r] < n ? b->cap[r] : n;
        l[r].least = stays && n >= b->ranks ? 1 : 0;
    }
}

static memory *remembered(yk__balance *b, uint64_t n)
{
    for (uint32_t i = 0; i < REMEMBERED; i++)
        if (b->last[i].n == n)
            return &b->last[i];
    return NULL;
}

static void remember(yk__balance *b, uint64_t n, const uint64_t *share)
{
    memory *m = remembered(b, n);
    if (!m)
        m = &b->last[b->turn++ % REMEMBERED];
    m->n = n;
    memcpy(m->share, share, b->ranks * sizeof *share);
}

void yk__balance_cap(yk__balance *b, uint32_t r, uint64_t max_rows)
{
    if (r < b->ranks)
        b->cap[r] = max_rows ? max_rows : UINT64_MAX;
}

bool yk__balance_pass(yk__balance *b, uint64_t windows)
{
    bool any = false;
    for (uint32_t r = 0; r < b->ranks; r++) {
        absence *a = &b->absence[r];
        a->idle = a->out ? a->idle + windows : 0;
        if (a->out && a->idle >= a->wait) {
            a->again = true;
            a->idle = 0;
            a->wait *= a->wait < UINT64_MAX / 2 ? 2 : 1;
        }
        any = any || a->again;
    }
    return any;
}

static bool any_again(const yk__balance *b)
{
    for (uint32_t r = 0; r < b->ranks; r++)
        if (b->absence[r].again)
            return true;
    return false;
}

static void note_absence(yk__balance *b, const uint64_t *share, const bool *left_out)
{
    for (uint32_t r = 0; r < b->ranks; r++) {
        absence *a = &b->absence[r];
        if (share[r] && !a->again)
            a->wait = PATIENCE;
        a->out = left_out[r] || a->again;
    }
}

/* ---- As numbers, for checkpoints --------------------------------------------------------------------------------- */

enum { OF_RANK = 14 };

uint32_t yk__balance_count(const yk__balance *b)
{
    return b->ranks * OF_RANK + REMEMBERED * (b->ranks + 1);
}

void yk__balance_get(const yk__balance *b, double *v)
{
    for (uint32_t r = 0; r < b->ranks; r++, v += OF_RANK) {
        const fit *f = &b->fit[r];
        const absence *a = &b->absence[r];
        const double all[OF_RANK] = {f->records, f->w,   f->n,     f->nn,           f->t,           f->tt, f->nt, f->a, f->b,
                                     a->out,     a->again, (double)a->idle, (double)a->wait, f->surprise};
        memcpy(v, all, sizeof all);
    }
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        *v++ = (double)b->last[i].n;
        for (uint32_t r = 0; r < b->ranks; r++)
            *v++ = (double)b->last[i].share[r];
    }
}

void yk__balance_set(yk__balance *b, const double *v)
{
    for (uint32_t r = 0; r < b->ranks; r++, v += OF_RANK) {
        b->fit[r] = (fit){(uint32_t)v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8],
                          v[13] == 1 ? SLOWER : v[13] == 2 ? FASTER : AS_FORESEEN};
        b->absence[r] = (absence){v[9] != 0, v[10] != 0, (uint64_t)v[11], (uint64_t)v[12]};
    }
    for (uint32_t i = 0; i < REMEMBERED; i++) {
        b->last[i].n = (uint64_t)*v++;
        for (uint32_t r = 0; r < b->ranks; r++)
            b->last[i].share[r] = (uint64_t)*v++;
    }
}

/* ---- The shares of a batch --------------------------------------------------------------------------------------- */

void yk__balance_forget(yk__balance *b)
{
    for (uint32_t i = 0; i < REMEMBERED; i++)
        b->last[i].n = 0;
}

static yk_status check_caps(const yk__balance *b, uint64_t n, yk_error *err)
{
    uint64_t room = 0;
    for (uint32_t r = 0; r < b->ranks && room < n; r++)
        room += b->cap[r] < n - room ? b->cap[r] : n - room;
    if (room < n)
        return yk__fail(err, YK_E_MEM,
                        "a batch of %llu rows does not fit: the devices' memory holds %llu; use a smaller "
                        "batch or more accumulation steps",
                        (unsigned long long)n, (unsigned long long)room);
    return YK_OK;
}

/* The caps may have changed since. */
static bool within(const yk__balance *b, const memory *m)
{
    for (uint32_t r = 0; r < b->ranks; r++)
        if (m->share[r] > b->cap[r])
            return false;
    return true;
}

yk_status yk__balance_split(yk__balance *b, uint64_t n, uint64_t *share, bool *left_out, yk_error *err)
{
    const memory *m;
    line *l;
    double t;
    yk_status s = check_caps(b, n, err);
    if (s)
        return s;
    l = yk__calloc(b->ranks, sizeof *l);
    if (!l)
        return yk__fail_mem(err, b->ranks * sizeof *l, "batch shares");
    lines_of(b, n, l);
    minimax(l, b->ranks, n, share);
    t = longest(l, b->ranks, share);
    m = n && !any_again(b) ? remembered(b, n) : NULL;
    if (m && within(b, m) && t >= longest(l, b->ranks, m->share) * (1 - DEAD_BAND)) {
        memcpy(share, m->share, b->ranks * sizeof *share);
        t = longest(l, b->ranks, share);
    } else if (n && !any_again(b)) {
        remember(b, n, share);
    }
    for (uint32_t r = 0; r < b->ranks; r++)
        left_out[r] = !share[r] && !b->forced[r] && b->fit[r].records >= SEASONED && time_of(&l[r], 1) > t;
    note_absence(b, share, left_out);
    yk__free(l);
    return YK_OK;
}
