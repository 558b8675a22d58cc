/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row numbers for programs with data of their own (yk_sampler_next), so that each rank takes its rows of every batch. The user's program
 * calls it in the step thread, on all ranks.
 *
 * A sampler's place is a row of the epoch's order, not a batch, and belongs to every checkpoint. If a place is no multiple of the present
 * batch, the rest of that epoch is cut into batches from that place on.
 */
#include <stdio.h>
#include <string.h>

#include "core/data/order.h"
#include "core/data/shard.h"
#include "core/job/config_size.h"
#include "core/job/loop/window.h"
#include "core/job/team/share.h"
#include "core/job/trace/step_feed.h"

#define ENDLESS ((int64_t)1 << 60) /* rows of a stream whose end is not known */

/* The place of all ranks; saved and restored by its bytes. */
typedef struct sampler_place {
    uint64_t epoch;
    int64_t origin, next; /* rows of the order: the origin of its batches; the next row */
} sampler_place;

struct yk_sampler {
    yk_job *job;
    yk_sampler_config config;
    int64_t global_batch;
    int64_t stream_rows; /* as yk_sampler_end said; ENDLESS before */
    uint64_t ended;      /* the epoch of that end: another epoch of the stream may have another length */
    sampler_place place;
    int64_t *row;
    size_t cap_row;
};

/* Rows of the place's epoch; ENDLESS in a stream whose end is not known. */
static int64_t sampler_rows(const yk_sampler *s)
{
    return s->config.rows ? (int64_t)s->config.rows : s->ended == s->place.epoch ? s->stream_rows : ENDLESS;
}

static yk__shard sampler_shard(const yk_sampler *s)
{
    const yk_sampler_config *c = &s->config;
    const uint32_t ranks = s->job->team.world;
    return (yk__shard){.rows = sampler_rows(s),
                       .global_batch = s->global_batch,
                       .origin = s->place.origin,
                       .ranks = ranks,
                       .tail = c->drop_last        ? YK__TAIL_DROP
                               : c->uneven_batches ? YK__TAIL_SHORT
                               : c->dispatch       ? YK__TAIL_SPREAD
                                                   : yk__shard_even(ranks)};
}

/* Number of the batch that begins at the place; behind an epoch's last batch, the number of batches. */
static int64_t sampler_index(const yk_sampler *s)
{
    const int64_t done = s->place.next - s->place.origin;
    return done / s->global_batch + (done % s->global_batch != 0);
}

static yk_status check_config(const yk_sampler_config *c, int64_t global_batch, uint32_t ranks, yk_error *err)
{
    if (!c->by_speed && global_batch % ranks)
        return yk__fail(err, YK_E_ARG, "yk_sampler_new: split_batches cuts batches of %lld rows among %u ranks: give a batch that they "
                                       "divide, or by_speed", (long long)global_batch, ranks);
    if (!c->rows && c->shuffle)
        return yk__fail(err, YK_E_ARG, "yk_sampler_new: a stream (rows 0) cannot be shuffled: its rows come in the order they have");
    if (c->by_speed && c->dispatch)
        return yk__fail(err, YK_E_ARG, "yk_sampler_new: dispatch shares the last batch out evenly, by_speed does not: choose one");
    if (c->rows > (uint64_t)ENDLESS || global_batch > INT32_MAX)
        return yk__fail(err, YK_E_ARG, "yk_sampler_new: %llu rows in batches of %lld: expected at most 2^60 and 2^31 - 1",
                        (unsigned long long)c->rows, (long long)global_batch);
    return YK_OK;
}

static void sampler_free(void *object)
{
    yk_sampler *s = object;
    yk__free(s->row);
    yk__free(s);
}

yk_sampler *(yk_sampler_new)(yk_job *job, const yk_sampler_config *c, size_t size)
{
    yk_sampler_config whole;
    yk_error err = YK_ERROR_INIT;
    char name[40];
    if (!yk_ok(job))
        return NULL;
    c = yk__config_take(job, "yk_sampler_new", c, size, &whole, sizeof whole);
    if (!c)
        return NULL;
    yk_sampler *s = yk__calloc(1, sizeof *s);
    if (!s) {
        yk__job_failf(job, YK_E_MEM, "out of memory for a sampler");
        return NULL;
    }
    s->job = job;
    s->config = *c;
    s->stream_rows = ENDLESS;
    s->global_batch = (int64_t)(c->batch ? c->batch : 1) * (c->split_batches ? 1 : job->team.world);
    s->config.seed = c->seed == (uint64_t)YK_ZERO ? 0 : c->seed ? c->seed : job->config.seed;
    if (check_config(c, s->global_batch, job->team.world, &err) ||
        (!c->by_speed && yk__share_check_equal(job, "yk_sampler_config without by_speed", &err))) {
        yk__job_fail(job, &err);
        sampler_free(s);
        return NULL;
    }
    snprintf(name, sizeof name, "yk_sampler %u", job->samplers++);
    yk_on_close(job, s, sampler_free);
    yk_register_for_checkpointing(job, name, &s->place, sizeof s->place);
    return yk_ok(job) ? s : NULL;
}

uint64_t yk_sampler_batches(const yk_sampler *s)
{
    if (!s || sampler_rows(s) == ENDLESS)
        return 0;
    const yk__shard shard = sampler_shard(s);
    return (uint64_t)yk__shard_rounds(&shard);
}

