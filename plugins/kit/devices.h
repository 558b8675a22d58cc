/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of a plugin whose drivers are slow or dangerous to load. Their number and capabilities come from an earlier process's
 * answer, if it still holds (kit_survey.h). The drivers are loaded when a device is opened, or without such an answer. Any thread; one list
 * per plugin, which lives as long as the plugin.
 */
#ifndef YOKE_PLUGINS_KIT_DEVICES_H
#define YOKE_PLUGINS_KIT_DEVICES_H

#include <pthread.h>
#include <stdbool.h>

#include <yoke/plugin.h>

#include "plugins/kit/kit_survey.h"

#define KIT_DEVICES 64

typedef struct kit_devices {
    kit_survey (*survey)(void);
    uint64_t (*find_key)(void);   /* key of the kept answer; 0 to keep none */
    bool (*drivers_known)(void);  /* true if the verdicts on the drivers are recent enough */
    bool (*load)(void);           /* loads the drivers, sets n and caps; false if the answer should not be kept */
    pthread_mutex_t lock;         /* guards the members below while they change; PTHREAD_MUTEX_INITIALIZER */
    bool known, loaded;           /* number and capabilities are known; the drivers' own handles are too */
    uint64_t key;
    uint32_t n;
    yk_device_caps caps[KIT_DEVICES];
} kit_devices;

void kit_devices_need(kit_devices *devices, bool loaded); /* known, or loaded too */
void kit_devices_forget(kit_devices *devices);
/* YK_E_ARG, said to the host, if there is no device i; it is known after that, or loaded too. */
yk_status kit_devices_find(kit_devices *devices, uint32_t i, bool loaded);

#define KIT_UUID 16 /* bytes of a device's own number */
/* "uuid:" and its digits, which identify a device without a bus address (yk_device_caps.locality). */
void kit_uuid_text(const unsigned char uuid[KIT_UUID], char text[64]);

#endif
