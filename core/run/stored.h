/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for values that a program's forward leaves for its backward (core/plan/away.c). It grows to the largest plan, and is pinned
 * if the device can. Zeros: none yet. The step thread.
 */
#ifndef YOKE_CORE_RUN_STORED_H
#define YOKE_CORE_RUN_STORED_H

#include "core/run/actions.h"
#include "core/run/queue.h"

typedef struct yk__stored {
    char *host; /* NULL on a device that plans only */
    yk_pin *pin;
    uint64_t bytes;
    uint64_t point; /* the last copy to it */
} yk__stored;

/* It waits for the device before it frees an old block. */
yk_status yk__stored_reserve(yk__stored *s, yk__queue *q, uint64_t bytes, yk_error *err);
void yk__stored_free(yk__stored *s, yk__queue *q); /* no copy uses it any more */

/* Starts of the actions STORE and LOAD. */
yk_status yk__store_start(struct yk__exec *exec, struct yk__prog *p, const yk__action *a, yk_error *err);
yk_status yk__load_start(struct yk__exec *exec, struct yk__prog *p, const yk__action *a, yk_error *err);

#endif
