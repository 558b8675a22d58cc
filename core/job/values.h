/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of steps that the host wants or has. An entry is made by yk_keep, yk_item, yk_read or yk_backward; it lives to the
 * end of its step, one step longer where yk_keep says so, and as long as the accumulation window needs it.
 * Memory that a run may still write to is freed later; memory of what was read is used again.
 */
#ifndef YOKE_CORE_JOB_VALUES_H
#define YOKE_CORE_JOB_VALUES_H

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "core/graph/graph.h"
#include "core/run/run.h"

typedef struct yk__kept {
    uint16_t gen;
    uint8_t age;         /* steps that ended since */
    bool loss;           /* went through yk_backward: the sum over ranks is its value */
    bool outlives_step;
    bool sent, ready;    /* its run was submitted; the data is here */
    bool summed;
    bool part;           /* one number that is this rank's part of a sum over the ranks */
    bool own_counts;     /* sent before the ranks' counts were added up: a mean is of this rank's items */
    bool absent;         /* follows from what the members exchanged in a step that this excluded rank took no part in */
    bool pinned, handle_over; /* its number is still wanted by the window; the user's handle is dead */
    yk__vid vid, source; /* source: the dense value that is read */
    double factor;       /* of a loss that all ranks have alike: local / global rows */
    double items;        /* of a part: how many of this rank's it is the mean of; below 0: it is a sum */
    uint64_t ticket, bytes;
    yk_value value;      /* type and shape */
    void *host;
    uint64_t capacity;   /* bytes of that memory */
    double sum;
} yk__kept;

/* Host memory of a value that was read, to be used again. */
typedef struct yk__spare {
    void *memory;
    uint64_t bytes;
} yk__spare;

#define YK__SPARES 8

typedef struct yk__values {
    yk__kept *kept;
    size_t n_kept, cap_kept;
    void **deferred; /* host memory a run may still write to: freed later */
    size_t n_deferred, cap_deferred;
    yk__spare spare[YK__SPARES];
} yk__values;

/* The entry of value `vid` of generation `gen`; NULL. */
yk__kept *yk__kept_find(const yk__values *v, uint16_t gen, yk__vid vid);
/* A new entry of the given type and shape, its memory zeroed; NULL: no memory, and err says so. `source` may be another value. */
yk__kept *yk__kept_new(yk__values *v, uint16_t gen, yk__vid vid, yk__vid source, const yk_value *type, yk_error *err);
/* A step has ended. The engine may be NULL, when nothing runs any more. */
void yk__values_age(yk__values *v, yk__engine *e);
void yk__values_free(yk__values *v, yk__engine *e);
double yk__kept_first(const yk__kept *k); /* its first element, which is here */

#endif
