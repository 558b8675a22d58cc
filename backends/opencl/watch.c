/* SPDX-License-Identifier: Apache-2.0 */
/* A line for those who wait while a driver compiles: the first time takes from seconds to minutes, and says nothing else. */
#include <signal.h>
#include <time.h>

#include "backends/opencl/ocl.h"

#define SILENT_NS 2000000000u /* compiling altogether, before a device's line is printed */

static void *watch_wait(void *arg)
{
    ocl_watch *w = arg;
    const uint64_t spent = atomic_load(&w->dev->compiling_ns), until = w->begin + (spent < SILENT_NS ? SILENT_NS - spent : 0);
    const struct timespec end = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->over && !rc)
        rc = pthread_cond_timedwait(&w->ended, &w->lock, &end);
    const bool timed_out = !w->over;
    pthread_mutex_unlock(&w->lock);
    if (timed_out && !atomic_exchange(&w->dev->compiling_reported, true))
        ocl_host->log(2, OCL_WHO, "compiling kernels for %s: this takes its time once per driver, later runs find them", w->dev->name);
    return NULL;
}

void ocl_watch_begin(ocl_watch *w, yk_device *dev)
{
    pthread_condattr_t attr;
    sigset_t all, old;
    *w = (ocl_watch){.dev = dev, .begin = ocl_now_ns()};
    if (atomic_load(&dev->compiling_reported))
        return;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->ended, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's handlers run on its own threads */
    w->waits = pthread_create(&w->thread, NULL, watch_wait, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void ocl_watch_end(ocl_watch *w)
{
    if (w->waits) {
        pthread_mutex_lock(&w->lock);
        w->over = true;
        pthread_cond_signal(&w->ended);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->thread, NULL);
        pthread_cond_destroy(&w->ended);
        pthread_mutex_destroy(&w->lock);
    }
    atomic_fetch_add(&w->dev->compiling_ns, ocl_now_ns() - w->begin);
}
