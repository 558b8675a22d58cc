/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of a running text as rows of a language model. They are read in pieces from the place of its ids: memory, or files that are
 * larger than memory. kind_text.c and kind_tokens.c call it: the cut when a set is opened, rows in the loader's thread.
 */
#include "core/data/windows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"

#define PIECE 1024 /* ids read at once, to the stack */

yk_status yk__windows_split(const yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, double *out,
                            yk_error *err)
{
    bool own = options->whole || (set->eval && options->like && strcmp(options->like->path, set->path) != 0);
    const double part = options->eval_split > 0 ? options->eval_split : 0.1;
    return yk__spec_real(spec, "split", !own ? 1 - part : set->eval ? 0 : 1, 0, 1, out, err);
}

/* In training every row is whole; in evaluation every id that has a next one counts once. */
static int64_t rows_count(const yk__windows *windows, bool eval)
{
    const int64_t places = windows->length - 1;
    if (eval)
        return places > 0 ? (places - 1) / windows->stride + 1 : 0;
    return places >= windows->seq_len ? (places - windows->seq_len) / windows->stride + 1 : 0;
}

yk_status yk__windows_cut(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err)
{
    yk__windows *windows = set->state;
    const int64_t width[] = {-1};
    yk_status st =
        yk__spec_int(spec, "seq-len", options->seq_len ? options->seq_len : 128, 1, 1 << 24, &windows->seq_len, err);
    if (!st)
        st = yk__spec_int(spec, "stride", windows->seq_len, 1, INT64_MAX, &windows->stride, err);
    if (st)
        return st;
    windows->stride = set->eval ? windows->seq_len : windows->stride;
    set->rows = rows_count(windows, set->eval);
    set->rows -= set->eval && set->mask && (windows->length - 1) % windows->seq_len; /* the model would attend to padding */
    if (set->rows < 1)
        return yk__fail(err, YK_E_FORMAT,
                        "%s: %" PRId64 " ids to %s: expected at least %" PRId64 " (split= and seq-len= change that)",
                        spec->path, windows->length, set->eval ? "evaluate" : "train",
                        set->eval ? (int64_t)2 : windows->seq_len + 1);
    yk__kind_field(set, "input_ids", YK_I32, 1, width);
    yk__kind_field(set, "labels", YK_I32, 1, width);
    return YK_OK;
}

int64_t yk__windows_width(const yk__dataset *set, const int64_t *rows, int64_t n)
{
    const yk__windows *windows = set->state;
    (void)rows, (void)n;
    return windows->seq_len;
}

/* Fills row `row`. Missing last ids are id 0, ignored as labels. */
static yk_status window_fill(const yk__windows *windows, int64_t row, int64_t width, int32_t *x, int32_t *y, yk_error *err)
{
    const int64_t at = row * windows->stride, left = windows->length - 1 - at, have = left < width ? left : width;
    int32_t ids[PIECE + 1];
    for (int64_t done = 0; done < have; done += PIECE) {
        const int64_t n = have - done < PIECE ? have - done : PIECE;
        if (windows->read(windows, windows->from + at + done, n + 1, ids, err))
            return err->status;
        memcpy(x + done, ids, (size_t)n * sizeof *ids);
        memcpy(y + done, ids + 1, (size_t)n * sizeof *ids);
    }
    for (int64_t k = have; k < width; k++) {
        x[k] = 0;
        y[k] = YK__NO_LABEL;
    }
    return YK_OK;
}

yk_status yk__windows_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                           yk_error *err)
{
    int32_t *x = buffers[0], *y = buffers[1];
    for (int64_t i = 0; i < n; i++)
        if (window_fill(set->state, rows[i], width, x + i * width, y + i * width, err))
            return err->status;
    return YK_OK;
}

void yk__windows_where(const yk__dataset *set, int64_t row, char *buf, size_t n)
{
    const yk__windows *windows = set->state;
    const int64_t from = windows->from + row * windows->stride;
    snprintf(buf, n, "%.200s: ids %lld to %lld", set->path, (long long)from, (long long)(from + windows->seq_len));
}

static yk_status bytes_read(const void *user, uint64_t at, void *to, size_t n, yk_error *err)
{
    const yk__windows *windows = user;
    return windows->read(windows, windows->from + (int64_t)(at / sizeof(int32_t)), (int64_t)(n / sizeof(int32_t)), to, err);
}

yk_status yk__windows_hash(const yk__dataset *set, uint64_t *hash, yk_error *err)
{
    const yk__windows *windows = set->state;
    *hash = yk__hash_u64(yk__hash_u64(*hash, (uint64_t)windows->stride), (uint64_t)windows->seq_len);
    return yk__kind_hash(bytes_read, windows, (uint64_t)windows->length * sizeof(int32_t), hash, err);
}
