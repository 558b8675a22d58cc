/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits of threads on a condition until a time of the monotonic clock (clock.h), which goes on evenly if somebody sets the wall clock.
 *
 * progress.c, compiling.c, tier.c and island_join.c wait with it, each under its own lock; msg_plane.c prepares progress.c's condition. A
 * wait may return early, so the caller looks at its condition again.
 */
#include "core/base/timed.h"

void yk__timed_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void yk__timed_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_cond_timedwait(cond, lock, &until);
}
