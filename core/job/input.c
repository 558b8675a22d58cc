/* SPDX-License-Identifier: Apache-2.0 */
/* What the host gives a step: inputs, run-time scalars, random keys, global row numbers. */
#include <string.h>

#include "core/job/job.h"

uint32_t yk__input_new(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, uint64_t bytes)
{
    size_t had = job->cap_input;
    if (yk__grow(&job->input, &job->cap_input, job->n_input + 1, sizeof *job->input)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for the inputs of a step");
        return YK_NONE;
    }
    memset(job->input + had, 0, (job->cap_input - had) * sizeof *job->input);
    yk__step_input *in = &job->input[job->n_input];
    if (in->cap < bytes) {
        yk__free(in->data);
        in->data = yk__aligned(bytes, 64);
        in->cap = in->data ? bytes : 0;
        if (!in->data) {
            yk__job_failf(job, YK_E_MEM, "out of memory (%llu bytes for an input)", (unsigned long long)bytes);
            return YK_NONE;
        }
    }
    uint32_t number = (uint32_t)job->n_input;
    uint32_t slot = yk__slot_new(&job->g, YK_SLOT_INPUT, bytes, number);
    in->bytes = bytes;
    in->scalars = dims == UINT32_MAX;
    in->from_user = false;
    in->leaf = dims == UINT32_MAX ? slot : yk__leaf(&job->g, slot, 0, dtype, dims, dim);
    job->n_input++;
    return number;
}

/* The vector that holds scalar s, made when it is the first of it. */
static bool vector_of(yk_job *job, uint32_t s)
{
    size_t v = s / YK__SCALARS;
    if (v < job->n_vector)
        return true;
    if (yk__grow(&job->scalar_input, &job->cap_vector, v + 1, sizeof *job->scalar_input) ||
        yk__grow(&job->scalar_slot, &job->cap_vector_slot, v + 1, sizeof *job->scalar_slot)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for the scalars of a step");
        return false;
    }
    uint32_t number = yk__input_new(job, YK_F32, UINT32_MAX, NULL, YK__SCALARS * sizeof(float));
    if (number == YK_NONE)
        return false;
    memset(job->input[number].data, 0, YK__SCALARS * sizeof(float));
    job->scalar_input[v] = number;
    job->scalar_slot[v] = job->input[number].leaf;
    job->n_vector++;
    return true;
}

uint32_t yk__scalar_new(yk_job *job, double value, yk__vid *leaf)
{
    uint32_t s = job->n_scalar;
    if (!vector_of(job, s)) {
        *leaf = YK_NONE;
        return 0;
    }
    job->n_scalar++;
    *leaf = yk__leaf(&job->g, job->scalar_slot[s / YK__SCALARS], s % YK__SCALARS * sizeof(float), YK_F32, 0, NULL);
    yk__scalar_set(job, s, value);
    return s;
}

void yk__scalar_set(yk_job *job, uint32_t scalar, double value)
{
    if (scalar < job->n_scalar)
        ((float *)job->input[job->scalar_input[scalar / YK__SCALARS]].data)[scalar % YK__SCALARS] = (float)value;
}

void yk__inputs_clear(yk_job *job)
{
    job->n_input = job->n_vector = 0;
    job->n_scalar = 0;
    job->key_input = job->rows_input = YK_NONE;
    job->dropouts = 0;
    job->n_packing = 0;
    job->rows_set = job->rows_default = job->empty = job->from_loader = false;
    job->local = job->global = 0;
}

static bool input_type(yk_dtype t)
{
    return t == YK_F32 || t == YK_I32 || t == YK_U8 || t == YK_BOOL;
}

yk_t yk_input(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, const void *data)
{
    uint64_t n = 1;
    if (!yk_ok(job))
        return YK__POISON;
    if (!input_type(dtype) || dims > YK_MAX_DIMS) {
        yk__job_failf(job, YK_E_ARG, "yk_input: type %s with %u dimensions; expected f32, i32, u8 or bool and at most %d",
                      yk__dtype_name(dtype), dims, YK_MAX_DIMS);
        return YK__POISON;
    }
    for (uint32_t i = 0; i < dims; i++) {
        if (dim[i] < 0 || (dim[i] > 0 && (uint64_t)dim[i] > (1ull << 40) / (n ? n : 1))) {
            yk__job_failf(job, YK_E_ARG, "yk_input: length %lld of dimension %u is not possible", (long long)dim[i], i);
            return YK__POISON;
        }
        n *= (uint64_t)dim[i];
    }
    uint64_t bytes = n * yk_dtype_bytes(dtype);
    job->g.stream = ++job->n_call;
    uint32_t number = yk__input_new(job, dtype, dims, dim, bytes);
    if (number == YK_NONE)
        return YK__POISON;
    if (bytes)
        memcpy(job->input[number].data, data, bytes);
    if (n == 0)
        job->empty = true;
    if (!job->rows_set && !job->rows_default && dims) {
        job->rows_default = true;
        job->local = job->global = dim[0];
    }
    if (job->input[number].leaf != YK_NONE)
        yk__sharding_input(job, number);
    return yk__handle(job, job->input[number].leaf);
}

