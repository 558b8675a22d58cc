/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a disk for `yoke plan`, with the requests of a step that has the optimizer's state on disk. */
#ifndef YOKE_TOOLS_PLAN_DISK_PROBE_H
#define YOKE_TOOLS_PLAN_DISK_PROBE_H

#include "core/base/error.h"

/* Seconds for a byte that a step reads or writes in this folder, which exists. Takes half a second on a disk of 200 MB/s, and 64 MiB there
 * meanwhile. */
yk_status disk_probe(const char *dir, double *seconds, yk_error *err);

#endif
