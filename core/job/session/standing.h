/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of one rank that stands still. Several ranks find each other (core/control/stuck.c), and a device's waits find the device
 * (core/device/point.c). A rank alone has nobody to find a read of a dead file system, a sync that never ends, or a driver that hangs at an
 * open or a compilation. Thread rule: any thread.
 */
#ifndef YOKE_CORE_JOB_SESSION_STANDING_H
#define YOKE_CORE_JOB_SESSION_STANDING_H

/* From the first begin to the last end a thread watches the progress of this process. If a device's driver or compiler stands still for 30
 * s, or 20 times the longest of its kind (advance.h), the thread says so in one line and ends the process with exit code 1. Nothing wakes
 * the call that hangs. In a program of ours a file, a disk and a call count, too. No thread is started with YOKE_STUCK_MS=0. A child of the
 * process is not watched until it opens a job. */
void yk__standing_begin(void);
void yk__standing_end(void);
/* Called by a program of ours, which runs no function of a user's. */
void yk__standing_ours(void);

#endif
