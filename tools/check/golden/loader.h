/* SPDX-License-Identifier: Apache-2.0 */
/* What the two sides of loader/ share: the law against the tables (loader.c), and ranks that do it (loader_ranks.c). */
#ifndef YOKE_TOOLS_CHECK_GOLDEN_LOADER_H
#define YOKE_TOOLS_CHECK_GOLDEN_LOADER_H

#include "core/data/shard.h"
#include "tools/check/golden/golden.h"

#define GOLDEN_LOADER_ROWS 512 /* of one epoch of a case, at most */

int64_t golden_loader_int(json_t *c, const char *key);
bool golden_loader_on(json_t *c, const char *key);
int64_t golden_loader_global(json_t *c); /* rows of a round */
int64_t golden_loader_kept(json_t *c);   /* rows of the epoch that are not dropped */
bool golden_loader_rows_are(json_t *want, const int64_t *row, int64_t n);
/* What a gather for metrics has to leave: rows first..n - 1 once, in order. Of a table's own list (it may have rows twice, behind them)
 * they are the beginning. */
bool golden_loader_gathered_ok(json_t *want, int64_t first, int64_t n, const int64_t *row, int64_t got);
/* The rows of batch `number` of those sizes: how many. */
int64_t golden_loader_batch_rows(json_t *sizes, int64_t number, int64_t *row);
/* A run of n items, with the last one of all repeated behind it: how many. */
int64_t golden_loader_part(int64_t n, int64_t first, int64_t count, int64_t repeats, int64_t *row);

/* A case done by the ranks of the job, as many as it has: whether this rank got what the table says. */
bool golden_loader_table(yk_job *job, const char *file, json_t *c);
bool golden_loader_variable(yk_job *job, const char *file, json_t *c);
bool golden_loader_split(yk_job *job, const char *file, json_t *c);
bool golden_loader_accumulate(yk_job *job, const char *file, json_t *c); /* opens a job of its own */

#endif
