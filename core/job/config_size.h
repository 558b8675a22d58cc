/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs that cross the interface with their size: a program's struct may be shorter than this library's, which got members since,
 * or longer (decision 0079).
 */
#ifndef YOKE_CORE_JOB_CONFIG_SIZE_H
#define YOKE_CORE_JOB_CONFIG_SIZE_H

#include "core/job/job.h"

/* The program's struct `given`, of `size` bytes, in the library's form of `own` bytes: `given` itself if the sizes are equal. Else `whole`,
 * filled from `given` and with zeros; zeros alone if given is NULL. NULL, with err filled, for an impossible size, or for a longer struct
 * with members set that this library lacks. `call` names the function in errors. */
const void *yk__config_read(const char *call, const void *given, size_t size, void *whole, size_t own, yk_error *err);
/* yk__config_read; NULL fails the job. job may be NULL. */
const void *yk__config_take(yk_job *job, const char *call, const void *given, size_t size, void *whole, size_t own);

/* Copies the library's struct `whole` to the program's, as far as both reach. */
void yk__config_give(void *to, size_t size, const void *whole, size_t own);

#endif
