/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin of a process: its rank, the number of ranks, and its way to the other ranks. origin.c and launchers.c write it; the
 * functions that join the job read it.
 */
#ifndef YOKE_CORE_CONTROL_START_ORIGIN_RECORD_H
#define YOKE_CORE_CONTROL_START_ORIGIN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/control/control.h"
#include "core/control/start/variables.h"

/* The way in which ranks find each other. */
typedef enum yk__origin_kind {
    YK__ORIGIN_SINGLE,  /* one rank */
    YK__ORIGIN_LAUNCH,  /* by the descriptor of yoke launch */
    YK__ORIGIN_HOST,    /* all on this host: by the name of the job */
    YK__ORIGIN_ADDRESS, /* at rank 0's address and port, with a secret file */
    YK__ORIGIN_STORE,   /* all on this host: by the job's name in the launcher's store (PMI_FD) */
    YK__ORIGIN_SHARED   /* on several hosts: at the address that rank 0 puts into the launcher's store (store_fd, or PMIx) */
} yk__origin_kind;

typedef struct yk__origin {
    yk__origin_kind kind;
    const char *launcher; /* for example "torchrun or a launcher like it"; static */
    char why[176];        /* the variables that say so: "WORLD_SIZE=4, RANK=2" */
    uint32_t rank, size;  /* unset for YK__ORIGIN_LAUNCH */
    char job[192];        /* HOST: text that tells this job from other jobs on this host */
    char address[256];    /* ADDRESS: name or number of rank 0's host */
    uint16_t port;        /* ADDRESS: rank 0's port */
    int store_fd;         /* STORE and SHARED: PMI_FD; -1 for the store of PMIx */
} yk__origin;

/* Describes it in one line: "rank 2 of 4 of torchrun (WORLD_SIZE=4, RANK=2); the ranks meet at node-a, port 29501". */
void yk__origin_text(const yk__origin *origin, char *text, size_t size);

/* YK_E_ARG that names the missing variables by which the ranks would find each other, and says how to get them. */
yk_status yk__origin_incomplete(const yk__origin *origin, const yk__missing *missing, yk_error *err);
/* Reads YOKE_PORT into the origin, if set. */
yk_status yk__origin_read_port(yk__origin *origin, yk_error *err);
/* Completes an origin without address and port by YOKE_ADDR, YOKE_PORT and YOKE_SECRET_FILE. */
yk_status yk__origin_meet(yk__origin *origin, yk_error *err);

#endif
