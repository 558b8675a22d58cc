/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small planner for checking devices. It wastes memory and is simple enough to be trusted without the real planner. The start-up probe
 * and yoke-cts use it.
 *
 * Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_DEVICE_SIMPLE_H
#define YOKE_CORE_DEVICE_SIMPLE_H

#include "core/device/device.h"
#include "core/graph/graph.h"

#define YK__GUARD_BYTE 0xA5 /* contents of the gaps; not those of a NaN, which arithmetic may store as it was */

typedef struct yk__simple_how {
    uint32_t (*claims)(void *arg, const yk_graph *g, uint32_t node); /* NULL to keep every composite */
    void *arg;
    uint64_t align; /* alignment of every value, a power of two; 0 means 64 */
    uint64_t gap;   /* bytes before and after every value in the arena and among the results */
    uint32_t arenas; /* slots of kind ARENA, used in turn; 0 means 1 */
    bool share;     /* a value's memory is reused after its last reader, and elementwise nodes work in place */
    uint32_t product_bits; /* yk__simple_eval rounds operands of products to so many bits (yk_device_caps.product_bits); 0: it does not */
    bool widen;     /* stores float values of nodes as f64, so that the reference is unrounded */
} yk__simple_how;

/* A planned copy of a graph, with the original's value numbers. */
typedef struct yk__simple {
    yk__graph g;
    yk_graph abi;    /* view of g for program_new and yk__eval_node */
    uint32_t product_bits;
    uint32_t result; /* slot of the wanted values, each dense */
} yk__simple;

/* Plans a copy. Nodes must produce the wanted values, dense; a wanted value with a slot stays there. */
yk_status yk__simple_new(const yk__graph *in, const yk__simple_how *how, uint32_t n_want, const yk__vid *want, yk__simple *s,
                         yk_error *err);
void yk__simple_free(yk__simple *s);

/* Host memory for all slots: in arena and results NaN where values come, YK__GUARD_BYTE between them; zero in the other slots. NULL if
 * memory is out. */
void **yk__simple_slots(const yk__simple *s);
void yk__simple_slots_free(const yk__simple *s, void **slot);

/* Runs all nodes with the reference evaluator. */
yk_status yk__simple_eval(const yk__simple *s, void *const *slot, yk_error *err);
/* Runs the plan on a device: makes buffers, writes slots, runs the program, reads the slots into `slot`, and frees everything. */
yk_status yk__simple_run(const yk__simple *s, yk__device *dev, void *const *slot, yk_error *err);
/* The same, with so many runs before it reads the slots. */
yk_status yk__simple_runs(const yk__simple *s, yk__device *dev, void *const *slot, uint32_t runs, yk_error *err);
/* Times the plan on a device: the least and the mean seconds over up to `runs` runs, or `most` seconds. It runs once before, as drivers
 * compile at the first run, and then calls await (may be NULL). */
yk_status yk__simple_time(const yk__simple *s, yk__device *dev, void *const *slot, uint32_t runs, double most, void (*await)(void *arg),
                          void *arg, double *least, double *mean, yk_error *err);
/* Offset of the first byte in a gap of arena or results that is not YK__GUARD_BYTE, or -1. *where: its slot. */
int64_t yk__simple_gaps(const yk__simple *s, void *const *slot, uint32_t *where);

/* The device's claims, for yk__simple_how.claims with arg = yk__device. */
uint32_t yk__simple_claims(void *device, const yk_graph *g, uint32_t node);

/* Element i of a dense value as a double; the second stores one, rounded to nearest even. */
double yk__element(const void *data, uint32_t dtype, uint64_t i);
void yk__element_set(void *data, uint32_t dtype, uint64_t i, double v);
/* Distance between 1 and the type's next number. */
double yk__epsilon(uint32_t dtype);

#endif
