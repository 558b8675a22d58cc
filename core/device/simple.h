/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small planner for checking devices: it wastes memory and does nothing clever, so that what it makes can be trusted
 * without the real planner. The start-up probe and yoke-cts use it.
 *
 * Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_DEVICE_SIMPLE_H
#define YOKE_CORE_DEVICE_SIMPLE_H

#include "core/device/device.h"
#include "core/graph/graph.h"

#define YK__GUARD_BYTE 0xA5 /* what gaps hold */

typedef struct yk__simple_how {
    uint32_t (*claims)(void *arg, const yk_graph *g, uint32_t node); /* NULL: no composite is replaced by its body */
    void *arg;
    uint64_t align; /* of every value; a power of two; 0: 64 */
    uint64_t gap;   /* bytes before and after every value in the arena and among the results */
    uint32_t arenas; /* slots of kind ARENA, in which values lie in turn; 0: one */
    bool share;     /* values whose last reader has run give their memory to later ones, elementwise nodes work in place */
    bool widen;     /* float values that nodes produce are stored as f64: the unrounded truth, for the reference */
} yk__simple_how;

/* A planned copy of a graph; value numbers are those of the original. */
typedef struct yk__simple {
    yk__graph g;
    yk_graph abi;    /* of g; for program_new and yk__eval_node */
    uint32_t result; /* the slot where the wanted values lie, each dense */
} yk__simple;

/* Wanted values are produced by nodes and dense; those that already have a slot stay there. */
yk_status yk__simple_new(const yk__graph *in, const yk__simple_how *how, uint32_t n_want, const yk__vid *want, yk__simple *s,
                         yk_error *err);
void yk__simple_free(yk__simple *s);

/* Host memory for all slots, arena and results filled with YK__GUARD_BYTE, the rest zero; NULL when memory is gone. */
void **yk__simple_slots(const yk__simple *s);
void yk__simple_slots_free(const yk__simple *s, void **slot);

/* Runs all nodes with the reference evaluator. */
yk_status yk__simple_eval(const yk__simple *s, void *const *slot, yk_error *err);
/* Runs it on a device: buffers made, slots written, program run, slots read back into `slot`, all released. */
yk_status yk__simple_run(const yk__simple *s, yk__device *dev, void *const *slot, yk_error *err);
/* The same, run so many times before the slots are read. */
yk_status yk__simple_runs(const yk__simple *s, yk__device *dev, void *const *slot, uint32_t runs, yk_error *err);
/* Runs it up to `runs` times, until that took `most` seconds: the least and the mean seconds of a run. Once before that, as drivers compile
 * what runs first; then await, where there is one, is called. */
yk_status yk__simple_time(const yk__simple *s, yk__device *dev, void *const *slot, uint32_t runs, double most, void (*await)(void *arg),
                          void *arg, double *least, double *mean, yk_error *err);
/* The first byte in a gap of the arena or the results that is not YK__GUARD_BYTE; -1: none. *where: the slot. */
int64_t yk__simple_gaps(const yk__simple *s, void *const *slot, uint32_t *where);

/* Whether a device claims a node: for yk__simple_how.claims with arg = yk__device. */
uint32_t yk__simple_claims(void *device, const yk_graph *g, uint32_t node);

/* Element i of a dense value as a double, and storing one (rounded to nearest even). */
double yk__element(const void *data, uint32_t dtype, uint64_t i);
void yk__element_set(void *data, uint32_t dtype, uint64_t i, double v);
/* Spacing of the type's numbers at 1. */
double yk__epsilon(uint32_t dtype);

#endif
