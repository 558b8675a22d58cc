/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control groups of this process say about memory, version 1 or 2, in a container too. Files are read anew at each call.
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_BASE_CGROUP_H
#define YOKE_CORE_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The lowest limit of the group and those above it, and the least that is left below one; caches that the kernel would give up
 * count as left. False: no limit. */
bool yk__cgroup_memory(uint64_t *limit, uint64_t *left);
/* What a process of this host may still take: free memory and swap, below the groups' limits. UINT64_MAX: not known. */
uint64_t yk__cgroup_memory_left(void);
/* How many processes of the group the kernel has killed for want of memory; 0 where it does not tell. */
uint64_t yk__cgroup_kills(void);
/* For tests: a folder in which proc/ and sys/ are looked for; "" for the machine's. Must live on. */
void yk__cgroup_root(const char *folder);

#endif
