/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output folder of a training: a used one is not written over by accident, and not by two jobs at a time.
 *
 * The lock is a flock on DIR/.yoke-lock, held by rank 0 and named in the message that another job gets; it ends with the
 * process, however that ends. A launch that may restart marks the folder as its own (train_restart.h).
 */
#ifndef YOKE_TOOLS_TRAIN_OUTPUT_H
#define YOKE_TOOLS_TRAIN_OUTPUT_H

#include <yoke/yoke.h>

/* Fails the job if dir holds a model or checkpoints, unless `allowed`. --overwrite-output-dir or --resume-from-checkpoint allows it, or an
 * earlier attempt of this launch wrote it. */
void output_check(yk_job *job, const char *dir, bool allowed);
/* Makes the folder and locks it; then repeats output_check, as another job may have used it meanwhile. Collective. The lock's
 * descriptor, -1 on other ranks and after a failure. */
int output_claim(yk_job *job, const char *dir, bool allowed);
/* In a job on several hosts, after output_claim: prints a line on standard error if a host has another folder of that name, as its ranks
 * could not resume from a checkpoint. Collective. */
void output_compare(yk_job *job, const char *dir);
void output_release(const char *dir, int lock); /* takes -1 */

#endif
