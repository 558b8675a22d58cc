/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a queue whose work a driver does. */
#ifndef YOKE_PLUGINS_KIT_DRAIN_H
#define YOKE_PLUGINS_KIT_DRAIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include <yoke/plugin.h>

/* Waits until nothing is left of what the queue was given: left() says how much is, from the caller's thread. A slow queue is waited for as
 * long as it finishes something, one that has not failed for ever. False: it has failed (*failed is not 0) and finished nothing for two
 * seconds, as one that hangs. Then it is to be left behind, with the memory that it may still write to. */
bool kit_drain(yk_queue *q, size_t (*left)(yk_queue *q), const _Atomic int *failed);

/* Leaves memory to a device that hangs: LeakSanitizer, where it is in the process, takes neither it nor what it leads to for a leak. */
void kit_leave(const void *memory);

#endif
