/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph as bytes: how the fuzzer gets at yk__graph_check, which checks what a wrapped plugin is given. The library
 * reads graphs from nowhere outside.
 */
#ifndef YOKE_TESTS_GRAPH_SERIAL_H
#define YOKE_TESTS_GRAPH_SERIAL_H

#include "core/graph/graph.h"

/* Little-endian, versioned, with a checksum; the reader checks every count, index and shape before use. */
yk_status graph_write(const yk_graph *g, void **data, size_t *bytes, yk_error *err);
yk_status graph_read(const void *data, size_t bytes, yk__graph *out, yk_error *err);

#endif
