/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host memory of a step: its input slots, and the vectors of run-time scalars (f32 numbers that may change without a new program). Also
 * checks sizes of inputs and parameters.
 *
 * The operations of core/job/trace and yk_backward make slots while a step is traced, in the step thread. The step owns the memory and uses
 * it again in the next one.
 */
#include "core/job/input.h"

#include <stdio.h>
#include <string.h>

#define MOST_ELEMENTS (1ull << 40)

static void refuse_size(yk_job *job, const char *name, uint32_t dims, const int64_t *dim)
{
    char text[YK_MAX_DIMS * 24] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < dims; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    yk__job_failf(job, YK_E_ARG, "%s: [%s] is too large: at most 2^40 elements are possible", name, text);
}

bool yk__dims_count(yk_job *job, const char *name, uint32_t dims, const int64_t *dim, int64_t least, uint64_t *n)
{
    uint64_t most = MOST_ELEMENTS;
    *n = 1;
    if (dims > YK_MAX_DIMS)
        yk__job_failf(job, YK_E_ARG, "%s: %u dimensions, at most %d are possible", name, dims, YK_MAX_DIMS);
    for (uint32_t i = 0; i < dims && yk_ok(job); i++) {
        if (dim[i] < least)
            yk__job_failf(job, YK_E_ARG, "%s: length %lld of dimension %u is not possible: expected at least %lld", name,
                          (long long)dim[i], i, (long long)least);
        else if (dim[i] && (uint64_t)dim[i] > most)
            refuse_size(job, name, dims, dim);
        most /= dim[i] > 0 ? (uint64_t)dim[i] : 1;
        *n *= (uint64_t)dim[i];
    }
    return yk_ok(job);
}

uint32_t yk__input_new(yk_job *job, yk_dtype dtype, uint32_t dims, const int64_t *dim, uint64_t bytes)
{
    yk__step *step = &job->step;
    size_t had = step->cap_input;
    if (yk__grow(&step->input, &step->cap_input, step->n_input + 1, sizeof *step->input)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for the inputs of a step");
        return YK_NONE;
    }
    memset(step->input + had, 0, (step->cap_input - had) * sizeof *step->input);
    yk__step_input *in = &step->input[step->n_input];
    if (in->cap < bytes) {
        yk__free(in->data);
        in->data = yk__malloc_aligned(bytes, 64);
        in->cap = in->data ? bytes : 0;
        if (!in->data) {
            yk__job_failf(job, YK_E_MEM, "out of memory (%llu bytes for an input)", (unsigned long long)bytes);
            return YK_NONE;
        }
    }
    uint32_t number = (uint32_t)step->n_input;
    uint32_t slot = yk__slot_new(&step->trace, YK_SLOT_INPUT, bytes, number);
    in->bytes = bytes;
    in->scalars = dims == UINT32_MAX;
    in->from_user = in->is_alike = in->of_data = false;
    in->leaf = dims == UINT32_MAX ? slot : yk__leaf(&step->trace, slot, 0, dtype, dims, dim);
    step->n_input++;
    return number;
}

/* Makes the vector for scalar s if s is its first. */
static bool vector_of(yk_job *job, uint32_t s)
{
    yk__step *step = &job->step;
    size_t v = s / YK__SCALARS;
    if (v < step->n_vector)
        return true;
    if (yk__grow(&step->scalar_input, &step->cap_vector, v + 1, sizeof *step->scalar_input) ||
        yk__grow(&step->scalar_slot, &step->cap_vector_slot, v + 1, sizeof *step->scalar_slot)) {
        yk__job_failf(job, YK_E_MEM, "out of memory for the scalars of a step");
        return false;
    }
    uint32_t number = yk__input_new(job, YK_F32, UINT32_MAX, NULL, YK__SCALARS * sizeof(float));
    if (number == YK_NONE)
        return false;
    memset(step->input[number].data, 0, YK__SCALARS * sizeof(float));
    step->scalar_input[v] = number;
    step->scalar_slot[v] = step->input[number].leaf;
    step->n_vector++;
    return true;
}

uint32_t yk__scalar_new(yk_job *job, double value, yk__vid *leaf)
{
    yk__step *step = &job->step;
    uint32_t s = step->n_scalar;
    if (!vector_of(job, s)) {
        *leaf = YK_NONE;
        return 0;
    }
    step->n_scalar++;
    *leaf = yk__leaf(&step->trace, step->scalar_slot[s / YK__SCALARS], s % YK__SCALARS * sizeof(float), YK_F32, 0, NULL);
    yk__scalar_set(job, s, value);
    return s;
}

void yk__scalar_set(yk_job *job, uint32_t scalar, double value)
{
    if (scalar < job->step.n_scalar)
        ((float *)job->step.input[job->step.scalar_input[scalar / YK__SCALARS]].data)[scalar % YK__SCALARS] = (float)value;
}
