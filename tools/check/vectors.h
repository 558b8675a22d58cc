/* SPDX-License-Identifier: Apache-2.0 */
/* `yoke test --vectors DIR`: operator vectors (one safetensors file per case, as ONNX's conformance tests) on a device. */
#ifndef YOKE_TOOLS_CHECK_VECTORS_H
#define YOKE_TOOLS_CHECK_VECTORS_H

#include <stdbool.h>

typedef struct vectors {
    const char *dir, *devices, *only;
    bool json;
    unsigned passed, failed, unsupported;
} vectors;

/* Exit code: 0, or 2 where the folder cannot be read (after a message). */
int vectors_run(vectors *v);

#endif
