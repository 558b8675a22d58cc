/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a job anew whose rank died or failed: number of restarts so far, their limit, and their messages. The launcher restarts a job
 * whole; each attempt has its own secret, memory and addresses.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_LAUNCH_RESTART_H
#define YOKE_CORE_LAUNCH_RESTART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__RESTARTS_MOST 1000000u
#define YK__LAUNCH_AGAIN 75 /* EX_TEMPFAIL: the exit code of a rank that has saved its work, and asks to be started again */

typedef struct yk__restart {
    uint32_t count, most; /* restarts before this attempt, and their limit */
    char run[33];         /* a number that all attempts of one launch share, and no other launch; "" if none */
} yk__restart;

/* Call it before the first of 1 + most attempts. */
yk_status yk__restart_first(yk__restart *restart, uint32_t most, yk_error *err);
/* Reads an attempt from the environment, set by the launcher of several hosts; a node may not restart. */
void yk__restart_inherit(yk__restart *restart);
bool yk__restart_left(const yk__restart *restart);
/* True if another attempt follows one that ended with `code` (as of yk__launch) and without a signal to the launcher. None follows
 * success, or wrong input (2). */
bool yk__restart_due(const yk__restart *restart, int code);
/* The error of a job whose ranks have left with YK__LAUNCH_AGAIN. sig: the launcher's signal; 0 if none. */
yk_status yk__restart_again(int sig, yk_error *err);
/* "WHY: restart 1 of 3", "WHY, after 3 restarts", or WHY alone. */
void yk__restart_describe(const yk__restart *restart, bool due, const char *why, char *text, size_t size);

#define YK__RESTART_VARIABLES 2
/* "NAME=VALUE", allocated one by one, for the environment of a rank or a node. An entry is NULL if memory ran out; the second also if
 * there is no number of a run. */
void yk__restart_variables(const yk__restart *restart, char *variable[YK__RESTART_VARIABLES]);

#endif
