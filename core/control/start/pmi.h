/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of MPICH's hydra, Intel MPI's mpiexec and Slurm's pmi2 plugin, by version 1 of the PMI text protocol over PMI_FD: one line
 * per request, "cmd=NAME key=value ..", and one per answer.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_START_PMI_H
#define YOKE_CORE_CONTROL_START_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__PMI_VALUE 256

/* The name of the job's key-value space, unique among the launcher's jobs. Ends the protocol, as the launcher expects before the process
 * exits. */
yk_status yk__pmi_job_name(int fd, char name[YK__PMI_VALUE], yk_error *err);
/* Collective: every rank gets rank 0's text in value[size]. Ends the protocol. ms: time to wait for all ranks; 0 for ever. The text has
 * at most YK__PMI_TEXT bytes. */
#define YK__PMI_TEXT 400
yk_status yk__pmi_share(int fd, uint32_t rank, uint32_t ms, char *value, size_t size, yk_error *err);

#endif
