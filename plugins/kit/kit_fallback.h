/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node that neither kernels nor a library of the device compute. Its operands come to host memory, the host's reference kernel computes
 * it there, and its outputs go back. An object belongs to its program; runs of several queues may share it.
 */
#ifndef YOKE_PLUGINS_KIT_KIT_FALLBACK_H
#define YOKE_PLUGINS_KIT_KIT_FALLBACK_H

#include "plugins/kit/kit_device.h"

typedef struct kit_fallback kit_fallback;

/* The graph outlives it. YK_E_MEM, reported to the host. */
yk_status kit_fallback_new(const yk_host *host, const char *plugin, const yk_graph *graph, uint32_t node, kit_fallback **out);
void kit_fallback_free(kit_fallback *f);
/* operand: as in kit_device.call. */
yk_status kit_fallback_run(const kit_fallback *f, const kit_device *device, void *stream, const kit_argument *operand);

#endif
