/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoints of one output folder: DIR/checkpoint-STEP. Checkpoints of other programs, links, files and other spellings of a number
 * (checkpoint-0007) are neither counted nor touched.
 *
 * Age is the order of writing: a run that resumes from an earlier step writes lower numbers later.
 * All ranks call these alike; rank 0 removes.
 */
#ifndef YOKE_TOOLS_TRAIN_CHECKPOINTS_H
#define YOKE_TOOLS_TRAIN_CHECKPOINTS_H

#include <stddef.h>

#include <yoke/yoke.h>

#include "tools/train/when.h"

typedef struct checkpoints {
    const char *dir;
    uint64_t limit;            /* number that stays; 0 for all */
    int64_t *stuck;            /* steps of checkpoints that could not be removed: reported once */
    size_t n_stuck, cap_stuck;
    bool again;                /* on rank 0: an earlier attempt of this launch used dir (train_restart.h) */
    char from[4352];           /* the resumed checkpoint; "" if none */
} checkpoints;

/* Saves the job as dir/checkpoint-STEPS; once that is safe, removes the oldest until `limit` remain. A checkpoint that cannot be removed
 * is a line on standard error, once. */
void checkpoint_save(checkpoints *c, yk_job *job, uint64_t steps);
/* In a restarted job: loads the newest checkpoint of an earlier attempt, from dir or the emergency checkpoint. Else, or without one,
 * loads checkpoint `from`; "last" means the newest in dir, or one that a save put aside; NULL for none. The newest is the one with
 * the largest number whose files all exist in full length; a line names a newer broken one. Later checkpoints of the job count as newer
 * than any in dir. Collective. */
void checkpoint_resume(checkpoints *c, yk_job *job, const char *from);
/* True if the resumed checkpoint's run counted steps with as many rows and batches per epoch, in micro batches of `batch` and
 * `accumulate` of these per step; also for a version that did not save these. */
bool checkpoint_same_steps(const checkpoints *c, const yk_data *data, uint64_t batch, uint64_t accumulate);
/* Updates of the resumed checkpoint; -1 if unknown. */
int64_t checkpoint_step(const checkpoints *c);
/* Called by rank 0 while it holds dir's lock: removes our remains of interrupted saves. */
void checkpoints_clear(const char *dir);
/* Fails the job if a file, a link or a folder that is no checkpoint of Yoke has the name of one that steps first + 1 to total of a run
 * would save. best: the run keeps checkpoint-best too. `epoch`: steps of one. Collective. */
void checkpoints_place(const checkpoints *c, yk_job *job, const train_when *when, bool best, uint64_t first, uint64_t total,
                       uint64_t epoch);
/* True if dir has a checkpoint. */
bool checkpoint_any(const char *dir);
void checkpoints_free(checkpoints *c);

#endif
