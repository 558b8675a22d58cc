/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin linked into tests: every node runs through the reference evaluator, on ordinary memory, at once. */
#ifndef YOKE_TESTS_SUPPORT_REFPLUGIN_H
#define YOKE_TESTS_SUPPORT_REFPLUGIN_H

#include "core/device/device.h"

enum { REF_CLAIM_NONE, REF_CLAIM_ALL, REF_CLAIM_ADD }; /* ... also with YK_NODE_ACCUMULATE */

typedef struct ref_state {
    int claim;
    int strided;            /* and YK_CLAIM_STRIDED_OUT */
    int wrap;               /* computes on host memory: YK_CAP_WRAP, and what processors have */
    uint32_t align;
    uint64_t max_alloc;     /* bytes of a buffer, which its capabilities do not say; 0: no limit */
    uint64_t bytes, buffers; /* held by buffer_new */
    uint64_t programs, runs, copied; /* copied: bytes */
    int checks;             /* 1: an index outside of its table fails, when the queue is waited for; 2: a log is no operation it has */
    uint32_t aborts;
    uint32_t own;           /* calls, but for those that ask, while no act of this process says what it is in */
    uint32_t update_ms;     /* what an optimizer's program takes besides */
    uint32_t leave_ms;      /* time of queue_free, as of a plugin whose device runs on */
    bool takes_signals; /* opening it installs a handler of SIGTERM, and blocks SIGUSR1 */
    int late;               /* an optimizer's program runs when its point, or a later command of its queue, needs it */
    int breaks;             /* an optimizer's program fails, which shows when the queue is waited for */
    int hangs; /* 1: nothing is ever finished, 2: and a thread computes; 3 and more: so many waits last, points are finished */
} ref_state;
extern ref_state ref;

uint32_t ref_claims(void *arg, const yk_graph *g, uint32_t node); /* its claims, for plan requests */
extern const yk_device_caps ref_caps;
yk_status ref_register(yk_error *err); /* once; jobs name its device "ref" */
/* Registers the plugin and opens its device. */
yk_status ref_open(yk__device **dev, yk_error *err);

#endif
