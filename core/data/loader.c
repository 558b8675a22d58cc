/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prefetching loader: a ring of slots that a thread fills while the caller uses one. One lock; a slot between `made` and
 * `taken` is the caller's to take, one being filled is the thread's and needs none. Where a fill takes less than waking the thread
 * would, the caller does it.
 */
#include "core/data/loader.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/round.h"
#include "core/data/order.h"

#define DEPTH 4
#define MAX_DEPTH 64
#define GROUP 50 /* batches whose rows are sorted by width together, as transformers' LengthGroupedSampler does */
#define CHEAP_NS 20000 /* a batch filled in less is filled by the caller: waking the thread would cost as much */

struct slot {
    yk__loader_batch batch;
    int64_t *row;
    yk__row_length *length; /* room for them while a batch is made */
    size_t row_cap, length_cap, field_cap[YK__FIELDS];
    yk_error err; /* status YK_OK: the batch is good */
};

/* Rows [first, first + count) of an epoch's order, the widest first. */
struct length_group {
    uint64_t epoch;
    int64_t first, count;
    int64_t *row;
    yk__row_length *length;
    size_t row_cap, length_cap;
};

/* This rank's rows of a batch. */
struct part {
    int64_t first, count;
};

/* Batches are numbered from the last rewind: `made` have been filled, `taken` handed out, `freed` given back. */
struct yk__loader {
    const yk__dataset *dataset;
    yk__loader_options options;
    int n_fields;
    pthread_t thread;
    int running;
    pthread_mutex_t lock;
    pthread_cond_t work, ready; /* for the thread; for the caller */
    struct slot *slot;
    struct length_group group; /* whoever fills a batch, one at a time */
    /* under the lock */
    int stop, hold, busy;
    uint64_t epoch;
    int64_t base;           /* batch index of number 0 */
    struct part full, tail; /* of a whole batch, of the last short one */
    int64_t made, taken, freed;
    int64_t fill_ns; /* ns of a fill, about; 0: not known yet */
};

int64_t yk__loader_batches(const yk__loader *l)
{
    const int64_t rows = yk__dataset_rows(l->dataset), batch = l->options.global_batch;
    return l->options.drop_last ? rows / batch : (int64_t)yk__div_up((uint64_t)rows, (uint64_t)batch);
}

/* ---- filling, on the thread and without the lock: the slot is its own ---- */

static yk_status fields_reserve(const yk__loader *l, struct slot *s, yk_error *err)
{
    for (int k = 0; k < l->n_fields; k++) {
        size_t need = yk__dataset_row_bytes(l->dataset, k, s->batch.width) * (size_t)s->batch.rows;
        if (s->batch.field[k] && s->field_cap[k] >= need)
            continue;
        yk__free(s->batch.field[k]);
        s->batch.field[k] = yk__malloc_aligned(need, 64);
        s->field_cap[k] = need;
        if (!s->batch.field[k])
            return yk__fail_mem(err, need, "a batch");
    }
    return YK_OK;
}

/* The group that place `from` of an epoch lies in. */
static yk_status find_group(yk__loader *l, uint64_t epoch, int64_t from, yk_error *err)
{
    struct length_group *g = &l->group;
    const int64_t n = yk__dataset_rows(l->dataset), size = GROUP * l->options.global_batch, first = from / size * size;
    const int64_t count = n - first < size ? n - first : size;
    if (g->count && g->epoch == epoch && g->first == first)
        return YK_OK;
    g->count = 0;
    if (yk__grow(&g->row, &g->row_cap, (size_t)count, sizeof *g->row) ||
        yk__grow(&g->length, &g->length_cap, (size_t)count, sizeof *g->length))
        return yk__fail_mem(err, (size_t)count * sizeof *g->length, "the lengths of rows");
    yk__order_rows(l->options.seed, epoch, first, count, n, g->row);
    for (int64_t i = 0; i < count; i++)
        g->length[i] = (yk__row_length){yk__dataset_width(l->dataset, g->row + i, 1), g->row[i], 0};
    yk__order_by_length(g->length, count);
    g->epoch = epoch;
    g->first = first;
    g->count = count;
    return YK_OK;
}

