/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process was started, as its environment tells: by yoke launch, by hand, by another launcher, or by nobody. The first
 * of these that is there counts:
 *
 *     YOKE_LAUNCHER=none                      a job of its own, whatever else is set
 *     YOKE_JOB_FD                             yoke launch, over the descriptor
 *     YOKE_RANK, YOKE_SIZE, YOKE_ADDR, ..     by hand
 *     OMPI_COMM_WORLD_SIZE, _RANK, PMIx       mpirun (Open MPI)
 *     WORLD_SIZE, RANK, ..                    torchrun
 *     SLURM_STEP_NUM_TASKS, SLURM_PROCID, ..  srun
 *     PMI_SIZE, PMI_RANK, PMI_FD              mpiexec (MPICH, Intel MPI), srun --mpi=pmi2
 *     JOB_COMPLETION_INDEX, YOKE_SIZE         a Kubernetes indexed job
 *     nothing                                 a single process
 *
 * Read anew at each call. Thread rule: any thread, while nobody changes the environment.
 */
#ifndef YOKE_CORE_CONTROL_ORIGIN_H
#define YOKE_CORE_CONTROL_ORIGIN_H

#include "core/control/origin_record.h"

/* YK_E_ARG where the process is one of several but its variables do not suffice: the text names what is missing. *origin is then
 * written as far as it is known. */
yk_status yk__origin_find(yk__origin *origin, yk_error *err);

/* True in a process that is one of the ranks of a job, whoever started it, and whose variables suffice. */
bool yk__launched(void);
int yk__launch_fd(void); /* the descriptor of yoke launch; -1: none that works */
int yk__node_fd(void);   /* of its part on this host, where there are others: for yk__control_verdict; -1: none that works */
/* yk__origin_find, for its error alone. */
yk_status yk__launch_check(yk_error *err);
/* How long this process waits before it prints that error, in ms, and the wait. A launcher ends all ranks when rank 0 has failed, so what
 * is wrong on all of them is seen once; where rank 0 is well, the others say what they have. 0 without an error of that kind. */
uint32_t yk__launch_patience(void);
void yk__launch_await_turn(void);

#endif
