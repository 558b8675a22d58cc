/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands: ranks of one host whose devices compute together without the host (yk.coll.1), as cards do by NCCL. Members of one add their
 * gradients up on the devices, each passes its part of the sum on to the other ranks, and updated parameters go from device to device.
 *
 * Order. The sum of an island is in its own order. With YOKE_REPRODUCIBILITY=rank sums are in the order of ranks, and only parameters
 * go from device to device; with run islands add first, where theirs is a fixed order (YK_COLL_FIXED_ORDER). Where all members of the job
 * are one island, gradients do not leave the devices, nor do parameters while no rank is excluded.
 *
 * An island is at work while all its ranks are members (core/coll/coll.h): all decide alike, from the roles. Over messages all members
 * submit what the island does before they wait for other ranks, as those may be held up by a device that waits for this one's.
 * Thread rule: the step thread.
 */
#ifndef YOKE_CORE_RUN_ISLANDS_H
#define YOKE_CORE_RUN_ISLANDS_H

#include "core/run/exchange.h"
#include "core/run/queue.h"

typedef struct yk__island {
    yk__queue *queue;
    const yk__exchange *exchange;
    const struct yk_coll *coll; /* of yoke/extension.h, as the next; NULL: this rank is in none */
    struct yk_comm *comm;
    uint32_t *rank;      /* [size], ascending */
    uint32_t size, own;  /* own: this rank's place among them */
    uint32_t *lead;      /* [world]: of each rank's island the lowest rank, if it adds in a fixed order; UINT32_MAX: none */
    bool *able;          /* [world]: the rank's plugin can join devices, whether it does in this job or not; NULL: not asked */
    bool reads_host;     /* some rank's device computes in the host's memory */
    bool in_rank_order;  /* sums have to be */
    bool asked;          /* it was opened */
} yk__island;

/* Once; collective over all ranks. Without others to join it is none, which is no error. Devices that plan only learn who they would be
 * joined with. */
yk_status yk__island_open(yk__island *island, yk__queue *queue, yk__exchange *exchange, yk_error *err);
/* Of an island that was joined: sums and a broadcast of known numbers, in some milliseconds; YK_E_DEVICE_LOST with the plugin, the
 * collective and the ranks where a result is wrong. yk__island_open does it, unless YOKE_PROBE is off. */
yk_status yk__island_probe(yk__island *island, yk_error *err);
/* What was submitted is done, or the job was given up. Zeros: nothing. */
void yk__island_close(yk__island *island);
/* Of a job that ends: what waits on the device for a member that is gone fails, and so does the queue. */
void yk__island_abort(yk__island *island);

bool yk__island_sums(const yk__island *island);    /* gradients are added up by it now */
bool yk__island_spreads(const yk__island *island); /* parameters go from device to device now */
/* The members of the job are the ranks of one island that adds up, so that nothing of gradients need leave the devices; the same on all
 * ranks. In rank order two members can: a sum of two numbers has one order. */
bool yk__island_holds_all(const yk__island *island);
/* Plugins of all members can join devices. Such a job decides alike whether it has an island, is told to have none, or is on two hosts. */
bool yk__island_could_hold_all(const yk__island *island);
/* All ranks are such members and have memory in common, of which no device of theirs computes in the host's: nobody takes gradients or
 * parameters from there. The same on all ranks, and on devices that plan only. */
bool yk__island_keeps_values(const yk__island *island);
/* The place of a rank in this rank's island; UINT32_MAX: it is in another, or in none. */
uint32_t yk__island_place(const yk__island *island, uint32_t rank);

/* number: of the bucket, for traces. */

/* Elements [*from, *to) of n at the beginning of a buffer become the island's sum; what the others become is undefined. Each member
 * has another part, and all parts are the n. It begins when `point` is done, beside the programs behind; yk__queue_get_overlapped is behind
 * it, and yk__queue_idle_overlapped waits for it. */
yk_status yk__island_reduce(yk__island *island, yk_buffer *b, uint64_t n, uint32_t number, uint64_t point, uint64_t *from, uint64_t *to,
                            yk_error *err);
/* The same, where each member's elements are those of its slice; all members of the job are in the island. */
yk_status yk__island_reduce_slices(yk__island *island, yk_buffer *b, const yk__slices *slice, uint32_t number, uint64_t point,
                                   yk_error *err);
/* n elements there become on every member those of the member at `place`. */
yk_status yk__island_broadcast(yk__island *island, yk__bound at, uint64_t n, uint32_t place, uint32_t number, yk_error *err);

#endif
