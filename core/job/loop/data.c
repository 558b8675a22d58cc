/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets (yk_data_open) and their prefetching loaders, as batches of inputs (yk_data_next, yk_data_each). Each rank gets its rows of
 * every batch by the shares.
 *
 * The user's program calls it in the step thread, on all ranks alike; a loader's thread fills batches ahead. Between two windows
 * yk_data_next also begins the next one, which may change the shares. The job owns the data sets.
 */
#include <string.h>
#include <sys/stat.h>

#include "core/data/loader.h"
#include "core/data/shard.h"
#include "core/data/spec.h"
#include "core/job/config_size.h"
#include "core/job/data_info.h"
#include "core/job/loop/row_padding.h"
#include "core/job/loop/window.h"
#include "core/job/team/share.h"
#include "core/job/trace/agree.h"
#include "core/job/trace/step_feed.h"

static void part_of(void *user, int64_t n, int64_t *first, int64_t *count)
{
    const yk_data *d = user;
    yk__share_part(d->job, d->batch, n, first, count);
}

/* This rank's equal part: the same run of rows of each batch, cut off at the end of a short batch. */
static void equal_part_of(void *user, int64_t n, int64_t *first, int64_t *count)
{
    const yk_data *d = user;
    const yk__shard shard = {.rows = n, .global_batch = d->batch, .ranks = d->job->team.world, .tail = YK__TAIL_SHORT};
    const yk__shard_round round = yk__shard_at(&shard, 0);
    *count = d->batch / d->job->team.world;
    *first = d->job->team.rank * *count;
    yk__shard_part(&shard, &round, d->job->team.rank, first, count);
}

/* The training data that numbers an evaluation's labels and characters. */
static const yk__dataset *trained_on(const yk_job *job)
{
    for (size_t i = 0; i < job->n_data; i++)
        if (!job->data[i]->eval)
            return job->data[i]->set;
    return NULL;
}

/* The file of a model's folder that names its classes; *out is NULL if there is no folder. */
static yk_status config_of(const char *dir, char **out, yk_error *err)
{
    *out = dir ? yk__format("%s/config.json", dir) : NULL;
    return !dir || *out ? YK_OK : yk__fail_mem(err, strlen(dir), "a path");
}

static yk_status open_set(yk_data *d, const char *spec, const yk_data_config *c, yk_error *err)
{
    char *config;
    yk_status s = config_of(c->model, &config, err);
    const yk__dataset_options o = {.eval = c->eval,
                                   .tokenizer = c->tokenizer,
                                   .max_length = c->max_length,
                                   .seq_len = c->seq_len,
                                   .eval_rows = c->eval_rows,
                                   .eval_split = c->eval_split,
                                   .eval_seed = c->eval_seed,
                                   .model = config,
                                   .new_head = c->new_head,
                                   .unlabelled = c->unlabelled,
                                   .numbers = c->numbers,
                                   .mask = c->mlm_probability,
                                   .whole = c->whole,
                                   .max_rows = c->max_rows,
                                   .silent = !yk_is_main(d->job),
                                   .like = c->eval ? trained_on(d->job) : NULL};
    if (!s)
        s = yk__dataset_open(spec, &o, &d->set, err);
    yk__free(config);
    return s;
}

static yk_status choose_batch(yk_data *d, const yk_data_config *c, yk_error *err)
{
    const uint32_t ranks = d->job->team.world;
    if (c->global_batch && c->rank_batch)
        return yk__fail(err, YK_E_ARG, "yk_data_config: global_batch %u and rank_batch %u: give one of them", c->global_batch,
                        c->rank_batch);
    d->batch = c->rank_batch ? (int64_t)c->rank_batch * ranks : c->global_batch ? c->global_batch : 32;
    if (c->equal_shares && yk__share_check_equal(d->job, "yk_data_config.equal_shares", err))
        return err->status;
    if (c->equal_shares && d->batch % ranks)
        return yk__fail(err, YK_E_ARG, "yk_data_config: equal_shares of %lld rows among %u ranks: give a batch that they divide, or "
                                       "rank_batch", (long long)d->batch, ranks);
    return YK_OK;
}

static yk_status open_parts(yk_data *d, const char *spec, const yk_data_config *c, yk_error *err)
{
    if (choose_batch(d, c, err) || open_set(d, spec, c, err))
        return err->status;
    d->n_field = yk__dataset_fields(d->set, &d->field);
    d->equal = c->equal_shares;
    d->order_seed = c->seed == (uint64_t)YK_ZERO ? 0 : c->seed ? c->seed : d->job->config.seed;
    const yk__loader_options l = {.global_batch = d->batch,
                                  .seed = d->order_seed,
                                  .by_length = c->by_length,
                                  .shuffle = !c->eval && !c->in_order,
                                  .drop_last = !c->eval && !c->keep_last && !c->even_batches,
                                  .fill_last = c->even_batches && yk__shard_even(d->job->team.world) == YK__TAIL_FILL,
                                  .share = d->equal ? equal_part_of : part_of,
                                  .user = d};
    return yk__loader_open(d->set, &l, &d->loader, err);
}

