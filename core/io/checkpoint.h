/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint folder: safetensors files and one trainer_state.json, with the trainer's own state and the size and sum of each file.
 *
 * A save writes DIR.yoke-tmp, syncs every file and the folder, exchanges it with an older DIR, and removes the older one last. If the
 * file system cannot exchange, the older one is DIR.yoke-old for a moment; at any moment DIR or DIR.yoke-old is whole. Other files in a
 * checkpoint that is written again stay in it. Reading checks sizes and sums before anything is used: CRC-32C, or a hash in older
 * checkpoints. Errors: YK_E_IO, YK_E_FORMAT, YK_E_MEM; messages begin with the path. Thread rule: one thread per object.
 */
#ifndef YOKE_CORE_IO_CHECKPOINT_H
#define YOKE_CORE_IO_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>

#include "core/io/folder.h"
#include "core/io/safetensors.h"

typedef struct yk__checkpoint yk__checkpoint;

/* Reserved endings: a user may have copies of a checkpoint as DIR.old or DIR.tmp. */
#define YK__CHECKPOINT_TMP YK__FOLDER_TMP
#define YK__CHECKPOINT_OLD ".yoke-old"

#define YK__CHECKPOINT_MARK "writers.mark" /* a file that is there for a moment, and goes with the remains of a save */

yk_status yk__checkpoint_begin(const char *dir, yk__checkpoint **c, yk_error *err);
/* The first check of begin: refuses a file, a link, or a folder at dir that has no checkpoint of ours, and removes an empty folder. begin
 * names a damaged checkpoint of ours, which the save replaces. */
yk_status yk__checkpoint_place(const char *dir, yk_error *err);
/* Writes a file of tensors that are in memory. */
yk_status yk__checkpoint_tensors(yk__checkpoint *ckpt, const char *file, const yk__safetensors_out *tensor, int64_t n, yk_error *err);
/* Adds a file that callers have written there, whole and synced. */
yk_status yk__checkpoint_add(yk__checkpoint *ckpt, const char *file, uint64_t bytes, uint32_t crc, yk_error *err);
/* The folder for the files of a checkpoint at `dir` until its commit; the caller's to free. */
char *yk__checkpoint_temporary(const char *dir);
/* The folder in which the files are being written. A commit syncs files that callers put there and lists them as "model_files". */
const char *yk__checkpoint_folder(const yk__checkpoint *ckpt);
/* Adds "files" to state, writes it, renames. The object is gone afterwards in every case; state stays the caller's. A NULL state means
 * that memory ran out for it: the older checkpoint stays. */
yk_status yk__checkpoint_commit(yk__checkpoint *ckpt, json_t *state, yk_error *err);
void yk__checkpoint_abandon(yk__checkpoint *ckpt); /* removes the written files; takes NULL */

/* Removes a checkpoint, whole or half written: its own files alone. Other files in the folder stay, and the error names one. */
yk_status yk__checkpoint_remove(const char *dir, yk_error *err);

/* The state alone, with no check but that "files" is an object; the caller json_decref()s it. */
yk_status yk__checkpoint_state(const char *dir, json_t **state, yk_error *err);
/* True if Yoke wrote the state: Hugging Face's Trainer writes a file of the same name. NULL is false. */
bool yk__checkpoint_ours(const json_t *state);
/* Checks that the files exist with the sizes in the state, which is quick; their sums are not computed. */
yk_status yk__checkpoint_sizes(const char *dir, const json_t *state, yk_error *err);
/* The state of a whole checkpoint; the caller json_decref()s it. *mark: for yk__checkpoint_same. */
yk_status yk__checkpoint_read(const char *dir, json_t **state, uint64_t *mark, yk_error *err);
/* YK_E_IO if the state or a file that it names is no longer as it was for yk__checkpoint_read: a caller opens the files again, and may have
 * read those of another checkpoint. */
yk_status yk__checkpoint_same(const char *dir, const json_t *state, uint64_t mark, yk_error *err);

#endif
