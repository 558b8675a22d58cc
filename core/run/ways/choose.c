/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of ways (core/run/way.h), and the choice of a rank's way, column by column. Each column comes from the first row that fits and
 * has it.
 *
 * The step thread chooses when the engine (core/run/api.c) or a layout (core/run/values/param_layout.c) is made, and when members come or
 * go (core/run/roles.c). All ranks choose then. excluded_fits and offloaded_fits look at this rank alone, so ranks of one job may have
 * different ways. p->first_way is a row of a test (tests/dist), tried before the table.
 */
#include "core/run/ways/ways.h"

/* A way in front of another wraps it. The last row fits always and has all columns. */
static const yk__way *const ways[] = {
    &yk__way_scattered_single, &yk__way_deferred, &yk__way_offloaded_single, &yk__way_single,         &yk__way_planned,
    &yk__way_excluded,         &yk__way_far,      &yk__way_scattered,        &yk__way_power,          &yk__way_rounded,
    &yk__way_offloaded_sole,   &yk__way_offloaded, &yk__way_sliced,          &yk__way_sole,           &yk__way_kept,
    &yk__way_island,           &yk__way_joinable, &yk__way_shared,           &yk__way_messages,
};

static void add_columns(yk__way *chosen, const yk__way *row)
{
    chosen->name = chosen->name ? chosen->name : row->name;
    chosen->blocks = chosen->blocks ? chosen->blocks : row->blocks;
    chosen->reduce = chosen->reduce ? chosen->reduce : row->reduce;
    chosen->norm = chosen->norm ? chosen->norm : row->norm;
    chosen->publish = chosen->publish ? chosen->publish : row->publish;
    chosen->gather = chosen->gather ? chosen->gather : row->gather;
    chosen->await = chosen->await ? chosen->await : row->await;
    chosen->read = chosen->read ? chosen->read : row->read;
}

void yk__params_choose_way(yk__params *p)
{
    p->way = (yk__way){0};
    if (p->first_way && p->first_way->fits(p))
        add_columns(&p->way, p->first_way);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i]->fits(p))
            add_columns(&p->way, ways[i]);
}
