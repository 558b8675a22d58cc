/* SPDX-License-Identifier: Apache-2.0 */
/* SIGXFSZ: ignored while Yoke writes, given back to the programs it starts. */
#include "config.h"

#include "core/base/limit.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int changed;

void yk__limit_is_error(void)
{
    struct sigaction now;
    if (sigaction(SIGXFSZ, NULL, &now) || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
        return;
    signal(SIGXFSZ, SIG_IGN);
    atomic_store(&changed, 1);
}

void yk__limit_restore(void)
{
    if (atomic_load(&changed))
        signal(SIGXFSZ, SIG_DFL);
}
