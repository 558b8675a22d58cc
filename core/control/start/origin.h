/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way in which this process was started, from its environment: yoke launch, by hand, another launcher, or single. The first match in
 * this order counts:
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
 * Each call reads the environment again. Thread rule: any thread, while no thread changes the environment.
 */
#ifndef YOKE_CORE_CONTROL_START_ORIGIN_H
#define YOKE_CORE_CONTROL_START_ORIGIN_H

#include "core/control/start/origin_record.h"

/* YK_E_ARG if the process is one of several but its variables are incomplete; the text names the missing ones. *origin then has the
 * known parts. */
yk_status yk__origin_find(yk__origin *origin, yk_error *err);

/* True in a rank of a job, by any launcher, with complete variables. */
bool yk__launched(void);
int yk__launch_fd(void); /* descriptor of yoke launch; -1 without an open one */
int yk__node_fd(void);   /* socket of yoke launch's part on this host, in a job of several hosts, for yk__control_verdict; -1 without an
                          * open one */
/* Only the error of yk__origin_find. */
yk_status yk__launch_check(yk_error *err);
/* Milliseconds that this process should wait before it prints that error, and the wait. A launcher ends all ranks once rank 0 has
 * failed, so an error of every rank appears once; if rank 0 is well, other ranks print theirs. 0 without such an error. */
uint32_t yk__launch_patience(void);
void yk__launch_await_turn(void);

#endif
