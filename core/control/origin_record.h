/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of how a process was started: which rank it is, of how many, and how it finds the others. Written by whoever finds it
 * (origin.c, launchers.c), read by whoever joins the job.
 */
#ifndef YOKE_CORE_CONTROL_ORIGIN_RECORD_H
#define YOKE_CORE_CONTROL_ORIGIN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/control/control.h"
#include "core/control/variables.h"

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

/* One line on it: "rank 2 of 4 of torchrun (WORLD_SIZE=4, RANK=2); the ranks meet at node-a, port 29501". */
void yk__origin_text(const yk__origin *origin, char *text, size_t size);

/* YK_E_ARG: what is missing of the variables with which the ranks would find each other, and where to get it. */
yk_status yk__origin_incomplete(const yk__origin *origin, const yk__missing *missing, yk_error *err);
/* YOKE_PORT into the origin, where it is set. */
yk_status yk__origin_read_port(yk__origin *origin, yk_error *err);
/* The origin meets at YOKE_ADDR, YOKE_PORT, with YOKE_SECRET_FILE, where it has no address and port from elsewhere. */
yk_status yk__origin_meet(yk__origin *origin, yk_error *err);

#endif
