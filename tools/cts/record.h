/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verdict that --report writes. It holds what is the same in each run on that device: no time, place, host, figure of an error or
 * message of a failure.
 */
#ifndef YOKE_TOOLS_CTS_RECORD_H
#define YOKE_TOOLS_CTS_RECORD_H

#include "tools/cts/cts.h"

/* As the lines of a child have them, and the report. */
typedef enum cts_outcome { CTS_PASSED, CTS_FAILED, CTS_LEFT_OUT, CTS_EXPECTED, CTS_OUTCOMES } cts_outcome;

typedef struct cts_record cts_record;

cts_record *cts_record_new(void); /* NULL when memory is gone */
void cts_record_free(cts_record *r);
/* One result; tol: the tolerance its numbers were held to, -1: none. r may be NULL. */
void cts_record_add(cts_record *r, cts_outcome outcome, const char *name, int tol);
void cts_record_not_run(cts_record *r, uint32_t tests);
/* A line of the child that looked at what is tested: KEY, a tab, and the text. */
void cts_record_about(cts_record *r, const char *line);
/* In that child: says those lines. */
void cts_describe(cts *c);
/* Checks that a report may go there: no folder, device or pipe, in a folder that can be written. */
yk_status cts_record_check(const char *path, yk_error *err);
/* Writes the file, whole or not at all. groups: those that --group names, NULL: all. */
yk_status cts_record_write(const cts_record *r, const cts *c, const char *groups, const char *path, yk_error *err);

#endif
