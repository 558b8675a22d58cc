/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets and their prefetching loaders as batches of inputs. */
#include <string.h>
#include <sys/stat.h>

#include "core/data/loader.h"
#include "core/data/spec.h"
#include "core/job/agree.h"
#include "core/job/data.h"
#include "core/job/share.h"

struct yk_data {
    yk_job *job;
    yk__dataset *set;
    yk__loader *loader;
    bool eval;
    int64_t batch; /* rows over all ranks */
    uint64_t epoch, next;
    const yk__field *field;
    int n_field;
    const yk__loader_batch *now; /* of the step under way */
};

static void part_of(void *user, int64_t n, int64_t *first, int64_t *count)
{
    yk__share_part(user, n, first, count);
}

/* The training data that an evaluation's labels and characters are numbered by. */
static const yk__dataset *trained_on(const yk_job *job)
{
    for (size_t i = 0; i < job->n_data; i++)
        if (!job->data[i]->eval)
            return job->data[i]->set;
    return NULL;
}

/* The file of a model's folder that names its classes; *out NULL: no folder. */
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
                                   .model = config,
                                   .unlabelled = c->unlabelled,
                                   .numbers = c->numbers,
                                   .mask = c->mlm_probability,
                                   .whole = c->whole,
                                   .max_rows = c->max_rows,
                                   .like = c->eval ? trained_on(d->job) : NULL};
    if (!s)
        s = yk__dataset_open(spec, &o, &d->set, err);
    yk__free(config);
    return s;
}

static yk_status open_parts(yk_data *d, const char *spec, const yk_data_config *c, yk_error *err)
{
    yk_status s = open_set(d, spec, c, err);
    if (s)
        return s;
    d->n_field = yk__dataset_fields(d->set, &d->field);
    d->batch = c->global_batch ? c->global_batch : 32;
    const yk__loader_options l = {.global_batch = d->batch,
                                  .seed = c->seed == (uint64_t)YK_ZERO ? 0 : c->seed ? c->seed : d->job->config.seed,
                                  .by_length = c->by_length,
                                  .shuffle = !c->eval && !c->in_order,
                                  .drop_last = !c->eval && !c->keep_last,
                                  .share = part_of,
                                  .user = d->job};
    return yk__loader_open(d->set, &l, &d->loader, err);
}

/* What one rank reads from a pipe is gone for the others. */
static yk_status refuse_pipe(const yk_job *job, const char *spec, yk_error *err)
{
    struct stat st;
    yk__spec s;
    if (job->world == 1)
        return YK_OK;
    if (yk__spec_parse(spec, &s, err))
        return err->status;
    if (!stat(s.path, &st) && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode)))
        yk__fail(err, YK_E_ARG, "%s:%s is a pipe: each of the %u ranks would read another part of it; write it to a file", s.kind,
                 s.path, job->world);
    yk__spec_free(&s);
    return err->status;
}

