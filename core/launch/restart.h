/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a job anew whose rank died or failed: how often it was, how often it may be, and what is said of it. A job is restarted
 * whole, by whoever launched it; each attempt has its own secret, memory and addresses.
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
#define YK__LAUNCH_AGAIN 75 /* EX_TEMPFAIL: the exit code of a rank that has saved what it did, and is to be started again */

typedef struct yk__restart {
    uint32_t count, most; /* restarts before this attempt, and how many there may be */
    char run[33];         /* a number that all attempts of one launch have in common, and no other launch; "": none */
} yk__restart;

/* Before the first of 1 + most attempts. */
yk_status yk__restart_first(yk__restart *restart, uint32_t most, yk_error *err);
/* An attempt as the launcher of several hosts tells its nodes, by their environment; it is not theirs to restart. */
void yk__restart_inherit(yk__restart *restart);
bool yk__restart_left(const yk__restart *restart);
/* Whether an attempt that ended so, and not by a signal to the launcher, is followed by another: with wrong input (2) and well it is not.
 * code: as of yk__launch. */
bool yk__restart_due(const yk__restart *restart, int code);
/* The error of a job whose ranks have left with YK__LAUNCH_AGAIN. sig: the signal that the launcher got; 0: none. */
yk_status yk__restart_again(int sig, yk_error *err);
/* "WHY: restart 1 of 3", "WHY, after 3 restarts", or WHY alone. */
void yk__restart_describe(const yk__restart *restart, bool due, const char *why, char *text, size_t size);

#define YK__RESTART_VARIABLES 2
/* "NAME=VALUE", allocated one by one, for the environment of a rank or a node; NULL where memory is gone, or, of the second, where there is
 * no number of a run. */
void yk__restart_variables(const yk__restart *restart, char *variable[YK__RESTART_VARIABLES]);

#endif
