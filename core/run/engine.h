/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine as its own files see it: a device's queue, exchanges with other ranks, parameters, execution, update, snapshot. Each part
 * knows the parts before it. Functions that need several parts stand in the engine's files (api.c, param_layout.c, micro.c, sliced_state.c,
 * roles.c, param_hash.c).
 */
#ifndef YOKE_CORE_RUN_ENGINE_H
#define YOKE_CORE_RUN_ENGINE_H

#include "core/run/values/fetch.h"
#include "core/run/host_device.h"
#include "core/run/update.h"
#include "core/run/values/snapshot.h"
#include "core/run/values/state_file.h"
#include "core/run/ways/powersgd.h"

#define YK__TICKETS 64

struct yk__engine {
    yk__queue queue;
    yk__exchange exchange;
    yk__params params;
    yk__exec exec;
    yk__host host;
    yk__updater updater;
    yk__snapshot snapshot;
    yk__fetches fetches;
    uint64_t ticket, ticket_point[YK__TICKETS];
};

/* param_layout.c: makes the layout if it is not made yet. Collective. */
yk_status yk__engine_lay_out(yk__engine *e, yk_error *err);

#endif
