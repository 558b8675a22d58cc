/* SPDX-License-Identifier: Apache-2.0 */
/* For model builders: settings, weight files, parts of checkpoints. yoke.h includes this header, and its rules hold here too. */
#ifndef YOKE_H
#include <yoke/yoke.h>
#elif !defined(YOKE_BUILDER_H)
#define YOKE_BUILDER_H

/* ---- Settings and weight files, for model builders ----------------------------------------------------------------------- */

/* key=value settings: first from a string "a=1,b=x+y", then a JSON object's scalars for keys that the string does not set. */
typedef struct yk_settings yk_settings;
/* Makes settings; pairs may be NULL. The caller releases them by yk_settings_free. */
YK_API yk_settings *yk_settings_new(yk_job *job, const char *pairs);
/* [waits] Adds the JSON file's keys that s does not have yet. */
YK_API void yk_settings_json(yk_settings *s, const char *file);
YK_API void yk_settings_put(yk_settings *s, const char *key, const char *value); /* replaces */
/* Sets the names of the classes, in order. Settings save them as id2label and label2id; their number is num_labels unless the string
 * sets another. Without a call, a JSON object's id2label gives the names. */
YK_API void yk_settings_labels(yk_settings *s, uint32_t n, const char *const *name);
/* [safe] The name of class i; NULL if unknown. Lives with s. */
YK_API const char *yk_settings_label(const yk_settings *s, uint32_t i);
/* [safe] True if the key is set, also to an object or a list of a JSON file; false for JSON null. */
YK_API bool yk_settings_has(yk_settings *s, const char *key);
/* [safe] True if the JSON file has null for the key and nothing else sets it. */
YK_API bool yk_settings_is_null(yk_settings *s, const char *key);
/* The value; preset if the key is unset or JSON null. A value of another kind fails the job, which names the key. */
YK_API int64_t yk_settings_int(yk_settings *s, const char *key, int64_t preset);
YK_API double yk_settings_real(yk_settings *s, const char *key, double preset);
YK_API bool yk_settings_bool(yk_settings *s, const char *key, bool preset);
/* [safe] The text of a key; preset if unset. The text lives with s, or is preset. */
YK_API const char *yk_settings_text(yk_settings *s, const char *key, const char *preset);
/* Reads "512+256" or [512, 256] into v[0], v[1], ..; returns the count, 0 if the key is unset. More than `most` fail the job. */
YK_API uint32_t yk_settings_ints(yk_settings *s, const char *key, int64_t *v, uint32_t most);
/* Fails the job for each key of the string that no call has read, naming it and the nearest key that was read. */
YK_API void yk_settings_check(yk_settings *s);
/* [safe] The next key of the JSON file that no call has read, from position *i on, which it advances; NULL at the end. Skips empty values
 * (null, "", [], {}). The text lives with s. */
YK_API const char *yk_settings_unread(const yk_settings *s, uint32_t *i);
/* [waits] Writes all keys as a JSON object, on the calling rank. */
YK_API void yk_settings_save(yk_settings *s, const char *file);
/* [safe] Takes NULL. */
YK_API void yk_settings_free(yk_settings *s);

/* Text to token ids for a program that feeds yk_input itself: a server. */
typedef struct yk_tokenizer yk_tokenizer;
/* [waits] Opens the tokenizer's files of a folder, as yk_data_open does, or "bytes". Belongs to the job; NULL after an error. */
YK_API yk_tokenizer *yk_tokenizer_open(yk_job *job, const char *dir);
/* Writes the ids of a text (UTF-8, ends with a 0 byte), with the template's tokens ([CLS] .. [SEP]), to id. There is room for `most` ids; a
 * longer text is cut. Returns their number; -1 if the text is not UTF-8, after which the job goes on, or after an error. */
YK_API int64_t yk_tokenizer_encode(yk_tokenizer *t, const char *text, uint32_t most, int32_t *id);

/* Tensors in a safetensors file, or in a folder with model.safetensors or its sharded index. */
typedef struct yk_weights yk_weights;
/* [waits] Opens a file or folder of weights; NULL after an error. The caller releases it by yk_weights_close. */
YK_API yk_weights *yk_weights_open(yk_job *job, const char *path);
/* [safe] True if there is a tensor of that name. */
YK_API bool yk_weights_has(yk_weights *w, const char *name);
/* [safe] The number of tensors, which are numbered in the files' order. */
YK_API uint32_t yk_weights_count(const yk_weights *w);
/* [safe] The name of tensor i; NULL if absent. Lives with w. */
YK_API const char *yk_weights_name(const yk_weights *w, uint32_t i);
/* [safe] Writes the dimensions of the named tensor to dim; returns their number, 0 if absent or more than 8. */
YK_API uint32_t yk_weights_shape(const yk_weights *w, const char *name, int64_t dim[8]);
/* [all] [waits] Copies a tensor into a parameter or state of the same shape, converting to f32; false if the file has no such name.
 * Another shape fails the job. So do integers for a float parameter: they are quantized weights. */
YK_API bool yk_weights_read(yk_weights *w, const char *name, yk_t param);
/* [waits] True if two tensors of the file have one shape and, as f32, the same bits (a NaN equals itself). Reads them in pieces; a failed
 * read fails the job. */
YK_API bool yk_weights_same(yk_weights *w, const char *name, const char *other);
/* [safe] Takes NULL. */
YK_API void yk_weights_close(yk_weights *w);
/* [all] [waits] Rank 0 makes a folder and its parents. */
YK_API void yk_make_dir(yk_job *job, const char *dir);
/* [all] [waits] Replaces files of dir together: write them into the folder that yk_stage_begin returns, then commit. All ranks get its
 * path, rank 0 writes; NULL after a failure; the path belongs to the job until the next such call. Commit syncs the files and moves them
 * into dir. A kill before commit leaves dir as it was. A kill during commit leaves the new files complete in dir/.yoke-save, and
 * yk_model_from_pretrained names that folder. A file NAME.yoke-gone there makes the commit remove dir/NAME. One at a time in a job. */
YK_API const char *yk_stage_begin(yk_job *job, const char *dir);
YK_API void yk_stage_commit(yk_job *job, const char *dir);
/* Registers write(object, dir), which rank 0 calls while yk_save makes a checkpoint in dir; its files become part of the checkpoint. */
YK_API void yk_on_save(yk_job *job, void *object, void (*write)(void *object, const char *dir));
/* Registers read(object, dir), which every rank calls after yk_load has loaded the checkpoint in dir. It reports failures by yk_fail. */
YK_API void yk_on_load(yk_job *job, void *object, void (*read)(void *object, const char *dir));
/* Adds the caller's bytes to every checkpoint, under a name: yk_save writes rank 0's, yk_load fills them on all ranks. yk_load refuses, by
 * name, a checkpoint with names that are not registered. The bytes must stay at their address until yk_close. */
YK_API void yk_register_for_checkpointing(yk_job *job, const char *name, void *data, size_t bytes);
/* Makes the job the object's owner: yk_close calls release(object) after it has freed everything that uses parameters, the last object
 * first. If the job cannot store it (job NULL, or out of memory, which fails the job), release is called at once. */
YK_API void yk_on_close(yk_job *job, void *object, void (*release)(void *object));
/* [all] [waits] Rank 0 writes n parameters and states under the given names, into a temporary file that is synced and renamed. */
YK_API void yk_weights_save(yk_job *job, const char *file, uint32_t n, const char *const *name, const yk_t *param);

#endif
