/* SPDX-License-Identifier: Apache-2.0 */
/* The fake driver's memory, for those who copy it or end a context. All but fake_host under the lock. */
#ifndef YOKE_TESTS_FAKES_LIBCUDA_MEMORY_H
#define YOKE_TESTS_FAKES_LIBCUDA_MEMORY_H

#include "tests/fakes/libcuda_state.h"

char *fake_host(CUdeviceptr address); /* host address of device memory */
/* True if the device memory is within one allocation. */
bool fake_memory_covers(CUdeviceptr address, size_t bytes);
bool fake_is_pinned(const void *memory, size_t bytes);
uint64_t fake_memory_count(void); /* allocations and registrations that were not freed */
void fake_memory_end(CUcontext context); /* frees all of a device's, and counts it as abandoned */

#endif