static yk_status choose_rows(yk__loader *l, struct slot *s, int64_t index, const struct part *p, yk_error *err)
{
    yk__loader_batch *b = &s->batch;
    int64_t n = yk__dataset_rows(l->dataset), from = index * l->options.global_batch;
    b->index = index;
    b->global_rows = n - from < l->options.global_batch ? n - from : l->options.global_batch;
    b->last = index + 1 == yk__loader_batches(l);
    if (yk__grow(&s->row, &s->row_cap, (size_t)b->global_rows, sizeof *s->row))
        return yk__fail_mem(err, (size_t)b->global_rows * sizeof *s->row, "row numbers");
    if (l->options.shuffle && l->options.by_length) {
        yk_status st = find_group(l, b->epoch, from, err);
        for (int64_t i = 0; !st && i < b->global_rows; i++)
            s->row[i] = l->group.length[from - l->group.first + i].row;
        if (st)
            return st;
    } else if (l->options.shuffle)
        yk__order_rows(l->options.seed, b->epoch, from, b->global_rows, n, s->row);
    for (int64_t i = 0; i < b->global_rows && !l->options.shuffle; i++)
        s->row[i] = from + i;
    b->row = s->row;
    b->first = p->first;
    b->rows = p->count;
    return YK_OK;
}

/* Texts differ in length; ranks take runs of a batch's rows. */
static yk_status even_out(const yk__loader *l, struct slot *s, yk_error *err)
{
    const int64_t n = s->batch.global_rows;
    if (!l->options.shuffle || !yk__dataset_ragged(l->dataset))
        return YK_OK;
    if (yk__grow(&s->length, &s->length_cap, (size_t)n, sizeof *s->length))
        return yk__fail_mem(err, (size_t)n * sizeof *s->length, "the lengths of rows");
    for (int64_t i = 0; i < n; i++)
        s->length[i] = (yk__row_length){yk__dataset_width(l->dataset, s->row + i, 1), s->row[i], 0};
    yk__order_even_out(s->length, n, s->row);
    return YK_OK;
}

static void slot_fill(yk__loader *l, struct slot *s, uint64_t epoch, int64_t index, const struct part *p)
{
    yk_error err = YK_ERROR_INIT;
    s->batch.epoch = epoch;
    if (!choose_rows(l, s, index, p, &err) && !even_out(l, s, &err)) {
        s->batch.width = yk__dataset_width(l->dataset, s->row, s->batch.global_rows);
        if (!fields_reserve(l, s, &err) && s->batch.rows)
            yk__dataset_fill(l->dataset, s->row + s->batch.first, s->batch.rows, s->batch.width, s->batch.field);
    }
    s->err = err;
}

static int ring_has_space(const yk__loader *l)
{
    return !l->hold && l->made - l->freed < l->options.depth && l->base + l->made < yk__loader_batches(l);
}

static int is_cheap(const yk__loader *l)
{
    return l->fill_ns && l->fill_ns < CHEAP_NS;
}

/* Fills batch number `made`; under the lock, which is let go meanwhile. One fill that was interrupted says little: the
 * estimate moves by an eighth, and at most doubles. */
static void fill_next(yk__loader *l)
{
    struct slot *s = &l->slot[l->made % l->options.depth];
    uint64_t epoch = l->epoch;
    int64_t index = l->base + l->made, rows = yk__dataset_rows(l->dataset), took;
    struct part p = rows - index * l->options.global_batch < l->options.global_batch ? l->tail : l->full;
    l->busy = 1;
    pthread_mutex_unlock(&l->lock);
    took = yk__clock_ns();
    slot_fill(l, s, epoch, index, &p);
    took = yk__clock_ns() - took + 1;
    pthread_mutex_lock(&l->lock);
    l->fill_ns = !l->fill_ns ? took : l->fill_ns + ((took < 8 * l->fill_ns ? took : 8 * l->fill_ns) - l->fill_ns) / 8;
    l->busy = 0;
    l->made++;
}

