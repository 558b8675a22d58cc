/* SPDX-License-Identifier: Apache-2.0 */
/* Space of a file, taken before it is written. Any thread. */
#ifndef YOKE_CORE_BASE_PROCESS_RESERVE_H
#define YOKE_CORE_BASE_PROCESS_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Takes space for a range of a file, in pieces. On some file systems a signal makes the kernel give back the interrupted call's space. So a
 * timer's signals would keep one large call from ever finishing. ends: asked before each piece; true: take no more. Returns 0, errno, or
 * ECANCELED if it ended. */
int yk__reserve(int fd, uint64_t at, uint64_t bytes, bool (*ends)(const void *user), const void *user);

#endif
