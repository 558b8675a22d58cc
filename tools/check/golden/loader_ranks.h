/* SPDX-License-Identifier: Apache-2.0 */
/* loader/ by the ranks of the run. */
#ifndef YOKE_TOOLS_CHECK_GOLDEN_LOADER_RANKS_H
#define YOKE_TOOLS_CHECK_GOLDEN_LOADER_RANKS_H

#include "tools/check/golden/golden.h"

/* A case done by the ranks of the job, as many as it has: whether this rank got what the table says. */
bool golden_loader_table(yk_job *job, const char *file, json_t *c);
bool golden_loader_variable(yk_job *job, const char *file, json_t *c);
bool golden_loader_split(yk_job *job, const char *file, json_t *c);
bool golden_loader_accumulate(yk_job *job, const char *file, json_t *c); /* opens a job of its own */

#endif
