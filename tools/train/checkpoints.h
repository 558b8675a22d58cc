/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoints of one output folder: DIR/checkpoint-STEP. Those of other programs, links, files and other spellings of
 * a number (checkpoint-0007) are none of ours and are neither counted nor touched.
 *
 * Which is older is seen from when it was written: a run that goes on from an earlier step writes lower numbers later.
 * All ranks call these alike; rank 0 removes.
 */
#ifndef YOKE_TOOLS_TRAIN_CHECKPOINTS_H
#define YOKE_TOOLS_TRAIN_CHECKPOINTS_H

#include <stddef.h>

#ifndef YK_NO_HERE
#define YK_NO_HERE
#endif
#include <yoke/yoke.h>

typedef struct checkpoints {
    const char *dir;
    uint64_t limit;            /* how many stay; 0: all */
    int64_t *stuck;            /* steps of those that could not be removed: reported once */
    size_t n_stuck, cap_stuck;
    bool again;                /* an earlier attempt of this launch came to dir (restart.h), on rank 0 */
    char from[4352];           /* what was gone on from; "": nothing */
} checkpoints;

/* Saves the job as dir/checkpoint-STEPS; once that is safe, the oldest are removed until `limit` remain. What cannot be
 * removed is a line on standard error, once. */
void checkpoint_save(checkpoints *c, yk_job *job, uint64_t steps);
/* In a job that was started anew: loads the newest checkpoint that an earlier attempt wrote, into dir or as the emergency checkpoint. Else,
 * and where there is none, loads checkpoint `from`; "last": the newest in dir, or what an interrupted save left of it under .old; NULL:
 * nothing. The newest by the numbers that checkpoints bear is one whose files are all there and whole in length; a line names a newer one
 * that is not. What the job saves from then on counts as newer than all in dir. Collective. */
void checkpoint_resume(checkpoints *c, yk_job *job, const char *from);
/* Whether the run that saved what was gone on from counted steps as one does whose epochs have so many rows, in micro batches of `batch`
 * and `accumulate` of these a step. One of a version that did not keep these did. */
bool checkpoint_same_steps(const checkpoints *c, uint64_t rows, uint64_t batch, uint64_t accumulate);
/* Updates that what was gone on from had seen; -1: it does not say. */
int64_t checkpoint_step(const checkpoints *c);
/* Rank 0, while it holds dir's lock: removes what interrupted saves left, of ours alone. */
void checkpoints_clear(const char *dir);
/* Whether there is a checkpoint in dir. */
bool checkpoint_any(const char *dir);
void checkpoints_free(checkpoints *c);

#endif