/* Rows [first, first + count) of the round into s->row. */
static bool choose_rows(yk_sampler *s, const yk__shard_round *round, int64_t first, int64_t count)
{
    const yk__shard shard = sampler_shard(s);
    if (yk__grow(&s->row, &s->cap_row, (size_t)count + 1, sizeof *s->row)) {
        yk__job_failf(s->job, YK_E_MEM, "out of memory for the rows of a batch");
        return false;
    }
    for (int64_t i = 0, at, n; i < count; i += n) { /* runs of the order */
        at = yk__shard_row(&shard, round->place + first + i);
        n = shard.rows - at < count - i ? shard.rows - at : count - i;
        if (s->config.shuffle)
            yk__order_rows(s->config.seed, s->place.epoch, at, n, shard.rows, s->row + i);
        for (int64_t k = 0; k < n && !s->config.shuffle; k++)
            s->row[i + k] = at + k;
    }
    return true;
}

/* True if a restored place exists in this sampler's order. */
static bool place_ok(yk_sampler *s)
{
    const sampler_place *p = &s->place;
    const int64_t rows = sampler_rows(s);
    if (p->origin < 0 || p->next < p->origin || p->next > rows) {
        yk__job_failf(s->job, YK_E_FORMAT, "a sampler of %lld rows cannot go on at row %lld: was the checkpoint made with other data?",
                      (long long)rows, (long long)p->next);
        return false;
    }
    if ((p->next - p->origin) % s->global_batch && p->next < rows)
        s->place.origin = p->next;
    return true;
}

static bool begin_step(yk_sampler *s, const yk__shard_round *round, yk_sample *sample)
{
    yk_job *job = s->job;
    const yk__shard shard = sampler_shard(s);
    const int64_t index = sampler_index(s);
    int64_t count = s->global_batch / job->team.world, first = job->team.rank * count;
    if (s->config.by_speed)
        yk__share_part(job, s->global_batch, round->rows, &first, &count);
    else
        yk__shard_part(&shard, round, job->team.rank, &first, &count);
    if (!choose_rows(s, round, first, count))
        return false;
    *sample = (yk_sample){.row = s->row,
                          .rows = count,
                          .first = first,
                          .global_rows = round->rows,
                          .unique_rows = round->unique,
                          .epoch = s->place.epoch,
                          .index = (uint64_t)index,
                          .last = index + 1 == yk__shard_rounds(&shard)};
    yk__rows_from(job, count, 0, first, round->rows);
    job->last_batch.unique = round->unique;
    job->step.sampled = (yk__sampled){.used = true,
                                      .epoch = s->place.epoch,
                                      .seed = s->config.seed,
                                      .row = s->place.next,
                                      .rows = shard.rows,
                                      .global_batch = s->global_batch};
    job->step.from_loader = true;
    job->step.window_end = sample->last && !job->config.accumulate_over_epochs;
    if (s->config.by_speed)
        yk__share_count(job, s->global_batch, round->rows);
    s->place.next += round->unique;
    return yk_ok(job);
}

bool yk_sampler_next(yk_sampler *s, yk_sample *sample)
{
    bool changed;
    if (!s || !yk_ok(s->job))
        return false;
    yk__batch_leave(s->job);
    if (!place_ok(s) || (s->config.by_speed && !yk__window_begin(s->job, s->global_batch, &changed)))
        return false;
    const yk__shard shard = sampler_shard(s);
    const yk__shard_round round = yk__shard_at(&shard, sampler_index(s));
    if (round.rows)
        return begin_step(s, &round, sample);
    s->place = (sampler_place){.epoch = s->place.epoch + 1};
    return false;
}

void yk_sampler_end(yk_sampler *s, uint64_t rows)
{
    if (!s || !yk_ok(s->job))
        return;
    if (s->config.rows)
        yk__job_failf(s->job, YK_E_ARG, "yk_sampler_end: the sampler is of a data set of %llu rows, no stream",
                      (unsigned long long)s->config.rows);
    else if (rows > (uint64_t)ENDLESS || (int64_t)rows < s->place.next)
        yk__job_failf(s->job, YK_E_ARG, "yk_sampler_end: a stream of %llu rows, of which %lld were handed out already",
                      (unsigned long long)rows, (long long)s->place.next);
    else {
        s->stream_rows = (int64_t)rows;
        s->ended = s->place.epoch;
    }
}

void yk_sampler_seek(yk_sampler *s, uint64_t epoch, uint64_t batch)
{
    if (!s || !yk_ok(s->job))
        return;
    s->place = (sampler_place){.epoch = epoch};
    const yk__shard shard = sampler_shard(s);
    if (batch > (uint64_t)yk__shard_rounds(&shard)) {
        yk__job_failf(s->job, YK_E_ARG, "yk_sampler_seek: there is no batch %llu: an epoch has %lld, from 0", (unsigned long long)batch,
                      (long long)yk__shard_rounds(&shard));
        return;
    }
    s->place.next = (int64_t)batch * s->global_batch;
    s->place.next = s->place.next < shard.rows ? s->place.next : shard.rows;
}

void yk_sampler_tell(const yk_sampler *s, uint64_t *epoch, uint64_t *batch)
{
    *epoch = s ? s->place.epoch : 0;
    *batch = s ? (uint64_t)sampler_index(s) : 0;
}
