/* SPDX-License-Identifier: Apache-2.0 */
/* What the lowering itself takes of the kernels' sources; backends ask kit_unit_parts (program.h). */
#ifndef YOKE_PLUGINS_KIT_SOURCE_H
#define YOKE_PLUGINS_KIT_SOURCE_H

#include "plugins/kit/program.h"

const char *kit_dot_source(const kit_target *target); /* the kernel of a product, before which its macros are written */

#endif
