/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prefetching loader of a data set: a ring of slots, each a batch of this rank's rows. A thread fills slots while the caller uses one.
 * core/job/loop/data.c opens it and takes batches, in the step thread.
 *
 * One lock guards the ring. Slots between `handed_out` and `filled` are the caller's to take; the slot being filled is the thread's and
 * needs no lock. If a fill takes less time than waking the thread, the caller does it.
 */
#include "core/base/limit.h"
#include "core/data/loader.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/round.h"
#include "core/data/order.h"
#include "core/data/shard.h"

#define DEPTH 4
#define MAX_DEPTH 64
#define MAX_BYTES ((size_t)256 << 20)
#define GROUP 50 /* batches whose rows are sorted by width together, as transformers' LengthGroupedSampler does */
#define CHEAP_NS 20000 /* the caller fills a batch that takes less: waking the thread would cost as much */

struct slot {
    yk__loader_batch batch;
    int64_t *row;
    yk__row_length *length; /* buffer for their lengths while a batch is made */
    size_t row_cap, length_cap, field_cap[YK__FIELDS];
    yk_error err; /* status YK_OK for a good batch */
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

/* Batches are numbered from the last rewind: counts of batches made (`filled`), taken (`handed_out`) and given back (`freed`). */
struct yk__loader {
    const yk__dataset *dataset;
    yk__loader_options options;
    int n_fields;
    pthread_t thread;
    int running;
    pthread_mutex_t lock;
    pthread_cond_t work, ready; /* work: for the thread; ready: for the caller */
    struct slot *slot;
    struct length_group group; /* the filling thread's, one at a time */
    /* under the lock */
    int stop, hold, busy;
    uint64_t epoch;
    int64_t base;           /* batch index of number 0 */
    struct part full, tail; /* sizes of a whole batch, and of the last short one */
    int64_t filled, handed_out, freed;
    int64_t fill_ns; /* estimated ns of a fill; 0 if unknown */
    size_t bytes[MAX_DEPTH]; /* size of each slot's fields */
    size_t largest;          /* size of the largest batch so far */
};

static yk__shard epoch_shard(const yk__loader *loader)
{
    const yk__loader_options *o = &loader->options;
    return (yk__shard){.rows = yk__dataset_rows(loader->dataset),
                       .global_batch = o->global_batch,
                       .ranks = 1, /* the caller computes this rank's part */
                       .tail = o->drop_last ? YK__TAIL_DROP : o->fill_last ? YK__TAIL_FILL : YK__TAIL_SHORT};
}

int64_t yk__loader_batches(const yk__loader *loader)
{
    const yk__shard shard = epoch_shard(loader);
    return yk__shard_rounds(&shard);
}

/* ---- filling, on the thread and without the lock: the slot is its own ---- */

static size_t fields_bytes(const struct slot *slot)
{
    size_t bytes = 0;
    for (int k = 0; k < YK__FIELDS; k++)
        bytes += slot->field_cap[k];
    return bytes;
}

static void fields_free(struct slot *slot)
{
    for (int k = 0; k < YK__FIELDS; k++) {
        yk__free(slot->batch.field[k]);
        slot->batch.field[k] = NULL;
        slot->field_cap[k] = 0;
    }
}

static yk_status fields_reserve(const yk__loader *loader, struct slot *slot, yk_error *err)
{
    for (int k = 0; k < loader->n_fields; k++) {
        size_t need = yk__dataset_row_bytes(loader->dataset, k, slot->batch.width) * (size_t)slot->batch.rows;
        if (slot->batch.field[k] && slot->field_cap[k] >= need)
            continue;
        yk__free(slot->batch.field[k]);
        slot->field_cap[k] = 0;
        slot->batch.field[k] = yk__malloc_aligned(need, 64);
        if (!slot->batch.field[k])
            return yk__fail_mem(err, need, "a batch");
        slot->field_cap[k] = need;
    }
    return YK_OK;
}

/* Finds the group that contains place `from` of an epoch. */
static yk_status find_group(yk__loader *loader, uint64_t epoch, int64_t from, yk_error *err)
{
    struct length_group *group = &loader->group;
    const int64_t n = yk__dataset_rows(loader->dataset), size = GROUP * loader->options.global_batch,
                  first = from / size * size;
    const int64_t count = n - first < size ? n - first : size;
    if (group->count && group->epoch == epoch && group->first == first)
        return YK_OK;
    group->count = 0;
    if (yk__grow(&group->row, &group->row_cap, (size_t)count, sizeof *group->row) ||
        yk__grow(&group->length, &group->length_cap, (size_t)count, sizeof *group->length))
        return yk__fail_mem(err, (size_t)count * sizeof *group->length, "the lengths of rows");
    yk__order_rows(loader->options.seed, epoch, first, count, n, group->row);
    for (int64_t i = 0; i < count; i++)
        group->length[i] = (yk__row_length){yk__dataset_width(loader->dataset, group->row + i, 1), group->row[i], 0};
    yk__order_by_length(group->length, count);
    group->epoch = epoch;
    group->first = first;
    group->count = count;
    return YK_OK;
}

/* Rows at places [from, from + count) of the epoch's order, each before its end, and in one group. */
static yk_status place_rows(yk__loader *loader, uint64_t epoch, int64_t from, int64_t count, int64_t *row, yk_error *err)
{
    const yk__loader_options *o = &loader->options;
    if (o->shuffle && o->by_length) {
        if (find_group(loader, epoch, from, err))
            return err->status;
        for (int64_t i = 0; i < count; i++)
            row[i] = loader->group.length[from - loader->group.first + i].row;
    } else if (o->shuffle)
        yk__order_rows(o->seed, epoch, from, count, yk__dataset_rows(loader->dataset), row);
    for (int64_t i = 0; i < count && !o->shuffle; i++)
        row[i] = from + i;
    return YK_OK;
}

static yk_status choose_rows(yk__loader *loader, struct slot *slot, int64_t index, const struct part *part,
                             yk_error *err)
{
    const yk__shard shard = epoch_shard(loader);
    const yk__shard_round round = yk__shard_at(&shard, index);
    yk__loader_batch *b = &slot->batch;
    b->index = index;
    b->global_rows = round.rows;
    b->unique_rows = round.unique;
    b->last = index + 1 == yk__shard_rounds(&shard);
    if (yk__grow(&slot->row, &slot->row_cap, (size_t)b->global_rows, sizeof *slot->row))
        return yk__fail_mem(err, (size_t)b->global_rows * sizeof *slot->row, "row numbers");
    for (int64_t i = 0, n = round.unique; i < round.rows; i += n, n = shard.rows < round.rows - i ? shard.rows : round.rows - i)
        if (place_rows(loader, b->epoch, yk__shard_row(&shard, round.place + i), n, slot->row + i, err))
            return err->status;
    b->row = slot->row;
    b->first = part->first;
    b->rows = part->count;
    return YK_OK;
}

/* Texts differ in length; ranks take runs of a batch's rows. Rows that only fill up a batch stay last. */
static yk_status even_out(const yk__loader *loader, struct slot *slot, yk_error *err)
{
    const int64_t n = slot->batch.unique_rows;
    if (!loader->options.shuffle || !yk__dataset_ragged(loader->dataset))
        return YK_OK;
    if (yk__grow(&slot->length, &slot->length_cap, (size_t)n, sizeof *slot->length))
        return yk__fail_mem(err, (size_t)n * sizeof *slot->length, "the lengths of rows");
    for (int64_t i = 0; i < n; i++)
        slot->length[i] = (yk__row_length){yk__dataset_width(loader->dataset, slot->row + i, 1), slot->row[i], 0};
    yk__order_even_out(slot->length, n, slot->row);
    return YK_OK;
}

static void slot_fill(yk__loader *loader, struct slot *slot, uint64_t epoch, int64_t index, const struct part *part)
{
    yk_error err = YK_ERROR_INIT;
    slot->batch.epoch = epoch;
    if (!choose_rows(loader, slot, index, part, &err) && !even_out(loader, slot, &err)) {
        slot->batch.width = yk__dataset_width(loader->dataset, slot->row, slot->batch.global_rows);
        if (!fields_reserve(loader, slot, &err) && slot->batch.rows) {
            const int64_t *rows = slot->row + slot->batch.first, n = slot->batch.rows, width = slot->batch.width;
            if (!yk__dataset_fill(loader->dataset, rows, n, width, slot->batch.field, &err))
                yk__dataset_mask(loader->dataset, loader->options.seed, epoch, rows, n, width, slot->batch.field);
        }
    }
    slot->err = err;
}

/* True if one more batch, of the largest size so far, fits beside those in use. One batch ahead of the caller's is always allowed. */
static int bytes_allow(const yk__loader *loader)
{
    size_t bytes = loader->largest;
    for (int64_t i = loader->freed; i < loader->filled; i++)
        bytes += loader->bytes[i % loader->options.depth];
    return loader->filled == loader->handed_out || bytes <= loader->options.max_bytes;
}

static int ring_has_space(const yk__loader *loader)
{
    return !loader->hold && loader->filled - loader->freed < loader->options.depth &&
           loader->base + loader->filled < yk__loader_batches(loader) && bytes_allow(loader);
}

/* Frees the buffers of unused slots, except the one to be filled, while the total exceeds the limit. */
static void idle_free(yk__loader *loader, const struct slot *keep)
{
    const int depth = loader->options.depth;
    size_t bytes = loader->largest;
    for (int i = 0; i < depth; i++)
        bytes += &loader->slot[i] == keep ? 0 : loader->bytes[i];
    for (int64_t i = loader->filled; i < loader->freed + depth && bytes > loader->options.max_bytes; i++) {
        struct slot *slot = &loader->slot[i % depth];
        if (slot == keep)
            continue;
        bytes -= loader->bytes[i % depth];
        loader->bytes[i % depth] = 0;
        fields_free(slot);
    }
}

static int is_cheap(const yk__loader *loader)
{
    return loader->fill_ns && loader->fill_ns < CHEAP_NS;
}

/* Fills batch number `filled`; the caller holds the lock, which is released meanwhile. A single interrupted fill misleads: the estimate
 * moves by an eighth, and at most doubles. */
static void fill_next(yk__loader *loader)
{
    struct slot *slot = &loader->slot[loader->filled % loader->options.depth];
    uint64_t epoch = loader->epoch;
    const yk__shard shard = epoch_shard(loader);
    const int64_t index = loader->base + loader->filled;
    const struct part part = yk__shard_at(&shard, index).rows < shard.global_batch ? loader->tail : loader->full;
    int64_t took;
    idle_free(loader, slot);
    loader->busy = 1;
    pthread_mutex_unlock(&loader->lock);
    took = yk__clock_ns();
    slot_fill(loader, slot, epoch, index, &part);
    took = yk__clock_ns() - took + 1;
    pthread_mutex_lock(&loader->lock);
    loader->fill_ns =
        !loader->fill_ns
            ? took
            : loader->fill_ns + ((took < 8 * loader->fill_ns ? took : 8 * loader->fill_ns) - loader->fill_ns) / 8;
    const size_t bytes = fields_bytes(slot);
    loader->bytes[slot - loader->slot] = bytes;
    loader->largest = bytes > loader->largest ? bytes : loader->largest;
    loader->busy = 0;
    loader->filled++;
}

static void *thread_run(void *arg)
{
    yk__loader *loader = arg;
    pthread_mutex_lock(&loader->lock);
    while (!loader->stop) {
        if (!ring_has_space(loader) || loader->busy || is_cheap(loader)) {
            pthread_cond_wait(&loader->work, &loader->lock);
            continue;
        }
        fill_next(loader);
        pthread_cond_signal(&loader->ready);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- the caller's side ---- */

static yk_status ask_share(const yk__loader *loader, int64_t n, struct part *part, yk_error *err)
{
    part->first = 0;
    part->count = n;
    if (loader->options.share && n)
        loader->options.share(loader->options.user, n, &part->first, &part->count);
    if (part->first < 0 || part->count < 0 || part->first > n || part->count > n - part->first)
        return yk__fail(err, YK_E_INTERNAL, "a share of %lld rows from %lld in a batch of %lld", (long long)part->count,
                        (long long)part->first, (long long)n);
    return YK_OK;
}

static yk_status ask_shares(const yk__loader *loader, struct part *full, struct part *tail, yk_error *err)
{
    yk_status s = ask_share(loader, loader->options.global_batch, full, err);
    if (!s)
        s = ask_share(loader, yk__dataset_rows(loader->dataset) % loader->options.global_batch, tail, err);
    return s;
}

/* The program's own threads handle signals, so this thread blocks them. */
static int thread_start(yk__loader *loader)
{
    sigset_t all, old;
    int bad;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bad = pthread_create(&loader->thread, NULL, thread_run, loader);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    loader->running = !bad;
    return bad;
}

yk_status yk__loader_open(const yk__dataset *set, const yk__loader_options *options, yk__loader **out, yk_error *err)
{
    const yk__field *fields;
    yk__loader *loader;
    yk_status s;
    if (options->global_batch < 1 || options->start < 0 || options->depth < 0 || options->depth > MAX_DEPTH)
        return yk__fail(err, YK_E_ARG,
                        "a loader of %lld rows, %d deep, from batch %lld: expected 1 or more, 0 to %d, 0 "
                        "or more",
                        (long long)options->global_batch, options->depth, (long long)options->start, MAX_DEPTH);
    loader = yk__calloc(1, sizeof *loader);
    if (!loader)
        return yk__fail_mem(err, sizeof *loader, "a loader");
    loader->dataset = set;
    loader->options = *options;
    loader->options.depth = options->depth ? options->depth : DEPTH;
    loader->options.depth += loader->options.depth == 1; /* the caller holds one */
    loader->options.max_bytes = options->max_bytes ? options->max_bytes : MAX_BYTES;
    loader->epoch = options->epoch;
    loader->base = options->start;
    loader->n_fields = yk__dataset_fields(set, &fields);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->ready, NULL);
    loader->slot = yk__calloc((size_t)loader->options.depth, sizeof *loader->slot);
    s = ask_shares(loader, &loader->full, &loader->tail, err);
    if (!s && !loader->slot)
        s = yk__fail_mem(err, sizeof *loader->slot, "a loader's batches");
    const int bad = s ? 0 : thread_start(loader);
    if (bad)
        s = yk__fail(err, YK_E_IO, "a loader's thread cannot be started: %s", yk__limit_thread_reason(bad).text);
    if (s) {
        yk__loader_close(loader);
        return s;
    }
    *out = loader;
    return YK_OK;
}

void yk__loader_close(yk__loader *loader)
{
    if (!loader)
        return;
    if (loader->running) {
        pthread_mutex_lock(&loader->lock);
        loader->stop = 1;
        pthread_cond_signal(&loader->work);
        pthread_mutex_unlock(&loader->lock);
        pthread_join(loader->thread, NULL);
    }
    for (int i = 0; loader->slot && i < loader->options.depth; i++) {
        fields_free(&loader->slot[i]);
        yk__free(loader->slot[i].row);
        yk__free(loader->slot[i].length);
    }
    yk__free(loader->slot);
    yk__free(loader->group.row);
    yk__free(loader->group.length);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->lock);
    yk__free(loader);
}

size_t yk__loader_bytes(yk__loader *loader)
{
    size_t bytes = 0;
    pthread_mutex_lock(&loader->lock);
    for (int i = 0; i < loader->options.depth; i++)
        bytes += loader->bytes[i];
    pthread_mutex_unlock(&loader->lock);
    return bytes;
}

yk_status yk__loader_next(yk__loader *loader, const yk__loader_batch **out, yk_error *err)
{
    struct slot *slot;
    pthread_mutex_lock(&loader->lock);
    loader->freed = loader->handed_out;
    if (!is_cheap(loader))
        pthread_cond_signal(&loader->work);
    if (loader->base + loader->handed_out >= yk__loader_batches(loader)) {
        pthread_mutex_unlock(&loader->lock);
        *out = NULL;
        return YK_OK;
    }
    while (loader->filled == loader->handed_out)
        if (is_cheap(loader) && !loader->busy)
            fill_next(loader);
        else
            pthread_cond_wait(&loader->ready, &loader->lock);
    slot = &loader->slot[loader->handed_out++ % loader->options.depth];
    pthread_mutex_unlock(&loader->lock);
    if (slot->err.status) {
        *err = slot->err;
        return err->status;
    }
    *out = &slot->batch;
    return YK_OK;
}

/* Discards the made batches and continues at this place. */
static yk_status loader_restart(yk__loader *loader, uint64_t epoch, int64_t batch, yk_error *err)
{
    struct part full, tail;
    yk_status s = ask_shares(loader, &full, &tail, err);
    if (s)
        return s;
    pthread_mutex_lock(&loader->lock);
    loader->hold = 1;
    while (loader->busy)
        pthread_cond_wait(&loader->ready, &loader->lock);
    loader->hold = 0;
    loader->epoch = epoch;
    loader->base = batch;
    loader->full = full;
    loader->tail = tail;
    loader->filled = loader->handed_out = loader->freed = 0;
    pthread_cond_signal(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    return YK_OK;
}

yk_status yk__loader_rewind(yk__loader *loader, uint64_t epoch, int64_t batch, yk_error *err)
{
    if (batch < 0 || batch > yk__loader_batches(loader))
        return yk__fail(err, YK_E_ARG,
                        "there is no batch %lld: an epoch has %lld, from 0 (is the batch size another than before?)",
                        (long long)batch, (long long)yk__loader_batches(loader));
    return loader_restart(loader, epoch, batch, err);
}

yk_status yk__loader_flush(yk__loader *loader, yk_error *err)
{
    return loader_restart(loader, loader->epoch, loader->base + loader->handed_out, err);
}
