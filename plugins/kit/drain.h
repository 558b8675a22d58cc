/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a queue whose work a driver does. */
#ifndef YOKE_PLUGINS_KIT_DRAIN_H
#define YOKE_PLUGINS_KIT_DRAIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include <yoke/plugin.h>

/* Waits until the queue's work is done; left() returns the remaining work, on the caller's thread. The wait lasts as long as the queue
 * finishes jobs, and for ever if it has not failed. False for a hung queue: it has failed (*failed is not 0) and finished nothing for
 * two seconds. The caller then abandons it, with the memory that it may still write to. */
bool kit_drain(yk_queue *q, size_t (*left)(yk_queue *q), const _Atomic int *failed);

/* Abandons memory to a hung device: LeakSanitizer, if present, reports neither it nor the memory that it points to. */
void kit_leave(const void *memory);

#endif
