/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places in the training data, as entries of a checkpoint's state. This file writes them, checks them against the job's data sets, and
 * moves the data sets there. A place counts batches, so another batch size changes its number, or makes it invalid.
 *
 * save.c calls it in the step thread, on all ranks. A place that does not fit is an error before anything has changed.
 */
#include "core/job/checkpoint/data_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/io/json.h"
#include "core/job/checkpoint/saved_state.h"
#include "core/job/data_info.h"

/* ---- Saving ---- */

/* Hash of the rows as text; "" if the files cannot be read any more. */
static const char *write_content(yk_data *d, char text[24])
{
    yk_error ignored = YK_ERROR_INIT;
    if (!d->content && yk__dataset_hash(d->set, &d->content, &ignored))
        d->content = 0;
    text[0] = 0;
    if (d->content)
        snprintf(text, 24, "%016" PRIx64, d->content);
    return text;
}

static json_t *list_names(const yk_data *d)
{
    yk__json_builder names = yk__json_begin(json_array());
    for (uint32_t i = 0; i < yk_data_classes(d); i++)
        yk__json_append(&names, json_string(yk_data_class_name(d, i)));
    return yk__json_end(&names);
}

static json_t *describe_place(yk_data *d)
{
    uint64_t epoch, batch;
    char text[24];
    yk__json_builder o = yk__json_begin(json_object());
    yk_data_tell(d, &epoch, &batch);
    yk__json_put(&o, "epoch", yk__state_of_count(epoch));
    yk__json_put(&o, "batch", yk__state_of_count(batch));
    yk__json_put(&o, "global_batch", json_integer(yk__data_batch(d)));
    yk__json_put(&o, "rows", yk__state_of_count(yk_data_rows(d)));
    yk__json_put(&o, "batches", yk__state_of_count(yk_data_batches(d)));
    yk__json_put(&o, "content", json_string(write_content(d, text)));
    yk__json_put(&o, "order_seed", yk__state_of_count(d->order_seed));
    if (yk_data_class_name(d, 0)) /* else labels are numbers, or absent */
        yk__json_put(&o, "classes", list_names(d));
    return yk__json_end(&o);
}

json_t *yk__data_state(yk_job *job)
{
    yk__json_builder list = yk__json_begin(json_array());
    for (size_t i = 0; i < job->n_data; i++)
        if (yk__data_trains(job->data[i]))
            yk__json_append(&list, describe_place(job->data[i]));
    return yk__json_end(&list);
}

/* ---- Resuming ---- */

/* The next training data set from *at on; moves *at past it. NULL if there is none. */
static yk_data *next_trained(const yk_job *job, size_t *at)
{
    while (*at < job->n_data && !yk__data_trains(job->data[*at]))
        (*at)++;
    return *at < job->n_data ? job->data[(*at)++] : NULL;
}

static yk_status check_names(const yk_data *d, const char *dir, const json_t *was, yk_error *err)
{
    const uint32_t now = yk_data_classes(d);
    if (!json_is_array(was) || !yk_data_class_name(d, 0))
        return YK_OK;
    if (json_array_size(was) != now)
        return yk__fail(err, YK_E_ARG, "%s was made with %zu classes, these data have %u", dir, json_array_size(was), now);
    for (uint32_t i = 0; i < now; i++) {
        const char *name = json_string_value(json_array_get(was, i)), *own = yk_data_class_name(d, i);
        if (!name || strcmp(name, own) != 0)
            return yk__fail(err, YK_E_ARG, "%s: class %u was \"%.100s\" in the data it was made with, in these it is \"%.100s\": go on "
                            "with data of the same classes, or begin anew from its model", dir, i, name ? name : "?", own);
    }
    return YK_OK;
}

/* A place in rows. */
typedef struct place_rows {
    uint64_t used; /* of its epoch */
    bool within;   /* some of the epoch's rows are used, and this job has more batches of it */
    bool ends;     /* the epoch's batches are used up */
} place_rows;

/* True behind the epoch's last batch. A state of an earlier version does not tell the number of batches: its short last batch was dropped
 * if this job drops that and the rest is none of this job's batches either. */
static bool place_ends(const yk_data *d, const json_t *place, uint64_t batch, uint64_t left)
{
    const uint64_t was = (uint64_t)json_integer_value(json_object_get(place, "global_batch")), now = (uint64_t)yk__data_batch(d);
    uint64_t batches;
    if (!batch || yk__state_count(json_object_get(place, "batches"), &batches))
        return batch && batch >= batches;
    return !left || (left < was && left < now && yk_data_batches(d) * now < yk_data_rows(d));
}

