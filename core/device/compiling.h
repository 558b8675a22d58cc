/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compilations of a device, one after another. Each counts as the act YK__ACT_COMPILE, and has as much time as the device's estimate
 * allows (yk_device_caps.compile_ms). A log line says how far they are if they take long.
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_DEVICE_COMPILING_H
#define YOKE_CORE_DEVICE_COMPILING_H

#include "core/device/device.h"

typedef struct yk__compiling {
    yk__device *dev;
    const char *what; /* "segment", for the line */
    uint32_t at, of;  /* the compilation that runs, from 1; their number */
    bool overlapped; /* the program goes on meanwhile in other threads: the caller sets it after the begin */
    bool watched, ended;
    pthread_t watch;
    pthread_mutex_t lock; /* guards at and ended */
    pthread_cond_t wake;
} yk__compiling;

/* `of` compilations follow at most. `what` names one of them and lives until the end. */
void yk__compiling_begin(yk__compiling *c, yk__device *dev, const char *what, uint32_t of);
/* As yk_plugin.program_new, with err filled by the plugin's message. */
yk_status yk__compiling_next(yk__compiling *c, const yk_graph *g, yk_program **p, yk_error *err);
void yk__compiling_end(yk__compiling *c);
/* Other ranks now wait as long as that device's estimate allows, for this thread, too, while it waits for another one's compilation. */
void yk__compile_allowed_for(const yk__device *dev);
/* As yk_plugin.program_memory; false, without an error, if the account is not known. */
bool yk__compiled_account(yk__device *dev, const yk_program *p, yk_program_memory *m, yk_error *err);

#endif
