/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the signal handlers of the program over calls of foreign libraries (drivers, munge, transports), which may set their own. Each
 * caller keeps before such a call and restores after it, in its own thread (signals.h).
 */
#include "config.h"

#include "core/base/process/signals.h"

#include <string.h>

void yk__signals_keep(yk__signals *kept)
{
    for (int i = 1; i < YK__SIGNALS; i++)
        kept->known[i] = !sigaction(i, NULL, &kept->action[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &kept->mask);
}

static bool action_same(const struct sigaction *a, const struct sigaction *b)
{
    const bool same_handler = a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler;
    return same_handler && a->sa_flags == b->sa_flags && !memcmp(&a->sa_mask, &b->sa_mask, sizeof a->sa_mask);
}

void yk__signals_restore(const yk__signals *kept)
{
    struct sigaction now;
    for (int i = 1; i < YK__SIGNALS; i++)
        if (kept->known[i] && !sigaction(i, NULL, &now) && !action_same(&now, &kept->action[i]))
            sigaction(i, &kept->action[i], NULL);
    pthread_sigmask(SIG_SETMASK, &kept->mask, NULL);
}
