/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step values that the host wants or has. yk_keep, yk_item, yk_read or yk_backward makes an entry. It lives until its step ends, one
 * step longer after yk_keep, and as long as the accumulation window needs it.
 * Memory that a run may still write to is freed later; memory of values that were read is reused.
 */
#ifndef YOKE_CORE_JOB_HOST_VALUES_H
#define YOKE_CORE_JOB_HOST_VALUES_H

#define YK_NO_HERE
#include <yoke/yoke.h>

#include "core/graph/graph.h"
#include "core/run/run.h"

typedef struct yk__kept {
    uint16_t gen;
    uint8_t age;         /* steps that ended since */
    bool loss;           /* went through yk_backward: its value is the sum over ranks */
    bool outlives_step;
    bool sent, ready;    /* its run was submitted; its data is here */
    bool summed;
    bool part;           /* a number that is this rank's part of a sum over the ranks */
    bool own_counts;     /* sent before the ranks' counts were summed: a mean is of this rank's items */
    bool absent;         /* depends on the members' exchange in a step without this excluded rank */
    bool pinned, handle_over; /* the window still needs its number; the user's handle is dead */
    yk__vid vid, source; /* source: the dense value to read */
    double factor;       /* for a loss that all ranks share: local / global rows */
    double items;        /* for a part: number of this rank's items in the mean; below 0 for a sum */
    uint64_t ticket, bytes;
    yk_value value;      /* type and shape */
    void *host;
    uint64_t capacity;   /* bytes of that memory */
    double sum;
} yk__kept;

/* Host memory of a value that was read, for reuse. */
typedef struct yk__spare {
    void *memory;
    uint64_t bytes;
} yk__spare;

#define YK__SPARES 8

typedef struct yk__values {
    yk__kept *kept;
    size_t n_kept, cap_kept;
    void **deferred; /* host memory that a run may still write to: freed later */
    size_t n_deferred, cap_deferred;
    yk__spare spare[YK__SPARES];
} yk__values;

/* The entry of value `vid` of generation `gen`; NULL if there is none. */
yk__kept *yk__kept_find(const yk__values *v, uint16_t gen, yk__vid vid);
/* Makes an entry of the given type and shape with zeroed memory; NULL, with err, if memory is out. `source` may be another value. */
yk__kept *yk__kept_new(yk__values *v, uint16_t gen, yk__vid vid, yk__vid source, const yk_value *type, yk_error *err);
/* Called at the end of a step. The engine may be NULL if nothing runs. */
void yk__values_age(yk__values *v, yk__engine *e);
void yk__values_free(yk__values *v, yk__engine *e);
double yk__kept_first(const yk__kept *k); /* its first element; the data must be here */

#endif
