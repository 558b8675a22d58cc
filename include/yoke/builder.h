/* SPDX-License-Identifier: Apache-2.0 */
/* What builders of models need: settings, weight files, parts of checkpoints. yoke.h includes this header, and its rules hold here too. */
#ifndef YOKE_H
#include <yoke/yoke.h>
#elif !defined(YOKE_BUILDER_H)
#define YOKE_BUILDER_H

/* ---- Settings and weight files: what model builders need ---------------------------------------------------------------- */

/* key=value settings: from a string "a=1,b=x+y", then, for keys not yet set, from a JSON object's scalars. */
typedef struct yk_settings yk_settings;
/* pairs may be NULL. Released by yk_settings_free. */
YK_API yk_settings *yk_settings_new(yk_job *job, const char *pairs);
/* [waits] Adds what the JSON file has and s has not. */
YK_API void yk_settings_json(yk_settings *s, const char *file);
YK_API void yk_settings_put(yk_settings *s, const char *key, const char *value); /* replaces */
/* Names of the classes, in order: settings save them as id2label and label2id, and num_labels is their number unless the
 * string says another. A JSON object's id2label is taken the same way where no names are set. */
YK_API void yk_settings_labels(yk_settings *s, uint32_t n, const char *const *name);
/* [safe] The name of class i; NULL if none is known. Lives with s. */
YK_API const char *yk_settings_label(const yk_settings *s, uint32_t i);
/* [safe] Whether the key is set, to an object or a list of a JSON file too; false for JSON null. */
YK_API bool yk_settings_has(yk_settings *s, const char *key);
/* The value, or the preset where the key is not set (or JSON null). A value of another kind fails the job by name. */
YK_API int64_t yk_settings_int(yk_settings *s, const char *key, int64_t preset);
YK_API double yk_settings_real(yk_settings *s, const char *key, double preset);
YK_API bool yk_settings_bool(yk_settings *s, const char *key, bool preset);
/* [safe] The same; the text lives with s, or is the preset. */
YK_API const char *yk_settings_text(yk_settings *s, const char *key, const char *preset);
/* "512+256" or [512, 256] as v[0], v[1], ..; how many, 0 where the key is not set. More than `most` fail the job. */
YK_API uint32_t yk_settings_ints(yk_settings *s, const char *key, int64_t *v, uint32_t most);
/* Every key of the string that nobody asked for is an error naming it and the nearest one that was asked for. */
YK_API void yk_settings_check(yk_settings *s);
/* [safe] A key of the JSON file that nobody asked for, from place *i on, which goes behind it; NULL: no more. Values that say nothing
 * (null, "", [], {}) are passed over. The text lives with s. */
YK_API const char *yk_settings_unread(const yk_settings *s, uint32_t *i);
/* [waits] Writes all keys as a JSON object, on the rank that calls. */
YK_API void yk_settings_save(yk_settings *s, const char *file);
/* [safe] Takes NULL. */
YK_API void yk_settings_free(yk_settings *s);

/* Tensors in a safetensors file, or in a folder with model.safetensors or its sharded index. */
typedef struct yk_weights yk_weights;
/* [waits] NULL after an error. Released by yk_weights_close. */
YK_API yk_weights *yk_weights_open(yk_job *job, const char *path);
/* [safe] Whether there is a tensor of that name. */
YK_API bool yk_weights_has(yk_weights *w, const char *name);
/* [safe] How many there are, numbered in the files' order. */
YK_API uint32_t yk_weights_count(const yk_weights *w);
/* [safe] The name of number i; NULL if there is none. Lives with w. */
YK_API const char *yk_weights_name(const yk_weights *w, uint32_t i);
/* [safe] The dimensions of the tensor of that name, into dim; how many, 0 where there is none or more than 8. */
YK_API uint32_t yk_weights_shape(const yk_weights *w, const char *name, int64_t dim[8]);
/* [all] [waits] Copies a tensor into a parameter or state of the same shape, converting to f32; false if the file has no such name.
 * A differing shape fails the job, as do whole numbers for a parameter of fractions: they are quantized weights. */
YK_API bool yk_weights_read(yk_weights *w, const char *name, yk_t param);
/* [safe] Takes NULL. */
YK_API void yk_weights_close(yk_weights *w);
/* [all] [waits] Makes a folder and its parents, by rank 0. */
YK_API void yk_make_dir(yk_job *job, const char *dir);
/* [all] [waits] Files of dir replaced together: write them into the folder whose path comes back (all ranks get it, rank 0 writes; NULL
 * after a failure; the job's until the next such call), then commit. They are synced, then moved into dir. A kill before leaves dir as
 * it was, one meanwhile leaves the new files whole in dir/.yoke-save, which yk_model_from_pretrained names. One at a time in a job. */
YK_API const char *yk_stage_begin(yk_job *job, const char *dir);
YK_API void yk_stage_commit(yk_job *job, const char *dir);
/* Has write(object, dir) called on rank 0 while yk_save makes a checkpoint in dir: what it writes there belongs to it. */
YK_API void yk_on_save(yk_job *job, void *object, void (*write)(void *object, const char *dir));
/* Has read(object, dir) called on every rank once yk_load has taken up the checkpoint in dir: what it cannot read it says by yk_fail. */
YK_API void yk_on_load(yk_job *job, void *object, void (*read)(void *object, const char *dir));
/* The caller's bytes belong to every checkpoint, under a name: yk_save writes rank 0's, yk_load fills them on all ranks. A checkpoint
 * that has others than are registered is refused by name. They have to stay where they are until yk_close. */
YK_API void yk_register_for_checkpointing(yk_job *job, const char *name, void *data, size_t bytes);
/* The job is the object's owner from here on: release(object) is called when it is closed, after all else was freed that uses
 * parameters, the last object first; or at once where it cannot be remembered (job NULL, or out of memory: the job has failed). */
YK_API void yk_on_close(yk_job *job, void *object, void (*release)(void *object));
/* [all] [waits] Writes n parameters and states under the given names (rank 0; beside, synced, renamed). */
YK_API void yk_weights_save(yk_job *job, const char *file, uint32_t n, const char *const *name, const yk_t *param);

#endif
