/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training of one rank that stands still. Several ranks find each other (core/control/stuck.c), and a device's waits find the device
 * (core/device/point.c). Alone a rank has nobody to find a read of a dead file system, or a sync that never ends.
 */
#ifndef YOKE_TOOLS_TRAIN_STILL_H
#define YOKE_TOOLS_TRAIN_STILL_H

#include <yoke/yoke.h>

/* From here on a thread watches the progress of a job of one rank. If a file, a disk or a call stands still for 30 s, or 20 times the
 * longest of its kind (advance.h), it writes one line and ends the process with YK_EXIT_FAILED. It does nothing for several ranks, or with
 * YOKE_STUCK_MS=0. */
void still_watch(const yk_job *job);

#endif
