/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of working memory: blocks go to a disk and come back within one process (docs/decisions/0091).
 *
 * The file has no name once it is open, so it goes with the process. The next yk__tier_open in that folder removes a name that a killed
 * process left in between. A thread reads and writes the blocks in the order of the calls, with O_DIRECT if the file system takes it.
 * The first failure stays: later requests do nothing, and every wait returns it. Once the job is to end, no call waits for the disk.
 *
 * Errors: YK_E_IO, YK_E_MEM, YK_E_CANCELLED; messages name the folder. Thread rule: one thread at a time for a given object.
 */
#ifndef YOKE_CORE_IO_TIER_H
#define YOKE_CORE_IO_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/error.h"

#define YK__TIER_PAGE 4096u /* bytes: memory, offsets and sizes of requests are multiples */

#define YK__TIER_MEMORY 4u  /* blocks of memory that a close takes, at most */

typedef struct yk__tier yk__tier;

/* Makes the file in `dir`, which exists, and starts the thread. cancel: not 0 once the job is to end, in memory that outlives the tier;
 * may be NULL. */
yk_status yk__tier_open(const char *dir, const volatile int *cancel, yk__tier **out, yk_error *err);
/* Drops requests that have not begun, and waits 2 s at most for the one under way. A hung disk keeps that one, with the file, until it
 * answers. memory: `n` blocks of yk__malloc that requests use; they are freed with the file. tier: may be NULL; then nothing is. */
void yk__tier_close(yk__tier *tier, void *const *memory, uint32_t n);
bool yk__tier_is_direct(const yk__tier *tier);
/* Fails unless so many bytes are free in the folder; what: their purpose, for the message. */
yk_status yk__tier_expect(const yk__tier *tier, uint64_t bytes, const char *what, yk_error *err);
/* Takes a range of the file on the disk, which holds zeros if no request has written there since it was last given back. */
yk_status yk__tier_reserve(yk__tier *tier, uint64_t at, uint64_t bytes, yk_error *err);
void yk__tier_give_back(yk__tier *tier, uint64_t at, uint64_t bytes); /* no request of that range is under way */

/* The two calls begin a request, and may wait for older ones. Its memory stays as it is until a wait for its number, or until the close if
 * that wait was cancelled. */
uint64_t yk__tier_read(yk__tier *tier, void *to, uint64_t at, uint64_t bytes);
uint64_t yk__tier_write(yk__tier *tier, const void *from, uint64_t at, uint64_t bytes);
/* Waits for a request and all before it. */
yk_status yk__tier_wait(yk__tier *tier, uint64_t number, yk_error *err);
/* Waits for all; afterwards no request uses the caller's memory, failed or not, unless it was cancelled. */
yk_status yk__tier_idle(yk__tier *tier, yk_error *err);

#endif