static void *thread_run(void *arg)
{
    yk__loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (!ring_has_space(l) || l->busy || is_cheap(l)) {
            pthread_cond_wait(&l->work, &l->lock);
            continue;
        }
        fill_next(l);
        pthread_cond_signal(&l->ready);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- the caller's side ---- */

static yk_status ask_share(const yk__loader *l, int64_t n, struct part *p, yk_error *err)
{
    p->first = 0;
    p->count = n;
    if (l->options.share && n)
        l->options.share(l->options.user, n, &p->first, &p->count);
    if (p->first < 0 || p->count < 0 || p->first > n || p->count > n - p->first)
        return yk__fail(err, YK_E_INTERNAL, "a share of %lld rows from %lld in a batch of %lld", (long long)p->count,
                        (long long)p->first, (long long)n);
    return YK_OK;
}

static yk_status ask_shares(const yk__loader *l, struct part *full, struct part *tail, yk_error *err)
{
    yk_status s = ask_share(l, l->options.global_batch, full, err);
    if (!s)
        s = ask_share(l, yk__dataset_rows(l->dataset) % l->options.global_batch, tail, err);
    return s;
}

/* Signals are the business of the program's own threads. */
static int thread_start(yk__loader *l)
{
    sigset_t all, old;
    int bad;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bad = pthread_create(&l->thread, NULL, thread_run, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    l->running = !bad;
    return bad;
}

yk_status yk__loader_open(const yk__dataset *d, const yk__loader_options *o, yk__loader **out, yk_error *err)
{
    const yk__field *fields;
    yk__loader *l;
    yk_status s;
    if (o->global_batch < 1 || o->start < 0 || o->depth < 0 || o->depth > MAX_DEPTH)
        return yk__fail(err, YK_E_ARG,
                        "a loader of %lld rows, %d deep, from batch %lld: expected 1 or more, 0 to %d, 0 "
                        "or more",
                        (long long)o->global_batch, o->depth, (long long)o->start, MAX_DEPTH);
    l = yk__calloc(1, sizeof *l);
    if (!l)
        return yk__fail_mem(err, sizeof *l, "a loader");
    l->dataset = d;
    l->options = *o;
    l->options.depth = o->depth ? o->depth : DEPTH;
    l->options.depth += l->options.depth == 1; /* one is with the caller */
    l->epoch = o->epoch;
    l->base = o->start;
    l->n_fields = yk__dataset_fields(d, &fields);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->slot = yk__calloc((size_t)l->options.depth, sizeof *l->slot);
    s = ask_shares(l, &l->full, &l->tail, err);
    if (!s && !l->slot)
        s = yk__fail_mem(err, sizeof *l->slot, "a loader's batches");
    const int bad = s ? 0 : thread_start(l);
    if (bad)
        s = yk__fail(err, YK_E_IO, "a loader's thread cannot be started: %s", strerror(bad));
    if (s) {
        yk__loader_close(l);
        return s;
    }
    *out = l;
    return YK_OK;
}

void yk__loader_close(yk__loader *l)
{
    if (!l)
        return;
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->stop = 1;
        pthread_cond_signal(&l->work);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; l->slot && i < l->options.depth; i++) {
        for (int k = 0; k < YK__FIELDS; k++)
            yk__free(l->slot[i].batch.field[k]);
        yk__free(l->slot[i].row);
        yk__free(l->slot[i].length);
    }
    yk__free(l->slot);
    yk__free(l->group.row);
    yk__free(l->group.length);
    pthread_cond_destroy(&l->ready);
    pthread_cond_destroy(&l->work);
    pthread_mutex_destroy(&l->lock);
    yk__free(l);
}

yk_status yk__loader_next(yk__loader *l, const yk__loader_batch **out, yk_error *err)
{
    struct slot *s;
    pthread_mutex_lock(&l->lock);
    l->freed = l->taken;
    if (!is_cheap(l))
        pthread_cond_signal(&l->work);
    if (l->base + l->taken >= yk__loader_batches(l)) {
        pthread_mutex_unlock(&l->lock);
        *out = NULL;
        return YK_OK;
    }
    while (l->made == l->taken)
        if (is_cheap(l) && !l->busy)
            fill_next(l);
        else
            pthread_cond_wait(&l->ready, &l->lock);
    s = &l->slot[l->taken++ % l->options.depth];
    pthread_mutex_unlock(&l->lock);
    if (s->err.status) {
        *err = s->err;
        return err->status;
    }
    *out = &s->batch;
    return YK_OK;
}

/* Throws away what is made and goes on at this place. */
static yk_status loader_restart(yk__loader *l, uint64_t epoch, int64_t batch, yk_error *err)
{
    struct part full, tail;
    yk_status s = ask_shares(l, &full, &tail, err);
    if (s)
        return s;
    pthread_mutex_lock(&l->lock);
    l->hold = 1;
    while (l->busy)
        pthread_cond_wait(&l->ready, &l->lock);
    l->hold = 0;
    l->epoch = epoch;
    l->base = batch;
    l->full = full;
    l->tail = tail;
    l->made = l->taken = l->freed = 0;
    pthread_cond_signal(&l->work);
    pthread_mutex_unlock(&l->lock);
    return YK_OK;
}

yk_status yk__loader_rewind(yk__loader *l, uint64_t epoch, int64_t batch, yk_error *err)
{
    if (batch < 0 || batch > yk__loader_batches(l))
        return yk__fail(err, YK_E_ARG, "there is no batch %lld: an epoch has %lld, from 0 (is the batch size another than before?)",
                        (long long)batch, (long long)yk__loader_batches(l));
    return loader_restart(l, epoch, batch, err);
}

yk_status yk__loader_flush(yk__loader *l, yk_error *err)
{
    return loader_restart(l, l->epoch, l->base + l->taken, err);
}
