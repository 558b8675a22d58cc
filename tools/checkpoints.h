/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoints of one output folder: DIR/checkpoint-STEP. All ranks call these alike; rank 0 removes. */
#ifndef YOKE_TOOLS_CHECKPOINTS_H
#define YOKE_TOOLS_CHECKPOINTS_H

#ifndef YK_NO_HERE
#define YK_NO_HERE
#endif
#include <yoke/yoke.h>

/* Saves the job as dir/checkpoint-STEPS; then removes the oldest until `limit` (0: all) remain. */
void checkpoint_save(yk_job *job, const char *dir, uint64_t steps, uint64_t limit);
/* Loads checkpoint `from`; "last": the newest in dir; NULL: nothing. */
void checkpoint_resume(yk_job *job, const char *dir, const char *from);

#endif
