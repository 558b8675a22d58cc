/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPICH's hydra, Intel MPI's mpiexec and Slurm's pmi2 plugin tell a process over PMI_FD, in version 1 of the PMI text protocol:
 * one line per request, "cmd=NAME key=value ..", one per answer.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_PMI_H
#define YOKE_CORE_CONTROL_PMI_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__PMI_VALUE 256

/* The name of the job's key-value space, which no other job of the launcher has; then the protocol is ended, as the launcher expects it
 * of a process before its exit. */
yk_status yk__pmi_job_name(int fd, char name[YK__PMI_VALUE], yk_error *err);
/* Collective: all ranks of the job get rank 0's text in value[size]; then the protocol is ended. ms: how long to wait for all; 0: for ever.
 * The text has at most YK__PMI_TEXT bytes. */
#define YK__PMI_TEXT 400
yk_status yk__pmi_share(int fd, uint32_t rank, uint32_t ms, char *value, size_t size, yk_error *err);

#endif
