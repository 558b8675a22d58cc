/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the rows of a global micro batch are shared out: even at first, then by the measured time of each rank, looked at
 * again after 2, 4, 8, then every 5, after 40 every 10 optimizer steps. All ranks compute equal shares from equal numbers.
 */
#ifndef YOKE_CORE_JOB_SHARE_H
#define YOKE_CORE_JOB_SHARE_H

#include "core/job/job.h"

struct json_t;
typedef struct yk__share yk__share;

/* The shares and what they were made from, for a checkpoint; NULL: there are none. */
struct json_t *yk__share_save(const yk_job *job);
/* A job of as many ranks goes on with them; others begin anew. */
void yk__share_load(yk_job *job, const struct json_t *o);

/* Collective, before each training batch of n rows. *changed: the parts are others than before. */
bool yk__share_update(yk_job *job, int64_t n, bool *changed);
/* This rank's part of a global batch of n rows (in proportion, where n is not the usual number). */
void yk__share_part(const yk_job *job, int64_t n, int64_t *first, int64_t *count);
/* Adds a batch of n rows to what yk_share reports. */
void yk__share_count(yk_job *job, int64_t n);

#endif