/* Checks that contents, order and batches of the data are the same on all ranks. */
static bool agree_on(const yk_data *d, const char *spec, const yk_data_config *c)
{
    const yk__agree_number setting[] = {yk__agree_whole("rows", yk_data_rows(d)),
                                        yk__agree_whole("rows of a batch", d->batch),
                                        yk__agree_whole("seed of the order", d->order_seed),
                                        {"eval", c->eval, 0},
                                        {"in_order", c->in_order, 0},
                                        {"by_length", c->by_length, 0},
                                        {"keep_last", c->keep_last, 0},
                                        {"even_batches", c->even_batches, 0},
                                        {"equal_shares", c->equal_shares, 0},
                                        {"seq_len", c->seq_len, 0},
                                        {"max_length", c->max_length, 0},
                                        {"eval_split", c->eval_split, 0},
                                        yk__agree_whole("eval_seed", c->eval_seed),
                                        {"mlm_probability", (double)c->mlm_probability, 0}};
    return yk__agree_data(d->job, spec, d->content, sizeof setting / sizeof *setting, setting);
}

/* Refuses a pipe: bytes that one rank reads from it are gone for the other ranks. */
static yk_status refuse_pipe(const yk_job *job, const char *spec, yk_error *err)
{
    struct stat st;
    yk__spec s;
    if (job->team.world == 1)
        return YK_OK;
    if (yk__spec_parse(spec, &s, err))
        return err->status;
    if (!stat(s.path, &st) && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode)))
        yk__fail(err, YK_E_ARG, "%s:%s is a pipe: each of the %u ranks would read another part of it; write it to a file", s.kind,
                 s.path, job->team.world);
    yk__spec_free(&s);
    return err->status;
}

/* Logs the notes on points that a tokenizer's files leave open, once, on one rank. */
static void notes_show(const yk_data *d)
{
    const yk__tokenizer *t = yk__dataset_tokenizer(d->set);
    const char *line = t && yk_is_main(d->job) ? yk__tokenizer_notes(t) : NULL;
    for (size_t i = 0; i < d->job->n_data && line; i++) {
        const yk__tokenizer *other = yk__dataset_tokenizer(d->job->data[i]->set);
        if (other && yk__tokenizer_notes(other) && !strcmp(yk__tokenizer_notes(other), line))
            return;
    }
    if (line)
        yk__tokenizer_notes_log(t);
}

yk_data *(yk_data_open)(yk_job *job, const char *spec, const yk_data_config *c, size_t size)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_data_config whole;
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job) || !yk__job_given(job, "yk_data_open", "spec", spec))
        return NULL;
    c = yk__config_take(job, "yk_data_open", c, size, &whole, sizeof whole);
    if (!c)
        return NULL;
    yk_data *d = yk__calloc(1, sizeof *d);
    if (!d || yk__grow(&job->data, &job->cap_data, job->n_data + 1, sizeof d)) {
        yk__free(d);
        yk__job_failf(job, YK_E_MEM, "out of memory for a data set");
        return NULL;
    }
    d->job = job;
    d->eval = c->eval;
    if (refuse_pipe(job, spec, &err) || open_parts(d, spec, c, &err))
        yk__job_fail(job, &err);
    else if (job->team.world > 1 && yk__dataset_hash(d->set, &d->content, &err))
        yk__job_fail(job, &err);
    else if (job->team.world > 1)
        agree_on(d, spec, c);
    if (!yk_ok(job)) {
        yk__data_free(d);
        return NULL;
    }
    notes_show(d);
    job->data[job->n_data++] = d;
    return d;
}

void yk__data_free(yk_data *d)
{
    if (!d)
        return;
    yk__loader_close(d->loader);
    yk__dataset_close(d->set);
    yk__free(d);
}

void yk_data_save_tokenizer(const yk_data *d, const char *dir)
{
    YK__ACT_HERE(YK__ACT_CALL);
    const yk__tokenizer *t = d ? yk__dataset_tokenizer(d->set) : NULL;
    yk_error err = YK_ERROR_INIT;
    if (t && yk_ok(d->job) && yk__tokenizer_save(t, dir, &err))
        yk__job_fail(d->job, &err);
}

