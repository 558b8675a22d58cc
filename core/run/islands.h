/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands: ranks of one host whose devices compute together without the host (yk.coll.1), as GPUs do by NCCL. Members of an island add
 * their gradients up on the devices, and each passes its part of the sum on to the other ranks. Updated parameters go from device to
 * device.
 *
 * Order. The sum of an island is in its own order. With YOKE_REPRODUCIBILITY=rank sums are in the order of ranks, and only parameters go
 * from device to device. An island of two that holds all members adds, too, as a + b and b + a have equal bits. With
 * YOKE_REPRODUCIBILITY=run islands add first if their order is fixed (YK_COLL_FIXED_ORDER). If all members of the job are one island,
 * gradients do not leave the devices, nor do parameters while no rank is excluded.
 *
 * An island is at work while all its ranks are members (core/coll/coll.h): all ranks decide alike, from the roles. Over messages all
 * members submit the island's requests before they wait for other ranks. Else a rank could be held up by a device that waits for this
 * one's. Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_ISLANDS_H
#define YOKE_CORE_RUN_ISLANDS_H

#include "core/run/exchange.h"
#include "core/run/queue.h"

#define YK__ISLAND_TICKET 256u /* bytes of a ticket at most */

typedef struct yk__island {
    yk__queue *queue;
    const yk__exchange *exchange;
    const struct yk_coll *coll; /* table of yoke/extension.h, as the next; NULL if this rank is in no island */
    struct yk_comm *comm;
    uint32_t *rank;      /* [size], ascending */
    uint32_t size, own;  /* own: this rank's index in `rank` */
    uint32_t *lead;      /* [world]: the lowest rank of each rank's island, if it adds in a fixed order; else UINT32_MAX */
    bool *able;          /* [world]: the rank's plugin can join devices, even if it does not in this job; NULL if not asked */
    bool reads_host;     /* some rank's device computes in the host's memory */
    bool in_rank_order;  /* sums must be in the order of ranks */
    bool asked;          /* yk__island_open has run */
} yk__island;

/* Opens the island, unless `asked` says that it was opened before; collective over all ranks. A rank without other ranks to join gets no
 * island, which is no error. Devices that plan only learn the ranks they would be joined with. */
yk_status yk__island_open(yk__island *island, yk__queue *queue, yk__exchange *exchange, yk_error *err);
/* island_join.c: yk_coll.join of this device, as member `own` of `size`, in the step thread. It ends with YK_E_CANCELLED soon after the
 * liveness thread sets *cancel, as a dead member never comes. The plugin's call then goes on by itself until its own limit, and the device
 * is lost: it is not closed any more. */
yk_status yk__island_join(yk__device *dev, const struct yk_coll *coll, const uint8_t *ticket, uint32_t bytes, uint32_t own, uint32_t size,
                          const volatile int *cancel, struct yk_comm **comm, yk_error *err);
/* Probes a joined island by sums and a broadcast of known numbers, in some milliseconds. A wrong result is YK_E_DEVICE_LOST, and the error
 * names the plugin, the collective and the ranks. It does nothing without an island, or with YOKE_PROBE=off. */
yk_status yk__island_probe(yk__island *island, yk_error *err);
/* Call it when all submitted commands are done, or the job was given up. It does nothing with zeros. */
void yk__island_close(yk__island *island);
/* For a job that ends: commands on the device that wait for a member that is gone fail, and so does the queue. */
void yk__island_abort(yk__island *island);

bool yk__island_sums(const yk__island *island);    /* the island adds gradients up now */
bool yk__island_spreads(const yk__island *island); /* parameters go from device to device now */
/* The members of the job are the ranks of one island that adds up, so gradients need not leave the devices. The result is the same on all
 * ranks. In rank order two members can add up, as a sum of two numbers has one order. */
bool yk__island_holds_all(const yk__island *island);
/* Plugins of all members can join devices. Such a job decides alike with an island, with islands turned off, and on two hosts. */
bool yk__island_could_hold_all(const yk__island *island);
/* All ranks are such members and have memory in common, and no device of theirs computes in the host's memory. So no rank takes gradients
 * or parameters from common memory. The same on all ranks, and on devices that plan only. */
bool yk__island_keeps_values(const yk__island *island);
/* The index of a rank in this rank's island; UINT32_MAX if it is in another, or in none. */
uint32_t yk__island_place(const yk__island *island, uint32_t rank);

/* In the next three functions number is the bucket's, for traces. */

/* Elements [*from, *to) of the first n of a buffer become the island's sum; the other elements become undefined. Each member has another
 * part, and the parts cover all n. The sum begins when `point` is done, and overlaps the programs behind that. A yk__queue_get_overlapped
 * waits for it on the device, yk__queue_idle_overlapped on the host. */
yk_status yk__island_reduce(yk__island *island, yk_buffer *b, uint64_t n, uint32_t number, uint64_t point, uint64_t *from, uint64_t *to,
                            yk_error *err);
/* The same, but each member's part is its slice. All members of the job are in the island. */
yk_status yk__island_reduce_slices(yk__island *island, yk_buffer *b, const yk__slices *slice, uint32_t number, uint64_t point,
                                   yk_error *err);
/* Copies n elements at `at` from the member at `place` to all members. */
yk_status yk__island_broadcast(yk__island *island, yk__bound at, uint64_t n, uint32_t place, uint32_t number, yk_error *err);

#endif
