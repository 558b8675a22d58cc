/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of the table of ways (core/run/way.h) for parameters that travel in bf16 (YOKE_WIRE_PARAMS; values/masters.c). It stands in front
 * of other rows, and has the column `publish` alone.
 *
 * The update (core/run/update.c) calls that column in the step thread, behind the optimizer's step. The host rounds the values, so an only
 * member's parameters leave its device too.
 */
#include "core/run/ways/ways.h"

static bool rounded_fits(const yk__params *p)
{
    return p->exchange->narrows;
}

static yk_status publish_rounded(yk__updater *u, yk_error *err)
{
    yk__copies_changed(u->params);
    if (yk__params_publish(u->params, err) || yk__params_round(u->params, err))
        return err->status;
    yk__update_note(u);
    return yk__values_take_others(u, err);
}

const yk__way yk__way_rounded = {.name = "rounded", .fits = rounded_fits, .publish = publish_rounded};
