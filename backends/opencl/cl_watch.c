/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a line while a driver compiles for long: a first run takes seconds to minutes, without any other message. cl_build.c and
 * cl_program.c begin and end it around a call of the driver; a thread of its own prints.
 */
#include <signal.h>
#include <time.h>

#include "backends/opencl/ocl.h"
#include "plugins/kit/kit_clock.h"

#define SILENT_NS 2000000000u /* total compile time of a device before its line is printed */

static void *watch_wait(void *arg)
{
    ocl_watch *watch = arg;
    const uint64_t spent = atomic_load(&watch->dev->compiling_ns), until = watch->begin + (spent < SILENT_NS ? SILENT_NS - spent : 0);
    const struct timespec end = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&watch->lock);
    while (!watch->over && !rc)
        rc = pthread_cond_timedwait(&watch->ended, &watch->lock, &end);
    const bool timed_out = !watch->over;
    pthread_mutex_unlock(&watch->lock);
    if (timed_out && !atomic_exchange(&watch->dev->compiling_reported, true))
        ocl_host->log(2, OCL_WHO, "compiling kernels for %s: this takes its time once per driver, later runs find them",
                      watch->dev->name);
    return NULL;
}

void ocl_watch_begin(ocl_watch *watch, yk_device *dev)
{
    pthread_condattr_t attr;
    sigset_t all, old;
    *watch = (ocl_watch){.dev = dev, .begin = kit_now_ns()};
    if (atomic_load(&dev->compiling_reported))
        return;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->ended, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* so that the program's handlers run on its own threads */
    watch->waits = pthread_create(&watch->thread, NULL, watch_wait, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void ocl_watch_end(ocl_watch *watch)
{
    if (watch->waits) {
        pthread_mutex_lock(&watch->lock);
        watch->over = true;
        pthread_cond_signal(&watch->ended);
        pthread_mutex_unlock(&watch->lock);
        pthread_join(watch->thread, NULL);
        pthread_cond_destroy(&watch->ended);
        pthread_mutex_destroy(&watch->lock);
    }
    atomic_fetch_add(&watch->dev->compiling_ns, kit_now_ns() - watch->begin);
}
