/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A way to exchange: how the members of a step add gradients up, take their norm, and give each other updated parameters. The rows of the
 * table stand in core/run/ways, a file each; choose.c chooses a rank's rows (docs/decisions/0064). The step thread.
 */
#ifndef YOKE_CORE_RUN_WAY_H
#define YOKE_CORE_RUN_WAY_H

#include "core/run/exchange.h"

struct yk__params;
struct yk__param;
struct yk__updater;

/*
 * A row. `fits` decides by numbers that all ranks have, or by this rank's part and place of updates; ways of unlike ranks exchange with
 * each other. A column that is NULL is left to the rows behind: the first row that fits and has it. So a row that changes one column
 * (PowerSGD, rounded parameters) wraps the ways behind it.
 */
typedef struct yk__way {
    const char *name;
    bool (*fits)(const struct yk__params *p);
    yk__blocks blocks; /* blocks that its other columns use; made with a layout */
    /* Writes the sums over members of this rank's slices into its device's gradients; sums that went through the host also set
     * p->squares. */
    yk_status (*reduce)(struct yk__params *p, yk_error *err);
    /* sum[0]: the squares of all summed gradients, each divided by `divisor`; sum[1]: above 0 if some are not finite. The same on
     * all ranks, excluded ones too, apart from sum[0] in LocalSGD. */
    yk_status (*norm)(struct yk__updater *u, double divisor, double sum[2], yk_error *err);
    /* After the update has written this rank's slices: the other ranks get them, and this rank gets the other ranks' slices. */
    yk_status (*publish)(struct yk__updater *u, yk_error *err);
    /* Values that all members have published come to this rank, or are on their way when it returns. */
    yk_status (*gather)(struct yk__params *p, yk_error *err);
    /* Waits until the values of a bucket, and of the buckets before it on the way, are here. */
    yk_status (*await)(struct yk__params *p, uint32_t bucket, yk_error *err);
    /* Reads elements of a trained parameter's bucket, within the parameter, to the host. This rank calls it alone. */
    yk_status (*read)(struct yk__params *p, const struct yk__param *q, yk__range range, float *data, yk_error *err);
} yk__way;

#endif
