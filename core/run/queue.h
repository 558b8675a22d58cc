/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device's queue as the engine uses it: buffers with an account of their bytes, transfers, points, waits.
 *
 * Buffers are counted when they are made and stop at a limit. Transfers and runs give points that only grow; last_point completes all
 * submitted commands. One engine has one queue, which lives as long as the engine.
 */
#ifndef YOKE_CORE_RUN_QUEUE_H
#define YOKE_CORE_RUN_QUEUE_H

#include "core/run/remedies.h"
#include "core/run/tracer.h"

/* The purpose of bytes of the device. */
typedef enum yk__account {
    YK__PARAM_BYTES,
    YK__GRAD_BYTES,
    YK__STATE_BYTES,
    YK__ARENA_BYTES,
    YK__INPUT_BYTES,
    YK__SCRATCH_BYTES, /* memory of the plugin beside the slots */
    YK__ACCOUNTS
} yk__account;

typedef struct yk__queue {
    yk__device *dev;
    yk__tracer *tracer;         /* NULL if off */
    const volatile int *cancel; /* ends waits */
    void (*abort)(void *island); /* ends commands that wait for other ranks; NULL if no command does */
    void *island;
    uint64_t limit;             /* bytes held at most; 0: no limit */
    uint64_t budget;             /* bytes that the device has for this rank: plans keep to it if they can; 0: not known */
    yk__remedies open;           /* options that this job does not use, and that keep memory free */
    char place[96];              /* the text that open.place points to */
    uint64_t held, peak;        /* bytes of all accounts, now and at most */
    uint64_t bytes[YK__ACCOUNTS];
    uint64_t last_point;        /* point of the last command */
    uint64_t waited;            /* the last point that is known to be done */
    uint64_t side_point;        /* point of the last command beside the programs; 0: none */
    uint64_t timed_point;       /* the end of a run that is timed; 0: none */
    double started, exchanging; /* that run's time of submission; seconds it waited for other ranks */
    double busy_seconds;        /* the last timed run's own seconds, without those of exchanges */
} yk__queue;

/* Memory of the device that a program or a transfer uses. */
typedef struct yk__bound {
    yk_buffer *buffer;
    uint64_t offset; /* bytes */
} yk__bound;

/* Bytes that plans keep to: the limit, or the device's memory; 0 if neither is known. */
uint64_t yk__queue_most(const yk__queue *q);
/* Adds the remedies to a lack of memory, for `bytes` more of an account where `reserve` are left (0: unknown); returns its status. */
yk_status yk__queue_advise(const yk__queue *q, yk__account account, uint64_t bytes, uint64_t reserve, yk_error *err);
/* The same where the parts that are too large are known. */
yk_status yk__queue_advise_lack(const yk__queue *q, const yk__lack *lack, yk_error *err);
/* Makes a buffer of the device. YK_E_MEM, with its size and the limit, if it passes the limit. */
yk_status yk__queue_buffer(yk__queue *q, uint64_t bytes, yk_buffer **b, yk__account account, yk_error *err);
/* The device computes on host memory as it is: inputs need no transfer. */
bool yk__queue_wraps(const yk__queue *q);
/* A buffer over host memory, which counts like one of the device's. */
yk_status yk__queue_wrap(yk__queue *q, void *host, uint64_t bytes, yk_buffer **b, yk__account account, yk_error *err);
/* Makes a buffer over memory that ranks share; false if the device cannot. It is in no account. */
bool yk__queue_wrap_shared(yk__queue *q, float *shared, uint64_t bytes, yk_buffer **b);
void yk__queue_unbuffer(yk__queue *q, yk_buffer **b, uint64_t bytes, yk__account account); /* *b may be NULL */
void yk__queue_unwrap_shared(yk__queue *q, yk_buffer **b);
/* Makes a shared scratch buffer of at least `bytes`; waits for the device before it frees an old one. */
yk_status yk__queue_reserve(yk__queue *q, yk_buffer **b, uint64_t *have, uint64_t bytes, yk__account account, yk_error *err);
/* Adds bytes that the plugin takes to an account. */
void yk__queue_count(yk__queue *q, uint64_t bytes, yk__account account);

/* Registers host memory, so that transfers from and to it overlap the host and the device's programs (YK_CAP_PINS). A device that cannot
 * gives *pin NULL, and transfers take the slower way. So does a failure, which is logged. */
void yk__queue_pin(yk__queue *q, void *memory, uint64_t bytes, yk_pin **pin);
void yk__queue_unpin(yk__queue *q, yk_pin **pin); /* before the memory goes, when no transfer uses it any more; may be NULL */

/* Transfers; last_point completes them. src and dst stay until then. */
yk_status yk__queue_put(yk__queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err);
yk_status yk__queue_get(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err);
/* The wait of a command beside the programs that uses results up to this point; 0: point not known, waits for all submitted commands. */
yk_wait yk__queue_behind(const yk__queue *q, uint64_t point);
/* The same as soon as `point` is done. It overlaps the programs submitted behind that point if the device has a queue for it, else it runs
 * behind them. yk__queue_idle_overlapped waits for all such transfers. */
yk_status yk__queue_get_overlapped(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, uint64_t point, yk_error *err);
yk_status yk__queue_idle_overlapped(yk__queue *q, yk_error *err);
/* The same with a wait for the end. After a failure nothing uses the host's memory any more. */
yk_status yk__queue_write(yk__queue *q, yk_buffer *b, uint64_t offset, const void *src, uint64_t bytes, yk_error *err);
yk_status yk__queue_read(yk__queue *q, yk_buffer *b, uint64_t offset, void *dst, uint64_t bytes, yk_error *err);

yk_status yk__queue_wait(yk__queue *q, uint64_t point, yk_error *err);
yk_status yk__queue_idle(yk__queue *q, yk_error *err); /* waits for all commands */
/* The same, and if the job ends meanwhile, until the device has stopped: then memory and programs that it used may go. */
yk_status yk__queue_finish(yk__queue *q, yk_error *err);
/* Ends the device's work early if its plugin can. It aborts the island first: a dead rank's collective holds up all commands behind it. */
void yk__queue_stop(yk__queue *q);
/* Waits in an aborted job, too: queued commands still read and write the buffers that are about to go. */
void yk__queue_drain(yk__queue *q);

#endif
