/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read a process's origin share: origin.c (yoke launch, by hand), launchers.c (other launchers). */
#ifndef YOKE_CORE_CONTROL_ORIGIN_INTERNAL_H
#define YOKE_CORE_CONTROL_ORIGIN_INTERNAL_H

#include "core/control/origin.h"

/* What the environment says; NULL or false: nothing, or no number. */
const char *yk__variable_text(const char *name);
bool yk__variable_number(const char *name, unsigned long long *value);

/* Names of variables that are not set and should be. */
typedef struct yk__missing {
    char names[160];
} yk__missing;
void yk__missing_add(yk__missing *missing, const char *name); /* nothing where it is set */
yk_status yk__missing_fail(const yk__missing *missing, const yk__origin *origin, yk_error *err);

/* YOKE_PORT into the origin, where it is set. */
yk_status yk__origin_read_port(yk__origin *origin, yk_error *err);
/* The origin meets at YOKE_ADDR, YOKE_PORT, with YOKE_SECRET_FILE, where it has no address and port from elsewhere. */
yk_status yk__origin_meet(yk__origin *origin, yk_error *err);

/* By the first launcher that says that there are several processes; nothing where none does. *own_log: what this process prints
 * is not seen with what the others print. */
yk_status yk__launcher_find(yk__origin *origin, bool *own_log, yk_error *err);

#endif
