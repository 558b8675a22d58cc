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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__ORIGIN_RANKS 32768u /* at most */

/* How the ranks find each other. */
typedef enum yk__origin_kind {
    YK__ORIGIN_SINGLE,  /* there is one */
    YK__ORIGIN_LAUNCH,  /* over the descriptor of yoke launch */
    YK__ORIGIN_HOST,    /* all run on this host: by the name of the job */
    YK__ORIGIN_ADDRESS, /* at rank 0's address and port, with the secret of a file */
    YK__ORIGIN_STORE,   /* all run on this host: by the name that the launcher's store has for the job (PMI_FD) */
    YK__ORIGIN_SHARED   /* on several: at the address that rank 0 puts into the launcher's store (store_fd, or PMIx) */
} yk__origin_kind;

typedef struct yk__origin {
    yk__origin_kind kind;
    const char *launcher; /* "torchrun or a launcher like it"; static */
    char why[176];        /* the variables that say so: "WORLD_SIZE=4, RANK=2" */
    uint32_t rank, size;  /* not of YK__ORIGIN_LAUNCH */
    char job[192];        /* of HOST: what tells this job from others on this host */
    char address[256];    /* of ADDRESS: name or number of rank 0's host */
    uint16_t port;        /* of ADDRESS */
    int store_fd;         /* of STORE and SHARED: PMI_FD; -1: the store is PMIx's */
} yk__origin;

/* YK_E_ARG where the process is one of several but its variables do not suffice: the text names what is missing. *origin is then
 * written as far as it is known. */
yk_status yk__origin_find(yk__origin *origin, yk_error *err);
/* One line on it: "rank 2 of 4 of torchrun (WORLD_SIZE=4, RANK=2); the ranks meet at node-a, port 29501". */
void yk__origin_text(const yk__origin *origin, char *text, size_t size);

/* True in a process that is one of the ranks of a job, whoever started it, and whose variables suffice. */
bool yk__launched(void);
int yk__launch_fd(void); /* the descriptor of yoke launch; -1: none that works */
/* yk__origin_find, for its error alone. */
yk_status yk__launch_check(yk_error *err);
/* Whether this process prints that error, so that it is seen once: the other launcher's rank 0 does. True without one. */
bool yk__launch_speaks(void);

#endif
