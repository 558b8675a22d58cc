/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's data of a step: inputs (yk_input), constants, the number of rows (yk_set_rows), and the keys of dropout's random numbers.
 *
 * Data loaders, models and the user's program call it in the step thread; op_layer.c asks for the key and the row numbers of dropout. An
 * input is copied at once, so the caller may change its memory. Dropout follows the number of a row in the global batch, so it drops the
 * same elements whichever rank has the row.
 */
#include "core/job/trace/step_feed.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/job/input.h"
#include "core/job/trace/sharding.h"

static bool input_type(yk_dtype t)
{
    return t == YK_F32 || t == YK_I32 || t == YK_U8 || t == YK_BOOL;
}

/* Identifies an input by its type, its lengths except the first, and its number among inputs of this type and these lengths. */
static void input_compared(yk_job *job, uint32_t number)
{
    yk__step *step = &job->step;
    const yk_value *x = &step->trace.value[step->input[number].leaf];
    uint64_t like = yk__hash_u64(YK_HASH_SEED, (uint64_t)x->dims << 8 | x->dtype);
    uint32_t before = 0;
    if (job->team.world == 1)
        return;
    yk__op_setting(job, "type", x->dtype);
    yk__op_setting(job, "dimensions", x->dims);
    for (uint32_t i = 1; i < x->dims; i++) {
        yk__op_setting(job, "a length", (double)x->dim[i]);
        like = yk__hash_u64(like, (uint64_t)x->dim[i]);
    }
    for (uint32_t i = 0; i < number; i++)
        before += step->input[i].from_user && step->input[i].like == like;
    step->input[number].like = like;
    yk__op_setting(job, "number among its like", before + 1.0);
    yk__sharding_sign(job, step->input[number].leaf);
}

/* Copies the rows that the data have, and fills the padding behind them. */
static void rows_copy(uint8_t *to, const void *from, uint64_t bytes, uint64_t padding, const int32_t *fill, uint64_t row)
{
    const uint64_t given = bytes - padding * row;
    memcpy(to, from, given);
    for (uint64_t at = given; padding && at < bytes; at += fill ? sizeof *fill : row)
        memcpy(to + at, fill ? (const uint8_t *)fill : to + given - row, fill ? sizeof *fill : row);
}

static yk_t input_trace(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data, uint64_t padding,
                        const int32_t *fill)
{
    uint64_t n;
    if (!yk_ok(job))
        return YK__POISON;
    yk__step *step = &job->step;
    if (!input_type(dtype)) {
        yk__job_failf(job, YK_E_ARG, "yk_input: type %s; expected f32, i32, u8 or bool", yk__dtype_name(dtype));
        return YK__POISON;
    }
    if (!yk__dims_count(job, "yk_input", dims, dim, 0, &n) || (n && !yk__job_given(job, "yk_input", "data", data)))
        return YK__POISON;
    uint64_t bytes = n * yk_dtype_bytes(dtype);
    yk__op_begin(job, "yk_input");
    uint32_t number = yk__input_new(job, dtype, dims, dim, bytes);
    if (number == YK_NONE)
        return YK__POISON;
    if (bytes)
        rows_copy(step->input[number].data, data, bytes, padding, fill, dims ? bytes / (uint64_t)dim[0] : bytes);
    if (n == 0)
        step->empty = true;
    if (!step->rows_set && !step->rows_default && dims) {
        step->rows_default = true;
        step->local_rows = step->global_rows = dim[0];
        job->last_batch = (yk__batch_rows){dim[0], YK__ROWS_UNKNOWN, YK__ROWS_UNKNOWN};
    }
    if (step->input[number].leaf != YK_NONE) {
        yk__sharding_input(job, number);
        input_compared(job, number);
    }
    return yk__handle(job, step->input[number].leaf);
}

yk_t yk_input(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data)
{
    return input_trace(job, dtype, dims, dim, data, 0, NULL);
}

yk_t yk__input_padded(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data, const int32_t *fill)
{
    const yk_t x = input_trace(job, dtype, dims, dim, data, (uint64_t)job->step.padding, fill);
    if (yk_ok(job))
        job->step.input[job->step.n_input - 1].of_data = true;
    return x;
}

yk_t yk_constant(yk_job *job, float value)
{
    yk__vid leaf;
    if (!yk_ok(job))
        return YK__POISON;
    yk__op_begin(job, "yk_constant");
    yk__op_setting(job, "value", (double)value);
    yk__scalar_new(job, (double)value, &leaf);
    yk__sharding_sign(job, leaf);
    return yk__handle(job, leaf);
}

