/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON lines: one JSON object per line (blank lines skipped), or one JSON array of objects in the whole file. Lines are
 * streamed; an array is read at once. Messages name the line (or the element).
 *
 * Lifetime: a result of value() lives until the next call of next(). Thread rule: one thread at a time.
 */
#ifndef YOKE_CORE_READ_JSONL_H
#define YOKE_CORE_READ_JSONL_H

#include <jansson.h>

#include "core/io/file.h"

typedef struct yk__jsonl yk__jsonl;

/* f stays the caller's and must outlive the object. */
yk_status yk__jsonl_read(yk__file *file, yk__jsonl **out, yk_error *err);
void yk__jsonl_close(yk__jsonl *jsonl); /* takes NULL */

yk_status yk__jsonl_next(yk__jsonl *jsonl, int *more, yk_error *err);
json_t *yk__jsonl_value(const yk__jsonl *jsonl); /* an object; borrowed */
int64_t yk__jsonl_line(const yk__jsonl *jsonl);  /* from 1: the line, or the element of the array */

#endif
