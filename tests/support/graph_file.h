/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of graphs against files: tensors of a safetensors file as leaves of a lab. */
#ifndef YOKE_TESTS_SUPPORT_GRAPH_FILE_H
#define YOKE_TESTS_SUPPORT_GRAPH_FILE_H

#include <jansson.h>
#include <stdio.h>

#include "core/graph/graph_internal.h"
#include "core/io/safetensors.h"
#include "tests/support/graph_lab.h"

typedef struct file_lab {
    lab lab;
    yk__safetensors *tensors;
    json_t *attrs;
} file_lab;

static inline const char *test_data(const char *path, char *buf, size_t n)
{
    const char *root = getenv("YOKE_TEST_DATA");
    snprintf(buf, n, "%s/%s", root ? root : "../shared/data", path);
    return buf;
}

/* All elements as doubles; to be freed. NULL: a type that is not computed with. */
static inline double *file_numbers(const file_lab *f, const yk__safetensor *t)
{
    yk_error err = YK_ERROR_INIT;
    const void *p;
    double *x;
    if (t->dtype < 0 || yk__safetensors_data(f->tensors, t, &p, &err))
        return NULL;
    x = calloc((size_t)t->elements + 1, sizeof *x);
    for (int64_t i = 0; i < t->elements; i++)
        x[i] = yk__eval_load((uint32_t)t->dtype, (const char *)p + i * (int64_t)yk_dtype_bytes((uint32_t)t->dtype));
    return x;
}

/* A leaf with the tensor's numbers: every float as `real`, whole numbers as i32, u8 and bool as they are. */
static inline yk__vid file_leaf(file_lab *f, const yk__safetensor *t, yk_dtype real)
{
    double *x = t ? file_numbers(f, t) : NULL;
    yk_dtype type;
    yk__vid v;
    if (!x)
        return YK_NONE;
    type = yk__dtype_is_float((uint32_t)t->dtype)     ? real
           : t->dtype == YK_U8 || t->dtype == YK_BOOL ? (yk_dtype)t->dtype
                                                      : YK_I32;
    v = lab_leaf(&f->lab, type, (uint32_t)t->rank, t->shape);
    for (int64_t i = 0; i < t->elements; i++) {
        void *data = f->lab.data[f->lab.n_slot - 1];
        if (type == YK_I32)
            ((int32_t *)data)[i] = x[i] < -2147483647 ? -2147483647 : x[i] > 2147483647 ? 2147483647 : (int32_t)x[i];
        else if (type == real)
            ((double *)data)[i] = x[i];
        else
            ((uint8_t *)data)[i] = (uint8_t)x[i];
    }
    free(x);
    return v;
}

/* The largest error of a value in units of abs + rel |want|; infinite where the shapes differ. */
static inline double file_worst(file_lab *f, yk__vid v, const yk__safetensor *t, double abs, double rel)
{
    double *want = file_numbers(f, t), *got, worst = 0;
    if (!want || v == YK_NONE || yk__value_count(&f->lab.graph.value[v]) != t->elements) {
        free(want);
        return INFINITY;
    }
    got = lab_value(&f->lab, &f->lab.graph, v);
    for (int64_t i = 0; i < t->elements; i++) {
        double d = fabs(got[i] - want[i]) / (abs + rel * fabs(want[i]));
        if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i])))
            continue;
        worst = d > worst || isnan(d) ? (isnan(d) ? INFINITY : d) : worst;
    }
    free(got);
    free(want);
    return worst;
}

static inline int64_t attr_int(const file_lab *f, const char *key, int64_t preset)
{
    const json_t *v = json_object_get(f->attrs, key);
    return json_is_integer(v) ? json_integer_value(v) : json_is_boolean(v) ? json_is_true(v) : preset;
}

static inline double attr_real(const file_lab *f, const char *key, double preset)
{
    const json_t *v = json_object_get(f->attrs, key);
    return json_is_number(v) ? json_number_value(v) : preset;
}

static inline const char *attr_text(const file_lab *f, const char *key, const char *preset)
{
    const json_t *v = json_object_get(f->attrs, key);
    return json_is_string(v) ? json_string_value(v) : preset;
}

/* Element i of a list, or the number itself. */
static inline int64_t attr_at(const file_lab *f, const char *key, size_t i, int64_t preset)
{
    const json_t *v = json_object_get(f->attrs, key);
    if (json_is_integer(v))
        return json_integer_value(v);
    return i < json_array_size(v) ? json_integer_value(json_array_get(v, i)) : preset;
}

static inline bool file_open(file_lab *f, const char *path)
{
    yk_error err = YK_ERROR_INIT;
    memset(f, 0, sizeof *f);
    if (yk__safetensors_open(path, &f->tensors, &err))
        return false;
    lab_begin(&f->lab, 1);
    return true;
}

static inline void file_close(file_lab *f)
{
    lab_end(&f->lab);
    yk__safetensors_close(f->tensors);
}

#endif
