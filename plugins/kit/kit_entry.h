/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of a launch, and the entry of a kernel in plain C. An entry is a function that calls its kernel for each group. So a device
 * whose compiler makes shared objects needs no list of the kernel's parameters:
 *
 *     void kit_entry(const kit_argument *argument, const uint64_t groups[3]);
 *
 * No state: any thread.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_ENTRY_H
#define YOKE_PLUGINS_KIT_KIT_ENTRY_H

#include "plugins/kit/kit_program.h"

#define KIT_ENTRY "kit_entry"

/* An argument as it is at one launch. The text that kit_entry_write makes has the same struct. */
typedef struct kit_argument {
    void *memory; /* a buffer of the device; NULL for a number */
    union {
        int64_t i64; /* of memory: its first element at a launch, its first byte at kit_device.call */
        int32_t i32;
        float f32;
    } number;
    uint32_t kind;    /* kit_arg_kind */
    uint32_t element; /* bytes of an element of memory */
} kit_argument;

typedef void kit_entry(const kit_argument *argument, const uint64_t groups[3]);

/* Adds the entry of the launch's kernel, to stand behind the kernel's text. */
void kit_entry_write(kit_text *text, const kit_program *program, const kit_launch *launch);

#endif
