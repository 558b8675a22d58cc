/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress thread: drives requests over messages while the step thread computes. It sleeps while no request is in progress and this
 * rank offers no slices for pulls, and while the step thread waits and drives the requests itself. Else it waits in the transport for a
 * message. Requests in common memory need no driving, as a member's part is there when it begins. coll.c starts and stops the thread.
 */
#include "core/base/limit.h"
#include "core/coll/progress.h"

#include <signal.h>
#include <string.h>

#include "core/base/timed.h"
#include "core/coll/messages/msg.h"
#include "core/coll/messages/msg_feed.h"
#include "core/coll/messages/msg_plane.h"

#define SLICE_MS 5 /* ms in the transport; a request that begins meanwhile has posted its first pieces already */
#define SERVE_MS 20 /* the same while it only listens */

/* Sleeps until a request begins, or until held results are due. */
static void sleep_until_begun(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    if (!plane->held || plane->waiting) {
        pthread_cond_wait(&plane->begun, &plane->lock);
        return;
    }
    plane->watched = true;
    yk__timed_wait(&plane->begun, &plane->lock, plane->held_until);
    plane->watched = false;
    yk__msg_feed_reap(coll);
}

static void *progress_main(void *arg)
{
    yk__coll *coll = arg;
    yk__msg_plane *plane = coll->plane;
    uint64_t events = 0;
    bool moved = false;
    pthread_mutex_lock(&plane->lock);
    while (!plane->stop) {
        const uint64_t before = events;
        yk_tr_error error = {""};
        yk_status s;
        if ((!plane->active && !plane->feeds && !plane->serves) || plane->waiting) {
            sleep_until_begun(coll);
            continue;
        }
        yk__msg_step_all(coll);
        const int slice = plane->active || plane->feeds ? SLICE_MS : SERVE_MS;
        if (yk__msg_moved(plane, moved))
            yk__control_count_call(coll->control);
        pthread_mutex_unlock(&plane->lock);
        s = plane->table->progress(plane->tr, slice, &events, &error);
        moved = events != before;
        pthread_mutex_lock(&plane->lock);
        if (s) {
            yk__msg_fail_all(coll, s, &error);
            break;
        }
    }
    pthread_mutex_unlock(&plane->lock);
    return NULL;
}

/* Blocks all signals in the thread, as signals belong to the program's own threads. */
yk_status yk__msg_start_thread(yk__coll *coll, yk_error *err)
{
    yk__msg_plane *plane = coll->plane;
    sigset_t all, old;
    int failed;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&plane->thread, NULL, progress_main, coll);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed)
        return yk__fail(err, YK_E_IO, "starting the progress thread: %s", yk__limit_thread_reason(failed).text);
    plane->threaded = true;
    return YK_OK;
}

void yk__msg_stop(yk__coll *coll)
{
    yk__msg_plane *plane = coll->plane;
    if (!plane || !plane->threaded || !yk__msg_plane_is_own(plane))
        return;
    yk__msg_feed_finish(coll);
    pthread_mutex_lock(&plane->lock);
    plane->stop = true;
    pthread_cond_signal(&plane->begun);
    pthread_mutex_unlock(&plane->lock);
    pthread_join(plane->thread, NULL);
    plane->threaded = false;
}
