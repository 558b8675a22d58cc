/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the kit as SPIR-V: a translator for the part of C that the dialect uses (kernels/dialect.kc, the GPU shape). So a device that
 * takes SPIR-V runs the same texts as one that takes OpenCL C, generated ones too. Making a program needs no compiler library
 * (docs/decisions/0026).
 *
 * The output is one compute shader for Vulkan 1.2: entry point "main", SPIR-V 1.5, 64-bit addresses of buffers. It needs
 * bufferDeviceAddress, shaderInt64, storageBuffer8BitAccess and storageBuffer16BitAccess. It has no bindings; its push constants are a
 * kit_spirv_push. With cooperative matrices (kit_target.coop) it also needs their extensions, shaderFloat16 and vulkanMemoryModel.
 * Thread rule: any thread; no state outside a call.
 */
#ifndef YOKE_PLUGINS_KIT_SPIRV_SPIRV_H
#define YOKE_PLUGINS_KIT_SPIRV_SPIRV_H

#include "plugins/kit/kit_source.h"

/* The push constants of a launch, in this layout. */
typedef struct kit_spirv_push {
    uint64_t arguments; /* address of a word of 8 bytes per kit_arg: the address where memory begins, or the number in its low bytes */
    uint64_t stopped;   /* address of 4 bytes that get .. */
    uint32_t group[3];  /* added to the number of the work-group, so that a grid may be dispatched in parts */
    uint32_t launch;    /* .. this, if a loop was left by the driver (kit_spirv_source.checks_loops) */
} kit_spirv_push;

typedef struct kit_spirv_source {
    const char *part[KIT_PARTS]; /* as of kit_unit_parts */
    const char *macros;          /* as of kit_unit_macros */
    const char *kernel;          /* which of the kernels */
    uint32_t local;              /* work-items of a group */
    bool keeps_nan;              /* the device has shaderSignedZeroInfNanPreserveFloat32 */
    bool checks_loops;           /* the driver ends loops after some number of rounds, without a word, as llvmpipe does */
} kit_spirv_source;

typedef struct kit_spirv {
    uint32_t *word;
    size_t n_word;
    uint32_t local_bytes; /* bytes of memory that a group shares */
    bool matrices;        /* cooperative ones: subgroups have kit_target.coop_lanes work-items, and are full */
    const yk_host *host;
} kit_spirv;

/* YK_E_INTERNAL, explained to the host, for a text outside the dialect; YK_E_MEM. *shader then is empty. */
yk_status kit_spirv_make(const kit_target *target, const kit_spirv_source *source, kit_spirv *shader);
void kit_spirv_free(kit_spirv *shader); /* an empty or zeroed one too */

#endif
