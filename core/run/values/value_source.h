/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a parameter that need not be in memory: they are made, or read from a file, by range. */
#ifndef YOKE_CORE_RUN_VALUES_VALUE_SOURCE_H
#define YOKE_CORE_RUN_VALUES_VALUE_SOURCE_H

#include "core/base/error.h"

typedef struct yk__source {
    /* Writes elements [from, from + n), in the step thread. NULL if there is no source. */
    yk_status (*read)(void *object, uint64_t from, uint64_t n, float *out, yk_error *err);
    void (*free)(void *object); /* NULL if the object is the caller's */
    void *object;
    uint64_t sign; /* equal on all ranks if the values are equal; ranks compare it */
} yk__source;

#endif