yk_data *yk_data_open(yk_job *job, const char *spec, const yk_data_config *c)
{
    static const yk_data_config none = {0};
    yk_error err = YK_ERROR_INIT;
    if (!yk_ok(job))
        return NULL;
    yk_data *d = yk__calloc(1, sizeof *d);
    if (!d || yk__grow(&job->data, &job->cap_data, job->n_data + 1, sizeof d)) {
        yk__free(d);
        yk__job_failf(job, YK_E_MEM, "out of memory for a data set");
        return NULL;
    }
    d->job = job;
    d->eval = c && c->eval;
    if (refuse_pipe(job, spec, &err) || open_parts(d, spec, c ? c : &none, &err))
        yk__job_fail(job, &err);
    else if (job->world > 1)
        yk__agree_data(job, spec, yk_data_rows(d), yk__dataset_hash(d->set));
    if (!yk_ok(job)) {
        yk__data_free(d);
        return NULL;
    }
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

const char *yk_data_kind(const yk_data *d)
{
    return d ? yk__dataset_kind(d->set) : "";
}

uint64_t yk_data_rows(const yk_data *d)
{
    return d ? (uint64_t)yk__dataset_rows(d->set) : 0;
}

uint64_t yk_data_line(const yk_data *d, uint64_t i)
{
    return i < yk_data_rows(d) ? (uint64_t)yk__dataset_line(d->set, (int64_t)i) : 0;
}

uint64_t yk_data_batches(const yk_data *d)
{
    return d ? (uint64_t)yk__loader_batches(d->loader) : 0;
}

uint32_t yk_data_classes(const yk_data *d)
{
    return d ? (uint32_t)yk__dataset_classes(d->set) : 0;
}

yk_labels yk_data_labels(const yk_data *d)
{
    const yk__field *f = d && d->n_field > 1 ? &d->field[d->n_field - 1] : NULL;
    if (!f || strcmp(f->name, "labels") != 0)
        return YK_LABELS_NONE;
    if (f->rank)
        return yk__dataset_masks(d->set) ? YK_LABELS_MASKED : YK_LABELS_NEXT;
    return f->dtype == YK_F32 ? YK_LABELS_NUMBERS : YK_LABELS_CLASSES;
}

uint32_t yk_data_vocab(const yk_data *d)
{
    return d ? (uint32_t)yk__dataset_vocab(d->set) : 0;
}

const char *yk_data_class_name(const yk_data *d, uint32_t i)
{
    return i < yk_data_classes(d) ? yk__dataset_class_name(d->set, (int)i) : NULL;
}

void yk_data_shape(const yk_data *d, int64_t chw[3])
{
    for (int i = 0; i < 3; i++)
        chw[i] = d && d->n_field > 0 && d->field[0].rank == 3 ? d->field[0].shape[i] : 0;
}

const char *yk_data_tokenizer(const yk_data *d)
{
    return d ? yk__dataset_tokenizer_dir(d->set) : NULL;
}

void yk_data_save_tokenizer(const yk_data *d, const char *dir)
{
    const yk__tokenizer *t = d ? yk__dataset_tokenizer(d->set) : NULL;
    yk_error err = YK_ERROR_INIT;
    if (!t || !yk_ok(d->job) || strcmp(yk__tokenizer_kind(t), "char") != 0)
        return;
    char *path = yk__format("%s/tokenizer.json", dir);
    yk_status s = path ? yk__tokenizer_save_chars(t, path, &err) : yk__fail_mem(&err, strlen(dir), "a path");
    yk__free(path);
    if (s)
        yk__job_fail(d->job, &err);
}

/* Field k of the loader's batch as an input of the step. */
static yk_t input_of(const yk_data *d, const yk__loader_batch *b, int k)
{
    const yk__field *f = &d->field[k];
    int64_t dim[YK_MAX_DIMS] = {b->rows};
    for (int i = 0; i < f->rank; i++)
        dim[i + 1] = f->shape[i] < 0 ? b->width : f->shape[i];
    return yk_input(d->job, (yk_dtype)f->dtype, (uint32_t)f->rank + 1, dim, b->field[k]);
}

static void fill(const yk_data *d, const yk__loader_batch *b, yk_batch *out)
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
    yk__rows_from(job, b->rows, b->first, b->global_rows);
    *out = (yk_batch){.rows = b->rows,
                      .global_rows = b->global_rows,
                      .width = b->width,
                      .first = b->first,
                      .epoch = b->epoch,
                      .index = (uint64_t)b->index,
                      .last = b->last};
    fill(d, b, out);
    job->from_loader = true;
    job->fed_by = d;
    d->now = b;
    job->window_end = b->last && !d->eval;
    if (!d->eval)
        yk__share_count(job, b->global_rows);
    return yk_ok(job);
}

bool yk_data_next(yk_data *d, yk_batch *batch)
{
    yk_error err = YK_ERROR_INIT;
    const yk__loader_batch *b = NULL;
    bool changed = false;
    if (!d || !yk_ok(d->job))
        return false;
    if (d->job->from_loader)
        yk__step_end(d->job);
    if (!d->eval && !yk__share_update(d->job, d->batch, &changed))
        return false;
    yk_status s = changed ? yk__loader_flush(d->loader, &err) : YK_OK;
    s = s ? s : yk__loader_next(d->loader, &b, &err);
    if (!s && !b) {
        d->epoch++;
        d->next = 0;
        s = yk__loader_rewind(d->loader, d->epoch, 0, &err);
    }
    if (s) {
        yk__job_fail(d->job, &err);
        return false;
    }
    if (!b)
        return false;
    d->next = (uint64_t)b->index + 1;
    return begin_step(d, b, batch);
}

void yk_data_seek(yk_data *d, uint64_t epoch, uint64_t batch)
{
    yk_error err = YK_ERROR_INIT;
    if (!d || !yk_ok(d->job))
        return;
    if (batch > INT64_MAX || yk__loader_rewind(d->loader, epoch, (int64_t)batch, &err)) {
        if (!err.status)
            yk__fail(&err, YK_E_ARG, "yk_data_seek: batch %llu", (unsigned long long)batch);
        yk__job_fail(d->job, &err);
        return;
    }
    d->epoch = epoch;
    d->next = batch;
}

void yk_data_tell(const yk_data *d, uint64_t *epoch, uint64_t *batch)
{
    *epoch = d ? d->epoch : 0;
    *batch = d ? d->next : 0;
}

bool yk__data_where(const yk_job *job, int64_t row, char *buf, size_t n)
{
    const yk_data *d = job->from_loader ? job->fed_by : NULL;
    if (!d || row < 0 || row >= d->now->rows)
        return false;
    yk__dataset_where(d->set, d->now->row[d->now->first + row], buf, n);
    return true;
}

int64_t yk__data_batch(const yk_data *d)
{
    return d->batch;
}

bool yk__data_trains(const yk_data *d)
{
    return !d->eval;
}
