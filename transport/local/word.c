/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeping on a word of a shared block for long: no turn of the processor is taken in between but to see that the job goes on. */
#include "config.h"

#include "transport/local/layout.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 100000000ll /* between looks at the abort word */

static yk_status look_around(yk_tr *t, uint32_t peer, const char *what, yk_tr_error *why)
{
    const yk_status s = yk__local_end_error(t, why);
    if (s)
        return s;
    if (atomic_load(&t->head->slot[peer].state) != YK_LOCAL_LEFT)
        return yk__local_look_idle(t, &t->word_idle, peer, what, why);
    return yk__local_fail(why, YK_E_DEVICE_LOST, "%s left the group while %s waited for it in %s", t->name[peer],
                           t->name[t->rank], what);
}

yk_status yk__local_word_sleep(yk_tr *t, uint32_t peer, const uint32_t *word, uint32_t seen, uint32_t ms, const char *what,
                               yk_tr_error *why)
{
    const int64_t end = yk__local_now() + ms * 1000000ll;
    const struct timespec slice = {SLICE_NS / 1000000000, SLICE_NS % 1000000000};
    if (peer >= t->ranks)
        return yk__local_fail(why, YK_E_ARG, "waiting for rank %u: there are %u ranks", peer, t->ranks);
    if (t->word_seen != seen)
        t->word_idle = (yk__local_idle){0};
    t->word_seen = seen;
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen && yk__local_now() < end) {
        const yk_status s = look_around(t, peer, what, why);
        if (s)
            return s;
        syscall(SYS_futex, word, FUTEX_WAIT, seen, &slice, NULL, 0);
    }
    yk__local_waited(t, &t->word_idle);
    return YK_OK;
}

void yk__local_word_wake(yk_tr *t, const uint32_t *word)
{
    (void)t;
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
