/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of a plugin whose drivers are slow or dangerous to load: how many there are and what they can do is answered from what an
 * earlier process found, if that still holds (survey.h), and the drivers are loaded when a device is opened or there is no such answer.
 * Any thread; one list to a plugin, which lives as long as it.
 */
#ifndef YOKE_PLUGINS_KIT_DEVICES_H
#define YOKE_PLUGINS_KIT_DEVICES_H

#include <pthread.h>
#include <stdbool.h>

#include <yoke/plugin.h>

#include "plugins/kit/survey.h"

#define KIT_DEVICES 64

typedef struct kit_devices {
    kit_survey (*survey)(void);
    uint64_t (*find_key)(void);   /* what the answer is kept under; 0: it is not kept */
    bool (*drivers_known)(void);  /* whether what is known of the drivers is recent enough */
    bool (*load)(void);           /* loads drivers, fills n and caps; false: the answer is not to be kept */
    pthread_mutex_t lock;         /* of all below, while it changes; PTHREAD_MUTEX_INITIALIZER */
    bool known, loaded;           /* how many and what they can do; and the drivers' own handles */
    uint64_t key;
    uint32_t n;
    yk_device_caps caps[KIT_DEVICES];
} kit_devices;

void kit_devices_need(kit_devices *devices, bool loaded); /* known, or loaded too */
void kit_devices_forget(kit_devices *devices);
/* YK_E_ARG, said to the host, if there is no device i; it is known after that, or loaded too. */
yk_status kit_devices_find(kit_devices *devices, uint32_t i, bool loaded);

#define KIT_UUID 16 /* bytes of a device's own number */
/* "uuid:" and its digits: what a device without a place on a bus is known by (yk_device_caps.locality). */
void kit_uuid_text(const unsigned char uuid[KIT_UUID], char text[64]);

#endif
