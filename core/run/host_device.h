/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host device of a rank that offloads (docs/decisions/0077), in place of a device with memory of its own. It is a processor that holds
 * the optimizer's moments and updates this rank's slices. It works on the blocks for exchanges. Gradients come there from the device, and
 * the device fetches updated values from there, as it does from other owners. Its queue is yk__params.updates. The step thread.
 */
#ifndef YOKE_CORE_RUN_HOST_DEVICE_H
#define YOKE_CORE_RUN_HOST_DEVICE_H

#include "core/run/exec.h"

typedef struct yk__host {
    yk__device *dev; /* NULL: the rank's own device updates */
    yk__queue queue;
    yk__exec exec;   /* runs the programs of the update */
} yk__host;

/* Opens the device at `place` for a rank with memory of its own; on another rank it does nothing. p->queue and p->exchange are open. */
yk_status yk__host_open(yk__host *host, yk__params *p, const yk__placement *place, yk_error *err);
void yk__host_close(yk__host *host); /* the layout is gone, and the device idle */
/* True if a rank of this device has its slices updated by the host. */
bool yk__host_serves(const yk__device *dev);

#endif
