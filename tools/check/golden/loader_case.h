/* SPDX-License-Identifier: Apache-2.0 */
/* A case of loader/'s tables: its numbers, and whether rows are those it wants. */
#ifndef YOKE_TOOLS_CHECK_GOLDEN_LOADER_CASE_H
#define YOKE_TOOLS_CHECK_GOLDEN_LOADER_CASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define GOLDEN_LOADER_ROWS 512 /* rows of one epoch of a case, at most */

int64_t golden_loader_int(json_t *c, const char *key);
bool golden_loader_on(json_t *c, const char *key);
int64_t golden_loader_global(json_t *c); /* rows of a round */
int64_t golden_loader_kept(json_t *c);   /* rows of the epoch that are not dropped */
bool golden_loader_rows_are(json_t *want, const int64_t *row, int64_t n);
/* Checks the result of a gather for metrics: rows first..n - 1 once, in order. A table's own list may repeat rows after these. */
bool golden_loader_gathered_ok(json_t *want, int64_t first, int64_t n, const int64_t *row, int64_t got);
/* The rows of batch `number` of those sizes; returns their number. */
int64_t golden_loader_batch_rows(json_t *sizes, int64_t number, int64_t *row);
/* A run of n items, with the last of all items repeated after it; returns the number. */
int64_t golden_loader_part(int64_t n, int64_t first, int64_t count, int64_t repeats, int64_t *row);

#endif
