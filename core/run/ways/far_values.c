/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of the table of ways (core/run/way.h) for far slices, in front of other rows (values/far_slices.h). An update leaves each owner's
 * new values in its own memory, and other ranks pull them from there. The updater (core/run/update.c) calls `publish` in the step thread,
 * after an update has written this rank's slices. So nothing is gathered, and no rank has a block of all parameters. The rows behind it in
 * choose.c give the columns `reduce` and `norm`.
 */
#include "core/run/ways/ways.h"

static bool far_fits(const yk__params *p)
{
    return p->far;
}

/* yk__copies_changed marks the parameters' copies in the compute format as old. yk__params_publish copies this rank's slices from its
 * device to host memory, unless the update wrote them there. yk__far_publish then lets other ranks pull them. */
static yk_status publish_slices(yk__updater *u, yk_error *err)
{
    yk__copies_changed(u->params);
    u->params->values = YK__VALUES_PUBLISHED;
    if (yk__params_publish(u->params, err))
        return err->status;
    yk__far_publish(u->params);
    yk__update_note(u);
    return YK_OK;
}

/* The empty function hides the `gather` of the rows behind, as a NULL column would take theirs. */
static yk_status gather_nothing(yk__params *p, yk_error *err)
{
    (void)p;
    (void)err;
    return YK_OK;
}

const yk__way yk__way_far = {.name = "far",
                             .fits = far_fits,
                             .blocks = YK__BLOCK_GRADS,
                             .publish = publish_slices,
                             .gather = gather_nothing,
                             .await = yk__way_awaits_nothing,
                             .read = yk__params_read_device};
