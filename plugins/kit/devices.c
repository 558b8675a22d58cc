/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's list of devices, whose drivers may be slow or dangerous to load. It comes from an earlier process's answer, if that still
 * holds (kit_survey.h), else from the drivers.
 *
 * The OpenCL, Vulkan and PJRT plugins call kit_devices_need before they count devices, and kit_devices_find before they open one. An
 * opened device always loads the drivers. Then the drivers' own list replaces the kept one. One list per plugin, under a lock; any thread.
 */
#include "plugins/kit/devices.h"

#include <stdio.h>

#include "plugins/kit/plugin.h"

/* Loads the drivers; their answers replace those of an earlier process. */
static void devices_load(kit_devices *d)
{
    const kit_survey survey = d->survey();
    if (d->load() && d->key)
        kit_survey_write(&survey, "devices", d->key, d->caps, d->n * (uint32_t)sizeof *d->caps);
    d->known = d->loaded = true;
}

static bool devices_recall(kit_devices *d)
{
    const kit_survey survey = d->survey();
    uint64_t age;
    uint32_t bytes = 0;
    d->key = d->find_key();
    if (!d->key || !d->drivers_known() || !kit_survey_read(&survey, "devices", d->key, d->caps, sizeof d->caps, &bytes, &age))
        return false;
    d->n = bytes / (uint32_t)sizeof *d->caps;
    d->known = true;
    return true;
}

void kit_devices_need(kit_devices *d, bool loaded)
{
    pthread_mutex_lock(&d->lock);
    if (!d->known && !devices_recall(d))
        devices_load(d);
    if (loaded && !d->loaded)
        devices_load(d);
    pthread_mutex_unlock(&d->lock);
}

void kit_devices_forget(kit_devices *d)
{
    d->known = d->loaded = false;
    d->n = 0;
}

yk_status kit_devices_find(kit_devices *d, uint32_t i, bool loaded)
{
    kit_devices_need(d, loaded);
    const kit_survey survey = d->survey();
    return kit_device_check(survey.host, survey.plugin, i, d->n);
}

void kit_uuid_text(const unsigned char uuid[KIT_UUID], char text[64])
{
    int at = snprintf(text, 64, "uuid:");
    for (int i = 0; i < KIT_UUID; i++)
        at += snprintf(text + at, 64 - (size_t)at, "%02x", uuid[i]);
}
