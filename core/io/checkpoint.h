/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint folder: safetensors files and one trainer_state.json that holds, beside the trainer's own state, the size
 * and the sum of each file.
 *
 * Written as DIR.tmp, every file and the folder synced, then renamed; an older DIR is moved aside to DIR.old first and
 * removed last, so that at any moment one of DIR, DIR.old is whole. Reading checks sizes and sums before anything is used.
 * Errors: YK_E_IO, YK_E_FORMAT, YK_E_MEM; messages begin with the path. Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_IO_CHECKPOINT_H
#define YOKE_CORE_IO_CHECKPOINT_H

#include <jansson.h>

#include "core/io/safetensors.h"

typedef struct yk__checkpoint yk__checkpoint;

yk_status yk__checkpoint_begin(const char *dir, yk__checkpoint **c, yk_error *err);
yk_status yk__checkpoint_tensors(yk__checkpoint *c, const char *file, const yk__safetensors_out *t, int64_t n,
                                 yk__safetensors_fetch fetch, void *user, yk_error *err);
/* Adds "files" to state, writes it, renames. The object is gone afterwards, whatever happened; state stays the caller's. */
yk_status yk__checkpoint_commit(yk__checkpoint *c, json_t *state, yk_error *err);
void yk__checkpoint_abandon(yk__checkpoint *c); /* removes what was written; takes NULL */

/* The state of a whole checkpoint; the caller json_decref()s it. */
yk_status yk__checkpoint_read(const char *dir, json_t **state, yk_error *err);

#endif
