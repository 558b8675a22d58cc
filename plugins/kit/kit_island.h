/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An island whose members are devices of one process: the common part of yk.coll.1 for a plugin whose library runs a collective for all
 * members in one call. Members come together in the threads of their queues (kit_queue.h); the last one to come runs the collective, and
 * the other ones wait for it. The kit checks that all members ask for the same, and turns the fault of one into the same failure of all.
 * A member is at one meeting at a time, so its collectives are for one queue, or wait for each other.
 *
 * The kit defines struct yk_comm. A member that waits looks at its own queue every 20 ms, so an aborted queue ends the whole island.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_ISLAND_H
#define YOKE_PLUGINS_KIT_KIT_ISLAND_H

#include <stdbool.h>

#include <yoke/extension.h>

#include "plugins/kit/kit_queue.h"

#define KIT_ISLAND_MOST 64u /* members */

/* The plugin's part, the same for all islands; it must outlive them. A function that returns false, or NULL, has set `why`. */
typedef struct kit_island_ops {
    const yk_host *host;
    const char *plugin; /* name in messages */
    uint64_t (*bytes)(const yk_buffer *b);
    /* All members have come: the plugin's own data of the island. NULL, if these devices cannot be joined. */
    void *(*begin)(yk_device *const *dev, uint32_t ranks, char why[KIT_WHY]);
    void (*end)(void *own);
    /* In the thread of the member's queue: its operand, for work; give releases it. The operation's points are done. */
    void *(*take)(yk_device *dev, const yk_coll_op *op, uint32_t ranks, char why[KIT_WHY]);
    void (*give)(void *operand);
    /* In one member's thread, for all: a result of each operand. Without success there are no results. */
    bool (*work)(void *own, const yk_coll_op *op, uint32_t ranks, void *const *operand, void **result, char why[KIT_WHY]);
    /* In the thread of the member's queue: stores its result, which it owns. */
    bool (*put)(yk_device *dev, const yk_coll_op *op, uint32_t ranks, void *result, char why[KIT_WHY]);
} kit_island_ops;

/* The functions of yk_coll, but for `island`. */
yk_status kit_island_ticket(const kit_island_ops *ops, uint8_t ticket[256], uint32_t *bytes);
yk_status kit_island_join(yk_device *dev, const uint8_t *ticket, uint32_t bytes, uint32_t rank, uint32_t ranks, yk_comm **comm,
                          const kit_island_ops *ops);
void kit_island_leave(yk_comm *comm);
void kit_island_abort(yk_comm *comm);
/* The plugin has checked the types. Its queues have kit_island_drop in kit_queue_ops.drop, and no other calls. */
yk_status kit_island_run(yk_queue *q, yk_comm *comm, const yk_coll_op *op, uint64_t *point);
void kit_island_drop(void *arg);
/* Frees the islands that nobody joined; for the plugin's end. */
void kit_islands_forget(const yk_host *host);

#endif
