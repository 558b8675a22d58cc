/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching the ranks of one host, on devices that were chosen before (choose.h): their processes from the start to the end of the job.
 * How a process learns that it was launched: core/control/origin.h.
 */
#ifndef YOKE_CORE_LAUNCH_LAUNCH_H
#define YOKE_CORE_LAUNCH_LAUNCH_H

#include <stdint.h>

#include "core/base/error.h"

struct yk__placement; /* core/device/device.h */

/* A closed descriptor of the standard three becomes /dev/null, before anything else: what is opened later would take its number, and what
 * is printed go into that. */
void yk__launch_keep_standard(void);

/* Starts `argv` once per placement, with YOKE_RANK, YOKE_WORLD_SIZE, YOKE_LOCAL_RANK, YOKE_DEVICES set for each and the
 * job's secret and shared memory over an inherited descriptor; waits for all. When one ends badly or dies the others
 * are ended within 2 s, nothing is left (processes, shared memory), and err names the rank: "rank 1 (opencl:0@1) was
 * killed by signal 9". SIGINT, SIGTERM, SIGHUP and SIGUSR1 are passed on, a second one kills; SIGTSTP stops the ranks too.
 * say gets the error once, as soon as it is found, before the others have ended; and a line for each process that SIGKILL does
 * not end within 2 s (frozen, or waiting for a device or a file system), which is left behind. When this process is killed, a
 * guard ends the ranks' groups.
 * Ranks that leave with 75 have a minute for it. A job of which a rank died or failed (*code 1), or whose ranks left with 75 and no
 * signal came here, is started anew on the same devices up to `restarts` times, with YOKE_RESTART_COUNT and
 * YOKE_RUN_ID in its environment, once nothing of it is left; where one may follow, say gets the error then, and what is done about it:
 * "..: restart 1 of 3". One that left a process behind is not.
 * *code, set in every case: 0 all well, 2 when the program cannot be started or the rank at fault exited with 2, 75 where the ranks
 * did, 128 + the signal after another interruption, else 1. Thread rule: a program with one thread; the ranks die with the calling
 * thread. */
typedef void (*yk__launch_say)(const char *text);
yk_status yk__launch(const struct yk__placement *place, uint32_t n, char *const *argv, uint32_t restarts, yk__launch_say say, int *code,
                     yk_error *err);
/* The same with forks of this process, in each of which `function` is called: what it returns is the exit code. This process has loaded no
 * driver, and has one thread or others that hold nothing which a rank needs. */
typedef int (*yk__launch_function)(void *argument);
yk_status yk__launch_call(const struct yk__placement *place, uint32_t n, yk__launch_function function, void *argument, uint32_t restarts,
                          yk__launch_say say, int *code, yk_error *err);

#endif
