/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of ranks: the way of this process into a job, its control plane (core/control) and its collectives (core/coll). Their headers
 * define members, excluded ranks, the order of calls and the end of waits. core/run and
 * core/job/session/host_coll.c make their requests on yk__group_coll themselves. This
 * header has core/job's operations on all ranks:
 *   by all      yk__group_barrier, all_gather, sum_f64, set_members: for users and checkpoints. An excluded rank takes part; it is
 *               woken for it.
 *   for all     yk__group_sum_members, gather_members: for the decisions of a step. Only members take part. An excluded rank makes the
 *               same call, sleeps until the result is there (at most some 0.5 s late), and gets the same result.
 *   by members  broadcast_members: does nothing on an excluded rank.
 * So the same program runs on every rank, and calls the first two kinds in the same order everywhere.
 *
 * Thread rule: one thread per group (the step thread). Any thread may call yk__group_abort (yk_cancel), and the exiting thread calls
 * yk__group_exits and yk__group_leave_at_exit.
 */
#ifndef YOKE_CORE_GROUP_GROUP_H
#define YOKE_CORE_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "core/coll/coll.h"

typedef struct yk__group yk__group;

/* A group of one. */
yk_status yk__group_solo(yk__group **g, yk_error *err);
/* Joins the group that this process's origin describes (core/control/start/origin.h); YK_E_ARG without an origin. name: this rank's name in
 * the messages of other ranks under yoke launch ("rank 1 (opencl:0@1)"). Under other launchers a rank bears its host's name. */
yk_status yk__group_join(const char *name, yk__group **g, yk_error *err);
void yk__group_exits(yk__group *g, int code); /* announces this process's exit code before it leaves, for ranks that wait for it */
/* Tells the launcher that SIGUSR1 asks this process, if it is a rank, to save and to leave. */
void yk__group_heeds_signal(void);
void yk__group_leave(yk__group *g); /* says goodbye, so that no rank takes it for a death */
/* Leaves the group of yk__group_join from an exit handler. Takes no lock, whichever the exiting thread holds. */
void yk__group_leave_at_exit(yk__group *g);
/* Ends the job on every rank with this error; each rank's waits return it. */
void yk__group_abort(yk__group *g, const yk_error *why);
/* Ends the job with an error of this process, before or after it joined (as yk__group_abort). In a process of yk__launch the launcher
 * prints the error once, with the rank's name, and the process exits silently. False without a launcher of ours; then each rank prints
 * it. An error that another rank caused may be reported too, as the first report counts. */
bool yk__group_report(const yk_error *why);

/* Replaces an error that only says that the job ends by the error that ended it. */
void yk__group_explain(const yk__group *g, yk_error *err);

yk__coll *yk__group_coll(const yk__group *g);
uint32_t yk__group_rank(const yk__group *g);
uint32_t yk__group_size(const yk__group *g);
bool yk__group_same_host(const yk__group *g, uint32_t rank, uint32_t other);
const char *yk__group_name(const yk__group *g, uint32_t rank);
/* Ranks with equal numbers run on one host. */
uint64_t yk__group_host(const yk__group *g, uint32_t rank);
/* Non-zero once the job must end; for yk__device_wait. Another process or thread writes it, so read it by __atomic_load_n(p,
 * __ATOMIC_ACQUIRE). */
const volatile int *yk__group_cancel(const yk__group *g);

bool yk__group_member(const yk__group *g, uint32_t rank);
void yk__group_show(yk__group *g, float number); /* as yk__coll_show */
float yk__group_shown(const yk__group *g, uint32_t rank);
bool yk__group_excludes(const yk__group *g); /* some rank is excluded */
/* Called by all with equal arrays: member[r] is true for the members from here on, at least one. */
yk_status yk__group_set_members(yk__group *g, const bool *member, yk_error *err);
/* Sets the callback that finds the place of a call in the user's program, for errors. *file: NULL or a string that stays. */
void yk__group_place(yk__group *g, void (*place)(const char **file, int *line));
void yk__group_rows(yk__group *g, const bool *none); /* as yk__coll_rows */

yk_status yk__group_barrier(yk__group *g, yk_error *err);
/* out[r * bytes ..] = rank r's `in`, on every rank. Small messages (up to 64 KiB a rank). */
yk_status yk__group_all_gather(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err);
/* A small sum in rank order (up to 64 KiB). */
yk_status yk__group_sum_f64(yk__group *g, double *v, uint32_t n, yk_error *err);
/* The same over the members' values, for all. An excluded rank's own values do not count; its part of a gathered result is zeros. The
 * results of one call are at most 256 KiB while a rank is excluded. */
yk_status yk__group_gather_members(yk__group *g, const void *in, size_t bytes, void *out, yk_error *err);
yk_status yk__group_sum_members(yk__group *g, double *v, uint32_t n, yk_error *err);
yk_status yk__group_broadcast_members(yk__group *g, uint32_t root, void *data, uint64_t bytes, yk_error *err); /* any size */

#endif
