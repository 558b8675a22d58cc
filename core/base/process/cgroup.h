/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of this process's control groups, version 1 or 2, in a container too. Each call reads the files anew.
 * Thread rule: any thread.
 */
#ifndef YOKE_CORE_BASE_PROCESS_CGROUP_H
#define YOKE_CORE_BASE_PROCESS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* The lowest limit of the group and its ancestors, and the least memory left below such a limit. Page cache that the kernel would reclaim
 * counts as left. False if no limit is set. */
bool yk__cgroup_memory(uint64_t *limit, uint64_t *left);
/* Memory that a process of this host may still take: free memory and swap, below the groups' limits. UINT64_MAX if unknown. */
uint64_t yk__cgroup_memory_left(void);
/* Number of the group's processes that the kernel killed for lack of memory; 0 if it does not report them. */
uint64_t yk__cgroup_kills(void);
/* For tests: the folder that holds proc/ and sys/; "" for the machine's root. The string must stay valid. */
void yk__cgroup_root(const char *folder);

#endif
