/* SPDX-License-Identifier: Apache-2.0 */
/* Timed waits of threads on the clock of clock.h: they end even if the wall clock is set. */
#ifndef YOKE_CORE_BASE_TIMED_H
#define YOKE_CORE_BASE_TIMED_H

#include <pthread.h>

#include "core/base/clock.h"

void yk__timed_init(pthread_cond_t *cond); /* pthread_cond_destroy undoes it */
/* until_ns: of yk__clock_ns. May return early; the caller looks at its condition. */
void yk__timed_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns);

#endif