/* Sets the rows of the micro batch; row NULL: first, first + 1, .., then padding. */
static void set_rows(yk_job *job, int64_t own, int64_t padding, const int32_t *row, int64_t first, int64_t global)
{
    const int64_t local = own + padding;
    yk__step *step = &job->step;
    if (step->rows_input != YK_NONE || step->n_packing) {
        yk__job_failf(job, YK_E_ARG, "yk_set_rows: dropout has used the row numbers of this step already; call it before");
        return;
    }
    if (yk__grow(&step->row_number, &step->cap_row_number, (size_t)local, sizeof *step->row_number)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_set_rows");
        return;
    }
    for (int64_t i = 0; i < local; i++)
        step->row_number[i] = row ? row[i] : (int32_t)(first + (i < own ? i : own - 1));
    step->rows_set = true;
    step->empty = step->empty || local == 0;
    step->local_rows = local;
    step->global_rows = global;
    step->padding = padding;
    job->last_batch = (yk__batch_rows){own, global, global};
    for (uint32_t i = 0; i < step->n_input; i++)
        if (step->input[i].from_user && step->input[i].leaf != YK_NONE)
            yk__sharding_input(job, i);
}

void yk_set_rows(yk_job *job, int64_t local, const int32_t *row, int64_t global)
{
    if (!yk_ok(job))
        return;
    if (local < 0 || global < local || global > INT32_MAX)
        yk__job_failf(job, YK_E_ARG, "yk_set_rows: %lld rows of %lld: expected 0 <= rows <= rows of all ranks <= 2^31 - 1",
                      (long long)local, (long long)global);
    else
        set_rows(job, local, 0, row, 0, global);
}

void yk__rows_from(yk_job *job, int64_t local, int64_t padding, int64_t first, int64_t global)
{
    if (yk_ok(job))
        set_rows(job, local, padding, NULL, first, global);
}

/* Number of rows that dropout counts: set rows, else the first input's rows, else `lead`. */
static int64_t random_rows(yk_job *job, int64_t lead)
{
    int64_t n = job->step.rows_set || job->step.rows_default ? job->step.local_rows : lead;
    return n > 0 && lead % n == 0 ? n : lead;
}

bool yk__dropout_key(yk_job *job, yk__vid *key)
{
    yk__step *step = &job->step;
    const int64_t four = 4;
    if (step->key_input == YK_NONE) {
        uint32_t k = yk__input_new(job, YK_I32, 1, &four, 4 * sizeof(int32_t));
        if (k == YK_NONE)
            return false;
        const uint32_t v[4] = {(uint32_t)job->config.seed, (uint32_t)(job->config.seed >> 32),
                               (uint32_t)job->micro_step, 0};
        memcpy(step->input[k].data, v, sizeof v);
        step->key_input = k;
        step->key_leaf = step->input[k].leaf;
    }
    *key = step->key_leaf;
    return true;
}

/* Rows 0, 1, ..: for a value that all ranks share, so that every rank drops the same elements. */
static bool plain_rows(yk_job *job, int64_t lead, yk__vid *rows)
{
    const uint32_t number = yk__input_new(job, YK_I32, 1, &lead, (uint64_t)lead * sizeof(int32_t));
    for (int64_t i = 0; number != YK_NONE && i < lead; i++)
        ((int32_t *)job->step.input[number].data)[i] = (int32_t)i;
    *rows = number == YK_NONE ? YK_NONE : job->step.input[number].leaf;
    return number != YK_NONE;
}

bool yk__dropout_inputs(yk_job *job, yk__vid x, yk__vid *key, yk__vid *rows)
{
    yk__step *step = &job->step;
    const int64_t lead = step->trace.value[x].dim[0];
    if (!yk__dropout_key(job, key))
        return false;
    const int64_t said = random_rows(job, lead);
    const bool alike = job->team.world > 1 && yk__sharding_of(job, x).kind == YK__REPLICATED;
    if (alike || (step->rows_input != YK_NONE && step->trace.value[step->rows_leaf].dim[0] != said))
        return plain_rows(job, lead, rows);
    if (step->rows_input == YK_NONE) {
        const int64_t n = said;
        uint32_t r = yk__input_new(job, YK_I32, 1, &n, (uint64_t)n * sizeof(int32_t));
        if (r == YK_NONE)
            return false;
        int32_t *to = step->input[r].data;
        for (int64_t i = 0; i < n; i++)
            to[i] = step->rows_set && n == step->local_rows ? step->row_number[i] : (int32_t)i;
        step->rows_input = r;
        step->rows_leaf = step->input[r].leaf;
    }
    *rows = step->rows_leaf;
    return true;
}
