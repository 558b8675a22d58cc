/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching the ranks of one host, on devices that were chosen before (device_choice.h): their processes from the start to the end of the
 * job. See core/control/start/origin.h for how a process learns that it was launched.
 */
#ifndef YOKE_CORE_LAUNCH_LAUNCH_H
#define YOKE_CORE_LAUNCH_LAUNCH_H

#include <stdint.h>

#include "core/base/error.h"

struct yk__placement; /* core/device/device.h */

/* Replaces closed standard descriptors by /dev/null. Call it first: a file opened later would take the number, and receive printed text. */
void yk__launch_keep_standard(void);

/* Starts `argv` once per placement, and waits for all ranks. Each has its YOKE_RANK, YOKE_WORLD_SIZE, YOKE_LOCAL_RANK and YOKE_DEVICES,
 * and the job's secret and shared memory over an inherited descriptor. If one ends badly or dies, the remaining ranks are ended within 2
 * s. No process and no shared memory is left, and err names the rank: "rank 1 (opencl:0@1) was killed by signal 9". SIGINT, SIGTERM,
 * SIGHUP and SIGUSR1 are passed on, a second one kills (but after a SIGUSR1 to ranks without Yoke); SIGTSTP stops the ranks too.
 * `say` gets the error once, as soon as it is found, before the remaining ranks have ended. It also gets a line for each process that
 * SIGKILL does not end within 2 s (frozen, or waiting for a device or a file system). Such a process is left behind. If this process is
 * killed, a guard ends the ranks' groups.
 * Ranks that leave with 75 have a minute for it. A job is started anew on the same devices if a rank died or failed (*code 1). The same
 * holds if its ranks left with 75 and no signal came here. That happens up to `restarts` times, once nothing of the job is left, with
 * YOKE_RESTART_COUNT and YOKE_RUN_ID in its environment. If a restart may follow, `say` gets the error then, with the decision: "..:
 * restart 1 of 3". A job that left a process behind is not restarted.
 * *code, set in every case: 0 all well, 2 if the program cannot be started or the rank at fault exited with 2, 75 if the ranks did, 128
 * + the signal after another interruption, else 1. Thread rule: a program with one thread; the ranks die with the calling thread. */
typedef void (*yk__launch_say)(const char *text);
yk_status yk__launch(const struct yk__placement *place, uint32_t n, char *const *argv, uint32_t restarts, yk__launch_say say, int *code,
                     yk_error *err);
/* A launcher on each host, of which this one starts the ranks of its own: */
typedef struct yk__launch_host {
    uint32_t ranks, first, size; /* ranks of this host, the number of the first, and the ranks of all hosts */
    const char *address;         /* rank 0 listens here; the secret is in the file that YOKE_SECRET_FILE names */
    uint16_t port;
} yk__launch_host;
/* yk__launch for these ranks, without restarts. Signals go to this host's ranks. Those of other hosts hear from them of the job's end. */
yk_status yk__launch_part(const yk__launch_host *host, const struct yk__placement *place, char *const *argv, yk__launch_say say, int *code,
                          yk_error *err);
/* The same with forks of this process. Each calls `function`, whose result is the exit code. This process has loaded no driver, and its
 * other threads, if any, hold nothing that a rank needs. */
typedef int (*yk__launch_function)(void *argument);
yk_status yk__launch_call(const struct yk__placement *place, uint32_t n, yk__launch_function function, void *argument, uint32_t restarts,
                          yk__launch_say say, int *code, yk_error *err);

#endif
