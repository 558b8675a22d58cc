/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of a data set (kind, rows, classes, shape), and the job's place in it, as batch and as file row. A user's program, models,
 * tools and the other files of core/job ask them, in the step thread.
 *
 * Answers come from the opened file, so no rank waits. yk_data_seek alone changes something: the next batch of this rank's loader.
 */
#include "core/job/data_info.h"

#include <string.h>

void yk_data_tell(const yk_data *d, uint64_t *epoch, uint64_t *batch)
{
    *epoch = d ? d->epoch : 0;
    *batch = d ? d->next : 0;
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
    d->in_loop = false;
}

bool yk__data_where(const yk_job *job, int64_t row, char *buf, size_t n)
{
    const yk_data *d = job->step.from_loader ? job->step.batch_source : NULL;
    if (!d || row < 0 || row >= d->current->rows)
        return false;
    yk__dataset_where(d->set, d->current->row[d->current->first + row], buf, n);
    return true;
}

void yk__rows_mixed(yk_job *job, const char *what)
{
    yk_data *d = job->step.from_loader ? job->step.batch_source : NULL;
    if (job->step.padding)
        yk__job_failf(job, YK_E_ARG, "%s: expected rows without padding, got %lld rows of it, as no batch before had this operation", what,
                      (long long)job->step.padding);
    else if (d)
        d->traced[job->training].mixes = what;
}

int64_t yk__data_batch(const yk_data *d)
{
    return d->batch;
}

bool yk__data_trains(const yk_data *d)
{
    return !d->eval;
}

const char *yk_data_kind(const yk_data *d)
{
    return d ? yk__dataset_kind_name(d->set) : "";
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

const char *yk_data_class_name(const yk_data *d, uint32_t i)
{
    return i < yk_data_classes(d) ? yk__dataset_class_name(d->set, (int)i) : NULL;
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

void yk_data_shape(const yk_data *d, int64_t chw[3])
{
    for (int i = 0; i < 3; i++)
        chw[i] = d && d->n_field > 0 && d->field[0].rank == 3 ? d->field[0].shape[i] : 0;
}

const char *yk_data_tokenizer(const yk_data *d)
{
    return d ? yk__dataset_tokenizer_dir(d->set) : NULL;
}
