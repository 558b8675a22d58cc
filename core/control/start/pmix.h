/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a PMIx launcher (mpirun of Open MPI, srun --mpi=pmix), through libpmix, which is loaded on first use.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_START_PMIX_H
#define YOKE_CORE_CONTROL_START_PMIX_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

/* Collective: every rank of the launcher's job gets rank 0's text in value[size]. ms: time to wait for all ranks. */
yk_status yk__pmix_share(uint32_t rank, uint32_t ms, char *value, size_t size, yk_error *err);

#endif
