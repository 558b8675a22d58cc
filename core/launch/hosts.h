/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of a job, from an option, a file, or a Slurm allocation.
 *
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_LAUNCH_HOSTS_H
#define YOKE_CORE_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__HOSTS_MOST 4096u

typedef struct yk__host {
    char *name;     /* as ssh takes it, "user@node" too */
    char *devices;  /* device specs; NULL for those of the whole job */
    uint32_t ranks; /* 0: one per device */
    bool own;       /* this host, which no command has to reach (own_host.h) */
} yk__host;

typedef struct yk__hosts {
    yk__host *host; /* [count] */
    uint32_t count;
} yk__hosts;

/* "a:2,b,c:4=opencl:0 opencl:1": name, number of ranks, devices. Commas separate hosts, blanks separate devices. */
yk_status yk__hosts_parse(const char *text, yk__hosts *hosts, yk_error *err);
/* A file with one such host on each line, or "a slots=2"; '#' begins a comment. */
yk_status yk__hosts_read(const char *path, yk__hosts *hosts, yk_error *err);
/* nodes: "n[1-3,07],m"; tasks: ranks per node, "2(x3),1", or NULL. */
yk_status yk__hosts_of_slurm(const char *nodes, const char *tasks, yk__hosts *hosts, yk_error *err);
/* Gives the hosts the ranks that the user asked for beside the list: `total` of the job, `each` of a host; 0: not asked. Numbers of the
 * list are its limit, filled from the first host on; a host left without a rank goes. Without numbers each has an even part of `total`. */
yk_status yk__hosts_allot(yk__hosts *hosts, uint32_t total, uint32_t each, yk_error *err);
void yk__hosts_free(yk__hosts *hosts);

#endif
