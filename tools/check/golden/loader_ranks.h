/* SPDX-License-Identifier: Apache-2.0 */
/* loader/ by the ranks of the run. */
#ifndef YOKE_TOOLS_CHECK_GOLDEN_LOADER_RANKS_H
#define YOKE_TOOLS_CHECK_GOLDEN_LOADER_RANKS_H

#include "tools/check/golden/golden.h"

/* Runs a case on the job's ranks, as many as the case has; true if this rank got the table's rows. */
bool golden_loader_table(yk_job *job, const char *file, json_t *c);
bool golden_loader_variable(yk_job *job, const char *file, json_t *c);
bool golden_loader_split(yk_job *job, const char *file, json_t *c);
bool golden_loader_accumulate(yk_job *job, const char *file, json_t *c); /* opens its own job */

#endif
