/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MPICH's hydra, Intel MPI's mpiexec and Slurm's pmi2 plugin tell a process over PMI_FD, in version 1 of the PMI text protocol:
 * one line per request, "cmd=NAME key=value ..", one per answer.
 *
 * Thread rule: one thread.
 */
#ifndef YOKE_CORE_CONTROL_PMI_H
#define YOKE_CORE_CONTROL_PMI_H

#include "core/base/error.h"

#define YK__PMI_VALUE 256

/* The name of the job's key-value space, which no other job of the launcher has; then the protocol is ended, as the launcher expects it
 * of a process before its exit. */
yk_status yk__pmi_job_name(int fd, char name[YK__PMI_VALUE], yk_error *err);

#endif
