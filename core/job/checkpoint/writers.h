/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writers of a checkpoint's files of tensors: each range of elements has one (docs/decisions/0099). Rank 0 has the checkpoint, and the
 * files have the bytes that it would write alone. All ranks call, in the step thread.
 */
#ifndef YOKE_CORE_JOB_CHECKPOINT_WRITERS_H
#define YOKE_CORE_JOB_CHECKPOINT_WRITERS_H

#include "core/io/checkpoint.h"
#include "core/job/job.h"

/* A file's tensors, equal on all ranks. */
typedef struct yk__tensors_out {
    const char *name; /* of the file */
    const yk__safetensors_out *tensor;
    int64_t n;
    /* The rank that has element `at` of tensor i. *to: the end of its elements. YK_NONE: all ranks have them. */
    uint32_t (*owner)(void *user, int64_t i, uint64_t at, uint64_t *to);
    /* Reads n elements to buf, in the file's type. single: this rank calls alone; else all ranks call if `is_shared` is true, and rank 0
     * alone if not. */
    yk_status (*read)(void *user, int64_t i, uint64_t from, uint64_t n, bool single, void *buf, yk_error *err);
    bool is_shared;
    void *user;
} yk__tensors_out;

typedef struct yk__writers {
    yk_job *job;
    yk__checkpoint *checkpoint; /* NULL on ranks other than 0 */
    char *folder;               /* the files' folder, as this rank names it */
    bool *writes;               /* by rank; NULL: this rank writes all files alone */
    int dir;                    /* descriptor of the folder; AT_FDCWD: files are opened by path */
} yk__writers;

/* Finds the ranks that write. Zeros: an object that close takes. */
yk_status yk__writers_open(yk__writers *writers, yk_job *job, const char *dir, yk__checkpoint *checkpoint, yk_error *err);
/* Returns when the file is whole on the disk, on all ranks. */
yk_status yk__writers_file(yk__writers *writers, const yk__tensors_out *out, yk_error *err);
void yk__writers_close(yk__writers *writers);

#endif
