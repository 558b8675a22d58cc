/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiled units of a device. A unit's name is the hash of its text, its macros and the device's identity. It is looked up in the
 * device's table, then in the cache folder (kit_cache.h), then compiled; missing generated kernels are compiled together.
 * Any thread: its own lock is held while it compiles.
 */
#ifndef YOKE_PLUGINS_KIT_UNITS_H
#define YOKE_PLUGINS_KIT_UNITS_H

#include <pthread.h>

#include "plugins/kit/kit_cache.h"
#include "plugins/kit/kit_source.h"

/* Code that another process can load instead of compiling. */
typedef struct kit_image {
    void *data; /* memory of host->alloc, for the taker to free; NULL if absent */
    size_t bytes;
} kit_image;

/* A backend's compiler. "Code" is what its driver calls a program or a module. */
typedef struct kit_compiler {
    void *(*load)(yk_device *dev, const void *image, size_t bytes); /* NULL if it is useless here; the file is then deleted */
    /* *image is filled in where the unit may be kept. */
    yk_status (*build)(yk_device *dev, const char *macros, const char *const part[KIT_PARTS], void **code, kit_image *image);
    void (*release)(void *code);
} kit_compiler;

typedef struct kit_code {
    uint64_t key;
    void *code;
    bool owner; /* several generated kernels lie in one code, which the first releases */
} kit_code;

typedef struct kit_units {
    yk_device *dev;
    const kit_target *target;
    const kit_compiler *compiler;
    kit_cache cache;
    bool cached;       /* units are kept in the cache folder; no: the driver keeps its own */
    uint64_t identity; /* hash of device, driver and compiler */
    pthread_mutex_t lock; /* guards the members below */
    kit_code *code;
    size_t n, cap;
} kit_units;

/* The caller sets all members down to identity, and zeroes the others; cannot fail. */
void kit_units_init(kit_units *units);
/* Frees the table and, if the compiler still works, the compiled code. Units are unusable afterwards. */
void kit_units_release(kit_units *units, bool release_code);
/* The code of a program's units, of[i] for unit[i]; the device owns it. YK_E_MEM, or the error of `build`. */
yk_status kit_units_get(kit_units *units, const kit_program *program, void **of);
/* For a compiler of plain C (CPU shape). of[i] is the code of launch[i]'s kernel with its entry (kit_entry.h), or NULL for a library's
 * launch. The device owns it. The same errors. */
yk_status kit_units_entries(kit_units *units, const kit_program *program, void **of);

#endif
