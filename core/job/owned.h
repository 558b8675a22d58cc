/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that belong to a job: freed when it closes, or called to write their files when it is saved. */
#ifndef YOKE_CORE_JOB_OWNED_H
#define YOKE_CORE_JOB_OWNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct yk__owned {
    void *object;
    void (*release)(void *object);
} yk__owned;

/* An object that writes further files of a checkpoint. */
typedef struct yk__companion {
    void *object;
    void (*write)(void *object, const char *dir);
} yk__companion;

/* An object that is called with the folder of a loaded checkpoint. */
typedef struct yk__reader {
    void *object;
    void (*call)(void *object, const char *dir);
} yk__reader;

/* The caller's bytes, which are saved and restored. */
typedef struct yk__block {
    char *name;
    void *data;
    int64_t bytes;
} yk__block;

typedef struct yk__attached {
    yk__owned *owned;
    size_t n_owned, cap_owned;
    yk__companion *companion;
    size_t n_companion, cap_companion;
    yk__reader *reader;
    size_t n_reader, cap_reader;
    yk__block *block;
    size_t n_block, cap_block;
} yk__attached;

/* All return false if memory is out. */
bool yk__owned_add(yk__attached *a, void *object, void (*release)(void *object));
bool yk__companion_add(yk__attached *a, void *object, void (*write)(void *object, const char *dir));
bool yk__reader_add(yk__attached *a, void *object, void (*call)(void *object, const char *dir));
bool yk__block_add(yk__attached *a, const char *name, void *data, size_t bytes);
void yk__owned_release(yk__attached *a); /* frees the newest first */
void yk__attached_free(yk__attached *a);

#endif
