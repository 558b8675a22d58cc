/* SPDX-License-Identifier: Apache-2.0 */
/* Small questions about sizes, values and operations of a graph that every plugin asks. No state: any thread. */
#ifndef YOKE_PLUGINS_KIT_VALUE_H
#define YOKE_PLUGINS_KIT_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include <yoke/plugin.h>

static inline int64_t kit_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t kit_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a / b, rounded up; both are positive. */
static inline int64_t kit_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The least multiple of b that is not less than a. */
static inline int64_t kit_round_up(int64_t a, int64_t b)
{
    return kit_div_up(a, b) * b;
}

/* The same of bytes. */
static inline size_t kit_round_bytes(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* The name of an operation, for messages; "?" if unknown. */
static inline const char *kit_op_name(uint32_t op)
{
    static const char *const names[] = {
#define KIT_OP_NAME(e, number, name, ...) [e] = name,
        YK_OP_TABLE(KIT_OP_NAME)
#undef KIT_OP_NAME
    };
    return op < sizeof names / sizeof *names && names[op] ? names[op] : "?";
}

static inline int64_t kit_value_count(const yk_value *v)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < v->dims; d++)
        n *= v->dim[d];
    return n;
}

/* True if its elements are contiguous, the last dimension fastest. */
static inline bool kit_value_dense(const yk_value *v)
{
    int64_t stride = 1;
    for (uint32_t d = v->dims; d-- > 0; stride *= v->dim[d])
        if (v->dim[d] != 1 && v->stride[d] != stride)
            return false;
    return true;
}

#endif