/* Field k of the loader's batch as an input of the step. */
static yk_t input_of(const yk_data *d, const yk__loader_batch *b, int k)
{
    const yk__field *f = &d->field[k];
    const int32_t ignored = YK__IGNORED;
    const bool classes = f->dtype == YK_I32 && !strcmp(f->name, "labels");
    int64_t dim[YK_MAX_DIMS] = {b->rows + d->job->step.padding};
    for (int i = 0; i < f->rank; i++)
        dim[i + 1] = f->shape[i] < 0 ? b->width : f->shape[i];
    return yk__input_padded(d->job, (yk_dtype)f->dtype, (uint32_t)f->rank + 1, dim, b->field[k], classes ? &ignored : NULL);
}

static void fill_batch(const yk_data *d, const yk__loader_batch *b, yk_batch *out)
{
    for (int k = 0; k < d->n_field; k++) {
        yk_t v = input_of(d, b, k);
        const char *name = d->field[k].name;
        if (!strcmp(name, "x"))
            out->x = v;
        else if (!strcmp(name, "input_ids"))
            out->x = out->input_ids = v;
        else if (!strcmp(name, "attention_mask"))
            out->attention_mask = v;
        else if (!strcmp(name, "token_type_ids"))
            out->token_type_ids = v;
        else if (!strcmp(name, "labels"))
            out->labels = v;
    }
}

/* Opens the step of a batch: its rows, its inputs. */
static bool begin_step(yk_data *d, const yk__loader_batch *b, yk_batch *out)
{
    yk_job *job = d->job;
    if (b->global_rows > INT32_MAX || b->first > INT32_MAX) {
        yk__job_failf(job, YK_E_ARG, "a micro batch of %lld rows", (long long)b->global_rows);
        return false;
    }
    yk__rows_from(job, b->rows, yk__data_padding(d, b->rows), b->first, b->global_rows);
    job->last_batch.unique = b->unique_rows;
    *out = (yk_batch){.rows = b->rows,
                      .global_rows = b->global_rows,
                      .unique_rows = b->unique_rows,
                      .width = b->width,
                      .first = b->first,
                      .epoch = b->epoch,
                      .index = (uint64_t)b->index,
                      .last = b->last};
    fill_batch(d, b, out);
    job->step.from_loader = true;
    job->step.batch_source = d;
    d->current = b;
    job->step.window_end = b->last && !d->eval && !job->config.accumulate_over_epochs;
    if (!d->eval)
        yk__share_count(job, d->batch, b->global_rows);
    return yk_ok(job);
}

/* Every loader reads ahead by the shares. Training's loaders change them, and an evaluation's must follow on each rank; else two ranks
 * count a row, or no rank does. */
static yk_status shares_follow(yk_data *d, yk_error *err)
{
    const yk__share *share = d->job->team.share;
    if (d->equal || !share || d->shares == share->changes)
        return YK_OK;
    d->shares = share->changes;
    return yk__loader_flush(d->loader, err);
}

bool yk_data_next(yk_data *d, yk_batch *batch)
{
    YK__ACT_HERE(YK__ACT_CALL);
    yk_error err = YK_ERROR_INIT;
    const yk__loader_batch *b = NULL;
    bool changed; /* for samplers; shares_follow sees it */
    if (!d || !yk_ok(d->job))
        return false;
    yk__batch_leave(d->job);
    if (!d->eval && !yk__window_begin(d->job, d->equal ? 0 : d->batch, &changed))
        return false;
    if (!shares_follow(d, &err) && !yk__loader_next(d->loader, &b, &err) && !b) {
        d->epoch++;
        d->next = 0;
        yk__loader_rewind(d->loader, d->epoch, 0, &err);
    }
    if (err.status) {
        yk__job_fail(d->job, &err);
        return false;
    }
    if (!b && !d->eval && !yk_data_batches(d)) /* a program that asks until it has its steps would ask for ever */
        yk__job_failf(d->job, YK_E_ARG, "the data has fewer rows than one batch: lower --global-batch, or keep the last batch of an epoch "
                                        "by --no-dataloader-drop-last (yk_data_config.keep_last)");
    if (!b)
        return false;
    d->next = (uint64_t)b->index + 1;
    return begin_step(d, b, batch);
}

bool yk_data_each(yk_data *d, yk_batch *batch)
{
    if (d && d->in_loop && !batch->global_rows) /* the first call of a loop, after a loop that was left */
        yk_data_seek(d, d->epoch + 1, 0);
    const bool found = yk_data_next(d, batch);
    if (d)
        d->in_loop = found;
    return found;
}
