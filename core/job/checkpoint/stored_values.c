/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a parameter's values from a safetensors file by range, and converts them to f32. weights.c and save.c make such sources. The engine
 * reads them, in the step thread, when a layout says the ranges that this rank has.
 */
#include "core/job/checkpoint/stored_values.h"

#include <inttypes.h>
#include <math.h>

#include "core/base/convert.h"
#include "core/base/mem.h"

#define PIECE 16384u /* elements that are converted at once */

typedef struct stored_values {
    yk__safetensors *file;
    const yk__safetensor *tensor;
    bool finite;
} stored_values;

static yk_status check_finite(const stored_values *v, uint64_t from, uint64_t n, const float *data, yk_error *err)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(data[i]))
            return yk__fail(err, YK_E_FORMAT, "%s: tensor %s: element %" PRIu64 " is %g: the run had diverged when this was saved",
                            yk__safetensors_path(v->file), v->tensor->name, from + i, (double)data[i]);
    return YK_OK;
}

static yk_status values_read(void *object, uint64_t from, uint64_t n, float *out, yk_error *err)
{
    const stored_values *v = object;
    const uint64_t each = yk_dtype_bytes((uint32_t)v->tensor->dtype);
    uint64_t stored[PIECE]; /* an element has 8 bytes at most */
    if (v->tensor->dtype == YK_F32) {
        if (yk__safetensors_load(v->file, v->tensor, from * each, n * each, out, err))
            return err->status;
        return v->finite ? check_finite(v, from, n, out, err) : YK_OK;
    }
    for (uint64_t at = 0; at < n; at += PIECE) {
        const uint64_t some = n - at < PIECE ? n - at : PIECE;
        if (yk__safetensors_load(v->file, v->tensor, (from + at) * each, some * each, stored, err))
            return err->status;
        yk__array_to_f32(v->tensor->dtype, stored, (size_t)some, out + at);
    }
    return v->finite ? check_finite(v, from, n, out, err) : YK_OK;
}

static void values_free(void *object)
{
    stored_values *v = object;
    yk__safetensors_close(v->file);
    yk__free(v);
}

yk_status yk__stored_values(yk__safetensors *file, const yk__safetensor *tensor, bool finite, yk__source *out, yk_error *err)
{
    uint64_t sign;
    stored_values *v;
    if (yk__safetensors_sign(file, tensor, &sign, err))
        return err->status;
    v = yk__malloc(sizeof *v);
    if (!v)
        return yk__fail_mem(err, sizeof *v, tensor->name);
    *v = (stored_values){file, tensor, finite};
    yk__safetensors_hold(file);
    *out = (yk__source){values_read, values_free, v, sign};
    return YK_OK;
}

yk_status yk__stored_check(yk__safetensors *file, const yk__safetensor *tensor, yk_error *err)
{
    stored_values v = {file, tensor, true};
    float piece[PIECE];
    for (uint64_t at = 0, n = (uint64_t)tensor->elements; at < n && !err->status; at += PIECE)
        values_read(&v, at, n - at < PIECE ? n - at : PIECE, piece, err);
    return err->status;
}