/* An epoch's last batch may be short: the rows of its batches are then more than the epoch has. */
static place_rows rows_at(const yk_data *d, const json_t *place)
{
    const json_int_t given = json_integer_value(json_object_get(place, "global_batch"));
    const uint64_t was = given > 0 ? (uint64_t)given : 0, now = (uint64_t)yk__data_batch(d);
    uint64_t batch = 0, all;
    yk__state_count(json_object_get(place, "batch"), &batch);
    if (!yk__state_count(json_object_get(place, "rows"), &all))
        all = UINT64_MAX;
    const uint64_t used = was && batch <= all / was ? batch * was : all;
    const bool ends = place_ends(d, place, batch, all - used);
    return (place_rows){.used = used, .within = was && batch && !ends && used / now < yk_data_batches(d), .ends = ends};
}

/* Between epochs any order will do. */
static yk_status check_order(const yk_data *d, const char *dir, const json_t *place, yk_error *err)
{
    uint64_t was;
    if (!yk__state_count(json_object_get(place, "order_seed"), &was) || was == d->order_seed || !rows_at(d, place).within)
        return YK_OK;
    return yk__fail(err, YK_E_ARG, "%s was made within an epoch whose rows were shuffled by seed %" PRIu64 ", this job's are by %" PRIu64
                    ": some rows would come twice and some not at all", dir, was, d->order_seed);
}

yk_status yk__data_state_check(const yk_job *job, const char *dir, const json_t *places, yk_error *err)
{
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(places); i++) {
        const json_t *place = json_array_get(places, i);
        const yk_data *d = next_trained(job, &at);
        if (d && (check_names(d, dir, json_object_get(place, "classes"), err) || check_order(d, dir, place, err)))
            return err->status;
    }
    return YK_OK;
}

static void tell_other_rows(yk_data *d, const char *dir, const json_t *place)
{
    const char *content = json_string_value(json_object_get(place, "content"));
    char now[24];
    uint64_t rows;
    if (d->job->team.rank || !yk__state_count(json_object_get(place, "rows"), &rows))
        return;
    if (rows != yk_data_rows(d))
        yk__log(YK_LOG_WARN, "resume", "%s was made with %" PRIu64 " rows, these data have %" PRIu64 ": the epoch under way goes on in "
                "these, of which some may have been seen in it", dir, rows, yk_data_rows(d));
    else if (content && *content && *write_content(d, now) && strcmp(content, now) != 0)
        yk__log(YK_LOG_WARN, "resume", "%s was made with other data of as many rows; the present data are used", dir);
}

/* False, with the job's error, where fewer rows than before end before the place. */
static bool place_reached(const yk_data *d, const char *dir, const json_t *place, uint64_t batch)
{
    uint64_t rows;
    if (batch <= yk_data_batches(d) || !yk__state_count(json_object_get(place, "rows"), &rows) || rows == yk_data_rows(d))
        return true;
    yk__job_failf(d->job, YK_E_ARG, "%s was made with %" PRIu64 " rows, after batch %" PRIu64 " of an epoch; these data have %" PRIu64
                  ", an epoch of %" PRIu64 " batches: give the rows of before", dir, rows, batch, yk_data_rows(d), yk_data_batches(d));
    return false;
}

/* Converts the place to batches of this job's size; the end of an epoch stays one, after a short batch too. False, with the job's error, if
 * none matches. */
static bool convert_batch(const yk_data *d, const char *dir, const json_t *place, uint64_t *batch)
{
    const json_int_t was = json_integer_value(json_object_get(place, "global_batch")), now = yk__data_batch(d);
    const place_rows rows = rows_at(d, place);
    uint64_t all;
    const bool ends = rows.ends && yk__state_count(json_object_get(place, "rows"), &all) && all == yk_data_rows(d);
    if (was <= 0 || !*batch || (was == now && !ends))
        return true;
    if (!ends && rows.used % (uint64_t)now) {
        yk__job_failf(d->job, YK_E_ARG,
                      "%s was made with batches of %lld rows, this job's have %lld, which do not add up to the %llu "
                      "rows that were used: take batches of %lld rows, or go on from the end of an epoch",
                      dir, (long long)was, (long long)now,
                      (unsigned long long)rows.used, (long long)was);
        return false;
    }
    *batch = ends ? yk_data_batches(d) : rows.used / (uint64_t)now;
    if (was != now && !d->job->team.rank)
        yk__log(YK_LOG_WARN, "resume", "%s was made with batches of %lld rows; this job's have %lld, and go on at batch %llu of the epoch",
                dir, (long long)was, (long long)now, (unsigned long long)*batch);
    return true;
}

void yk__data_state_restore(yk_job *job, const char *dir, const json_t *places)
{
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(places); i++) {
        const json_t *place = json_array_get(places, i);
        yk_data *d = next_trained(job, &at);
        uint64_t epoch = 0, batch = 0;
        if (!d)
            return;
        yk__state_count(json_object_get(place, "epoch"), &epoch);
        yk__state_count(json_object_get(place, "batch"), &batch);
        if (!convert_batch(d, dir, place, &batch) || !place_reached(d, dir, place, batch))
            continue;
        tell_other_rows(d, dir, place);
        yk_data_seek(d, epoch, batch);
    }
}
