/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of parameters in the compute format: which there are, where they lie, and which are old. A copy is there from the first program
 * on that reads it. Where all ranks of a job are processors that share memory and compute in one format, those of trained parameters are
 * once per host, and owners write them in the optimizer's pass; else each rank has its own and casts (compute.c). The step thread.
 */
#ifndef YOKE_CORE_RUN_VALUES_COPIES_H
#define YOKE_CORE_RUN_VALUES_COPIES_H

#include "core/run/exchange.h"

struct yk__params;
struct yk__param;

/* Which copies are not what the parameters are. */
typedef enum yk__stale { YK__FRESH, YK__STALE_TRAINED, YK__STALE_ALL } yk__stale;

typedef struct yk__copies {
    bool shared;           /* those of trained parameters are once per host */
    yk__coll_buffer block; /* these, each on pages of its own, behind a mark of each: some rank has made it */
    uint32_t n;            /* parameters with a copy */
    yk__stale stale;
} yk__copies;

/* With a layout whose buckets have their homes, and before these go. Collective, as layouts are. */
yk_status yk__copies_open(struct yk__params *p, yk_error *err);
void yk__copies_close(struct yk__params *p);

uint64_t yk__copy_bytes(const struct yk__params *p, const struct yk__param *q);
/* The copy of a parameter that has none, with undefined contents. By this rank alone. */
yk_status yk__copies_make(struct yk__params *p, struct yk__param *q, yk_error *err);
/* This rank knows of the copies that others have made; after a meeting of the members, before its update writes them. */
yk_status yk__copies_adopt(struct yk__params *p, yk_error *err);
/* Whether this rank's optimizer writes its slice of the copy. */
bool yk__copy_follows(const struct yk__params *p, const struct yk__param *q);
void yk__copies_changed(struct yk__params *p); /* an update has written the trained parameters */

#endif
