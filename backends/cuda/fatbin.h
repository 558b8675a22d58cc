/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that were compiled when the plugin was built, if configure found nvcc and was asked for them (--with-nvcc). Each unit has one
 * image with code for several chips; the driver takes the code that fits. They are found by what they were compiled of, so that a text that
 * has changed since is compiled anew. Nothing changes after the build: any thread.
 */
#ifndef YOKE_BACKENDS_CUDA_FATBIN_H
#define YOKE_BACKENDS_CUDA_FATBIN_H

#include "plugins/kit/kit_source.h"

/* A line of what fatbins.sh writes. */
typedef struct cuda_fatbin {
    uint64_t key; /* cuda_fatbin_key of its text */
    const void *image;
} cuda_fatbin;

/* The hash of a unit's text and macros, as kit_unit_parts and kit_unit_macros give them. */
uint64_t cuda_fatbin_key(const char *macros, const char *const part[KIT_PARTS]);
/* NULL: it was not compiled then. */
const void *cuda_fatbin_find(uint64_t key);
/* Hash of the keys of all images; 0 if there are none. */
uint64_t cuda_fatbins_key(void);

#endif