yk_t yk_constant(yk_job *job, float value)
{
    yk__vid leaf;
    if (!yk_ok(job))
        return YK__POISON;
    yk__scalar_new(job, (double)value, &leaf);
    yk__sharding_constant(job, leaf, value);
    return yk__handle(job, leaf);
}

/* row NULL: they are first, first + 1, .. */
static void set_rows(yk_job *job, int64_t local, const int32_t *row, int64_t first, int64_t global)
{
    if (job->rows_input != YK_NONE || job->n_packing) {
        yk__job_failf(job, YK_E_ARG, "yk_rows: dropout has used the row numbers of this step already; call it before");
        return;
    }
    if (yk__grow(&job->row, &job->cap_row, (size_t)local, sizeof *job->row)) {
        yk__job_failf(job, YK_E_MEM, "out of memory in yk_rows");
        return;
    }
    for (int64_t i = 0; i < local; i++)
        job->row[i] = row ? row[i] : (int32_t)(first + i);
    job->rows_set = true;
    job->empty = job->empty || local == 0;
    job->local = local;
    job->global = global;
    for (uint32_t i = 0; i < job->n_input; i++)
        if (job->input[i].from_user && job->input[i].leaf != YK_NONE)
            yk__sharding_input(job, i);
}

void yk_rows(yk_job *job, int64_t local, const int32_t *row, int64_t global)
{
    if (!yk_ok(job))
        return;
    if (local < 0 || global < local || global > INT32_MAX)
        yk__job_failf(job, YK_E_ARG, "yk_rows: %lld rows of %lld", (long long)local, (long long)global);
    else
        set_rows(job, local, row, 0, global);
}

void yk__rows_from(yk_job *job, int64_t local, int64_t first, int64_t global)
{
    if (yk_ok(job))
        set_rows(job, local, NULL, first, global);
}

int64_t yk__local_rows(const yk_job *job)
{
    return job->local;
}

/* The number of rows dropout counts with: those said, else those of the first input, else `lead`. */
static int64_t random_rows(yk_job *job, int64_t lead)
{
    int64_t n = job->rows_set || job->rows_default ? job->local : lead;
    return n > 0 && lead % n == 0 ? n : lead;
}

bool yk__dropout_key(yk_job *job, yk__vid *key)
{
    const int64_t four = 4;
    if (job->key_input == YK_NONE) {
        uint32_t k = yk__input_new(job, YK_I32, 1, &four, 4 * sizeof(int32_t));
        if (k == YK_NONE)
            return false;
        const uint32_t v[4] = {(uint32_t)job->config.seed, (uint32_t)(job->config.seed >> 32),
                               (uint32_t)job->micro_step, 0};
        memcpy(job->input[k].data, v, sizeof v);
        job->key_input = k;
        job->key = job->input[k].leaf;
    }
    *key = job->key;
    return true;
}

/* 0, 1, ..: the rows of a value that all ranks have alike, so that they drop the same of it. */
static bool plain_rows(yk_job *job, int64_t lead, yk__vid *rows)
{
    const uint32_t number = yk__input_new(job, YK_I32, 1, &lead, (uint64_t)lead * sizeof(int32_t));
    for (int64_t i = 0; number != YK_NONE && i < lead; i++)
        ((int32_t *)job->input[number].data)[i] = (int32_t)i;
    *rows = number == YK_NONE ? YK_NONE : job->input[number].leaf;
    return number != YK_NONE;
}

bool yk__dropout_inputs(yk_job *job, yk__vid x, yk__vid *key, yk__vid *rows)
{
    const int64_t lead = job->g.value[x].dim[0];
    if (!yk__dropout_key(job, key))
        return false;
    const int64_t said = random_rows(job, lead);
    const bool alike = job->world > 1 && yk__sharding_of(job, x).kind == YK__REPLICATED;
    if (alike || (job->rows_input != YK_NONE && job->g.value[job->rows].dim[0] != said))
        return plain_rows(job, lead, rows);
    if (job->rows_input == YK_NONE) {
        const int64_t n = said;
        uint32_t r = yk__input_new(job, YK_I32, 1, &n, (uint64_t)n * sizeof(int32_t));
        if (r == YK_NONE)
            return false;
        int32_t *to = job->input[r].data;
        for (int64_t i = 0; i < n; i++)
            to[i] = job->rows_set && n == job->local ? job->row[i] : (int32_t)i;
        job->rows_input = r;
        job->rows = job->input[r].leaf;
    }
    *rows = job->rows;
    return true;
}
