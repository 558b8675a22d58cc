/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of the table of ways (core/run/way.h) for an excluded rank, whose rows would slow the job. It sends no gradients, and receives
 * only the members' norm. Its device's copies of the parameters fall behind; a read asks the members instead.
 *
 * choose.c picks the entry. In the step thread, update.c (core/run) calls `reduce` and `publish` once a window, and param_values.c
 * (core/run/values) calls `read`. A NULL column, such as `norm`, comes from the entries behind it.
 */
#include "core/run/ways/ways.h"

static bool excluded_fits(const yk__params *p)
{
    return p->exchange->part == YK__PART_EXCLUDED;
}

static yk_status fall_behind(yk__updater *u, yk_error *err)
{
    (void)err;
    yk__copies_changed(u->params);
    u->params->values = YK__VALUES_BEHIND;
    return YK_OK;
}

/* Messages bring parameters to an excluded rank only if all ranks take part. */
static yk_status fail_behind(const yk__params *p, const yk__param *q, yk_error *err)
{
    return yk__fail(err, YK_E_ARG, "%s is excluded from the steps at present and has no memory in common with the others, so that it "
                    "cannot read %s by itself: read it on a member, save by all ranks, or keep the rank in by '!' behind its device "
                    "spec", yk__exchange_name(p->exchange, p->exchange->rank), q->name);
}

static yk_status read_members(yk__params *p, const yk__param *q, yk__range range, float *data, yk_error *err)
{
    if (p->exchange->medium == YK__MEMORY)
        return yk__exchange_read(p->exchange, p->bucket[q->bucket].shared_at + range.from, range.to - range.from, data, err);
    return p->values == YK__VALUES_BEHIND ? fail_behind(p, q, err) : yk__params_read_device(p, q, range, data, err);
}

const yk__way yk__way_excluded = {
    .name = "excluded", .fits = excluded_fits, .reduce = yk__way_reduces_nothing, .publish = fall_behind, .read = read_members};
