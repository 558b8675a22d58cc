/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of kernels, as a backend compiles them. No state: any thread. */
#ifndef YOKE_PLUGINS_KIT_KIT_SOURCE_H
#define YOKE_PLUGINS_KIT_KIT_SOURCE_H

#include "plugins/kit/kit_program.h"

#define KIT_PARTS 5

/*
 * The source of a unit: texts to compile as one, in order. file: kit_unit.file, or NULL for generated kernels. `generated` is their text,
 * of one or several units, in order. False for an unknown file.
 */
bool kit_unit_parts(const kit_target *target, const char *file, const char *generated, const char *part[KIT_PARTS]);
/* The compiler's macros, "-DNAME=VALUE" each, separated by blanks; false if they do not fit. */
bool kit_unit_macros(const kit_target *target, const char *macros, char *text, size_t size);

/* The macros, as of a kit_unit, of kernels of rows and elements, generated ones among them: " -DK_FOUR", or "". */
const char *kit_row_macros(const kit_target *target);
/* The macros of generated products. */
const char *kit_generated_macros(const kit_target *target);

/* For the lowering: the text of a product's kernel; the lowering writes its macros before it. lanes: the kernel for kit_target.lanes; mma:
 * for kit_target.mma, or kit_target.coop. */
const char *kit_dot_source(const kit_target *target, bool lanes, bool mma);

#endif
