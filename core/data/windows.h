/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a running text: windows of seq-len ids, with the ids one further as labels. A split cuts it into a part that trains and one that
 * evaluates. Keys: seq-len, stride, split.
 *
 * The state of such a kind begins with a yk__windows.
 */
#ifndef YOKE_CORE_DATA_WINDOWS_H
#define YOKE_CORE_DATA_WINDOWS_H

#include "core/data/kind.h"

typedef struct yk__windows yk__windows;

struct yk__windows {
    /* Writes ids [first, first + count) of the whole running text. Any thread, several at once. */
    yk_status (*read)(const yk__windows *windows, int64_t first, int64_t count, int32_t *ids, yk_error *err);
    int64_t from, length;     /* the part that rows are made of */
    int64_t stride, seq_len;
};

/* *out: the part of the whole that trains. A separate file beside the training data evaluates whole, and then the training data trains
 * whole. */
yk_status yk__windows_split(const yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, double *out,
                            yk_error *err);
/* Sets the rows of the part given by from and length. */
yk_status yk__windows_cut(yk__dataset *set, const yk__spec *spec, const yk__dataset_options *options, yk_error *err);

/* The functions of the kind's table. */
int64_t yk__windows_width(const yk__dataset *set, const int64_t *rows, int64_t n);
yk_status yk__windows_fill(const yk__dataset *set, const int64_t *rows, int64_t n, int64_t width, void *const *buffers,
                           yk_error *err);
void yk__windows_where(const yk__dataset *set, int64_t row, char *buf, size_t n);
yk_status yk__windows_hash(const yk__dataset *set, uint64_t *hash, yk_error *err);

#endif
