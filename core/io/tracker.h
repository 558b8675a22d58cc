/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log of JSON lines: one object per line, flushed line by line. Numbers that are not finite are written as null. Thread rule: one thread
 * per object. yk__tracker_close reports a line that could not be written.
 */
#ifndef YOKE_CORE_IO_TRACKER_H
#define YOKE_CORE_IO_TRACKER_H

#include <stdint.h>

#include "core/base/error.h"

typedef struct yk__tracker yk__tracker;

yk_status yk__tracker_open(const char *path, yk__tracker **t, yk_error *err);
/* {"step": step, "name[0]": value[0], ...} */
void yk__tracker_line(yk__tracker *tracker, uint64_t step, uint32_t n, const char *const *name, const double *value);
yk_status yk__tracker_close(yk__tracker *tracker, yk_error *err); /* takes NULL */

#endif
