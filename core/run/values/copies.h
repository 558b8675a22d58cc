/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of parameters in the compute format: their list, their memory, and their age. A copy exists from the first program on that reads
 * it. Copies of trained parameters are once per host if all ranks of a job are processors that share memory and compute in one format. Then
 * owners write them in the optimizer's pass. Else each rank has its own and casts (compute.c). The step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_COPIES_H
#define YOKE_CORE_RUN_VALUES_COPIES_H

#include "core/run/exchange.h"

struct yk__params;
struct yk__param;

/* The copies that are older than their parameters. */
typedef enum yk__stale { YK__FRESH, YK__STALE_TRAINED, YK__STALE_ALL } yk__stale;

typedef struct yk__copies {
    bool shared;           /* copies of trained parameters are once per host */
    yk__coll_buffer block; /* shared copies, each on pages of its own, behind a mark for each that some rank has made it */
    uint32_t n;            /* parameters with a copy */
    yk__stale stale;
} yk__copies;

/* Open with a layout whose buckets have homes; close before these go. Collective, as layouts are. */
yk_status yk__copies_open(struct yk__params *p, yk_error *err);
void yk__copies_close(struct yk__params *p);

uint64_t yk__copy_bytes(const struct yk__params *p, const struct yk__param *q);
/* Makes the copy of a parameter that has none, with undefined contents. This rank calls it alone. */
yk_status yk__copies_make(struct yk__params *p, struct yk__param *q, yk_error *err);
/* Adopts the shared copies that other ranks have made. Call it after a meeting of the members, before this rank's update writes them. */
yk_status yk__copies_adopt(struct yk__params *p, yk_error *err);
/* True if this rank's optimizer writes its slice of the copy. */
bool yk__copy_follows(const struct yk__params *p, const struct yk__param *q);
void yk__copies_changed(struct yk__params *p); /* an update has written the trained parameters */

#endif
