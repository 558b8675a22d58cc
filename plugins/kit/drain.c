/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a queue that a driver works off: waits for its jobs by looking at it. A driver's own wait for a hung device never returns.
 *
 * The CUDA and OpenCL plugins call kit_drain when the host frees a queue, in the host's thread. False means that an aborted queue finished
 * no job for LEAVE_NS. The caller then leaves the queue's memory behind, as the driver may still write to it; kit_leave tells the leak
 * checker.
 */
#include "plugins/kit/drain.h"

#include <stdint.h>
#include <time.h>

#include "plugins/kit/kit_clock.h"

#define LEAVE_NS 2000000000u /* ns without a finished job after which an aborted queue counts as hung */

bool kit_drain(yk_queue *q, size_t (*left)(yk_queue *q), const _Atomic int *failed)
{
    const struct timespec moment = {0, 1000000};
    size_t before = SIZE_MAX, now;
    uint64_t since = 0;
    while ((now = left(q)) > 0) {
        if (now < before)
            since = kit_now_ns();
        else if (atomic_load(failed) && kit_now_ns() - since > LEAVE_NS)
            return false;
        before = now;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* LeakSanitizer's (sanitizer/lsan_interface.h); NULL without it. */
extern void __lsan_ignore_object(const void *memory) __attribute__((weak, visibility("default")));

void kit_leave(const void *memory)
{
    if (__lsan_ignore_object)
        __lsan_ignore_object(memory);
}
