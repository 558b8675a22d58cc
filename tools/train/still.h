/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command of one rank that stands still. Several ranks find each other (core/control/stuck.c), and a device's waits find the device
 * (core/device/point.c). Alone a rank has nobody to find a read of a dead file system, a sync that never ends, or a driver that hangs while
 * it opens a device or compiles.
 */
#ifndef YOKE_TOOLS_TRAIN_STILL_H
#define YOKE_TOOLS_TRAIN_STILL_H

#include <yoke/yoke.h>

/* From here on a thread watches the progress of a process that no launcher started. If a file, a disk, a device's driver or compiler, or a
 * call stands still for 30 s, or 20 times the longest of its kind (advance.h), it writes one line and ends the process with
 * YK_EXIT_FAILED. It does nothing with YOKE_STUCK_MS=0. Call it before the first job is opened. */
void still_watch(void);
/* The same for a launched process, once it has turned out to be the only rank of its job. */
void still_watch_job(const yk_job *job);

#endif
