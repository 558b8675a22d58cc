/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many rows of padding a short batch gets, on a device whose compiler is costly. data.c asks for each batch, in the step thread;
 * tools/train/train.c turns it on for a data set.
 */
#include "core/job/loop/row_padding.h"

#include "core/base/log.h"
#include "core/job/data_info.h"
#include "core/job/team/share.h"

void yk__data_pad(yk_data *d, bool loss)
{
    d->pads = true;
    d->pads_loss = loss;
}

/* This rank's rows of a whole batch. */
static int64_t rows_usual(const yk_data *d)
{
    int64_t first, count = d->batch / d->job->team.world;
    if (!d->equal)
        yk__share_part(d->job, d->batch, d->batch, &first, &count);
    return count;
}

/* NULL, or why padding would change a result: the padding of labels that are numbers is no class to ignore. */
static const char *padding_refused(const yk_data *d, bool train)
{
    return d->pads_loss && yk_data_labels(d) == YK_LABELS_NUMBERS ? "a loss of labels that are numbers" : d->traced[train].mixes;
}

int64_t yk__data_padding(yk_data *d, int64_t rows)
{
    const bool train = d->job->training;
    const int64_t usual = rows_usual(d);
    const char *why;
    if (!d->pads || d->job->device->caps.row_quantum < 2)
        return 0;
    d->traced[train].whole |= rows == usual;
    if (!rows || rows >= usual || !d->traced[train].whole)
        return 0;
    why = padding_refused(d, train);
    if (!why)
        return usual - rows;
    if (!d->traced[train].said)
        yk__log(YK_LOG_INFO, "data", "a short batch of %lld rows gets no padding to %lld, but a program of its own: %s counts rows",
                (long long)rows, (long long)usual, why);
    d->traced[train].said = true;
    return 0;
}
