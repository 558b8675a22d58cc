/* SPDX-License-Identifier: Apache-2.0 */
/* The host as each part of the CUDA plugin sees it: its table, memory, options. Any thread. */
#ifndef YOKE_BACKENDS_CUDA_CUDA_HOST_H
#define YOKE_BACKENDS_CUDA_CUDA_HOST_H

#include <stddef.h>

#include <yoke/plugin.h>

#define CUDA_WHO "cuda"

extern const yk_host *cuda_host; /* NULL before init */

void *cuda_alloc(size_t bytes); /* zeroed; NULL after the host was told why */
void cuda_free(void *p);
const char *cuda_option(const char *key); /* NULL: not set, or empty */

#endif
