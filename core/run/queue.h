/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's queue as the engine uses it: buffers with an account of their bytes, transfers, points, waits.
 *
 * Buffers are counted when they are made and stop at a limit. Transfers and runs give points that only grow; last_point completes
 * everything that was submitted. One engine has one; it lives as long.
 */
#ifndef YOKE_CORE_RUN_QUEUE_H
#define YOKE_CORE_RUN_QUEUE_H

#include "core/run/tracer.h"

/* What bytes of the device are for. */
typedef enum yk__account {
    YK__PARAM_BYTES,
    YK__GRAD_BYTES,
    YK__STATE_BYTES,
    YK__ARENA_BYTES,
    YK__INPUT_BYTES,
    YK__SCRATCH_BYTES, /* what the plugin takes beside the slots */
    YK__ACCOUNTS
} yk__account;

typedef struct yk__queue {
    yk__device *dev;
    yk__tracer *tracer;         /* NULL: off */
    const volatile int *cancel; /* ends waits */
    uint64_t limit;             /* bytes held at most; 0: none */
    uint64_t budget;             /* bytes that the device has for this rank: plans keep to it where they can; 0: not known */
    uint64_t held, peak;        /* bytes of all accounts, now and at most */
    uint64_t bytes[YK__ACCOUNTS];
    uint64_t last_point;        /* of what was submitted last */
    uint64_t waited;            /* a point that is known to be done */
    uint64_t side_point;        /* of what was submitted last beside the programs; 0: nothing */
    uint64_t timed_point;       /* the end of a run that is timed; 0: none */
    double started, exchanging; /* of that run: when it was submitted; seconds it waited for other ranks */
    double busy_seconds;        /* of the last timed run: its own, without those */
} yk__queue;

/* CLOCK_MONOTONIC. */
double yk__seconds(void);

/* Bytes that plans keep to: the limit, or what the device has; 0: neither is known. */
uint64_t yk__queue_most(const yk__queue *q);
/* A buffer of the device. YK_E_MEM where it passes the limit, with both numbers. */
yk_status yk__queue_buffer(yk__queue *q, uint64_t bytes, yk_buffer **b, yk__account account, yk_error *err);
/* The device computes on host memory as it is: inputs need no transfer. */
bool yk__queue_wraps(const yk__queue *q);
/* A buffer over host memory, which counts like one of the device's. */
yk_status yk__queue_wrap(yk__queue *q, void *host, uint64_t bytes, yk_buffer **b, yk__account account, yk_error *err);
/* A buffer over memory that ranks share, where the device can; it is in no account. */
bool yk__queue_wrap_shared(yk__queue *q, float *shared, uint64_t bytes, yk_buffer **b);
void yk__queue_unbuffer(yk__queue *q, yk_buffer **b, uint64_t bytes, yk__account account); /* NULL: nothing */
void yk__queue_unwrap_shared(yk__queue *q, yk_buffer **b);
/* At least `bytes` in a shared scratch buffer; waits for the device before an old one goes. */
yk_status yk__queue_reserve(yk__queue *q, yk_buffer **b, uint64_t *have, uint64_t bytes, yk__account account, yk_error *err);
/* Adds bytes that the plugin takes. */
void yk__queue_count(yk__queue *q, uint64_t bytes, yk__account account);

/* Registers host memory, so that transfers from and to it go on beside the host and the device's programs, where the device has
 * such a way (YK_CAP_PINS). *pin NULL: it has not, or could not, which is logged: transfers go the slower way. */
void yk__queue_pin(yk__queue *q, void *memory, uint64_t bytes, yk_pin **pin);
void yk__queue_unpin(yk__queue *q, yk_pin **pin); /* before the memory goes; no transfer uses it any more. NULL: nothing */

/* Transfers; last_point completes them. src and dst stay until then. */
yk_status yk__queue_put(yk__queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err);
yk_status yk__queue_get(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err);
/* For a command beside the programs that uses what was submitted up to this point; 0: not known, all that was. */
yk_wait yk__queue_behind(const yk__queue *q, uint64_t point);
/* The same as soon as `point` is done, beside the programs that were submitted behind it, where the device has a queue for that; else
 * behind them. yk__queue_idle_overlapped waits for all of them. */
yk_status yk__queue_get_overlapped(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, uint64_t point, yk_error *err);
yk_status yk__queue_idle_overlapped(yk__queue *q, yk_error *err);
/* The same, waited for. */
yk_status yk__queue_write(yk__queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err);
yk_status yk__queue_read(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err);

yk_status yk__queue_wait(yk__queue *q, uint64_t point, yk_error *err);
yk_status yk__queue_idle(yk__queue *q, yk_error *err); /* until all is done */
/* Of a job that was aborted too: what was queued still reads and writes the buffers that are about to go. */
void yk__queue_drain(yk__queue *q);

#endif
