/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device that two plugins offer: a card by OpenCL and by Vulkan. Which of them has it is measured with a product, as the CPU's and
 * the GPU's families of kernels are (decision 0012). Selecting happens in a process that opens the device anyway, or in a child
 * of the launcher (core/launch/choose.c).
 */
#include <stdio.h>
#include <string.h>

#include <yoke/extension.h>

#include "core/base/log.h"
#include "core/device/internal.h"
#include "core/device/rival.h"

#define FASTER 0.9 /* of the time: what is within noise changes nothing from one start to the next */

/* Seconds; 0: it does not open, or does not compute. */
static double place_measure(const char *plugin, uint32_t device)
{
    yk_error quiet = YK_ERROR_INIT;
    yk__placement place = {.device = device};
    yk__device *dev = NULL;
    double seconds = 0;
    snprintf(place.plugin, sizeof place.plugin, "%s", plugin);
    if (!yk__device_open(&place, &dev, &quiet))
        seconds = yk__device_pace(dev, NULL, NULL);
    yk__device_close(dev);
    return seconds;
}

double (*yk__rival_measure)(const char *plugin, uint32_t device) = place_measure;

static bool computes_together(const yk__plugin *plugin)
{
    return plugin->call->extension && plugin->call->extension(YK_EXT_COLL);
}

bool yk__rival_wins(const yk__plugin *first, uint32_t first_device, const yk__plugin *second, uint32_t second_device)
{
    if (computes_together(first))
        return false;
    const double one = yk__rival_measure(first->name, first_device), other = yk__rival_measure(second->name, second_device);
    const bool wins = other > 0 && (one <= 0 || other < FASTER * one);
    yk__log(YK_LOG_INFO, "devices", "%s:%u and %s:%u are one device: a product takes %.3g and %.3g ms (0: it could not be run); %s has it",
            first->name, first_device, second->name, second_device, 1e3 * one, 1e3 * other, wins ? second->name : first->name);
    return wins;
}
