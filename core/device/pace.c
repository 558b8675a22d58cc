/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rough speed of a device, before a job's own steps tell it: the seconds of one fixed matrix product.
 *
 * core/job/team/rank_pace.c measures each rank's device with it, and rival.c two plugins for one card, in the thread that opened the
 * device. 0 if the device could not run it.
 */
#include "core/base/mem.h"
#include "core/device/device_internal.h"
#include "core/device/simple.h"

#define ROWS 128
#define DEPTH 512
#define RUNS 8
#define SECONDS 0.03

static yk__vid input_of(yk__graph *g, int64_t rows, int64_t columns)
{
    const int64_t dim[2] = {rows, columns};
    const uint32_t slot = yk__slot_new(g, YK_SLOT_INPUT, (uint64_t)(rows * columns) * sizeof(float), 0);
    return slot == YK_NONE ? YK_NONE : yk__leaf(g, slot, 0, YK_F32, 2, dim);
}

static double product_time(yk__device *dev, uint32_t runs, void (*await)(void *arg), void *arg, double *mean)
{
    const yk__simple_how how = {.claims = yk__simple_claims, .arg = dev, .align = dev->caps.align};
    yk_error quiet = YK_ERROR_INIT;
    yk__simple planned;
    double seconds = 0;
    void **slot;
    yk__graph g;
    yk__vid product;
    yk__graph_init(&g);
    product = yk__dot(&g, input_of(&g, ROWS, DEPTH), input_of(&g, DEPTH, DEPTH), false, false);
    if (yk__simple_new(&g, &how, 1, &product, &planned, &quiet) == YK_OK) {
        slot = yk__simple_slots(&planned);
        if (slot && yk__simple_time(&planned, dev, slot, runs, SECONDS, await, arg, &seconds, mean, &quiet))
            seconds = *mean = 0;
        yk__simple_slots_free(&planned, slot);
        yk__simple_free(&planned);
    }
    yk__graph_free(&g);
    return seconds;
}

double yk__device_pace(yk__device *dev, void (*await)(void *arg), void *arg)
{
    double mean = 0;
    return product_time(dev, RUNS, await, arg, &mean);
}

double yk__device_pace_mean(yk__device *dev)
{
    double mean = 0;
    product_time(dev, UINT32_MAX, NULL, NULL, &mean);
    return mean;
}
