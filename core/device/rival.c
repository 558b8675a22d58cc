/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses between two plugins that offer one device: a card by OpenCL and by Vulkan. select.c asks while devices are chosen. A timed
 * product decides which plugin keeps it, as it does for the CPU's and GPU's families of kernels (decision 0012). The selecting process
 * opens the device anyway, or is a child of the launcher (core/launch/device_choice.c).
 */
#include <stdio.h>
#include <string.h>

#include <yoke/extension.h>

#include "core/base/log.h"
#include "core/device/device_internal.h"
#include "core/device/rival.h"

#define FASTER 0.9 /* share of the time: differences within noise must not change the choice from one start to the next */

/* Seconds of the product; 0 if the device does not open or compute. */
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
