/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of the table of ways (core/run/way.h) for the only member of several ranks, while the other ranks are excluded. The update
 * (core/run/update.c) calls its columns in the step thread.
 *
 * The member has nothing to add up: through the host a device with memory of its own would send all gradients twice a step. Its device
 * goes on with the next step at once, and no values leave it until another rank asks (docs/decisions/0052). So the time of its update
 * stays the one measured among several members.
 */
#include "core/run/ways/ways.h"

static bool sole_fits(const yk__params *p)
{
    return yk__exchange_members(p->exchange) == 1;
}

static yk_status publish_later(yk__updater *u, yk_error *err)
{
    if (yk__exchange_is_read(u->params->exchange))
        return yk__way_publish_through(u, err);
    yk__copies_changed(u->params);
    u->params->values = YK__VALUES_UNPUBLISHED;
    return YK_OK;
}

const yk__way yk__way_sole = {
    .name = "sole", .fits = sole_fits, .reduce = yk__way_reduces_nothing, .norm = yk__way_norm_on_device, .publish = publish_later};
