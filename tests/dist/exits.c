/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose signal handler calls exit, mostly while the allocator's lock is held: each rank still leaves its job. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <yoke/yoke.h>

enum { KEPT = 64 };

static void handler_exit(int signal)
{
    (void)signal;
    exit(0);
}

int main(void)
{
    static void *volatile kept[KEPT];
    yk_job *job = yk_open(NULL);
    if (!yk_ok(job))
        return yk_close(job);
    yk_barrier(job);
    signal(SIGALRM, handler_exit);
    ualarm(100000, 0);
    for (unsigned i = 0;; i++) { /* sizes beyond a thread's own cache take the lock */
        free(kept[i % KEPT]);
        kept[i % KEPT] = malloc(1500 + i * 37 % 60000);
    }
}
